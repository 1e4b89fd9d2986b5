"""Local sets: coverage against efficiency on all data, by reference, and one network against ten.

Half of each data set (or its own training part) fits a Decalibrator, the rest evaluates it. Class
shifts, with and without the temperature, are the sets to beat. Which reference should local sets
have? The report says how much coverage each one loses against the best of the three, and where all
of them lose against class shifts and temperature.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

import decal
from decal_lab.experiments import local_against_wrapper as several
from decal_lab.experiments.harness.curves import Curve, Panel, draw, levels, mean_curve, measure
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import (
    FAMILIES,
    FITTED_ON,
    HELD_OUT,
    TRAINING,
    DataSet,
    LogitSplit,
    contents,
    find,
    named,
    require_some,
)
from decal_lab.experiments.harness.reports import (
    Claim,
    Report,
    Sections,
    Table,
    number,
    seeds_text,
    signed,
)
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore
from decal_lab.experiments.local_against_wrapper import (
    BEST,
    BOTH,
    CLASS,
    EXPLAINED,
    FEW_STYLES,
    HALFWAY,
    METHODS,
    MODEL,
    REFERENCES,
    SHORT,
    STYLES,
    Found,
)

DRAWS = 3
"""How many seeds a full run has, counted up from the one that was asked for."""

EFFICIENCIES = (0.5, 0.7, 0.8, 0.9, 0.95)
SHOWN = 0.9
"""The efficiency of the table in the terminal; files have all of them."""

NARROW = (0.8, 0.9, 0.95)
"""The efficiencies that local sets are for."""

LOSSES = (
    *(("fer_ferplus", "faces", e, m, BOTH) for e in (0.7, 0.8) for m in REFERENCES),
    ("clip_cifar10_en", "CLIP, under-confident", 0.8, MODEL, BOTH),
    ("clip_cifar10_en", "CLIP, under-confident", 0.8, MODEL, HALFWAY),
    ("resnet20_cifar10/training", "ResNet-20, fitted on training rows", 0.9, HALFWAY, MODEL),
)
"""Where a method is known to cover less than another: data, title, efficiency, the two methods."""

PREFERRED = (
    (HELD_OUT, HALFWAY, MODEL),
    (HELD_OUT, HALFWAY, BEST),
    (TRAINING, MODEL, HALFWAY),
    (TRAINING, MODEL, BEST),
)
"""By what is fitted on, a reference that should lose less than another, on average."""

NOTICED = 0.005
"""A loss of coverage that is listed."""

COLUMNS = CELL | {
    "level": float,  # alpha; where one network is compared with several, the network's number
    "alpha": float,  # nan for a Credal Wrapper, and where there is no such model
    "coverage": float,
    "efficiency": float,
} | ORIGIN  # fmt: skip

QUICK_SETS = 2
"""Data sets of each family, by what they are fitted on, that a quick run has."""

FIGURES: dict[str, dict[str, tuple[str, ...]]] = {
    "images": {FAMILIES[family]: (family,) for family in ("zero-shot", "cnn")},
    "texts_and_faces": {FAMILIES["nli"]: ("nli",), "Faces and skin": ("faces", "derma")},
    "tables": {FAMILIES["tabpfn"]: ("tabpfn",)},
}
"""Families by figure and heading."""

FEW = {
    "clip_cifar10_en": "CLIP, CIFAR-10H",
    "siglip2_cifar10_en": "SigLIP-2, CIFAR-10H",
    "cnn_densenet_BC_100_12": "DenseNet, CIFAR-10H",
    "cnn_vgg_15_BN_64": "VGG, CIFAR-10H",
    "snli_roberta0/half": "RoBERTa, ChaosNLI",
    "fer_ferplus": "faces, FER+",
}
"""Data sets of the figure `curves`, with titles; `FIGURES` show all."""

HELD = "At equal width local sets hold more than class shifts"

Curves = dict[DataSet, dict[str, Curve]]


def experiment(request: Request) -> Experiment:
    """Curves of every method on all logits in the folder, and one network against several.

    Seeds draw halves, forests, labels and small networks; if one seed is asked for, the two that
    follow it are used too. A quick run has one seed, fewer alphas, two data sets of each kind, six
    networks and one table.
    """
    found, absent = find(request.data, everything=True)
    if request.quick:
        found = first_of_each_kind(found)
    require_some(found, "files of logits", request.data, needs=absent)
    seeds = request.seeds if request.quick else request.extended_seeds(DRAWS)
    alphas = levels(quick=request.quick)
    if request.quick:
        alphas = [alphas[0], *alphas[1:-1:2], alphas[-1]]
    comparison = several.Comparison(request.data, quick=request.quick)

    @lru_cache(maxsize=1)  # the cells of a data set and seed follow each other
    def load(name: str, seed: int) -> LogitSplit:
        return named(name).load(request.data, seed)

    def rows(cell: Cell) -> list[Row]:
        if cell.data in comparison.groups:
            return list(several.rows(cell, comparison.members(cell)))
        split = load(cell.data, cell.seed)
        curve = curve_of(METHODS[cell.method], split, alphas)
        return [{"level": row["alpha"], **row} for row in curve.rows()]

    def inputs(cell: Cell) -> Mapping[str, object]:
        if cell.data in comparison.groups:
            return comparison.inputs(cell)
        data = contents(request.data, named(cell.data).stem)
        return {"data": data, "settings": METHODS[cell.method]}

    curves = [
        Cell(d.name, method, seed)
        for d in found
        for seed in (seeds if d.drawn else seeds[:1])
        for method in METHODS
    ]
    return Experiment(
        columns=COLUMNS,
        level="level",
        cells=[*curves, *comparison.cells(seeds)],
        levels=lambda cell: comparison.levels(cell) if cell.data in comparison.groups else alphas,
        inputs=inputs,
        rows=rows,
        findings=partial(findings, data=found, groups=comparison.groups, seeds=seeds),
        seeds=seeds,
        needs=(*absent, *comparison.needs),
    )


def first_of_each_kind(found: Sequence[DataSet]) -> list[DataSet]:
    """The first two data sets of each family, of those fitted on the same kind of rows."""
    kept: list[DataSet] = []
    for d in found:
        same = [k for k in kept if (k.family, k.fitted_on) == (d.family, d.fitted_on)]
        if len(same) < QUICK_SETS:
            kept.append(d)
    return kept


def curve_of(settings: Mapping[str, object], split: LogitSplit, alphas: Sequence[float]) -> Curve:
    """Coverage and efficiency at falling alphas; NaN if there is no such reference.

    Labels that the logits do not predict, or predict perfectly, have no best scale.
    """
    model = decal.Decalibrator(**settings)  # type: ignore[arg-type]
    try:
        model.fit(split.logits, split.labels)
    except ValueError:
        if settings.get("reference", "model") == "model":
            raise
        nothing = np.full(len(alphas), math.nan)
        return Curve(np.array(alphas), nothing, nothing)
    return measure(model, split, alphas)


# Reporting


def findings(
    store: RowStore,
    *,
    data: Sequence[DataSet],
    groups: Mapping[str, several.Group],
    seeds: Sequence[int],
) -> Findings:
    """Tables, figures and claims of the mean over seeds."""
    curves, without = curves_of(store, data, seeds)
    found = several.found_in(store, groups, seeds)
    report = Report(
        title=f"Coverage at efficiency {SHOWN:g}, {seeds_text(seeds)}",
        headings=("data", *SHORT.values(), "gain"),
        sections=_sections(curves),
        caption=(
            f"{EXPLAINED}\ngain: of the best local set over class + temperature\n"
            "–: no alpha gives this efficiency, or there is no such reference"
        ),
        claims=(*_claims(curves), *several.claims(found)),
        further=(
            *several.tables(found),
            _references(curves, found),
            *_losses(curves),
        ),
    )
    in_files = replace(
        report,
        title=f"Coverage at equal efficiency, {seeds_text(seeds)}",
        headings=("data", "method", *(f"{e:g}" for e in EFFICIENCIES)),
        sections=_all_efficiencies(curves),
        caption="–: no alpha gives this efficiency, or there is no such reference",
    )
    figures = {
        name: partial(draw, panels, STYLES)
        for name, headings in FIGURES.items()
        if (panels := _panels(curves, headings))
    }
    few = [Panel(FEW[d.name], by_method) for d, by_method in curves.items() if d.name in FEW]
    if few:
        figures["curves"] = partial(draw, {"": few}, FEW_STYLES, HELD)
    if found:
        figures["one_against_ten"] = partial(several.draw, several.panels_of(found))
    texts = {"table.csv": _csv(curves, seeds)}
    return Findings(report, figures, in_files, texts, tuple(without))


def curves_of(
    store: RowStore, data: Sequence[DataSet], seeds: Sequence[int]
) -> tuple[Curves, list[str]]:
    """The mean over seeds of the curves, and notes on references that do not exist."""
    curves: Curves = {d: {} for d in data}
    notes = []
    for d in data:
        for method in METHODS:
            cells = (Cell(d.name, method, seed) for seed in seeds)
            runs = [rows for cell in cells if (rows := store.cells.get(cell))]
            defined = [rows for rows in runs if not math.isnan(rows[0]["coverage"])]
            if len(defined) < len(runs):
                what = f"{FAMILIES[d.family]}, {d.title}: {method}"
                none = len(runs) - len(defined)
                notes.append(f"{what}: no such reference with {none} of {len(runs)} seeds")
            if defined and len(defined) == len(runs):
                curves[d][method] = mean_curve(runs)
    return curves, notes


def reached(curves: Mapping[str, Curve], efficiency: float) -> dict[str, float]:
    """Coverage of every method at an efficiency; NaN where it is not reached."""
    return {m: curves[m].at(efficiency) if m in curves else math.nan for m in METHODS}


def shortfalls(curves: Mapping[str, Curve]) -> dict[str, list[float]]:
    """How much less each reference covers than the best of the three, at each efficiency.

    A reference that does not exist has none.
    """
    found: dict[str, list[float]] = {m: [] for m in REFERENCES if m in curves}
    for efficiency in EFFICIENCIES:
        at = reached(curves, efficiency)
        best = np.nanmax([at[m] for m in REFERENCES])
        for m in found:
            found[m].append(float(best - at[m]))
    return found


def _sections(curves: Curves) -> Sections:
    sections: Sections = {}
    for data, by_method in curves.items():
        at = reached(by_method, SHOWN)
        gain = np.nanmax([at[m] for m in REFERENCES]) - np.nan_to_num(at[BOTH])
        line = (data.title, *map(number, at.values()), signed(float(gain)))
        sections.setdefault(FAMILIES[data.family], []).append(line)
    return sections


def _all_efficiencies(curves: Curves) -> Sections:
    sections: Sections = {}
    for data, by_method in curves.items():
        for method, curve in by_method.items():
            line = (data.title, method, *(number(curve.at(e)) for e in EFFICIENCIES))
            sections.setdefault(FAMILIES[data.family], []).append(line)
    return sections


def _references(curves: Curves, found: Sequence[Found]) -> Table:
    """The mean and the largest shortfall of each reference, by what it is fitted on."""
    sections: Sections = {}
    for kind, meaning in FITTED_ON.items():
        gathered: list[dict[str, list[float]]] = []
        lines = []
        for family, heading in FAMILIES.items():
            fitting = (d for d in curves if d.family == family and d.fitted_on == kind)
            some = [shortfalls(curves[d]) for d in fitting]
            if some:
                gathered += some
                lines.append(_shortfall_line(heading, some))
        if len(lines) > 1:
            lines.append(_shortfall_line("all", gathered))
        at_wrapper = _shortfalls_at_wrapper([f for f in found if f.group.fitted_on == kind])
        if at_wrapper:
            lines.append(_shortfall_line("against the Wrapper", at_wrapper))
        if lines:
            sections[meaning] = lines
    headings = ["data", "sets"]
    for method in REFERENCES:
        headings += [SHORT[method], "worst"]
    headings.append("none")
    caption = (
        "mean and largest loss of coverage against the best of the three references, at "
        f"efficiencies\n{', '.join(f'{e:g}' for e in EFFICIENCIES)}; none: data without a best "
        "scale, which count for the model only"
    )
    title = "Which reference: shortfall in coverage of local sets"
    return Table(title, tuple(headings), sections, caption)


def _shortfalls_at_wrapper(found: Sequence[Found]) -> list[dict[str, list[float]]]:
    """What each reference loses against the best of them, at the efficiency of the Wrapper."""
    return [
        {m: [float(x)] for m in REFERENCES if not math.isnan(x := max(means) - each.mean(m))}
        for each in found
        if (means := [v for m in REFERENCES if not math.isnan(v := each.mean(m))])
    ]


def _shortfall_line(name: str, some: Sequence[dict[str, list[float]]]) -> tuple[str, ...]:
    cells = [name, str(len(some))]
    for method in REFERENCES:
        values = [loss for losses in some for loss in losses.get(method, ())]
        cells += [number(float(np.mean(values))), number(max(values))] if values else ["–", "–"]
    return (*cells, str(sum(len(losses) < len(REFERENCES) for losses in some)))


def _losses(curves: Curves) -> Iterator[Table]:
    """Where every local set covers less than class shifts or class + temperature."""
    sections: Sections = {}
    count = 0
    for data, by_method in curves.items():
        for efficiency in EFFICIENCIES:
            at = reached(by_method, efficiency)
            if all(math.isnan(at[m]) for m in (CLASS, BOTH)):
                continue
            count += 1
            gap = np.nanmax([at[m] for m in REFERENCES]) - np.nanmax([at[CLASS], at[BOTH]])
            if gap < -NOTICED:
                line = (f"{data.title}, at {efficiency:g}", *map(number, at.values()))
                heading = FAMILIES[data.family]
                sections.setdefault(heading, []).append((*line, signed(float(gap))))
    if sections:
        listed = sum(map(len, sections.values()))
        caption = (
            f"{listed} of {count} pairs of data and efficiency: those with a loss above "
            f"{NOTICED:g}\n{EXPLAINED}"
        )
        headings = ("data, efficiency", *SHORT.values(), "gain")
        title = "Where every local set covers less than class, or class + temperature"
        yield Table(title, headings, sections, caption)


def _claims(curves: Curves) -> Iterator[Claim]:
    """What local sets are for, and where they are known to lose."""
    yield from _claims_of_networks(curves)
    yield from _claims_of_all(curves)
    yield from _claims_of_losses(curves)
    yield from _claims_of_references(curves)


def _claims_of_networks(curves: Curves) -> Iterator[Claim]:
    for method in REFERENCES:
        gains = [
            (at[method] - at[BOTH], d.title, e)
            for d, by_method in curves.items()
            if d.family == "cnn" and d.halves
            for e in NARROW
            if not math.isnan((at := reached(by_method, e))[BOTH] - at[method])
        ]
        if gains:
            least, title, where = min(gains)
            text = (
                f"CNNs, fitted on held-out rows: {method} covers at least as much as class + "
                f"temperature at efficiencies {', '.join(f'{e:g}' for e in NARROW)}: "
                f"least gain {signed(least)}, on {title} at {where:g}"
            )
            yield Claim(text, least >= 0)


def _claims_of_all(curves: Curves) -> Iterator[Claim]:
    for method in REFERENCES:
        pairs = [
            (at[method], at[BOTH])
            for d, by_method in curves.items()
            for e in EFFICIENCIES
            if not math.isnan((at := reached(by_method, e))[BOTH] + at[method])
        ]
        if pairs:
            won = sum(ours > theirs for ours, theirs in pairs)
            text = (
                f"All data: {method} covers more than class + temperature in {won} of "
                f"{len(pairs)} pairs of data and efficiency that both reach"
            )
            yield Claim(text, won > len(pairs) / 2)


def _claims_of_losses(curves: Curves) -> Iterator[Claim]:
    by_name = {d.name: by_method for d, by_method in curves.items()}
    for name, title, efficiency, less, more in LOSSES:
        at = reached(by_name.get(name, {}), efficiency)
        if not math.isnan(at[less] + at[more]):
            text = (
                f"It loses: {title}, at efficiency {efficiency:g}: {less} covers less than {more}: "
                f"{number(at[less])} against {number(at[more])}"
            )
            yield Claim(text, at[less] < at[more])


def _claims_of_references(curves: Curves) -> Iterator[Claim]:
    for kind, better, worse in PREFERRED:
        some = [shortfalls(found) for d, found in curves.items() if d.fitted_on == kind]
        both = [
            pair
            for losses in some
            if better in losses and worse in losses
            for pair in zip(losses[better], losses[worse], strict=True)
        ]
        if both:
            (mean, other), (most, others) = np.mean(both, axis=0), np.max(both, axis=0)
            text = (
                f"{FITTED_ON[kind]}, {better} loses less on average than {worse}: {number(mean)} "
                f"against {number(other)}; at most {number(most)} against {number(others)}"
            )
            yield Claim(text, bool(mean < other))


def _csv(curves: Curves, seeds: Sequence[int]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    at = [f"coverage at efficiency {e:g}" for e in EFFICIENCIES]
    writer.writerow(["data", "fitted on", "method", "seeds", *at])
    for data, by_method in curves.items():
        drawn = seeds if data.drawn else seeds[:1]
        for method, curve in by_method.items():
            numbers = map(curve.at, EFFICIENCIES)
            texts = ["" if math.isnan(x) else f"{x:.6f}" for x in numbers]
            which = " ".join(map(str, drawn))
            writer.writerow([data.name, data.fitted_on, method, which, *texts])
    return text.getvalue()


def _panels(curves: Curves, headings: Mapping[str, Sequence[str]]) -> dict[str, list[Panel]]:
    panels: dict[str, list[Panel]] = {}
    for data, by_method in curves.items():
        for heading, families in headings.items():
            if data.family in families:
                kind = FAMILIES[data.family].partition(",")[0]
                title = f"{kind}: {data.title}" if len(families) > 1 else data.title
                panels.setdefault(heading, []).append(Panel(title, by_method))
    return panels
