"""Sets of distributions in exact rational arithmetic: slow, literal, importing nothing from decal.

Floats are rationals, so every bound, vertex and utility is taken as it is. Logarithms, which no
rational has, are taken by mpmath in the end.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product

import mpmath


def rationals(values):
    return [Fraction(float(v)) for v in values]


def box_vertices(lower, upper):
    """All extreme points of {lower <= p <= upper, sum p = 1}: at most one class off its bounds."""
    low, high = rationals(lower), rationals(upper)
    K, found = len(low), set()
    for free in range(K):
        others = [k for k in range(K) if k != free]
        for corner in product(*[{low[k], high[k]} for k in others]):
            rest = 1 - sum(corner)
            if low[free] <= rest <= high[free]:
                p = dict(zip(others, corner, strict=True)) | {free: rest}
                found.add(tuple(p[k] for k in range(K)))
    return sorted(found)


def expectations(vertices, values):
    """The expected values of one function of the class at all vertices."""
    values = rationals(values)
    return [sum(p * v for p, v in zip(vertex, values, strict=True)) for vertex in vertices]


def game_value(payoffs):
    """max over mixtures w of rows of the least column of w @ payoffs, by the simplex method.

    With payoffs made positive, the columns' player solves: maximise sum y subject to payoffs y <= 1
    and y >= 0; the value is 1 / sum y. Bland's rule: it cannot cycle.
    """
    rows, columns = len(payoffs), len(payoffs[0])
    offset = 1 - min(min(row) for row in payoffs)
    tableau = [
        [*(x + offset for x in row), *(Fraction(int(i == s)) for s in range(rows)), Fraction(1)]
        for i, row in enumerate(payoffs)
    ]
    gains = [Fraction(1)] * columns + [Fraction(0)] * (rows + 1)
    basis = list(range(columns, columns + rows))
    while any(gain > 0 for gain in gains[:-1]):
        enters = next(j for j, gain in enumerate(gains[:-1]) if gain > 0)
        ratios = [
            (row[-1] / row[enters], basis[i], i) for i, row in enumerate(tableau) if row[enters] > 0
        ]
        _, _, leaves = min(ratios)
        pivot = tableau[leaves][enters]
        tableau[leaves] = [x / pivot for x in tableau[leaves]]
        for i, row in enumerate(tableau):
            if i != leaves and row[enters]:
                factor = row[enters]
                tableau[i] = [a - factor * b for a, b in zip(row, tableau[leaves], strict=True)]
        factor = gains[enters]
        gains = [a - factor * b for a, b in zip(gains, tableau[leaves], strict=True)]
        basis[leaves] = enters
    return 1 / -gains[-1] - offset


def dominance_margin(earned, a):
    """Interval dominance: best case of a minus the best worst case. `earned` is per vertex."""
    best = max(row[a] for row in earned)
    return best - max(min(row[b] for row in earned) for b in range(len(earned[0])))


def maximality_margin(earned, a):
    """Minus the largest lead that some b keeps over a at every vertex."""
    return -max(min(row[b] - row[a] for row in earned) for b in range(len(earned[0])))


def admissible_margin(earned, a):
    """max over mixtures of vertices of the least lead of a over another action."""
    rivals = [b for b in range(len(earned[0])) if b != a]
    if not rivals:
        return Fraction(1)
    return game_value([[row[a] - row[b] for b in rivals] for row in earned])


def regret(earned, a):
    """Greatest shortfall of a from the best action."""
    return max(max(row) - row[a] for row in earned)


def zero_one(vertices):
    """Greatest regret of predicting a class that some member calls most probable."""
    classes = [j for j in range(len(vertices[0])) if admissible_margin(vertices, j) >= 0]
    return max(regret(vertices, j) for j in classes)


def entropy(p):
    """In nats, to the precision of mpmath."""
    exact = [mpmath.mpf(x.numerator) / x.denominator for x in p if x]
    return -mpmath.fsum(x * mpmath.log(x) for x in exact)


def most_level(lower, upper):
    """The distribution in a box with clip(t, lower, upper) for one level t: of highest entropy.

    The sum rises with t and is linear between bounds: find where it is 1.
    """
    low, high = rationals(lower), rationals(upper)

    def clipped(t):
        return [min(max(t, a), b) for a, b in zip(low, high, strict=True)]

    knots = sorted({*low, *high})
    for start, end in pairwise(knots):
        below, above = sum(clipped(start)), sum(clipped(end))
        if below <= 1 <= above:
            t = start if below == above else start + (end - start) * (1 - below) / (above - below)
            return clipped(t)
    return clipped(knots[0])


def hartley(lower, upper):
    """sum m(A) ln|A|, with m from the lower probabilities of all sets of classes."""
    low, high = rationals(lower), rationals(upper)
    K, mass, total = len(low), {}, mpmath.mpf(0)
    for size in range(K + 1):
        for chosen in combinations(range(K), size):
            A = frozenset(chosen)
            least = max(sum(low[k] for k in A), 1 - sum(high[k] for k in range(K) if k not in A))
            mass[A] = least - sum(m for B, m in mass.items() if B < A)
            if size > 1:
                exact = mpmath.mpf(mass[A].numerator) / mass[A].denominator
                total += exact * mpmath.log(size)
    return total


def reachable(vertices):
    """The least and greatest probability of every class at the vertices."""
    columns = list(zip(*vertices, strict=True))
    return [min(c) for c in columns], [max(c) for c in columns]
