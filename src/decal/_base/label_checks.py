"""Checks of multi-label data: a logit and an answer per input and label.

Messages and rules are those of `decal._base.checks`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import LARGEST_LOGIT, probability_matrix, real_matrix, to_numpy
from decal._base.data_frames import by_name, class_columns, is_frame, native_index
from decal._base.errors import require_all
from decal._base.inputs import (
    LEAST_ROWS,
    SMALLEST,
    frames_within_decal,
    warn_of_probabilities,
)
from decal._base.numerics import Array, Logits
from decal._base.set_checks import check_bounds

UNKNOWN = -1
"""The answer where nobody knows whether an input has a label."""

ANSWERS = "yes", "no"
"""What costs of wrong answers are called, in their order."""

ONE_OF_MANY = "If an input has exactly one of the classes, use decal.Decalibrator."


def read_label_logits(
    values: Any,
    *,
    probabilities: bool,
    floor: float | None,
    names: Sequence[str] | None = None,
    labels: int | None = None,
) -> Logits:
    """Logits (n, L) without NaN, infinite where a label is certain, from what a model is given.

    Parameters
    ----------
    values
        An array, a tensor, or a data frame with a column per label.
    probabilities : bool
        Whether they are probabilities, each of its label.
    floor : float, optional
        With probabilities: they are kept this far from 0 and from 1.
    names : sequence of str, optional
        The labels; the columns of a frame are then taken by name.
    labels : int, optional
        L, if it is known.
    """
    name = "probabilities" if probabilities else "logits"
    if is_frame(values):
        values, _ = class_columns(values, names, name=name)
    if isinstance(values, list) and values and np.shape(values[0])[1:] == (2,):
        raise ValueError(
            f"{name} must be one matrix with a column per label: got a list of {len(values)} "
            "matrices. Of MultiOutputClassifier.predict_proba take "
            "np.column_stack([p[:, 1] for p in probabilities])."
        )
    z: Logits = probability_matrix(values, name) if probabilities else real_matrix(values, name)
    if 0 in z.shape:
        raise ValueError(f"{name} must have a row and a column or more: got shape {z.shape}.")
    if labels is not None and z.shape[1] != labels:
        raise ValueError(
            f"{name} must have {labels} columns, one per label seen by fit: got shape {z.shape}."
        )
    if probabilities:
        return log_odds(z.astype(np.float64), floor)
    require_all(~np.isnan(z), z, name, "be numbers", advice="Leave such rows out.")
    if len(z) >= LEAST_ROWS and 0 <= float(z.min()) < float(z.max()) <= 1:
        warn_of_numbers_in_unit_interval()
    if z.dtype == np.float64 and (np.abs(z) >= LARGEST_LOGIT).any():
        z = np.where(np.abs(z) >= LARGEST_LOGIT, np.copysign(np.inf, z), z)
    return z


def warn_of_numbers_in_unit_interval() -> None:
    """Warn of logits that all lie between 0 and 1, as the outputs of a sigmoid do."""
    remedy = "Pass probabilities=True, or the logits before the sigmoid"
    warn_of_probabilities(
        "logits", remedy, "numbers that all lie from 0 to 1, as those of sigmoids"
    )


def log_odds(p: Array, floor: float | None) -> Array:
    """Logits of probabilities, which are kept away from 0 and 1 as `floor` says."""
    if floor is not None and floor >= 0.5:
        raise ValueError(f"floor must be below 0.5 for labels of two answers: got {floor:g}.")
    if floor is None:
        yes, no = (np.where(q == 0.0, SMALLEST, q) for q in (p, 1.0 - p))
    else:
        kept = np.clip(p, floor, 1.0 - floor)
        yes, no = kept, 1.0 - kept
    with np.errstate(divide="ignore"):
        found: Array = np.log(yes) - np.log(no)
    return found


def check_answers(
    labels: Any,
    shape: tuple[int, ...],
    names: Sequence[str] | None = None,
    *,
    chunk: bool = False,
    zeros_seen: bool = False,
) -> NDArray[np.int8]:
    """(n, L) of 1, 0 and, where nobody knows, -1: from these, booleans, or numbers with NaN.

    Answers 1 and -1 without any 0 are refused, because -1 then means no; of one `chunk` of many a
    warning is given. Once `zeros_seen`, -1 is known to mean what it says.
    """
    if is_frame(labels):
        labels, _ = class_columns(labels, names, name="labels")
    array = to_numpy(labels, "labels")
    if array.shape != shape:
        raise ValueError(
            f"labels must be a matrix with a row per input and a column per label, {shape}: got "
            f"shape {array.shape}. {ONE_OF_MANY}"
        )
    if array.dtype.kind not in "iufb":
        raise ValueError(
            f"labels must be 1, 0, or -1 or NaN where unknown: got dtype {array.dtype}."
        )
    unknown = np.isnan(array) if array.dtype.kind == "f" else array == UNKNOWN
    unknown |= array == UNKNOWN
    rule = "be 1, 0, or -1 or NaN where unknown"
    require_all(unknown | (array == 0) | (array == 1), array, "labels", rule)
    if (array == UNKNOWN).any() and (array == 1).any() and not ((array == 0).any() or zeros_seen):
        message = (
            "labels must be 0 where the answer is no, and -1 means unknown: got 1 and -1, and no "
            "0. If -1 means no, pass (labels + 1) // 2; if it does mean unknown, pass NaN instead."
        )
        if not chunk:
            raise ValueError(message)
        warnings.warn(message, UserWarning, stacklevel=frames_within_decal())
    return np.where(unknown, UNKNOWN, array).astype(np.int8)


def require_possible_answers(
    logits: Logits, answers: NDArray[np.int8], *, probabilities: bool, floor: float | None
) -> None:
    """ValueError about the first answer that the model calls impossible."""
    beyond = -np.log(SMALLEST) if probabilities and floor is None else np.inf
    wrong = ((logits <= -beyond) & (answers == 1)) | ((logits >= beyond) & (answers == 0))
    if wrong.any():
        row, label = (int(i) for i in np.argwhere(wrong)[0])
        said = (
            "has probability 0"
            if probabilities
            else f"is excluded by a logit of {logits[row, label]}"
        )
        advice = "Keep probabilities away from 0 and 1 with floor." if probabilities else "Mask it."
        raise ValueError(
            f"labels must be possible: got {answers[row, label]} at index {(row, label)}, which "
            f"{said}, one of {int(wrong.sum())} such entries. {advice}"
        )


# Sets and decisions


def check_label_bounds(lower: Any, upper: Any, point: Any) -> tuple[Array, Array, Array | None]:
    """Matching (n, L) bounds within [0, 1], lower <= upper, and a point or None."""
    low, high, middle = check_bounds(lower, upper, point)
    require_all(low <= high, low, "lower", "be at most upper")
    return low, high, middle


def check_label_probabilities(
    probabilities: Any, shape: tuple[int, int], names: Sequence[str] | None = None
) -> Array:
    """(n, L) numbers in [0, 1]; the columns of a frame are found by the names of labels."""
    if is_frame(probabilities):
        probabilities, _ = class_columns(probabilities, names, name="probabilities")
    array = probability_matrix(probabilities, "probabilities")
    if array.shape != shape:
        raise ValueError(f"probabilities must have shape {shape}: got shape {array.shape}.")
    return array


def check_thresholds(threshold: Any, labels: int, names: Sequence[str] | None = None) -> Array:
    """() or (L,) numbers in [0, 1]; those of a mapping or a Series by the names of labels."""
    threshold = by_name(threshold, names, labels, "threshold", of="labels")
    array = _per_label(threshold, "threshold", (), labels)
    each = np.atleast_1d(array)
    require_all((each >= 0) & (each <= 1), each, "threshold", "lie between 0 and 1")
    return array


def check_costs(costs: Any, labels: int, names: Sequence[str] | None = None) -> Array:
    """The thresholds, () or (L,), of costs (2,) or (L, 2) of a wrong yes and of a wrong no.

    Those of mappings, Series and frames by the names of labels, and by `ANSWERS`.
    """
    if is_frame(costs):
        rows = native_index(costs)
        costs, _ = class_columns(costs, ANSWERS, name="costs", advice="")
        costs = by_name(costs, names, labels, "costs", of="labels", keys=rows)
    elif isinstance(costs, Mapping) and set(costs) != set(ANSWERS):
        costs = by_name(costs, names, labels, "costs", of="labels")
        costs = [by_name(pair, ANSWERS, 2, "costs", of="answers") for pair in costs]
    else:
        costs = by_name(costs, ANSWERS, 2, "costs", of="answers")
    array = _per_label(costs, "costs", (2,), labels)
    require_all(np.isfinite(array) & (array >= 0), array, "costs", "be finite and not negative")
    total = array.sum(axis=-1)
    if not np.all(total > 0):
        raise ValueError("costs must be positive for one kind of error or both: got 0 and 0.")
    return np.asarray(array[..., 0] / total)


def _per_label(values: Any, name: str, each: tuple[int, ...], labels: int) -> NDArray[Any]:
    array = to_numpy(values, name)
    if array.shape not in (each, (labels, *each)) or array.dtype.kind not in "iufb":
        raise ValueError(
            f"{name} must have shape {each}, or {(labels, *each)} with one per label: got shape "
            f"{array.shape}, dtype {array.dtype}."
        )
    return array.astype(np.float64)
