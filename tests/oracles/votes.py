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
