"""Tables and claims that comparisons of all methods share, from their rows alone."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from decal._experiments.comparison.entries import Entry, curves
from decal._experiments.comparison.plan import (
    BOTH,
    CLASS,
    COLUMNS,
    ONE_NETWORK,
    SEVERAL_NETWORKS,
    SHOWN,
    Plan,
)
from decal._experiments.harness.reports import Claim, Sections, number
from decal._experiments.harness.rows import Row, RowStore

SECTIONS = {
    "Decalibration": (CLASS, BOTH),
    "One network": tuple(m for m in ONE_NETWORK if m not in (CLASS, BOTH)),
    "Several networks": SEVERAL_NETWORKS,
}
Columns = tuple[tuple[str, str, str, int], ...]
"""Column, heading in files and in the terminal, and digits."""

DRAWN_COLUMNS: Columns = (
    ("coverage", "coverage", "coverage", 3),
    ("efficiency", "efficiency", "efficiency", 3),
    ("coverage_hull", "coverage of the hull", "hull", 3),
    ("accuracy", "accuracy", "acc.", 3),
    ("ece", "ECE", "ECE", 3),
)
HULL_NOTE = (
    "Coverage of hulls: by the box around them, as the efficiency is;\n"
    "in the column of its own, by the hull itself"
)

SPREAD = ("auroc_mnist", "auroc_notmnist", "coverage")
"""Columns with a standard deviation even in the terminal."""


def rows_of(store: RowStore, plan: Plan, seeds: tuple[int, ...], labels: str) -> list[Row]:
    """The rows of a plan with one kind of labels."""
    return [
        row
        for cell, rows in store.cells.items()
        if cell.data == plan.data(labels) and cell.seed in seeds
        for row in rows
    ]


def shown(found: Iterable[Entry]) -> list[Entry]:
    """Those at the levels of tables."""
    return [e for e in found if e.method not in SHOWN or e.alpha in SHOWN[e.method]]


def tabled(
    found: list[Entry], columns: Columns, *, narrow: bool
) -> tuple[tuple[str, ...], Sections]:
    """Headings and sections of a table: the columns that have any number.

    Parameters
    ----------
    found : rows of the table.
    columns : that it may have.
    narrow : for a terminal: short headings, and few standard deviations.
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
    """Whether decalibration covers as much as each method of several networks that covers any."""
    found = curves(drawn)
    claims = []
    for method in SEVERAL_NETWORKS:
        if method not in found or not {CLASS, BOTH} <= found.keys():
            continue
        # Each at its highest coverage, the others at the same efficiency.
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
    """What went wrong in trainings, once."""
    return list(dict.fromkeys(_warnings(rows)))


def _warnings(rows: Iterable[Row]) -> Iterable[str]:
    for row in rows:
        if row["warnings"]:
            networks = row["method"] if row["method"] not in ONE_NETWORK else "the first network"
            yield f"{row['labels']} labels, seed {row['seed']}, {networks}: {row['warnings']}"


def write_csv(file: Any, by_labels: Mapping[str, list[Entry]]) -> None:
    """Means and standard deviations over seeds, of all levels."""
    numbers = [c for c, kind in COLUMNS.items() if kind is float and c != "alpha"]
    writer = csv.writer(file, lineterminator="\n")
    both = [f"{column}{end}" for column in numbers for end in ("", "_sd")]
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
