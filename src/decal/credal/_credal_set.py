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
from decal.credal import decisions
from decal.credal._box_measures import middle_of_hartley, width
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

    _carried = ("rule", "kept")

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
            "interval_dominance", "maximality" or "e_admissible" keep a set of actions, "majority" a
            set of classes;
            "gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret" and "point" take one.
            `decal.credal.decisions` defines them.
        utility : (A, K) array, frame or mapping, optional
            What each action earns in each class, such as `decal.abstention_utility`. Without it
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
        check_choice(rule, "rule", (*decisions.RULES, "majority", "point"))
        if rule == "majority":
            if utility is not None:
                raise InputError("utility", "be left out with rule='majority'", "one")
            sets = self.with_members(empty)
            kept = decisions.majority(sets._reachable[1], sets.point)
            return self._at_their_rows(kept, missing=False)
        table, names = None, None
        if utility is not None:
            given, names = check_utility(utility, self.shape[1], self.classes)
            table = decisions.scaled(given)
        optimism = check_alpha(optimism, "optimism")
        actions = self.with_members(empty)._actions(rule, table, optimism)
        found = self._at_their_rows(actions, missing=False if actions.ndim == 2 else -1)
        return found if names is None else self._by_action(found, names, utility)

    def possible(self, rule: str | None = None, *, empty: str = "raise") -> list[list[Any]]:
        """For every input, the names of its possible classes, the most probable first.

        Without names, their numbers; without a point, in their order.

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
            found._hold(kept=mask)
        return found

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
