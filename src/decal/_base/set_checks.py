"""Checks of what sets of distributions are made of, and of what they are asked.

Messages and rules are those of `decal._base.row_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import (
    Index,
    by_name,
    class_columns,
    column,
    column_names,
    index_of,
    is_frame,
    native_index,
    require_same_order,
    row_labels,
)
from decal._base.errors import InputError, InputWarning, require_all
from decal._base.numerics import Array
from decal._base.row_checks import SUM_TOLERANCE, check_probabilities, probability_matrix, to_numpy

# Boxes, hulls and balls


def read_frames(
    classes: Iterable[Any] | None, **matrices: Any
) -> tuple[list[Any], tuple[Any, ...] | None, Index | None]:
    """Matrices of the same inputs and classes, the names of the classes, and those of the inputs.

    The columns of frames are brought into one order: that of `classes` or, without them, of the
    first frame, whose columns then name the classes unless they are only numbered. What is no
    frame stays as it is.
    """
    names = None if classes is None else tuple(classes)
    framed = {name: values for name, values in matrices.items() if is_frame(values)}
    require_same_order(**matrices)
    if not framed:
        return list(matrices.values()), names, None
    name, first = next(iter(framed.items()))
    columns = column_names(first, name) if names is None else tuple(map(str, names))
    found = [
        class_columns(values, columns, name=name)[0] if name in framed else values
        for name, values in matrices.items()
    ]
    if names is None and columns != tuple(str(k) for k in range(len(columns))):
        names = columns
    return found, names, index_of(first, rows=len(first), name=name)


def check_bounds(lower: Any, upper: Any, point: Any) -> tuple[Array, Array, Array | None]:
    """Matching (n, K) bounds within [0, 1], and a point of the same shape or None."""
    low, high = probability_matrix(lower, "lower"), probability_matrix(upper, "upper")
    middle = None if point is None else probability_matrix(point, "point")
    for name, array in (("upper", high), ("point", middle)):
        if array is not None and array.shape != low.shape:
            raise InputError(name, f"have the shape of lower, {low.shape}", f"shape {array.shape}")
    return low, high, middle


MANY_MEMBERS = 30
"""An array of more members than this, and more than inputs, most likely has its members first."""


def check_vertices(vertices: Any, axis: int | None = 1) -> Array:
    """(n, M, K) distributions, M >= 1, each summing to one within SUM_TOLERANCE.

    With axis 0 members come first. None is 1, with a warning if the shape makes that doubtful.
    """
    if axis not in (None, 0, 1):
        raise InputError("axis", "be 0 or 1, where the members are", f"{axis!r}")
    array = to_numpy(vertices, "vertices")
    if array.ndim != 3 or array.shape[1] == 0 or array.shape[2] < 2:
        rule = "be inputs × members × classes, one member and two classes or more"
        raise InputError("vertices", rule, f"shape {array.shape}")
    if axis == 0:
        array = np.moveaxis(array, 0, 1)
    n, M, K = array.shape
    if M == 0:
        raise InputError("vertices", "have one member or more", f"shape {(M, n, K)}")
    flat = probability_matrix(array.reshape(-1, K), "vertices")
    sums = flat.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.size:
        row, member = divmod(int(wrong[0]), M)
        rule = "sum to 1 along the last axis, that of the classes"
        fact = f"{sums[wrong[0]]:.6g} for member {member} of row {row}"
        raise InputError("vertices", rule, fact, _other_axis(array))
    if axis is None and 1 < n < M and M > MANY_MEMBERS:
        InputWarning.warn(
            f"vertices are taken as {n} inputs with {M} members each. If they are {n} members' "
            f"predictions for {M} inputs, pass axis=0; if not, axis=1"
        )
    return flat.reshape(array.shape)


def _other_axis(array: NDArray[Any]) -> str:
    """Which axis is the one of the classes, if it is not the last."""
    for axis in (1, 0):
        if np.allclose(array.sum(axis=axis), 1, rtol=0, atol=SUM_TOLERANCE):
            return f"Axis {axis} does: move it with np.moveaxis(vertices, {axis}, -1)."
    return ""


def check_center_and_radius(center: Any, radius: Any) -> tuple[Array, Array]:
    """(n, K) distributions, K >= 2, and (n,) nats from 0 to inf, one for all rows or one each."""
    c = check_probabilities(center, name="center")
    if c.shape[1] < 2:
        raise InputError("center", "have one column per class, two or more", f"shape {c.shape}")
    b = to_numpy(radius, "radius")
    if b.shape not in ((), (len(c),)) or b.dtype.kind not in "iuf":
        rule = f"be one number, or {len(c)}, one for each row of center"
        raise InputError("radius", rule, f"shape {b.shape}, dtype {b.dtype}")
    b = np.atleast_1d(b.astype(np.float64))
    require_all(b >= 0, b, "radius", "be nats from 0 to inf", advice="It is -log alpha.")
    return c, np.array(np.broadcast_to(b, len(c)))


# Questions


ANSWERS = "yes", "no"  # what costs of wrong answers are called, in their order
ACTION = "action"  # the column of a table of utilities that names the actions


def check_utility(
    utility: Any, classes: int, names: tuple[str, ...] | None, name: str = "utility"
) -> tuple[Array, list[Any] | None]:
    """(A, classes) what each action earns in each class, and the actions' names if they have any.

    Keys of a mapping are names, the column `ACTION` of a frame, or an index of pandas that does
    not only count its rows.
    """
    actions = None
    if is_frame(utility):
        named = ACTION in column_names(utility, name) and ACTION not in (names or ())
        actions = row_labels(utility)
        if named:
            actions = column(utility, ACTION, name, name).tolist()
    elif isinstance(utility, Mapping):
        actions = list(utility)
    twice = [action for action in actions or () if (actions or []).count(action) > 1]
    if twice:
        rule = "have distinct actions"
        raise InputError(name, rule, f"{twice[0]!r} more than once", "Rename one.")
    return check_values(utility, name, classes, ndim=2, names=names), actions


def check_values(
    values: Any,
    name: str,
    classes: int,
    *,
    ndim: int | None = None,
    names: tuple[str, ...] | None = None,
) -> Array:
    """Finite numbers (classes,) or (A, classes), A >= 1; one of the two if `ndim` says so.

    Those of a mapping, a Series or a frame are brought into the order of the classes' `names`.
    """
    array = to_numpy(_in_class_order(values, name, classes, names), name)
    shapes = [f"({classes},)", f"(actions, {classes})"]
    wanted = " or ".join(shapes if ndim is None else shapes[ndim - 1 : ndim])
    allowed = (1, 2) if ndim is None else (ndim,)
    if array.ndim not in allowed or array.shape[-1] != classes or array.size == 0:
        raise InputError(name, f"have shape {wanted}", f"shape {array.shape}")
    if array.dtype.kind not in "iufb":
        raise InputError(name, "be real numbers", f"dtype {array.dtype}")
    array = array.astype(np.float64)
    require_all(np.isfinite(array), array, name, "be finite")
    return array


def _in_class_order(values: Any, name: str, classes: int, names: tuple[str, ...] | None) -> Any:
    if is_frame(values):
        others = {ACTION} - set(names or ())
        advice = f"call the one that names actions {ACTION!r}, "
        return class_columns(values, names, others=others, name=name, advice=advice)[0]
    if isinstance(values, Mapping):
        rows = values.values()
        if any(isinstance(row, Mapping) or np.ndim(row) for row in rows):
            return [by_name(row, names, classes, f"{name}[{a!r}]") for a, row in values.items()]
    return by_name(values, names, classes, name)


def check_event(
    event: Any, count: int, names: tuple[str, ...] | None, *, name: str = "event"
) -> NDArray[np.bool_]:
    """(count,) mask of the classes, or labels, named, numbered or marked by `event`.

    One name, or one number, is an event of one class. True and False in a mapping or a Series go by
    the names.
    """
    of = "classes" if name == "event" else name
    if isinstance(event, Mapping) or str(getattr(event, "dtype", "")) == "bool":
        event = by_name(event, names, count, name, of=of)
        if len(event) != count or not all(isinstance(m, bool | np.bool_) for m in event):
            raise InputError(name, f"be True or False for each of {count} {of}", f"{event!r}")
    members = [event] if isinstance(event, str | int | np.integer) else list(event)
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
            raise InputError(name, f"hold {of} 0 to {count - 1}{known}", f"{member!r}")
    return mask


# Labels that do not exclude each other


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
        raise InputError("probabilities", f"have shape {shape}", f"shape {array.shape}")
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
        raise InputError("costs", "be positive for one kind of error or both", "0 and 0")
    return np.asarray(array[..., 0] / total)


def _per_label(values: Any, name: str, each: tuple[int, ...], labels: int) -> NDArray[Any]:
    array = to_numpy(values, name)
    if array.shape not in (each, (labels, *each)) or array.dtype.kind not in "iufb":
        rule = f"have shape {each}, or {(labels, *each)} with one per label"
        raise InputError(name, rule, f"shape {array.shape}, dtype {array.dtype}")
    return array.astype(np.float64)
