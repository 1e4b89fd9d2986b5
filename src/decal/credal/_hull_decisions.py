"""Decisions from convex hulls of probability vectors: membership, expectations, regret, rules.

A hull holds all mixtures of M vertices, each a distribution over K classes: what an ensemble, or a
handful of perturbed models, says about one input. `vertices` is (n, M, K) throughout, one hull per
row; vertices may repeat, be collinear, or lie inside the hull. No row is computed from another one.

Expectations are linear, so they are extreme at vertices. E-admissibility and membership are small
matrix games. The rules, their ties and their arguments are those of `decal.credal.decisions`.
"""

from __future__ import annotations

import numpy as np

from decal._base.games import GAME_TOLERANCE, Reply, bracket_values
from decal._base.numerics import Array, Indices, Mask, row_blocks
from decal.credal import decisions
from decal.credal.decisions import (
    ADMISSIBLE_TOLERANCE,
    TIE_TOLERANCE,
    action_units,
    contested,
    interval_dominance,
    pair_units,
    shortfalls,
)


def contains(vertices: Array, distributions: Array, *, atol: float) -> Mask:
    """Whether each distribution lies in its hull, (n,) bool, up to `atol` in every class.

    True iff some q in the hull has |q_k - p_k| <= atol for all k. The least such atol is the value
    of a game: mixtures of vertices against the class, and the direction, in which they are furthest
    off. An excess over atol of GAME_TOLERANCE is forgiven (of up to about 1e-6 where hull and
    distribution are degenerate to within round-off); a distribution inside is never turned away.

    This is a distance to the set. The usual check of a box, lower - atol <= p <= upper + atol, is a
    distance to its bounds and a little more generous.
    """
    n, M, K = vertices.shape
    inside = np.empty(n, dtype=bool)
    reach = -(atol + GAME_TOLERANCE)
    for rows in row_blocks(n, M * K):
        reply = _furthest_class(vertices[rows] - distributions[rows, None, :])
        _, nearest = bracket_values(reply, rows.stop - rows.start, M, threshold=reach)
        inside[rows] = nearest >= reach
    return inside


def box(vertices: Array) -> tuple[Array, Array]:
    """The smallest box around each hull, (lower, upper), each (n, K). It is tightened."""
    return vertices.min(axis=1), vertices.max(axis=1)


def expectation(vertices: Array, values: Array) -> tuple[Array, Array]:
    """Least and greatest expectation of values (K,) or (A, K) over each hull: (n,) or (n, A)."""
    expected = np.matmul(vertices, np.asarray(values, dtype=np.float64).T)
    return expected.min(axis=1), expected.max(axis=1)


def zero_one(vertices: Array) -> Array:
    """Zero-one epistemic uncertainty of each hull, (n,): max_{p, p'} max_k p_k - p_{argmax p'}.

    The class j = argmax p' can be any E-admissible one (ties count), p is free given j, and
    max_k p_k - p_j is convex in p, so it is greatest at a vertex: the result is the greatest regret
    of an E-admissible class.
    """
    greatest: Array = np.where(e_admissible(vertices), _regret(vertices), 0.0).max(axis=1)
    return greatest


def maximality(vertices: Array, utility: Array | None = None) -> Mask:
    """Actions that no other action beats under every distribution of the hull: (n, A) bool.

    b beats a iff it does so at every vertex. Only survivors of interval dominance are compared:
    O(M) per pair of them.
    """
    earned = _earned(vertices, utility)
    units = _units(earned, utility)
    kept = interval_dominance(*box(earned), unit=units)

    def compare(row: Indices, a: Indices, b: Indices) -> tuple[Array, Array]:
        difference = earned[row, :, b] - earned[row, :, a]
        return difference.min(axis=1), difference.max(axis=1)

    least, _ = shortfalls(kept, compare, units, vertices.shape[1])
    return kept & (least <= TIE_TOLERANCE)


def minimax_regret(vertices: Array, utility: Array | None = None) -> Indices:
    """The action that can turn out least inferior to the best one: (n,) int.

    Regret is convex in the distribution, so it is greatest at a vertex: O(M A) per row.
    """
    action: Indices = _regret(_earned(vertices, utility)).argmin(axis=1)
    return action


def e_admissible(vertices: Array, utility: Array | None = None) -> Mask:
    """Actions that are optimal under at least one distribution of the hull: (n, A) bool.

    Action a is admissible iff under some mixture of the vertices it earns as much as any rival: a
    game between mixtures of vertices and rivals. No game is needed for actions that are optimal at
    a vertex, not maximal or, under 0/1 loss, not admissible for the box around the hull.
    """
    earned = _earned(vertices, utility)
    units = _units(earned, utility)
    kept = maximality(vertices, utility)
    if utility is None:
        kept &= decisions.e_admissible(*box(vertices))
    admissible: Mask = kept & interval_dominance(earned, earned, unit=units).any(axis=1)
    for row, action, rivals in contested(kept, earned.shape[1] * earned.shape[2]):
        unclear = ~admissible[row, action]
        row, action, rivals = row[unclear], action[unclear], rivals[unclear]
        own = earned[row, :, action][:, :, None]
        lead = own - np.take_along_axis(earned[row], rivals[:, None, :], axis=2)

        unit = pair_units(units, action[:, None], rivals)[:, None]
        reply = _best_rival(lead / (2.0 * unit))  # payoffs in [-1, 1]
        _, most = bracket_values(reply, *lead.shape[:2], threshold=-ADMISSIBLE_TOLERANCE)
        admissible[row, action] = most >= -ADMISSIBLE_TOLERANCE
    return admissible


def _best_rival(payoff: Array) -> Reply:
    """The reply to mixtures of vertices, in games (m, M, R) given entry by entry."""

    def reply(game: Indices, weights: Array) -> Array:
        rival = np.matmul(weights[:, None, :], payoff[game])[:, 0].argmin(axis=1)
        column: Array = payoff[game, :, rival]
        return column

    return reply


def _furthest_class(offset: Array) -> Reply:
    """The reply to mixtures of vertices: the class in which their offset (m, M, K) is largest."""

    def reply(game: Indices, weights: Array) -> Array:
        error = np.matmul(weights[:, None, :], offset[game])[:, 0]
        k = np.abs(error).argmax(axis=1)
        sign = np.where(error[np.arange(len(game)), k] > 0.0, 1.0, -1.0)
        column: Array = -sign[:, None] * offset[game, :, k]
        return column

    return reply


def _earned(vertices: Array, utility: Array | None) -> Array:
    """Expected utility of every action at every vertex, (n, M, A)."""
    return vertices if utility is None else np.matmul(vertices, utility.T)


def _units(earned: Array, utility: Array | None) -> Array:
    """(A,) the largest absolute utility of each action."""
    return np.broadcast_to(action_units(utility), earned.shape[2:])


def _regret(earned: Array) -> Array:
    """Greatest shortfall of each action from the best one, over the vertices: (n, A)."""
    greatest: Array = (earned.max(axis=2, keepdims=True) - earned).max(axis=1)
    return greatest
