"""The evidence of classifiers that answer a question per label: a margin is the logit itself.

The log-odds of a label against its absence are its logit z, so shifting it by t changes the
log-likelihood of the label by the gain of a class shift, see `_margins`, with two differences: what
is no label is its absence, not another class, and an input may have no answer for some labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, row_blocks
from decal.directions._binning import PASS_ELEMENTS, Summariser
from decal.directions._margins import MarginSummary, difference_of_weights

Answers = NDArray[np.int8]
"""(n, L): 1 for a label that an input has, 0 for one that it has not, -1 where nobody knows."""


@dataclass(frozen=True)
class LabelMargins(MarginSummary):
    """As `MarginSummary`, of L labels that do not exclude each other.

    Attributes
    ----------
    label_weight, other_weight : (L,) arrays
        Total weight of the inputs known to have, and known not to have, a label.
    masked, certain : (L,) arrays
        Total weight of those of them whose logit is -inf, or inf: no shift changes their answer.
    """

    other_weight: Array = field(kw_only=True)

    weights: ClassVar[tuple[str, ...]] = (*MarginSummary.weights, "other_weight")
    fewest: ClassVar[int] = 1
    exclusive: ClassVar[bool] = False

    @property
    def total_weight(self) -> Array:
        """(L,) weight of the inputs that have an answer."""
        return self.label_weight + self.other_weight

    @cached_property
    def open_others(self) -> Array:
        """(L,) weight of the inputs without the label whose answer a shift can change."""
        return difference_of_weights(self.other_weight, self.masked)


def summarise_label_margins(
    logits: Logits, answers: Answers, weights: Array | None
) -> LabelMargins:
    """The binned logits of every label, of the inputs that have an answer: one pass over them.

    Parameters
    ----------
    logits : (n, L) array
        Without NaN.
    answers : (n, L) array
        1, 0 or -1.
    weights : (n,) array, optional
        Positive.
    """
    n, L = logits.shape
    summariser = Summariser(L, expected=n * L)
    totals = np.zeros((4, L))
    for rows in row_blocks(n, L, PASS_ELEMENTS):
        z, y = logits[rows].astype(np.float64), answers[rows]
        w = np.ones(len(z)) if weights is None else weights[rows]
        here, absent = y == 1, y == 0
        decided = absent & np.isneginf(z), here & np.isposinf(z)
        totals += [w @ found for found in (here, absent, *decided)]
        # Those without an answer stay out of the bins, as all that is infinite does.
        margins = np.ascontiguousarray(np.where(here | absent, z, -np.inf).T)
        summariser.add_margins(margins, None if weights is None else w)
    found = summariser.summary()
    here, absent, masked, certain = totals
    bins = found.bin_width, found.keys, found.moments
    return LabelMargins(*bins, here, masked, certain, other_weight=absent)
