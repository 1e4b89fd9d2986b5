"""What may move: class shifts, the temperature, or both. Coverage against efficiency on all data.

Half of each data set (or its own training part) fits a Decalibrator, the rest evaluates it. The
level alpha moves along the curve; methods are compared by their coverage at equal efficiency.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

import decal
from decal_lab.experiments.harness.curves import Curve, Panel, draw, levels, mean_curve, measure
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import (
    FAMILIES,
    DataSet,
    LogitSplit,
    find,
    in_order,
    named,
    require_some,
)
from decal_lab.experiments.harness.reports import (
    Claim,
    Report,
    markdown_claims,
    markdown_table,
    number,
    seeds_text,
    signed,
)
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

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
"""Lines in Okabe and Ito's colours, which colour-blind readers can tell apart."""

EFFICIENCIES = (0.3, 0.5, 0.7, 0.8, 0.9)

TARGET_EFFICIENCY = 0.8
TARGETS = {"clip_cifar10_en": 0.80, "siglip2_cifar10_en": 0.88}
CNN_TARGET = 0.85
"""Coverage that class + temperature should reach at efficiency 0.8."""

COMPARED = (0.3, 0.5, 0.7, 0.8)
TOLERATED_LOSS = 0.04
"""Coverage that class + temperature may lose against class at the efficiencies compared."""

COLUMNS = {**CELL, "alpha": float, "coverage": float, "efficiency": float, **ORIGIN}

Curves = dict[DataSet, dict[str, Curve]]


def experiment(request: Request) -> Experiment:
    """Curves of every method on all files of logits in the folder.

    Seeds draw the halves; tables and figures show the mean over seeds. A quick run has fewer
    alphas, and interpolated coverage then changes by about 0.01.
    """
    found, absent = find(request.data)
    require_some(found, "files of logits", request.data, needs=absent)
    alphas = levels(quick=request.quick)

    @lru_cache(maxsize=1)  # the cells of a data set and seed follow each other
    def load(name: str, seed: int) -> LogitSplit:
        return named(name).load(request.data, seed)

    def rows(cell: Cell) -> list[Row]:
        split = load(cell.data, cell.seed)
        model = decal.Decalibrator(directions=METHODS[cell.method])
        return measure(model.fit(split.logits, split.labels), split, alphas).rows()

    return Experiment(
        columns=COLUMNS,
        level="alpha",
        cells=[Cell(d.name, method, s) for d in found for s in request.seeds for method in METHODS],
        levels=lambda _: alphas,
        inputs=lambda cell: {
            "data": request.data / named(cell.data).file,
            "settings": METHODS[cell.method],
        },
        rows=rows,
        findings=partial(findings, seeds=request.seeds),
        seeds=request.seeds,
        needs=tuple(absent),
    )


# Reporting


def findings(store: RowStore, *, seeds: Sequence[int]) -> Findings:
    """Tables, figures and claims of the mean over seeds."""
    curves = curves_of(store, seeds)
    gains = {data: least_gain(by_method) for data, by_method in curves.items()}
    report = Report(
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
    )
    return Findings(
        report,
        {"curves": partial(draw, _panels(curves), STYLES)},
        texts={"table.csv": _csv(curves, seeds), "table.md": _markdown(curves, report, seeds)},
    )


def curves_of(store: RowStore, seeds: Sequence[int]) -> Curves:
    """The mean over seeds of the curves, at the alphas that all seeds have, in order of tables."""
    cells = {cell: rows for cell, rows in store.cells.items() if cell.seed in seeds}
    data = in_order(named(name) for name in {cell.data for cell in cells})
    curves: Curves = {d: {} for d in data}
    for d in data:
        for method in METHODS:
            runs = [rows for seed in seeds if (rows := cells.get(Cell(d.name, method, seed)))]
            if runs:
                curves[d][method] = mean_curve(runs)
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
    """The coverage that class + temperature should reach on a data set, if there is a target."""
    return CNN_TARGET if data.family == "cnn" else TARGETS.get(data.name)


def least_gain(curves: dict[str, Curve]) -> tuple[float, float]:
    """The least coverage that class + temperature gains over class, and at which efficiency.

    If only class reaches an efficiency, all of its coverage there counts as lost. NaN if a curve is
    missing.
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


def _csv(curves: Curves, seeds: Sequence[int]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    at = [f"coverage at efficiency {e:g}" for e in EFFICIENCIES]
    writer.writerow(["data", "method", "seeds", *at, "least efficiency", "largest efficiency"])
    for data, by_method in curves.items():
        for method, curve in by_method.items():
            numbers = [*map(curve.at, EFFICIENCIES), curve.efficiency[-1], curve.efficiency[0]]
            texts = ["" if math.isnan(x) else f"{x:.6f}" for x in numbers]
            writer.writerow([data.name, method, " ".join(map(str, seeds)), *texts])
    return text.getvalue()


def _markdown(curves: Curves, report: Report, seeds: Sequence[int]) -> str:
    """Coverage at all efficiencies, for which the terminal has no room."""
    text = (
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
            text += f"\n## {heading}\n\n{markdown_table(headings, rows)}"
    if report.claims:
        text += f"\n## What was to be shown\n\n{markdown_claims(report.claims)}"
    return text


def _panels(curves: Curves) -> dict[str, list[Panel]]:
    panels: dict[str, list[Panel]] = {}
    for data, by_method in curves.items():
        panels.setdefault(FAMILIES[data.family], []).append(Panel(data.title, by_method))
    return panels


def _verdict(reached: dict[str, float], target: float) -> str:
    return "pass" if reached.get(BOTH, math.nan) >= target else "fail"
