"""Names beside curves, where there is room for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from decal._base.numerics import Array
from decal.plot._fonts import drawable, literal, text_width
from decal.plot._style import ADVANCE, unit

SMALL, LINE = 8.33, 1.25
"""Size of a name at the usual font size, in points; and its height, in sizes."""

PLACES, AWAY, APART = 41, 5.0, 8.0
"""Places along a curve that are tried; in points, how far from the curve its name stands, and how
far another curve must be from there."""

SAMPLES = 400
"""Points of each curve that a name must not cover."""

CORNERS = ((1, 1), (-1, -1), (1, -1), (-1, 1), (1, 0), (-1, 0))
"""Where a name stands, seen from its place: right or left, above or below."""


def beside(ax: Axes, curves: Mapping[str, Array], colours: Sequence[str]) -> bool:
    """Write the name of every curve beside it, in its colour; False, and nothing, without room.

    A name covers neither a curve nor another name, and stays within the axes.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Whose limits are set.
    curves : mapping of str to (2, A) array
        Abscissas and ordinates, in any order along the curve.
    colours : sequence of str
        One per curve.
    """
    names, families = drawable(list(curves), [f"method {m + 1}" for m in range(len(curves))])
    to_points = 72 / ax.figure.dpi
    box = ax.get_window_extent()
    whole = np.array([[box.x0, box.y0], [box.x1, box.y1]]) * to_points
    lines = [_along(ax.transData.transform(curve.T) * to_points) for curve in curves.values()]
    taken = np.concatenate(lines)
    size = SMALL * unit()
    placed: list[Array] = []
    found: list[tuple[Array, str, str]] = []
    for m, (name, line) in enumerate(zip(names, lines, strict=True)):
        extent = np.array([ADVANCE * text_width(name) * size, LINE * size])
        others = np.concatenate([*lines[:m], *lines[m + 1 :], np.empty((0, 2))])
        spot = _spot(_alone(line, others), extent, taken, placed, whole)
        if spot is None:
            return False
        (low, high), ha = spot
        placed.append(np.array([low, high]))
        anchor = np.array([low[0] if ha == "left" else high[0], (low[1] + high[1]) / 2])
        found.append((anchor, name, ha))
    for (anchor, name, ha), colour in zip(found, colours, strict=True):
        x, y = ax.transData.inverted().transform(anchor / to_points)
        ax.text(
            x, y, name, color=colour, fontsize=size, ha=ha, va="center", zorder=5,
            **literal(families),
        )  # fmt: skip
    return True


def _along(points: Array) -> Array:
    """(SAMPLES, 2) evenly spaced points on the line through the points, or the one point."""
    order = points[np.lexsort((-points[:, 1], points[:, 0]))]
    steps = np.append(0.0, np.cumsum(np.hypot(*np.diff(order, axis=0).T)))
    at = np.linspace(0, steps[-1], SAMPLES)
    return np.column_stack([np.interp(at, steps, order[:, i]) for i in range(2)])


def _alone(line: Array, others: Array) -> Array:
    """The places along a curve at which it is clear whose name it is."""
    places = line[np.linspace(0, len(line) - 1, PLACES).astype(int)]
    away = [np.hypot(*(others - place).T).min(initial=np.inf) for place in places]
    return np.asarray(places[np.array(away) >= APART * unit()])


def _spot(
    places: Array, extent: Array, taken: Array, placed: list[Array], whole: Array
) -> tuple[Array, str] | None:
    """The free rectangle (2, 2) beside one of the places that is furthest from all curves."""
    best: tuple[float, Array, str] | None = None
    for place in places:
        for right, up in CORNERS:
            away = AWAY * unit() * np.array([right, up])
            low = place + away - extent * np.array([right < 0, (1 - up) / 2])
            box = np.array([low, low + extent])
            if not _free(box, taken, placed, whole):
                continue
            others = np.abs(taken[:, None] - box).min(axis=1)  # cheap: to the nearer edges
            clear = float(np.hypot(*others.T).min())
            if best is None or clear > best[0]:
                best = clear, box, "left" if right > 0 else "right"
    return None if best is None else (best[1], best[2])


def _free(box: Array, taken: Array, placed: list[Array], whole: Array) -> bool:
    if (box[0] < whole[0]).any() or (box[1] > whole[1]).any():
        return False
    if ((taken >= box[0]) & (taken <= box[1])).all(axis=1).any():
        return False
    return not any((box[0] < other[1]).all() and (other[0] < box[1]).all() for other in placed)
