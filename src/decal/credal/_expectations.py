"""Expectations: what is linear in a distribution, asked of sets of them.

Expected values and events; of classes in an order, their cumulative probabilities, mean and
quantiles; of classes in a tree, the probabilities of its nodes. All are exact for every kind of set
that has `_expectation` and `_growing`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, counted
from decal._base.numerics import Array, Indices, Mask
from decal._base.set_checks import check_event, check_values
from decal._base.settings import check_alpha, check_choice
from decal.credal import _ordered as ordered_classes
from decal.credal import decisions
from decal.credal._class_tree import ClassTree, NodeRanges
from decal.credal._interval_rows import IntervalRows


class Expectations(IntervalRows):
    """Least and greatest expectations over the members of every set."""

    tree: ClassTree | None = None
    """The tree of the classes, if the model that predicted these sets has one."""

    @property
    @abstractmethod
    def is_empty(self) -> Mask:
        """(n,) True where no distribution satisfies the bounds."""

    # What follows is only asked of sets that have members in every row.

    @property
    @abstractmethod
    def _reachable(self) -> tuple[Array, Array]:
        """Bounds (n, K) that members of the set attain."""

    @abstractmethod
    def _expectation(self, values: Array) -> tuple[Array, Array]:
        """Least and greatest expectation of values (K,) or (A, K): (n,) or (n, A) each."""

    def _growing(self, order: Indices | None) -> tuple[Array, Array]:
        """Least and greatest probability of the first 1, ..., K classes of an order (n, K).

        Here those of the box; a kind that is smaller has its own.
        """
        return ordered_classes.box_growing(*self._reachable, order)

    # Questions

    def cumulative(self, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n, K) each: the range of P(Y <= k), a p-box. Exact, O(n K).

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.25, 0]], [[0.5, 0.75, 0.25]])
        >>> c.cumulative()
        (array([[0.25, 0.75, 1.  ]]), array([[0.5, 1. , 1. ]]))
        """
        return self._both(self.with_members(empty)._growing(None))

    def mean(self, values: Any = None, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the range of the mean of ordered classes.

        Parameters
        ----------
        values : (K,) array, mapping or Series, optional
            Where the classes stand. By default their names, if these are numbers that rise, else 0
            to K - 1.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.25, 0]], [[0.5, 0.75, 0.25]], classes=[1, 2, 3])
        >>> c.mean()
        (array([1.5]), array([2.]))
        """
        if values is None:
            values = ordered_classes.class_values(self.classes, self.shape[1])
        table = check_values(values, "values", self.shape[1], ndim=1, names=self.classes)
        return self.expectation(table, empty=empty)

    def quantile(self, q: float, *, empty: str = "raise") -> tuple[Indices, Indices]:
        """(lower, upper), (n,) each: the range of a quantile, as numbers of classes.

        The quantile of a distribution is the first class k with P(Y <= k) >= q. Both ends are those
        of members. -1 where a set is empty and `empty` is "nan".

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.25, 0]], [[0.5, 0.75, 0.25]])
        >>> c.quantile(0.5), c.quantile(0.9)
        ((array([0]), array([1])), (array([1]), array([2])))
        """
        q = check_alpha(q, "q") - decisions.TIE_TOLERANCE
        least, most = self.with_members(empty)._growing(None)
        return self._both([(bound >= q).argmax(axis=1) for bound in (most, least)], missing=-1)

    def expectation(self, values: Any, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper): least and greatest expected value of a function of the class.

        Parameters
        ----------
        values : (K,) or (A, K) array, mapping, Series or frame
            Values of the classes, for one function, which gives (n,) each, or for A, (n, A) each.
            Arrays go by position, all else by the names of the classes.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.25]], [[0.75, 0.75]])
        >>> c.expectation([0.0, 100.0])
        (array([25.]), array([75.]))
        """
        table = check_values(values, "values", self.shape[1], names=self.classes)
        return self._both(decisions.in_range(self.with_members(empty)._expectation, table))

    def probability(self, event: Any, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n,) each: least and greatest probability of a set of classes.

        Parameters
        ----------
        event : str, int, list or (K,) mask
            Names or numbers of the classes, or True for those in the event; or one class. True and
            False in a mapping or a Series go by the names of the classes.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.5, 0]], [[0.5, 0.75, 0.25]], classes="abc")
        >>> c.probability(["a", "c"])
        (array([0.25]), array([0.5]))
        """
        inside = check_event(event, self.shape[1], self.classes).astype(np.float64)
        bounds = self.with_members(empty)._expectation(inside)
        return self._both(decisions.as_probabilities(*bounds))

    # Trees of classes

    def nodes(self, tree: Any = None, *, empty: str = "raise") -> NodeRanges:
        """The range of the probability of every node of a tree: lower and upper are (n, nodes).

        Exact for every kind of set. They print, and `to_pandas` has a row per input and node.

        Parameters
        ----------
        tree
            What `decal.ClassTree.of` reads; by default that of the model that predicted these sets.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.4, 0.3, 0]], [[0.7, 0.6, 0.1]], classes="abc")
        >>> c.nodes({"vowel": ["a"], "consonant": ["b", "c"]})
        NodeRanges: 1 input, 6 nodes, mean width 0.217
          0  any [1.000, 1.000]  vowel [0.400, 0.700]  a [0.400, 0.700]  …
        """
        names = self._tree(tree)
        lower, upper = self._both(self.with_members(empty)._node_bounds(tree))
        point = None if self.point is None else self.point @ names.leaves.T
        return NodeRanges.unchecked(lower, upper, point, names.names).with_index(self)

    def node(self, tree: Any = None, *, least: float = 0.5) -> NDArray[Any]:
        """(n,) the most specific node that is sure, by name: probable under every member.

        Its lower probability exceeds one half, and is `least` or more. All such nodes of an input
        lie on one path from the root, whose last is named; a wider set never names one further
        down. `tree` as for `nodes`.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.4, 0.3, 0]], [[0.7, 0.6, 0.1]], classes="abc")
        >>> c.node({"early": ["a", "b"], "late": ["c"]})
        array(['early'], dtype=object)
        """
        names, (lower, _) = self._tree(tree), self.with_members("raise")._node_bounds(tree)
        return np.array(names.names, dtype=object)[names.sure(lower, least)]

    def paths(self, tree: Any = None, *, least: float = 0.5) -> NDArray[Any]:
        """(n,) the path from the top to `node` as text: "bird [.90, 1.00] › owl [.60, .80]".

        Arguments as for `node`.
        """
        names, (lower, upper) = self._tree(tree), self.with_members("raise")._node_bounds(tree)
        return names.paths(lower, upper, names.sure(lower, least))

    # How they are answered

    def _tree(self, tree: Any) -> ClassTree:
        """A tree, by default that of these sets, with leaves in the order of their classes."""
        found = self.tree if tree is None else ClassTree.of(tree)
        if found is None:
            remedy = "Pass tree= to the model, or to nodes, node or paths."
            raise InputError("tree", "be given to sets that have none", "None", remedy)
        return found.ordered(self.classes or self.shape[1])

    def _node_bounds(self, tree: Any) -> tuple[Array, Array]:
        """Least and greatest probability of every node, (n, nodes) each; all have members."""
        bounds = self._expectation(self._tree(tree).leaves.astype(np.float64))
        lower, upper = decisions.as_probabilities(*bounds)
        lower[:, 0] = upper[:, 0] = 1.0  # of the root, against round-off
        return lower, upper

    def with_members(self, empty: str) -> Self:
        """The rows that have members: all of them, unless some are empty and `empty` is "nan"."""
        check_choice(empty, "empty", ("raise", "nan"))
        without = self.is_empty
        if not without.any():
            return self
        if empty == "raise":
            count = int(without.sum())
            rows = f"row {without.argmax()} ({counted(count, 'row')} in all)"
            fact = f"bounds that no distribution satisfies in {rows}"
            raise InputError("credal set", "have members", fact, "Use empty='nan' to pass over.")
        return self[~without]

    def _both(self, ends: Iterable[NDArray[Any]], missing: float = np.nan) -> tuple[Any, Any]:
        """Lower and upper answers of the rows that have members, at their places."""
        lower, upper = (self._at_their_rows(end, missing) for end in ends)
        return lower, upper

    def _at_their_rows(self, answers: NDArray[Any], missing: float = np.nan) -> NDArray[Any]:
        """The answers of the rows that have members, at their places among all rows."""
        if len(answers) == len(self):
            return answers
        result = np.full((len(self), *answers.shape[1:]), missing, dtype=answers.dtype)
        result[~self.is_empty] = answers
        return result
