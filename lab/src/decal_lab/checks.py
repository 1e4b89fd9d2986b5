"""Checks of arguments, in the words of decal: <argument> must <rule>: got <fact>.

What the laboratory's own functions are given; decal checks what it is given itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SUM_TOLERANCE = 1e-3
"""How far from 1 probabilities may sum: files keep few digits."""


@contextmanager
def needs(*packages: str, message: str) -> Iterator[None]:
    """Turn the failed import of a package into an ImportError that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in packages:
            raise
        raise ImportError(message, name=error.name) from error


# Settings


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """One of the named choices."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {options}: got {value!r}.")
    return value


def check_count(value: Any, name: str, *, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}: got {value!r}.")
    return int(value)


def check_tolerance(value: Any, name: str) -> float:
    """A finite number, not negative."""
    number = _number(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be a finite number, not negative: got {value!r:.60}.")
    return number


def check_alpha(alpha: Any, name: str = "alpha") -> float:
    """One number in [0, 1]."""
    number = _number(alpha)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must lie between 0 and 1: got {alpha!r:.60}.")
    return number


def check_level(level: Any, name: str = "level") -> float:
    """A number above 0 and below 1."""
    number = check_alpha(level, name)
    if number in (0, 1):
        raise ValueError(f"{name} must be above 0 and below 1: got {number:g}.")
    return number


def _number(value: Any) -> float:
    """NaN for what is no single number."""
    try:
        return math.nan if isinstance(value, bool | np.bool_ | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


# Arrays


def to_numpy(values: Any, name: str) -> NDArray[Any]:
    """A NumPy array of the same numbers; tensors are detached and brought to the host."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        fact = str(error).rstrip(".")
        raise ValueError(f"{name} must be an array of numbers: got {fact}.") from error


def check_alphas(alphas: Any, name: str = "alphas") -> Array:
    """(A,) numbers in [0, 1], at least one."""
    array = to_numpy(alphas, name)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must be a vector of numbers from 0 to 1, at least one: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    _require((array >= 0) & (array <= 1), array, name, "lie between 0 and 1")
    return array.astype(np.float64)


def check_logits(
    logits: Any, *, classes: int | None = None, name: str = "logits"
) -> NDArray[np.floating]:
    """A finite (n, K) matrix, n >= 1 and K >= 2, float32 or float64."""
    array = _matrix(logits, name)
    if classes is not None and array.shape[1] != classes:
        raise ValueError(
            f"{name} must have {classes} columns, one per class: got shape {array.shape}."
        )
    if len(array) == 0 or array.shape[1] < 2:
        raise ValueError(
            f"{name} must have a row or more, and a column per class, two or more: "
            f"got shape {array.shape}."
        )
    _require(np.isfinite(array), array, name, "be finite")
    return array


def check_labels(labels: Any, *, rows: int, classes: int, first_row: int = 0) -> Indices:
    """(rows,) integers in 0..classes-1; messages count from `first_row`."""
    array = to_numpy(labels, "labels")
    if array.shape != (rows,):
        raise ValueError(
            f"labels must be a vector with one label per row of logits, {rows} in all: "
            f"got shape {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers 0 to {classes - 1}: got dtype {array.dtype}.")
    rule = f"lie in 0 to {classes - 1}, the columns of logits"
    _require((array >= 0) & (array < classes), array, "labels", rule, first_row)
    return array.astype(np.intp)


def check_probabilities(probabilities: Any, *, name: str = "probabilities") -> Array:
    """(n, K) probability vectors, each summing to one within SUM_TOLERANCE."""
    array = _matrix(probabilities, name).astype(np.float64)
    _require((array >= 0) & (array <= 1), array, name, "lie between 0 and 1")
    sums = array.sum(axis=1)
    wrong = np.abs(sums - 1) > SUM_TOLERANCE
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{name} must sum to 1 in every row: got {sums[row]:.6g} in row {row}.")
    return array


def check_distributions(values: Any, *, shape: tuple[int, ...], name: str) -> Array:
    """Probability vectors in a matrix of this shape."""
    array = check_probabilities(values, name=name)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}: got shape {array.shape}.")
    return array


def _matrix(values: Any, name: str) -> NDArray[np.floating]:
    array = to_numpy(values, name)
    if array.ndim != 2 or array.dtype.kind not in "iufb":
        raise ValueError(
            f"{name} must be a matrix of numbers with a row per example and a column per class: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _require(
    fine: NDArray[np.bool_], array: NDArray[Any], name: str, rule: str, first_row: int = 0
) -> None:
    """ValueError about the first entry that is not fine."""
    if not fine.all():
        index = np.unravel_index(int(fine.argmin()), fine.shape)
        row, *rest = (int(i) for i in index)
        at = (first_row + row, *rest) if rest else first_row + row
        raise ValueError(f"{name} must {rule}: got {array[index]} at index {at}.")


# Ensembles


def check_member_logits(logits: Iterable[Any]) -> Array:
    """(n, M, K) from M matrices (n, K) of the same shape, M >= 1."""
    members = [check_logits(z, name=f"logits[{m}]") for m, z in enumerate(logits)]
    if not members:
        raise ValueError("logits must hold a matrix per member, one or more: got none.")
    for m, z in enumerate(members):
        if z.shape != members[0].shape:
            raise ValueError(
                f"logits[{m}] must have the shape of logits[0], {members[0].shape}: "
                f"got shape {z.shape}. Give every member the same inputs, in the same order."
            )
    return np.stack(members, axis=1).astype(np.float64)


def check_member_probabilities(probabilities: Any) -> Array:
    """(n, M, K) distributions, M >= 1, each summing to one within SUM_TOLERANCE."""
    array = to_numpy(probabilities, "probabilities")
    if array.ndim != 3 or array.size == 0 or array.shape[2] < 2:
        raise ValueError(
            "probabilities must be inputs × members × classes, one member and two classes or more: "
            f"got shape {array.shape}."
        )
    members = range(array.shape[1])
    checked = [check_probabilities(array[:, m], name=f"probabilities[:, {m}]") for m in members]
    return np.stack(checked, axis=1)


def row_blocks(rows: int, columns: int, elements: int = 1 << 18) -> Iterator[slice]:
    """Slices of consecutive rows, each about `elements` numbers large."""
    step = max(1, elements // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
