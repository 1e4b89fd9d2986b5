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

from decal._base.data_frames import require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array, Indices, Mask
from decal._base.row_checks import check_distributions, check_labels
from decal._base.set_checks import check_utility
from decal._base.settings import check_alpha, check_choice, check_count
from decal.credal import _ordered as ordered_classes
from decal.credal import decisions
from decal.credal._box_measures import middle_of_hartley, width
from decal.credal._class_tree import ClassTree
from decal.credal._expectations import Expectations
from decal.credal._saturation import NEAR_CAP, warn_if_saturated

if TYPE_CHECKING:
    from decal.explorer import Exploration


BOUND_MEASURES: dict[str, Callable[[Array, Array], Array]] = {
    "hartley": middle_of_hartley,
    "width": width,
}
"""Measures of epistemic uncertainty that only see reachable bounds: the same for all kinds."""


class CredalSet(Expectations):
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

    _carried = ("rule", "kept", "ordered", "tree")

    # What a kind provides, besides what `Expectations` asks of it

    _measures: ClassVar[Mapping[str, Callable[..., Array]]]
    """Its measures of epistemic uncertainty besides BOUND_MEASURES: functions of `_arrays`."""

    _rules: ClassVar[Mapping[str, Callable[..., Mask | Indices]]]
    """Its decision rules besides `decisions.RANGE_RULES`: functions of `_arrays` and a utility."""

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

    @abstractmethod
    def _lower_entropy(self) -> Array:
        """(n,) the least entropy of a member, in nats."""

    @abstractmethod
    def _upper_entropy(self) -> Array:
        """(n,) the greatest entropy of a member, in nats."""

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
        return self._both((sets._lower_entropy(), sets._upper_entropy()))

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
                point = sets._reachable[1] if sets.point is None else sets.point
                order = ordered_classes.growing_order(point)
                least, _ = sets._growing(order)
                kept = ordered_classes.until_majority(least, order, decisions.TIE_TOLERANCE)
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

    def with_tree(self, tree: Any) -> Self:
        """These sets with a tree of their classes, which `nodes` and the rule "node" go by."""
        if tree is None and self.tree is None:
            return self
        found = copy.copy(self)
        found._hold(tree=None if tree is None else ClassTree.of(tree))
        return found

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
