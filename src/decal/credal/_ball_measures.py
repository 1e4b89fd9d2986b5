"""How uncertain a ball { q : KL(q || c) <= b } is: zero-one loss and total variation.

`log_c` (n, K) and `radius` (n,) as in `_ball_support`.
"""

from __future__ import annotations

import numpy as np

from decal._base.numerics import Array, row_blocks
from decal.credal._ball_decisions import e_admissible
from decal.credal._ball_support import interval, log_odds, log_sum_exp_of, support
from decal.credal._total_variation import EXACT_CLASSES, TotalVariation, greedy_gap, least_gap

SPLIT_ELEMENTS = 1 << 18
"""Sums held at once, or rows that are split together: a greedy split loops over the classes."""


def zero_one(log_c: Array, radius: Array) -> Array:
    """Zero-one epistemic uncertainty of each ball, (n,): max_{p, p'} max_k p_k - p_{argmax p'}.

    The greatest q_k - q_j over the ball rises with c_k and falls with c_j. So the class j that is
    an E-admissible argmax p' and costs most is the one that is least probable at the center, and
    k is the center's first class: one direction per row.

    Parameters
    ----------
    log_c : (n, K) array
        Log-probabilities of the centers.
    radius : (n,) array
        Nats.

    Returns
    -------
    (n,) array
        0 if only one class is E-admissible, 1 for the vacuous set.

    Examples
    --------
    >>> zero_one(np.log([[0.25, 0.5, 0.25], [0.1, 0.7, 0.2]]), np.array([0.1, 0.01])).round(4)
    array([0.6017, 0.    ])
    """
    regret = np.zeros(len(log_c))
    for rows in row_blocks(*log_c.shape):
        z = log_c[rows]
        best = z.argmax(axis=1)
        rivals = e_admissible(z, radius[rows])
        rivals[np.arange(len(z)), best] = False  # not the first class itself, but one that ties
        worst = np.where(rivals, z, np.inf).argmin(axis=1)
        each = np.flatnonzero(rivals.any(axis=1))
        first, last = best[each], worst[each]
        others = z[each].copy()
        others[np.arange(len(each)), first] = others[np.arange(len(each)), last] = -np.inf
        rest = log_sum_exp_of(others)
        three = np.column_stack([z[each, last], rest, z[each, first]])
        regret[rows][each] = support(three, np.array([-1.0, 0.0, 1.0]), radius[rows][each])
    return np.maximum(regret, 0.0)


def ball_total_variation(log_c: Array, radius: Array) -> TotalVariation:
    """Greatest total variation distance of two members of each ball.

    It is the greatest imprecision of an event, max_A upper(A) - lower(A), and that depends on A
    only through its probability at the center, c(A). It is concave in c(A) (`_ball_support`: the
    greatest expectation is a minimum of concave functions of c) and the same for A and its
    complement, so it is greatest for the event nearest to 1/2. That is number partitioning. A class
    of probability 1/2 or more is such an event; up to `EXACT_CLASSES` classes all events are
    compared; beyond, the value is that of a greedy split, and the bound that of 1/2.

    Parameters
    ----------
    log_c : (n, K) array
        Log-probabilities of the centers.
    radius : (n,) array
        Nats.

    Returns
    -------
    TotalVariation
        `lower`, `upper` and `exact`, each (n,). 0 for a point, 1 for the vacuous set.

    Notes
    -----
    O(K log K) time per row; up to `EXACT_CLASSES` classes, without one of 1/2 or more,
    O(K 2^(K/2)).

    Examples
    --------
    >>> ball_total_variation(np.log([[0.25, 0.5, 0.25]]), np.array([0.1])).lower.round(4)
    array([0.4396])
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
    return TotalVariation(value, np.where(proved, value, np.maximum(high - low, value)))


def attained_variation(log_c: Array, radius: Array) -> Array:
    """(n,) the lower endpoint of each bracket of `ball_total_variation`."""
    return ball_total_variation(log_c, radius).lower
