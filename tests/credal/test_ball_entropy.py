"""Entropies of balls against all members, solvers and the theorem that makes them linear."""

import numpy as np
import pytest
from hypothesis import given

from decal.credal import _ball_support as ball
from decal.credal._ball_entropy import lower_entropy, upper_entropy
from decal.credal._box_entropy import phi
from helpers.balls import nasty_balls
from helpers.strategies import at_most
from oracles import balls as oracle

CENTERS = (
    [0.5, 0.3, 0.2],
    [0.4, 0.4, 0.2],  # the most probable tie: from some radius on, any split of the two will do
    [1 / 3, 1 / 3, 1 / 3],
    [0.97, 0.02, 0.01],
    [0.6, 0.2, 0.2],
)


def entropies(c, b):
    return lower_entropy(np.log([c]), np.array([b]))[0], upper_entropy(np.log([c]), np.array([b]))[
        0
    ]


@pytest.mark.parametrize("c", CENTERS)
@pytest.mark.parametrize("b", [0.001, 0.1, 0.3, 0.6, 1.0, 1.2])
def test_no_member_has_less_or_more_entropy_and_some_have_nearly_as_much(c, b):
    found = phi(oracle.members(np.array(c), b)).sum(axis=1)
    least, greatest = entropies(c, b)
    assert found.min() >= least - 1e-12
    assert found.max() <= greatest + 1e-12
    assert found.min() - least < 5e-3  # steep at corners
    assert greatest - found.max() < 2e-3


def test_entropies_agree_with_a_general_solver_from_many_starts():
    rng = np.random.default_rng(1)
    for K, b in ((4, 0.05), (5, 0.4)):
        c = rng.dirichlet(np.ones(K))
        least, greatest = entropies(c, b)
        assert least == pytest.approx(oracle.least_entropy(c, b), abs=1e-6)
        assert greatest == pytest.approx(oracle.greatest_entropy(c, b), abs=1e-6)


def test_a_certain_member_has_no_entropy_and_the_uniform_one_has_all():
    c = np.array([0.5, 0.3, 0.2])
    assert entropies(c, -np.log(0.5))[0] == 0
    assert entropies(c, -np.log(0.5) - 1e-6)[0] > 0
    uniform = oracle.divergence(np.full(3, 1 / 3), c)
    assert entropies(c, uniform)[1] == pytest.approx(np.log(3), abs=1e-15)
    assert entropies(c, uniform - 1e-6)[1] < np.log(3)
    assert entropies(c, 0.0) == pytest.approx([oracle.entropy(c)] * 2, abs=1e-15)


@at_most(40)
@given(nasty_balls())
def test_the_members_that_tilt_the_center_attain_both_entropies(case):
    log_c, radius = case
    least, greatest = lower_entropy(log_c, radius), upper_entropy(log_c, radius)
    count = (log_c > -np.inf).sum(axis=1)
    own = phi(np.exp(log_c)).sum(axis=1)
    assert (least >= 0).all()
    assert (greatest <= np.log(count)).all()
    assert (least <= own + 1e-12).all()
    assert (own <= greatest + 1e-12).all()
    finite = np.where(log_c > -np.inf, log_c, 0.0)
    sharper = phi(ball.extreme_member(log_c, finite, radius)).sum(axis=1)
    assert (least <= sharper + 1e-9).all()
    ties = (log_c == log_c.max(axis=1, keepdims=True)).sum(axis=1) > 1
    plain = ~ties & (radius < np.inf) & (log_c.min(axis=1) > -600)
    np.testing.assert_allclose(sharper[plain], least[plain], rtol=0, atol=1e-6)
    flatter = ball.extreme_member(log_c, -finite, radius)
    inside = greatest < np.log(count)
    steep = log_c.min(axis=1) > -600
    flat = phi(flatter).sum(axis=1)
    np.testing.assert_allclose(flat[inside & steep], greatest[inside & steep], rtol=0, atol=1e-6)
