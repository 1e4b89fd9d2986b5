"""Schema: what a model lets in, and logits of whatever it is given.

This is the one place where probabilities become logits, and where rows that look like probabilities
without being called so are noticed. Nothing is converted by inspection: the caller says what the
numbers are, and a warning names the argument if they seem to be something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import class_columns, is_frame
from decal._base.errors import (
    IN_ARRAY,
    InputError,
    InputWarning,
    Place,
    Setting,
    Words,
    require_all,
)
from decal._base.numerics import Array, Logits, row_blocks
from decal._base.row_checks import (
    LARGEST_LOGIT,
    check_logits,
    check_probabilities,
    probability_matrix,
    real_matrix,
    to_numpy,
)

__all__ = ["Schema", "logits_from_probabilities"]

SMALLEST = float(np.finfo(np.float64).tiny)
"""Stands for a probability of 0 if no floor is given: its logarithm is about -708."""

SUSPICIOUS = 0.01
"""How far from 1 rows may sum that look like probabilities: these may have been rounded."""

LEAST_ROWS = 10
"""So many rows, all of them probabilities, are no accident..."""

LEAST_UNCERTAIN_ROWS = 3
"""...and so many are enough if they are not 1 for one class and 0 for the others."""

UNKNOWN = -1  # the answer where nobody knows whether an input has a label

REMEDY: Words = (
    "Pass ",
    Setting("probabilities", True),
    ", convert them with decal.logits_from_probabilities, or pass",
    " the logits behind them",
)

Answers = NDArray[np.int8]


@dataclass(frozen=True)
class Schema:
    """What a model lets in."""

    width: int | None = None  # columns of logits, once the model was fitted
    classes: tuple[str, ...] | None = None  # their names, if known
    probabilities: bool = False  # whether logits are given as probabilities
    floor: float | None = None  # what smaller probabilities are raised to
    masks: bool = True  # whether -inf may mask classes
    answers: bool = False  # an answer per label: 1, 0 or, where unknown, -1; else one label
    zeros_seen: bool = False  # whether answers 0 came before, so that -1 is known to mean unknown
    top_logits: bool = False  # whether a `decal.TopLogits` or `MemberUnion` may stand for logits
    masses: bool = False  # whether a `decal.llm.LabelMasses` may
    votes: bool = False  # whether labels may be `decal.Votes`, several per input
    axes: bool = False  # whether logits may have more axes than rows and classes
    order: bool = False  # whether classes are in an order, that of the columns

    def takes_plain(self, values: Any) -> bool:
        """Whether values are a matrix of new inputs without any names."""
        plain = type(values) is np.ndarray and self.width is not None and not self.answers
        return plain and values.ndim == 2

    def takes(self, values: Any) -> bool:
        """Whether values, which were checked when they were made, stand for logits."""
        listed = hasattr(values, "total_classes") or hasattr(values, "in_turn")
        return (self.top_logits and listed) or (self.masses and hasattr(values, "predicted_by"))


def read_logits(
    values: Any,
    schema: Schema = Schema(),
    *,
    name: str = "logits",
    place: Place = IN_ARRAY,
    empty: bool = False,
    remedy: Words = REMEDY,
) -> Logits:
    """Logits (n, K) of what a model lets in; a warning with this `remedy` if they are not logits.

    `name` and `place` are for messages; without a remedy there is no warning.
    """
    if is_frame(values):
        values, _ = class_columns(values, schema.classes, name=name)
    if schema.probabilities:
        name = "probabilities" if name == "logits" else name
        values = logits_from_probabilities(values, floor=schema.floor, name=name, place=place)
    z = check_logits(
        values, classes=schema.width, name=name, place=place, empty=empty, masked=schema.masks
    )
    if remedy and not schema.probabilities:
        if look_like_probabilities(z):
            warn_of_probabilities(name, remedy)
        elif look_like_probabilities(z, total=100.0):
            remedy = "Divide them by 100, and ", _lowered(remedy)
            fact = "rows that are not negative and sum to 100, as percentages do"
            warn_of_probabilities(name, remedy, fact)
    return z


def logits_from_probabilities(
    probabilities: Any,
    *,
    floor: float | None = None,
    name: str = "probabilities",
    place: Place = IN_ARRAY,
) -> Array:
    """(n, K) logits of a classifier that gives probabilities: their logarithms.

    Logits count up to a constant per row, so nothing is lost: predictions are those of the logits
    that the probabilities were made from, but for what rounding took. A probability that was
    rounded to 0 has lost its logit, and `floor` says what to take instead.

    Parameters
    ----------
    probabilities : (n, K) array or data frame
        Rows that sum to 1, give or take 0.001.
    floor : float, optional
        In [0, 1). Smaller probabilities are raised to it. By default only zeros change: they
        become the smallest normal number of float64, whose logarithm is -708. That is right for a
        softmax that underflowed. It is not for votes, counts and rounded tables, whose zeros mean
        "less than one vote": there, take about 1 / (n + K), for n votes or examples. 0 leaves
        zeros as they are: their logits are -inf, which masks the class in this row.
    name : str
        What messages call the probabilities.
    place
        Where they stand, for messages.

    See Also
    --------
    Decalibrator : With probabilities=True it converts all that it is given.

    Examples
    --------
    >>> import decal
    >>> decal.logits_from_probabilities([[0.5, 0.25, 0.25]]).round(3)
    array([[-0.693, -1.386, -1.386]])
    >>> decal.logits_from_probabilities([[1.0, 0.0]], floor=0.01).round(3)
    array([[ 0.   , -4.605]])
    """
    floor = check_floor(floor)
    if is_frame(probabilities):
        probabilities, _ = class_columns(probabilities, None, name=name)
    probabilities = to_numpy(probabilities, name)
    shape = probabilities.shape
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        raise place.error(
            name,
            "have one column per class, two or more",
            f"shape {shape}{place.within}",
            "For the probability of one class alone, stack it as [1 - p, p]"
            + (f"; for one row, pass {name}[None]." if len(shape) == 1 else "."),
        )
    advice = "Divide counts by their sum; ", "leave probabilities=True out for logits", "."
    p = check_probabilities(probabilities, name=name, place=place, advice=advice)
    if floor is None:
        p[p == 0.0] = SMALLEST
    elif floor > 0.0:
        np.maximum(p, floor, out=p)
    with np.errstate(divide="ignore"):
        return np.log(p, out=p)


def check_floor(floor: Any, probabilities: bool = True) -> float | None:
    """A number in [0, 1), or None; for logits None alone."""
    if floor is None:
        return None
    if not probabilities:
        remedy = "Pass ", Setting("probabilities", True), " if they are probabilities."
        raise InputError("floor", "go with probabilities", f"{floor} for logits", remedy)
    number = isinstance(floor, int | float | np.number) and not isinstance(floor, bool)
    if not number or not 0 <= float(floor) < 1:
        raise InputError("floor", "be None or a number from 0 to below 1", f"{floor!r}")
    return float(floor)


def look_like_probabilities(values: Logits, *, total: float = 1.0) -> bool:
    """Whether every row is non-negative and sums to `total`, and there are enough of them to tell.

    A few rows of ones and zeros may be logits. Costs nothing for logits: the first rows settle it.
    """

    def sums_fit(values: Logits) -> bool:
        if not (values >= 0).all():
            return False
        with np.errstate(over="ignore"):  # large numbers are no probabilities, and no mistake
            sums = values.sum(axis=1, dtype=np.float64)
        return bool((np.abs(sums - total) <= SUSPICIOUS * total).all())

    n = len(values)
    if n < LEAST_UNCERTAIN_ROWS or not sums_fit(values[:LEAST_ROWS]):
        return False
    if n < LEAST_ROWS:
        uncertain = (values.max(axis=1) < (1 - SUSPICIOUS) * total).sum()
        return bool(uncertain >= LEAST_UNCERTAIN_ROWS)
    return all(sums_fit(values[rows]) for rows in row_blocks(*values.shape))


def warn_of_probabilities(
    name: str = "logits",
    remedy: Words = REMEDY,
    fact: str = "rows that are not negative and sum to 1",
) -> None:
    """Warn the caller of decal, whichever function was called."""
    said = f"{name} must not be probabilities: got {fact}; the intervals would be wrong. "
    InputWarning.warn((said, remedy, "."))


def _lowered(words: Words) -> Words:
    """A sentence as the second half of another."""
    if isinstance(words, str):
        return words[0].lower() + words[1:]
    return (_lowered(words[0]), *words[1:]) if isinstance(words, tuple) else words


# Several labels per input


def read_label_logits(
    values: Any, schema: Schema, names: Sequence[str] | None = None, *, empty: bool = False
) -> Logits:
    """Logits (n, L) of labels that do not exclude each other, infinite where one is certain.

    `empty` tells whether no rows are fine.
    """
    name = "probabilities" if schema.probabilities else "logits"
    if is_frame(values):
        values, _ = class_columns(values, names, name=name)
    if isinstance(values, list) and values and np.shape(values[0])[1:] == (2,):
        raise InputError(
            name,
            "be one matrix with a column per label",
            f"a list of {len(values)} matrices",
            "Of MultiOutputClassifier.predict_proba take "
            "np.column_stack([p[:, 1] for p in probabilities]).",
        )
    read = probability_matrix if schema.probabilities else real_matrix
    z: Logits = read(to_numpy(values, name), name)
    if z.shape[1] == 0 or (not empty and len(z) == 0):
        raise InputError(name, "have a row and a column or more", f"shape {z.shape}")
    if schema.width is not None and z.shape[1] != schema.width:
        rule = f"have {schema.width} columns, one per label seen by fit"
        raise InputError(name, rule, f"shape {z.shape}")
    if schema.probabilities:
        return log_odds(z.astype(np.float64), schema.floor)
    require_all(~np.isnan(z), z, name, "be numbers", advice="Leave such rows out.")
    if len(z) >= LEAST_ROWS and 0 <= float(z.min()) < float(z.max()) <= 1:
        remedy = "Pass ", Setting("probabilities", True), ", or the logits before the sigmoid"
        fact = "numbers that all lie from 0 to 1, as those of sigmoids"
        warn_of_probabilities("logits", remedy, fact)
    if z.dtype == np.float64 and (np.abs(z) >= LARGEST_LOGIT).any():
        z = np.where(np.abs(z) >= LARGEST_LOGIT, np.copysign(np.inf, z), z)
    return z


def log_odds(p: Array, floor: float | None) -> Array:
    """Logits of probabilities, which are kept away from 0 and 1 as `floor` says."""
    if floor is not None and floor >= 0.5:
        raise InputError("floor", "be below 0.5 for labels of two answers", f"{floor:g}")
    if floor is None:
        yes, no = (np.where(q == 0.0, SMALLEST, q) for q in (p, 1.0 - p))
    else:
        kept = np.clip(p, floor, 1.0 - floor)
        yes, no = kept, 1.0 - kept
    with np.errstate(divide="ignore"):
        found: Array = np.log(yes) - np.log(no)
    return found


def check_answers(
    labels: Any, shape: tuple[int, ...], names: Sequence[str] | None, schema: Schema, *, whole: bool
) -> Answers:
    """(n, L) of 1, 0 and, where nobody knows, -1: from these, booleans, or numbers with NaN.

    Answers 1 and -1 without any 0 are refused, because -1 then means no; of one of several chunks,
    which are not the `whole` data, a warning is given.
    """
    if is_frame(labels):
        labels, _ = class_columns(labels, names, name="labels")
    array = to_numpy(labels, "labels")
    if array.shape != shape:
        rule = f"be a matrix with a row per input and a column per label, {shape}"
        remedy = "If an input has exactly one of the classes, use decal.Decalibrator."
        raise InputError("labels", rule, f"shape {array.shape}", remedy)
    rule = "be 1, 0, or -1 or NaN where unknown"
    if array.dtype.kind not in "iufb":
        raise InputError("labels", rule, f"dtype {array.dtype}")
    unknown = np.isnan(array) if array.dtype.kind == "f" else array == UNKNOWN
    unknown |= array == UNKNOWN
    require_all(unknown | (array == 0) | (array == 1), array, "labels", rule)
    zeros = (array == 0).any() or schema.zeros_seen
    if (array == UNKNOWN).any() and (array == 1).any() and not zeros:
        error = InputError(
            "labels",
            "be 0 where the answer is no, and -1 means unknown",
            "1 and -1, and no 0",
            "If -1 means no, pass (labels + 1) // 2; if it does mean unknown, pass NaN instead.",
        )
        if whole:
            raise error
        InputWarning.warn(str(error))
    return np.where(unknown, UNKNOWN, array).astype(np.int8)
