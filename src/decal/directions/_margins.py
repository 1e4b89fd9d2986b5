"""The evidence of class shifts: the margins of every class, in bins that add up.

Adding t to the logit of class k changes the log-likelihood of the labels by

    g_k(t) = w_k t - sum_n w_n [softplus(m_nk + t) - softplus(m_nk)],

where m_nk is the margin (log-odds of class k against the rest) of example n, w_n its weight and w_k
the weight of the examples labelled k. So all that the data contribute is, per class, the weight of
its labels and the distribution of its margins.

A margin may be infinite: where a logit is -inf, which masks the class in that row, and where all
others are. Such a row is decided: no shift changes its likelihood, so it counts neither among the
labels of the class nor among its margins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import factorial, log2
from typing import Any, Self

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

BIN_WIDTHS = [BIN_WIDTH * 2**i for i in range(round(log2(WIDEST_BIN / BIN_WIDTH)) + 1)]

LARGEST_SIXTH_DERIVATIVE = 1 / 4
"""Maximum of |d^6 softplus|, reached at 0: it bounds the Taylor remainder after ORDER = 5."""

COARSE_WIDTH = 1 / 2
"""The solver first converges on bins this wide, which hold the gain to about 1e-8."""

FAR = 2.0**34
"""Margins beyond this are binned by their leading digits: softplus is max(0, m) around them."""

FAR_DIGITS = 28
"""Binary digits by which they are told apart. A bin with a single value stays exact."""

GRID_REACH = 1024.0
"""Margins beyond this, as of masked classes, are left out of dense grids of bins."""

NO_WEIGHT = 1e-12
"""A difference of weights below this share of them is round-off."""

TANGENT_SHIFTS = 4.0 ** np.arange(-3, 2)
"""Where tangents of the gain are taken, on both sides of 0: the solver starts from their roots."""

EVALUATIONS = 6
"""How often, about, the solver asks for the sums of the same data at other shifts."""

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

_POWERS = range(ORDER + 1)
_SPAN = np.int64(1) << 40  # keys are class * _SPAN + bin, with |bin| < _SPAN / 2


@dataclass(frozen=True)
class MarginSummary:
    """The margins of every class, binned: all that class shifts need of the labelled data.

    Each occupied bin keeps the power sums  sum_n w_n (m_n - middle)^j,  j = 0..5. The poles of the
    logistic function lie at distance pi from the real line, so the Taylor series of softplus about
    a bin's middle converges like (bin_width / 2 pi)^j, and six sums per bin of width 1/8 stand in
    for the data to about twelve digits. Bins are aligned to multiples of their width: two
    summaries are merged by adding them bin by bin. Beyond FAR, where bins widen with the margin,
    power sums are in units of the bin's own width and only the mean counts.

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
    masked, certain : (K,) arrays
        Total weight of the examples whose margin of class k is -inf, or inf.
    data : LabelledLogits or None
        The data themselves, kept to polish endpoints where bins had to be merged into wide ones;
        None otherwise, and after adding or reading summaries.
    """

    bin_width: float
    keys: NDArray[np.int64]
    moments: Array
    label_weight: Array
    masked: Array
    certain: Array
    data: LabelledLogits | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_bins(cls, bin_width: float, keys: NDArray[np.int64], moments: Array, K: int) -> Self:
        """A part of a summary: bins alone, of K classes."""
        return cls(bin_width, keys, moments, *np.zeros((3, K)))

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
    def open_labels(self) -> Array:
        """(K,) weight of the examples labelled k that a shift of class k can change."""
        # Where there are no others it is all that the bins hold, to the last digit.
        found = _difference(self.label_weight, self.certain)
        return np.where(self.open_others == 0, self._binned, found)

    @cached_property
    def open_others(self) -> Array:
        """(K,) weight of the examples labelled otherwise that a shift of class k can change."""
        # Sums of the others alone: nothing is subtracted from a total that a large one dominates.
        before = np.append(0.0, np.cumsum(self.label_weight[:-1]))
        after = np.append(0.0, np.cumsum(self.label_weight[:0:-1]))[::-1]
        return _difference(before + after, self.masked)

    @cached_property
    def _binned(self) -> Array:
        """(K,) weight of the examples in the bins of every class."""
        return np.add.reduceat(self.moments[0], self.starts)

    @cached_property
    def far(self) -> NDArray[np.bool_]:
        """(B,) the bins beyond FAR."""
        return _is_far(self.bins, self.bin_width)

    @cached_property
    def centers(self) -> Array:
        """(B,) margin about which a bin's series is taken: its middle, or beyond FAR its mean."""
        middle, unit = _places(self.bins, self.bin_width)
        if self.far.any():
            with np.errstate(invalid="ignore"):
                mean = self.moments[1] / self.moments[0]
            middle[self.far] += (unit * mean)[self.far]
        return middle

    @cached_property
    def series(self) -> Array:
        """(6, B) the power sums about the centers."""
        if not self.far.any():
            return self.moments
        series = self.moments.copy()
        series[1:, self.far] = 0.0
        return series

    @cached_property
    def remainder(self) -> Array:
        """(K,) bound of what the Taylor series leave out of the sum of softplus, in nats."""
        # |x|^6 max|softplus^(6)| / 6!, and x^6 <= (h/2)^2 x^4 within a bin of width h.
        sixth = (self.bin_width / 2) ** 2 * np.add.reduceat(self.series[4], self.starts)
        return sixth * (LARGEST_SIXTH_DERIVATIVE / factorial(6))

    @cached_property
    def far_remainder(self) -> Array:
        """(K,) the same of the bins beyond FAR, in which margins count as their mean."""
        # The mean of a function whose slope rises by 1 in all exceeds its value at the mean of its
        # arguments by at most half their standard deviation.
        weight, first, second = self.moments[:3, self.far]
        _, unit = _places(self.bins[self.far], self.bin_width)
        spread = unit * np.sqrt(np.maximum(second * weight - first**2, 0.0))
        classes = self.keys_class[self.far]
        found = np.bincount(classes, spread / 2, minlength=len(self.label_weight))
        return found.astype(np.float64)

    def coarsened(self, factor: int = 2) -> MarginSummary:
        """The same evidence in bins `factor` times as wide (a power of two)."""
        bins, width = self.bins // factor, self.bin_width * factor
        (old, old_unit), (new, unit) = _places(self.bins, self.bin_width), _places(bins, width)
        offset = (old - new) / unit  # the old middle seen from the new one
        moments = self.moments.copy()
        if self.far.any():
            moments *= (old_unit / unit) ** np.arange(ORDER + 1)[:, None]
        for i in range(1, ORDER + 1):  # turn one factor x after the other into x + offset
            for j in range(ORDER, i - 1, -1):
                moments[j] += offset * moments[j - 1]
        keys, moments = _add_equal_keys(self.keys - self.bins + bins, moments)
        return MarginSummary(width, keys, moments, self.label_weight, self.masked, self.certain)

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
            "masked": self.masked,
            "certain": self.certain,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> MarginSummary:
        """Take the arrays out of the dictionary; ValueError if they do not fit together."""
        bin_width = float(arrays.pop("bin_width"))
        keys, moments, label_weight = (
            arrays.pop(name) for name in ("keys", "moments", "label_weight")
        )
        none = np.zeros_like(label_weight)
        masked, certain = (arrays.pop(name, none) for name in ("masked", "certain"))
        weights = (label_weight, masked, certain)
        if keys.ndim != 1 or label_weight.ndim != 1 or len(label_weight) < 2:
            raise ValueError("shapes do not match")
        K, B = len(label_weight), len(keys)
        if moments.shape != (ORDER + 1, B) or any(w.shape != (K,) for w in weights):
            raise ValueError("shapes do not match")
        kinds = [a.dtype.str[1:] for a in (keys, moments, *weights)]
        if kinds != ["i8", *["f8"] * 4]:
            raise ValueError("arrays are not of the expected types")
        summary = cls(bin_width, keys, moments, *weights)
        sound = (
            bin_width in BIN_WIDTHS
            and (np.diff(keys) > 0).all()
            and np.array_equal(np.unique(summary.keys_class), np.arange(K))
            and np.isfinite(moments).all()
            and (moments[0] >= 0).all()
            and all((np.isfinite(w) & (w >= 0)).all() for w in weights)
            and (certain <= label_weight * (1 + NO_WEIGHT)).all()
            and summary.total_weight > 0
        )
        if not sound:
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

    def start(self, left_out: NDArray[np.bool_]) -> Array:
        """(K,) the `softplus_sum` that gains are measured from.

        That without a shift; of the classes left out, that of the shift -inf.
        """
        return np.where(left_out, -self.hinges[0], self.at_zero[0])

    @cached_property
    def tangents(self) -> tuple[Array, Array]:
        """`softplus_sum` at -TANGENT_SHIFTS and at TANGENT_SHIFTS, (2, N, K) each."""
        N, K = len(TANGENT_SHIFTS), len(self.label_weight)
        shifts = np.concatenate([-TANGENT_SHIFTS, TANGENT_SHIFTS])
        value, slope = self.softplus_sum(np.repeat(shifts[:, None], K, axis=1), times=1)
        return value.reshape(2, N, K), slope.reshape(2, N, K)

    @cached_property
    def hinges(self) -> tuple[Array, Array, Array]:
        """What `softplus_sum` leaves out of sums over the data, (K,) each.

        Without a shift, of those of w softplus(m) and of w softplus(-m); and the sums of w m.
        """
        weight, first = self.series[:2]
        c = self.centers
        terms = (weight * np.maximum(c, 0.0), weight * np.maximum(-c, 0.0), weight * c + first)
        above, below, sums = (np.add.reduceat(term, self.starts) for term in terms)
        return above, below + np.add.reduceat(-first, self.starts), sums

    def softplus_sum(self, shifts: Array, times: int = EVALUATIONS) -> tuple[Array, Array]:
        """Sum over the data of w [softplus(m + t) - max(c, 0)], and its derivative in t.

        The center c of the margin's bin is taken off because softplus of large margins is large
        and what a shift changes in it is small.

        Parameters
        ----------
        shifts : (T, K) array
            One shift t per class in every row.
        times : int
            How often such sums are asked for: whether a compiled loop is worth its loading.

        Returns
        -------
        value, slope : (T, K) arrays
        """
        value, slope = np.empty_like(shifts), np.empty_like(shifts)
        edges = self.edges
        K = len(self.label_weight)
        kernels = compiled(times * shifts.size * len(self.keys) // K)

        def evaluate_compiled(classes: slice) -> None:
            assert kernels is not None
            part = (classes.start, classes.stop)
            kernels.softplus_sum(self.centers, self.series, edges, shifts, value, slope, *part)

        def evaluate(classes: slice) -> None:
            bins = slice(edges[classes.start], edges[classes.stop])
            first = edges[classes] - bins.start
            counts = self.counts[classes]
            t, c = np.repeat(shifts[:, classes], counts, axis=1), self.centers[bins]
            x = t + c
            # softplus and its derivatives: the sigmoid s, then polynomials in it.
            series = np.empty((ORDER + 2, *x.shape))
            f, s, d1, d2, d3, d4, d5 = series
            e = np.exp(-np.abs(x, out=f), out=f)
            r = 1.0 / (1.0 + e)
            np.multiply(e, r, out=d2)
            np.multiply(d2, r, out=d1)
            np.copyto(s, np.where(x >= 0, r, d2))
            np.log1p(e, out=f)
            f += np.maximum(t + np.minimum(c, 0.0), -np.maximum(c, 0.0), out=x)
            np.multiply(d1, 1.0 - 2.0 * s, out=d2)
            np.multiply(d1, 1.0 - 6.0 * d1, out=d3)
            np.multiply(d2, 1.0 - 12.0 * d1, out=d4)
            np.multiply(d1, 1.0 - 30.0 * d1 * (1.0 - 4.0 * d1), out=d5)
            weights = self.series[:, bins] * INVERSE_FACTORIALS
            total = np.einsum("jb,jtb->tb", weights, series[:-1])
            value[:, classes] = np.add.reduceat(total, first, axis=1)
            total = np.einsum("jb,jtb->tb", weights, series[1:])
            slope[:, classes] = np.add.reduceat(total, first, axis=1)

        work = evaluate if kernels is None else evaluate_compiled
        for_each_block(work, K, len(shifts) * len(self.keys) // K, SOLVER_ELEMENTS)
        return value, slope


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
        self.label_weight, self.masked, self.certain = np.zeros((3, classes))
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
        self._count_decided(m, labels, weights, lowest, highest)
        strays = self._strays(m, lowest, highest)
        near = np.abs(m[strays]) <= GRID_REACH
        if self._width == 0 or np.count_nonzero(near) > FEW_STRAYS * m.size:
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
        kernels, cells = compiled(m.size), self._width + 1

        def deposit_compiled(group: slice) -> None:
            assert kernels is not None
            w = np.empty(0) if weights is None else weights
            bins = (self._low, self._width, self._bin_width, self._grid)
            kernels.deposit(m, w, *bins, group.start, group.stop)

        def deposit(group: slice) -> None:
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
        part = m[classes]
        row, column = np.nonzero(beyond(part, self._low[classes, None]) & np.isfinite(part))
        return classes[row], column

    def _count_decided(
        self,
        m: Array,
        labels: NDArray[np.intp],
        weights: Array | None,
        lowest: Array,
        highest: Array,
    ) -> None:
        """Add up the weights of infinite margins; ValueError if that of a label is -inf."""
        if np.isneginf(m[labels, np.arange(m.shape[1])]).any():
            raise ValueError("labels must be classes of positive probability: got a masked one.")
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
        keys = np.flatnonzero((self.masked > 0) | (self.certain > 0)) * _SPAN
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
        K = len(self.label_weight)
        self._done.append(MarginSummary.of_bins(bin_width, keys, moments, K))
        if sum(len(s.keys) for s in self._done[1:]) > len(self._done[0].keys) + self.max_bins // 4:
            self._done = [merge(self._done, self.max_bins)]


def sparse_bins(klass: NDArray[np.intp], m: Array, weights: Array | None, width: float) -> Bins:
    """Keys and power sums of margins m of classes, both of one shape or broadcast to that of m."""
    index = np.floor(m / width)
    far = np.abs(m) >= FAR
    if far.any():
        index[far] = _far_index(m[far], width)
    bins = index.astype(np.int64)
    middle, unit = _places(bins, width)
    x = m - middle
    x[far] /= unit[far]
    keys, cell = np.unique(bins + klass * _SPAN, return_inverse=True)
    return keys, _power_sums(cell.reshape(x.shape), x, weights, len(keys))


# Bins beyond FAR are numbered by the leading bits of the margin: they continue the numbers of the
# bins up to FAR, and halve when those halve.

_FAR_BITS = np.float64(FAR).view(np.int64)


def _far_shift(width: float) -> int:
    return 52 - FAR_DIGITS + round(log2(width / BIN_WIDTH))


def _far_index(m: Array, width: float) -> NDArray[np.int64]:
    """Numbers of the bins of margins beyond FAR."""
    beyond = (np.abs(m).view(np.int64) - _FAR_BITS) >> _far_shift(width)
    index = beyond + int(FAR / width)
    return np.where(m < 0, -1 - index, index)


def _is_far(bins: NDArray[np.int64], width: float) -> NDArray[np.bool_]:
    first = int(FAR / width)
    return (bins >= first) | (bins < -first)


def _places(bins: NDArray[np.int64], width: float) -> tuple[Array, Array]:
    """The middle of every bin, and the unit of distances from it: 1, or beyond FAR its width."""
    middle: Array = (bins + np.float64(0.5)) * width
    unit = np.ones(bins.shape)
    far = _is_far(bins, width)
    if far.any():
        index = np.where(bins[far] < 0, -1 - bins[far], bins[far]) - int(FAR / width)
        low, high = (
            ((index + i << _far_shift(width)) + _FAR_BITS).view(np.float64) for i in (0, 1)
        )
        unit[far] = high - low
        middle[far] = np.where(bins[far] < 0, -1.0, 1.0) * (low + (high - low) / 2)
    return middle, unit


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


def _difference(larger: Array, smaller: Array) -> Array:
    """Weights less weights that they include; 0 where only round-off is left."""
    left = larger - smaller
    return np.where((left > NO_WEIGHT * smaller) | (smaller == 0), left, 0.0)


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
        weights = np.sum([(s.label_weight, s.masked, s.certain) for s in same], axis=0)
        merged = MarginSummary(width, keys, moments, *weights)
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


class DataSummary:
    """As a `MarginSummary`, of the data themselves: every margin is the center of its own bin."""

    def __init__(self, data: LabelledLogits) -> None:
        self.data = data

    def start(self, left_out: NDArray[np.bool_]) -> Array:
        """(K,) the `softplus_sum` that gains are measured from."""
        K = len(left_out)
        found, hinges = self.softplus_sum(np.zeros((1, K)))[0][0], np.zeros(K)
        for m, w in self._margins():
            hinges += np.einsum("kn,kn->k", np.maximum(m, 0.0), w)
        return np.where(left_out, -hinges, found)

    def softplus_sum(self, shifts: Array) -> tuple[Array, Array]:
        """Sum over the data of w [softplus(m + t) - max(m, 0)], and its derivative in t."""
        value, slope = np.zeros_like(shifts), np.zeros_like(shifts)
        for m, w in self._margins():
            below, above = np.minimum(m, 0.0), -np.maximum(m, 0.0)
            for t, v, s in zip(shifts, value, slope, strict=True):
                x = m + t[:, None]
                change = np.maximum(below + t[:, None], above) + np.log1p(np.exp(-np.abs(x)))
                v += np.einsum("kn,kn->k", change, w)
                s += np.einsum("kn,kn->k", sigmoid(x), w)
        return value, slope

    def _margins(self) -> Iterator[tuple[Array, Array]]:
        """Blocks of margins (K, n) and weights (K, n); infinite margins are 0 and weigh nothing."""
        for rows in row_blocks(*self.data.logits.shape):
            m = margins(self.data.logits[rows], self.data.center)
            w = np.isfinite(m).astype(np.float64)
            m[w == 0] = 0.0
            if self.data.weights is not None:
                w *= self.data.weights[rows]
            yield m, w
