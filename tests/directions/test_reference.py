"""The best model: maximum likelihood over shifts, and the scale; sets measured from there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import decal
from helpers.strategies import at_most, endpoints
from oracles import class_shifts as oracles
from oracles import exact

BOTH = ("class", "temperature")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(400, 4)) * 2.5
    labels = np.array([rng.choice(4, p=p) for p in softmax(0.6 * logits, axis=1)])
    return logits, labels


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
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
    np.testing.assert_allclose(endpoints(best, alpha), endpoints(recentred, alpha), atol=1e-5)
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


# With the temperature


def test_the_best_model_maximises_the_likelihood_over_shifts_and_scale(data):
    from scipy.optimize import minimize

    logits, labels = data

    def loss(x):
        return -oracles.log_likelihood(x[-1] * logits + x[:-1], labels)

    found = minimize(loss, [0, 0, 0, 0, 1.0], method="BFGS", options={"gtol": 1e-6})
    d = decal.Decalibrator(0.9, directions=BOTH, reference="best").fit(logits, labels)
    assert d.scales().center == pytest.approx(found.x[-1], abs=1e-4)
    center = found.x[:-1] - found.x[:-1].mean()
    np.testing.assert_allclose(d.shifts().center, center, atol=1e-4)
    gained = (-found.fun - oracles.log_likelihood(logits, labels)) / 400
    assert d.distance == pytest.approx(gained, abs=1e-7)
    point = d.predict(logits, alpha=1.0)
    np.testing.assert_allclose(point.lower, point.upper, atol=1e-12)
    recentred = decal.Decalibrator(0.9, directions=BOTH)
    z = d.scales().center * logits + d.shifts().center
    np.testing.assert_allclose(
        d.predict(logits).upper, recentred.fit(z, labels).predict(z).upper, atol=1e-6
    )


def test_the_best_model_with_an_absent_class(data):
    logits, labels = data
    labels = np.where(labels == 3, 0, labels)
    d = decal.Decalibrator(0.9, directions=BOTH, reference="best").fit(logits, labels)
    credal = d.predict(logits)
    assert (credal.point[:, 3] == 0).all()
    assert (credal.lower[:, 3] == 0).all()
    assert (credal.upper[:, 3] > 0).all()
    assert np.isfinite(credal.upper).all()


def test_an_infinite_or_negative_best_scale_is_refused(data):
    logits = np.repeat(2.0 * np.eye(3), 4, axis=0)
    d = decal.Decalibrator(directions=BOTH, reference="best")
    with pytest.raises(ValueError, match="perfectly predictable for reference='best'"):
        d.fit(logits, np.repeat(np.arange(3), 4))
    with (
        pytest.warns(decal.InputWarning, match="in 4% of 400 rows"),
        pytest.raises(ValueError, match="tell more about the labels than chance"),
    ):
        d.fit(-data[0], data[1])


def test_a_model_far_from_its_best_is_reported(data):
    logits, labels = data
    off = logits + np.array([3.0, 0, 0, 0])
    with pytest.warns(decal.FitWarning, match="nats per example from its reference"):
        d = decal.Decalibrator(0.99, reference="best").fit(off, labels)
    assert d.distance > 0.1
    decal.Decalibrator(0.5, reference="best").fit(off, labels)  # within ten budgets: no warning


# Hard problems: the log-likelihood is nearly a polyhedron


def literal_slopes(logits, labels, center):
    """The slope of the log-likelihood by every shift, in nats per example."""
    with exact.precise(logits):
        K = logits.shape[1]
        found = [exact.slope(logits, labels, k, center, np.ones(len(labels))) for k in range(K)]
        return np.array([float(s) for s in found]) / len(labels)


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
def test_the_best_shift_of_confident_logits_is_found():
    logits, labels = np.array([[100.0, 0.0], [60.0, 0.0], [0.0, 80.0]]), np.array([0, 1, 1])
    d = decal.decalibrate(logits, labels, alpha=0.5, reference="best")
    center = d.reference_model.center
    # e^-(100 - c) = e^-(c - 60), but for e^-(80 + c).
    assert center[1] - center[0] == pytest.approx(80.0, abs=1e-6)
    loss = -3 * d.distance + 60.0
    assert loss == pytest.approx(2 * np.exp(-20.0), rel=1e-5)


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize("size", [10.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_shift_is_where_no_slope_is_left(size, seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 5))
    logits = size * rng.normal(size=(15, K))
    labels = np.concatenate([np.arange(K), rng.integers(0, K, 15 - K)])
    d = decal.decalibrate(logits, labels, alpha=0.5, reference="best")
    slopes = literal_slopes(logits, labels, d.reference_model.center)
    assert np.abs(slopes).max() < 1e-8


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize("mask", [-np.inf, -1e9, -1e15, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("scale", [False, True])
def test_masked_classes_do_not_move_the_best_model(data, mask, scale):
    logits, labels = data[0][:40].copy(), data[1][:40]
    masked = np.random.default_rng(0).random(logits.shape) < 0.3
    masked[np.arange(40), labels] = False
    logits[masked] = mask
    directions = BOTH if scale else ("class",)
    d = decal.decalibrate(logits, labels, alpha=0.5, reference="best", directions=directions)
    best = d.reference_model
    moved = np.where(masked, -np.inf, best.scale * logits)
    assert np.abs(literal_slopes(moved, labels, best.center)).max() < 1e-9
    credal = d.predict(logits)
    if np.isinf(mask) or not scale:  # a finite logit comes back at a scale of 0
        assert not credal.upper[masked].any()
    assert (credal.lower <= credal.point).all()
    assert (credal.point <= credal.upper).all()


@pytest.mark.parametrize("directions", [("class",), BOTH])
def test_a_constant_on_all_logits_costs_no_digits(data, directions):
    logits, labels = data
    logits = np.round(logits * 64).astype(np.float32) / 64
    settings = {"alpha": 0.5, "reference": "best", "directions": directions}
    plain = decal.decalibrate(logits, labels, **settings)
    moved = decal.decalibrate(logits + np.float32(1e5), labels, **settings)  # exact in float32
    assert moved.reference_model.scale == pytest.approx(plain.reference_model.scale, abs=1e-9)
    a, b = plain.predict(logits), moved.predict(logits + np.float32(1e5))
    np.testing.assert_allclose(a.lower, b.lower, atol=1e-9)
    np.testing.assert_allclose(a.upper, b.upper, atol=1e-9)


# What tests/attack found


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
def test_the_last_digits_of_long_shifts_are_found():
    logits = np.array([[18905.338179, -1e4], [-1e4, -244146.738264]])
    d = decal.Decalibrator(0.5, reference="best").fit(logits, [0, 1], sample_weight=[1.0, 2.0])
    slopes = literal_slopes(
        logits.repeat([1, 2], axis=0), np.array([0, 1, 1]), d.reference_model.center
    )
    assert np.abs(slopes).max() < 1e-9


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
def test_groups_of_classes_that_never_compete_have_a_best_model():
    possible = ["010000", "000101", "100000", "001001", "001101", "001011", "010000", "000111"]
    possible.append("110000")
    logits = np.where(np.array([[c == "1" for c in row] for row in possible]), 0.0, -1e15)
    labels = np.array([1, 5, 0, 2, 2, 5, 1, 5, 0])
    center = decal.decalibrate(logits, labels, alpha=0.5, reference="best").reference_model.center
    assert np.abs(literal_slopes(logits, labels, center)).max() < 1e-8


@pytest.mark.parametrize("mask", [-1e15, float(np.finfo(np.float32).min), -np.inf])
def test_masks_do_not_keep_useless_logits_from_being_refused(mask):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(12, 4)), np.arange(12) % 4
    logits[np.arange(12), labels] -= 1.0  # worse than chance
    logits[np.arange(12), (labels + 1) % 4] = mask
    with pytest.raises(ValueError, match="tell more about the labels than chance"):
        decal.decalibrate(logits, labels, alpha=0.5, reference="best", directions=BOTH)


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
def test_a_search_among_logits_of_1e290_overflows_nowhere():
    rng = np.random.default_rng(0)
    logits, labels = 1e290 * rng.normal(size=(9, 3)), np.arange(9) % 3
    best = decal.decalibrate(logits, labels, alpha=0.5, reference="best").reference_model
    assert np.isfinite(best.center).all()
    assert best.distance > 0


def test_slopes_so_small_that_they_underflow_end_the_search():
    logits = np.array([[-1e4, -522.7484414807474], [-413.06354339189346, -1e4], [1799.7, 1144.2]])
    with pytest.raises(ValueError, match="perfectly predictable"):
        decal.decalibrate(logits, [1, 0, 1], alpha=0.5, reference="best", directions=BOTH)


def test_a_vocabulary_has_a_best_model_of_the_classes_that_occur():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 20_000)).astype(np.float32)
    labels = rng.integers(0, 3, size=40)
    logits[np.arange(40), labels] += 1  # of which not all labels are the largest
    found = decal.Decalibrator(0, reference="best", directions=("local",)).fit(logits, labels)
    assert np.isfinite(found.reference_model.center).sum() == 3
    point = found.predict(logits[:1]).point[0]
    assert point[:3].sum() == pytest.approx(1)


def test_a_best_scale_of_zero_but_for_round_off_is_refused_as_zero_is():
    # It was 8e-17, where masks of -1e9 are none: "was not found ... please report it".
    no = -1e9
    logits = np.array(
        [
            *([0.5, -0.5, 0.5, 0], [no, no, 1, no], [1, 0.5, -0.5, 0], [1, -0.5, 0.5, -1]),
            *([-1.5, 0.5, -2, no], [1, no, 2, 0], [-0.5, 1, 1.5, 1], [0, -1, 1, 0.5]),
            *([-1.5, 0.5, 1, 2], [0.5, 0, 0, no], [-0.5, -0.5, -1, 1.5], [no, 1, 0, 0]),
        ]
    )
    labels = np.array([2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 2, 1])
    model = decal.Decalibrator(reference="best", directions=("class", "temperature"))
    with pytest.raises(ValueError, match="must tell more about the labels than chance"):
        model.fit(logits, labels)


def test_groups_of_classes_that_hardly_compete_have_no_endless_steps():
    # A solution of infinities, with a warning: of a Hessian singular but for 1e-206.
    logits = 500.0 * np.array(
        [
            *(
                [-4, 0, 2, 0, 2, 1],
                [-1, 5, 0, -2, -2, -1],
                [2, 0, -3, -1, 1, 0],
                [2, 1, 1, -4, 1, 0],
            ),
            *(
                [0, -1, -1, -1, 0, 1],
                [0, 2, -1, 2, -1, 2],
                [1, 0, -1, 1, 1, -1],
                [-1, 1, 2, 0, -1, -4],
            ),
        ]
    )
    labels = np.array([2, 1, 0, 0, 5, 1, 4, 2])
    exponents = [[-4, -7, -10, -10, -2, -1, -4, -3], [-1, -5, -7, -6, -10, -9, -3, -4]]
    model = decal.Decalibrator(reference="best", directions=("class", "temperature"))
    for decades in exponents:
        with pytest.raises(ValueError, match="perfectly predictable"):
            model.fit(logits, labels, sample_weight=10.0 ** np.array(decades))


BY_DECADES = {
    "a kink of the likelihood, where a mask of -1e4 and a small scale meet": (
        [[-0.5, -1e4, 0.5], [-1.5, 1, -0.5], [1.5, -0.5, -1.5]],
        [0, 2, 1],
        [6.72561128e-10, 4.01423285e-06, 8.53671168e-04],
    ),
    "a best scale of infinity, where some labels still contradict each other": (
        np.float32(0.05)
        * np.float32([[3, -1, 0], [1, 0, 2], [2, -3, 2], [0, 1, -1], [1, -1, -2], [1, -1, -2]]),
        [0, 2, 2, 1, 1, 2],
        [
            *(5.148545655252975e-06, 5.778780686542472e-09, 8.899413712227723e-07),
            *(0.007442627493506621, 8.611908794160649e-05, 1.848812616976243e-05),
        ],
    ),
}


@pytest.mark.parametrize("case", BY_DECADES)
def test_weights_of_ten_decades_have_a_best_model(case):
    # Each was "not found ... please report it".
    logits, labels, weights = BY_DECADES[case]
    model = decal.Decalibrator(reference="best", directions=("class", "temperature"))
    best = model.fit(logits, labels, sample_weight=weights).reference_model
    p = softmax(best.scale * np.array(logits, dtype=np.float64) + best.center, axis=1)
    slopes = np.array(weights) @ (np.eye(3)[labels] - p)
    assert np.abs(slopes).max() <= 1e-8 * np.sum(weights)


def test_a_slope_too_small_to_divide_by_is_none():
    # A warning of a division by zero.
    no = float(np.finfo(np.float32).min)
    logits = [[99446.859, 100022.13, no], [101432.38, no, no], [no, no, -100374.13]]
    model = decal.Decalibrator(reference="best", directions=("class", "temperature"))
    with pytest.raises(ValueError, match="perfectly predictable"):
        model.fit(logits, [1, 0, 2])
