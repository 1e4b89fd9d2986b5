"""A number as one of several bins, so that a classifier over bins predicts its distribution."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from decal._base.errors import InputError, counted, require_all
from decal._base.numerics import Array, Indices
from decal._base.row_checks import check_steps, real_matrix, to_numpy
from decal._base.settings import check_count
from decal.credal import CredalSet

__all__ = ["Binned", "binned"]


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        n, bins = len(self.labels), len(self.classes)
        ends = f"{self.edges[0]:.4g} to {self.edges[-1]:.4g}"
        return f"Binned: {counted(n, 'number')}, {bins:,} bins from {ends}"

    def interval(self, credal: CredalSet) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: a prediction interval, from first to last possible bin.

        With a promise of `miss`, the number of a new input is outside so often at most; numbers
        beyond the outer edges count as in the outer bins.
        """
        kept = self._checked(credal).possible_mask()
        first, past = kept.argmax(axis=1), kept.shape[1] - kept[:, ::-1].argmax(axis=1)
        return self.edges[first], self.edges[past]

    def quantile(self, credal: CredalSet, q: float) -> tuple[Array, Array]:
        """(lower, upper), (n,) each: where the quantile of every distribution in the set lies."""
        first, last = self._checked(credal).quantile(q)
        return self.edges[first], self.edges[last + 1]

    def probabilities(self, quantiles: Any, levels: Any) -> Array:
        """(n, K) the probability of every bin, of a network that predicts quantiles.

        Between quantiles, which are sorted, and from the outermost to the outer edges, the
        distribution function is taken to be linear. `decal.decalibrate` takes these with
        ``probabilities=True``.

        Parameters
        ----------
        quantiles : (n, m) array
            Predicted quantiles.
        levels : (m,) array
            Their levels, which rise between 0 and 1.

        Examples
        --------
        >>> import decal
        >>> bins = decal.binned([1.0, 2.5, 7.0], edges=[0, 2, 4, 8])
        >>> bins.probabilities([[2.0, 3.0, 4.0]], [0.25, 0.5, 0.75])
        array([[0.25, 0.5 , 0.25]])
        """
        at = check_steps(levels, "levels")
        q = real_matrix(to_numpy(quantiles, "quantiles"), "quantiles")
        if not (np.diff(at, prepend=0.0, append=1.0) > 0).all():
            raise InputError("levels", "rise between 0 and 1", f"{at.tolist()!r:.60}")
        if q.shape[1] != len(at):
            raise InputError("quantiles", f"have {len(at)} columns, as levels", f"shape {q.shape}")
        require_all(np.isfinite(q), q, "quantiles", "be finite")
        below = np.empty((len(q), len(self.edges)))  # the probability below every edge
        heights = np.concatenate([[0.0], at, [1.0]])
        for row, known in enumerate(np.sort(q, axis=1)):
            ends = min(self.edges[0], known[0]), max(self.edges[-1], known[-1])
            below[row] = np.interp(self.edges, [ends[0], *known, ends[1]], heights)
        below[:, 0], below[:, -1] = 0.0, 1.0  # numbers beyond are in the outer bins
        return np.diff(below, axis=1)

    def _checked(self, credal: CredalSet) -> CredalSet:
        if not isinstance(credal, CredalSet):
            raise InputError("credal", "be credal sets over the bins", f"a {type(credal).__name__}")
        if credal.shape[1] != len(self.classes):
            remedy = "No classifier knows a bin that had no rows: take fewer bins."
            fact = f"{credal.shape[1]}"
            raise InputError("credal", f"have {len(self.classes)} bins", fact, remedy)
        return credal


def binned(y: Any, edges: Any = 10) -> Binned:
    """Numbers as labels of bins, for a classifier over bins with order=True.

    Parameters
    ----------
    y : (n,) array
        Finite numbers.
    edges : int or (K + 1,) array
        How many bins, with about as many numbers in each, or fewer bins where numbers are equal; or
        where bins begin, and the last ends. Numbers beyond are in the first or the last bin. To
        give new numbers the bins of others, pass ``edges=others.edges``.

    Examples
    --------
    >>> import decal
    >>> bins = decal.binned([1.0, 2.0, 2.5, 7.0], edges=[0, 2, 4, 8])
    >>> bins
    Binned: 4 numbers, 3 bins from 0 to 8
    >>> bins.labels, bins.classes
    (array([0, 1, 1, 2]), ('0 to 2', '2 to 4', '4 to 8'))
    >>> bins.interval(decal.IntervalCredalSet([[0.5, 0.2, 0]], [[0.7, 0.4, 0.1]]))
    (array([0.]), array([2.]))
    """
    numbers, counted = check_steps(y, "y"), np.ndim(edges) == 0
    if counted:
        bins = check_count(edges, "edges", least=2)
        ends = np.unique(np.quantile(numbers, np.linspace(0, 1, bins + 1)))
    else:
        ends = check_steps(edges, "edges")
    if len(ends) < 3 or (np.diff(ends) <= 0).any():
        rule = "be three or more numbers that rise"
        remedy = "Ties of y merge bins: give the edges." if counted else ""
        raise InputError("edges", rule, f"{ends.tolist()!r:.60}", remedy)
    labels = np.searchsorted(ends[1:-1], numbers, side="right")
    count = np.bincount(labels, minlength=len(ends) - 1)
    total = np.bincount(labels, numbers, minlength=len(ends) - 1)
    centers = np.where(count > 0, total / np.maximum(count, 1), (ends[:-1] + ends[1:]) / 2)
    names = [f"{end:.4g}" for end in ends]
    if len(set(names)) < len(names):
        names = [repr(float(end)) for end in ends]
    classes = tuple(f"{low} to {high}" for low, high in pairwise(names))
    return Binned(labels, ends, centers, classes)
