"""Definitions in arbitrary precision: slow, literal, and right for logits of any size.

Logits of -inf mask a class: it has no probability, whatever the shifts.
"""

from __future__ import annotations

import mpmath

DIGITS = 50
"""Beyond those that the logits themselves need."""


def precise(logits):
    """A context with digits enough for logits of this size to differ by far less than one."""
    largest = max(
        [abs(float(z)) for row in logits for z in row if abs(float(z)) < mpmath.inf] + [1]
    )
    return mpmath.workdps(DIGITS + len(str(int(largest))))


def numbers(row):
    return [mpmath.mpf(float(z)) for z in row]


def softplus(x):
    if x > 0:
        return x + mpmath.log1p(mpmath.exp(-x))
    return mpmath.log1p(mpmath.exp(x))


def log_sum(values):
    top = max(values)
    return top + mpmath.log(sum(mpmath.exp(v - top) for v in values))


def margin(row, k):
    """Log-odds of class k against all others: perhaps infinite."""
    z = numbers(row)
    others = [v for j, v in enumerate(z) if j != k and v > -mpmath.inf]
    if z[k] == -mpmath.inf:
        return -mpmath.inf
    return z[k] - log_sum(others) if others else mpmath.inf


def gain(logits, labels, k, t, weights):
    """What shifting class k by t changes in the log-likelihood of the labels."""
    total, t = mpmath.mpf(0), mpmath.mpf(float(t))
    for row, y, w in zip(logits, labels, weights, strict=True):
        m = margin(row, k)
        if abs(m) == mpmath.inf:
            continue
        total += mpmath.mpf(float(w)) * ((t if y == k else 0) - (softplus(m + t) - softplus(m)))
    return total


def log_probabilities(row, shifts):
    """Log-probabilities of a row of logits plus shifts, either of them perhaps -inf."""
    moved = [z + c for z, c in zip(numbers(row), numbers(shifts), strict=True)]
    total = log_sum([v for v in moved if v > -mpmath.inf])
    return [v - total for v in moved]


def slope(logits, labels, k, shifts, weights):
    """The derivative of the log-likelihood by the shift of class k."""
    total = mpmath.mpf(0)
    for row, y, w in zip(logits, labels, weights, strict=True):
        p = mpmath.exp(log_probabilities(row, shifts)[k])
        total += mpmath.mpf(float(w)) * ((1 if y == k else 0) - p)
    return total
