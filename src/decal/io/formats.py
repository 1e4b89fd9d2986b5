"""The formats .npz, .npy, .csv, .parquet and Arrow, read as streams of blocks of rows.

Reading takes constant memory, but for arrays of an .npz stored column by column (Fortran order),
which are loaded whole; an .npy is mapped, a block of rows at a time.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, TablePlace, is_whole_number, listing, needs
from decal._base.numerics import row_blocks
from decal._base.row_checks import check_class_names
from decal.io import gate

TABLES = (".csv", ".parquet")
FORMATS = (".npz", ".npy", *TABLES)  # the formats that decal writes

ARROW = (".feather", ".arrow")
"""Arrow's own files: .feather is the file format, .arrow that or the stream format."""

READABLE = (*FORMATS, *ARROW)

CHUNK_ELEMENTS = 1 << 21  # numbers per chunk: 16 MB of float64

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")

DECIMAL_ADVICE = "Write decimals with a point."

IGNORE_ADVICE = "Leave out columns that are not classes with --ignore."

Block = NDArray[Any]


@dataclass(frozen=True)
class DataFile:
    """A file that was opened, and what it holds. None of its numbers is read yet."""

    path: Path
    format: str  # the ending that tells it, such as ".npz"
    names: tuple[str, ...] = ()  # keys of an .npz, or columns of a table
    types: Mapping[str, Any] = field(default_factory=dict)  # of Parquet and Arrow, by column
    rows: int | None = None  # where they are known in advance
    archive: gate.Archive | None = None  # of an .npz, open so that its members can be read

    @property
    def is_table(self) -> bool:
        """Whether it has columns, not arrays."""
        return self.format in (*TABLES, *ARROW)

    def close(self) -> None:
        """Close the archive, if there is one. Streams of its members can be read no more."""
        if self.archive is not None:
            self.archive.close()


@dataclass(frozen=True)
class Stream:
    """One array of a file, read a block of rows at a time."""

    name: str  # what messages call it
    path: Path
    rows: int | None  # None where only reading to the end tells
    width: int  # 1 for a vector
    columns: tuple[str, ...] | None  # the names of a matrix's columns, where the file has names
    blocks: Callable[[int], Iterator[Block]]  # of the rows from this one on
    grid: tuple[int, ...] | None = None  # the axes that the rows are made of, if there are several
    axis: int = -1  # that of the classes, among them

    def read(self, start: int = 0) -> Iterator[Block]:
        """Consecutive blocks of rows, from row `start` on."""
        return self.blocks(start)

    def place(self, first_row: int) -> TablePlace:
        """Where a block stands that begins at this row."""
        lines = file_format(self.path) == ".csv"
        return TablePlace(first_row, source=f"{self.path}", lines=lines, columns=self.columns)


def arrow() -> Any:
    """The module pyarrow, imported when first needed; its import takes longer than decal's."""
    message = ".csv, .parquet and Arrow files need pyarrow: pip install 'decal[cli]'"
    with needs("pyarrow", message=message):
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.compute  # type: ignore[import-untyped]
        import pyarrow.csv  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    return pyarrow


# Opening


def open_file(path: Path) -> DataFile:
    """Open a file once, to learn what it holds."""
    kind = file_format(path)
    if kind == ".npz":
        with _intact("arrays", path):
            archive = gate.Archive(path)
        return DataFile(path, kind, archive.names, archive=archive)
    if kind == ".npy":
        return DataFile(path, kind)
    if kind == ".csv":
        return DataFile(path, kind, _csv_header(path))
    with _intact("columns", path):
        if kind == ".parquet":
            with arrow().parquet.ParquetFile(path) as opened:
                schema, rows = opened.schema_arrow, opened.metadata.num_rows
        else:
            schema, rows = _arrow_schema(path)
        names = tuple(schema.names)  # may be no text
    return DataFile(path, kind, names, dict(zip(names, schema.types, strict=True)), rows)


def _csv_header(path: Path) -> tuple[str, ...]:
    with _intact("columns", path), open(path, encoding="utf-8-sig", newline="") as opened:
        first, second = opened.readline(1 << 16), opened.readline(1 << 16)  # a line may be long
        opened.seek(0)
        names = tuple(next(csv.reader(opened), ()))
    if len(names) == 1:
        _require_commas(path, first, second)
    # Class names may be whole numbers, but fractions are the first row of data.
    if not names or (all(map(_is_number, names)) and not all(map(is_whole_number, names))):
        got = listing(names) if names else "nothing"
        raise InputError(str(path), "start with a line of column names", got, "Add it.")
    return names


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _require_commas(path: Path, first: str, second: str) -> None:
    """ValueError if a line of names and a line of numbers look separated by something else."""
    for separator, called in {";": "semicolons", "\t": "tabs", "|": "bars"}.items():
        if separator in first and second.count(separator) == first.count(separator):
            old, new = (",", ".") if DECIMAL_COMMA.search(second) else ("", "")
            mark = "\\t" if separator == "\t" else separator
            tr = f"tr '{old}{mark}' '{new},' < {shlex.quote(str(path))} > with_commas.csv"
            remedy = f"Convert it first, for instance: {tr}"
            raise InputError(str(path), "have commas between its columns", called, remedy)


def _arrow_schema(path: Path) -> tuple[Any, int | None]:
    with _arrow_reader(path) as reader:
        if not hasattr(reader, "get_batch"):  # a stream, whose length only its end tells
            return reader.schema, None
        import pyarrow.dataset  # type: ignore[import-untyped]

        return reader.schema, pyarrow.dataset.dataset(path, format="ipc").count_rows()


def file_format(path: Path) -> str:
    """The format that a name's ending tells."""
    suffix = path.suffix.lower()
    if suffix not in READABLE:
        raise InputError("a file", f"end in {either(READABLE)}", str(path))
    return suffix


def either(names: Sequence[str]) -> str:
    """Alternatives in a message, such as "a, b or c"."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def is_list(kind: Any) -> bool:
    """Whether a column of this Arrow type holds lists."""
    types = arrow().types
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def is_numeric(kind: Any) -> bool:
    """Whether a column of this Arrow type holds numbers."""
    types = arrow().types
    return bool(types.is_floating(kind) or types.is_integer(kind))


# Arrays


def _require_axes(
    name: str, shape: tuple[int, ...], what: str, dimensions: int, dim: int | None
) -> None:
    """InputError about an array with too few axes, or with more than are said to be there."""
    if len(shape) < dimensions or (dim is None and len(shape) > dimensions):
        kind = "a matrix with a column per class" if dimensions == 2 else "a vector"
        many = "Of more axes, say with --dim which holds the classes." if len(shape) > 2 else ""
        raise InputError(name, f"be {kind}", f"shape {shape} in {what}", many)
    if dim is not None and dimensions == 2 and not -len(shape) <= dim < len(shape):
        raise InputError("dim", f"be an axis of {what}", f"{dim} for shape {shape}")


def open_array(
    name: str, file: DataFile, key: str | None, *, dimensions: int, dim: int | None = None
) -> Stream:
    """An .npy file, or the member `key` of an .npz.

    With `dim`, the axis of the classes of a matrix, every other axis, of a vector too, is of rows.
    """
    path, archive = file.path, file.archive

    def member() -> AbstractContextManager[IO[bytes]]:
        return open(path, "rb") if archive is None else archive.open(str(key))

    with _intact(name, path), member() as opened:
        size = gate.length(opened) if archive is None else archive.size(str(key))
        header = gate.read_header(opened, size)
        start_of_numbers = size - header.size
    shape, dtype = header.shape, header.dtype
    by_columns = header.fortran and len(shape) > 1
    what = f"{path}, key {key}" if key else str(path)
    _require_axes(name, shape, what, dimensions, dim)
    if dtype.kind not in ("iufbU" if name in ("labels", "id") else "iufb"):
        raise InputError(name, "be numbers", f"dtype {dtype} in {what}")
    width = math.prod(shape[1:])
    row_bytes = width * dtype.itemsize
    if archive is not None and key:
        with _intact(name, path):
            held = header.size if by_columns else row_bytes
            gate.require_modest(held, archive.packed_size(key))

    def row_slices(start: int) -> Iterator[slice]:
        # Texts may be long: as many bytes at once as of numbers.
        elements = CHUNK_ELEMENTS * 8 // max(8, dtype.itemsize)
        return row_blocks(shape[0] - start, width, elements)

    def mapped(start: int) -> Iterator[Block]:
        for rows in row_slices(start):
            with _intact(name, path):
                whole = np.memmap(path, dtype, "r", start_of_numbers, shape, "F")
                block = np.array(whole[start + rows.start : start + rows.stop], order="C")
                del whole  # a map kept open would count its pages as memory of this process
            yield block

    def whole(start: int) -> Iterator[Block]:
        with _intact(name, path), member() as opened:
            yield gate.read_array(opened, size)[start:]

    def in_order(start: int) -> Iterator[Block]:
        with _intact(name, path), member() as opened:
            opened.seek(start_of_numbers + start * row_bytes)
            for rows in row_slices(start):
                count = rows.stop - rows.start
                data = gate.read_exactly(opened, count * row_bytes)
                yield np.frombuffer(data, dtype).reshape(count, *shape[1:])

    axis = None if dimensions == 1 else 1 if dim is None else dim % len(shape)
    classes = 1 if axis is None else shape[axis]
    columns = None
    if dimensions == 2 and key and "classes" in file.names:
        columns = _class_names(file, classes)
    read = in_order if not by_columns else whole if key else mapped
    stream = Stream(name, path, shape[0], classes, columns, read)
    return stream if dim is None else _in_rows(stream, shape, axis)


def _in_rows(stream: Stream, shape: tuple[int, ...], axis: int | None) -> Stream:
    """Rows of an array with more axes, one of which may hold the classes.

    If that is the first, the array is loaded whole; else some entries of the first at a time.
    """
    grid = tuple(n for i, n in enumerate(shape) if i != axis)
    width = () if axis is None else (stream.width,)

    def in_rows(block: Block) -> Block:
        block = block if axis is None else np.moveaxis(block, axis, -1)
        return block.reshape(-1, *width)

    def blocks(start: int) -> Iterator[Block]:
        if axis == 0:
            yield in_rows(np.concatenate([*stream.read()]))[start:]
            return
        first, skipped = divmod(start, max(1, math.prod(grid[1:])))
        for block in stream.read(first):
            yield in_rows(block)[skipped:]
            skipped = 0

    place = -1 if axis is None else axis
    return replace(stream, rows=math.prod(grid), blocks=blocks, grid=grid, axis=place)


def along(stream: Stream, grid: tuple[int, ...] | None) -> Stream:
    """Values of rows, or of the first axes of their grid, each of them for all rows there."""
    if grid is None or stream.grid is None:
        return stream
    if stream.grid == (math.prod(grid),):
        return replace(stream, grid=None)
    if stream.grid != grid[: len(stream.grid)]:
        return stream
    times = math.prod(grid[len(stream.grid) :])

    def blocks(start: int) -> Iterator[Block]:
        first, skipped = divmod(start, max(1, times))
        for block in stream.read(first):
            for value in block:
                yield np.repeat(value, times)[skipped:]
                skipped = 0

    return replace(stream, rows=math.prod(grid), blocks=blocks, grid=grid)


def _class_names(file: DataFile, count: int) -> tuple[str, ...] | None:
    """The names that an .npz gives the columns of its logits."""
    assert file.archive is not None
    with _intact("classes", file.path):
        names = file.archive.read("classes")
        if names.ndim != 1:
            raise ValueError(f"it holds classes of shape {names.shape}")
    return check_class_names(names.tolist(), count)


def load_array(name: str, file: DataFile, key: str | None) -> NDArray[Any]:
    """All of an .npy file, or of the member `key` of an .npz."""
    with _intact(name, file.path):
        if file.archive is not None:
            return file.archive.read(str(key))
        with open(file.path, "rb") as opened:
            return gate.read_array(opened, gate.length(opened))


# Tables


def open_table(
    name: str, file: DataFile, columns: tuple[str, ...], *, text: bool = False
) -> Stream:
    """Columns of a table, as numbers or as text, side by side."""
    if file.types and not text and file.rows != 0:  # an empty column may have no type
        for column in columns:
            if not is_numeric(file.types[column]):
                fact = f"type {file.types[column]} in {file.path}, column {column}"
                raise InputError(name, "be numbers", fact, IGNORE_ADVICE)

    def read(start: int) -> Iterator[Block]:
        for batch in _batches(name, file, columns, len(columns), start, text=text):
            yield np.column_stack([_to_numpy(batch.column(column)) for column in columns])

    return Stream(name, file.path, file.rows, len(columns), columns, read)


def open_lists(name: str, file: DataFile, column: str) -> Stream:
    """A column of a .parquet or Arrow file that holds, in every row, a list of numbers."""
    path, kind = file.path, file.types[column]
    if not is_list(kind) or not is_numeric(kind.value_type):
        fact = f"type {kind} in {path}, column {column}"
        raise InputError(name, "be lists of numbers", fact)
    width, rows = getattr(kind, "list_size", None), file.rows
    if width is None:  # lists of any length: the first row tells
        first = next(_batches(name, file, (column,), CHUNK_ELEMENTS), None)
        if first is None:
            width = rows = 0
        else:
            width = int(_lengths(first.column(column))[0])

    def read(start: int) -> Iterator[Block]:
        row = start
        for batch in _batches(name, file, (column,), width, start):
            lengths = _lengths(batch.column(column))
            if (lengths != width).any():
                wrong = int(np.argmax(lengths != width))
                fact = f"{lengths[wrong]} {stream.place(row).row(wrong)}"
                raise InputError(name, f"have {width} numbers in every row", fact)
            yield _to_numpy(batch.column(column).flatten()).reshape(-1, width)
            row += len(batch)

    stream = Stream(name, path, rows, width, None, read)
    return stream


def _lengths(lists: Any) -> NDArray[np.int64]:
    """The length of every list; 0 for a missing list."""
    lengths = arrow().compute.list_value_length(lists).fill_null(0)
    return np.asarray(_to_numpy(lengths), np.int64)


def _to_numpy(values: Any) -> NDArray[Any]:
    """An Arrow array in NumPy. Arrow's own way imports pandas first, which takes half a second."""
    found: NDArray[Any]
    types = arrow().types
    text = types.is_string(values.type) or types.is_large_string(values.type)
    if values.null_count or not (text or is_numeric(values.type)):
        found = values.to_numpy(zero_copy_only=False)
    elif text:
        words = values.dictionary_encode()
        found = np.array(words.dictionary.to_pylist(), dtype=object)
        found = found[np.from_dlpack(words.indices)]
    else:
        found = np.from_dlpack(values)
    return found


def _batches(
    name: str,
    file: DataFile,
    columns: Sequence[str],
    width: int,
    start: int = 0,
    *,
    text: bool = False,
) -> Iterator[Any]:
    """Record batches of these columns, from row `start` on, of about CHUNK_ELEMENTS numbers."""
    if file.format == ".csv":
        found = _csv_batches(name, file, columns, text)
    else:
        # Few rows at once, however narrow: labels may be text, which takes room.
        rows = max(1, min(1 << 16, CHUNK_ELEMENTS // max(1, width)))
        read = _parquet_batches if file.format == ".parquet" else _arrow_batches
        found = read(name, file.path, columns, start, rows)
        start = 0
    pa = arrow()
    for batch in found:
        skipped = min(start, len(batch))
        start -= skipped
        rest = batch.slice(skipped)
        if text:
            texts = [column.cast(pa.string()).fill_null("") for column in rest.columns]
            rest = pa.record_batch(texts, names=rest.schema.names)
        if len(rest):
            yield rest


def _arrow_batches(
    name: str, path: Path, columns: Sequence[str], start: int, rows: int
) -> Iterator[Any]:
    with _intact(name, path), _arrow_reader(path, columns) as reader:
        count = getattr(reader, "num_record_batches", None)
        batches = reader if count is None else map(reader.get_batch, range(count))
        for batch in batches:
            batch.validate(full=True)  # flipped bits can point anywhere in memory
            for first in range(start, len(batch), rows):
                yield batch.slice(first, rows)
            start = max(0, start - len(batch))


def _parquet_batches(
    name: str, path: Path, columns: Sequence[str], start: int, rows: int
) -> Iterator[Any]:
    # Bytes buffered per column: without a buffer, a whole row group is held.
    options = {"pre_buffer": False, "buffer_size": 1 << 16, "page_checksum_verification": True}
    with _intact(name, path), arrow().parquet.ParquetFile(path, **options) as opened:
        groups = list(range(opened.metadata.num_row_groups))
        while groups and start >= opened.metadata.row_group(groups[0]).num_rows:
            start -= opened.metadata.row_group(groups.pop(0)).num_rows
        if not groups:
            return
        for batch in opened.iter_batches(rows, row_groups=groups, columns=columns):
            batch.validate(full=True)
            yield batch.slice(min(start, len(batch)))
            start = max(0, start - len(batch))


@contextmanager
def _arrow_reader(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """A reader of Arrow's file format or of its stream format, whichever the file has."""
    pa = arrow()
    # Read, not mapped: a mapped file that another program cuts short would end this process.
    with pa.OSFile(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        open_ = pa.ipc.open_file if is_file else pa.ipc.open_stream
        with open_(source) as reader:
            if columns is None:
                yield reader
                return
            fields = [reader.schema.get_field_index(column) for column in columns]
        source.seek(0)
        with open_(source, options=pa.ipc.IpcReadOptions(included_fields=fields)) as reader:
            yield reader


def _csv_batches(name: str, file: DataFile, columns: Sequence[str], text: bool) -> Iterator[Any]:
    pa, path = arrow(), file.path
    # pyarrow needs blocks that hold the header and a row: of wide tables these are long.
    block = max(1 << 20, 64 * len(file.names) + 2 * sum(map(len, file.names)))
    # One thread, because only then do pyarrow's messages name the row.
    reading = pa.csv.ReadOptions(use_threads=False, block_size=block)
    types = dict.fromkeys(columns, pa.string() if text else pa.float64())
    converting = pa.csv.ConvertOptions(include_columns=columns, column_types=types)
    try:
        yield from pa.csv.open_csv(path, read_options=reading, convert_options=converting)
    except pa.ArrowInvalid as error:
        cell = re.search(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", str(error))
        if cell is None:
            more = re.search(r"Expected (\d+) columns, got (\d+): (.*)", str(error), re.DOTALL)
            hint = ""
            if more and int(more[2]) > int(more[1]) and "." not in more[3]:
                hint = f"If a comma stands for the decimal point: {DECIMAL_ADVICE}"
            raise InputError(name, "be in intact rows", f"{path} ({error})", hint) from error
        column, line, value = file.names[int(cell[1])], cell[2], cell[3]
        advice = DECIMAL_ADVICE if DECIMAL_COMMA.fullmatch(value) else IGNORE_ADVICE
        fact = f"{value!r} in {path}, line {line}, column {column}"
        raise InputError(name, "be numbers", fact, advice) from error


def _intact(name: str, path: Path) -> AbstractContextManager[None]:
    """A context that turns the many errors that a damaged file causes into one message."""
    rule = f"be in an intact {path.suffix.lower()} file"
    return gate.intact(path, lambda reason: InputError(name, rule, f"{path} ({reason})"))
