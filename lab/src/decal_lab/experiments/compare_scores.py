"""Which score finds errors and unfamiliar inputs: every measure of every set, and free scores.

A Decalibrator is fitted on part of each data set. Every measure of its sets, at several alphas,
scores the rest. AUROC says how well a score tells wrong predictions from right ones and, for
ResNet-20 and for digits, unfamiliar inputs from those of the data it learnt. Scores that need no
set stand beside them. Higher scores mean more uncertain; 0.5 is chance, less is backwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

import decal
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.labelled_logits import (
    ERRORS,
    OUTSIDE,
    LabelledSplit,
    find_labelled,
)
from decal_lab.experiments.harness.logit_sets import require_some
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore
from decal_lab.experiments.harness.score_tables import AUROC, ScoreTables

Array = NDArray[np.float64]

CLASS, BOTH, LOCAL, FREE = "class", "class + temperature", "local", "no set"
SETS = {CLASS: ("class",), BOTH: ("class", "temperature"), LOCAL: ("local",)}
"""The directions of each set, all with their default settings."""

ALPHAS = (0.05, 0.2, 0.5, 0.8, 0.95, 0.98)
QUICK_ALPHAS = (0.2, 0.8, 0.95)
QUICK_ROWS = 1000
"""A quick run scores at most so many rows of every kind."""

MEASURES: dict[str, Callable[[decal.IntervalCredalSet], Array]] = {
    "total": lambda c: c.total(),
    "entropy": lambda c: c.epistemic("entropy"),
    "zero-one": lambda c: c.epistemic("zero_one"),
    "total variation": lambda c: c.epistemic("total_variation"),
    "Hartley": lambda c: c.epistemic("hartley"),
    "width": lambda c: c.epistemic("width"),
    "−confidence": lambda c: -c.confidence(),
}
"""What is asked of the sets, in the order of tables."""

WARNED = ("entropy", "zero-one")
"""Measures of which decal says when they should not rank."""

FREE_SCORES: dict[str, Callable[[Array], Array]] = {
    "maximum probability": lambda z: 1 - softmax(z, axis=1).max(axis=1),
    "energy": lambda z: -np.asarray(logsumexp(z, axis=1)),
    "maximum logit": lambda z: -z.max(axis=1),
}
"""Scores that need no set. Their rows have alpha 1."""

COLUMNS = CELL | {"alpha": float, "score": str, "auroc": float, "rows": int, "warned": int} | ORIGIN
"""warned: 1 if decal warned that the score should not rank the new rows."""

AT = " @ "
"""Between a set and alpha in the name of a method, and between a score and what it is to find."""


def experiment(request: Request) -> Experiment:
    """AUROC of every score, for errors on every data set and for unfamiliar inputs.

    Seeds draw the rows to fit on; files that have such rows of their own need the first seed only.
    A quick run has three alphas and fewer rows.
    """
    found, absent = find_labelled(request.data)
    require_some(found, "files of logits", request.data, needs=absent)
    alphas = QUICK_ALPHAS if request.quick else ALPHAS
    most = QUICK_ROWS if request.quick else None

    @lru_cache(maxsize=1)  # the cells of a data set and seed follow each other
    def load(name: str, seed: int) -> LabelledSplit:
        return found[name].load(seed).first(most)

    @lru_cache(maxsize=len(SETS))
    def model(name: str, seed: int, kind: str) -> decal.Decalibrator:
        split = load(name, seed)
        return decal.Decalibrator(directions=SETS[kind]).fit(split.logits, split.labels)

    def rows(cell: Cell) -> Iterator[Row]:
        split = load(cell.data, cell.seed)
        kind, _, level = cell.method.partition(AT)
        alpha = float(level or 1.0)
        scores = FREE_SCORES if kind == FREE else MEASURES

        warned: dict[str, int] = {}

        def asked(logits: Array) -> dict[str, Array]:
            if kind == FREE:
                return {name: score(logits) for name, score in FREE_SCORES.items()}
            credal = model(cell.data, cell.seed, kind).predict(logits, alpha=alpha)
            found = {}
            for name, measure in MEASURES.items():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.filterwarnings(
                        "always", r"credal sets exclude|epistemic\(", decal.AnswerWarning
                    )
                    found[name] = measure(credal)
                warned.setdefault(name, int(bool(caught)))  # about the new rows, asked first
            return found

        inside = asked(split.new_logits)
        groups = {t: (inside, asked(z)) for t, z in split.outside.items()}
        if split.wrong.any() and not split.wrong.all():
            right, wrong = (
                {name: values[rows] for name, values in inside.items()}
                for rows in (~split.wrong, split.wrong)
            )
            groups[ERRORS] = right, wrong
        for target, (low, high) in groups.items():
            for score in scores:
                yield {
                    "alpha": alpha,
                    "score": f"{score}{AT}{target}",
                    "auroc": decal.metrics.auroc(in_scores=low[score], out_scores=high[score]),
                    "rows": len(low[score]) + len(high[score]),
                    "warned": warned.get(score, 0),
                }

    def levels(cell: Cell) -> list[str]:
        scores = FREE_SCORES if cell.method == FREE else MEASURES
        targets = [*found[cell.data].outside, ERRORS]
        return [f"{score}{AT}{target}" for score in scores for target in targets]

    titles = {name: data.title for name, data in found.items()}
    methods = [FREE, *(f"{kind}{AT}{alpha:g}" for kind in SETS for alpha in alphas)]
    return Experiment(
        columns=COLUMNS,
        level="score",
        cells=[
            Cell(name, method, seed)
            for name, data in found.items()
            for seed in (request.seeds if data.drawn else request.seeds[:1])
            for method in methods
        ],
        levels=levels,
        inputs=lambda cell: {
            "data": found[cell.data].source,
            "settings": (SETS.get(cell.method.partition(AT)[0]), most),
        },
        rows=rows,
        findings=partial(findings, titles=titles, alphas=alphas, seeds=request.seeds),
        seeds=request.seeds,
        needs=tuple(absent),
    )


def findings(
    store: RowStore,
    *,
    titles: Mapping[str, str],
    alphas: tuple[float, ...],
    seeds: tuple[int, ...],
) -> Findings:
    """Tables, figures and claims of the mean over seeds."""
    values: dict[tuple[str, str, float, str, str], list[float]] = {}
    warned: list[tuple[float, bool]] = []
    for cell, rows in store.cells.items():
        kind = cell.method.partition(AT)[0]
        for row in rows if cell.seed in seeds else ():
            score, _, target = row["score"].partition(AT)
            if kind == FREE or row["alpha"] in alphas:
                key = cell.data, kind, row["alpha"], score, target
                values.setdefault(key, []).append(row["auroc"])
                if score in WARNED and target == ERRORS:
                    warned.append((row["auroc"], row["warned"] == 1))
    means: AUROC = {key: float(np.mean(found)) for key, found in values.items()}
    tables = ScoreTables(
        means,
        titles=titles,
        kinds=tuple(SETS),
        measures=tuple(MEASURES),
        free=(FREE, tuple(FREE_SCORES)),
        alphas=alphas,
        outside=OUTSIDE,
        seeds=seeds,
        warned=tuple(warned),
    )
    return Findings(tables.report(), {"auroc": tables.draw} if means else {})
