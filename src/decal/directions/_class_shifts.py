"""Class shifts: adding a constant to one class's logit at a time, the paper's family.

The gain g_k(t) of shifting class k by t is concave (see `_margins`), so the shifts that cost no
more than the budget form an interval. Its endpoints move the prediction of a new input furthest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import (
    Array,
    Logits,
    compiled,
    for_each_block,
    margins,
    sigmoid,
    softplus,
)
from decal.directions._bins import FAR
from decal.directions._bounded_margins import FAR_SHIFT, BoundedMargins
from decal.directions._direction import (
    WEIGHT_ROUND_OFF,
    Box,
    Direction,
    Endpoints,
    Inputs,
    LabelledLogits,
)
from decal.directions._margins import (
    LARGEST_SEVENTH_DERIVATIVE,
    LARGEST_SIXTH_DERIVATIVE,
    TANGENT_SHIFTS,
    DataSummary,
    MarginSummary,
)
from decal.directions._reference import Reference
from decal.directions._summarise import summarise_margins

if TYPE_CHECKING:
    from torch import Tensor

    from decal.directions._direction import TensorBounds, TensorInputs

MAX_NEWTON_STEPS = 100
TOLERANCE = 4 * float(np.finfo(np.float64).eps)
"""Nats per unit of weight by which an endpoint may miss its budget: nothing smaller can be seen."""

LAST_STEP = (8 * TOLERANCE) ** 0.5
"""A Newton step this short leaves less than TOLERANCE, as |g''| <= W / 4: it is the last one."""

LAST_COARSE_STEP = 2e-4
"""The last step where finer bins follow: what it leaves is then gone after one more."""

LONG_SHIFT = 1e5
"""Shifts of more nats than these are rounded by 1e-11 nats or more. What such an endpoint misses is
therefore counted relative to it."""

LARGEST_MISS = 1e-10
"""Nats per unit of weight by which no endpoint misses its budget if all went well..."""

ROUNDINGS = 16.0
"""...but for so many roundings of the terms of its gain, and of the endpoint itself."""

LARGEST_SHIFT = 1e300
"""No finite shift is larger."""

DEEPEST_LOGIT = 300.0
"""Exponentials of shifts, and of margins of the largest class, stay in linear scale up to here."""

DEEPEST = float(np.exp(-DEEPEST_LOGIT))
ClassEvidence = MarginSummary | BoundedMargins
DOWN_AND_UP = np.array([-1.0, 1.0])[:, None, None]
SIDES = np.arange(2)[:, None]


@dataclass(frozen=True)
class ClassShifts(Direction):
    """The logit of one class at a time, as published: `directions=("class",)`."""

    name = "class"
    exports = True
    takes_top_logits = True
    takes_masks = True

    def summarise(self, data: LabelledLogits) -> MarginSummary:
        """The margins of every class, in bins."""
        return summarise_margins(data)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> ClassEvidence:
        """A summary from its arrays."""
        kind = BoundedMargins if "low.keys" in arrays else MarginSummary
        return kind.from_arrays(arrays)

    def matches(self, evidence: ClassEvidence, label_weight: Array) -> bool:
        """Whether the labels of every class have the same weight."""
        found, room = evidence.label_weight, WEIGHT_ROUND_OFF * label_weight.sum()
        return found.shape == label_weight.shape and bool(
            (np.abs(found - label_weight) <= room).all()
        )

    def endpoints(self, evidence: ClassEvidence, budgets: Array, reference: Reference) -> Endpoints:
        """Plausible shifts (A, K)."""
        if isinstance(evidence, MarginSummary):
            return plausible_shifts(evidence, budgets, reference)
        low = plausible_shifts(evidence.high, budgets, reference)
        high = plausible_shifts(evidence.low, budgets, reference)
        residual, error = max(low.residual, high.residual), max(low.error, high.error)
        return Endpoints(
            np.where(low.lower < -FAR_SHIFT, -np.inf, low.lower),
            np.where(high.upper > FAR_SHIFT, np.inf, high.upper),
            *(reference.center, None, residual, error),
        )

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
        value, _ = evidence.softplus_sum(t)
        return np.asarray(evidence.open_labels * t[1:] - (value[1:] - value[0]))

    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """Widen to the range of every probability while one class's logit is shifted."""
        plan = endpoints.once(ShiftPlan.of)
        found = Box(*shift_box(inputs.logits, plan, joint=inputs.joint))
        if box is None:
            return found
        box.include(found.low, found.high)
        return box

    def widen_tensors(
        self, bounds: TensorBounds, inputs: TensorInputs, lower: Tensor, upper: Tensor
    ) -> TensorBounds:
        """As `widen`, for PyTorch tensors."""
        from decal.directions._tensors import shift_box, wider

        z, absent, joint, xp = inputs
        return wider(xp, *bounds, *shift_box(xp, z, absent, lower, upper, joint=joint))


@np.errstate(over="ignore")  # of steps along lines that hardly fall: they are cut off
def plausible_shifts(summary: MarginSummary, budgets: Array, reference: Reference) -> Endpoints:
    """The interval of shifts that lose at most the budget, for every budget and class.

    The gain is concave and 0 at t = 0, so for a budget >= 0 the interval is well defined and
    contains 0. Its endpoints are infinite where the data cannot object: below for a class without
    labels, above for a class with all of them, and on both sides for an infinite budget.

    Parameters
    ----------
    summary : MarginSummary
        The evidence, K classes. If it holds data, they polish what its wide bins give.
    budgets : (A,) or (A, K) array
        Log-likelihood that may be lost in all, each in [0, inf], in nats; for all classes the same,
        or for each its own.
    reference : Reference
        If it is the best model, t = 0 is the maximum of the likelihood over all shifts. For the
        classes that it leaves out, gains are measured from t = -inf, where they are largest, rather
        than from 0.

    Returns
    -------
    Endpoints
        (A, K) each. The error is a proved bound.
    """
    at_best = reference.is_best
    W, w, others = summary.total_weight, summary.open_labels, summary.open_others
    A, K = len(budgets), len(w)
    left_out = np.isneginf(reference.center)
    # Rows 0..A-1 of all that follows are lower endpoints, rows A..2A-1 upper ones.
    b = -np.concatenate([budgets, budgets]).reshape(2 * A, -1)
    side = np.repeat([-1.0, 1.0], A)[:, None]
    at_zero, slope_at_zero = summary.at_zero
    above, below, margin_sum = summary.hinges

    infinite = np.isneginf(b) | ((side < 0) & (w == 0)) | ((side > 0) & (others == 0))
    # At b = 0 the endpoint lies at the start on the side where the gain falls from the start.
    still = ~infinite & (b == 0) & (at_best | (side * (w - slope_at_zero) <= 0))
    solve = ~(infinite | still)

    # softplus(x) >= max(0, x) bounds the gain by two lines. Their roots lie outside the interval,
    # and from there Newton's method on a concave function never steps over the endpoint.
    limit = np.where(left_out, -margin_sum, at_zero + below)
    beyond = np.where(side < 0, b - (at_zero + above), limit - b)
    slope = np.where(side < 0, w, others)
    outside = np.divide(beyond, slope, out=np.zeros((2 * A, K)), where=solve)

    exact = None if summary.data is None else DataSummary(summary.data)
    stages = [stage for stage in (summary.coarse, summary, exact) if stage is not None]
    least = np.where((side < 0) | left_out, -LARGEST_SHIFT, 0.0)
    most = np.where((side < 0) & ~left_out, 0.0, LARGEST_SHIFT)
    t = np.where(solve, _closest_roots(summary.coarse or summary, left_out, b, outside), 0.0)
    t = np.minimum(np.maximum(t, least), most)
    for stage in stages:
        base = stage.start(left_out)
        last_step = LAST_STEP if stage is stages[-1] else LAST_COARSE_STEP
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
    hidden = np.minimum(rate * np.abs(t), 2.0) * summary.remainder
    # A shift much shorter than the margins beyond FAR changes nothing that their bins hide.
    hidden += np.where(np.abs(t) >= FAR / 2, 2 * summary.far_remainder, 0.0)
    residual = float((missed / room).max())
    error = 0.0 if exact else float((np.where(solve, hidden, 0.0) / room).max())
    start = np.where(left_out, -np.inf, 0.0)
    t = np.where(infinite, side * np.inf, np.where(still, start, t))
    return Endpoints(t[:A], t[A:], reference.center, None, residual, error)


def _bisected(
    stage: MarginSummary | DataSummary,
    w: Array,
    start: Array,
    side: Array,
    left_out: NDArray[np.bool_],
) -> tuple[Array, Array]:
    """Endpoints (2A, K) to the last bit, and by how much they miss their budget: sure, but slow.

    Newton's method goes astray where a gain is flat to the last digit, and where its line from far
    outside ends at a difference of huge numbers.

    Parameters
    ----------
    stage : MarginSummary or DataSummary
        The evidence.
    w : (K,) array
        Weight of the labels.
    start : (2A, K) array
        What is left of the budget where the sum of softplus is 0.
    side : (2A, 1) array
        -1 for lower endpoints, 1 for upper ones.
    left_out : (K,) array
        The classes whose gain is measured from t = -inf.
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
    summary: MarginSummary, left_out: NDArray[np.bool_], b: Array, outside: Array
) -> Array:
    """(2A, K) starts of Newton's method, as close to the endpoints as tangents of the gain say.

    A tangent lies above a concave function, so where it meets the budget is outside the interval.

    Parameters
    ----------
    summary : MarginSummary
        The evidence whose tangents are taken.
    left_out : (K,) array
        The classes whose gain is measured from t = -inf.
    b : (2A, 1) or (2A, K) array
        The gains sought: A times at lower endpoints, then A times at upper ones.
    outside : (2A, K) array
        Shifts outside the interval, which the roots replace where they are closer.
    """
    t = outside.copy()
    w, A = summary.open_labels, len(b) // 2
    base = summary.start(left_out)
    values, slopes = summary.tangents
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
    """What boxes of class shifts need of the endpoints, computed once for any number of inputs.

    Attributes
    ----------
    center : (K,) array
        Shifts of the reference model. -inf takes a class out of it altogether.
    offset : (K,) array
        The center, with 0 for the classes left out.
    shifts : (2, K) array
        The endpoints, -inf <= lower <= 0 <= upper <= inf, from the center. For a class whose center
        is -inf: lower is -inf, and upper is measured from the logit itself.
    factors : (2, K) array
        Exponentials of the shifts, where they neither overflow nor underflow.
    absent, steep : (K,) arrays
        The classes left out; those whose factors are not used.
    """

    center: Array
    offset: Array
    shifts: Array
    factors: Array
    absent: NDArray[np.bool_]
    steep: NDArray[np.bool_]
    some_absent: bool
    some_steep: bool
    some_offset: bool

    @classmethod
    def of(cls, endpoints: Endpoints) -> ShiftPlan:
        """Of endpoints at one alpha."""
        shifts = np.stack([endpoints.lower, endpoints.upper])
        absent = np.isneginf(endpoints.center)
        steep = absent | ~(np.abs(shifts).max(axis=0) < DEEPEST_LOGIT)
        factors = np.exp(np.where(steep, 0.0, shifts))
        offset = np.where(absent, 0.0, endpoints.center)
        some = bool(absent.any()), bool(steep.any()), bool(offset.any())
        return cls(endpoints.center, offset, shifts, factors, absent, steep, *some)


def shift_box(logits: Logits, plan: ShiftPlan, *, joint: bool) -> tuple[Array, Array, Array]:
    """The range of every probability while one class's logit is shifted between its endpoints.

    With S the sum of exponentials, moving class k by t changes S to D_k(t) = S - e_k + e_k e^t,
    its own probability to e_k e^t / D_k(t) and any other to e_j / D_k(t). All are monotone in t,
    so only the endpoints matter; and among the other classes only the one with the largest D_k
    (smallest probability of j) and the one with the smallest (largest probability of j).

    Parameters
    ----------
    logits : (n, K) array
        Finite, or -inf for masked classes.
    plan : ShiftPlan
        The endpoints, prepared.
    joint : bool
        Take the range over the shifts of all classes, not only the class's own.

    Returns
    -------
    low, high, point : (n, K) arrays
        The point is the softmax at the center. O(n K) time.
    """
    n, K = logits.shape
    low, high, point = np.empty((3, n, K))

    def in_logarithms(deep: NDArray[np.intp]) -> None:
        if deep.size:
            z = logits[deep].astype(np.float64)
            m = margins(z, plan.center).T
            low[deep], high[deep], point[deep] = log_box(
                m, *plan.shifts, absent=plan.absent, joint=joint
            )
            if joint:
                moved = _when_the_largest_moves(z + plan.center, m, plan.shifts)
                low[deep] = np.minimum(low[deep], moved[0])
                high[deep] = np.maximum(high[deep], moved[1])

    kernels = compiled(n * K)
    if kernels is None:

        def block(rows: slice) -> None:
            # Overflow to inf has the right limit; 0 / 0 occurs only in rows left to logarithms.
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                left = _linear_box(logits, plan, joint, low, high, point, rows)
            in_logarithms(left)
    else:
        model = plan.offset, np.flatnonzero(plan.absent), plan.shifts, plan.factors
        settings = np.flatnonzero(plan.steep), joint, DEEPEST

        def block(rows: slice) -> None:
            z = np.ascontiguousarray(logits[rows])
            in_logarithms(kernels.boxes(z, *model, *settings, low, high, point, rows.start))

    for_each_block(block, n, K)
    return low, high, point


def _linear_box(
    logits: Logits,
    plan: ShiftPlan,
    joint: bool,
    low: Array,
    high: Array,
    point: Array,
    rows: slice,
) -> NDArray[np.intp]:
    """Bounds and points of some rows, by exponentials; returns the rows that need logarithms."""
    z = logits[rows].astype(np.float64)
    if plan.some_offset:
        z += plan.offset
    largest = np.where(plan.absent, -np.inf, z) if plan.some_absent else z
    z -= np.maximum.reduce(largest, axis=1, keepdims=True)
    e = np.exp(z)
    if plan.some_absent:
        e[:, plan.absent] = 0.0
    each, top = np.arange(len(e)), e.argmax(axis=1)
    e[each, top] = 0.0
    others = np.add.reduce(e, axis=1)  # against the largest class: never S - 1, which cancels
    e[each, top] = 1.0
    total = (others + 1.0)[:, None]
    rest = total - e
    rest[each, top] = others
    np.divide(e, total, out=point[rows])
    moved = e * plan.factors[:, None]  # (2, n, K): down, then up
    if plan.some_steep:
        moved[:, :, plan.steep] = np.exp(_moved(z[:, plan.steep], plan.shifts[:, None, plan.steep]))
    after = rest + moved
    own_low, own_high = np.divide(moved, after, out=moved)
    if plan.some_steep:
        own_high[np.isnan(own_high)] = 1.0  # inf / inf
    other_high, other_low = point[rows], point[rows]
    if joint:
        other_high, other_low = e / _extremes_of_others(after, total)
    np.minimum(own_low, other_low, out=low[rows])
    np.minimum(np.maximum(own_high, other_high, out=own_high), 1.0, out=high[rows])
    left: NDArray[np.intp] = (others < DEEPEST).nonzero()[0] + rows.start
    return left


def _moved(x: Array, shift: Array) -> Array:
    """Logits or log-odds plus a shift. No shift, not even an infinite one, moves infinite ones."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(x), x, x + shift)


def _extremes_of_others(after: Array, unmoved: Array | float) -> Array:
    """(2, n, K): the smallest, and the largest, of `unmoved` and all D_k of the classes k not j.

    Parameters
    ----------
    after : (2, n, K) array
        The D_k after the downward, and after the upward, moves. Overwritten.
    unmoved : (n, 1) array or float
        D without a move.
    """
    after *= DOWN_AND_UP  # then both are largest values
    still = (DOWN_AND_UP * unmoved)[..., 0]
    at = SIDES, np.arange(after.shape[1]), after.argmax(axis=2)
    extremes = np.empty_like(after)
    extremes[:] = np.maximum(after[at], still)[..., None]
    after[at] = still
    extremes[at] = np.maximum.reduce(after, axis=2)
    extremes *= DOWN_AND_UP
    return extremes


def _when_the_largest_moves(z: Array, m: Array, shifts: Array) -> tuple[Array, Array]:
    """The least and the greatest probability of every other class when the largest one moves.

    The others share what it leaves, in proportions that its shift does not change. They are taken
    from the logits of the others alone: relative to the largest, logits that are much smaller
    round to the same number.

    Parameters
    ----------
    z, m : (n, K) arrays
        Logits at the center, and margins. Others than the largest are far below it.
    shifts : (2, K) array
        The endpoints.

    Returns
    -------
    low, high : (n, K) arrays
        1 and 0 for the largest class itself.
    """
    each, top = np.arange(len(z)), z.argmax(axis=1)
    others = z.copy()
    others[each, top] = -np.inf
    second = others.max(axis=1, keepdims=True)
    e = np.exp(others - np.where(np.isneginf(second), 0.0, second))
    share = e / np.maximum(e.sum(axis=1, keepdims=True), 1.0)
    down, up = (sigmoid(-_moved(m[each, top], shift[top]))[:, None] for shift in shifts)
    low, high = share * up, share * down
    low[each, top] = 1.0
    return low, high


def log_box(
    m: Array, lower: Array, upper: Array, *, absent: NDArray[np.bool_], joint: bool
) -> tuple[Array, Array, Array]:
    """The range of every probability as in `shift_box`, in logarithms: nothing underflows.

    Parameters
    ----------
    m : (n, K) array
        Margins, see `margins`; perhaps infinite.
    lower, upper : (K,) or (n, K) arrays
        Endpoints; they may differ from row to row.
    absent : (K,) array
        Classes that the reference model leaves out.
    joint : bool
        As for `shift_box`.
    """
    log_p = np.where(absent, -np.inf, -softplus(-m))
    low, high = sigmoid(_moved(m, lower)), sigmoid(_moved(m, upper))
    point = np.exp(log_p)
    if joint:
        # D_k / S, from the probabilities of all other classes and of the moved one.
        log_rest = np.where(absent, 0.0, -softplus(m))
        log_own = np.where(absent, m, log_p)
        own = np.stack([_moved(log_own, lower), _moved(log_own, upper)])
        after = np.logaddexp(log_rest, own)
        # Where a class is certain but for less than a float can tell, see the caller.
        after[:, log_rest < -DEEPEST_LOGIT] = 0.0
        log_down, log_up = _extremes_of_others(after, 0.0)
        low = np.minimum(low, np.exp(_moved(log_p, -log_up)))
        high = np.maximum(high, np.exp(_moved(log_p, -log_down)))
    return np.minimum(low, point), np.minimum(np.maximum(high, point), 1.0), point
