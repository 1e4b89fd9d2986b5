"""Two solvers on the same logits, the published one and decal's, and the likelihood they reach.

An endpoint of a plausible interval is the shift at which the likelihood ratio is alpha. So an
endpoint can be checked: shift the logits by it, and compute the ratio.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal_lab.experiments.harness import published_solver
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import (
    RESNET20,
    LogitSplit,
    available,
    contents,
    own_split,
    resnet20_split,
    same_rows,
)
from decal_lab.experiments.harness.reports import Claim, Report, Sections, number
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

Array = NDArray[np.float64]

EXACT, PUBLISHED = "decal", "SLSQP"
ALPHAS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
SIDES = ("lower", "upper")

MISSED = 1e-3
"""An endpoint is missed if its likelihood ratio differs by more from alpha."""

QUICK_ROWS = 10_000

COLUMNS = {
    **CELL,
    "endpoint": str,  # alpha, class and side
    "alpha": float,
    "side": str,
    "shift": float,
    "reached": float,  # the likelihood ratio per example at this shift
    "coverage": float,  # of the credal sets at this alpha
    "efficiency": float,
    **ORIGIN,
}


@dataclass(frozen=True)
class SolverInput:
    """A model whose endpoints are computed.

    Attributes
    ----------
    title : str
        Its name in tables.
    file : str
        Its file of logits, without .npz.
    quick : bool
        Whether quick runs include it.
    """

    title: str
    file: str
    quick: bool

    def load(self, folder: Path, rows: int | None) -> LogitSplit:
        """Logits to fit on, at most `rows` of ResNet-20's; and logits to evaluate on."""
        if self.file == RESNET20:
            split = resnet20_split(folder)
            return LogitSplit(
                split.logits[:rows], split.labels[:rows], split.new_logits, split.truth
            )
        if self.file.startswith(("snli", "mnli")):
            return own_split(folder, self.file)
        return same_rows(folder, self.file)


MODELS = {
    RESNET20: SolverInput("ResNet-20", RESNET20, quick=True),
    "cnn_vgg_15_BN_64": SolverInput("VGG 15", "cnn_vgg_15_BN_64_test", quick=True),
    "cnn_resnext_29_8x64d": SolverInput(
        "ResNeXt 29, 8×64d", "cnn_resnext_29_8x64d_test", quick=False
    ),
    "clip_cifar10_en": SolverInput("CLIP", "clip_cifar10_en", quick=True),
    "snli_roberta0": SolverInput("RoBERTa, SNLI", "snli_roberta0", quick=True),
}


def experiment(request: Request) -> Experiment:
    """Endpoints of the available models by both solvers.

    Nothing is drawn, so seeds are not used. A quick run takes four of the five models, and 10,000
    of ResNet-20's 50,000 training images.
    """
    found, absent = available(request.data, [model.file for model in MODELS.values()])
    names = [
        f"{name}/{QUICK_ROWS}" if request.quick and name == RESNET20 else name
        for name, model in MODELS.items()
        if model.file in found and (model.quick or not request.quick)
    ]
    return Experiment(
        columns=COLUMNS,
        level="endpoint",
        cells=[Cell(name, method, 0) for name in names for method in (EXACT, PUBLISHED)],
        # The number of classes is known once a file is read. A cell is complete or absent, so one
        # endpoint of the first alpha and one of the last show that it is there.
        levels=lambda _: (f"{ALPHAS[0]:g} 0 lower", f"{ALPHAS[-1]:g} 2 upper"),
        inputs=lambda cell: {
            "data": contents(request.data, MODELS[cell.data.partition("/")[0]].file)
        },
        rows=partial(endpoint_rows, folder=request.data),
        findings=findings,
        seeds=(0,),
        needs=absent,
    )


def endpoint_rows(cell: Cell, *, folder: Path) -> Iterator[Row]:
    """The endpoints of a model by one solver, and the credal sets that they give."""
    name, _, few = cell.data.partition("/")
    split = MODELS[name].load(folder, QUICK_ROWS if few else None)
    ratio = published_solver.Ratio(split.logits, split.labels)
    if cell.method == PUBLISHED:
        found = published_solver.endpoints(ratio, ALPHAS)
    else:
        model = decal.Decalibrator().fit(split.logits, split.labels)
        found = np.array([[s.lower, s.upper] for s in map(model.shifts, ALPHAS)])
    reached = published_solver.reached(ratio, found)
    for i, alpha in enumerate(ALPHAS):
        # The published set at alpha holds the models of this and of every larger alpha.
        credal = box(split.new_logits, found[i:])
        coverage = decal.metrics.coverage(credal, split.truth)
        efficiency = decal.metrics.efficiency(credal)
        for side, k in np.ndindex(found.shape[1:]):
            yield {
                "endpoint": f"{alpha:g} {k} {SIDES[side]}",
                "alpha": alpha,
                "side": SIDES[side],
                "shift": float(found[i, side, k]),
                "reached": float(reached[i, side, k]),
                "coverage": coverage,
                "efficiency": efficiency,
            }


def box(logits: Any, endpoints: Array) -> decal.IntervalCredalSet:
    """The range of each probability over the model and those shifted by (A, 2, K) endpoints.

    One softmax per endpoint, as in the definition, so that both solvers are judged alike.
    """
    z = np.asarray(logits, dtype=np.float64)
    lower = upper = softmax(z, axis=1)
    for (_, _, k), shift in np.ndenumerate(endpoints):
        moved = z.copy()
        moved[:, k] += shift
        p = softmax(moved, axis=1)
        lower, upper = np.minimum(lower, p), np.maximum(upper, p)
    return decal.IntervalCredalSet(lower, upper)


# Reporting


def findings(store: RowStore) -> Findings:
    """Tables, figures and claims of all rows."""
    found = {
        title: {m: store.cells[Cell(name, m, 0)] for m in (EXACT, PUBLISHED)}
        for name, title in _titles().items()
        if all(Cell(name, m, 0) in store.cells for m in (EXACT, PUBLISHED))
    }
    report = Report(
        title="Endpoints of plausible shifts by two solvers, and the likelihood ratio they reach",
        headings=("alpha", "missed", "reached", "shift", "eff.", "decal: shift", "eff."),
        sections=_sections(found),
        caption=(
            "first SLSQP as published, unchecked: endpoints that miss alpha by more than "
            f"{MISSED:g}; the least and the largest ratio that its endpoints reach; its largest "
            "shift; the efficiency of its credal sets\n"
            "then decal, whose endpoints all reach alpha: its largest shift, its efficiency\n"
            "a set holds the models of its alpha and of larger ones, so a lost endpoint stays in it"
        ),
        claims=tuple(_claims(found)),
    )
    return Findings(report, {"likelihood_reached": partial(_draw, found)})


Found = Mapping[str, Mapping[str, Sequence[Row]]]
"""Rows by title and solver."""


def _titles() -> dict[str, str]:
    titles = {}
    for name, model in MODELS.items():
        titles[name] = model.title
        titles[f"{name}/{QUICK_ROWS}"] = f"{model.title}, {QUICK_ROWS:,} rows"
    return titles


def _column(rows: Sequence[Row], alpha: float, name: str) -> Array:
    return np.array([row[name] for row in rows if row["alpha"] == alpha])


def _sections(found: Found) -> Sections:
    sections: Sections = {}
    for title, solvers in found.items():
        sections[title] = rows = []
        for alpha in ALPHAS:
            theirs = _column(solvers[PUBLISHED], alpha, "reached")
            shifts = {m: np.abs(_column(solvers[m], alpha, "shift")).max() for m in solvers}
            efficiency = {m: _column(solvers[m], alpha, "efficiency")[0] for m in solvers}
            rows.append(
                (
                    f"{alpha:g}",
                    f"{(np.abs(theirs - alpha) > MISSED).sum()} of {len(theirs)}",
                    f"{number(theirs.min())} to {number(theirs.max())}",
                    f"{shifts[PUBLISHED]:.3g}",
                    number(efficiency[PUBLISHED]),
                    f"{shifts[EXACT]:.3g}",
                    number(efficiency[EXACT]),
                )
            )
    return sections


def _claims(found: Found) -> list[Claim]:
    claims = []
    for title, solvers in found.items():
        off = max(abs(row["reached"] - row["alpha"]) for row in solvers[EXACT])
        text = f"{title}: every endpoint of decal reaches its alpha (within {off:.0e})"
        claims.append(Claim(text, off < 1e-9))
    return claims


def _draw(found: Found) -> Any:
    """The ratio that each endpoint reaches, against the alpha that it should reach."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    columns = max(1, min(3, len(found)))
    lines = max(1, -(-len(found) // columns))
    figure, grid = plt.subplots(
        lines, columns, figsize=(3.2 * columns, 2.6 * lines + 0.5), squeeze=False, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for ax in grid.flat[len(found) :]:
        ax.remove()
    wide: dict[str, Any] = {"color": "#56B4E9", "lw": 7, "solid_capstyle": "round"}
    points: dict[str, Any] = {"color": "#D55E00", "ls": "", "clip_on": False}
    small, cross = {**points, "marker": ".", "ms": 2.5}, {**points, "marker": "x", "mew": 1.6}
    for ax, (title, solvers) in zip(grid.flat, found.items(), strict=False):
        for place, alpha in enumerate(ALPHAS):
            for ratio in np.unique(_column(solvers[EXACT], alpha, "reached").round(6)):
                ax.plot((place - 0.4, place + 0.4), (ratio, ratio), **wide)
            theirs = _column(solvers[PUBLISHED], alpha, "reached")
            x = place + np.linspace(-0.34, 0.34, len(theirs))
            missed = np.abs(theirs - alpha) > MISSED
            for chosen, style in ((~missed, small), (missed, cross)):
                if chosen.any():
                    ax.plot(x[chosen], theirs[chosen], **style)
        ax.set_title(title, fontsize="medium", loc="left", pad=8)
        ax.set_xticks(range(len(ALPHAS)), [f"{alpha:g}" for alpha in ALPHAS])
        ax.set(xlim=(-0.6, len(ALPHAS) - 0.4), ylim=(-0.02, 1.02), xlabel="alpha")
        ax.tick_params(length=0, labelsize="small")
        ax.spines[["top", "right"]].set_visible(False)
    for ax in grid[:, 0]:
        ax.set_ylabel("likelihood ratio")
    named: dict[str, dict[str, Any]] = {
        f"{EXACT}, all endpoints": wide,
        f"{PUBLISHED}, endpoints that reach alpha": small,
        f"{PUBLISHED}, endpoints that miss it": cross,
    }
    handles = [Line2D([], [], label=name, **style) for name, style in named.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure
