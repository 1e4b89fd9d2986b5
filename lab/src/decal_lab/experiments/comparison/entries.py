"""Rows of a comparison of all methods, gathered over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from decal_lab.experiments.comparison.plan import COLUMNS, CREDAL, METHODS, SHOWN
from decal_lab.experiments.harness import figures
from decal_lab.experiments.harness.curves import Curve
from decal_lab.experiments.harness.rows import Row


@dataclass(frozen=True)
class Entry:
    """One method at one alpha, over all seeds: a row of the tables.

    Attributes
    ----------
    method : str
        Name of the method.
    alpha : float
        Its level; NaN for methods without alpha.
    values : mapping of str to list of float
        By column, a number per seed; columns without any number are absent.
    """

    method: str
    alpha: float
    values: dict[str, list[float]]

    def mean(self, column: str) -> float:
        """The mean over seeds; NaN if there are no numbers."""
        return float(np.mean(self.values[column])) if column in self.values else math.nan

    def seconds(self, column: str) -> float:
        """The least over seeds, since other work on the machine can only add to it; or NaN."""
        return min(self.values.get(column, ()), default=math.nan)

    def text(self, column: str, digits: int = 3, *, spread: bool = True) -> str:
        """Mean ± standard deviation over seeds; for seconds, the least."""
        if column not in self.values:
            return "–"
        if column.endswith("seconds"):
            return f"{self.seconds(column):.{digits}f}"
        values = self.values[column]
        middle = f"{np.mean(values):.{digits}f}"
        if len(values) < 2 or not spread:
            return middle
        return f"{middle} ± {np.std(values, ddof=1):.{digits}f}"

    @property
    def level(self) -> str:
        """Alpha as text; empty if there is none."""
        return "" if math.isnan(self.alpha) else f"{self.alpha:g}"


def entries(rows: Iterable[Row]) -> list[Entry]:
    """Rows of one kind of labels, gathered over seeds, in the order of tables."""
    found: dict[tuple[str, str], Entry] = {}
    for row in rows:
        key = (row["method"], str(row["alpha"]))
        entry = found.setdefault(key, Entry(row["method"], row["alpha"], {}))
        for column, kind in COLUMNS.items():
            if kind is float and column != "alpha" and not math.isnan(row[column]):
                entry.values.setdefault(column, []).append(row[column])
    levels = {method: list(SHOWN.get(method, ())) for method in METHODS}

    def place(entry: Entry) -> tuple[int, int, float]:
        shown = levels[entry.method]
        at = shown.index(entry.alpha) if entry.alpha in shown else len(shown)
        return METHODS.index(entry.method), at, -entry.alpha

    return sorted(found.values(), key=place)


def curves(drawn: list[Entry]) -> dict[str, Curve]:
    """Coverage against efficiency of every credal method, by falling efficiency."""
    found = {}
    for method in CREDAL:
        own = sorted(
            (e for e in drawn if e.method == method and "coverage" in e.values),
            key=lambda e: -e.mean("efficiency"),
        )
        if own:
            numbers = [(e.alpha, e.mean("coverage"), e.mean("efficiency")) for e in own]
            found[method] = Curve(*np.array(numbers).T)
    return found


def paths(found: Mapping[str, Curve]) -> dict[str, figures.Tradeoff]:
    """Curves to draw. Methods without alpha discard nothing, and get the colour of alpha = 0."""
    return {name: (np.nan_to_num(c.alpha), c.coverage, c.efficiency) for name, c in found.items()}
