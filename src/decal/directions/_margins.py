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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import factorial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, compiled, for_each_block, margins, row_blocks, sigmoid
from decal.directions._bins import (
    BIN_WIDTHS,
    ORDER,
    SPAN,
    WIDEST_BIN,
    add_bins,
    add_equal_keys,
    bin_budget,
    places,
)
from decal.directions._direction import WEIGHT_ROUND_OFF, LabelledLogits

LARGEST_SIXTH_DERIVATIVE = 1 / 4  # of softplus, at 0: it bounds the remainder after ORDER = 5
LARGEST_SEVENTH_DERIVATIVE = 0.4084  # it bounds how fast that remainder changes with the shift
COARSE_WIDTH = 1 / 2  # the solver first converges on such bins, which hold the gain to about 1e-8
NO_WEIGHT = 1e-12  # a difference of weights below this share of them is round-off
TANGENT_SHIFTS = 2.0 ** np.arange(-5, 4)  # where, with either sign, tangents of the gain are taken
Summary = TypeVar("Summary", bound="MarginSummary")
INVERSE_FACTORIALS = np.array([[1.0 / factorial(j)] for j in range(ORDER + 1)])


@dataclass(frozen=True)
class MarginSummary:
    """The margins of every class, binned: all that class shifts need of the labelled data.

    Each occupied bin keeps the power sums  sum_n w_n (m_n - middle)^j,  j = 0..5. The Taylor series
    of softplus about its middle converges like (bin_width / 2 pi)^j, so these stand in for the data
    to about twelve digits. Beyond FAR, power sums are in units of the bin's own width and only the
    mean counts. Data are kept to polish endpoints where bins had to be merged into wide ones; not
    otherwise, nor after adding or reading summaries.
    """

    bin_width: float  # a power of two
    keys: NDArray[np.int64]  # (B,) sorted; class and bin of every occupied bin
    moments: Array  # (6, B) power sums
    label_weight: Array  # (K,) of the examples labelled k
    masked: Array  # (K,) weight of the examples whose margin of class k is -inf
    certain: Array  # (K,) weight of those whose margin is inf
    data: LabelledLogits | None = field(default=None, compare=False, repr=False)
    once: dict[str, Any] = field(init=False, default_factory=dict, compare=False, repr=False)
    """What is computed once, when endpoints are first solved for."""

    weights: ClassVar[tuple[str, ...]] = ("label_weight", "masked", "certain")  # they add up
    fewest: ClassVar[int] = 2  # the least number of classes
    exclusive: ClassVar[bool] = True  # whether the probabilities of a row sum to one

    @classmethod
    def of_bins(cls, bin_width: float, keys: NDArray[np.int64], moments: Array, K: int) -> Self:
        """A part of a summary: bins alone, of K classes."""
        return cls(bin_width, keys, moments, *np.zeros((3, K)))

    def __add__(self, other: Self) -> Self:
        """The evidence of both data sets together."""
        if not isinstance(other, MarginSummary):
            return NotImplemented
        return merge([self, other])

    @property
    def total_weight(self) -> float | Array:
        """Sum of all sample weights."""
        return float(self.label_weight.sum())

    @cached_property
    def bins(self) -> NDArray[np.int64]:
        """(B,) index of every bin within its class."""
        return (self.keys + SPAN // 2) % SPAN - SPAN // 2

    @property
    def keys_class(self) -> NDArray[np.int64]:
        """(B,) class of every bin."""
        return (self.keys - self.bins) // SPAN

    @cached_property
    def open_labels(self) -> Array:
        """(K,) weight of the examples labelled k that a shift of class k can change."""
        # Where there are no others it is all that the bins hold, to the last digit.
        found = difference_of_weights(self.label_weight, self.certain)
        binned = np.add.reduceat(self.moments[0], self.series.edges[:-1])
        return np.where(self.open_others == 0, binned, found)

    @cached_property
    def open_others(self) -> Array:
        """(K,) weight of the examples labelled otherwise that a shift of class k can change."""
        # Sums of the others alone: nothing is subtracted from a total that a large one dominates.
        before = np.append(0.0, np.cumsum(self.label_weight[:-1]))
        after = np.append(0.0, np.cumsum(self.label_weight[:0:-1]))[::-1]
        return difference_of_weights(before + after, self.masked)

    @cached_property
    def series(self) -> Series:
        """The series of softplus about the centers of all bins, from which gains are summed."""
        centers, unit, far = places(self.bins, self.bin_width)
        sums, K = self.moments, len(self.label_weight)
        far_remainder = np.zeros(K)
        if far.any():
            weight, first, second = sums[:3, far]
            with np.errstate(invalid="ignore"):
                centers[far] += unit[far] * (first / weight)
            # The mean of a function whose slope rises by 1 in all exceeds its value at the mean of
            # its arguments by at most half their standard deviation.
            spread = unit[far] * np.sqrt(np.maximum(second * weight - first**2, 0.0))
            far_remainder += np.bincount(self.keys_class[far], spread / 2, minlength=K)
            sums = sums.copy()
            sums[1:, far] = 0.0
        starts = np.searchsorted(self.keys, np.arange(K) * SPAN - SPAN // 2)
        below_zero, above_zero = np.minimum(centers, 0.0), -np.maximum(centers, 0.0)
        weight, first = sums[:2]
        above, below = -weight * above_zero, -weight * below_zero - first
        terms = above, below, weight * centers + first
        # |x|^6 max|softplus^(6)| / 6!, and x^6 <= (h/2)^2 x^4 within a bin of width h.
        sixth = (self.bin_width / 2) ** 2 * np.add.reduceat(sums[4], starts)
        return Series(
            np.append(starts, len(centers)),
            centers,
            below_zero,
            above_zero,
            sums,
            far,
            tuple(np.add.reduceat(term, starts) for term in terms),
            sixth * (LARGEST_SIXTH_DERIVATIVE / factorial(6)),
            far_remainder,
        )

    def coarsened(self, factor: int = 2) -> Self:
        """Evidence of the same data, in bins `factor` times as wide (a power of two)."""
        bins, width = self.bins // factor, self.bin_width * factor
        old, old_unit, far = places(self.bins, self.bin_width)
        new, unit, _ = places(bins, width)
        offset = (old - new) / unit  # the old middle seen from the new one
        moments = self.moments.copy()
        if far.any():
            moments *= (old_unit / unit) ** np.arange(ORDER + 1)[:, None]
        for i in range(1, ORDER + 1):  # turn one factor x after the other into x + offset
            for j in range(ORDER, i - 1, -1):
                moments[j] += offset * moments[j - 1]
        keys, moments = add_equal_keys(self.keys - self.bins + bins, moments)
        return replace(self, bin_width=width, keys=keys, moments=moments, data=None)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that `from_arrays` turns back into this summary."""
        return {
            "bin_width": np.array(self.bin_width),
            "keys": self.keys,
            "moments": self.moments,
            **{name: getattr(self, name) for name in self.weights},
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Take the arrays out of the dictionary; ValueError if they do not fit together."""
        bin_width = _one_number(arrays.pop("bin_width"))
        keys, moments, label_weight = (
            arrays.pop(name) for name in ("keys", "moments", "label_weight")
        )
        none = np.zeros_like(label_weight)
        weights: dict[str, Any] = {name: arrays.pop(name, none) for name in cls.weights[1:]}
        weights["label_weight"] = label_weight
        if keys.ndim != 1 or label_weight.ndim != 1 or len(label_weight) < cls.fewest:
            raise ValueError("shapes do not match")
        K, B = len(label_weight), len(keys)
        if moments.shape != (ORDER + 1, B) or any(w.shape != (K,) for w in weights.values()):
            raise ValueError("shapes do not match")
        kinds = [a.dtype.str[1:] for a in (keys, moments, *weights.values())]
        if kinds != ["i8", *["f8"] * (1 + len(weights))]:
            raise ValueError("arrays are not of the expected types")
        summary = cls(bin_width, keys, moments, **weights)
        sound = (
            bin_width in BIN_WIDTHS
            and (np.diff(keys) > 0).all()
            and np.array_equal(np.unique(summary.keys_class), np.arange(K))
            and np.isfinite(moments).all()
            and (moments[0] >= 0).all()
            and all((np.isfinite(w) & (w >= 0)).all() for w in weights.values())
            and (weights["certain"] <= label_weight * (1 + NO_WEIGHT)).all()
            and np.any(summary.total_weight)
        )
        if not sound:
            raise ValueError("numbers are damaged")
        return summary

    def require_margins(self) -> None:
        """ValueError if the numbers are sound and yet of no margins."""
        total, series, moments = self.total_weight, self.series, self.moments
        K = len(self.label_weight)
        round_off = np.full(K, WEIGHT_ROUND_OFF) * total
        # Every row has a margin in every class, finite or not.
        binned = np.add.reduceat(moments[0], series.edges[:-1])
        weight = binned + self.masked + self.certain
        # Margins lie in their bins, so the j-th power sum is at most (h / 2)^j times the weight.
        half = np.where(series.far, 0.5, self.bin_width / 2)
        reach = half ** np.arange(ORDER + 1)[:, None]
        beyond = np.abs(moments) - reach * moments[0]
        if (
            (np.abs(weight - total) > round_off).any()
            or (beyond > round_off[self.keys_class] * reach).any()
            or not np.isfinite(series.centers[moments[0] > 0]).all()
        ):
            raise ValueError("numbers are damaged")
        if self.exclusive:
            # A reference may leave out classes without labels: then the others sum to one.
            expected = series.softplus_sum(np.zeros((1, K)))[1][0] + self.certain
            sums = expected.sum(), expected[self.label_weight > 0].sum()
            if np.abs(np.subtract(sums, total)).min() > self._unsure:
                raise ValueError("margins are of no probabilities")

    @property
    def _unsure(self) -> float:
        """By how much sums of probabilities in a file may be off: round-off, and wide bins."""
        per_nat = LARGEST_SEVENTH_DERIVATIVE / LARGEST_SIXTH_DERIVATIVE
        return float(
            WEIGHT_ROUND_OFF * np.sum(self.total_weight) + per_nat * self.series.remainder.sum()
        )

    def require_best(self) -> None:
        """ValueError if a shift gains likelihood, which none does from the best reference."""
        labelled = self.label_weight > 0
        # The total probability of every class, over all rows, is the weight of its labels.
        expected = self.series.softplus_sum(np.zeros((1, len(labelled))))[1][0] + self.certain
        if np.abs(expected - self.label_weight)[labelled].max() > self._unsure:
            raise ValueError("margins are of no reference that is best")


@dataclass(frozen=True)
class Series:
    """Power sums about the center of every bin, which stand in for the data in sums of softplus."""

    edges: NDArray[np.intp]  # (K + 1,) position of every class's first bin, and the number of bins
    centers: Array  # (B,) c: the middle of a bin or, beyond FAR, the mean of its margins
    below_zero: Array  # (B,) min(c, 0)
    above_zero: Array  # (B,) -max(c, 0)
    sums: Array  # (6, B) the power sums
    far: NDArray[np.bool_]  # (B,) the bins beyond FAR
    # What `softplus_sum` leaves out of sums over the data, (K,) each: without a shift, of those of
    # w softplus(m) and of w softplus(-m); and the sums of w m. Of a shift of -inf, less the first
    # is what `softplus_sum` would be.
    hinges: tuple[Array, ...]
    remainder: Array  # (K,) bound of what the series leave out of the sum of softplus, in nats
    far_remainder: Array  # (K,) bound of what bins beyond FAR leave out, which count as their mean

    def softplus_sum(self, shifts: Array, times: int = 6) -> tuple[Array, Array]:
        """(T, K) sums of w [softplus(m + t) - max(c, 0)] and derivatives in t, of shifts t (T, K).

        The center c of the margin's bin is taken off: softplus of large margins hides what shifts
        change. `times` such sums will be asked for: is a compiled loop worth its loading?
        """
        value, slope = np.empty_like(shifts), np.empty_like(shifts)
        edges, centers, sums = self.edges, self.centers, self.sums
        B, K = len(centers), len(edges) - 1
        kernels = compiled(times * shifts.size * B // K)

        def evaluate_compiled(classes: slice) -> None:
            assert kernels is not None
            part = (classes.start, classes.stop)
            kernels.softplus_sum(centers, sums, edges, shifts, value, slope, *part)

        def evaluate(classes: slice) -> None:
            bins = slice(edges[classes.start], edges[classes.stop])
            first = edges[classes] - bins.start
            t = np.repeat(shifts[:, classes], np.diff(edges)[classes], axis=1)
            x = t + centers[bins]
            # softplus and its derivatives: the sigmoid s, then polynomials in it.
            series = np.empty((ORDER + 2, *x.shape))
            f, s, d1, d2, d3, d4, d5 = series
            e = np.exp(-np.abs(x, out=f), out=f)
            r = 1.0 / (1.0 + e)
            np.multiply(e, r, out=d2)
            np.multiply(d2, r, out=d1)
            np.copyto(s, np.where(x >= 0, r, d2))
            np.log1p(e, out=f)
            f += np.maximum(t + self.below_zero[bins], self.above_zero[bins], out=x)
            np.multiply(d1, 1.0 - 2.0 * s, out=d2)
            np.multiply(d1, 1.0 - 6.0 * d1, out=d3)
            np.multiply(d2, 1.0 - 12.0 * d1, out=d4)
            np.multiply(d1, 1.0 - 30.0 * d1 * (1.0 - 4.0 * d1), out=d5)
            weights = sums[:, bins] * INVERSE_FACTORIALS
            total = np.einsum("jb,jtb->tb", weights, series[:-1])
            value[:, classes] = np.add.reduceat(total, first, axis=1)
            total = np.einsum("jb,jtb->tb", weights, series[1:])
            slope[:, classes] = np.add.reduceat(total, first, axis=1)

        work = evaluate if kernels is None else evaluate_compiled
        # Temporaries of so many bins times shifts stay in a core's cache.
        for_each_block(work, K, len(shifts) * B // K, 1 << 15)
        return value, slope


def merge(summaries: Sequence[Summary], max_bins: int | None = None) -> Summary:
    """The evidence of several data sets together."""
    width = max(s.bin_width for s in summaries)
    same = [s if s.bin_width == width else s.coarsened(int(width / s.bin_width)) for s in summaries]
    merged = same[0]
    if len(same) > 1:
        keys, moments = add_bins([(s.keys, s.moments) for s in same])
        names = merged.weights
        weights = {name: np.sum([getattr(s, name) for s in same], axis=0) for name in names}
        merged = replace(merged, keys=keys, moments=moments, data=None, **weights)
    budget = bin_budget(len(merged.label_weight)) if max_bins is None else max_bins
    while len(merged.keys) > budget and merged.bin_width < WIDEST_BIN:
        merged = merged.coarsened()
    return merged


class DataSummary:
    """As a `Series`, of the data themselves: every margin is the center of its own bin."""

    def __init__(self, data: LabelledLogits) -> None:
        self.data = data

    @cached_property
    def hinges(self) -> tuple[Array]:
        """(K,) what `softplus_sum` leaves out of the sums of w softplus(m)."""
        above = np.zeros(len(self.data.center))
        for m, w in self._margins():
            above += np.einsum("kn,kn->k", np.maximum(m, 0.0), w)
        return (above,)

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


def difference_of_weights(larger: Array, smaller: Array) -> Array:
    """Weights less weights that they include; 0 where only round-off is left."""
    left = larger - smaller
    return np.where((left > NO_WEIGHT * smaller) | (smaller == 0), left, 0.0)


def _one_number(array: NDArray[Any]) -> float:
    """The number in an array of no dimension; ValueError if it holds anything else."""
    if array.shape != () or array.dtype != np.float64:
        raise ValueError("arrays are not of the expected types")
    return float(array)
