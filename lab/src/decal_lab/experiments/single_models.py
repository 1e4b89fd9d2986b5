"""Accuracy and calibration of every single model whose logits are available.

A credal set is built around a model, so the model's quality bounds what the set can do. Labels of
the TabPFN tables are drawn from their semi-synthetic truth, as their training labels were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import (
    PATTERNS,
    RESNET20,
    SHARED_FILES,
    TITLES,
    check_folder,
    described,
    draw_labels,
    read,
    require_some,
)
from decal_lab.experiments.harness.published_results import Published
from decal_lab.experiments.harness.reports import Report, Sections, number, seeds_text
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

COLUMNS = {**CELL, "measure": str, "value": float, **ORIGIN}
METHOD = "softmax"
MEASURES = ("accuracy", "calibration error", "negative log-likelihood", "rows")

EXTRA = (RESNET20, "clip_dermamnist_en", "biomedclip_dermamnist_en")
"""Files of test logits that have no known truth."""

HEADINGS = {
    "zero-shot": "Zero-shot, CIFAR-10 test",
    "derma": "Zero-shot, DermaMNIST test",
    "cnn": "Networks, CIFAR-10 test",
    "nli": "Language models, ChaosNLI items",
    "faces": "Faces, FER2013 test",
    "tabpfn": "TabPFN, labels drawn from the truth",
}
"""Kinds of models, in the order of tables."""

PUBLISHED_DATA = {"CIFAR-10": HEADINGS["cnn"], "ChaosNLI": HEADINGS["nli"]}
"""Where published models belong, by the data in their names."""

OTHER_DATA = "Data that are not available"
"""Heading of published models on data of which nothing is here."""

NETWORKS = "the paper's own networks: ResNet-18 on CIFAR-10, a small one on ChaosNLI, QualityMRI's"
TABLE = "the paper's table of accuracy and calibration error, in published.json"


@dataclass(frozen=True)
class SingleModel:
    """A model with its labelled test data."""

    name: str
    title: str
    kind: str

    def load(self, folder: Path, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Logits and labels; the labels of tables are drawn from the truth."""
        path = folder / f"{self.name}.npz"
        if self.kind == "tabpfn":
            logits, truth = read(path, "test_logits", "truth")
            return logits, draw_labels(truth, np.random.default_rng(seed))
        keys = dict.fromkeys(("zero-shot", "cnn", "faces"), ("logits", "labels"))
        if self.name == RESNET20:
            keys["cnn"] = ("cifar10_test", "test_labels")
        logits, labels = read(path, *keys.get(self.kind, ("test_logits", "test_labels")))
        return logits, labels


def sources(stems: Sequence[str]) -> Iterator[SingleModel]:
    """The models in files of these names."""
    for stem in stems:
        if stem == RESNET20:
            yield SingleModel(stem, "ResNet-20", "cnn")
        elif match := re.fullmatch(r"(.+)_dermamnist_en", stem):
            yield SingleModel(stem, TITLES.get(match[1], match[1]), "derma")
        elif any(re.fullmatch(pattern, stem) for pattern in PATTERNS.values()):
            data = next(described(stem))
            yield SingleModel(stem, data.title.removesuffix(", own split"), data.family)


def experiment(request: Request) -> Experiment:
    """Measures of all models in the folder.

    Seeds draw the labels of the tables; results are the mean over seeds. A quick run is the same as
    a full run.
    """
    check_folder(request.data)
    stems = sorted(path.stem for path in request.data.glob("*.npz"))
    known = (*SHARED_FILES, *EXTRA)
    stems.sort(key=lambda stem: known.index(stem) if stem in known else len(known))
    found = {source.name: source for source in sources(stems)}
    absent = [f"{stem}.npz" for stem in known if stem not in found]
    require_some(found, "files of logits", request.data, needs=absent)

    def rows(cell: Cell) -> list[Row]:
        values = measures(*found[cell.data].load(request.data, cell.seed))
        return [{"measure": name, "value": value} for name, value in values.items()]

    published = Published(request.data)
    models = list(found.values())
    return Experiment(
        columns=COLUMNS,
        level="measure",
        cells=[cell for source in models for cell in cells_of(source, request.seeds)],
        levels=lambda _: MEASURES,
        inputs=lambda cell: {"data": request.data / f"{cell.data}.npz"},
        rows=rows,
        findings=partial(findings, models=models, published=published, seeds=request.seeds),
        seeds=(0, *request.seeds),
        needs=(*absent, NETWORKS, *(() if published.single_models else (TABLE,))),
    )


def cells_of(source: SingleModel, seeds: Sequence[int]) -> list[Cell]:
    """One cell per seed where labels are drawn, and else one, of seed 0."""
    drawn = seeds if source.kind == "tabpfn" else (0,)
    return [Cell(source.name, METHOD, seed) for seed in drawn]


def measures(logits: Any, labels: Any) -> dict[str, float]:
    """How good a model is on labelled data."""
    z = np.asarray(logits, dtype=np.float64)
    p = softmax(z, axis=1)
    right = p[np.arange(len(p)), labels]
    return {
        "accuracy": float(np.mean(z.argmax(axis=1) == labels)),
        "calibration error": decal.metrics.expected_calibration_error(p, labels),
        "negative log-likelihood": float(-np.log(right.clip(np.finfo(float).tiny)).mean()),
        "rows": float(len(z)),
    }


# Reporting


def findings(
    store: RowStore, *, models: Sequence[SingleModel], published: Published, seeds: Sequence[int]
) -> Findings:
    """Tables and figures of the mean over seeds."""
    values: dict[SingleModel, dict[str, float]] = {}
    for source in sorted(models, key=lambda source: list(HEADINGS).index(source.kind)):
        rows = [row for cell in cells_of(source, seeds) for row in store.cells.get(cell, ())]
        values[source] = {
            name: float(np.mean([row["value"] for row in rows if row["measure"] == name]))
            for name in MEASURES
        }
    sections: Sections = {}
    for source, value in values.items():
        sections.setdefault(HEADINGS[source.kind], []).append(
            (
                source.title,
                f"{100 * value['accuracy']:.2f}",
                number(value["calibration error"]),
                number(value["negative log-likelihood"]),
                f"{value['rows']:,.0f}",
            )
        )
    for name, (accuracy, error) in published.single_models.items():
        # The paper prints both with two decimals: 0.93 is 93 percent, and no more is known.
        line = (f"published: {name}", f"{accuracy:g}", f"{error:.2f}", "", "")
        places = [heading for data, heading in PUBLISHED_DATA.items() if data in name]
        sections.setdefault(places[0] if places else OTHER_DATA, []).append(line)
    report = Report(
        title=f"Single models, {seeds_text(seeds)}",
        headings=("model", "accuracy, %", "ECE", "log loss", "rows"),
        sections=sections,
        caption=(
            "ECE: expected calibration error, ten bins of equal width\n"
            "published: the paper's own networks, printed with two decimals there"
        ),
    )
    return Findings(report, {"calibration": partial(_draw, values)})


def _draw(values: dict[SingleModel, dict[str, float]]) -> Any:
    """Accuracy and calibration error side by side, a line per model."""
    from matplotlib import pyplot as plt

    colours = dict(
        zip(
            HEADINGS,
            ("#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#CC79A7"),
            strict=True,
        )
    )
    places: dict[SingleModel, float] = {}
    place = 0.0
    for source in values:
        if places and source.kind != next(reversed(places)).kind:
            place += 1.1
        places[source] = place
        place += 1
    figure, axes = plt.subplots(
        1, 2, figsize=(8.2, 0.23 * place + 1.1), sharey=True, layout="constrained"
    )
    panels = (("accuracy", 100, "accuracy, percent"), ("calibration error", 1, "calibration error"))
    for ax, (name, factor, label) in zip(axes, panels, strict=True):
        for source, at in places.items():
            x, colour = factor * values[source][name], colours[source.kind]
            ax.plot((0, x), (at, at), color=colour, lw=1.2, alpha=0.45, solid_capstyle="butt")
            ax.scatter([x], [at], s=26, color=colour, zorder=3)
        ax.set_xlim(0)
        ax.set_xlabel(label)
        ax.tick_params(length=0, labelsize="small")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.grid(axis="x", color="#9a9a9a", alpha=0.25, linewidth=0.7)
        ax.set_axisbelow(True)
    axes[0].set_xlim(0, 100)
    axes[0].set_yticks(list(places.values()), [source.title for source in places])
    axes[0].set_ylim(place, -1.2)
    for kind, heading in HEADINGS.items():
        first = next((at for source, at in places.items() if source.kind == kind), None)
        if first is not None:
            axes[0].text(0, first - 0.75, heading, fontsize="small", fontweight="bold", va="center")
    return figure
