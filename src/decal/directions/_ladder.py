"""The evidence of the temperature: log-partition functions, summed at a ladder of scales.

With d = z - max z <= 0 and A(s) = log sum_k exp(s d_k), the log-partition function of a row, all
that the data contribute is the sum R(s) of A over the rows: a smooth convex function of one
variable, from log K at s = 0 to the log of the number of ties at infinity. It is kept, with its
derivative, at the scales 2^(i/2), where sums of several data sets add up. Masked classes, whose
logit is -inf, do not count at any scale; K is then the number of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, compiled, for_each_block, row_blocks

RUNGS_PER_OCTAVE = 2
RUNG = float(np.log(2.0)) / RUNGS_PER_OCTAVE  # distance of two rungs in log s

NEAR_ZERO = 1 / 4
"""The lowest rung is at s = NEAR_ZERO / (largest |d|). There R is so smooth that a polynomial
through s = 0 and the lowest rungs replaces all rungs further down."""

LOWEST = 5  # rungs that determine that polynomial, together with the value and slope at 0

SMALLEST_SPREAD = 2.0**-20  # logits that differ by less count as this far apart: a short ladder
BEYOND_THE_LADDER = 2.0**16  # times deeper than any other stand masked logits: no rung sees them
SATURATED_SUM = 1e-13  # a row whose smaller exponentials sum to less has reached its limit
HIGHEST_RUNG = 1000 * RUNGS_PER_OCTAVE  # scale 2^1000: no two logits that differ are alike there
# No two finite logits that differ make a ladder begin further down, or end further up.
LOWEST_RUNG, LAST_RUNG = -1100 * RUNGS_PER_OCTAVE, HIGHEST_RUNG + 100
COMPILED_CLASSES = 24  # with fewer, matrix products over many rows are faster than compiled loops
STENCIL = 10  # rungs whose values and slopes determine one interpolating polynomial, of degree 19
ROUND_OFF = 1e-12  # nats per row that a ladder may claim to know by round-off alone
ROUND_OFF_IN_FILES = 1e-6  # share by which sums in a file may exceed their bounds


@dataclass(frozen=True)
class ScaleSummary:
    """The sum R(s) of the rows' log-partition functions, at a ladder of scales."""

    first: int  # of the lowest rung: scale 2^(first / 2)
    values: Array  # (L,) R at the rungs
    slopes: Array  # (L,) dR / d log s
    at_zero: Array  # (2,) R and dR / ds at s = 0
    seen: NDArray[np.bool_]  # (K,) not masked in every row; others are no classes of this model
    ties: float  # the limit of R for large s: R above the highest rung
    label_sum: float  # over rows, of w (z_y - max z), at most 0
    weight: float
    # Sum over rows of w (log K - entropy of the prediction): the nats that the model claims. It is
    # R'(1) - R(1) + R(0), but of small logits that difference is lost in round-off.
    claimed: float

    def __add__(self, other: ScaleSummary) -> ScaleSummary:
        """The evidence of both data sets together."""
        return merge_scales([self, other])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that `from_arrays` turns back into this summary."""
        sums = [self.ties, self.label_sum, self.weight, self.claimed]
        found: dict[str, NDArray[Any]] = {
            "rungs": np.stack([self.values, self.slopes]),
            "at_zero": self.at_zero,
            "numbers": np.array([self.first, len(self.seen), *sums], dtype=np.float64),
        }
        return found if self.seen.all() else found | {"seen": self.seen}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> ScaleSummary:
        """Take the arrays out of the dictionary; ValueError if they do not fit together."""
        ladder, at_zero = arrays.pop("rungs"), arrays.pop("at_zero")
        numbers, seen = arrays.pop("numbers"), arrays.pop("seen", None)
        first, classes, ties, label_sum, weight, claimed = _sound_numbers(ladder, at_zero, numbers)
        if seen is None:
            seen = np.ones(int(classes), dtype=np.bool_)
        if seen.shape != (int(classes),) or seen.dtype != np.bool_ or not seen.any():
            raise ValueError("shapes do not match")
        values, slopes = ladder
        found = cls(int(first), values, slopes, at_zero, seen, ties, label_sum, weight, claimed)
        found._require_of_logits()
        by_rungs = found.claimed_by_rungs()
        if len(numbers) == 5:  # older files do not say it: their ladder does, but for round-off
            return replace(found, claimed=by_rungs)
        if abs(claimed - by_rungs) > ROUND_OFF_IN_FILES * weight:
            raise ValueError("numbers are damaged")
        return found

    def _require_of_logits(self) -> None:
        """ValueError if no logits have these sums: R is convex in s and falls to its limit."""
        values, slopes, (start, rate) = self.values, self.slopes, self.at_zero
        room = ROUND_OFF_IN_FILES * self.weight
        step, fall = float(np.exp(RUNG)), np.diff(values)
        first = float(np.exp(RUNG * self.first)) * float(rate)
        # R'' is at most a quarter of the squared spread of the logits.
        bend = self.weight * NEAR_ZERO**2 / 4
        least = [first, start + first, first, *((step - 1) * slopes[:-1]), self.ties]
        found = [slopes[0], values[0], first, *fall, values[-1]]
        most = [first + bend, start + slopes[0], 0.0, *((1 - 1 / step) * slopes[1:]), self.ties]
        if not (np.subtract(least, room) <= found).all() or not (found <= np.add(most, room)).all():
            raise ValueError("the ladder is of no logits")

    @property
    def classes(self) -> int:
        """How many are seen."""
        return int(self.seen.sum())

    @property
    def last(self) -> int:
        """Index of the highest rung."""
        return self.first + len(self.values) - 1

    def rungs(self, index: NDArray[np.int64]) -> tuple[Array, Array]:
        """R and dR / d log s at any rungs, stored or not."""
        at = np.clip(index - self.first, 0, len(self.values) - 1)
        above, below = index > self.last, index < self.first
        value = np.where(above, self.ties, self.values[at])
        slope = np.where(above, 0.0, self.slopes[at])
        if below.any():
            s = np.exp(RUNG * index[below])
            value[below], rate = self.near_zero(s)
            slope[below] = s * rate
        return value, slope

    def near_zero(self, s: Array) -> tuple[Array, Array]:
        """R and dR / ds below the lowest rung, by the polynomial through it and s = 0."""
        lowest, half, coefficients = self._polynomial
        value, rate = chebyshev.chebval(np.minimum(s, lowest) / half - 1, coefficients)
        return value, rate / half

    @cached_property
    def _polynomial(self) -> tuple[float, float, Array]:
        """The lowest rung, half of the last that the polynomial meets, and its coefficients."""
        rungs = np.exp(RUNG * (self.first + np.arange(LOWEST)))
        half = rungs[-1] / 2  # from 0 to the last of them is [-1, 1] in this unit
        values = np.append(self.at_zero[0], self.values[:LOWEST])
        rates = np.append(self.at_zero[1], self.slopes[:LOWEST] / rungs)
        coefficients = _hermite(_FROM_ZERO) @ np.concatenate([values, rates * half])
        return float(rungs[0]), float(half), _with_derivative(coefficients)

    def claimed_by_rungs(self) -> float:
        """R'(1) - R(1) + R(0)."""
        (at_one,), (rate,) = self.rungs(np.zeros(1, np.int64))
        claimed = float(self.at_zero[0] - at_one + rate)
        return claimed if claimed > ROUND_OFF * self.weight else 0.0

    @property
    def knowledge(self) -> float:
        """Mean of log K - entropy of the prediction: the nats per row that the model claims."""
        return self.claimed / self.weight

    def __call__(self, scale: Array, stencil: int = STENCIL) -> tuple[Array, Array]:
        """R(s) and R'(s) at any scales s >= 0, by Hermite interpolation in log s."""
        low = scale < np.exp(RUNG * self.first)
        u = np.log(np.where(low, 1.0, scale)) / RUNG
        start = np.floor(u).astype(np.int64) - (stencil // 2 - 1)
        value, slope = self.rungs(start + np.arange(stencil)[:, None])
        half = (stencil - 1) / 2  # rungs: those of a stencil are [-1, 1] in this unit
        nodes = tuple(np.arange(stencil) / half - 1)
        coefficients = _hermite(nodes) @ np.concatenate([value, slope * RUNG * half])
        x = (u - start) / half - 1
        found, rate = chebyshev.chebval(x, _with_derivative(coefficients), tensor=False)
        rate = rate / half / RUNG / np.where(low, 1.0, scale)
        if low.any():
            found[low], rate[low] = self.near_zero(scale[low])
        return found, rate


# The scale 0 and the lowest rungs, seen from the middle between 0 and the last of these.
_FROM_ZERO = (-1.0, *(2 * np.exp(RUNG * (np.arange(LOWEST) - LOWEST + 1)) - 1))


@lru_cache
def _hermite(nodes: tuple[float, ...]) -> Array:
    """From values and slopes at nodes in [-1, 1] to Chebyshev coefficients, which stay exact."""
    x, degree = np.array(nodes), 2 * len(nodes) - 1
    values = chebyshev.chebvander(x, degree)
    slopes = [chebyshev.chebval(x, chebyshev.chebder(row)) for row in np.eye(degree + 1)]
    return np.linalg.inv(np.concatenate([values, np.stack(slopes, axis=1)]))


def _with_derivative(coefficients: Array) -> Array:
    """(m, 2, …) Chebyshev coefficients (m, …) beside those of the derivative: one evaluation."""
    derivative = _derivative(len(coefficients)) @ coefficients
    return np.stack([coefficients, derivative], axis=1)


@lru_cache
def _derivative(m: int) -> Array:
    """(m, m) from Chebyshev coefficients to those of the derivative, the last of which is 0."""
    matrix = np.zeros((m, m))
    matrix[:-1] = chebyshev.chebder(np.eye(m))
    return matrix


def _sound_numbers(
    ladder: Array, at_zero: Array, numbers: Array
) -> tuple[float, float, float, float, float, float]:
    """First rung, classes, ties, label sum, weight and what the model claims, after checks."""
    parts = (ladder, at_zero, numbers)
    if any(a.dtype != np.float64 or not np.isfinite(a).all() for a in parts):
        raise ValueError("numbers are damaged")
    shapes = ladder.shape[:1], at_zero.shape
    if shapes != ((2,), (2,)) or ladder.ndim != 2 or numbers.shape not in ((5,), (6,)):
        raise ValueError("shapes do not match")
    first, classes, ties, label_sum, weight = (float(x) for x in numbers[:5])
    claimed = float(numbers[5]) if len(numbers) > 5 else 0.0
    sound = classes >= 2 and weight > 0 and label_sum <= 0 <= ties and ladder.shape[1] >= LOWEST
    sound = sound and first >= LOWEST_RUNG and first + ladder.shape[1] <= LAST_RUNG
    if not sound or int(first) != first or int(classes) != classes:
        raise ValueError("numbers are damaged")
    # A row's log-partition function and its slope by log s lie within log K of 0.
    largest = max(np.abs(ladder).max(), abs(at_zero[0]), ties, claimed)
    if claimed < 0 or largest > (1 + ROUND_OFF_IN_FILES) * weight * np.log(classes):
        raise ValueError("numbers are damaged")
    return first, classes, ties, label_sum, weight, claimed


def summarise_scales(
    logits: Logits, labels: NDArray[np.intp], weights: Array | None
) -> ScaleSummary:
    """Climb the ladder with the logits (n, K) of labelled rows; weights (n,) positive or None."""
    kernels = compiled(logits.size) if logits.shape[1] >= COMPILED_CLASSES else None
    parts: dict[int, ScaleSummary] = {}

    def summarise(rows: slice) -> None:
        d = logits[rows].astype(np.float64)
        d -= d.max(axis=1, keepdims=True)
        w = None if weights is None else weights[rows]
        parts[rows.start] = _of_block(d, labels[rows], w, kernels)

    if kernels is None:
        # A few copies of so many logits share a core's cache.
        for rows in row_blocks(len(logits), logits.shape[1], 1 << 15):
            summarise(rows)
    else:
        for_each_block(summarise, *logits.shape)
    return merge_scales([parts[start] for start in sorted(parts)])


def merge_scales(parts: Sequence[ScaleSummary]) -> ScaleSummary:
    """The evidence of several data sets together."""
    first, last = min(p.first for p in parts), max(p.last for p in parts)
    index = np.arange(first, last + 1)
    values, slopes = np.zeros(len(index)), np.zeros(len(index))
    for part in parts:
        value, slope = part.rungs(index)
        values += value
        slopes += slope
    at_zero = np.sum([p.at_zero for p in parts], axis=0)
    seen = np.logical_or.reduce([p.seen for p in parts])
    sums = (sum(getattr(p, n) for p in parts) for n in ("ties", "label_sum", "weight", "claimed"))
    return ScaleSummary(first, values, slopes, at_zero, seen, *sums)


def _of_block(
    d: Array, y: NDArray[np.intp], weights: Array | None, kernels: ModuleType | None
) -> ScaleSummary:
    """The ladder of one block of logits (n, K), of which the largest of each row is subtracted."""
    masked = np.isneginf(d) if d.min() == -np.inf else None
    if masked is not None:
        d[masked] = 0.0
    depth = -d.min(axis=1)
    faint = depth < NEAR_ZERO
    if faint.any() and not faint.all():
        # What faint rows claim is lost in the round-off of others: they are summarised apart.
        if masked is not None:
            d[masked] = -np.inf
        kinds = [
            _of_block(d[kind], y[kind], None if weights is None else weights[kind], kernels)
            for kind in (faint, ~faint)
        ]
        return merge_scales(kinds)
    n, K = d.shape
    w = np.ones(n) if weights is None else weights
    weight, label_sum = float(w.sum()), float(w @ d[np.arange(n), y])
    spread = max(float(depth.max()), SMALLEST_SPREAD)
    possible: NDArray[np.intp] | int = K
    if masked is None:
        at_zero = np.array([weight * np.log(K), float((w @ d).mean())])
    else:
        possible = K - np.count_nonzero(masked, axis=1)
        at_zero = np.array([float(w @ np.log(possible)), float(w @ (d.sum(axis=1) / possible))])
    claimed = float(w @ _claims(d, possible)) if faint.all() else None
    if masked is not None:
        d[masked] = -BEYOND_THE_LADDER * spread
    count = np.count_nonzero(d == 0, axis=1)
    ties = float(w @ np.log(count))
    first = int(np.floor(np.log(NEAR_ZERO / spread) / RUNG))
    if kernels is None:
        values, slopes = _climb(d, w, count, first)
    else:
        scales = np.exp(RUNG * np.arange(first, HIGHEST_RUNG))
        given = np.empty(0) if weights is None else weights
        values, slopes = kernels.climb(d, given, count, scales, SATURATED_SUM, LOWEST)
    seen = np.ones(K, np.bool_)
    if masked is not None:
        seen &= ~masked.all(axis=0)
    found = ScaleSummary(first, values, slopes, at_zero, seen, ties, label_sum, weight, 0.0)
    return replace(found, claimed=found.claimed_by_rungs() if claimed is None else claimed)


def _claims(d: Array, possible: NDArray[np.intp] | int) -> Array:
    """Per faint row, log K - entropy of the prediction, where masked classes have d = 0.

    With f = exp(d) - 1 and means over the K possible classes it is mean(d + d f) / (1 + mean f) -
    log(1 + mean f), which is exact to the round-off of d.
    """
    f = np.expm1(d)
    mean = f.sum(axis=1) / possible
    known: Array = (d + d * f).sum(axis=1) / possible / (1 + mean) - np.log1p(mean)
    return known.clip(min=0.0)


def _climb(d: Array, w: Array, count: NDArray[np.intp], first: int) -> tuple[Array, Array]:
    """R and dR / d log s at the rungs from `first` on, until no row changes any more."""
    d = np.ascontiguousarray(d.T)  # a class at a time
    values: list[float] = []
    slopes: list[float] = []
    finished, product, ones = 0.0, np.empty_like(d), np.ones(len(d))
    ladder: list[Array] = []
    while len(w) or len(values) < LOWEST:
        # Going up an octave squares the exponentials, which doubles their relative error: exp is
        # called afresh every sixteenth octave.
        scales = np.exp(RUNG * (first + len(values) + np.arange(RUNGS_PER_OCTAVE)))
        if len(values) % (16 * RUNGS_PER_OCTAVE) == 0:
            ladder = [np.exp(s * d) for s in scales]
        else:
            ladder = [np.multiply(e, e, out=e) for e in ladder]
        for s, e in zip(scales, ladder, strict=True):
            total = ones @ e  # matrix products: the fastest sums there are
            values.append(finished + float(w @ np.log(total)))
            expected = np.multiply(e, d, out=product) @ (w / total)
            slopes.append(float(s) * float(expected.sum()))
        done = total - count < SATURATED_SUM
        if 2 * np.count_nonzero(done) >= len(w) > 0:
            finished += float(w[done] @ np.log(count[done]))
            d, w, count = d[:, ~done], w[~done], count[~done]
            ladder, product = [e[:, ~done] for e in ladder], product[:, ~done]
    return np.array(values), np.array(slopes)
