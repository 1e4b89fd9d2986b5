"""A test of credal sets with labels, cell by cell: what labels say against what the sets allow."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray

from decal._base.checks import check_count
from decal.evaluate.calibration import Refutation
from decal.plot._fonts import drawable, literal, wrapped
from decal.plot._intervals import LABEL_WIDTH
from decal.plot._reliability import chance
from decal.plot._style import (
    axes_or_new,
    bar_handle,
    frame,
    halo,
    inks,
    legend_below,
    mark_handle,
    probability_axis,
    unit,
)

MOST_CELLS = 12
"""Default number of cells shown."""

FILLED = 0.62
"""Share of a cell's height that its bar fills."""

SMALLEST_WRITTEN = 0.001
"""Smaller p-values are written as powers of ten."""


def calibration_test(
    refutation: Refutation,
    *,
    ax: Axes | None = None,
    top: int = MOST_CELLS,
    legend: bool = True,
) -> Axes:
    """The cells of a test with labels, worst first: bars that the sets allow, and frequencies.

    A line per cell, that is, per group of inputs with similar predictions of one class. The bar
    reaches from the mean lower to the mean upper probability: if the sets hold the truth, the class
    occurs that often, but for chance. The dot is how often it did, with whiskers for chance (95 %,
    Wilson); a diamond is a frequency that chance does not explain, so that some sets of the cell
    miss the truth. The p-value stands at the right, adjusted for the number of cells: so whiskers
    of one cell can lie beside its bar without refuting it. The title is the outcome of the test.

    Parameters
    ----------
    refutation : Refutation
        What `decal.calibration.refute` returned.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure, as high as the cells need.
    top : int
        Cells shown, at most: those with the smallest p-values.
    legend : bool
        Whether there is one.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. The marks are lines with gid "frequency" and "refuted", if there are any.

    See Also
    --------
    reliability : The same cells against the prediction, in one diagram.

    Examples
    --------
    >>> import decal
    >>> from decal import plot
    >>> c = decal.IntervalCredalSet([[0.2, 0.6]] * 20, [[0.4, 0.8]] * 20, classes=["no", "yes"])
    >>> ax = plot.calibration_test(decal.calibration.refute(c, [0] * 20, by="top"))
    >>> print(ax.get_title(loc="left"))
    1 of 1 cell refuted
    >>> [text.get_text() for text in ax.texts]
    ['p = 2e-8']
    """
    chosen = _worst(refutation, check_count(top, "top"))
    S, y = len(chosen), np.arange(len(chosen))
    names, families = drawable(
        [refutation.names()[c] for c in chosen], [f"class {refutation.column[c]}" for c in chosen]
    )
    ax = axes_or_new(ax, 5.4, 1.35 + 0.26 * S)
    ink = frame(ax, grid="x")
    colour, tint = ink.models[0], ink.tint(ink.models[0])
    lower, upper = refutation.lower[chosen], refutation.upper[chosen]
    ax.barh(
        y, upper - lower, left=lower, height=FILLED, color=tint, edgecolor=tint,
        linewidth=0.7 * unit(),
    )  # fmt: skip
    point = refutation.point[chosen]
    ax.vlines(point, y - FILLED / 2, y + FILLED / 2, colour, lw=1.8 * unit())
    handles: list[Artist] = [
        bar_handle("what the sets allow", tint),
        mark_handle("prediction", colour, "|", ink, size=8),
    ]
    frequency, refuted = refutation.frequency[chosen], refutation.cells[chosen]
    low, high = chance(frequency, refutation.rows[chosen])
    for gid, label, which, marker, mark in (
        ("frequency", "labels", ~refuted, "o", ink.text),
        ("refuted", "labels refute the sets", refuted, "D", ink.truth),
    ):
        if not which.any():  # an empty line without clipping would have no place in the layout
            continue
        ax.hlines(y[which], low[which], high[which], mark, lw=1.2 * unit(), zorder=3)
        ax.plot(
            frequency[which], y[which], marker, color=mark, ms=5.4 * unit(), clip_on=False,
            gid=gid, zorder=4, **halo(ink),
        )  # fmt: skip
        handles.append(mark_handle(label, mark, marker, ink))
    ax.set(xlim=(0, 1), ylim=(S - 0.5, -0.5), xlabel="share of labels, and its bounds")
    probability_axis(ax.xaxis)
    _words(ax, refutation, chosen, names, families)
    if legend:
        legend_below(ax, handles)
    return ax


def _worst(refutation: Refutation, top: int) -> NDArray[np.intp]:
    """Cells with the smallest p-values, and of those, with the largest excess."""
    return np.lexsort((-refutation.excess(), refutation.p_values))[:top]


def _words(
    ax: Axes,
    refutation: Refutation,
    chosen: NDArray[np.intp],
    names: list[str],
    families: list[str],
) -> None:
    """Name every cell at the left, write its p-value at the right, and the outcome above."""
    around = inks(ax)[1]
    lines = [
        f"{wrapped(name, LABEL_WIDTH, 1)}  n = {refutation.rows[c]:,}"
        for name, c in zip(names, chosen, strict=True)
    ]
    ax.set_yticks(np.arange(len(chosen)), lines)
    ax.tick_params(axis="y", length=0)
    for label in ax.get_yticklabels():
        label.set(**literal(families))
    for place, c in enumerate(chosen):
        ax.annotate(
            _p_value(refutation.p_values[c]), (1, place), (6 * unit(), 0),
            xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
            fontsize="small", color=around.text if refutation.cells[c] else around.muted,
            fontweight="bold" if refutation.cells[c] else "normal",
        )  # fmt: skip
    C, count = len(refutation.rows), int(refutation.cells.sum())
    outcome = f"{count or 'None'} of {C} cell{'s' * (C > 1)} refuted"
    if not count:
        outcome += ": not refuted is not valid"
    if len(chosen) < C:
        outcome += f"\nshown: the {len(chosen)} smallest p-values"
    ax.set_title(outcome, loc="left", fontsize="medium", color=around.text)


def _p_value(p: float) -> str:
    if p >= SMALLEST_WRITTEN:
        return f"p = {p:.2g}"
    digit, power = f"{p:.0e}".split("e")
    return f"p = {digit}e{int(power)}"
