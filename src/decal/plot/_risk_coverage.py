"""The error rate of what is kept against the share kept, for one score or several."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from decal._base.errors import InputError
from decal._base.settings import check_count
from decal.choose import Triage
from decal.evaluate.metrics import RiskCoverage
from decal.plot import style
from decal.plot._fonts import unit
from decal.plot.style import Ink

Given = RiskCoverage | Triage | Mapping[str, RiskCoverage]


def risk_coverage(
    curves: Given, *, ax: Axes | None = None, top: int = 3, legend: bool = True
) -> Axes:
    """Error rate of what is kept against the share kept, if the most doubtful rows go first.

    Curves are lines with their name as gid; "best possible" is dotted. The legend has the area of
    every curve in thousandths.

    Parameters
    ----------
    curves
        What `decal.metrics.risk_coverage` returned, or several of these by name; or what
        `decal.choose.triage` returned: then its scores are drawn, and what was chosen is marked.
    top : int
        Curves drawn, at most: those of the least area, and that of "confidence".
    ax, legend
        As for all figures: see `decal.plot`.

    Examples
    --------
    >>> import decal
    >>> curve = decal.metrics.risk_coverage([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0])
    >>> [line.get_gid() for line in decal.plot.risk_coverage({"mine": curve}).lines]
    ['mine', 'best possible']
    """
    chosen = curves if isinstance(curves, Triage) else None
    named = _shown(curves, check_count(top, "top"))
    ax = style.axes_or_new(ax, 4.4, 4.2)
    ink = style.frame(ax)
    handles: list[Artist] = []
    colours = iter(ink.colours(len(named), None))
    for name, curve in named.items():
        own = name == "confidence" and len(named) > 1
        colour = ink.muted if own else next(colours)
        _line(ax, curve.coverage, curve.risk, colour, name)
        area = f"{name} ({1e3 * curve.area:.3g})" if name else f"area {1e3 * curve.area:.3g}"
        handles.append(style.line_handle(area, colour))
    least = min(named.values(), key=lambda curve: float(curve.best[-1]))
    _line(ax, least.coverage, least.best, ink.muted, "best possible", dotted=True)
    handles.append(style.line_handle("best possible", ink.muted, dotted=True))
    if chosen is not None:
        handles.append(_mark(ax, chosen, ink))
    # Error rates of fewer rows jump: they do not set the height of the axes.
    height = max(float(c.risk[c.coverage >= 0.05].max()) for c in named.values())
    ax.set(xlim=(0, 1), ylim=(0, 1.05 * height or 1.0))
    ax.set(xlabel="share of rows kept", ylabel="error rate")
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    if legend:
        style.legend_below(ax, handles)
    return ax


def _shown(curves: Given, top: int) -> dict[str, RiskCoverage]:
    """The curves to draw: the best ones, and that of the model's own confidence."""
    if isinstance(curves, RiskCoverage):
        return {"": curves}
    named = curves.curves if isinstance(curves, Triage) else dict(curves)
    if not named:
        raise InputError("curves", "hold at least one curve", "an empty mapping")
    best = sorted(named, key=lambda name: named[name].area)[:top]
    return {name: curve for name, curve in named.items() if name in best or name == "confidence"}


def _line(ax: Axes, x: object, y: object, colour: str, name: str, *, dotted: bool = False) -> None:
    x, y = np.asarray(x), np.asarray(y)
    some = np.unique(np.linspace(0, len(x) - 1, 400).round().astype(np.intp))
    ls = style.DOTTED if dotted else "-"
    ax.plot(x[some], y[some], color=colour, lw=1.4 * unit(), ls=ls, gid=name)


def _mark(ax: Axes, chosen: Triage, ink: Ink) -> Artist:
    """Draw what was chosen, as measured on the rows that set the threshold."""
    at = 1 - chosen.outcome.handed_over, chosen.outcome.error_rate
    ax.plot(*at, "D", color=ink.text, ms=5 * unit(), gid="chosen", clip_on=False, **ink.halo())
    return ink.mark_handle("chosen", ink.text, "D", size=5)
