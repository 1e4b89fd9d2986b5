"""Credal sets of label masses that are known as intervals: outer boxes, proved to hold the truth.

The probability of a label, after any plausible change of the model, is

    p_j = M_j^s e^(d_j) / sum_l M_l^s e^(d_l),        s >= 0, d in R^K,

with the label masses M. It grows with M_j and falls with every other mass, whatever s and d are.
So the lower bound of the box of label j, over all plausible changes and over all masses between
their bounds, is that of the ordinary box where M_j is least and the others are greatest, and the
upper bound that where M_j is greatest and the others are least: 2 K ordinary boxes per input.
docs/llm.md has the proof, and why it holds for local sets as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.credal import IntervalCredalSet
from decal.directions import ClassShifts, Direction, Local, Temperature

__all__ = ["outer_box", "require_monotone"]


def outer_box(
    least: Array,
    most: Array,
    middle: Array,
    box: Callable[[Array], IntervalCredalSet],
    present: NDArray[np.bool_],
) -> tuple[Array, Array, Array]:
    """Bounds and point (n, K) of the outer box of `box`, a function from logits (n, K) to boxes.

    Parameters
    ----------
    least, most, middle : (n, K) arrays
        Logarithms of the masses: their bounds, and some between them.
    box : callable
        Whose bound of label j is monotone: it grows with logit j and falls with the others.
    present : (K,) array
        The labels that the reference does not leave out.
    """
    inside = box(middle)
    low, high = np.array(inside.lower), np.array(inside.upper)
    rows = np.flatnonzero((least != most).any(axis=1))
    if rows.size:
        least, most = least[rows], most[rows]
        for j in range(least.shape[1]):
            low[rows, j] = _bound(box, most, least, j, np.isneginf(least[:, j]), 0.0, low[rows, j])
            # Without a rival that certainly has mass, the label may have all of it.
            rivals = present.copy()
            rivals[j] = False
            alone = np.isneginf(least[:, rivals]).all(axis=1)
            high[rows, j] = _bound(box, least, most, j, alone, 1.0, high[rows, j])
    return low, high, np.asarray(inside.point)


def _bound(
    box: Any, others: Array, own: Array, j: int, vacuous: Any, limit: float, known: Array
) -> Array:
    """One side of the interval of label j: `limit` where nothing is known, else from a corner."""
    found = np.full(len(own), limit)
    rows = np.flatnonzero(~vacuous)
    if rows.size:
        corner = others[rows]
        corner[:, j] = own[rows, j]
        at = box(corner)
        # The interval of the masses halfway lies inside, but for round-off.
        if limit == 0.0:
            found[rows] = np.minimum(at.lower[:, j], known[rows])
        else:
            found[rows] = np.maximum(at.upper[:, j], known[rows])
    return found


def require_monotone(directions: Iterable[Direction]) -> None:
    """ValueError if a direction's bounds are not known to be monotone in the logits."""
    for direction in directions:
        local = isinstance(direction, Local) and direction.by_entropy is None
        if not (local or isinstance(direction, ClassShifts | Temperature)):
            raise ValueError(
                "directions must be class shifts, temperature or local sets for intervals of label "
                f"masses: got {direction}, whose bounds are not known to be monotone in the "
                "logits. Choose other directions, or ask for all tokens."
            )
