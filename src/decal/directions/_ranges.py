"""The range of every probability while a direction moves, once for arrays, tensors and graphs.

`xp` is NumPy or PyTorch, which compute, or what stands for PyTorch in `decal.onnx`, where every
operation is written down as a node of a graph.

Searches and selections of rows that depend on the data do not compile or export. So what `_peaks`
and `bernoulli` search for in NumPy is found here, for tensors and graphs, by a fixed number of
differentiable steps for every row and class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decal._base.arrays import (
    at_most_one,
    constant,
    extreme,
    fill,
    place_of,
    put,
    row_sum,
    sigmoid,
    sum_without,
    take,
)
from decal._base.numerics import Array
from decal.directions._direction import Direction, Tensor, TensorInputs
from decal.directions._kept_classes import Leaves, kept_classes
from decal.schema import SMALLEST

LOG_SMALLEST = math.log(SMALLEST)  # the logit of a probability of 0

PEAK_INTERVALS = 32  # pieces of the interval of scales, a power of two: quintics stand for log p
SMALL_BATCH = 1 << 12  # logits whose whole grid of scales, 33 times as much, stays in cache
PEAK_STEPS = 4  # Newton steps to the maximum of a quintic: they leave at most 2e-12 in p
LARGEST_EXPONENT = 0.9  # share of the dtype's largest exponent by which a shifted logit may lead
LOCAL_STEPS = 4  # steps to the endpoint of a local interval: enough for all we tried
ENOUGH = 1e-6  # share of the largest number at which a budget is as good as infinite
SMALL_SHIFT, SMALL_SHIFT_SINGLE = 1e-2, 0.1  # below use the divergence's series: float64, float32
LINEAR_FROM = 40.0  # softplus(x) is x to all digits of float64. PyTorch takes 20: leaves 2e-9


def head_bounds(
    inputs: TensorInputs,
    center: Tensor,
    scale: Tensor | None,
    endpoints: Iterable[tuple[Direction, Tensor, Tensor]],
    kept: str | None = None,
    leaves: Leaves | None = None,
) -> tuple[Tensor, ...]:
    """As `Decalibrator.predict`: bounds (..., K), with lower and upper ends by direction.

    And, if a rule of `decisions.HEAD_RULES` is named, the classes that it keeps, (..., K) bool;
    `leaves` are those of the tree, for "node".
    """
    xp, z, absent = inputs.xp, inputs.logits, inputs.absent
    # Subtracting the largest logit changes no probability, and makes rounding depend only on
    # the differences of logits. A constant needs no gradient.
    z = z - z.masked_fill(absent, -xp.inf).amax(-1, keepdim=True).detach()
    if scale is not None:
        z = z * scale
    z = z + center.masked_fill(absent, 0.0)
    point = xp.softmax(z.masked_fill(absent, -xp.inf), -1)
    bounds, inputs = (point, point), inputs._replace(logits=z)
    for direction, lower, upper in endpoints:
        bounds = direction.widen_tensors(bounds, inputs, lower, upper)
    low, high = bounds[0], bounds[1].clamp(max=1.0)
    if kept is None:
        return low, high
    return low, high, kept_classes(xp, low, high, point, kept, leaves)


def label_bounds(
    xp: Any,
    r: Tensor,
    unknown: Tensor,
    endpoints: Iterable[tuple[Direction, Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """As `MultiLabelDecalibrator.predict`: bounds (..., L), of logits r of the reference.

    Endpoints are (L,); a label is two classes, of which its absence has the logit 0.
    """
    low = high = xp.sigmoid(r)
    for direction, lower, upper in endpoints:
        if direction.name == "local":
            sure = r == xp.inf
            two = xp.stack(
                [xp.zeros_like(r).masked_fill(sure, -xp.inf), r.masked_fill(sure, 0)], -1
            )
            none = xp.zeros_like(two, dtype=xp.bool)
            ends = local_bounds(xp, two, none, upper[..., None], direction)
            more = [end[..., 1] for end in ends]
        else:
            scaled = direction.name == "temperature"
            still = xp.isinf(r) | (r == 0) if scaled else xp.isinf(r)
            x, most = r.masked_fill(still, 1.0), math.sqrt(xp.finfo(r.dtype).max)
            steps = (t.clamp(-most, most) for t in (lower, upper))  # finite, for gradients
            more = [xp.sigmoid(xp.where(still, r, t * x if scaled else t + x)) for t in steps]
        low, high = wider(xp, low, high, xp.minimum(*more), xp.maximum(*more))
    return low.masked_fill(unknown, 0.0), high.masked_fill(unknown, 1.0)


def logs_of_probabilities(xp: Any, p: Tensor, floor: float | None) -> Tensor:
    """Logits of probabilities, as `decal.logits_from_probabilities` has them."""
    if floor is not None and floor > 0.0:
        return p.clamp(min=floor).log()
    zero = p <= 0.0
    logs = p.masked_fill(zero, 1.0).log()  # so that the gradient of a zero is 0, not NaN
    return logs.masked_fill(zero, LOG_SMALLEST if floor is None else -xp.inf)


def wider(
    xp: Any, low: Tensor, high: Tensor, more_low: Tensor, more_high: Tensor
) -> tuple[Tensor, Tensor]:
    """Bounds that hold both intervals."""
    return xp.minimum(low, more_low), xp.maximum(high, more_high)


class Factors(NamedTuple):
    """Shifts (K,), their exponentials, and the `steep` classes: these overflow, or are left out."""

    shift: Array
    factor: Array
    steep: NDArray[np.intp]


def shift_box(
    xp: Any, z: Any, absent: Any, lower: Any, upper: Any, *, joint: bool, deep: bool
) -> tuple[Any, Any, Any, Any]:
    """Low, high and point (..., K) while one class's logit is shifted between its endpoints: O(K).

    With S the sum of exponentials, moving class k by t changes S to D_k(t) = S - e_k + e_k e^t,
    its own probability to e_k e^t / D_k(t) and any other to e_j / D_k(t). All are monotone in t,
    so only the endpoints matter; and among the other classes only the one with the largest D_k
    (smallest probability of j) and the one with the smallest (largest probability of j).

    Exponentials are relative to the largest logit. What stands against it is the sum of the others
    alone (..., 1), returned last, never S - 1, which cancels. Where that sum may underflow (`deep`,
    which needs plain endpoints), the largest class is compared with the others in logarithms.

    Logits z (..., K) are at the center, -inf for masked classes, and as they are for the classes
    left out, `absent` (K,) or None, whose lower endpoint is -inf. Endpoints, lower <= 0 <= upper,
    are (K,), (..., K) or Factors. `joint` takes the range over the shifts of all classes. NumPy
    warns of overflow and of inf / inf, which have the right limits here.
    """

    def exponentials(shift: Any) -> Any:
        """(..., K) those of logits x plus a shift. No shift moves a mask."""
        fast, some = None, x
        if isinstance(shift, Factors):
            fast, steep = e * shift.factor, shift.steep
            if not steep.size:
                return fast
            some, shift = x[..., steep], shift.shift[steep]
        masked = is_masked(xp, some)
        moved = fill(some, masked, 0.0) + shift
        if xp is not np:  # a quotient of infinities would spoil gradients
            moved = moved.clamp(max=LARGEST_EXPONENT * math.log(xp.finfo(x.dtype).max))
        moved = fill(xp.exp(moved), masked, 0.0)
        if fast is None:
            return moved
        fast[..., steep] = moved
        return fast

    def when_others_move(after: Any, *, largest: bool) -> Any:
        """(..., K) e_j over the extreme of S and of D_k, `after`, of k not j; overwrites it."""
        limit = xp.maximum if largest else xp.minimum
        place = place_of(constant(after), largest=largest)
        first = limit(take(after, place), total)
        without = put(xp, after, place, -xp.inf if largest else xp.inf)
        second = limit(extreme(without, largest=largest), total)
        return put(xp, e / first, place, take(e, place) / second)

    present = fill(z, absent, -xp.inf)
    top = place_of(present, largest=True)
    x = z - constant(take(present, top))
    e = xp.exp(fill(x, absent, -xp.inf))
    others = sum_without(xp, e, top)
    total = others + take(e, top)
    rest = put(xp, total - e, top, others)
    point = e / total
    down, up = exponentials(lower), exponentials(upper)
    after_down, after_up = rest + down, rest + up
    if deep:
        after_down = put(xp, after_down, top, total)  # instead of 0, which its others may sum to
    low, high = down / after_down, up / after_up
    other_low = other_high = point
    if joint:
        other_low = when_others_move(after_up, largest=True)
        other_high = when_others_move(after_down, largest=False)
    if deep:
        margin, share = _against_others(xp, present, top)
        shifts = (take(constant(x) + shift, top) for shift in (lower, upper))  # x is 0 there
        margin_down, margin_up = (xp.where(margin == xp.inf, margin, margin + t) for t in shifts)
        low = put(xp, low, top, sigmoid(xp, margin_down))
        high = put(xp, high, top, sigmoid(xp, margin_up))
        if joint:
            other_high = xp.maximum(other_high, share * sigmoid(xp, -margin_down))
    return xp.minimum(low, other_low), at_most_one(xp.maximum(high, other_high)), point, others


def _against_others(xp: Any, z: Any, top: Any) -> tuple[Any, Any]:
    """(..., 1) log-odds of the largest class against all others, and (..., K) shares of these.

    Shares are taken from the logits of the others alone: relative to the largest, logits that are
    much smaller would round to one number. The log-odds are inf where all others are masked.
    """
    rivals = put(xp, z + 0.0, top, -xp.inf)
    second = constant(extreme(rivals, largest=True))
    alone = is_masked(xp, second)
    second = fill(second, alone, 0.0)
    e = xp.exp(rivals - second)
    total = fill(row_sum(e), alone, 1.0)
    return fill(take(z, top) - second - xp.log(total), alone, xp.inf), e / total


def is_masked(xp: Any, z: Tensor) -> Tensor:
    """Which logits are -inf: those of classes that have no probability, whatever moves."""
    return z == -xp.inf


def widened_by_scales(
    xp: Any, low: Tensor, high: Tensor, z: Tensor, absent: Tensor, first: Tensor, last: Tensor
) -> tuple[Tensor, Tensor]:
    """As `_lines.widen_along`, for z becoming s z with s from `first` to `last`."""
    absent = absent | is_masked(xp, z)
    largest = z.masked_fill(absent, -xp.inf).amax(-1, keepdim=True).detach()
    x = (z - largest).masked_fill(absent, 0.0)  # at most 0

    def softened(s: Tensor) -> Tensor:
        return xp.softmax((s * x).masked_fill(absent, -xp.inf), -1)

    ties = ((x == 0) & ~absent).to(z.dtype)
    certain = ties / ties.sum(-1, keepdim=True)
    # The branch not taken must be finite as well, or its gradient spoils that of the other.
    infinite = xp.isinf(last)
    at_last = xp.where(infinite, certain, softened(last.masked_fill(infinite, 1.0)))
    at_first = softened(first)
    low = xp.minimum(low, xp.minimum(at_first, at_last))
    high = xp.maximum(high, xp.maximum(at_first, at_last))
    return low, xp.maximum(high, _peaks(xp, x, absent, first, last))


def _peaks(xp: Any, x: Tensor, absent: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Largest probability (..., K) of every class between two scales; 0 if it is at an endpoint.

    log p_j = s x_j - A(s) with one convex function per row, A(s) = log sum_k exp(s x_k). So A and
    its first two derivatives are computed on a grid of scales, the peak of class j, where
    A' = x_j, lies between two of them, and there log p_j is taken for the quintic with these
    values. The grid is uniform in log(1 + r s), r = max |x|: transitions are about one unit wide.
    """
    # By the envelope theorem a maximum has the gradient of the function at its location: locations
    # are constants, and only values carry gradients.
    gaps = -x.detach()
    r = gaps.amax(-1, keepdim=True)
    r = r.masked_fill(r == 0, 1.0)
    # A class at distance g from the largest has its peak below W((K - 2) / e) / g < log(K) / g.
    gap = gaps.masked_fill(gaps == 0, xp.inf).amin(-1, keepdim=True)
    gap = xp.maximum(gap, xp.finfo(x.dtype).eps * r)
    stop = xp.maximum(xp.minimum(math.log(x.shape[-1]) / gap, last), first)
    c = 1 + first * r
    h = xp.log((1 + stop * r) / c) / PEAK_INTERVALS

    y, e_to_h = x / r, xp.exp(h)
    kept = (~absent).to(x.dtype)
    at_once = _fits_at_once(xp, y)
    if at_once:  # few operations, as each takes longer than its arithmetic
        steps = e_to_h.expand(*e_to_h.shape[:-1], PEAK_INTERVALS)
        c_at = xp.cumprod(xp.cat([c, steps], -1), -1)
        each = y.unsqueeze(-2)
        e = xp.exp((c_at - 1).unsqueeze(-1) * each) * kept.unsqueeze(-2)
        ey = e * each
        total, first_moment, second_moment = (sums.sum(-1) for sums in (e, ey, ey * each))
    else:
        grid = []
        for _ in range(PEAK_INTERVALS + 1):
            e = xp.exp((c - 1) * y) * kept
            ey = e * y
            grid.append((c, *(sums.sum(-1, keepdim=True) for sums in (e, ey, ey * y))))
            c = c * e_to_h  # so that neighbors differ by h, to the last digit
        c_at, total, first_moment, second_moment = (xp.cat(t, -1) for t in zip(*grid, strict=True))
    log_total, mean = xp.log(total), first_moment / total
    variance = second_moment / total - mean**2
    between = (mean[..., :1] < y) & (y <= mean[..., -1:]) & ~absent

    # The last point whose mean is below y_j: the means increase along the grid.
    if at_once:
        left = (mean[..., None, 1:-1] < y.unsqueeze(-1)).sum(-1)
    else:
        left = xp.zeros_like(y, dtype=xp.int64)
        for step in (1 << i for i in reversed(range(PEAK_INTERVALS.bit_length() - 1))):
            left = xp.where(mean.gather(-1, left + step) < y, left + step, left)

    def at(index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log p_j at a point of the grid, with derivatives in units of its step."""
        c, a, m, v = (t.gather(-1, index) for t in (c_at, log_total, mean, variance))
        slope = h * c * (y - m)
        return (c - 1) * y - a, slope, h * slope - (h * c) ** 2 * v

    f0, d0, k0 = at(left)
    f1, d1, k1 = at(left + 1)
    c3 = 10 * (f1 - f0) - 6 * d0 - 4 * d1 - (3 * k0 - k1) / 2
    c4 = -15 * (f1 - f0) + 8 * d0 + 7 * d1 + (3 * k0 - 2 * k1) / 2
    c5 = 6 * (f1 - f0) - 3 * (d0 + d1) - (k0 - k1) / 2
    t = _summit(xp, *(a.detach() for a in (d0, d1, k0, c3, c4, c5)))
    log_p = f0 + t * (d0 + t * (k0 / 2 + t * (c3 + t * (c4 + t * c5))))
    return xp.exp(log_p).masked_fill(~between, 0.0)


def _fits_at_once(xp: Any, y: Tensor) -> bool:
    """Whether a grid of these is small, outside of graphs, whose sizes may still change."""
    return not is_traced(xp) and bool(y.numel() <= SMALL_BATCH)


def is_traced(xp: Any) -> bool:
    """Whether operations are written down, to be run later: by PyTorch, or in a graph of ONNX."""
    compiler = getattr(xp, "compiler", None)
    return compiler is None or bool(compiler.is_compiling() or xp.jit.is_tracing())


def _summit(
    xp: Any, d0: Tensor, d1: Tensor, k0: Tensor, c3: Tensor, c4: Tensor, c5: Tensor
) -> Tensor:
    """Where in [0, 1] the quintic of `_peaks` is largest, if it rises at 0 and falls at 1."""
    fall = d0 - d1
    t = (d0 / fall.masked_fill(fall == 0, 1.0)).clamp(0, 1)
    s3, s4, s5, b3, b4, b5 = 3 * c3, 4 * c4, 5 * c5, 6 * c3, 12 * c4, 20 * c5
    for _ in range(PEAK_STEPS):
        slope = d0 + t * (k0 + t * (s3 + t * (s4 + t * s5)))
        bend = k0 + t * (b3 + t * (b4 + t * b5))
        t = xp.where(bend < 0, t - slope / bend, t).clamp(0, 1)
    return t


def local_bounds(
    xp: Any, z: Tensor, absent: Tensor, budget: Tensor, local: Any
) -> tuple[Tensor, Tensor]:
    """As `_local.local_box`: bounds of every probability in the ball around the prediction."""
    mix = local.mix
    masked = is_masked(xp, z)
    budget = budget.clamp(max=ENOUGH * xp.finfo(z.dtype).max)  # all differences stay finite
    m = _margins(xp, z.masked_fill(absent, -xp.inf))
    gone = m == -xp.inf
    if mix:
        floor = mix / (~masked).sum(-1, keepdim=True).to(z.dtype)
        own, others = ((1 - mix) * xp.sigmoid(x) for x in (m, -m))
        m = xp.log(own + floor) - xp.log(others + (mix - floor))
        gone = masked
    m = m.masked_fill(gone, 0.0)
    if local.by_entropy is not None:
        surprise = xp.sigmoid(m) * softplus(xp, -m)
        entropy = surprise.masked_fill(gone, 0.0).sum(-1, keepdim=True)
        budget = budget * local.factor(entropy, xp)
    up, down = _largest_log_odds(xp, xp.stack([m, -m]), budget)
    low, high = xp.sigmoid(-down), xp.sigmoid(up)
    return low.masked_fill(gone, 0.0), high.masked_fill(gone, 0.0)


def _margins(xp: Any, z: Tensor) -> Tensor:
    """As `numerics.margins`; the largest class is computed separately."""
    top = place_of(z.detach(), largest=True)
    x = z - take(z, top).detach()
    e = xp.exp(x)
    rest = put(xp, row_sum(e) - e, top, 1.0)
    return put(xp, x - xp.log(rest), top, _against_others(xp, z, top)[0])


def softplus(xp: Any, x: Tensor) -> Tensor:
    """log(1 + exp(x)), to all digits."""
    return xp.nn.functional.softplus(x, threshold=LINEAR_FROM)


def _largest_log_odds(xp: Any, m: Tensor, budget: Tensor) -> Tensor:
    """As `bernoulli.largest_log_odds`, with a fixed number of steps.

    Along the endpoint kl(q || c) is the budget, which tells its slopes in m and in the budget:
    endpoints are found from constants, and these slopes carry the gradients.
    """
    at, b = m.detach(), budget.detach()
    most = softplus(xp, -at)
    still = b <= 0
    # Less than the smallest number with all its digits is as good as nothing left.
    certain = (most - b <= xp.finfo(m.dtype).tiny) & ~still
    b = xp.where(certain | still, most / 2, b)
    infinite = xp.isinf(at)
    b = b.masked_fill(infinite, math.log(2) / 2)
    x0 = at.masked_fill(infinite, 0.0)
    most = softplus(xp, -x0)
    wanted = xp.log(b) - xp.log(most - b)
    c, d = _sigmoid(xp, x0), _sigmoid(xp, -x0)
    small = 1 / (xp.sqrt(c * d / (2 * b)) + (d - c).clamp(min=0) / 3)
    x = xp.maximum(x0 + small, wanted)
    shortest = xp.finfo(m.dtype).eps * (1 + x0.abs())
    # Further out 1 - q has lost its digits, and a step that leads there would be the last.
    furthest = -math.log(xp.finfo(m.dtype).tiny)
    for _ in range(LOCAL_STEPS):
        t = xp.maximum(x - x0, shortest)
        value, rest = _divergence(xp, x0, t)
        q, p = _sigmoid(xp, x), _sigmoid(xp, -x)
        rise, fall = t * q * p / value, t * q * p / rest
        step = (xp.log(value) - xp.log(rest) - wanted) / (rise + fall)
        bend = (1 + t * (p - q)) / t + fall - rise
        x = x - step / (1 - step * bend / 2).clamp(0.5, 2.0)
        x = xp.maximum(x.clamp(max=furthest), x0)
    q, p = _sigmoid(xp, x), _sigmoid(xp, -x)
    per_nat = (1 / (xp.maximum(x - x0, shortest) * q * p)).masked_fill(certain | still, 0.0)
    slope = xp.where(still, 1.0, (q - c) * per_nat).masked_fill(certain, 0.0)
    x = xp.where(still | infinite, at, x).masked_fill(certain & (at > -xp.inf), xp.inf)
    return x + slope * (m - at).masked_fill(infinite, 0.0) + per_nat * (budget - budget.detach())


def _divergence(xp: Any, m: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """As `bernoulli.divergence`, at x = m + t."""
    x = m + t
    rest = softplus(xp, -x) + t * _sigmoid(xp, -x)
    rare = m < 0
    sign = xp.where(rare, 1.0, -1.0).to(m.dtype)
    far = softplus(xp, sign * x) - softplus(xp, sign * m)
    step = sign * t.clamp(max=1)
    grown = xp.tanh(step / 2) * (xp.exp(step) + 1)  # exp(step) - 1 to all digits
    near = xp.log1p(_sigmoid(xp, -m.abs()) * grown)
    value = sign * t * _sigmoid(xp, sign * x) - xp.where(t < 1, near, far)
    c, d = _sigmoid(xp, m), _sigmoid(xp, -m)
    d1, skew = c * d, d - c
    d3, d4 = d1 * (1 - 6 * d1), d1 * skew * (1 - 12 * d1)
    d5 = d1 * (1 - 30 * d1 * (1 - 4 * d1))
    series = d1 / 2 + t * (d1 * skew / 3 + t * (d3 / 8 + t * (d4 / 30 + t * d5 / 144)))
    small = SMALL_SHIFT if t.dtype == xp.float64 else SMALL_SHIFT_SINGLE
    return xp.where(t < small, t * t * series, value), rest


def _sigmoid(xp: Any, x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) to all digits, also in graphs: ONNX Runtime's own has few where small."""
    if not is_traced(xp):
        return xp.sigmoid(x)
    e = xp.exp(-x.abs())
    return e.masked_fill(x >= 0.0, 1.0) / (e + 1.0)
