"""Risk-coverage curves, thresholds and selections, by their definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations
from math import comb, inf


def risks(scores, losses):
    """The mean loss of the best 1, 2, ..., n rows: in the mean over all orders of equal scores."""
    n = len(scores)
    totals = [Fraction(0)] * n
    orders = [
        order
        for order in permutations(range(n))
        if all(scores[i] <= scores[j] for i, j in pairwise(order))
    ]
    for order in orders:
        kept = Fraction(0)
        for k, row in enumerate(order):
            kept += Fraction(losses[row])
            totals[k] += kept / (k + 1)
    return [total / len(orders) for total in totals]


def thresholds(scores):
    """Every threshold that keeps another set of rows, those below it, from none to all."""
    return [*sorted(set(scores)), inf]


def slips(scores, wrong, threshold):
    """How many rows are kept and wrong."""
    return sum(w and s < threshold for s, w in zip(scores, wrong, strict=True))


def largest_for_slips(scores, wrong, rate):
    """The largest threshold with (slips + 1) / (n + 1) <= rate; -inf if there is none."""
    fine = [
        t
        for t in [-inf, *thresholds(scores)]
        if Fraction(slips(scores, wrong, t) + 1, len(scores) + 1) <= Fraction(rate)
    ]
    return max(fine, default=-inf)


def least_cost(scores, wrong, cost):
    """The least total of errors that are kept, at 1 each, and of checks, at `cost` each."""
    return min(
        slips(scores, wrong, t) + Fraction(cost) * sum(s >= t for s in scores)
        for t in thresholds(scores)
    )


def binomial_tail(errors, rows, rate):
    """P(Binomial(rows, rate) <= errors)."""
    rate = Fraction(rate)
    terms = (comb(rows, k) * rate**k * (1 - rate) ** (rows - k) for k in range(errors + 1))
    return float(sum(terms))


def selected(batch, scores, wrong, rate):
    """Rows of a batch kept by Benjamini and Hochberg's procedure with conformal p-values."""
    p = [
        Fraction(1 + sum(w and s <= x for s, w in zip(scores, wrong, strict=True)), len(scores) + 1)
        for x in batch
    ]
    m = len(batch)
    counts = [k for k in range(1, m + 1) if sorted(p)[k - 1] <= Fraction(rate) * k / m]
    if not counts:
        return [False] * m
    return [value <= sorted(p)[max(counts) - 1] for value in p]
