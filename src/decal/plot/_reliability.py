"""Tests of credal sets with labels: frequencies against bounds, as reliability diagrams."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from decal._base.errors import InputError
from decal._base.numerics import Array, Indices
from decal._base.set_checks import check_event
from decal._base.settings import check_count
from decal.evaluate.calibration import Refutation
from decal.plot import style
from decal.plot._fonts import drawable, unit, wrapped
from decal.plot.style import Ink, Panels


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
    truth lie in the band, but for chance; those that chance does not explain are marked. The dots
    are lines with gid "frequency" and "refuted". ``plot.grid(plot.reliability, refutation)`` draws
    a panel for each class.

    Parameters
    ----------
    refutation : Refutation
        What `decal.calibration.refute` returned.
    of : int or str, optional
        Number or name of one class. By default all cells are drawn, each with a bar of its own if
        there are several classes.
    ax, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.2, 0.6]] * 20, [[0.4, 0.8]] * 20, point=[[0.3, 0.7]] * 20)
    >>> ax = decal.plot.reliability(decal.calibration.refute(c, [0] * 20, by="top"))
    >>> [(line.get_gid(), line.get_ydata().tolist()) for line in ax.lines if line.get_gid()]
    [('refuted', [0.0])]
    """
    chosen = _cells(refutation, of)
    ax = style.axes_or_new(ax, 3.8, 3.6)
    ink = style.frame(ax)
    _panel(ax, refutation, chosen, ink)
    ax.set(xlabel="predicted probability", ylabel="share of labels")
    if of is not None:
        _title(ax, refutation.names()[int(chosen[0])])
    if legend:
        style.legend_below(ax, _handles(ink, bool(refutation.cells[chosen].any())))
    return ax


def reliability_panels(refutation: Refutation, *, top: int = 12) -> Panels:
    """A diagram for each of the classes with the smallest p-values: see `decal.plot.grid`."""
    classes = np.unique(refutation.column)
    least = [refutation.p_values[refutation.column == k].min() for k in classes]
    worst = np.sort(classes[np.argsort(least, kind="stable")[: check_count(top, "top")]])

    def draw(ax: Axes, k: int) -> None:
        chosen = np.flatnonzero(refutation.column == k)
        _panel(ax, refutation, chosen, style.frame(ax))
        p = refutation.p_values[chosen].min()
        note = f" (p {p:.0e})".replace("e-0", "e-") if p <= refutation.level else ""
        _title(ax, refutation.names()[int(chosen[0])], note)
        ax.set(xlabel="prediction", ylabel="share of labels")

    panels = [partial(draw, k=int(k)) for k in worst]
    handles = partial(_handles, refuted=refutation.refuted)
    return Panels(panels, columns=4, size=(2.0, 2.35), around=(0.0, 0.6), handles=handles)


def _cells(refutation: Refutation, of: int | str | None) -> Indices:
    """Cells of one class, or all."""
    if of is None:
        return np.arange(len(refutation.column))
    inside = check_event([of], len(refutation.classes), refutation.classes)
    found = np.flatnonzero(refutation.column == int(inside.argmax()))
    if not found.size:
        rule = "be a class that the refutation has cells of"
        raise InputError("of", rule, repr(of), 'Use by="class" in decal.calibration.refute.')
    return found


def _panel(ax: Axes, cells: Refutation, chosen: Indices, ink: Ink) -> None:
    """Draw the diagonal, band, dots and whiskers of some cells."""
    chosen = chosen[np.argsort(cells.point[chosen], kind="stable")]
    x, frequency = cells.point[chosen], cells.frequency[chosen]
    lower, upper = cells.lower[chosen], cells.upper[chosen]
    tint = ink.tint(ink.models[0], 0.4)
    ax.plot([0, 1], [0, 1], color=ink.muted, lw=0.8 * unit(), ls=style.DASHED, zorder=2.5)
    banded = len(np.unique(cells.column[chosen])) == 1 and len(chosen) > 1
    if banded:
        ax.fill_between(x, lower, upper, color=tint, linewidth=0, zorder=1.5)
    ax.vlines(x, lower, upper, colors=tint, linewidth=(1.2 if banded else 4) * unit(), zorder=2)
    low, high = _chance(frequency, cells.rows[chosen])
    refuted = cells.cells[chosen]
    for name, which, colour in (("frequency", ~refuted, ink.text), ("refuted", refuted, ink.truth)):
        if not which.any():  # an empty line without clipping would have no place in the layout
            continue
        ax.vlines(x[which], low[which], high[which], colors=colour, lw=0.8 * unit(), zorder=3)
        ax.plot(
            x[which], frequency[which], "o", color=colour, ms=4.6 * unit(), clip_on=False, gid=name,
            zorder=3.5, **ink.halo(),
        )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.probability_axis(ax.xaxis, ax.yaxis)


def _chance(frequency: Array, rows: Indices) -> tuple[Array, Array]:
    """Wilson's interval of the expected frequency, (C,) each: 95 %."""
    z = 1.96
    middle = (frequency + z**2 / (2 * rows)) / (1 + z**2 / rows)
    spread = np.sqrt(frequency * (1 - frequency) / rows + z**2 / (4 * rows**2))
    half = spread * z / (1 + z**2 / rows)
    return middle - half, middle + half


def _title(ax: Axes, name: str, note: str = "") -> None:
    (text,), families = drawable([name], ["this class"])
    style.write_title(ax, wrapped(text, 22, 2) + note, families)


def _handles(ink: Ink, refuted: bool) -> list[Artist]:
    handles: list[Artist] = [
        style.bar_handle("mean bounds", ink.tint(ink.models[0], 0.4)),
        ink.mark_handle("frequency", ink.text, "o"),
    ]
    if refuted:
        handles.append(ink.mark_handle("refuted", ink.truth, "o"))
    handles.append(style.line_handle("calibrated", ink.muted, dotted=True))
    return handles
