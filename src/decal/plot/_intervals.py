"""Horizontal bars, one per class: for many classes, and to read off numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from decal.plot._fonts import drawable, literal, text_width, wrapped
from decal.plot._one_input import Sets, input_name, named, shown
from decal.plot._style import (
    axes_or_new,
    bar_handle,
    frame,
    inks,
    legend_below,
    mark_handle,
    open_mark,
    probability_axis,
    truth_handle,
    unit,
)

MOST_BARS = 40
"""Default number of classes shown; the others share one bar."""

FILLED = 0.72
"""Share of a class's height that its bars fill."""

LABEL_WIDTH, ONE_LINE = 26, 36
"""Longest line of a class name in characters: of two, and of one."""

FEW, TWO_LINES = 20, 0.31
"""So many classes of long names get this height each, in inches: room for two lines."""

SMALL, LINE = 8.33, 1.15
"""Size of a class name at the usual font size, in points; and its line, in sizes."""


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
        The input.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure, as high as the bars need, with the
        name of the input as title, if it has one.
    truth : (K,) array, optional
        The input's true distribution, or (n, K) those of all inputs.
    top : int, optional
        Number of classes shown, by default 40, or as many as fit the axes. All others share one
        bar, the exact lower and upper probability of their union.
    sort : str
        "upper", "lower" or "point": by that probability, greatest first; "class": as they come.
    colors : sequence of str, optional
        Colors of the models, instead of decal's.
    legend : bool
        Whether there is one.

    Examples
    --------
    >>> import decal
    >>> from decal import plot
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=["a", "b", "c"])
    >>> ax = plot.intervals(c)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['b', 'a', 'c']
    """
    sets = named(credal)
    called = input_name(sets, row) if ax is None else None
    small = SMALL * unit()
    most = MOST_BARS if ax is None else min(MOST_BARS, int(_height(ax) / (LINE * small)) - 1)
    drawn = shown(sets, row, truth=truth, top=max(most, 1) if top is None else top, sort=sort)
    S, count = len(drawn.labels), len(drawn.models)
    long = any(text_width(label) > LABEL_WIDTH for label in drawn.labels)
    inches = max(0.2 if count == 1 else 0.08 + 0.11 * count, TWO_LINES if long and S <= FEW else 0)
    ax = axes_or_new(ax, 4.4, 0.9 + S * inches)
    room = _height(ax) / S
    ink = frame(ax, grid="x")
    y, height = np.arange(S), FILLED / count
    palette = ink.colours(count, colors)
    handles: list[Artist] = []
    tints = ink.tints(palette)
    for m, (tint, (name, bars)) in enumerate(zip(tints, drawn.models.items(), strict=True)):
        at = y + (m - (count - 1) / 2) * height
        filled = height * (1 if count == 1 else 0.86)
        ax.barh(
            at, bars.upper - bars.lower, left=bars.lower, height=filled, color=tint,
            edgecolor=tint, linewidth=0.7 * unit(),
        )  # fmt: skip
        handles.append(bar_handle(name or "interval", tint))
        if bars.point is not None:
            ends = at - filled / 2, at + filled / 2
            ax.vlines(bars.point, *ends, ink.prediction(palette), lw=1.8 * unit())
    if any(bars.point is not None for bars in drawn.models.values()):
        handles.append(mark_handle("prediction", ink.prediction(palette), "|", ink, size=8))
    if drawn.truth is not None:
        ax.plot(
            drawn.truth, y, linestyle="", clip_on=False, zorder=4, **open_mark(ink)
        )  # fmt: skip
        handles.append(truth_handle(ink))
    ax.set(xlim=(0, 1), ylim=(S - 0.5, -0.5), xlabel="probability")
    probability_axis(ax.xaxis)
    lines = 2 if room >= 2 * LINE * small else 1
    width = LABEL_WIDTH if lines == 2 else ONE_LINE
    ax.set_yticks(y, [wrapped(label, width, lines) for label in drawn.labels])
    beyond = 0 if drawn.truth is None else 4  # half of the mark of a probability of 0
    ax.tick_params(
        axis="y", length=0, labelsize=min(small, room / LINE), pad=(3.5 + beyond) * unit()
    )
    for label in ax.get_yticklabels():
        label.set(**literal(drawn.families))
    if called is not None:
        (title,), families = drawable([called], [f"input {row}"])
        ax.set_title(title, loc="left", fontsize="medium", color=inks(ax)[1].text,
                     **literal(families))  # fmt: skip
    if legend:
        legend_below(ax, handles)
    return ax


def _height(ax: Axes) -> float:
    """Height of the axes in points, before a layout makes room for labels around them."""
    return float(ax.get_window_extent().height) * 72 / ax.figure.dpi
