"""Figures of classes in an order: the p-box of one input, and the means of several."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from decal._base.errors import InputError
from decal._base.row_checks import check_scores
from decal.credal import CredalSet, IntervalCredalSet
from decal.plot import style
from decal.plot._fonts import ADVANCE, drawable, text_width, unit, wrapped
from decal.plot._one_input import class_names, input_name, one_row, true_row

LONGEST = 26  # characters of a name


def cumulative(
    credal: CredalSet,
    row: int = 0,
    *,
    ax: Axes | None = None,
    truth: Any = None,
    legend: bool = True,
) -> Axes:
    """One input's p-box: the range of P(class <= k) as a band of steps, with its prediction.

    Parameters
    ----------
    credal : CredalSet
        Of classes in an order, that of the columns.
    row : int
        The input. Its name, if it has one, is the title of a new figure.
    ax, truth, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=[1, 2, 3])
    >>> [label.get_text() for label in decal.plot.cumulative(c).get_xticklabels()]
    ['1', '2', '3']
    """
    one = one_row(credal, row)
    right = true_row(truth, row, credal)
    title = input_name({"": credal}, row) if ax is None else None
    ax = style.axes_or_new(ax, 4.4, 2.9)
    ink = style.frame(ax, grid=True)
    (colour,) = ink.colours(1, None)
    (tint,) = ink.tints([colour])
    (low,), (high,) = one.cumulative()
    K = len(low)
    x = np.arange(K + 1) - 0.5

    def steps(values: Any) -> Any:
        return np.append(values, values[-1])

    ax.fill_between(x, steps(low), steps(high), step="post", color=tint, lw=0, zorder=2)
    handles: list[Artist] = [style.bar_handle("range", tint)]
    if one.point is not None:
        ink_of_point = ink.prediction([colour])
        ax.step(x, steps(one.point[0].cumsum()), where="post", color=ink_of_point, lw=1.8 * unit())
        handles.append(style.line_handle("prediction", ink_of_point))
    if right is not None:
        ax.plot(np.arange(K), right.cumsum(), linestyle="", clip_on=False, zorder=4,
                **ink.truth_mark())  # fmt: skip
        handles.append(ink.truth_handle())
    ax.set(xlim=(-0.5, K - 0.5), ylim=(0, 1), ylabel="probability up to this class")
    style.probability_axis(ax.yaxis)
    drop = _name_classes(ax, class_names(credal))
    if title is not None:
        (text,), families = drawable([title], [f"input {row}"])
        style.write_title(ax, text, families, "medium", loc="left")
    if legend:
        style.legend_below(ax, handles, drop=drop)
    return ax


def _name_classes(ax: Axes, names: list[str]) -> float:
    """Write a dozen of the classes below the axes, aslant if they are long; how far they reach."""
    every = max(1, -(-len(names) // 12))
    at = np.arange(0, len(names), every)
    short = [wrapped(name, LONGEST, 1) for name in names[::every]]
    labels, families = drawable(short, [f"class {k}" for k in at])
    size, width = float(mpl.rcParams["font.size"]), ax.get_window_extent().width
    longest = ADVANCE * max(map(text_width, labels))
    aslant = longest > width * 72 / ax.figure.dpi / size / len(at)
    look: dict[str, Any] = (
        {"rotation": 30, "rotation_mode": "anchor", "ha": "right"} if aslant else {}
    )
    ax.set_xticks(at, labels, fontfamily=families, **look)
    return 2.9 + (0.4 * longest if aslant else 0.0)


def means(
    credal: CredalSet,
    values: Any = None,
    *,
    ax: Axes | None = None,
    truth: Any = None,
    legend: bool = True,
) -> Axes:
    """The range of the mean of ordered classes for every input, a bar each, by prediction.

    Parameters
    ----------
    credal : CredalSet
        Of classes in an order.
    values : (K,) array, optional
        Where the classes stand, as for `CredalSet.mean`.
    truth : (n,) array, optional
        What the mean, or the number itself, turned out to be: drawn as diamonds.
    ax, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> lower, upper = [[0.1, 0.5, 0.0], [0.7, 0.0, 0.0]], [[0.3, 0.8, 0.2], [0.9, 0.2, 0.1]]
    >>> ax = decal.plot.means(decal.IntervalCredalSet(lower, upper))
    >>> ax.get_ylabel()
    'mean'
    """
    low, high = credal.mean(values, empty="nan")
    middle = (low + high) / 2
    if credal.point is not None:
        p = credal.point
        middle = IntervalCredalSet.unchecked(p, p, p, credal.classes).mean(values)[0]
    order = np.argsort(middle, kind="stable")
    order = order[~np.isnan(low[order])]
    ax = style.axes_or_new(ax, 4.8, 3.0)
    ink = style.frame(ax, grid=True)
    (colour,) = ink.colours(1, None)
    (tint,) = ink.tints([colour])
    x = np.arange(len(order))
    ax.use_sticky_edges = False  # bars do not begin at 0
    ax.bar(x, (high - low)[order], bottom=low[order], width=0.8, color=tint, lw=0, zorder=2)
    handles: list[Artist] = [style.bar_handle("range of the mean", tint)]
    if credal.point is not None:
        mark = ink.prediction([colour])
        ax.hlines(middle[order], x - 0.4, x + 0.4, mark, lw=1.8 * unit(), zorder=3)
        handles.append(style.line_handle("prediction", mark))
    if truth is not None:
        numbers = check_scores(truth, "truth")
        if len(numbers) != len(credal):
            rule = f"be {len(credal):,} numbers, one per input"
            raise InputError("truth", rule, f"{len(numbers):,}")
        ax.plot(x, numbers[order], linestyle="", clip_on=False, zorder=4, **ink.truth_mark())
        handles.append(ink.truth_handle())
    ax.set(xlim=(-0.7, max(len(order), 1) - 0.3), ylabel="mean")
    ax.set_xticks([])
    ax.set_xlabel(f"{len(order):,} inputs, by prediction")
    if legend:
        style.legend_below(ax, handles, drop=2.4)
    return ax
