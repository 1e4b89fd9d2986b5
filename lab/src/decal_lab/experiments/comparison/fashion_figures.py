"""Figures of the comparison on images: time against AUROC, coverage against efficiency."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from decal_lab.experiments.comparison.entries import Entry, curves, paths
from decal_lab.experiments.comparison.plan import (
    BOTH,
    CLASS,
    ONE_NETWORK,
    OUTSIDE,
    SEVERAL_NETWORKS,
    STYLES,
)
from decal_lab.experiments.harness.figures import (
    NARROW_INCHES,
    bare,
    legend_above,
    on_page,
    tradeoff,
)

HELD = "Only decalibration makes sets wide enough to hold the truth"
FOUND = "One network's features find strangers as well as ten networks do"
KINDS = {
    "decalibration of one network": ("#D55E00", (CLASS, BOTH)),
    "one network": ("#0072B2", ONE_NETWORK),
    "several networks": ("#8a8a8a", SEVERAL_NETWORKS),
}
"""Colours of methods; each counts by the first kind that has it."""


def drawings(real: list[Entry], drawn: list[Entry]) -> dict[str, Callable[[], Any]]:
    """Functions that draw the figures, by name; without those that have nothing to show."""
    columns = [c for c in OUTSIDE if any(c in entry.values for entry in real)]
    found = curves(drawn)
    figures: dict[str, Callable[[], Any]] = {}
    if columns:
        figures["time"] = partial(draw_time, {c: points(real, c) for c in columns})
    if found:
        figures["tradeoff"] = partial(tradeoff, paths(found), STYLES, HELD)
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
    """AUROC of every method at its best alpha, and seconds of training and prediction; a panel per
    set out of distribution.
    """
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    most = max(map(len, panels.values()))
    figure, axes = plt.subplots(
        len(panels),
        1,
        squeeze=False,
        figsize=(NARROW_INCHES if narrow else 6.6, (0.27 * most + 0.6) * len(panels) + 0.8),
        layout="constrained",
    )
    colours = {name: on_page(colour) for name, (colour, _) in KINDS.items()}
    for ax, (column, found) in zip(axes.flat, panels.items(), strict=True):
        best = {m: np.transpose(values)[np.argmax(values[1])] for m, values in found.items()}
        order = sorted(best, key=lambda m: -best[m][1])
        for place, method in enumerate(order):
            seconds, auroc, deviation = best[method]
            kind = next(name for name, (_, methods) in KINDS.items() if method in methods)
            look = {"color": colours[kind], "ecolor": colours[kind], "elinewidth": 1}
            ax.errorbar(auroc, place, xerr=deviation, fmt="o", ms=6, **look)
            ax.annotate(f"{seconds:.0f} s", (1, place), xytext=(38, 0), ha="right", va="center",
                        xycoords=ax.get_yaxis_transform(), textcoords="offset points",
                        fontsize=9)  # fmt: skip
        ax.set_yticks(range(len(order)), [m.replace("Decalibration", "decal") for m in order])
        ax.set(ylim=(len(order) - 0.4, -0.6), xlim=(0.55, 1.0))
        ax.set_xlabel(f"AUROC, {OUTSIDE[column]}; at the right: seconds of one core", fontsize=9)
        bare(ax)
        ax.spines["left"].set_visible(False)
    handles = [
        Line2D([], [], ls="", marker="o", ms=6, label=name, color=colour)
        for name, colour in colours.items()
    ]
    legend_above(figure, handles, FOUND, narrow=narrow)
    return figure
