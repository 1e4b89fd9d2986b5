"""Moving logits along a line: z + theta D(z), for any D. Exact ends and exact boxes.

Along a line the log-likelihood is concave in theta, so the plausible theta form an interval; and so
is the logarithm of every probability, log p_j = z_j + theta D_j - logsumexp(z + theta D). Hence a
probability is smallest at an end of the interval, and largest at an end or at the one theta where
the expectation of D equals D_j.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, for_each_block, row_blocks

MAX_NEWTON_STEPS = 200
TOLERANCE = 4 * float(np.finfo(np.float64).eps)
"""Nats per unit of weight by which an end may miss its budget."""

PEAK_STEPS = 30
PEAK_TOLERANCE = 1e-10
"""Nats by which a step of the search may still raise a peak when it is taken as found."""

PEAK_ELEMENTS = 1 << 18
"""Logits evaluated at once in the search for peaks."""

WORTHWHILE = 1e-12
"""A peak is looked for where it may raise a bound by more than this factor less one."""


Move = Callable[[Array], Array]
"""Logits (n, K) to what one unit of a parameter adds to them."""

Peaks = Callable[[Array, NDArray[np.intp], NDArray[np.intp]], Array]
"""Logits (n, K), rows (m,) and classes (m,) to the largest probabilities (m,) of these."""


@runtime_checkable
class Direction(Protocol):
    """A way to move logits: z becomes z + theta * move(z), for a parameter theta around 0.

    Attributes
    ----------
    name : shown in messages.
    ratio : the direction may use this many times the log-budget of a class shift.
    """

    name: str
    ratio: float

    def move(self, logits: Array) -> Array:
        """What theta = 1 adds to logits (n, K): finite, and each row from that row alone."""
        ...


def plausible_steps(
    logits: Logits,
    labels: NDArray[np.intp],
    weights: Array,
    direction: Direction,
    budgets: Array,
) -> tuple[Array, Array, float]:
    """The interval of theta with gain at least b, for every budget, from the data themselves.

    Infinite where the data cannot object: if the label of every row is moved up at least as much
    as any other class, larger theta only helps. Each Newton step is one pass over the data.

    Parameters
    ----------
    logits, labels, weights : (n, K), (n,), (n,) the labelled data.
    direction : what theta moves.
    budgets : (A,) log-likelihood that may be lost in all, each in [-inf, 0].

    Returns
    -------
    lower, upper : (A,) ends.
    residual : largest |gain - budget| at the finite ends, in nats per unit of weight.
    """
    A, W = len(budgets), float(weights.sum())
    b = np.concatenate([budgets, budgets])
    side = np.repeat([-1.0, 1.0], A)

    def gain(theta: Array) -> tuple[Array, Array]:
        value, slope = np.zeros(len(theta)), np.zeros(len(theta))
        for rows in row_blocks(*logits.shape):
            z = logits[rows].astype(np.float64)
            D, w, y = direction.move(z), weights[rows], labels[rows]
            each = np.arange(len(z))
            base = z[each, y] - _log_sum(z)
            for i, t in enumerate(theta):
                moved = z + t * D
                total = _log_sum(moved)
                value[i] += w @ (moved[each, y] - total - base)
                p = np.exp(moved - total[:, None])
                slope[i] += w @ (D[each, y] - (p * D).sum(axis=1))
        return value, slope

    # logsumexp is at least the term moved furthest: a line above the gain, whose root lies outside.
    height, rate = np.zeros(2), np.zeros(2)
    for rows in row_blocks(*logits.shape):
        z = logits[rows].astype(np.float64)
        D, w, y = direction.move(z), weights[rows], labels[rows]
        each = np.arange(len(z))
        base = z[each, y] - _log_sum(z)
        for i, sign in enumerate((-1.0, 1.0)):
            furthest = (sign * D).max(axis=1)
            rate[i] += w @ (sign * D[each, y] - furthest)
            highest = np.where(sign * D == furthest[:, None], z, -np.inf).max(axis=1)
            height[i] += w @ (z[each, y] - highest - base)
    height, rate = np.repeat(height, A), np.repeat(rate, A)
    infinite = np.isneginf(b) | (rate == 0)
    _, slope_at_zero = gain(np.zeros(1))
    still = ~infinite & (b == 0) & (side * slope_at_zero <= 0)
    solve = ~(infinite | still)
    theta = np.divide(side * (b - height), rate, out=np.zeros(2 * A), where=solve)
    missed = np.zeros(2 * A)
    at = np.flatnonzero(solve)
    for _ in range(MAX_NEWTON_STEPS):
        if not at.size:
            break
        value, slope = gain(theta[at])
        left = value - b[at]
        missed[at] = np.abs(left)
        off = missed[at] > TOLERANCE * W
        step = np.divide(left, slope, out=np.zeros(len(at)), where=off)
        theta[at] -= step
        at = at[np.abs(step) > TOLERANCE * (1.0 + np.abs(theta[at]))]
    theta = np.where(infinite, side * np.inf, theta)
    return theta[:A], theta[A:], float(missed.max()) / W


def widen_along(
    low: Array,
    high: Array,
    logits: Logits,
    move: Move,
    first: float,
    last: float,
    columns: NDArray[np.intp] | None = None,
    peaks: Peaks | None = None,
) -> None:
    """Widen bounds (n, K), in place, to the range of probabilities while theta is in [first, last].

    Both ends may be infinite, and 0 lies between them. `columns` are the classes to consider, all
    by default; the others have probability 0. O(K) per row and end, and O(K) more for
    every class whose bound a peak between the ends may raise; unless `peaks` knows better.
    """
    every = columns is None or len(columns) == logits.shape[1]
    pick = slice(None) if every else columns

    def block(rows: slice) -> None:
        z = logits[rows].astype(np.float64)[:, pick]
        D = move(z)
        floor, ceiling = low[rows][:, pick], high[rows][:, pick]
        lines = []
        for theta in (first, last):
            log_p, expected = _at(z, D, theta)
            p = np.exp(log_p)
            np.minimum(floor, p, out=floor)
            np.maximum(ceiling, p, out=ceiling)
            # The tangent there: log p_j <= intercept + slope * theta, for every theta.
            slope = D - expected[:, None]
            if np.isinf(theta):
                log_p = z - _log_sum(np.where(expected[:, None] == D, z, -np.inf))[:, None]
                intercept = log_p
            else:
                intercept = log_p - theta * slope
            lines.append((intercept, slope))
        (rise_at, rise), (fall_at, fall) = lines
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = (fall_at - rise_at) / (rise - fall)
            height = rise_at + rise * crossing
            worth = height > np.log(ceiling) + WORTHWHILE
        row, j = np.nonzero((rise > 0) & (fall < 0) & worth)
        if peaks is not None and row.size:
            ceiling[row, j] = np.maximum(ceiling[row, j], peaks(z, row, j))
        else:
            for part in row_blocks(len(row), z.shape[1], PEAK_ELEMENTS):
                r, k = row[part], j[part]
                peak = _peak(z[r], D[r], k, crossing[r, k], first, last)
                ceiling[r, k] = np.maximum(ceiling[r, k], peak)
        low[rows, pick], high[rows, pick] = floor, ceiling

    for_each_block(block, *logits.shape)


def _at(z: Array, D: Array, theta: float) -> tuple[Array, Array]:
    """Log p (n, K) and the expectation (n,) of D at theta, or in the limit of an infinite one."""
    if np.isinf(theta):
        extreme = D.max(axis=1) if theta > 0 else D.min(axis=1)
        moved = np.where(extreme[:, None] == D, z, -np.inf)
        return moved - _log_sum(moved)[:, None], extreme
    moved = z + theta * D
    log_p = moved - _log_sum(moved)[:, None]
    return log_p, (np.exp(log_p) * D).sum(axis=1)


def _peak(
    z: Array, D: Array, j: NDArray[np.intp], theta: Array, first: float, last: float
) -> Array:
    """Largest probability (m,) of class j between the ends: where E[D] = D_j."""
    each = np.arange(len(z))
    low, high = np.full(len(z), first), np.full(len(z), last)
    best = np.zeros(len(z))
    for _ in range(PEAK_STEPS):
        moved = z + theta[:, None] * D
        log_p = moved - _log_sum(moved)[:, None]
        best = np.maximum(best, np.exp(log_p[each, j]))
        p = np.exp(log_p)
        mean = (p * D).sum(axis=1)
        variance = (p * (D - mean[:, None]) ** 2).sum(axis=1)
        lead = D[each, j] - mean  # positive before the peak
        low, high = np.where(lead > 0, theta, low), np.where(lead > 0, high, theta)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = theta + lead / variance
            middle = np.where(
                np.isinf(low), 2 * high - 1, np.where(np.isinf(high), 2 * low + 1, (low + high) / 2)
            )
        ahead = np.where((newton > low) & (newton < high), newton, middle)
        if (variance * (ahead - theta) ** 2 <= PEAK_TOLERANCE).all():
            break
        theta = ahead
    return best


def _log_sum(z: Array) -> Array:
    top = z.max(axis=1)
    total: Array = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
    return total
