"""Membership and rules of balls against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decal.credal import _ball_decisions as ball
from decal.credal import _ball_support as support
from decal.credal import decisions
from helpers.balls import nasty_balls
from helpers.strategies import at_most
from oracles import balls as oracle

CENTERS = ([0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.9, 0.06, 0.04], [0.45, 0.44, 0.11])
RADII = (0.0, 0.004, 0.05, 0.3, 1.0)
CLEAR = 2e-3
"""Members are drawn this densely: smaller margins are not judged."""

UTILITIES = {
    "abstain": decisions.abstention_utility(3, cost=0.45),
    "hedge": np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.6, 0], [0.3, 0.3, 0.3]]),
    "random": np.random.default_rng(0).normal(size=(5, 3)),
}


@pytest.mark.parametrize("b", RADII)
@pytest.mark.parametrize("c", CENTERS)
@pytest.mark.parametrize("name", [None, *UTILITIES])
def test_rules_agree_with_all_members(c, b, name):
    utility = UTILITIES.get(name)
    q = oracle.members(np.array(c), b)
    earned = q if utility is None else q @ utility.T
    arrays = np.log([c]), np.array([b])
    lead = earned[:, :, None] - earned[:, None, :]  # of action a over b
    best = lead.min(axis=2).max(axis=0)
    unbeaten = lead.max(axis=0).min(axis=1)
    admissible = ball.e_admissible(*arrays, utility)[0]
    maximal = ball.maximality(*arrays, utility)[0]
    for kept, margin in ((admissible, best), (maximal, unbeaten)):
        assert kept[margin >= 0].all()
        assert not kept[margin < -CLEAR].any()
    assert not (admissible & ~maximal).any()
    regret = -lead.min(axis=0).min(axis=1)
    assert regret[ball.minimax_regret(*arrays, utility)[0]] <= regret.min() + CLEAR


def test_needs_agree_with_a_general_solver():
    rng = np.random.default_rng(3)
    for K in (2, 3, 5, 8):
        c = rng.dirichlet(np.ones(K))
        to_win = ball.need_to_win(np.log([c]), np.array([0.1]))[0]
        to_reach = ball.need_to_reach(np.log([c]))[0]
        first = np.eye(K)[c.argmax()]
        for k, e in enumerate(np.eye(K)):
            rivals = np.delete(e - np.eye(K), k, axis=0)
            assert to_win[k] == pytest.approx(oracle.need(rivals, c), abs=1e-8)
            if k != c.argmax():
                assert to_reach[k] == pytest.approx(oracle.need((e - first)[None], c), abs=1e-8)


@at_most(40)
@given(nasty_balls())
def test_needs_are_finite_where_they_should_be_and_ordered(case):
    log_c, radius = case
    to_win, to_reach = ball.need_to_win(log_c, radius), ball.need_to_reach(log_c)
    there = log_c > -np.inf
    assert np.isfinite(to_win[there]).all()
    assert (to_win[~there] == np.inf).all()
    assert (to_win >= to_reach * (1 - 1e-12) - 1e-12).all()
    assert (to_win[log_c == log_c.max(axis=1, keepdims=True)] < 1e-30).all()
    # Raising class k alone to the top is one way to make it the most probable.
    assert (to_win[there] <= -log_c[there] + 1e-9).all()
    for need in (to_win, to_reach):  # a less probable class needs more
        by_center = np.take_along_axis(need, np.argsort(-log_c, axis=1, kind="stable"), axis=1)
        later, earlier = by_center[:, 1:], by_center[:, :-1]
        assert (later >= earlier * (1 - 1e-12) - 1e-12).all()


def test_needs_close_to_the_radius_are_computed_with_care():
    # Two classes that differ by 1e-7: the need is (1e-7)² / 4 / 0.8, of which doubles that add up
    # to one know nothing.
    c = np.array([[0.4 + 1e-7, 0.4 - 1e-7, 0.2]])
    exact = -np.log1p(-((np.sqrt(c[0, 0]) - np.sqrt(c[0, 1])) ** 2))
    need = ball.need_to_win(np.log(c), np.array([exact]))[0, 1]
    assert need == pytest.approx(exact, rel=1e-6)
    assert ball.e_admissible(np.log(c), np.array([exact * 1.001]))[0, 1]
    assert not ball.e_admissible(np.log(c), np.array([exact * 0.99]))[0, 1]


@at_most(40)
@given(nasty_balls())
def test_rules_are_nested_in_each_other_and_in_those_of_the_box(case):
    log_c, radius = case
    box = support.box(log_c, radius)
    dominant = decisions.interval_dominance(*box)
    maximal, admissible = ball.maximality(log_c, radius), ball.e_admissible(log_c, radius)
    assert admissible.any(axis=1).all()
    assert not (admissible & ~maximal).any()
    assert not (maximal & ~dominant).any()
    assert not (admissible & ~decisions.e_admissible(*box)).any()


@at_most(15)
@given(nasty_balls(rows=3, max_classes=5), st.integers(0, 10**6))
def test_rules_with_utilities_are_nested_too_and_0_1_utilities_change_nothing(case, seed):
    log_c, radius = case
    K = log_c.shape[1]
    rng = np.random.default_rng(seed)
    utility = rng.integers(-3, 4, size=(4, K)) * 10.0 ** rng.integers(-3, 4)
    maximal = ball.maximality(log_c, radius, utility)
    admissible = ball.e_admissible(log_c, radius, utility)
    assert admissible.any(axis=1).all()
    assert not (admissible & ~maximal).any()
    # Clear cases only: games forgive 1e-9, closed forms 1e-12.
    wider = np.nextafter(radius, np.inf) * (1 + 1e-6) + 1e-12
    assert not (
        ball.e_admissible(log_c, radius, np.eye(K)) & ~ball.e_admissible(log_c, wider)
    ).any()
    assert not (
        ball.e_admissible(log_c, radius) & ~ball.e_admissible(log_c, wider, np.eye(K))
    ).any()
    assert not (ball.maximality(log_c, radius) & ~ball.maximality(log_c, wider, np.eye(K))).any()


def test_a_distribution_is_within_reach_of_a_ball_from_its_distance_on():
    rng = np.random.default_rng(6)
    far = 0
    for K in (2, 3, 6):
        for b in (0.001, 0.1, 0.5):
            c, p = rng.dirichlet(np.ones(K), size=2)
            distance = oracle.distance(p, c, b)
            if distance < 1e-4:
                continue
            far += 1
            row = np.log([c]), np.array([b]), p[None]
            assert ball.contains(*row, atol=distance * 1.001)[0]
            assert not ball.contains(*row, atol=distance * 0.999)[0]
    assert far > 3


@at_most(40)
@given(nasty_balls(), st.integers(0, 10**6))
def test_members_are_never_turned_away(case, seed):
    log_c, radius = case
    rng = np.random.default_rng(seed)
    v = rng.normal(size=log_c.shape[1])
    border = support.extreme_member(log_c, v, radius * (1 - 1e-6))
    center = np.exp(log_c)
    inner = center + rng.random((len(log_c), 1)) * (border - center)
    exact = radius >= 1e-7  # a millionth of it is more than what members are rounded by, 1e-14
    for q in (border, inner, center):
        q = q / q.sum(axis=1, keepdims=True)
        for atol in (0.0, 1e-9, 5e-4):
            inside = ball.contains(log_c, radius, q, atol=atol)
            assert inside[exact | (atol > 1e-8)].all()


def test_what_the_center_excludes_is_excluded_however_large_the_ball():
    log_c, radius = np.array([[np.log(0.5), np.log(0.5), -np.inf]]), np.array([np.inf])
    assert not ball.contains(log_c, radius, np.array([[0.5, 0.4, 0.1]]), atol=0.0)[0]
    assert ball.contains(log_c, radius, np.array([[0.5, 0.4996, 0.0004]]), atol=5e-4)[0]
    assert ball.contains(log_c, radius, np.array([[1.0, 0.0, 0.0]]), atol=0.0)[0]
    assert ball.e_admissible(log_c, radius).tolist() == [[True, True, False]]
