"""Endpoints in log-odds against the definition of the divergence, in arbitrary precision."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decal._base.bernoulli import EndpointTable, certain_from, divergence, largest_log_odds
from decal._base.numerics import sigmoid
from oracles.divergences import bernoulli, is_largest

RELATIVE = 1e-12
log_odds = st.one_of(st.floats(-40, 40), st.floats(-800, 800), st.floats(-0.1, 0.1))
budgets = st.one_of(st.floats(1e-3, 5), st.floats(-30, 6.5).map(np.exp))


def check(m, b):
    x = float(largest_log_odds(m, b))
    assert x >= m
    assert is_largest(x, m, b, room=RELATIVE * max(abs(x), 1e-3) if np.isfinite(x) else 0.0)


@given(log_odds, budgets)
def test_the_divergence_at_the_endpoint_is_the_budget(m, b):
    check(m, b)


@pytest.mark.parametrize("c", [1e-300, 1e-17, 1e-9, 0.5, 1 - 1e-9, 1 - 1e-16])
@pytest.mark.parametrize("b", [1e-16, 1e-9, 1e-3, 0.1, 1.0, 30.0, 690.0])
def test_probabilities_near_0_and_1(c, b):
    check(np.log(c) - np.log1p(-c), b)


@given(log_odds, st.floats(1e-15, 0.5))
def test_budgets_that_nearly_reach_certainty(m, share):
    m = min(m, 690.0)  # beyond, budgets are too small to have all their digits
    check(m, float(np.logaddexp(0, -m)) * (1 - share))


def test_limits():
    m = np.array([-np.inf, -3.0, 0.0, 3.0, np.inf])
    np.testing.assert_array_equal(largest_log_odds(m, 0.0), m)
    np.testing.assert_array_equal(largest_log_odds(m, np.inf), [-np.inf, *[np.inf] * 4])
    np.testing.assert_array_equal(
        np.isinf(largest_log_odds(m, 0.7)), [True, False, True, True, True]
    )


@pytest.mark.parametrize("b", [5e-324, 1e-300, 1e-40, 1e-34, 1e-30])
def test_budgets_too_small_to_move_anything_move_nothing(b):
    m = np.array([-20.0, -1.0, 0.0, 1.0, 20.0])
    x = largest_log_odds(m, b)
    # A small shift t costs t² c (1 - c) / 2.
    shift = np.sqrt(2 * b * (2 + np.exp(m) + np.exp(-m)))
    assert np.all((x >= m) & (x <= m + 2 * shift + 4 * np.spacing(np.abs(m))))


@given(st.floats(1e-12, 500))
def test_certainty_is_within_the_budget_from_where_it_is_said_to_be(b):
    m = float(certain_from(b))
    assert np.logaddexp(0, -m) == pytest.approx(b, rel=1e-12)


@given(st.floats(-1e300, -1e3), st.floats(1e-9, 600))
def test_probabilities_too_small_to_be_written(m, b):
    # kl(q || c) is -m q, but for a term of less than log 2: q is close to b / -m.
    x = float(largest_log_odds(m, b))
    assert abs(sigmoid(np.array(x)) * -m - b) <= np.log(2) * (1 + 1e-9)


@given(log_odds, st.floats(-12, 4).map(np.exp))
def test_divergences_keep_their_digits(m, t):
    x = m + t
    value, rest = divergence(np.array([m]), np.array([x]))
    if x - m < 1e-6 or x > 600:
        return
    with mpmath.workdps(700):
        m, x = mpmath.mpf(m), mpmath.mpf(x)
        exact = bernoulli(x, m)
        left = mpmath.log1p(mpmath.exp(-m)) - exact
        assert float(value[0]) == pytest.approx(float(exact), rel=1e-11)
        assert float(rest[0]) == pytest.approx(float(left), rel=1e-11)


def test_more_budget_reaches_further():
    m = np.linspace(-30, 30, 601)[:, None]
    b = np.exp(np.linspace(-20, 3, 200))
    x = largest_log_odds(m, b)
    with np.errstate(invalid="ignore"):
        step = np.diff(x, axis=1)
    assert (step[np.isfinite(step)] > -1e-13).all()


def test_a_table_is_the_same_whoever_asks_first():
    piecemeal, at_once = EndpointTable.of(0.1), EndpointTable.of(0.1)
    for octave in np.random.default_rng(0).permutation(len(piecemeal.made) - 1):
        piecemeal.make(np.array([octave]))
    np.testing.assert_array_equal(piecemeal.powers, at_once.whole()[2])
