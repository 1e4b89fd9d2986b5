"""How uncertain a box is: zero-one loss, generalised Hartley measure, width.

Boxes are two float64 arrays (n, K), checked, non-empty and reachable, as in `_box_entropy`.
Write d = upper - lower, R = 1 - sum(lower) for the mass that the box leaves open, and
c = sum(upper) - 1, so that sum(d) = R + c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from decal._base.numerics import Array, Indices, Mask, row_blocks
from decal.credal.decisions import TIE_TOLERANCE, smallest_maximum_of_sorted

EXACT_CLASSES = 24
"""Up to this many classes, measures compare all 2^K events, by meeting in the middle."""

BRACKET_TOLERANCE = 1e-12
"""Nats, or probability. Endpoints that differ by no more than this differ by round-off."""


@dataclass(frozen=True)
class Bracket:
    """A measure of n sets: lower <= truth <= upper, each (n,)."""

    lower: Array
    upper: Array

    @property
    def exact(self) -> Mask:
        """(n,) bool: where both endpoints are the measure itself."""
        return np.less_equal(self.upper - self.lower, BRACKET_TOLERANCE)


def width(lower: Array, upper: Array) -> Array:
    """Mean width of each box's intervals: 0 for a point, 1 for the vacuous set."""
    return np.asarray((upper - lower).mean(axis=1))


def zero_one(lower: Array, upper: Array) -> Array:
    """Epistemic uncertainty under zero-one loss.

    The largest regret of predicting a class that some distribution in the box calls most
    probable: max over p, p' in the box of max_k p_k - p_j, j = argmax p'. Class j qualifies iff
    upper_j >= `smallest_maximum`. Its regret is max(0, max_{k != j} upper_k - lower_j): both
    bounds are met by one distribution because they are reachable. All argmaxes of a tied p' count.
    O(K log K) time per row, for one sort.
    """
    regret = np.empty(len(upper))
    for rows in row_blocks(*upper.shape):
        low, up = lower[rows], upper[rows]
        ascending = np.sort(up, axis=1)
        best, second = ascending[:, -1:], ascending[:, -2:-1]
        can_win = up >= smallest_maximum_of_sorted(low, ascending)[:, None] - TIE_TOLERANCE
        # The rival of the class with the largest bound is the second; of all others, that class.
        regrets = np.where(up < best, best, second) - low
        regret[rows] = (can_win * regrets).max(axis=1)
    return np.maximum(regret, 0.0)


def hartley(lower: Array, upper: Array, *, conditioned: int = 8) -> Bracket:
    """Generalised Hartley measure of each box, in nats, or a certified bracket of it.

    GH = sum over sets A of m(A) ln|A|, m the Möbius inverse of the lower probability

        P(B) = lower(B) + max(0, d(B) - c).

    Since ln(K/a) = integral_0^1 (x^(a-1) - x^(K-1)) / (-ln x) dx, GH depends on P only through
    its means over sets of equal size:

        GH = R ln K - sum_{0<b<K} W_b E_b,   E_b = mean over |B| = b of max(0, d(B) - c),
        W_b = C(K, b) integral_0^1 x^(b-1) (1-x)^(K-b) / (-ln x) dx.

    Up to `EXACT_CLASSES` classes all 2^K sets are counted, in time 2^(K/2) by meeting in the
    middle. Beyond, all choices among the widest classes are; the rest of B is then a random
    sample of the other classes, t in or s out. Its sum X has a known mean mu and variance v, and
    what is left out has a bounded Laplace transform. For every y and theta > 0,

        max(0, y) <= E max(0, y + X - mu) <= (y + sqrt(y^2 + v)) / 2,
        E max(0, y + X - mu) <= exp(theta (y + max X - mu) - 1) / theta * (mean exp(-theta d))^s

    (Jensen; Scarf; Hoeffding 1963 with max(0, z) <= exp(theta z - 1) / theta). The bracket is
    about 0.001 nats wide where few classes are wide, 3 % of the value where hundreds are.

    Time per row: O(K 2^(K/2)) up to `EXACT_CLASSES`, then O(K 2^conditioned).
    """
    n, K = lower.shape
    conditioned = min(conditioned, K - 2)
    d = upper - lower
    # Round-off may leave a hair less than no room at all.
    c = np.maximum(upper.sum(axis=1) - 1.0, 0.0)
    ignorance = np.maximum(1.0 - lower.sum(axis=1), 0.0) * np.log(K)
    low, high = np.empty(n), np.empty(n)
    states = 2 ** (K // 2 + 1) if K <= EXACT_CLASSES else K + 2**conditioned
    for rows in row_blocks(n, states):
        if K <= EXACT_CLASSES:
            low[rows] = high[rows] = _gain(d[rows], c[rows])
        else:
            low[rows], high[rows] = _gain_bracket(d[rows], c[rows], conditioned)
    return Bracket(np.maximum(ignorance - high, 0.0), np.maximum(ignorance - low, 0.0))


def middle_of_hartley(lower: Array, upper: Array) -> Array:
    """(n,) the middle of each bracket of `hartley`: the measure itself where it is exact."""
    found = hartley(lower, upper)
    return (found.lower + found.upper) / 2


@lru_cache(maxsize=8)
def _size_weights(K: int) -> Array:
    """W_b of `hartley` for b = 0..K, where W_0 = W_K = 0."""
    # With x = exp(-e^v) the integrand is analytic in v and dies away on both sides of its peak
    # at -ln x = ln(K/b), so the trapezoidal rule converges geometrically.
    b = np.arange(1, K)[:, None]
    peak = np.log(K / b)
    stretch = np.sqrt((K - b) / (K * b)) / peak
    step = 0.25
    s = peak * np.exp(stretch * np.arange(-45.0, 25.0, step))
    integrand = np.exp(_log_binomial(K, b) - b * s + (K - b) * np.log(-np.expm1(-s)))
    weights = np.zeros(K + 1)
    weights[1:K] = (step * stretch * integrand).sum(axis=1)
    weights.flags.writeable = False
    return weights


def _log_binomial(n: int, k: Indices) -> Array:
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    return np.asarray(log_factorial[n] - log_factorial[k] - log_factorial[n - k])


def _subset_sums(values: Array) -> Array:
    """Sums (n, 2^m) of all subsets of the m columns of `values`."""
    sums = np.zeros((len(values), 1))
    for column in values.T:
        sums = np.concatenate([sums, sums + column[:, None]], axis=1)
    return sums


def _gain(d: Array, c: Array) -> Array:
    """sum_b W_b E_b over all subsets, each the union of a set S and a set T from two halves."""
    n, K = d.shape
    weights = _size_weights(K) / np.exp(_log_binomial(K, np.arange(K + 1)))
    half = K // 2
    excess = _subset_sums(d[:, :half]) - c[:, None]
    size_S = _subset_sums(np.ones((1, half)))[0].astype(np.intp)
    sums = _subset_sums(d[:, half:])
    size_T = _subset_sums(np.ones((1, K - half)))[0].astype(np.intp)

    order = np.argsort(-sums, axis=1)
    sums = np.take_along_axis(sums, order, axis=1)
    size_T = size_T[order]
    # S contributes with the T that have d(T) > -excess: the first `count` of them.
    merged = np.argsort(np.concatenate([-sums, excess], axis=1), axis=1)
    ranks = np.empty_like(merged)
    np.put_along_axis(ranks, merged, np.cumsum(merged < sums.shape[1], axis=1), axis=1)
    count = ranks[:, sums.shape[1] :]

    gain = np.zeros(n)
    weight_up_to, sum_up_to = np.zeros((2, n, sums.shape[1] + 1))
    for size in range(half + 1):
        S = np.flatnonzero(size_S == size)
        weight = weights[size + size_T]
        np.cumsum(weight, axis=1, out=weight_up_to[:, 1:])
        np.cumsum(weight * sums, axis=1, out=sum_up_to[:, 1:])
        at = count[:, S]
        gain += np.sum(
            excess[:, S] * np.take_along_axis(weight_up_to, at, axis=1)
            + np.take_along_axis(sum_up_to, at, axis=1),
            axis=1,
        )
    return gain


def _gain_bracket(d: Array, c: Array, conditioned: int) -> tuple[Array, Array]:
    """Bounds of sum_b W_b E_b: all subsets S of the widest classes, moments of the others."""
    K = d.shape[1]
    open_mass = np.maximum(d.sum(axis=1) - c, BRACKET_TOLERANCE)
    d = -np.sort(-d, axis=1)
    wide, rest = d[:, :conditioned], d[:, conditioned:]
    r = rest.shape[1]
    t = np.arange(r + 1)  # how many of the others are in B
    mean = rest.mean(axis=1)
    drift = mean[:, None] * t
    spread = ((rest - mean[:, None]) ** 2).sum(axis=1)
    variance = spread[:, None] * (t * (r - t) / (r * (r - 1)))
    thetas = [(tilt / open_mass)[:, None] for tilt in (1.0, 4.0)]
    tails = [
        np.exp(-1.0) / theta * np.exp(-theta * rest).mean(axis=1, keepdims=True) ** (r - t)
        for theta in thetas
    ]

    excess = _subset_sums(wide) - c[:, None]
    room = excess + rest.sum(axis=1, keepdims=True)
    size_S = _subset_sums(np.ones((1, conditioned)))[0].astype(np.intp)
    sizes = np.arange(conditioned + 1)[:, None] + t
    weights = _size_weights(K)[sizes] * np.exp(_log_binomial(r, t) - _log_binomial(K, sizes))

    low, high = np.zeros((2, len(d)))
    for S in np.flatnonzero(np.any(room > 0.0, axis=0)):
        y = excess[:, S, None] + drift
        most = room[:, S, None]
        above = 0.5 * (y + np.sqrt(y * y + variance))
        for theta, tail in zip(thetas, tails, strict=True):
            above = np.minimum(above, np.exp(theta * most) * tail)
        weight = weights[size_S[S]]
        # Not a matrix product: BLAS may round a row differently in another batch.
        low += (np.maximum(y, 0.0) * weight).sum(axis=1)
        high += ((most > 0.0) * above * weight).sum(axis=1)
    return low, np.maximum(low, high)
