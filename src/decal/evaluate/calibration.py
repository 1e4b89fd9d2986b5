"""Testing credal sets with labels only: can they be refuted, and how do methods compare?

Labels cannot show that sets hold the true distributions. They can refute it. `refute` compares
label frequencies with the bounds, per class and bin of inputs. "Not refuted" is not "valid". The
scores compare methods on the same labels; none of them can be strictly proper, for no real-valued
score of imprecise forecasts is (Seidenfeld, Schervish and Kadane, 2012).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.settings import check_alpha, check_choice, check_tolerance
from decal.credal import SET_RULES, CredalSet
from decal.evaluate.refutation import LabelledSets, Refutation, refute

__all__ = [
    "Refutation",
    "band_score",
    "brier_scores",
    "discounted_utility",
    "log_scores",
    "refute",
]


def log_scores(credal: CredalSet, labels: Any) -> tuple[Array, Array]:
    """(best, worst), (n,) each: the log-loss of the members that give the label most and least.

    -log upper_y and -log lower_y in nats, exactly, for every kind of set. The best rewards sets
    that do not exclude what happens, and vacuous sets most: it is a test of "not too narrow". The
    worst rewards sets of which every member is good, and never prefers a set to its best member: it
    is infinite where the label may have probability 0. Neither alone compares methods; a method
    that is better in both is better for every way to choose a member.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.5, 0.25]], [[0.75, 0.5]])
    >>> [x.round(3).tolist() for x in decal.calibration.log_scores(c, [0])]
    [[0.288], [0.693]]
    """
    data = LabelledSets.of(credal, labels)
    rows = np.arange(len(data.labels))
    with np.errstate(divide="ignore"):
        best = -np.log(data.upper[rows, data.labels])
        worst = -np.log(data.lower[rows, data.labels])
    return best + 0.0, worst + 0.0  # no negative zeros


def brier_scores(credal: CredalSet, labels: Any) -> tuple[Array, Array]:
    """(best, worst), (n,) each: bounds of the Brier score over members, at most 2.

    The Brier score of a distribution q is the sum over classes of (q_k - 1{k = y})². Of a box, the
    best is exact: its member closest to the label. The worst is a maximum of a convex function,
    whose corners are too many to look at; given is the maximum of the chords above it, which no
    member exceeds and which is attained up to (upper_k - lower_k)² / 4 of one class. It is exact
    for two classes. Of hulls and balls both are those of their boxes. What they reward is what
    `log_scores` say.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.5, 0.25]], [[0.75, 0.5]])
    >>> [x.round(3).tolist() for x in decal.calibration.brier_scores(c, [0])]
    [[0.125], [0.5]]
    """
    data = LabelledSets.of(credal, labels)
    one_hot = np.zeros_like(data.lower)
    one_hot[np.arange(len(one_hot)), data.labels] = 1.0
    nearest = _nearest(one_hot, data.lower, data.upper)
    return np.sum((nearest - one_hot) ** 2, axis=1), _chords(one_hot, data.lower, data.upper)


def discounted_utility(
    credal: CredalSet, labels: Any, *, half: float = 0.65, rule: str = "e_admissible"
) -> Array:
    """(n,) the utility of each decision set: 1 for the right class alone, less for more classes.

    With x = 1 / size if the decision set, by this rule, holds the label, else 0, the utility is
    (4 h - 1) x - (4 h - 2) x², which is h, `half` in [0.5, 1], for a right pair of classes: 0.5 is
    the discounted accuracy, 0.65 and 0.8 the u65 and u80 of Zaffalon, Corani and Mauá (2012), which
    reward abstaining from a coin toss. Sets that keep the same classes score the same.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.6, 0.1], [0.3, 0.2]], [[0.9, 0.4], [0.8, 0.7]])
    >>> decal.calibration.discounted_utility(c, [0, 0]).tolist()
    [1.0, 0.65]
    """
    data = LabelledSets.of(credal, labels)
    half = check_alpha(half, "half")
    if half < 0.5:
        rule = "be at least 0.5, the utility of tossing a coin between two"
        raise InputError("half", rule, f"{half:g}")
    kept = credal.decide(check_choice(rule, "rule", SET_RULES))
    x = kept[np.arange(len(kept)), data.labels] / np.maximum(kept.sum(axis=1), 1)
    utility: Array = (4 * half - 1) * x - (4 * half - 2) * x**2
    return utility


def band_score(
    credal: CredalSet, labels: Any, *, penalty: float = 20.0, by: str = "class", bins: int = 10
) -> float:
    """Mean width of the sets plus a penalty for label frequencies outside the mean bounds.

    Over the cells of `refute`, each with the weight of its inputs: the mean of upper - lower, plus
    `penalty` times the mean distance of the frequency from [lower, upper]. It has the form of the
    interval score (Gneiting and Raftery, 2007), where a penalty of 2 / a fits intervals that may
    miss a share a. Smaller is better. It is no proper score: errors that cancel within a cell cost
    nothing, and chance costs narrow sets more than wide ones, about penalty / sqrt(inputs per
    cell). Compare methods on the same inputs, with the same bins.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.25, 0.25]] * 4, [[0.75, 0.75]] * 4)
    >>> decal.calibration.band_score(c, [0, 0, 0, 1]), decal.calibration.band_score(c, [0] * 4)
    (0.5, 5.5)
    """
    penalty = check_tolerance(penalty, "penalty")
    cells = refute(credal, labels, by=by, bins=bins)
    share = cells.rows / cells.rows.sum()
    return float(share @ (cells.upper - cells.lower + penalty * cells.excess()))


def _nearest(target: Array, lower: Array, upper: Array) -> Array:
    """The members of boxes nearest to the target: clip(target - t, lower, upper), summing to 1."""
    low = (target - upper).min(axis=1, keepdims=True)
    high = (target - lower).max(axis=1, keepdims=True)
    for _ in range(60):  # to the last bit of a probability
        t = (low + high) / 2
        above = np.clip(target - t, lower, upper).sum(axis=1, keepdims=True) > 1
        low, high = np.where(above, t, low), np.where(above, high, t)
    nearest: Array = np.clip(target - (low + high) / 2, lower, upper)
    return nearest


def _chords(target: Array, lower: Array, upper: Array) -> Array:
    """(n,) the greatest sum, over members, of chords of (q_k - target_k)² between the bounds."""
    slope = lower + upper - 2 * target
    order = np.argsort(-slope, axis=1)
    room = np.take_along_axis(upper - lower, order, axis=1)
    left = 1 - lower.sum(axis=1, keepdims=True)
    # What is left of one after the lower bounds goes where it raises the sum most.
    raised = np.clip(left - (np.cumsum(room, axis=1) - room), 0.0, room)
    ends = np.sum((lower - target) ** 2, axis=1)
    total: Array = ends + np.sum(raised * np.take_along_axis(slope, order, axis=1), axis=1)
    return total
