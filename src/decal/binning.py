"""A number as one of several bins, so that a classifier over bins predicts its distribution."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from decal._base.errors import InputError, require_all
from decal._base.numerics import Array, Indices
from decal._base.row_checks import to_numpy
from decal.credal import CredalSet

__all__ = ["Binned", "binned"]


@dataclass(frozen=True, eq=False)
class Binned:
    """Numbers in bins, and the way back from sets over the bins to numbers.

    Attributes
    ----------
    labels : (n,) array
        The bin of every number, 0 to K - 1: labels of a classifier.
    edges : (K + 1,) array
        Where bins begin, and the last one ends. A number on an edge is in the bin above it.
    centers : (K,) array
        The mean of the numbers in each bin; the middle of a bin without any. For `CredalSet.mean`.
    classes : tuple of str
        Names of the bins.
    """

    labels: Indices
    edges: Array
    centers: Array
    classes: tuple[str, ...]

    def interval(self, credal: CredalSet) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: a prediction interval, the ends of the possible bins.

        With a promise of `miss`, the number of a new input is outside so often at most; numbers
        beyond the outer edges count as in the outer bins.
        """
        kept = credal.with_order().possible_mask()
        return self._ends(kept.argmax(axis=1), kept.shape[1] - 1 - kept[:, ::-1].argmax(axis=1))

    def quantile(self, credal: CredalSet, q: float) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: where the quantile of every distribution in the set lies."""
        return self._ends(*credal.quantile(q))

    def _ends(self, first: Indices, last: Indices) -> tuple[Array, Array]:
        if len(self.classes) <= int(max(first.max(initial=0), last.max(initial=0))):
            raise InputError("credal", f"have {len(self.classes)} bins", "more")
        return self.edges[first], self.edges[last + 1]


def binned(y: Any, edges: Any = 10) -> Binned:
    """Numbers as labels of bins, for a classifier over bins with order=True.

    Parameters
    ----------
    y : (n,) array
        Finite numbers.
    edges : int or (K + 1,) array
        How many bins, with about as many numbers in each; or where they begin, and the last ends.
        Numbers beyond are in the first or the last bin. To give new numbers the bins of others,
        pass ``edges=others.edges``.

    Examples
    --------
    >>> import decal
    >>> bins = decal.binned([1.0, 2.0, 2.5, 7.0], edges=[0, 2, 4, 8])
    >>> bins.labels, bins.classes
    (array([0, 1, 1, 2]), ('0 to 2', '2 to 4', '4 to 8'))
    >>> bins.interval(decal.IntervalCredalSet([[0.5, 0.2, 0]], [[0.7, 0.5, 0.1]]))
    (array([0.]), array([2.]))
    """
    numbers = to_numpy(y, "y")
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iuf":
        fact = f"shape {numbers.shape}, dtype {numbers.dtype}"
        raise InputError("y", "be a vector of numbers", fact)
    numbers = numbers.astype(np.float64)
    require_all(np.isfinite(numbers), numbers, "y", "be finite")
    if isinstance(edges, int) and not isinstance(edges, bool):
        if edges < 2:
            raise InputError("edges", "be two bins or more", f"{edges}")
        ends = np.unique(np.quantile(numbers, np.linspace(0, 1, edges + 1)))
    else:
        ends = to_numpy(edges, "edges").astype(np.float64)
    if ends.ndim != 1 or len(ends) < 3 or not np.isfinite(ends).all() or (np.diff(ends) <= 0).any():
        rule = "be three or more finite numbers that rise"
        raise InputError("edges", rule, f"{ends.tolist()!r:.60}", "Ties of y may merge bins.")
    labels = np.searchsorted(ends[1:-1], numbers, side="right")
    count = np.bincount(labels, minlength=len(ends) - 1)
    total = np.bincount(labels, numbers, minlength=len(ends) - 1)
    centers = np.where(count > 0, total / np.maximum(count, 1), (ends[:-1] + ends[1:]) / 2)
    names = [f"{end:.4g}" for end in ends]
    if len(set(names)) < len(names):
        names = [repr(float(end)) for end in ends]
    classes = tuple(f"{low} to {high}" for low, high in pairwise(names))
    return Binned(labels, ends, centers, classes)
