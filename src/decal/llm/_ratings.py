"""Ordinal answers: what a judge that rates from 1 to 5 says, as intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from decal._base.data_frames import by_name
from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.settings import check_share
from decal.credal import CredalSet


@dataclass(frozen=True)
class Interval:
    """Two numbers: the least and the greatest value."""

    lower: float
    upper: float

    def __repr__(self) -> str:
        return f"[{self.lower:.3f}, {self.upper:.3f}]"


@dataclass(frozen=True, eq=False, init=False)
class Ratings:
    """Credal sets over ratings, and what is asked of them.

    Parameters
    ----------
    credal : CredalSet
        Of n items, with a class for each rating.
    values : (K,) array, optional
        The rating that each class stands for, by name in a mapping or a Series; by default the
        number that it is called by.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.2, 0.3]], [[0.3, 0.5, 0.6]], classes=["1", "2", "3"])
    >>> ratings = decal.llm.Ratings(c)
    >>> ratings.expected()
    (array([2.]), array([2.5]))
    >>> ratings.at_least(2)
    (array([0.7]), array([0.9]))
    >>> ratings.mean()
    [2.000, 2.500]
    """

    credal: CredalSet
    values: Array

    def __init__(self, credal: CredalSet, values: Any = None) -> None:
        object.__setattr__(self, "credal", credal)
        object.__setattr__(self, "values", _check_values(credal, values))

    def __len__(self) -> int:
        return len(self.credal)

    def expected(self) -> tuple[Array, Array]:
        """(n,) least and greatest expected rating of each item."""
        return self.credal.expectation(self.values)

    def at_least(self, rating: float) -> tuple[Array, Array]:
        """(n,) least and greatest probability of this rating or a higher one."""
        event = self.values >= rating
        if event.all() or not event.any():
            sure = np.full(len(self), float(event.all()))
            return sure, sure.copy()
        return self.credal.probability(event)

    def mean(self, *, confidence: float | None = None) -> Interval:
        """The mean expected rating of all items: everything between two numbers is plausible.

        All items may be at their lower endpoints at once, or at their upper ones, so these do not
        come closer as items are added. With a `confidence` it is widened, by a normal approximation
        for each endpoint, to hold for all items that these were drawn from at random.
        """
        ends = self.expected()
        room = [0.0, 0.0]
        if confidence is not None:
            level = check_share(confidence, "confidence", positive=True)
            if len(self) < 2:
                raise InputError("confidence", "be asked of two items or more", "one")
            z = float(ndtri((1 + level) / 2))
            room = [z * float(e.std(ddof=1)) / len(self) ** 0.5 for e in ends]
        least, most = float(self.values.min()), float(self.values.max())
        return Interval(
            max(least, float(ends[0].mean()) - room[0]), min(most, float(ends[1].mean()) + room[1])
        )


def _check_values(credal: CredalSet, values: Any) -> Array:
    K = credal.shape[1]
    if values is None:
        try:
            values = [float(name) for name in credal.classes or ()]
        except ValueError:
            values = None
        if not values:
            fact = f"classes called {credal.classes}"
            rule, remedy = "say what the classes are worth", "Pass values=[1, 2, ...]."
            raise InputError("values", rule, fact, remedy)
    found = np.asarray(by_name(values, credal.classes, K, "values"), dtype=np.float64)
    if found.shape != (K,) or not np.isfinite(found).all():
        raise InputError("values", f"be {K} finite numbers", f"{values!r}")
    return found
