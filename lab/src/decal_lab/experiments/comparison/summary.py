"""Tables and claims that both comparisons of all methods share, made from rows alone."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping

import numpy as np

from decal_lab.experiments.comparison.entries import Entry, curves
from decal_lab.experiments.comparison.plan import (
    BOTH,
    CLASS,
    COLUMNS,
    ONE_NETWORK,
    SEVERAL_NETWORKS,
    SHOWN,
    Plan,
)
from decal_lab.experiments.harness.reports import Claim, Sections, number
from decal_lab.experiments.harness.rows import Row, RowStore

SECTIONS = {
    "Decalibration": (CLASS, BOTH),
    "One network": tuple(m for m in ONE_NETWORK if m not in (CLASS, BOTH)),
    "Several networks": SEVERAL_NETWORKS,
}
Columns = tuple[tuple[str, str, str, int], ...]
"""Of each column: its name, its headings in files and in the terminal, and its digits."""

DRAWN_COLUMNS: Columns = (
    ("coverage", "coverage", "coverage", 3),
    ("efficiency", "efficiency", "efficiency", 3),
    ("coverage_hull", "coverage of the hull", "hull", 3),
    ("accuracy", "accuracy", "acc.", 3),
    ("ece", "ECE", "ECE", 3),
)
HULL_NOTE = (
    "coverage of methods that predict hulls: of the box around them, like the efficiency\n"
    "coverage of the hull: of the hull itself"
)

SPREAD = ("auroc_mnist", "auroc_notmnist", "coverage")
"""Columns whose standard deviation the terminal shows too."""


def rows_of(store: RowStore, plan: Plan, seeds: tuple[int, ...], labels: str) -> list[Row]:
    """The rows of a plan with one kind of labels."""
    return [
        row
        for cell, rows in store.cells.items()
        if cell.data == plan.data(labels) and cell.seed in seeds
        for row in rows
    ]


def shown(found: Iterable[Entry]) -> list[Entry]:
    """The entries at the levels of tables."""
    return [e for e in found if e.method not in SHOWN or e.alpha in SHOWN[e.method]]


def tabled(
    found: list[Entry], columns: Columns, *, narrow: bool
) -> tuple[tuple[str, ...], Sections]:
    """Headings and sections of a table: the columns that have any number.

    Parameters
    ----------
    found : list of Entry
        Rows of the table.
    columns : Columns
        Columns that it may have.
    narrow : bool
        Whether it must fit a terminal: with short headings and few standard deviations.
    """
    present = [c for c in columns if any(c[0] in entry.values for entry in found)]
    headings = ("method", "alpha", *(c[2] if narrow else c[1] for c in present))
    sections: Sections = {}
    for heading, methods in SECTIONS.items():
        for e in found:
            if e.method in methods:
                numbers = [
                    e.text(column, digits, spread=column in SPREAD or not narrow)
                    for column, *_, digits in present
                ]
                name = e.method.removeprefix("Decalibration, ")
                sections.setdefault(heading, []).append((name, e.level, *numbers))
    return headings, sections


def coverage_claims(drawn: list[Entry]) -> list[Claim]:
    """Whether decalibration covers as much as each method of several networks with any coverage."""
    found = curves(drawn)
    claims = []
    for method in SEVERAL_NETWORKS:
        if method not in found or not {CLASS, BOTH} <= found.keys():
            continue
        # Each method at its highest coverage, decalibration at the same efficiency.
        at = int(found[method].coverage.argmax())
        efficiency, reached = found[method].efficiency[at], found[method].coverage[at]
        if not reached:
            continue
        own = {m: found[m].at(efficiency) for m in (CLASS, BOTH)}
        what = f"At the efficiency of {method}, {efficiency:.2f}, where it covers {reached:.3f}"
        if math.isnan(own[BOTH]):
            text = f"{what}, class + temperature covers as much: no alpha is that narrow"
        else:
            text = (
                f"{what}, class + temperature covers as much: {own[BOTH]:.3f} "
                f"(class alone {number(own[CLASS])})"
            )
        claims.append(Claim(text, bool(own[BOTH] >= reached)))
    return claims


def notes_of(rows: Iterable[Row]) -> list[str]:
    """Warnings of trainings, without repetition."""
    return list(dict.fromkeys(_warnings(rows)))


def _warnings(rows: Iterable[Row]) -> Iterable[str]:
    for row in rows:
        if row["warnings"]:
            networks = row["method"] if row["method"] not in ONE_NETWORK else "the first network"
            yield f"{row['labels']} labels, seed {row['seed']}, {networks}: {row['warnings']}"


def csv_text(by_labels: Mapping[str, list[Entry]]) -> str:
    """Means and standard deviations over seeds at all levels, as a .csv file."""
    file = io.StringIO()
    numbers = [c for c, kind in COLUMNS.items() if kind is float and c != "alpha"]
    writer = csv.writer(file, lineterminator="\n")
    both = [f"{column}{suffix}" for column in numbers for suffix in ("", "_sd")]
    writer.writerow(["labels", "method", "alpha", "seeds", *both])
    for labels, found in by_labels.items():
        for e in found:
            texts = []
            for column in numbers:
                values = e.values.get(column, [])
                sd = np.std(values, ddof=1) if len(values) > 1 else math.nan
                texts += ["" if math.isnan(x) else f"{x:.6g}" for x in (e.mean(column), sd)]
            seeds = max(map(len, e.values.values()), default=0)
            writer.writerow([labels, e.method, e.level, seeds, *texts])
    return file.getvalue()
