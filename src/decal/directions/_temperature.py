"""What data say about the scale of the logits: sums on a ladder of scales, and plausible scales.

With d = z - max z <= 0 and A(s) = log sum_k exp(s d_k), the log-partition function of a row, all
that the data contribute is the sum R(s) of A over the rows: a smooth convex function of one
variable, from log K at s = 0 to the log of the number of ties at infinity. It is kept, with its
derivative, at the scales 2^(i/2), where sums of several data sets add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, compiled, for_each_block, row_blocks

RUNGS_PER_OCTAVE = 2
RUNG = float(np.log(2.0)) / RUNGS_PER_OCTAVE
"""Distance of two rungs in log s."""

NEAR_ZERO = 1 / 4
"""The lowest rung is at s = NEAR_ZERO / (largest |d|). There R is so smooth that a polynomial
through s = 0 and the lowest rungs replaces all rungs further down."""

LOWEST = 5
"""Rungs that determine that polynomial, together with the value and slope at 0."""

SMALLEST_SPREAD = 2.0**-20
"""Logits that differ by less are treated as if they differed by this much: the ladder stays low."""

SATURATED_SUM = 1e-13
"""A row whose smaller exponentials sum to less than this has reached its limit."""

HIGHEST_RUNG = 1000 * RUNGS_PER_OCTAVE
"""A scale of 2^1000: no two logits that differ are still alike there."""

COMPILED_CLASSES = 24
"""With fewer, matrix products over many rows are faster than compiled loops over single rows."""

LADDER_ELEMENTS = 1 << 15
"""Logits carried up the ladder at once: a few copies of them share a core's cache."""

STENCIL = 10
"""Rungs whose values and slopes determine one interpolating polynomial, of degree 19."""

LABEL_RATIO = 16.0
"""Log-budget of the scale in units of that of the shifts, when labels judge it."""

FALSE_POSITION_STEPS = 100
ROUND_OFF = 1e-12
"""Nats per row below which a model that claims to know something knows nothing."""

LOSS_TOLERANCE = 1e-14
"""Nats per unit of weight by which the loss at an end may miss its budget."""


@dataclass(frozen=True)
class ScaleSummary:
    """The sum R(s) of the rows' log-partition functions, at a ladder of scales.

    Attributes
    ----------
    first : index of the lowest rung: scale 2^(first / 2).
    values, slopes : (L,) R and dR / d log s at the rungs.
    at_zero : (2,) R and dR / ds at s = 0.
    classes : K.
    ties : limit of R for large s: R above the highest rung.
    label_sum : sum over rows of w (z_y - max z), at most 0.
    weight : total weight.
    """

    first: int
    values: Array
    slopes: Array
    at_zero: Array
    classes: int
    ties: float
    label_sum: float
    weight: float

    def parts(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that `from_parts` turns back into this summary."""
        numbers = [self.first, self.classes, self.ties, self.label_sum, self.weight]
        return {
            "ladder": np.stack([self.values, self.slopes]),
            "at_zero": self.at_zero,
            "ladder_numbers": np.array(numbers, dtype=np.float64),
        }

    @classmethod
    def from_parts(cls, arrays: dict[str, NDArray[Any]]) -> ScaleSummary:
        """Take the parts out of `arrays`; ValueError if they do not fit together."""
        ladder, at_zero = arrays.pop("ladder"), arrays.pop("at_zero")
        numbers = arrays.pop("ladder_numbers")
        parts = (ladder, at_zero, numbers)
        if any(a.dtype != np.float64 or not np.isfinite(a).all() for a in parts):
            raise ValueError("numbers are damaged")
        if ladder.shape[:1] != (2,) or at_zero.shape != (2,) or len(numbers) != 5:
            raise ValueError("shapes do not match")
        first, classes, ties, label_sum, weight = (float(x) for x in numbers)
        sound = classes >= 2 and weight > 0 and label_sum <= 0 <= ties and ladder.shape[1] >= LOWEST
        if not sound or int(first) != first or int(classes) != classes:
            raise ValueError("numbers are damaged")
        values, slopes = ladder
        return cls(int(first), values, slopes, at_zero, int(classes), ties, label_sum, weight)

    @property
    def last(self) -> int:
        """Index of the highest rung."""
        return self.first + len(self.values) - 1

    def rungs(self, index: NDArray[np.int64]) -> tuple[Array, Array]:
        """R and dR / d log s at any rungs, stored or not."""
        s = np.exp(RUNG * index)
        value, rate = self.near_zero(s)
        slope = s * rate
        inside = (index >= self.first) & (index <= self.last)
        above = index > self.last
        at = np.clip(index - self.first, 0, len(self.values) - 1)
        value = np.where(inside, self.values[at], np.where(above, self.ties, value))
        slope = np.where(inside, self.slopes[at], np.where(above, 0.0, slope))
        return value, slope

    def near_zero(self, s: Array) -> tuple[Array, Array]:
        """R and dR / ds below the lowest rung, by the polynomial through it and s = 0."""
        rungs = np.exp(RUNG * (self.first + np.arange(LOWEST)))
        half = rungs[-1] / 2  # from 0 to the last of them is [-1, 1] in this unit
        values = np.append(self.at_zero[0], self.values[:LOWEST])
        rates = np.append(self.at_zero[1], self.slopes[:LOWEST] / rungs)
        coefficients = _hermite(_FROM_ZERO) @ np.concatenate([values, rates * half])
        x = np.minimum(s, rungs[0]) / half - 1
        value = chebyshev.chebval(x, coefficients)
        rate = chebyshev.chebval(x, chebyshev.chebder(coefficients)) / half
        return np.asarray(value, dtype=np.float64), np.asarray(rate, dtype=np.float64)

    @property
    def expected_loss(self) -> ExpectedLoss:
        """The loss that the model itself would expect."""
        (at_one,), (rate,) = self(np.ones(1))
        return ExpectedLoss(float(at_one), float(rate))

    @property
    def label_loss(self) -> LabelLoss:
        """The loss on the labels."""
        (at_one,), (rate,) = self(np.ones(1))
        return LabelLoss(float(at_one), float(rate) - self.label_sum, -self.label_sum)

    def judged_by(
        self, evidence: str, ratio: float | None
    ) -> tuple[ExpectedLoss | LabelLoss, float]:
        """What scales cost by this evidence, and in units of a class shift's budget may cost.

        See `decal.Temperature`, whose attributes these are.
        """
        if evidence == "labels":
            return self.label_loss, LABEL_RATIO if ratio is None else ratio
        return self.expected_loss, self.classes * self.knowledge if ratio is None else ratio

    @property
    def knowledge(self) -> float:
        """Mean of log K - entropy of the prediction: the nats per row that the model claims."""
        (at_one,), (rate,) = self(np.ones(1))
        claimed = float(self.at_zero[0] - at_one + rate) / self.weight
        return claimed if claimed > ROUND_OFF else 0.0

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
        found = chebyshev.chebval(x, coefficients, tensor=False)
        rate = chebyshev.chebval(x, chebyshev.chebder(coefficients), tensor=False)
        rate = rate / half / RUNG / np.where(low, 1.0, scale)
        small, small_rate = self.near_zero(scale)
        return np.where(low, small, found), np.where(low, small_rate, rate)


_FROM_ZERO = (-1.0, *(2 * np.exp(RUNG * (np.arange(LOWEST) - LOWEST + 1)) - 1))
"""The scale 0 and the lowest rungs, seen from the middle between 0 and the last of these."""


@lru_cache
def _hermite(nodes: tuple[float, ...]) -> Array:
    """From values and slopes at nodes in [-1, 1] to Chebyshev coefficients: a basis that is safe.

    With powers of x in its place, round-off would grow to 1e-8.
    """
    x, degree = np.array(nodes), 2 * len(nodes) - 1
    values = chebyshev.chebvander(x, degree)
    slopes = [chebyshev.chebval(x, chebyshev.chebder(row)) for row in np.eye(degree + 1)]
    return np.linalg.inv(np.concatenate([values, np.stack(slopes, axis=1)]))


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
        for rows in row_blocks(len(logits), logits.shape[1], LADDER_ELEMENTS):
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
    return ScaleSummary(
        first,
        values,
        slopes,
        np.sum([p.at_zero for p in parts], axis=0),
        parts[0].classes,
        sum(p.ties for p in parts),
        sum(p.label_sum for p in parts),
        sum(p.weight for p in parts),
    )


def _of_block(
    d: Array, y: NDArray[np.intp], weights: Array | None, kernels: ModuleType | None
) -> ScaleSummary:
    """The ladder of one block of logits (n, K), of which the largest of each row is subtracted."""
    n, K = d.shape
    w = np.ones(n) if weights is None else weights
    weight, label_sum = float(w.sum()), float(w @ d[np.arange(n), y])
    at_zero = np.array([weight * np.log(K), float((w @ d).mean())])
    count = np.count_nonzero(d == 0, axis=1)
    ties = float(w @ np.log(count))
    spread = max(float(-d.min()), SMALLEST_SPREAD)
    first = int(np.floor(np.log(NEAR_ZERO / spread) / RUNG))
    if kernels is None:
        values, slopes = _climb(d, w, count, first)
    else:
        scales = np.exp(RUNG * np.arange(first, HIGHEST_RUNG))
        given = np.empty(0) if weights is None else weights
        values, slopes = kernels.climb(d, given, count, scales, SATURATED_SUM, LOWEST)
    return ScaleSummary(first, values, slopes, at_zero, K, ties, label_sum, weight)


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


@dataclass(frozen=True)
class Scales:
    """By how much the logits may be scaled, at a given alpha (or several).

    Attributes
    ----------
    lower, upper : 0 <= lower <= 1 <= upper <= inf, relative to `center`; (A,) for A alphas. 0 makes
        all classes equally probable, infinity makes the most probable one certain.
    center : scale of the reference model: 1, or with reference="best" the maximum-likelihood one.
    alpha : the level, or (A,) levels.
    residual : by how much the loss at a finite end misses the budget at most, in nats per example.
    error : estimate of what the summary of the data hides from that loss, in nats per example.
    """

    lower: float | Array
    upper: float | Array
    center: float
    alpha: float | Array
    residual: float
    error: float


@dataclass(frozen=True)
class PlausibleScales:
    """The ends found by `plausible_scales`, and how well they are known.

    Attributes
    ----------
    lower, upper : (A,) scales, 0 <= lower <= 1 <= upper <= inf.
    residual : by how much the loss at a finite end misses its budget at most, in nats per unit of
        weight.
    error : estimate of what interpolation between the rungs hides from that loss: what two rungs
        fewer would change.
    """

    lower: Array
    upper: Array
    residual: float
    error: float


@dataclass(frozen=True)
class ExpectedLoss:
    """Nats lost, in all, by believing the softer of two models when the sharper one is true.

    KL(p || p_s) for s < 1 and KL(p_s || p) for s > 1, p_s the softmax of s z, summed over rows:
    what a scale costs in likelihood if labels are drawn from the sharper of the two models. It is
    0 at s = 1 and grows on both sides of it.
    """

    at_one: float
    rate_at_one: float
    slope: float = 0.0
    final_slope: float = 0.0

    def __call__(self, s: Array, value: Array, rate: Array) -> Array:
        """Of scales s, R(s) and R'(s)."""
        softer = value - self.at_one - (s - 1) * self.rate_at_one
        sharper = self.at_one - value + (s - 1) * rate
        return np.where(s < 1, softer, sharper)


@dataclass(frozen=True)
class LabelLoss:
    """Nats of log-likelihood of the labels lost, in all, by scaling the logits by s.

    Convex in s; negative between 1 and the best scale. `final_slope` is its slope for large s: 0
    where every label has the largest logit, so that sharper is better for ever.
    """

    at_one: float
    slope: float
    final_slope: float

    def __call__(self, s: Array, value: Array, _: Array) -> Array:
        """Of scales s and R(s)."""
        return (s - 1) * self.final_slope + value - self.at_one


def plausible_scales(
    summary: ScaleSummary, loss: ExpectedLoss | LabelLoss, budgets: Array
) -> PlausibleScales:
    """The interval of scales around 1 whose loss is at most b, for every budget.

    0 where even equal probabilities are within the budget, infinite where even certainty is.

    Parameters
    ----------
    summary : the evidence.
    loss : 0 at s = 1, and at most b >= 0 on an interval of scales.
    budgets : (A,) nats that may be lost in all, each in [0, inf].
    """
    A, W = len(budgets), summary.weight
    b = np.concatenate([budgets, budgets])
    index = np.arange(min(summary.first, 0) - STENCIL, max(summary.last, 0) + STENCIL + 1)
    rungs = np.concatenate([[0.0], np.exp(RUNG * index)])  # and the scale 0
    value, slope = summary.rungs(index)
    value = np.concatenate([summary.at_zero[:1], value])
    rate = np.concatenate([summary.at_zero[1:], slope / rungs[1:]])
    lost = loss(rungs, value, rate)
    one = 1 - int(index[0])

    # The last rung within the budget and the first beyond it, on each side of s = 1.
    beyond = lost[None, :] > b[:, None] + LOSS_TOLERANCE * W
    below = one - 1 - np.argmax(beyond[:A, one - 1 :: -1], axis=1)
    above = one + 1 + np.argmax(beyond[A:, one + 1 :], axis=1)
    outer = np.concatenate([below, above])
    inner = np.concatenate([below + 1, above - 1])
    side = np.repeat([-1.0, 1.0], A)
    reached = beyond[np.arange(2 * A), outer]
    limit = np.where(side < 0, 0.0, np.inf)
    if loss.final_slope > 0:  # a straight line above the highest rung
        past = 1 + (b + loss.at_one - summary.ties) / loss.final_slope
        limit = np.where(side < 0, 0.0, past)
    # At b = 0 the end lies at s = 1 on the side where the loss rises from there.
    still = (b == 0) & (side * loss.slope >= 0)
    ends = np.where(still, 1.0, limit)
    solve = reached & ~still
    found, missed = _between(summary, loss, b[solve], rungs[inner[solve]], rungs[outer[solve]])
    ends[solve] = found
    rough = loss(found, *summary(found, STENCIL - 2)) - b[solve]
    hidden = np.abs(np.abs(rough) - missed)
    return PlausibleScales(
        ends[:A], ends[A:], float(missed.max(initial=0)) / W, float(hidden.max(initial=0)) / W
    )


def _between(
    summary: ScaleSummary,
    loss: ExpectedLoss | LabelLoss,
    b: Array,
    inside: Array,
    outside: Array,
) -> tuple[Array, Array]:
    """Scales between `inside` and `outside` whose loss is b, and by how much it misses b there.

    False position with the Illinois rule: it keeps a bracket and converges faster than linearly.
    """
    low = loss(inside, *summary(inside)) - b
    high = loss(outside, *summary(outside)) - b
    s, missed = inside, np.abs(low)
    weight_low, weight_high = low, high
    for _ in range(FALSE_POSITION_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            s = outside - weight_high * (outside - inside) / (weight_high - weight_low)
        between = (s - inside) * (s - outside) <= 0  # false for NaN
        s = np.where(between, s, (inside + outside) / 2)
        left = loss(s, *summary(s)) - b
        missed = np.abs(left)
        if (missed <= LOSS_TOLERANCE * summary.weight).all():
            break
        in_ = left <= 0
        weight_high = np.where(in_, np.where(weight_low == low, weight_high / 2, high), left)
        weight_low = np.where(in_, left, np.where(weight_high == high, weight_low / 2, low))
        inside, low = np.where(in_, s, inside), np.where(in_, left, low)
        outside, high = np.where(in_, outside, s), np.where(in_, high, left)
    return s, missed
