"""IntervalCredalSet: boxes of distributions, an interval per class; and the union of sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from decal._base.data_frames import order_of, require_same_order
from decal._base.errors import AnswerWarning, InputError
from decal._base.numerics import Array, Indices, Mask, row_blocks, row_sums
from decal._base.row_checks import check_class_names
from decal._base.set_checks import check_bounds, read_frames
from decal._base.settings import check_tolerance
from decal.credal import _box_entropy as box_entropy
from decal.credal import _box_measures as box_measures
from decal.credal import _total_variation as variation
from decal.credal import decisions
from decal.credal._credal_set import CredalSet

FEASIBILITY_TOLERANCE = 1e-12
"""Round-off allowed, per class, in the sums of bounds that should just admit a distribution."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class IntervalCredalSet(CredalSet):
    """Probability intervals, one per input and class.

    For every input it stands for the box of distributions { p : lower <= p <= upper, sum p = 1 }.

    Parameters
    ----------
    lower, upper : (n, K) arrays
        Bounds in [0, 1]. Those that no distribution satisfies are kept, and `is_empty` marks them.
    point : (n, K) array, optional
        The prediction the intervals surround.
    classes : list of str, optional
        K names.

    Notes
    -----
    The arrays are read-only. Rows are picked as from an array: ``c[3]``, ``c[:10]``, ``c[mask]``
    are credal sets again.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=["a", "b", "c"])
    >>> c.contains([[0.2, 0.7, 0.1]])
    array([ True])
    >>> c
    IntervalCredalSet: 1 input, 3 classes, mean width 0.233
      0  b [0.500, 0.800]  a [0.100, 0.300]  c [0.000, 0.200]
    """

    lower: Array
    upper: Array
    point: Array | None
    classes: tuple[str, ...] | None

    _measures: ClassVar[dict[str, Callable[..., Array]]] = {
        "zero_one": box_measures.zero_one,
        "total_variation": lambda *box: variation.box_total_variation(*box).lower,
    }
    _rules: ClassVar[dict[str, Callable[..., Mask | Indices]]] = {**decisions.BOX_RULES}

    def __init__(
        self, lower: Any, upper: Any, *, point: Any = None, classes: Iterable[Any] | None = None
    ) -> None:
        given, names, index = read_frames(classes, lower=lower, upper=upper, point=point)
        low, high, middle = check_bounds(*given)
        known = check_class_names(names, low.shape[1])
        self._hold(lower=low, upper=high, point=middle, classes=known, _index=index)

    @cached_property
    def is_empty(self) -> Mask:
        """(n,) True where no distribution satisfies the bounds."""
        slack = FEASIBILITY_TOLERANCE * self.shape[1]
        empty: Mask = row_sums(self.lower) > 1 + slack
        empty |= row_sums(self.upper) < 1 - slack
        crossed = self.lower > self.upper
        if crossed.any():
            empty |= crossed.any(axis=1)
        empty.flags.writeable = False
        return empty

    def contains(self, distributions: Any, *, atol: float = 5e-4) -> Mask:
        """(n,) True where the row's distribution lies within the bounds, give or take `atol`.

        Distributions are (n, K). The default `atol` is that of the published numbers, whose bounds
        are rounded to three decimals.
        """
        p = self.check_distributions(distributions)
        atol = check_tolerance(atol, "atol")
        inside: Mask = (p >= self.lower - atol) & (p <= self.upper + atol)
        return np.asarray(inside.all(axis=1)) & ~self.is_empty

    def tighten(self) -> Self:
        """Every bound is attained by some member; bounds of empty rows stay as they are."""
        empty = self.is_empty[:, None]
        lower, upper = reachable(self.lower, self.upper)
        lower, upper = np.where(empty, self.lower, lower), np.where(empty, self.upper, upper)
        tight = self.unchecked(lower, upper, self.point, self.classes).with_index(self)
        tight._hold(ordered=self.ordered)
        return tight.with_tree(self.tree).promised(self.rule, self.kept)

    def intersection_probability(self, *, empty: str = "raise") -> Array:
        """(n, K) the distribution that lies at the same fraction of every reachable interval.

        l + d (1 - sum l) / (sum u - sum l) with d = u - l: the one point of the line from lower to
        upper that sums to one.
        """
        low, high = self.with_members(empty)._reachable
        missing = 1 - low.sum(axis=1, keepdims=True)
        total = (high - low).sum(axis=1, keepdims=True)
        share = np.divide(missing, total, out=np.zeros_like(total), where=total > 0)
        return self._at_their_rows(low + (high - low) * np.clip(share, 0.0, 1.0))

    def lower_entropy(self, *, max_nodes: int = box_entropy.MAX_NODES) -> box_entropy.LowerEntropy:
        """The lower entropy with its certificate: value, bound, nodes and exact, (n,) each.

        `max_nodes` is how many the search may open per input. Boxes of real classifiers need 1 to
        30.
        """
        return box_entropy.lower_entropy(
            *self.with_members("raise")._reachable, max_nodes=max_nodes
        )

    def hartley(self) -> box_measures.Bracket:
        """The generalised Hartley measure as a bracket: lower, upper and exact, (n,) each."""
        return box_measures.hartley(*self.with_members("raise")._reachable)

    def total_variation(self) -> box_measures.Bracket:
        """The greatest total variation distance as a bracket: lower, upper and exact, (n,) each."""
        return variation.box_total_variation(*self.with_members("raise")._reachable)

    @cached_property
    def _reachable(self) -> tuple[Array, Array]:
        return reachable(self.lower, self.upper)

    @property
    def _arrays(self) -> tuple[Array, Array]:
        return self._reachable

    def _lower_entropy(self) -> Array:
        found = box_entropy.lower_entropy(*self._reachable)
        if not found.exact.all():
            widest = float(np.max(found.value - found.bound))
            known = f"inputs is only known within {widest:.2g} nats"
            said = f"the lower entropy of {np.sum(~found.exact)} {known}"
            AnswerWarning.warn((said, "; see lower_entropy(max_nodes=...)"))
        return found.value

    def _upper_entropy(self) -> Array:
        return box_entropy.upper_entropy(*self._reachable)

    def _expectation(self, values: Array) -> tuple[Array, Array]:
        return decisions.expectation(*self._reachable, values)


class NonemptySet(CredalSet):
    """What hulls and balls share: every row has members, and these attain its bounds."""

    @property
    def is_empty(self) -> Mask:
        """(n,) False: every row has members."""
        return np.zeros(len(self), dtype=bool)

    def tighten(self) -> Self:
        """The set itself: its bounds are attained."""
        return self

    def box(self) -> IntervalCredalSet:
        """The smallest intervals around each set, and its point."""
        box = IntervalCredalSet.unchecked(self.lower, self.upper, self.point, self.classes)
        return _of_the_same(box, self)

    def intersection_probability(self, *, empty: str = "raise") -> Array:
        """(n, K) that of the box; it may lie outside the set."""
        return self.box().intersection_probability(empty=empty)

    @property
    def _reachable(self) -> tuple[Array, Array]:
        return self.lower, self.upper


def union(sets: Iterable[CredalSet]) -> IntervalCredalSet:
    """The smallest intervals that hold several credal sets of the same inputs.

    What several prompts, templates, languages or models say of an input, when nothing tells which
    of them is right. Its point is the mean of their points. It also holds the mixtures of the sets.

    Parameters
    ----------
    sets : iterable of CredalSet
        One or more, each of the same n inputs and K classes. Inputs with the same index in another
        order are matched by it; with another index, they are refused.

    Examples
    --------
    >>> import decal
    >>> one = decal.IntervalCredalSet([[0.6, 0.2]], [[0.8, 0.4]], classes=["yes", "no"])
    >>> other = decal.IntervalCredalSet([[0.5, 0.4]], [[0.6, 0.5]], classes=["yes", "no"])
    >>> decal.credal.union([one, other])
    IntervalCredalSet: 1 input, 2 classes, mean width 0.300
      0  yes [0.500, 0.800]  no [0.200, 0.500]
    """
    found = list(sets)
    if not found:
        raise InputError("sets", "be one or more", "none")
    first = found[0]
    for index, credal in enumerate(found):
        if not isinstance(credal, CredalSet):
            raise InputError("sets", "be credal sets", f"{type(credal).__name__} at index {index}")
        if credal.shape != first.shape:
            fact = f"{credal.shape} at index {index} and {first.shape} before"
            raise InputError("sets", "be of the same inputs and classes", fact)
        if credal.classes != first.classes:
            fact = f"{credal.classes} at index {index}"
            raise InputError("sets", f"have the classes {first.classes}", fact)
        if credal.is_empty.any():
            fact = f"an empty one at index {index}, row {credal.is_empty.argmax()}"
            raise InputError("sets", "have members", fact)
        order = order_of(first, credal)
        found[index] = credal if order is None else credal[order]
        require_same_order(**{"sets[0]": first, f"sets[{index}]": found[index]})
    bounds = [credal._reachable for credal in found]
    low = np.minimum.reduce([lower for lower, _ in bounds])
    high = np.maximum.reduce([upper for _, upper in bounds])
    points = [credal.point for credal in found]
    known = [point for point in points if point is not None]
    point = np.mean(known, axis=0) if len(known) == len(points) else None
    box = IntervalCredalSet.unchecked(low, high, point, first.classes)
    return _of_the_same(box, first)


def _of_the_same(box: IntervalCredalSet, sets: CredalSet) -> IntervalCredalSet:
    """Boxes with the index of other sets, and with the order or the tree of their classes."""
    box = box.with_index(sets).with_tree(sets.tree)
    return box.with_order() if sets.ordered else box


def reachable(lower: Array, upper: Array) -> tuple[Array, Array]:
    """The bounds (n, K) that members of non-empty boxes attain: within the given ones."""
    low, high = np.empty_like(lower), np.empty_like(upper)
    for rows in row_blocks(*lower.shape):
        a, b = lower[rows], upper[rows]
        # Round-off in the sums must not take from a box what it does not have...
        room_up = np.maximum(1 - row_sums(a), 0.0)[:, None]
        room_down = np.maximum(row_sums(b) - 1, 0.0)[:, None]
        np.minimum(b, a + room_up, out=high[rows])
        # ...nor let endpoints that coincide cross.
        np.minimum(np.maximum(a, b - room_down), high[rows], out=low[rows])
    return low, high
