"""Figures of the comparison on images: time against AUROC, coverage against efficiency."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from decal._experiments.comparison.entries import Entry, curves, paths
from decal._experiments.comparison.plan import (
    BAYESIAN,
    BOTH,
    CLASS,
    CRENET,
    DDU,
    DROPOUT,
    ENERGY,
    ENSEMBLING,
    ENTROPY,
    EVIDENTIAL,
    LIKELIHOOD,
    OUTSIDE,
    SOFTMAX,
    WRAPPER,
)
from decal._experiments.harness.figures import tradeoff

STYLES = {
    CLASS: ("o", "#0072B2"),
    BOTH: ("D", "#D55E00"),
    WRAPPER: ("s", "#009E73"),
    ENSEMBLING: ("^", "#009E73"),
    LIKELIHOOD: ("v", "#CC79A7"),
    CRENET: ("P", "#CC79A7"),
    BAYESIAN: ("X", "#CC79A7"),
    EVIDENTIAL: ("p", "#7f7f7f"),
    DDU: ("*", "#7f7f7f"),
    DROPOUT: ("h", "#7f7f7f"),
    SOFTMAX: ("<", "#7f7f7f"),
    ENTROPY: (">", "#7f7f7f"),
    ENERGY: ("d", "#7f7f7f"),
}
"""Markers, and Okabe and Ito's colours for decalibration, ensembles, special networks, scores."""


def drawings(real: list[Entry], drawn: list[Entry]) -> dict[str, Callable[[], Any]]:
    """Functions that draw the figures, by name; without those that have nothing to show."""
    columns = [c for c in OUTSIDE if any(c in entry.values for entry in real)]
    found = curves(drawn)
    figures: dict[str, Callable[[], Any]] = {}
    if columns:
        figures["time"] = partial(_time, real, columns)
    if found:
        figures["tradeoff"] = partial(tradeoff, paths(found))
    return figures


def _time(real: list[Entry], columns: list[str]) -> Any:
    """AUROC against seconds of training and prediction; a panel per set out of distribution."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    size = (3.6 + 4.2 * len(columns), 4.2)
    figure, grid = plt.subplots(
        1, len(columns), sharey=True, squeeze=False, figsize=size, layout="constrained"
    )
    panels = grid[0]
    handles: dict[str, Any] = {}
    for ax, column in zip(panels, columns, strict=True):
        for method in STYLES:
            own = [e for e in real if e.method == method and column in e.values]
            if own:
                handles[method] = _points(ax, own, column)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("seconds: training and prediction")
        ax.axhline(0.5, color="#9a9a9a", linewidth=0.8, linestyle=(0, (1, 2)))
        ax.grid(color="#9a9a9a", linewidth=0.4, alpha=0.4)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.set_title(f"Fashion-MNIST against {OUTSIDE[column]}", fontsize=10)
    panels[0].set_ylabel("AUROC")
    best = {
        m: max(e.mean(columns[0]) for e in real if e.method == m and columns[0] in e.values)
        for m in handles
        if any(e.method == m and columns[0] in e.values for e in real)
    }
    order = sorted(handles, key=lambda m: -best.get(m, -math.inf))
    figure.legend(
        [handles[m] for m in order], order, loc="outside right center", frameon=False, fontsize=9
    )
    return figure


def _points(ax: Any, own: list[Entry], column: str) -> Any:
    """A mark per alpha of a method, joined, with whiskers for the standard deviation over seeds."""
    marker, colour = STYLES[own[0].method]
    x = [e.seconds("train_seconds") + e.seconds("predict_seconds") for e in own]
    y = [e.mean(column) for e in own]
    sd = [np.std(e.values[column], ddof=1) if len(e.values[column]) > 1 else 0 for e in own]
    order = np.argsort(y)
    ax.plot(np.array(x)[order], np.array(y)[order], color=colour, linewidth=0.8, alpha=0.6)
    ax.errorbar(x, y, yerr=sd, fmt="none", ecolor=colour, elinewidth=0.7, alpha=0.6)
    return ax.scatter(x, y, marker=marker, color=colour, s=34, zorder=3, linewidths=0)
