"""Refutation by cells: how often a label occurs among similar inputs, against the bounds there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decal._base.errors import InputError, needs
from decal._base.numerics import Array, Indices, Mask
from decal._base.settings import check_choice, check_count, check_share
from decal.credal import CredalSet, IntervalCredalSet
from decal.evaluate._tails import at_least, at_most, holm
from decal.grids import CredalMaps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOT_VALID", "LabelledSets", "Refutation", "refute"]

NOT_VALID = "Not refuted is not valid: sets can miss the truth at every input and pass."
"""What every result says when it refutes nothing."""

FEWEST_ROWS = 10  # bins with fewer rows than this join a neighbour

CELLS_SHOWN = 10


@dataclass(frozen=True)
class LabelledSets:
    """Bounds that members attain, the prediction they surround, and the labels."""

    lower: Array  # (n, K), reachable
    upper: Array
    point: Array  # (n, K); without a prediction, the intersection probability
    labels: Indices  # (n,)
    credal: CredalSet  # what was asked about; of maps, all inputs that are not ignored

    @classmethod
    def of(cls, credal: Any, labels: Any, ignore_index: int | None = None) -> LabelledSets:
        """From sets, or maps, that have members in every row, at least one row and two classes."""
        if isinstance(credal, CredalMaps):
            credal, labels = credal.labelled(labels, ignore_index)
        elif ignore_index is not None:
            raise InputError("ignore_index", "go with CredalMaps", type(credal).__name__)
        if not isinstance(credal, CredalSet):
            raise InputError(
                "credal",
                "be a credal set",
                type(credal).__name__,
                "Use decal.IntervalCredalSet or decal.HullCredalSet.",
            )
        n, K = credal.shape
        if n == 0 or K < 2:
            fact = f"{n} inputs, {K} classes"
            raise InputError("credal", "have an input and two classes, or more", fact)
        without = credal.is_empty
        if without.any():
            where = f"in row {without.argmax()} ({without.sum()} rows in all)"
            fact = f"bounds that no distribution satisfies {where}"
            raise InputError("credal", "have members in every row", fact, "Leave such rows out.")
        y = credal.check_labels(labels)
        tight = credal.tighten()
        lower, upper, point = tight.lower, tight.upper, credal.point
        if point is None:
            point = IntervalCredalSet(lower, upper).intersection_probability()
        return cls(lower, upper, np.clip(point, lower, upper), y, credal)


@dataclass(frozen=True, eq=False, repr=False)
class Refutation:
    """Which cells of a credal set the labels refute: (C,) arrays, an entry per cell; `print` it.

    Attributes
    ----------
    column : (C,) integers
        The class of each cell; -1 for the most probable class, whichever it is.
    rows : (C,) integers
        Inputs in the cell.
    point, frequency : (C,) arrays
        Mean prediction of the class, and share of the inputs with this label.
    lower, upper : (C,) arrays
        Between which the expected frequency lies if the sets hold the truth: the mean bounds,
        widened if there may be exceptions.
    p_values : (C,) array
        For each cell, adjusted for the number of cells: those up to the level are refuted.
    level, exceptions, examples, classes
        As given to `refute`, the number of labels, and the names of the classes.
    """

    column: Indices
    rows: Indices
    point: Array
    frequency: Array
    lower: Array
    upper: Array
    p_values: Array
    level: float
    exceptions: float
    examples: int
    classes: tuple[str, ...]

    @property
    def cells(self) -> Mask:
        """(C,) True where the labels refute the bounds."""
        return np.asarray(self.p_values <= self.level)

    @property
    def p_value(self) -> float:
        """The least p-value: of "all sets hold the truth"."""
        return float(self.p_values.min())

    @property
    def refuted(self) -> bool:
        """Whether any cell is refuted: then the sets do not hold the truth at every input."""
        return self.p_value <= self.level

    def names(self) -> list[str]:
        """The class of each cell in words."""
        return ["most probable" if k < 0 else self.classes[k] for k in self.column]

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with one row per cell."""
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        columns = ("rows", "point", "frequency", "lower", "upper")
        return pd.DataFrame(
            {"class": self.names()}
            | {name: getattr(self, name) for name in columns}
            | {"p_value": self.p_values, "refuted": self.cells}
        )

    def __repr__(self) -> str:
        C, found = len(self.rows), np.flatnonzero(self.cells)
        said = f"{len(found)} of {C} cells refuted" if len(found) else f"none of {C} cells refuted"
        lines = [
            f"Refutation: {said} at level {self.level:g}, {self.examples:,} examples"
            + (f", exceptions {self.exceptions:g}" if self.exceptions else "")
        ]
        if not len(found):
            return "\n".join([f"{lines[0]}, least p-value {self.p_value:.3g}", f"  {NOT_VALID}"])
        worst = found[np.lexsort((-self.excess()[found], self.p_values[found]))][:CELLS_SHOWN]
        names = self.names()
        room = max(5, *(len(names[c]) for c in worst))
        lines.append(f"  {'class':<{room}}    rows  point  frequency  lower  upper  p-value")
        lines += [
            f"  {names[c]:<{room}} {self.rows[c]:7,d}  {self.point[c]:.3f}      "
            f"{self.frequency[c]:.3f}  {self.lower[c]:.3f}  {self.upper[c]:.3f}  "
            f"{self.p_values[c]:.2g}"
            for c in worst
        ]
        if len(worst) < len(found):
            lines.append(f"  … {len(found) - len(worst)} more")
        return "\n".join(lines)

    def excess(self) -> Array:
        """(C,) how far each frequency lies outside the bounds."""
        outside = np.maximum(self.frequency - self.upper, self.lower - self.frequency)
        return np.maximum(outside, 0.0)


def refute(
    credal: CredalSet | CredalMaps,
    labels: Any,
    *,
    by: str = "class",
    bins: int = 10,
    level: float = 0.05,
    exceptions: float = 0.0,
    ignore_index: int | None = None,
) -> Refutation:
    """Where label frequencies contradict the bounds, among inputs of similar prediction.

    **The null hypothesis**: at every input the true distribution lies in the credal set, and labels
    are independent given the inputs. Then in any cell (a class and a bin of inputs that was chosen
    without the labels) the number of labels of the class is a count of independent events, whose
    probabilities lie between their own bounds. So the count's upper tail is at most that of events
    with the upper bounds, a Poisson-binomial distribution; likewise below. Both tails are computed
    exactly, doubled, and adjusted for the number of cells (Holm, 1979): if the hypothesis holds,
    the probability that any cell is refuted is at most the level, for every number of examples.

    **What it does not say.** A refuted cell proves, at the level, that some sets miss the truth.
    No refuted cell proves nothing: a bin sees only the mean over its inputs.

    Parameters
    ----------
    credal : CredalSet
        n inputs, K classes; fixed without looking at these labels.
    labels : (n,) integers
        Their labels, not used to train or fit the model.
    by : str
        "class": cells are classes × bins. "top": one row of cells for the most probable class,
        whichever it is, which pools all classes; for many classes it has more power.
    bins : int
        Bins of each class's prediction, at most; equally wide in arcsin(sqrt(p)), so finer near 0
        and 1, and joined until each holds ten inputs.
    level : float
        Accepted probability of refuting sets that hold the truth, in (0, 1).
    exceptions : float
        Share of inputs, in [0, 1), whose sets may miss the truth: those of a guarantee with
        delta. Each cell must allow that all exceptions of the sample lie in it, so bounds of small
        cells become vacuous.
    ignore_index : int, optional
        Inputs of `decal.CredalMaps` with this label are left out. (Labels of pixels are hardly
        independent given the image: then a refutation proves less.)

    Notes
    -----
    With exceptions, a sample of n holds no more than m of them but with probability level / 10,
    where m is that quantile of a binomial distribution; that probability is added to the p-values.
    In each cell the m inputs of the smallest upper bound are taken to be certain, which makes the
    count largest in distribution. O(n log² n) per class.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(0.1, 0.9, 1000)
    >>> y = (rng.random(1000) < truth).astype(int)
    >>> p = np.stack([1 - truth, truth], axis=1)
    >>> wide = decal.IntervalCredalSet(np.maximum(p - 0.1, 0), np.minimum(p + 0.1, 1))
    >>> decal.calibration.refute(wide, y)
    Refutation: none of 12 cells refuted at level 0.05, 1,000 examples, least p-value 1
      Not refuted is not valid: sets can miss the truth at every input and pass.
    >>> decal.calibration.refute(wide, 1 - y).refuted
    True
    """
    data = LabelledSets.of(credal, labels, ignore_index)
    check_choice(by, "by", ("class", "top"))
    bins = check_count(bins, "bins")
    level = check_share(level, "level", positive=True)
    exceptions = check_share(exceptions, "exceptions")
    n, K = data.lower.shape
    allowed, paid = _allowed(n, exceptions, level)
    names = data.credal.classes or tuple(str(k) for k in range(K))
    columns: list[int] = []
    rows: list[int] = []
    found: list[list[float]] = []
    for k in range(K) if by == "class" else (-1,):
        at = data.point.argmax(axis=1) if k < 0 else np.full(n, k)
        each = np.arange(n)
        low, high, point = (a[each, at] for a in (data.lower, data.upper, data.point))
        occurs = data.labels == at
        for cell in bins_of(point, bins):
            least, most = _widened(low[cell], high[cell], allowed)
            count = int(occurs[cell].sum())
            means = (point[cell], occurs[cell], least, most)
            columns.append(k)
            rows.append(len(cell))
            found.append([*(float(x.mean()) for x in means), cell_p_value(count, least, most)])
    mean, frequency, lower, upper, p_values = np.array(found).T
    return Refutation(
        np.array(columns), np.array(rows), mean, frequency, lower, upper,
        np.minimum(holm(p_values) + paid, 1.0), level, exceptions, n, names,
    )  # fmt: skip


def cell_p_value(count: int, lower: Array, upper: Array) -> float:
    """Of "events with probabilities between these bounds occurred `count` times"; two-sided."""
    if count > upper.sum():
        return min(1.0, 2 * at_least(count, upper))
    if count < lower.sum():
        return min(1.0, 2 * at_most(count, lower))
    return 1.0  # between the two: neither tail can be below one half by much


def bins_of(point: Array, bins: int) -> list[Indices]:
    """Rows of each bin, by rising prediction; at least FEWEST_ROWS each if there are as many."""
    angle = np.arcsin(np.sqrt(np.clip(point, 0.0, 1.0))) * (2 / np.pi)
    bin_of = np.minimum((angle * bins).astype(np.intp), bins - 1)
    groups: list[list[Indices]] = [[]]
    for b in range(bins):
        if sum(map(len, groups[-1])) >= FEWEST_ROWS:
            groups.append([])
        groups[-1].append(np.flatnonzero(bin_of == b))
    if len(groups) > 1 and sum(map(len, groups[-1])) < FEWEST_ROWS:
        rest = groups.pop()
        groups[-1] += rest
    return [np.sort(np.concatenate(group)) for group in groups]


def _widened(lower: Array, upper: Array, allowed: int) -> tuple[Array, Array]:
    """Bounds that hold whichever `allowed` of the inputs are exceptions."""
    if allowed == 0:
        return lower, upper
    low, high = np.sort(lower), np.sort(upper)
    low[max(len(low) - allowed, 0) :] = 0.0
    high[:allowed] = 1.0
    return low, high


def _allowed(n: int, exceptions: float, level: float) -> tuple[int, float]:
    """Most exceptions to count with among n inputs, and the probability of still more."""
    if exceptions == 0:
        return 0, 0.0
    share, paid = np.full(n, exceptions), 0.1 * level
    few, many = math.floor(n * exceptions) - 1, n  # P(S > few) > paid >= P(S > many)
    while many - few > 1:
        middle = (few + many) // 2
        if at_least(middle + 1, share) <= paid:
            many = middle
        else:
            few = middle
    return many, paid
