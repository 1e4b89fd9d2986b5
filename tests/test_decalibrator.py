"""Decalibrator: symmetries and orders, merging, bad input, model files."""

import copy
import io
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import decal
from decal.choose import triage
from helpers.archives import read_npz
from helpers.sealed_files import write_sealed
from helpers.strategies import alphas, at_most, endpoints, labelled_logits

LIKELIHOODS = ("mean", "sum")


def fitted(data, **settings_):
    logits, labels, weights = data
    return decal.Decalibrator(**settings_).fit(logits, labels, sample_weight=weights)


# Symmetries and orders


@at_most(80)
@given(labelled_logits(scales=(0.5, 3.0, 30.0)), alphas, st.data())
def test_a_constant_per_row_changes_nothing(data, alpha, draw):
    logits, labels, weights = data
    constant = draw.draw(st.integers(-64, 64)) / 4
    a = fitted(data, alpha=alpha).predict(logits)
    b = fitted((logits + np.float32(constant), labels, weights), alpha=alpha).predict(logits)
    np.testing.assert_allclose(a.lower, b.lower, atol=1e-9)
    np.testing.assert_allclose(a.upper, b.upper, atol=1e-9)


@at_most(80)
@given(labelled_logits(), alphas, st.sampled_from(["own", "joint"]), st.randoms())
def test_renaming_classes_renames_the_answer(data, alpha, box, random):
    logits, labels, weights = data
    order = list(range(logits.shape[1]))
    random.shuffle(order)
    place = np.argsort(order)
    a = fitted(data, alpha=alpha, box=box).predict(logits)
    b = fitted((logits[:, order], place[labels], weights), alpha=alpha, box=box).predict(
        logits[:, order]
    )
    np.testing.assert_allclose(a.lower[:, order], b.lower, atol=1e-9)
    np.testing.assert_allclose(a.upper[:, order], b.upper, atol=1e-9)


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@at_most(80)
@given(
    labelled_logits(),
    alphas,
    alphas,
    st.sampled_from(["own", "joint"]),
    st.sampled_from(["model", "best"]),
)
def test_smaller_alpha_never_narrows_and_the_point_stays_inside(data, a, b, box, reference):
    logits, labels, weights = data
    kept = labels if weights is None else labels[weights > 0]
    assume(reference == "model" or len(set(kept)) > 1)
    d = fitted(data, box=box, reference=reference)
    wide, narrow = d.predict(logits, alpha=min(a, b)), d.predict(logits, alpha=max(a, b))
    assert (wide.lower <= narrow.lower + 1e-12).all()
    assert (wide.upper >= narrow.upper - 1e-12).all()
    for credal in (wide, narrow):
        assert (credal.lower <= credal.point).all()
        assert (credal.point <= credal.upper).all()
        assert not credal.is_empty.any()


@at_most(60)
@given(labelled_logits(), alphas)
def test_joint_contains_own(data, alpha):
    own = fitted(data, alpha=alpha, box="own").predict(data[0])
    joint = fitted(data, alpha=alpha, box="joint").predict(data[0])
    assert (joint.lower <= own.lower).all()
    assert (joint.upper >= own.upper).all()


@at_most(80)
@given(labelled_logits(max_rows=20), st.floats(0.01, 0.99), st.data())
def test_merging_equals_fitting_the_union(data, alpha, draw):
    logits, labels, weights = data
    weights = np.ones(len(labels)) if weights is None else weights + 1
    cut = draw.draw(st.integers(1, max(1, len(labels) - 1)))
    assume(cut < len(labels))
    whole = decal.Decalibrator().fit(logits, labels, sample_weight=weights)
    first = decal.Decalibrator().fit(logits[:cut], labels[:cut], sample_weight=weights[:cut])
    second = decal.Decalibrator().fit(logits[cut:], labels[cut:], sample_weight=weights[cut:])
    streamed = decal.Decalibrator()
    for part in (slice(0, cut), slice(cut, None)):
        streamed.partial_fit(logits[part], labels[part], sample_weight=weights[part])
    first.merge(second)
    for d in (first, streamed):
        np.testing.assert_allclose(
            endpoints(d, alpha), endpoints(whole, alpha), rtol=1e-9, atol=1e-9
        )
        assert d.examples == whole.examples
        np.testing.assert_allclose(d.class_weights, whole.class_weights)


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@at_most(60)
@given(
    labelled_logits(weighted=True, scales=(0.5, 3.0)),  # wider, and the best shift is a plateau
    st.floats(0.01, 0.99),
    st.sampled_from(["model", "best"]),
)
def test_weights_are_repetitions(data, alpha, reference):
    logits, labels, weights = data
    times = weights.astype(int)
    assume(reference == "model" or len(set(np.repeat(labels, times))) > 1)
    weighted = fitted(data, reference=reference)
    repeated = decal.Decalibrator(reference=reference).fit(
        np.repeat(logits, times, axis=0), np.repeat(labels, times)
    )
    np.testing.assert_allclose(
        endpoints(weighted, alpha), endpoints(repeated, alpha), rtol=1e-7, atol=1e-7
    )


def test_several_alphas_at_once_are_the_same_as_one_by_one(clear_data):
    d = decal.decalibrate(*clear_data, alpha=0.8)
    together = d.shifts([0.0, 0.3, 0.8, 1.0])
    assert together.lower.shape == (4, 3)
    for i, alpha in enumerate(together.alpha):
        np.testing.assert_allclose(together.lower[i], d.shifts(alpha).lower, atol=1e-12)
        np.testing.assert_allclose(together.upper[i], d.shifts(alpha).upper, atol=1e-12)


# No rows


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"directions": ("class", "temperature"), "box": "own"},
        {"directions": "local", "reference": "halfway"},
    ],
)
def test_no_rows_give_no_sets_whose_questions_have_no_answers(clear_data, settings):
    logits, labels = clear_data
    credal = decal.decalibrate(logits, labels, alpha=0.8, **settings).predict(logits[:0])
    shape = (0, logits.shape[1])
    assert credal.lower.shape == credal.upper.shape == credal.point.shape == shape
    assert credal.decide("e_admissible").shape == shape
    assert credal.decide("gamma_maximin").shape == (0,)
    for answer in (credal.epistemic(), credal.epistemic("width"), credal.aleatoric()):
        assert answer.shape == (0,)
    assert repr(credal) == f"IntervalCredalSet: 0 inputs, {shape[1]} classes"


def test_a_chunk_without_rows_changes_nothing(clear_data):
    logits, labels = clear_data
    d = decal.Decalibrator(0.8).partial_fit(logits[:0], labels[:0])
    assert "not fitted" in repr(d)
    d.partial_fit(logits, labels).partial_fit(logits[:0], labels[:0], sample_weight=np.ones(0))
    assert repr(d) == repr(decal.decalibrate(logits, labels, alpha=0.8))
    with pytest.raises(ValueError, match="columns, one per class seen by fit"):
        d.partial_fit(np.zeros((0, 9)), labels[:0])
    with pytest.raises(ValueError, match="columns, one per class seen by fit"):
        d.predict(np.zeros((0, 9)))


def test_no_rows_are_nothing_to_fit(clear_data):
    logits, labels = clear_data
    with pytest.raises(ValueError, match="logits must have at least one row"):
        decal.Decalibrator().fit(logits[:0], labels[:0])
    for wish in ("alpha", "miss", "width", "hold"):
        with pytest.raises(ValueError, match="logits must have at least one row"):
            decal.decalibrate(logits[:0], labels[:0], **{wish: 0.8})


# Bad input

GOOD = np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("logits", "labels", "weights", "message"),
    [
        ([0.0, 1.0], [0], None, r"logits must be a matrix .* got shape \(2,\)"),
        ([[1.0], [2.0]], [0, 0], None, r"logits must have one column per class.*\(2, 1\)"),
        (
            [[0, np.nan], [1, 2]],
            [0, 1],
            None,
            r"finite or -inf: got nan at index \(0, 1\)",
        ),
        (
            [[0, 1], [np.inf, 2]],
            [0, 1],
            None,
            r"finite or -inf: got inf at index \(1, 0\)",
        ),
        ([["a", "b"]], [0], None, "logits must be real numbers"),
        ([[1.0, 2.0], [1.0]], [0, 0], None, "logits must be an array of numbers"),
        (GOOD, [0, 1, 1], None, r"labels must be a vector .* 2 in all: got shape \(3,\)"),
        (GOOD, [0, 2], None, "labels must lie in 0 to 1.*got 2 at index 1"),
        (GOOD, [-1, 1], None, "labels must lie in 0 to 1.*got -1 at index 0"),
        (GOOD, [0.0, 1.0], None, "labels must be integers 0 to 1: got dtype float64"),
        (GOOD, [0, 1], [1.0], r"sample_weight must be 2 numbers.*got shape \(1,\)"),
        (GOOD, [0, 1], [1.0, -2.0], "sample_weight must be finite.*got -2.0 at index 1"),
        (GOOD, [0, 1], [np.nan, 1.0], "sample_weight must be finite.*got nan at index 0"),
        (GOOD, [0, 1], [0.0, 0.0], "sample_weight must be positive somewhere"),
    ],
)
def test_bad_data_are_refused_and_leave_the_model_as_it_was(logits, labels, weights, message):
    d = decal.decalibrate(GOOD, [0, 1], alpha=0.9, classes=["a", "b"])
    before = endpoints(d, 0.9)
    for learn in (d.fit, d.partial_fit):
        with pytest.raises(ValueError, match=message):
            learn(logits, labels, sample_weight=weights)
    np.testing.assert_array_equal(endpoints(d, 0.9), before)
    assert (d.classes, d.examples) == (("a", "b"), 2)


def test_no_shift_at_all_is_plausible_at_every_alpha():
    over = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        logits, labels = rng.normal(size=(5, 3)), rng.integers(0, 3, 5)
        for alpha in (1 - 1e-16, 1 - 4e-16, 1 - 1e-14, 1 - 1e-12, 1.0):
            shifts = decal.decalibrate(logits, labels, alpha=alpha).shifts()
            if (shifts.lower > 0).any() or (shifts.upper < 0).any():
                over.append((seed, alpha))
    assert over == []


@pytest.mark.parametrize("alpha", [-0.1, 1.5, np.nan, "0.8", True, [[0.5]], 10**400])
def test_alpha_outside_zero_to_one_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must"):
        decal.Decalibrator(alpha)
    with pytest.raises(ValueError, match="alpha must"):
        decal.decalibrate(GOOD, [0, 1], alpha=0.5).predict(GOOD, alpha=alpha)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"likelihood": "total"}, "likelihood must be one of 'mean', 'sum': got 'total'"),
        (
            {"reference": None},
            "reference must be one of 'model', 'halfway', 'best', 'auto', 'consensus': got None",
        ),
        ({"box": "both"}, "box must be one of 'joint', 'own': got 'both'"),
        ({"directions": ("sideways",)}, "directions must be"),
    ],
)
def test_unknown_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        decal.Decalibrator(**setting)


def test_an_unfitted_model_says_so():
    d = decal.Decalibrator()
    for ask in (d.shifts, lambda: d.predict(GOOD), lambda: d.save("x"), lambda: d.examples):
        with pytest.raises(decal.NotFittedError, match="must be fitted first"):
            ask()
    assert repr(d).endswith("not fitted")


def test_logits_of_another_model_are_refused(clear_data):
    d = decal.decalibrate(*clear_data, alpha=0.8)
    with pytest.raises(ValueError, match="logits must have 3 columns, one per class seen by fit"):
        d.predict(GOOD)
    with pytest.raises(ValueError, match="logits must have 3 columns"):
        d.partial_fit(GOOD, [0, 1])
    with pytest.raises(ValueError, match="other must have 3 classes: got 2"):
        d.merge(decal.decalibrate(GOOD, [0, 1], alpha=0.8))


# Keeping


@pytest.mark.parametrize("reference", ["model", "best"])
def test_a_saved_model_answers_the_same(tmp_path, clear_data, reference):
    d = decal.decalibrate(
        *clear_data,
        alpha=0.7,
        likelihood="sum",
        reference=reference,
        box="own",
        classes=["a", "é", "犬"],
    )
    path = tmp_path / "model.any"
    d.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.any"]
    again = decal.Decalibrator.load(path)
    assert repr(again) == repr(d)
    assert (again.classes, again.distance, again.examples) == (d.classes, d.distance, d.examples)
    np.testing.assert_array_equal(endpoints(again, 0.3), endpoints(d, 0.3))
    a, b = again.predict(clear_data[0]), d.predict(clear_data[0])
    np.testing.assert_array_equal(a.lower, b.lower)


def test_models_are_kept_in_open_files_too_compressed_or_not(clear_data):
    d = decal.decalibrate(*clear_data, alpha=0.7)
    small, large = io.BytesIO(), io.BytesIO()
    d.save(small)
    d.save(large, compressed=False)
    assert len(small.getvalue()) < len(large.getvalue())
    for file in (small, large):
        file.seek(0)
        np.testing.assert_array_equal(
            endpoints(decal.Decalibrator.load(file), 0.3), endpoints(d, 0.3)
        )
    with pytest.raises(ValueError, match="got a file without a name, which is not one"):
        decal.Decalibrator.load(io.BytesIO(b"not a model"))


def test_corrupt_and_foreign_files_are_refused(tmp_path, clear_data):
    path = tmp_path / "model.npz"
    decal.decalibrate(*clear_data, alpha=0.7).save(path)
    whole = path.read_bytes()

    def refused(match):
        with pytest.raises(ValueError, match=match):
            decal.Decalibrator.load(path)

    path.write_bytes(whole[: len(whole) // 2])
    refused("path must be a file that `save` wrote")
    path.write_bytes(b"not a model")
    refused("path must be a file that `save` wrote")
    np.savez(path, logits=np.zeros((2, 2)))
    refused("which is not one, or is damaged")
    np.savez(path, header=np.array('{"format": "decal-model", "version": 99}'))
    refused("of format 99. Upgrade decal")
    np.savez(path, header=np.array('{"format": "decal-model", "version": 1}'))
    refused("intact model file")
    np.savez(path, header=np.array([{"format": object()}], dtype=object))
    refused("path must be a file that `save` wrote")
    with pytest.raises(FileNotFoundError):
        decal.Decalibrator.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    "name", ["class.keys", "class.moments", "class.label_weight", "label_weight", "center"]
)
def test_damaged_numbers_in_a_model_file_are_noticed(tmp_path, clear_data, name):
    path = tmp_path / "model.npz"
    decal.decalibrate(*clear_data, alpha=0.7).save(path)
    arrays = read_npz(path)
    damages = [arrays[name][..., :-1], np.full_like(arrays[name], -5)]
    if arrays[name].dtype == float:
        damages.append(np.full_like(arrays[name], np.nan))
    for damaged in damages:
        if name == "center" and (damaged == -5).all() and damaged.shape == (3,):
            continue  # a legitimate center
        write_sealed(path, {**arrays, name: damaged})
        with pytest.raises(ValueError, match="intact model file"):
            decal.Decalibrator.load(path)


def test_a_file_with_something_unknown_in_it_is_refused(tmp_path, clear_data):
    path = tmp_path / "model.npz"
    decal.decalibrate(*clear_data, alpha=0.7).save(path)
    np.savez(path, **read_npz(path), surprise=np.zeros(3))
    with pytest.raises(ValueError, match="nothing unknown: got .*surprise"):
        decal.Decalibrator.load(path)


def test_saving_fails_whole_and_leaves_the_old_file(tmp_path, clear_data, monkeypatch):
    path = tmp_path / "model.npz"
    d = decal.decalibrate(*clear_data, alpha=0.7)
    d.save(path)
    before = path.read_bytes()

    def full_disk(*_args, **_kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr("numpy.lib.format.write_array", full_disk)
    with pytest.raises(OSError, match="No space left"):
        d.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_model_of_the_test_set_of_cifar_size_takes_little_space(tmp_path):
    rng = np.random.default_rng(0)
    d = decal.decalibrate(rng.normal(size=(10_000, 10)) * 3, rng.integers(0, 10, 10_000), alpha=0.8)
    d.save(tmp_path / "m.npz")
    assert (tmp_path / "m.npz").stat().st_size < 200_000


# Threads


def test_partial_fits_from_many_threads_lose_nothing():
    rng = np.random.default_rng(0)
    chunks = [(rng.normal(size=(10, 3)), rng.integers(0, 3, 10)) for _ in range(120)]
    model = decal.Decalibrator()
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda chunk: model.partial_fit(*chunk), chunks))
    whole = decal.Decalibrator().fit(*map(np.concatenate, zip(*chunks, strict=True)))
    assert model.examples == whole.examples == 1200
    np.testing.assert_allclose(endpoints(model, 0.8), endpoints(whole, 0.8), atol=1e-9)


def test_a_fit_while_others_predict_leaves_no_stale_answers():
    rng = np.random.default_rng(1)
    data = [(spread * rng.normal(size=(50, 3)), rng.integers(0, 3, 50)) for spread in (1, 4)]
    expected = [decal.Decalibrator().fit(*each).predict(data[0][0]).upper for each in data]
    model = decal.Decalibrator().fit(*data[0])
    stop = threading.Event()
    mixed = []

    def ask():
        while not stop.is_set():
            upper = model.predict(data[0][0]).upper
            if not any(np.array_equal(upper, known) for known in expected):
                mixed.append(upper)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(ask)
        for turn in range(60):
            model.fit(*data[turn % 2])
        stop.set()
    assert not mixed
    np.testing.assert_array_equal(model.predict(data[0][0]).upper, expected[1])


def test_a_copy_or_a_pickle_learns_on_its_own(clear_data):
    model = decal.decalibrate(*clear_data, alpha=0.8)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(endpoints(other, 0.8), endpoints(model, 0.8))
        other.partial_fit(*clear_data)
        assert (other.examples, model.examples) == (400, 200)


def test_one_default_alpha():
    from decal._base.settings import DEFAULT_ALPHA

    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.8)
    coupled = decal.CoupledDecalibrator(likelihood="mean")
    assert d.alpha == decal.Decalibrator().alpha == coupled.alpha == DEFAULT_ALPHA


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros((2, 3, 4, 4)), np.zeros(32, int), "np.moveaxis(logits, 1, -1).reshape("),
        (np.zeros((8, 3)), np.zeros((2, 2, 2), int), "Use labels.reshape(-1)."),
        (np.zeros((8, 3)), np.zeros((8, 3), int), "Of one-hot rows take labels.argmax(axis=1)."),
        (np.zeros((8, 3)), np.zeros((8, 1), int), "Use labels.ravel()."),
    ],
    ids=["segmentation", "pixels", "multi-label", "column"],
)
def test_labels_and_logits_of_other_tasks_are_told_what_to_do(logits, labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        decal.Decalibrator().fit(logits, labels)


RNG = np.random.default_rng(7)
MEANS = 4 * np.eye(5)


@pytest.mark.parametrize(
    ("labels", "axis"),
    [
        (RNG.integers(0, 5, (6, 7)), 1),  # (N, C, T)
        (RNG.integers(0, 5, (6, 7)), 2),  # (N, T, C): tokens
        (RNG.integers(0, 5, (6, 5)), 2),  # as many tokens as classes: the labels cannot tell
        (RNG.integers(0, 5, (3, 4, 6)), 1),  # (N, C, H, W): pixels
        (RNG.integers(0, 5, (3, 4, 6)), 3),
        (RNG.integers(0, 5, (3, 4, 6)), 0),
    ],
    ids=["NCT", "NTC", "NTT", "NCHW", "NHWC", "CNHW"],
)
@pytest.mark.parametrize("kind", ["array", "tensor", "flat labels"])
def test_arrays_of_more_axes_are_read_or_told_what_to_do(labels, axis, kind):
    logits = np.moveaxis(MEANS[labels], -1, axis)
    given = labels.reshape(-1) if kind == "flat labels" else labels
    if kind == "tensor":
        logits = pytest.importorskip("torch").from_numpy(logits.copy())
    if kind != "flat labels":
        if labels.shape == (6, 5):
            with pytest.raises(ValueError, match="dim must say which axis holds the classes"):
                decal.decalibrate(logits, given, alpha=0.8)
        by = axis if labels.shape == (6, 5) else None
        rows = decal.Decalibrator(0.8).read_labelled(logits, given, dim=by)
        np.testing.assert_array_equal(rows.logits, MEANS[labels.reshape(-1)])
        np.testing.assert_array_equal(rows.labels, labels.reshape(-1))
        return
    with pytest.raises(ValueError, match="must be a matrix with a row per example") as refusal:
        decal.decalibrate(logits, given, alpha=0.8)
    message = str(refusal.value)
    advised = re.findall(r"pass (.+?\.reshape\(-1, \d+\))", message)
    assert len(advised) == (2 if labels.shape == (6, 5) else 1)
    assert ("does not tell" in message) == (len(advised) == 2)
    rows = [np.asarray(eval(one, {"np": np, "logits": logits})) for one in advised]
    np.testing.assert_array_equal(rows[-1], MEANS[labels.reshape(-1)])


def test_ensembles_are_told_to_take_their_mean_prediction():
    y = RNG.integers(0, 5, 30)
    members = MEANS[y] + RNG.normal(size=(4, 30, 5))
    for logits, axis in ((members, 0), (members.swapaxes(0, 1), 1)):
        with pytest.raises(ValueError, match=rf"If axis {axis} holds the members") as refusal:
            decal.decalibrate(logits, y, alpha=0.8)
        message = str(refusal.value)
        assert "moveaxis" not in message
        (mean,) = re.findall(r"pass their mean prediction, (.+?mean)", message)
        found = eval(mean, {"logits": logits, "decal": decal})
        np.testing.assert_array_equal(found, decal.ensemble(members).mean)


def test_new_logits_of_more_axes_are_flattened_by_the_number_of_classes():
    y = RNG.integers(0, 5, 30)
    model = decal.decalibrate(MEANS[y], y, alpha=0.8)
    logits = np.moveaxis(MEANS[y.reshape(2, 3, 5)], -1, 1)
    with pytest.raises(ValueError, match="dim must say which axis holds the classes"):
        model.predict(logits)  # (2, 5, 3, 5)
    found = model.read(logits[..., :4]).logits
    np.testing.assert_array_equal(found, MEANS[y.reshape(2, 3, 5)[..., :4].reshape(-1)])


def test_the_advice_for_pixels_and_for_several_labels_works():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(2, 3, 4, 4)), rng.integers(0, 3, (2, 4, 4))
    d = decal.decalibrate(np.moveaxis(logits, 1, -1).reshape(-1, 3), labels.reshape(-1), alpha=0.8)
    assert d.examples == 32
    several = rng.integers(0, 2, (32, 3))
    flat = np.moveaxis(logits, 1, -1).reshape(-1, 3)
    for k in range(3):
        pair = np.column_stack([np.zeros(len(flat)), flat[:, k]])
        assert decal.decalibrate(pair, several[:, k], alpha=0.8).examples == 32


def test_class_shifts_know_how_often_a_class_occurs_and_not_where():
    rng = np.random.default_rng(8)
    logits, labels = rng.normal(size=(200, 4)), rng.integers(4, size=200)
    sets = decal.decalibrate(logits, labels, alpha=0.9).predict(logits)
    shuffled = decal.decalibrate(logits, rng.permutation(labels), alpha=0.9).predict(logits)
    twice = decal.decalibrate(np.tile(logits, (2, 1)), np.tile(labels, 2), alpha=0.9)
    for others in (shuffled, twice.predict(logits)):
        np.testing.assert_allclose(others.lower, sets.lower, rtol=1e-9)
        np.testing.assert_allclose(others.upper, sets.upper, rtol=1e-9)


@pytest.mark.parametrize("K", [3, 10])
def test_a_model_says_that_every_scale_is_plausible_from_where_it_is(K):
    rng = np.random.default_rng(9)
    logits, labels = rng.normal(size=(100, K)), rng.integers(K, size=100)
    d = decal.Decalibrator(directions=("class", "temperature")).fit(logits, labels)
    for alpha, vacuous in ((np.exp(-1 / K) - 1e-4, True), (np.exp(-1 / K) + 1e-4, False)):
        d = d.with_settings(alpha=alpha)
        assert ("all sets hold the uniform distribution" in repr(d)) is vacuous
        assert (d.predict(logits).lower <= 1 / K + 1e-9).all() == vacuous


@pytest.mark.parametrize(
    ("name", "hint"),
    [("aplha", "Did you mean alpha?"), ("weights", ""), ("direction", "Did you mean directions?")],
)
def test_an_unknown_argument_is_told_by_the_function_that_was_called(clear_data, name, hint):
    with pytest.raises(TypeError) as refused:
        decal.decalibrate(*clear_data, **{name: 0.5})
    said = str(refused.value)
    assert said.startswith(f"decal.decalibrate() must be given arguments that it has: got {name}.")
    assert hint in said
    assert "Did you mean" in said or not hint
    assert (
        "logits, labels, alpha, miss, width, hold, per, groups, unit, tolerate, sample_weight, "
        "classes, dim, ignore_index, seed" in said
    )
    assert "__init__" not in said


@pytest.mark.parametrize("kind", [decal.MultiLabelDecalibrator, decal.CoupledDecalibrator])
def test_models_of_another_kind_are_refused_by_name_where_a_decalibrator_is_taken(kind, clear_data):
    logits, labels = clear_data
    several = kind is decal.MultiLabelDecalibrator
    answers = (np.arange(3) == np.asarray(labels)[:, None]) if several else labels
    other = kind(0.9, likelihood="mean").fit(logits, answers)
    d = decal.decalibrate(logits, labels, alpha=0.9)
    before = d.shifts().upper
    calls = [
        lambda: d.merge(other),
        lambda: decal.LabelShift.of(other),
        lambda: decal.choose(other, logits, labels, hold=0.9),
    ]
    if several:
        calls += [
            lambda: other.merge(d),
            lambda: triage(logits, labels, budget=0.1, model=other),
            lambda: decal.explorer.explore(other, logits),
        ]
    for call in calls:
        with pytest.raises(ValueError, match="must (be|tell) .*: got a .*Decalibrator"):
            call()
    np.testing.assert_array_equal(d.shifts().upper, before)


@pytest.mark.parametrize("front", ["llm.decalibrate", "torch.decalibrate_model", "distributed.fit"])
def test_functions_that_hand_settings_on_tell_unknown_ones_themselves(front):
    module, _, name = f"decal.{front}".rpartition(".")
    call = getattr(pytest.importorskip(module, exc_type=ImportError), name)
    with pytest.raises(
        TypeError, match=rf"decal\.{front}\(\) must .*: got boxes. Did you mean box"
    ):
        call(None, None, boxes="own")


# Sets that exclude nothing


@pytest.mark.filterwarnings("error")
def test_the_alpha_of_conformal_users_is_told_once_what_alpha_is():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(300, 5))
    y = np.argmax(z + rng.gumbel(size=z.shape), axis=1)
    message = r"mean width is 0\.9\d at alpha = 0\.05\. alpha is no rate of errors.* Take a larger"
    d = decal.decalibrate(z, y, alpha=0.05)
    assert (d.predict(z[:9]).upper > 0.9).mean() > 0.9  # few inputs are looked at one by one
    with pytest.warns(decal.AnswerWarning, match=message) as found:
        d.predict(z)
    assert (len(found), found[0].filename) == (1, __file__)
    d.predict(z)  # once
    usual = decal.decalibrate(z, y, alpha=0.8)
    usual.predict(z)
    usual.predict(z, alpha=0)  # asked for
    with pytest.warns(decal.AnswerWarning):
        usual.predict(z, alpha=0.05)
    multi = decal.MultiLabelDecalibrator(0.05).fit(z, (z > 0).astype(int))
    with pytest.warns(decal.AnswerWarning):
        multi.predict(z)
    coupled = decal.CoupledDecalibrator(0.05, likelihood="mean").fit(z[:60], y[:60])
    with pytest.warns(decal.AnswerWarning):
        coupled.predict(z[:12])


@pytest.mark.filterwarnings("error:credal sets exclude")
def test_searches_that_try_small_alphas_say_nothing_of_them():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(300, 5))
    y = np.argmax(z + rng.gumbel(size=z.shape), axis=1)
    d = decal.decalibrate(z, y, alpha=0.8)
    decal.choose(d, z, width=0.98)
    triage(z, y, budget=0.2)
    assert not d._told
