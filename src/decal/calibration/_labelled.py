"""What the tests take: reachable bounds, a prediction, and a label for every input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.credal import CredalSet, IntervalCredalSet

Indices = NDArray[np.intp]

NOT_VALID = "Not refuted is not valid: sets can miss the truth at every input and pass."
"""What every result says when it refutes nothing."""


@dataclass(frozen=True)
class LabelledSets:
    """Bounds that members attain, the prediction they surround, and the labels.

    Attributes
    ----------
    lower, upper : (n, K) arrays
        Reachable bounds.
    point : (n, K) array
        The prediction of the set; without one, its intersection probability.
    labels : (n,) integers
    """

    lower: Array
    upper: Array
    point: Array
    labels: Indices

    @classmethod
    def of(cls, credal: CredalSet, labels: Any) -> LabelledSets:
        """From a credal set that has members in every row, at least one row and two classes."""
        if not isinstance(credal, CredalSet):
            raise ValueError(
                f"credal must be a credal set: got {type(credal).__name__}. "
                "Use decal.IntervalCredalSet or decal.HullCredalSet."
            )
        n, K = credal.shape
        if n == 0 or K < 2:
            raise ValueError(
                f"credal must have an input and two classes, or more: got {n} inputs, {K} classes."
            )
        without = credal.is_empty
        if without.any():
            raise ValueError(
                "credal must have members in every row: got bounds that no distribution satisfies "
                f"in row {without.argmax()} ({without.sum()} rows in all). Leave such rows out."
            )
        y = credal.check_labels(labels)
        tight = credal.tighten()
        lower, upper, point = tight.lower, tight.upper, credal.point
        if point is None:
            point = IntervalCredalSet(lower, upper).intersection_probability()
        return cls(lower, upper, np.clip(point, lower, upper), y)
