"""Tables, figures and claims of the comparison on images, from its rows alone."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from decal.experiments.fashion_entries import Entry, curves, entries
from decal.experiments.fashion_plan import (
    BOTH,
    CLASS,
    COLUMNS,
    DRAWN,
    ENERGY,
    ENTROPY,
    ONE_NETWORK,
    OUTSIDE,
    REAL,
    SEVERAL_NETWORKS,
    SHOWN,
    Plan,
)
from decal.experiments.report import Claim, Report, Table, number, seeds_text, write_tables
from decal.experiments.rows import Row, RowStore, replacing

SECTIONS = {
    "Decalibration": (CLASS, BOTH),
    "One network": tuple(m for m in ONE_NETWORK if m not in (CLASS, BOTH)),
    "Several networks": SEVERAL_NETWORKS,
}
Columns = tuple[tuple[str, str, str, int], ...]

TIMES_FASTER = 5
AUROC_TOLERANCE = 0.02
"""Differences in AUROC that do not matter."""


def report(
    store: RowStore,
    out: Path,
    *,
    plan: Plan,
    seeds: tuple[int, ...],
    needs: tuple[str, ...] = (),
) -> Report:
    """Write the tables and figures of a plan's rows, and sum them up for the terminal."""
    rows = {
        labels: [
            row
            for cell, cell_rows in store.cells.items()
            if cell.data == plan.data(labels) and cell.seed in seeds
            for row in cell_rows
        ]
        for labels in (REAL, DRAWN)
    }
    real, drawn = entries(rows[REAL]), entries(rows[DRAWN])
    shown = [e for e in drawn if e.method not in SHOWN or e.alpha in SHOWN[e.method]]
    notes = [*dict.fromkeys(_notes([*rows[REAL], *rows[DRAWN]])), *store.origins(seeds)]
    claims = tuple(_claims(real, drawn))
    parts = (plan, seeds, real, shown)
    full = replace(_tables(*parts, narrow=False), claims=claims, needs=needs)
    files = [store.path, *write_tables(full, out), out / "table.csv"]
    with replacing(files[-1]) as file:
        _write_csv(file, real, drawn)
    try:
        from decal.experiments.fashion_figures import draw

        files += draw(real, drawn, out)
    except ImportError as error:
        notes.append(str(error))
    slim = _tables(*parts, narrow=True)
    return replace(slim, claims=claims, needs=needs, notes=tuple(notes), files=tuple(files))


REAL_COLUMNS = (
    ("accuracy", "accuracy", "acc.", 3),
    ("ece", "ECE", "ECE", 3),
    ("auroc_mnist", "AUROC MNIST", "MNIST", 3),
    ("auroc_notmnist", "AUROC notMNIST", "notMNIST", 3),
    ("train_seconds", "training, s", "train", 1),
    ("predict_seconds", "prediction, s", "predict", 2),
)
DRAWN_COLUMNS = (
    ("coverage", "coverage", "coverage", 3),
    ("efficiency", "efficiency", "efficiency", 3),
    ("coverage_hull", "coverage of the hull", "hull", 3),
    ("accuracy", "accuracy", "acc.", 3),
    ("ece", "ECE", "ECE", 3),
)
"""Column, heading in files and in the terminal, and digits."""

SPREAD = ("auroc_mnist", "auroc_notmnist", "coverage")
"""Columns with a standard deviation even in the terminal."""


def _tables(
    plan: Plan, seeds: tuple[int, ...], real: list[Entry], drawn: list[Entry], *, narrow: bool
) -> Report:
    """Both tables, with standard deviations; narrow, for a terminal, with the foremost only."""
    over = "Mean ± standard deviation over seeds" if len(seeds) > 1 else "One seed"
    return Report(
        title=f"Fashion-MNIST, {seeds_text(seeds)}: detection and time",
        headings=_headings(real, REAL_COLUMNS, narrow=narrow),
        sections=_sections(real, REAL_COLUMNS, narrow=narrow),
        caption=(
            f"{over}. {plan.train:,} images to train each of {plan.members} networks\n"
            f"in {plan.epochs} epochs, {plan.held_out:,} others to fit decalibration; "
            f"{plan.test:,} to test, {plan.outside:,} of other kinds\n"
            "AUROC: by the difference of entropies, or by the method's own score\n"
            "Seconds of one core, least over seeds: to train all networks needed; to score the "
            "test images"
        ),
        further=(
            Table(
                title="Labels drawn from a forest: are its probabilities in the set?",
                headings=_headings(drawn, DRAWN_COLUMNS, narrow=narrow),
                sections=_sections(drawn, DRAWN_COLUMNS, narrow=narrow),
                caption=(
                    "Coverage of hulls: by the box around them, as the efficiency is;\n"
                    "in the column of its own, by the hull itself"
                ),
            ),
        ),
    )


def _present(found: list[Entry], columns: Columns) -> Columns:
    """Those columns that have any number."""
    return tuple(c for c in columns if any(c[0] in entry.values for entry in found))


def _headings(found: list[Entry], columns: Columns, *, narrow: bool) -> tuple[str, ...]:
    return ("method", "alpha", *(c[2] if narrow else c[1] for c in _present(found, columns)))


def _sections(
    found: list[Entry], columns: Columns, *, narrow: bool
) -> dict[str, list[tuple[str, ...]]]:
    sections: dict[str, list[tuple[str, ...]]] = {}
    for heading, methods in SECTIONS.items():
        for e in found:
            if e.method in methods:
                numbers = [
                    e.text(column, digits, spread=column in SPREAD or not narrow)
                    for column, *_, digits in _present(found, columns)
                ]
                name = e.method.removeprefix("Decalibration, ")
                sections.setdefault(heading, []).append((name, e.level, *numbers))
    return sections


# Claims


def _claims(real: list[Entry], drawn: list[Entry]) -> list[Claim]:
    """What was expected, after the paper and the theory, and whether it came so."""
    claims = []
    by_method: dict[str, list[Entry]] = {}
    for entry in real:
        by_method.setdefault(entry.method, []).append(entry)
    ensembles = {m: by_method[m] for m in SEVERAL_NETWORKS if m in by_method}
    if CLASS in by_method and ensembles:
        own = by_method[CLASS][0].seconds("train_seconds")
        fastest = min(ensembles, key=lambda m: ensembles[m][0].seconds("train_seconds"))
        ratio = ensembles[fastest][0].seconds("train_seconds") / own
        text = (
            f"Decalibration is ready {ratio:.1f} times sooner than the fastest of several "
            f"networks, {fastest} (expected {TIMES_FASTER} or more)"
        )
        claims.append(Claim(text, ratio >= TIMES_FASTER))
    for column, name in OUTSIDE.items():
        claims += _detection_claims(by_method, ensembles, column, name)
    return claims + _coverage_claims(drawn)


def _detection_claims(
    by_method: dict[str, list[Entry]], ensembles: dict[str, list[Entry]], column: str, name: str
) -> list[Claim]:
    best = {
        method: max(found, key=lambda e: e.mean(column))
        for method, found in by_method.items()
        if all(column in e.values for e in found)
    }
    ours = [best[m] for m in (CLASS, BOTH) if m in best]
    if not ours:
        return []
    own = max(ours, key=lambda e: e.mean(column))
    named = f"decalibration's best ({own.method.partition(', ')[2]}, alpha {own.level})"
    claims = []
    rivals = [best[m] for m in ensembles if m in best]
    if rivals:
        rival = max(rivals, key=lambda e: e.mean(column))
        text = (
            f"{name}: {named} detects as well as several networks' best, {_named(rival)}: "
            f"{own.mean(column):.3f} against {rival.mean(column):.3f}"
        )
        claims.append(Claim(text, own.mean(column) >= rival.mean(column) - AUROC_TOLERANCE))
    for method in (ENTROPY, ENERGY):
        if method in best:
            text = (
                f"{name}: {named} detects better than the {method.lower()} of the same network: "
                f"{own.mean(column):.3f} against {best[method].mean(column):.3f}"
            )
            claims.append(Claim(text, own.mean(column) > best[method].mean(column)))
    return claims


def _coverage_claims(drawn: list[Entry]) -> list[Claim]:
    found = curves(drawn)
    claims = []
    for method in SEVERAL_NETWORKS:
        if method not in found or not {CLASS, BOTH} <= found.keys():
            continue
        # Each at its highest coverage, the others at the same efficiency.
        at = int(found[method].coverage.argmax())
        efficiency, reached = found[method].efficiency[at], found[method].coverage[at]
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


def _named(entry: Entry) -> str:
    return f"{entry.method} ({entry.level})" if entry.level else entry.method


def _notes(rows: list[Row]) -> Iterable[str]:
    for row in rows:
        if row["warnings"]:
            networks = row["method"] if row["method"] not in ONE_NETWORK else "the first network"
            yield f"{row['labels']} labels, seed {row['seed']}, {networks}: {row['warnings']}"


def _write_csv(file: Any, real: list[Entry], drawn: list[Entry]) -> None:
    """Means and standard deviations over seeds, of all levels."""
    numbers = [c for c, kind in COLUMNS.items() if kind is float and c != "alpha"]
    writer = csv.writer(file, lineterminator="\n")
    both = [f"{column}{end}" for column in numbers for end in ("", "_sd")]
    writer.writerow(["labels", "method", "alpha", "seeds", *both])
    for labels, found in ((REAL, real), (DRAWN, drawn)):
        for e in found:
            texts = []
            for column in numbers:
                values = e.values.get(column, [])
                sd = np.std(values, ddof=1) if len(values) > 1 else math.nan
                texts += ["" if math.isnan(x) else f"{x:.6g}" for x in (e.mean(column), sd)]
            seeds = max(map(len, e.values.values()), default=0)
            writer.writerow([labels, e.method, e.level, seeds, *texts])
