"""Coverage against efficiency, at many alphas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import FuncNorm

from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.row_checks import check_scores
from decal._base.settings import check_alphas
from decal.plot import style
from decal.plot._fonts import beside, unit
from decal.plot.style import Ink

MARKERS = "osD^vPXh"

Curve = tuple[Any, Any, Any]


def tradeoff(
    paths: Curve | Mapping[str, Curve],
    *,
    ax: Axes | None = None,
    mark: Sequence[float] | None = None,
    front: bool = True,
    direct: bool = True,
    colors: Sequence[str] | None = None,
    legend: bool = True,
) -> Axes:
    """Coverage against efficiency, at many alphas, for one or several methods.

    One path is coloured by alpha. Several have a colour and a mark each; their names stand beside
    them, or in a legend where there is no room, and dotted lines join points of one alpha. Points
    are a path collection per method, with its name as gid.

    Parameters
    ----------
    paths
        (alpha, coverage, efficiency), (A,) each; or several of these by name.
    mark : sequence of float, optional
        Alphas to write next to their points; of each path, the nearest that it has. By default none
        for one path, and 0.5, 0.8, 0.9 and 0.95 for several.
    front : bool
        Whether a line joins the points, of all methods, that no other beats in both respects.
    direct : bool
        Whether names of methods stand beside them, if there is room, instead of in the legend.
    ax, colors, legend
        As for all figures: see `decal.plot`. The legend of one path is a scale of its colours, in
        the corner that is empty.

    Examples
    --------
    >>> from decal import plot
    >>> ax = plot.tradeoff(([1.0, 0.8, 0.0], [0.2, 0.9, 1.0], [0.9, 0.7, 0.0]))
    >>> ax.collections[0].get_offsets().tolist()
    [[0.9, 0.2], [0.7, 0.9], [0.0, 1.0]]
    """
    named = paths if isinstance(paths, Mapping) else {"": paths}
    if not named:
        raise InputError("paths", "hold at least one path", "an empty mapping")
    curves = {str(name): _curve(path, str(name)) for name, path in named.items()}
    several = len(curves) > 1
    levels = _marked((0.5, 0.8, 0.9, 0.95) * several if mark is None else mark)
    ax = style.axes_or_new(ax, *((5.2, 4.8) if several else (4.2, 3.6)))
    ink = style.frame(ax)
    if front:
        _draw_front(ax, curves, ink)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="efficiency (1 − mean width)", ylabel="coverage")
    style.probability_axis(ax.xaxis, ax.yaxis)
    handles: list[Artist] = []
    if several:
        eight = style.EIGHT_ON_DARK if ink.dark else style.EIGHT_ON_LIGHT
        palette = ink.colours(len(curves), eight if colors is None else colors)
        handles = _methods(ax, curves, palette, ink)
        _equal_alphas(ax, list(curves.values()), levels, ink)
        lines = {name: curve[[2, 1]] for name, curve in curves.items()}
        if legend and direct and beside(ax, lines, palette):
            handles = []
    else:
        _one_path(ax, curves, levels, ink, key=legend)
    if front:
        handles.append(style.line_handle("best of all", ink.grid, width=6))
    if legend and isinstance(paths, Mapping) and handles:
        style.legend_below(ax, handles)
    return ax


def _marked(alphas: Sequence[float]) -> list[float]:
    """Levels at which curves are marked, after a check."""
    return [float(a) for a in check_alphas(list(alphas))] if len(alphas) else []


def _draw_front(ax: Axes, curves: Mapping[str, Array], ink: Ink) -> None:
    """Join the points that no other beats in both respects."""
    best = _front(np.concatenate([c[1:] for c in curves.values()], axis=1))
    ax.plot(
        best[1], best[0], color=ink.grid, lw=6 * unit(), zorder=1,
        solid_capstyle="round", solid_joinstyle="round", gid="front",
    )  # fmt: skip


def _methods(
    ax: Axes, curves: Mapping[str, Array], palette: Sequence[str], ink: Ink
) -> list[Artist]:
    """Draw each method in its colour and with its mark; returns samples for a legend."""
    handles: list[Artist] = []
    for m, (colour, (name, curve)) in enumerate(zip(palette, curves.items(), strict=True)):
        alpha, coverage, efficiency = curve
        # Colours come again after eight methods: then with another mark.
        marker = MARKERS[(m + m // len(MARKERS)) % len(MARKERS)]
        order = np.argsort(alpha)
        ax.plot(efficiency[order], coverage[order], color=colour, lw=1.2 * unit(), zorder=2)
        size = 64 if len(alpha) == 1 else 26 if len(alpha) <= 20 else 12  # points²
        ax.scatter(
            efficiency, coverage, c=colour, marker=marker, s=size * unit() ** 2,
            linewidths=0.4 * unit(), edgecolors=ink.face, zorder=3, clip_on=False, gid=name,
        )  # fmt: skip
        handles.append(ink.mark_handle(name, colour, marker))
    return handles


def _equal_alphas(ax: Axes, curves: Sequence[Array], levels: Sequence[float], ink: Ink) -> None:
    """Join the points of one alpha by a dotted line, and write the alpha at its outer end."""
    for level in levels:
        points = []
        for alpha, coverage, efficiency in curves:
            near = int(np.abs(alpha - level).argmin())
            if abs(alpha[near] - level) <= 0.011:  # near enough
                points.append((efficiency[near], coverage[near]))
        if not points:
            continue
        x, y = np.array(sorted(points, key=lambda p: p[0] + p[1])).T
        ax.plot(x, y, color=ink.muted, lw=0.8 * unit(), ls=style.DOTTED, zorder=1.5)
        ax.annotate(
            f"{level:g}", (x[-1], y[-1]), (4 * unit(), 3 * unit()), textcoords="offset points",
            fontsize="small", color=ink.muted, zorder=4,
        )  # fmt: skip


def _one_path(
    ax: Axes, curves: Mapping[str, Array], levels: Sequence[float], ink: Ink, *, key: bool
) -> None:
    """Draw one path with the colours of alpha."""
    ((name, (alpha, coverage, efficiency)),) = curves.items()
    norm = FuncNorm((_stretched, _unstretched), 0, 1)
    colours = ScalarMappable(norm, ink.colormap())
    order = np.argsort(alpha)
    ax.plot(efficiency[order], coverage[order], color=ink.muted, lw=0.8 * unit(), zorder=2)
    ax.scatter(
        efficiency, coverage, c=alpha, cmap=colours.cmap, norm=norm, marker=MARKERS[0],
        s=20 * unit() ** 2, linewidths=0.4 * unit(), edgecolors=ink.face, zorder=3,
        clip_on=False, gid=name,
    )  # fmt: skip
    for level in levels:
        near = int(np.abs(alpha - level).argmin())
        ax.annotate(
            f"{alpha[near]:.3g}", (efficiency[near], coverage[near]), (5 * unit(), 4 * unit()),
            textcoords="offset points", fontsize="small", color=ink.muted, zorder=4,
        )  # fmt: skip
    if key:  # in the lower left corner
        inset = ax.inset_axes((0.06, 0.13, 0.34, 0.032))
        ticks = {0: "0", 0.5: "0.5", 0.9: "0.9", 1: "1"}
        bar = ax.figure.colorbar(colours, cax=inset, orientation="horizontal", ticks=[*ticks])
        bar.outline.set_visible(False)
        inset.set_xticklabels([*ticks.values()])
        inset.tick_params(length=0, pad=2 * unit(), labelsize="small", labelcolor=ink.muted)
        inset.set_title("alpha", fontsize="small", color=ink.muted, pad=3 * unit())


def _stretched(alpha: Any) -> Any:
    """From [0, 1] to [0, 1], with more room near alpha = 1, where sets change fastest."""
    return 1 - np.sqrt(1 - np.clip(alpha, 0, 1))


def _unstretched(place: Any) -> Any:
    return 1 - (1 - np.clip(place, 0, 1)) ** 2


def _curve(path: Curve, name: str) -> Array:
    """(3, A): alpha, coverage, efficiency."""
    of = f" of {name!r}" if name else ""
    alpha, coverage, efficiency = path
    scores = check_scores(coverage, "coverage"), check_scores(efficiency, "efficiency")
    columns = [check_alphas(alpha), *scores]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise InputError("paths", "have columns of one length", f"{sorted(lengths)}{of}")
    return np.stack(columns)


def _front(points: Array) -> Array:
    """(2, F) those of the (2, P) points that no other beats in both rows, by falling coverage."""
    order = np.lexsort((-points[0], -points[1]))  # most efficient first, ties by coverage
    coverage = points[0, order]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(coverage)[:-1]])
    return points[:, order[coverage > before]][:, ::-1]
