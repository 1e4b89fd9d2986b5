"""Scores of sets against labels: the best and the worst member, decisions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal import calibration
from helpers.strategies import at_most
from oracles import counts as oracles


def some_boxes(seed, n, K):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(K, 0.6), size=n)
    lower, upper = p * rng.uniform(0, 1, (n, K)), p + (1 - p) * rng.uniform(0, 0.6, (n, K))
    return decal.IntervalCredalSet(lower, upper, point=p).tighten(), rng.integers(K, size=n)


@at_most(40)
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_no_corner_of_a_box_beats_the_best_or_is_worse_than_the_worst(seed, K):
    credal, y = some_boxes(seed, 3, K)
    least, most = calibration.log_scores(credal, y)
    for row in range(3):
        corners = oracles.box_corners(credal.lower[row], credal.upper[row])
        with np.errstate(divide="ignore"):
            losses = -np.log([max(q[y[row]], 0) for q in corners])
        assert (least[row], most[row]) == (pytest.approx(min(losses)), pytest.approx(max(losses)))


def test_points_have_one_score_and_vacuous_sets_the_extremes():
    p = np.array([[0.2, 0.3, 0.5]])
    best, worst = calibration.log_scores(decal.IntervalCredalSet(p, p), [2])
    assert (best[0], worst[0]) == (pytest.approx(np.log(2)), pytest.approx(np.log(2)))
    vacuous = decal.IntervalCredalSet(np.zeros((1, 3)), np.ones((1, 3)))
    assert [x[0] for x in calibration.log_scores(vacuous, [1])] == [0, np.inf]


def test_hulls_reach_their_log_scores_at_vertices():
    hull = decal.HullCredalSet([[[0.9, 0.1], [0.5, 0.5]]])
    assert [x[0] for x in calibration.log_scores(hull, [1])] == pytest.approx(
        [-np.log(0.5), -np.log(0.1)]
    )


@pytest.mark.parametrize(("half", "pair", "triple"), [(0.5, 1 / 2, 1 / 3), (0.65, 0.65, 7 / 15)])
def test_utilities_of_one_two_and_three_classes(half, pair, triple):
    lower = [[0.6, 0.1, 0.1], [0.3, 0.3, 0.1], [0.2, 0.2, 0.2], [0.6, 0.1, 0.1]]
    upper = [[0.8, 0.3, 0.3], [0.5, 0.5, 0.2], [0.5, 0.5, 0.5], [0.8, 0.3, 0.3]]
    credal = decal.IntervalCredalSet(lower, upper)
    found = calibration.discounted_utility(credal, [0, 1, 2, 1], half=half)
    assert found == pytest.approx([1, pair, triple, 0])


def test_the_known_names_of_utilities():
    credal = decal.IntervalCredalSet([[0.3, 0.2]], [[0.8, 0.7]])
    x = 0.5
    for half, expected in ((0.65, 1.6 * x - 0.6 * x**2), (0.8, 2.2 * x - 1.2 * x**2)):
        found = calibration.discounted_utility(credal, [0], half=half)
        assert found == pytest.approx([expected])
    with pytest.raises(ValueError, match=r"half must be at least 0.5, .*: got 0.4"):
        calibration.discounted_utility(credal, [0], half=0.4)
    with pytest.raises(ValueError, match="rule must be one of"):
        calibration.discounted_utility(credal, [0], rule="point")
