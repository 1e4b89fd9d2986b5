"""Ten published models of chest X-rays, and what eight radiologists say of the same images.

Five findings in 500 X-rays, each with a ground truth and the answers of eight radiologists. Sets
are cross-fitted: those of a fifth of the images come from the other four fifths, with the promise
that the wrong answer of a finding is decided for at most one new image in twenty. Is it kept, how
much is left open, and are open answers those on which radiologists disagree?

Scores of two models exceed 1: their logarithms stand for logits, and the reference recalibrates
shift and scale. Labels are the ground truth, which is not independent of all eight radiologists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import check_folder, require_file
from decal_lab.experiments.harness.reports import Claim, Report, number, seeds_text
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

FILE = "chexpert/chexpert_raters.npz"
COLUMNS = {**CELL, "measure": str, "value": float, **ORIGIN}
METHOD = "decalibrate_labels"
MISS, FOLDS, SEEDS = 0.05, 5, 5
WORTH_IT = 0.005  # of AUROC, on average over models
DISPUTED = 2  # so many of eight radiologists, or more, are of the minority
SMALLEST = 1e-6  # scores are kept so far from 0, and probabilities from 1

MEASURES = (
    "error",  # of the recalibrated model's answers, against the truth
    "decided",  # share of the answers that sets decide
    "wrong",  # share that is decided, and wrong
    "worst finding",  # the same, of the finding with most of them
    "disagreement, decided",  # of two radiologists, mean over decided answers
    "disagreement, open",  # and over open ones
    "AUROC, range",  # of disputed answers, by how wrong the answer is at worst; mean over findings
    "AUROC, point",  # and by the recalibrated probability alone
    "held",  # share of answers whose range holds the share of radiologists who say yes
    "width",  # of ranges, on average
)


COLUMNS_SHOWN = {
    "error": "error", "decided": "decided", "wrong": "wrong", "disagreement, decided": "differ",
    "disagreement, open": "open", "AUROC, range": "range", "AUROC, point": "point",
}  # fmt: skip
COLUMNS_IN_FILES = {"worst finding": "worst", "held": "held", "width": "width"}
CAPTION = f"""\
Shares of all answers, cross-fitted in {FOLDS} folds, at miss = {MISS:g} per finding
error: of the recalibrated model; wrong: decided and wrong
differ: two radiologists, where answers are decided, and where they are open
range, point: AUROC of answers on which {DISPUTED} of eight or more are of the minority
in files, worst: wrong of the worst finding; held: ranges that hold the radiologists' share of yes
A radiologist alone differs from the truth in {{person:.3f}}, two from each other in {{differ:.3f}}
desmond and ngango2 give scores, not probabilities; drnet, ihil, sensexdr, uestc share columns"""


def experiment(request: Request) -> Experiment:
    """Promised findings of every model, against the truth and against eight radiologists.

    The folder of data must hold chexpert/chexpert_raters.npz. Seeds draw the folds; if one is asked
    for, the four that follow it are used too. A quick run has one.
    """
    check_folder(request.data)
    path = require_file(request.data, FILE)
    with np.load(path) as file:
        models = [name.removeprefix("model_") for name in file.files if name.startswith("model_")]
    seeds = request.seeds if request.quick else request.extended_seeds(SEEDS)

    def rows(cell: Cell) -> list[Row]:
        found = measures(path, cell.data, cell.seed)
        return [{"measure": name, "value": found[name]} for name in MEASURES]

    return Experiment(
        columns=COLUMNS,
        level="measure",
        cells=[Cell(model, METHOD, seed) for model in models for seed in seeds],
        levels=lambda _: MEASURES,
        inputs=lambda _: {"data": path},
        rows=rows,
        findings=partial(findings, models=models, seeds=seeds, path=path),
        seeds=seeds,
    )


def logits_of(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Log-odds of probabilities; of scores that exceed 1, logarithms."""
    s = np.maximum(scores.astype(np.float64), SMALLEST)
    if s.max() > 1:
        return np.log(s)
    s = np.minimum(s, 1 - SMALLEST)
    return np.asarray(np.log(s) - np.log1p(-s))


def disagreement(yes: NDArray[Any], raters: int) -> NDArray[np.float64]:
    """The chance that two of the radiologists, drawn without replacement, differ."""
    return np.asarray(2 * yes * (raters - yes) / (raters * (raters - 1)))


def cross_fitted(logits: NDArray[Any], truth: NDArray[Any], seed: int) -> tuple[Any, ...]:
    """Decisions, bounds and point (n, L) of every image, by a model of the other folds."""
    order = np.random.default_rng(seed).permutation(len(logits))
    said = np.empty(truth.shape, dtype=np.int8)
    lower, upper, point = np.empty((3, *truth.shape))
    for fold in range(FOLDS):
        here = order[fold::FOLDS]
        there = np.setdiff1d(order, here)
        d = decal.decalibrate_labels(logits[there], truth[there], miss=MISS, seed=seed)
        credal = d.predict(logits[here])
        said[here] = credal.decide()
        lower[here], upper[here], point[here] = credal.lower, credal.upper, credal.point
    return said, lower, upper, point


def measures(path: Path, model: str, seed: int) -> dict[str, float]:
    """What the sets of a model say, against the truth and against radiologists."""
    with np.load(path) as file:
        scores, truth = file[f"model_{model}"], file["groundtruth"]
        yes, raters = file["radiologists"].sum(axis=0), len(file["radiologists"])
    said, lower, upper, point = cross_fitted(logits_of(scores), truth, seed)
    wrong, settled = (said >= 0) & (said != truth), said >= 0
    differ, share = disagreement(yes, raters), yes / raters
    disputed = np.minimum(yes, raters - yes) >= DISPUTED
    at_worst = np.where(point > 0.5, 1 - lower, upper)
    doubt = np.minimum(point, 1 - point)

    def found_by(score: NDArray[Any]) -> float:
        columns = [k for k in range(truth.shape[1]) if 0 < disputed[:, k].sum() < len(truth)]
        return float(
            np.mean(
                [
                    decal.metrics.auroc(score[~disputed[:, k], k], score[disputed[:, k], k])
                    for k in columns
                ]
            )
        )

    values = (
        ((point > 0.5) != truth).mean(),
        settled.mean(),
        wrong.mean(),
        wrong.mean(axis=0).max(),
        differ[settled].mean(),
        differ[~settled].mean() if (~settled).any() else np.nan,
        found_by(at_worst),
        found_by(doubt),
        ((share >= lower) & (share <= upper)).mean(),
        (upper - lower).mean(),
    )
    return dict(zip(MEASURES, map(float, values), strict=True))


def radiologists(path: Path) -> tuple[float, float]:
    """The mean error of single radiologists against the truth, and how often two of them differ."""
    with np.load(path) as file:
        answers, truth = file["radiologists"], file["groundtruth"]
    differ = disagreement(answers.sum(axis=0), len(answers))
    return float((answers != truth).mean()), float(differ.mean())


# Reporting


def findings(
    store: RowStore, *, models: Sequence[str], seeds: Sequence[int], path: Path
) -> Findings:
    """A line per model, the mean over seeds."""
    values: dict[str, dict[str, float]] = {}
    for model in models:
        rows = [row for seed in seeds for row in store.cells.get(Cell(model, METHOD, seed), ())]
        values[model] = {
            name: float(np.mean([row["value"] for row in rows if row["measure"] == name]))
            for name in MEASURES
        }
    person, differ = radiologists(path)

    def table(columns: Mapping[str, str]) -> Report:
        lines = [
            (model, *(number(found[name]) for name in columns)) for model, found in values.items()
        ]
        return Report(
            title=f"CheXpert, {seeds_text(seeds)}: ten models, eight radiologists",
            headings=("model", *columns.values()),
            sections={"": lines},
            caption=CAPTION.format(person=person, differ=differ),
            claims=tuple(claims(list(values.values()))),
        )

    narrow = table(COLUMNS_SHOWN)
    figures = {"radiologists": partial(_draw, values, person)}
    return Findings(narrow, figures, in_files=table(COLUMNS_SHOWN | COLUMNS_IN_FILES))


def claims(values: Sequence[Mapping[str, float]]) -> Iterator[Claim]:
    """What one would hope for, true or not."""
    kept = max(found["wrong"] for found in values) <= MISS
    yield Claim(f"{MISS:.0%} are decided wrongly at most, by every model", kept)
    more = all(v["disagreement, open"] > v["disagreement, decided"] for v in values)
    yield Claim("radiologists disagree more where answers are open, for every model", more)
    gain = np.mean([found["AUROC, range"] - found["AUROC, point"] for found in values])
    better = bool(gain > WORTH_IT)
    yield Claim("ranges find disputed answers better than the probability alone", better)
    held = np.mean([found["held"] for found in values]) >= 1 - MISS
    yield Claim("ranges hold the share of radiologists who say yes", bool(held))


def _draw(values: Mapping[str, Mapping[str, float]], person: float) -> Any:
    """Wrong answers before and after, and how much radiologists disagree, a line per model."""
    from matplotlib import pyplot as plt

    order = sorted(values, key=lambda model: values[model]["error"])
    figure, axes = plt.subplots(
        1, 2, figsize=(8.4, 0.3 * len(order) + 1.3), sharey=True, layout="constrained"
    )
    panels = (
        ("error", "wrong", "answers that are wrong", "all", "decided and wrong"),
        ("disagreement, open", "disagreement, decided", "two radiologists disagree",
         "where open", "where decided"),
    )  # fmt: skip
    axes[0].axvline(person, color="#009E73", lw=1.5, ls=":", label="a radiologist")
    for ax, (first, second, label, one, other) in zip(axes, panels, strict=True):
        for y, model in enumerate(order):
            a, b = values[model][first], values[model][second]
            ax.plot((a, b), (y, y), color="#9a9a9a", lw=1.5, zorder=1)
            ax.scatter([a], [y], s=32, color="#D55E00", zorder=2, label=one if not y else None)
            ax.scatter([b], [y], s=32, color="#0072B2", zorder=2, label=other if not y else None)
        ax.set_xlim(0, 1.08 * ax.get_xlim()[1])
        ax.set_xlabel(label)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.grid(axis="x", color="#9a9a9a", alpha=0.25, linewidth=0.7)
        ax.tick_params(length=0)
        ax.legend(frameon=False, fontsize="small", loc="lower center", ncols=3,
                  bbox_to_anchor=(0.5, 1.0))  # fmt: skip
    axes[0].set_yticks(range(len(order)), order)
    axes[0].set_ylim(len(order) - 0.3, -0.7)
    return figure
