"""Checks and converts inputs. Nothing else in decal checks an argument's shape or range.

Messages read: <argument> must <requirement>: got <fact>. <What to do next.>
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, row_blocks

SUM_TOLERANCE = 1e-3
"""How far from one a row of probabilities may sum: published distributions are often rounded."""


class NotFittedError(ValueError, AttributeError):
    """Raised when something is asked of a Decalibrator that has seen no data."""


def to_numpy(values: Any, name: str) -> NDArray[Any]:
    """A NumPy array of the same numbers; tensors are detached and brought to the host."""
    if hasattr(values, "detach"):  # a torch tensor, perhaps on a device, perhaps in bfloat16
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    try:
        array = np.asarray(values)
        return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} must be an array of numbers: got {error}.") from error


def check_logits(logits: Any, *, classes: int | None = None, name: str = "logits") -> Logits:
    """A finite (n, K) matrix, n >= 1, K >= 2, float32 or float64."""
    array = _real_matrix(logits, name)
    if array.shape[0] == 0:
        raise ValueError(f"{name} must have at least one row: got shape {array.shape}.")
    if array.shape[1] < 2:
        raise ValueError(
            f"{name} must have one column per class, two or more: got shape {array.shape}. "
            "For a binary classifier with one score, stack it as [zeros, score]."
        )
    if classes is not None and array.shape[1] != classes:
        raise ValueError(
            f"{name} must have {classes} columns, one per class seen by fit: "
            f"got {array.shape[1]}. Use the logits of the same model."
        )
    _require_finite(array, name)
    return array


def check_labels(labels: Any, *, rows: int, classes: int) -> NDArray[np.intp]:
    """(rows,) integers in 0..classes-1."""
    array = to_numpy(labels, "labels")
    if array.shape != (rows,):
        raise ValueError(
            f"labels must be a vector with one label per row of logits, {rows} in all: "
            f"got shape {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be integers 0 to {classes - 1}: got dtype {array.dtype}. "
            "Turn names into column numbers first."
        )
    wrong = np.flatnonzero((array < 0) | (array >= classes))
    if wrong.size:
        raise ValueError(
            f"labels must lie in 0 to {classes - 1}, the columns of logits: "
            f"got {array[wrong[0]]} at index {wrong[0]}."
        )
    return array.astype(np.intp)


def check_weights(weights: Any, *, rows: int) -> Array | None:
    """(rows,) non-negative numbers with a positive sum, or None."""
    if weights is None:
        return None
    array = to_numpy(weights, "sample_weight")
    if array.shape != (rows,) or array.dtype.kind not in "iufb":
        raise ValueError(
            f"sample_weight must be {rows} numbers, one per row of logits: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if wrong.size:
        raise ValueError(
            "sample_weight must be finite and not negative: "
            f"got {array[wrong[0]]} at index {wrong[0]}."
        )
    if not array.any():
        raise ValueError("sample_weight must be positive somewhere: got only zeros.")
    return array


def check_alpha(alpha: Any, name: str = "alpha") -> float:
    """One number in [0, 1]."""
    if isinstance(alpha, bool | str) or np.ndim(alpha) != 0:
        raise ValueError(f"{name} must be one number from 0 to 1: got {alpha!r}.")
    try:
        value = float(alpha)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be one number from 0 to 1: got {alpha!r}.") from error
    if not 0 <= value <= 1:  # also false for NaN
        raise ValueError(f"{name} must lie between 0 and 1: got {value}.")
    return value


def require_one(**given: Any) -> None:
    """Exactly one of two arguments must be given."""
    first, second = given
    count = sum(value is not None for value in given.values())
    if count != 1:
        what = "neither" if count == 0 else "both"
        raise ValueError(f"{first} or {second} must be given, one of them: got {what}.")


def check_alphas(alphas: Any) -> Array:
    """(A,) numbers in [0, 1], at least one."""
    array = to_numpy(alphas, "alphas")
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise ValueError(
            "alphas must be a vector of numbers from 0 to 1, at least one: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if wrong.size:
        raise ValueError(
            f"alphas must lie between 0 and 1: got {array[wrong[0]]} at index {wrong[0]}."
        )
    return array


def check_annotations(annotations: Any, classes: int) -> tuple[NDArray[np.intp], int]:
    """(n, A) integers in -1..classes-1, at least one per row not -1; and the number of classes."""
    array = to_numpy(annotations, "annotations")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            "annotations must be a matrix with a row per example and a column per annotator: "
            f"got shape {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"annotations must be integers 0 to {classes - 1}, or -1 for none: "
            f"got dtype {array.dtype}. Turn names into column numbers, and NaN into -1, first."
        )
    array = array.astype(np.intp)
    wrong = np.argwhere((array < -1) | (array >= classes))
    if wrong.size:
        at = tuple(int(i) for i in wrong[0])
        raise ValueError(
            f"annotations must lie in 0 to {classes - 1}, or be -1 for none: "
            f"got {array[at]} at index {at}."
        )
    without = np.flatnonzero((array < 0).all(axis=1))
    if without.size:
        raise ValueError(
            f"annotations must have a label in every row: got only -1 in row {without[0]}. "
            "Leave such rows out, of logits too."
        )
    return array, classes


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """One of the named choices."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {options}: got {value!r}.")
    return value


def check_bounds(lower: Any, upper: Any, point: Any) -> tuple[Array, Array, Array | None]:
    """Matching (n, K) bounds within [0, 1], and a point of the same shape or None."""
    low, high = _probabilities(lower, "lower"), _probabilities(upper, "upper")
    if low.shape != high.shape:
        raise ValueError(
            f"upper must have the shape of lower, {low.shape}: got shape {high.shape}."
        )
    if point is None:
        return low, high, None
    middle = _probabilities(point, "point")
    if middle.shape != low.shape:
        raise ValueError(
            f"point must have the shape of lower, {low.shape}: got shape {middle.shape}."
        )
    return low, high, middle


def check_distributions(
    distributions: Any, *, shape: tuple[int, int], name: str = "distributions"
) -> Array:
    """Probability vectors, one per row, each summing to one within SUM_TOLERANCE."""
    array = _probabilities(distributions, name)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}: got shape {array.shape}.")
    return _require_sum_one(array, name)


def check_probabilities(probabilities: Any, *, name: str = "probabilities") -> Array:
    """(n, K) probability vectors of a classifier."""
    return _require_sum_one(_probabilities(probabilities, name), name)


def check_scores(scores: Any, name: str) -> Array:
    """A vector of numbers without NaN, at least one; infinite scores are ordered like others."""
    array = to_numpy(scores, name)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iufb":
        raise ValueError(
            f"{name} must be a vector of numbers, at least one: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    wrong = np.flatnonzero(np.isnan(array))
    if wrong.size:
        raise ValueError(f"{name} must not contain NaN: got NaN at index {wrong[0]}.")
    return array


def check_vertices(vertices: Any) -> Array:
    """(n, M, K) distributions, M >= 1, each summing to one within SUM_TOLERANCE."""
    array = to_numpy(vertices, "vertices")
    if array.ndim != 3 or array.shape[1] == 0 or array.shape[2] < 2:
        raise ValueError(
            "vertices must be inputs × members × classes, one member and two classes or more: "
            f"got shape {array.shape}."
        )
    flat = _probabilities(array.reshape(-1, array.shape[2]), "vertices")
    sums = flat.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.size:
        row, member = divmod(int(wrong[0]), array.shape[1])
        raise ValueError(
            f"vertices must sum to 1: got {sums[wrong[0]]:.6g} for member {member} of row {row}."
        )
    return flat.reshape(array.shape)


def check_values(values: Any, name: str, classes: int, *, ndim: int | None = None) -> Array:
    """Finite numbers (classes,) or (A, classes), A >= 1; one of the two if `ndim` says so."""
    array = to_numpy(values, name)
    shapes = [f"({classes},)", f"(actions, {classes})"]
    wanted = " or ".join(shapes if ndim is None else shapes[ndim - 1 : ndim])
    allowed = (1, 2) if ndim is None else (ndim,)
    if array.ndim not in allowed or array.shape[-1] != classes or array.size == 0:
        raise ValueError(f"{name} must have shape {wanted}: got shape {array.shape}.")
    if array.dtype.kind not in "iufb":
        raise ValueError(f"{name} must be real numbers: got dtype {array.dtype}.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite: got {array[at]} at index {at}.")
    return array


def check_event(event: Any, count: int, names: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """(count,) mask of the classes named, numbered or marked by `event`."""
    members = list(event)
    if len(members) == count and all(isinstance(m, bool | np.bool_) for m in members):
        return np.array(members, dtype=bool)
    mask = np.zeros(count, dtype=bool)
    for member in members:
        if names and isinstance(member, str) and member in names:
            mask[names.index(member)] = True
        elif not isinstance(member, bool | str) and 0 <= member < count and member == int(member):
            mask[int(member)] = True
        else:
            known = f" or one of {', '.join(names)}" if names else ""
            raise ValueError(f"event must hold classes 0 to {count - 1}{known}: got {member!r}.")
    return mask


def check_class_names(classes: Iterable[Any] | None, count: int) -> tuple[str, ...] | None:
    """One distinct name per class, as text, or None."""
    if classes is None:
        return None
    names = tuple(str(name) for name in classes)
    if len(names) != count:
        raise ValueError(f"classes must be {count} names, one per column: got {len(names)}.")
    if len(set(names)) != count:
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"classes must be distinct: got {twice!r} more than once.")
    return names


def check_center(center: Any, count: int) -> Array:
    """(count,) shifts, finite or -inf, at least two finite."""
    array = to_numpy(center, "center")
    if array.shape != (count,) or array.dtype != np.float64:
        raise ValueError(f"center must be {count} numbers: got shape {array.shape}.")
    if (np.isnan(array) | np.isposinf(array)).any() or np.isfinite(array).sum() < 2:
        raise ValueError("center must be finite for two classes and never NaN or inf.")
    return array


def check_label_weight(weights: Any) -> Array:
    """(K,) finite weights of the labels of every class, K >= 2, none negative, some positive."""
    array = to_numpy(weights, "label_weight")
    if array.ndim != 1 or len(array) < 2 or array.dtype != np.float64:
        raise ValueError(f"label_weight must be a number per class: got shape {array.shape}.")
    if not (np.isfinite(array) & (array >= 0)).all() or not array.any():
        raise ValueError("label_weight must be finite, not negative, and positive somewhere.")
    return array


def check_count(value: Any, name: str, *, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}: got {value!r}.")
    return int(value)


def check_tolerance(value: Any, name: str) -> float:
    """A finite number, not negative."""
    if isinstance(value, bool | str) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a finite number, not negative: got {value!r}.")
    return float(value)


def _real_matrix(values: Any, name: str) -> Logits:
    array = to_numpy(values, name)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a matrix with a row per example and a column per class: "
            f"got shape {array.shape}."
        )
    if array.dtype.kind not in "iufb":
        raise ValueError(f"{name} must be real numbers: got dtype {array.dtype}.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return array


def _require_finite(array: Logits, name: str) -> None:
    for rows in row_blocks(*array.shape):
        finite = np.isfinite(array[rows])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            value = array[rows][row, column]
            raise ValueError(
                f"{name} must be finite: got {value} at index ({rows.start + row}, {column}). "
                "Mask or repair such rows first."
            )


def _probabilities(values: Any, name: str) -> Array:
    array = _real_matrix(values, name).astype(np.float64)
    for rows in row_blocks(*array.shape):
        inside = (array[rows] >= 0) & (array[rows] <= 1)  # false for NaN too
        if not inside.all():
            row, column = np.argwhere(~inside)[0]
            value = array[rows][row, column]
            raise ValueError(
                f"{name} must lie between 0 and 1: "
                f"got {value} at index ({rows.start + row}, {column})."
            )
    return array


def _require_sum_one(array: Array, name: str) -> Array:
    sums = array.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.size:
        raise ValueError(
            f"{name} must sum to 1 in every row: got {sums[wrong[0]]:.6g} in row {wrong[0]}."
        )
    return array


def check_row(row: Any, count: int) -> int:
    """The number of one of `count` inputs; negative ones count from the end."""
    if isinstance(row, bool) or not isinstance(row, int | np.integer) or not -count <= row < count:
        raise ValueError(f"row must be one of the {count} inputs, 0 to {count - 1}: got {row!r}.")
    return int(row) % count


def check_member_logits(logits: Any) -> Array:
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


def check_rows(rows: Any, count: int) -> NDArray[np.intp]:
    """Numbers of some of `count` inputs, at least one, in their order and each once."""
    array = to_numpy(rows, "rows")
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(
            "rows must be a number of inputs or a list of row numbers, at least one: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    wrong = np.flatnonzero((array < 0) | (array >= count))
    if wrong.size:
        raise ValueError(
            f"rows must lie in 0 to {count - 1}: got {array[wrong[0]]} at index {wrong[0]}."
        )
    return np.unique(array).astype(np.intp)


def check_pictures(images: Any, *, rows: int) -> NDArray[Any]:
    """(rows, height, width) or (rows, height, width, 3 or 4) numbers."""
    array = to_numpy(images, "images")
    grey = array.ndim == 3
    if not (grey or (array.ndim == 4 and array.shape[3] in (3, 4))) or 0 in array.shape:
        raise ValueError(
            "images must be (n, height, width), or with 3 or 4 colours as the last axis: "
            f"got shape {array.shape}. Move the axis of colours there, if there is one."
        )
    if len(array) != rows:
        raise ValueError(f"images must be {rows}, one for every input: got {len(array)}.")
    if array.dtype.kind not in "uifb":
        raise ValueError(f"images must be numbers: got dtype {array.dtype}.")
    return array


def check_top_values(values: Any, classes: int) -> Logits:
    """Finite (n, m) log-probabilities of the m classes listed in every row, 1 <= m < classes."""
    array = _real_matrix(values, "values")
    if 0 in array.shape or array.shape[1] >= classes:
        raise ValueError(
            f"values must list one or more of the {classes} classes in every row, but not all: "
            f"got shape {array.shape}. Pass a matrix of all classes as logits."
        )
    _require_finite(array, "values")
    return array


def check_top_classes(classes: Any, shape: tuple[int, ...], count: int) -> NDArray[np.intp]:
    """Integers 0..count-1 of the given shape, (n, m), none twice in a row."""
    array = to_numpy(classes, "classes")
    if array.shape != shape or array.dtype.kind not in "iu":
        raise ValueError(
            f"classes must be integers of the shape of values, {shape}: "
            f"got shape {array.shape}, dtype {array.dtype}."
        )
    wrong = np.argwhere((array < 0) | (array >= count))
    if wrong.size:
        at = tuple(int(i) for i in wrong[0])
        raise ValueError(f"classes must lie in 0 to {count - 1}: got {array[at]} at index {at}.")
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
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(
            f"remainder must be finite: got {array[wrong[0]]} at index {wrong[0]}. "
            "It is the log of the mass of the classes not listed."
        )
    return array
