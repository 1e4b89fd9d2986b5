"""Figures of many inputs: intervals of two classes, and the two kinds of uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from decal._base.errors import InputError
from decal._base.numerics import Array, Indices, Mask
from decal._base.set_checks import check_event
from decal._base.settings import check_alpha
from decal.credal import CredalSet
from decal.plot import style
from decal.plot._fonts import drawable, unit
from decal.plot._one_input import class_names
from decal.plot.style import Ink

SEPARATE = 80
"""Intervals of up to this many inputs are drawn apart; those of more inputs touch."""

RASTERISED = 2000
"""For more inputs, vector files hold a picture of the marks instead of every mark."""


def binary(
    credal: CredalSet,
    *,
    ax: Axes | None = None,
    positive: int | str = 1,
    threshold: float = 0.5,
    labels: Any = None,
    legend: bool = True,
) -> Axes:
    """The probability interval of one of two classes, for many inputs in order of prediction.

    An input is decided for the class if its whole interval is at least the threshold, against it if
    the whole interval is below, and undetermined otherwise. The legend counts each kind; intervals
    are a `PolyCollection` for each, with gid "for", "undetermined" or "against".

    Parameters
    ----------
    credal : CredalSet
        Of two classes. Empty inputs are left out, and counted.
    positive : int or str
        Number or name of the class whose probability is drawn.
    threshold : float
        Least probability at which one decides for it.
    labels : (n,) array, optional
        True classes: marks above the plot for the class, below for the other. Of more than 500
        inputs, their share among neighbours, the stronger the greater.
    ax, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> lower, upper = [[0.6, 0.1], [0.3, 0.2], [0.1, 0.7]], [[0.9, 0.4], [0.8, 0.7], [0.3, 0.9]]
    >>> ax = decal.plot.binary(decal.IntervalCredalSet(lower, upper))
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:3]
    ['1: 1', 'undetermined: 1', '0: 1']
    """
    if credal.shape[1] != 2:
        remedy = "Use decal.plot.decomposition for many inputs of more classes."
        raise InputError("credal", "have two classes", f"{credal.shape[1]}", remedy)
    threshold = check_alpha(threshold, "threshold")
    inside = check_event([positive], 2, credal.classes)
    k = int(inside.argmax())
    low, high = credal.probability(inside, empty="nan")
    middle = (low + high) / 2 if credal.point is None else credal.point[:, k]
    right = None if labels is None else credal.check_labels(labels) == k
    order = np.argsort(middle, kind="stable")
    order = order[~np.isnan(low[order])]
    low, high, middle = low[order], high[order], middle[order]
    n = len(order)
    ax = style.axes_or_new(ax, 4.8, 3.2)
    ink = style.frame(ax)
    names = class_names(credal)
    yes, no = ink.models[:2]
    colours = {"for": yes, "undetermined": ink.tint(ink.muted, 0.6), "against": no}
    kinds = {"for": low >= threshold, "against": high < threshold}
    kinds["undetermined"] = ~(kinds["for"] | kinds["against"])
    fills = dict(zip(colours, ink.tints(list(colours.values())), strict=True))
    titles = {"for": names[k], "undetermined": "undetermined", "against": names[1 - k]}
    handles: list[Artist] = []
    for kind, title in titles.items():
        chosen, fill = kinds[kind], fills[kind]
        _spans(ax, np.flatnonzero(chosen), low[chosen], high[chosen], fill, kind, n)
        handles.append(style.bar_handle(f"{title}: {chosen.sum():,}", fill))
    _predictions(ax, middle, ink)
    line = "prediction" if credal.point is not None else "middle"
    handles.append(style.line_handle(line, ink.text))
    ax.axhline(threshold, color=ink.text, lw=0.8 * unit(), ls=style.DASHED, zorder=3)
    if right is not None:
        _labels(ax, right[order], (1.02, 1.06), yes, ink)
        _labels(ax, ~right[order], (-0.06, -0.02), no, ink)
    edge = 0.0 if right is None else 0.07
    ax.set(xlim=(-0.5, max(n, 1) - 0.5), ylim=(-edge, 1 + edge))
    style.probability_axis(ax.yaxis)
    ax.spines["left"].set_bounds(0, 1)
    ax.set_xticks([])
    left_out = len(credal) - n
    note = f" ({left_out:,} empty left out)" if left_out else ""
    ax.set_xlabel(f"{n:,} inputs, by prediction{note}")
    ax.set_ylabel(f"probability of {names[k]}", parse_math=False, usetex=False)
    (title,), families = drawable([ax.get_ylabel()], [f"probability of class {k}"])
    ax.yaxis.label.set(text=title, fontfamily=families)
    if legend:
        style.legend_below(ax, handles, drop=2.4)
    return ax


def decomposition(
    credal: CredalSet, *, ax: Axes | None = None, labels: Any = None, legend: bool = True
) -> Axes:
    """Aleatoric against epistemic uncertainty, a mark per input.

    Aleatoric is the lower entropy, epistemic the upper minus the lower one, in nats. Their sum
    cannot exceed the logarithm of the number of classes: the line. Marks are path collections with
    gid "inputs", or "right" and "wrong", and can be picked: in a "pick_event", ``event.ind`` are
    rows of `credal`. Vector files store more than 2,000 of them as a picture.

    Parameters
    ----------
    credal : CredalSet
        Empty inputs are left out, and counted.
    labels : (n,) array, optional
        True classes: inputs are coloured by whether the prediction is right.
    ax, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.6, 0.1], [0.3, 0.2]], [[0.9, 0.4], [0.8, 0.7]])
    >>> decal.plot.decomposition(c).collections[0].get_offsets().round(3).tolist()
    [[0.325, 0.348], [0.5, 0.193]]
    """
    # Not epistemic(), which warns where most sets are at the cap: here one can see that.
    aleatoric, total = credal.entropy(empty="nan")
    epistemic = np.maximum(total - aleatoric, 0.0)
    n, K = credal.shape
    ax = style.axes_or_new(ax, 4.2, 3.6)
    ink = style.frame(ax)
    groups: dict[str, tuple[Mask, str]] = {"inputs": (np.ones(n, bool), ink.models[0])}
    if labels is not None:
        right = credal.decide("point", empty="nan") == credal.check_labels(labels)
        groups = {"right": (right, ink.models[0]), "wrong": (~right, ink.truth)}
    area = float(np.clip(8000 / max(n, 1), 3, 22)) * unit() ** 2  # points²: they share 8000
    strength = float(np.clip(30 / max(n, 1) ** 0.5, 0.3, 0.85))
    handles: list[Artist] = []
    known = ~np.isnan(aleatoric)
    for name, (chosen, colour) in groups.items():
        hidden = ~(chosen & known)
        ax.scatter(
            np.ma.array(aleatoric, mask=hidden), np.ma.array(epistemic, mask=hidden), s=area,
            color=colour, alpha=strength, linewidths=0, gid=name, picker=True,
            rasterized=n > RASTERISED, zorder=2 + (name == "wrong"),
        )  # fmt: skip
        handles.append(ink.mark_handle(f"{name}: {(~hidden).sum():,}", colour, "o"))
    top = np.log(K)
    ax.plot([0, top], [top, 0], color=ink.muted, lw=0.8 * unit(), ls=style.DASHED, zorder=1)
    ax.annotate(
        f"total = ln {K:,}", (0.72 * top, 0.28 * top), (4 * unit(), 2 * unit()), va="bottom",
        textcoords="offset points", fontsize="small", color=ink.muted,
    )  # fmt: skip
    room = 0.03 * top
    ax.set(xlim=(-room, top + room), ylim=(-room, top + room))
    left_out = int((~known).sum())
    note = f" ({left_out:,} empty inputs left out)" if left_out else ""
    ax.set(xlabel=f"aleatoric uncertainty (nats){note}", ylabel="epistemic uncertainty (nats)")
    if legend and labels is not None:
        style.legend_below(ax, handles)
    return ax


def _spans(
    ax: Axes, at: Indices, low: Array, high: Array, colour: str, name: str, count: int
) -> None:
    half = 0.5 if count > SEPARATE else 0.4
    # The edge keeps a span of no height visible.
    x = np.stack([at - half, at + half, at + half, at - half], axis=1)
    y = np.stack([low, low, high, high], axis=1)
    ax.add_collection(
        PolyCollection(
            list(np.stack([x, y], axis=2)), facecolors=colour, edgecolors=colour, linewidths=0.3,
            gid=name, zorder=2, rasterized=count > RASTERISED,
        ),
        autolim=False,
    )  # fmt: skip


def _labels(ax: Axes, of: Mask, heights: tuple[float, float], colour: str, ink: Ink) -> None:
    """Mark the inputs that have a label; of many inputs, their share among neighbours."""
    n = len(of)
    if n <= 500:
        width = min(1.2, 220 / max(n, 1)) * unit()
        ax.vlines(np.flatnonzero(of), *heights, colour, lw=width)
        return
    edges = np.linspace(0, n, 121).astype(int)
    shares = np.add.reduceat(of.astype(float), edges[:-1]) / np.diff(edges)
    ax.bar(
        edges[:-1] - 0.5, heights[1] - heights[0], np.diff(edges), heights[0], align="edge",
        color=[ink.tint(colour, share) for share in shares], linewidth=0, gid="labels",
    )  # fmt: skip


def _predictions(ax: Axes, middle: Array, ink: Ink) -> None:
    at = np.arange(len(middle))
    if len(middle) > SEPARATE:
        ax.plot(at, middle, color=ink.text, lw=1.2 * unit(), zorder=4)
    else:
        ax.hlines(middle, at - 0.4, at + 0.4, ink.text, lw=1.4 * unit(), zorder=4)
