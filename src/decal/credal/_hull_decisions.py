"""Convex hulls of probability vectors: entropies, membership, expectations and decisions.

A hull holds all mixtures of M vertices, each a distribution over K classes: what an ensemble, or a
handful of perturbed models, says about one input. `vertices` is (n, M, K) throughout, one hull per
row; vertices may repeat, be collinear, or lie inside the hull. Nothing here computes a row from
another one.

Expectations are linear, so they are extreme at vertices, and so is entropy at its lowest. The
highest entropy is a concave program; E-admissibility and membership are small matrix games. Left
out: generalised Hartley, which would need the Möbius masses of all sets of classes; that of the box
around a hull (`box`) stands in for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decal import decisions
from decal._base.checks import check_choice
from decal._base.games import GAME_TOLERANCE, Reply, bracket_values
from decal._base.numerics import Array, row_blocks
from decal.credal._box_entropy import phi
from decal.decisions import (
    ADMISSIBLE_TOLERANCE,
    TIE_TOLERANCE,
    Indices,
    Mask,
    contested,
    decide_by_range,
    edges,
    interval_dominance,
    largest,
)

GAP_TOLERANCE = 1e-10
"""Certified distance from the highest entropy, in nats, at which a row is finished."""

MAX_NEWTON_STEPS = 100
"""Steps after which a row is returned with the gap it has; 10 to 20 are usual."""

SMALLEST_MULTIPLIER = 1e-14
"""Added to the scaled Hessian, of order 1, so that repeated vertices do not make it singular."""

TO_BOUNDARY = 0.99
"""Share of the way to the nearest bound that one interior-point step may go."""

CENTRING = 0.03
"""Factor by which one step tries to shrink the complementarity products."""


@dataclass(frozen=True)
class UpperEntropy:
    """Highest entropies in nats, with the evidence: value <= true maximum <= bound.

    Attributes
    ----------
    value : (n,) array
        Entropy of the mixture found.
    bound : (n,) array
        max_m crossentropy(v_m, p), which no entropy in the hull exceeds.
    weights : (n, M) array
        The mixture found: p = sum_m weights_m v_m.
    """

    value: Array
    bound: Array
    weights: Array

    @property
    def gap(self) -> Array:
        """How far the value may be below the maximum, (n,)."""
        return self.bound - self.value


def upper_entropy(vertices: Array) -> UpperEntropy:
    """Highest entropy in each hull, with a certificate.

    Maximises H(p), p = sum_m w_m v_m, over the simplex of weights. H is concave, and for all p and
    q in the hull H(q) <= crossentropy(q, p) <= max_m crossentropy(v_m, p), which is the bound. A
    primal-dual interior-point method keeps all weights positive; entropy is compatible with their
    logarithmic barrier (|dp_k / p_k| <= max_m |dw_m / w_m|), so Newton's method stays reliable up
    to the boundary. Every row takes its own steps and stops at a gap of GAP_TOLERANCE.

    O(M² K + M³) per step and row; memory in blocks.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.

    Examples
    --------
    >>> highest = upper_entropy(np.array([[[0.9, 0.1], [0.3, 0.7]]]))
    >>> bool(abs(highest.value[0] - np.log(2)) < 1e-9 and highest.gap[0] < 1e-9)
    True
    """
    n, M, K = vertices.shape
    value = np.empty(n)
    bound = np.empty(n)
    weights = np.empty((n, M))
    for rows in row_blocks(n, M * K):
        value[rows], bound[rows], weights[rows] = _highest(vertices[rows])
    return UpperEntropy(value, bound, weights)


def lower_entropy(vertices: Array) -> Array:
    """Lowest entropy in each hull, (n,): that of a vertex, for entropy is concave.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.

    Examples
    --------
    >>> lower_entropy(np.array([[[1.0, 0.0], [0.5, 0.5]]]))
    array([0.])
    """
    lowest: Array = phi(vertices).sum(axis=2).min(axis=1)
    return lowest


def contains(vertices: Array, distributions: Array, *, atol: float) -> Mask:
    """Whether each distribution lies in its hull, (n,) bool, up to `atol` in every class.

    True iff some q in the hull has |q_k - p_k| <= atol for all k. The least such atol is the value
    of a game: mixtures of vertices against the class, and the direction, in which they are furthest
    off. An excess over atol of GAME_TOLERANCE is forgiven (of up to about 1e-6 where hull and
    distribution are degenerate to within round-off); a distribution inside is never turned away.

    This is a distance to the set. The usual check of a box, lower - atol <= p <= upper + atol, is a
    distance to its bounds and a little more generous.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.
    distributions : (n, K) array
        One per hull.
    atol : float
        At least 0, in units of probability.

    Examples
    --------
    >>> triangle = np.eye(3)[None] * 0.7 + 0.1
    >>> contains(triangle, np.array([[0.1, 0.1, 0.8]]), atol=0.0)
    array([ True])
    >>> contains(triangle, np.array([[0.0, 0.1, 0.9]]), atol=0.05)
    array([False])
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
    """The smallest box around each hull, (lower, upper), each (n, K). It is tightened.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.

    Examples
    --------
    >>> box(np.array([[[0.9, 0.1], [0.3, 0.7]]]))
    (array([[0.3, 0.1]]), array([[0.9, 0.7]]))
    """
    return vertices.min(axis=1), vertices.max(axis=1)


def expectation(vertices: Array, values: Array) -> tuple[Array, Array]:
    """Least and greatest expected value of a function of the class, over each hull.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.
    values : (K,) or (A, K) array
        Finite values of the classes, for one function or for A.

    Returns
    -------
    least, greatest : (n,) or (n, A) arrays

    Examples
    --------
    >>> expectation(np.array([[[0.75, 0.25], [0.5, 0.5]]]), np.array([0.0, 1.0]))
    (array([0.25]), array([0.5]))
    """
    expected = np.matmul(vertices, np.asarray(values, dtype=np.float64).T)
    return expected.min(axis=1), expected.max(axis=1)


def zero_one(vertices: Array) -> Array:
    """Zero-one epistemic uncertainty of each hull, (n,): max_{p, p'} max_k p_k - p_{argmax p'}.

    The class j = argmax p' can be any E-admissible one (ties count), p is free given j, and
    max_k p_k - p_j is convex in p, so it is greatest at a vertex: the result is the greatest regret
    of an E-admissible class.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.

    Examples
    --------
    >>> zero_one(np.array([[[0.75, 0.25], [0.25, 0.75]]]))
    array([0.5])
    """
    greatest: Array = np.where(e_admissible(vertices), _regret(vertices), 0.0).max(axis=1)
    return greatest


def decide(
    vertices: Array, rule: str, *, utility: Array | None = None, optimism: float = 0.5
) -> Mask | Indices:
    """Actions that a rule keeps, (n, A) bool, or the one that it takes, (n,) int, for every hull.

    The rules, their ties and their arguments are those of `decal.decisions`.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.
    rule : str
        One of `decal.decisions.RULES`.
    utility : (A, K) array, optional
        Finite utilities of A actions. Without it, 0/1 loss: actions are classes.
    optimism : float in [0, 1]
        Weight of the best case, for rule "hurwicz" only.

    Examples
    --------
    >>> decide(np.array([[[0.6, 0.4, 0.0], [0.4, 0.1, 0.5]]]), "e_admissible")
    array([[ True, False,  True]])
    """
    match check_choice(rule, "rule", decisions.RULES):
        case "maximality":
            return maximality(vertices, utility)
        case "e_admissible":
            return e_admissible(vertices, utility)
        case "minimax_regret":
            return minimax_regret(vertices, utility)
    worst, best = box(_earned(vertices, utility))
    return decide_by_range(worst, best, rule, optimism=optimism, scale=largest(utility))


def maximality(vertices: Array, utility: Array | None = None) -> Mask:
    """Actions that no other action beats under every distribution of the hull: (n, A) bool.

    b beats a iff it does so at every vertex. Only survivors of interval dominance are compared:
    O(M) per pair of them.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.
    utility : (A, K) array, optional
        Finite utilities of A actions. Without it, 0/1 loss.
    """
    earned = _earned(vertices, utility)
    scale = largest(utility)
    kept = interval_dominance(*box(earned), scale=scale)

    def compare(row: Indices, a: Indices, b: Indices) -> tuple[Array, Array]:
        difference = earned[row, :, b] - earned[row, :, a]
        return difference.min(axis=1), difference.max(axis=1)

    least, _ = edges(kept, compare, vertices.shape[1])
    return kept & (least <= TIE_TOLERANCE * scale)


def minimax_regret(vertices: Array, utility: Array | None = None) -> Indices:
    """The action that can turn out least inferior to the best one: (n,) int.

    Regret is convex in the distribution, so it is greatest at a vertex: O(M A) per row.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.
    utility : (A, K) array, optional
        Finite utilities of A actions. Without it, 0/1 loss.
    """
    action: Indices = _regret(_earned(vertices, utility)).argmin(axis=1)
    return action


def e_admissible(vertices: Array, utility: Array | None = None) -> Mask:
    """Actions that are optimal under at least one distribution of the hull: (n, A) bool.

    Action a is admissible iff under some mixture of the vertices it earns as much as any rival: a
    game between mixtures of vertices and rivals. No game is needed for actions that are optimal at
    a vertex, not maximal or, under 0/1 loss, not admissible for the box around the hull.

    Parameters
    ----------
    vertices : (n, M, K) array
        Distributions that span the hulls.
    utility : (A, K) array, optional
        Finite utilities of A actions. Without it, 0/1 loss.
    """
    earned = _earned(vertices, utility)
    scale = largest(utility)
    kept = maximality(vertices, utility)
    if utility is None:
        kept &= decisions.e_admissible(*box(vertices))
    best: Array = earned.max(axis=2, keepdims=True) - TIE_TOLERANCE * scale
    admissible: Mask = kept & (earned >= best).any(axis=1)
    for row, action, rivals in contested(kept, earned.shape[1] * earned.shape[2]):
        unclear = ~admissible[row, action]
        row, action, rivals = row[unclear], action[unclear], rivals[unclear]
        own = earned[row, :, action][:, :, None]
        lead = own - np.take_along_axis(earned[row], rivals[:, None, :], axis=2)

        reply = _best_rival(lead / (2.0 * scale))  # payoffs in [-1, 1]
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


def _regret(earned: Array) -> Array:
    """Greatest shortfall of each action from the best one, over the vertices: (n, A)."""
    greatest: Array = (earned.max(axis=2, keepdims=True) - earned).max(axis=1)
    return greatest


def _highest(v: Array) -> tuple[Array, Array, Array]:
    """Entropy, bound and weights for one block of `upper_entropy`."""
    n, M, _ = v.shape
    value = np.full(n, -np.inf)
    bound = np.full(n, np.inf)
    weights = np.full((n, M), 1 / M)
    active = np.arange(n)
    w = weights.copy()
    multiplier = np.empty_like(w)  # of the constraints w >= 0
    for step in range(MAX_NEWTON_STEPS):
        p = np.matmul(w[:, None, :], v)[:, 0]
        logs = np.log(p, out=np.zeros_like(p), where=p > 0.0)
        cross = -np.matmul(v, logs[:, :, None])[:, :, 0]  # crossentropy(v_m, p), the gradient
        entropy = -(p * logs).sum(axis=1)
        better = entropy > value[active]
        value[active] = np.maximum(value[active], entropy)
        weights[active[better]] = w[better]
        bound[active] = np.minimum(bound[active], cross.max(axis=1))
        open_ = bound[active] - value[active] > GAP_TOLERANCE
        if not open_.all():
            active, v, w, multiplier = active[open_], v[open_], w[open_], multiplier[open_]
            p, cross = p[open_], cross[open_]
        if not len(active):
            break
        if step == 0:
            top = cross.max(axis=1, keepdims=True)
            multiplier = top - cross + (top - entropy[open_, None])
        w, multiplier = _interior_step(v, w, multiplier, p, cross)
    return value + 0.0, bound, weights


def _interior_step(v: Array, w: Array, s: Array, p: Array, cross: Array) -> tuple[Array, Array]:
    """One primal-dual step: weights and multipliers (m, M) that stay positive.

    Newton's method on  cross_m + s_m = nu,  w_m s_m = target,  sum w = 1.
    """
    M = w.shape[1]
    root = np.sqrt(w)
    # Scaled by the square roots of the weights the Hessian has entries in [0, 1], whatever the
    # weights: v_mk² / p_k <= v_mk / w_m.
    scaled = v * root[:, :, None]
    scaled /= np.sqrt(np.where(p > 0.0, p, 1.0))[:, None, :]
    system = np.matmul(scaled, scaled.transpose(0, 2, 1))
    system[:, np.arange(M), np.arange(M)] += s + SMALLEST_MULTIPLIER
    target = CENTRING * (w * s).sum(axis=1, keepdims=True) / M
    right = np.stack([root * cross + target / root, root], axis=2)
    solved = np.linalg.solve(system, right) * root[:, :, None]
    a, b = solved[:, :, 0], solved[:, :, 1]
    dw = a - b * (a.sum(axis=1, keepdims=True) / b.sum(axis=1, keepdims=True))
    ds = target / w - s - s / w * dw
    rate = np.maximum(-dw / w, -ds / s).max(axis=1, keepdims=True)
    length = np.minimum(1.0, TO_BOUNDARY / np.maximum(rate, TO_BOUNDARY))
    w = w + length * dw
    return w / w.sum(axis=1, keepdims=True), s + length * ds
