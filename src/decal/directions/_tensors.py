"""Boxes of PyTorch tensors, for `CredalHead`: what directions do in NumPy, as one fixed graph.

Searches and selections of rows that depend on the data do not compile or export. The formulas here
are the same, with a fixed number of differentiable steps for every row and class.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

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


def wider(low: Tensor, high: Tensor, more_low: Tensor, more_high: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds that hold both intervals."""
    return torch.minimum(low, more_low), torch.maximum(high, more_high)


def shift_box(
    z: Tensor, absent: Tensor, lower: Tensor, upper: Tensor, *, joint: bool
) -> tuple[Tensor, Tensor]:
    """As `_class_shifts.shift_box`, with D_k the sum of exponentials after class k has moved.

    The class with the largest logit is computed separately. For every other class the largest one
    contributes 1 to D_k, so that D_k >= 1 and nothing underflows, in any precision. When the
    largest class itself moves, the others keep their proportions q.
    """
    present, masked = z.masked_fill(absent, -torch.inf), is_masked(z)
    (largest, second), top = _two_most(present.detach())
    alone = is_masked(second)
    second = second.masked_fill(alone, 0.0)
    is_top = _classes(z) == top
    x = z - largest
    e = torch.exp(x.masked_fill(absent, -torch.inf))
    total = e.sum(-1, keepdim=True)
    rest = total - e
    cap = LARGEST_EXPONENT * math.log(torch.finfo(z.dtype).max)
    x = x.masked_fill(masked, 0.0)
    down, up = torch.exp(x + lower), torch.exp((x + upper).clamp(max=cap))
    down, up = down.masked_fill(masked, 0.0), up.masked_fill(masked, 0.0)
    after_down, after_up = torch.where(is_top, total, rest + down), rest + up

    # Log-odds of the largest class against the others, whose exponentials may all underflow.
    weights = torch.exp((present - second).masked_fill(is_top, -torch.inf))
    weight = weights.sum(-1, keepdim=True).masked_fill(alone, 1.0)
    margin = z.gather(-1, top) - second - torch.log(weight)
    margin_down, margin_up = (
        (margin + shift[top]).masked_fill(alone, torch.inf) for shift in (lower, upper)
    )

    own_low = torch.where(is_top, torch.sigmoid(margin_down), down / after_down)
    own_high = torch.where(is_top, torch.sigmoid(margin_up), up / after_up)
    if not joint:
        point = e / total
        return torch.minimum(own_low, point), torch.maximum(own_high, point)
    other_low = e / torch.maximum(_extreme_of_others(after_up, largest=True), total)
    other_high = e / torch.minimum(_extreme_of_others(after_down, largest=False), total)
    q = weights / weight
    other_high = torch.maximum(other_high, q * torch.sigmoid(-margin_down))
    return torch.minimum(own_low, other_low), torch.maximum(own_high, other_high)


def is_masked(z: Tensor) -> Tensor:
    """Which logits are -inf: those of classes that have no probability, whatever moves."""
    return z == -torch.inf


def _classes(like: Tensor) -> Tensor:
    return torch.arange(like.shape[-1], device=like.device)


def _two_most(values: Tensor, *, largest: bool = True) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The two largest (or smallest) values along the last axis, and the index of the first."""
    found, places = values.topk(2, largest=largest)
    return (found[..., :1], found[..., 1:]), places[..., :1]


def _extreme_of_others(after: Tensor, *, largest: bool) -> Tensor:
    """(..., K): the largest (or smallest) of all D_k of the classes k other than j."""
    (first, second), place = _two_most(after, largest=largest)
    return torch.where(_classes(after) == place, second, first)


def widened_by_scales(
    low: Tensor, high: Tensor, z: Tensor, absent: Tensor, first: Tensor, last: Tensor
) -> tuple[Tensor, Tensor]:
    """As `_lines.widen_along`, for z becoming s z with s from `first` to `last`."""
    absent = absent | is_masked(z)
    largest = z.masked_fill(absent, -torch.inf).amax(-1, keepdim=True).detach()
    x = (z - largest).masked_fill(absent, 0.0)  # at most 0

    def softened(s: Tensor) -> Tensor:
        return torch.softmax((s * x).masked_fill(absent, -torch.inf), -1)

    ties = ((x == 0) & ~absent).to(z.dtype)
    certain = ties / ties.sum(-1, keepdim=True)
    # The branch not taken must be finite as well, or its gradient spoils that of the other.
    infinite = torch.isinf(last)
    at_last = torch.where(infinite, certain, softened(last.masked_fill(infinite, 1.0)))
    at_first = softened(first)
    low = torch.minimum(low, torch.minimum(at_first, at_last))
    high = torch.maximum(high, torch.maximum(at_first, at_last))
    return low, torch.maximum(high, _peaks(x, absent, first, last))


def _peaks(x: Tensor, absent: Tensor, first: Tensor, last: Tensor) -> Tensor:
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
    gap = gaps.masked_fill(gaps == 0, torch.inf).amin(-1, keepdim=True)
    gap = torch.maximum(gap, torch.finfo(x.dtype).eps * r)
    stop = torch.maximum(torch.minimum(math.log(x.shape[-1]) / gap, last), first)
    c = 1 + first * r
    h = torch.log((1 + stop * r) / c) / PEAK_INTERVALS

    y, e_to_h = x / r, torch.exp(h)
    kept = (~absent).to(x.dtype)
    grid = []
    for _ in range(PEAK_INTERVALS + 1):
        e = torch.exp((c - 1) * y) * kept
        ey = e * y
        grid.append((c, *(sums.sum(-1, keepdim=True) for sums in (e, ey, ey * y))))
        c = c * e_to_h  # so that neighbors differ by h, to the last digit
    c_at, total, first_moment, second_moment = (torch.cat(t, -1) for t in zip(*grid, strict=True))
    log_total, mean = torch.log(total), first_moment / total
    variance = second_moment / total - mean**2
    between = (mean[..., :1] < y) & (y <= mean[..., -1:]) & ~absent

    # The last point whose mean is below y_j, by bisection: the means increase along the grid.
    left = torch.zeros_like(y, dtype=torch.int64)
    for step in (1 << i for i in reversed(range(PEAK_INTERVALS.bit_length() - 1))):
        left = torch.where(mean.gather(-1, left + step) < y, left + step, left)

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
    t = _summit(*(a.detach() for a in (d0, d1, k0, c3, c4, c5)))
    log_p = f0 + t * (d0 + t * (k0 / 2 + t * (c3 + t * (c4 + t * c5))))
    return torch.exp(log_p).masked_fill(~between, 0.0)


def _summit(d0: Tensor, d1: Tensor, k0: Tensor, c3: Tensor, c4: Tensor, c5: Tensor) -> Tensor:
    """Where in [0, 1] the quintic of `_peaks` is largest, if it rises at 0 and falls at 1."""
    fall = d0 - d1
    t = (d0 / fall.masked_fill(fall == 0, 1.0)).clamp(0, 1)
    for _ in range(PEAK_STEPS):
        slope = d0 + t * (k0 + t * (3 * c3 + t * (4 * c4 + t * 5 * c5)))
        bend = k0 + t * (6 * c3 + t * (12 * c4 + t * 20 * c5))
        t = torch.where(bend < 0, t - slope / bend, t).clamp(0, 1)
    return t


def local_box(
    z: Tensor, absent: Tensor, budget: Tensor, mix: float, by_entropy: float | None
) -> tuple[Tensor, Tensor]:
    """As `_local.local_box`: bounds of every probability in the ball around the prediction."""
    masked = is_masked(z)
    budget = budget.clamp(max=ENOUGH * torch.finfo(z.dtype).max)  # all differences stay finite
    m = _margins(z.masked_fill(absent, -torch.inf))
    gone = m == -torch.inf
    if mix:
        floor = mix / (~masked).sum(-1, keepdim=True).to(z.dtype)
        own, others = ((1 - mix) * torch.sigmoid(x) for x in (m, -m))
        m = torch.log(own + floor) - torch.log(others + (mix - floor))
        gone = masked
    m = m.masked_fill(gone, 0.0)
    if by_entropy is not None:
        surprise = torch.sigmoid(m) * softplus(-m)
        budget = budget * (surprise.masked_fill(gone, 0.0).sum(-1, keepdim=True) + by_entropy)
    up, down = _largest_log_odds(torch.stack([m, -m]), budget)
    low, high = torch.sigmoid(-down), torch.sigmoid(up)
    return low.masked_fill(gone, 0.0), high.masked_fill(gone, 0.0)


def _margins(z: Tensor) -> Tensor:
    """As `numerics.margins`; the largest class is computed separately."""
    (largest, second), top = _two_most(z.detach())
    is_top = _classes(z) == top
    alone = is_masked(second)
    second = second.masked_fill(alone, 0.0)
    e = torch.exp(z - largest)
    rest = (e.sum(-1, keepdim=True) - e).masked_fill(is_top, 1.0)
    others = torch.exp((z - second).masked_fill(is_top, -torch.inf)).sum(-1, keepdim=True)
    of_top = z.gather(-1, top) - second - torch.log(others.masked_fill(alone, 1.0))
    return torch.where(is_top, of_top.masked_fill(alone, torch.inf), z - largest - torch.log(rest))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), to all digits."""
    return functional.softplus(x, threshold=LINEAR_FROM)


def _largest_log_odds(m: Tensor, budget: Tensor) -> Tensor:
    """As `bernoulli.largest_log_odds`, with a fixed number of steps.

    Along the endpoint kl(q || c) is the budget, which tells its slopes in m and in the budget:
    endpoints are found from constants, and these slopes carry the gradients.
    """
    at, b = m.detach(), budget.detach()
    most = softplus(-at)
    still = b <= 0
    # Less than the smallest number with all its digits is as good as nothing left.
    certain = (most - b <= torch.finfo(m.dtype).tiny) & ~still
    b = torch.where(certain | still, most / 2, b)
    infinite = torch.isinf(at)
    b = b.masked_fill(infinite, math.log(2) / 2)
    x0 = at.masked_fill(infinite, 0.0)
    most = softplus(-x0)
    wanted = torch.log(b) - torch.log(most - b)
    c, d = torch.sigmoid(x0), torch.sigmoid(-x0)
    small = 1 / (torch.sqrt(c * d / (2 * b)) + (d - c).clamp(min=0) / 3)
    x = torch.maximum(x0 + small, wanted)
    shortest = torch.finfo(m.dtype).eps * (1 + x0.abs())
    # Further out 1 - q has lost its digits, and a step that leads there would be the last.
    furthest = -math.log(torch.finfo(m.dtype).tiny)
    for _ in range(LOCAL_STEPS):
        t = torch.maximum(x - x0, shortest)
        value, rest = _divergence(x0, t)
        q, p = torch.sigmoid(x), torch.sigmoid(-x)
        rise, fall = t * q * p / value, t * q * p / rest
        step = (torch.log(value) - torch.log(rest) - wanted) / (rise + fall)
        bend = (1 + t * (p - q)) / t + fall - rise
        x = x - step / (1 - step * bend / 2).clamp(0.5, 2.0)
        x = torch.maximum(x.clamp(max=furthest), x0)
    q, p = torch.sigmoid(x), torch.sigmoid(-x)
    per_nat = (1 / (torch.maximum(x - x0, shortest) * q * p)).masked_fill(certain | still, 0.0)
    slope = torch.where(still, 1.0, (q - c) * per_nat).masked_fill(certain, 0.0)
    x = torch.where(still | infinite, at, x).masked_fill(certain & (at > -torch.inf), torch.inf)
    return x + slope * (m - at).masked_fill(infinite, 0.0) + per_nat * (budget - budget.detach())


def _divergence(m: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """As `bernoulli.divergence`, at x = m + t."""
    x = m + t
    rest = softplus(-x) + t * torch.sigmoid(-x)
    rare = m < 0
    sign = torch.where(rare, 1.0, -1.0).to(m.dtype)
    far = softplus(sign * x) - softplus(sign * m)
    near = torch.log1p(torch.sigmoid(-m.abs()) * torch.expm1(sign * t.clamp(max=1)))
    value = sign * t * torch.sigmoid(sign * x) - torch.where(t < 1, near, far)
    c, d = torch.sigmoid(m), torch.sigmoid(-m)
    d1, skew = c * d, d - c
    d3, d4 = d1 * (1 - 6 * d1), d1 * skew * (1 - 12 * d1)
    d5 = d1 * (1 - 30 * d1 * (1 - 4 * d1))
    series = d1 / 2 + t * (d1 * skew / 3 + t * (d3 / 8 + t * (d4 / 30 + t * d5 / 144)))
    small = SMALL_SHIFT if t.dtype == torch.float64 else SMALL_SHIFT_SINGLE
    return torch.where(t < small, t * t * series, value), rest
