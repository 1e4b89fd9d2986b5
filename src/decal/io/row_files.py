"""Logits, labels, weights and truth from files, a chunk of rows at a time.

docs/numerics.md says what the files hold. Columns are matched to the classes of a model, or of
another file, by name where both have names, by position otherwise.

All columns of a table that nobody says anything about are taken for classes. Those that look like
something else, such as row numbers, are refused and the user asked to choose: a column too many
moves the endpoints of all classes.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

import numpy as np

from decal._base.data_frames import INDEX, check_index, row_numbers
from decal._base.errors import InputError, Place, is_whole_number, listing, require_all
from decal._base.numerics import Indices
from decal._base.row_checks import check_probabilities, check_weights, label_numbers
from decal.grids import Grid
from decal.io.formats import (
    CHUNK_ELEMENTS,
    Block,
    DataFile,
    Stream,
    along,
    is_list,
    open_array,
    open_file,
    open_lists,
    open_table,
)
from decal.rows import Rows, require_possible
from decal.schema import Schema, check_floor, read_logits

USUAL_KEYS = {
    "logits": ("logits",),
    "probabilities": ("probabilities", "probs"),
    "labels": ("labels", "label"),
    "truth": ("truth", "human"),
    "weights": (),  # weights change results, so they are only used when asked for
}
"""The keys of an .npz, or columns of a table, that are tried when the user names none."""

ALL = "*"  # the choice of all columns, whatever they look like

REMEDY = "Add --probabilities if they are, or export the logits that they were made from"


Beside = tuple[Any, Any, Any, Any, Any]
"""Labels, weights, names of classes, names of inputs, and truth."""


@dataclass(frozen=True)
class LogitSource:
    """Logits and what belongs to their rows, read chunk by chunk from open files.

    What was not asked for, or is not in the files, is None. The classes are `guessed` if they are
    all columns of a table about which the user said nothing. Leaving the context closes the files.
    """

    files: tuple[DataFile, ...]
    logits: Stream
    labels: Stream | None = None
    weights: Stream | None = None
    truth: Stream | None = None
    classes: tuple[str, ...] | None = None
    probabilities: bool = False
    floor: float | None = None
    guessed: bool = False
    ids: Mapping[str, Stream] = field(default_factory=dict)
    may_be_empty: bool = False
    ignore_index: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files. The source can be read no more."""
        for file in self.files:
            file.close()

    @property
    def grid(self) -> Grid | None:
        """The axes that the rows came in, if they are more than rows and classes."""
        axes = self.logits.grid
        return None if axes is None else Grid((axes,), self.logits.axis)

    @property
    def rows(self) -> int | None:
        """The number of rows, where a file tells it in advance."""
        streams = (self.logits, self.labels, self.weights, self.truth)
        return next((s.rows for s in streams if s is not None and s.rows is not None), None)

    def chunks(self, elements: int = CHUNK_ELEMENTS, start: int = 0) -> Iterator[Rows]:
        """All rows from `start` on, in order, about `elements` logits at a time, checked.

        Errors name the file, the row and the column of the first number that cannot be.
        """
        others = {
            name: stream
            for name in ("labels", "weights", "truth")
            if (stream := getattr(self, name)) is not None
        } | {(name,): stream for name, stream in self.ids.items()}
        streams = [self.logits, *others.values()]
        step = max(1, elements // max(1, self.logits.width))
        schema = Schema(None, self.classes, self.probabilities, self.floor)
        found = start > 0
        for blocks in zip_longest(
            *(_regrouped(s.read(start), step) for s in streams), fillvalue=np.empty(0)
        ):
            for stream, block in zip(streams, blocks, strict=True):
                if len(block) != len(blocks[0]):
                    raise _different_lengths(self.logits, stream)
            n = len(blocks[0])
            known = self._known(dict(zip(others, blocks[1:], strict=True)).get("labels"))
            found = found or known is None or len(known) > 0
            if known is not None and not len(known):
                start += n
                continue
            blocks = _stood_in(blocks, known)
            beside = self._beside(start, n, dict(zip(others, blocks[1:], strict=True)))
            name, place = self.logits.name, self.logits.place(start)
            self._require_numbers(blocks[0], place)
            z = read_logits(blocks[0], schema, name=name, place=place, remedy=REMEDY)
            rows = Rows(z, *beside, self._units(start, n))
            if self.labels is not None:
                require_possible(rows, schema, self.labels.place(start))
            yield (
                rows if known is None else replace(rows[known], grid=Grid(((n,),), 1, known=known))
            )
            start += n
        if start == 0 and not self.may_be_empty:
            raise _no_rows(self.logits)
        if start and not found and not self.may_be_empty:
            fact = f"only {self.ignore_index} in {self.labels and self.labels.path}"
            raise InputError("labels", "not all be ignored", fact)

    def _require_numbers(self, block: Block, place: Place) -> None:
        """InputError about missing probabilities; `read_logits` tells of missing logits."""
        if self.probabilities:
            fine, advice = ~np.isnan(block), "Repair or leave out such rows first."
            require_all(fine, block, self.logits.name, "be numbers", place=place, advice=advice)

    def all(self) -> Rows:
        """All rows, in memory."""
        return Rows.join(list(self.chunks()))

    def _known(self, labels: Block | None) -> Indices | None:
        """Which of some rows have labels that are not ignored; None if that are all."""
        if self.ignore_index is None or labels is None:
            return None
        ignored: Any = self.ignore_index if labels.dtype.kind in "iufb" else str(self.ignore_index)
        known = labels != ignored
        return None if known.all() else np.flatnonzero(known)

    def _units(self, start: int, n: int) -> Indices | None:
        """(n,) the place on the first axis of the array that n rows from `start` on are from."""
        grid = self.logits.grid or ()
        if len(grid) < 2 or self.logits.axis == 0:  # the first axis of one image is not of images
            return None
        return np.arange(start, start + n) // math.prod(grid[1:])

    def _beside(self, start: int, n: int, others: Mapping[Any, Block]) -> Beside:
        """What n Rows hold besides logits, after every check; they begin at `start`."""
        labels = weights = truth = None
        K, names = self.logits.width, self.classes
        if self.labels is not None:
            place = self.labels.place(start)
            labels = label_numbers(others["labels"], names or (), columns=K, place=place)
        if self.weights is not None:
            place = self.weights.place(start)
            weights = check_weights(
                others["weights"], rows=n, name="weights", place=place, all_zero=True
            )
        if self.truth is not None:
            name, place = self.truth.name, self.truth.place(start)
            advice = "Divide counts by their sum."
            truth = check_probabilities(others["truth"], name=name, place=place, advice=advice)
        ids = {name: others[(name,)] for name in self.ids}
        index = check_index(ids, n, "id") if ids else None
        return labels, weights, names, index, truth


def _stood_in(blocks: tuple[Block, ...], known: Indices | None) -> tuple[Block, ...]:
    """Blocks in which a known row stands in for each that is ignored: checks name rows."""
    if known is None:
        return blocks
    stand_in = np.full(len(blocks[0]), known[0])
    stand_in[known] = known
    return tuple(block[stand_in] for block in blocks)


def _regrouped(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """All rows in blocks of equal length; the last may be shorter."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        while len(block):
            held.append(block[: rows - count])
            block = block[rows - count :]
            count += len(held[-1])
            if count == rows:
                yield held[0] if len(held) == 1 else np.concatenate(held)
                held, count = [], 0
    if held:
        yield np.concatenate(held)


def open_source(
    path: Path,
    *,
    labels: Path | None = None,
    weights: Path | None = None,
    truth: Path | None = None,
    keys: Mapping[str, str | None] | None = None,
    columns: Sequence[str] | None = None,
    ignore: Collection[str] = (),
    classes: Sequence[str] | None = None,
    wanted: Collection[str] = ("labels",),
    needed: Collection[str] = (),
    probabilities: bool = False,
    floor: float | None = None,
    ids: Sequence[str] = (),
    may_be_empty: bool = False,
    dim: int | None = None,
    ignore_index: int | None = None,
) -> LogitSource:
    """Logits in a file, with the labels, weights and truth in the same file or in others.

    Nothing but names and shapes is read yet. `keys` has, for "logits", "labels", "weights" or
    "truth", the key of an .npz or the column of a table. Of a table, `columns` are classes, ("*",)
    takes all others; `ignore` are neither classes nor labels; `ids` name the inputs. `classes` are
    those of a model, in its order. Of "labels" and "truth", those `wanted` are used if they are
    there, and those `needed` must be. With `probabilities` the source yields their logarithms.
    `dim` is the axis of the classes of arrays with more axes; rows whose label is `ignore_index`
    are left out.
    """
    keys = dict(keys or {})
    floor = check_floor(floor, probabilities)
    kind = "probabilities" if probabilities else "logits"
    file = open_file(path)
    separate = {"labels": labels, "weights": weights, "truth": truth}
    files = {name: open_file(other) for name, other in separate.items() if other is not None}
    skip = {*ignore, *ids, *USUAL_KEYS["labels"], *filter(None, keys.values())}
    chosen = tuple(columns or ())
    if chosen not in ((), (ALL,)) and not file.is_table:
        raise InputError("columns", "be those of a table", f"{path}", "Leave --columns out.")
    if dim is not None and file.is_table:
        raise InputError("dim", "go with .npy and .npz files", f"{path}")
    matrix = _open_matrix(kind, file, keys.get("logits"), classes, skip, chosen, dim)
    names = tuple(classes) if classes else matrix.columns
    asked = {*wanted, *needed, *(name for name in separate if keys.get(name)), *files}

    def companion(name: str) -> Stream | None:
        if name not in asked:
            return None
        key = keys.get(name)
        if name not in files and not _holds(name, file, key):
            if name in needed:
                fact = f"none in {file.path}{_contents(file)}"
                remedy = f"Give a file with --{name}, or their name there with --{name}-key."
                raise InputError(name, f"come with the {kind}", fact, remedy)
            return None
        holder = files.get(name, file)
        if name == "truth":
            return _open_matrix(name, holder, key, names, skip, chosen, dim)
        return _open_vector(name, holder, key, dim)

    source = LogitSource(
        (file, *files.values()),
        matrix,
        companion("labels"),
        companion("weights"),
        companion("truth"),
        names,
        probabilities,
        floor,
        file.is_table and matrix.columns is not None and not classes and not chosen,
        {name: _open_ids(name, file, dim, matrix.grid) for name in ids},
        may_be_empty,
        ignore_index,
    )
    _require_shapes(source)
    return source


def _require_shapes(source: LogitSource) -> None:
    """InputError if streams do not match, as far as their numbers of rows and columns are known."""
    matrix = source.logits
    if matrix.rows == 0 and not source.may_be_empty:
        raise _no_rows(matrix)
    if lists_of_nothing(matrix):
        return
    if matrix.width < 2:
        remedy = "For a binary classifier with one score, put a column of zeros before it."
        if source.probabilities:
            remedy = "For the probability p of one class alone, put a column of 1 - p before it."
        rule, fact = "have a column per class, two or more", f"{matrix.width} in {matrix.path}"
        raise InputError(matrix.name, rule, fact, remedy if matrix.width else "")
    for stream, width in ((matrix, len(source.classes or ())), (source.truth, matrix.width)):
        if stream and width and stream.width != width:
            rule, fact = f"have {width} columns, one per class", f"{stream.width} in {stream.path}"
            raise InputError(stream.name, rule, fact)
    for stream in (source.labels, source.weights, source.truth, *source.ids.values()):
        if stream and stream.grid != matrix.grid and None not in (stream.grid, matrix.grid):
            rule = f"have the shape of the {matrix.name} without their classes, {matrix.grid}"
            raise InputError(stream.name, rule, f"shape {stream.grid} in {stream.path}")
        if stream and None not in (stream.rows, matrix.rows) and stream.rows != matrix.rows:
            raise _different_lengths(matrix, stream)


def lists_of_nothing(stream: Stream) -> bool:
    """Whether a matrix has no rows, and rows alone would tell how many columns it has."""
    return stream.rows == stream.width == 0 and stream.columns is None


# One array or column of a file


def _open_matrix(
    name: str,
    file: DataFile,
    key: str | None,
    classes: Sequence[str] | None,
    skip: Collection[str],
    chosen: Sequence[str],
    dim: int | None,
) -> Stream:
    """A matrix with a column per class, in the order of `classes` where the file has names."""
    if file.is_table:
        if file.types and key is not None:
            return open_lists(name, file, _required_key(name, file, key) or "")
        column = None if chosen else _list_column(name, file)
        if column is not None:
            return open_lists(name, file, column)
        columns = _chosen_classes(name, file, chosen, classes, skip)
        _require_names(name, file, columns, file.names)
        table = open_table(name, file, columns)
        return table if classes or chosen else _without_row_numbers(table, file)
    stream = open_array(name, file, _required_key(name, file, key), dimensions=2, dim=dim)
    if stream.columns is None or classes is None or stream.columns == tuple(classes):
        return stream
    _require_names(name, file, classes, stream.columns)
    places = {column: place for place, column in enumerate(stream.columns)}
    order = [places[column] for column in classes]
    return replace(
        stream,
        columns=tuple(classes),
        blocks=lambda start: (block[:, order] for block in stream.read(start)),
    )


def _open_vector(name: str, file: DataFile, key: str | None, dim: int | None) -> Stream:
    """One value per row: an array, or a column of a table."""
    key = _required_key(name, file, key)
    if not file.is_table:
        return open_array(name, file, key, dimensions=1, dim=dim)
    assert key is not None
    return _only_column(open_table(name, file, (key,), text=name == "labels"))


def _open_ids(column: str, file: DataFile, dim: int | None, grid: tuple[int, ...] | None) -> Stream:
    """A column that names the inputs, as text unless an .npz holds numbers.

    Of arrays with more axes it has a value for each input, or for each entry of their first axes.
    """
    if file.format == ".npy" or column not in file.names:
        fact = f"{column!r}{_contents(file)}"
        remedy = "Look at --id-column, --groups and --annotators."
        raise InputError("a name", f"be a column of {file.path}", fact, remedy)
    if not file.is_table:
        return along(open_array("id", file, column, dimensions=1, dim=dim), grid)
    return _only_column(open_table("id", file, (column,), text=True))


def _only_column(table: Stream) -> Stream:
    return replace(table, blocks=lambda start: (block[:, 0] for block in table.read(start)))


def _list_column(name: str, file: DataFile) -> str | None:
    """The column of usual name that holds, in every row, a list with a number per class."""
    types = file.types
    return next((k for k in USUAL_KEYS[name] if k in types and is_list(types[k])), None)


def _required_key(name: str, file: DataFile, key: str | None) -> str | None:
    """The key or column that holds an array, named or usual; None for an .npy file."""
    if file.format == ".npy":
        return None
    usual = USUAL_KEYS[name] if key is None else (key,)
    found = [k for k in usual if k in file.names]
    if key is None and not found and len(file.names) == 1:
        found = [file.names[0]]
    if len(found) != 1:
        got = "both " + " and ".join(found) if found else f"no {' or '.join(usual) or 'name'}"
        fact = f"{got} among {listing(file.names)}"
        remedy = f"Choose with --{'logits' if name == 'probabilities' else name}-key."
        raise InputError(name, f"be found in {file.path}", fact, remedy)
    return found[0]


def _holds(name: str, file: DataFile, key: str | None) -> bool:
    """Whether a file of logits seems to hold labels, weights or truth, too."""
    if file.format == ".npy":
        return False
    if name == "truth" and file.is_table:
        return key is not None or _list_column(name, file) is not None
    return key is not None or any(usual in file.names for usual in USUAL_KEYS[name])


# Which columns of a table are classes


def _chosen_classes(
    name: str,
    file: DataFile,
    columns: Sequence[str],
    classes: Sequence[str] | None,
    skip: Collection[str],
) -> tuple[str, ...]:
    """The columns of a table that hold the classes, in their order.

    `columns` is the user's choice: names, ALL, or nothing. The names of a model's `classes`, if
    known, are the columns. Those of `skip` are something else.
    """
    if columns and list(columns) != [ALL]:
        _check_choice(columns, classes, skip)
        return tuple(classes or columns)
    if classes:
        return tuple(classes)
    # pandas reads a column without a name as "Unnamed: " and its number, and so do we.
    called = [n or f"Unnamed: {i}" for i, n in enumerate(file.names)]
    pairs = list(zip(file.names, called, strict=True))
    kept = [(n, alias) for n, alias in pairs if n not in skip and alias not in skip]
    found = tuple(n for n, _ in kept)
    for n, alias in () if columns else kept:
        if INDEX.fullmatch(n):
            what = f"the column {n!r}" if n.strip() else "a column without a name"
            raise _refusal(name, file, what, "which looks like an index", alias, found)
    return found


def _check_choice(
    columns: Sequence[str], classes: Sequence[str] | None, skip: Collection[str]
) -> None:
    for column, times in Counter(columns).items():
        if times > 1:
            raise InputError("columns", "be distinct", f"{column!r} more than once")
        if column in skip:
            raise InputError("columns", "not be labels or ignored", f"{column!r}")
    if classes and set(classes) != set(columns):
        rule = f"be the model's classes {listing(classes)}"
        remedy = "Leave --columns out, as they are found by their names; "
        remedy += "rename them in the file if they have others."
        raise InputError("columns", rule, listing(columns), remedy)


def _without_row_numbers(stream: Stream, file: DataFile) -> Stream:
    """A stream that refuses columns of row numbers when its first rows are read."""

    def blocks(start: int) -> Iterator[Block]:
        columns = stream.columns or ()
        for i, block in enumerate(stream.read(start)):
            numbers = None if i else row_numbers(columns, block)
            if numbers is not None:
                reason = "whose whole numbers look like those of rows"
                what = f"the column {numbers!r}"
                raise _refusal(stream.name, file, what, reason, numbers, columns)
            yield block

    return replace(stream, blocks=blocks)


def _refusal(
    name: str, file: DataFile, what: str, reason: str, column: str, found: Sequence[str]
) -> InputError:
    others = [n for n in found if n != column and not INDEX.fullmatch(n)]
    remedy = (
        f"Leave it out with --ignore {_typed([column])}, or name the classes with "
        f"--columns {_typed(others)} ('{ALL}' takes all)."
    )
    return InputError(name, "hold only classes", f"{what} in {file.path}, {reason}", remedy)


def _typed(names: Sequence[str]) -> str:
    """Names as one types them after an option, not too many of them."""
    shown = [f'"{n}"' if "," in n else n for n in names[:12]]
    return shlex.quote(",".join(shown)) + (",…" if len(names) > len(shown) else "")


def labels_are_names(labels: Stream, classes: Sequence[str] | None) -> bool:
    """Whether labels are names of classes, not numbers of columns, as their first rows tell."""
    if any(map(is_whole_number, classes or ())):
        return True
    first = next(labels.read(), np.empty(0))
    return not all(is_whole_number(str(label)) for label in np.unique(first.astype(str)))


def unlabelled_refusal(path: Any, never: Sequence[str], labelled: Sequence[str]) -> InputError:
    """The error about columns of a table that no label names."""
    remedy = (
        f"Leave columns that are no classes out with --ignore {_typed(never)}; if they are "
        f"classes, name all with --columns {_typed([*labelled, *never])} ('{ALL}' takes all)."
    )
    fact = f"{listing(never)} in {path}, which no label names"
    return InputError("logits", "hold only classes", fact, remedy)


# What is wrong with a file


def _require_names(
    name: str, file: DataFile, wanted: Sequence[str], present: Sequence[str]
) -> None:
    times_present = Counter(present)
    for column in wanted:
        if times_present[column] != 1:
            times = "more than one column" if times_present[column] else "no column"
            fact = f"{times} {column!r} in {file.path}{_contents(file)}"
            raise InputError(name, "have one column for every class", fact)


def _contents(file: DataFile) -> str:
    return f", which holds {listing(file.names)}" if file.names else ""


def _no_rows(stream: Stream) -> InputError:
    return InputError(stream.name, "have at least one row", f"none in {stream.path}")


def _different_lengths(logits: Stream, other: Stream) -> InputError:
    def counted(stream: Stream) -> str:
        rows = stream.rows if stream.rows is not None else sum(map(len, stream.read()))
        return f"{rows:,} in {stream.path}"

    rule = f"have as many rows as {logits.name}"
    return InputError(other.name, rule, f"{counted(other)} and {counted(logits)}")
