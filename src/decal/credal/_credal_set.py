"""CredalSet: what can be asked of every kind of credal set, and what a new kind must provide.

A credal set holds, for every input, the probability vectors that remain plausible. A question goes
from the public method here to the arithmetic of its kind, a plain function on arrays: the method
checks what the caller gave, puts rows aside that have no members, calls, and returns one answer per
row. A new kind of set is one file with a subclass: its own arithmetic, a table of measures and a
table of decision rules.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decal import decisions
from decal._base.checks import check_alpha, check_choice
from decal._base.data_frames import ROW, Index, check_index
from decal._base.extras import needs
from decal._base.numerics import Array
from decal._base.set_checks import check_event, check_values
from decal.credal._box_measures import middle_of_hartley, width
from decal.credal._notebook import as_table
from decal.credal._warnings import warn_if_saturated

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from decal.explorer import Exploration

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

BOUND_MEASURES: dict[str, Callable[[Array, Array], Array]] = {
    "hartley": middle_of_hartley,
    "width": width,
}
"""Measures of epistemic uncertainty that only see reachable bounds: the same for all kinds."""

ROWS_SHOWN = 5
CLASSES_SHOWN = 4


class CredalSet(ABC):
    """What all kinds share: n inputs, K classes, and questions one can ask of each input.

    Entropies are in nats. Every question takes `empty`: what to do about inputs whose bounds no
    distribution satisfies. "raise" (the default) names the first of them; "nan" answers NaN there,
    or no action (False, or -1) where actions are asked for.
    """

    lower: Array
    upper: Array
    point: Array | None
    classes: tuple[str, ...] | None

    # What a kind provides

    _measures: ClassVar[Mapping[str, Callable[..., Array]]]
    """Its measures of epistemic uncertainty besides BOUND_MEASURES: functions of `_arrays`."""

    _rules: ClassVar[Mapping[str, Callable[..., Mask | Indices]]]
    """Its decision rules besides `decisions.RANGE_RULES`: functions of `_arrays` and a utility."""

    @abstractmethod
    def _picked(self, rows: Any) -> Self:
        """The sets of the rows that index an array so; without their names."""

    @property
    @abstractmethod
    def is_empty(self) -> Mask:
        """(n,) True where no distribution satisfies the bounds."""

    @abstractmethod
    def contains(self, distributions: Any, *, atol: float = 5e-4) -> Mask:
        """(n,) True where the row's distribution lies in the set, give or take `atol`."""

    @abstractmethod
    def tighten(self) -> Self:
        """The same sets with reachable bounds: every bound is attained by some member."""

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

    def _size(self) -> str:
        """What `repr` says of a kind between the numbers of inputs and of classes."""
        return ""

    # What all kinds share

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        n, K = self.lower.shape
        return n, K

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> Self:
        """The credal set of the chosen rows: an integer, a slice, a mask or a list of integers."""
        rows = row_index(rows, len(self))
        index = self.index and {name: values[rows] for name, values in self.index.items()}
        return self._picked(rows)._named(index)

    @property
    def index(self) -> Index | None:
        """What names the inputs: vectors (n,) by name, or None if they are only numbered.

        Sets that are predicted from a pandas DataFrame have its index; `with_index` gives one.
        """
        found: Index | None = vars(self).get("_index")
        return found

    def with_index(self, index: Any) -> Self:
        """The same sets, with names of the inputs, which stay with the rows that are picked.

        Parameters
        ----------
        index
            An (n,) array, an index of pandas, or a mapping of names to such arrays. None forgets
            them.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.2, 0.3], [0, 0.9]], [[0.7, 0.8], [0.1, 1]])
        >>> c.with_index({"patient": ["P-17", "P-21"]})[1]
        IntervalCredalSet: 1 input, 2 classes, mean width 0.100
          P-21  1 [0.900, 1.000]  0 [0.000, 0.100]
        """
        return self._named(None if index is None else check_index(index, len(self)))

    def _named(self, index: Index | None) -> Self:
        """The same sets with an index that fits them."""
        if index is self.index:
            return self
        named = copy.copy(self)
        vars(named)["_index"] = index
        return named

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    # How uncertain

    def entropy(self, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the least and greatest entropy of a distribution in the set.

        The greatest entropy is exact. The least one over a box is found by branch and bound; it is
        exact unless an input needs more nodes than the search may open. A BracketWarning reports
        that, and `lower_entropy` has the certified bracket.

        Parameters
        ----------
        empty : str
            "raise" or "nan".

        See Also
        --------
        total : The greatest entropy alone, which is faster.
        epistemic : The difference of the two, and other measures.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.0, 0.1, 0.0]], [[0.8, 0.7, 0.9]])
        >>> [round(float(endpoint[0]), 3) for endpoint in c.entropy()]
        [0.325, 1.099]
        """
        sets = self._with_members(empty)
        lower, upper = sets._lower_entropy(), sets._upper_entropy()
        return self._at_their_rows(lower), self._at_their_rows(upper)

    def total(self, *, empty: str = "raise") -> Array:
        """(n,) total uncertainty: the upper entropy.

        To find errors and unfamiliar inputs it is safer than the epistemic measures "entropy" and
        "zero_one", and less safe than "width": where all sets reach the uniform distribution, it is
        the same for all.

        Parameters
        ----------
        empty : str
            "raise" or "nan".

        See Also
        --------
        aleatoric, epistemic : Its two parts.
        """
        return self._at_their_rows(self._with_members(empty)._upper_entropy())

    def aleatoric(self, *, empty: str = "raise") -> Array:
        """(n,) aleatoric uncertainty: the lower entropy, what remains however much is learnt.

        Parameters
        ----------
        empty : str
            "raise" or "nan".

        See Also
        --------
        total, epistemic : What it is a part of, and the other part.
        """
        return self._at_their_rows(self._with_members(empty)._lower_entropy())

    def epistemic(self, measure: str = "entropy", *, empty: str = "raise") -> Array:
        """(n,) epistemic uncertainty: how much the distributions in the set differ.

        Parameters
        ----------
        measure : str
            "entropy", upper minus lower entropy; "zero_one", the greatest regret of predicting a
            class that some member calls most probable; "total_variation", the most that two
            members differ about any event (of a box of more than 24 classes, the most found);
            "hartley", the generalised Hartley measure (beyond 24 classes the middle of a certified
            bracket; of a hull or a ball, that of its box); "width", the mean width of the
            intervals.
        empty : str
            "raise" or "nan".

        Warns
        -----
        SaturationWarning
            From "entropy" and "zero_one" of ten inputs or more: if more than half of them have an
            upper entropy, or a zero-one measure, within 1 % of the greatest possible value, or if
            the measure rises with the confidence. To rank inputs, use "width" or a larger alpha.

        See Also
        --------
        total, aleatoric : The upper and the lower entropy.
        confidence : How probable the predicted class is at worst.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.1, 0.2, 0.1]], [[0.5, 0.7, 0.3]])
        >>> {m: round(float(c.epistemic(m)[0]), 3) for m in ("entropy", "zero_one", "hartley")}
        {'entropy': 0.294, 'zero_one': 0.6, 'hartley': 0.375}
        """
        check_choice(measure, "measure", ("entropy", *self._measures, *BOUND_MEASURES))
        sets = self._with_members(empty)
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
            if measure == "zero_one":
                warn_if_saturated(measure, values, sets._reachable[0].max(axis=1), values, 1.0)
        return self._at_their_rows(values)

    def confidence(self, rule: str = "gamma_maximin", *, empty: str = "raise") -> Array:
        """(n,) how probable the predicted class is at worst: its lower probability.

        Higher is surer, the other way round than measures of uncertainty. At 1/2 or more the
        predicted class is the most probable one under every member of the set.

        Parameters
        ----------
        rule : str
            Which class is predicted: a rule of `decide` that takes one action. The default takes
            the class whose lower probability is greatest; "point" that of the point prediction.
        empty : str
            "raise" or "nan".

        See Also
        --------
        probability : The lower and upper probability of any set of classes.
        epistemic, total : Measures of uncertainty.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.3, 0.1]], [[0.9, 0.7]], point=[[0.4, 0.6]])
        >>> c.confidence(), c.confidence("point")
        (array([0.3]), array([0.1]))
        """
        takes_one = [r for r in (*decisions.RULES, "point") if r not in decisions.SET_RULES]
        check_choice(rule, "rule", takes_one)
        sets = self._with_members(empty)
        predicted = sets._actions(rule, None, optimism=0.5)
        return self._at_their_rows(sets._reachable[0][np.arange(len(sets)), predicted])

    # What to do

    def decide(
        self,
        rule: str,
        *,
        utility: Any = None,
        optimism: float = 0.5,
        empty: str = "raise",
    ) -> Mask | Indices:
        """The actions that a rule keeps, (n, A) bool, or the one that it takes, (n,) int.

        Parameters
        ----------
        rule : str
            "interval_dominance", "maximality" or "e_admissible" keep a set of actions;
            "gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret" and "point" take one.
        utility : (A, K) array, optional
            What each action earns in each class. Without it actions are classes, a right one earns
            1 and a wrong one 0.
        optimism : float
            Weight of the best case in [0, 1], for "hurwicz" only.
        empty : str
            "raise" or "nan", which keeps no action, or takes action -1.

        See Also
        --------
        decal.decisions : Defines the rules.
        decal.abstention_utility : Utilities of naming a class or abstaining.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.2, 0.1, 0.0]], [[0.8, 0.7, 0.15]])
        >>> c.decide("e_admissible")
        array([[ True,  True, False]])
        >>> c.decide("gamma_maximin", utility=decal.abstention_utility(3, cost=0.6))
        array([3])
        """
        check_choice(rule, "rule", (*decisions.RULES, "point"))
        table = None if utility is None else check_values(utility, "utility", self.shape[1], ndim=2)
        optimism = check_alpha(optimism, "optimism")
        actions = self._with_members(empty)._actions(rule, table, optimism)
        return self._at_their_rows(actions, missing=False if actions.ndim == 2 else -1)

    def expectation(self, values: Any, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper): least and greatest expected value of a function of the class.

        Parameters
        ----------
        values : (K,) or (A, K) array
            Values of the classes, for one function, which gives (n,) each, or for A, (n, A) each.
        empty : str
            "raise" or "nan".

        See Also
        --------
        probability : The same for a set of classes.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.25]], [[0.75, 0.75]])
        >>> c.expectation([0.0, 100.0])
        (array([25.]), array([75.]))
        """
        table = check_values(values, "values", self.shape[1])
        least, greatest = self._with_members(empty)._expectation(table)
        return self._at_their_rows(least), self._at_their_rows(greatest)

    def probability(self, event: Any, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n,) each: least and greatest probability of a set of classes.

        Parameters
        ----------
        event : list or (K,) mask
            Names or numbers of the classes, or True for those in the event.
        empty : str
            "raise" or "nan".

        See Also
        --------
        expectation : The same for any function of the class.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.5, 0]], [[0.5, 0.75, 0.25]], classes="abc")
        >>> c.probability(["a", "c"])
        (array([0.25]), array([0.5]))
        """
        inside = check_event(event, self.shape[1], self.classes).astype(np.float64)
        least, greatest = self._with_members(empty)._expectation(inside)
        return self._at_their_rows(least), self._at_their_rows(greatest)

    # How it reads

    def to_pandas(self) -> pd.DataFrame:
        """A tidy DataFrame: one row per input and class, columns lower, upper (and point).

        Its index is that of the inputs, or their numbers, and the class.
        """
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        names, bounds = self._columns()
        return pd.DataFrame(
            bounds, index=pd.MultiIndex.from_arrays([*names.values()], names=[*names])
        )

    def to_polars(self) -> pl.DataFrame:
        """A tidy DataFrame: one row per input and class; what `to_pandas` has as index is columns.

        The columns are the names of the inputs, or their numbers as row; class; lower, upper (and
        point).
        """
        with needs("polars", message="to_polars needs polars: pip install 'decal[polars]'"):
            import polars as pl
        names, bounds = self._columns()
        return pl.DataFrame(names | bounds)

    def _columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Names and bounds of every input and class, (n K,) each."""
        n, K = self.shape
        names = {k: np.repeat(v, K) for k, v in (self.index or {ROW: np.arange(n)}).items()}
        classes = np.array(self.classes, dtype=object) if self.classes else np.arange(K)
        names["class"] = np.tile(classes, n)
        bounds = {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        if self.point is not None:
            bounds["point"] = self.point.ravel()
        return names, bounds

    def explore(self, **options: Any) -> Exploration:
        """An interactive page about these sets, see `decal.explorer.explore_credal`.

        Parameters
        ----------
        **options : optional
            labels, truth, texts, images, names, rows, slots, name, title and seed.
        """
        from decal.explorer import explore_credal

        return explore_credal(self, **options)

    def __repr__(self) -> str:
        n, K = self.shape
        inputs = "1 input" if n == 1 else f"{n:,} inputs"
        width = f", mean width {np.mean(self.upper - self.lower):.3f}" if n else ""
        names = self.classes or tuple(str(k) for k in range(K))
        lines = [f"{type(self).__name__}: {inputs}, {self._size()}{K:,} classes{width}"]
        for row in range(min(n, ROWS_SHOWN)):
            likely = np.argsort(-self.upper[row], kind="stable")[:CLASSES_SHOWN]
            spans = (
                f"{names[k]} [{self.lower[row, k]:.3f}, {self.upper[row, k]:.3f}]" for k in likely
            )
            lines.append(
                f"  {self._called(row)}  " + "  ".join(spans) + ("  …" if K > CLASSES_SHOWN else "")
            )
        if n > ROWS_SHOWN:
            lines.append(f"  … {n - ROWS_SHOWN:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        title = repr(self).splitlines()[0]
        return as_table(title, self.lower, self.upper, self.point, self.classes, self._called)

    def _called(self, row: int) -> str:
        """The name of an input: that of the index, or its number."""
        if self.index is None:
            return str(row)
        return "/".join(str(values[row]) for values in self.index.values())

    # From the question to the rows that can answer it, and back

    def _with_members(self, empty: str) -> Self:
        """The rows that have members: all of them, unless some are empty and `empty` is "nan"."""
        check_choice(empty, "empty", ("raise", "nan"))
        without = self.is_empty
        if not without.any():
            return self
        if empty == "raise":
            raise ValueError(
                "credal set must have members: got bounds that no distribution satisfies in row "
                f"{without.argmax()} ({without.sum()} rows in all). Use empty='nan' to pass over."
            )
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
            largest = decisions.largest_utility(table)
            return decisions.RANGE_RULES[rule](worst, best, optimism, largest)
        if rule in self._rules:
            return self._rules[rule](*self._arrays, table)
        return self._best_at_point(table)

    def _best_at_point(self, utility: Array | None) -> Indices:
        if self.point is None:
            raise ValueError(
                "rule must not be 'point' for a credal set without one: got point=None. "
                "Pass point= when building it."
            )
        expected = self.point if utility is None else self.point @ utility.T
        return np.asarray(expected.argmax(axis=1))


def row_index(rows: Any, count: int) -> Any:
    """What picks rows of an array and keeps it a matrix."""
    if isinstance(rows, tuple):
        raise IndexError("a credal set is indexed by rows only: use .lower[row, class]")
    if isinstance(rows, int | np.integer):
        if not -count <= rows < count:
            raise IndexError(f"row {rows} is out of range for {count} inputs")
        return [rows]
    return rows


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, which nobody can change through this view."""
    array = array.view()
    array.flags.writeable = False
    return array
