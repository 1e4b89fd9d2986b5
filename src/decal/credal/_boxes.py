"""Credal sets: for every input, the probability vectors that remain plausible."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from decal import decisions
from decal._base.checks import (
    check_alpha,
    check_choice,
    check_class_names,
    check_distributions,
    check_tolerance,
)
from decal._base.numerics import Array
from decal._base.set_checks import check_bounds, check_event, check_values
from decal.credal import _entropy as entropy
from decal.credal import _measures as measures

if TYPE_CHECKING:
    import pandas as pd

    from decal.explorer import Exploration

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

MEASURES = ("entropy", "zero_one", "hartley", "width")
SET_RULES = ("interval_dominance", "maximality", "e_admissible")

FEASIBILITY_TOLERANCE = 1e-12
"""Round-off allowed, per class, in the sums of bounds that should just admit a distribution."""

ROWS_SHOWN = 5
CLASSES_SHOWN = 4


class BracketWarning(UserWarning):
    """A lower entropy was returned as the best value found, not proved to be the least."""


class CredalSet(ABC):
    """What boxes and hulls share: n inputs, K classes, and questions one can ask of each input.

    Entropies are in nats. Every question takes `empty`: what to do about inputs whose bounds no
    distribution satisfies. "raise" (the default) names the first of them; "nan" answers NaN there,
    or no action (False, or -1) where actions are asked for.
    """

    lower: Array
    upper: Array
    point: Array | None
    classes: tuple[str, ...] | None

    @abstractmethod
    def __getitem__(self, rows: Any) -> Self: ...

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

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        n, K = self.lower.shape
        return n, K

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    # How uncertain

    def entropy(self, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n,) each: the least and greatest entropy of a distribution in the set.

        The upper end is exact. The least entropy over a box is found by branch and bound, exact
        unless an input exhausts its budget of nodes; that is reported by a BracketWarning, and
        `lower_entropy` has the certified bracket.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.0, 0.1, 0.0]], [[0.8, 0.7, 0.9]])
        >>> [round(float(end[0]), 3) for end in c.entropy()]
        [0.325, 1.099]
        """
        return self.aleatoric(empty=empty), self.total(empty=empty)

    def total(self, *, empty: str = "raise") -> Array:
        """(n,) total uncertainty: the upper entropy."""
        return self._ask(lambda c: c._upper_entropy(), empty)

    def aleatoric(self, *, empty: str = "raise") -> Array:
        """(n,) aleatoric uncertainty: the lower entropy, what remains however much is learnt."""
        return self._ask(lambda c: c._lower_entropy(), empty)

    def epistemic(self, measure: str = "entropy", *, empty: str = "raise") -> Array:
        """(n,) epistemic uncertainty: how much the distributions in the set differ.

        Parameters
        ----------
        measure : "entropy", upper minus lower entropy; "zero_one", the greatest regret of
            predicting a class that some member calls most probable; "hartley", the generalised
            Hartley measure (beyond 24 classes the middle of a certified bracket; of a hull, that
            of its box); "width", the mean width of the intervals.
        empty : "raise" or "nan".

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.1, 0.2, 0.1]], [[0.5, 0.7, 0.3]])
        >>> {m: round(float(c.epistemic(m)[0]), 3) for m in ("entropy", "zero_one", "hartley")}
        {'entropy': 0.294, 'zero_one': 0.6, 'hartley': 0.375}
        """
        match check_choice(measure, "measure", MEASURES):
            case "entropy":
                lower, upper = self.entropy(empty=empty)
                return np.maximum(upper - lower, 0.0)
            case "zero_one":
                return self._ask(lambda c: c._zero_one(), empty)
            case "hartley":
                return self._ask(lambda c: c._hartley(), empty)
        return self._ask(lambda c: measures.width(*c._reachable), empty)

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
        rule : "interval_dominance", "maximality" or "e_admissible" keep a set of actions;
            "gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret" and "point" take one.
            `decal.decisions` defines them.
        utility : (A, K), what each action earns in each class. Without it actions are classes, a
            right one earns 1 and a wrong one 0. See `decal.abstention_utility`.
        optimism : weight of the best case in [0, 1], for "hurwicz" only.
        empty : "raise" or "nan", which keeps no action, or takes action -1.

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

        def actions(credal: CredalSet) -> Mask | Indices:
            if rule == "point":
                return credal._best_at_point(table)
            return credal._decide(rule, table, optimism)

        return self._ask(actions, empty, missing=False if rule in SET_RULES else -1)

    def expectation(self, values: Any, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper): least and greatest expected value of a function of the class.

        Parameters
        ----------
        values : (K,) values of the classes, giving (n,) each; or (A, K) for A functions, (n, A).
        empty : "raise" or "nan".

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.25]], [[0.75, 0.75]])
        >>> c.expectation([0.0, 100.0])
        (array([25.]), array([75.]))
        """
        table = check_values(values, "values", self.shape[1])
        least, greatest = self._ask(
            lambda c: np.stack(c._expectation(table), axis=1), empty
        ).swapaxes(0, 1)
        return least, greatest

    def probability(self, event: Any, *, empty: str = "raise") -> tuple[Array, Array]:
        """(lower, upper), (n,) each: least and greatest probability of a set of classes.

        Parameters
        ----------
        event : names or numbers of the classes, or a mask (K,).
        empty : "raise" or "nan".

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.25, 0.5, 0]], [[0.5, 0.75, 0.25]], classes="abc")
        >>> c.probability(["a", "c"])
        (array([0.25]), array([0.5]))
        """
        inside = check_event(event, self.shape[1], self.classes)
        return self.expectation(inside.astype(np.float64), empty=empty)

    # How it reads

    def to_pandas(self) -> pd.DataFrame:
        """A tidy DataFrame: one row per input and class, columns lower, upper (and point)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install decal[pandas]") from error
        n, K = self.shape
        index = pd.MultiIndex.from_product(
            [range(n), self.classes or range(K)], names=["row", "class"]
        )
        columns = {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        if self.point is not None:
            columns["point"] = self.point.ravel()
        return pd.DataFrame(columns, index=index)

    def explore(self, **options: Any) -> Exploration:
        """An interactive page about these sets, see `decal.explorer.explore_credal`.

        Parameters
        ----------
        **options : labels, truth, texts, images, names, rows, slots, name, title and seed.
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
            lines.append(f"  {row}  " + "  ".join(spans) + ("  …" if K > CLASSES_SHOWN else ""))
        if n > ROWS_SHOWN:
            lines.append(f"  … {n - ROWS_SHOWN:,} more")
        return "\n".join(lines)

    # What boxes and hulls each answer in their own way, for sets that are not empty

    @property
    @abstractmethod
    def _reachable(self) -> tuple[Array, Array]:
        """Bounds (n, K) that members of the set attain."""

    @abstractmethod
    def _lower_entropy(self) -> Array: ...

    @abstractmethod
    def _upper_entropy(self) -> Array: ...

    @abstractmethod
    def _zero_one(self) -> Array: ...

    @abstractmethod
    def _expectation(self, values: Array) -> tuple[Array, Array]: ...

    @abstractmethod
    def _decide(self, rule: str, utility: Array | None, optimism: float) -> Mask | Indices: ...

    def _size(self) -> str:
        return ""

    def _hartley(self) -> Array:
        found = measures.hartley(*self._reachable)
        return (found.lower + found.upper) / 2

    def _best_at_point(self, utility: Array | None) -> Indices:
        if self.point is None:
            raise ValueError(
                "rule must not be 'point' for a credal set without one: got point=None. "
                "Pass point= when building it."
            )
        expected = self.point if utility is None else self.point @ utility.T
        return np.asarray(expected.argmax(axis=1))

    def _require_members(self) -> None:
        without = self.is_empty
        if without.any():
            raise ValueError(
                "credal set must have members: got bounds that no distribution satisfies in row "
                f"{without.argmax()} ({without.sum()} rows in all). Use empty='nan' to pass over."
            )

    def _ask(
        self, question: Callable[[Self], NDArray[Any]], empty: str, missing: float = np.nan
    ) -> NDArray[Any]:
        """The answer for every input, where the question may only be put to sets with members."""
        check_choice(empty, "empty", ("raise", "nan"))
        if empty == "raise":
            self._require_members()
        without = self.is_empty
        if not without.any():
            return question(self)
        answers = question(self[~without])
        result = np.full((len(self), *answers.shape[1:]), missing, dtype=answers.dtype)
        result[~without] = answers
        return result


@dataclass(frozen=True, eq=False, repr=False, init=False)
class IntervalCredalSet(CredalSet):
    """Probability intervals, one per input and class.

    For every input it stands for the box of distributions { p : lower <= p <= upper, sum p = 1 }.

    Parameters
    ----------
    lower, upper : (n, K) bounds in [0, 1].
    point : (n, K), optional. The prediction the intervals surround.
    classes : K names, optional.

    Notes
    -----
    The arrays are read-only. Rows are picked as from an array: ``c[3]``, ``c[:10]``, ``c[mask]``
    are credal sets again. Bounds that no distribution satisfies are kept; `is_empty` tells.

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

    def __init__(
        self, lower: Any, upper: Any, *, point: Any = None, classes: Iterable[Any] | None = None
    ) -> None:
        low, high, middle = check_bounds(lower, upper, point)
        self._hold(low, high, middle, check_class_names(classes, low.shape[1]))

    @classmethod
    def _trusted(
        cls, lower: Array, upper: Array, point: Array | None, classes: tuple[str, ...] | None
    ) -> Self:
        """A credal set of arrays that decal itself computed; nothing is copied or checked."""
        credal = cls.__new__(cls)
        credal._hold(lower, upper, point, classes)
        return credal

    def _hold(
        self, lower: Array, upper: Array, point: Array | None, classes: tuple[str, ...] | None
    ) -> None:
        for name, array in (("lower", lower), ("upper", upper), ("point", point)):
            if array is not None:
                array = array.view()
                array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "classes", classes)

    def __getitem__(self, rows: Any) -> Self:
        """The credal set of the chosen rows: an integer, a slice, a mask or a list of integers."""
        rows = row_index(rows, len(self))
        point = None if self.point is None else self.point[rows]
        return self._trusted(self.lower[rows], self.upper[rows], point, self.classes)

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        """(n,) True where no distribution satisfies the bounds."""
        slack = FEASIBILITY_TOLERANCE * self.shape[1]
        empty: NDArray[np.bool_] = np.any(self.lower > self.upper, axis=1)
        empty |= self.lower.sum(axis=1) > 1 + slack
        empty |= self.upper.sum(axis=1) < 1 - slack
        return empty

    def contains(self, distributions: Any, *, atol: float = 5e-4) -> NDArray[np.bool_]:
        """(n,) True where the row's distribution lies within the bounds, give or take `atol`.

        The default tolerance is that of the published numbers, whose bounds are rounded to three
        decimals.
        """
        p = check_distributions(distributions, shape=self.shape)
        atol = check_tolerance(atol, "atol")
        inside: NDArray[np.bool_] = (p >= self.lower - atol) & (p <= self.upper + atol)
        return np.asarray(inside.all(axis=1)) & ~self.is_empty

    def tighten(self) -> Self:
        """The same sets with reachable bounds: every bound is attained by some member.

        Bounds of empty rows are returned as they are.
        """
        room_up = 1 - self.lower.sum(axis=1, keepdims=True)
        room_down = self.upper.sum(axis=1, keepdims=True) - 1
        empty = self.is_empty[:, None]
        upper = np.where(empty, self.upper, np.minimum(self.upper, self.lower + room_up))
        lower = np.where(empty, self.lower, np.maximum(self.lower, self.upper - room_down))
        # Round-off in the two sums may let ends that coincide cross by an ulp.
        crossed = ~empty & (lower > upper)
        lower[crossed] = upper[crossed]
        return self._trusted(lower, upper, self.point, self.classes)

    def intersection_probability(self, *, empty: str = "raise") -> Array:
        """(n, K) the distribution that lies at the same fraction of every reachable interval.

        l + d (1 - sum l) / (sum u - sum l) with d = u - l: the one point of the line from lower to
        upper that sums to one.
        """

        def between(credal: Self) -> Array:
            low, high = credal._reachable
            missing = 1 - low.sum(axis=1, keepdims=True)
            total = (high - low).sum(axis=1, keepdims=True)
            share = np.divide(missing, total, out=np.zeros_like(total), where=total > 0)
            return np.asarray(low + (high - low) * share)

        return self._ask(between, empty)

    def lower_entropy(self, *, max_nodes: int = entropy.MAX_NODES) -> entropy.LowerEntropy:
        """The lower entropy with its certificate: value, bound, nodes and exact, (n,) each.

        Parameters
        ----------
        max_nodes : budget of the search, per input. Real boxes need 1 to 30.
        """
        self._require_members()
        return entropy.lower_entropy(*self._reachable, max_nodes=max_nodes)

    def hartley(self) -> measures.Hartley:
        """The generalised Hartley measure as a bracket: lower, upper and exact, (n,) each."""
        self._require_members()
        return measures.hartley(*self._reachable)

    @cached_property
    def _reachable(self) -> tuple[Array, Array]:
        tight = self.tighten()
        return tight.lower, tight.upper

    def _lower_entropy(self) -> Array:
        found = entropy.lower_entropy(*self._reachable)
        if not found.exact.all():
            widest = float(np.max(found.value - found.bound))
            warnings.warn(
                f"the lower entropy of {np.sum(~found.exact)} inputs is only known within "
                f"{widest:.2g} nats; see lower_entropy(max_nodes=...)",
                BracketWarning,
                stacklevel=_frames_within_this_module(),
            )
        return found.value

    def _upper_entropy(self) -> Array:
        return entropy.upper_entropy(*self._reachable)

    def _zero_one(self) -> Array:
        return measures.zero_one(*self._reachable)

    def _expectation(self, values: Array) -> tuple[Array, Array]:
        return decisions.expectation(*self._reachable, values)

    def _decide(self, rule: str, utility: Array | None, optimism: float) -> Mask | Indices:
        return decisions.decide(*self._reachable, rule, utility=utility, optimism=optimism)


def _frames_within_this_module() -> int:
    """The stacklevel at which a warning names the caller's line, however deep it arose."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame, depth = frame.f_back, depth + 1
    return depth


def row_index(rows: Any, count: int) -> Any:
    """What picks rows of an array and keeps it a matrix."""
    if isinstance(rows, tuple):
        raise IndexError("a credal set is indexed by rows only: use .lower[row, class]")
    if isinstance(rows, int | np.integer):
        if not -count <= rows < count:
            raise IndexError(f"row {rows} is out of range for {count} inputs")
        return [rows]
    return rows
