"""Zero-one uncertainty, Hartley measure and width of boxes, against linear programs and sets."""

import numpy as np
import pytest

from decal.credal import _box_measures as measures
from decal.credal._box_measures import hartley, width, zero_one
from decal.credal.decisions import smallest_maximum
from oracles import boxes as oracle

ATOL = 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", oracle.KINDS)
def test_zero_one_and_smallest_maximum_agree_with_linear_programs(kind):
    # Linear programming meets its constraints to 1e-7 or so; ties at that scale are left out.
    rng = np.random.default_rng(0)
    for K in (2, 3, 4, 6):
        lower, upper = oracle.random_boxes(rng, 10, K, kind)
        tau = smallest_maximum(lower, upper)
        regret = zero_one(lower, upper)
        for i in range(len(lower)):
            box = lower[i], upper[i]
            assert tau[i] == pytest.approx(oracle.smallest_maximum(*box), abs=1e-8)
            distance = np.abs(upper[i] - tau[i])
            if ((distance < 1e-12) | (distance > 1e-6)).all():
                assert regret[i] == pytest.approx(oracle.zero_one(*box), abs=1e-8)


@pytest.mark.parametrize("K", [2, 3, 4, 6])
def test_zero_one_is_the_largest_regret_at_a_vertex(K):
    rng = np.random.default_rng(K)
    for kind in oracle.KINDS:
        lower, upper = oracle.random_boxes(rng, 800, K, kind)
        corner = oracle.vertices(lower, upper)
        expected = np.zeros(len(lower))
        for j in range(K):
            # Class j at its upper bound, the others as high as they may without passing it.
            others = np.delete(np.minimum(upper, upper[:, [j]]), j, axis=1).sum(axis=1)
            wins = (upper[:, j] + others >= 1.0 - 1e-12) & (
                lower.max(axis=1) <= upper[:, j] + 1e-12
            )
            regret = np.nanmax(corner.max(axis=2) - corner[:, :, j], axis=1)
            expected = np.where(wins, np.maximum(expected, regret), expected)
        np.testing.assert_allclose(zero_one(lower, upper), expected, atol=ATOL)


def test_a_class_that_cannot_win_is_not_regretted():
    # Class 2 never leads: predicting it is no one's advice, however bad it would be.
    lower, upper = np.array([[0.4, 0.3, 0.0]]), np.array([[0.6, 0.5, 0.2]])
    assert zero_one(lower, upper) == pytest.approx(0.3)


@pytest.mark.parametrize("K", [2, 3, 5, 7])
def test_hartley_is_the_mean_log_size_under_the_moebius_inverse(K):
    rng = np.random.default_rng(K)
    for kind in oracle.KINDS:
        lower, upper = oracle.random_boxes(rng, 400, K, kind)
        found = hartley(lower, upper)
        assert found.exact.all()
        np.testing.assert_allclose(found.upper, oracle.hartley(lower, upper), atol=ATOL)


@pytest.mark.slow
@pytest.mark.parametrize("K", [9, 10])
def test_hartley_is_the_mean_log_size_for_more_classes(K):
    lower, upper = oracle.random_boxes(np.random.default_rng(K), 30, K)
    np.testing.assert_allclose(hartley(lower, upper).upper, oracle.hartley(lower, upper), atol=ATOL)


def test_lower_probability_in_the_hartley_oracle_is_that_of_the_vertices():
    lower, upper = oracle.random_boxes(np.random.default_rng(1), 50, 4)
    for chosen in ([0], [1, 3], [0, 1, 2]):
        rest = np.setdiff1d(np.arange(4), chosen)
        formula = np.maximum(lower[:, chosen].sum(axis=1), 1.0 - upper[:, rest].sum(axis=1))
        corner = oracle.vertices(lower, upper)
        np.testing.assert_allclose(np.nanmin(corner[:, :, chosen].sum(axis=2), axis=1), formula)


@pytest.mark.parametrize("K", [13, 18])
@pytest.mark.parametrize("kind", [*oracle.KINDS, "wide"])
def test_the_hartley_bracket_holds_the_truth(K, kind, monkeypatch):
    rng = np.random.default_rng(K)
    lower, upper = oracle.random_boxes(rng, 40, K, kind)
    if kind == "wide":
        lower, upper = oracle.tighten(lower / 100, np.minimum(1.0, upper + 0.5))
    truth = hartley(lower, upper).upper
    monkeypatch.setattr(measures, "EXACT_CLASSES", 1)
    gaps = []
    for conditioned in (0, 3, 8):
        found = hartley(lower, upper, conditioned=conditioned)
        assert (found.lower <= truth + ATOL).all()
        assert (truth <= found.upper + ATOL).all()
        gaps.append((found.upper - found.lower).mean())
    assert gaps[0] >= gaps[1] >= gaps[2]
    assert gaps[2] < 0.03


def test_the_bracket_closes_when_the_classes_left_over_are_alike(monkeypatch):
    lower, upper = oracle.random_boxes(np.random.default_rng(2), 20, 7)
    lower, upper = (np.column_stack([side, np.zeros((20, 2))]) for side in (lower, upper))
    truth = hartley(lower, upper).upper
    monkeypatch.setattr(measures, "EXACT_CLASSES", 1)
    found = hartley(lower, upper, conditioned=99)
    assert found.exact.all()
    np.testing.assert_allclose(found.upper, truth, atol=ATOL)


def test_the_bracket_is_tight_for_two_equally_likely_values(monkeypatch):
    # One of the widths 0.2 and 0 comes on top of 0.3 - 0.4: Scarf's extremal distribution.
    lower, upper = np.array([[0.0, 0.0, 0.2, 0.4]]), np.array([[0.3, 0.3, 0.4, 0.4]])
    truth = hartley(lower, upper).upper
    monkeypatch.setattr(measures, "EXACT_CLASSES", 1)
    found = hartley(lower, upper, conditioned=2)
    assert truth - 0.01 < found.lower <= truth <= found.upper < truth + 0.05


@pytest.mark.parametrize("K", [30, 1000])
def test_many_classes_get_a_narrow_hartley_bracket(K):
    rng = np.random.default_rng(K)
    p = rng.dirichlet(np.full(K, 0.05), 5)
    lower, upper = oracle.tighten(0.5 * p, np.minimum(1.0, 1.5 * p))
    found = hartley(lower, upper)
    assert (found.lower <= found.upper).all()
    assert (found.upper - found.lower < 0.05 * found.upper + 1e-12).all()


@pytest.mark.parametrize("K", [2, 3, 10, 24, 30, 1000])
def test_the_vacuous_set_is_as_uncertain_as_can_be(K):
    lower, upper = np.zeros((1, K)), np.ones((1, K))
    assert zero_one(lower, upper) == 1.0
    assert width(lower, upper) == 1.0
    assert smallest_maximum(lower, upper) == pytest.approx(1.0 / K)
    found = hartley(lower, upper)
    assert found.exact.all()
    assert found.upper == pytest.approx(np.log(K), abs=1e-9)


@pytest.mark.parametrize("K", [2, 3, 10, 24, 30, 1000])
def test_a_point_has_no_epistemic_uncertainty(K):
    p = np.random.default_rng(K).dirichlet(np.full(K, 0.3), 4)
    assert (zero_one(p, p) == 0.0).all()
    assert (width(p, p) == 0.0).all()
    np.testing.assert_allclose(smallest_maximum(p, p), p.max(axis=1), atol=1e-12)
    found = hartley(p, p)
    assert found.exact.all()
    np.testing.assert_allclose(found.upper, 0.0, atol=1e-12)


@pytest.mark.parametrize("measure", [zero_one, width, lambda *box: hartley(*box).upper])
def test_a_wider_box_is_no_less_uncertain(measure):
    rng = np.random.default_rng(3)
    lower, upper = oracle.random_boxes(rng, 500, 6)
    wider = oracle.tighten(lower * 0.7, np.minimum(1.0, upper + 0.1))
    assert (measure(*wider) >= measure(lower, upper) - ATOL).all()


@pytest.mark.parametrize("K", [10, 40])
def test_a_row_does_not_depend_on_its_batch(K):
    lower, upper = oracle.random_boxes(np.random.default_rng(4), 1500, K, "nested")
    batch = hartley(lower, upper, conditioned=3)
    for i in (0, 700, 1499):
        alone = hartley(lower[i : i + 1], upper[i : i + 1], conditioned=3)
        assert alone.upper == batch.upper[i]
        assert alone.lower == batch.lower[i]
        assert zero_one(lower[i : i + 1], upper[i : i + 1]) == zero_one(lower, upper)[i]


def test_size_weights_average_the_logarithm():
    # sum_b W_b b/K = ln K: a point has lower probability b/K on average, and no ignorance.
    for K in (2, 5, 24, 100, 1000):
        weights = measures._size_weights(K)
        assert np.sum(weights * np.arange(K + 1)) / K == pytest.approx(np.log(K), rel=1e-11)
