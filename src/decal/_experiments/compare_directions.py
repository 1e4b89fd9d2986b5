"""What may move: class shifts, the temperature, or both. Coverage against efficiency on all data.

Half of each data set (or its own training part) fits a Decalibrator, the rest evaluates it. One
knob, alpha, moves along the curve; methods are compared by their coverage at equal efficiency.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import decal
from decal._experiments.harness.curves import Curve, Panel, draw, levels, measure
from decal._experiments.harness.logit_sets import (
    FAMILIES,
    DataSet,
    Split,
    find,
    in_order,
    named,
    require_some,
)
from decal._experiments.harness.reports import (
    Claim,
    Report,
    latex_table,
    markdown_claims,
    markdown_table,
    number,
    seeds_text,
    signed,
)
from decal._experiments.harness.rows import (
    CELL,
    ORIGIN,
    Cell,
    Row,
    RowStore,
    Track,
    replacing,
    untracked,
)

CLASS, TEMPERATURE = "class", "temperature"
BOTH, LABELS = "class + temperature", "class + temperature, labels"

METHODS: dict[str, tuple[Any, ...]] = {
    CLASS: ("class",),
    TEMPERATURE: ("temperature",),
    BOTH: ("class", "temperature"),
    LABELS: ("class", decal.Temperature(evidence="labels")),
}
"""The directions of each method, all with their default ratios."""

STYLES = {
    CLASS: {"color": "#0072B2", "linewidth": 1.4, "linestyle": (0, (4, 1.5))},
    TEMPERATURE: {"color": "#CC79A7", "linewidth": 1.4, "linestyle": (0, (1, 1))},
    LABELS: {"color": "#009E73", "linewidth": 1.2, "linestyle": "-"},
    BOTH: {"color": "#D55E00", "linewidth": 1.8, "linestyle": "-"},
}
"""Lines by Okabe and Ito's colours, which also people with colour-blindness tell apart."""

EFFICIENCIES = (0.3, 0.5, 0.7, 0.8, 0.9)

TARGET_EFFICIENCY = 0.8
TARGETS = {"clip_cifar10_en": 0.80, "siglip2_cifar10_en": 0.88}
CNN_TARGET = 0.85
"""Coverage that class + temperature was to reach at efficiency 0.8."""

COMPARED = (0.3, 0.5, 0.7, 0.8)
TOLERATED_LOSS = 0.04
"""Coverage that class + temperature may lose against class at the efficiencies compared."""

COLUMNS = {**CELL, "alpha": float, "coverage": float, "efficiency": float, **ORIGIN}

Curves = dict[DataSet, dict[str, Curve]]


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder of logits, see `decal._experiments.harness.logit_sets`.
    out : folder of results, created if need be: rows.csv, table.csv, table.md, table.tex,
        curves.svg and curves.png.
    seeds : each draws halves; tables and figures are of the mean over seeds.
    quick : fewer alphas; interpolated coverage then changes by about 0.01.
    track : hands on the cells to compute, for a progress bar.
    """
    found, absent = find(data)
    require_some(found, "files of logits", data, needs=absent)
    store = RowStore(out / "rows.csv", COLUMNS, level="alpha")
    compute(store, found, data, seeds=seeds, alphas=levels(quick=quick), track=track)
    return report(store, out, seeds=seeds, needs=tuple(absent))


def compute(
    store: RowStore,
    found: list[DataSet],
    folder: Path,
    *,
    seeds: Sequence[int],
    alphas: list[float],
    track: Track = untracked,
) -> None:
    """Add the cells that the store does not hold at all these alphas."""
    data = {d.name: d for d in found}
    loaded: dict[tuple[str, int], Split] = {}

    def work(cell: Cell) -> list[Row]:
        key = cell.data, cell.seed
        if key not in loaded:
            loaded.clear()
            loaded[key] = data[cell.data].load(folder, cell.seed)
        split = loaded[key]
        model = decal.Decalibrator(directions=METHODS[cell.method])
        curve = measure(model.fit(split.logits, split.labels), split, alphas)
        numbers = np.column_stack([curve.alpha, curve.coverage, curve.efficiency]).tolist()
        return [{"alpha": a, "coverage": c, "efficiency": e} for a, c, e in numbers]

    cells = [Cell(name, method, seed) for name in data for seed in seeds for method in METHODS]
    store.fill(cells, alphas, work, track=track)


# Reporting


def report(
    store: RowStore, out: Path, *, seeds: Sequence[int], needs: tuple[str, ...] = ()
) -> Report:
    """Write the tables and figures of the seeds' mean, and sum them up for the terminal."""
    curves = curves_of(store, seeds)
    gains = {data: least_gain(by_method) for data, by_method in curves.items()}
    told = Report(
        title=f"Coverage at efficiency {TARGET_EFFICIENCY:g}, {seeds_text(seeds)}",
        headings=("data", "class", "temp.", "both", "labels", "least gain", "target"),
        sections=_sections(curves, gains),
        caption=(
            "both: class + temperature; labels: the same, the scale judged by the labels\n"
            "least gain: of both over class, and at which efficiency, of "
            f"{', '.join(f'{e:g}' for e in COMPARED)}\n"
            "–: no alpha gives this efficiency"
        ),
        claims=tuple(_claims(curves, gains)),
        needs=needs,
    )
    files = [store.path, *_write_tables(curves, told, seeds, out)]
    notes = store.origins(seeds)
    figures = [out / "curves.svg", out / "curves.png"]
    try:
        draw(_panels(curves), STYLES, figures)
        files += figures
    except ImportError as error:
        notes.append(str(error))
    return replace(told, notes=tuple(notes), files=tuple(files))


def curves_of(store: RowStore, seeds: Sequence[int]) -> Curves:
    """The mean of the seeds' curves, at the alphas that all of them have, in order of tables."""
    cells = {cell: rows for cell, rows in store.cells.items() if cell.seed in seeds}
    data = in_order(named(name) for name in {cell.data for cell in cells})
    curves: Curves = {d: {} for d in data}
    for d in data:
        for method in METHODS:
            found = [cells.get(Cell(d.name, method, seed), []) for seed in seeds]
            by_alpha = [{row["alpha"]: row for row in rows} for rows in found if rows]
            if by_alpha:
                alphas = sorted(set.intersection(*map(set, by_alpha)), reverse=True)
                columns = [
                    np.mean([[rows[a][name] for a in alphas] for rows in by_alpha], axis=0)
                    for name in ("alpha", "coverage", "efficiency")
                ]
                curves[d][method] = Curve(*columns)
    return curves


def _sections(
    curves: Curves, gains: dict[DataSet, tuple[float, float]]
) -> dict[str, list[tuple[str, ...]]]:
    sections: dict[str, list[tuple[str, ...]]] = {}
    for data, by_method in curves.items():
        reached = {method: curve.at(TARGET_EFFICIENCY) for method, curve in by_method.items()}
        target = target_of(data)
        gain, where = gains[data]
        cells = (
            data.title,
            *(number(reached.get(method, math.nan)) for method in METHODS),
            f"{signed(gain)} at {where:g}" if math.isfinite(gain) else "–",
            f"{target:.2f} {_verdict(reached, target)}" if target else "",
        )
        sections.setdefault(FAMILIES[data.family], []).append(cells)
    return sections


def target_of(data: DataSet) -> float | None:
    """The coverage that class + temperature was to reach on a data set, if one was set."""
    return CNN_TARGET if data.family == "cnn" else TARGETS.get(data.name)


def least_gain(curves: dict[str, Curve]) -> tuple[float, float]:
    """How much coverage class + temperature gains over class at least, and at which efficiency.

    Where only class reaches an efficiency, all of its coverage there is lost. NaN without curves.
    """
    if CLASS not in curves or BOTH not in curves:
        return math.nan, math.nan
    before = {e: curves[CLASS].at(e) for e in COMPARED}
    gains = {e: np.nan_to_num(curves[BOTH].at(e)) - before[e] for e in COMPARED}
    return min(
        ((float(gain), e) for e, gain in gains.items() if not math.isnan(gain)),
        default=(math.nan, math.nan),
    )


def _claims(curves: Curves, gains: dict[DataSet, tuple[float, float]]) -> list[Claim]:
    claims = []
    for data, by_method in curves.items():
        target = target_of(data)
        if target and BOTH in by_method:
            reached = by_method[BOTH].at(TARGET_EFFICIENCY)
            text = (
                f"{data.title}: coverage {number(reached)} at efficiency {TARGET_EFFICIENCY:g} "
                f"(wanted {target:.2f} or more)"
            )
            claims.append(Claim(text, reached >= target))
    for family, heading in FAMILIES.items():
        known = {d: g for d, g in gains.items() if d.family == family and math.isfinite(g[0])}
        if known:
            data, (gain, where) = min(known.items(), key=lambda item: item[1][0])
            text = (
                f"{heading}: least gain over class {signed(gain)}, on {data.title} "
                f"at efficiency {where:g} (wanted {-TOLERATED_LOSS:+.2f} or more)"
            )
            claims.append(Claim(text, gain >= -TOLERATED_LOSS))
    return claims


def _write_tables(curves: Curves, told: Report, seeds: Sequence[int], out: Path) -> list[Path]:
    table, markdown, latex = (out / f"table.{suffix}" for suffix in ("csv", "md", "tex"))
    with replacing(table) as file:
        writer = csv.writer(file, lineterminator="\n")
        at = [f"coverage at efficiency {e:g}" for e in EFFICIENCIES]
        writer.writerow(["data", "method", "seeds", *at, "least efficiency", "largest efficiency"])
        for data, by_method in curves.items():
            for method, curve in by_method.items():
                numbers = [*map(curve.at, EFFICIENCIES), curve.efficiency[-1], curve.efficiency[0]]
                texts = ["" if math.isnan(x) else f"{x:.6f}" for x in numbers]
                writer.writerow([data.name, method, " ".join(map(str, seeds)), *texts])
    with replacing(markdown) as file:
        file.write(
            f"# Coverage at equal efficiency: what may move ({seeds_text(seeds)})\n\n"
            "–: no alpha gives this efficiency; the last column is the range of those it gives.\n"
        )
        headings = ["data", "method", *(f"{e:g}" for e in EFFICIENCIES), "efficiencies"]
        for family, heading in FAMILIES.items():
            rows = [
                (
                    data.title,
                    method,
                    *(number(curve.at(e)) for e in EFFICIENCIES),
                    f"{curve.efficiency[-1]:.2f} to {curve.efficiency[0]:.2f}",
                )
                for data, by_method in curves.items()
                if data.family == family
                for method, curve in by_method.items()
            ]
            if rows:
                file.write(f"\n## {heading}\n\n{markdown_table(headings, rows)}")
        if told.claims:
            file.write(f"\n## What was to be shown\n\n{markdown_claims(told.claims)}")
    with replacing(latex) as file:
        file.writelines(map(latex_table, told.tables))
    return [table, markdown, latex]


def _panels(curves: Curves) -> dict[str, list[Panel]]:
    panels: dict[str, list[Panel]] = {}
    for data, by_method in curves.items():
        panels.setdefault(FAMILIES[data.family], []).append(Panel(data.title, by_method))
    return panels


def _verdict(reached: dict[str, float], target: float) -> str:
    return "pass" if reached.get(BOTH, math.nan) >= target else "fail"
