"""Zero-shot models: accuracy by language, and coverage against efficiency on CIFAR-10H.

CIFAR-10's test images with prompts in four languages; DermaMNIST with English prompts. Where the
logits are of test images only, these both fit and evaluate, as in `coverage_efficiency`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

import decal
from decal_lab.experiments.harness.curves import measure
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.figures import Tradeoff, tradeoffs
from decal_lab.experiments.harness.logit_sets import TITLES, LogitSplit, available, read
from decal_lab.experiments.harness.published_results import (
    ALPHAS,
    PUBLISHED_CURVE_WITHIN,
    Published,
)
from decal_lab.experiments.harness.reports import Claim, Report, Sections, Table, number
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

MODELS = ("clip", "siglip", "siglip2", "biomedclip")
LANGUAGES = ("en", "fr", "zh", "sw")
CIFAR, DERMA = "CIFAR-10", "DermaMNIST"

METHOD = "class"
MEASURES = ("accuracy", "calibration error", "ties")
ACCURACY_WITHIN = 0.02
"""The largest allowed difference from the paper's accuracy, in percentage points."""

FALLING = tuple(sorted(ALPHAS, reverse=True))

COLUMNS = {**CELL, "measure": str, "value": float, **ORIGIN}


@dataclass(frozen=True)
class PromptedModel:
    """A model, a data set and the language of the prompts."""

    model: str
    data: str
    language: str

    @property
    def name(self) -> str:
        """The file without .npz, which is also the name of the data in rows."""
        return f"{self.model}_{'cifar10' if self.data == CIFAR else 'dermamnist'}_{self.language}"


PROMPTED = (
    *(PromptedModel(m, CIFAR, language) for m in MODELS[:3] for language in LANGUAGES),
    *(PromptedModel(m, DERMA, "en") for m in MODELS),
)

TRAINING = "CIFAR-10's training logits (the published run fitted on them)"
TABLE = "the paper's table of accuracies, in published.json, to compare ours with"


def experiment(request: Request) -> Experiment:
    """Accuracy, calibration error and ties of the available models; on CIFAR-10 also curves.

    Nothing is drawn, so seeds are not used. A quick run is the same as a full run.
    """
    files, absent = available(request.data, [prompted.name for prompted in PROMPTED])
    found = {prompted.name: prompted for prompted in PROMPTED if prompted.name in files}
    curves = [f"{m} at {alpha:g}" for alpha in ALPHAS for m in ("coverage", "efficiency")]

    def levels(cell: Cell) -> list[str]:
        return [*MEASURES, *(curves if found[cell.data].data == CIFAR else ())]

    def rows(cell: Cell) -> list[Row]:
        values = measures(request.data / f"{cell.data}.npz", found[cell.data])
        return [{"measure": name, "value": value} for name, value in values.items()]

    published = Published(request.data)
    table = () if published.zero_shot_accuracy else (TABLE,)
    return Experiment(
        columns=COLUMNS,
        level="measure",
        cells=[Cell(name, METHOD, 0) for name in found],
        levels=levels,
        inputs=lambda cell: {"data": request.data / f"{cell.data}.npz"},
        rows=rows,
        findings=partial(findings, published=published),
        seeds=(0,),
        needs=(*absent, *table, TRAINING),
    )


def measures(path: Path, source: PromptedModel) -> dict[str, float]:
    """Accuracy, calibration error, ties for the first place; on CIFAR-10 also both curves."""
    prefix = "test_" if source.data == DERMA else ""
    logits, labels = read(path, f"{prefix}logits", f"{prefix}labels")
    top = np.sort(logits, axis=1)[:, -2:]
    probabilities = softmax(logits.astype(np.float64), axis=1)
    values = {
        "accuracy": float(np.mean(logits.argmax(axis=1) == labels)),
        "calibration error": decal.metrics.expected_calibration_error(probabilities, labels),
        "ties": float(np.sum(top[:, 0] == top[:, 1])),
    }
    if source.data == CIFAR:
        (human,) = read(path, "human")
        model = decal.Decalibrator().fit(logits, labels)
        curve = measure(model, LogitSplit(logits, labels, logits, human), FALLING)
        for i, alpha in enumerate(FALLING):
            values[f"coverage at {alpha:g}"] = float(curve.coverage[i])
            values[f"efficiency at {alpha:g}"] = float(curve.efficiency[i])
    return values


# Reporting


Values = dict[PromptedModel, dict[str, float]]


def findings(store: RowStore, *, published: Published) -> Findings:
    """Tables, figures and claims of all rows."""
    values: Values = {
        source: {row["measure"]: row["value"] for row in store.cells[cell]}
        for source in PROMPTED
        if (cell := Cell(source.name, METHOD, 0)) in store.cells
    }
    report = Report(
        title="Zero-shot accuracy in percent",
        headings=("model", "accuracy", "paper", "calibration error", "ties"),
        sections=_accuracies(values, published),
        caption=(
            "ties: images with two largest logits exactly equal, of which the first class counts; "
            "the Swahili prompts name airplane and bird by one word"
        ),
        claims=tuple(_claims(values, published)),
        further=(
            Table(
                title="Coverage/efficiency on CIFAR-10H by alpha",
                headings=("prompts", *(f"{alpha:g}" for alpha in ALPHAS[1:-1])),
                sections=_curves(values),
                caption="class shifts, fitted and evaluated on the 10,000 test images",
            ),
        ),
    )
    curves = partial(tradeoffs, _panels(values), front=False)
    return Findings(report, {"accuracy": partial(_draw_accuracy, values), "languages": curves})


def _accuracies(values: Values, published: Published) -> Sections:
    sections: Sections = {}
    for source, value in values.items():
        heading = f"{source.data}, {TITLES[source.language]} prompts"
        sections.setdefault(heading, []).append(
            (
                TITLES[source.model],
                f"{100 * value['accuracy']:.2f}",
                number(published.zero_shot_accuracy.get(source.name, math.nan), 2),
                number(value["calibration error"]),
                f"{value['ties']:.0f}",
            )
        )
    order = [f"{CIFAR}, {TITLES[x]} prompts" for x in LANGUAGES]
    return {h: sections[h] for h in (*order, f"{DERMA}, {TITLES['en']} prompts") if h in sections}


def _curves(values: Values) -> Sections:
    sections: Sections = {}
    for source, value in values.items():
        if source.data == CIFAR:
            pairs = [
                "/".join(
                    f"{value[f'{m} at {alpha:g}']:.2f}".removeprefix("0")
                    for m in ("coverage", "efficiency")
                )
                for alpha in ALPHAS[1:-1]
            ]
            row = (TITLES[source.language], *pairs)
            sections.setdefault(TITLES[source.model], []).append(row)
    return sections


def _claims(values: Values, published: Published) -> list[Claim]:
    claims = []
    for source, value in values.items():
        if source.name in published.zero_shot_accuracy:
            ours, paper = 100 * value["accuracy"], published.zero_shot_accuracy[source.name]
            text = f"{source.name}: accuracy {ours:.2f}, the paper's {paper:.2f}"
            claims.append(Claim(text, abs(ours - paper) <= ACCURACY_WITHIN + 1e-9))
        theirs = published.coverage("cifar10", source.model)
        if source.data == CIFAR and source.language == "en" and theirs is not None:
            gap = max(
                abs(value[f"{m} at {alpha:g}"] - theirs.at(m, alpha))
                for alpha in ALPHAS
                for m in ("coverage", "efficiency")
            )
            text = (
                f"{TITLES[source.model]}, English: coverage and efficiency within "
                f"{PUBLISHED_CURVE_WITHIN:g} of the published ones (largest difference {gap:.4f})"
            )
            claims.append(Claim(text, gap <= PUBLISHED_CURVE_WITHIN))
    return claims


# Figures


def _draw_accuracy(values: Values) -> Any:
    """A dot per model and language."""
    from matplotlib import pyplot as plt

    lines: dict[str, dict[str, float]] = {}
    for source, value in values.items():
        heading = TITLES[source.language] if source.data == CIFAR else f"{DERMA}\n(English)"
        lines.setdefault(heading, {})[source.model] = 100 * value["accuracy"]
    figure, ax = plt.subplots(figsize=(6.4, 0.55 * len(lines) + 1.3), layout="constrained")
    colours = dict(zip(MODELS, ("#0072B2", "#E69F00", "#009E73", "#CC79A7"), strict=True))
    for place, by_model in enumerate(lines.values()):
        reached = list(by_model.values())
        ax.plot((min(reached), max(reached)), (place, place), color="#9a9a9a", lw=1, zorder=1)
    for model in MODELS:
        at = [(x[model], place) for place, x in enumerate(lines.values()) if model in x]
        if at:
            x, y = zip(*at, strict=True)
            ax.scatter(x, y, s=64, color=colours[model], label=TITLES[model], zorder=2)
    ax.set_yticks(range(len(lines)), list(lines))
    ax.set(xlim=(0, 100), ylim=(len(lines) - 0.5, -0.5), xlabel="zero-shot accuracy, percent")
    ax.tick_params(length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(axis="x", color="#9a9a9a", alpha=0.25, linewidth=0.7)
    ax.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=len(MODELS), frameon=False)
    return figure


def _panels(values: Values) -> dict[str, dict[str, Tradeoff]]:
    """By model, the curve of each language: alpha, coverage, efficiency."""
    panels: dict[str, dict[str, Tradeoff]] = {}
    for source, value in values.items():
        if source.data == CIFAR:
            covered, efficient = (
                [value[f"{m} at {a:g}"] for a in ALPHAS] for m in ("coverage", "efficiency")
            )
            lines = panels.setdefault(TITLES[source.model], {})
            lines[TITLES[source.language]] = ALPHAS, covered, efficient
    return panels
