"""What a report says of each input: the class predicted, who should look at it, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.numerics import Array, Indices, Mask
from decal._base.set_checks import check_utility
from decal._base.settings import check_choice
from decal.credal import RULES, SET_RULES, CredalSet

ACTION_RULES = (*(rule for rule in RULES if rule != "hurwicz"), "point")
"""How an action may be chosen by costs."""

COUNT_TOLERANCE = 1e-12
"""By how much of itself a number of inputs may exceed a whole one, because shares are rounded."""


def as_names(names: Sequence[str] | None, count: int) -> NDArray[Any]:
    """(count,) the names, or numbers if there are none."""
    return np.arange(count) if names is None else np.array(names, dtype=object)


def predicted(credal: Any) -> Indices:
    """(n,) the class that is most probable at the point; the first of those that tie."""
    if not isinstance(credal, CredalSet):
        rule, fact = "be credal sets of all classes", f"{type(credal).__name__}"
        remedy = "Predict from a matrix with a column for every class."
        raise InputError("credal", rule, fact, remedy)
    if credal.point is None:
        raise InputError("credal", "have a point, whose best class is predicted", "point=None")
    return np.asarray(credal.point.argmax(axis=1))


def share_to_check(lower: Array, share: Any) -> Mask:
    """(n,) True for this share of inputs, rounded up: those of least `lower`, the first of ties."""
    number = isinstance(share, int | float | np.integer | np.floating)
    if not number or isinstance(share, bool) or not 0 < share <= 1:
        rule = "be a share of the inputs, above 0 and at most 1, or True"
        raise InputError("check", rule, f"{share!r}")
    count = math.ceil(float(share) * len(lower) * (1 - COUNT_TOLERANCE))
    marked = np.zeros(len(lower), dtype=bool)
    marked[np.argsort(lower, kind="stable")[:count]] = True
    return marked


def cheapest(credal: CredalSet, costs: Any, rule: str, better: Array | None) -> NDArray[Any]:
    """(n,) the action that a rule takes; of those it keeps, the cheapest at the point.

    A (n, K) `better` prediction than the point, if there is one, counts as part of the set.
    """
    assert credal.point is not None
    table, names = check_utility(costs, credal.shape[1], credal.classes, "costs")
    actions = as_names(names and [str(name) for name in names], len(table))
    if check_choice(rule, "rule", ACTION_RULES) not in SET_RULES:
        return np.asarray(actions[credal.decide(rule, utility=-table)])
    # Where the set holds a prediction, every such rule keeps whatever is best there.
    if better is not None:
        return np.asarray(actions[(better @ table.T).argmin(axis=1)])
    expected = credal.point @ table.T
    outside = np.flatnonzero(~credal.contains(credal.point, atol=0.0))
    if outside.size:
        kept = credal[outside].decide(rule, utility=-table)
        expected[outside] = np.where(kept, expected[outside], np.inf)
    return np.asarray(actions[expected.argmin(axis=1)])
