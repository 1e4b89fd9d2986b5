"""The levels of the slider, and the order in which inputs are worth a look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from decal._base.numerics import Array, Indices, Mask
from decal._base.settings import check_alpha, check_alphas

BELOW = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.01, 0)
MEAN = (1, 0.998, 0.995, 0.99, 0.98, 0.97, 0.95, 0.92, 0.9, 0.85, *BELOW)
SUM = (1, 0.95, 0.9, *BELOW, 1e-3, 1e-4, 1e-6, 1e-9, 1e-15, 1e-30, 1e-60, 1e-120)
"""Levels of the slider for each likelihood, which include those of the paper. The likelihood ratio
of all data is a product with a factor per example: it may be tiny."""

SPREAD = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)
COARSE = (1, 0.99, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.1, 0)
"""With K classes a shift concerns one example in K: of many classes, most of the levels are
those of SPREAD to the power 10 / K, which do to them what SPREAD does to ten."""


def levels_of(likelihood: str, own: float | None, alphas: Any, K: int) -> list[float]:
    """The levels of the slider, falling: those asked for, or the usual ones and the model's own."""
    if alphas is None:
        usual: Sequence[float] = SUM if likelihood == "sum" else MEAN
        if likelihood != "sum" and K > 31:
            # Two digits after the nines.
            usual = [*COARSE, *(1 - float(f"{1 - alpha ** (10 / K):.1e}") for alpha in SPREAD)]
        alphas = usual if own is None else [*usual, own]
    return [float(alpha) for alpha in np.unique(check_alphas(alphas))[::-1]]


def opening(levels: Sequence[float], own: float | None, asked: Any = None) -> int:
    """The number of the level at which a page opens: asked for, the model's own, or the middle."""
    wanted = own if asked is None else check_alpha(asked, "start")
    if wanted is None:
        return len(levels) // 2
    return int(np.argmin([abs(level - wanted) for level in levels]))


def worth_a_look(
    size: Indices,
    sure: Array | None = None,
    least: Array | None = None,
    wrong: Mask | None = None,
    caught: Mask | None = None,
) -> Indices:
    """(n,) the rows, first those that show best what a set is good for.

    First the model's errors that the set catches by leaving two classes, then its other errors,
    then inputs with two classes left, always the surest first; then all others, the one with the
    smallest lower probability of its predicted class first. Without a prediction, the largest sets.

    Parameters
    ----------
    size : (n,) array
        Number of possible classes.
    sure, least : (n,) arrays, optional
        The predicted class's probability, and its lower probability.
    wrong, caught : (n,) arrays of bool, optional
        Whether the prediction is wrong, and whether the true class is possible nevertheless.
    """
    if sure is None or least is None:
        return np.argsort(-size, kind="stable")
    stage = np.where(size == 2, 2, 3)
    if wrong is not None and caught is not None:
        stage[wrong] = np.where(caught & (size == 2), 0, 1)[wrong]
    return np.lexsort((np.where(stage == 3, least, -sure), stage))
