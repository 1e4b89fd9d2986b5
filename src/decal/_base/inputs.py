"""What people pass as logits: arrays, tensors or frames, of logits or of probabilities.

This is the one place where probabilities become logits, and where rows that look like probabilities
without being called so are noticed. Nothing is converted by inspection: the caller says what the
numbers are, and a warning names the argument if they seem to be something else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import (
    check_class_names,
    check_labels,
    check_logits,
    check_probabilities,
    check_weights,
    require_matrix,
    require_unmasked_labels,
    to_numpy,
)
from decal._base.data_frames import (
    INDEX,
    class_columns,
    column,
    is_frame,
    require_same_order,
    row_numbers,
)
from decal._base.errors import IN_ARRAY, InputError, InputWarning, Place, Setting, Words, listing
from decal._base.errors import frames_within_decal as frames_within_decal
from decal._base.numerics import Array, Logits, row_blocks

SMALLEST = float(np.finfo(np.float64).tiny)
"""Stands for a probability of 0 if no floor is given: its logarithm is about -708."""

SUSPICIOUS = 0.01
"""How far from 1 rows may sum that look like probabilities: these may have been rounded."""

LEAST_ROWS = 10
"""So many rows, all of them probabilities, are no accident..."""

LEAST_UNCERTAIN_ROWS = 3
"""...and so many are enough if they are not 1 for one class and 0 for the others."""

CONVERT = "Convert them with decal.logits_from_probabilities, or pass the logits behind them"
REMEDY = (
    "Pass ",
    Setting("probabilities", True),
    ", convert them with decal.logits_from_probabilities, or pass",
    " the logits behind them",
)


def read_logits(
    values: Any,
    *,
    probabilities: bool = False,
    floor: float | None = None,
    names: Sequence[str] | None = None,
    classes: int | None = None,
    name: str = "logits",
    place: Place = IN_ARRAY,
    empty: bool = False,
    masked: bool = True,
    remedy: Words | None = REMEDY,
) -> Logits:
    """Logits (n, K), checked, whatever they are given as.

    Parameters
    ----------
    values
        An array, a tensor, or a data frame.
    probabilities : bool
        Whether they are probabilities; see `logits_from_probabilities` for the `floor`.
    names : sequence of str, optional
        The classes; the columns of a frame are then taken by name.
    classes : int, optional
        K, if it is known.
    name, place, empty, masked
        As for `check_logits`.
    remedy : str, optional
        What a warning tells to do about probabilities; None warns of nothing.
    """
    if is_frame(values):
        values, _ = class_columns(values, names, name=name)
    if probabilities:
        name = "probabilities" if name == "logits" else name
        values = logits_from_probabilities(values, floor=floor, name=name, place=place)
        remedy = None
    z = check_logits(values, classes=classes, name=name, place=place, empty=empty, masked=masked)
    if remedy is not None:
        if look_like_probabilities(z):
            warn_of_probabilities(name, remedy)
        elif look_like_probabilities(z, total=100.0):
            remedy = "Divide them by 100, and ", _lowered(remedy)
            fact = "rows that are not negative and sum to 100, as percentages do"
            warn_of_probabilities(name, remedy, fact)
    return z


class LabelledFrame(NamedTuple):
    """What a data frame of labelled data holds: a matrix (n, K), labels, weights, and names."""

    matrix: NDArray[Any]
    labels: Any
    weights: Any
    names: tuple[str, ...]


def read_labelled_frame(
    frame: Any, labels: Any, weights: Any, names: Sequence[str] | None, *, whole: bool
) -> LabelledFrame:
    """The columns of a frame, by name.

    Parameters
    ----------
    frame
        A data frame.
    labels, weights
        Values, or the names of columns.
    names : sequence of str, optional
        The classes. By default all columns that are nothing else; columns that look like row
        numbers are then refused.
    whole : bool
        Whether these are all the data. Of columns that no label names a warning is then given,
        unless the classes were named.
    """
    others = [value for value in (labels, weights) if isinstance(value, str)]
    if isinstance(labels, str):
        labels = column(frame, labels, "labels")
    if isinstance(weights, str):
        weights = column(frame, weights, "sample_weight")
    matrix, found = class_columns(frame, names, others=others)
    if names is None:
        advice = "Drop columns that are no classes; if they are, name all with classes=."
        numbers = row_numbers(found, matrix) or next(filter(INDEX.fullmatch, found), None)
        if numbers is not None:
            raise ValueError(
                f"logits must be classes alone: got the column {numbers!r}, which looks like an "
                f"index or row numbers. {advice}"
            )
        given = np.asarray(labels)
        if whole and given.dtype.kind in "OTU":
            known = {str(label) for label in given.ravel().tolist()}
            never = [name for name in found if name not in known]
            if never and known <= set(found):
                warnings.warn(
                    f"no label names {listing(never)}: taken as a class without labels. {advice}",
                    UserWarning,
                    stacklevel=frames_within_decal(),
                )
    return LabelledFrame(matrix, labels, weights, found)


class Matrix(Protocol):
    """Logits of n inputs and K classes, in whatever form."""

    def __len__(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


Z = TypeVar("Z", bound=Matrix)


def read_labelled(
    logits: Any,
    labels: Any,
    weights: Any,
    names: Iterable[Any] | None,
    read: Callable[[Any], Z],
    *,
    whole: bool = True,
) -> tuple[Z, NDArray[np.intp], Array | None, tuple[str, ...] | None]:
    """Labelled data after every check: logits, labels, weights, and the names of the classes.

    Parameters
    ----------
    logits, labels, weights
        Arrays, or a data frame and the names of its columns.
    names : iterable, optional
        The classes.
    read : callable
        From what stands for logits to checked ones.
    whole : bool
        As for `read_labelled_frame`.
    """
    given = None if names is None else tuple(str(name) for name in names)
    framed = is_frame(logits)
    require_same_order(logits=logits, labels=labels, sample_weight=weights)
    if framed:
        logits, labels, weights, given = read_labelled_frame(
            logits, labels, weights, given, whole=whole
        )
    require_matrix(logits, labels)
    z = read(logits)
    known = check_class_names(given, z.shape[1])
    y = check_labels(labels, rows=len(z), classes=z.shape[1], names=known, in_table=framed)
    return z, y, check_weights(weights, rows=len(z), all_zero=not len(z)), known


def inputs_of(
    model: Any,
    values: Any,
    name: str = "logits",
    *,
    classes: int | None = None,
    **rows: Any,
) -> Logits:
    """The matrix (n, K) that a model's `predict` takes: a frame's columns in the order of classes.

    They are not converted, and nothing is said of probabilities: that is left to `predict`. Of
    `rows`, which is what else there is of the same rows, only the order is checked. A
    `decal.llm.LabelMasses` stays as it is.
    """
    require_takes_logits(model)
    if rows.get("labels") is not None:
        require_classes(model)
    require_same_order(**{name: values}, **rows)
    if hasattr(values, "predicted_by"):
        values.require_order_of(rows.get("labels"))
        check_logits(values.middle, classes=classes, name=name, masked=True)
        return values  # type: ignore[no-any-return]
    if is_frame(values):
        values, _ = class_columns(values, getattr(model, "classes", None), name=name)
    return check_logits(values, classes=classes, name=name, masked=True)


def require_takes_logits(model: Any) -> None:
    """ValueError about a model that predicts from features, as a CredalClassifier does."""
    if hasattr(model, "predict_logits"):
        raise ValueError(
            f"model must be a Decalibrator: got {type(model).__name__}, which takes features. "
            "Of a CredalClassifier pass clf.decalibrator_, and clf.predict_logits(X) as logits."
        )


def require_classes(model: Any) -> None:
    """ValueError about a model that does not predict one of several classes from logits."""
    require_takes_logits(model)
    if hasattr(type(model), "answers"):
        raise ValueError(
            f"model must tell classes that exclude each other: got a {type(model).__name__}, which "
            "answers a question per label. Fit a Decalibrator per label, on the logits [0, z]."
        )


# Probabilities


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
            f"{name} must have one column per class, two or more: got shape {shape}{place.within}. "
            "For the probability of one class alone, stack it as [1 - p, p]"
            + (f"; for one row, pass {name}[None]." if len(shape) == 1 else ".")
        )
    advice = ("Divide counts by their sum; ", "leave probabilities=True out for logits", ".")
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
        raise ValueError(f"floor must be None or a number from 0 to below 1: got {floor!r}.")
    return float(floor)


def require_possible_labels(
    logits: Logits,
    labels: NDArray[np.intp],
    place: Place = IN_ARRAY,
    *,
    probabilities: bool = False,
    floor: float | None = None,
) -> None:
    """ValueError about the first label that the model calls impossible: no likelihood is positive.

    Its logit is -inf or, with probabilities and no floor, stands for a probability of 0.
    """
    if probabilities and floor is None:
        impossible = logits[np.arange(len(labels)), labels] <= np.log(SMALLEST)
        if impossible.any():
            row = int(impossible.argmax())
            usual = 1 / sum(logits.shape)
            raise place.error(
                "labels",
                "have a positive probability",
                f"{labels[row]}, of probability 0, {place.entry(row)}, one of "
                f"{int(impossible.sum())} such rows",
                (
                    "Raise zeros with ",
                    Setting("floor"),
                    f", for example to {usual:.1g}, which is 1 / (n + K).",
                ),
                place,
            )
    require_unmasked_labels(logits, labels, place)


def look_like_probabilities(values: Logits, *, total: float = 1.0) -> bool:
    """Whether every row is non-negative and sums to `total`, and there are enough of them to tell.

    A few rows of ones and zeros may be logits. Costs nothing for logits: the first rows settle it.
    """
    n = len(values)
    if n < LEAST_UNCERTAIN_ROWS or not _sum_to(total, values[:LEAST_ROWS]):
        return False
    if n < LEAST_ROWS:
        uncertain = (values.max(axis=1) < (1 - SUSPICIOUS) * total).sum()
        return bool(uncertain >= LEAST_UNCERTAIN_ROWS)
    return all(_sum_to(total, values[rows]) for rows in row_blocks(*values.shape))


def _sum_to(total: float, values: Logits) -> bool:
    if not (values >= 0).all():
        return False
    with np.errstate(over="ignore"):  # large numbers are no probabilities, and no mistake
        sums = values.sum(axis=1, dtype=np.float64)
    return bool((np.abs(sums - total) <= SUSPICIOUS * total).all())


def warn_of_probabilities(
    name: str = "logits",
    remedy: Words = REMEDY,
    fact: str = "rows that are not negative and sum to 1, as probabilities do",
) -> None:
    """Warn the caller of decal, whichever function was called."""
    said = f"{name} must be logits: got {fact}; the intervals would be wrong. "
    warnings.warn(InputWarning((said, remedy, ".")), stacklevel=frames_within_decal())


def _lowered(words: Words) -> Words:
    """A sentence as the second half of another."""
    if isinstance(words, str):
        return words[0].lower() + words[1:]
    return (_lowered(words[0]), *words[1:]) if isinstance(words, tuple) else words
