"""What credal sets warn about."""

from __future__ import annotations

import numpy as np

from decal._base.errors import AnswerWarning
from decal._base.numerics import Array

VACUOUS_WIDTH = 0.9  # sets of a greater mean width exclude next to nothing

NEAR_CAP = {"entropy": 0.99, "zero_one": 0.99, "total_variation": 1 - 1e-8}
"""A measure is at its cap from this share of its greatest possible value on. The total variation
still ranks where it is near 1, and no longer where it is 1: with many classes, at small alpha."""

SHARE_AT_CAP = 0.5
"""More than this share of the inputs at the cap, and the order of the inputs means little."""

FEWEST_RANKED = 10  # fewer inputs than this are looked at one by one, not ranked: no warning


def warn_of_width(width: float, alpha: float, said: set[str]) -> None:
    """Warn if this mean width is nearly 1, and note that it was said."""
    if width <= VACUOUS_WIDTH:
        return
    said.add("vacuous")
    AnswerWarning.warn(
        f"credal sets exclude next to nothing: their mean width is {width:.2f} at alpha = "
        f"{alpha:g}. alpha is no rate of errors, as in conformal prediction, but how likely labels "
        "must remain, per example: larger is narrower. Take a larger alpha, or choose one with "
        "decal.choose."
    )


def warn_if_saturated(
    measure: str, values: Array, confidence: Array, ends: Array, caps: Array | float
) -> None:
    """Warn, once, if a measure cannot rank these inputs, or ranks them backwards.

    It cannot where most of its upper ends are at their caps; a cap of 0 does not count, as nothing
    can be uncertain there. It is backwards if it rises with the confidence: if their rank
    correlation (Spearman's) is positive. `decal reproduce scores` counts how often that is so where
    the measure finds errors worse than chance: in 273 of 274 cases on real logits.

    `confidence` (n,) is the greatest lower probability of a class; `ends` (n,) is what saturates,
    the measure itself or what it is the difference from, and `caps` its greatest possible value.
    """
    n = len(values)
    if n < FEWEST_RANKED:
        return
    at_cap = int(np.sum((ends >= NEAR_CAP[measure] * np.asarray(caps)) & (np.asarray(caps) > 0.0)))
    backwards = rank_correlation(values, confidence)
    if at_cap > SHARE_AT_CAP * n:
        what = "the upper entropy" if measure == "entropy" else "it"
        fact = f"{what} is at its cap for {at_cap:,} of {n:,} inputs"
    elif backwards > 0.0:
        fact = f"it rises with the confidence (rank correlation {backwards:+.2f})"
    else:
        return
    AnswerWarning.warn(
        f"epistemic({measure!r}) should not rank these inputs, and may put confident ones first: "
        f"{fact}. Use epistemic('width') to rank, or predict with a larger alpha."
    )


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's rank correlation of two arrays (n,), ties ranked in the middle; 0 if constant."""
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean(), y - y.mean()
    size = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / size) if size > 0.0 else 0.0


def _ranks(values: Array) -> Array:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2.0)[place])
