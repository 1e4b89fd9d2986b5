"""Evaluation: what sets keep and miss of labelled inputs, in counts that add up over chunks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from decal._base.errors import counted, needs
from decal._base.numerics import Array, Indices, Mask
from decal.credal import CredalSet
from decal.votes import Votes

if TYPE_CHECKING:
    import pandas as pd

LINES_SHOWN = 5  # classes, and sizes of sets, that are printed
LINE = 96  # columns


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How good sets are on labelled inputs: counts, which add up, and the shares made of them.

    Attributes
    ----------
    class_rows, class_misses : (K,) arrays
        Inputs of each true class, and those whose true class is not kept. An input with several
        labels is of each class by its share of them: misses are then shares of labels, on average
        over inputs, as `miss` promises them.
    size_rows, size_misses : (K + 1,) arrays
        Likewise for the number of classes that are kept, from 0 on.
    right, widths : float
        How many plain predictions are right; and the sum over inputs of their mean width.
    units, unit_misses, bad_units : float
        Images, or other units, if inputs come in such; the sum of the share of labels that each
        one misses; and how many miss more than the promise tolerates.
    promise, classes : Promise, tuple of str
        What was promised, and the names of the classes; None if there is none.
    """

    class_rows: Indices | Array
    class_misses: Indices | Array
    size_rows: Indices
    size_misses: Indices | Array
    right: float = 0.0
    widths: float = 0.0
    units: float = 0.0
    unit_misses: float = 0.0
    bad_units: float = 0.0
    promise: Any = None
    classes: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        sets: CredalSet,
        kept: Mask,
        labels: Indices | Votes,
        predicted: Indices,
        promise: Any = None,
    ) -> Self:
        """Of n inputs: their sets, the classes (n, K) kept, true labels and plain predictions."""
        n, K = kept.shape
        row, size = np.arange(n), kept.sum(axis=1)
        missed: Mask | Array
        if isinstance(labels, Votes):
            shares, missed = labels.shares, labels.missed(kept)
            of_classes = shares.sum(axis=0), (shares * ~kept).sum(axis=0)
            right = shares[row, predicted].sum()
        else:
            missed = ~kept[row, labels]
            of_classes = (
                np.bincount(labels, minlength=K),
                np.bincount(labels[missed], minlength=K),
            )
            right = (predicted == labels).sum()
        found = cls(
            *of_classes,
            np.bincount(size, minlength=K + 1),
            np.bincount(size, missed, minlength=K + 1),
            float(right),
            float((sets.upper - sets.lower).sum() / K),
            promise=promise,
            classes=sets.classes,
        )
        rated = isinstance(labels, Votes) and found._tolerated is not None
        return found.with_units(missed, row) if rated else found

    def with_units(self, missed: Mask | Array, units: Indices) -> Self:
        """With the units (n,) that inputs are parts of, of which these, or shares, are `missed`."""
        _, which, rows = np.unique(units, return_inverse=True, return_counts=True)
        shares = np.bincount(which, missed, minlength=len(rows)) / rows
        bad = 0.0 if self._tolerated is None else float((shares > self._tolerated).sum())
        found, missing = float(len(rows)), float(shares.sum())
        return replace(self, units=found, unit_misses=missing, bad_units=bad)

    def __add__(self, other: Evaluation) -> Self:
        """Of the inputs of both."""
        plain = [f.name for f in fields(self) if f.name not in ("promise", "classes")]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in plain})

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """Of the inputs of all parts, of which there is one or more."""
        return reduce(add, parts)

    # Shares

    @property
    def rows(self) -> int:
        """Inputs in all."""
        return int(self.size_rows.sum())

    @property
    def miss_rate(self) -> float:
        """The share of inputs whose true class is not kept."""
        return float(self.class_misses.sum() / self.rows)

    @property
    def set_size(self) -> float:
        """The mean number of classes that are kept."""
        return float(self.size_rows @ np.arange(len(self.size_rows)) / self.rows)

    @property
    def single(self) -> float:
        """The share of inputs of which one class alone is kept."""
        return float(self.size_rows[1] / self.rows)

    @property
    def width(self) -> float:
        """The mean width of all intervals."""
        return self.widths / self.rows

    @property
    def accuracy(self) -> float:
        """The share of inputs of which the largest logit is that of the true class."""
        return self.right / self.rows

    @property
    def class_miss_rates(self) -> Array:
        """(K,) the share of each class's inputs that are missed; NaN of a class without inputs."""
        return _shares(self.class_misses, self.class_rows)

    @property
    def class_gap(self) -> float:
        """How far miss rates of classes are from the one promised, or of all, in their mean."""
        promised = self.promise is not None and self.promise.kind == "miss"
        wanted = self.promise.target if promised else self.miss_rate
        return float(np.nanmean(np.abs(self.class_miss_rates - wanted)))

    @property
    def size_coverage(self) -> Array:
        """(K + 1,) the share of inputs with so many kept classes that one of them is true."""
        return 1.0 - _shares(self.size_misses, self.size_rows)

    @property
    def unit_miss_rate(self) -> float | None:
        """The mean over units of the share of labels that is missed; None without units."""
        return self.unit_misses / self.units if self.units else None

    @property
    def bad_unit_rate(self) -> float | None:
        """The share of units of which more is missed than the promise tolerates."""
        asked = self._tolerated is not None and self.units
        return self.bad_units / self.units if asked else None

    @property
    def _tolerated(self) -> float | None:
        return getattr(self.promise, "tolerate", None)

    # Reading it

    def names(self) -> list[str]:
        """The names of the classes, or their numbers."""
        return [*(self.classes or map(str, range(len(self.class_rows))))]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers by name: of all inputs, of classes that have some, of sizes of sets."""
        single = ("rows", "miss_rate", "set_size", "single", "width", "accuracy", "class_gap")
        of_units = ("unit_miss_rate", "bad_unit_rate")
        found: dict[str, Any] = {name: getattr(self, name) for name in single}
        found |= {k: v for k in of_units if (v := getattr(self, k)) is not None}
        missed, covered = self.class_miss_rates, self.size_coverage
        some = np.flatnonzero(self.class_rows)
        found["class_miss_rates"] = {self.names()[k]: float(missed[k]) for k in some}
        found["size_coverage"] = {int(k): float(covered[k]) for k in self._sizes}
        return found

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with a row for each class, whose name is the index."""
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        columns = {"rows": self.class_rows, "misses": self.class_misses}
        index = pd.Index(self.names(), name="class")
        return pd.DataFrame(columns | {"miss_rate": self.class_miss_rates}, index=index)

    @property
    def _sizes(self) -> Indices:
        """How many classes are kept of some inputs."""
        return np.flatnonzero(self.size_rows)

    def __repr__(self) -> str:
        K = len(self.class_rows)
        lines = [f"Evaluation: {counted(self.rows, 'input')}, {K:,} classes", *self._sentences()]
        lines = [textwrap.fill(line, LINE) for line in lines]
        worst = np.argsort(-np.nan_to_num(self.class_miss_rates, nan=-1.0), kind="stable")
        shown = [k for k in worst[:LINES_SHOWN] if self.class_rows[k]]
        by_class = (self.names(), self.class_rows, self.class_misses)
        sizes = ([*map(str, range(K + 1))], self.size_rows, self.size_misses)
        lines += _table("class", shown, *by_class, int((self.class_rows > 0).sum()))
        return "\n".join(
            lines + _table("kept", self._sizes[:LINES_SHOWN], *sizes, len(self._sizes))
        )

    def _sentences(self) -> list[str]:
        """What was promised, and what was found."""
        said = [] if self.promise is None else [f"Promised: {self.promise.brief}."]
        unit = getattr(self.promise, "unit", None) or "unit"
        labels = "an input's labels" if self.class_rows.dtype.kind == "f" else "the labels"
        found = f"Found: {self.miss_rate:.1%} of {labels} are outside the kept classes"
        if self.units:
            found += f", {self.unit_miss_rate:.1%} on average"
            found += f" over {counted(self.units, unit)}"
        if self.bad_unit_rate is not None:
            bad = f"{self.promise.tolerate:g} of their labels in {self.bad_unit_rate:.1%} of them"
            found += f", and more than {bad}"
        return [
            *said,
            f"{found}.",
            f"{self.set_size:.3g} of {len(self.class_rows):,} classes are kept on average, one "
            f"alone for {self.single:.0%}. Intervals are {self.width:.3g} wide on average. The "
            f"plain prediction is right for {self.accuracy:.1%}.",
        ]


def _shares(some: Indices | Array, of: Indices | Array) -> Array:
    """Quotients of counts, NaN without any."""
    found: Array = np.divide(some, of, out=np.full(len(of), np.nan), where=of > 0)
    return found


def _table(
    heading: str, shown: Iterable[int], names: list[str], rows: Any, misses: Any, total: int
) -> list[str]:
    """Lines of a table: so many rows of the data, and which share of them is missed."""
    chosen = [*shown]
    room = max(len(heading), *(len(names[k]) for k in chosen))
    lines = [f"  {heading:<{room}}  {'inputs':>9}  missed"]
    digits = int(rows.dtype.kind == "f")  # of shares of inputs
    lines += [
        f"  {names[k]:<{room}}  {rows[k]:>9,.{digits}f}  {misses[k] / rows[k]:>6.1%}"
        for k in chosen
    ]
    more = total - len(chosen)
    return lines + ([f"  … and {more:,} more"] if more else [])
