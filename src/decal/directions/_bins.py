"""Bins of margins: how they are numbered, and the power sums of the margins in them.

A bin's key says its class and its place. Up to FAR bins are aligned to multiples of their width, so
that those of two data sets add up key by key. Beyond, they are numbered by the leading bits of the
margin: their numbers continue those of the bins up to FAR, and halve when those halve.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, compiled

ORDER = 5  # highest power sum of the margins kept per bin

BIN_WIDTH = 1 / 8  # nats: with ORDER = 5 the gain is off by less than 1e-11 per example
MAX_BINS, MAX_BINS_PER_CLASS = 1 << 22, 1 << 6
"""Occupied bins, over all classes, beyond which they are merged in pairs (about 230 MB), unless
there are fewer than this per class (360 MB for 100,000 classes)."""

WIDEST_BIN = 2.0  # beyond half of pi the Taylor series would say little
BIN_WIDTHS = [BIN_WIDTH * 2**i for i in range(round(log2(WIDEST_BIN / BIN_WIDTH)) + 1)]
FAR = 2.0**34  # margins beyond are binned by leading digits: softplus is max(0, m) around them
FAR_DIGITS = 28  # binary digits by which they are told apart. A bin with a single value stays exact

POWERS = range(ORDER + 1)
SPAN = np.int64(1) << 40  # keys are class * SPAN + bin, with |bin| < SPAN / 2
_FAR_BITS = np.float64(FAR).view(np.int64)

Bins = tuple[NDArray[np.int64], Array]  # sorted keys (B,), each once, and power sums (6, B)


def bin_budget(classes: int) -> int:
    """Occupied bins beyond which they are merged in pairs."""
    return max(MAX_BINS, MAX_BINS_PER_CLASS * classes)


def sparse_bins(klass: NDArray[np.intp], m: Array, weights: Array | None, width: float) -> Bins:
    """Keys and power sums of margins m of classes, both of one shape or broadcast to that of m."""
    index = np.floor(m / width)
    far = np.abs(m) >= FAR
    if far.any():
        index[far] = _far_index(m[far], width)
    bins = index.astype(np.int64)
    middle, unit, _ = places(bins, width)
    x = m - middle
    x[far] /= unit[far]
    keys, cell = np.unique(bins + klass * SPAN, return_inverse=True)
    return keys, power_sums(cell.reshape(x.shape), x, weights, len(keys))


def repeated_bins(keys: NDArray[np.int64], moments: Array, classes: int) -> Bins:
    """Keys and power sums of as many classes, all with the same bins: those of class 0, given."""
    each = np.arange(classes, dtype=np.int64)[:, None] * SPAN + keys
    return each.ravel(), np.tile(moments, classes)


def power_sums(position: NDArray[np.intp], x: Array, weights: Array | None, cells: int) -> Array:
    """(6, cells) sums of w x^j over the margins x (K, n) that fall into each cell."""
    cell = position.ravel()
    sums = np.empty((ORDER + 1, cells))
    if weights is None:
        sums[0] = np.bincount(cell, minlength=cells)
        power = x.copy()
    else:
        power = np.broadcast_to(weights, x.shape)
        sums[0] = np.bincount(cell, power.ravel(), minlength=cells)
        power = power * x
    for j in range(1, ORDER + 1):
        sums[j] = np.bincount(cell, power.ravel(), minlength=cells)
        power *= x
    return sums


def add_bins(parts: list[Bins]) -> Bins:
    """Bins of several summaries, all of one width, added key by key."""
    kernels = compiled(sum(moments.size for _, moments in parts))
    if kernels is None:
        keys = np.concatenate([k for k, _ in parts])
        order = np.argsort(keys, kind="stable")  # a few sorted runs: this only merges them
        return add_equal_keys(
            keys[order], (np.concatenate([m[j] for _, m in parts])[order] for j in POWERS)
        )
    while len(parts) > 1:
        (a, of_a), (b, of_b), *others = parts
        count = kernels.distinct(a, b)
        keys, moments = np.empty(count, dtype=np.int64), np.empty((ORDER + 1, count))
        kernels.add_bins(a, of_a, b, of_b, keys, moments)
        parts = [*others, (keys, moments)]
    return parts[0]


def add_equal_keys(keys: NDArray[np.int64], moments: Iterable[Array]) -> Bins:
    """The distinct ones of sorted keys, and the sums of each power sum's values at them."""
    first = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
    sums = np.empty((ORDER + 1, len(first)))
    for out, values in zip(sums, moments, strict=True):
        np.add.reduceat(values, first, out=out)
    return keys[first], sums


def places(bins: NDArray[np.int64], width: float) -> tuple[Array, Array, NDArray[np.bool_]]:
    """The middle of every bin, the unit of distances from it, and whether it is beyond FAR.

    The unit is 1, or beyond FAR the width of the bin.
    """
    middle: Array = (bins + np.float64(0.5)) * width
    unit = np.ones(bins.shape)
    first = int(FAR / width)
    far = (bins >= first) | (bins < -first)
    if far.any():
        index = np.where(bins[far] < 0, -1 - bins[far], bins[far]) - first
        low, high = (
            ((index + i << _far_shift(width)) + _FAR_BITS).view(np.float64) for i in (0, 1)
        )
        unit[far] = high - low
        middle[far] = np.where(bins[far] < 0, -1.0, 1.0) * (low + (high - low) / 2)
    return middle, unit, far


def _far_index(m: Array, width: float) -> NDArray[np.int64]:
    """Numbers of the bins of margins beyond FAR."""
    beyond = (np.abs(m).view(np.int64) - _FAR_BITS) >> _far_shift(width)
    index = beyond + int(FAR / width)
    return np.where(m < 0, -1 - index, index)


def _far_shift(width: float) -> int:
    return 52 - FAR_DIGITS + round(log2(width / BIN_WIDTH))
