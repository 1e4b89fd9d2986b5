"""What is said about class frequencies: estimates with intervals, and whether they changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decal._base.errors import counted, needs
from decal._base.markup import bar, table
from decal._base.numerics import Array

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

ROWS_SHOWN = 12

LEAST_P = 1e-300  # smaller p-values have no digits left


class ClassTable:
    """What has a row for each class: how it becomes a data frame."""

    classes: tuple[str, ...]

    def columns(self) -> dict[str, Array]:
        """(K,) columns by name."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with a row for each class, whose name is the index."""
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        return pd.DataFrame(self.columns(), index=pd.Index(self.classes, name="class"))

    def to_polars(self) -> pl.DataFrame:
        """A DataFrame with a row for each class, and its name in the column class."""
        with needs("polars", message="to_polars needs polars: pip install 'decal[polars]'"):
            import polars as pl
        columns: dict[str, Any] = {"class": list(self.classes), **self.columns()}
        return pl.DataFrame(columns)


@dataclass(frozen=True, eq=False, repr=False)
class Frequencies(ClassTable):
    """How frequent the classes are among unlabelled inputs.

    Attributes
    ----------
    estimate, before : (K,) arrays
        The most likely frequencies, and those where the model was calibrated.
    lower, upper : (K,) arrays
        Interval of each frequency, for itself.
    confidence, inputs, classes
        Of each interval; how many unlabelled inputs; and names.
    """

    estimate: Array
    lower: Array
    upper: Array
    before: Array
    confidence: float
    inputs: float
    classes: tuple[str, ...]

    @property
    def _title(self) -> str:
        inputs = counted(self.inputs, "input")
        classes = f"{len(self.classes):,} classes"
        return f"Frequencies: {inputs}, {classes}, intervals at {self.confidence:g}"

    @property
    def most_changed(self) -> list[int]:
        """Numbers of the classes, that whose frequency changed most first."""
        change = np.abs(self.estimate - self.before).round(9)
        return [int(k) for k in np.argsort(-change, kind="stable")]

    def columns(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in ("before", "estimate", "lower", "upper")}

    def __repr__(self) -> str:
        order = self.most_changed
        names = {k: _shortened(self.classes[k]) for k in order[:ROWS_SHOWN]}
        width = max(5, *map(len, names.values()))
        lines = [self._title, f"  {'class':<{width}}  before  now    interval"]
        lines += [
            f"  {name:<{width}}  {self.before[k]:.3f}   {self.estimate[k]:.3f}  "
            f"[{self.lower[k]:.3f}, {self.upper[k]:.3f}]"
            for k, name in names.items()
        ]
        return "\n".join(lines) + _rest(order, "\n  … and {:,} that changed less")

    def _repr_html_(self) -> str:
        order = self.most_changed
        rows = [
            (
                self.classes[k],
                f"{self.before[k]:.3f}",
                f"{self.estimate[k]:.3f}",
                f"{self.lower[k]:.3f} to {self.upper[k]:.3f}",
                bar(float(self.lower[k]), float(self.upper[k]), float(self.before[k])),
            )
            for k in order[:ROWS_SHOWN]
        ]
        note = "The tick is the frequency before."
        note += _rest(order, " {:,} further classes changed less.")
        return table(self._title, ("class", "before", "now", "interval", ""), rows, note=note)


@dataclass(frozen=True, eq=False, repr=False)
class ShiftTest(ClassTable):
    """Whether the class frequencies changed.

    Attributes
    ----------
    statistic : float
        Twice the log-likelihood that the frequencies where the model was calibrated lose against
        the most likely ones.
    p_value : float
        How often chance gives as much, if nothing changed.
    p_values : (K,) array
        That of each class's frequency, whatever the others are; NaN where not computed.
    classes : tuple of str
        Names.
    """

    statistic: float
    p_value: float
    p_values: Array
    classes: tuple[str, ...]

    def columns(self) -> dict[str, Array]:
        return {"p_value": self.p_values}

    def __repr__(self) -> str:
        title = f"ShiftTest: p-value {p_text(self.p_value)}, statistic {self.statistic:.4g}"
        smallest = np.argsort(self.p_values, kind="stable")[:ROWS_SHOWN]  # NaN comes last
        shown = [
            f"{_shortened(self.classes[k])} {p_text(self.p_values[k], 2)}"
            for k in smallest
            if not np.isnan(self.p_values[k])
        ]
        return f"{title}\n  by class, smallest first: {', '.join(shown)}" if shown else title


def p_text(p_value: float, digits: int = 3) -> str:
    """A p-value to so many digits; one that rounds to 0 is not 0."""
    return f"{p_value:.{digits}g}" if p_value > LEAST_P else f"below {LEAST_P:g}"


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"


def _rest(order: list[int], text: str) -> str:
    """A sentence about the classes that are not shown, if there are any."""
    left = len(order) - ROWS_SHOWN
    return text.format(left) if left > 0 else ""
