"""From labelled logits to the evidence of class shifts: margins are computed and put into bins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import (
    BLOCK_ELEMENTS,
    Array,
    Logits,
    compiled,
    for_each_block,
    margins,
    row_blocks,
)
from decal.directions._bins import (
    BIN_WIDTH,
    ORDER,
    POWERS,
    SPAN,
    bin_budget,
    power_sums,
    sparse_bins,
)
from decal.directions._direction import LabelledLogits, taken
from decal.directions._margins import COARSE_WIDTH, MarginSummary, difference_of_weights, merge

GRID_REACH = 1024.0  # margins beyond, as of masked classes, are left out of dense grids of bins
# Margins computed before they are binned: the working memory of a fit, 16 MB; or those of so many
# rows, if they are more: each class's bins are then fetched for many.
PASS_ELEMENTS, PASS_ROWS = 1 << 21, 1 << 7
FEW_STRAYS = 1 / 256  # share of margins that may lie outside the grid before a wider one is opened
CACHE_LINE = 8  # rows whose margins are computed at once, at least: they fill lines of memory
FAR_MARGIN, FAR_SHIFT = 1000.0, 900.0
"""Infinite bounds of margins are put at the first, beyond all that matters for shifts up to the
second; longer shifts are taken as infinite, which is further."""

Answers = NDArray[np.int8]
"""(n, L): 1 for a label that an input has, 0 for one that it has not, -1 where nobody knows."""


def blocks_of_margins(data: LabelledLogits) -> Iterator[tuple[slice, Array]]:
    """Rows and their margins (K, rows), block by block, each in the memory of the one before."""
    n, K = data.logits.shape
    kernels = compiled(n * K)
    absent = np.flatnonzero(~data.present)
    memory = np.empty(min(n * K, max(PASS_ELEMENTS, PASS_ROWS * K)))
    for rows in row_blocks(n, K, len(memory)):
        count = rows.stop - rows.start
        m = memory[: K * count].reshape(K, count)

        def fill(part: slice, m: Array = m, first: int = rows.start) -> None:
            chunk = data.logits[first + part.start : first + part.stop]
            if kernels is None:
                m[:, part] = margins(chunk, data.center)
            else:
                z = np.ascontiguousarray(chunk)
                kernels.margins(z, data.center, absent, m, part.start)

        for_each_block(fill, count, K, max(BLOCK_ELEMENTS, CACHE_LINE * K))
        yield rows, m


class Summariser:
    """Builds a MarginSummary from blocks of margins; memory does not grow with their number.

    Beyond `max_bins` occupied bins they are merged in pairs. Margins `expected` in all, if known,
    tell whether a dense grid of bins is worth its memory.
    """

    def __init__(self, classes: int, max_bins: int | None = None, expected: int = 0) -> None:
        self.max_bins = bin_budget(classes) if max_bins is None else max_bins
        self.expected = expected
        self.label_weight, self.masked, self.certain = np.zeros((3, classes))
        self._done: list[MarginSummary] = []
        # Dense power sums (K * (width + 1), 6) over the bins low_k .. low_k + width - 1 of every
        # class, and a last cell for all that lies elsewhere and is kept sparsely.
        self._bin_width = BIN_WIDTH
        self._low = np.zeros(classes)
        self._width = 0
        self._grid = np.zeros((0, ORDER + 1))

    def add(self, m: Array, labels: NDArray[np.intp] | None, weights: Array | None) -> None:
        """Add margins m (K, n) of weights (n,) or 1; labels are None if known elsewhere."""
        if labels is not None:
            self.label_weight += np.bincount(labels, weights, minlength=len(m))
        K, n = m.shape
        kernels = compiled(m.size)
        lowest, highest = np.empty(K), np.empty(K)

        def measure(group: slice) -> None:
            np.min(m[group], axis=1, out=lowest[group])
            np.max(m[group], axis=1, out=highest[group])

        for_each_block(measure, K, n)
        self._count_decided(m, weights, lowest, highest)
        strays = self._strays(m, lowest, highest)
        near = np.abs(m[strays]) <= GRID_REACH
        if self._width == 0 or np.count_nonzero(near) > FEW_STRAYS * m.size:
            self._close_grid()
            self._open_grid(*_within_reach(m, lowest, highest), m.size)
            strays = self._strays(m, lowest, highest)
        if self._width == 0:  # so few margins over so wide a range that most bins stay empty
            strays = np.nonzero(np.isfinite(m))
        astray = len(strays[0]) > 0
        if astray:
            klass, column = strays
            w = None if weights is None else weights[column]
            self._push(BIN_WIDTH, *sparse_bins(klass, m[strays], w, BIN_WIDTH))
        if self._width == 0:
            return
        some_outside = astray or not np.isfinite([lowest, highest]).all()
        cells = self._width + 1

        def deposit(group: slice) -> None:
            """Add the power sums of some classes to the open grid."""
            if kernels is not None:
                w = np.empty(0) if weights is None else weights
                bins = (self._low, self._width, self._bin_width, self._grid)
                kernels.deposit(m, w, *bins, group.start, group.stop)
                return
            x = m[group] * (1.0 / self._bin_width)
            x -= self._low[group, None]
            if some_outside:
                x[(x < 0) | (x >= self._width)] = self._width
            cell = x.astype(np.intp)
            x -= cell
            x -= 0.5
            x *= self._bin_width
            cell += np.arange(len(x))[:, None] * cells
            part = slice(group.start * cells, group.stop * cells)
            self._grid[part] += power_sums(cell, x, weights, part.stop - part.start).T

        for_each_block(deposit, K, n)

    def _strays(self, m: Array, lowest: Array, highest: Array) -> tuple[NDArray[np.intp], ...]:
        """Classes and columns of the margins that no bin of the open grid covers."""

        def beyond(m: Array, low: Array) -> NDArray[np.bool_]:
            x = m * (1.0 / self._bin_width) - low
            return (x < 0) | (x >= self._width)

        classes = np.flatnonzero(beyond(lowest, self._low) | beyond(highest, self._low))
        if self._width == 0 or not classes.size:
            return (np.empty(0, np.intp),) * 2
        part = m[classes]
        row, column = np.nonzero(beyond(part, self._low[classes, None]) & np.isfinite(part))
        return classes[row], column

    def _count_decided(
        self, m: Array, weights: Array | None, lowest: Array, highest: Array
    ) -> None:
        """Add up the weights of infinite margins, where the extremes (K,) of a class are."""
        w = np.ones(m.shape[1]) if weights is None else weights
        for found, extreme, total in (
            (lowest, -np.inf, self.masked),
            (highest, np.inf, self.certain),
        ):
            classes = np.flatnonzero(found == extreme)
            total[classes] += (m[classes] == extreme) @ w

    def summary(self) -> MarginSummary:
        """All evidence added so far."""
        self._close_grid()
        K = len(self.label_weight)
        # A class that is masked, or alone, in every row has no margins, but sums over its bins are
        # taken.
        keys = np.flatnonzero((self.masked > 0) | (self.certain > 0)) * SPAN
        if keys.size:
            empty = np.zeros((ORDER + 1, len(keys)))
            self._done.append(MarginSummary.of_bins(BIN_WIDTH, keys, empty, K))
        (whole,) = self._done = [merge(self._done, self.max_bins)]
        return replace(
            whole,
            label_weight=self.label_weight.copy(),
            masked=self.masked.copy(),
            certain=self.certain.copy(),
        )

    def _open_grid(self, lowest: Array, highest: Array, margins_now: int) -> None:
        """Start a grid from these margins to those and more; none if most cells stayed empty."""
        expected = max(self.expected, margins_now)
        limit = min(4 * expected, 2 * self.max_bins)
        widest = COARSE_WIDTH if expected > self.max_bins else BIN_WIDTH
        bin_width = BIN_WIDTH
        while bin_width <= widest:
            low, high = np.floor(lowest / bin_width), np.floor(highest / bin_width)
            room = (high - low).max() // 4 + 1
            width = (high - low).max() + 2 * room + 1
            if width * len(low) <= limit:
                self._bin_width, self._low, self._width = bin_width, low - room, int(width)
                self._grid = np.zeros(((self._width + 1) * len(low), ORDER + 1))
                return
            bin_width *= 2

    def _close_grid(self) -> None:
        self._grid[self._width :: self._width + 1] = 0.0  # these have been kept sparsely
        occupied = np.flatnonzero(self._grid[:, 0])
        if occupied.size:
            klass, within = np.divmod(occupied, self._width + 1)
            keys = klass * SPAN + within + self._low.astype(np.int64)[klass]
            moments = np.empty((ORDER + 1, len(occupied)))
            for j in POWERS:
                moments[j] = self._grid[occupied, j]
            self._push(self._bin_width, keys, moments)
        self._width, self._grid = 0, np.zeros((0, ORDER + 1))

    def _push(self, bin_width: float, keys: NDArray[np.int64], moments: Array) -> None:
        no_labels = np.zeros((3, len(self.label_weight)))
        self._done.append(MarginSummary(bin_width, keys, moments, *no_labels))
        if sum(len(s.keys) for s in self._done[1:]) > len(self._done[0].keys) + self.max_bins // 4:
            self._done = [merge(self._done, self.max_bins)]


def _within_reach(m: Array, lowest: Array, highest: Array) -> tuple[Array, Array]:
    """The lowest and highest margins (K,) up to GRID_REACH, where these are beyond it."""
    classes = np.flatnonzero((lowest < -GRID_REACH) | (highest > GRID_REACH))
    if not classes.size:
        return lowest, highest
    lowest, highest = lowest.copy(), highest.copy()
    inside = np.abs(m[classes]) <= GRID_REACH
    some = inside.any(axis=1)
    for found, reduce, end in ((lowest, np.min, np.inf), (highest, np.max, -np.inf)):
        extreme = reduce(np.where(inside, m[classes], end), axis=1)
        found[classes] = np.where(some, extreme, 0.0)
    return lowest, highest


# Margins that are known as intervals


class MarginBounds(MarginSummary):
    """Margins of which this is only a bound: the probabilities of a row need not sum to one."""

    exclusive = False


@dataclass(frozen=True)
class BoundedMargins:
    """The lower and the upper margins of every class, binned, of the same labels.

    The gain of shifting class k by t, g(t) = w t - sum_n [softplus(m_n + t) - softplus(m_n)],
    falls with every margin m_n for t > 0, and grows with it for t < 0. So no completion makes a
    shift t > 0 plausible that the lower margins do not, and none t < 0 that the upper ones do not.
    """

    low: MarginSummary
    high: MarginSummary

    @classmethod
    def of(cls, low: Array, high: Array, labels: NDArray[np.intp]) -> Self:
        """Of margins (n, K), perhaps infinite, and labels (n,)."""
        found = []
        for m in (low, high):
            summariser = Summariser(m.shape[1], expected=m.size)
            finite = np.ascontiguousarray(np.clip(m, -FAR_MARGIN, FAR_MARGIN).T)
            summariser.add(finite, labels, None)
            found.append(summariser.summary())
        return cls(*found)

    def __add__(self, other: BoundedMargins | MarginSummary) -> BoundedMargins:
        """The evidence of both data sets together; margins that are known are their own bounds."""
        low, high = (other, other) if isinstance(other, MarginSummary) else (other.low, other.high)
        return BoundedMargins(self.low + low, self.high + high)

    __radd__ = __add__

    @property
    def label_weight(self) -> Array:
        """(K,) total weight of the examples labelled k."""
        return self.low.label_weight

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that `from_arrays` turns back into this evidence."""
        return {
            f"{side}.{name}": array
            for side, summary in (("low", self.low), ("high", self.high))
            for name, array in summary.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Take the arrays out of the dictionary; ValueError if they do not fit together."""
        sides = []
        for side in ("low.", "high."):
            own = taken(arrays, side)
            summary = MarginBounds.from_arrays(own)
            summary.require_margins()
            sides.append(summary)
            if own:
                raise ValueError(f"unknown arrays {sorted(own)}")
        found = cls(*sides)
        if not np.array_equal(found.low.label_weight, found.high.label_weight):
            raise ValueError("bounds must be of the same labels")
        return found


# Labels that do not exclude each other


@dataclass(frozen=True)
class LabelMargins(MarginSummary):
    """As `MarginSummary`, of L labels that do not exclude each other: margins are their logits.

    Weights (L,) are of the inputs known to have, and known not to have, a label.
    """

    other_weight: Array = field(kw_only=True)

    weights: ClassVar[tuple[str, ...]] = (*MarginSummary.weights, "other_weight")
    fewest: ClassVar[int] = 1
    exclusive: ClassVar[bool] = False

    @property
    def total_weight(self) -> Array:
        """(L,) weight of the inputs that have an answer."""
        return self.label_weight + self.other_weight

    @cached_property
    def open_others(self) -> Array:
        """(L,) weight of the inputs without the label whose answer a shift can change."""
        return difference_of_weights(self.other_weight, self.masked)


def summarise_label_margins(
    logits: Logits, answers: Answers, weights: Array | None
) -> LabelMargins:
    """The binned logits (n, L) of every label, of the inputs that have an answer: one pass."""
    n, L = logits.shape
    summariser = Summariser(L, expected=n * L)
    totals = np.zeros((4, L))
    for rows in row_blocks(n, L, PASS_ELEMENTS):
        z, y = logits[rows].astype(np.float64), answers[rows]
        w = np.ones(len(z)) if weights is None else weights[rows]
        here, absent = y == 1, y == 0
        decided = absent & np.isneginf(z), here & np.isposinf(z)
        totals += [w @ found for found in (here, absent, *decided)]
        # Those without an answer stay out of the bins, as all that is infinite does.
        margins = np.ascontiguousarray(np.where(here | absent, z, -np.inf).T)
        summariser.add(margins, None, None if weights is None else w)
    found = summariser.summary()
    here, absent, masked, certain = totals
    bins = found.bin_width, found.keys, found.moments
    return LabelMargins(*bins, here, masked, certain, other_weight=absent)
