"""Horizontal bars, one per class: for many classes, and to read off numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from decal.plot import style
from decal.plot._fonts import LINE, SMALL, drawable, text_width, unit, wrapped
from decal.plot._one_input import Sets, Shown, handles_of, input_name, named, shown
from decal.plot.style import Ink

LABEL_WIDTH, ONE_LINE = 26, 36
"""Longest line of a class name in characters: of two, and of one."""


def intervals(
    credal: Sets,
    row: int = 0,
    *,
    ax: Axes | None = None,
    truth: Any = None,
    top: int | None = None,
    sort: str = "upper",
    colors: Sequence[str] | None = None,
    legend: bool = True,
) -> Axes:
    """One input's intervals as horizontal bars, predictions as ticks, the truth as diamonds.

    Parameters
    ----------
    credal
        A credal set; or several by name, of the same classes, whose bars lie below each other.
    row : int
        The input. Its name, if it has one, is the title of a new figure.
    top : int, optional
        Classes shown, by default 40, or as many as fit the axes. All others share one bar, the
        exact lower and upper probability of their union.
    sort : str
        "upper", "lower" or "point": by that probability, greatest first; "class": as they come.
    ax, truth, colors, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=["a", "b", "c"])
    >>> [label.get_text() for label in decal.plot.intervals(c).get_yticklabels()]
    ['b', 'a', 'c']
    """
    sets = named(credal)
    title = input_name(sets, row) if ax is None else None
    most = 40 if ax is None else min(40, int(_points_high(ax) / (LINE * SMALL * unit())) - 1)
    drawn = shown(sets, row, truth=truth, top=max(most, 1) if top is None else top, sort=sort)
    ax = style.axes_or_new(ax, 4.4, 0.9 + len(drawn.labels) * _inches_per_class(drawn))
    room = _points_high(ax) / len(drawn.labels)
    ink = style.frame(ax, grid=True)
    palette = ink.colours(len(drawn.models), colors)
    _draw_bars(ax, drawn, ink, palette)
    if drawn.truth is not None:
        y = np.arange(len(drawn.labels))
        ax.plot(drawn.truth, y, linestyle="", clip_on=False, zorder=4, **ink.truth_mark())
    ax.set(xlim=(0, 1), xlabel="probability")
    style.probability_axis(ax.xaxis)
    _name_classes(ax, drawn, room)
    if title is not None:
        (text,), families = drawable([title], [f"input {row}"])
        style.write_title(ax, text, families, "medium", loc="left")
    if legend:
        style.legend_below(ax, handles_of(drawn, ink, palette, marker="|", size=8))
    return ax


def _draw_bars(ax: Axes, drawn: Shown, ink: Ink, palette: Sequence[str]) -> None:
    """Draw the bars of every model, and predictions on them."""
    count = len(drawn.models)
    height = 0.72 / count  # of each class's height, the bars of all models fill this share
    filled = height * (1 if count == 1 else 0.86)
    for m, (tint, bars) in enumerate(zip(ink.tints(palette), drawn.models.values(), strict=True)):
        y = np.arange(len(drawn.labels)) + (m - (count - 1) / 2) * height
        style.horizontal_bars(ax, y, bars.lower, bars.upper, filled, tint)
        if bars.point is not None:
            ends = y - filled / 2, y + filled / 2
            ax.vlines(bars.point, *ends, ink.prediction(palette), lw=1.8 * unit())


def _inches_per_class(drawn: Shown) -> float:
    """Height of a class in a new figure; that of a few long names is room for two lines."""
    count = len(drawn.models)
    bars = 0.2 if count == 1 else 0.08 + 0.11 * count
    long = any(text_width(label) > LABEL_WIDTH for label in drawn.labels)
    return max(bars, 0.31) if long and len(drawn.labels) <= 20 else bars


def _name_classes(ax: Axes, drawn: Shown, room: float) -> None:
    """Write the classes at the left, each on one line or two of the `room` points it has."""
    small = SMALL * unit()
    lines = 2 if room >= 2 * LINE * small else 1
    width = LABEL_WIDTH if lines == 2 else ONE_LINE
    style.name_lines(ax, [wrapped(label, width, lines) for label in drawn.labels], drawn.families)
    beyond = 0 if drawn.truth is None else 4  # half of the mark of a probability of 0
    pad = (3.5 + beyond) * unit()
    ax.tick_params(axis="y", labelsize=min(small, room / LINE), pad=pad)


def _points_high(ax: Axes) -> float:
    """Height of the axes in points, before a layout makes room for labels around them."""
    return float(ax.get_window_extent().height) * 72 / ax.figure.dpi
