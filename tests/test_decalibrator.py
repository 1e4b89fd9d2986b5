"""Class shifts: against their definition, their symmetries, nasty data and bad input."""

import io

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import decal
from helpers.archives import read_npz
from helpers.strategies import alphas, at_most, labelled_logits
from oracles import class_shifts as oracles

LIKELIHOODS = ("mean", "sum")


def fitted(data, **settings_):
    logits, labels, weights = data
    return decal.Decalibrator(**settings_).fit(logits, labels, sample_weight=weights)


def noise(logits, weights, n):
    """Round-off to expect in a log-likelihood of these data."""
    return (
        1e-11
        * (1 + np.abs(np.asarray(logits, dtype=float)).max())
        * (n if weights is None else weights.sum())
    )


# Against the definition


@at_most(150)
@given(labelled_logits(), alphas, st.sampled_from(LIKELIHOODS))
def test_ends_are_reached_and_nothing_lies_beyond_them(data, alpha, likelihood):
    logits, labels, weights = data
    shifts = fitted(data, alpha=alpha, likelihood=likelihood).shifts()
    total = len(labels) if weights is None else weights.sum()
    b = oracles.budget(alpha, likelihood, total)
    own = np.bincount(labels, weights, minlength=logits.shape[1])
    slack = noise(logits, weights, len(labels)) + shifts.error * total
    for k in range(logits.shape[1]):
        assert np.isneginf(shifts.lower[k]) == (alpha == 0 or own[k] == 0)
        assert np.isposinf(shifts.upper[k]) == (alpha == 0 or own[k] == total)
        for t in (shifts.lower[k], shifts.upper[k]):
            if np.isfinite(t):
                reached = oracles.gain(logits, labels, k, t, weights)
                assert reached >= b - slack
                if t != 0 or alpha < 1:
                    assert reached == pytest.approx(b, abs=slack)


@at_most(100)
@given(labelled_logits(), st.floats(0.01, 0.99), st.sampled_from(LIKELIHOODS))
def test_ends_equal_an_independent_solver(data, alpha, likelihood):
    logits, labels, weights = data
    total = len(labels) if weights is None else weights.sum()
    b = oracles.budget(alpha, likelihood, total)
    shifts = fitted(data, alpha=alpha, likelihood=likelihood).shifts()
    for k in range(logits.shape[1]):
        low, high = oracles.plausible_interval(logits, labels, k, b, weights)
        assert shifts.lower[k] == pytest.approx(low, rel=1e-8, abs=1e-8)
        assert shifts.upper[k] == pytest.approx(high, rel=1e-8, abs=1e-8)


@at_most(150)
@given(labelled_logits(), alphas, st.sampled_from(["own", "joint"]), st.sampled_from(LIKELIHOODS))
def test_boxes_equal_the_range_over_all_shifted_models(data, alpha, box, likelihood):
    logits = data[0]
    d = fitted(data, alpha=alpha, box=box, likelihood=likelihood)
    shifts = d.shifts()
    low, high = oracles.box(logits, shifts.lower, shifts.upper, box)
    credal = d.predict(logits)
    np.testing.assert_allclose(credal.lower, low, atol=1e-10)
    np.testing.assert_allclose(credal.upper, high, atol=1e-10)


def test_a_large_random_data_set_is_solved_to_1e_8():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3000, 6)) * 4
    labels = np.array([rng.choice(6, p=p) for p in oracles.softmax(0.6 * logits, axis=1)])
    d = decal.decalibrate(logits, labels, alpha=0.8)
    for alpha in (0.2, 0.8, 0.95):
        shifts = d.shifts(alpha)
        assert shifts.residual < 1e-14
        assert shifts.error < 1e-11
        for k in range(6):
            expected = oracles.plausible_interval(logits, labels, k, 3000 * np.log(alpha))
            assert (shifts.lower[k], shifts.upper[k]) == pytest.approx(expected, abs=1e-9)


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


@pytest.mark.filterwarnings("ignore::decal.ReferenceWarning")
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


def ends(d, alpha):
    shifts = d.shifts(alpha)
    return np.stack([shifts.lower, shifts.upper])


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
        np.testing.assert_allclose(ends(d, alpha), ends(whole, alpha), rtol=1e-9, atol=1e-9)
        assert d.examples == whole.examples
        np.testing.assert_allclose(d.class_weights, whole.class_weights)


@pytest.mark.filterwarnings("ignore::decal.ReferenceWarning")
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
    np.testing.assert_allclose(ends(weighted, alpha), ends(repeated, alpha), rtol=1e-7, atol=1e-7)


def test_several_alphas_at_once_are_the_same_as_one_by_one(clear_data):
    d = decal.decalibrate(*clear_data, alpha=0.8)
    together = d.shifts([0.0, 0.3, 0.8, 1.0])
    assert together.lower.shape == (4, 3)
    for i, alpha in enumerate(together.alpha):
        np.testing.assert_allclose(together.lower[i], d.shifts(alpha).lower, atol=1e-12)
        np.testing.assert_allclose(together.upper[i], d.shifts(alpha).upper, atol=1e-12)


# The reference


@pytest.mark.filterwarnings("ignore::decal.ReferenceWarning")
@at_most(40)
@given(st.integers(0, 10**6), st.floats(0.05, 0.99), st.sampled_from(["own", "joint"]))
def test_best_reference_is_the_model_recentred_at_its_maximum_likelihood_shift(seed, alpha, box):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 5))
    logits = rng.normal(size=(40, K)) * 2
    labels = np.concatenate([np.arange(K), rng.integers(0, K, 40 - K)])
    center = oracles.best_shift(logits, labels)
    best = decal.decalibrate(logits, labels, alpha=alpha, reference="best", box=box)
    np.testing.assert_allclose(best.shifts().center, center, atol=1e-6)
    recentred = decal.decalibrate(logits + center, labels, alpha=alpha, box=box)
    np.testing.assert_allclose(ends(best, alpha), ends(recentred, alpha), atol=1e-5)
    a, b = best.predict(logits), recentred.predict(logits + center)
    np.testing.assert_allclose(a.lower, b.lower, atol=1e-6)
    np.testing.assert_allclose(a.upper, b.upper, atol=1e-6)
    at_model = oracles.log_likelihood(logits, labels)
    at_best = oracles.log_likelihood(logits + center, labels)
    assert best.distance == pytest.approx((at_best - at_model) / 40, abs=1e-9)


def test_best_reference_at_alpha_one_is_a_point(clear_data):
    d = decal.decalibrate(*clear_data, alpha=1.0, reference="best")
    credal = d.predict(clear_data[0])
    np.testing.assert_allclose(credal.lower, credal.point, atol=1e-15)
    np.testing.assert_allclose(credal.upper, credal.point, atol=1e-15)


def test_best_reference_leaves_out_a_class_that_never_occurs_but_lets_it_come_back():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(60, 3))
    labels = rng.integers(0, 2, 60)  # class 2 never occurs
    d = decal.decalibrate(logits, labels, alpha=0.9, reference="best")
    shifts = d.shifts()
    assert np.isneginf(shifts.center[2])
    assert np.isneginf(shifts.lower[2])
    credal = d.predict(logits)
    assert (credal.point[:, 2] == 0).all()
    assert (credal.lower[:, 2] == 0).all()
    # The end, by definition: the model with the two best shifts, class 2 raised from -inf to s.
    moved = logits + np.array([*shifts.center[:2], shifts.upper[2]])
    without = logits[:, :2] + shifts.center[:2]
    lost = oracles.log_likelihood(moved, labels) - oracles.log_likelihood(without, labels)
    assert lost == pytest.approx(60 * np.log(0.9), abs=1e-9)
    np.testing.assert_allclose(credal.upper[:, 2], oracles.softmax(moved, axis=1)[:, 2], atol=1e-12)
    assert (credal.lower[:, :2] <= oracles.softmax(moved, axis=1)[:, :2] + 1e-12).all()
    one = d.predict(logits, alpha=1.0)
    np.testing.assert_allclose(one.upper, one.point, atol=1e-15)


def test_best_reference_needs_all_data_at_once(clear_data):
    d = decal.Decalibrator(reference="best")
    with pytest.raises(ValueError, match="reference must be 'model' to merge or partial_fit"):
        d.partial_fit(*clear_data)
    with pytest.raises(ValueError, match="at least two classes for reference='best': got only"):
        d.fit([[0.0, 1.0]], [1])


# Nasty data


@pytest.fixture
def clear_data():
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200, 3)) * 2
    labels = np.array([rng.choice(3, p=p) for p in oracles.softmax(logits, axis=1)])
    return logits, labels


def test_logits_of_ten_thousand_are_answered_in_the_limit():
    logits = np.array([[1e4, 0, -1e4], [-1e4, 1e4, 0], [0, -1e4, 1e4], [1e4, -1e4, 0]])
    d = decal.decalibrate(logits, [0, 1, 2, 1], alpha=0.5)
    credal = d.predict(logits)
    shifts = d.shifts()
    low, high = oracles.box(logits, shifts.lower, shifts.upper, "joint")
    np.testing.assert_allclose(credal.lower, low, atol=1e-12)
    np.testing.assert_allclose(credal.upper, high, atol=1e-12)
    vacuous = d.predict(logits, alpha=0.0)
    np.testing.assert_array_equal(vacuous.lower, 0.0)
    np.testing.assert_array_equal(vacuous.upper, 1.0)


def test_all_equal_logits_give_every_class_the_same_interval():
    d = decal.decalibrate(np.zeros((30, 3)), np.arange(30) % 3, alpha=0.9)
    credal = d.predict(np.zeros((1, 3)))
    assert np.ptp(credal.lower) < 1e-12
    assert np.ptp(credal.upper) < 1e-12
    assert credal.lower[0, 0] < 1 / 3 < credal.upper[0, 0]


def test_perfectly_separated_data_widen_as_alpha_falls_but_stay_finite():
    logits = np.repeat(50.0 * np.eye(3), 10, axis=0)
    d = decal.decalibrate(logits, np.repeat(np.arange(3), 10), alpha=0.9)
    for alpha in (1e-6, 0.5, 0.9, 1.0):
        shifts = d.shifts(alpha)
        assert np.isfinite(shifts.lower).all()
        assert np.isfinite(shifts.upper).all()
    assert (d.shifts(0.5).upper > 50).all()  # it takes that much before one label is doubted


def test_absent_and_sole_classes_have_infinite_ends():
    logits = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5]])
    shifts = decal.decalibrate(logits, [1, 1], alpha=0.9).shifts()
    np.testing.assert_array_equal(np.isneginf(shifts.lower), [True, False, True])
    np.testing.assert_array_equal(np.isposinf(shifts.upper), [False, True, False])
    credal = decal.decalibrate(logits, [1, 1], alpha=0.9).predict(logits)
    np.testing.assert_array_equal(credal.upper[:, 1], 1.0)
    np.testing.assert_array_equal(credal.lower[:, [0, 2]], 0.0)


@pytest.mark.parametrize("gap", [30.0, 1250.0, 1e4])
@pytest.mark.parametrize("loss", [1e-14, 1e-12, 1e-8, 1e-6])
def test_tiny_budgets_on_confident_logits_are_met_up_to_round_off(gap, loss):
    logits = np.array([[0.0, -gap], [-gap, 0.0]])
    shifts = decal.decalibrate(logits, [0, 1], alpha=np.exp(-loss)).shifts()
    for k in range(2):
        assert -gap <= shifts.lower[k] <= 0 <= shifts.upper[k] <= gap
        for t in (shifts.lower[k], shifts.upper[k]):
            assert oracles.gain(logits, np.array([0, 1]), k, t) >= -2 * loss - 1e-15 * (9 + 9 * gap)


def test_one_row_and_two_classes():
    d = decal.decalibrate([[0.3, -0.2]], [0], alpha=0.8)
    credal = d.predict([[0.3, -0.2]])
    np.testing.assert_array_equal(credal.upper, [[1.0, 0.8 * 0 + credal.upper[0, 1]]])
    p = oracles.softmax([0.3, -0.2])
    assert credal.lower[0, 0] == pytest.approx(0.8 * p[0])  # likelihood of the one label


def test_alpha_one_keeps_the_model_and_what_is_better_than_it(clear_data):
    logits, labels = clear_data
    shifts = decal.decalibrate(logits, labels, alpha=1.0).shifts()
    assert ((shifts.lower == 0) | (shifts.upper == 0)).all()
    assert ((shifts.lower < 0) | (shifts.upper > 0)).any()


def test_rows_of_weight_zero_leave_no_trace(clear_data):
    logits, labels = clear_data
    weights = np.ones(len(labels))
    weights[::3] = 0
    odd = logits.copy()
    odd[::3] = 1e6
    a = decal.decalibrate(odd, labels, alpha=0.7, sample_weight=weights)
    b = decal.decalibrate(logits[weights > 0], labels[weights > 0], alpha=0.7)
    np.testing.assert_array_equal(ends(a, 0.7), ends(b, 0.7))
    assert a.examples == b.examples


def test_float32_and_float64_of_the_same_numbers_agree_exactly(clear_data):
    logits, labels = clear_data
    single = logits.astype(np.float32)
    a = decal.decalibrate(single, labels, alpha=0.6)
    b = decal.decalibrate(single.astype(np.float64), labels, alpha=0.6)
    np.testing.assert_array_equal(ends(a, 0.6), ends(b, 0.6))
    assert a.predict(single).lower.dtype == np.float64


@pytest.mark.slow
def test_a_million_rows_in_chunks_equal_their_distinct_rows_weighted():
    rng = np.random.default_rng(5)
    distinct = rng.normal(size=(1000, 5)) * 3
    labels = rng.integers(0, 5, 1000)
    streamed = decal.Decalibrator()
    for _ in range(10):
        rows = np.tile(np.arange(1000), 100)
        streamed.partial_fit(distinct[rows], labels[rows])
    weighted = decal.decalibrate(distinct, labels, alpha=0.8, sample_weight=np.full(1000, 1000.0))
    assert streamed.examples == 1_000_000
    np.testing.assert_allclose(ends(streamed, 0.8), ends(weighted, 0.8), atol=1e-10)


def bin_width(model):
    (margins,) = model._known.evidence
    return margins.bin_width


def test_many_classes_over_a_wide_range_stay_exact_though_bins_are_merged(monkeypatch):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(300, 4)) * 50
    labels = rng.integers(0, 4, 300)
    exact = decal.decalibrate(logits, labels, alpha=0.9)
    monkeypatch.setattr("decal.directions._margins.MAX_BINS", 64)
    monkeypatch.setattr("decal.directions._margins.summarise_margins.__defaults__", (64,))
    coarse = decal.decalibrate(logits, labels, alpha=0.9)
    assert bin_width(coarse) > bin_width(exact)
    np.testing.assert_allclose(ends(coarse, 0.9), ends(exact, 0.9), atol=1e-9)
    assert coarse.shifts().error == 0.0
    unpolished = decal.Decalibrator().partial_fit(logits, labels)  # chunks are not kept
    shifts = unpolished.shifts(0.9)
    for k in range(4):
        for t in (shifts.lower[k], shifts.upper[k]):
            missed = oracles.gain(logits, labels, k, t) / 300 - np.log(0.9)
            assert abs(missed) <= shifts.error + 1e-12
    assert shifts.error > 1e-9


# Bad input

GOOD = np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("logits", "labels", "weights", "message"),
    [
        ([0.0, 1.0], [0], None, r"logits must be a matrix .* got shape \(2,\)"),
        (np.zeros((0, 3)), [], None, r"logits must have at least one row: got shape \(0, 3\)"),
        ([[1.0], [2.0]], [0, 0], None, r"logits must have one column per class.*\(2, 1\)"),
        ([[0, np.nan], [1, 2]], [0, 1], None, r"logits must be finite: got nan at index \(0, 1\)"),
        ([[0, 1], [np.inf, 2]], [0, 1], None, r"logits must be finite: got inf at index \(1, 0\)"),
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
    before = ends(d, 0.9)
    for learn in (d.fit, d.partial_fit):
        with pytest.raises(ValueError, match=message):
            learn(logits, labels, sample_weight=weights)
    np.testing.assert_array_equal(ends(d, 0.9), before)
    assert (d.classes, d.examples) == (("a", "b"), 2)


@pytest.mark.parametrize("alpha", [-0.1, 1.5, np.nan, "0.8", True, [[0.5]]])
def test_alpha_outside_zero_to_one_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must"):
        decal.Decalibrator(alpha)
    with pytest.raises(ValueError, match="alpha must"):
        decal.decalibrate(GOOD, [0, 1], alpha=0.5).predict(GOOD, alpha=alpha)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"likelihood": "total"}, "likelihood must be one of 'mean', 'sum': got 'total'"),
        ({"reference": None}, "reference must be one of 'model', 'best': got None"),
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
    np.testing.assert_array_equal(ends(again, 0.3), ends(d, 0.3))
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
        np.testing.assert_array_equal(ends(decal.Decalibrator.load(file), 0.3), ends(d, 0.3))
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
        np.savez(path, **{**arrays, name: damaged})
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

    monkeypatch.setattr("numpy.savez_compressed", full_disk)
    with pytest.raises(OSError, match="No space left"):
        d.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_model_of_the_test_set_of_cifar_size_takes_little_space(tmp_path):
    rng = np.random.default_rng(0)
    d = decal.decalibrate(rng.normal(size=(10_000, 10)) * 3, rng.integers(0, 10, 10_000), alpha=0.8)
    d.save(tmp_path / "m.npz")
    assert (tmp_path / "m.npz").stat().st_size < 200_000
