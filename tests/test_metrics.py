"""Coverage, efficiency, AUROC and calibration error against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from helpers.strategies import at_most
from oracles import class_shifts as oracles

levels = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


def test_coverage_and_efficiency_by_hand():
    c = decal.IntervalCredalSet([[0.1, 0.6], [0.1, 0.6]], [[0.4, 0.9], [0.4, 0.9]])
    assert decal.metrics.coverage(c, [[0.3, 0.7], [0.5, 0.5]]) == 0.5
    assert decal.metrics.efficiency(c) == pytest.approx(0.7)
    vacuous = decal.IntervalCredalSet(np.zeros((2, 3)), np.ones((2, 3)))
    assert decal.metrics.efficiency(vacuous) == 0.0
    assert decal.metrics.coverage(vacuous, np.eye(3)[:2]) == 1.0


@given(levels, levels)
def test_auroc_is_the_share_of_pairs_in_order_with_ties_as_one_half(inside, outside):
    assert decal.metrics.auroc(inside, outside) == pytest.approx(oracles.auroc(inside, outside))


def test_auroc_orders_infinite_scores_and_refuses_nan():
    assert decal.metrics.auroc([0.0, -np.inf], [np.inf]) == 1.0
    with pytest.raises(ValueError, match="out_scores must not contain NaN: got NaN at index 1"):
        decal.metrics.auroc([1.0], [0.0, np.nan])
    with pytest.raises(ValueError, match="in_scores must be a vector of numbers, at least one"):
        decal.metrics.auroc([], [1.0])


@at_most(100)
@given(st.integers(0, 10**6), st.integers(1, 20))
def test_calibration_error_is_its_definition(seed, bins):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(3, 0.5), size=30)
    p[0] = [1.0, 0.0, 0.0]
    y = rng.integers(0, 3, 30)
    expected = oracles.expected_calibration_error(p.tolist(), y.tolist(), bins)
    found = decal.metrics.expected_calibration_error(p, y, bins=bins)
    assert found == pytest.approx(expected, abs=1e-9)


def test_calibration_error_refuses_what_is_not_a_probability():
    with pytest.raises(ValueError, match="probabilities must sum to 1 in every row: got 0.9"):
        decal.metrics.expected_calibration_error([[0.5, 0.4]], [0])
    with pytest.raises(ValueError, match="bins must be a whole number, at least 1: got 0"):
        decal.metrics.expected_calibration_error([[0.5, 0.5]], [0], bins=0)
