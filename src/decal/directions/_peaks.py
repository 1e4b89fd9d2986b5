"""The largest probability that each class reaches while the logits are scaled.

With d = z - max z and A(s) = log sum_k exp(s d_k), a class's log-probability at scale s is
s d_j - A(s): its largest value is the Legendre transform of A at d_j, reached where A'(s) = d_j. A
is one function for all classes of a row. So, unless few of them ask, it is tabulated once, finely
enough for its interpolation to be exact, and every class reads its peak from the table: O(K) for
each of some eighty nodes, instead of O(K) for each class; and most nodes take a multiplication per
class, no exponential.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import (
    BLOCK_ELEMENTS,
    Array,
    Logits,
    Mask,
    compiled,
    for_each_block,
    row_blocks,
)
from decal.directions._lines import WORTHWHILE

PER_OCTAVE, MOST_OCTAVES = 8, 24  # nodes evenly spaced in log(1 + s), and how far they go
AT_ONCE = 2  # octaves
UNIT = float(np.log(2.0)) / PER_OCTAVE  # between nodes
AFRESH = 8  # octaves after which exponentials are computed again: squares double their round-off
LOWEST_EXPONENT = -690.0  # smaller ones are taken for it: numbers below 1e-308 are slow
SMALLEST_ROOT = math.exp(LOWEST_EXPONENT / 2)
FEW_PEAKS = 8  # of a row: these are sought one by one

MIDDLE_TOLERANCE = 1e-8
"""Nats by which interpolation may miss A, and its slope, in the middle of an interval; in each of
its halves, which are used, it misses 2^8 times less."""

SMALLEST_STEP = 1e-300
NEAR, NEARLY_EVEN = 1e-9, 1e-3  # nats from a peak, and skewness up to it, that a series bridges
MOST_STEPS, NEWTON_STEPS = 80, 2
BLOCK = 1 << 14  # exponentials at once: more take longer to get memory for
# Times the usual size, for loops that take seconds to compile, once; where classes are few, NumPy
# takes at most three times as long.
WORTH_COMPILING, WORTH_COMPILING_FEW = 8, 32
FEW_CLASSES = 20  # whose peaks are sought one by one in compiled loops, too
COMPILED_BLOCK = 1 << 15  # elements: a millisecond

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
_DEGREES = np.arange(1.0, 8)[:, None]
_AT_HALF = np.stack([0.5 ** np.arange(8), np.arange(8) * 0.5 ** np.arange(-1.0, 7)], axis=1)
_IN_THE_MIDDLE = _HERMITE.T @ _AT_HALF  # value and slope


def widen_by_scale(
    low: Array, high: Array, logits: Logits, first: float, last: float, columns: NDArray[np.intp]
) -> None:
    """Widen bounds (n, K), in place, to the range at scales 0 <= first <= 1 <= last <= inf."""
    n, K = logits.shape
    pick = slice(None) if len(columns) == K else columns
    few = len(columns) <= FEW_CLASSES
    worthwhile = WORTH_COMPILING_FEW if few else WORTH_COMPILING
    compiles = compiled(n * K // worthwhile) is not None
    if not compiles and pick is not columns and n * K <= BLOCK_ELEMENTS:
        row = 0 if n == 1 else slice(None)  # sums of one row are numbers: no arrays of one element
        _widen(low[row], high[row], logits[row].astype(np.float64), first, last)
        return

    def widen(rows: slice | NDArray[np.intp]) -> None:
        floor, ceiling = low[rows][:, pick], high[rows][:, pick]
        _widen(floor, ceiling, logits[rows][:, pick].astype(np.float64), first, last)
        low[rows, pick], high[rows, pick] = floor, ceiling

    if not compiles:
        for_each_block(widen, n, K)
        return
    from decal._base import scale_kernels

    boxes = scale_kernels.boxes_of_few if few else scale_kernels.boxes_of_many

    def block(rows: slice) -> None:
        z = np.ascontiguousarray(logits[rows])
        floor, ceiling = (bound[rows].astype(np.float64, copy=False) for bound in (low, high))
        left = rows.start + boxes(z, columns, float(first), float(last), floor, ceiling, 0)
        if low.dtype != floor.dtype:
            low[rows], high[rows] = floor, ceiling
        if left.size:
            widen(left)

    for_each_block(block, n, K, COMPILED_BLOCK)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def _widen(low: Array, high: Array, z: Array, first: float, last: float) -> None:
    """Widen bounds of logits (n, K), or of a row (K,), in place: to ends, and to higher peaks."""
    many: Any = z.ndim > 1  # whether sums are (n, 1), or one number
    d = z - np.maximum.reduce(z, axis=-1, keepdims=many)
    masked: Mask | None = None
    if np.minimum.reduce(d, axis=None, initial=0.0) == -np.inf:
        masked = d == -np.inf
        d[masked] = 0.0
    tangents = []
    for s in (first, last):
        # The limit of infinite scales has a slope of 0, like any scale of the ties alone.
        p = np.exp(s * d) if s < np.inf else (d == 0).astype(np.float64)
        if masked is not None:
            p[masked] = 0.0
        total = np.add.reduce(p, axis=-1, keepdims=many)
        p /= total
        np.minimum(low, p, out=low)
        np.maximum(high, p, out=high)
        p *= d
        slope = np.add.reduce(p, axis=-1, keepdims=many)
        tangents.append((slope, np.log(total) - (s if s < np.inf else 1.0) * slope))
    # Tangents of A at both ends lie below it: no class is more probable than where they meet.
    (rise, at_first), (fall, at_last) = tangents
    most = d - rise
    most *= (at_first - at_last) / (fall - rise)
    most -= at_first
    higher = (most > np.log(high) + WORTHWHILE) & (rise < d) & (d < fall)
    if np.logical_or.reduce(higher, axis=None):
        *row, j = higher.nonzero()
        rows = row[0] if many else np.zeros_like(j)
        peaks = scale_peaks(z if many else z[None], rows, j, first, last)
        high[higher] = np.maximum(high[higher], peaks)


def scale_peaks(
    logits: Array, row: NDArray[np.intp], j: NDArray[np.intp], first: float, last: float
) -> Array:
    """(m,) the largest probabilities of classes j in rows of the logits (n, K), at any scale.

    They lie between the scales first and last, 0 <= first < last <= inf. Masked logits are -inf.
    """
    rows, of = np.unique(row, return_inverse=True) if len(logits) > 1 else (row[:1], row * 0)
    d = logits[rows] - logits[rows].max(axis=1, keepdims=True)
    masked = d == -np.inf
    d[masked] = 0.0
    deepest = -d.min(axis=1, keepdims=True)
    d /= deepest  # from -1 to 0; scales are of that from here on
    kept, target, gap = 1.0 - masked, d[of, j], np.where(d < 0, -d, np.inf).min(axis=1)
    with np.errstate(over="ignore"):
        least = first * deepest[:, 0]
        # From there on A' is above all d < 0.
        most = (1.0 + math.log(d.shape[1])) / gap
        most = np.minimum(np.maximum(most, least), last * deepest[:, 0])
    if len(row) <= FEW_PEAKS * len(rows):
        return np.exp(_sought(d[of], kept[of], target, least[of], most[of]))

    start, found = 1.0 + least, np.empty(len(row))
    octaves = np.minimum(np.log2((1.0 + most) / start), MOST_OCTAVES) + 2 / PER_OCTAVE
    parts = np.ceil(octaves / AT_ONCE).astype(np.intp)
    sizes = set(parts.tolist())
    for part in sizes:  # of rows that need about as many
        which: Any = slice(None)
        asked, inside = which, of
        if len(sizes) > 1:
            which, asked = np.flatnonzero(parts == part), np.flatnonzero(parts[of] == part)
            inside = np.searchsorted(which, of[asked])
        table = d[which], kept[which], start[which], AT_ONCE * part, -gap[which]
        found[asked] = _tabulated(*table, inside, target[asked])
    left = np.flatnonzero(np.isnan(found))
    if left.size:
        of = of[left]
        found[left] = _sought(d[of], kept[of], target[left], least[of], most[of])
    return np.exp(found)


def _tabulated(
    d: Array,
    kept: Array,
    start: Array,
    octaves: int,
    largest: Array,
    of: NDArray[np.intp],
    target: Array,
) -> Array:
    """The largest s d_j - A(s) for targets d_j (m,) of rows `of` of d (n, K); NaN if not known.

    Of scales from start - 1 (n,) on. Rows have no targets above their `largest` (n,).
    """
    sums = _climbed(d, kept, start, octaves, largest)
    M = sums.shape[1] - 2
    c = start[:, None] * 2.0 ** (np.arange(M + 1) / PER_OCTAVE)
    value, mean, curve, third = _cumulants(sums[:, : M + 1])
    f1, f2, f3 = UNIT * c * mean, (UNIT * c) ** 2 * curve, (UNIT * c) ** 3 * third
    nodes = np.stack([value, f1, UNIT * f1 + f2, UNIT**2 * f1 + 3 * UNIT * f2 + f3], axis=2)
    wide = nodes[:, ::2] * 2.0 ** np.arange(4)  # twice the unit
    in_the_middle = np.concatenate([wide[:, :-1], wide[:, 1:]], axis=2) @ _IN_THE_MIDDLE
    missed = np.abs(in_the_middle - nodes[:, 1::2, :2] * [1.0, 2.0]).max(axis=2)
    fine = missed <= MIDDLE_TOLERANCE

    # The interval that holds a peak, counted over all rows, whose means are from -1 to 0.
    apart = 2.0 * np.arange(len(d))
    at = np.searchsorted((mean[:, 1:-1] + apart[:, None]).ravel(), target + apart[of]) + of
    powers = np.concatenate([nodes[:, :-1], nodes[:, 1:]], axis=2) @ _HERMITE.T
    powers = powers.reshape(-1, 8).T.take(at, axis=1)
    low, high = at + of, at + of + 1  # its nodes
    found = _read(powers, np.log(c).ravel()[low], mean.ravel()[[low, high]], target)
    found[~fine.ravel()[at // 2] | (target > mean.ravel()[high])] = np.nan
    return found


def _derivatives(d: Array, kept: Array, s: Array) -> tuple[Array, Array, Array, Array]:
    """A and its first three derivatives, of each row of d (n, K) at its own scales s (n, M).

    `kept` is 1 for unmasked classes and 0 for masked ones, whose d is 0.
    """
    n, M = s.shape
    sums = np.empty((n, M, 4))
    at_once = BLOCK // d.shape[1]
    for rows in row_blocks(n, M, at_once):
        x = d[rows]
        powers = np.stack([kept[rows], x, x * x, x * x * x], axis=2)
        for nodes in row_blocks(M, len(x), at_once):
            e = s[rows, nodes, None] * x[:, None]
            np.matmul(np.exp(e, out=e), powers, out=sums[rows, nodes])
    return _cumulants(sums)


def _climbed(d: Array, kept: Array, start: Array, octaves: int, largest: Array) -> Array:
    """(n, M, 4) sums of d^p exp(s d), p = 0 to 3, at 1 + s = start * 2^(m / PER_OCTAVE).

    With c = 1 + s, exp(s d) = exp(c d) exp(-d), and exp(c d) is the square of that an octave below.
    Up to the octave in which A' begins above `largest` (n,); of later ones A is 0 instead.
    """
    n, K = d.shape
    sums = np.zeros((n, octaves * PER_OCTAVE, 4))
    sums[..., 0], climbed = 1.0, 0
    lanes = 2.0 ** (np.arange(PER_OCTAVE) / PER_OCTAVE)
    for rows in row_blocks(n, PER_OCTAVE * K, BLOCK):
        x, least = d[rows], start[rows, None]
        powers = np.empty((*x.shape, 4))
        np.multiply(np.exp(-x), kept[rows], out=powers[..., 0])
        for p in range(3):
            np.multiply(powers[..., p], x, out=powers[..., p + 1])
        highest = float(least.max())
        for octave in range(octaves):
            underflows = highest * 2.0 ** (octave + 1) > -LOWEST_EXPONENT
            if octave % AFRESH == 0:
                e = (least * (lanes * 2.0**octave))[:, :, None] * x[:, None]
                if underflows:
                    np.maximum(e, LOWEST_EXPONENT, out=e)
                np.exp(e, out=e)
            else:
                if underflows:
                    np.maximum(e, SMALLEST_ROOT, out=e)
                np.multiply(e, e, out=e)
            first = octave * PER_OCTAVE
            found = np.matmul(e, powers, out=sums[rows, first : first + PER_OCTAVE])
            climbed = max(climbed, first + PER_OCTAVE)
            if octave % 2 and (found[:, 0, 1] >= largest[rows] * found[:, 0, 0]).all():
                break
    return sums[:, :climbed]


def _cumulants(sums: Array) -> tuple[Array, Array, Array, Array]:
    """A and its first three derivatives from sums (..., 4) of d^p exp(s d)."""
    total = sums[..., 0]
    mean, second, third = (sums[..., power] / total for power in (1, 2, 3))
    return np.log(total), mean, second - mean**2, third - mean * (3 * second - 2 * mean**2)


def _read(powers: Array, start: Array, means: Array, target: Array) -> Array:
    """The largest s d - A(s), for d (m,) whose peaks lie in intervals of log(1 + s)."""
    x = (target - means[0]) / np.maximum(means[1] - means[0], SMALLEST_STEP)
    slopes = powers[1:] * _DEGREES
    curves = slopes[1:] * _DEGREES[:-1]
    of_x = np.empty_like(powers)
    of_x[0] = 1.0
    for _ in range(NEWTON_STEPS):
        np.minimum(np.maximum(x, 0.0, out=of_x[1]), 1.0, out=of_x[1])
        for power in range(2, len(powers)):
            np.multiply(of_x[power // 2], of_x[power - power // 2], out=of_x[power])
        scale = np.exp(start + UNIT * of_x[1])
        risen = scale * target * UNIT
        slope = risen - np.einsum("pm,pm->m", slopes, of_x[:-1])
        curve = risen * UNIT - np.einsum("pm,pm->m", curves, of_x[:-2])
        step = slope / np.minimum(curve, -SMALLEST_STEP)
        x = of_x[1] - step
    # And what the last step would raise it by.
    value = (scale - 1.0) * target - np.einsum("pm,pm->m", powers, of_x)
    return np.asarray(value - 0.5 * slope * step)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def _sought(d: Array, kept: Array, target: Array, below: Array, above: Array) -> Array:
    """The largest s d_j - A(s) for targets d_j (m,), one of each row of d (m, K).

    Newton's method for log(-A'), which is almost straight at large scales, between two of them.
    """
    found = np.empty(len(target))
    left = np.arange(len(target))
    s = np.minimum(np.maximum(-1.0 / target, below), above)
    for _ in range(MOST_STEPS):
        value, mean, curve, third = (a[:, 0] for a in _derivatives(d, kept, s[:, None]))
        ahead = target - mean
        near = ahead / curve
        lopsided, rest = third / curve * near, ahead * near
        away = ~((rest <= NEAR) & (np.abs(lopsided) <= NEARLY_EVEN))
        found[left] = s * target - value + np.where(away, 0.0, rest * (0.5 - lopsided / 6))
        if not np.logical_or.reduce(away):
            break
        below, above = np.where(ahead > 0, s, below), np.where(ahead > 0, above, s)
        s = s + np.log(target / mean) * mean / curve
        outside = ~((s > below) & (s < above))
        if np.logical_or.reduce(outside):
            s = np.where(outside, np.expm1((np.log1p(below) + np.log1p(above)) / 2), s)
        left, d, kept = left[away], d[away], kept[away]
        target, s, below, above = target[away], s[away], below[away], above[away]
    return found
