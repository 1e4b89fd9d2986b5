"""Labels that are not of their logits' rows, and inputs unlike the labelled ones, are noticed."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import ks_2samp

import decal
from decal._base.confidences import ROWS_COMPARED, Confidences
from decal.choose import triage
from helpers.sealed_files import write_sealed

pytestmark = pytest.mark.filterwarnings("error")


def drawn(n, K, seed=0, scale=3.0, prior=None):
    """Logits of which labels are drawn: a calibrated model, of K classes as frequent as prior."""
    rng = np.random.default_rng(seed)
    z = scale * rng.standard_normal((n, K)) + (0.0 if prior is None else np.log(prior))
    return z, np.argmax(z + rng.gumbel(size=z.shape), axis=1), rng


def warns(fit, *arguments, **settings):
    """Whether there is an InputWarning; more than one, or another warning, is an error."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit(*arguments, **settings)
    assert [w.category for w in found] in ([], [decal.InputWarning])
    assert all(str(w.message).startswith("labels agree") for w in found)
    assert all(w.filename == __file__ for w in found)
    return bool(found)


def top_logits(z):
    classes = np.argsort(-z, axis=1)[:, :3]
    values = np.take_along_axis(z, classes, axis=1)
    rest = np.log(np.exp(z).sum(axis=1) - np.exp(values).sum(axis=1))
    return decal.TopLogits(values, classes, rest, total_classes=z.shape[1])


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


FITS = {
    "Decalibrator": lambda z, y: decal.Decalibrator().fit(z, y),
    "probabilities": lambda z, y: decal.decalibrate(softmax(z), y, probabilities=True, alpha=0.8),
    "TopLogits": lambda z, y: decal.decalibrate(top_logits(z), y, alpha=0.8),
    "partial_fit": lambda z, y: decal.Decalibrator().partial_fit(z, y),
    "stream": lambda z, y: stream(z, y, 20),
    "merge": lambda z, y: stream(z, y, 20, merged=True),
    "LabelShift": lambda z, y: decal.LabelShift(calibrate=False).fit(z, y),
    "coupled": lambda z, y: decal.CoupledDecalibrator(likelihood="mean").fit(z, y),
    "triage": lambda z, y: triage(z, y, budget=0.2),
}


def stream(z, y, rows, *, merged=False):
    model = decal.Decalibrator()
    for start in range(0, len(y), rows):
        part = z[start : start + rows], y[start : start + rows]
        if merged:
            model.merge(decal.Decalibrator().partial_fit(*part))
        else:
            model.partial_fit(*part)
    return model


@pytest.mark.parametrize("how", FITS)
@pytest.mark.parametrize("K", [4, 10, 50])
def test_labels_of_another_pass_get_one_warning(how, K):
    z, y, rng = drawn(500, K)
    assert not warns(FITS[how], z, y)
    assert warns(FITS[how], z, rng.permutation(y))


def test_the_warning_says_both_causes():
    z, y, rng = drawn(500, 10)
    message = r"in [\d.]+% of 500 rows, though .* \d+% sure .*columns of logits.*rows\?.*same pass"
    with pytest.warns(decal.InputWarning, match=message):
        decal.decalibrate(z, rng.permutation(y), alpha=0.8)


def test_two_columns_swapped_get_the_warning_though_agreement_is_not_below_chance():
    z, y, _ = drawn(2000, 3, scale=6.0)
    assert warns(decal.Decalibrator().fit, z[:, [1, 0, 2]], np.where(y == 2, 1, y))


def test_a_useless_model_that_is_not_sure_gets_no_warning():
    z, y, rng = drawn(2000, 5, scale=0.1)
    assert not warns(decal.Decalibrator().fit, z, rng.permutation(y))


def test_a_model_that_always_predicts_the_majority_gets_no_warning():
    rng = np.random.default_rng(0)
    for share, n in ((0.9, 2000), (0.5, 2000), (0.55, 200)):
        y = (rng.random(n) > share).astype(int)
        sure = np.column_stack([np.full(n, 4.0), rng.normal(size=n)])
        assert not warns(decal.Decalibrator().fit, sure, y)
        sure[:3, 1] = 9.0  # three rows say otherwise
        assert not warns(decal.Decalibrator().fit, sure, y)


@pytest.mark.parametrize("seed", range(20))
def test_models_that_are_sure_but_know_something_get_no_warning(seed):
    z, y, rng = drawn(1000, 10, seed, scale=1.5)
    assert not warns(decal.Decalibrator().fit, 8 * z, y)  # over-confident
    noisy = np.where(rng.random(len(y)) < 0.7, rng.integers(0, 10, len(y)), y)
    assert not warns(decal.Decalibrator().fit, 3 * z, noisy)  # most labels are wrong
    assert not warns(decal.Decalibrator().fit, z[:29], rng.permutation(y[:29]))  # too few to tell
    rare = np.array([0.9, 0.05, 0.03, 0.02])
    z, y, _ = drawn(1000, 4, seed, prior=rare)
    assert not warns(decal.Decalibrator().fit, z, y)


def test_weights_count_rows_by_what_they_are_worth():
    z, y, rng = drawn(500, 10)
    w = np.r_[np.ones(20), np.full(480, 1e-6)]
    assert not warns(decal.Decalibrator().fit, z, rng.permutation(y), sample_weight=w)
    assert warns(decal.Decalibrator().fit, z, rng.permutation(y), sample_weight=np.full(500, 1e-6))
    found = Confidences.of(z, y, w)
    assert found.rows == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert found.weight == pytest.approx(w.sum())


def test_several_labels_of_shuffled_rows_get_the_warning():
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(400, 5)) - 1.0
    y = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    y[rng.random(y.shape) < 0.1] = -1
    assert not warns(decal.MultiLabelDecalibrator().fit, z, y)
    assert warns(decal.MultiLabelDecalibrator().fit, z, rng.permutation(y))
    assert not warns(decal.MultiLabelDecalibrator().fit, z + 20, y)  # always yes: nothing claimed


def test_partitions_tell_together_what_none_tells_alone():
    pytest.importorskip("dask")
    import dask.array as da

    z, y, rng = drawn(400, 10)
    shuffled = rng.permutation(y)

    def fit(labels):
        return decal.distributed.fit(da.from_array(z, chunks=(20, 10)), labels)

    assert not warns(fit, y)
    assert warns(fit, shuffled)


# What is kept


@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_add_up_to_the_whole(weighted):
    z, y, rng = drawn(900, 40)
    w = rng.integers(1, 4, 900).astype(float) if weighted else None
    whole = Confidences.of(z, y, w)
    cuts = [slice(0, 100), slice(100, 101), slice(101, 900)]
    first, *others = [Confidences.of(z[c], y[c], None if w is None else w[c]) for c in cuts]
    found = sum(others, start=first)
    for name, array in whole.arrays().items():
        np.testing.assert_allclose(found.arrays()[name], array, err_msg=name)
    ones = np.ones(900) if w is None else w
    right = z.argmax(axis=1) == y
    assert whole.accuracy == pytest.approx(np.average(right, weights=ones))
    assert whole.mean == pytest.approx(np.average(softmax(z).max(axis=1), weights=ones))


def test_many_rows_are_sampled_and_stand_for_all():
    z, y, _ = drawn(30_000, 3)
    found = Confidences.of(z, y)
    assert found.weight == pytest.approx(30_000)
    assert found.rows == pytest.approx(ROWS_COMPARED)
    assert found.mean == pytest.approx(softmax(z).max(axis=1).mean(), abs=0.01)


def test_top_logits_say_what_all_logits_say():
    z, y, _ = drawn(300, 6)
    full, top = Confidences.of(z, y), Confidences.of(top_logits(z), y)
    np.testing.assert_allclose(top.tables, full.tables)
    np.testing.assert_allclose(top.sums, full.sums)


# New inputs


def test_the_distance_is_that_of_binned_samples_and_p_values_are_of_the_right_size():
    (a, *_), (b, *_) = drawn(400, 4, 1), drawn(900, 4, 2, scale=2.5)
    p, q = softmax(a).max(axis=1), softmax(b).max(axis=1)
    first, second = Confidences.of(a), Confidences.of(b)
    whole = ks_2samp(p, q, method="asymp")
    assert 0.9 * whole.statistic < first.distance(second) <= whole.statistic + 1e-12
    expected = ks_2samp(*(np.floor(8 * np.log(x / (1 - x))) for x in (p, q)), method="asymp")
    assert first.distance(second) == pytest.approx(expected.statistic)
    assert first.p_value(second) == pytest.approx(expected.pvalue, rel=0.3)


def test_a_model_that_is_less_sure_of_new_inputs_says_so_once():
    z, y, _ = drawn(500, 5)
    model = decal.decalibrate(z, y, alpha=0.8)
    model.predict(z)  # the labelled rows themselves settle nothing
    model.predict(0.1 * z[:99])  # nor do a few
    with pytest.warns(decal.AnswerWarning, match="mean confidence of .* fit on held-out") as w:
        model.predict(0.3 * drawn(200, 5, 1)[0])
    assert (len(w), w[0].filename) == (1, __file__)
    model.predict(0.3 * drawn(200, 5, 1)[0])
    alike = decal.decalibrate(z, y, alpha=0.8)
    alike.predict(drawn(200, 5, 2)[0])


def test_a_saved_model_remembers_how_sure_it_was(tmp_path):
    z, y, _ = drawn(500, 5)
    other = 0.3 * drawn(200, 5, 1)[0]
    decal.decalibrate(z, y, alpha=0.8).save(tmp_path / "model.npz")
    for model in (
        decal.Decalibrator.load(tmp_path / "model.npz"),
        pickle.loads(pickle.dumps(decal.decalibrate(z, y, alpha=0.8))),
        decal.Decalibrator().partial_fit(z[:99], y[:99]).partial_fit(z[99:], y[99:]),
    ):
        with pytest.warns(decal.AnswerWarning):
            model.predict(other)
    # An older file does not hold it, and adding to such a model leaves it unknown.
    with np.load(tmp_path / "model.npz", allow_pickle=False) as saved:
        arrays = {name: saved[name] for name in saved.files if not name.startswith("confidences")}
    assert len(arrays) < len(saved.files)
    write_sealed(tmp_path / "older.npz", arrays)
    older = decal.Decalibrator.load(tmp_path / "older.npz")
    older.predict(other)
    older.partial_fit(z, y).predict(other)
    older.save(tmp_path / "older.npz")
    decal.Decalibrator.load(tmp_path / "older.npz").predict(other)


def noisy_images(n, seed=0):
    """Logits (n, 4, 8, 8) of images each of which the model is sure, or unsure, as a whole."""
    rng = np.random.default_rng(seed)
    scale = rng.gamma(2.0, size=(n, 1, 1, 1))
    z = scale * rng.standard_normal((n, 4, 8, 8))
    return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def test_images_are_compared_as_images_and_not_as_independent_pixels():
    by_pixels = []
    for seed in range(20):
        z, y = noisy_images(100, seed)
        new, _ = noisy_images(100, seed + 100)
        d = decal.decalibrate(z, y, alpha=0.9, dim=1)
        d.predict(new, dim=1)  # warnings are errors
        old, rows = (Confidences.of(np.moveaxis(part, 1, -1).reshape(-1, 4)) for part in (z, new))
        by_pixels.append(old.p_value(rows))
    assert np.mean(np.array(by_pixels) < 1e-3) > 0.5
    assert d.confidences().rows == pytest.approx(6400)
    assert d.confidences().units == pytest.approx(100)
    other = decal.decalibrate(z, y, alpha=0.9, dim=1)
    one = np.concatenate([*new[:40]], axis=1)
    other.predict(9 * one, dim=0)  # one image proves nothing
    with pytest.warns(decal.AnswerWarning, match="logits must look like those"):
        other.predict(9 * new, dim=1)


def test_units_add_up_and_are_kept(tmp_path):
    z, y = noisy_images(60)
    whole = decal.decalibrate(z, y, alpha=0.9, dim=1)
    parts = decal.Decalibrator(0.9)
    for some in (slice(20), slice(20, 60)):
        parts.partial_fit(z[some], y[some], dim=1)
    whole.save(tmp_path / "model.npz")
    for d in (parts, decal.load(tmp_path / "model.npz")):
        np.testing.assert_allclose(d.confidences().sums, whole.confidences().sums)
    older = Confidences.restore(
        whole.confidences().arrays() | {"sums": whole.confidences().sums[:3]}, 4
    )
    assert older.units == older.rows


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("confidences.histogram", lambda a: -a),
        ("confidences.histogram", lambda a: 0 * a),
        ("confidences.tables", lambda a: a[:, :2]),
        ("confidences.sums", lambda a: a * np.nan),
    ],
)
def test_damaged_confidences_are_refused(tmp_path, name, spoil):
    z, y, _ = drawn(50, 5)
    decal.decalibrate(z, y, alpha=0.8).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as saved:
        arrays = {key: saved[key] for key in saved.files}
    write_sealed(tmp_path / "bad.npz", arrays | {name: spoil(arrays[name])})
    with pytest.raises(ValueError, match="path must be an intact model file"):
        decal.Decalibrator.load(tmp_path / "bad.npz")


def test_a_forest_fitted_on_its_own_training_rows_is_told():
    datasets = pytest.importorskip("sklearn.datasets")
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, target = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, target = X[order], target[order]
    forest = ensemble.RandomForestClassifier(random_state=0).fit(X[:900], target[:900])
    p, settings = forest.predict_proba(X), {"probabilities": True, "floor": 1e-3}
    own = decal.decalibrate(p[:900], target[:900], alpha=0.8, **settings)
    with pytest.warns(decal.AnswerWarning, match="If the model was trained on these"):
        own.predict(p[900:])
    held = decal.decalibrate(p[900:1300], target[900:1300], alpha=0.8, **settings)
    held.predict(p[1300:])


# Real data

PAIRS = (
    ("logits", "labels"),
    ("train_logits", "train_labels"),
    ("test_logits", "test_labels"),
    ("cifar10_train", "train_labels"),
    ("cifar10_test", "test_labels"),
)


def labelled_sets(folder):
    """The name, logits and labels of all labelled logits there."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            for logits, labels in PAIRS:
                if logits in file and labels in file:
                    yield f"{path.stem} {logits}", file[logits], file[labels].astype(int)


@pytest.mark.data
def test_real_labels_in_their_order_get_no_warning_and_shuffled_ones_nearly_all(data_folder):
    rng = np.random.default_rng(0)
    noticed = {}
    for name, z, y in labelled_sets(data_folder):
        assert not warns(decal.Decalibrator().fit, z, y), name
        noticed[name] = np.mean(
            [warns(decal.Decalibrator().fit, z, rng.permutation(y)) for _ in "1234"]
        )
    assert len(noticed) > 50
    missed = {name.split()[0] for name, share in noticed.items() if share < 0.5}
    # These are hardly surer than a guess by class frequencies, so there is little to be missed.
    assert missed <= {"clip_cifar10_sw", "clip_dermamnist_en", "tabpfn_MIC_46980_seed1"}


@pytest.mark.data
def test_held_out_rows_of_real_data_are_like_each_other(data_folder):
    count = 0
    for name, z, y in labelled_sets(data_folder):
        for seed in range(2):
            order = np.random.default_rng(seed).permutation(len(y))
            a, b = order[: len(y) // 2], order[len(y) // 2 :]
            model = decal.Decalibrator(0.9)
            model.fit(z[a], y[a])
            model.predict(z[b])
            count += 1
            assert model._told <= {"unlike"}, name
    assert count >= 52
