"""MultiLabelDecalibrator: an interval per label, as a binary decalibration of each would give."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from helpers.sealed_files import write_sealed
from helpers.strategies import at_most
from oracles import labels as oracle

NAMES = ("dog", "cat", "bird", "indoors")
CLASS, SCALE, LOCAL = ("class",), ("temperature",), ("local",)
MIXED = (decal.Local(mix=0.01, by_entropy=0.1),)
ROOT = (decal.Local(mix=0.01, by_entropy=0.05, root=True),)


def drawn(n=200, L=4, seed=0, unknown=0.2):
    """Logits (n, L), and answers of labels that are drawn from softened sigmoids of them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, L)) * 3
    y = (rng.random((n, L)) < 1 / (1 + np.exp(-0.6 * z + 0.3))).astype(int)
    y[rng.random((n, L)) < unknown] = -1
    return z, y


NEW = np.random.default_rng(9).normal(size=(30, 4)) * 4
NEW[0] = [0.0, 700.0, -700.0, 1e-9]


def one_by_one(settings, z, y, w, new):
    """The bounds and points that a Decalibrator per label gives, on logits [0, z]."""
    found = []
    for k in range(z.shape[1]):
        known = y[:, k] >= 0
        model = decal.Decalibrator(**settings)
        binary = np.column_stack([np.zeros(known.sum()), z[known, k]])
        model.fit(binary, y[known, k], sample_weight=w[known])
        credal = model.predict(np.column_stack([np.zeros(len(new)), new[:, k]]))
        found.append([credal.lower[:, 1], credal.upper[:, 1], credal.point[:, 1]])
    return np.moveaxis(found, 0, -1)


# The numbers


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize(
    "directions", [CLASS, SCALE, LOCAL, (*CLASS, *SCALE), MIXED, ROOT], ids=str
)
@pytest.mark.parametrize("reference", ["model", "best", "halfway"])
@pytest.mark.parametrize("likelihood", ["mean", "sum"])
def test_it_is_a_decalibration_of_every_label(directions, reference, likelihood):
    z, y = drawn()
    w = np.random.default_rng(1).integers(1, 4, len(z)).astype(float)
    settings = {
        "alpha": 0.8,
        "directions": directions,
        "reference": reference,
        "likelihood": likelihood,
    }
    c = decal.MultiLabelDecalibrator(**settings).fit(z, y, sample_weight=w).predict(NEW)
    expected = one_by_one(settings, z, y, w, NEW)
    np.testing.assert_allclose([c.lower, c.upper, c.point], expected, atol=1e-10)


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
def test_shifts_and_scales_are_those_of_a_literal_bisection(likelihood):
    z, y = drawn(60, 3)
    w = np.random.default_rng(1).integers(1, 4, len(z)).astype(float)
    d = decal.MultiLabelDecalibrator(0.9, likelihood=likelihood, directions=(*CLASS, *SCALE))
    d.fit(z, y, sample_weight=w)
    for k in range(3):
        known = y[:, k] >= 0
        budget = -np.log(0.9) * (w[known].sum() if likelihood == "mean" else 1.0)
        expected = oracle.plausible_shifts(z[:, k], y[:, k], w, budget)
        np.testing.assert_allclose([d.shifts().lower[k], d.shifts().upper[k]], expected, atol=1e-9)
        per_answer = budget  # the oracle divides what the model knows by the weight
        expected = oracle.plausible_scales(z[:, k], y[:, k], w, per_answer)
        np.testing.assert_allclose([d.scales().lower[k], d.scales().upper[k]], expected, rtol=1e-7)


def test_local_intervals_are_those_of_a_literal_bisection():
    z, y = drawn(60, 3)
    c = decal.MultiLabelDecalibrator(0.9, directions="local").fit(z, y).predict(z[:20])
    for row in range(20):
        for k in range(3):
            expected = oracle.local_interval(z[row, k], -np.log(0.9))
            np.testing.assert_allclose([c.lower[row, k], c.upper[row, k]], expected, atol=1e-10)


@at_most(40)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 30.0, 1e4]), st.floats(0.0, 1.0))
def test_nasty_logits_give_bounds_around_the_point(seed, size, alpha):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(12, 3)) * size
    y = rng.integers(-1, 2, size=(12, 3))
    c = decal.MultiLabelDecalibrator(alpha).fit(z, y).predict(z)
    assert (c.lower <= c.point).all()
    assert (c.point <= c.upper).all()
    for k in range(3):
        if not {0, 1} <= set(y[:, k]):
            side = c.upper if 1 in y[:, k] or 0 not in y[:, k] else 1 - c.lower
            assert (side[:, k] == 1).all()  # nothing objects on this side


def test_answers_that_nobody_knows_say_nothing():
    z, y = drawn(unknown=0.0)
    gaps = y.astype(float)
    gaps[::3, 1] = np.nan
    gaps[:, 3] = np.nan
    d = decal.MultiLabelDecalibrator(0.9).fit(z, gaps)
    left_out = decal.MultiLabelDecalibrator(0.9).fit(
        np.delete(z, slice(None, None, 3), 0)[:, 1:2], np.delete(y, slice(None, None, 3), 0)[:, 1:2]
    )
    np.testing.assert_allclose(d.shifts().upper[1], left_out.shifts().upper[0], atol=1e-12)
    c = d.predict(NEW)
    assert not c.lower[:, 3].any()
    assert (c.upper[:, 3] == 1).all()
    assert d.answers[0][3] == d.answers[1][3] == 0
    assert d.answers[1][0] == (y[:, 0] == 1).sum()


@pytest.mark.parametrize("directions", [CLASS, SCALE, LOCAL], ids=str)
def test_certain_logits_stay_certain(directions):
    z, y = drawn(unknown=0.0)
    z[:5], y[:5] = [np.inf, -np.inf, 0, 0], [1, 0, 1, 0]
    d = decal.MultiLabelDecalibrator(0.9, directions=directions).fit(z, y)
    plain = decal.MultiLabelDecalibrator(0.9, directions=directions)
    plain.fit(np.where(np.isinf(z), np.sign(z) * 1e6, z), y)
    c = d.predict([[np.inf, -np.inf, np.inf, 1.0]])
    assert c.lower[0].tolist()[:3] == c.upper[0].tolist()[:3] == [1.0, 0.0, 1.0]
    a, b = (m.predict([[0.3, 0.2, -0.1, 1.0]]) for m in (d, plain))
    # Of a certain row nothing is left to know, which makes the budget of scales smaller.
    same = slice(2 if directions == SCALE else 0, None)
    np.testing.assert_allclose(a.lower[:, same], b.lower[:, same], atol=1e-9)
    np.testing.assert_allclose(a.upper[:, same], b.upper[:, same], atol=1e-9)


def test_probabilities_become_logits():
    z, y = drawn(unknown=0.0)
    p = 1 / (1 + np.exp(-z))
    by_logits = decal.MultiLabelDecalibrator(0.9).fit(z, y)
    d = decal.MultiLabelDecalibrator(0.9, probabilities=True).fit(p, y)
    np.testing.assert_allclose(d.predict(p).lower, by_logits.predict(z).lower, atol=1e-9)
    votes = np.round(p, 1)
    with pytest.raises(ValueError, match="labels must be possible: got .* has probability 0"):
        decal.MultiLabelDecalibrator(0.9, probabilities=True).fit(votes, y)
    floored = decal.MultiLabelDecalibrator(0.9, probabilities=True, floor=0.05).fit(votes, y)
    assert (floored.predict(votes).point >= 0.05 - 1e-12).all()
    with pytest.warns(decal.InputWarning, match="all lie from 0 to 1.*probabilities=True"):
        decal.MultiLabelDecalibrator(0.9).fit(p, y)


# Learning in parts, and keeping


@pytest.mark.parametrize("directions", [CLASS, (*CLASS, *SCALE), LOCAL], ids=str)
def test_chunks_and_merges_add_up(directions):
    z, y = drawn()
    y[:50, 2] = -1  # the first chunk knows nothing of a label
    whole = decal.MultiLabelDecalibrator(0.8, directions=directions).fit(z, y, classes=NAMES)
    chunks = decal.MultiLabelDecalibrator(0.8, directions=directions)
    for start in range(0, 200, 50):
        part = slice(start, start + 50)
        chunks.partial_fit(z[part].astype(np.float32), y[part], classes=NAMES)
    merged = decal.MultiLabelDecalibrator(0.8, directions=directions)
    for part in (slice(150, 200), slice(0, 150)):
        one = decal.MultiLabelDecalibrator(0.3, directions=directions).fit(z[part], y[part])
        merged.merge(one)
    for other, atol in ((chunks, 1e-5), (merged, 1e-11)):
        np.testing.assert_allclose(other.predict(NEW).upper, whole.predict(NEW).upper, atol=atol)
        assert other.examples == 200
    assert chunks.classes == NAMES


@pytest.mark.parametrize("directions", [CLASS, (*CLASS, *SCALE), LOCAL, MIXED], ids=str)
@pytest.mark.parametrize("reference", ["model", "best"])
def test_a_saved_model_is_the_same(directions, reference, tmp_path):
    z, y = drawn()
    if reference == "model":
        y[:, 1] = -1
    d = decal.MultiLabelDecalibrator(0.7, directions=directions, reference=reference)
    d.fit(z, y, classes=NAMES).save(tmp_path / "model.npz")
    again = decal.MultiLabelDecalibrator.load(str(tmp_path / "model.npz"))
    assert repr(again) == repr(d)
    assert again.classes == NAMES
    assert np.array_equal(again.predict(NEW).lower, d.predict(NEW).lower)
    assert np.array_equal(again.predict(NEW, alpha=0.2).upper, d.predict(NEW, alpha=0.2).upper)
    message = r"holds a MultiLabelDecalibrator. Load it with decal.MultiLabelDecalibrator.load\."
    with pytest.raises(ValueError, match=message):
        decal.Decalibrator.load(tmp_path / "model.npz")
    with (tmp_path / "model.npz").open("rb") as file, pytest.raises(ValueError, match=message):
        decal.Decalibrator.load(file)


def test_damaged_files_are_refused(tmp_path):
    z, y = drawn()
    d = decal.MultiLabelDecalibrator(0.7, directions=(*CLASS, *SCALE)).fit(z, y)
    file = io.BytesIO()
    d.save(file)
    file.seek(0)
    with np.load(file) as archive:
        arrays = dict(archive)
    damages = [
        {"present": -arrays["present"]},
        {"scale": arrays["scale"] * np.nan},
        {"center": arrays["center"][:2]},
        {"class.moments": arrays["class.moments"] * 1e3},
        {"class.other_weight": arrays["class.other_weight"] + 5},
        {"temperature.1.rungs": arrays["temperature.1.rungs"][:, :2]},
        {"surprise": np.zeros(3)},
    ]
    for damage in damages:
        write_sealed(tmp_path / "bad.npz", arrays | damage)
        with pytest.raises(ValueError, match="path must"):
            decal.MultiLabelDecalibrator.load(tmp_path / "bad.npz")


# What people pass


def test_frames_are_read_by_name():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    z, y = drawn()
    logits, answers = pd.DataFrame(z, columns=NAMES), pd.DataFrame(y, columns=NAMES)
    d = decal.MultiLabelDecalibrator(0.9).fit(logits, answers[list(reversed(NAMES))])
    assert d.classes == NAMES
    new = pd.DataFrame(NEW, columns=NAMES, index=pd.Index(range(100, 130), name="photo"))
    c = d.predict(new[["bird", "dog", "indoors", "cat"]])
    plain = decal.MultiLabelDecalibrator(0.9).fit(z, y).predict(NEW)
    assert np.array_equal(c.upper, plain.upper)
    assert c.index["photo"][0] == 100


def test_one_label_is_enough():
    z, y = drawn(L=1)
    d = decal.MultiLabelDecalibrator(0.9).fit(z, y)
    assert d.predict(z).shape == (200, 1)
    assert repr(d).endswith("fitted on 200 examples of 1 label")
    file = io.BytesIO()
    d.save(file)
    file.seek(0)
    assert decal.MultiLabelDecalibrator.load(file).examples == 200


def test_weights_count_rows():
    z, y = drawn(60)
    w = np.random.default_rng(1).integers(0, 3, 60)
    weighted = decal.MultiLabelDecalibrator(0.9).fit(z, y, sample_weight=w)
    repeated = decal.MultiLabelDecalibrator(0.9).fit(z.repeat(w, axis=0), y.repeat(w, axis=0))
    np.testing.assert_allclose(weighted.shifts().upper, repeated.shifts().upper, atol=1e-11)
    assert weighted.examples == (w > 0).sum()


def test_a_notebook_shows_answers_and_shifts():
    z, y = drawn()
    d = decal.MultiLabelDecalibrator(0.9)
    assert "not fitted" in d._repr_html_()
    page = d.fit(z, y, classes=["<i>", *NAMES[1:]])._repr_html_()
    assert "greatest shift" in page
    assert "&lt;i&gt;" in page


def test_scikit_learns_predictions_are_taken():
    pytest.importorskip("sklearn")
    from sklearn.datasets import make_multilabel_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputClassifier

    X, y = make_multilabel_classification(300, n_classes=3, random_state=0)
    rest = OneVsRestClassifier(LogisticRegression()).fit(X[:150], y[:150])
    by_logits = decal.MultiLabelDecalibrator(0.9).fit(rest.decision_function(X[150:]), y[150:])
    multi = MultiOutputClassifier(LogisticRegression()).fit(X[:150], y[:150])
    answers = multi.predict_proba(X[150:])
    by_probabilities = decal.MultiLabelDecalibrator(0.9, probabilities=True)
    with pytest.raises(
        ValueError, match=r"np.column_stack\(\[p\[:, 1\] for p in probabilities\]\)"
    ):
        by_probabilities.fit(answers, y[150:])
    by_probabilities.fit(np.column_stack([p[:, 1] for p in answers]), y[150:])
    upper = by_logits.shifts().upper
    np.testing.assert_allclose(by_probabilities.shifts().upper, upper, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"labels": np.zeros(200, int)},
            r"labels must be a matrix .*\(200, 4\): got shape \(200,\)",
        ),
        (
            {"labels": np.full((200, 4), 2)},
            r"labels must be 1, 0, or -1 or NaN .*got 2 at index \(0",
        ),
        (
            {"labels": 2 * (np.arange(800).reshape(200, 4) % 2) - 1},
            r"-1 means unknown: got 1 and -1, and no 0. If -1 means no, pass \(labels \+ 1\) // 2",
        ),
        ({"labels": np.full((200, 4), "yes")}, "labels must be 1, 0.*got dtype"),
        (
            {"logits": np.full((200, 4), np.nan)},
            r"logits must be numbers: got nan at index \(0, 0\)",
        ),
        ({"logits": np.zeros((0, 4))}, "logits must have a row and a column or more"),
        ({"logits": np.zeros(4)}, "logits must be a matrix"),
        ({"classes": ["a", "b"]}, "classes must be 4 names, one per column: got 2"),
        ({"sample_weight": [1.0]}, "sample_weight must be 200 numbers"),
    ],
)
def test_bad_data_are_refused(change, message):
    z, y = drawn()
    data = {"logits": z, "labels": y} | change
    with pytest.raises(ValueError, match=message):
        decal.MultiLabelDecalibrator().fit(**data)


def test_impossible_answers_and_settings_are_refused():
    z, y = drawn(unknown=0.0)
    z[3, 1], y[3, 1] = -np.inf, 1
    with pytest.raises(ValueError, match=r"labels must be possible: got 1 at index \(3, 1\)"):
        decal.MultiLabelDecalibrator().fit(z, y)
    z, y = drawn()
    y[:, 2] = 0
    with pytest.raises(ValueError, match="both answers, 0 and 1, for reference='best'.*'bird'"):
        decal.MultiLabelDecalibrator(reference="best").fit(z, y, classes=NAMES)
    with pytest.raises(ValueError, match="reference must be 'model' to merge or partial_fit"):
        decal.MultiLabelDecalibrator(reference="best").partial_fit(*drawn())
    with pytest.raises(decal.NotFittedError, match="must be fitted first"):
        decal.MultiLabelDecalibrator().predict(z)
    with pytest.raises(ValueError, match="floor must go with probabilities"):
        decal.MultiLabelDecalibrator(floor=0.1)
    d = decal.MultiLabelDecalibrator().fit(*drawn(), classes=NAMES)
    with pytest.raises(ValueError, match="logits must have 4 columns, one per label"):
        d.predict(z[:, :3])
    with pytest.raises(ValueError, match="directions must include 'temperature': got class"):
        d.scales()
    with pytest.raises(ValueError, match="other must have 4 labels: got 3"):
        d.merge(decal.MultiLabelDecalibrator().fit(*drawn(L=3)))
    with pytest.raises(ValueError, match="other must have the labels"):
        d.merge(decal.MultiLabelDecalibrator().fit(*drawn(), classes="abcd"))


@pytest.mark.parametrize("probabilities", [False, True])
def test_no_rows_give_no_sets_but_nothing_to_fit(probabilities):
    z, y = drawn()
    given = 1 / (1 + np.exp(-z)) if probabilities else z
    d = decal.MultiLabelDecalibrator(0.8, probabilities=probabilities).fit(given, y)
    assert d.predict(given[:0]).shape == (0, 4)
    assert len(d.report(given[:0], check=True)) == 0


def test_refusals_of_several_labels_point_here():
    z, y = drawn(unknown=0.0)
    with pytest.raises(ValueError, match="use decal.MultiLabelDecalibrator"):
        decal.decalibrate(z, y, alpha=0.8)


def test_unknown_answers_may_leave_no_answer_no_if_they_are_nan():
    z, y = drawn()
    known = np.where(y == 1, 1.0, np.nan)
    assert (decal.MultiLabelDecalibrator().fit(z, known).predict(z).upper == 1).all()


def test_answers_with_the_index_of_the_logits_must_be_in_its_order():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    z, y = drawn()
    rows = [f"row {i}" for i in range(len(z))]
    table, answers = pd.DataFrame(z, rows, NAMES), pd.DataFrame(y, rows, NAMES)
    with pytest.raises(ValueError, match="labels must be in the order of logits: got 'row 199'"):
        decal.MultiLabelDecalibrator().fit(table, answers[::-1])
    decal.MultiLabelDecalibrator().fit(table, answers)


def test_a_chunk_may_happen_to_hold_no_0_but_the_first_ones_are_told():
    z, y = drawn()
    y[:5], y[100:105] = np.where(y[:5] == 0, -1, y[:5]), np.where(y[100:105] == 0, -1, 1)
    whole = decal.MultiLabelDecalibrator(0.8).fit(z, y)
    chunks = decal.MultiLabelDecalibrator(0.8)
    with pytest.warns(UserWarning, match="-1 means unknown: got 1 and -1, and no 0"):
        chunks.partial_fit(z[:5], y[:5])
    for part in (slice(5, 100), slice(100, 105), slice(105, 200)):
        chunks.partial_fit(z[part], y[part])  # by now it is clear what -1 means
    np.testing.assert_allclose(chunks.predict(NEW).upper, whole.predict(NEW).upper, atol=1e-11)


# Wishes


def wrongly_decided(bounds, y):
    """(n,) True where all probabilities of one label speak for the other answer."""
    lower, upper = bounds
    return ((lower > 0.5) & (y == 0)) | ((upper < 0.5) & (y == 1))


@pytest.mark.parametrize("directions", [CLASS, SCALE, LOCAL, (*CLASS, *SCALE)], ids=str)
def test_every_label_has_the_largest_alpha_that_decides_few_enough_wrongly(directions):
    z, y = drawn(600, seed=1)
    d = decal.MultiLabelDecalibrator(directions=directions).fit(*drawn(), classes=NAMES)
    choice = decal.choose(d, z, y, miss=0.1)
    for k, (name, part) in enumerate(choice.parts.items()):
        assert name == NAMES[k]
        known = y[:, k] >= 0
        assert part.promise.rows == known.sum()

        def misses(alpha, k=k, known=known):
            found = d.predict(z[known], alpha=alpha)
            return wrongly_decided((found.lower[:, k], found.upper[:, k]), y[known, k]).sum()

        assert (misses(part.alpha) + 1) / (known.sum() + 1) <= 0.1
        assert part.achieved == misses(part.alpha) / known.sum()
        above = np.exp(0.999 * np.log(part.alpha))
        assert (misses(above) + 1) / (known.sum() + 1) > 0.1
        # The sets of the promise have that alpha in the column of the label.
        np.testing.assert_array_equal(
            choice.predict(NEW).upper[:, k], d.predict(NEW, alpha=part.alpha).upper[:, k]
        )
    assert choice.alpha == min(part.alpha for part in choice.parts.values())
    np.testing.assert_array_equal(choice.decide(NEW), choice.predict(NEW).decide())


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize("n", [12, 40])
def test_the_miss_rate_of_every_label_is_kept_for_new_inputs(n):
    d = decal.MultiLabelDecalibrator().fit(*drawn())
    rates = []
    for seed in range(150):
        z, y = drawn(n + 50, seed=100 + seed, unknown=0.3)
        sets = decal.choose(d, z[:n], y[:n], miss=0.2).predict(z[n:])
        wrong = [
            wrongly_decided((low, high), answers)[answers >= 0].mean()
            for low, high, answers in zip(sets.lower.T, sets.upper.T, y[n:].T, strict=True)
        ]
        rates.append(wrong)
    assert (np.mean(rates, axis=0) <= 0.2 + 2 * np.std(rates, axis=0) / np.sqrt(150)).all()
    assert np.mean(rates) > 0.05  # nor is everything undecided


def test_a_label_with_too_few_answers_is_never_decided_and_named():
    z, y = drawn(300, seed=1, unknown=0.0)
    y[5:, 2] = -1
    d = decal.MultiLabelDecalibrator().fit(*drawn(), classes=NAMES)
    message = "1 of 4 labels have too few answers for miss = 0.1 and are never decided: bird with 5"
    with pytest.warns(decal.FitWarning, match=message):
        choice = decal.choose(d, z, y, miss=0.1)
    certain = np.array([[0.0, np.inf, np.inf, -np.inf]])
    sets = choice.predict(np.vstack([NEW, certain]))
    assert (sets.lower[:, 2] == 0).all()
    assert (sets.upper[:, 2] == 1).all()
    assert (sets.decide()[:, [0, 1, 3]] >= 0).any(axis=0).all()
    assert "(5 are too few, never decided)" in repr(choice)
    sure = np.full_like(z, np.inf)
    contradicted = decal.choose(d, sure, np.zeros_like(y), miss=0.1)
    assert (contradicted.decide(sure) == -1).all()
    assert "no positive alpha will do, never decided" in repr(contradicted)


def test_the_promise_of_every_label_stays_with_the_model(tmp_path):
    z, y = drawn(300, seed=1)
    choice = decal.choose(
        decal.MultiLabelDecalibrator().fit(*drawn(), classes=NAMES), z, y, miss=0.1
    )
    model = choice.promised()
    model.save(tmp_path / "labels.npz")
    loaded = decal.load(tmp_path / "labels.npz")
    said = "For every label, the wrong answer is decided for at most 1 new input in 10; guaranteed"
    assert str(model.promise) == str(loaded.promise) == f"{said}, by 300 rows."
    assert said in " ".join(repr(loaded).split())
    for one in (model, loaded):
        found = one.predict(NEW)
        np.testing.assert_array_equal(found.lower, choice.predict(NEW).lower)
        assert (found.width() <= one.predict(NEW, alpha=choice.alpha).width() + 1e-15).all()
    assert model.partial_fit(z, y).promise is None
    assert loaded.report(NEW).promise == str(loaded.promise)
    assert set(decal.Report.of(loaded.predict(NEW).label("cat")).prediction) == {"yes", "no"}
