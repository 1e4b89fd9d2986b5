"""Balls of distributions: divergences, members in extreme directions, expectations, intervals.

A ball is { q : KL(q || c) <= b }. `log_c` (n, K) are the logarithms of the center's probabilities,
-inf for 0, and `radius` (n,) is b, in nats from 0 to inf. A class without probability has none in
any member. No row is computed from another one.

The member that is greatest in a direction v tilts the center (Gibbs' variational principle):

    max { <v, q> : KL(q || c) <= b } = min over t > 0 of (b + log sum_k c_k exp(t v_k)) / t,
    attained by q_k proportional to c_k exp(t v_k), with t such that KL(q || c) = b.

If b is at least -log c(A), A the classes of the greatest v, it is c restricted to A. Every t gives
an upper bound, and near the best t an error of t matters only by its square.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decal._base.bernoulli import largest_log_odds
from decal._base.numerics import Array, Indices, Mask, for_each_block, margins, sigmoid

BORDER_TOLERANCE = 5e-13
"""Added to the root of the radius where a divergence is compared with it. Roots of divergences are
distances of probabilities (Pinsker): twice this is the tolerance of ties, `TIE_TOLERANCE`."""

SERIES = 0.03
"""Log-ratios below this use a series for their part of a divergence: its terms would cancel."""

LARGEST_EXPONENT = 600.0  # exponentials of more than this would overflow

MAX_STEPS = 100
"""Steps that a search for a tilt may take. Four to eight are usual, thirty the most seen."""

LAST_STEP = 1e-7
"""Relative step of Newton's method that is the last: it leaves an error of about its square."""

FEW_VALUES = 4  # classes of equal value act as one, where a direction has no more values than this


def divergence(p: Array, log_c: Array) -> Array:
    """KL(p || c) of each row, (n,), as a sum of positive terms: exact for small ones, too."""
    possible = p > 0.0
    c = np.exp(log_c)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(p) - log_c  # inf where the center has no probability
        term = np.where(possible, p * ratio - p, 0.0) + c
        x = np.where(np.abs(ratio) < SERIES, ratio, 0.0)
        near = c * x * x * (1 / 2 + x * (1 / 3 + x * (1 / 8 + x * (1 / 30 + x / 144))))
    term = np.where(possible & (np.abs(ratio) < SERIES), near, term)
    return np.asarray(np.maximum(term, 0.0).sum(axis=1))


def within(divergences: Array, radius: Array) -> Mask:
    """Whether divergences are finite and at most the radius, give or take BORDER_TOLERANCE."""
    reach = np.sqrt(divergences) <= np.sqrt(radius) + BORDER_TOLERANCE
    return np.asarray(reach & (divergences < np.inf))


def log_odds(log_c: Array) -> Array:
    """(n, K) log-odds of every class against all others, without cancellation."""
    return np.asarray(margins(log_c, np.zeros(log_c.shape[1])).T)


def interval(m: Array, radius: Array) -> tuple[Array, Array]:
    """Least and greatest probability of events whose log-odds at the center are m."""
    return sigmoid(-largest_log_odds(-m, radius)), sigmoid(largest_log_odds(m, radius))


def box(log_c: Array, radius: Array) -> tuple[Array, Array]:
    """The smallest box around each ball, (lower, upper), each (n, K). It is tightened.

    Every class against the rest is a question about two outcomes, see `decal._base.bernoulli`.
    """
    lower, upper = np.empty((2, *log_c.shape))

    def block(rows: slice) -> None:
        lower[rows], upper[rows] = interval(log_odds(log_c[rows]), radius[rows, None])

    for_each_block(block, *log_c.shape)
    return lower, upper


def support(log_c: Array, values: Array, radius: Array) -> Array:
    """(n,) the greatest expectation of finite values (K,) or (n, K) in each ball.

    To within a few roundings of the range of the values, in some six passes over each row.
    """
    greatest = np.empty(len(log_c))

    def block(rows: slice) -> None:
        v = values if values.ndim == 1 else values[rows]
        greatest[rows] = _tilted(log_c[rows], v, radius[rows]).value

    for_each_block(block, *log_c.shape)
    return greatest


def extreme_member(log_c: Array, values: Array, radius: Array) -> Array:
    """(n, K) the member of each ball in which values (K,) or (n, K) are greatest on average."""
    member = np.empty(log_c.shape)

    def block(rows: slice) -> None:
        v = values if values.ndim == 1 else values[rows]
        found = _tilted(log_c[rows], v, radius[rows])
        at_end = np.isinf(found.tilt)[:, None]
        tilt = np.where(at_end, 0.0, found.tilt[:, None])
        z = np.where(at_end & (found.w < 0.0), -np.inf, log_c[rows] + tilt * found.w)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        member[rows] = e / e.sum(axis=1, keepdims=True)

    for_each_block(block, *log_c.shape)
    return member


def expectation(log_c: Array, radius: Array, values: Array) -> tuple[Array, Array]:
    """Least and greatest expectation of values (K,) or (A, K) over each ball: (n,) or (n, A) each.

    Classes of equal value act as one: the ball of the merged classes is that around the merged
    center. So a function of two values is a question about two outcomes.
    """
    table = np.atleast_2d(values)
    least, greatest = np.empty((2, len(log_c), len(table)))
    m = log_odds(log_c)
    for a, v in enumerate(table):
        distinct, group, count = np.unique(v, return_inverse=True, return_counts=True)
        if len(distinct) == 1:
            least[:, a] = greatest[:, a] = distinct[0]
        elif len(distinct) == 2:
            own = m[:, group == count.argmin()] if count.min() == 1 else None
            if own is None:
                mass = _merged(log_c, group, 2)
                high = mass[:, 1] - mass[:, 0]
            else:
                high = own[:, 0] if count.argmin() == 1 else -own[:, 0]
            low, up = interval(high, radius)
            # Not a difference of the values, which may overflow.
            least[:, a] = distinct[0] * (1.0 - low) + distinct[1] * low
            greatest[:, a] = distinct[0] * (1.0 - up) + distinct[1] * up
        else:
            mass, of = log_c, v
            if len(distinct) < len(v):
                mass, of = _merged(log_c, group, len(distinct)), distinct
            least[:, a] = -support(mass, -of, radius)
            greatest[:, a] = support(mass, of, radius)
    return (least, greatest) if values.ndim == 2 else (least[:, 0], greatest[:, 0])


def growing(log_c: Array, radius: Array, order: Indices | None) -> tuple[Array, Array]:
    """Least and greatest probability of the first 1, ..., K classes of an order, (n, K) each.

    They and the others are two outcomes, whose log-odds in the center tell the range.
    """
    least, most = np.ones((2, *log_c.shape))

    def block(rows: slice) -> None:
        z = log_c[rows] if order is None else np.take_along_axis(log_c[rows], order[rows], axis=1)
        first = np.logaddexp.accumulate(z, axis=1)[:, :-1]
        others = np.logaddexp.accumulate(z[:, ::-1], axis=1)[:, -2::-1]
        least[rows, :-1], most[rows, :-1] = interval(first - others, radius[rows, None])

    for_each_block(block, *log_c.shape)
    return least, most


def of_few_values(log_c: Array, values: Array, pairs: Indices) -> tuple[Array, Array]:
    """Centers (m, G) and values (m, G) of merged classes, where no direction has many values.

    Direction values[pairs[i]] of (P, K) belongs to center i of (m, K). G is K unless no direction
    has more than FEW_VALUES values.
    """
    ordered = np.sort(values, axis=1)
    steps = np.diff(ordered, axis=1, prepend=ordered[:, :1]) > 0.0
    rank: Indices = np.cumsum(steps, axis=1, dtype=np.intp)
    G = int(rank.max()) + 1
    if G > FEW_VALUES or log_c.shape[1] <= FEW_VALUES:
        return log_c, values[pairs]
    distinct = np.tile(ordered[:, :1], (1, G))  # repeated where there are fewer: without mass
    np.put_along_axis(distinct, rank, ordered, axis=1)
    mass = np.empty((len(log_c), G))
    v = values[pairs]
    for g in range(G):
        mine = v == distinct[pairs, g, None]
        if g:
            mine &= (distinct[pairs, g] > distinct[pairs, 0])[:, None]
        mass[:, g] = log_sum_exp_of(np.where(mine, log_c, -np.inf))
    return mass, distinct[pairs]


def log_sum_exp_of(z: Array) -> Array:
    """(n,) log of the sum of exp over rows; -inf for rows of -inf."""
    top = z.max(axis=1)
    top[np.isneginf(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)))


class _Tilted(NamedTuple):
    """What `_tilted` finds: the greatest expectation, and the tilt, of the scaled values w."""

    value: Array  # (m,)
    tilt: Array  # (m,) 0 for the center itself, inf for its restriction to the classes with w = 0
    w: Array  # (m, K) from -1 to 0


class _Moments(NamedTuple):
    """Of t: Lambda = log sum c exp(t w), w of mean 0, its first two derivatives, t L' - L."""

    log_partition: Array
    variance: Array
    divergence: Array


def _tilted(log_c: Array, values: Array, radius: Array) -> _Tilted:
    """One block of `support` and `extreme_member`."""
    present = log_c > -np.inf
    scale = np.abs(values).max(axis=-1, keepdims=True)
    v = np.broadcast_to(values / np.where(scale > 0.0, scale, 1.0), log_c.shape)
    top = v.max(axis=1, where=present, initial=-np.inf, keepdims=True)
    span = top - v.min(axis=1, where=present, initial=np.inf, keepdims=True)
    w = np.where(present, (v - top) / np.where(span > 0.0, span, 1.0), 0.0)
    most = np.maximum(-log_sum_exp_of(np.where(w == 0.0, log_c, -np.inf)), 0.0)
    c = np.exp(log_c)
    mean = (c * w).sum(axis=1)

    at_end = (radius >= most) | (span[:, 0] == 0.0)
    tilt = np.where(at_end, np.inf, 0.0)
    height = np.where(at_end, 0.0, mean)
    rows = np.flatnonzero(~at_end & (radius > 0.0))
    if rows.size:
        centered = w[rows] - mean[rows, None]
        rise, tilt[rows] = _search(log_c[rows], c[rows], centered, radius[rows], most[rows])
        height[rows] = np.clip(mean[rows] + rise, -1.0, 0.0)
    value = (top[:, 0] + span[:, 0] * height) * np.reshape(scale, -1)
    return _Tilted(value, tilt, w)


def _search(log_c: Array, c: Array, w: Array, b: Array, most: Array) -> tuple[Array, Array]:
    """Greatest expectation of w, whose mean is 0, and the tilt t; 0 < b < most, the limit of KL.

    Newton's method in log t for the logarithm of KL / (most - KL), which is close to a straight
    line for small t, within a bracket. It begins at the answer for small b.
    """
    value, tilt = np.empty((2, len(b)))
    active = np.arange(len(b))
    target = np.log(b) - np.log(most - b)
    # The variance of w is at most 1/4, so KL is at most t² / 8.
    low, high = 0.5 * np.log(8.0 * b), np.full(len(b), np.inf)
    variance = (c * w * w).sum(axis=1)
    with np.errstate(divide="ignore"):
        u = 0.5 * (np.log(2.0 * b) - np.log(variance))
    u = np.maximum(np.minimum(u, np.log(most + np.sqrt(8.0 * b))), low)
    for step in range(MAX_STEPS):
        t = np.exp(u)
        at = _moments(t, log_c, c, w)
        left = np.maximum(most - at.divergence, 0.0)
        short = at.divergence < b
        low, high = np.where(short, u, low), np.where(short, high, u)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            off = np.log(at.divergence) - np.log(left) - target
            spread = t * np.sqrt(at.variance)
            move = -off / (spread * (spread / at.divergence) + spread * (spread / left))
        move[~np.isfinite(move)] = np.inf
        bounded = high < np.inf
        # While there is no bracket, a tilt grows by a factor of at most exp(3) in one step.
        move = np.where(bounded, move, np.clip(move, 0.0, 3.0))
        # A steep divergence turns small steps into large ones.
        small = np.abs(move) * np.maximum(spread, 1.0) <= LAST_STEP
        converged = small & (np.abs(off) <= 1e-3)
        half = np.where(bounded, 0.5 * (low + np.where(bounded, high, low)) - u, move)
        astray = (u + move <= low) | (u + move >= high) | ((step + 1) % 5 == 0)
        move = np.where(astray & ~converged, half, move)
        done = converged | (high - low <= LAST_STEP**2) | (step + 1 == MAX_STEPS)
        value[active[done]] = ((b + at.log_partition) / t)[done]
        tilt[active[done]] = np.exp(u + np.where(converged, move, 0.0))[done]
        if done.all():
            break
        u = u + move
        if done.any():
            go = ~done
            active, log_c, c, w, b, most = (x[go] for x in (active, log_c, c, w, b, most))
            target, low, high, u = target[go], low[go], high[go], u[go]
    return value, tilt


def _moments(t: Array, log_c: Array, c: Array, w: Array) -> _Moments:
    exponent = t[:, None] * w
    # The mean of w is 0: the sum of c exp(t w) is at least 1, and what it exceeds 1 by is small
    # of second order. So nothing cancels, however small t.
    large = exponent > LARGEST_EXPONENT
    e = c * np.expm1(np.where(large, 0.0, exponent))
    huge = np.zeros(len(t), dtype=bool)
    if large.any():  # of classes that hardly have any probability
        z = log_c + exponent
        huge = z.max(axis=1) > LARGEST_EXPONENT
        e[large] = np.exp(np.minimum(z[large], LARGEST_EXPONENT))
    excess = e.sum(axis=1)
    log_partition = np.log1p(excess)
    slope = (e * w).sum(axis=1) / (1.0 + excess)
    e += c
    variance = (e * (w - slope[:, None]) ** 2).sum(axis=1) / (1.0 + excess)
    found = _Moments(log_partition, variance, t * slope - log_partition)
    if huge.any():
        of_huge = _moments_from_the_top(t[huge], log_c[huge], w[huge])
        for every, some in zip(found, of_huge, strict=True):
            every[huge] = some
    return found


def _moments_from_the_top(t: Array, log_c: Array, w: Array) -> _Moments:
    """`_moments` where t w is huge: relative to the greatest w, so that only its rivals count."""
    top = w.max(axis=1, where=log_c > -np.inf, initial=-np.inf)
    below = w - top[:, None]
    z = log_c + t[:, None] * below
    rest = log_sum_exp_of(z)
    q = np.exp(z - rest[:, None])
    q /= q.sum(axis=1, keepdims=True)
    slope = (q * below).sum(axis=1)
    variance = (q * (below - slope[:, None]) ** 2).sum(axis=1)
    return _Moments(t * top + rest, variance, t * slope - rest)


def _merged(log_c: Array, group: Indices, count: int) -> Array:
    """(n, count) log-probabilities of groups of classes."""
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(count))
    z = log_c[:, order]
    top = np.maximum.reduceat(z, start, axis=1)
    top[np.isneginf(top)] = 0.0
    e = np.exp(z - top[:, group[order]])
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.add.reduceat(e, start, axis=1)))
