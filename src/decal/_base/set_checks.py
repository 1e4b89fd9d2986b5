"""Checks of what sets of distributions are made of, and of what they are asked.

Messages and rules are those of `decal._base.checks`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import (
    SUM_TOLERANCE,
    check_probabilities,
    probability_matrix,
    to_numpy,
)
from decal._base.inputs import CONVERT, read_logits
from decal._base.numerics import Array
from decal._base.places import require_all

# Boxes, hulls and balls


def check_bounds(lower: Any, upper: Any, point: Any) -> tuple[Array, Array, Array | None]:
    """Matching (n, K) bounds within [0, 1], and a point of the same shape or None."""
    low, high = probability_matrix(lower, "lower"), probability_matrix(upper, "upper")
    middle = None if point is None else probability_matrix(point, "point")
    for name, array in (("upper", high), ("point", middle)):
        if array is not None and array.shape != low.shape:
            raise ValueError(
                f"{name} must have the shape of lower, {low.shape}: got shape {array.shape}."
            )
    return low, high, middle


MANY_MEMBERS = 30
"""An array of more members than this, and more than inputs, most likely has its members first."""


def check_vertices(vertices: Any, axis: int | None = 1) -> Array:
    """(n, M, K) distributions, M >= 1, each summing to one within SUM_TOLERANCE.

    Parameters
    ----------
    vertices : (n, M, K) array, or (M, n, K)
        Distributions.
    axis : int or None
        1, or 0 if members come first. None is 1, with a warning if the shape makes that doubtful.
    """
    if axis not in (None, 0, 1):
        raise ValueError(f"axis must be 0 or 1, where the members are: got {axis!r}.")
    array = to_numpy(vertices, "vertices")
    if array.ndim != 3 or array.shape[1] == 0 or array.shape[2] < 2:
        raise ValueError(
            "vertices must be inputs × members × classes, one member and two classes or more: "
            f"got shape {array.shape}."
        )
    if axis == 0:
        array = np.moveaxis(array, 0, 1)
    n, M, K = array.shape
    if M == 0:
        raise ValueError(f"vertices must have one member or more: got shape {(M, n, K)}.")
    flat = probability_matrix(array.reshape(-1, K), "vertices")
    sums = flat.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.size:
        row, member = divmod(int(wrong[0]), M)
        raise ValueError(
            f"vertices must sum to 1 along the last axis, that of the classes: got "
            f"{sums[wrong[0]]:.6g} for member {member} of row {row}.{_other_axis(array)}"
        )
    if axis is None and 1 < n < M and M > MANY_MEMBERS:
        warnings.warn(
            f"vertices are taken as {n} inputs with {M} members each. If they are {n} members' "
            f"predictions for {M} inputs, pass axis=0; if not, axis=1",
            UserWarning,
            stacklevel=3,
        )
    return flat.reshape(array.shape)


def _other_axis(array: NDArray[Any]) -> str:
    """Which axis is the one of the classes, if it is not the last."""
    for axis in (1, 0):
        if np.allclose(array.sum(axis=axis), 1, rtol=0, atol=SUM_TOLERANCE):
            return f" Axis {axis} does: move it with np.moveaxis(vertices, {axis}, -1)."
    return ""


def check_center_and_radius(center: Any, radius: Any) -> tuple[Array, Array]:
    """(n, K) distributions, K >= 2, and (n,) nats from 0 to inf, one for all rows or one each."""
    c = check_probabilities(center, name="center")
    if c.shape[1] < 2:
        raise ValueError(
            f"center must have one column per class, two or more: got shape {c.shape}."
        )
    b = to_numpy(radius, "radius")
    if b.shape not in ((), (len(c),)) or b.dtype.kind not in "iuf":
        raise ValueError(
            f"radius must be one number, or {len(c)}, one for each row of center: "
            f"got shape {b.shape}, dtype {b.dtype}."
        )
    b = np.atleast_1d(b.astype(np.float64))
    require_all(b >= 0, b, "radius", "be nats from 0 to inf", advice="It is -log alpha.")
    return c, np.array(np.broadcast_to(b, len(c)))


# Ensembles


def check_member_logits(logits: Any) -> Array:
    """(n, M, K) from M matrices (n, K) of the same shape, M >= 1."""
    members = [
        read_logits(z, name=f"logits[{m}]", masked=False, remedy=CONVERT)
        for m, z in enumerate(logits)
    ]
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


# Questions


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
    require_all(np.isfinite(array), array, name, "be finite")
    return array


def check_event(
    event: Any, count: int, names: tuple[str, ...] | None, *, name: str = "event"
) -> NDArray[np.bool_]:
    """(count,) mask of the classes, or labels, named, numbered or marked by `event`.

    One name, or one number, is an event of one class.
    """
    of = "classes" if name == "event" else name
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
            raise ValueError(f"{name} must hold {of} 0 to {count - 1}{known}: got {member!r}.")
    return mask
