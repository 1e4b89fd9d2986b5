"""The credal spider plot: a spoke per class, a bar per interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.projections.polar import PolarAxes

from decal._base.errors import InputError
from decal._base.numerics import Array
from decal.credal import CredalSet
from decal.plot import style
from decal.plot._fonts import ADVANCE, LINE, SMALL, drawable, literal, text_width, unit, wrapped
from decal.plot._one_input import (
    Bars,
    Sets,
    Shown,
    class_names,
    handles_of,
    input_name,
    named,
    shown,
)
from decal.plot.style import Panels

LABEL_WIDTH, KEY_WIDTH = 20, 34
"""Longest line of a class name around the web, and in a key, in characters."""

RADIAL = 24
"""Names of more classes lie along their spokes, on one line."""

IN_GRID = 2.9
"""Inches per spider in a grid."""


def spider(
    credal: Sets,
    row: int = 0,
    *,
    ax: Axes | None = None,
    truth: Any = None,
    top: int = 12,
    joined: bool = False,
    colors: Sequence[str] | None = None,
    legend: bool = True,
) -> PolarAxes:
    """One input's intervals as bars on spokes, one spoke per class, from 0 to 1 outwards.

    The credal spider plot of Hofman et al. (ICLR 2026). Round marks are the models' predictions.

    Parameters
    ----------
    credal
        A credal set; or several by name, of the same classes, whose bars lie side by side.
    row : int
        The input.
    top : int
        Spokes. Of more classes, those that may be the most probable are shown, in their order; one
        more spoke has the exact lower and upper probability of all others together.
    joined : bool
        Whether predictions are joined to a polygon.
    ax, truth, colors, legend
        As for all figures: see `decal.plot`. Axes are polar, as those of
        ``plt.subplots(subplot_kw={"projection": "polar"})``; a title needs room above the first
        label, ``ax.set_title("…", pad=24)``.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=["a", "b", "c"])
    >>> ax = decal.plot.spider(c, truth=[0.2, 0.7, 0.1])
    >>> [text.get_text() for text in ax.texts][:3]
    ['a', 'b', 'c']
    """
    sets = named(credal)
    drawn = shown(sets, row, truth=truth, top=top)
    labels, radial = _labels(drawn.labels)
    ax = style.axes_or_new(ax, *_size(labels, radial), projection="polar")
    if not isinstance(ax, PolarAxes):
        remedy = 'Make them with plt.subplots(subplot_kw={"projection": "polar"}).'
        raise InputError("ax", "be polar axes for a spider", type(ax).__name__, remedy)
    _web(ax, drawn, labels, radial=radial)
    _bars(ax, drawn, joined=joined, colors=colors)
    if legend:
        # Labels at the bottom are in the way of a legend.
        hanging = [t for t, u in zip(labels, np.cos(_angles(drawn)), strict=True) if u < -0.8]
        below = max((label.count("\n") + 1 for label in hanging), default=0)
        length = max(map(text_width, hanging), default=0)
        drop = 1.5 + (0.8 * ADVANCE * length if radial else 1.05 * below)
        ink = style.inks(ax)[0]
        handles = handles_of(drawn, ink, ink.colours(len(sets), colors), marker="o")
        style.legend_below(ax, handles, drop=drop, centered=True)
    return ax


def _labels(names: Sequence[str]) -> tuple[list[str], bool]:
    """Names as they stand around a web, and whether along the spokes, as those of many classes."""
    if len(names) > RADIAL:
        return [wrapped(name, 28, 1) for name in names], True
    lines = 3 if len(names) <= 8 else 2
    return [wrapped(name, LABEL_WIDTH, lines) for name in names], False


def _size(labels: Sequence[str], radial: bool) -> tuple[float, float]:
    """Width and height in inches of a figure of one spider, at the usual font size."""
    longest = max(map(text_width, labels))
    if not radial:
        return 2.8 + 2 * float(np.clip(0.075 * longest, 0.5, 1.3)), 3.9
    radius = max(1.4, len(labels) * LINE * SMALL / 72 / (2 * np.pi))
    side = 2 * (radius + ADVANCE * longest * SMALL / 72) + 0.3
    return side, side + 0.4


def spider_panels(
    credal: Sets,
    rows: Sequence[int] | int = 0,
    *,
    truth: Any = None,
    top: int = 12,
    joined: bool = False,
    titles: Sequence[str] | None = None,
    size: float | None = None,
) -> Panels:
    """A spider for every input and model: see `decal.plot.grid`."""
    sets = named(credal)
    chosen, titles = _inputs(sets, rows, titles)
    sample = shown({"": next(iter(sets.values()))}, chosen[0], truth=truth, top=top)
    keyed, inches, beside = _room(sets, sample)
    side = inches if size is None else size

    def draw(ax: PolarAxes, m: int, name: str, row: int, title: str) -> None:
        drawn = shown({"": sets[name]}, row, truth=truth, top=top)
        labels, radial = _labels(drawn.labels)
        if keyed:
            labels, radial = [str(k + 1) for k in range(len(labels))], False
        _web(ax, drawn, labels, radial=radial)
        _bars(ax, drawn, joined=joined, colors=None)
        parts, families = drawable([name, title], [f"model {m + 1}", f"input {row}"])
        above = ax.texts[0].get_text().count("\n") + 1
        title = " · ".join(filter(None, parts))
        style.write_title(ax, title, families, "medium", pad=(9 + 10 * above) * unit())

    panels = [
        partial(draw, m=m, name=name, row=row, title=title)
        for row, title in zip(chosen, titles, strict=True)
        for m, name in enumerate(sets)
    ]
    return Panels(
        panels, columns=len(sets) if len(sets) > 1 else 6, size=(side, side),
        around=(beside, 0.15 * side), polar=True,
        handles=lambda ink: handles_of(sample, ink, ink.colours(1, None), marker="o"),
        key=partial(_key, drawn=sample) if keyed else None,
    )  # fmt: skip


def _inputs(
    sets: Mapping[str, CredalSet], rows: Sequence[int] | int, titles: Sequence[str] | None
) -> tuple[list[int], Sequence[str]]:
    """The inputs to draw, and their titles."""
    chosen = [int(rows)] if isinstance(rows, int | np.integer) else list(rows)
    if not chosen:
        raise InputError("rows", "name at least one input", "none")
    if titles is None:
        names = [input_name(sets, row) for row in chosen]
        number = "input {}".format if len(chosen) > 1 else "".format
        titles = [name or number(row) for name, row in zip(names, chosen, strict=True)]
    if len(titles) != len(chosen):
        raise InputError("titles", f"be {len(chosen)}, one per row", f"{len(titles)}")
    return chosen, titles


def _room(sets: Mapping[str, CredalSet], sample: Shown) -> tuple[bool, float, float]:
    """Whether spokes are numbered; inches per spider, and those of the key."""
    classes = [class_names(one) for one in sets.values()]
    names = [wrapped(label, LABEL_WIDTH) for one in classes for label in one]
    if max(map(text_width, names)) <= 12:
        return False, IN_GRID, 0.0
    alike = all(one == classes[0] for one in classes) and len(sample.labels) == len(classes[0])
    if not alike:
        return False, _size(names, False)[0] - 0.4, 0.0
    return True, IN_GRID, 0.4 + 0.075 * min(max(map(text_width, sample.labels)), KEY_WIDTH)


def _key(figure: Figure, drawn: Shown) -> None:
    """Write what the numbers of the spokes mean, at the right."""
    texts = [f"{k + 1}  {wrapped(label, KEY_WIDTH, 2)}" for k, label in enumerate(drawn.labels)]
    made = figure.legend(
        handles=[Line2D([], [], linestyle="") for _ in texts], labels=texts,
        loc="outside right center", frameon=False, fontsize="small", handlelength=0,
        handletextpad=0, labelcolor=style.inks(figure.axes[0])[1].text,
    )  # fmt: skip
    for text in made.get_texts():
        text.set(**literal(drawn.families))


def _angles(drawn: Shown) -> Array:
    """Angles of the spokes, clockwise from the top."""
    return 2 * np.pi * np.arange(len(drawn.labels)) / len(drawn.labels)


def _web(ax: PolarAxes, drawn: Shown, labels: list[str], *, radial: bool = False) -> None:
    """Draw rings and spokes, and class names around them."""
    inside, around = style.inks(ax)
    angles = _angles(drawn)
    ax.set_theta_zero_location("N")
    ax.set_theta_direction(-1)
    ax.set_ylim(0, 1)
    ax.set_rorigin(-0.16)  # an empty middle: bars of several models start apart
    ax.set_xticks(angles, labels=[])
    ax.set_yticks([0.25, 0.5, 0.75], labels=[])
    ax.set_axisbelow(True)
    ax.grid(True, color=inside.grid, linewidth=0.6 * unit(), linestyle="-")
    for name, weight in (("polar", 0.8), ("inner", 0.6)):
        ax.spines[name].set(color=inside.tint(inside.muted, 0.55), linewidth=weight * unit())
        ax.spines[name].set_visible(True)
    small = SMALL * unit()
    if radial:
        edge = np.pi * ax.get_window_extent().width * 72 / ax.figure.dpi
        small = min(small, edge / len(labels) / LINE)
    for angle, label in zip(angles, labels, strict=True):
        right, up = np.sin(angle), np.cos(angle)
        away = (5 if radial else 6) * unit()
        look: dict[str, Any] = {
            "ha": "center" if abs(right) < 0.05 else "left" if right > 0 else "right",
            "va": "center" if abs(up) < 0.35 else "bottom" if up > 0 else "top",
            "fontsize": "small",
            "linespacing": 1.15,
        }
        if radial:
            turned = 90 - np.degrees(angle) + (180 if right < 0 else 0)
            look = {"rotation": turned, "rotation_mode": "anchor", "fontsize": small}
            look |= {"ha": "right" if right < 0 else "left", "va": "center"}
        ax.annotate(
            label, (angle, 1), (right * away, up * away), textcoords="offset points",
            color=around.text, annotation_clip=False, **look, **literal(drawn.families),
        )  # fmt: skip
    for level in (0.5, 1.0):
        ax.text(
            np.pi / len(angles), level, f"{level:g}", color=inside.muted, fontsize="small",
            ha="center", va="center", zorder=1.5 if level < 1 else 2.6,  # the ring's is 2.5
            bbox={"facecolor": inside.face, "edgecolor": "none", "pad": 0.6 * unit()},
        )  # fmt: skip


def _bars(ax: PolarAxes, drawn: Shown, *, joined: bool, colors: Sequence[str] | None) -> None:
    ink, _ = style.inks(ax)
    angles = _angles(drawn)
    count = len(drawn.models)
    step = min(0.52 * 2 * np.pi / len(angles), 0.4) / count
    width = (7.0 if count == 1 else 5.0 if count == 2 else 3.6) * unit()
    if len(angles) > RADIAL:
        width = min(width, 7.0 * unit() * RADIAL / len(angles))
    palette = ink.colours(count, colors)
    tints = ink.tints(palette)
    for m, (colour, bars) in enumerate(zip(palette, drawn.models.values(), strict=True)):
        at = angles + (m - (count - 1) / 2) * step
        _intervals(ax, at, bars, tints[m], width)
        if bars.point is not None:
            line = _closed(ax, at, bars.point, colour, joined)
            line.set(marker="o", markersize=(5.2 if count == 1 else 4.4) * unit(), **ink.halo())
            line.set_markerfacecolor(ink.prediction(palette))
    if drawn.truth is not None:
        line = _closed(ax, angles, drawn.truth, ink.truth, False)
        line.set(zorder=4, **ink.truth_mark())


def _intervals(ax: PolarAxes, at: Array, bars: Bars, colour: str, width: float) -> None:
    made = ax.vlines(at, bars.lower, bars.upper, colors=colour, linewidth=width, zorder=2)
    made.set_capstyle("butt")
    made.set_clip_on(False)
    thin = bars.upper - bars.lower < 0.012
    if thin.any():  # a dot shows them
        middle = (bars.lower + bars.upper)[thin] / 2
        ax.plot(at[thin], middle, "o", color=colour, ms=0.8 * width, clip_on=False, zorder=2)


def _closed(ax: PolarAxes, at: Array, radii: Array, colour: str, joined: bool) -> Any:
    """Marks and, if joined, the polygon through them."""
    if joined:
        at, radii = np.append(at, at[0]), np.append(radii, radii[0])
    ls = "-" if joined else ""
    return ax.plot(at, radii, color=colour, ls=ls, lw=1.1 * unit(), clip_on=False, zorder=3)[0]
