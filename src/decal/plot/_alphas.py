"""Figures of many alphas: coverage against efficiency, and the intervals of one input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import FuncNorm

from decal._base.checks import check_alphas, check_scores, to_numpy
from decal._base.data_frames import is_frame
from decal._base.inputs import inputs_of
from decal._base.numerics import Array
from decal.plot._one_input import class_names, one_row, true_row
from decal.plot._style import (
    Ink,
    axes_or_new,
    bar_handle,
    frame,
    halo,
    legend_below,
    line_handle,
    mark_handle,
    probability_axis,
    unit,
)
from decal.selection import AlphaPath
from decal.selection._plausibility import Predictor

MARKERS = "osD^vPXh"
LEVELS = 101
"""Default number of alphas in a path, evenly spaced on the stretched axis from 1 to 0."""

STRETCHED_TICKS = (1, 0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0)

Curve = AlphaPath | tuple[Any, Any, Any]


def tradeoff(
    paths: Curve | Mapping[str, Curve],
    *,
    ax: Axes | None = None,
    mark: Sequence[float] = (),
    front: bool = True,
    legend: bool = True,
) -> Axes:
    """Coverage against efficiency, coloured by alpha, for one or several methods.

    Parameters
    ----------
    paths
        What `decal.selection.path` returned, with coverage; or (alpha, coverage, efficiency), (A,)
        each; or several of these by name.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.
    mark : sequence of float
        Alphas to write next to their points; of each path, the nearest that it has.
    front : bool
        Whether a line joins the points, of all methods, that no other beats in both respects.
    legend : bool
        Whether there is one, and a scale of the colours in the corner that is empty.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Points are a path collection per method, whose array is alpha.

    Examples
    --------
    >>> from decal import plot
    >>> ax = plot.tradeoff(([1.0, 0.8, 0.0], [0.2, 0.9, 1.0], [0.9, 0.7, 0.0]))
    >>> ax.collections[0].get_offsets().tolist()
    [[0.9, 0.2], [0.7, 0.9], [0.0, 1.0]]
    """
    several = isinstance(paths, Mapping)
    curves = {name: _curve(path, name) for name, path in _named(paths).items()}
    ax = axes_or_new(ax, 4.2, 3.6)
    ink = frame(ax)
    norm = FuncNorm((_stretched, _unstretched), 0, 1)
    colours = ScalarMappable(norm, ink.colormap())
    if front:
        best = _front(np.concatenate([c[1:] for c in curves.values()], axis=1))
        ax.plot(
            best[1], best[0], color=ink.grid, lw=6 * unit(), zorder=1,
            solid_capstyle="round", solid_joinstyle="round", gid="front",
        )  # fmt: skip
    handles: list[Artist] = []
    for m, (name, (alpha, coverage, efficiency)) in enumerate(curves.items()):
        marker = MARKERS[m % len(MARKERS)]
        order = np.argsort(alpha)
        ax.plot(efficiency[order], coverage[order], color=ink.muted, lw=0.8 * unit(), zorder=2)
        ax.scatter(
            efficiency, coverage, c=alpha, cmap=colours.cmap, norm=norm, marker=marker,
            s=20 * unit() ** 2, linewidths=0.4 * unit(), edgecolors=ink.face, zorder=3,
            clip_on=False, gid=name,
        )  # fmt: skip
        handles.append(mark_handle(name, ink.muted, marker, ink))
        for level in check_alphas(list(mark)) if len(mark) else ():
            near = int(np.abs(alpha - level).argmin())
            ax.annotate(
                f"{alpha[near]:.3g}", (efficiency[near], coverage[near]), (5 * unit(), 4 * unit()),
                textcoords="offset points", fontsize="x-small", color=ink.muted, zorder=4,
            )  # fmt: skip
    if front:
        handles.append(line_handle("best of all", ink.grid, width=6))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="efficiency (1 − mean width)", ylabel="coverage")
    probability_axis(ax.xaxis)
    probability_axis(ax.yaxis)
    if legend:
        _colour_key(ax, colours, ink)
        if several:
            legend_below(ax, handles, drop=3.5)
    return ax


def alpha_path(
    model: Predictor,
    logits: Any,
    *,
    ax: Axes | None = None,
    alphas: Any = None,
    truth: Any = None,
    top: int = 3,
    legend: bool = True,
) -> Axes:
    """One input's intervals as alpha falls from 1 to 0: a widening band per class.

    Where the bands of two classes begin to overlap, it is no longer certain which class is the more
    probable. A diamond is where the true probability of a class enters its band.

    Parameters
    ----------
    model : Predictor
        A fitted Decalibrator.
    logits : (K,) array
        Logits of one input.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.
    alphas
        Levels; by default 101 from 1 to 0, closest near 1.
    truth : (K,) array, optional
        The input's true distribution.
    top : int
        Number of classes: the most probable by prediction, at alpha = 1.
    legend : bool
        Whether there is one.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Bands are a `PolyCollection` per class, with its name as gid.

    Examples
    --------
    >>> import decal
    >>> from decal import plot
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, classes=["no", "yes"])
    >>> ax = plot.alpha_path(d, [0.5, 0.0])
    >>> [band.get_gid() for band in ax.collections]
    ['no', 'yes']
    """
    even = _unstretched(np.linspace(1, 0, LEVELS))
    levels = even if alphas is None else np.sort(check_alphas(alphas))[::-1]
    array = logits if is_frame(logits) else np.atleast_2d(to_numpy(logits, "logits"))
    z = inputs_of(model, array)
    if len(z) != 1:
        raise ValueError(f"logits must be those of one input: got {len(z)} rows.")
    found = [one_row(model.predict(z, alpha=float(level)), 0) for level in levels]
    lower = np.stack([one.lower[0] for one in found])
    upper = np.stack([one.upper[0] for one in found])
    right = true_row(truth, 0, found[0].shape)
    point = found[0].point
    names = class_names(found[0])
    ax = axes_or_new(ax, 4.6, 3.3)
    ink = frame(ax)
    handles: list[Artist] = []
    chosen = _most_probable(lower, upper, point, top)
    for k, colour in zip(chosen, ink.colours(len(chosen), None), strict=True):
        ax.fill_between(
            levels, lower[:, k], upper[:, k], color=colour, alpha=0.14, linewidth=0, gid=names[k]
        )
        for bound in (lower, upper):
            ax.plot(levels, bound[:, k], color=colour, lw=1.3 * unit(), clip_on=False)
        handles.append(bar_handle(names[k], ink.tint(colour)))
        if point is not None:
            ax.axhline(point[0, k], color=colour, lw=0.9 * unit(), ls=(0, (1, 2)))
        if right is not None:
            _truth(ax, levels, lower[:, k], upper[:, k], float(right[k]), colour, ink)
    if point is not None:
        handles.append(line_handle("prediction", ink.muted, dotted=True))
    if right is not None:
        handles.append(mark_handle("truth enters", ink.muted, "D", ink, size=4.6))
    ax.set_xscale("function", functions=(_stretched, _unstretched))
    ax.set(xlim=(1, 0), ylim=(0, 1), xlabel="alpha", ylabel="probability")
    ax.set_xticks(STRETCHED_TICKS, [f"{tick:g}" for tick in STRETCHED_TICKS])
    ax.set_xticks([], minor=True)
    probability_axis(ax.yaxis)
    if legend:
        legend_below(ax, handles, drop=3.5)
    return ax


def _stretched(alpha: Any) -> Any:
    """From [0, 1] to [0, 1], with more room near alpha = 1, where sets change fastest."""
    return 1 - np.sqrt(1 - np.clip(alpha, 0, 1))


def _unstretched(place: Any) -> Any:
    return 1 - (1 - np.clip(place, 0, 1)) ** 2


def _named(paths: Curve | Mapping[str, Curve]) -> dict[str, Curve]:
    if not isinstance(paths, Mapping):
        return {"": paths}
    if not paths:
        raise ValueError("paths must hold at least one path: got an empty mapping.")
    return {str(name): path for name, path in paths.items()}


def _curve(path: Curve, name: str) -> Array:
    """(3, A): alpha, coverage, efficiency."""
    of = f" of {name!r}" if name else ""
    if isinstance(path, AlphaPath):
        if path.coverage is None:
            raise ValueError(
                f"paths must have coverage: got none{of}. "
                "Pass distributions= to decal.selection.path."
            )
        return np.stack([path.alpha, path.coverage, path.efficiency])
    alpha, coverage, efficiency = path
    columns = [check_alphas(alpha), check_scores(coverage, "coverage")]
    columns.append(check_scores(efficiency, "efficiency"))
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"paths must have columns of one length: got {sorted(lengths)}{of}.")
    return np.stack(columns)


def _front(points: Array) -> Array:
    """(2, F) those of the (2, P) points that no other beats in both rows, by falling coverage."""
    order = np.lexsort((-points[0], -points[1]))  # most efficient first, ties by coverage
    coverage = points[0, order]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(coverage)[:-1]])
    return points[:, order[coverage > before]][:, ::-1]


def _colour_key(ax: Axes, colours: ScalarMappable, ink: Ink) -> None:
    """Draw the colours of alpha in the lower left corner."""
    inset = ax.inset_axes((0.06, 0.13, 0.34, 0.032))
    bar = ax.figure.colorbar(colours, cax=inset, orientation="horizontal", ticks=[0, 0.5, 0.9, 1])
    bar.outline.set_visible(False)
    inset.set_xticklabels(["0", "0.5", "0.9", "1"])
    inset.tick_params(length=0, pad=2 * unit(), labelsize="x-small", labelcolor=ink.muted)
    inset.set_title("alpha", fontsize="x-small", color=ink.muted, pad=3 * unit())


def _most_probable(lower: Array, upper: Array, point: Array | None, top: int) -> list[int]:
    height = (lower[0] + upper[0]) / 2 if point is None else point[0]
    return [int(k) for k in np.argsort(-height, kind="stable")[:top]]


def _truth(
    ax: Axes, levels: Array, low: Array, high: Array, right: float, colour: str, ink: Ink
) -> None:
    """Draw the true probability, up to where the band holds it."""
    inside = (low <= right) & (right <= high)
    enters = levels[inside.argmax()] if inside.any() else 0.0
    ax.plot([1, enters], [right, right], color=colour, lw=0.9 * unit(), clip_on=False)
    if inside.any():
        ax.plot(
            enters, right, "D", color=colour, ms=4.6 * unit(), clip_on=False, zorder=4, **halo(ink)
        )
