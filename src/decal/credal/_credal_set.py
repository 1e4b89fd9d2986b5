"""CredalSet: what can be asked of every kind of credal set, and what a new kind must provide.

A method checks what the caller gave, puts rows aside that have no members, calls the arithmetic of
its kind, a plain function on arrays, and returns one answer per row. A new kind of set is one file
with a subclass: its own arithmetic, a table of measures and a table of decision rules.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array, Indices, Mask
from decal._base.row_checks import check_distributions, check_labels
from decal._base.set_checks import check_event, check_utility, check_values
from decal._base.settings import check_alpha, check_choice, check_count
from decal.credal import _ordered as ordered_classes
from decal.credal import decisions
from decal.credal._box_measures import middle_of_hartley, width
from decal.credal._class_tree import ClassTree, NodeRanges, paths
from decal.credal._interval_rows import IntervalRows
from decal.credal._saturation import NEAR_CAP, warn_if_saturated

if TYPE_CHECKING:
    from decal.explorer import Exploration


BOUND_MEASURES: dict[str, Callable[[Array, Array], Array]] = {
    "hartley": middle_of_hartley,
    "width": width,
}
"""Measures of epistemic uncertainty that only see reachable bounds: the same for all kinds."""


class CredalSet(IntervalRows):
    """What all kinds share: n inputs, K classes, and questions one can ask of each input.

    Entropies are in nats. Every question takes `empty`: what to do about inputs whose bounds no
    distribution satisfies. "raise" (the default) names the first of them; "nan" answers NaN there,
    or no action (False, or -1) where actions are asked for.
    """

    rule: str = "e_admissible"
    """What `possible` goes by: the rule of a promise, see `promised`."""

    kept: Mask | None = None
    """(n, K) the classes that a promise keeps, if it says so class by class."""

    ordered: bool = False
    """Whether the order of the classes means something, see `with_order`."""

    tree: ClassTree | None = None
    """The tree of the classes, if the model that predicted these sets has one."""

    _carried = ("rule", "kept", "ordered", "tree")

    # What a kind provides

    _measures: ClassVar[Mapping[str, Callable[..., Array]]]
    """Its measures of epistemic uncertainty besides BOUND_MEASURES: functions of `_arrays`."""

    _rules: ClassVar[Mapping[str, Callable[..., Mask | Indices]]]
    """Its decision rules besides `decisions.RANGE_RULES`: functions of `_arrays` and a utility."""

    @property
    @abstractmethod
    def is_empty(self) -> Mask:
        """(n,) True where no distribution satisfies the bounds."""

    @abstractmethod
    def contains(self, distributions: Any, *, atol: float = 5e-4) -> Mask:
        """(n,) True where the row's distribution lies in the set, give or take `atol`."""

    @abstractmethod
    def tighten(self) -> Self:
        """These sets with reachable bounds: every bound is attained by some member."""

    # The rest of what a kind provides is only asked of sets that have members in every row.

    @property
    @abstractmethod
    def _arrays(self) -> tuple[Array, ...]:
        """What the functions in the tables of this kind take."""

    @property
    @abstractmethod
    def _reachable(self) -> tuple[Array, Array]:
        """Bounds (n, K) that members of the set attain."""

    @abstractmethod
    def _lower_entropy(self) -> Array:
        """(n,) the least entropy of a member, in nats."""

    @abstractmethod
    def _upper_entropy(self) -> Array:
        """(n,) the greatest entropy of a member, in nats."""

    @abstractmethod
    def _expectation(self, values: Array) -> tuple[Array, Array]:
        """Least and greatest expectation of values (K,) or (A, K): (n,) or (n, A) each."""

    def _growing(self, order: Indices | None) -> tuple[Array, Array]:
        """Least and greatest probability of the first 1, ..., K classes of an order (n, K).

        Here those of the box; a kind that is smaller has its own.
        """
        return ordered_classes.box_growing(*self._reachable, order)

    # How uncertain

    def entropy(self, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the least and greatest entropy of a distribution in the set.

        Exact, unless the lower entropy of a box needs more nodes than its search may open: then an
        AnswerWarning says so, and `lower_entropy` has the certified bracket.

        See Also
        --------
        total, aleatoric, epistemic : The greatest entropy alone, the least, and their difference.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.0, 0.1, 0.0]], [[0.8, 0.7, 0.9]])
        >>> [round(float(endpoint[0]), 3) for endpoint in c.entropy()]
        [0.325, 1.099]
        """
        sets = self.with_members(empty)
        lower, upper = sets._lower_entropy(), sets._upper_entropy()
        return self._at_their_rows(lower), self._at_their_rows(upper)

    def total(self, *, empty: str = "raise") -> Array:
        """(n,) total uncertainty: the upper entropy.

        It finds errors and unfamiliar inputs better than `epistemic` with "entropy" or "zero_one",
        and worse than with "width": where all sets reach the uniform distribution, it is the same
        for all.
        """
        return self._at_their_rows(self.with_members(empty)._upper_entropy())

    def aleatoric(self, *, empty: str = "raise") -> Array:
        """(n,) aleatoric uncertainty: the lower entropy, what remains however much is learnt."""
        return self._at_their_rows(self.with_members(empty)._lower_entropy())

    def epistemic(self, measure: str = "entropy", *, empty: str = "raise") -> Array:
        """(n,) epistemic uncertainty: how much the distributions in the set differ.

        Parameters
        ----------
        measure : str
            "entropy", upper minus lower entropy; "zero_one", the greatest regret of predicting a
            class that some member calls most probable; "total_variation", the most that two members
            differ about any event (of a box of more than 24 classes, the most found); "hartley",
            the generalised Hartley measure (beyond 24 classes the middle of a certified bracket; of
            a hull or a ball, that of its box); "width", the mean width of the intervals.

        Warns
        -----
        AnswerWarning
            If "entropy", "zero_one" or "total_variation" cannot rank ten inputs or more, because
            most are at its greatest possible value, or if it rises with the confidence. To rank
            inputs, use "width" or a larger alpha.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.1, 0.2, 0.1]], [[0.5, 0.7, 0.3]])
        >>> {m: round(float(c.epistemic(m)[0]), 3) for m in ("entropy", "zero_one", "hartley")}
        {'entropy': 0.294, 'zero_one': 0.6, 'hartley': 0.375}
        """
        check_choice(measure, "measure", ("entropy", *self._measures, *BOUND_MEASURES))
        sets = self.with_members(empty)
        if measure == "entropy":
            greatest = sets._upper_entropy()
            values = np.maximum(greatest - sets._lower_entropy(), 0.0)
            possible = np.count_nonzero(sets._reachable[1] > 0.0, axis=1)
            sure = sets._reachable[0].max(axis=1)
            warn_if_saturated(measure, values, sure, greatest, np.log(possible))
        elif measure in BOUND_MEASURES:
            values = BOUND_MEASURES[measure](*sets._reachable)
        else:
            values = self._measures[measure](*sets._arrays)
            if measure in NEAR_CAP:
                warn_if_saturated(measure, values, sets._reachable[0].max(axis=1), values, 1.0)
        return self._at_their_rows(values)

    def confidence(self, rule: str = "gamma_maximin", *, empty: str = "raise") -> Array:
        """(n,) how probable the predicted class is at worst: its lower probability.

        At 1/2 or more it is the most probable class under every member of the set.

        Parameters
        ----------
        rule : str
            Which class is predicted: a rule of `decide` that takes one action. The default takes
            the class whose lower probability is greatest; "point" that of the point prediction.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.3, 0.1]], [[0.9, 0.7]], point=[[0.4, 0.6]])
        >>> c.confidence(), c.confidence("point")
        (array([0.3]), array([0.1]))
        """
        takes_one = [r for r in (*decisions.RULES, "point") if r not in decisions.SET_RULES]
        check_choice(rule, "rule", takes_one)
        sets = self.with_members(empty)
        predicted = sets._actions(rule, None, optimism=0.5)
        return self._at_their_rows(sets._reachable[0][np.arange(len(sets)), predicted])

    def most_uncertain(self, count: int | None = None) -> Indices:
        """(count,) the rows that are most in doubt, the most uncertain one first; by default all.

        More classes in the decision set (E-admissible) come first; of rows with equally many, the
        larger upper entropy; then the larger lower entropy; then the first. Rows without members
        come last.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.0, 0.9], [0.2, 0.3]], [[0.1, 1.0], [0.7, 0.8]])
        >>> c.most_uncertain()
        array([1, 0])
        """
        size = self.decide("e_admissible", empty="nan").sum(axis=1)
        least, greatest = (
            np.where(self.is_empty, np.inf, -bound) for bound in self.entropy(empty="nan")
        )
        order = np.lexsort((least, greatest, -size))
        return order if count is None else order[: check_count(count, "count")]

    # What to do

    def decide(
        self, rule: str, *, utility: Any = None, optimism: float = 0.5, empty: str = "raise"
    ) -> Any:
        """The actions that a rule keeps, (n, A) bool, or the one that it takes, (n,) int.

        Actions that have names come back by name: the one that is taken as (n,) names, those that
        are kept as columns of True and False, in a frame or a mapping like that of the utilities.

        Parameters
        ----------
        rule : str
            "interval_dominance", "maximality" or "e_admissible" keep a set of actions, "majority"
            and, of sets with a tree, "node" a set of classes, "ordered_majority" an interval of
            classes: it grows from the most probable one, by the more probable neighbour, until
            every member gives it one half;
            "gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret" and "point" take one.
            `decal.credal.decisions` defines them.
        utility : (A, K) array, frame or mapping, or str, optional
            "absolute" or "squared": naming a class costs its distance, see `ordered_utility`. Or
            what each action earns in each class, such as `decal.abstention_utility`. Without it
            actions are classes, a right one earns 1 and a wrong one 0. An array goes by position. A
            frame has a column for each name of a class; its rows are named by a column "action", or
            by the index of pandas. A mapping goes from actions to mappings from classes to numbers.
        optimism : float
            Weight of the best case in [0, 1], for "hurwicz" only.
        empty : str
            "raise" or "nan", which keeps no action, or takes action -1; None among names.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.2, 0.1, 0.0]], [[0.8, 0.7, 0.15]])
        >>> c.decide("e_admissible")
        array([[ True,  True, False]])
        >>> c.decide("gamma_maximin", utility=decal.abstention_utility(3, cost=0.6))
        array([3])
        >>> named = decal.IntervalCredalSet([[0.2, 0.3]], [[0.7, 0.8]], classes=["sick", "well"])
        >>> earns = {"treat": {"well": -1, "sick": 9}, "wait": {"well": 0, "sick": 0}}
        >>> named.decide("gamma_maximin", utility=earns)
        array(['treat'], dtype=object)
        """
        check_choice(rule, "rule", (*decisions.RULES, *decisions.CLASS_RULES, "point"))
        if rule in decisions.CLASS_RULES:
            if utility is not None:
                raise InputError("utility", f"be left out with rule={rule!r}", "one")
            sets = self.with_members(empty)
            if rule == "node":
                tree, (lower, _) = sets._tree(None), sets._node_bounds(None)
                kept = tree.leaves[tree.sure(lower)]
            elif rule == "ordered_majority":
                kept = sets._interval_of_majority()
            else:
                kept = decisions.majority(sets._reachable[1], sets.point)
            return self._at_their_rows(kept, missing=False)
        table, names = None, None
        if isinstance(utility, str):
            if utility not in ("absolute", "squared"):
                remedy = "For other losses see decal.credal.ordered_utility."
                raise InputError(
                    "utility", "be 'absolute', 'squared' or numbers", f"{utility!r}", remedy
                )
            v = ordered_classes.class_values(self.classes, self.shape[1])
            utility = ordered_classes.ordered_utility(self.shape[1], utility, values=v.tolist())
        if utility is not None:
            given, names = check_utility(utility, self.shape[1], self.classes)
            table = decisions.scaled(given)
        optimism = check_alpha(optimism, "optimism")
        actions = self.with_members(empty)._actions(rule, table, optimism)
        found = self._at_their_rows(actions, missing=False if actions.ndim == 2 else -1)
        return found if names is None else self._by_action(found, names, utility)

    def possible(self, rule: str | None = None, *, empty: str = "raise") -> list[list[Any]]:
        """For every input, the names of its possible classes, the most probable first.

        Without names, their numbers; without a point, or of ordered classes, in their order.

        Parameters
        ----------
        rule : str, optional
            A rule of `decide` that keeps a set. By default that of the promise of the model that
            predicted these sets, and "e_admissible" if it promises nothing: the classes that some
            member calls most probable.
        empty : str
            "raise" or "nan", for which no class is possible.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.2, 0.1, 0]], [[0.8, 0.7, 0.15]], classes="abc")
        >>> c.possible()
        [['a', 'b']]
        """
        if rule is None:
            return self._named(self.possible_mask(empty=empty))
        return self._named(
            self.decide(check_choice(rule, "rule", decisions.SET_RULES), empty=empty)
        )

    def possible_mask(self, *, empty: str = "raise") -> Mask:
        """(n, K) the classes that `possible` names."""
        if self.kept is not None:
            return self.kept
        kept: Mask = self.decide(self.rule, empty=empty)
        return kept

    def promised(self, rule: str, kept: Any = None) -> Self:
        """These sets, with what a promise calls possible: by a rule, or as `kept` (n, K) marks."""
        found = copy.copy(self)
        found._hold(rule=check_choice(rule, "rule", decisions.SET_RULES), kept=None)
        if kept is not None:
            mask = np.array(kept)
            if mask.shape != self.shape or mask.dtype != bool:
                fact = f"shape {mask.shape}, dtype {mask.dtype}"
                raise InputError("kept", f"be True or False in shape {self.shape}", fact)
            interval = rule == "ordered_majority"  # more classes never break a promise
            found._hold(kept=ordered_classes.interval_hull(mask) if interval else mask)
        if rule == "ordered_majority":
            found._hold(ordered=True)
        return found

    # Classes in an order

    def with_order(self) -> Self:
        """These sets, whose classes have an order: that of the columns.

        `possible` then names an interval of classes, by the rule "ordered_majority" of `decide`,
        and a report says "2 to 4". Models fitted with order=True predict such sets.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.3, 0.1, 0.3]], [[0.6, 0.2, 0.6]], classes="123")
        >>> c.possible(), c.with_order().possible()
        ([['1', '3']], [['1', '2', '3']])
        """
        return self.promised("ordered_majority", self.kept)

    def cumulative(self, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n, K) each: the range of P(Y <= k), a p-box. Exact, O(n K).

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.25, 0]], [[0.5, 0.75, 0.25]])
        >>> c.cumulative()
        (array([[0.25, 0.75, 1.  ]]), array([[0.5, 1. , 1. ]]))
        """
        least, most = self.with_members(empty)._growing(None)
        return self._at_their_rows(least), self._at_their_rows(most)

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
        low, high = ((bound >= q).argmax(axis=1) for bound in (most, least))
        return self._at_their_rows(low, missing=-1), self._at_their_rows(high, missing=-1)

    def _interval_of_majority(self) -> Mask:
        """What "ordered_majority" keeps, of sets that have members in every row."""
        point = self._reachable[1] if self.point is None else self.point
        order = ordered_classes.growing_order(point)
        least, _ = self._growing(order)
        return ordered_classes.until_majority(least, order, decisions.TIE_TOLERANCE)

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
        least, greatest = decisions.in_range(self.with_members(empty)._expectation, table)
        return self._at_their_rows(least), self._at_their_rows(greatest)

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
        least, greatest = decisions.as_probabilities(*bounds)
        return self._at_their_rows(least), self._at_their_rows(greatest)

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
        bounds = self.with_members(empty)._node_bounds(tree)
        lower, upper = (self._at_their_rows(bound) for bound in bounds)
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
        return paths(names, lower, upper, names.sure(lower, least))

    def with_tree(self, tree: Any) -> Self:
        """These sets with a tree of their classes, which `nodes` and the rule "node" go by."""
        if tree is None and self.tree is None:
            return self
        found = copy.copy(self)
        found._hold(tree=None if tree is None else ClassTree.of(tree))
        return found

    def _tree(self, tree: Any) -> ClassTree:
        """A tree, by default that of these sets, with leaves in the order of their classes."""
        found = self.tree if tree is None else ClassTree.of(tree)
        if found is None:
            remedy = "Pass tree= to the model, or to nodes, node or paths."
            raise InputError("tree", "be given to sets that have none", "None", remedy)
        return found.ordered(self.classes or tuple(map(str, range(self.shape[1]))))

    def _node_bounds(self, tree: Any) -> tuple[Array, Array]:
        """Least and greatest probability of every node, (n, nodes) each; all have members."""
        bounds = self._expectation(self._tree(tree).leaves.astype(np.float64))
        lower, upper = decisions.as_probabilities(*bounds)
        lower[:, 0] = upper[:, 0] = 1.0  # of the root, against round-off
        return lower, upper

    def explore(self, **options: Any) -> Exploration:
        """An interactive page about these sets; options of `decal.explorer.explore_credal`."""
        from decal.explorer import explore_credal

        return explore_credal(self, **options)

    # From the question to the rows that can answer it, and back

    def check_distributions(self, distributions: Any, name: str = "distributions") -> Array:
        """(n, K) one for each row, in the order of the rows; a frame's columns by name."""
        require_same_order(**{"credal": self, name: distributions})
        return check_distributions(distributions, shape=self.shape, name=name, names=self.classes)

    def check_labels(self, labels: Any) -> Indices:
        """(n,) one for each row, in the order of the rows."""
        require_same_order(credal=self, labels=labels)
        n, K = self.shape
        return check_labels(labels, rows=n, classes=K, names=self.classes)

    def with_members(self, empty: str) -> Self:
        """The rows that have members: all of them, unless some are empty and `empty` is "nan"."""
        check_choice(empty, "empty", ("raise", "nan"))
        without = self.is_empty
        if not without.any():
            return self
        if empty == "raise":
            rows = f"row {without.argmax()} ({without.sum()} rows in all)"
            fact = f"bounds that no distribution satisfies in {rows}"
            raise InputError("credal set", "have members", fact, "Use empty='nan' to pass over.")
        return self[~without]

    def _at_their_rows(self, answers: NDArray[Any], missing: float = np.nan) -> NDArray[Any]:
        """The answers of the rows that have members, at their places among all rows."""
        if len(answers) == len(self):
            return answers
        result = np.full((len(self), *answers.shape[1:]), missing, dtype=answers.dtype)
        result[~self.is_empty] = answers
        return result

    def _actions(self, rule: str, table: Array | None, optimism: float) -> Mask | Indices:
        """What `decide` answers, of sets that have members in every row."""
        if rule in decisions.RANGE_RULES:
            worst, best = self._reachable if table is None else self._expectation(table)
            return decisions.RANGE_RULES[rule](worst, best, optimism, decisions.action_units(table))
        if rule in self._rules:
            return self._rules[rule](*self._arrays, table)
        return self._best_at_point(table)

    def _by_action(self, found: Mask | Indices, names: list[Any], utility: Any) -> Any:
        """Actions by their names, in the form of the utilities if there may be several."""
        if found.ndim == 1:
            return np.array([None if a < 0 else names[a] for a in found], dtype=object)
        columns = {name: found[:, a] for a, name in enumerate(names)}
        if isinstance(utility, Mapping):
            return columns
        frame = getattr(type(utility), "from_pydict", type(utility))(columns)  # Arrow, or another
        if self.index is not None and hasattr(frame, "set_index"):
            rows: Any = self.to_pandas().index[:: self.shape[1]]
            frame.index = rows.droplevel(-1)
        return frame

    def _best_at_point(self, utility: Array | None) -> Indices:
        if self.point is None:
            rule = "not be 'point' for a credal set without one"
            raise InputError("rule", rule, "point=None", "Pass point= when building it.")
        expected = self.point if utility is None else self.point @ utility.T
        return np.asarray(expected.argmax(axis=1))
