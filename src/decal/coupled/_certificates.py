"""Proofs that a lower endpoint is global: for all queries at once, or item by item.

Both compare two remainders. Let c0 be a KKT point of the lower endpoint of class k with multiplier
tau, and c = c0 + v plausible. With R_D and R_g what the linearisations of D and g at c0 leave out,

    g(c) - g(c0) = d v + R_g(v),        tau d v + R_D(v) <= D(c) - budget <= 0,

so that c0 is global if R_D(v) >= tau R_g(v) wherever a better point could be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.coupled._loss import ROUND_OFF, VANISHING, safe_inverse
from decal.coupled._region import Region, bulge, distances, item_spreads, psi
from decal.coupled._solver import EndpointBatch, Slope

CURVATURE_SHARE = 0.97  # of the linear decrease, set against the curvature of D; the rest, d d'
LARGEST_ENTRY = 1e150  # of matrices that are taken apart: products of larger ones may overflow
PADDING = 1e-9  # nats, and share, by which bounds of v are widened, against round-off
BOX_TOLERANCE = 1e-6  # nats by which a point found may leave the box in which the global one lies
FARTHEST = 300.0  # nats beyond which nothing is proved: exponentials would overflow


def by_theorem(region: Region, endpoints: EndpointBatch, slope: Slope) -> NDArray[np.bool_]:
    """(P,) True where the x-independent theorem proves the lower endpoint found; see `theorem`."""
    c = endpoints.at.shift
    lifted = c - c[np.arange(len(c)), endpoints.k][:, None]
    _, spread = item_spreads(region.reach)
    with np.errstate(over="ignore", invalid="ignore"):
        worst = np.exp(np.ptp(c, axis=1)) / psi(spread[endpoints.k] + 2 * BOX_TOLERANCE)
        rho = slope.tau * worst * region.bend[endpoints.k]
    usual = (lifted >= -BOX_TOLERANCE) & (lifted <= region.reach.T[endpoints.k] + BOX_TOLERANCE)
    return np.asarray((rho < 1 - BOX_TOLERANCE) & (slope.tau > 0) & usual.all(axis=1))


def by_item(
    region: Region, endpoints: EndpointBatch, slope: Slope, slack: Array
) -> tuple[NDArray[np.bool_], Array]:
    """Whether each lower endpoint found is proved global, and how much better g could be otherwise.

    Suppose a plausible c = c0 + v beats g0 by more than 2 slack; take c to be the global endpoint.
    With w the shares and x_l = v_l - v_k, and delta = slack - d v:

    * c is a KKT point, so the expected count of every class but k is at least its true one. The
      class that is lifted least would be expected too rarely, unless it is k. So c_l >= c_k for all
      l, counted from the best shift: with the reaches, that puts v into a box.
    * sum_l w_l e^x_l >= 1, as g rises: this bounds every x_l from below, and delta from above.
    * R_g <= half of sum_l w_l bulge(x_l + delta) (x_l - mean)^2 =: v'Qv / 2 (Bennett: (e^x - 1 - x)
      / x^2 is increasing), where delta + delta^2 / 2 <= v'Qv / 2.
    * R_D >= half of psi(spread of v) v'Hv =: tau v'Cv / 2 (self-concordance), and delta >= R_D /
      tau: an ellipsoid, cut off at the greatest delta. Its widths shrink the box. Repeat.

    Let mu be the greatest v'Qv / v'Av, with A = share C + (2 (1 - share) / delta_max + 1) d d'. As
    delta is at least the share of v'Cv / 2 plus that of delta^2 / delta_max, nothing is left once
    mu < 1; and otherwise g rises by at most log(1 + (mu - 1) (1 - e^-delta_max)), but for slack.

    Returns proved (P,): no plausible shift has g above g0 + 2 slack; and room (P,): none has g
    above g0 + room, proved or not.
    """
    P = len(endpoints.k)
    c, each = endpoints.at.shift, np.arange(P)
    # box[j, i] bounds v_j - v_i. As c_i >= c_k, c_j - c_i is also at most the reach of j over k.
    greatest = np.minimum(region.reach, region.reach.T[endpoints.k][:, :, None])
    greatest[each, endpoints.k, :] = 0.0
    box = np.maximum(greatest - (c[:, :, None] - c[:, None, :]), 0.0) + PADDING
    proved = np.zeros(P, dtype=bool)
    room = np.full(P, np.inf)
    left = np.flatnonzero((slope.tau > 0) & (box.max(axis=(1, 2)) < FARTHEST))
    for _ in range(12):
        if not left.size:
            break
        empty, smaller, rise = _shrink(region, endpoints[left], slope[left], slack[left], box[left])
        done = smaller.sum(axis=(1, 2)) > 0.99 * box[left].sum(axis=(1, 2))
        proved[left[empty]] = True
        room[left] = np.minimum(room[left], rise)
        box[left] = smaller
        left = left[~empty & ~done]
    return proved, np.maximum(np.where(proved, 0.0, room), 2 * slack)


def _shrink(
    region: Region, endpoints: EndpointBatch, slope: Slope, slack: Array, box: Array
) -> tuple[NDArray[np.bool_], Array, Array]:
    """Whether nothing is left of the box (P, K, K); a smaller box; how far g can rise in it."""
    each, k, w, d = np.arange(len(endpoints.k)), endpoints.k, slope.w, slope.d
    up, down = box[each, :, k], -box[each, k, :]
    for _ in range(2):
        down = _raise(down, _least(w, up), k)
        delta = _greatest_decrease(w, up, down) + slack
        total = (w * up).sum(axis=1, keepdims=True) - w * up
        with np.errstate(divide="ignore", invalid="ignore"):
            down = _raise(down, -(delta[:, None] + total) / w, k)
    box = np.minimum(box, up[:, :, None] - down[:, None, :])
    spread = box.max(axis=(1, 2))
    tau = slope.tau[:, None, None]
    C = psi(spread)[:, None, None] * endpoints.at.hessian / tau
    gauge = region.problem.data.gauge / tau
    Q = _quadratic(w, w * bulge(up + delta[:, None]))
    across = 2 * (1 - CURVATURE_SHARE) / delta + 1
    A = CURVATURE_SHARE * C + across[:, None, None] * d[:, :, None] * d[:, None, :]
    # Numbers that overflow, of a loss that hardly bends, prove nothing.
    size = np.abs(np.stack([A + gauge, C + gauge, Q])).max(axis=(0, 2, 3))
    sound, one = (size < LARGEST_ENTRY)[:, None, None], np.eye(w.shape[1])
    mu = _largest_ratio(np.where(sound, Q, one), np.where(sound, A + gauge, one))
    mu = np.where(sound[:, 0, 0], mu, np.inf)
    far = _rise(w, up)
    rise = (1 + 2 * mu) * slack + np.log1p(np.maximum(mu - 1, 0.0) * -np.expm1(-delta))
    widths = _cap_widths(safe_inverse(np.where(sound, C + gauge, one)), d, delta, slack)
    smaller = np.where(sound, np.clip(widths * (1 + PADDING) + PADDING, 0.0, box), box)
    return (mu < 1 - PADDING) | (far <= 0), smaller, np.minimum(far, rise)


def _largest_ratio(Q: Array, A: Array) -> Array:
    """(P,) greatest v'Qv / v'Av."""
    values, vectors = np.linalg.eigh(A)
    white = vectors / np.sqrt(np.maximum(values, VANISHING**3 * values[:, -1:]))[:, None, :]
    return np.asarray(np.linalg.eigvalsh(white.swapaxes(1, 2) @ Q @ white)[:, -1])


def _rise(w: Array, up: Array) -> Array:
    """(P,) greatest g - g0 while x_l <= up_l."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.log((w * np.exp(up)).sum(axis=1)))


def _least(w: Array, up: Array) -> Array:
    """(P, K) least x_l with sum w e^x >= 1 while the others are at most `up`; or NaN."""
    most = w * np.exp(up)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log((1 - (most.sum(axis=1, keepdims=True) - most)) / w))


def _raise(down: Array, least: Array, k: NDArray[np.intp]) -> Array:
    """The lower bounds, raised to `least` where that is a number, but never above zero."""
    least = np.where(np.isfinite(least), least - PADDING, -np.inf)
    least[np.arange(len(k)), k] = 0.0
    return np.minimum(np.maximum(down, least), 0.0)


def _greatest_decrease(w: Array, up: Array, down: Array) -> Array:
    """(P,) bound of -sum w x while sum w e^x >= 1 and down <= x <= up: a fractional knapsack.

    Each e^x is replaced by its chord, which is no smaller; lowering x_l from `up` to `down` then
    earns w (up - down) at the cost of w (e^up - e^down), the cheapest first.
    """
    cost, gain = w * (np.exp(up) - np.exp(down)), w * (up - down)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(cost > 0, gain / cost, 0.0), axis=1)
    cost, gain = np.take_along_axis(cost, order, 1), np.take_along_axis(gain, order, 1)
    room = (w * np.exp(up)).sum(axis=1, keepdims=True) - 1
    left = room - (np.cumsum(cost, axis=1) - cost)
    taken = np.clip(np.divide(left, cost, out=np.ones_like(cost), where=cost > 0), 0.0, 1.0)
    return np.asarray(np.maximum((taken * gain).sum(axis=1) - (w * up).sum(axis=1), 0.0))


def _quadratic(w: Array, f: Array) -> Array:
    """(P, K, K) the form sum_l f_l (v_l - sum_m w_m v_m)^2, where w sums to one."""
    diagonal = np.arange(w.shape[1])
    mixed = f[:, :, None] * w[:, None, :]
    Q: Array = (
        f.sum(axis=1)[:, None, None] * w[:, :, None] * w[:, None, :] - mixed - mixed.swapaxes(1, 2)
    )
    Q[:, diagonal, diagonal] += f
    return Q


def _cap_widths(inverse: Array, d: Array, delta: Array, slack: Array) -> Array:
    """(P, K, K) greatest v_j - v_i while v'Cv / 2 <= s, s = slack - d v <= delta.

    Split v into its part along C^-1 d and the rest, which is C-orthogonal to it: s - slack along d,
    and the square of the rest is at most 2 s - (s - slack)^2 / m, with m = d'C^-1 d. By s - slack =
    m (1 - cos) that is an arc, once 2 slack is allowed for: v_j - v_i = -m a (1 - cos) + h sin.
    """
    along = np.einsum("pij,pj->pi", inverse, d)
    m = (along * d).sum(axis=1)[:, None, None]
    a = (along[:, :, None] - along[:, None, :]) / m
    across = distances(inverse)
    hidden = ROUND_OFF * a * a * m  # what their difference, too, may lose in round-off
    across = np.maximum(across - a * a * m, 0.0) + hidden
    h = np.sqrt(across * m)
    widest = np.arccos(np.clip(1 - delta[:, None, None] / m, -1.0, 1.0))
    angle = np.minimum(np.arctan2(h, a * m), widest)
    extra = slack[:, None, None] * np.abs(a) + np.sqrt(4 * slack[:, None, None] * across)
    return np.asarray(-m * a * (1 - np.cos(angle)) + h * np.sin(angle) + extra)
