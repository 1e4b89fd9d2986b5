"""Several labels per input by definition: one label at a time. Imports nothing from decal."""

from __future__ import annotations

import itertools
import math


def counts(table, order, classes):
    """How often each class was named for each input, of (input, label) lines; None is no label."""
    found = {name: dict.fromkeys(classes, 0) for name in order}
    for name, label in table:
        if label is not None:
            found[name][label] += 1
    return [[found[name][k] for k in classes] for name in order]


def one_by_one(rows, counts, weights=None):
    """A row, label and weight for every label: together they weigh as much as their input."""
    for i, (row, given) in enumerate(zip(rows, counts, strict=True)):
        total = sum(given)
        for label, times in enumerate(given):
            for _ in range(times):
                yield row, label, (1.0 if weights is None else weights[i]) / total


def draws(m, p):
    """All counts of m labels drawn from p, with their probabilities."""
    for found in itertools.product(range(m + 1), repeat=len(p) - 1):
        last = m - sum(found)
        if last >= 0:
            given = (*found, last)
            ways, chance = math.factorial(m), 1.0
            for n, share in zip(given, p, strict=True):
                ways //= math.factorial(n)
                chance *= share**n
            yield given, ways * chance


def pairs_that_differ(counts):
    """The share of pairs of labels of one input that differ, pair by pair."""
    labels = [k for k, times in enumerate(counts) for _ in range(times)]
    pairs = list(itertools.combinations(labels, 2))
    return sum(a != b for a, b in pairs) / len(pairs)


def least_disagreement(lower, upper):
    """The least 1 - sum p_k^2 in a box: that of a corner, one class off its bounds."""
    K, best = len(lower), math.inf
    for free in range(K):
        for ends in itertools.product((0, 1), repeat=K - 1):
            rest = [k for k in range(K) if k != free]
            p = {k: (lower[k], upper[k])[end] for k, end in zip(rest, ends, strict=True)}
            p[free] = 1 - sum(p.values())
            if lower[free] - 1e-12 <= p[free] <= upper[free] + 1e-12:
                best = min(best, 1 - sum(x * x for x in p.values()))
    return best


def greatest_disagreement(lower, upper):
    """The greatest 1 - sum p_k^2 in a box: that of clip(t), for the t that makes it sum to one."""
    low, high = 0.0, 1.0
    for _ in range(200):
        t = (low + high) / 2
        total = sum(min(max(t, a), b) for a, b in zip(lower, upper, strict=True))
        low, high = (t, high) if total < 1 else (low, t)
    return 1 - sum(min(max(low, a), b) ** 2 for a, b in zip(lower, upper, strict=True))
