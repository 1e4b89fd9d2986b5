"""Plausibility: the largest alpha at which a distribution, or a label, is still inside.

A smaller alpha never removes a distribution from a credal set, nor a class from a decision set.
"Still inside" is therefore monotone in alpha, and bisection finds where it ends for every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, for_each_block, softmax
from decal._base.row_checks import check_distributions
from decal._base.settings import (
    check_alpha,
    check_choice,
    check_count,
    check_tolerance,
    require_one,
)
from decal.credal import SET_RULES, CredalSet
from decal.decalibrator import Decalibrator
from decal.directions import Local
from decal.model import predict_rows, read_inputs
from decal.rows import Rows

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
Inside = Callable[[Indices, float], Mask]
"""Which of the given rows are inside their set at a given alpha."""

LEAST_BUDGET, GREATEST_BUDGET = 1e-6, 744.0
"""Range of budgets, -log alpha, in which alphas are searched besides 1 and 0: exp(-744) is about
the smallest positive float, and nearer to 1 the losses of very confident models drown in round-off.
"""

ROOM = 1e-3  # share of a budget, known in closed form, within which rows are asked all the same

CONTOUR_LEVELS = 1 << 12  # steps from 1 to 0: 0.5 % of the budget each, 12 predictions


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

    Credal sets are nested, so they are the level sets of a function, the possibility contour: a
    row's distribution is in its set (or its label in its decision set) at alpha exactly if its
    plausibility is at least alpha.

    Parameters
    ----------
    model : Decalibrator
        A fitted one.
    logits : (n, K) array
        Inputs.
    distributions : (n, K) array, optional
        One for each row: how plausible is it?
    labels : (n,) integers, optional
        Or a class for each row: how plausible is it that the `rule` keeps it?
    rule : str
        "e_admissible": it is the most probable class; "interval_dominance" or "maximality": it is
        not dominated.
    atol : float
        Tolerance on every bound of a distribution.

    Returns
    -------
    (n,) array
        Rounded down to one of the 4097 alphas of `contour_levels()`, that is by less than 0.0019. 1
        if inside at alpha = 1; 0 if outside at every positive alpha. Every row is predicted at most
        13 times, and no alpha is solved for twice.

    Examples
    --------
    >>> import numpy as np, decal
    >>> from decal.choose import plausibility
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.decalibrate(logits, [0, 0, 1, 1], alpha=0.9, directions=("class",))
    >>> plausibility(d, logits, labels=[0, 1, 0, 1]).round(2)
    array([1.  , 0.92, 0.95, 1.  ])
    """
    data = read_inputs(model, logits, labels, distributions=distributions)
    require_one(distributions=distributions, labels=labels)
    if labels is None:
        inside = distributions_inside(model, data, distributions, atol)
    else:
        inside = labels_inside(model, data, rule)
    every = np.arange(len(data))
    # A row is outside at level `narrow` and taken to be inside at level `wide`.
    narrow, wide = np.zeros(len(data), dtype=np.intp), np.full(len(data), CONTOUR_LEVELS)
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


def complement(share: float) -> float:
    """1 - share in decimals, as one writes it: 0.2 for 0.8, not 0.19999999999999996."""
    return float(1 - Decimal(repr(float(share))))


def distributions_inside(model: Predictor, data: Rows, distributions: Any, atol: float) -> Inside:
    """The question whether the credal set of a row contains its distribution."""
    atol = check_tolerance(atol, "atol")
    p = check_distributions(distributions, shape=data.shape, names=data.classes)

    def inside(rows: Indices, alpha: float) -> Mask:
        credal: CredalSet = predict_rows(model, data[rows], alpha)
        return credal.contains(p[rows], atol=atol)

    return inside


def labels_inside(model: Predictor, data: Rows, rule: str) -> Inside:
    """The question whether the decision set of a row contains its label."""
    check_choice(rule, "rule", SET_RULES)

    def asked(rows: Indices, alpha: float) -> Mask:
        some = data[rows]
        kept = predict_rows(model, some, alpha).decide(rule)
        return np.asarray(kept[np.arange(len(rows)), some.labels])

    between = local_budgets(model, data, rule)
    if between is None:
        return asked

    def inside(rows: Indices, alpha: float) -> Mask:
        budget = -math.log(alpha) if alpha > 0 else math.inf
        least, most = (b[rows] for b in between)
        room = ROOM * (most + LEAST_BUDGET)  # for round-off, and for rules that keep near-ties
        found: Mask = most + room < budget
        unclear = ~found & ~(least > budget + room)
        if unclear.any():
            found[unclear] = asked(rows[unclear], alpha)
        return found

    return inside


def local_budgets(model: Predictor, data: Rows, rule: str) -> tuple[Array, Array] | None:
    """(n,) budgets below which the rule does not keep the label, and from which on it does.

    Only for local sets, and not if they are mixed or follow the entropy; budgets are -log alpha.
    With a = c_y, the upper end of the label meets the lower one of the greatest probability c at t
    with kl(t || a) = kl(t || c). From then on it is the most probable class of a member if it may
    have the mean probability of the classes that are at least as probable. For a majority, t is
    one half.
    """
    local = isinstance(model, Decalibrator) and model.directions == (Local(),)
    if not local or rule == "node":
        return None
    if rule == "ordered_majority":
        return None
    if not isinstance(data.logits, np.ndarray):
        return None
    assert isinstance(model, Decalibrator)
    fitted, n = model.fitted, len(data)
    least, most = np.empty((2, n))

    def block(rows: slice) -> None:
        p = softmax(fitted.reference.logits(data.logits[rows]))
        a = p[np.arange(len(p)), data.labels[rows]]
        c = p.max(axis=1)
        above = p >= a[:, None]
        mean = np.where(above, p, 0.0).sum(axis=1) / above.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # c = 1, and labels without c
            u = np.log1p(-a) - np.log1p(-c)
            t = u / (np.log(c) - np.log(a) + u)
            if rule == "majority":
                t = mean = np.maximum(0.5, a)
            for q, found in ((t, least), (mean, most)):
                nats = q * np.log(q / a) + (1 - q) * (np.log1p(-q) - np.log1p(-a))
                found[rows] = np.where(a < c, nats, 0.0)
            if rule == "majority":  # which of several that tie is the most probable, sets tell
                most[rows] = np.where(a < 0.5, nats, 0.0)
                least[rows][a >= (1 - ROOM) * c] = 0.0

    for_each_block(block, *data.shape)
    weight = fitted.total_weight if model.likelihood == "sum" else 1.0
    # Where a probability is 0 or 1 but for round-off, nothing is known beforehand.
    least = np.where(np.isfinite(least), least * weight, 0.0)
    most = np.where(np.isfinite(most), most * weight, np.inf)
    return least, np.maximum(least, most)


# By statistical theory


def alpha_from_confidence(level: Any, df: int = 1) -> float:
    """The alpha at which, with likelihood="sum", a region has a given asymptotic confidence.

    By Wilks' theorem twice the log-likelihood lost at the truth is chi-square distributed, so
    alpha = exp(-q / 2) with q the chi-square quantile of the level.

    Parameters
    ----------
    level : float
        Confidence in [0, 1].
    df : int
        Free parameters: 1 for the shift of one class.

    Examples
    --------
    >>> import decal
    >>> round(decal.alpha_from_confidence(0.95), 4)
    0.1465
    """
    from scipy.special import gammaincinv  # here: it doubles the time of `import decal`

    level = check_alpha(level, "level")
    return math.exp(-float(gammaincinv(check_count(df, "df") / 2, level)))
