"""Which classes a rule keeps, from bounds: `IntervalCredalSet.decide` for tensors and graphs.

`xp` is as in `_ranges`. Operations are the same for every row, so that they compile and export.
"""

from __future__ import annotations

from typing import Any

from decal._base.arrays import extreme, place_of, row_sum, take
from decal.credal import decisions
from decal.directions._direction import Tensor

Leaves = tuple[Tensor, Tensor]
"""The classes of every node of a tree, 1 or 0: (nodes, K), and the same as (K, nodes)."""

ROUND_OFF = 8  # times the precision of a dtype: what bounds may be off by


def kept_classes(
    xp: Any, low: Tensor, high: Tensor, point: Tensor, rule: str, leaves: Leaves | None
) -> Tensor:
    """The classes (..., K) that a rule of `decisions.HEAD_RULES` keeps; none of NaN."""
    # Round-off must not drop a class that ties with the best.
    tie = max(decisions.TIE_TOLERANCE, ROUND_OFF * float(xp.finfo(low.dtype).eps))
    spare, excess = (1 - row_sum(low)).clamp(min=0.0), (row_sum(high) - 1).clamp(min=0.0)
    low, high = xp.maximum(low, high - excess), xp.minimum(high, low + spare)  # some member has it
    if rule == "ordered_majority":
        return _interval_of_majority(xp, low, high, point, tie)
    if rule == "node":
        assert leaves is not None
        return _classes_of_node(xp, low, high, leaves, tie)
    count = xp.arange(high.shape[-1], device=high.device)
    if rule == "majority":
        most_probable = (count == place_of(point, largest=True)) & (point >= 0.0)
        return (high >= 0.5 - tie) | most_probable
    least = extreme(xp.minimum(low, high), largest=True)
    if rule == "e_admissible":  # as `decisions.smallest_maximum_of_sorted`
        ascending, _ = xp.sort(high, -1)
        before = xp.cumsum(ascending, -1) - ascending
        level = (1 - before) / (high.shape[-1] - count).to(high.dtype)
        least = xp.maximum(least, extreme(level, largest=True))
    return high >= least - tie


def _interval_of_majority(xp: Any, low: Tensor, high: Tensor, point: Tensor, tie: float) -> Tensor:
    """The interval that grows from the most probable class, as `credal._ordered` has it."""
    K = high.shape[-1]
    count = xp.arange(K, device=high.device)
    start = place_of(point, largest=True)
    top = take(point, start)
    # The least probability between a class and the first one: larger ones are let in before.
    least, right, left = [top] * K, top, top
    for k in range(1, K):
        right = xp.where(start < k, xp.minimum(right, point[..., k : k + 1]), top)
        least[k] = right
    for k in reversed(range(K - 1)):
        left = xp.where(start > k, xp.minimum(left, point[..., k : k + 1]), top)
        least[k] = xp.where(start > k, left, least[k])
    reached = xp.cat(least, -1)
    turn = (count - start).abs() * K + count  # of equal ones, the nearer, then the lower
    inside: Any = 0.0
    outside: Any = 0.0
    for j in range(K):
        here = slice(j, j + 1)
        same = (reached[..., here] == reached) & (turn[..., here] < turn)
        earlier = (reached[..., here] > reached) | same
        inside = inside + xp.where(earlier, low[..., here], 0.0)
        outside = outside + xp.where(earlier, 0.0, high[..., here])
    return (xp.maximum(inside, 1 - outside) < 0.5 - tie) & (point >= 0.0)


def _classes_of_node(xp: Any, low: Tensor, high: Tensor, leaves: Leaves, tie: float) -> Tensor:
    """The classes of the last node that is sure: those that no sure node leaves out."""
    below, above = (part.to(low.dtype) for part in leaves)
    inside, outside = low @ above, high @ (1 - above)
    sure = xp.maximum(inside, 1 - outside) > 0.5 + tie
    return ((sure.to(low.dtype) @ (1 - below)) < 0.5) & (high >= 0.0)
