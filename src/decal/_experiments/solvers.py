"""Two solvers on the same logits: the published one and decal's, and how likely their ends are.

An end of a plausible interval is the shift at which the likelihood ratio is alpha. So an end can be
checked: shift the logits by it and look. The published solver, SLSQP, is in `slsqp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal._experiments.harness import slsqp
from decal._experiments.harness.figures import save_all
from decal._experiments.harness.logit_sets import (
    Split,
    check_folder,
    human_labels,
    read,
    require_some,
)
from decal._experiments.harness.reports import Claim, Report, Sections, number, write_tables
from decal._experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore, Track, untracked

Array = NDArray[np.float64]

EXACT, PUBLISHED = "decal", "SLSQP"
ALPHAS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
SIDES = ("lower", "upper")

MISSED = 1e-3
"""An end whose likelihood ratio differs by more from alpha is none."""

QUICK_ROWS = 10_000

COLUMNS = {
    **CELL,
    "end": str,  # alpha, class and side: what tells the rows of a cell apart
    "alpha": float,
    "side": str,
    "shift": float,
    "reached": float,  # the likelihood ratio per example at this shift
    "coverage": float,  # of the credal sets at this alpha
    "efficiency": float,
    **ORIGIN,
}


@dataclass(frozen=True)
class Source:
    """A model whose ends are sought, by its file without .npz."""

    title: str
    file: str
    quick: bool

    def load(self, folder: Path, rows: int | None) -> Split:
        """Logits to fit on, at most so many; and test images with CIFAR-10H or NLI items."""
        path = folder / f"{self.file}.npz"
        if self.file == "resnet20_cifar10":
            keys = ("cifar10_train", "train_labels", "cifar10_test", "test_labels")
            logits, labels, new, new_labels = read(path, *keys)
            truth = human_labels(folder, new_labels)
            if truth is None:  # coverage of the labels themselves
                truth = np.eye(logits.shape[1])[new_labels]
            return Split(logits[:rows], labels[:rows], new, truth)
        if self.file.startswith(("snli", "mnli")):
            return Split(*read(path, "train_logits", "train_labels", "test_logits", "human"))
        logits, labels, human = read(path, "logits", "labels", "human")
        return Split(logits, labels, logits, human)


SOURCES = {
    "resnet20_cifar10": Source("ResNet-20", "resnet20_cifar10", quick=True),
    "cnn_vgg_15_BN_64": Source("VGG 15", "cnn_vgg_15_BN_64_test", quick=True),
    "cnn_resnext_29_8x64d": Source("ResNeXt 29, 8×64d", "cnn_resnext_29_8x64d_test", quick=False),
    "clip_cifar10_en": Source("CLIP", "clip_cifar10_en", quick=True),
    "snli_roberta0": Source("RoBERTa, SNLI", "snli_roberta0", quick=True),
}


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),  # noqa: ARG001 - nothing is drawn
    quick: bool = False,
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder of logits.
    out : folder of results, created if need be.
    seeds : not used: nothing is random.
    quick : four models instead of five, and 10,000 of ResNet-20's 50,000 training images.
    track : hands on the cells to compute, for a progress bar.
    """
    check_folder(data)
    present = {n: s for n, s in SOURCES.items() if (data / f"{s.file}.npz").exists()}
    absent = tuple(f"{s.file}.npz" for n, s in SOURCES.items() if n not in present)
    require_some(present, "files of logits", data, needs=absent)
    store = RowStore(out / "rows.csv", COLUMNS, level="end")
    compute(store, present, data, quick=quick, track=track)
    return report(store, out, needs=absent)


def compute(
    store: RowStore,
    present: Mapping[str, Source],
    folder: Path,
    *,
    quick: bool,
    track: Track = untracked,
) -> None:
    """Add the cells that are missing."""

    def work(cell: Cell) -> list[Row]:
        name, _, few = cell.data.partition("/")
        split = present[name].load(folder, QUICK_ROWS if few else None)
        ratio = slsqp.Ratio(split.logits, split.labels)
        if cell.method == PUBLISHED:
            found = slsqp.ends(ratio, ALPHAS)
        else:
            model = decal.Decalibrator().fit(split.logits, split.labels)
            shifts = [model.shifts(alpha) for alpha in ALPHAS]
            found = np.array([[s.lower, s.upper] for s in shifts])
        reached = slsqp.reached(ratio, found)
        rows = []
        for i, alpha in enumerate(ALPHAS):
            # The published set at alpha holds the models of this and of every larger alpha.
            credal = box(split.new_logits, found[i:])
            scores = {
                "coverage": decal.metrics.coverage(credal, split.truth),
                "efficiency": decal.metrics.efficiency(credal),
            }
            for side, k in np.ndindex(found.shape[1:]):
                at = {"end": f"{alpha:g} {k} {SIDES[side]}", "alpha": alpha, "side": SIDES[side]}
                numbers = {"shift": found[i, side, k], "reached": reached[i, side, k]}
                rows.append(at | {name: float(x) for name, x in numbers.items()} | scores)
        return rows

    names = [name for name, source in present.items() if source.quick or not quick]
    few = {"resnet20_cifar10"} if quick else set()
    cells = [
        Cell(f"{name}/{QUICK_ROWS}" if name in few else name, method, 0)
        for name in names
        for method in (EXACT, PUBLISHED)
    ]
    # How many classes a file has is known once it is read; a cell is whole or absent, so one end
    # of the first alpha and one of the last tell that it is there.
    store.fill(cells, (f"{ALPHAS[0]:g} 0 lower", f"{ALPHAS[-1]:g} 2 upper"), work, track=track)


def box(logits: Any, ends: Array) -> decal.IntervalCredalSet:
    """The range of each probability over the unperturbed model and those shifted by (A, 2, K) ends.

    Literally, one softmax per end, so that both solvers are judged alike.
    """
    z = np.asarray(logits, dtype=np.float64)
    lower = upper = softmax(z, axis=1)
    for (_, _, k), shift in np.ndenumerate(ends):
        moved = z.copy()
        moved[:, k] += shift
        p = softmax(moved, axis=1)
        lower, upper = np.minimum(lower, p), np.maximum(upper, p)
    return decal.IntervalCredalSet(lower, upper)


# Reporting


def report(store: RowStore, out: Path, *, needs: tuple[str, ...] = ()) -> Report:
    """Write tables and figures of all rows, and sum them up for the terminal."""
    found = {
        title: {m: store.cells[Cell(name, m, 0)] for m in (EXACT, PUBLISHED)}
        for name, title in _titles().items()
        if all(Cell(name, m, 0) in store.cells for m in (EXACT, PUBLISHED))
    }
    told = Report(
        title="Ends of plausible shifts by two solvers, and the likelihood ratio they reach",
        headings=("alpha", "missed", "reached", "shift", "eff.", "decal: shift", "eff."),
        sections=_sections(found),
        caption=(
            "first SLSQP as published, unchecked: ends that miss alpha by more than "
            f"{MISSED:g}; the least and the largest ratio that its ends reach; its largest shift; "
            "the efficiency of its credal sets\n"
            "then decal, whose ends all reach alpha: its largest shift, its efficiency\n"
            "a set holds the models of its alpha and of larger ones, so a lost end stays in it"
        ),
        claims=tuple(_claims(found)),
        needs=needs,
    )
    files, notes = save_all({"likelihood_reached": partial(_draw, found)}, out)
    written = [store.path, *write_tables(told, out), *files]
    return replace(told, notes=(*store.origins((0,)), *notes), files=tuple(written))


Found = Mapping[str, Mapping[str, Sequence[Row]]]
"""Rows by title and solver."""


def _titles() -> dict[str, str]:
    titles = {}
    for name, source in SOURCES.items():
        titles[name] = source.title
        titles[f"{name}/{QUICK_ROWS}"] = f"{source.title}, {QUICK_ROWS:,} rows"
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
        text = f"{title}: every end of decal reaches its alpha (within {off:.0e})"
        claims.append(Claim(text, off < 1e-9))
    return claims


def _draw(found: Found) -> Any:
    """The ratio that each end reaches against the alpha that it was to reach."""
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
        f"{EXACT}, all ends": wide,
        f"{PUBLISHED}, ends that reach alpha": small,
        f"{PUBLISHED}, ends that miss it": cross,
    }
    handles = [Line2D([], [], label=name, **style) for name, style in named.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure
