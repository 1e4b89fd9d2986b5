"""The triangle of all distributions over three classes, and credal sets in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from decal._base.errors import InputError
from decal._base.numerics import Array
from decal.credal import CredalSet, HullCredalSet, IntervalCredalSet, KLCredalSet, extreme_member
from decal.plot import style
from decal.plot._fonts import drawable, literal, unit, wrapped
from decal.plot._one_input import Sets, class_names, named, one_row, true_row
from decal.plot.style import Ink

HEIGHT = np.sqrt(3) / 2
Shade = tuple[str, str]  # of the edge and of the fill
SAME_CORNER = 1e-12
"""Corners count as one if no probability differs by more."""


def simplex(
    credal: Sets | list[CredalSet] | tuple[CredalSet, ...],
    row: int = 0,
    *,
    ax: Axes | None = None,
    truth: Any = None,
    nested: bool = False,
    members: bool = True,
    colors: Sequence[str] | None = None,
    legend: bool = True,
) -> Axes:
    """One input's credal set in the triangle of distributions over three classes.

    A corner is certainty of its class, lines of the grid are 0.2 apart, and dashed lines separate
    the regions in which each class is the most probable. Sets are `matplotlib.patches.Polygon`, the
    widest first.

    Parameters
    ----------
    credal
        A credal set of three classes; or several by name, or in a list. Boxes and hulls are exact,
        balls the polygon of members that are extreme in many directions.
    row : int
        The input.
    nested : bool
        Whether the sets are levels of one model, as at several alphas: shades of one colour, the
        smallest the strongest, and one prediction.
    members : bool
        Whether the members of hulls are drawn as points.
    ax, truth, colors, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=["a", "b", "c"])
    >>> ax = decal.plot.simplex(c, truth=[0.2, 0.7, 0.1])
    >>> len(ax.patches[-1].get_xy()) - 1  # corners
    5
    """
    unnamed = isinstance(credal, list | tuple)
    if isinstance(credal, list | tuple):
        credal = {str(i): one for i, one in enumerate(credal)}
    sets = named(credal)
    first = next(iter(sets.values()))
    if first.shape[1] != 3:
        rule = "have three classes for a triangle"
        remedy = "Use decal.plot.spider or decal.plot.intervals."
        raise InputError("credal", rule, f"{first.shape[1]}", remedy)
    rows = {name: one_row(one, row) for name, one in sets.items()}
    right = true_row(truth, row, first)
    ax = style.axes_or_new(ax, 3.7, 3.7)
    ink, _ = style.inks(ax)
    hanging = _triangle(ax, ink, class_names(first))
    outlines = {name: corners(one) for name, one in rows.items()}
    widest = sorted(rows, key=lambda name: -_area(outlines[name]))
    shades = _shades(ink, list(rows), widest, colors, nested)
    for name in widest:
        _draw_set(ax, rows[name], outlines[name], *shades[name], members=members)
    handles: list[Artist] = []
    if not unnamed:
        handles += [style.bar_handle(name or "credal set", shades[name][1]) for name in rows]
    own = {name: shades[widest[-1] if nested else name][0] for name in rows}
    handles += _draw_points(ax, ink, rows, own, nested=nested)
    if right is not None:
        ax.plot(*plane(right), linestyle="", zorder=5, **ink.truth_mark())
        handles.append(ink.truth_handle())
    if legend and handles:
        style.legend_below(ax, handles, drop=0.9 + 1.2 * hanging, centered=True)
    return ax


def _draw_points(
    ax: Axes, ink: Ink, rows: dict[str, CredalSet], colours: dict[str, str], *, nested: bool
) -> list[Artist]:
    """The prediction of every set, or of nested ones once; its line in the legend."""
    points = [(name, one.point[0]) for name, one in rows.items() if one.point is not None]
    for name, point in points[:1] if nested else points:
        ax.plot(*plane(point), "o", color=colours[name], ms=6 * unit(), zorder=4, **ink.halo())
    if not points:
        return []
    alike = nested or len(rows) == 1
    colour = colours[points[0][0]] if alike else ink.muted
    return [ink.mark_handle("prediction", colour, "o")]


def _draw_set(
    ax: Axes, one: CredalSet, outline: Array, edge: str, fill: str, *, members: bool
) -> None:
    """The polygon of one input's set, and the members of a hull."""
    x, y = plane(outline)
    ax.add_patch(
        Polygon(
            np.column_stack([x, y]), closed=True, facecolor=fill, edgecolor=edge,
            linewidth=1.3 * unit(), joinstyle="round", zorder=2,
        )
    )  # fmt: skip
    if len(x) == 1:
        ax.plot(x, y, "o", color=edge, markersize=7 * unit(), zorder=2)
    if members and isinstance(one, HullCredalSet):
        ax.plot(*plane(one.vertices[0]), "o", color=edge, ms=3 * unit(), zorder=3)


def corners(one: CredalSet) -> Array:
    """(C, 3) corners of one input's set, in order around it; one or two if it has no area."""
    if isinstance(one, HullCredalSet):
        return _hull(one.vertices[0])
    if isinstance(one, KLCredalSet):
        return _rim(one)
    assert isinstance(one, IntervalCredalSet)
    tight = one.tighten()
    low, high = tight.lower[0], tight.upper[0]
    # A corner of a box makes the classes, one after the other in some order, as probable as the
    # earlier ones allow. Orders that differ by two neighbours give neighbouring corners.
    orders = ((0, 1, 2), (0, 2, 1), (2, 0, 1), (2, 1, 0), (1, 2, 0), (1, 0, 2))
    found = np.empty((6, 3))
    for corner, (a, b, c) in zip(found, orders, strict=True):
        corner[a] = high[a]
        corner[b] = min(high[b], 1 - high[a] - low[c])
        corner[c] = 1 - corner[a] - corner[b]
    return _distinct(found)


def _rim(ball: KLCredalSet) -> Array:
    """(C, 3) members of one ball, in order around it, each extreme in some direction."""
    # The range of a class at the center says how far directions are to be stretched: the
    # members of a narrow ball, or of one near an edge, are then spread evenly around it.
    angle = np.linspace(0.0, 2.0 * np.pi, 720, endpoint=False)[:, None]
    values = np.cos(angle + 2.0 * np.pi / 3.0 * np.arange(3))
    values /= np.maximum(ball.upper[0] - ball.lower[0], SAME_CORNER)
    log_c = np.tile(ball.log_center[0], (len(values), 1))
    return _hull(extreme_member(log_c, values, np.full(len(values), ball.radius[0])))


def plane(p: Array) -> tuple[Array, Array]:
    """Where distributions (..., 3) lie: first class left, second right, third on top."""
    return p[..., 1] + p[..., 2] / 2, p[..., 2] * HEIGHT


def _distinct(found: Array) -> Array:
    kept = [found[0]]
    for corner in found[1:]:
        if all(np.abs(corner - other).max() > SAME_CORNER for other in kept):
            kept.append(corner)
    return np.array(kept)


def _hull(vertices: Array) -> Array:
    """Corners of the convex hull of (M, 3) distributions, by Andrew's monotone chain."""
    order = _distinct(vertices[np.lexsort(plane(vertices)[::-1])])
    if len(order) < 3:
        return order

    def chain(points: Array) -> list[Array]:
        kept: list[Array] = []
        for point in points:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= SAME_CORNER:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return np.array(chain(order) + chain(order[::-1]))


def _turn(a: Array, b: Array, c: Array) -> float:
    """Twice the signed area of a triangle, positive if it turns left."""
    (ax, ay), (bx, by), (cx, cy) = (plane(p) for p in (a, b, c))
    return float((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))


def _area(outline: Array) -> float:
    x, y = plane(outline)
    return abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2


def _shades(
    ink: Ink, names: list[str], widest: list[str], colors: Sequence[str] | None, nested: bool
) -> dict[str, Shade]:
    if not nested:
        share = 0.42 if ink.dark else 0.3
        palette = ink.colours(len(names), colors)
        return {name: (c, ink.tint(c, share)) for name, c in zip(names, palette, strict=True)}
    (colour,) = ink.colours(1, colors)
    strength = np.linspace(0.18, 0.7, len(widest)) if len(widest) > 1 else [0.4]
    return {
        name: (ink.tint(colour, min(1.0, s + 0.3)), ink.tint(colour, s))
        for name, s in zip(widest, strength, strict=True)
    }


def _triangle(ax: Axes, ink: Ink, names: list[str]) -> int:
    """Draw the triangle, its grid and its names; returns the lines of names below its base."""
    for share in (0.2, 0.4, 0.6, 0.8):
        for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            endpoints = np.zeros((2, 3))
            endpoints[:, a] = share
            endpoints[0, b] = endpoints[1, c] = 1 - share
            ax.plot(*plane(endpoints), color=ink.text, alpha=0.13, lw=0.6 * unit(), zorder=2.2)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        border = np.full((2, 3), 1 / 3)
        border[1] = 0
        border[1, [a, b]] = 0.5
        ax.plot(*plane(border), color=ink.muted, lw=0.8 * unit(), ls=style.DASHED, zorder=2.5)
    ax.plot(*plane(np.eye(3)[[0, 1, 2, 0]]), color=ink.muted, lw=unit(), zorder=2.6)
    labels, families = drawable(names, [f"class {k}" for k in range(3)])
    labels = [wrapped(label, 18) for label in labels]
    below = style.inks(ax)[1].text  # the names of the lower corners lie outside the axes
    for corner, label, ha, va, drop, colour in zip(
        np.eye(3), labels, ("left", "right", "center"), ("top", "top", "bottom"), (-5, -5, 4),
        (below, below, ink.text), strict=True,
    ):  # fmt: skip
        x, y = plane(corner)
        ax.annotate(
            label, (float(x), float(y)), (0, drop * unit()),
            textcoords="offset points", ha=ha, va=va, color=colour, **literal(families),
        )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, HEIGHT + 0.09), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return max(label.count("\n") + 1 for label in labels[:2])
