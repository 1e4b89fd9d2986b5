"""Exact upper and lower entropy of interval credal sets, in nats.

A box is the set of distributions p with lower <= p <= upper and sum(p) = 1. The functions here
take boxes as two float64 arrays (n, K) that are checked, non-empty and reachable (tightened)
already. Each row is treated on its own: its result never depends on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decal._base.numerics import BLOCK_ELEMENTS, Array, Indices, Mask, row_blocks, row_sums

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

SETTLED = 2e-15
"""Probability. A level is found once its distribution sums to one within this: round-off."""

NEWTON_STEPS = 6
LEADERS = 32  # classes of the greatest upper bounds, which dominate most of the others
WIDER = 4 * LEADERS

_TINY, _HUGE = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)


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
    piecewise linear increasing function: of many classes Newton's method mostly lands on it after a
    few pieces, and a binary search over its 2K sorted breakpoints ends always. O(K log K) time per
    row. A row that holds NaN gives NaN.
    """
    n, K = lower.shape
    entropy: Array = np.full(n, np.log(K))
    # Where equal probabilities are in the box, nothing is left to find; and round-off must not put
    # such rows in an order.
    unequal = ~((lower <= (1 + AT_THE_CAP) / K) & (upper >= (1 - AT_THE_CAP) / K))
    left = np.flatnonzero(unequal.any(axis=1))
    for block in row_blocks(len(left), 2 * K):
        low, up = lower[left[block]], upper[left[block]]
        level = _level(low, up)[:, None]
        entropy[left[block]] = row_sums(entropy_terms(np.clip(level, low, up)))
    return np.maximum(entropy, 0.0)


Terms = Callable[[Array], Array]
"""phi(p), term by term: concave, so that sums of it grow as distributions become more level."""


def lower_entropy(
    lower: Array, upper: Array, *, max_nodes: int = MAX_NODES, terms: Terms | None = None
) -> LowerEntropy:
    """Smallest entropy in each box, in nats, or a certified bracket of it.

    The sum of phi(p_k) = -p_k ln p_k, or of other `terms`, is concave: its minimum is at a vertex
    of the box, where at most one p_k is off its bounds, and finding it is NP-hard in general.
    Branch and bound does, and every node of the search is itself a box:

    * *Bound.* Replace phi by its secant on [lower_k, upper_k]. What remains is a fractional
      knapsack, filled by ascending slope. Its solution is a vertex of the box, so bound and
      candidate differ only by the concavity gap of the one item j left between its bounds.
    * *Dominance.* Let lower_i >= lower_j and upper_i >= upper_j. Moving mass from j to i until
      either meets a bound gives a distribution that majorises every other split of p_i + p_j.
      So some minimiser has p_j > lower_j only if p_i = upper_i. If no interval is strictly
      nested in that of item j, or around it, this leaves one choice: the candidate is optimal.
    * *Reduction.* If classes that dominate k can hold all mass, k stays empty. So of a thousand
      classes few are left, and the search sees only those.
    * *Branch.* Otherwise cut the interval of j where the relaxation stopped. Below the cut j is
      not full, so all that it dominates are empty; above, j is not empty, so all that dominate
      it are full.

    Differs from the paper in: its code runs SLSQP from one start, which stops at local minima.

    O(K log K) time per node; boxes of real classifiers need 1 to 30, whatever K is. All rows
    advance together, one level of their trees at a time, in blocks. Memory for one block, or for
    the open boxes of one row (`max_nodes` × K at worst). A row that holds NaN gives NaN.
    """
    n, terms = len(lower), terms or entropy_terms
    value, bound, nodes = np.full(n, np.inf), np.full(n, np.inf), np.zeros(n, dtype=np.intp)
    boxes = _Boxes(np.arange(n), lower, upper, np.ones(n), np.zeros(n))
    for block in row_blocks(n, lower.shape[1]):
        pending = [few for few in _reduced(boxes.pick(block), terms) if len(few.row)]
        while pending:
            _advance(pending, value, bound, nodes, max_nodes, terms)
    value = np.maximum(value, 0.0)
    return LowerEntropy(value, np.clip(bound, 0.0, value), nodes)


def _advance(
    pending: list[_Boxes],
    value: Array,
    bound: Array,
    nodes: Indices,
    max_nodes: int,
    terms: Terms,
) -> None:
    """Search the last of the pending boxes, and put in its place what must be opened."""
    boxes = pending.pop()
    if boxes.lower.size > BLOCK_ELEMENTS and boxes.row[0] != boxes.row[-1]:
        pending.extend(boxes.halves())
        return
    node = _relax(boxes, terms)
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


class _Boxes(NamedTuple):
    """Boxes still to be searched, sorted by the row of the input that they belong to."""

    row: Indices  # (m,)
    lower: Array  # (m, C) of the classes that are left
    upper: Array  # (m, C)
    total: Array  # (m,) what their probabilities sum to
    settled: Array  # (m,) entropy of the classes that stay at their lower bounds

    def pick(self, where: Mask | slice) -> _Boxes:
        return _Boxes(*(array[where] for array in self))  # type: ignore[arg-type]

    def halves(self) -> tuple[_Boxes, _Boxes]:
        """Two parts that share no row: the search of one never sees the other."""
        middle = self.row[len(self.row) // 2]
        first, last = np.searchsorted(self.row, [middle, middle + 1])
        cut = first or last
        return self.pick(slice(cut, None)), self.pick(slice(cut))


class _Nodes(NamedTuple):
    """Boxes and the vertices that solve their relaxations: only `item` may be off its bounds."""

    row: Indices  # (m,)
    lower: Array  # (m, C)
    upper: Array  # (m, C)
    total: Array  # (m,)
    settled: Array  # (m,)
    bound: Array  # (m,) value of the relaxation
    value: Array  # (m,) entropy of the vertex
    item: Indices  # (m,)
    cut: Array  # (m,) probability of the item

    def pick(self, where: Mask) -> _Nodes:
        at = np.flatnonzero(where)
        return _Nodes(*(array[at] for array in self))  # type: ignore[arg-type]


def disagreement_range(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Least and greatest probability (n,) in each box that two draws differ: 1 - sum p_k^2.

    The least is found as `lower_entropy` is, of phi(p) = p (1 - p), and where that search does not
    come to its end, it is the bound; the greatest is that of the level distribution.
    """
    least = lower_entropy(lower, upper, terms=disagreement_terms).bound
    level = np.clip(_level(lower, upper)[:, None], lower, upper)
    return least, row_sums(disagreement_terms(level))


def disagreement_terms(p: Array) -> Array:
    """The products p (1 - p)."""
    return p * (1.0 - p)


def entropy_terms(p: Array) -> Array:
    """-p ln p, and 0 at p = 0."""
    return -p * np.log(np.maximum(p, _TINY))


def _level(lower: Array, upper: Array) -> Array:
    """The theta (n,) at which clip(theta, lower, upper) sums to one."""
    n, K = lower.shape
    theta: Array = np.full(n, 1.0 / K)
    left: Indices = np.arange(n)
    for _ in range(NEWTON_STEPS if K > WIDER else 0):
        at = theta[left, None]
        p = np.clip(at, lower, upper)
        missing = 1.0 - p.sum(axis=1)
        unsettled = ~(np.abs(missing) <= SETTLED)
        if not unsettled.any():
            return theta
        moving = np.count_nonzero(p == at, axis=1)
        theta[left] += np.where(unsettled, missing / np.maximum(moving, 1), 0.0)
        if 2 * np.count_nonzero(unsettled) < len(left):
            left, lower, upper = left[unsettled], lower[unsettled], upper[unsettled]
    theta[left] = _level_between_breakpoints(lower, upper)
    return theta


def _level_between_breakpoints(lower: Array, upper: Array) -> Array:
    """As `_level`, in a number of steps that depends on K alone."""
    n, K = lower.shape
    rows = np.arange(n)
    points = np.sort(np.concatenate([lower, upper], axis=1), axis=1)
    first, last = np.zeros(n, dtype=np.intp), np.full(n, 2 * K - 1)
    for _ in range((2 * K - 1).bit_length()):
        middle = (first + last) // 2
        over = row_sums(np.clip(points[rows, middle, None], lower, upper)) > 1.0
        first, last = np.where(over, first, middle), np.where(over, middle, last)
    # Between neighbouring breakpoints the mass is linear: the same classes move with theta.
    low, high = points[rows, first], points[rows, last]
    mass = row_sums(np.clip(low[:, None], lower, upper))
    moving = np.count_nonzero((lower < high[:, None]) & (upper > low[:, None]), axis=1)
    theta: Array = np.clip(low + (1.0 - mass) / np.maximum(moving, 1), low, high)
    return theta


def _reduced(boxes: _Boxes, phi: Terms) -> Iterator[_Boxes]:
    """The same boxes without most of the classes that stay at their lower bounds."""
    row, low, up, total, settled = boxes
    m, K = low.shape
    if K <= WIDER:
        yield boxes
        return
    mass = np.maximum(total - row_sums(low), 0.0)
    # Leaders have the greatest upper bounds: they dominate all others with smaller lower bounds.
    # So others stay empty if the leaders above them can hold all mass.
    leaders = np.argpartition(up, K - LEADERS, axis=1)[:, K - LEADERS :]
    low_leaders = np.take_along_axis(low, leaders, axis=1)
    width = np.take_along_axis(up, leaders, axis=1) - low_leaders
    order = np.argsort(-low_leaders, axis=1)
    filled = np.cumsum(np.take_along_axis(width, order, axis=1), axis=1)
    last = np.count_nonzero(filled < mass[:, None], axis=1)
    enough = np.take_along_axis(low_leaders, order, axis=1)
    enough = np.column_stack([enough, np.full(m, -1.0)])[np.arange(m), last, None]
    kept = low > enough
    np.put_along_axis(kept, leaders, True, axis=1)

    count = np.count_nonzero(kept, axis=1)
    few, many = count == LEADERS, count > WIDER
    yield boxes.pick(many)
    wider = ~few & ~many
    terms = phi(low)
    for some, columns in (
        (few, leaders[few]),
        (wider, np.argpartition(~kept[wider], WIDER, axis=1)[:, :WIDER]),
    ):
        low_left, up_left, terms_left = (
            np.take_along_axis(each[some], columns, axis=1) for each in (low, up, terms)
        )
        total_left = mass[some] + row_sums(low_left)
        rest = row_sums(terms[some]) - row_sums(terms_left)
        yield _Boxes(row[some], low_left, up_left, total_left, settled[some] + rest)


def _relax(boxes: _Boxes, phi: Terms) -> _Nodes:
    """Tighten each box and solve its secant relaxation, a fractional knapsack."""
    row, low, up, total, settled = boxes
    # Round-off may leave a hair less than no room at all.
    spare = np.maximum(row_sums(up) - total, 0.0)[:, None]
    missing = np.maximum(total - row_sums(low), 0.0)[:, None]
    low, up = np.maximum(low, up - spare), np.minimum(up, low + missing)
    up = np.maximum(low, up)

    width = up - low
    floor = phi(low)
    gain = phi(up) - floor
    # Classes without room come last.
    slope = np.divide(gain, width, out=np.full_like(width, _HUGE), where=width > 0.0)
    mass = total - row_sums(low)
    order = np.argsort(slope, axis=1)
    i = np.arange(len(row))
    item, filled, base = order[:, 0], np.zeros(len(row)), settled + row_sums(floor)
    full = np.ones(len(row), dtype=bool)
    for following in order.T[1:]:
        full &= filled + width[i, item] < mass
        if not full.any():
            break
        filled = np.where(full, filled + width[i, item], filled)
        base = np.where(full, base + gain[i, item], base)
        item = np.where(full, following, item)
    j = i, item
    x = np.clip(mass - filled, 0.0, width[j])
    value = base + phi(low[j] + x) - floor[j]
    return _Nodes(row, low, up, total, settled, base + slope[j] * x, value, item, low[j] + x)


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
    C = node.lower.shape[1]
    lower = np.stack([node.lower, filled], axis=1).reshape(-1, C)
    upper = np.stack([emptied, node.upper], axis=1).reshape(-1, C)
    row, total, settled = node.row.repeat(2), node.total.repeat(2), node.settled.repeat(2)
    feasible = row_sums(lower) <= total + MASS_TOLERANCE
    feasible &= row_sums(upper) >= total - MASS_TOLERANCE
    return _Boxes(row, lower, upper, total, settled).pick(feasible)
