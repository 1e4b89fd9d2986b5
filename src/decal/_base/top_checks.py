"""Checks of the most probable classes of every row, for `decal.TopLogits`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import SUM_TOLERANCE, real_matrix, require_finite, to_numpy
from decal._base.errors import require_all
from decal._base.numerics import Array, Logits


def check_top_values(values: Any, classes: int) -> Logits:
    """Finite (n, m) log-probabilities of the m classes listed in every row, 1 <= m < classes."""
    array = real_matrix(values, "values")
    if 0 in array.shape or array.shape[1] >= classes:
        raise ValueError(
            f"values must list one or more of the {classes} classes in every row, but not all: "
            f"got shape {array.shape}. Pass a matrix of all classes as logits."
        )
    require_finite(array, "values")
    return array


def check_top_classes(classes: Any, shape: tuple[int, ...], count: int) -> NDArray[np.intp]:
    """Integers 0..count-1 of the given shape, (n, m), none twice in a row."""
    array = to_numpy(classes, "classes")
    if array.shape != shape or array.dtype.kind not in "iu":
        raise ValueError(
            f"classes must be integers of the shape of values, {shape}: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    require_all((array >= 0) & (array < count), array, "classes", f"lie in 0 to {count - 1}")
    ordered = np.sort(array, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        row, column = twice[0]
        raise ValueError(
            f"classes must be distinct in every row: got {ordered[row, column]} twice in row {row}."
        )
    return array.astype(np.intp)


def check_remainder(remainder: Any, values: Logits) -> Array:
    """(n,) finite logarithms of the mass not listed; from log-probabilities `values` if None.

    What round-off of the dtype of `values` would hide is taken as that round-off.
    """
    if remainder is None:
        with np.errstate(over="ignore"):
            listed = np.exp(values.astype(np.float64)).sum(axis=1)
        wrong = np.flatnonzero(listed > 1 + SUM_TOLERANCE)
        if wrong.size:
            raise ValueError(
                "values must be log-probabilities, if no remainder is given: got a sum of "
                f"{listed[wrong[0]]:.6g} in row {wrong[0]}. Give the remainder, or subtract the "
                "log-sum-exp of all classes first."
            )
        least = float(np.finfo(values.dtype).eps)
        rest: Array = np.log(np.maximum(1.0 - listed, least))
        return rest
    array = to_numpy(remainder, "remainder")
    if array.shape != (len(values),) or array.dtype.kind not in "iuf":
        raise ValueError(
            f"remainder must be {len(values)} numbers, one per row of values: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    advice = "It is the log of the mass of the classes not listed."
    require_all(np.isfinite(array), array, "remainder", "be finite", advice=advice)
    return array
