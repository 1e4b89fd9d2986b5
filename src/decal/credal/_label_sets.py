"""MultiLabelCredalSet: an interval of probability for every label; none excludes another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array, Mask
from decal._base.row_checks import check_class_names
from decal._base.set_checks import (
    check_costs,
    check_event,
    check_label_bounds,
    check_label_probabilities,
    check_thresholds,
    read_frames,
)
from decal._base.settings import check_count, check_tolerance
from decal.credal._box_entropy import entropy_terms
from decal.credal._boxes import IntervalCredalSet
from decal.credal._interval_rows import IntervalRows


@dataclass(frozen=True, eq=False, repr=False, init=False)
class MultiLabelCredalSet(IntervalRows):
    """Intervals of the probabilities of labels that do not exclude each other.

    For every input and label, `lower` to `upper` holds the probabilities that the input has the
    label. They do not sum to 1. What is said about several labels holds however they depend on each
    other.

    Parameters
    ----------
    lower, upper : (n, L) arrays
        Bounds in [0, 1], lower <= upper.
    point : (n, L) array, optional
        The predictions that the intervals surround.
    classes : iterable, optional
        L names of the labels.

    Examples
    --------
    >>> import decal
    >>> c = decal.MultiLabelCredalSet([[0.6, 0.1]], [[0.9, 0.3]], classes=["dog", "cat"])
    >>> c
    MultiLabelCredalSet: 1 input, 2 labels, mean width 0.250
      0  dog [0.600, 0.900]  cat [0.100, 0.300]
    >>> c.decide()
    array([[1, 0]], dtype=int8)
    >>> c.any_of()
    (array([0.6]), array([1.]))
    """

    lower: Array
    upper: Array
    point: Array | None
    classes: tuple[str, ...] | None

    _of: ClassVar[str] = "label"

    def __init__(
        self, lower: Any, upper: Any, *, point: Any = None, classes: Iterable[Any] | None = None
    ) -> None:
        given, known, index = read_frames(classes, lower=lower, upper=upper, point=point)
        low, high, middle = check_label_bounds(*given)
        known = check_class_names(known, low.shape[1])
        self._hold(lower=low, upper=high, point=middle, classes=known, _index=index)

    # One label

    def label(self, label: str | int) -> IntervalCredalSet:
        """The credal sets of one label, by name or number, of the classes "no" and "yes"."""
        (k,) = np.flatnonzero(self._chosen([label]))
        low, high = self.lower[:, k], self.upper[:, k]
        lower, upper = np.column_stack([1.0 - high, low]), np.column_stack([1.0 - low, high])
        p = None if self.point is None else self.point[:, k]
        point = None if p is None else np.column_stack([1.0 - p, p])
        return IntervalCredalSet.unchecked(lower, upper, point, ("no", "yes")).with_index(self)

    def width(self) -> Array:
        """(n, L) the widths of the intervals."""
        return np.asarray(self.upper - self.lower)

    def entropy(self) -> tuple[Array, Array]:
        """(lower, upper), (n, L) each: the least and greatest entropy of every label, in nats."""
        ends = [entropy_terms(p) + entropy_terms(1.0 - p) for p in (self.lower, self.upper)]
        level = (self.lower <= 0.5) & (self.upper >= 0.5)
        return np.minimum(*ends), np.where(level, np.log(2.0), np.maximum(*ends))

    def decide(self, *, threshold: Any = None, costs: Any = None) -> NDArray[np.int8]:
        """(n, L) what all probabilities in the interval agree on: 1 yes, 0 no, -1 undecided.

        To say yes is right where the probability of the label exceeds the threshold.

        Parameters
        ----------
        threshold : float, (L,) array, mapping or Series, optional
            In [0, 1]; one for all labels, or one each, by name in a mapping or a Series. By default
            0.5.
        costs : pair of floats, (L, 2) array, mapping or frame, optional
            Instead of a threshold: the cost of saying yes wrongly, and of saying no wrongly, for
            all labels or for each; the threshold is yes / (yes + no). A mapping goes from names of
            labels to pairs; a frame has the columns yes and no.

        Examples
        --------
        >>> import decal
        >>> c = decal.MultiLabelCredalSet([[0.6, 0.1, 0.4]], [[0.9, 0.3, 0.7]])
        >>> c.decide()
        array([[ 1,  0, -1]], dtype=int8)
        >>> c.decide(costs=(1, 9))  # a label that is missed is nine times as bad
        array([[ 1, -1,  1]], dtype=int8)
        """
        L = self.shape[1]
        if costs is None:
            at = check_thresholds(0.5 if threshold is None else threshold, L, self.classes)
        elif threshold is None:
            at = check_costs(costs, L, self.classes)
        else:
            fact = f"{threshold!r} and {costs!r}"
            raise InputError("threshold", "not go with costs", fact, "Pass one.")
        found = np.full(self.shape, -1, dtype=np.int8)
        found[self.lower > at] = 1
        found[self.upper < at] = 0
        return found

    def possible(self, *, threshold: Any = None, costs: Any = None) -> list[list[Any]]:
        """For every input, the names of the labels to which `decide` does not say no.

        Numbers without names. Arguments as for `decide`.
        """
        return self._named(self.decide(threshold=threshold, costs=costs) != 0)

    def contains(self, probabilities: Any, *, atol: float = 5e-4) -> Mask:
        """(n, L) whether probabilities (n, L) lie in their intervals, give or take `atol`."""
        require_same_order(credal=self, probabilities=probabilities)
        p = check_label_probabilities(probabilities, self.shape, self.classes)
        atol = check_tolerance(atol, "atol")
        return np.asarray((p >= self.lower - atol) & (p <= self.upper + atol))

    # Several labels

    def any_of(self, labels: Any = None) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the probability that an input has one of some labels or more.

        Parameters
        ----------
        labels : str, int, list or (L,) mask, optional
            Names or numbers of the labels, or True for those meant; or one; by default all.

        Examples
        --------
        >>> import decal
        >>> c = decal.MultiLabelCredalSet([[0.2, 0.1]], [[0.3, 0.25]], classes=["dog", "cat"])
        >>> c.any_of(["dog", "cat"])
        (array([0.2]), array([0.55]))
        """
        return self.at_least(1, labels)

    def all_of(self, labels: Any = None) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the probability of having all of some labels."""
        low, high = self._bounds_of(labels)
        return _at_least(low, high, low.shape[1])

    def at_least(self, number: int, labels: Any = None) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the probability of `number` or more of some labels.

        The least and the greatest over all joint distributions with these probabilities of the
        single labels; some distribution attains each. `labels` as for `any_of`.
        """
        check_count(number, "number", least=0)
        return _at_least(*self._bounds_of(labels), number)

    def exactly(self, number: int, labels: Any = None) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the probability of `number` of some labels, and no more."""
        check_count(number, "number", least=0)
        return _exactly(*self._bounds_of(labels), number)

    def count(self, labels: Any = None) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the expected number of labels that an input has."""
        low, high = self._bounds_of(labels)
        return low.sum(axis=1), high.sum(axis=1)

    def _bounds_of(self, labels: Any) -> tuple[Array, Array]:
        if labels is None:
            return self.lower, self.upper
        chosen = self._chosen(labels)
        return self.lower[:, chosen], self.upper[:, chosen]

    def _chosen(self, labels: Any) -> Mask:
        return check_event(labels, self.shape[1], self.classes, name="labels")


# How many of m events happen, when only an interval of each one's probability is known. Nothing is
# assumed of how they depend on each other: bounds are the least and the greatest over all joint
# distributions with such marginals, and some of these attain each. They generalise those of Boole
# and Frechet for "any" and "all".


def _most_of_at_least(upper: Array, count: int) -> Array:
    """(n,) the greatest probability that `count` or more of m events happen; upper (n, m).

    Mass q on "count or more" can hold no more than min(u_i, q) of event i, and needs count q in
    all, so q is feasible while sum_i min(u_i, q) >= count q. That is a concave function of q, and
    its root is the least over j of (sum of the m - j smallest u) / (count - j).
    """
    n, m = upper.shape
    if count <= 0 or count > m:
        return np.full(n, 1.0 if count <= 0 else 0.0)
    sums = np.cumsum(np.sort(upper, axis=1), axis=1)
    j = np.arange(count)
    shares = sums[:, m - 1 - j] / (count - j)
    return np.asarray(np.minimum(shares.min(axis=1), 1.0))


def _most_of_at_most(lower: Array, count: int) -> Array:
    """(n,) the greatest probability that `count` or fewer of m events happen: the others do not."""
    return _most_of_at_least(1.0 - lower, lower.shape[1] - count)


def _at_least(lower: Array, upper: Array, count: int) -> tuple[Array, Array]:
    """The least and the greatest probability that `count` or more happen, (n,) each."""
    return 1.0 - _most_of_at_most(lower, count - 1), _most_of_at_least(upper, count)


def _exactly(lower: Array, upper: Array, count: int) -> tuple[Array, Array]:
    """The least and the greatest probability that `count` happen, no more and no fewer, (n,) each.

    Mass q on "exactly count" is feasible as long as it is on "count or more" and on "count or
    fewer". And what is left for it when these two others are as large as they can be is needed: if
    more and fewer leave a gap, the events split into `count` that are more probable than the gap's
    upper end and others that are less probable than its lower end, and both are attained at once.
    """
    fewer, more = _most_of_at_most(lower, count - 1), _most_of_at_least(upper, count + 1)
    greatest = np.minimum(_most_of_at_least(upper, count), _most_of_at_most(lower, count))
    return np.maximum(1.0 - fewer - more, 0.0), greatest
