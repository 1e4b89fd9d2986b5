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
from decal._base.settings import check_alpha, check_choice
from decal.credal import SET_RULES, CredalSet
from decal.evaluate.refutation import LabelledSets, Refutation, refute
from decal.grids import CredalMaps

__all__ = ["Refutation", "discounted_utility", "log_scores", "refute"]


def log_scores(
    credal: CredalSet | CredalMaps, labels: Any, *, ignore_index: int | None = None
) -> tuple[Array, Array]:
    """(best, worst), (n,) each: the log-loss of the members that give the label most and least.

    -log upper_y and -log lower_y in nats, exactly, for every kind of set. The best rewards sets
    that do not exclude what happens, and vacuous sets most: it is a test of "not too narrow". The
    worst rewards sets of which every member is good, and never prefers a set to its best member: it
    is infinite where the label may have probability 0. Neither alone compares methods; a method
    that is better in both is better for every way to choose a member. Inputs of `decal.CredalMaps`
    with the label `ignore_index` are left out, here and in the other scores.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.5, 0.25]], [[0.75, 0.5]])
    >>> [x.round(3).tolist() for x in decal.calibration.log_scores(c, [0])]
    [[0.288], [0.693]]
    """
    data = LabelledSets.of(credal, labels, ignore_index)
    rows = np.arange(len(data.labels))
    with np.errstate(divide="ignore"):
        best = -np.log(data.upper[rows, data.labels])
        worst = -np.log(data.lower[rows, data.labels])
    return best + 0.0, worst + 0.0  # no negative zeros


def discounted_utility(
    credal: CredalSet | CredalMaps,
    labels: Any,
    *,
    half: float = 0.65,
    rule: str = "e_admissible",
    ignore_index: int | None = None,
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
    data = LabelledSets.of(credal, labels, ignore_index)
    half = check_alpha(half, "half")
    if half < 0.5:
        rule = "be at least 0.5, the utility of tossing a coin between two"
        raise InputError("half", rule, f"{half:g}")
    kept = data.credal.decide(check_choice(rule, "rule", SET_RULES))
    x = kept[np.arange(len(kept)), data.labels] / np.maximum(kept.sum(axis=1), 1)
    utility: Array = (4 * half - 1) * x - (4 * half - 2) * x**2
    return utility
