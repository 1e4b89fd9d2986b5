"""Class shifts: adding a constant to one class's logit at a time, the paper's family.

The gain g_k(t) of shifting class k by t is concave (see `_margins`), so the shifts that cost no
more than the budget form an interval. Its endpoints move the prediction of a new input furthest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from decal.directions._direction import (
    Box,
    Direction,
    Endpoints,
    Inputs,
    LabelledLogits,
    Reference,
)
from decal.directions._margins import (
    LARGEST_SIXTH_DERIVATIVE,
    MarginSummary,
    exact_softplus_sum,
    summarise_margins,
)

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_SEVENTH_DERIVATIVE = 0.4084
"""Maximum of |d^7 softplus|: it bounds how fast that remainder changes with the shift."""

MAX_NEWTON_STEPS = 100
TOLERANCE = 4 * float(np.finfo(np.float64).eps)
"""Nats per unit of weight by which an endpoint may miss its budget: nothing smaller can be seen."""

LAST_STEP = (8 * TOLERANCE) ** 0.5
"""A Newton step this short leaves less than TOLERANCE, as |g''| <= W / 4: it is the last one."""

DEEPEST_LOGIT = 300.0
"""Exponentials of shifts, and of margins of the largest class, stay in linear scale up to here."""

SoftplusSum = Callable[[Array], tuple[Array, Array]]
"""Shifts (T, K) to the sum of w softplus(m + t) over the data and its derivative, (T, K) each."""


@dataclass(frozen=True)
class ClassShifts(Direction):
    """The logit of one class at a time, as published: `directions=("class",)`."""

    name = "class"
    exports = True
    takes_top_logits = True

    def summarise(self, data: LabelledLogits) -> MarginSummary:
        """The margins of every class, in bins."""
        return summarise_margins(data)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> MarginSummary:
        """A summary from its arrays."""
        return MarginSummary.from_arrays(arrays)

    def endpoints(self, evidence: MarginSummary, budgets: Array, reference: Reference) -> Endpoints:
        """Plausible shifts (A, K)."""
        return plausible_shifts(evidence, budgets, reference)

    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """Widen to the range of every probability while one class's logit is shifted."""
        shifts = endpoints.lower, endpoints.upper
        found = Box(*shift_box(inputs.logits, inputs.center, *shifts, joint=inputs.joint))
        if box is None:
            return found
        box.include(found.low, found.high)
        return box

    def widen_tensors(
        self,
        low: Tensor,
        high: Tensor,
        logits: Tensor,
        absent: Tensor,
        *,
        lower: Tensor,
        upper: Tensor,
        joint: bool,
    ) -> tuple[Tensor, Tensor]:
        """As `widen`, for PyTorch tensors."""
        from decal.directions._tensors import shift_box, wider

        return wider(low, high, *shift_box(logits, absent, lower, upper, joint=joint))


def plausible_shifts(summary: MarginSummary, budgets: Array, reference: Reference) -> Endpoints:
    """The interval of shifts that lose at most the budget, for every budget and class.

    The gain is concave and 0 at t = 0, so for a budget >= 0 the interval is well defined and
    contains 0. Its endpoints are infinite where the data cannot object: below for a class without
    labels, above for a class with all of them, and on both sides for an infinite budget.

    Parameters
    ----------
    summary : MarginSummary
        The evidence, K classes. If it holds data, they polish what its wide bins give.
    budgets : (A,) array
        Log-likelihood that may be lost in all, each in [0, inf], in nats.
    reference : Reference
        If it is the best model, t = 0 is the maximum of the likelihood over all shifts, at which
        classes without labels are left out: their gain is measured from t = -inf, where it is
        largest, rather than from 0.

    Returns
    -------
    Endpoints
        (A, K) each. The error is a proved bound.
    """
    at_best, data = reference.is_best, summary.data
    exact = None if data is None else partial(exact_softplus_sum, data)
    W, w = summary.total_weight, summary.label_weight
    A, K = len(budgets), len(w)
    left_out = (w == 0) & at_best
    # Rows 0..A-1 of all that follows are lower endpoints, rows A..2A-1 upper ones.
    b = -np.concatenate([budgets, budgets])[:, None]
    side = np.repeat([-1.0, 1.0], A)[:, None]
    at_zero, slope_at_zero = summary.at_zero

    infinite = np.isneginf(b) | ((side < 0) & (w == 0)) | ((side > 0) & (w == W))
    # At b = 0 the endpoint lies at the start on the side where the gain falls from the start.
    still = ~infinite & (b == 0) & (at_best | (side * (w - slope_at_zero) <= 0))
    solve = ~(infinite | still)

    # softplus(x) >= max(0, x) bounds the gain by two lines. Their roots lie outside the interval,
    # and from there Newton's method on a concave function never steps over the endpoint.
    base = np.where(left_out, 0.0, at_zero)
    beyond = np.where(side < 0, b - base, base - b - summary.margin_sum)
    outside = np.divide(beyond, np.where(side < 0, w, W - w), out=np.zeros((2 * A, K)), where=solve)

    stages: list[SoftplusSum] = [summary.softplus_sum]
    if summary.coarse is not None:
        stages.insert(0, summary.coarse.softplus_sum)
    if exact is not None:
        stages.append(exact)
    t = outside.copy()
    for softplus_sum in stages:
        if softplus_sum is exact:
            base = np.where(left_out, 0.0, exact(np.zeros((1, K)))[0])
        rows, missed = np.arange(2 * A), np.zeros_like(t)
        for _ in range(MAX_NEWTON_STEPS):
            here, which = t[rows], solve[rows]
            value, slope = softplus_sum(here)
            lift = w * here
            left = np.where(which, lift - value + base - b[rows], 0.0)
            # The terms of the gain may be large and cancel: what they leave is round-off.
            off = np.abs(left) > TOLERANCE * (W + np.abs(lift) + value)
            rise = w - slope
            off &= rise != 0
            step = np.divide(left, rise, out=np.zeros_like(left), where=off)
            # A coarser stage may have ended beyond the maximum of a finer one: start over there.
            astray = off & (side[rows] * rise >= 0)
            if astray.any():
                step = np.where(astray, here - outside[rows], step)
            t[rows] = here = here - step
            size, short = np.abs(step), np.abs(left)
            missed[rows] = np.where(off, np.minimum(W / 8 * size**2, short), short)
            rows = rows[(size > LAST_STEP + TOLERANCE * np.abs(here)).any(axis=1)]
            if not rows.size:
                break
    # Both softplus sums of a gain carry a remainder; they cancel as t goes to 0.
    rate = LARGEST_SEVENTH_DERIVATIVE / LARGEST_SIXTH_DERIVATIVE
    hidden = np.minimum(rate * np.abs(t), 2.0) * summary.remainder
    error = 0.0 if exact else float(hidden.max()) / W
    start = np.where(left_out, -np.inf, 0.0)
    t = np.where(infinite, side * np.inf, np.where(still, start, t))
    residual = float(missed.max()) / W
    return Endpoints(t[:A], t[A:], reference.center, None, residual, error)


def shift_box(
    logits: Logits, center: Array, lower: Array, upper: Array, *, joint: bool
) -> tuple[Array, Array, Array]:
    """The range of every probability while one class's logit is shifted between its endpoints.

    With S the sum of exponentials, moving class k by t changes S to D_k(t) = S - e_k + e_k e^t,
    its own probability to e_k e^t / D_k(t) and any other to e_j / D_k(t). All are monotone in t,
    so only the endpoints matter; and among the other classes only the one with the largest D_k
    (smallest probability of j) and the one with the smallest (largest probability of j).

    Parameters
    ----------
    logits : (n, K) finite.
    center : (K,) shifts of the reference model. -inf takes a class out of it altogether.
    lower, upper : (K,) endpoints, -inf <= lower <= 0 <= upper <= inf, from the center. For a class
        whose center is -inf: lower is -inf, and upper is measured from the logit itself.
    joint : take the range over the shifts of all classes, not only the class's own.

    Returns
    -------
    low, high, point : (n, K); point is the softmax at the center. O(n K) time.
    """
    n, K = logits.shape
    low, high, point = (np.empty((n, K)) for _ in range(3))
    absent = np.isneginf(center)
    offset = np.where(absent, 0.0, center)
    # A product e * exp(t) is cheaper than exp(z + t), but only where neither factor overflows.
    steep = absent | ~(np.maximum(-lower, upper) < DEEPEST_LOGIT)
    factors = np.exp(np.where(steep, 0.0, np.stack([lower, upper])))
    deepest = np.exp(-DEEPEST_LOGIT)

    def log_block(deep: NDArray[np.intp]) -> None:
        if deep.size:
            m = margins(logits[deep], center).T
            found = log_box(m, lower, upper, absent=absent, joint=joint)
            low[deep], high[deep], point[deep] = found

    kernels = compiled(n * K)
    if kernels is not None:
        model = offset, np.flatnonzero(absent), np.stack([lower, upper]), factors
        settings = np.flatnonzero(steep), joint, deepest

        def compiled_block(rows: slice) -> None:
            z = np.ascontiguousarray(logits[rows])
            log_block(kernels.boxes(z, *model, *settings, low, high, point, rows.start))

        for_each_block(compiled_block, n, K)
        return low, high, point

    def block(rows: slice) -> None:
        z = logits[rows] + offset
        largest = np.where(absent, -np.inf, z) if absent.any() else z
        z -= largest.max(axis=1, keepdims=True)
        e = np.exp(z)
        if absent.any():
            e[:, absent] = 0.0
        each, top = np.arange(len(e)), e.argmax(axis=1)
        e[each, top] = 0.0
        others = e.sum(axis=1)  # against the largest class: never S - 1, which cancels
        e[each, top] = 1.0
        total = others + 1.0
        rest = total[:, None] - e
        rest[each, top] = others
        down, up = e * factors[0], e * factors[1]
        if steep.any():
            down[:, steep] = np.exp(z[:, steep] + lower[steep])
            up[:, steep] = np.exp(z[:, steep] + upper[steep])
        after_down, after_up = rest + down, np.add(rest, up, out=rest)
        np.divide(e, total[:, None], out=point[rows])
        own_low = np.divide(down, after_down, out=down)
        own_high = np.divide(up, after_up, out=up)
        if steep.any():
            own_high[np.isnan(own_high)] = 1.0  # inf / inf
        if joint:
            other_low = e / _extreme_of_others(after_up, total, largest=True)
            other_high = e / _extreme_of_others(after_down, total, largest=False)
        else:
            other_low = other_high = point[rows]
        np.minimum(own_low, other_low, out=low[rows])
        np.minimum(np.maximum(own_high, other_high, out=own_high), 1.0, out=high[rows])
        log_block(rows.start + np.flatnonzero(others < deepest))

    def quiet_block(rows: slice) -> None:
        # Overflow to inf has the right limit; 0 / 0 occurs in deep rows only, which are replaced.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            block(rows)

    for_each_block(quiet_block, n, K)
    return low, high, point


def _extreme_of_others(after: Array, unmoved: Array, *, largest: bool) -> Array:
    """(n, K): the largest (or smallest) of `unmoved` and all D_k of the classes k other than j.

    Overwrites `after`, the (n, K) array of the D_k.
    """
    each, most = np.arange(len(after)), np.maximum if largest else np.minimum
    first = after.argmax(axis=1) if largest else after.argmin(axis=1)
    extreme = np.empty_like(after)
    extreme[:] = most(after[each, first], unmoved)[:, None]
    after[each, first] = unmoved
    extreme[each, first] = most.reduce(after, axis=1)
    return extreme


def log_box(
    m: Array, lower: Array, upper: Array, *, absent: NDArray[np.bool_], joint: bool
) -> tuple[Array, Array, Array]:
    """shift_box in logarithms, from margins m (n, K): nothing underflows.

    Parameters
    ----------
    m : (n, K), see `margins`.
    lower, upper : (K,) endpoints, or (n, K) where they differ from row to row.
    absent : (K,) classes that the reference model leaves out.
    joint : as for `shift_box`.
    """
    log_p = np.where(absent, -np.inf, -softplus(-m))
    low, high, point = sigmoid(m + lower), sigmoid(m + upper), np.exp(log_p)
    if joint:
        # D_k / S, from the probabilities of all other classes and of the moved one.
        log_rest = np.where(absent, 0.0, -softplus(m))
        log_own = np.where(absent, m, log_p)
        log_up = np.logaddexp(log_rest, log_own + upper)
        log_down = np.logaddexp(log_rest, log_own + lower)
        unmoved = np.zeros(len(m))
        log_up = _extreme_of_others(log_up, unmoved, largest=True)
        log_down = _extreme_of_others(log_down, unmoved, largest=False)
        low = np.minimum(low, np.exp(log_p - log_up))
        high = np.maximum(high, np.exp(log_p - log_down))
    return np.minimum(low, point), np.minimum(np.maximum(high, point), 1.0), point
