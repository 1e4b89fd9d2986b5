"""Weights of labels, budgets and bets by their definitions, one number at a time."""

from __future__ import annotations

import math


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


def divergence(p, losses):
    """KL(p || c) for c_k = exp(-losses_k)."""
    return sum(x * loss for x, loss in zip(p, losses, strict=True) if x > 0) - entropy(p)


def share(loss, other, budget):
    """The largest share of a class of one loss, mixed with one of the other, within the budget."""
    if loss <= budget:
        return 1.0
    low, high = 0.0, 1.0  # divergences are convex in the share, and `other` is within the budget
    for _ in range(200):
        m = (low + high) / 2
        inside = m * loss + (1 - m) * other - entropy([m, 1 - m]) <= budget
        low, high = (m, high) if inside else (low, m)
    return low


def weight(losses, label, threshold, budget):
    expected = [loss for loss in losses if loss <= threshold]
    if not expected:
        return 1.0
    last = max(expected)
    if losses[label] <= threshold:
        return 0.0 if last <= budget else 1.0
    return 1 / share(losses[label], last, max(budget, last))


def bound(rows, threshold, budget, largest, least_factor):
    """(sum of weights + the largest weight) / (n + 1), for rows of losses, label and factor."""
    total = 0.0
    for losses, label, factor in rows:
        total += weight(losses, label, threshold * factor, budget * factor)
    lasts = [min(threshold, budget) * least_factor * i / 50 for i in range(51)]
    worst = max(1 / share(largest, last, budget * least_factor) for last in lasts)
    return (total + worst) / (len(rows) + 1)


def wins(values, bound, most, error, largest_stake=0.75):
    """Whether a bet against a mean of `bound` or more ever multiplies its stake by 1 / error."""
    mu, n = bound / most, len(values)
    wealth, total, squares = 1.0, mu, mu * (1 - mu)
    for t, value in enumerate(values):
        x = value / most
        variance = squares / (t + 1)
        stake = math.sqrt(2 * math.log(1 / error) / (n * variance))
        wealth *= 1 - min(stake, largest_stake / (1 - mu)) * (x - mu)
        if wealth >= 1 / error:
            return True
        total += x
        squares += (x - total / (t + 2)) ** 2
    return False
