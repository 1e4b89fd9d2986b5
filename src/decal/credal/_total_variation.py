"""How far apart two members of a credal set can be, in total variation.

TV(p, q) = sum_k max(0, p_k - q_k) = max over events A of p(A) - q(A): the most that two members can
disagree about the probability of any event. So the greatest distance within a set is the greatest
imprecision of an event, max_A upper(A) - lower(A).

For a box with reachable bounds, d = upper - lower, R = 1 - sum(lower) and c = sum(upper) - 1,
upper(A) = min(upper_A, 1 - lower_rest) and lower(A) = max(lower_A, 1 - upper_rest), sums over A and
over its complement. The difference of a minimum and a maximum is the least of four differences:

    upper(A) - lower(A) = min(d(A), d(rest), R, c),   d(A) + d(rest) = R + c.

So the distance is min(R, c), unless no set of classes splits the widths that evenly; then it is the
lighter side of the most even split. That is number partitioning (any widths d occur, with R = c),
NP-hard in general and easy in practice: the greedy split mostly reaches min(R, c) or misses it by
little. Up to `EXACT_CLASSES` classes the most even split is found by meeting in the middle; beyond,
the best split found is the value and min(R, c) the bound.
"""

from __future__ import annotations

import numpy as np

from decal._base.numerics import Array, row_blocks
from decal.credal._ball_support import interval, log_odds
from decal.credal._box_measures import BRACKET_TOLERANCE, EXACT_CLASSES, Bracket

SPLIT_ELEMENTS = 1 << 18
"""Sums held at once, or centers that are split together: a greedy split loops over the classes."""


def box_total_variation(lower: Array, upper: Array) -> Bracket:
    """Greatest total variation distance of two members of each box; exact up to EXACT_CLASSES.

    Some two members are as far apart as the lower end.

    O(K log K) time per row; where the greedy split does not settle it, O(K 2^(K/2)) up to
    `EXACT_CLASSES` classes and a constant more beyond.
    """
    n, K = lower.shape
    value, bound = np.empty((2, n))
    for rows in row_blocks(n, K):
        d = -np.sort(lower[rows] - upper[rows], axis=1)
        room = np.minimum(1.0 - lower[rows].sum(axis=1), upper[rows].sum(axis=1) - 1.0)
        bound[rows] = np.maximum(room, 0.0)
        half = d.sum(axis=1) / 2.0
        value[rows] = np.minimum(bound[rows], half - greedy_gap(d) / 2.0)
    open_rows = np.flatnonzero(bound - value > BRACKET_TOLERANCE)
    # Beyond, all splits of the 16 widest classes are compared, and the others follow greedily.
    few = min(K, EXACT_CLASSES if K <= EXACT_CLASSES else 16)
    for block in row_blocks(len(open_rows), 2 ** (few // 2 + 2)):
        row = open_rows[block]
        d = -np.sort(lower[row] - upper[row], axis=1)
        gap = greedy_gap(d[:, few:], least_gap(d[:, :few]))
        found = np.maximum(value[row], np.minimum(bound[row], (d.sum(axis=1) - gap) / 2.0))
        value[row] = np.maximum(found, 0.0)
        if K <= EXACT_CLASSES:
            bound[row] = value[row]
    return Bracket(value, np.maximum(value, bound))


def hull_total_variation(vertices: Array) -> Array:
    """Greatest total variation distance of two members of each hull: (n,).

    The distance is convex in both members, so it is greatest at two vertices: O(M^2 K) per row.
    """
    n, M, K = vertices.shape
    greatest = np.zeros(n)
    for rows in row_blocks(n, M * K):
        for m in range(1, M):
            apart = np.abs(vertices[rows, m:] - vertices[rows, :-m]).sum(axis=2) / 2.0
            greatest[rows] = np.maximum(greatest[rows], apart.max(axis=1))
    return greatest


def ball_total_variation(log_c: Array, radius: Array) -> Bracket:
    """Greatest total variation distance of two members of each ball.

    It is the greatest imprecision of an event, max_A upper(A) - lower(A), and that depends on A
    only through its probability at the center, c(A). It is concave in c(A) (`_ball_support`: the
    greatest expectation is a minimum of concave functions of c) and the same for A and its
    complement, so it is greatest for the event nearest to 1/2. That is number partitioning. A class
    of probability 1/2 or more is such an event; up to `EXACT_CLASSES` classes all events are
    compared, in O(K 2^(K/2)); beyond, the value is that of a greedy split, and the bound that of
    1/2.
    """
    n, K = log_c.shape
    m = np.empty(n)  # log-odds of the event
    proved = np.ones(n, dtype=bool)
    few = K <= EXACT_CLASSES
    for rows in row_blocks(n, 2 ** (K // 2 + 2) if few else 1, SPLIT_ELEMENTS):
        odds = log_odds(log_c[rows]).max(axis=1)
        open_ = np.flatnonzero(odds < 0.0)
        c = -np.sort(-np.exp(log_c[rows][open_]), axis=1)
        gap = least_gap(c) if few else greedy_gap(c)
        odds[open_] = 2.0 * np.arctanh(np.minimum(gap, 1.0))
        proved[rows][open_] = few
        m[rows] = odds
    low, high = interval(m, radius)
    value = high - low
    low, high = interval(np.zeros(n), radius)
    return Bracket(value, np.where(proved, value, np.maximum(high - low, value)))


def greedy_gap(d: Array, gap: Array | None = None) -> Array:
    """What the two sides differ by after each width, in falling order, joins the lighter one."""
    gap = np.zeros(len(d)) if gap is None else gap
    for width in d.T:
        gap = np.abs(gap - width)
    return gap


def least_gap(d: Array) -> Array:
    """(n,) the least that the two sides of a split of the widths (n, k) can differ by."""
    # The sides may swap, so the first width is on the left: 2^(k-1) splits, the sums of two halves
    # that are sorted together. The best partner of each sum stands next to it.
    n, k = d.shape
    cut = (k + 1) // 2
    left = _signed_sums(d[:, :1], d[:, 1:cut])
    right = _signed_sums(np.zeros((n, 1)), d[:, cut:])
    both = np.concatenate([left, right], axis=1)
    order = np.argsort(both, axis=1)
    both = np.take_along_axis(both, order, axis=1)
    is_left = order < left.shape[1]
    # For each left sum, the nearest right sum below and above.
    below = np.maximum.accumulate(np.where(is_left, -np.inf, both), axis=1)
    above = np.minimum.accumulate(np.where(is_left, np.inf, both)[:, ::-1], axis=1)[:, ::-1]
    gap = np.minimum(both - below, above - both)
    return np.asarray(np.where(is_left, gap, np.inf).min(axis=1))


def _signed_sums(start: Array, values: Array) -> Array:
    """(n, 2^m) start plus or minus each of the m columns of `values`."""
    sums = start
    for column in values.T:
        sums = np.concatenate([sums + column[:, None], sums - column[:, None]], axis=1)
    return sums
