"""The evidence of class shifts where margins are known as intervals.

The gain of shifting class k by t, g(t) = w t - sum_n [softplus(m_n + t) - softplus(m_n)], falls
with every margin m_n for t > 0, and grows with it for t < 0. So with margins between bounds, no
completion makes a shift t > 0 plausible that the lower margins do not, and no shift t < 0 that the
upper margins do not. The greatest plausible shift is taken from the lower margins, the least one
from the upper margins: the interval holds those of all completions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.directions._margins import MarginSummary
from decal.directions._summarise import Summariser

FAR_MARGIN, FAR_SHIFT = 1000.0, 900.0
"""Infinite margins are put at the first, beyond all that matters for shifts up to the second;
longer shifts are taken as infinite, which is further."""


class MarginBounds(MarginSummary):
    """Margins of which this is only a bound: the probabilities of a row need not sum to one."""

    exclusive = False


@dataclass(frozen=True)
class BoundedMargins:
    """The lower and the upper margins of every class, binned, of the same labels."""

    low: MarginSummary
    high: MarginSummary

    @classmethod
    def of(cls, low: Array, high: Array, labels: NDArray[np.intp]) -> Self:
        """Of margins (n, K), perhaps infinite, and labels (n,)."""
        return cls(_summary(low, labels), _summary(high, labels))

    def __add__(self, other: BoundedMargins | MarginSummary) -> BoundedMargins:
        """The evidence of both data sets together; margins that are known are their own bounds."""
        low, high = (other, other) if isinstance(other, MarginSummary) else (other.low, other.high)
        return BoundedMargins(self.low + low, self.high + high)

    __radd__ = __add__

    @property
    def label_weight(self) -> Array:
        """(K,) total weight of the examples labelled k."""
        return self.low.label_weight

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that `from_arrays` turns back into this evidence."""
        return {
            f"{side}.{name}": array
            for side, summary in (("low", self.low), ("high", self.high))
            for name, array in summary.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Take the arrays out of the dictionary; ValueError if they do not fit together."""
        sides = []
        for side in ("low.", "high."):
            names = [name for name in arrays if name.startswith(side)]
            own = {name.removeprefix(side): arrays.pop(name) for name in names}
            sides.append(MarginBounds.from_arrays(own))
            if own:
                raise ValueError(f"unknown arrays {sorted(own)}")
        found = cls(*sides)
        if not np.array_equal(found.low.label_weight, found.high.label_weight):
            raise ValueError("bounds must be of the same labels")
        return found


def _summary(m: Array, labels: NDArray[np.intp]) -> MarginSummary:
    summariser = Summariser(m.shape[1], expected=m.size)
    finite = np.ascontiguousarray(np.clip(m, -FAR_MARGIN, FAR_MARGIN).T)
    summariser.add(finite, labels, None)
    return summariser.summary()
