"""The temperature: one factor on all logits, z becomes s z.

The plausible scales form an interval around 1. What a scale costs is judged by the model itself or
by the labels. Either way all that the data contribute is one function of the scale, see `_ladder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal._base.settings import check_choice, check_tolerance
from decal.directions._direction import (
    WEIGHT_ROUND_OFF,
    Box,
    Direction,
    Endpoints,
    Inputs,
    LabelledLogits,
    TensorBounds,
    TensorInputs,
)
from decal.directions._ladder import RUNG, STENCIL, ScaleSummary, summarise_scales
from decal.directions._peaks import widen_by_scale
from decal.directions._ranges import widened_by_scales
from decal.directions._reference import Reference

LABEL_RATIO = 16.0  # log-budget of the scale in units of that of the shifts, when labels judge it

FALSE_POSITION_STEPS, BISECTION_STEPS = 100, 40
LOSS_TOLERANCE = 1e-14  # nats per unit of weight by which an endpoint's loss may miss its budget
NO_BUDGET = 1e-12  # nats per unit of weight: a smaller share of a model's knowledge is round-off
SCALE_ROUNDING = 4 * float(np.finfo(np.float64).eps)  # scales closer are hardly told apart


@dataclass(frozen=True)
class Temperature(Direction):
    """The scale of the logits, z becomes s z, as a direction.

    Parameters
    ----------
    ratio : float, optional
        Nats per example that the scale may lose, in units of -log alpha. By default 16 with
        evidence="labels"; with "model", K times the nats that the model claims to know about an
        example, log K - its mean entropy, as a class shift concerns about one example in K.
    evidence : str
        Who says what a scale costs. "model": the sharper of the scaled and the unscaled model, by
        what believing the softer one costs if it is true. "labels": their likelihood.
    """

    ratio: float | None = None
    evidence: str = "model"
    name = "temperature"
    exports = True
    takes_masks = True
    moves_scale = True

    def __post_init__(self) -> None:
        check_choice(self.evidence, "evidence", ("model", "labels"))
        if self.ratio is not None:
            check_tolerance(self.ratio, "ratio")

    def __str__(self) -> str:
        return self.name if self == Temperature() else repr(self)

    def settings(self) -> dict[str, Any]:
        """Ratio and evidence."""
        return {"ratio": self.ratio, "evidence": self.evidence}

    def summarise(self, data: LabelledLogits) -> ScaleSummary:
        """The log-partition functions of all rows, summed at a ladder of scales."""
        logits, labels = data.recentered, data.labels
        if not data.present.all():
            logits, labels = logits[:, data.present], np.cumsum(data.present)[labels] - 1
        return summarise_scales(logits, labels, data.weights)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> ScaleSummary:
        """A summary from its arrays."""
        return ScaleSummary.from_arrays(arrays)

    def matches(self, evidence: ScaleSummary, label_weight: Array) -> bool:
        """Whether there are no more classes, and the same weight in all."""
        weight = float(label_weight.sum())
        return (
            len(evidence.seen) <= len(label_weight)
            and abs(evidence.weight - weight) <= WEIGHT_ROUND_OFF * weight
        )

    def endpoints(self, evidence: ScaleSummary, budgets: Array, reference: Reference) -> Endpoints:
        """Plausible scales (A,), relative to that of the reference."""
        loss, _ = self._loss(evidence)
        return plausible_scales(evidence, loss, self.allowed(evidence, budgets), reference.scale)

    def allowed(self, evidence: ScaleSummary, budgets: Array) -> Array:
        """(A,) nats that a scale may lose in all, where a class shift may lose the budgets (A,)."""
        _, ratio = self._loss(evidence)
        # An infinite budget makes every scale plausible, even of a model that knows nothing.
        unlimited = np.isinf(budgets)
        finite = np.where(unlimited, 0.0, budgets)
        if self.ratio is not None:
            ratio = self.ratio
        elif self.evidence == "model":
            finite[ratio * finite <= NO_BUDGET * evidence.weight] = 0.0
        return np.where(unlimited, np.inf, ratio * finite)

    def gains(self, evidence: ScaleSummary, scales: Array) -> Array:
        """(T,) nats gained, in all, by scales (T,) relative to that of the reference."""
        loss, _ = self._loss(evidence)
        return -np.asarray(loss(scales, *evidence(scales)))

    def _loss(self, evidence: ScaleSummary) -> tuple[ExpectedLoss | LabelLoss, float]:
        """What a scale costs, and how many times the budget of a class shift it may."""
        (at_one,), (rate,) = evidence(np.ones(1))
        if self.evidence == "labels":
            label_sum = evidence.label_sum
            loss = LabelLoss(float(at_one), float(rate) - label_sum, -label_sum)
            return loss, LABEL_RATIO
        return ExpectedLoss(float(at_one), float(rate)), evidence.classes * evidence.knowledge

    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """Widen to the range of every probability while the logits are scaled."""
        box = box or Box.at_point(inputs)
        columns = np.flatnonzero(inputs.present)
        scales = endpoints.lower, endpoints.upper
        widen_by_scale(box.low, box.high, inputs.recentered, *scales, columns)
        return box

    def widen_tensors(
        self, bounds: TensorBounds, inputs: TensorInputs, lower: Any, upper: Any
    ) -> TensorBounds:
        """As `widen`, for PyTorch tensors."""
        z, absent, _, xp = inputs
        return widened_by_scales(xp, *bounds, z, absent, lower, upper)


@dataclass(frozen=True)
class ExpectedLoss:
    """Nats lost, in all, by believing the softer of two models when the sharper one is true.

    KL(p || p_s) for s < 1 and KL(p_s || p) for s > 1, p_s the softmax of s z, summed over rows.
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
    """Nats of log-likelihood of the labels lost, in all, by scaling the logits by s: convex."""

    at_one: float
    slope: float
    final_slope: float  # for large s: 0 if sharper is better for ever

    def __call__(self, s: Array, value: Array, _: Array) -> Array:
        """Of scales s and R(s)."""
        return (s - 1) * self.final_slope + value - self.at_one

    def rate(self, rate: Array) -> Array:
        """The derivative in s, of R'(s)."""
        return self.final_slope + rate


def plausible_scales(
    summary: ScaleSummary, loss: ExpectedLoss | LabelLoss, budgets: Array, center: float = 1.0
) -> Endpoints:
    """The scales around 1 that lose at most the budget (A,); 0 and inf if all are within it."""
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
    # At b = 0 the endpoint lies at s = 1 on the side where the loss rises from there.
    still = (b == 0) & (side * loss.slope >= 0)
    scales = np.where(still, 1.0, limit)
    solve = reached & ~still
    inside, outside = rungs[inner[solve]], rungs[outer[solve]]
    if isinstance(loss, LabelLoss):
        # Between 1 and its rung the loss may fall before it rises: then s = 1 is no endpoint.
        dips = (inner[solve] == one) & (side[solve] * loss.slope < 0)
        inside[dips] = _bottom(summary, loss, outside[dips])
    found, missed = _between(summary, loss, b[solve], inside, outside)
    scales[solve] = found
    missed = np.maximum(missed - _written(summary, loss, found), 0.0)
    rough = loss(found, *summary(found, STENCIL - 2)) - b[solve]
    hidden = np.abs(np.abs(rough) - missed)
    residual, error = (float(lost.max(initial=0)) / W for lost in (missed, hidden))
    return Endpoints(scales[:A], scales[A:], center, None, residual, error)


def _bottom(summary: ScaleSummary, loss: LabelLoss, outside: Array) -> Array:
    """Scales between 1 and `outside` at which the loss is least, to a few digits."""
    near, far = np.ones_like(outside), outside
    for _ in range(BISECTION_STEPS):
        middle = (near + far) / 2
        falls = (far - near) * loss.rate(summary(middle)[1]) < 0
        near, far = np.where(falls, middle, near), np.where(falls, far, middle)
    return near


def _written(summary: ScaleSummary, loss: ExpectedLoss | LabelLoss, scales: Array) -> Array:
    """By how much the loss changes while scales change by no more than a few roundings."""
    ends = [scales * (1 + side * SCALE_ROUNDING) for side in (-1, 1)]
    low, high = (loss(s, *summary(s)) for s in ends)
    return np.abs(high - low)


def _between(
    summary: ScaleSummary, loss: ExpectedLoss | LabelLoss, b: Array, inside: Array, outside: Array
) -> tuple[Array, Array]:
    """Scales between these whose loss is b, and what it misses: false position (Illinois)."""
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
