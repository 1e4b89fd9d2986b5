"""The levels of the slider, and the one at which a page opens: one with something to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from decal._base.numerics import Indices
from decal._base.settings import check_alpha, check_alphas
from decal.credal import CredalSet
from decal.evaluate import metrics

BELOW = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.01, 0)
MEAN = (1, 0.998, 0.995, 0.99, 0.98, 0.97, 0.95, 0.92, 0.9, 0.85, *BELOW)
SUM = (1, 0.95, 0.9, *BELOW, 1e-3, 1e-4, 1e-6, 1e-9, 1e-15, 1e-30, 1e-60, 1e-120)
"""Levels of the slider for each likelihood, which include those of the paper. The likelihood ratio
of all data is a product with a factor per example: it may be tiny."""

SPREAD = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)
COARSE = (1, 0.99, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.1, 0)
"""With K classes a shift concerns one example in K: of many classes, most of the levels are
those of SPREAD to the power 10 / K, which do to them what SPREAD does to ten."""


def levels_of(likelihood: str, own: float, alphas: Any, K: int) -> list[float]:
    """The levels of the slider, falling: those asked for, or the usual ones and the model's own."""
    if alphas is None:
        usual: Sequence[float] = SUM if likelihood == "sum" else MEAN
        if likelihood != "sum" and K > 31:
            # Two digits after the nines.
            usual = [*COARSE, *(1 - float(f"{1 - alpha ** (10 / K):.1e}") for alpha in SPREAD)]
        alphas = [*usual, own]
    return [float(alpha) for alpha in np.unique(check_alphas(alphas))[::-1]]


def opening(
    predict: Callable[[int, Indices], CredalSet],
    levels: Sequence[float],
    labels: Indices | None,
    total: int,
    asked: Any = None,
) -> tuple[int, str]:
    """The level at which a page opens, and why; `predict` takes a level's number and some rows."""
    if asked is not None:
        wanted = check_alpha(asked, "start")
        return int(np.argmin([abs(level - wanted) for level in levels])), "the level asked for"
    rows = np.unique(np.linspace(0, total - 1, 2000).astype(np.intp))
    K = predict(0, rows[:1]).shape[1]
    widest = min(0.2, 2.0 / K)

    def width(level: int) -> float:
        return 1 - metrics.efficiency(predict(level, rows))

    wide = max(_first(lambda level: width(level) > widest, len(levels)) - 1, 0)
    if labels is not None and predict(0, rows[:1]).point is not None:
        y = labels[rows]
        errors = np.mean(np.asarray(predict(0, rows).point).argmax(axis=1) != y)

        def halves(level: int) -> bool:
            kept = predict(level, rows).decide("e_admissible", empty="nan")
            return bool(np.mean(~kept[np.arange(len(rows)), y]) <= errors / 2)

        narrow = _first(lambda level: width(level) >= widest / 4, len(levels))
        enough = _first(halves, len(levels))
        if narrow <= enough <= wide:
            return enough, (
                "the narrowest level whose decision sets miss at most half as many labels as the "
                "model’s own prediction"
            )
    if wide == 0 and len(levels) > 1:
        return 1, "the first level after 1"
    return wide, f"the most cautious level whose intervals are at most {widest:.2g} wide on average"


def _first(holds: Callable[[int], bool], count: int) -> int:
    """The first level at which something holds that then holds at all that follow; else count."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
