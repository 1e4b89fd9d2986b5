"""Counts of independent events, adjusted p-values and kernel errors, by their definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import dist, exp, sqrt


def mass(probabilities):
    """Exact probabilities of 0 to n events, one event after the other."""
    found = [Fraction(1)]
    for p in map(Fraction, probabilities):
        longer = [Fraction(0)] * (len(found) + 1)
        for count, chance in enumerate(found):
            longer[count] += chance * (1 - p)
            longer[count + 1] += chance * p
        found = longer
    return found


def greatest_tail(count, lower, upper):
    """The greatest P(S >= count) over events whose probabilities are at either of their bounds.

    The tail is linear in each probability, so no choice between the bounds exceeds this.
    """
    corners = product(*zip(lower, upper, strict=True))
    return max(float(sum(mass(corner)[max(count, 0) :])) for corner in corners)


def holm(p_values):
    """Holm's adjusted p-values: for each, the greatest of the corrected ones up to it."""
    m = len(p_values)
    ordered = sorted(p_values)
    corrected = [min(1.0, (m - i) * p) for i, p in enumerate(ordered)]
    return [max(corrected[: ordered.index(p) + 1]) for p in p_values]


def kernel_error(q, labels, places, bandwidth):
    """Sum over pairs of k(q, q') <e_y - q, e_y' - q'>, k a sum over landmarks, of square roots."""
    roots = [[sqrt(x) for x in row] for row in q]
    near = [[exp(-(dist(r, z) ** 2) / (2 * bandwidth**2)) for z in places] for r in roots]
    rest = [[(k == y) - x for k, x in enumerate(row)] for row, y in zip(q, labels, strict=True)]
    return sum(
        sum(a * b for a, b in zip(near[i], near[j], strict=True))
        * sum(a * b for a, b in zip(rest[i], rest[j], strict=True))
        for i in range(len(q))
        for j in range(len(q))
    )


def box_corners(lower, upper):
    """All corners of {lower <= q <= upper, sum q = 1}: all classes but one at a bound."""
    found = []
    for free in range(len(lower)):
        others = [k for k in range(len(lower)) if k != free]
        for ends in product(*((lower[k], upper[k]) for k in others)):
            rest = 1 - sum(ends)
            if lower[free] - 1e-12 <= rest <= upper[free] + 1e-12:
                corner = dict(zip(others, ends, strict=True)) | {free: rest}
                found.append([corner[k] for k in range(len(lower))])
    return found
