"""Plausibility: the largest alpha at which a distribution, or a label, is still inside.

A smaller alpha never removes a distribution from a credal set, nor a class from a decision set.
"Still inside" is therefore monotone in alpha, and bisection finds where it ends: for every row
(`plausibility`), or for a wanted number of rows (`largest_alpha`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import (
    check_choice,
    check_distributions,
    check_labels,
    check_tolerance,
    require_one,
)
from decal._base.inputs import inputs_of
from decal._base.numerics import Array
from decal.credal import SET_RULES, CredalSet

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
Inside = Callable[[Indices, float], Mask]
"""Which of the given rows are inside their set at a given alpha."""

LEAST_BUDGET, GREATEST_BUDGET = 1e-6, 744.0
"""Range of budgets, -log alpha, in which alphas are searched besides 1 and 0: exp(-744) is about
the smallest positive float, and nearer to 1 the losses of very confident models drown in round-off.
"""

SEARCH_LEVELS = 1 << 26
"""Steps from alpha = 1 to 0 that a search tells apart: 3e-7 of the budget each, 26 predictions."""

CONTOUR_LEVELS = 1 << 12
"""Steps from 1 to 0 that a plausibility can take: 0.5 % of the budget each, 12 predictions."""


class Predictor(Protocol):
    """A model that predicts credal sets at any alpha, wider ones for smaller alphas."""

    def predict(self, logits: Any, *, alpha: Any = None) -> CredalSet:
        """The credal sets of (n, K) logits."""


def plausibility(
    model: Predictor,
    logits: Any,
    *,
    distributions: Any = None,
    labels: Any = None,
    rule: str = "e_admissible",
    atol: float = 5e-4,
) -> Array:
    """(n,) the largest alpha at which a distribution, or a label, is still inside: 1 to 0.

    The credal sets of an input are nested, so they are the level sets of a function: the
    possibility contour. For every alpha in `contour_levels()`, a row's distribution is in its
    credal set (or its label in its decision set) exactly if its plausibility is at least alpha.

    Parameters
    ----------
    model : Decalibrator
        A fitted one.
    logits : (n, K) array
        Inputs.
    distributions : (n, K) array, optional
        One for each row: how plausible is it?
    labels : (n,) integers, optional
        One class for each row, instead of distributions: how plausible is it that this is the most
        probable class (or with another rule, that it is not dominated)?
    rule : str
        "e_admissible", "interval_dominance" or "maximality"; for labels only.
    atol : float
        Tolerance on every bound; for distributions only.

    Returns
    -------
    (n,) array
        Rounded down to one of the 4097 alphas of `contour_levels()`: the next one has a budget,
        -log alpha, that is 0.5 % less, so the alpha returned is less than 0.0019 too small. 1 if
        inside at alpha = 1; 0 if outside at every positive alpha.

    See Also
    --------
    contour_levels : The alphas that it tells apart.
    alpha_for_coverage, alpha_for_labels : One alpha for all rows.

    Notes
    -----
    Bisection of all rows at once, in which rows that ask for the same alpha share a prediction:
    every row is predicted at most 13 times, and no alpha is solved for twice.

    Examples
    --------
    >>> import numpy as np, decal
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.decalibrate(logits, [0, 0, 1, 1], alpha=0.9, directions=("class",))
    >>> decal.selection.plausibility(d, logits, labels=[0, 1, 0, 1]).round(2)
    array([1.  , 0.92, 0.95, 1.  ])
    """
    z = inputs_of(model, logits, labels=labels, distributions=distributions)
    require_one(distributions=distributions, labels=labels)
    if labels is None:
        inside = distributions_inside(model, z, distributions, atol)
    else:
        inside = labels_inside(model, z, labels, rule)
    every = np.arange(len(z))
    # A row is outside at level `narrow` and taken to be inside at level `wide`.
    narrow, wide = np.zeros(len(z), dtype=np.intp), np.full(len(z), CONTOUR_LEVELS)
    wide[inside(every, 1.0)] = 0
    while (wide - narrow > 1).any():
        middle = (narrow + wide) // 2
        rows = every[wide - narrow > 1]
        rows = rows[np.argsort(middle[rows], kind="stable")]
        for group in np.split(rows, np.flatnonzero(np.diff(middle[rows])) + 1):
            now = inside(group, alpha_at(middle[group[0]], CONTOUR_LEVELS))
            wide[group[now]] = middle[group[0]]
            narrow[group[~now]] = middle[group[0]]
    return np.asarray(contour_levels()[wide])


def contour_levels() -> Array:
    """(4097,) the alphas that `plausibility` tells apart, from 1 down to 0.

    Between these two, the budget -log alpha runs from 1e-6 to 744 in equal ratios.
    """
    return np.array([alpha_at(step, CONTOUR_LEVELS) for step in range(CONTOUR_LEVELS + 1)])


def alpha_at(step: int, steps: int) -> float:
    """Alpha after `step` of `steps` steps from 1 to 0; in between, budgets grow in equal ratios."""
    if step == 0:
        return 1.0
    if step == steps:
        return 0.0
    return math.exp(-LEAST_BUDGET * (GREATEST_BUDGET / LEAST_BUDGET) ** ((step - 1) / (steps - 2)))


def largest_alpha(
    inside: Inside, rows: int, enough: Callable[[int], bool]
) -> tuple[float, int] | None:
    """The largest alpha at which enough rows are inside, and how many are; None if there is none.

    Sets are nested: a row inside at a narrow level is inside at all wider ones, and a row outside
    at a wide level is outside at all narrower ones. Only the rows in between are asked again.
    """
    every = np.arange(rows)
    now = inside(every, 1.0)
    settled = int(now.sum())  # rows inside at the narrow level
    if enough(settled):
        return 1.0, settled
    open_ = every[~now]
    if open_.size:  # no model predicts no rows
        open_ = open_[inside(open_, 0.0)]
    if not enough(settled + len(open_)):
        return None
    narrow, wide = 0, SEARCH_LEVELS
    while wide - narrow > 1:
        middle = (narrow + wide) // 2
        now = inside(open_, alpha_at(middle, SEARCH_LEVELS))
        if enough(settled + int(now.sum())):
            wide, open_ = middle, open_[now]
        else:
            narrow, settled, open_ = middle, settled + int(now.sum()), open_[~now]
    return alpha_at(wide, SEARCH_LEVELS), settled + len(open_)


def distributions_inside(model: Predictor, z: Any, distributions: Any, atol: float) -> Inside:
    """The question whether the credal set of a row contains its distribution."""
    names, atol = getattr(model, "classes", None), check_tolerance(atol, "atol")
    p = check_distributions(distributions, shape=shape_of(z), names=names)

    def inside(rows: Indices, alpha: float) -> Mask:
        return model.predict(z[rows], alpha=alpha).contains(p[rows], atol=atol)

    return inside


def labels_inside(model: Predictor, z: Any, labels: Any, rule: str) -> Inside:
    """The question whether the decision set of a row contains its label."""
    y = check_labels(labels, rows=len(z), classes=z.shape[1], names=getattr(model, "classes", None))
    check_choice(rule, "rule", SET_RULES)

    def inside(rows: Indices, alpha: float) -> Mask:
        kept = kept_classes(model.predict(z[rows], alpha=alpha), rule)
        return np.asarray(kept[np.arange(len(rows)), y[rows]])

    return inside


def kept_classes(credal: CredalSet, rule: str) -> Mask:
    """(n, K) the classes in every decision set."""
    return credal.decide(rule).astype(bool, copy=False)


def shape_of(z: Any) -> tuple[int, int]:
    """(n, K) of checked logits."""
    return z.shape[0], z.shape[1]
