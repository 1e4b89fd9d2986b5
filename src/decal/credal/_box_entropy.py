"""Exact upper and lower entropy of interval credal sets, in nats.

A box is the set of distributions p with lower <= p <= upper and sum(p) = 1. The functions here
take boxes as two float64 arrays (n, K) that are checked, non-empty and reachable (tightened)
already. Each row is treated on its own: its result never depends on what else is in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decal._base.numerics import BLOCK_ELEMENTS, Array, Indices, Mask, row_blocks

MAX_NODES = 4096
"""Boxes that one row may open before its lower entropy is returned as a bracket."""

GAP_TOLERANCE = 1e-12
"""Nats. A branch is dropped once its bound comes this close to the best distribution found."""

MASS_TOLERANCE = 1e-11
"""Probability. A branch is empty once its bounds miss a total mass of one by more than this."""

NESTING_TOLERANCE = 1e-17
"""Probability. Intervals are nested only by more than this: treating a smaller overhang as none
costs at most phi(1e-17) = 4e-16 nats for each class that a branch settles."""

AT_THE_CAP = 1e-8
"""Relative to 1/K: a box that misses equal probabilities by no more has the entropy ln K, to 5e-17.
Near its maximum the entropy falls by half the square of that."""

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class LowerEntropy:
    """Lower entropy of n boxes, with its certificate."""

    value: Array  # (n,) entropy of the best distribution found: never below the lower entropy
    bound: Array  # (n,) certified, up to GAP_TOLERANCE; `value` where the search came to its end
    nodes: Indices  # (n,) boxes opened; 1 where the first relaxation settled it

    @property
    def exact(self) -> Mask:
        """(n,) bool: where `value` is the lower entropy itself."""
        return np.equal(self.bound, self.value)


def upper_entropy(lower: Array, upper: Array) -> Array:
    """Largest entropy in each box, in nats.

    The maximiser is p = clip(theta, lower, upper), with theta such that p sums to one: as level
    as the box allows. It is unique because entropy is strictly concave. Theta is a root of a
    piecewise linear increasing function, found by binary search over its 2K sorted breakpoints:
    finite, without a tolerance. O(K log K) time per row. A row that holds NaN gives NaN.
    """
    n, K = lower.shape
    entropy: Array = np.full(n, np.log(K))
    # Where equal probabilities are in the box, nothing is left to find; and round-off must not put
    # such rows in an order.
    capped = (lower <= (1 + AT_THE_CAP) / K).all(axis=1)
    capped &= (upper >= (1 - AT_THE_CAP) / K).all(axis=1)
    left = np.flatnonzero(~capped)
    for block in row_blocks(len(left), 4 * K):
        low, up = lower[left[block]], upper[left[block]]
        entropy[left[block]] = entropy_terms(np.clip(_level(low, up)[:, None], low, up)).sum(axis=1)
    return np.maximum(entropy, 0.0)


def lower_entropy(lower: Array, upper: Array, *, max_nodes: int = MAX_NODES) -> LowerEntropy:
    """Smallest entropy in each box, in nats, or a certified bracket of it.

    The sum of phi(p_k) = -p_k ln p_k is concave: its minimum is at a vertex of the box, where at
    most one p_k is off its bounds, and finding it is NP-hard in general. Branch and bound does,
    and every node of the search is itself a box:

    * *Bound.* Replace phi by its secant on [lower_k, upper_k]. What remains is a fractional
      knapsack, filled by ascending slope. Its solution is a vertex of the box, so bound and
      candidate differ only by the concavity gap of the one item j left between its bounds.
    * *Dominance.* Let lower_i >= lower_j and upper_i >= upper_j. Moving mass from j to i until
      either meets a bound gives a distribution that majorises every other split of p_i + p_j.
      So some minimiser has p_j > lower_j only if p_i = upper_i. If no interval is strictly
      nested in that of item j, or around it, this leaves one choice: the candidate is optimal.
    * *Branch.* Otherwise cut the interval of j where the relaxation stopped. Below the cut j is
      not full, so all that it dominates are empty; above, j is not empty, so all that dominate
      it are full.

    Differs from the paper in: its code runs SLSQP from one start, which stops at local minima.

    O(K log K) time per node; boxes of real classifiers need 1 to 30, whatever K is. All rows
    advance together, one level of their trees at a time, in blocks. Memory for one block, or for
    the open boxes of one row (`max_nodes` × K at worst). A row that holds NaN gives NaN.
    """
    n = len(lower)
    value, bound, nodes = np.full(n, np.inf), np.full(n, np.inf), np.zeros(n, dtype=np.intp)
    pending = [_Boxes(np.arange(n), lower, upper)]
    while pending:
        boxes = pending.pop()
        if boxes.lower.size > BLOCK_ELEMENTS and boxes.row[0] != boxes.row[-1]:
            pending.extend(boxes.halves())
            continue
        node = _relax(boxes)
        with np.errstate(invalid="ignore"):
            np.minimum.at(value, node.row, node.value)
        np.add.at(nodes, node.row, 1)
        node = node.pick(np.less(node.bound, value[node.row] - GAP_TOLERANCE))

        above, below = _dominance(node)
        nested = np.any(~(above | below) & (node.lower < node.upper), axis=1)
        node, above, below = node.pick(nested), above[nested], below[nested]

        spent = np.greater(nodes[node.row] + 2 * _repetitions(node.row), max_nodes)
        np.minimum.at(bound, node.row[spent], node.bound[spent])
        if not spent.all():
            pending.append(_branch(node.pick(~spent), above[~spent], below[~spent]))

    value = np.maximum(value, 0.0)
    return LowerEntropy(value, np.clip(bound, 0.0, value), nodes)


class _Boxes(NamedTuple):
    """Boxes still to be searched, sorted by the row of the input that they belong to."""

    row: Indices  # (m,)
    lower: Array  # (m, K)
    upper: Array  # (m, K)

    def pick(self, where: Mask | slice) -> _Boxes:
        return _Boxes(self.row[where], self.lower[where], self.upper[where])

    def halves(self) -> tuple[_Boxes, _Boxes]:
        """Two parts that share no row: the search of one never sees the other."""
        middle = self.row[len(self.row) // 2]
        first, last = np.searchsorted(self.row, [middle, middle + 1])
        cut = first or last
        return self.pick(slice(cut, None)), self.pick(slice(cut))


class _Nodes(NamedTuple):
    """Boxes and the vertices that solve their relaxations: only `item` may be off its bounds."""

    row: Indices  # (m,)
    lower: Array  # (m, K)
    upper: Array  # (m, K)
    bound: Array  # (m,) value of the relaxation
    value: Array  # (m,) entropy of the vertex
    item: Indices  # (m,)
    cut: Array  # (m,) probability of the item

    def pick(self, where: Mask) -> _Nodes:
        at = np.flatnonzero(where)
        return _Nodes(*(array[at] for array in self))  # type: ignore[arg-type]


def entropy_terms(p: Array) -> Array:
    """-p ln p, and 0 at p = 0."""
    return -p * np.log(np.maximum(p, _TINY))


def _level(lower: Array, upper: Array) -> Array:
    """The theta (n,) at which clip(theta, lower, upper) sums to one."""
    n, K = lower.shape
    rows = np.arange(n)
    points = np.sort(np.concatenate([lower, upper], axis=1), axis=1)
    first, last = np.zeros(n, dtype=np.intp), np.full(n, 2 * K - 1)
    for _ in range((2 * K - 1).bit_length()):
        middle = (first + last) // 2
        over = np.clip(points[rows, middle, None], lower, upper).sum(axis=1) > 1.0
        first, last = np.where(over, first, middle), np.where(over, middle, last)
    # Between neighbouring breakpoints the mass is linear: the same classes move with theta.
    low, high = points[rows, first], points[rows, last]
    mass = np.clip(low[:, None], lower, upper).sum(axis=1)
    moving = np.count_nonzero((lower < high[:, None]) & (upper > low[:, None]), axis=1)
    theta: Array = np.clip(low + (1.0 - mass) / np.maximum(moving, 1), low, high)
    return theta


def _relax(boxes: _Boxes) -> _Nodes:
    """Tighten each box and solve its secant relaxation, a fractional knapsack."""
    row, low, up = boxes
    # Round-off may leave a hair less than no room at all.
    spare = np.maximum(up.sum(axis=1, keepdims=True) - 1.0, 0.0)
    missing = np.maximum(1.0 - low.sum(axis=1, keepdims=True), 0.0)
    low, up = np.maximum(low, up - spare), np.minimum(up, low + missing)
    up = np.maximum(low, up)

    width = up - low
    floor = entropy_terms(low)
    gain = entropy_terms(up) - floor
    slope = np.divide(gain, width, out=np.zeros_like(width), where=width > 0.0)
    mass = 1.0 - low.sum(axis=1)
    order, filled = _cheapest(slope, width, mass)
    gained = np.cumsum(np.take_along_axis(gain, order, axis=1), axis=1)

    i = np.arange(len(row))
    last = np.minimum(np.count_nonzero(filled < mass[:, None], axis=1), order.shape[1] - 1)
    item = order[i, last]
    j = i, item
    x = np.clip(mass - (filled[i, last] - width[j]), 0.0, width[j])
    base = floor.sum(axis=1) + gained[i, last] - gain[j]
    value = base + entropy_terms(low[j] + x) - floor[j]
    return _Nodes(row, low, up, base + slope[j] * x, value, item, low[j] + x)


def _cheapest(slope: Array, width: Array, mass: Array) -> tuple[Indices, Array]:
    """Classes by ascending slope, at least as many as hold the mass, and what they hold so far."""
    K = slope.shape[1]
    if K > 256:
        # Most of a thousand classes are never filled, and sorting them takes most of the time.
        first = np.argpartition(slope, 64, axis=1)[:, :64]
        by_slope = np.argsort(np.take_along_axis(slope, first, axis=1), axis=1)
        order = np.take_along_axis(first, by_slope, axis=1)
        filled = np.cumsum(np.take_along_axis(width, order, axis=1), axis=1)
        if (filled[:, -1] >= mass).all():
            return order, filled
    order = np.argsort(slope, axis=1)
    return order, np.cumsum(np.take_along_axis(width, order, axis=1), axis=1)


def _dominance(node: _Nodes) -> tuple[Mask, Mask]:
    """Which classes dominate each node's item, and which it dominates, both (m, K)."""
    j = node.item[:, None]
    rise = node.lower - np.take_along_axis(node.lower, j, axis=1)
    excess = node.upper - np.take_along_axis(node.upper, j, axis=1)
    above = (rise >= -NESTING_TOLERANCE) & (excess >= -NESTING_TOLERANCE)
    below = (rise <= NESTING_TOLERANCE) & (excess <= NESTING_TOLERANCE)
    # Of equal intervals the first dominates.
    k = np.arange(node.lower.shape[1])
    equal = above & below
    return above & ~(equal & (k > j)), below & ~(equal & (k < j))


def _repetitions(row: Indices) -> Indices:
    """How often each entry of the sorted array `row` occurs in it."""
    offset = row - row[:1]
    return np.asarray(np.bincount(offset)[offset])


def _branch(node: _Nodes, above: Mask, below: Mask) -> _Boxes:
    """Both sides of each node's cut, with what dominance settles there; empty boxes left out."""
    j = np.arange(len(node.row)), node.item
    emptied = np.where(below, node.lower, node.upper)
    filled = np.where(above, node.upper, node.lower)
    emptied[j] = filled[j] = node.cut
    K = node.lower.shape[1]
    lower = np.stack([node.lower, filled], axis=1).reshape(-1, K)
    upper = np.stack([emptied, node.upper], axis=1).reshape(-1, K)
    feasible = (lower.sum(axis=1) <= 1.0 + MASS_TOLERANCE) & (
        upper.sum(axis=1) >= 1.0 - MASS_TOLERANCE
    )
    return _Boxes(np.repeat(node.row, 2), lower, upper).pick(feasible)
