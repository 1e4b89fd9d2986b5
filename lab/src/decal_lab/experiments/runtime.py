"""Run time: seconds to fit, to predict and to measure, and to train what other methods train.

The published table counts training only. Here all steps of decalibration are timed, on real logits,
next to the published solver and to bisection in the same process. Seconds depend on the machine and
its load; ratios depend on them less. This is the only experiment whose rows differ between runs.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp

import decal
from decal_lab.experiments.harness import published_solver
from decal_lab.experiments.harness.experiment import ROWS_FILE, Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import read, require_file
from decal_lab.experiments.harness.published_tables import BY_MEMBERS, OUT_SETS, RUNTIME, SINGLE
from decal_lab.experiments.harness.reports import Claim, Report, Table, number
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

Array = NDArray[np.float64]

FILE = "resnet20_cifar10.npz"
MATRICES = {
    "10,000 × 10": ("cifar10_test", "test_labels"),
    "50,000 × 10": ("cifar10_train", "train_labels"),
}
ALPHA = 0.8
"""As in the paper's own timing."""

DECAL, BOTH, BISECTION, SLSQP = "decal", "decal, with temperature", "bisection", "SLSQP"
FIT, PREDICT, ENTROPIES = "fit", "predict", "entropies"
STEPS = {
    DECAL: (FIT, PREDICT, ENTROPIES),
    BOTH: (FIT, PREDICT, ENTROPIES),
    BISECTION: (FIT,),
    SLSQP: (FIT, PREDICT, ENTROPIES),
}
"""Steps of each method: to find the endpoints, the intervals, and both entropies."""

HALVINGS, FARTHEST = 50, 64.0
REPEATS = 3
TIMES = 20
"""SLSQP should take at least this many times as long; machines and their load differ."""
SLSQP_ROWS = 100
"""Rows whose entropies SLSQP computes; the time of all rows is extrapolated from them."""

COLUMNS = CELL | {"step": str, "took": float, "timed_rows": int} | ORIGIN


def experiment(request: Request) -> Experiment:
    """Seconds of every step of every method, on two matrices of logits.

    Every seed is a run of its own; nothing is drawn. A quick run calls SLSQP on the smaller matrix
    only. If the folder of results lies next to that of fashion-mnist, the report also shows the
    seconds of training in the latter.
    """
    path = require_file(request.data, FILE)
    load = lru_cache(maxsize=1)(partial(read, path))
    smaller = next(iter(MATRICES))
    trained = request.out.parent / "fashion-mnist" / ROWS_FILE
    needs = ["a GPU and CIFAR-10 to train the paper's ensembles"]
    if not trained.exists():
        needs.append("rows of fashion-mnist in a folder next to this, for seconds of training")
    return Experiment(
        columns=COLUMNS,
        level="step",
        cells=[
            Cell(name, method, seed)
            for name in MATRICES
            for method in STEPS
            if not request.quick or method != SLSQP or name == smaller
            for seed in request.seeds
        ],
        levels=lambda cell: STEPS[cell.method],
        inputs=lambda cell: {"data": path, "settings": MATRICES[cell.data]},
        rows=lambda cell: TIMED[cell.method](cell.method, *load(*MATRICES[cell.data])),
        findings=partial(findings, seeds=request.seeds, trained=trained),
        seeds=request.seeds,
        needs=tuple(needs),
    )


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least of several times, since other processes can only add to them."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def _decal(method: str, logits: Any, labels: Any) -> Iterator[Row]:
    directions = ("class",) if method == DECAL else ("class", "temperature")
    model = decal.Decalibrator(alpha=ALPHA, directions=directions)

    def fit() -> None:
        model.fit(logits, labels).shifts()

    yield _row(FIT, seconds(fit), len(logits))
    yield _row(PREDICT, seconds(lambda: model.predict(logits)), len(logits))
    # A set keeps the entropies it has computed, so each repetition needs a new one.
    sets = [model.predict(logits) for _ in range(REPEATS)]
    yield _row(ENTROPIES, seconds(lambda: sets.pop().entropy()), len(logits))


def _bisection(method: str, logits: Any, labels: Any) -> Iterator[Row]:  # noqa: ARG001
    yield _row(FIT, seconds(lambda: bisected(logits, labels, ALPHA)), len(logits))


def _slsqp(method: str, logits: Any, labels: Any) -> Iterator[Row]:  # noqa: ARG001
    found: list[Array] = []

    def fit() -> None:
        found.append(published_solver.endpoints(published_solver.Ratio(logits, labels), (ALPHA,)))

    yield _row(FIT, seconds(fit, repeats=1), len(logits))
    (endpoints,) = found
    took = seconds(lambda: published_solver.moved_predictions(logits, endpoints), repeats=1)
    yield _row(PREDICT, took, len(logits))
    models = published_solver.moved_predictions(logits[:SLSQP_ROWS], endpoints)
    took = seconds(lambda: published_solver.entropy_difference(models), repeats=1)
    yield _row(ENTROPIES, took * len(logits) / len(models), len(models))


TIMED = {DECAL: _decal, BOTH: _decal, BISECTION: _bisection, SLSQP: _slsqp}


def bisected(logits: Any, labels: Any, alpha: float) -> Array:
    """(2, K) endpoints of the class shifts by halving [0, ±64] fifty times, all classes at once."""
    z = np.asarray(logits, dtype=np.float64)
    K = z.shape[1]
    rest = [logsumexp(np.delete(z, k, axis=1), axis=1) for k in range(K)]
    margins = z - np.column_stack(rest)
    counts = np.bincount(labels, minlength=K)
    before = -log_expit(-margins).sum(axis=0)  # softplus
    endpoints = []
    for sign in (-1.0, 1.0):
        inside, outside = np.zeros(K), np.full(K, FARTHEST)
        for _ in range(HALVINGS):
            t = sign * (inside + outside) / 2
            gain = counts * t + log_expit(-(margins + t)).sum(axis=0) + before
            plausible = gain >= len(z) * np.log(alpha)
            inside, outside = (
                np.where(plausible, abs(t), inside),
                np.where(plausible, outside, abs(t)),
            )
        endpoints.append(sign * inside)
    return np.array(endpoints)


def _row(step: str, took: float, rows: int) -> Row:
    return {"step": step, "took": took, "timed_rows": rows}


# Reporting


def findings(store: RowStore, *, seeds: tuple[int, ...], trained: Path) -> Findings:
    """Tables, figures and claims of the median over seeds."""
    gathered: dict[tuple[str, str, str], list[float]] = {}
    for cell, rows in store.cells.items():
        if cell.seed in seeds:
            for row in rows:
                key = cell.data, cell.method, row["step"]
                gathered.setdefault(key, []).append(row["took"])
    took = {key: float(np.median(values)) for key, values in gathered.items()}
    sections: dict[str, list[tuple[str, ...]]] = {}
    for name in MATRICES:
        for method, steps in STEPS.items():
            values = {step: took.get((name, method, step), np.nan) for step in steps}
            if np.isnan(list(values.values())).all():
                continue
            cells = []
            for step in (FIT, PREDICT, ENTROPIES):
                ours = took.get((name, DECAL, step), np.nan)
                value = values.get(step, np.nan)
                cells += [_seconds(value), "" if np.isnan(value) else f"{value / ours:,.1f} ×"]
            sections.setdefault(name, []).append((method, *cells))
    report = Report(
        title=f"Seconds to fit, to predict and to measure at alpha {ALPHA:g}",
        headings=("method", "fit", "", "predict", "", "entropies", ""),
        sections=sections,
        caption=(
            "ResNet-20's logits; ×: times decal's in the same process; predict and entropies: "
            "of all rows\n"
            f"SLSQP: as published; the time of its entropies is extrapolated from {SLSQP_ROWS} rows"
        ),
        claims=tuple(_claims(took)),
        further=(*_trained_table(trained), _published_table()),
    )
    return Findings(report, {"seconds": partial(_draw, took)})


def _claims(took: Mapping[tuple[str, str, str], float]) -> Iterator[Claim]:
    name = next(iter(MATRICES))
    if (name, SLSQP, FIT) in took and (name, DECAL, FIT) in took:
        ratio = took[name, SLSQP, FIT] / took[name, DECAL, FIT]
        yield Claim(f"the fit takes SLSQP {ratio:,.0f} times as long ({name})", ratio > TIMES)
        ratio = took[name, SLSQP, ENTROPIES] / took[name, DECAL, ENTROPIES]
        yield Claim(f"the entropies take it {ratio:,.0f} times as long", ratio > TIMES)


def _trained_table(path: Path) -> Iterator[Table]:
    """Seconds of training and prediction on Fashion-MNIST, if that experiment has run."""
    if not path.exists():
        return
    found: dict[str, list[tuple[float, float]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row.get("labels") == "real":
                pair = float(row["train_seconds"]), float(row["predict_seconds"])
                found.setdefault(row["method"], []).append(pair)
    rows = [(m, *map(_seconds, np.mean(pairs, axis=0))) for m, pairs in found.items()]
    if rows:
        yield Table(
            "Fashion-MNIST, live: seconds of one core",
            ("method", "training", "prediction"),
            {"": rows},
            "training: of all networks that the method needs, and of fitting",
        )


def _published_table() -> Table:
    rows = []
    for method, (mean, deviation) in RUNTIME.items():
        auroc = SINGLE.get(method) or BY_MEMBERS[method][10]
        members = "1" if method in SINGLE else "10"
        scores = map(number, (float(np.mean(auroc)), min(auroc), max(auroc)))
        rows.append((method, members, f"{mean:,.0f} ± {deviation:,.0f}", *scores))
    return Table(
        "Published: seconds of training, and the AUROC it buys",
        ("method", "networks", "seconds", "AUROC", "least", "most"),
        {"": rows},
        "CIFAR-10, ResNet-18, the authors' machine (results/ood_runtime.csv in their repository)\n"
        f"AUROC: mean, least and most of {', '.join(OUT_SETS.values())}\n"
        "decalibration's fit and the entropies of all methods are not in the seconds",
    )


def _seconds(x: float) -> str:
    if np.isnan(x):
        return ""
    return f"{x:,.0f} s" if x >= 100 else f"{x:.3g} s"


def _draw(took: Mapping[tuple[str, str, str], float]) -> Any:
    from matplotlib import pyplot as plt

    colours = {DECAL: "#0072B2", BOTH: "#56B4E9", BISECTION: "#009E73", SLSQP: "#D55E00"}
    markers = {DECAL: "o", BOTH: "s", BISECTION: "D", SLSQP: "v"}
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.0, 3.2), layout="constrained", width_ratios=(1.15, 1)
    )
    lines = [(name, step) for name in MATRICES for step in (FIT, PREDICT, ENTROPIES)]
    for method, colour in colours.items():
        points = [(took[n, method, s], i) for i, (n, s) in enumerate(lines)
                  if (n, method, s) in took]  # fmt: skip
        left.scatter(*zip(*points, strict=True), color=colour, marker=markers[method], s=38,
                     label=method, zorder=3)  # fmt: skip
    left.set_yticks(range(len(lines)), [f"{step}, {name}" for name, step in lines], fontsize=8)
    left.invert_yaxis()
    left.set_title(f"here: alpha {ALPHA:g}, ResNet-20's logits", fontsize=9)
    left.set_xlabel("seconds", fontsize=9)
    left.legend(frameon=False, fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.4, -0.2))
    palette = ("#0072B2", "#009E73", "#D55E00", "#E69F00", "#CC79A7", "#56B4E9")
    for (method, (mean, _)), colour in zip(RUNTIME.items(), palette, strict=True):
        auroc = SINGLE.get(method) or BY_MEMBERS[method][10]
        middle = np.mean(auroc)
        right.errorbar(
            mean, middle, yerr=[[middle - min(auroc)], [max(auroc) - middle]], color=colour,
            marker="o", markersize=6, capsize=3, linestyle="none", label=method,
        )  # fmt: skip
    right.set_title("published: training and AUROC on five sets", fontsize=9)
    right.set_xlabel("seconds of training", fontsize=9)
    right.set_ylabel("AUROC, mean and range", fontsize=9)
    right.legend(frameon=False, fontsize=7, loc="center", bbox_to_anchor=(0.3, 0.72))
    for ax in (left, right):
        ax.set_xscale("log")
        ax.tick_params(axis="x", labelsize=8, length=0)
        ax.tick_params(axis="y", labelsize=8, length=0)
        ax.grid(color="#8a8a8a", alpha=0.25, linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    return figure
