"""Upper and lower entropy of convex hulls of probability vectors, in nats.

`vertices` is (n, M, K): all mixtures of M distributions, one hull per row. Vertices may repeat, be
collinear, or lie inside the hull. No row is computed from another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decal._base.numerics import Array, row_blocks
from decal.credal._box_entropy import entropy_terms

GAP_TOLERANCE = 1e-10
"""Certified distance from the highest entropy, in nats, at which a row is finished."""

MAX_NEWTON_STEPS = 100
"""Steps after which a row is returned with the gap it has; 10 to 20 are usual."""

SMALLEST_MULTIPLIER = 1e-14
"""Added to the scaled Hessian, of order 1, so that repeated vertices do not make it singular."""


@dataclass(frozen=True)
class UpperEntropy:
    """Highest entropies in nats, with their certificate: value <= true maximum <= bound."""

    value: Array  # (n,) entropy of the mixture found
    bound: Array  # (n,) max_m crossentropy(v_m, p), which no entropy in the hull exceeds
    weights: Array  # (n, M) the mixture: p = sum_m weights_m v_m

    @property
    def gap(self) -> Array:
        """(n,) how far the value may be below the maximum."""
        return self.bound - self.value


def upper_entropy(vertices: Array) -> UpperEntropy:
    """Highest entropy in each hull, with a certificate.

    Maximises H(p), p = sum_m w_m v_m, over the simplex of weights. H is concave, and for all p and
    q in the hull H(q) <= crossentropy(q, p) <= max_m crossentropy(v_m, p), which is the bound. A
    primal-dual interior-point method keeps all weights positive; entropy is compatible with their
    logarithmic barrier (|dp_k / p_k| <= max_m |dw_m / w_m|), so Newton's method stays reliable up
    to the boundary. O(M² K + M³) per step and row; memory in blocks.
    """
    n, M, K = vertices.shape
    value, bound, weights = np.empty(n), np.empty(n), np.empty((n, M))
    for rows in row_blocks(n, M * K):
        value[rows], bound[rows], weights[rows] = _highest(vertices[rows])
    return UpperEntropy(value, bound, weights)


def lower_entropy(vertices: Array) -> Array:
    """Lowest entropy in each hull, (n,): that of a vertex, for entropy is concave."""
    lowest: Array = entropy_terms(vertices).sum(axis=2).min(axis=1)
    return lowest


def _highest(v: Array) -> tuple[Array, Array, Array]:
    """Entropy, bound and weights for one block of `upper_entropy`."""
    n, M, _ = v.shape
    value, bound, weights = np.full(n, -np.inf), np.full(n, np.inf), np.full((n, M), 1 / M)
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
    target = 0.03 * (w * s).sum(axis=1, keepdims=True) / M
    right = np.stack([root * cross + target / root, root], axis=2)
    solved = np.linalg.solve(system, right) * root[:, :, None]
    a, b = solved[:, :, 0], solved[:, :, 1]
    dw = a - b * (a.sum(axis=1, keepdims=True) / b.sum(axis=1, keepdims=True))
    ds = target / w - s - s / w * dw
    rate = np.maximum(-dw / w, -ds / s).max(axis=1, keepdims=True)
    length = np.minimum(1.0, 0.99 / np.maximum(rate, 0.99))  # of the way to the nearest bound
    w = w + length * dw
    return w / w.sum(axis=1, keepdims=True), s + length * ds
