"""Class shifts: adding a constant to one class's logit at a time, the paper's family.

The gain g_k(t) of shifting class k by t is concave (see `_margins`), so the shifts that cost no
more than the budget form an interval. Its endpoints move the prediction of a new input furthest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import BLOCK_ELEMENTS, Array, Logits, compiled, for_each_block
from decal.directions._bins import BIN_WIDTH, FAR
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
from decal.directions._margins import (
    COARSE_WIDTH,
    LARGEST_SEVENTH_DERIVATIVE,
    LARGEST_SIXTH_DERIVATIVE,
    TANGENT_SHIFTS,
    DataSummary,
    MarginSummary,
    Series,
)
from decal.directions._ranges import Factors, shift_box, wider
from decal.directions._reference import Reference
from decal.directions._summarise import FAR_SHIFT, BoundedMargins, Summariser, blocks_of_margins

MAX_NEWTON_STEPS = 100
TOLERANCE = 4 * float(np.finfo(np.float64).eps)  # nats per unit of weight: what can be seen
LAST_STEP = (8 * TOLERANCE) ** 0.5  # a Newton step that leaves TOLERANCE, as |g''| <= W / 4
LONG_SHIFT = 1e5  # nats from which an endpoint misses its budget relative to itself: by rounding
# Nats per unit of weight by which no endpoint misses its budget if all went well, but for so many
# roundings of the terms of its gain, and of the endpoint itself.
LARGEST_MISS, ROUNDINGS = 1e-10, 16.0
LARGEST_SHIFT = 1e300  # no finite shift is larger
DEEPEST_LOGIT = 300.0  # shifts, and margins of the largest class, are exponentiated up to here
DEEPEST = float(np.exp(-DEEPEST_LOGIT))
COMPILED_CLASSES = 16  # of fewer, NumPy's boxes of shifts take less time than compiled loops
ClassEvidence = MarginSummary | BoundedMargins


@dataclass(frozen=True)
class ClassShifts(Direction):
    """The logit of one class at a time, as published: `directions=("class",)`."""

    name = "class"
    exports = True
    takes_top_logits = True
    takes_masks = True

    def summarise(self, data: LabelledLogits, max_bins: int | None = None) -> MarginSummary:
        """The margins of every class, in bins: one pass over the data."""
        n, K = data.logits.shape
        summariser = Summariser(K, max_bins, expected=n * K)
        for rows, m in blocks_of_margins(data):
            weights = None if data.weights is None else data.weights[rows]
            summariser.add(m, data.labels[rows], weights)
        summary = summariser.summary()
        coarse = summary.bin_width > BIN_WIDTH
        return replace(summary, data=data) if coarse and data.may_be_kept else summary

    def restore(self, arrays: dict[str, NDArray[Any]]) -> ClassEvidence:
        """A summary from its arrays."""
        if "low.keys" in arrays:
            return BoundedMargins.from_arrays(arrays)
        summary = MarginSummary.from_arrays(arrays)
        summary.require_margins()
        return summary

    def matches(self, evidence: ClassEvidence, label_weight: Array) -> bool:
        """Whether the labels of every class have the same weight."""
        found, room = evidence.label_weight, WEIGHT_ROUND_OFF * label_weight.sum()
        return found.shape == label_weight.shape and bool(
            (np.abs(found - label_weight) <= room).all()
        )

    @np.errstate(over="ignore")  # of steps along lines that hardly fall: they are cut off
    def endpoints(self, evidence: ClassEvidence, budgets: Array, reference: Reference) -> Endpoints:
        """The interval of shifts around 0 that lose at most the budget, for every budget and class.

        Endpoints (A, K) are infinite where the data cannot object: below for a class without
        labels, above for one with all of them, and on both sides for an infinite budget. Their
        error is a proved bound. Budgets, (A,) or (A, K), are nats lost in all, in [0, inf]. Data in
        the summary polish what wide bins give. Gains of classes left out are measured from
        t = -inf.
        """
        if isinstance(evidence, BoundedMargins):
            low = self.endpoints(evidence.high, budgets, reference)
            high = self.endpoints(evidence.low, budgets, reference)
            residual, error = max(low.residual, high.residual), max(low.error, high.error)
            return Endpoints(
                np.where(low.lower < -FAR_SHIFT, -np.inf, low.lower),
                np.where(high.upper > FAR_SHIFT, np.inf, high.upper),
                *(reference.center, None, residual, error),
            )
        above, below, margin_sum = evidence.series.hinges
        others, w, W = evidence.open_others, evidence.open_labels, evidence.total_weight
        A, K = len(budgets), len(w)
        left_out = np.isneginf(reference.center)
        # Rows 0..A-1 of all that follows are lower endpoints, rows A..2A-1 upper ones.
        b = -np.concatenate([budgets, budgets]).reshape(2 * A, -1)
        side = np.repeat([-1.0, 1.0], A)[:, None]
        if not evidence.once:  # what solving at any level starts from
            factor = int(COARSE_WIDTH / evidence.bin_width)
            coarse = [evidence.coarsened(factor).series] if factor > 1 else []
            exact = [] if evidence.data is None else [DataSummary(evidence.data)]
            every: list[Series | DataSummary] = [*coarse, evidence.series, *exact]
            sums = [stage.softplus_sum(np.zeros((1, K))) for stage in every]
            at = np.repeat(np.append(-TANGENT_SHIFTS, TANGENT_SHIFTS)[:, None], K, axis=1)
            tangents = (coarse or [evidence.series])[0].softplus_sum(at, times=1)
            evidence.once["start"] = every, sums, sums[len(coarse)], tangents
        stages, starts, (at_zero, slope_at_zero), tangents = evidence.once["start"]

        infinite = np.isneginf(b) | ((side < 0) & (w == 0)) | ((side > 0) & (others == 0))
        # At b = 0 the endpoint lies at the start on the side where the gain falls from the start.
        still = ~infinite & (b == 0) & (reference.is_best | (side * (w - slope_at_zero) <= 0))
        solve = ~(infinite | still)

        # softplus(x) >= max(0, x) bounds the gain by two lines. Their roots lie outside the
        # interval, and from there Newton's method on a concave function never steps over its ends.
        limit = np.where(left_out, -margin_sum, at_zero + below)
        beyond = np.where(side < 0, b - (at_zero + above), limit - b)
        slope = np.where(side < 0, w, others)
        outside = np.divide(beyond, slope, out=np.zeros((2 * A, K)), where=solve)

        least = np.where((side < 0) | left_out, -LARGEST_SHIFT, 0.0)
        most = np.where((side < 0) & ~left_out, 0.0, LARGEST_SHIFT)
        bases = [
            np.where(left_out, -stage.hinges[0], value[0])
            for stage, (value, _) in zip(stages, starts, strict=True)
        ]
        t = np.where(solve, _closest_roots(tangents, w, bases[0], b, outside), 0.0)
        t = np.minimum(np.maximum(t, least), most)
        for stage, base in zip(stages, bases, strict=True):
            # Where finer bins follow, what a step of 2e-4 leaves is gone after one more.
            last_step = LAST_STEP if stage is stages[-1] else 2e-4
            left_of_budget = base - b
            for _ in range(MAX_NEWTON_STEPS):
                value, slope = stage.softplus_sum(t)
                lift, rise = w * t, w - slope
                left = lift - value
                left += left_of_budget
                short, step = np.abs(left), np.zeros_like(t)
                # The terms of the gain may be large and cancel: what they leave is round-off.
                noise = TOLERANCE * (W + np.abs(lift) + np.abs(value))
                off = solve & (short > noise)
                off &= side * rise < 0  # elsewhere a step would lead away
                np.divide(left, rise, out=step, where=off)
                t = np.minimum(np.maximum(t - step, least), most)
                size = np.abs(step)
                converged = size <= last_step + TOLERANCE * np.abs(t)
                if converged.all():
                    break
        after_step = np.minimum(W / 8 * np.minimum(size, 1.0) ** 2, short)
        missed = np.where(off, after_step, np.where(solve, short, 0.0))
        # An endpoint from which the gain still rises outwards is none: it only has the same gain.
        failed = ~converged | (solve & (side * rise > TOLERANCE * W))
        failed |= missed > LARGEST_MISS * W + ROUNDINGS * (noise + TOLERANCE * np.abs(t * rise))
        if failed.any():
            found, short = _bisected(stages[-1], w, left_of_budget, side, left_out)
            t, missed = np.where(failed, found, t), np.where(failed, short, missed)
        room = W * np.maximum(np.abs(t) / LONG_SHIFT, 1.0)
        room = np.where(room > 0, room, 1.0)  # of nothing, nothing is missed
        # Both softplus sums of a gain carry a remainder; they cancel as t goes to 0.
        rate = LARGEST_SEVENTH_DERIVATIVE / LARGEST_SIXTH_DERIVATIVE
        hidden = np.minimum(rate * np.abs(t), 2.0) * evidence.series.remainder
        # A shift much shorter than the margins beyond FAR changes nothing that their bins hide.
        hidden += np.where(np.abs(t) >= FAR / 2, 2 * evidence.series.far_remainder, 0.0)
        residual = float((missed / room).max())
        error = (
            0.0 if evidence.data is not None else float((np.where(solve, hidden, 0.0) / room).max())
        )
        start = np.where(left_out, -np.inf, 0.0)
        t = np.where(infinite, side * np.inf, np.where(still, start, t))
        return Endpoints(t[:A], t[A:], reference.center, None, residual, error)

    def allowed(self, _: ClassEvidence, budgets: Array) -> Array:
        """(A,) nats that a shift may lose in all: the budgets themselves."""
        return budgets

    def gains(self, evidence: ClassEvidence, shifts: Array) -> Array:
        """(T, K) nats gained, in all, by shifts (T,) of each class from the reference."""
        if isinstance(evidence, BoundedMargins):
            raise ValueError(
                "gains must be of known logits: got a model that learnt from intervals "
                "(unlisted='bounds'). Its endpoints, d.shifts(), are known."
            )
        K = len(evidence.label_weight)
        t = np.repeat(np.append(0.0, shifts)[:, None], K, axis=1)
        value, _ = evidence.series.softplus_sum(t)
        return np.asarray(evidence.open_labels * t[1:] - (value[1:] - value[0]))

    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """Widen to the range of every probability while one class's logit is shifted."""
        plan = endpoints.once(ShiftPlan.of)
        bounds = boxes_of_shifts(inputs.logits, plan, joint=inputs.joint, dtype=inputs.dtype)
        found = Box(*bounds)
        if box is None:
            return found
        box.include(found.low, found.high)
        return box

    def widen_tensors(
        self, bounds: TensorBounds, inputs: TensorInputs, lower: Any, upper: Any
    ) -> TensorBounds:
        """As `widen`, for PyTorch tensors."""
        z, absent, joint, xp = inputs
        low, high, *_ = shift_box(xp, z, absent, lower, upper, joint=joint, deep=True)
        return wider(xp, *bounds, low, high)


def _bisected(
    stage: Series | DataSummary, w: Array, start: Array, side: Array, left_out: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Endpoints (2A, K) to the last bit, and by how much they miss their budget: sure, but slow.

    Newton's method goes astray where a gain is flat to the last digit, or a difference of huge
    numbers. `start` (2A, K) is what is left of the budget where the sum of softplus is 0.
    """
    shape = start.shape
    inside = _rank(np.broadcast_to(np.where(left_out, -LARGEST_SHIFT, 0.0), shape))
    outside = _rank(np.broadcast_to(side * LARGEST_SHIFT, shape))
    t, left = np.zeros(shape), np.zeros(shape)
    for _ in range(64):
        middle = (inside >> 1) + (outside >> 1) + (inside & outside & 1)
        t = _ranked(middle)
        lift, value = w * t, stage.softplus_sum(t)[0]
        left = lift - value + start
        # Where the gain is flat and its terms are large, round-off has either sign.
        within = left >= -TOLERANCE * (np.abs(lift) + np.abs(value))
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return t, np.abs(left)


def _rank(x: Array) -> NDArray[np.int64]:
    """Whole numbers in the order of floats: neighbors differ by 1."""
    bits = np.ascontiguousarray(x).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _ranked(rank: NDArray[np.int64]) -> Array:
    """The floats of such numbers."""
    return np.where(rank < 0, np.iinfo(np.int64).min - rank, rank).view(np.float64)


def _closest_roots(
    tangents: tuple[Array, Array], w: Array, base: Array, b: Array, outside: Array
) -> Array:
    """(2A, K) starts of Newton's method: where tangents of the gain, which lie above it, meet b.

    `base` (K,) is the sum of softplus that gains are measured from; roots replace the shifts
    `outside` (2A, K) where they are closer.
    """
    t = outside.copy()
    A, (values, slopes) = len(b) // 2, (sums.reshape(2, -1, len(w)) for sums in tangents)
    for rows, side, value, slope in zip(
        (slice(A), slice(A, 2 * A)), (-1.0, 1.0), values, slopes, strict=True
    ):
        at = side * TANGENT_SHIFTS[:, None]
        gain = w * at - value + base
        fall = side * (slope - w)
        for row, wanted in zip(t[rows], b[rows], strict=True):
            further = np.divide(gain - wanted, fall, out=np.full_like(fall, np.inf), where=fall > 0)
            root = TANGENT_SHIFTS[:, None] + further
            root[root == -np.inf] = np.inf
            row[:] = side * np.minimum(side * row, root.min(axis=0))
    return t


@dataclass(frozen=True)
class ShiftPlan:
    """What boxes of class shifts need of the endpoints, computed once for any number of inputs."""

    offset: Array  # (K,) the center, with 0 for the classes left out
    centered: bool  # whether the offset is 0
    absent: NDArray[np.bool_] | None  # (K,) the classes left out: their lower shift is -inf and
    shifts: Array  # the upper one from the logit itself. (2, K), or (2, n, K): the endpoints
    factors: Array | None  # (2, K) their exponentials; None if they differ from row to row
    steep: NDArray[np.intp]  # the classes without

    @classmethod
    def of(cls, endpoints: Endpoints) -> ShiftPlan:
        """Of endpoints (K,) at one alpha, or (n, K) of one row each."""
        shifts = np.stack([endpoints.lower, endpoints.upper])
        absent = np.isneginf(endpoints.center)
        offset = np.where(absent, 0.0, endpoints.center)
        reference = offset, not offset.any(), absent if absent.any() else None
        if shifts.ndim > 2:
            return cls(*reference, shifts, None, np.empty(0, np.intp))
        finite = np.where(shifts == -np.inf, 0.0, shifts)  # of the others, nothing is left: exactly
        steep = absent | ~(np.abs(finite).max(axis=0) < DEEPEST_LOGIT)
        factors = np.exp(np.where(steep, 0.0, shifts))
        return cls(*reference, shifts, factors, np.flatnonzero(steep))

    @cached_property
    def fast_ends(self) -> list[Factors]:
        """Endpoints that are the same for all rows, with their exponentials."""
        assert self.factors is not None
        pairs = zip(self.shifts, self.factors, strict=True)
        return [Factors(shift, factor, self.steep) for shift, factor in pairs]

    def of_rows(self, rows: slice) -> ShiftPlan:
        """The plan of some rows."""
        return self if self.factors is not None else replace(self, shifts=self.shifts[:, rows])


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # see `shift_box`
def boxes_of_shifts(
    logits: Logits, plan: ShiftPlan, *, joint: bool, deep: bool = False, dtype: Any = np.float64
) -> tuple[Array, Array, Array]:
    """Low, high and point (n, K) of `shift_box`; `deep` only for rows that underflow, or all.

    Many of them are kept in `dtype`.
    """
    n, K = logits.shape
    deep = deep or plan.factors is None
    kernels = None if deep or K < COMPILED_CLASSES else compiled(n * K)
    if kernels is None and (n == 1 or n * K <= BLOCK_ELEMENTS):
        z = logits.astype(np.float64)
        if not plan.centered:
            z += plan.offset
        ends: Any = plan.shifts if deep else plan.fast_ends
        if n == 1 and not deep:
            *row, others = shift_box(np, z[0], plan.absent, *ends, joint=joint, deep=False)
            if others >= DEEPEST:
                low, high, point = (part[None] for part in row)
                return low, high, point
        low, high, point, others = shift_box(np, z, plan.absent, *ends, joint=joint, deep=deep)
        if not deep and (left := np.flatnonzero(others[:, 0] < DEEPEST)).size:
            again = shift_box(np, z[left], plan.absent, *plan.shifts, joint=joint, deep=True)
            low[left], high[left], point[left], _ = again
        return low, high, point
    found = np.empty((3, n, K), dtype)
    absent = np.empty(0, np.intp) if plan.absent is None else np.flatnonzero(plan.absent)

    def block(rows: slice) -> None:
        if kernels is None:
            part = plan.of_rows(rows)
            found[:, rows] = boxes_of_shifts(logits[rows], part, joint=joint, deep=deep)
            return
        model = plan.offset, absent, plan.shifts, plan.factors, plan.steep
        z = np.ascontiguousarray(logits[rows])
        # Computed in float64, in the cache, whatever is kept.
        bounds = found[:, rows] if dtype is np.float64 else np.empty((3, *z.shape))
        left = rows.start + kernels.boxes(z, *model, joint, DEEPEST, *bounds, 0)
        if dtype is not np.float64:
            found[:, rows] = bounds
        if left.size:
            found[:, left] = boxes_of_shifts(logits[left], plan, joint=joint, deep=True)

    for_each_block(block, n, K)
    low, high, point = found
    return low, high, point
