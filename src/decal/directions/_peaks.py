"""The largest probability that each class reaches while the logits are scaled.

With d = z - max z and A(s) = log sum_k exp(s d_k), a class's log-probability at scale s is
s d_j - A(s): its largest value is the Legendre transform of A at d_j, reached where A'(s) = d_j. A
is one function for all classes of a row. So it is tabulated once, as finely as its interpolation
needs to be exact, and every class reads its peak from the table: O(K) for each of some fifty nodes,
instead of O(K) for each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, compiled, for_each_block, row_blocks
from decal.directions._lines import widen_along

SMALLEST_NODE = 2.0**-7  # of the largest |d|: the lowest node; below, A is its Taylor polynomial
BEYOND_ALL_NODES = 2.0**20  # times deeper than any other stand masked logits: no node sees them
WIDEST = 1.0  # intervals of log s that are wider are halved: one point does not tell their error
NARROWEST = 1e-6  # intervals this narrow are not halved any more: what they miss is round-off

MIDDLE_TOLERANCE = 1e-8
"""Nats by which interpolation may miss A, and its slope, in the middle of an interval; in each of
its halves, which are used, it misses 2^8 times less."""

MOST_HALVINGS, NEWTON_STEPS = 60, 4
WORTH_COMPILING = 8  # times the usual size: these loops take some seconds to compile, once
COMPILED_BLOCK = 1 << 13  # elements: some tenths of a millisecond

# From A and three derivatives at both endpoints of an interval of length 1 to powers of the
# distance from the first.
_HERMITE = np.linalg.inv(
    np.array(
        [
            [np.prod(np.arange(p, p - q, -1)) * (at ** max(p - q, 0)) * (p >= q) for p in range(8)]
            for at in (0.0, 1.0)
            for q in range(4)
        ]
    )
)
_IN_THE_MIDDLE = np.stack([0.5 ** np.arange(8), np.arange(8) * 0.5 ** np.arange(-1.0, 7)], axis=1)


@dataclass(frozen=True)
class Nodes:
    """A and its first three derivatives in u = log s, (m, 4), at points u (m,) of some rows."""

    u: Array
    derivatives: Array

    @classmethod
    def at(cls, d: Array, row: NDArray[np.intp], u: Array) -> Self:
        """Those of rows of d (n, K), whose largest entry is 0, at u (m,)."""
        s, moments = np.exp(u), np.empty((len(u), 4))
        kernels = compiled(len(u) * d.shape[1])
        if kernels is not None:
            kernels.moments(d, row, s, moments)
        else:
            for part in row_blocks(len(u), d.shape[1], 1 << 17):
                x = d[row[part]]
                e = np.exp(s[part, None] * x)
                for power in range(4):
                    moments[part, power] = e.sum(axis=1)
                    e *= x
        total = moments[:, 0]
        mean, second, third = (moments[:, 1:] / total[:, None]).T
        first = s * mean
        curved = s**2 * (second - mean**2)
        skewed = s**3 * (third - 3 * mean * second + 2 * mean**3)
        derivatives = [np.log(total), first, first + curved, first + 3 * curved + skewed]
        return cls(u, np.stack(derivatives, axis=1))

    def __getitem__(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> Nodes:
        return Nodes(self.u[which], self.derivatives[which])

    @property
    def mean(self) -> Array:
        """(m,) A'(s), the expectation of d."""
        mean: Array = self.derivatives[:, 1] * np.exp(-self.u)
        return mean


def joined(some: Nodes, more: Nodes) -> Nodes:
    """Those of both, one after the other."""
    return Nodes(np.append(some.u, more.u), np.concatenate([some.derivatives, more.derivatives]))


def widen_by_scale(
    low: Array, high: Array, logits: Logits, first: float, last: float, columns: NDArray[np.intp]
) -> None:
    """Widen bounds (n, K), in place, to the range at scales 0 <= first <= 1 <= last <= inf."""
    n, K = logits.shape
    peaks = partial(scale_peaks, first=first, last=last)
    if compiled(n * K // WORTH_COMPILING) is None:
        widen_along(low, high, logits, _from_a_scale_of_zero, first, last, columns, peaks)
        return
    from decal._base import scale_kernels

    few = len(columns) <= scale_kernels.FEW
    boxes = scale_kernels.boxes_of_few if few else scale_kernels.boxes_of_many

    def block(rows: slice) -> None:
        z = np.ascontiguousarray(logits[rows])
        left = boxes(z, columns, float(first), float(last), low, high, rows.start)
        if left.size:
            floor, ceiling = low[left], high[left]
            ray = _from_a_scale_of_zero
            widen_along(floor, ceiling, logits[left], ray, first, last, columns, peaks)
            low[left], high[left] = floor, ceiling

    for_each_block(block, n, K, COMPILED_BLOCK)


def _from_a_scale_of_zero(z: Array) -> tuple[Array, Array]:
    """The logits s z, but for a constant per row, as a line in s."""
    return np.zeros_like(z), z - z.max(axis=1, keepdims=True)


def scale_peaks(
    logits: Array, row: NDArray[np.intp], j: NDArray[np.intp], first: float, last: float
) -> Array:
    """(m,) the largest probabilities of classes j in rows of the logits (n, K), at any scale.

    They lie between the scales first and last, 0 <= first < last <= inf. Masked logits are -inf.
    """
    K = logits.shape[1]
    rows, of = np.unique(row, return_inverse=True)
    d = logits[rows] - logits[rows].max(axis=1, keepdims=True)
    target, rows = d[of, j], np.arange(len(rows))
    gap = np.where(d < 0, -d, np.inf).min(axis=1)
    masked = np.isneginf(d)
    deepest = np.where(masked, 0.0, d).min(axis=1)
    least = SMALLEST_NODE / -deepest
    d = np.where(masked, BEYOND_ALL_NODES * deepest[:, None], d)
    with np.errstate(over="ignore"):
        most = np.minimum((1.0 + np.log(K)) / gap, last)  # from there on A' is above every d < 0
    low = Nodes.at(d, rows, np.log(np.maximum(least, first)))
    high = Nodes.at(d, rows, np.log(np.maximum(most, np.maximum(least, first))))
    found = np.full(len(row), -np.inf)
    below = target <= low.mean[of]
    # Where the first scale is beyond the series about 0, what peaks before it is not found here.
    near = below & (least[of] >= first)
    found[near] = _near_zero(d, masked, of[near], target[near], first)
    pair = np.flatnonzero(~below)
    at = of[pair]  # the interval that holds a pair's peak
    for _ in range(MOST_HALVINGS):
        if not pair.size:
            break
        used, at = np.unique(at, return_inverse=True)
        rows, low, high = rows[used], low[used], high[used]
        middle = Nodes.at(d, rows, (low.u + high.u) / 2)
        width = high.u - low.u
        value, slope = (_powers(low, high) @ _IN_THE_MIDDLE).T
        missed = np.maximum(
            np.abs(value - middle.derivatives[:, 0]),
            np.abs(slope - middle.derivatives[:, 1] * width),
        )
        fine = (width <= WIDEST) & (missed <= MIDDLE_TOLERANCE) | (width <= NARROWEST)
        right = target[pair] > middle.mean[at]
        # Both halves of every interval: the left ones, then the right ones.
        rows, low, high = np.tile(rows, 2), joined(low, middle), joined(middle, high)
        at, done = at + right * len(used), fine[at]
        found[pair[done]] = _read(low, high, at[done], target[pair[done]])
        pair, at = pair[~done], at[~done]
    peaks: Array = np.exp(found)
    return peaks


def _powers(low: Nodes, high: Nodes) -> Array:
    """(m, 8) the polynomials between nodes, in powers of the distance from the first, 0 to 1."""
    width = (high.u - low.u)[:, None] ** np.arange(4)
    both = np.concatenate([low.derivatives * width, high.derivatives * width], axis=1)
    return both @ _HERMITE.T


def _read(low: Nodes, high: Nodes, at: NDArray[np.intp], target: Array) -> Array:
    """The largest s d - A(s), for d (m,) whose peaks lie in the intervals `at`."""
    width = (high.u - low.u)[at]
    powers = _powers(low, high)[at].T
    start, mean, end = low.u[at], low.mean[at], high.mean[at]
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.clip(np.nan_to_num((target - mean) / (end - mean), nan=0.5), 0.0, 1.0)
    polyval = np.polynomial.polynomial.polyval
    slopes = np.polynomial.polynomial.polyder(powers)
    curves = np.polynomial.polynomial.polyder(slopes)
    for _ in range(NEWTON_STEPS):
        risen = np.exp(start + width * x) * target * width
        slope = risen - polyval(x, slopes, tensor=False)
        curve = risen * width - polyval(x, curves, tensor=False)
        x = np.clip(x - np.divide(slope, curve, out=np.zeros_like(x), where=curve < 0), 0.0, 1.0)
    value: Array = np.exp(start + width * x) * target - polyval(x, powers, tensor=False)
    return value


def _near_zero(
    d: Array, masked: NDArray[np.bool_], row: NDArray[np.intp], target: Array, first: float
) -> Array:
    """The largest s d - A(s) at scales so small that four cumulants tell everything."""
    possible = np.count_nonzero(~masked, axis=1)
    d = np.where(masked, 0.0, d)
    mean = d.sum(axis=1) / possible
    centered = np.where(masked, 0.0, d - mean[:, None])
    second, third, fourth = ((centered**p).sum(axis=1) / possible for p in (2, 3, 4))
    c2, c3, c4 = second[row], third[row], (fourth - 3 * second**2)[row]
    ahead = target - mean[row]
    s = ahead / c2
    for _ in range(NEWTON_STEPS):
        left = ahead - s * (c2 + s * (c3 / 2 + s * c4 / 6))
        s = s + left / (c2 + s * (c3 + s * c4 / 2))
    s = np.maximum(s, first)
    value: Array = s * ahead - s**2 * (c2 / 2 + s * (c3 / 6 + s * c4 / 24)) - np.log(possible[row])
    return value
