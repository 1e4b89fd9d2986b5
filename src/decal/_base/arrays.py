"""What NumPy, PyTorch and graphs of ONNX spell differently, for formulas over all three.

Such a formula takes the namespace as `xp`, calls what they share, and calls this file for the
rest. Arrays of NumPy are changed in place where that saves a copy, and are (n, K), or (K,) for one
row, of which numbers stand for (n, 1): that takes half the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from decal._base import numerics

Place = Any
"""One entry of every row: an index of NumPy arrays, or whole numbers (..., 1)."""

FEW_COLUMNS, MANY_ROWS = 32, 256  # where a step per column takes less time than one per row
ADD: Any = np.add  # whose types do not know that an axis may be kept or not


def fill(a: Any, mask: Any, value: float) -> Any:
    """A copy of `a` with a value where the mask is true; `a` itself if there is no mask."""
    if mask is None:
        return a
    return np.where(mask, value, a) if isinstance(a, np.ndarray) else a.masked_fill(mask, value)


def place_of(a: Any, *, largest: bool) -> Place:
    """Where the largest, or the smallest, entry of every row is."""
    if isinstance(a, np.ndarray):
        found = a.argmax(axis=-1) if largest else a.argmin(axis=-1)
        return (np.arange(len(a)), found) if a.ndim > 1 else found
    return a.argmax(-1, keepdim=True) if largest else a.argmin(-1, keepdim=True)


def take(a: Any, place: Place) -> Any:
    """(..., 1) the entry of every row at its place."""
    if isinstance(a, np.ndarray):
        return a[place][:, None] if a.ndim > 1 else a[place]
    return a.gather(-1, place)


def put(xp: Any, a: Any, place: Place, value: Any) -> Any:
    """The rows with a value, or with values (..., 1), at their places."""
    if isinstance(a, np.ndarray):
        a[place] = value[:, 0] if isinstance(value, np.ndarray) else value
        return a
    return xp.where(xp.arange(a.shape[-1], device=a.device) == place, value, a)


def extreme(a: Any, *, largest: bool) -> Any:
    """(..., 1) the largest, or the smallest, entry of every row."""
    if isinstance(a, np.ndarray):
        of_all: Any = np.maximum if largest else np.minimum
        if a.ndim == 1 or len(a) < MANY_ROWS or not 0 < a.shape[1] <= FEW_COLUMNS:
            return of_all.reduce(a, axis=-1, keepdims=a.ndim > 1)
        found = a[:, :1].copy()
        for k in range(1, a.shape[1]):
            of_all(found, a[:, k : k + 1], out=found)
        return found
    return a.amax(-1, keepdim=True) if largest else a.amin(-1, keepdim=True)


def row_sum(a: Any) -> Any:
    """(..., 1) the sum of every row."""
    if isinstance(a, np.ndarray):
        return ADD.reduce(a, axis=-1, keepdims=a.ndim > 1)
    return a.sum(-1, keepdim=True)


def sum_without(xp: Any, a: Any, place: Place) -> Any:
    """(..., 1) the sum of every row but for the entry at its place."""
    if not isinstance(a, np.ndarray):
        return put(xp, a, place, 0.0).sum(-1, keepdim=True)
    kept = a[place]
    a[place] = 0.0
    found = ADD.reduce(a, axis=-1, keepdims=a.ndim > 1)
    a[place] = kept
    return found


def sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)), exact at infinite x."""
    return numerics.sigmoid(x) if isinstance(x, np.ndarray) else xp.sigmoid(x)


def constant(a: Any) -> Any:
    """The numbers alone, through which no gradient flows."""
    return a.detach() if hasattr(a, "detach") else a


def at_most_one(a: Any) -> Any:
    """No more than 1; of NumPy arrays, inf / inf is 1, too."""
    return np.fmin(a, 1.0) if isinstance(a, np.ndarray) else a.clamp(max=1.0)
