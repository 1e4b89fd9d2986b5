"""Class shifts: against their definition, and on nasty data."""

from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal.directions._class_shifts import ShiftPlan, boxes_of_shifts
from helpers.strategies import alphas, at_most, endpoints, labelled_logits
from oracles import class_shifts as oracles
from oracles import exact

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


# Nasty data


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
    np.testing.assert_array_equal(endpoints(a, 0.7), endpoints(b, 0.7))
    assert a.examples == b.examples


def test_float32_and_float64_of_the_same_numbers_agree_exactly(clear_data):
    logits, labels = clear_data
    single = logits.astype(np.float32)
    a = decal.decalibrate(single, labels, alpha=0.6)
    b = decal.decalibrate(single.astype(np.float64), labels, alpha=0.6)
    np.testing.assert_array_equal(endpoints(a, 0.6), endpoints(b, 0.6))
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
    np.testing.assert_allclose(endpoints(streamed, 0.8), endpoints(weighted, 0.8), atol=1e-10)


def bin_width(model):
    (margins,) = model._fitted.evidence
    return margins.bin_width


def test_many_classes_over_a_wide_range_stay_exact_though_bins_are_merged(monkeypatch):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(300, 4)) * 50
    labels = rng.integers(0, 4, 300)
    exact = decal.decalibrate(logits, labels, alpha=0.9)
    monkeypatch.setattr("decal.directions._bins.MAX_BINS", 64)
    monkeypatch.setattr(decal.directions.ClassShifts.summarise, "__defaults__", (64,))
    coarse = decal.decalibrate(logits, labels, alpha=0.9)
    assert bin_width(coarse) > bin_width(exact)
    np.testing.assert_allclose(endpoints(coarse, 0.9), endpoints(exact, 0.9), atol=1e-9)
    assert coarse.shifts().error == 0.0
    unpolished = decal.Decalibrator().partial_fit(logits, labels)  # chunks are not kept
    shifts = unpolished.shifts(0.9)
    for k in range(4):
        for t in (shifts.lower[k], shifts.upper[k]):
            missed = oracles.gain(logits, labels, k, t) / 300 - np.log(0.9)
            assert abs(missed) <= shifts.error + 1e-12
    assert shifts.error > 1e-9


# Masked classes, and logits of any size

MASKS = {
    "-inf": -np.inf,
    "-1e9": -1e9,
    "-1e15": -1e15,
    "float32": float(np.finfo(np.float32).min),
    "float64": float(np.finfo(np.float64).min),
}


@pytest.fixture
def some_rows():
    rng = np.random.default_rng(4)
    logits = 2 * rng.normal(size=(30, 3))
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


@pytest.mark.parametrize("mask", MASKS)
def test_rows_in_which_one_class_is_left_change_nothing(some_rows, mask):
    logits, labels = some_rows
    alone = np.full((20, 3), MASKS[mask])
    of_alone = np.arange(20) % 3
    alone[np.arange(20), of_alone] = 1.5
    together = np.concatenate([logits, alone]), np.concatenate([labels, of_alone])
    expected = decal.decalibrate(logits, labels, alpha=0.01, likelihood="sum")
    found = decal.decalibrate(*together, alpha=0.01, likelihood="sum")
    streamed = decal.Decalibrator(alpha=0.01, likelihood="sum")
    streamed.partial_fit(alone, of_alone).partial_fit(logits, labels)
    for model in (found, streamed):
        np.testing.assert_allclose(endpoints(model, 0.01), endpoints(expected, 0.01), rtol=1e-11)
        assert model.shifts().residual < 1e-9
    sets = found.predict(alone)
    for bound in (sets.lower, sets.upper, sets.point):
        np.testing.assert_allclose(bound, np.eye(3)[of_alone], atol=1e-300)


@pytest.mark.parametrize("mask", MASKS)
def test_a_class_masked_in_some_rows_has_the_endpoints_of_the_others(some_rows, mask):
    logits, labels = some_rows
    masked = (np.arange(30) % 2 == 0) & (labels != 2)
    with_mask = logits.copy()
    with_mask[masked, 2] = MASKS[mask]
    # Class 2 sees the unmasked rows alone; the other two are then against each other.
    found = decal.decalibrate(with_mask, labels, alpha=0.01, likelihood="sum")
    of_two = decal.decalibrate(logits[~masked], labels[~masked], alpha=0.01, likelihood="sum")
    np.testing.assert_allclose(found.shifts().lower[2], of_two.shifts().lower[2], rtol=1e-11)
    np.testing.assert_allclose(found.shifts().upper[2], of_two.shifts().upper[2], rtol=1e-11)
    lower, upper = endpoints(found, 0.01)
    budget = np.log(0.01)
    with exact.precise(with_mask if mask == "-inf" else np.maximum(with_mask, -1e40)):
        rows = np.where(with_mask < -1e300, -np.inf, with_mask)
        for k in (0, 1):
            for t in (lower[k], upper[k]):
                reached = exact.gain(rows, labels, k, t, np.ones(30))
                assert float(reached) == pytest.approx(budget, abs=1e-9)


@pytest.mark.parametrize("size", [1e4, 1e10, 1e15, 1e30, 1e100, 1e290])
def test_endpoints_of_huge_logits_meet_their_budget_as_closely_as_they_can_be_written(
    some_rows, size
):
    logits, labels = some_rows
    huge = size * logits
    shifts = decal.decalibrate(huge, labels, alpha=0.5).shifts()
    budget = 30 * np.log(0.5)
    with exact.precise(huge):
        for k in range(3):
            for t in (shifts.lower[k], shifts.upper[k]):
                # The gain has a slope of at most 30: neighboring floats differ by this much.
                room = 30 * np.spacing(np.abs(t)) + 1e-9
                reached = exact.gain(huge, labels, k, t, np.ones(30)) - budget
                assert abs(float(reached)) <= 4 * room


def test_a_class_that_is_masked_everywhere_may_move_without_limit():
    logits = np.array([[1.0, 0.0, -np.inf], [0.0, 0.5, -np.inf], [1.0, 0.4, -np.inf]])
    d = decal.decalibrate(logits, [0, 1, 1], alpha=0.5)
    assert (d.shifts().lower[2], d.shifts().upper[2]) == (-np.inf, np.inf)
    two = decal.decalibrate(logits[:, :2], [0, 1, 1], alpha=0.5)
    np.testing.assert_allclose(d.shifts().lower[:2], two.shifts().lower, rtol=1e-12)
    credal, expected = d.predict(logits), two.predict(logits[:, :2])
    assert not credal.upper[:, 2].any()
    np.testing.assert_allclose(credal.lower[:, :2], expected.lower, rtol=1e-12)
    # In a row where it is not masked, it may take everything.
    assert d.predict([[0.0, 0.0, 0.0]]).upper[0, 2] == 1


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ([[0, -np.inf], [0, 1]], [1, 0], "labels must be classes that are not masked: got 1"),
        ([[0, 1], [-np.inf, -np.inf]], [1, 0], "unmasked in every row: got only -inf in row 1"),
        ([[0, 1], [0, 1e301]], [1, 0], r"smaller than 1e\+300: got 1e\+301 at index \(1, 1\)"),
    ],
)
def test_masks_that_make_no_sense_are_refused(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        decal.decalibrate(logits, labels, alpha=0.5)


def test_a_masked_model_is_saved_merged_and_read_back(some_rows, tmp_path):
    logits, labels = some_rows
    logits[(labels != 1) & (np.arange(30) % 3 == 0), 1] = -np.inf
    model = decal.decalibrate(logits, labels, alpha=0.5)
    model.save(tmp_path / "m.npz")
    loaded = decal.Decalibrator.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(endpoints(loaded, 0.5), endpoints(model, 0.5))
    halves = [decal.decalibrate(logits[s], labels[s], alpha=0.5) for s in (np.s_[:9], np.s_[9:])]
    merged = halves[0].merge(halves[1])
    np.testing.assert_allclose(endpoints(merged, 0.5), endpoints(model, 0.5), rtol=1e-11)


def exact_shift(logits, labels, weights, k, alpha, side):
    """An endpoint in 40 decimal digits, by bisection of the gain's definition."""
    with localcontext(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN):
        z = [[Decimal(x) for x in row] for row in logits.tolist()]
        w = [Decimal(x) for x in weights.tolist()]
        rest = [sum(x.exp() for j, x in enumerate(row) if j != k) for row in z]

        def gain(t):
            moved = (t if y == k else 0 for y in labels.tolist())
            return sum(
                wi * (m - (r + (row[k] + t).exp()).ln() + (r + row[k].exp()).ln())
                for wi, m, r, row in zip(w, moved, rest, z, strict=True)
            )

        budget = Decimal(alpha).ln() * sum(w)
        near, far = Decimal(0), Decimal(side)
        while gain(far) >= budget:
            near, far = far, 2 * far
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if gain(middle) >= budget else (near, middle)
        return float(near)


@pytest.mark.parametrize("span", [1e-12, 1e-6])
def test_endpoints_are_exact_for_weights_of_every_size_and_span(span):
    rng = np.random.default_rng(0)
    logits, labels = 3 * rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    # Class 0 has all the weight but what the others may have at the least.
    weights = np.array([1.0, span**0.5, span, 0.5, span, span])
    ends = [(k, side) for k in range(3) for side in (-1, 1)]
    wanted = [exact_shift(logits, labels, weights, k, 0.9, side) for k, side in ends]
    for size in (1e-87, 1.0, 1e100):
        fitted = decal.Decalibrator(0.9).fit(logits, labels, sample_weight=size * weights)
        shifts = fitted.shifts()
        found = [(shifts.lower if side < 0 else shifts.upper)[k] for k, side in ends]
        assert found == pytest.approx(wanted, rel=1e-8)


# What tests/attack found


def test_a_class_that_is_alone_wherever_it_is_not_masked_may_move_without_limit(tmp_path):
    logits = np.array([[0.0, -np.inf, -np.inf], [-np.inf, 1.0, 0.5], [-np.inf, 0.2, 0.3]])
    d = decal.decalibrate(logits, [0, 1, 2], alpha=0.5)
    assert (d.shifts().lower[0], d.shifts().upper[0]) == (-np.inf, np.inf)
    assert np.isfinite([d.shifts().lower[1:], d.shifts().upper[1:]]).all()
    only = decal.decalibrate(logits[:1], [0], alpha=0.5)
    only.save(tmp_path / "m.npz")
    loaded = decal.Decalibrator.load(tmp_path / "m.npz")
    assert loaded.shifts().upper.tolist() == [np.inf] * 3


def test_a_dominant_weight_does_not_hide_that_all_others_are_masked():
    # Class 0 is masked wherever the label is another one: nothing limits it above.
    logits = np.array([[0.0, 1.0, 2.0], [-np.inf, 1.0, 0.0], [-np.inf, 0.0, 0.0]])
    d = decal.Decalibrator(0.5).fit(logits, [0, 1, 2], sample_weight=[1.0, 3e-10, 7e-11])
    assert d.shifts().upper[0] == np.inf
    assert np.isfinite(d.shifts().lower[0])


def test_weights_that_add_up_in_another_order_do_not_damage_a_saved_model(tmp_path):
    rng = np.random.default_rng(0)
    logits = np.where(np.eye(3)[np.arange(40) % 3] > 0, 0.0, -np.inf)
    for _ in range(20):
        d = decal.Decalibrator(0.5)
        d.fit(logits, np.arange(40) % 3, sample_weight=10.0 ** rng.uniform(-10, 0, 40))
        d.save(tmp_path / "m.npz")
        assert decal.Decalibrator.load(tmp_path / "m.npz").shifts().upper[0] == np.inf


def test_an_endpoint_is_found_among_margins_of_every_size():
    # The gain of class 1 is flat from 0 to 9,990, and all other margins are 5e289 or more.
    logits = 5e289 * np.array(
        [
            [-2, 0, -1, 0, 0],
            [1, -1, 0, 1, 1],
            [2, 0, 0, 0, 0],
            [1, -5, 0, 1, 1],
            [-2, 0, 0, -1, 5],
            [-2, 2, 0, -1, 1],
            [1, 0, 1, 0, 0],
            [-1, 0, 1, -3, -2],
            [-1, 3, -4, -1, 0],
            [-3, -2, 0, 0, 0],
        ]
    )
    rows = [0, 2, 2, 3, 4, 4, 5, 6, 6, 8, 9, 9]
    logits[rows, [1, 1, 3, 2, 1, 2, 2, 1, 3, 4, 2, 3]] = -1e4
    labels = np.array([3, 0, 0, 0, 4, 1, 0, 2, 1, 4])
    shifts = decal.decalibrate(logits, labels, alpha=0.33).shifts()
    with exact.precise(logits):
        for t in (shifts.lower[1], shifts.upper[1]):
            missed = exact.gain(logits, labels, 1, t, np.ones(10)) - 10 * np.log(0.33)
            assert abs(float(missed)) <= 1e-9 + 40 * np.spacing(abs(t))


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
def test_a_class_left_out_returns_as_far_as_its_own_rows_allow_among_masks():
    mask = float(np.finfo(np.float32).min)
    logits = np.array(
        [
            [mask, 1.4e-3, mask, 5.6e-4, 6.8e-4, -8.3e-4],
            [mask, mask, 1.2e-2, mask, mask, mask],
            [-8e-6, mask, mask, -4.8e-5, mask, mask],
        ]
    )
    labels = np.array([4, 2, 3])
    d = decal.decalibrate(logits, labels, alpha=0.014, likelihood="sum", reference="best")
    center, upper = d.reference_model.center, d.shifts().upper
    present = np.flatnonzero(np.isfinite(center))
    with exact.precise(logits):
        for k in (0, 1, 5):
            moved = [[row[j] + center[j] for j in present] + [row[k]] for row in logits]
            margins = [exact.margin(row, len(present)) for row in moved]
            lost = exact.loss_from_nothing(margins, upper[k], np.ones(3))
            assert float(lost) == pytest.approx(-np.log(0.014), abs=1e-9)


@pytest.mark.parametrize("depth", [1e3, 1e9, 1e15, 1e35])
def test_what_the_largest_class_leaves_is_shared_as_the_others_say(depth):
    # Class 0 never occurs, so it may vanish; then equal logits are equally probable.
    plan = ShiftPlan.of(
        decal.Endpoints(np.array([-np.inf, 0, 0, 0]), np.array([0.0, 0, 0, 0]), np.zeros(4), 0.5, 0)
    )
    logits = np.array([[0.0, -depth, -depth, -depth], [0.0, -depth, -depth, -2 * depth]])
    _, high, _ = boxes_of_shifts(logits, plan, joint=True)
    expected = [[1.0, 1 / 3, 1 / 3, 1 / 3], [1.0, 0.5, 0.5, 0.0]]
    np.testing.assert_allclose(high, expected, rtol=0, atol=1e-12)


def test_at_alpha_one_zero_is_no_endpoint_if_the_gain_rises_from_it():
    mask = float(np.finfo(np.float32).min)
    logits = np.array([[mask, 0.0, mask], [0.0, mask, 0.0], [0.0, mask, 0.0]])
    labels, weights = np.array([1, 2, 0]), np.array([1.9e-10, 1.7e-9, 5.1e-4])
    d = decal.Decalibrator(1.0).fit(logits, labels, sample_weight=weights)
    t = float(d.shifts().upper[0])
    assert t > 1e5
    with exact.precise(logits):
        assert (
            abs(float(exact.gain(logits, labels, 0, t, weights))) <= 1e-9 * weights.sum() * t / 1e5
        )
