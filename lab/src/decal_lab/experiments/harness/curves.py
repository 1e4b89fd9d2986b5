"""Curves of coverage against efficiency: computing them, reading them, drawing them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal_lab.experiments.harness.figures import bare, legend_above, on_page
from decal_lab.experiments.harness.logit_sets import LogitSplit
from decal_lab.experiments.harness.rows import Row

Array = NDArray[np.float64]

QUICK_EXPONENTS = (-10, 3)
EXPONENTS = (-20, 5)
"""The least and the largest budget -log alpha, as powers of 2; 0 and infinity come on top."""

PANELS_PER_ROW, PANELS_IF_NARROW = 4, 2
PANEL_INCHES = (1.85, 1.9)
LEGEND_COLUMN = 1.9
"""Inches."""


@dataclass(frozen=True)
class Curve:
    """Coverage and efficiency of one fitted model at several levels alpha.

    Attributes
    ----------
    alpha, coverage, efficiency : (A,) array
        By falling alpha: the sets widen, so coverage never falls and efficiency never rises.
    """

    alpha: Array
    coverage: Array
    efficiency: Array

    def at(self, efficiency: float) -> float:
        """Coverage at an efficiency, interpolated; NaN if no alpha gives that efficiency."""
        return float(
            np.interp(
                efficiency,
                self.efficiency[::-1],
                self.coverage[::-1],
                left=math.nan,
                right=math.nan,
            )
        )

    def rows(self) -> list[Row]:
        """A row per alpha."""
        numbers = np.column_stack([self.alpha, self.coverage, self.efficiency]).tolist()
        return [{"alpha": a, "coverage": c, "efficiency": e} for a, c, e in numbers]


def levels(*, quick: bool = False) -> list[float]:
    """Levels alpha from 1 to 0, dense near 1: the logarithms of their budgets are evenly spaced.

    There are four levels per doubling of the budget, and two of these four in quick runs.
    """
    (first, last), step = (QUICK_EXPONENTS, 2) if quick else (EXPONENTS, 1)
    budgets = [2.0 ** (quarter / 4) for quarter in range(4 * first, 4 * last + 1, step)]
    return [1.0, *(math.exp(-budget) for budget in budgets), 0.0]


def measure(model: decal.Decalibrator, split: LogitSplit, alphas: Sequence[float]) -> Curve:
    """Coverage and efficiency of a fitted model at falling levels alpha."""
    coverage, efficiency = np.empty((2, len(alphas)))
    for i, alpha in enumerate(alphas):
        credal = model.predict(split.new_logits, alpha=alpha)
        coverage[i] = decal.metrics.coverage(credal, split.truth)
        efficiency[i] = decal.metrics.efficiency(credal)
    return Curve(np.array(alphas), coverage, efficiency)


def mean_curve(runs: Sequence[Sequence[Row]]) -> Curve:
    """The mean over runs, such as seeds, at the alphas that all of them have."""
    by_alpha = [{row["alpha"]: row for row in rows} for rows in runs]
    alphas = sorted(set.intersection(*map(set, by_alpha)), reverse=True)
    columns = [
        np.mean([[rows[alpha][name] for alpha in alphas] for rows in by_alpha], axis=0)
        for name in ("alpha", "coverage", "efficiency")
    ]
    return Curve(*columns)


@dataclass(frozen=True)
class Panel:
    """A title, and the curves of several methods below it."""

    title: str
    curves: Mapping[str, Curve]


def draw(
    sections: Mapping[str, Sequence[Panel]],
    styles: Mapping[str, Mapping[str, Any]],
    title: str = "",
    *,
    narrow: bool = False,
) -> Any:
    """A figure of coverage against efficiency, with a panel per data set.

    Parameters
    ----------
    sections : mapping of str to sequence of Panel
        Panels under the heading of each section, which starts a new line.
    styles : mapping of str to mapping
        How to draw the line of each method, in the order of the legend.
    title : str
        What the figure shows.
    narrow : bool
        Whether it is for a telephone.
    """
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    longest = max(map(len, sections.values()))
    most = PANELS_IF_NARROW if narrow else PANELS_PER_ROW
    columns = -(-longest // -(-longest // most))  # full lines, as far as that goes
    places = _places(sections, columns)
    rows = 1 + max(row for row, *_ in places)
    width = max(columns, PANELS_IF_NARROW) * PANEL_INCHES[0] + 0.4
    height = rows * PANEL_INCHES[1] + 1
    figure = plt.figure(figsize=(width, height), layout="constrained")
    grid = figure.add_gridspec(rows, columns)
    for row, column, heading, panel in places:
        ax = figure.add_subplot(grid[row, column])
        _draw_panel(ax, panel, styles)
        if heading:
            ax.annotate(
                heading,
                (0, 1),
                xytext=(-12, 20),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=10,
                fontweight="bold",
            )
    figure.supxlabel("efficiency", fontsize=9)
    figure.supylabel("coverage", fontsize=9)
    handles = [
        Line2D([], [], label=method, **dict(style, color=on_page(style["color"])))
        for method, style in styles.items()
    ]
    legend_above(figure, handles, title, narrow=narrow or len(handles) * LEGEND_COLUMN > width)
    return figure


def _places(
    sections: Mapping[str, Sequence[Panel]], columns: int
) -> list[tuple[int, int, str, Panel]]:
    """The row and the column of every panel, and the heading above the first of a section."""
    places: list[tuple[int, int, str, Panel]] = []
    start = 0
    for heading, panels in sections.items():
        for i, panel in enumerate(panels):
            row, column = divmod(i, columns)
            places.append((start + row, column, "" if i else heading, panel))
        start += -(-len(panels) // columns)
    return places


def _draw_panel(ax: Any, panel: Panel, styles: Mapping[str, Mapping[str, Any]]) -> None:
    ax.set_title(panel.title, fontsize=9, pad=3)
    for method, style in styles.items():
        if method in panel.curves:
            curve = panel.curves[method]
            ax.plot(curve.efficiency, curve.coverage, **dict(style, color=on_page(style["color"])))
    ax.set(xlim=(0, 1.01), ylim=(0, 1.02))
    ax.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))
    ax.set_yticks((0, 0.5, 1), ("0", "0.5", "1"))
    bare(ax)
