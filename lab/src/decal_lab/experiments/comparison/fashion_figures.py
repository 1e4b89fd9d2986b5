"""Figures of the comparison on images: time against AUROC, coverage against efficiency."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from decal_lab.experiments.comparison.entries import Entry, curves, paths
from decal_lab.experiments.comparison.plan import OUTSIDE, STYLES
from decal_lab.experiments.harness.figures import NARROW_INCHES, tradeoff

AREAS = {"*": 90, "d": 50}
"""Of marks that look smaller than others, in points²."""


def drawings(real: list[Entry], drawn: list[Entry]) -> dict[str, Callable[[], Any]]:
    """Functions that draw the figures, by name; without those that have nothing to show."""
    columns = [c for c in OUTSIDE if any(c in entry.values for entry in real)]
    found = curves(drawn)
    figures: dict[str, Callable[[], Any]] = {}
    if columns:
        figures["time"] = partial(draw_time, {c: points(real, c) for c in columns})
    if found:
        figures["tradeoff"] = partial(tradeoff, paths(found), STYLES)
    return figures


Points = dict[str, tuple[list[float], list[float], list[float]]]
"""By method, of every alpha: seconds, AUROC and its standard deviation over seeds."""


def points(real: list[Entry], column: str) -> Points:
    """Those of one set out of distribution."""
    found: Points = {}
    for entry in real:
        if column in entry.values:
            x, y, sd = found.setdefault(entry.method, ([], [], []))
            values = entry.values[column]
            x.append(entry.seconds("train_seconds") + entry.seconds("predict_seconds"))
            y.append(entry.mean(column))
            sd.append(float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
    return found


def draw_time(panels: dict[str, Points], *, narrow: bool = False) -> Any:
    """AUROC against seconds of training and prediction; a panel per set out of distribution."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    count = len(panels)
    figure, grid = plt.subplots(
        *((count, 1) if narrow else (1, count)),
        sharey=True,
        squeeze=False,
        figsize=(NARROW_INCHES, 3.6 * count + 2.6) if narrow else (3.6 + 4.2 * count, 4.2),
        layout="constrained",
    )
    handles: dict[str, Any] = {}
    for ax, (column, found) in zip(grid.flat, panels.items(), strict=True):
        for method in STYLES:
            if method in found:
                handles[method] = _marks(ax, method, *found[method])
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
    grid[0, 0].set_ylabel("AUROC")
    best = {method: max(y) for method, (_, y, _) in next(iter(panels.values())).items()}
    order = sorted(handles, key=lambda m: -best.get(m, -math.inf))
    figure.legend(
        [handles[m] for m in order],
        order,
        loc="outside lower center" if narrow else "outside right center",
        frameon=False,
        fontsize=9,
    )
    return figure


def _marks(ax: Any, method: str, x: list[float], y: list[float], sd: list[float]) -> Any:
    """A mark per alpha of a method, joined, with whiskers for the standard deviation over seeds."""
    marker, colour = STYLES[method]
    order = np.argsort(y)
    ax.plot(np.array(x)[order], np.array(y)[order], color=colour, linewidth=0.8, alpha=0.6)
    ax.errorbar(x, y, yerr=sd, fmt="none", ecolor=colour, elinewidth=0.7, alpha=0.6)
    return ax.scatter(
        x, y, marker=marker, color=colour, s=AREAS.get(marker, 34), zorder=3, linewidths=0
    )
