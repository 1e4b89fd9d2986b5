"""Reliability diagrams with bands: label frequencies against the bounds of credal sets."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray

from decal._base.checks import check_count
from decal._base.numerics import Array
from decal._base.set_checks import check_event
from decal.evaluate.calibration import Refutation
from decal.plot._fonts import drawable, literal, wrapped
from decal.plot._style import (
    Ink,
    axes_or_new,
    bar_handle,
    frame,
    halo,
    inks,
    legend_below,
    line_handle,
    mark_handle,
    probability_axis,
    unit,
)

TWO_SIDED = 1.96
"""Standard errors to each side of a frequency that its whiskers show."""

PANEL, PANELS = 2.0, 4
"""Inches of a panel, and panels in a line."""

TITLE_WIDTH = 22
"""Characters of a class's name on one line above its panel."""


def reliability(
    refutation: Refutation,
    *,
    ax: Axes | None = None,
    of: int | str | None = None,
    legend: bool = True,
) -> Axes:
    """Label frequencies against the prediction, with the band that the credal sets allow.

    A dot per cell: how often its inputs have the label, with whiskers for chance (95 %, Wilson).
    The band reaches from the mean lower to the mean upper bound. Frequencies of sets that hold the
    truth lie in the band, but for chance; those that chance does not explain are marked.

    Parameters
    ----------
    refutation : Refutation
        What `decal.calibration.refute` returned.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.
    of : int or str, optional
        Number or name of one class. By default all cells are drawn, each with a bar of its own if
        there are several classes.
    legend : bool
        Whether there is one.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. The dots are lines with gid "frequency" and "refuted", if there are any.

    See Also
    --------
    reliabilities : A panel for each class.

    Examples
    --------
    >>> import decal
    >>> from decal import plot
    >>> c = decal.IntervalCredalSet([[0.2, 0.6]] * 20, [[0.4, 0.8]] * 20, point=[[0.3, 0.7]] * 20)
    >>> ax = plot.reliability(decal.calibration.refute(c, [0] * 20, by="top"))
    >>> [(line.get_gid(), line.get_ydata().tolist()) for line in ax.lines if line.get_gid()]
    [('refuted', [0.0])]
    """
    chosen = _cells(refutation, of)
    ax = axes_or_new(ax, 3.8, 3.6)
    ink = frame(ax)
    _panel(ax, refutation, chosen, ink)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share of labels")
    if of is not None:
        _title(ax, refutation.names()[int(chosen[0])])
    if legend:
        legend_below(ax, _handles(ink, bool(refutation.cells[chosen].any())))
    return ax


def reliabilities(
    refutation: Refutation, *, top: int = 12, ncols: int | None = None
) -> NDArray[np.object_]:
    """A reliability diagram for each class, in one new figure.

    Parameters
    ----------
    refutation : Refutation
        What `decal.calibration.refute` returned.
    top : int
        Classes shown, at most: those with the smallest p-values, in the order of classes.
    ncols : int, optional
        Panels in a line, by default at most four.

    Returns
    -------
    array of matplotlib.axes.Axes
        A row of panels below another; panels without a class are invisible.

    See Also
    --------
    reliability : One class, on given axes.

    Examples
    --------
    >>> import decal
    >>> from decal import plot
    >>> c = decal.IntervalCredalSet([[0.2, 0.6]] * 20, [[0.4, 0.8]] * 20, classes=["no", "yes"])
    >>> axes = plot.reliabilities(decal.calibration.refute(c, [0] * 20))
    >>> [ax.get_title() for ax in axes.flat]
    ['no (p 4e-8)', 'yes (p 4e-8)']
    """
    from matplotlib import pyplot as plt

    shown = _worst(refutation, check_count(top, "top"))
    columns = min(len(shown), PANELS if ncols is None else check_count(ncols, "ncols"))
    lines = math.ceil(len(shown) / columns)
    size = (columns * PANEL * unit(), (lines * (PANEL + 0.35) + 0.6) * unit())
    figure, axes = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[len(shown) :]:
        ax.set_visible(False)
    for place, k in enumerate(shown):
        ax = axes.flat[place]
        ink = frame(ax)
        chosen = np.flatnonzero(refutation.column == k)
        _panel(ax, refutation, chosen, ink)
        p_value = refutation.p_values[chosen].min()
        title = refutation.names()[int(chosen[0])]
        refuted = p_value <= refutation.level
        _title(ax, title, f" (p {p_value:.0e})".replace("e-0", "e-") if refuted else "")
        lowest, first = place + columns >= len(shown), place % columns == 0
        ax.tick_params(labelbottom=lowest, labelleft=first)
        ax.set(xlabel="prediction" * lowest, ylabel="share of labels" * first)
    around = inks(axes[0, 0])[1]
    figure.legend(
        handles=_handles(inks(axes[0, 0])[0], refutation.refuted),
        loc="outside lower center",
        ncols=4 if columns > 2 else 2,
        frameon=False,
        fontsize="small",
        labelcolor=around.text,
        handlelength=1.1,
    )
    return np.asarray(axes)


def _cells(refutation: Refutation, of: int | str | None) -> NDArray[np.intp]:
    """Cells of one class, or all."""
    if of is None:
        return np.arange(len(refutation.column))
    inside = check_event([of], len(refutation.classes), refutation.classes)
    found = np.flatnonzero(refutation.column == int(inside.argmax()))
    if not found.size:
        raise ValueError(
            f"of must be a class that the refutation has cells of: got {of!r}. "
            'Use by="class" in decal.calibration.refute.'
        )
    return found


def _worst(refutation: Refutation, top: int) -> list[int]:
    """Classes with the smallest p-values, in order."""
    classes = np.unique(refutation.column)
    least = [refutation.p_values[refutation.column == k].min() for k in classes]
    return sorted(int(k) for k in classes[np.argsort(least, kind="stable")[:top]])


def _panel(ax: Axes, cells: Refutation, chosen: NDArray[np.intp], ink: Ink) -> None:
    """Draw the diagonal, band, dots and whiskers of some cells."""
    chosen = chosen[np.argsort(cells.point[chosen], kind="stable")]
    x, frequency = cells.point[chosen], cells.frequency[chosen]
    lower, upper = cells.lower[chosen], cells.upper[chosen]
    tint = ink.tint(ink.models[0], 0.4)
    ax.plot([0, 1], [0, 1], color=ink.muted, lw=0.8 * unit(), ls=(0, (4, 3)), zorder=2.5)
    if len(np.unique(cells.column[chosen])) == 1 and len(chosen) > 1:
        ax.fill_between(x, lower, upper, color=tint, linewidth=0, zorder=1.5)
        bar = 1.2
    else:
        bar = 4.0
    ax.vlines(x, lower, upper, colors=tint, linewidth=bar * unit(), zorder=2)
    low, high = chance(frequency, cells.rows[chosen])
    refuted = cells.cells[chosen]
    for name, which, colour in (
        ("frequency", ~refuted, ink.text),
        ("refuted", refuted, ink.truth),
    ):
        if not which.any():  # an empty line without clipping would have no place in the layout
            continue
        ax.vlines(
            x[which], low[which], high[which], colors=colour, linewidth=0.8 * unit(), zorder=3
        )
        ax.plot(
            x[which], frequency[which], "o", color=colour, ms=4.6 * unit(), clip_on=False, gid=name,
            zorder=3.5, **halo(ink),
        )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    probability_axis(ax.xaxis)
    probability_axis(ax.yaxis)


def chance(frequency: Array, rows: NDArray[np.intp]) -> tuple[Array, Array]:
    """Wilson's interval of the expected frequency."""
    z = TWO_SIDED
    middle = (frequency + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = np.sqrt(frequency * (1 - frequency) / rows + z**2 / (4 * rows**2)) * z
    half = half / (1 + z**2 / rows)
    return middle - half, middle + half


def _title(ax: Axes, name: str, note: str = "") -> None:
    (text,), families = drawable([name], ["this class"])
    ax.set_title(
        wrapped(text, TITLE_WIDTH, 2) + note, fontsize="small", color=inks(ax)[1].text,
        **literal(families),
    )  # fmt: skip


def _handles(ink: Ink, refuted: bool) -> list[Artist]:
    handles: list[Artist] = [
        bar_handle("mean bounds", ink.tint(ink.models[0], 0.4)),
        mark_handle("frequency", ink.text, "o", ink),
    ]
    if refuted:
        handles.append(mark_handle("refuted", ink.truth, "o", ink))
    handles.append(line_handle("calibrated", ink.muted, dotted=True))
    return handles
