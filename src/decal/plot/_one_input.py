"""The data of figures of one input: classes shown, the others folded into one event, the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist

from decal._base.data_frames import by_name, is_frame, require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array, Indices
from decal._base.row_checks import check_distributions, check_row, to_numpy
from decal._base.settings import check_choice, check_count
from decal.credal import CredalSet
from decal.grids import CredalMaps
from decal.plot import style
from decal.plot._fonts import drawable, wrapped
from decal.plot.style import Ink

Sets = CredalSet | Mapping[str, CredalSet]


@dataclass(frozen=True)
class Bars:
    """The intervals of one model for one input, and its prediction: (S,) each."""

    lower: Array
    upper: Array
    point: Array | None


@dataclass(frozen=True)
class Shown:
    """One input of one or several models: S classes, the last of which may be "n other classes"."""

    labels: list[str]
    families: list[str]  # fonts of the labels
    models: dict[str, Bars]  # by name; the only name is empty if the caller gave none
    truth: Array | None  # (S,)


def named(credal: Sets) -> dict[str, CredalSet]:
    """Credal sets by name, all of the same number of classes."""
    sets = dict(credal) if isinstance(credal, Mapping) else {"": credal}
    for name, one in sets.items():
        if not isinstance(one, CredalSet):
            raise InputError(
                "credal",
                "be a credal set or a mapping from names to them",
                type(one).__name__ + (f" for {name!r}" if name else ""),
                "Pass some inputs: maps[mask].flat." if isinstance(one, CredalMaps) else "",
            )
    if not sets:
        raise InputError("credal", "hold at least one credal set", "an empty mapping")
    counts = {one.shape[1] for one in sets.values()}
    if len(counts) > 1:
        raise InputError("credal", "have one number of classes", f"{sorted(counts)}")
    require_same_order(**{f"credal[{name!r}]": one for name, one in sets.items()})
    return {str(name): one for name, one in sets.items()}


def input_name(sets: Mapping[str, CredalSet], row: int) -> str | None:
    """What an input is called, if it has a name."""
    first = next(iter(sets.values()))
    return None if first.index is None else wrapped(first.input_name(row), 40, 2)


def one_row(credal: CredalSet, row: Any) -> CredalSet:
    """The credal set of one input, which must have members."""
    row = check_row(row, len(credal))
    one = credal[row]
    if one.is_empty[0]:
        fact = f"row {row}, whose bounds none satisfies"
        remedy = "credal.is_empty tells which rows have none."
        raise InputError("row", "have distributions to draw", fact, remedy)
    return one


def true_row(truth: Any, row: int, credal: CredalSet) -> Array | None:
    """(K,) the true distribution of an input, out of one or of all."""
    if truth is None:
        return None
    if not is_frame(truth):
        K = credal.shape[1]
        array = to_numpy(by_name(truth, credal.classes, K, "truth"), "truth")
        if array.ndim == 1:
            return np.asarray(check_distributions(array[None], shape=(1, K), name="truth")[0])
    return np.asarray(credal.check_distributions(truth, "truth")[check_row(row, len(credal))])


def class_names(credal: CredalSet) -> list[str]:
    """Names of all classes; their numbers if they have no names."""
    return list(credal.classes or map(str, range(credal.shape[1])))


def shown(
    sets: Mapping[str, CredalSet], row: Any, *, truth: Any, top: Any, sort: str = "class"
) -> Shown:
    """The bars of one input, with all but the `top` classes folded into one event."""
    check_choice(sort, "sort", ("class", "upper", "lower", "point"))
    first = next(iter(sets.values()))
    names = class_names(first)
    for name, other in sets.items():
        if class_names(other) != names:
            rule = "have the same classes for every model in one picture"
            raise InputError("credal", rule, f"others for {name!r}", "Draw them side by side.")
    rows = {name: one_row(credal, row) for name, credal in sets.items()}
    right = true_row(truth, row, first)
    chosen = _foremost(list(rows.values()), check_count(top, "top"), right)
    if sort != "class":
        values = [getattr(one, sort) for one in rows.values()]
        known = [v[0] for v in values if v is not None]
        if not known:
            raise InputError("sort", "not be 'point' without one", "point=None")
        chosen = chosen[np.argsort(-np.max(known, axis=0)[chosen], kind="stable")]
    rest = np.setdiff1d(np.arange(len(names)), chosen)
    labels, families = drawable([names[k] for k in chosen], [f"class {k}" for k in chosen])
    if rest.size:
        labels.append(f"{rest.size:,} other classes")
    models = {name: _bars(one, chosen, rest) for name, one in rows.items()}
    return Shown(labels, families, models, None if right is None else _folded(right, chosen, rest))


def handles_of(drawn: Shown, ink: Ink, palette: Sequence[str], **mark: Any) -> list[Artist]:
    """The legend's samples: the intervals of every model, its predictions, and the truth."""
    tints = zip(drawn.models, ink.tints(palette), strict=True)
    handles: list[Artist] = [style.bar_handle(name or "interval", tint) for name, tint in tints]
    if any(bars.point is not None for bars in drawn.models.values()):
        handles.append(ink.mark_handle("prediction", ink.prediction(palette), **mark))
    return handles if drawn.truth is None else [*handles, ink.truth_handle()]


def _foremost(rows: list[CredalSet], count: int, truth: Array | None) -> Indices:
    """The classes of the greatest upper (and true) probability; no single one is left out."""
    K = rows[0].shape[1]
    if count + 1 >= K:
        return np.arange(K)
    reach = np.max([one.upper[0] for one in rows], axis=0)
    if truth is not None:
        reach = np.maximum(reach, truth)
    return np.sort(np.argsort(-reach, kind="stable")[:count])


def _bars(one: CredalSet, chosen: Indices, rest: Indices) -> Bars:
    lower, upper = one.lower[0, chosen], one.upper[0, chosen]
    if rest.size:
        low, high = one.probability(rest.tolist())
        lower, upper = np.append(lower, low), np.append(upper, high)
    point = None if one.point is None else _folded(one.point[0], chosen, rest)
    return Bars(lower, upper, point)


def _folded(distribution: Array, chosen: Indices, rest: Indices) -> Array:
    parts = distribution[chosen]
    return np.append(parts, distribution[rest].sum()) if rest.size else parts
