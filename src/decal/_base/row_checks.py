"""Checks and converts rows: logits, labels, weights, scores, distributions, numbers of rows.

A `decal._base.errors.Place` says where a number stands: in an array, in a file, or in a partition
of a cluster. So every rule is written once, wherever the data come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import class_columns, is_frame
from decal._base.errors import (
    IN_ARRAY,
    InputError,
    Place,
    Setting,
    Words,
    is_whole_number,
    listing,
    require_all,
)
from decal._base.numerics import Array, Logits, row_blocks

SUM_TOLERANCE = 1e-3
"""How far from one a row of probabilities may sum: published distributions are often rounded."""

WEIGHT_RANGE = (1e-100, 1e100)
"""Positive weights: no sum of them, nor product with powers of logits, leaves the floats."""

WEIGHT_SPAN = 1e-12
"""The smallest positive weight relative to the largest. Below it, a class with such weights alone
would drown in the round-off of the sum of all, and with it the digits of its endpoints.
"""

LARGEST_LOGIT = 1e300
"""Logits of this size are refused, and masks if negative: their differences could overflow."""


SEVERAL_LABELS = (
    "Of one-hot rows take labels.argmax(axis=1). If an input may have several labels, use "
    "decal.MultiLabelDecalibrator; if several people said which one it has, decal.Votes."
)

# Labels that mean none, to losses of PyTorch and in segmentation.
IGNORED = {-100: "Losses of PyTorch ignore -100", 255: "Of pixels, 255 often means no label"}

ONE_SCORE = "For a binary classifier with one score, stack it as [zeros, score]."

MISSING = ("nan", "None", "<NA>", "NaT")  # how values that stand for a missing one are written

REPAIR = "Mask or repair such rows first."

JOINING = {
    "pandas": "pandas.concat",
    "polars": "polars.concat",
    "pyarrow": "pyarrow.concat_tables",
    "torch": "torch.cat",
}
"""What makes one of several batches, by the library that they are of."""

FLOATS = np.dtype(np.float32), np.dtype(np.float64)


def to_numpy(values: Any, name: str) -> NDArray[Any]:
    """A NumPy array of the same numbers; tensors are detached and brought to the host."""
    if type(values) is np.ndarray and values.dtype in FLOATS:
        return values
    _require_unmasked(values, name)
    if hasattr(values, "detach"):  # a torch tensor, perhaps on a device, perhaps in bfloat16
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    numbers = values
    if isinstance(values, list | tuple) and values and hasattr(values[0], "detach"):
        numbers = [to_numpy(part, name) for part in values]
    try:
        array = np.asarray(numbers)
        return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    except (ValueError, TypeError, RuntimeError) as error:
        _require_joined(values, name)
        fact = str(error).rstrip(".")
        raise InputError(name, "be an array of numbers", fact) from error


def _require_joined(parts: Any, name: str) -> None:
    """ValueError if this is a list of batches, which are to be joined along their first axis."""
    if not isinstance(parts, list | tuple):
        return
    shapes = [tuple(getattr(part, "shape", ())) for part in parts]
    if not shapes or not all(shapes) or len({shape[1:] for shape in shapes}) > 1:
        return
    join = JOINING.get(type(parts[0]).__module__.partition(".")[0], "numpy.concatenate")
    alike = len(set(shapes)) == 1 and len(shapes[0]) == 2
    fact = f"a {type(parts).__name__} of {len(parts)}, of shapes {listing([*map(str, shapes)])}"
    other = " Of an ensemble, pass decal.ensemble(logits).mean." if alike else ""
    if name == "logits" and not alike and len(shapes[0]) == 2 and not hasattr(parts[0], "columns"):
        other = " Of sentences, pass dim=-1."
    raise InputError(name, "be one array", fact, f"Join batches first: {join}({name}).{other}")


def _require_unmasked(values: Any, name: str) -> None:
    """ValueError if an entry is masked: NumPy would go on with the value that it hides."""
    rows = enumerate(values) if isinstance(values, list | tuple) else [(None, values)]
    for row, part in rows:
        if not isinstance(part, np.ma.MaskedArray) or not np.ma.is_masked(part):
            continue
        index = [] if row is None else [row]
        index += np.argwhere(np.ma.getmaskarray(part))[0].tolist()
        fact = f"a masked entry at index {index[0] if len(index) == 1 else tuple(index)}"
        remedy = "Leave such rows out, or fill them in, first."
        raise InputError(name, "not be masked", fact, remedy)


# Labelled logits


def check_logits(
    logits: Any,
    *,
    classes: int | None = None,
    name: str = "logits",
    place: Place = IN_ARRAY,
    empty: bool = False,
    masked: bool = False,
) -> Logits:
    """A finite (n, K) matrix, K >= 2, float32 or float64; n >= 1 unless it may be `empty`.

    If classes may be `masked`, entries may be -inf, though not all of a row. Numbers that only
    float64 can hold, as its smallest one, count as -inf.
    """
    given = to_numpy(logits, name)
    if given.ndim > 2:
        _require_joined(logits, name)
    if given.ndim == 1:
        raise _no_matrix(given, name, place, _about_vector(len(given), name, classes))
    array = real_matrix(given, name, place, classes)
    if array.shape[0] == 0 and not empty:
        raise place.error(name, "have at least one row", f"shape {array.shape}{place.within}")
    if array.shape[1] < 2:
        rule = "have one column per class, two or more"
        raise place.error(name, rule, f"shape {array.shape}{place.within}", ONE_SCORE)
    if classes is not None and array.shape[1] != classes:
        rule = f"have {classes} columns, one per class seen by fit"
        fact = f"shape {array.shape}{place.within}"
        raise place.error(name, rule, fact, "Use the logits of the same model.")
    if not masked:
        require_finite(array, name, place)
        return array
    lowest, highest = extremes(array)
    largest = np.inf if array.dtype == np.float32 else LARGEST_LOGIT
    if not highest < largest:  # or NaN
        _require_in_blocks(lambda z: z < np.inf, array, name, "be finite or -inf", place, REPAIR)
        rule = f"be smaller than {largest:g}"
        _require_in_blocks(lambda z: z < largest, array, name, rule, place, REPAIR)
    if lowest <= -largest:
        if largest < np.inf:
            array = np.where(array <= -largest, -np.inf, array)
        possible = np.isfinite(array).any(axis=1)
        if not possible.all():
            fact = f"only -inf {place.row(int(possible.argmin()))}"
            raise place.error(name, "leave a class unmasked in every row", fact, REPAIR)
    return array


def _about_vector(length: int, name: str, classes: int | None) -> str:
    """What to do about a vector instead of logits, where its length tells what it may be."""
    if length == classes:
        return f"For one row, pass {name}[None]."
    return ONE_SCORE if classes in (None, 2) else ""


def require_unmasked_labels(
    logits: Logits, labels: NDArray[np.intp], place: Place = IN_ARRAY
) -> None:
    """ValueError about the first label that is masked: its logit is -inf."""
    masked = np.isneginf(logits[np.arange(len(labels)), labels])
    if masked.any():
        row = int(masked.argmax())
        fact = f"{labels[row]}, whose logit is -inf, {place.entry(row)}"
        remedy = "Unmask the class, or leave the row out."
        raise place.error("labels", "be classes that are not masked", fact, remedy)


def check_labels(
    labels: Any,
    *,
    rows: int,
    classes: int,
    names: Sequence[str] | None = None,
    in_table: bool = False,
    place: Place = IN_ARRAY,
    advice: Words = "If they are names, name the columns with classes=, in their order.",
) -> NDArray[np.intp]:
    """(rows,) integers in 0..classes-1; labels that are text are looked up among the `names`.

    If the classes are columns `in_table`, all labels are looked up, and may be numbers of columns
    only where no class is called by a whole number.
    """
    array = to_numpy(labels, "labels")
    if array.ndim > 1 and array.size == rows:
        _require_joined(labels, "labels")
    if array.shape != (rows,):
        rule = f"be a vector with one label per row of logits, {rows} in all"
        fact, remedy = f"shape {array.shape}{place.within}", _about_shape(array, rows, classes)
        raise place.error("labels", rule, fact, remedy)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise _missing(int(np.isnan(array).argmax()), place)
    if names and in_table:
        return label_numbers(array, names, columns=classes, place=place)
    if names and array.dtype.kind in "OTU":
        return label_numbers(array, names, place=place)
    if array.dtype.kind not in "iu":
        fact = f"dtype {array.dtype}{place.within}"
        raise place.error("labels", f"be integers 0 to {classes - 1}", fact, advice)
    rule = f"lie in 0 to {classes - 1}, the columns of logits"
    fits = (array >= 0) & (array < classes)
    advice = _leave_out(array, fits, classes)
    require_all(fits, array, "labels", rule, place=place, advice=advice)
    return array.astype(np.intp)


def _leave_out(labels: NDArray[Any], fine: NDArray[np.bool_], classes: int) -> Words:
    """What to do about the first label that is not fine, if it may mean none."""
    first = str(labels[fine.argmin()]) if labels.size else ""
    for label, known in IGNORED.items():
        if first == str(label) and (label < 0 or classes > 2):  # masks of two are 0 and 255
            return f"{known}: pass ", Setting("ignore_index", label), ", or leave such rows out."
    return ""


def _missing(row: int, place: Place) -> ValueError:
    fact = f"a missing one (NaN) {place.row(row)}"
    remedy = "Leave such rows out, of logits too."
    return place.error("labels", "be known in every row", fact, remedy)


def _about_shape(labels: NDArray[Any], rows: int, classes: int) -> str:
    """What to do about labels that are no vector, where the shape tells what they may be."""
    if labels.shape == (rows, 1):
        return "Use labels.ravel()."
    if labels.shape == (rows, classes):
        return SEVERAL_LABELS
    if labels.ndim == 2 and len(labels) == rows:
        return "Several labels per input: labels=decal.Votes.of_annotations(labels, classes=…)."
    return "Use labels.reshape(-1)." if labels.size == rows else ""


def label_numbers(
    labels: NDArray[Any],
    names: Sequence[str],
    *,
    columns: int | None = None,
    place: Place = IN_ARRAY,
) -> NDArray[np.intp]:
    """(n,) class numbers of labels that are names of classes, compared as text.

    With a number of `columns` a label may also be the number of a column, unless a class is called
    by a whole number, because such a label could mean either.
    """
    numbers = {name: k for k, name in enumerate(names)}
    rule = f"be one of the classes {listing(names)}" if names else ""
    if columns is not None and not any(is_whole_number(name) for name in names):
        numbers |= {str(k): k for k in range(columns)}
        rule += f" or a column 0 to {columns - 1}" if names else f"lie in 0 to {columns - 1}"
    comparable = labels.astype(str) if labels.dtype.kind in "OT" else labels
    values, inverse = np.unique(comparable, return_inverse=True)
    found = np.array([numbers.get(str(value), -1) for value in values], dtype=np.intp)[inverse]
    if found.size and found.min() < 0:
        row = int(found.argmin())
        if not isinstance(labels[row], str) and str(labels[row]) in MISSING:
            raise _missing(row, place)
    advice = _leave_out(labels, found >= 0, columns or len(names))
    require_all(found >= 0, labels, "labels", rule, place=place, advice=advice)
    return found


def check_weights(
    weights: Any,
    *,
    rows: int,
    name: str = "sample_weight",
    place: Place = IN_ARRAY,
    all_zero: bool = False,
) -> Array | None:
    """(rows,) numbers, not negative, or None; with a positive sum unless they may be `all_zero`.

    Positive ones lie in WEIGHT_RANGE and span no more than WEIGHT_SPAN.
    """
    if weights is None:
        return None
    array = to_numpy(weights, name)
    if array.shape != (rows,) or array.dtype.kind not in "iufb":
        fact = f"shape {array.shape}, dtype {array.dtype}{place.within}"
        raise place.error(name, f"be {rows} numbers, one per row of logits", fact)
    array = array.astype(np.float64)
    fine = np.isfinite(array) & (array >= 0)
    require_all(fine, array, name, "be finite and not negative", place=place)
    if not all_zero and not array.any():
        raise place.error(name, "be positive somewhere", f"only zeros{place.within}")
    least, most = WEIGHT_RANGE
    fine = (array == 0) | ((array >= least) & (array <= most))
    rule = f"be 0 or lie in {least:g} to {most:g}"
    advice = "Divide all weights by the largest."
    require_all(fine, array, name, rule, place=place, advice=advice)
    largest = array.max(initial=0.0)
    fine = (array == 0) | (array >= WEIGHT_SPAN * largest)
    rule = f"be 0 or at least {WEIGHT_SPAN:g} of the largest, {largest}"
    advice = "Set weights that should not count to 0."
    require_all(fine, array, name, rule, place=place, advice=advice)
    return array


def check_class_names(
    classes: Iterable[Any] | None, count: int, *, name: str = "classes"
) -> tuple[str, ...] | None:
    """One distinct name per class, as text, or None."""
    if classes is None:
        return None
    names = tuple(str(each) for each in classes)
    if len(names) != count:
        raise InputError(name, f"be {count} names, one per column", f"{len(names)}")
    if len(set(names)) != count:
        twice = next(each for each in names if names.count(each) > 1)
        raise InputError(name, "be distinct", f"{twice!r} more than once")
    return names


def check_groups(groups: Any, rows: int) -> NDArray[Any]:
    """(rows,) whole numbers, booleans or text, none missing."""
    array = to_numpy(groups, "groups")
    if array.shape != (rows,):
        rule = f"be a vector with one group per row of logits, {rows} in all"
        raise InputError("groups", rule, f"shape {array.shape}")
    if array.dtype.kind in "OT":
        missing = [i for i, value in enumerate(array.tolist()) if not isinstance(value, str)]
        if missing:
            rule = "be text, or all whole numbers"
            raise InputError("groups", rule, f"{array[missing[0]]!r} at index {missing[0]}")
        return array.astype(str)
    if array.dtype.kind not in "iubU":
        rule = "be whole numbers or text"
        raise InputError("groups", rule, f"dtype {array.dtype}", "Cut numbers into ranges first.")
    return array


# A number for every class, or for every row


def check_center(center: Any, count: int) -> Array:
    """(count,) shifts, finite or -inf, at least two finite."""
    array = to_numpy(center, "center")
    if array.shape != (count,) or array.dtype != np.float64:
        raise InputError("center", f"be {count} numbers", f"shape {array.shape}")
    if (np.isnan(array) | np.isposinf(array)).any() or np.isfinite(array).sum() < 2:
        raise InputError("center", "be finite for two classes and never NaN or inf")
    return array


def check_label_weight(weights: Any) -> Array:
    """(K,) finite weights of the labels of every class, K >= 2, none negative, some positive."""
    array = to_numpy(weights, "label_weight")
    if array.ndim != 1 or len(array) < 2 or array.dtype != np.float64:
        raise InputError("label_weight", "be a number per class", f"shape {array.shape}")
    if not (np.isfinite(array) & (array >= 0)).all() or not array.any():
        raise InputError("label_weight", "be finite, not negative, and positive somewhere")
    return array


def check_scores(scores: Any, name: str) -> Array:
    """A vector of numbers without NaN, at least one; infinite scores are ordered like others."""
    array = to_numpy(scores, name)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iufb":
        rule = "be a vector of numbers, at least one"
        raise InputError(name, rule, f"shape {array.shape}, dtype {array.dtype}")
    array = array.astype(np.float64)
    wrong = np.flatnonzero(np.isnan(array))
    if wrong.size:
        raise InputError(name, "not contain NaN", f"NaN at index {wrong[0]}")
    return array


def check_steps(values: Any, name: str, *, least: float = -np.inf) -> Array:
    """A vector of finite numbers, none below `least`."""
    array = check_scores(values, name)
    wanted = "be finite" if np.isinf(least) else f"be finite and at least {least:g}"
    require_all(np.isfinite(array) & (array >= least), array, name, wanted)
    return array


def check_losses(losses: Any, rows: int, name: str = "losses") -> Array:
    """(rows,) finite numbers, none negative."""
    array = check_scores(losses, name)
    if len(array) != rows:
        raise InputError(name, f"be {rows}, one for every score", f"{len(array)}")
    require_all(np.isfinite(array) & (array >= 0), array, name, "be finite and not negative")
    return array


# Distributions


def check_distributions(
    distributions: Any,
    *,
    shape: tuple[int, int],
    name: str = "distributions",
    names: Sequence[str] | None = None,
) -> Array:
    """Probability vectors, one per row, each summing to one within SUM_TOLERANCE.

    The columns of a data frame are found by the `names` of the classes, if these are known.
    """
    if is_frame(distributions):
        distributions, _ = class_columns(distributions, names, name=name)
    array = probability_matrix(distributions, name)
    if array.shape != shape:
        raise InputError(name, f"have shape {shape}", f"shape {array.shape}")
    return _require_sum_one(array, name)


def check_probabilities(
    probabilities: Any, *, name: str = "probabilities", place: Place = IN_ARRAY, advice: Words = ""
) -> Array:
    """(n, K) probability vectors, each summing to one within SUM_TOLERANCE."""
    array = probability_matrix(probabilities, name, place, advice)
    return _require_sum_one(array, name, place, advice)


# Rows


def check_row(row: Any, count: int) -> int:
    """The number of one of `count` inputs; negative ones count from the end."""
    if isinstance(row, bool) or not isinstance(row, int | np.integer) or not -count <= row < count:
        raise InputError("row", f"be one of the {count} inputs, 0 to {count - 1}", f"{row!r}")
    return int(row) % count


def check_rows(rows: Any, count: int) -> NDArray[np.intp]:
    """Numbers of some of `count` inputs, at least one, in their order and each once."""
    array = to_numpy(rows, "rows")
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        rule = "be a number of inputs or a list of row numbers, at least one"
        raise InputError("rows", rule, f"shape {array.shape}, dtype {array.dtype}")
    require_all((array >= 0) & (array < count), array, "rows", f"lie in 0 to {count - 1}")
    return np.unique(array).astype(np.intp)


# What several checks share


def real_matrix(
    array: NDArray[Any], name: str, place: Place = IN_ARRAY, classes: int | None = None
) -> Logits:
    if array.ndim > 2:
        fits = [axis for axis, size in enumerate(array.shape) if size == classes]
        raise _no_matrix(array, name, place, _about_axes(array.shape, fits, name))
    if array.ndim != 2:
        raise _no_matrix(array, name, place, "")
    if array.dtype.kind not in "iufb":
        raise place.error(name, "be real numbers", f"dtype {array.dtype}{place.within}")
    return array if array.dtype in FLOATS else array.astype(np.float64)


def require_matrix(values: Any, labels: Any, name: str = "logits") -> None:
    """ValueError about an array of more axes, with what to do according to the labels' shape."""
    shape = getattr(values, "shape", ())
    if len(shape) <= 2:
        return
    known, tensor = to_numpy(labels, "labels").shape, hasattr(values, "movedim")
    without = {axis: (*shape[:axis], *shape[axis + 1 :]) for axis in range(len(shape))}
    fits = [axis for axis, rest in without.items() if rest == known]
    flat = [axis for axis, rest in without.items() if (math.prod(rest),) == known]
    spare = [a for a in without if len(shape) == 3 and a < 2 and (shape[1 - a],) == known]
    if fits:
        advice = _about_axes(shape, fits, name, tensor) + " Of the labels take labels.reshape(-1)."
    elif flat:
        advice = _about_axes(shape, flat, name, tensor)
    else:
        advice = " ".join(
            f"If axis {axis} holds the members of an ensemble, pass their mean prediction, "
            f"decal.ensemble({name}{', axis=1' * axis}).mean."
            + " If it holds positions, choose one."
            * (axis == 1)
            for axis in spare
        ) or _about_axes(shape, [], name, tensor)
    raise _no_matrix(values, name, IN_ARRAY, advice)


def _about_axes(
    shape: tuple[int, ...], fits: Sequence[int], name: str, tensor: bool = False
) -> str:
    """How to make a matrix of an array whose axis of classes is one of those that fit."""

    def flattened(axis: int) -> str:
        move = f"{name}.movedim({axis}, -1)" if tensor else f"np.moveaxis({name}, {axis}, -1)"
        return f"{name if axis == len(shape) - 1 else move}.reshape(-1, {shape[axis]})"

    if len(fits) == 1:
        return f"The classes are on axis {fits[0]}: pass {flattened(fits[0])}."
    possible = fits or [1, len(shape) - 1]
    return (
        ("The shape does not tell" if fits else "Nothing tells")
        + " which axis holds the classes: "
        + ", ".join(f"if it is axis {axis}, pass {flattened(axis)}" for axis in possible)
        + ("." if fits else f"; of an ensemble, decal.ensemble({name}).mean.")
    )


def _no_matrix(array: NDArray[Any], name: str, place: Place, advice: str) -> ValueError:
    rule = "be a matrix with a row per example and a column per class"
    return place.error(name, rule, f"shape {array.shape}{place.within}", advice)


def require_finite(array: Logits, name: str, place: Place = IN_ARRAY) -> None:
    lowest, highest = extremes(array)
    if -np.inf < lowest and highest < np.inf:  # false for NaN, too
        return
    _require_in_blocks(np.isfinite, array, name, "be finite", place, REPAIR)


def extremes(array: Logits) -> tuple[float, float]:
    """The smallest entry, or 0 if that is smaller, and the largest one, or 0; NaN if one is NaN."""
    lowest = np.minimum.reduce(array, axis=None, initial=0.0)
    return float(lowest), float(np.maximum.reduce(array, axis=None, initial=0.0))


def _require_in_blocks(
    test: Callable[[Any], Any], array: Logits, name: str, rule: str, place: Place, advice: Words
) -> None:
    """As `require_all` on all rows, without a mask of the size of the array."""
    for rows in row_blocks(*array.shape):
        fine = test(array[rows])
        if not np.logical_and.reduce(fine, axis=None):
            require_all(fine, array[rows], name, rule, place=place.after(rows.start), advice=advice)


def probability_matrix(
    values: Any, name: str, place: Place = IN_ARRAY, advice: Words = ""
) -> Array:
    array = real_matrix(to_numpy(values, name), name, place).astype(np.float64)
    rule = "lie between 0 and 1"
    # False for NaN, too.
    _require_in_blocks(lambda p: (p >= 0) & (p <= 1), array, name, rule, place, advice)
    return array


def _require_sum_one(array: Array, name: str, place: Place = IN_ARRAY, advice: Words = "") -> Array:
    sums = array.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.size:
        row = int(wrong[0])
        fact = f"{sums[row]:.6g} {place.row(row)}"
        raise place.error(name, "sum to 1 in every row", fact, advice, place)
    return array
