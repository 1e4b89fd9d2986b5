"""Figures of class frequencies that change: before and now, and what follows for some inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from decal._base.data_frames import is_frame, require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.settings import check_choice, check_count
from decal.plot import style
from decal.plot._fonts import drawable, literal, unit, wrapped
from decal.plot._intervals import LABEL_WIDTH
from decal.shift import Frequencies, LabelShift, class_number


def frequencies(
    found: Frequencies,
    *,
    ax: Axes | None = None,
    top: int | None = None,
    sort: str = "change",
    legend: bool = True,
) -> Axes:
    """Class frequencies: before as open marks, now as dots on bars, which are their intervals.

    Parameters
    ----------
    found : Frequencies
        The `frequencies` of a `decal.LabelShift`.
    top : int, optional
        Classes shown, those that changed most; 40 by default. A line of text counts the others.
    sort : str
        "change", the largest change first; "now" or "before", by that frequency, greatest first;
        "class", as they come.
    ax, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [0.9, 0.8]], [0, 0, 1, 1]
    >>> shift = decal.LabelShift(calibrate=False).fit(logits, labels, classes=["no", "yes"])
    >>> ax = decal.plot.frequencies(shift.observe([[0.0, 1.0]] * 5).frequencies)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['no', 'yes']
    """
    if not isinstance(found, Frequencies):
        raise InputError(
            "found",
            "be the frequencies of a LabelShift",
            type(found).__name__,
            "Pass shift.frequencies.",
        )
    chosen = _chosen(found, 40 if top is None else check_count(top, "top"), sort)
    S, left = len(chosen), len(found.classes) - len(chosen)
    labels, families = drawable([found.classes[k] for k in chosen], [f"class {k}" for k in chosen])
    lines = [wrapped(label, LABEL_WIDTH, 2 if S <= 12 else 1) for label in labels]
    inches = 0.28 if any("\n" in line for line in lines) else 0.22
    ax = style.axes_or_new(ax, 4.8, 1.1 + inches * S)
    ink = style.frame(ax, grid=True)
    colour, y = ink.models[0], np.arange(S)
    lower, upper = found.lower[chosen], found.upper[chosen]
    before, now = found.before[chosen], found.estimate[chosen]
    style.horizontal_bars(ax, y, lower, upper, 0.56, ink.tint(colour))
    ax.hlines(y, before, now, ink.muted, lw=0.8 * unit(), zorder=2.5)
    open_dot: dict[str, Any] = {
        "marker": "o", "markersize": 4.6 * unit(), "markerfacecolor": ink.face,
        "markeredgecolor": ink.text, "markeredgewidth": 1.2 * unit(), "linestyle": "",
    }  # fmt: skip
    ax.plot(before, y, clip_on=False, zorder=3, gid="before", **open_dot)
    ax.plot(
        now, y, "o", color=colour, ms=5.4 * unit(), clip_on=False, zorder=4, gid="now",
        **ink.halo(),
    )  # fmt: skip
    reach = max(float(upper.max()), float(before.max()))
    ax.set(xlim=(0, min(1.06 * reach, 1.0)), xlabel="frequency")
    style.name_lines(ax, lines, families)
    if left:
        ax.set_ylabel(f"and {left:,} classes that changed less", fontsize="small")
    if legend:
        handles: list[Artist] = [
            Line2D([], [], label="before", **open_dot),
            ink.mark_handle("now", colour, "o"),
            style.bar_handle(f"interval, {100 * found.confidence:g} %", ink.tint(colour)),
        ]
        style.legend_below(ax, handles, drop=3.5)
    return ax


def _chosen(found: Frequencies, top: int, sort: str) -> list[int]:
    """Numbers of the classes to show, in order."""
    check_choice(sort, "sort", ("change", "now", "before", "class"))
    chosen = found.most_changed[:top]
    if sort == "class":
        return sorted(chosen)
    if sort == "change":
        return chosen
    value = found.estimate if sort == "now" else found.before
    return sorted(chosen, key=lambda k: (-value[k], k))


def prevalence(
    shift: LabelShift,
    logits: Any,
    of: Any = None,
    *,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    largest: float | None = None,
    colors: Sequence[str] | None = None,
    legend: bool = True,
) -> Axes:
    """The probability of a class, for some inputs, against how frequent the class is.

    A curve per input, with its name as gid: what the model says about it at every prevalence, while
    the other classes keep their proportions. Shaded are the prevalences that the inputs observed
    leave plausible; the bars at the right are the credal sets that follow.

    Parameters
    ----------
    shift : LabelShift
        Fitted. If it has observed nothing, there are curves alone.
    logits : (n, K) array
        The inputs, at most eight.
    of : str or int, optional
        The class; by default the last one.
    names : sequence of str, optional
        What the inputs are called; by default their numbers, or their index in a frame.
    largest : float, optional
        Where the axis of prevalences ends; by default well beyond all that is marked.
    ax, colors, legend
        As for all figures: see `decal.plot`. The bars need room at the right of the axes, which a
        constrained layout leaves.

    Examples
    --------
    >>> import decal
    >>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [0.9, 0.8]], [0, 0, 1, 1]
    >>> shift = decal.LabelShift(calibrate=False).fit(logits, labels, classes=["no", "yes"])
    >>> shift = shift.observe([[2.0, 0.0]] * 20)
    >>> ax = decal.plot.prevalence(shift, [[0.0, 1.0], [1.0, 0.0]], "yes")
    >>> [line.get_gid() for line in ax.lines[:2]], ax.get_xlabel()
    (['0', '1'], 'frequency of yes')
    """
    if not isinstance(shift, LabelShift):
        raise InputError("shift", "be a LabelShift", type(shift).__name__)
    fitted, classes = shift.fitted, shift.calibrated.classes
    k = len(classes) - 1 if of is None else class_number(of, classes, "of")
    label, before = classes[k], float(fitted.calibrated.frequencies[k])
    found = shift.frequencies if fitted.observed is not None else None
    reach = max(before, 0.0 if found is None else float(found.upper[k]))
    end = min(1.0, max(1.6 * reach, 0.2)) if largest is None else float(largest)
    if isinstance(largest, bool) or not 0 < end <= 1:
        raise InputError("largest", "be above 0 and at most 1", f"{largest!r}")
    shown = np.linspace(0, end, 201)
    curves = _curves(shift, logits, k, shown)
    called = _called(names, logits, curves.shape[1])
    texts, families = drawable([*called, label], [*called, f"class {k}"])
    ax = style.axes_or_new(ax, 5.4, 3.6)
    ink = style.frame(ax)
    palette = ink.colours(len(called), colors)
    for i, colour in enumerate(palette):
        ax.plot(shown, curves[:, i], color=colour, lw=1.8 * unit(), gid=called[i])
    ax.axvline(before, color=ink.muted, lw=1.1 * unit(), ls=style.DOTTED, zorder=1)
    shade = ink.tint(ink.muted, 0.22)
    if found is not None:
        ax.axvspan(found.lower[k], found.upper[k], color=shade, lw=0, zorder=0)
        sets = shift.predict(logits)
        _bars_beside(ax, sets.lower[:, k], sets.upper[:, k], palette)
    ax.set(xlim=(0, end), ylim=(0, 1), xlabel=f"frequency of {texts[-1]}")
    ax.set_ylabel(f"probability of {texts[-1]}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(**literal(families))
    style.probability_axis(ax.yaxis)
    if legend:
        handles: list[Artist] = [
            style.line_handle(name, colour, width=1.8)
            for name, colour in zip(texts, palette, strict=False)
        ]
        handles.append(style.line_handle("before", ink.muted, dotted=True))
        if found is not None:
            handles.append(style.bar_handle(f"plausible, {100 * found.confidence:g} %", shade))
        style.legend_below(ax, handles, drop=3.5)
    return ax


def _curves(shift: LabelShift, logits: Any, k: int, shown: Array) -> Array:
    """(prevalences, inputs) the probability of class k."""
    curves = []
    for x in shown:
        sets = shift.predict(logits, frequencies={k: float(x)})
        if not 1 <= len(sets) <= 8:
            rule = "be of 1 to 8 inputs, for more curves are not told apart"
            raise InputError("logits", rule, f"{len(sets)}", "Choose some.")
        assert sets.point is not None  # all sets of a LabelShift have one
        curves.append(sets.point[:, k])
    return np.array(curves)


def _called(names: Sequence[str] | None, logits: Any, count: int) -> list[str]:
    """What inputs are called."""
    require_same_order(logits=logits, names=names)
    if names is not None:
        if len(names) != count:
            raise InputError("names", f"be one for each of {count} inputs", f"{len(names)}")
        return [str(name) for name in names]
    index = getattr(logits, "index", None) if is_frame(logits) else None
    return [str(name) for name in (range(count) if index is None else index)]


def _bars_beside(ax: Axes, lower: Array, upper: Array, palette: Sequence[str]) -> None:
    """Draw intervals of probabilities at the right of the axes."""
    width, step = 0.028, 0.062  # of the axes
    transform = ax.get_yaxis_transform()
    for i, (low, high, colour) in enumerate(zip(lower, upper, palette, strict=True)):
        at = 1.03 + i * step
        ax.fill_between(
            [at, at + width], low, high, color=colour, lw=0, transform=transform, clip_on=False
        )
    ax.text(
        1.03 + step * len(palette) / 2 - (step - width) / 2, 1.02, "sets", transform=ax.transAxes,
        ha="center", va="bottom", fontsize="small", color=style.inks(ax)[1].text,
    )  # fmt: skip
