"""Expectations over balls against solvers, exact arithmetic and the box."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, rel_entr

from decal._base.bernoulli import largest_log_odds
from decal.credal import _ball_support as ball
from helpers.balls import log_center, nasty_balls
from helpers.strategies import at_most
from oracles import balls as oracle

EPS = np.finfo(float).eps


@pytest.mark.parametrize("b", [0.001, 0.01, 0.2, 0.69, 1.5, np.inf])
def test_no_member_goes_beyond_and_some_member_comes_close(b):
    rng = np.random.default_rng(1)
    for c in ([0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.97, 0.02, 0.01], [1 / 3, 1 / 3, 1 / 3]):
        members = oracle.members(np.array(c), b)
        for v in (rng.normal(size=3), np.array([0.0, 1.0, 5.0]), np.array([1.0, 1.0, -1.0])):
            least, greatest = ball.expectation(np.log([c]), np.array([b]), v)
            earned = members @ v
            assert earned.max() <= greatest[0] + 1e-12
            assert earned.min() >= least[0] - 1e-12
            assert greatest[0] - earned.max() < 2e-3
            assert earned.min() - least[0] < 2e-3


def test_expectations_agree_with_a_general_solver():
    rng = np.random.default_rng(2)
    for K in (2, 4, 7):
        c, v, b = rng.dirichlet(np.ones(K)), rng.normal(size=K), rng.uniform(0.01, 0.5)
        found = ball.support(np.log([c]), v, np.array([b]))[0]
        assert found == pytest.approx(oracle.greatest(v, c, b), abs=2e-5)


@at_most(20)
@given(
    nasty_balls(rows=2, max_classes=4, spreads=(0.3, 2.0, 12.0, 90.0, 700.0)),
    st.lists(st.sampled_from([-3.0, 0.0, 1.0, 1.0 + 1e-9, 1e6]), min_size=4, max_size=4),
)
def test_expectations_are_exact_to_rounding_whatever_the_center(case, values):
    log_c, radius = case
    v = np.array(values[: log_c.shape[1]])
    found = ball.support(log_c, v, radius)
    for z, b, value in zip(log_c, radius, found, strict=True):
        if b == np.inf:
            assert value == v[z > -np.inf].max()
        else:
            exact = oracle.proved_greatest(z, v, b)
            assert abs(value - exact) <= 40 * EPS * max(abs(v).max(), mpmath.mpf(1))


@pytest.mark.parametrize("b", [10.0, 20.5, 150.0])
def test_tilts_that_first_favour_one_class_and_then_another_are_found(b):
    # Up to b = 20 the second class grows; then the third, which takes tilts that overflow.
    log_c, v = log_center([[0.0, -20.0, -300.0]]), np.array([0.0, 0.9, 1.0])
    exact = oracle.proved_greatest(log_c[0], v, b)
    assert abs(ball.support(log_c, v, np.array([b]))[0] - exact) <= 40 * EPS


@at_most(40)
@given(nasty_balls(), st.integers(0, 10**6))
def test_the_extreme_member_is_a_member_and_attains_the_greatest_expectation(case, seed):
    log_c, radius = case
    v = np.random.default_rng(seed).normal(size=log_c.shape[1])
    q = ball.extreme_member(log_c, v, radius)
    assert q.sum(axis=1) == pytest.approx(1)
    assert (q[np.isneginf(log_c)] == 0).all()
    excess = np.sqrt(ball.divergence(q, log_c)) - np.sqrt(radius)
    assert (excess[radius >= 1e-9] <= 1e-6).all()
    np.testing.assert_allclose(q @ v, ball.support(log_c, v, radius), rtol=0, atol=1e-11)


@at_most(40)
@given(nasty_balls())
def test_supports_along_the_axes_are_the_box(case):
    log_c, radius = case
    K = log_c.shape[1]
    lower, upper = ball.box(log_c, radius)
    least, greatest = ball.expectation(log_c, radius, np.eye(K))
    np.testing.assert_allclose(least, lower, rtol=0, atol=1e-15)
    np.testing.assert_allclose(greatest, upper, rtol=0, atol=1e-15)
    for k in range(K):  # and by the general search, which the above need not
        e = np.eye(K)[k]
        np.testing.assert_allclose(ball.support(log_c, e, radius), upper[:, k], rtol=0, atol=1e-14)
        found = -ball.support(log_c, -e, radius)
        np.testing.assert_allclose(found, lower[:, k], rtol=0, atol=1e-14)


def test_many_classes_and_values_of_every_size():
    rng = np.random.default_rng(3)
    log_c = log_center(3 * rng.normal(size=(2, 49_152)))
    v = rng.normal(size=49_152)
    for size in (1e-300, 1.0, 1e300):
        least, greatest = ball.expectation(log_c, np.array([0.1, 5.0]), v * size)
        assert (least < greatest).all()
        assert greatest / size == pytest.approx(ball.support(log_c, v, np.array([0.1, 5.0])))
    mean = np.exp(log_c) @ v
    np.testing.assert_allclose(ball.support(log_c, v, np.zeros(2)), mean, atol=1e-13)
    np.testing.assert_array_equal(ball.support(log_c, v, np.full(2, np.inf)), v.max())


def test_classes_of_equal_value_act_as_one():
    rng = np.random.default_rng(4)
    log_c, radius = log_center(2 * rng.normal(size=(3, 9))), np.array([0.01, 0.3, 2.0])
    v = np.repeat([1.0, -2.0, 0.5], 3)
    merged, values = ball.of_few_values(log_c, np.stack([v, np.eye(9)[2]]), np.array([0, 1, 0]))
    assert merged.shape == values.shape == (3, 3)
    own = np.stack([v, np.eye(9)[2], v])
    np.testing.assert_allclose(
        ball.support(merged, values, radius), ball.support(log_c, own, radius), atol=1e-14
    )
    unmerged, _ = ball.of_few_values(log_c, rng.normal(size=(1, 9)), np.zeros(3, dtype=int))
    assert unmerged is log_c


def test_an_event_is_a_question_about_two_outcomes():
    c, b = np.array([0.1, 0.2, 0.3, 0.4]), 0.2
    inside = np.array([1.0, 0.0, 1.0, 0.0])
    found = ball.expectation(np.log([c]), np.array([b]), inside)
    assert [end[0] for end in found] == pytest.approx(oracle.event_range(0.4, b), abs=1e-13)
    assert found[1][0] == pytest.approx(oracle.greatest(inside, c, b), abs=2e-5)


def test_divergences_are_exact_however_small():
    c = np.array([[0.2, 0.3, 0.5]])
    for size in (1e-1, 1e-3, 1e-6, 1e-9):
        p = c + size * np.array([[1.0, -2.0, 1.0]])
        with mpmath.workdps(50):
            terms = zip(map(mpmath.mpf, p[0]), map(mpmath.mpf, c[0]), strict=True)
            exact = sum(x * mpmath.log(x / y) - x + y for x, y in terms)
        found = ball.divergence(p, np.log(c))[0]
        assert found == pytest.approx(float(exact), rel=1e-5 if size < 1e-6 else 1e-9)
    rng = np.random.default_rng(5)
    p, c = rng.dirichlet(np.full(4, 0.3), size=(2, 50))
    p[:25, 0] = 0
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ball.divergence(p, np.log(c)), rel_entr(p, c).sum(axis=1))
    assert ball.divergence(np.array([[0.5, 0.5]]), np.array([[0.0, -np.inf]]))[0] == np.inf


def test_nearly_equal_values_are_told_apart():
    log_c = np.log([[0.32914, 0.32914, 0.34172]])
    values, radius = np.array([-3.0, 1.0, 1.0 + 1e-9]), np.array([0.4])  # just past the first class
    found = ball.support(log_c, values, radius)[0]
    # What is left is a ball of two classes: their entropy of mixing is the radius less the rest.
    rest = -np.log(0.32914 + 0.34172)
    q = expit(largest_log_odds(np.log(0.34172 / 0.32914), 0.4 - rest))
    assert found == pytest.approx(1.0 + 1e-9 * q, abs=1e-14)
