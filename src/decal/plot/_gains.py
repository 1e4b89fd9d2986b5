"""The log-likelihood along a direction, and the cut that makes its plausible interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.set_checks import check_event
from decal._base.settings import check_alpha, check_choice
from decal.decalibrator import Decalibrator, require_decalibrator
from decal.plot import style
from decal.plot._fonts import unit
from decal.plot.style import Ink

MOST = 5
"""Curves that can be told apart by their colours."""


def likelihood(
    model: Decalibrator,
    of: Any = None,
    *,
    direction: str = "class",
    alpha: float | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """What moving a logit, or the scale, gains in log-likelihood; and where alpha cuts it.

    A curve is the gain in log-likelihood g_k(t) of adding t to the logit of class k, concave and 0
    at t = 0. All shifts above the cut are plausible: dots are the endpoints of the interval, which
    is drawn once more at the bottom. Curves have the name of the class as gid, or "scale".

    Parameters
    ----------
    model : Decalibrator
        Fitted.
    of : int, str, or sequence of them, optional
        Classes to draw, at most five; by default those whose intervals are the widest and the
        narrowest. Only with ``direction="class"``.
    direction : str
        "class", or "temperature" for the scale of the logits, with the factor on the axis. Unless
        the temperature learns from labels, its gain is minus the expected loss, and its budget a
        multiple of that of class shifts: see `decal.Temperature`.
    alpha : float, optional
        Level of the cut; by default the model's.
    ax, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9], [1.0, 0.0]], [0, 1, 1], alpha=0.8)
    >>> [line.get_gid() for line in decal.plot.likelihood(d).lines if line.get_gid()]
    ['0', '1', 'cut']
    """
    check_choice(direction, "direction", ("class", "temperature"))
    require_decalibrator(model)
    level = model.alpha if alpha is None else check_alpha(alpha)
    if level == 0:
        raise InputError("alpha", "be greater than 0", "0", "There is no cut: all is plausible.")
    steps = model.steps(direction, level)
    names, lower, upper = _intervals(model, of, direction, steps)
    cut = model.least_gain(direction, level)
    ax = style.axes_or_new(ax, 4.6, 3.3)
    ink = style.frame(ax)
    handles: list[Artist] = []
    reach = _reach(lower, upper, direction)
    rest = 0.0 if direction == "class" else 1.0
    for i, ((name, k), colour, low, high) in enumerate(
        zip(names.items(), ink.colours(len(names), None), lower, upper, strict=True)
    ):
        at = np.union1d(np.linspace(*reach, 400), [rest])
        found = model.gains(direction, at)
        gains = found if k is None else found[:, k]
        ax.plot(at, gains, color=colour, lw=1.8 * unit(), gid=name, zorder=3)
        ax.plot(
            np.clip([low, high], *reach), [0.02 + 0.035 * i] * 2, color=colour, lw=4 * unit(),
            zorder=2, transform=ax.get_xaxis_transform(), solid_capstyle="butt",
        )  # fmt: skip
        # A scale of 0 is the end of the axis, not where the curve meets the cut.
        ends = [end for end in (low, high) if np.isfinite(end) and (k is not None or end > 0)]
        at_cut = np.full(len(ends), cut)
        ax.plot(ends, at_cut, "o", color=colour, ms=5.5 * unit(), zorder=5, **ink.halo())
        handles.append(style.line_handle(name, colour, width=1.8))
    _finish(ax, ink, model, direction, cut, reach)
    if legend:
        sample = style.line_handle(f"alpha = {level:.3g}", ink.text, width=0.9)
        sample.set_linestyle(style.DASHED)
        style.legend_below(ax, [*handles, sample])
    return ax


def _intervals(
    model: Decalibrator, of: Any, direction: str, found: Any
) -> tuple[dict[str, int | None], Array, Array]:
    """Curves by name with the class of each, and the endpoints of their intervals."""
    if direction == "temperature":
        if of is not None:
            raise InputError("of", "be left out for the temperature", f"{of!r}")
        return {"scale": None}, np.atleast_1d(found.lower), np.atleast_1d(found.upper)
    K = len(model.class_weights)
    names = model.classes or tuple(str(k) for k in range(K))
    if of is None:
        order = np.argsort(-(found.upper - found.lower), kind="stable")
        chosen = order if K <= MOST else np.r_[order[:2], order[-2:]]
    else:
        wanted = of if isinstance(of, Sequence) and not isinstance(of, str) else [of]
        chosen = np.array([int(check_event([one], K, model.classes).argmax()) for one in wanted])
    if len(chosen) > MOST:
        raise InputError("of", f"name at most {MOST} classes", f"{len(chosen)}")
    chosen = np.unique(chosen)
    return {names[k]: int(k) for k in chosen}, found.lower[chosen], found.upper[chosen]


def _reach(lower: Array, upper: Array, direction: str) -> tuple[float, float]:
    """What the axis shows: finite endpoints, and some room; 6 nats where nothing bounds it."""
    if direction == "temperature":
        high = float(upper[0]) if np.isfinite(upper[0]) else 4.0
        return max(0.0, 1 - 1.25 * (1 - float(lower[0]))), 1 + 1.25 * max(high - 1, 0.05)
    ends = np.concatenate([lower, upper])
    ends = ends[np.isfinite(ends)]
    low, high = (ends.min(), ends.max()) if len(ends) else (0.0, 0.0)
    room = 0.15 * (high - low) if high > low else 1.0
    left = low - room if np.isfinite(lower).all() else min(low - room, -6.0)
    right = high + room if np.isfinite(upper).all() else max(high + room, 6.0)
    return float(left), float(right)


def _finish(
    ax: Axes, ink: Ink, model: Decalibrator, direction: str, cut: float, reach: tuple[float, float]
) -> None:
    """Draw the cut and the reference, and name the axes."""
    ax.axhline(cut, color=ink.text, lw=0.9 * unit(), ls=style.DASHED, zorder=1, gid="cut")
    ax.axvline(0.0 if direction == "class" else 1.0, color=ink.grid, lw=0.9 * unit(), zorder=0)
    tops = [float(np.max(line.get_ydata())) for line in ax.lines if line.get_gid()]
    high = max(*tops, 0.0)
    depth = 1.6 * min(cut, -1e-6)  # curves go on below the cut
    ax.set(xlim=reach, ylim=(depth, high + 0.12 * (high - depth)))
    per = " per example" if model.likelihood == "mean" else ""
    ax.set_ylabel(f"gain{per} (nats)")
    ax.set_xlabel("shift of the logit (nats)" if direction == "class" else "factor on the logits")
