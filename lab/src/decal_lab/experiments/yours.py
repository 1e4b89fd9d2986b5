"""Your method beside decal's, on all data available and on yours: coverage at equal efficiency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import decal
from decal_lab.experiments.harness.contributions import Contributions
from decal_lab.experiments.harness.curves import Curve, Panel, draw, levels, mean_curve, measure
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import FAMILIES, LogitSplit, find, named
from decal_lab.experiments.harness.reports import Report, number, seeds_text
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

OURS: Mapping[str, tuple[str, ...]] = {
    "class": ("class",),
    "class + temperature": ("class", "temperature"),
    "local": ("local",),
}
"""The directions of decal's own methods that others are compared with."""

EFFICIENCIES = (0.5, 0.8, 0.9, 0.95)
COLUMNS = {**CELL, "alpha": float, "coverage": float, "efficiency": float, **ORIGIN}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
YOURS = "Yours"


def experiment(request: Request) -> Experiment:
    """Curves of decal's methods and of those contributed, on files of logits and data contributed.

    Seeds draw halves, and are passed to data sets contributed.
    """
    extra = request.extra
    if not extra.methods and not extra.data_sets:
        raise ValueError(
            "extra must be given for yours: got no methods and no data sets. Name a file with "
            "--extra my_method.py, or install a package that has some."
        )
    found, absent = find(request.data) if request.data.is_dir() else ([], [])
    names = [*(d.name for d in found), *extra.data_sets]
    if not names:
        raise ValueError(
            "data must hold files of logits for methods of yours: got none. Give a folder with "
            "--data, let decal fetch some with --download, or add DATA_SETS to your file."
        )
    clash = sorted({*OURS} & {*extra.methods})
    if clash:
        raise ValueError(f"METHODS must have names of their own: got {clash[0]!r}, a name of ours.")
    alphas = levels(quick=request.quick)

    @lru_cache(maxsize=1)  # the cells of a data set and seed follow each other
    def load(name: str, seed: int) -> LogitSplit:
        if name in extra.data_sets:
            return extra.split(name, seed)
        return named(name).load(request.data, seed)

    def rows(cell: Cell) -> list[Row]:
        split = load(cell.data, cell.seed)
        model = _model(cell.method, extra)
        fitted = model.fit(split.logits, split.labels) or model
        return measure(fitted, split, alphas).rows()

    methods = (*OURS, *extra.methods)
    return Experiment(
        columns=COLUMNS,
        level="alpha",
        cells=[Cell(name, m, seed) for name in names for seed in request.seeds for m in methods],
        levels=lambda _: alphas,
        inputs=partial(_inputs, request),
        rows=rows,
        findings=partial(findings, seeds=request.seeds, extra=extra),
        seeds=request.seeds,
        needs=tuple(absent),
    )


def _model(method: str, extra: Contributions) -> Any:
    if method in OURS:
        return decal.Decalibrator(directions=OURS[method])
    return extra.model(method)


def _inputs(request: Request, cell: Cell) -> dict[str, Any]:
    extra = request.extra
    own = cell.data in extra.data_sets
    return {
        "data": extra.data_sets[cell.data].origin if own else request.data / named(cell.data).file,
        "settings": OURS.get(cell.method) or extra.methods[cell.method].origin,
    }


def findings(store: RowStore, *, seeds: Sequence[int], extra: Contributions) -> Findings:
    """Coverage at several efficiencies, the mean over seeds."""
    methods = (*OURS, *extra.methods)
    runs: dict[str, dict[str, list[Sequence[Row]]]] = {}
    for cell, rows in store.cells.items():
        if cell.seed in seeds and cell.method in methods:
            runs.setdefault(cell.data, {}).setdefault(cell.method, []).append(rows)
    curves = {
        data: {method: mean_curve(by_method[method]) for method in methods if method in by_method}
        for data, by_method in runs.items()
    }
    sections: dict[str, list[tuple[str, ...]]] = {}
    panels: dict[str, list[Panel]] = {}
    for data, by_method in curves.items():
        family, title = _place(data, extra)
        panels.setdefault(family, []).append(Panel(title, by_method))
        for method, curve in by_method.items():
            cells = (f"{title}: {method}", *(number(curve.at(e)) for e in EFFICIENCIES))
            sections.setdefault(family, []).append(cells)
    report = Report(
        title=f"Coverage at equal efficiency, {seeds_text(seeds)}",
        headings=("data: method", *(f"{e:g}" for e in EFFICIENCIES)),
        sections=sections,
        caption="share of true distributions in their sets, at these efficiencies\n"
        "–: no alpha gives this efficiency",
    )
    styles = {m: {"color": COLOURS[i % len(COLOURS)]} for i, m in enumerate(methods)}
    figures: dict[str, Callable[[], Any]] = {"curves": partial(draw, panels, styles)}
    return Findings(report, figures, notes=tuple(_warnings(curves, extra)))


def _place(data: str, extra: Contributions) -> tuple[str, str]:
    """The section and the title of a data set."""
    if data in extra.data_sets:
        return YOURS, data
    known = named(data)
    return FAMILIES[known.family], known.title


def _warnings(curves: Mapping[str, Mapping[str, Curve]], extra: Contributions) -> list[str]:
    """Curves of methods contributed that are not nested, so that reading them means little."""
    return [
        f"{method} on {data}: sets get wider as alpha grows, so its coverage at an efficiency "
        "means little"
        for data, by_method in curves.items()
        for method, curve in by_method.items()
        if method in extra.methods
        and any(b > a + 1e-9 for a, b in zip(curve.efficiency, curve.efficiency[1:], strict=False))
        and not math.isnan(curve.efficiency[0])
    ]
