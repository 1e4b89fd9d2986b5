"""Boxes of tensors, for `CredalHead` and ONNX: what directions do in NumPy, as one fixed graph.

Searches and selections of rows that depend on the data do not compile or export. The formulas here
are the same, with a fixed number of differentiable steps for every row and class.

`xp` is PyTorch, which computes, or what stands for it in `decal.onnx`, whose operations are written
down as nodes of a graph: the formulas are the same lines for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from decal._base.inputs import SMALLEST
from decal.directions._direction import Direction, TensorInputs

if TYPE_CHECKING:
    from torch import Tensor

LOG_SMALLEST = math.log(SMALLEST)
"""The logit of a probability of 0."""

PEAK_INTERVALS = 32
"""The number of pieces, a power of two, that the interval of scales is cut into.

On each of them log p is taken for a quintic.
"""

PEAK_STEPS = 4
"""Newton steps to the maximum of a quintic: they leave an error of at most 2e-12 in p."""

LARGEST_EXPONENT = 0.9
"""How far a shifted logit may exceed all others, as a share of the dtype's largest exponent."""


LOCAL_STEPS = 4
"""Steps to the endpoint of a local interval: enough for all we tried."""

ENOUGH = 1e-6
"""Share of the largest number at which a budget is as good as infinite."""

SMALL_SHIFT, SMALL_SHIFT_SINGLE = 1e-2, 0.1
"""Shifts below this use the series of the divergence, in float64 and with fewer digits."""

LINEAR_FROM = 40.0
"""Where softplus(x) is x to all digits of float64. PyTorch takes 20, which leaves 2e-9."""


def head_bounds(
    inputs: TensorInputs,
    center: Tensor,
    scale: Tensor | None,
    endpoints: Iterable[tuple[Direction, Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """As `Decalibrator.predict`: bounds (..., K) of the probabilities.

    Parameters
    ----------
    inputs : TensorInputs
        Logits as the network gives them, in the precision in which all is computed.
    center : (K,) tensor
        Shifts of the reference model.
    scale : () tensor or None
        Its scale; None for 1.
    endpoints : iterable
        Every direction with its lower and upper endpoints.
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
    low, high = bounds
    return low, high.clamp(max=1.0)


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


def shift_box(
    xp: Any, z: Tensor, absent: Tensor, lower: Tensor, upper: Tensor, *, joint: bool
) -> tuple[Tensor, Tensor]:
    """As `_class_shifts.shift_box`, with D_k the sum of exponentials after class k has moved.

    The class with the largest logit is computed separately. For every other class the largest one
    contributes 1 to D_k, so that D_k >= 1 and nothing underflows, in any precision. When the
    largest class itself moves, the others keep their proportions q.
    """
    present, masked = z.masked_fill(absent, -xp.inf), is_masked(xp, z)
    (largest, second), top = _two_most(present.detach())
    alone = is_masked(xp, second)
    second = second.masked_fill(alone, 0.0)
    is_top = _classes(xp, z) == top
    x = z - largest
    e = xp.exp(x.masked_fill(absent, -xp.inf))
    total = e.sum(-1, keepdim=True)
    rest = total - e
    cap = LARGEST_EXPONENT * math.log(xp.finfo(z.dtype).max)
    x = x.masked_fill(masked, 0.0)
    down, up = xp.exp(x + lower), xp.exp((x + upper).clamp(max=cap))
    down, up = down.masked_fill(masked, 0.0), up.masked_fill(masked, 0.0)
    after_down, after_up = xp.where(is_top, total, rest + down), rest + up

    # Log-odds of the largest class against the others, whose exponentials may all underflow.
    weights = xp.exp((present - second).masked_fill(is_top, -xp.inf))
    weight = weights.sum(-1, keepdim=True).masked_fill(alone, 1.0)
    margin = z.gather(-1, top) - second - xp.log(weight)
    margin_down, margin_up = (
        (margin + shift[top]).masked_fill(alone, xp.inf) for shift in (lower, upper)
    )

    own_low = xp.where(is_top, xp.sigmoid(margin_down), down / after_down)
    own_high = xp.where(is_top, xp.sigmoid(margin_up), up / after_up)
    if not joint:
        point = e / total
        return xp.minimum(own_low, point), xp.maximum(own_high, point)
    other_low = e / xp.maximum(_extreme_of_others(xp, after_up, largest=True), total)
    other_high = e / xp.minimum(_extreme_of_others(xp, after_down, largest=False), total)
    q = weights / weight
    other_high = xp.maximum(other_high, q * xp.sigmoid(-margin_down))
    return xp.minimum(own_low, other_low), xp.maximum(own_high, other_high)


def is_masked(xp: Any, z: Tensor) -> Tensor:
    """Which logits are -inf: those of classes that have no probability, whatever moves."""
    return z == -xp.inf


def _classes(xp: Any, like: Tensor) -> Tensor:
    return xp.arange(like.shape[-1], device=like.device)


def _two_most(values: Tensor, *, largest: bool = True) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The two largest (or smallest) values along the last axis, and the index of the first."""
    found, places = values.topk(2, largest=largest)
    return (found[..., :1], found[..., 1:]), places[..., :1]


def _extreme_of_others(xp: Any, after: Tensor, *, largest: bool) -> Tensor:
    """(..., K): the largest (or smallest) of all D_k of the classes k other than j."""
    (first, second), place = _two_most(after, largest=largest)
    return xp.where(_classes(xp, after) == place, second, first)


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

    # The last point whose mean is below y_j, by bisection: the means increase along the grid.
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


def _summit(
    xp: Any, d0: Tensor, d1: Tensor, k0: Tensor, c3: Tensor, c4: Tensor, c5: Tensor
) -> Tensor:
    """Where in [0, 1] the quintic of `_peaks` is largest, if it rises at 0 and falls at 1."""
    fall = d0 - d1
    t = (d0 / fall.masked_fill(fall == 0, 1.0)).clamp(0, 1)
    for _ in range(PEAK_STEPS):
        slope = d0 + t * (k0 + t * (3 * c3 + t * (4 * c4 + t * 5 * c5)))
        bend = k0 + t * (6 * c3 + t * (12 * c4 + t * 20 * c5))
        t = xp.where(bend < 0, t - slope / bend, t).clamp(0, 1)
    return t


def local_box(
    xp: Any, z: Tensor, absent: Tensor, budget: Tensor, mix: float, by_entropy: float | None
) -> tuple[Tensor, Tensor]:
    """As `_local.local_box`: bounds of every probability in the ball around the prediction."""
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
    if by_entropy is not None:
        surprise = xp.sigmoid(m) * softplus(xp, -m)
        budget = budget * (surprise.masked_fill(gone, 0.0).sum(-1, keepdim=True) + by_entropy)
    up, down = _largest_log_odds(xp, xp.stack([m, -m]), budget)
    low, high = xp.sigmoid(-down), xp.sigmoid(up)
    return low.masked_fill(gone, 0.0), high.masked_fill(gone, 0.0)


def _margins(xp: Any, z: Tensor) -> Tensor:
    """As `numerics.margins`; the largest class is computed separately."""
    (largest, second), top = _two_most(z.detach())
    is_top = _classes(xp, z) == top
    alone = is_masked(xp, second)
    second = second.masked_fill(alone, 0.0)
    e = xp.exp(z - largest)
    rest = (e.sum(-1, keepdim=True) - e).masked_fill(is_top, 1.0)
    others = xp.exp((z - second).masked_fill(is_top, -xp.inf)).sum(-1, keepdim=True)
    of_top = z.gather(-1, top) - second - xp.log(others.masked_fill(alone, 1.0))
    return xp.where(is_top, of_top.masked_fill(alone, xp.inf), z - largest - xp.log(rest))


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
    c, d = xp.sigmoid(x0), xp.sigmoid(-x0)
    small = 1 / (xp.sqrt(c * d / (2 * b)) + (d - c).clamp(min=0) / 3)
    x = xp.maximum(x0 + small, wanted)
    shortest = xp.finfo(m.dtype).eps * (1 + x0.abs())
    # Further out 1 - q has lost its digits, and a step that leads there would be the last.
    furthest = -math.log(xp.finfo(m.dtype).tiny)
    for _ in range(LOCAL_STEPS):
        t = xp.maximum(x - x0, shortest)
        value, rest = _divergence(xp, x0, t)
        q, p = xp.sigmoid(x), xp.sigmoid(-x)
        rise, fall = t * q * p / value, t * q * p / rest
        step = (xp.log(value) - xp.log(rest) - wanted) / (rise + fall)
        bend = (1 + t * (p - q)) / t + fall - rise
        x = x - step / (1 - step * bend / 2).clamp(0.5, 2.0)
        x = xp.maximum(x.clamp(max=furthest), x0)
    q, p = xp.sigmoid(x), xp.sigmoid(-x)
    per_nat = (1 / (xp.maximum(x - x0, shortest) * q * p)).masked_fill(certain | still, 0.0)
    slope = xp.where(still, 1.0, (q - c) * per_nat).masked_fill(certain, 0.0)
    x = xp.where(still | infinite, at, x).masked_fill(certain & (at > -xp.inf), xp.inf)
    return x + slope * (m - at).masked_fill(infinite, 0.0) + per_nat * (budget - budget.detach())


def _divergence(xp: Any, m: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """As `bernoulli.divergence`, at x = m + t."""
    x = m + t
    rest = softplus(xp, -x) + t * xp.sigmoid(-x)
    rare = m < 0
    sign = xp.where(rare, 1.0, -1.0).to(m.dtype)
    far = softplus(xp, sign * x) - softplus(xp, sign * m)
    step = sign * t.clamp(max=1)
    grown = xp.tanh(step / 2) * (xp.exp(step) + 1)  # exp(step) - 1 to all digits
    near = xp.log1p(xp.sigmoid(-m.abs()) * grown)
    value = sign * t * xp.sigmoid(sign * x) - xp.where(t < 1, near, far)
    c, d = xp.sigmoid(m), xp.sigmoid(-m)
    d1, skew = c * d, d - c
    d3, d4 = d1 * (1 - 6 * d1), d1 * skew * (1 - 12 * d1)
    d5 = d1 * (1 - 30 * d1 * (1 - 4 * d1))
    series = d1 / 2 + t * (d1 * skew / 3 + t * (d3 / 8 + t * (d4 / 30 + t * d5 / 144)))
    small = SMALL_SHIFT if t.dtype == xp.float64 else SMALL_SHIFT_SINGLE
    return xp.where(t < small, t * t * series, value), rest
