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

from decal._base.errors import InputError, listing, needs

Index = dict[str, NDArray[Any]]
"""What names the inputs: one vector (n,) or several, by the names of their columns."""


class Numbers(Index):
    """The index of a frame that counts its rows: it calls them nothing, and tells orders apart."""


ROW = "row"  # what the names of inputs are called if they have no name of their own

RESERVED = ("class", "lower", "upper", "point")
"""The other columns of predictions: names of inputs must be called otherwise."""

INDEX = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?|__index_level_\d+__")
"""Names that a column gets because it has none: by spreadsheets, by pandas, and by Arrow."""

IDENTIFIER = re.compile(
    r"(?i:(.*[ _.-])?(id|idx|index|uid|row ?id|row[ _.-]?num(ber)?|row|number)|level_0)|.*I[dD]"
)
"""Names of columns that number rows or things, if their numbers are whole."""

LEAST_ROWS = 10  # with fewer rows, numbers that happen to be consecutive or distinct prove nothing

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
        fact = f"{type(frame).__module__}.{type(frame).__name__}"
        remedy = "Collect it first; for Dask and Spark use decal.distributed."
        raise InputError(name, "be an array or a data frame in memory", fact, remedy) from error
    except ValueError as error:  # two columns of one name
        raise InputError(name, "have distinct columns", " ".join(str(error).split())) from error


def column_names(frame: Any, name: str = "logits") -> tuple[str, ...]:
    """The names of a frame's columns, as text."""
    return tuple(str(column) for column in _eager(frame, name).columns)


def class_columns(
    frame: Any,
    classes: Sequence[str] | None,
    *,
    others: Iterable[str] = (),
    name: str = "logits",
    advice: str = "name those that identify inputs with ids=, ",
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """(n, K) the columns of the classes, in their order, and their names.

    Without classes these are all columns but the `others`. Messages call the frame by its `name`,
    and give this `advice`, too, about columns that are no classes.
    """
    present = column_names(frame, name)
    rest = [column for column in present if column not in set(others)]
    wanted = tuple(rest if classes is None else classes)
    missing = [column for column in wanted if column not in rest]
    besides = [column for column in rest if column not in set(wanted)]
    if missing or besides:
        rule = f"have a column for each of the {len(wanted)} classes, and no other"
        remedy = f"Rename or drop columns, {advice}or pass an array to go by position."
        raise InputError(name, rule, _misfits(missing, besides), remedy)
    # By position: narwhals takes names that are text only, and those of pandas may be numbers.
    chosen = _eager(frame, name)[:, [present.index(column) for column in wanted]]
    for column, kind in zip(wanted, chosen.schema.values(), strict=True):
        if not (kind.is_numeric() or str(kind) == "Boolean"):
            fact = f"the type {kind} in column {column!r}"
            raise InputError(name, "be numbers", fact, "Drop columns that are no classes.")
    return np.asarray(chosen.to_numpy()), wanted


def is_scored(values: Any) -> bool:
    """Whether values are what a Hugging Face pipeline returns: for each input, named scores."""
    first = values[0] if isinstance(values, list) and values else None
    if _names_a_score(first):
        remedy = "Call the pipeline with top_k=None; what it returns of one text goes in a list."
        raise InputError("logits", "have all scores of every input", "one score each", remedy)
    return isinstance(first, list) and bool(first) and _names_a_score(first[0])


def _names_a_score(value: Any) -> bool:
    return isinstance(value, Mapping) and {"label", "score"} <= set(value)


def scored_columns(
    values: Sequence[Any], classes: Sequence[str] | None, name: str = "logits"
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """(n, K) scores by the names of the classes, or of the first input's labels, and these."""
    rows = [{str(each["label"]): each["score"] for each in row} for row in values]
    names = tuple(sorted(rows[0]) if classes is None else classes)
    for number, row in enumerate(rows):
        missing = [label for label in names if label not in row]
        besides = [label for label in row if label not in names]
        if missing or besides or len(row) != len(values[number]):
            rule = f"have a score for each of the {len(names)} classes, and no other"
            fact = f"{_misfits(missing, besides) or 'one twice'}, in row {number}"
            raise InputError(name, rule, fact, "Call the pipeline with top_k=None.")
    return np.array([[row[label] for label in names] for row in rows], dtype=np.float64), names


def _misfits(missing: Sequence[str], besides: Sequence[str]) -> str:
    facts = [f"no {listing(missing)}"] if missing else []
    facts += [f"{listing(besides)} besides"] if besides else []
    return ", and ".join(facts)


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
        rule = "be the name of a column, or values"
        raise InputError(argument, rule, f"{column!r}, and the columns {listing(present)}")
    return np.asarray(_eager(frame, name)[:, present.index(column)].to_numpy())


def index_of(frame: Any, ids: Any = None, *, rows: int, name: str = "logits") -> Index | None:
    """What names the inputs: columns of a frame, values (rows,), or the index of a pandas frame.

    Of an index that counts the rows from 0, `Numbers`.
    """
    columns = id_columns(frame, ids)
    if columns:
        return check_index({n: column(frame, n, "ids", name) for n in columns}, rows, "ids")
    if ids is not None:
        require_same_order(**{name: frame, "ids": ids})
        return check_index(ids, rows, "ids")
    native = native_index(frame) if is_frame(frame) else None
    if native is None:
        return None
    if native.nlevels == 1 and native.name is None and _counts(np.asarray(native)):
        return Numbers({ROW: np.asarray(native)})
    return check_index(native, rows, "index")


def name_of(index: Index, row: int) -> str:
    """What an index calls a row, its columns joined."""
    return "/".join(str(values[row]) for values in index.values())


# Rows of several arguments


def require_same_order(**arguments: Any) -> None:
    """ValueError if arguments that go row by row have indexes that disagree.

    An index is that of pandas, or of credal sets; what has none goes by position. So do rows whose
    indexes cannot name each other's: entries are of another kind, or one index is of whole numbers
    that rise, as those that count the rows of a table or of some of its rows. If the entries are
    the same and their order is not, it is refused in any case.
    """
    if sum(_is_indexed(values) for values in arguments.values()) < 2:
        return
    indexed = [(name, values, row_names(values)) for name, values in arguments.items()]
    found = [(name, values, rows) for name, values, rows in indexed if rows is not None]
    for i, (name, values, rows) in enumerate(found):
        for of, others, known in found[:i]:
            if not _agree(known, rows):
                raise _disagreement(name, values, rows, of, others, known)


def order_of(first: Any, second: Any) -> NDArray[np.intp] | None:
    """(n,) the rows of `second` in the order of `first`; None if it is theirs, or not known."""
    wanted, given = row_names(first), row_names(second)
    if wanted is None or given is None or not _same_entries(*_entries(wanted, given)):
        return None
    place = {str(entry): row for row, entry in enumerate(_entries(given)[0])}
    return np.array([place[str(entry)] for entry in _entries(wanted)[0]], dtype=np.intp)


def row_names(values: Any) -> Index | None:
    """What tells the rows of an argument apart: its index."""
    native = native_index(values)
    if native is None:
        own = getattr(values, "_index", None)  # of credal sets, also if it only counts
        return own if isinstance(own, dict) else None
    levels = [native.get_level_values(i) for i in range(native.nlevels)]
    return {str(i): np.asarray(level) for i, level in enumerate(levels)}


def _is_indexed(values: Any) -> bool:
    return native_index(values) is not None or isinstance(getattr(values, "_index", None), dict)


def row_labels(frame: Any) -> list[Any] | None:
    """What the index of pandas calls rows; None if it only counts them, or if there is none."""
    native = native_index(frame)
    if native is None or (native.nlevels == 1 and _counts(np.asarray(native))):
        return None
    return list(native)


def native_index(values: Any) -> Any:
    """The index of something of pandas, or None."""
    index = getattr(values, "index", None)
    return index if type(index).__module__.split(".")[0] == "pandas" else None


def _agree(one: Index, other: Index) -> bool:
    """Whether rows with these indexes may go by position."""
    first, second = list(one.values()), list(other.values())
    if len(first) != len(second) or len(first[0]) != len(second[0]) or len(first[0]) < 2:
        return True  # other kinds of names; other lengths, which other checks refuse; or one row
    if all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)):
        return True
    ours, theirs = _entries(one, other)
    same_texts = [*map(str, ours)] == [*map(str, theirs)]
    if same_texts or _same_entries(ours, theirs):
        return same_texts
    counted = any(len(index) == 1 and _rise(index[0]) for index in (first, second))
    return counted or type(ours[0]) is not type(theirs[0])


def _entries(*indexes: Index) -> list[list[Any]]:
    """The entries of every index, one per row; of several levels, tuples."""
    columns = [[values.tolist() for values in index.values()] for index in indexes]
    return [c[0] if len(c) == 1 else list(zip(*c, strict=True)) for c in columns]


def _same_entries(one: list[Any], other: list[Any]) -> bool:
    """Whether both hold the same entries, each once; compared as text, as 7 may be written "7"."""
    mine, theirs = set(map(str, one)), set(map(str, other))
    return len(mine) == len(one) == len(other) and mine == theirs


def _rise(numbers: NDArray[Any]) -> bool:
    return numbers.dtype.kind in "iu" and bool((np.diff(numbers) > 0).all())


def _disagreement(
    name: str, values: Any, rows: Index, of: str, others: Any, known: Index
) -> InputError:
    ours, theirs = _entries(known, rows)
    row = next(i for i, entry in enumerate(ours) if entry != theirs[i])
    same = _same_entries(ours, theirs)
    rule = f"be in the order of {of}" if same else f"be of the rows of {of}"
    pandas = native_index(values) is not None
    if same and pandas and native_index(others) is not None:
        advice = f"Reorder them with {name}.loc[{of}.index]"
    else:
        advice = "Bring both into one order" if same else "Pick the same rows of both"
    position = f"{name}.to_numpy()" if pandas else f"{name}.with_index(None)"
    fact = f"{theirs[row]!r} in row {row}, where the index of {of} has {ours[row]!r}"
    return InputError(name, rule, fact, f"{advice}, or pass {position} to go by position.")


# Numbers of several classes


def by_name(
    values: Any,
    names: Sequence[str] | None,
    count: int,
    argument: str,
    *,
    of: str = "classes",
    keys: Iterable[Any] | None = None,
) -> Any:
    """What a mapping, or an index of pandas, says of each class, in their order; others as given.

    Without names, classes are called by their numbers, and an index that holds others names
    nothing. `keys` name the values if they do not do so themselves.
    """
    native = native_index(values) if keys is None else keys
    if isinstance(values, Mapping):
        given, entries = [str(key) for key in values], list(values.values())
    elif native is not None:
        given, entries = [str(key) for key in native], list(np.asarray(values))
    else:
        return values
    known = [str(k) for k in range(count)] if names is None else list(names)
    place = {name: at for at, name in enumerate(given)}
    expected = set(known)
    missing = [name for name in known if name not in place]
    besides = [name for at, name in enumerate(given) if name not in expected or place[name] != at]
    if names is None and native is not None and missing:
        return values
    if missing or besides:
        rule = f"name each of the {count} {of} once, and no other"
        remedy = "Rename them, or pass an array to go by position."
        raise InputError(argument, rule, _misfits(missing, besides), remedy)
    return [entries[place[name]] for name in known]


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
            rule = f"be one value per input, {rows} in all"
            raise InputError(name, rule, f"shape {values.shape}")
        if key in RESERVED:
            rule = f"not be called {', '.join(RESERVED)}, as columns of predictions are"
            raise InputError(name, rule, f"{key!r}", "Rename it first.")
    return found


def _counts(numbers: NDArray[Any]) -> bool:
    """Whether these are 0, 1, 2, ..."""
    return numbers.dtype.kind in "iu" and np.array_equal(numbers, np.arange(len(numbers)))
