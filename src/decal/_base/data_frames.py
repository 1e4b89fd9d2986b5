"""Data frames of any library, through narwhals: columns by name, and what names their rows.

pandas, polars, PyArrow and others: `narwhals` knows them all. The core does without it until a
frame is passed, and then says what to install.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.extras import needs
from decal._base.places import listing

Index = dict[str, NDArray[Any]]
"""What names the inputs: one vector (n,) or several, by the names of their columns."""

ROW = "row"
"""What the names of inputs are called if they have no name of their own."""

RESERVED = ("class", "lower", "upper", "point")
"""The other columns of predictions: names of inputs must be called otherwise."""

INDEX = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?|__index_level_\d+__")
"""Names that a column gets because it has none: by spreadsheets, by pandas, and by Arrow."""

IDENTIFIER = re.compile(
    r"(?i:(.*[ _.-])?(id|idx|index|uid|row ?id|row[ _.-]?num(ber)?|row|number)|level_0)|.*I[dD]"
)
"""Names of columns that number rows or things, if their numbers are whole."""

LEAST_ROWS = 10
"""With fewer rows, numbers that happen to be consecutive or distinct prove nothing."""

NARWHALS = (
    "data frames need narwhals: pip install narwhals, or 'decal[pandas]' or 'decal[polars]'. "
    "Without it, pass an array, whose columns go by position"
)


def is_frame(values: Any) -> bool:
    """Whether values are a data frame: a table whose columns have names."""
    kind = type(values)  # a property of a lazy frame may compute: ask its type
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def _eager(frame: Any, name: str) -> Any:
    with needs("narwhals", message=NARWHALS):
        import narwhals as nw
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        found = f"{type(frame).__module__}.{type(frame).__name__}"
        raise ValueError(
            f"{name} must be an array or a data frame in memory: got {found}. Collect it first; "
            "for Dask and Spark use decal.distributed."
        ) from error
    except ValueError as error:  # two columns of one name
        fact = " ".join(str(error).split())
        raise ValueError(f"{name} must have distinct columns: got {fact}.") from error


def column_names(frame: Any, name: str = "logits") -> tuple[str, ...]:
    """The names of a frame's columns, as text."""
    return tuple(str(column) for column in _eager(frame, name).columns)


def class_columns(
    frame: Any,
    classes: Sequence[str] | None,
    *,
    others: Iterable[str] = (),
    name: str = "logits",
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """(n, K) the columns of the classes, in their order, and their names.

    Parameters
    ----------
    frame
        A data frame.
    classes : sequence of str, optional
        The classes, each the name of one column, in whatever order these stand. By default all
        columns but `others`.
    others : iterable of str
        Columns that are known to be something else.
    name : str
        What messages call the frame.
    """
    present = column_names(frame, name)
    rest = [column for column in present if column not in set(others)]
    wanted = tuple(rest if classes is None else classes)
    missing = [column for column in wanted if column not in rest]
    besides = [column for column in rest if column not in set(wanted)]
    if missing or besides:
        facts = [f"no {listing(missing)}"] if missing else []
        facts += [f"{listing(besides)} besides"] if besides else []
        raise ValueError(
            f"{name} must have a column for each of the {len(wanted)} classes, and no other: got "
            f"{', and '.join(facts)}. Rename or drop columns, name those that identify inputs with "
            "ids=, or pass an array to go by position."
        )
    # By position: narwhals takes names that are text only, and those of pandas may be numbers.
    chosen = _eager(frame, name)[:, [present.index(column) for column in wanted]]
    for column, kind in zip(wanted, chosen.schema.values(), strict=True):
        if not (kind.is_numeric() or str(kind) == "Boolean"):
            raise ValueError(
                f"{name} must be numbers: got the type {kind} in column {column!r}. "
                "Drop columns that are no classes."
            )
    return np.asarray(chosen.to_numpy()), wanted


def row_numbers(names: Sequence[str], values: NDArray[Any]) -> str | None:
    """The first column of a table (n, K) whose whole numbers look like those of rows, or None."""
    whole = (values == np.floor(values)).all(axis=0)  # false for NaN
    fractions = not whole.all()
    for k in np.flatnonzero(whole).tolist():
        if IDENTIFIER.fullmatch(names[k].strip()) or _number_rows(values[:, k], fractions):
            return names[k]
    return None


def _number_rows(numbers: NDArray[Any], fractions: bool) -> bool:
    """Whether whole numbers count rows, or tell each from all others as no logits of a class do.

    Distinct ones prove nothing if no other column has `fractions`: then whole numbers may be the
    way in which logits were rounded.
    """
    if len(numbers) < LEAST_ROWS:
        return False
    if (np.diff(numbers) == 1).all():
        return True
    return fractions and len(np.unique(numbers)) == len(numbers)


def column(frame: Any, column: str, argument: str, name: str = "logits") -> NDArray[Any]:
    """One column of a frame, (n,); ValueError if it has none of this name."""
    present = column_names(frame, name)
    if column not in present:
        raise ValueError(
            f"{argument} must be the name of a column, or values: got {column!r}, and the columns "
            f"{listing(present)}."
        )
    return np.asarray(_eager(frame, name)[:, present.index(column)].to_numpy())


def index_of(frame: Any, ids: Any = None, *, rows: int, name: str = "logits") -> Index | None:
    """What names the inputs: columns of a frame, values of one's own, or the index of the frame.

    Parameters
    ----------
    frame
        Inputs. Only a frame of pandas has an index; one that counts the rows from 0 names nothing.
    ids : str, sequence of str, or (rows,) array, optional
        Columns of the frame; or values.
    rows : int
        The number of inputs.
    name : str
        What messages call the frame.
    """
    framed = is_frame(frame)
    columns = id_columns(frame, ids)
    if columns:
        return check_index({n: column(frame, n, "ids", name) for n in columns}, rows, "ids")
    if ids is not None:
        return check_index(ids, rows, "ids")
    native = getattr(frame, "index", None) if framed else None
    if native is None or not hasattr(native, "nlevels"):
        return None
    if native.nlevels == 1 and native.name is None and _counts(np.asarray(native)):
        return None
    return check_index(native, rows, "index")


def name_of(index: Index, row: int) -> str:
    """What an index calls a row, its columns joined."""
    return "/".join(str(values[row]) for values in index.values())


def require_same_order(
    frame: Any, values: Any, argument: str = "labels", *, of: str = "logits"
) -> None:
    """ValueError if both have an index of pandas, with the same entries in another order.

    Rows go by position. An index with entries that occur twice, or only in one of the two, names
    no rows of the other.
    """
    ours: Any = getattr(frame, "index", None)
    theirs: Any = getattr(values, "index", None)
    if not (hasattr(ours, "nlevels") and hasattr(theirs, "nlevels")) or ours.equals(theirs):
        return
    first, second = ours.tolist(), theirs.tolist()
    if not len(set(first)) == len(first) == len(second) or set(first) != set(second):
        return
    row = next((i for i, name in enumerate(first) if name != second[i]), None)
    if row is None:
        return
    raise ValueError(
        f"{argument} must be in the order of {of}: got {second[row]!r} in row {row}, where the "
        f"index of {of} has {first[row]!r}. Reorder them with {argument}.loc[{of}.index], or pass "
        f"{argument}.to_numpy() to go by position."
    )


def id_columns(frame: Any, ids: Any) -> tuple[str, ...]:
    """The columns of a frame that `ids` names; none if it holds values, or is None."""
    if ids is None or not is_frame(frame):
        return ()
    if isinstance(ids, str):
        return (ids,)
    named = isinstance(ids, list | tuple) and all(isinstance(entry, str) for entry in ids)
    return tuple(ids) if named and set(ids) <= set(column_names(frame)) else ()


def check_index(index: Any, rows: int, name: str = "index") -> Index:
    """Vectors (rows,) by name, from a mapping, an index of pandas, or one vector."""
    if isinstance(index, Mapping):
        found = {str(key): np.asarray(values) for key, values in index.items()}
    elif getattr(index, "nlevels", 1) > 1:
        levels = [index.get_level_values(i) for i in range(index.nlevels)]
        found = {
            f"level_{i}" if level.name is None else str(level.name): np.asarray(level)
            for i, level in enumerate(levels)
        }
    else:
        own = getattr(index, "name", None)
        found = {ROW if own is None else str(own): np.asarray(index)}
    for key, values in found.items():
        if values.shape != (rows,):
            raise ValueError(
                f"{name} must be one value per input, {rows} in all: got shape {values.shape}."
            )
        if key in RESERVED:
            raise ValueError(
                f"{name} must not be called {', '.join(RESERVED)}, as columns of predictions are: "
                f"got {key!r}. Rename it first."
            )
    return found


def _counts(numbers: NDArray[Any]) -> bool:
    """Whether these are 0, 1, 2, ..."""
    return numbers.dtype.kind in "iu" and np.array_equal(numbers, np.arange(len(numbers)))
