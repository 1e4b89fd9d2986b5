"""Divergences by their definition, in arbitrary precision."""

from __future__ import annotations

import mpmath
import numpy as np

DIGITS = 100
"""For log-odds of any size: no term of the divergence is a difference of nearly equal numbers,
but for those of log-odds that are close to each other."""

ROUNDINGS = 2.0**-50
"""Share of a budget within which it counts as met."""

UNIT = float(np.finfo(np.longdouble).eps)
"""Where a long double is a double, all is left to mpmath."""


def bernoulli(x, m):
    """kl(q || c) of two outcomes, for the log-odds x of q and m of c."""
    q, p = 1 / (1 + mpmath.exp(-x)), 1 / (1 + mpmath.exp(x))
    c, d = 1 / (1 + mpmath.exp(-m)), 1 / (1 + mpmath.exp(m))
    return q * mpmath.log(q / c) + p * mpmath.log(p / d)


def is_largest(x, m, budget, *, room):
    """Whether x, give or take `room`, is the largest log-odds within the budget of those of m.

    The budget counts as met within four roundings: where it nearly reaches certainty, a rounding of
    the budget moves the endpoint further than any room.
    """
    with mpmath.workdps(60 + int(max(abs(m), abs(x) if abs(x) < mpmath.inf else 0))):
        m, budget = mpmath.mpf(float(m)), mpmath.mpf(float(budget))
        rounding = budget * mpmath.mpf(2) ** -50
        most = mpmath.log1p(mpmath.exp(-m))
        if x == mpmath.inf:
            return most <= budget + rounding
        x = mpmath.mpf(float(x))
        inside = bernoulli(max(x - room, m), m) <= budget + rounding
        return inside and bernoulli(x + room, m) >= budget - rounding


def encloses(low, high, m, budget, rounding=ROUNDINGS):
    """Whether the largest log-odds within the budget of those of m lie from low to high.

    An infinite high sets no limit. Arrays of log-odds and budgets, m finite. The budget counts as
    met within the share `rounding` of it. Long doubles decide, with a bound of their own
    round-off; where they cannot, mpmath does.
    """
    low, high, m = (np.asarray(a, np.longdouble) for a in (low, high, m))
    b = np.broadcast_to(np.asarray(budget, np.longdouble), low.shape)
    inside, unsure = _at_most(low, m, b * (1 + np.longdouble(rounding)))
    above, unsure_above = _at_most(high, m, b * (1 - np.longdouble(rounding)))
    above &= high < np.inf
    found = inside & ~above
    for at in zip(*np.nonzero(unsure | unsure_above), strict=True):
        found[at] = encloses_exactly(low[at], high[at], m[at], b[at], rounding)
    return found


def encloses_exactly(low, high, m, budget, rounding=ROUNDINGS):
    """The same for numbers, by mpmath alone."""
    with mpmath.workdps(DIGITS):
        low, high, m, b = map(exactly, (low, high, m, budget))
        inside = divergence(low, m) <= b * (1 + mpmath.mpf(rounding))
        beyond = high == mpmath.inf or divergence(high, m) >= b * (1 - mpmath.mpf(rounding))
        return bool(inside and beyond)


def exactly(x):
    """A double or long double in mpmath."""
    high = float(x)
    return mpmath.mpf(high) + mpmath.mpf(float(x - high)) if abs(high) < mpmath.inf else high


def divergence(x, m):
    """kl(q || c) = q (log q - log c) + (1 - q) (log(1 - q) - log(1 - c)), for x >= m.

    The logarithms of the probabilities are those of 1 + exp of log-odds, which are exact in both
    tails. For x below m, 0.
    """
    if x <= m:
        return mpmath.mpf(0)
    if x == mpmath.inf:
        return _softplus(-m)
    q, p = mpmath.exp(-_softplus(-x)), mpmath.exp(-_softplus(x))
    return q * (_softplus(-m) - _softplus(-x)) + p * (_softplus(m) - _softplus(x))


def _softplus(x):
    return mpmath.log1p(mpmath.exp(x)) if x < 0 else x + mpmath.log1p(mpmath.exp(-x))


def _at_most(x, m, budget):
    """Whether the divergences are at most the budget, in long doubles, and where that is unsure."""
    x = np.maximum(x, m)
    certain = x == np.inf
    x = np.where(certain, m, x)
    to_m, from_m = (_long_softplus(s * m) for s in (-1, 1))
    to_x, from_x = (_long_softplus(s * x) for s in (-1, 1))
    q, p = np.exp(-to_x), np.exp(-from_x)
    value = np.where(certain, to_m, q * (to_m - to_x) + p * (from_m - from_x))
    terms = np.where(certain, to_m, q * (to_m + to_x) + p * (from_m + from_x))
    # exp multiplies the error of its argument, which is at most a unit of 1 + to_x.
    error = 8 * UNIT * (terms * (1 + np.minimum(to_x, from_x)) + budget)
    return value <= budget, np.abs(value - budget) <= error


def _long_softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
