"""The evidence of class shifts: the margins of every class, in bins that add up.

Adding t to the logit of class k changes the log-likelihood of the labels by

    g_k(t) = w_k t - sum_n w_n [softplus(m_nk + t) - softplus(m_nk)],

where m_nk is the margin (log-odds of class k against the rest) of example n, w_n its weight and w_k
the weight of the examples labelled k. So all that the data contribute is, per class, the weight of
its labels and the distribution of its margins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import (
    BLOCK_ELEMENTS,
    Array,
    compiled,
    for_each_block,
    margins,
    row_blocks,
    sigmoid,
    softplus,
)
from decal.directions._direction import LabelledLogits

ORDER = 5
"""Highest power sum of the margins kept per bin."""

BIN_WIDTH = 1 / 8
"""Width of the bins, in nats. With ORDER = 5 the gain is off by less than 1e-11 per example."""

MAX_BINS = 1 << 22
"""Occupied bins, over all classes, beyond which bins are merged in pairs (about 230 MB)..."""

MAX_BINS_PER_CLASS = 1 << 6
"""...unless there are fewer than this per class: 360 MB for 100,000 classes."""

WIDEST_BIN = 2.0
"""No bins are merged into wider ones: beyond half of pi the Taylor series would say little."""

LARGEST_SIXTH_DERIVATIVE = 1 / 4
"""Maximum of |d^6 softplus|, reached at 0: it bounds the Taylor remainder after ORDER = 5."""

COARSE_WIDTH = 1 / 2
"""The solver first converges on bins this wide, which hold the gain to about 1e-8."""

SOLVER_ELEMENTS = 1 << 15
"""Bins times shifts evaluated at once by the solver: its temporaries stay in cache."""

PASS_ELEMENTS = 1 << 21
"""Margins computed before they are binned: the working memory of a fit, 16 MB..."""

PASS_ROWS = 1 << 7
"""...or those of this many rows, if they are more: each class's bins are then fetched for many."""

FEW_STRAYS = 1 / 256
"""Share of margins that may lie outside the grid of bins before a wider one is opened."""

CACHE_LINE = 8
"""Rows whose margins are computed at once, at least: a class's then fill its lines of memory."""

INVERSE_FACTORIALS = np.array([[1.0 / factorial(j)] for j in range(ORDER + 1)])

SAME_WEIGHT = 1e-6
"""Share by which the weight of a class's bins in a file may miss that of all rows, by round-off."""

_POWERS = range(ORDER + 1)
_SPAN = np.int64(1) << 40  # keys are class * _SPAN + bin, with |bin| < _SPAN / 2


@dataclass(frozen=True)
class MarginSummary:
    """The margins of every class, binned: all that class shifts need of the labelled data.

    Each occupied bin keeps the power sums  sum_n w_n (m_n - center)^j,  j = 0..5. The poles of the
    logistic function lie at distance pi from the real line, so the Taylor series of softplus about
    a bin's center converges like (bin_width / 2 pi)^j, and six sums per bin of width 1/8 stand in
    for the data to about twelve digits. Bins are aligned to multiples of their width: two
    summaries are merged by adding them bin by bin.

    Attributes
    ----------
    bin_width : float
        Width of all bins, a power of two.
    keys : (B,) array
        int64, sorted; class and bin of every occupied bin.
    moments : (6, B) array
        Power sums.
    label_weight : (K,) array
        Total weight of the examples labelled k.
    data : LabelledLogits or None
        The data themselves, kept to polish endpoints where bins had to be merged into wide ones;
        None otherwise, and after adding or reading summaries.
    """

    bin_width: float
    keys: NDArray[np.int64]
    moments: Array
    label_weight: Array
    data: LabelledLogits | None = field(default=None, compare=False, repr=False)

    def __add__(self, other: MarginSummary) -> MarginSummary:
        """The evidence of both data sets together."""
        return merge([self, other])

    @property
    def total_weight(self) -> float:
        """Sum of all sample weights."""
        return float(self.label_weight.sum())

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """(K,) position of every class's first bin. Every row has a margin in every class, so each
        class has one.
        """
        return np.searchsorted(self.keys, np.arange(len(self.label_weight)) * _SPAN - _SPAN // 2)

    @cached_property
    def bins(self) -> NDArray[np.int64]:
        """(B,) index of every bin within its class."""
        return (self.keys + _SPAN // 2) % _SPAN - _SPAN // 2

    @property
    def keys_class(self) -> NDArray[np.int64]:
        """(B,) class of every bin."""
        return (self.keys - self.bins) // _SPAN

    @cached_property
    def centers(self) -> Array:
        """(B,) margin at the middle of every bin."""
        middle: Array = (self.bins + np.float64(0.5)) * self.bin_width
        return middle

    @cached_property
    def remainder(self) -> Array:
        """(K,) bound of what the Taylor series leave out of the sum of softplus, in nats."""
        # |x|^6 max|softplus^(6)| / 6!, and x^6 <= (h/2)^2 x^4 within a bin of width h.
        sixth = (self.bin_width / 2) ** 2 * np.add.reduceat(self.moments[4], self.starts)
        return sixth * (LARGEST_SIXTH_DERIVATIVE / factorial(6))

    def coarsened(self, factor: int = 2) -> MarginSummary:
        """The same evidence in bins `factor` times as wide (a power of two)."""
        bins, width = self.bins // factor, self.bin_width * factor
        offset = self.centers - (bins + 0.5) * width  # the old center seen from the new one
        moments = self.moments.copy()
        for i in range(1, ORDER + 1):  # turn one factor x after the other into x + offset
            for j in range(ORDER, i - 1, -1):
                moments[j] += offset * moments[j - 1]
        keys, moments = _add_equal_keys(self.keys - self.bins + bins, moments)
        return MarginSummary(width, keys, moments, self.label_weight)

    @cached_property
    def coarse(self) -> MarginSummary | None:
        """The same in bins of COARSE_WIDTH, for a quick start; None if these are as wide."""
        factor = int(COARSE_WIDTH / self.bin_width)
        return self.coarsened(factor) if factor > 1 else None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that `from_arrays` turns back into this summary."""
        return {
            "bin_width": np.array(self.bin_width),
            "keys": self.keys,
            "moments": self.moments,
            "label_weight": self.label_weight,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> MarginSummary:
        """Take the arrays out of the dictionary; ValueError if they do not fit together."""
        bin_width = _one_number(arrays.pop("bin_width"))
        keys, moments, label_weight = (
            arrays.pop(name) for name in ("keys", "moments", "label_weight")
        )
        summary = cls(bin_width, keys, moments, label_weight)
        if keys.ndim != 1 or label_weight.ndim != 1 or len(label_weight) < 2:
            raise ValueError("shapes do not match")
        K, B = len(label_weight), len(keys)
        if moments.shape != (ORDER + 1, B):
            raise ValueError("shapes do not match")
        kinds = [a.dtype.str[1:] for a in (summary.keys, summary.moments, summary.label_weight)]
        if kinds != ["i8", "f8", "f8"]:
            raise ValueError("arrays are not of the expected types")
        sound = (
            np.frexp(bin_width)[0] == 0.5
            and BIN_WIDTH <= bin_width <= WIDEST_BIN
            and (np.diff(summary.keys) > 0).all()
            and np.array_equal(np.unique(summary.keys_class), np.arange(K))
            and np.isfinite(summary.moments).all()
            and np.isfinite(summary.label_weight).all()
            and (summary.moments[0] > 0).all()
            and (summary.label_weight >= 0).all()
            and summary.total_weight > 0
        )
        if not sound:
            raise ValueError("numbers are damaged")
        # Every row has a margin in every class, so every class has the weight of all rows.
        weight = np.add.reduceat(moments[0], summary.starts)
        if not np.allclose(weight, summary.total_weight, rtol=SAME_WEIGHT):
            raise ValueError("numbers are damaged")
        # Margins lie in their bins, so the j-th power sum is at most (h / 2)^j times the weight.
        reach = (bin_width / 2) ** np.arange(ORDER + 1)[:, None]
        beyond = np.abs(moments) - reach * moments[0]
        if (beyond > SAME_WEIGHT * reach * summary.total_weight).any():
            raise ValueError("numbers are damaged")
        return summary

    @cached_property
    def edges(self) -> NDArray[np.intp]:
        """(K + 1,) position of every class's first bin, and the number of bins."""
        return np.append(self.starts, len(self.keys))

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """(K,) bins of every class."""
        return np.diff(self.edges)

    @cached_property
    def at_zero(self) -> tuple[Array, Array]:
        """`softplus_sum` without a shift, (K,) each."""
        value, slope = self.softplus_sum(np.zeros((1, len(self.label_weight))))
        return value[0], slope[0]

    @cached_property
    def margin_sum(self) -> Array:
        """(K,) sum over the data of w m."""
        return np.add.reduceat(self.moments[0] * self.centers + self.moments[1], self.starts)

    def softplus_sum(self, shifts: Array) -> tuple[Array, Array]:
        """Sum over the data of w softplus(m + t), and its derivative in t.

        Parameters
        ----------
        shifts : (T, K) array
            One shift t per class in every row.

        Returns
        -------
        value, slope : (T, K) arrays
        """
        value, slope = np.empty_like(shifts), np.empty_like(shifts)
        edges = self.edges
        K = len(self.label_weight)
        kernels = compiled(shifts.size * len(self.keys) // K)

        def evaluate_compiled(classes: slice) -> None:
            assert kernels is not None
            part = (classes.start, classes.stop)
            kernels.softplus_sum(self.centers, self.moments, edges, shifts, value, slope, *part)

        def evaluate(classes: slice) -> None:
            bins = slice(edges[classes.start], edges[classes.stop])
            first = edges[classes] - bins.start
            counts = self.counts[classes]
            x = self.centers[bins] + np.repeat(shifts[:, classes], counts, axis=1)
            # softplus and its derivatives: the sigmoid s, then polynomials in it.
            series = np.empty((ORDER + 2, *x.shape))
            f, s, d1, d2, d3, d4, d5 = series
            e = np.exp(-np.abs(x, out=f), out=f)
            r = 1.0 / (1.0 + e)
            np.multiply(e, r, out=d2)
            np.multiply(d2, r, out=d1)
            np.copyto(s, np.where(x >= 0, r, d2))
            np.log1p(e, out=f)
            f += np.maximum(x, 0.0, out=x)
            np.multiply(d1, 1.0 - 2.0 * s, out=d2)
            np.multiply(d1, 1.0 - 6.0 * d1, out=d3)
            np.multiply(d2, 1.0 - 12.0 * d1, out=d4)
            np.multiply(d1, 1.0 - 30.0 * d1 * (1.0 - 4.0 * d1), out=d5)
            weights = self.moments[:, bins] * INVERSE_FACTORIALS
            total = np.einsum("jb,jtb->tb", weights, series[:-1])
            value[:, classes] = np.add.reduceat(total, first, axis=1)
            total = np.einsum("jb,jtb->tb", weights, series[1:])
            slope[:, classes] = np.add.reduceat(total, first, axis=1)

        work = evaluate if kernels is None else evaluate_compiled
        for_each_block(work, K, len(shifts) * len(self.keys) // K, SOLVER_ELEMENTS)
        return value, slope


def _one_number(array: NDArray[Any]) -> float:
    """The number in an array of no dimension; ValueError if it holds anything else."""
    if array.shape != () or array.dtype != np.float64:
        raise ValueError("arrays are not of the expected types")
    return float(array)


class Summariser:
    """Builds a MarginSummary from blocks of margins; memory does not grow with their number.

    Parameters
    ----------
    classes : int
        K.
    max_bins : int, optional
        Beyond this many occupied bins they are merged in pairs; `bin_budget(K)` by default.
    expected : int
        Margins to come in all, if known: whether a dense grid of bins is worth its memory.
    """

    def __init__(self, classes: int, max_bins: int | None = None, expected: int = 0) -> None:
        self.max_bins = bin_budget(classes) if max_bins is None else max_bins
        self.expected = expected
        self.label_weight = np.zeros(classes)
        self._done: list[MarginSummary] = []
        # Dense power sums (K * (width + 1), 6) over the bins low_k .. low_k + width - 1 of every
        # class, and a last cell for all that lies elsewhere and is kept sparsely.
        self._bin_width = BIN_WIDTH
        self._low = np.zeros(classes)
        self._width = 0
        self._grid = np.zeros((0, ORDER + 1))

    def add(self, m: Array, labels: NDArray[np.intp], weights: Array | None) -> None:
        """Add the margins m (K, n) of labelled examples, with positive weights (n,) or one each."""
        K, n = m.shape
        self.label_weight += np.bincount(labels, weights, minlength=K)
        lowest, highest = np.empty(K), np.empty(K)

        def measure(group: slice) -> None:
            np.min(m[group], axis=1, out=lowest[group])
            np.max(m[group], axis=1, out=highest[group])

        for_each_block(measure, K, n)
        strays = self._strays(m, lowest, highest)
        if self._width == 0 or len(strays[0]) > FEW_STRAYS * m.size:
            self._open_grid(lowest, highest, m.size)
            strays = self._strays(m, lowest, highest)
        if self._width == 0:  # so few margins over so wide a range that most bins stay empty
            self._add_sparsely(np.arange(K)[:, None], m, weights)
            return
        astray = len(strays[0]) > 0
        if astray:
            klass, column = strays
            w = None if weights is None else weights[column]
            self._add_sparsely(klass, m[klass, column], w)
        kernels, cells = compiled(m.size), self._width + 1

        def deposit_compiled(group: slice) -> None:
            assert kernels is not None
            w = np.empty(0) if weights is None else weights
            bins = (self._low, self._width, self._bin_width, self._grid)
            kernels.deposit(m, w, *bins, group.start, group.stop)

        def deposit(group: slice) -> None:
            x = m[group] * (1.0 / self._bin_width)
            x -= self._low[group, None]
            if astray:
                x[(x < 0) | (x >= self._width)] = self._width
            cell = x.astype(np.intp)
            x -= cell
            x -= 0.5
            x *= self._bin_width
            cell += np.arange(len(x))[:, None] * cells
            part = slice(group.start * cells, group.stop * cells)
            self._grid[part] += _power_sums(cell, x, weights, part.stop - part.start).T

        for_each_block(deposit if kernels is None else deposit_compiled, K, n)

    def _strays(self, m: Array, lowest: Array, highest: Array) -> tuple[NDArray[np.intp], ...]:
        """Classes and columns of the margins that no bin of the open grid covers."""

        def beyond(m: Array, low: Array) -> NDArray[np.bool_]:
            x = m * (1.0 / self._bin_width) - low
            return (x < 0) | (x >= self._width)

        classes = np.flatnonzero(beyond(lowest, self._low) | beyond(highest, self._low))
        if self._width == 0 or not classes.size:
            return (np.empty(0, np.intp),) * 2
        row, column = np.nonzero(beyond(m[classes], self._low[classes, None]))
        return classes[row], column

    def _add_sparsely(self, klass: NDArray[np.intp], m: Array, weights: Array | None) -> None:
        self._push(BIN_WIDTH, *sparse_bins(klass, m, weights, BIN_WIDTH))

    def summary(self) -> MarginSummary:
        """All evidence added so far."""
        self._close_grid()
        (whole,) = self._done = [merge(self._done, self.max_bins)]
        return replace(whole, label_weight=self.label_weight.copy())

    def _open_grid(self, lowest: Array, highest: Array, margins_now: int) -> None:
        """Start a grid from these margins to those and some more; none if most cells stayed empty.

        Its bins are wider than BIN_WIDTH only if narrow ones would have to be merged anyway.
        """
        self._close_grid()
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
            keys = klass * _SPAN + within + self._low.astype(np.int64)[klass]
            moments = np.empty((ORDER + 1, len(occupied)))
            for j in _POWERS:
                moments[j] = self._grid[occupied, j]
            self._push(self._bin_width, keys, moments)
        self._width, self._grid = 0, np.zeros((0, ORDER + 1))

    def _push(self, bin_width: float, keys: NDArray[np.int64], moments: Array) -> None:
        none = np.zeros_like(self.label_weight)
        self._done.append(MarginSummary(bin_width, keys, moments, none))
        if sum(len(s.keys) for s in self._done[1:]) > len(self._done[0].keys) + self.max_bins // 4:
            self._done = [merge(self._done, self.max_bins)]


def sparse_bins(klass: NDArray[np.intp], m: Array, weights: Array | None, width: float) -> Bins:
    """Keys and power sums of margins m of classes, both of one shape or broadcast to that of m."""
    bins = np.floor(m / width)
    x = m - (bins + 0.5) * width
    keys, cell = np.unique(bins.astype(np.int64) + klass * _SPAN, return_inverse=True)
    return keys, _power_sums(cell.reshape(x.shape), x, weights, len(keys))


def repeated_bins(keys: NDArray[np.int64], moments: Array, classes: int) -> Bins:
    """Keys and power sums of as many classes, all with the same bins: those of class 0, given."""
    each = np.arange(classes, dtype=np.int64)[:, None] * _SPAN + keys
    return each.ravel(), np.tile(moments, classes)


def _power_sums(position: NDArray[np.intp], x: Array, weights: Array | None, cells: int) -> Array:
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


def bin_budget(classes: int) -> int:
    """Occupied bins beyond which they are merged in pairs."""
    return max(MAX_BINS, MAX_BINS_PER_CLASS * classes)


def merge(summaries: Sequence[MarginSummary], max_bins: int | None = None) -> MarginSummary:
    """The evidence of several data sets together."""
    width = max(s.bin_width for s in summaries)
    same = [s if s.bin_width == width else s.coarsened(int(width / s.bin_width)) for s in summaries]
    merged = same[0]
    if len(same) > 1:
        keys, moments = _add_bins([(s.keys, s.moments) for s in same])
        label_weight = np.sum([s.label_weight for s in same], axis=0)
        merged = MarginSummary(width, keys, moments, label_weight)
    budget = bin_budget(len(merged.label_weight)) if max_bins is None else max_bins
    while len(merged.keys) > budget and merged.bin_width < WIDEST_BIN:
        merged = merged.coarsened()
    return merged


Bins = tuple[NDArray[np.int64], Array]
"""Sorted keys (B,), each once, and power sums (6, B)."""


def _add_bins(parts: list[Bins]) -> Bins:
    """Bins of several summaries, all of one width, added key by key."""
    kernels = compiled(sum(moments.size for _, moments in parts))
    if kernels is None:
        keys = np.concatenate([k for k, _ in parts])
        order = np.argsort(keys, kind="stable")  # a few sorted runs: this only merges them
        return _add_equal_keys(
            keys[order], (np.concatenate([m[j] for _, m in parts])[order] for j in _POWERS)
        )
    while len(parts) > 1:
        (a, of_a), (b, of_b), *others = parts
        count = kernels.distinct(a, b)
        keys, moments = np.empty(count, dtype=np.int64), np.empty((ORDER + 1, count))
        kernels.add_bins(a, of_a, b, of_b, keys, moments)
        parts = [*others, (keys, moments)]
    return parts[0]


def _add_equal_keys(keys: NDArray[np.int64], moments: Iterable[Array]) -> Bins:
    """The distinct ones of sorted keys, and the sums of each power sum's values at them."""
    first = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
    sums = np.empty((ORDER + 1, len(first)))
    for out, values in zip(sums, moments, strict=True):
        np.add.reduceat(values, first, out=out)
    return keys[first], sums


def summarise_margins(data: LabelledLogits, max_bins: int | None = None) -> MarginSummary:
    """The binned margins of labelled data: one pass over them."""
    n, K = data.logits.shape
    summariser = Summariser(K, max_bins, expected=n * K)
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
        weights = None if data.weights is None else data.weights[rows]
        summariser.add(m, data.labels[rows], weights)
    summary = summariser.summary()
    coarse = summary.bin_width > BIN_WIDTH
    return replace(summary, data=data) if coarse and data.may_be_kept else summary


def exact_softplus_sum(data: LabelledLogits, shifts: Array) -> tuple[Array, Array]:
    """As `MarginSummary.softplus_sum`, but from the data themselves."""
    value, slope = np.zeros_like(shifts), np.zeros_like(shifts)
    for rows in row_blocks(*data.logits.shape):
        m = margins(data.logits[rows], data.center)
        w = np.ones(m.shape[1]) if data.weights is None else data.weights[rows]
        for t, v, s in zip(shifts, value, slope, strict=True):
            x = m + t[:, None]
            v += softplus(x) @ w
            s += sigmoid(x) @ w
    return value, slope
