"""Zero-one uncertainty and total variation of balls against all members and all events."""

import numpy as np
import pytest
from hypothesis import given

from decal.credal import _ball_measures as measures
from decal.credal import _ball_support as ball
from decal.credal import _box_measures as box_measures
from decal.credal._ball_decisions import e_admissible
from helpers.balls import nasty_balls
from helpers.strategies import at_most
from oracles import balls as oracle


@pytest.mark.parametrize("b", [0.001, 0.05, 0.3, 1.0])
@pytest.mark.parametrize(
    "c", [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.9, 0.06, 0.04], [1 / 3, 1 / 3, 1 / 3]]
)
def test_zero_one_is_the_greatest_regret_of_a_possible_prediction(c, b):
    arrays = np.log([c]), np.array([b])
    q = oracle.members(np.array(c), b)
    predicted = set(q.argmax(axis=1)) | set(np.flatnonzero(e_admissible(*arrays)[0]))
    regret = max(np.max(q.max(axis=1) - q[:, j]) for j in predicted)
    found = measures.zero_one(*arrays)[0]
    assert found >= regret - 1e-12
    assert found - regret < 2e-3


@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_total_variation_is_that_of_the_most_imprecise_event(K):
    rng = np.random.default_rng(K)
    c = rng.dirichlet(np.full(K, 3.0), size=4)
    radius = np.array([0.003, 0.1, 0.6, 0.8])
    found = measures.ball_total_variation(np.log(c), radius)
    assert found.exact.all()
    for row, b, value in zip(c, radius, found.lower, strict=True):
        assert value == pytest.approx(oracle.total_variation(row, b), abs=1e-12)


def test_no_two_members_are_further_apart():
    c, b = np.array([0.4, 0.35, 0.25]), 0.2
    rim = oracle.members(c, b)[: oracle.RAYS : 5]
    apart = np.abs(rim[:, None] - rim[None]).sum(axis=2).max() / 2
    found = measures.ball_total_variation(np.log([c]), np.array([b])).lower[0]
    assert apart <= found + 1e-12
    assert found - apart < 1e-3


def test_beyond_24_classes_the_bracket_is_narrow_and_a_class_of_half_settles_it():
    rng = np.random.default_rng(1)
    c = rng.dirichlet(np.full(60, 0.3), size=200)
    found = measures.ball_total_variation(np.log(c), np.full(200, 0.1))
    assert (found.lower <= found.upper).all()
    assert np.max(found.upper - found.lower) < 0.01
    assert np.mean(found.upper - found.lower) < 1e-4
    assert found.exact[c.max(axis=1) >= 0.5].all()
    # 25 classes of equal probability: none splits them evenly, and the bracket says so.
    even = measures.ball_total_variation(np.full((1, 25), -np.log(25)), np.array([0.1]))
    low, high = oracle.event_range(12 / 25, 0.1)
    assert even.lower[0] == pytest.approx(high - low)
    assert not even.exact[0]


@at_most(40)
@given(nasty_balls())
def test_measures_lie_between_0_and_1_and_grow_with_the_ball(case):
    log_c, radius = case
    # Unimodal in the event's probability: no class is more imprecise than the best event.
    lower, upper = ball.box(log_c, radius)
    distance = measures.attained_variation(log_c, radius)
    assert (distance >= (upper - lower).max(axis=1) - 1e-12).all()
    assert (measures.zero_one(log_c, radius) <= box_measures.zero_one(lower, upper) + 1e-9).all()
    for measure in (measures.zero_one, measures.attained_variation):
        values = measure(log_c, radius)
        assert (values >= 0).all()
        assert (values <= 1).all()
        assert (measure(log_c, 2 * radius) >= values - 1e-9).all()
        several = (log_c > -np.inf).sum(axis=1) > 1
        np.testing.assert_array_equal(measure(log_c, np.full(len(radius), np.inf)), several)
    assert (measures.attained_variation(log_c, 0 * np.minimum(radius, 1)) <= 1e-15).all()
