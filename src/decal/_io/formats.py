"""The formats .npz, .npy, .csv, .parquet and Arrow: streams of blocks of rows, in and out.

Reading takes constant memory, but for arrays of an .npz stored column by column (Fortran order),
which are loaded whole; an .npy is mapped, a block of rows at a time. Writing goes to a temporary
file that takes the place of the real one at the end, so that a failure leaves nothing half-written.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import check_class_names
from decal._base.numerics import Array, row_blocks

FORMATS = (".npz", ".npy", ".csv", ".parquet")
"""What is written."""

TABLES = (".csv", ".parquet")
ARROW = (".feather", ".arrow")
"""Arrow's own files: .feather is the file format, .arrow that or the stream format."""

READABLE = (*FORMATS, *ARROW)
READABLE_TABLES = (*TABLES, *ARROW)

CHUNK_ELEMENTS = 1 << 21
"""Numbers per chunk: 16 MB of float64."""

NAMES_SHOWN = 12
"""Keys, columns or classes listed in a message."""

MOST_ROWS = 1 << 16
"""Rows of a table read at once, however narrow it is: labels may be text, which takes room."""

READ_BUFFER = 1 << 16
"""Bytes buffered per column of a .parquet file; without, a whole row group would be held."""

IGNORE_ADVICE = "Leave out columns that are not classes with --ignore."

Block = NDArray[Any]


@dataclass(frozen=True)
class Stream:
    """One array of a file, read a block of rows at a time.

    Attributes
    ----------
    name : what messages call it.
    path : the file.
    rows : their number, or None where the format only tells at the end.
    width : the number of columns of a matrix; 1 for a vector.
    columns : the names of a matrix's columns, where the file has names.
    blocks : starts reading at a row: an iterator of consecutive blocks of rows.
    """

    name: str
    path: Path
    rows: int | None
    width: int
    columns: tuple[str, ...] | None
    blocks: Callable[[int], Iterator[Block]]

    def read(self, start: int = 0) -> Iterator[Block]:
        """Consecutive blocks of rows, from row `start` on."""
        return self.blocks(start)

    def place(self, row: int, column: int | None = None) -> str:
        """Where a number stands: the line of a .csv, the row counted from 0 of other files."""
        where = f"line {row + 2}" if file_format(self.path) == ".csv" else f"row {row}"
        if column is None:
            return f"{self.path}, {where}"
        return f"{self.path}, {where}, column {self.columns[column] if self.columns else column}"


def arrow() -> Any:
    """The module pyarrow, imported when first needed; its import takes longer than decal's."""
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.compute  # type: ignore[import-untyped]
        import pyarrow.csv  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ImportError(
            ".csv, .parquet and Arrow files need pyarrow: pip install 'decal[cli]'"
        ) from error
    return pyarrow


# Reading


def open_array(name: str, path: Path, key: str | None, *, dimensions: int) -> Stream:
    """An .npy file, or the member `key` of an .npz."""
    with _intact(name, path), _npy_file(path, key) as file:
        shape, fortran, dtype = _npy_header(file)
    what = f"{path}, key {key}" if key else str(path)
    if len(shape) != dimensions:
        kind = "a matrix with a column per class" if dimensions == 2 else "a vector"
        raise ValueError(f"{name} must be {kind}: got shape {shape} in {what}.")
    if dtype.kind not in ("iufbU" if name == "labels" else "iufb"):
        raise ValueError(f"{name} must be numbers: got dtype {dtype} in {what}.")
    width = math.prod(shape[1:])

    def mapped(start: int) -> Iterator[Block]:
        for rows in row_blocks(shape[0] - start, width, CHUNK_ELEMENTS):
            with _intact(name, path):
                whole = np.load(path, mmap_mode="r", allow_pickle=False)
                block = np.array(whole[start + rows.start : start + rows.stop], order="C")
                del whole  # a map kept open would count its pages as memory of this process
            yield block

    def member(start: int) -> Iterator[Block]:
        with _intact(name, path), _npy_file(path, key) as file:
            if fortran and dimensions > 1:
                yield np.lib.format.read_array(file, allow_pickle=False)[start:]
                return
            _npy_header(file)
            file.seek(start * width * dtype.itemsize, os.SEEK_CUR)
            for rows in row_blocks(shape[0] - start, width, CHUNK_ELEMENTS):
                count = rows.stop - rows.start
                data = file.read(count * width * dtype.itemsize)
                if len(data) < count * width * dtype.itemsize:
                    raise EOFError("it ends too early")
                yield np.frombuffer(data, dtype).reshape(count, *shape[1:])

    columns = None
    if dimensions == 2 and key and "classes" in names_in(path):
        with _intact("classes", path), np.load(path, allow_pickle=False) as archive:
            names = archive["classes"].tolist()
        columns = check_class_names(names, width)
    return Stream(name, path, shape[0], width, columns, member if key else mapped)


def open_table(name: str, path: Path, columns: tuple[str, ...], *, text: bool = False) -> Stream:
    """Columns of a table, as numbers or as text, side by side."""
    rows = None
    if file_format(path) != ".csv":
        types, rows = _described(name, path)
        for column in columns:
            if not (text or _is_numeric(types[column])):
                raise ValueError(
                    f"{name} must be numbers: got type {types[column]} in {path}, "
                    f"column {column}. " + IGNORE_ADVICE
                )

    def read(start: int) -> Iterator[Block]:
        for batch in _batches(name, path, columns, len(columns), start, text=text):
            yield np.column_stack(
                [batch.column(column).to_numpy(zero_copy_only=False) for column in columns]
            )

    return Stream(name, path, rows, len(columns), columns, read)


def open_lists(name: str, path: Path, column: str) -> Stream:
    """A column of a .parquet or Arrow file that holds, in every row, a list of numbers."""
    types, rows = _described(name, path)
    kind = types[column]
    if not is_list(kind) or not _is_numeric(kind.value_type):
        raise ValueError(
            f"{name} must be lists of numbers: got type {kind} in {path}, column {column}."
        )
    width = getattr(kind, "list_size", None)
    if width is None:  # lists of any length: the first row tells
        first = next(_batches(name, path, (column,), CHUNK_ELEMENTS), None)
        width = 0 if first is None else int(_lengths(first.column(column))[0])

    def read(start: int) -> Iterator[Block]:
        row = start
        for batch in _batches(name, path, (column,), width, start):
            lengths = _lengths(batch.column(column))
            if (lengths != width).any():
                wrong = int(np.argmax(lengths != width))
                raise ValueError(
                    f"{name} must have {width} numbers in every row: got {lengths[wrong]} "
                    f"in {stream.place(row + wrong)}."
                )
            yield batch.column(column).flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
            row += len(batch)

    stream = Stream(name, path, rows, width, None, read)
    return stream


def _lengths(lists: Any) -> NDArray[np.int64]:
    """Length of every list; 0 where there is none."""
    lengths = arrow().compute.list_value_length(lists).fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def is_list(kind: Any) -> bool:
    """Whether a column of this Arrow type holds lists."""
    types = arrow().types
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def _is_numeric(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_floating(kind) or types.is_integer(kind))


def regroup(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows in blocks of equal length; the last may be shorter."""
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


@contextmanager
def _npy_file(path: Path, key: str | None) -> Iterator[IO[bytes]]:
    if key is None:
        with open(path, "rb") as file:
            yield file
    else:
        with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as member:
            yield member


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    if np.lib.format.read_magic(file) == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def column_types(path: Path) -> dict[str, Any]:
    """The Arrow type of every column of a .parquet or Arrow file."""
    return _described("columns", path)[0]


def _described(name: str, path: Path) -> tuple[dict[str, Any], int | None]:
    """Types of the columns, and the number of rows if the file tells it in advance."""
    with _intact(name, path):
        if file_format(path) == ".parquet":
            with arrow().parquet.ParquetFile(path) as file:
                schema, rows = file.schema_arrow, file.metadata.num_rows
        else:
            with _arrow_reader(path) as reader:
                schema = reader.schema
                rows = None
                if hasattr(reader, "get_batch"):
                    import pyarrow.dataset  # type: ignore[import-untyped]

                    rows = pyarrow.dataset.dataset(path, format="ipc").count_rows()
        return dict(zip(schema.names, schema.types, strict=True)), rows


def _batches(
    name: str, path: Path, columns: Sequence[str], width: int, start: int = 0, *, text: bool = False
) -> Iterator[Any]:
    """Record batches of these columns, from row `start` on, of about CHUNK_ELEMENTS numbers."""
    if file_format(path) == ".csv":
        found = _csv_batches(name, path, columns, text)
    else:
        rows = max(1, min(MOST_ROWS, CHUNK_ELEMENTS // max(1, width)))
        found = _arrow_batches(name, path, columns, start, rows)
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
    pa = arrow()
    if file_format(path) != ".parquet":
        with _intact(name, path), _arrow_reader(path, columns) as reader:
            count = getattr(reader, "num_record_batches", None)
            batches = reader if count is None else map(reader.get_batch, range(count))
            for batch in batches:
                for first in range(start, len(batch), rows):
                    yield batch.slice(first, rows)
                start = max(0, start - len(batch))
        return
    options = {"pre_buffer": False, "buffer_size": READ_BUFFER, "page_checksum_verification": True}
    with _intact(name, path), pa.parquet.ParquetFile(path, **options) as file:
        groups = list(range(file.metadata.num_row_groups))
        while groups and start >= file.metadata.row_group(groups[0]).num_rows:
            start -= file.metadata.row_group(groups.pop(0)).num_rows
        for batch in file.iter_batches(rows, row_groups=groups, columns=columns) if groups else ():
            yield batch.slice(min(start, len(batch)))
            start = max(0, start - len(batch))


@contextmanager
def _arrow_reader(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """A reader of Arrow's file format or, where the file is of that, its stream format."""
    pa = arrow()
    with pa.memory_map(str(path)) as source:
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


def _csv_batches(name: str, path: Path, columns: Sequence[str], text: bool) -> Iterator[Any]:
    pa = arrow()
    # One thread, because only then do pyarrow's messages name the row.
    reading = pa.csv.ReadOptions(use_threads=False)
    types = dict.fromkeys(columns, pa.string() if text else pa.float64())
    converting = pa.csv.ConvertOptions(include_columns=columns, column_types=types)
    try:
        yield from pa.csv.open_csv(path, read_options=reading, convert_options=converting)
    except pa.ArrowInvalid as error:
        cell = re.search(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", str(error))
        if cell is None:
            raise ValueError(f"{name} must be in intact rows: got {path} ({error}).") from error
        column, line, value = names_in(path)[int(cell[1])], cell[2], cell[3]
        raise ValueError(
            f"{name} must be numbers: got {value!r} in {path}, line {line}, column {column}. "
            + IGNORE_ADVICE
        ) from error


@contextmanager
def _intact(name: str, path: Path) -> Iterator[None]:
    """Turns the many ways in which a damaged file shows into one message."""
    try:
        yield
    except Exception as error:
        known = isinstance(error, ValueError | EOFError | zipfile.BadZipFile | zlib.error)
        # pyarrow reports damage as an OSError that no operating system knows.
        known |= isinstance(error, OSError) and error.errno is None
        if not known and not type(error).__module__.startswith("pyarrow"):
            raise
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{name} must be in an intact {file_format(path)} file: got {path} ({reason})."
        ) from error


# Names


def file_format(path: Path) -> str:
    """The format that a name's ending tells."""
    suffix = path.suffix.lower()
    if suffix not in READABLE:
        raise ValueError(f"a file must end in {either(READABLE)}: got {path}.")
    return suffix


def names_in(path: Path) -> tuple[str, ...]:
    """The keys of an .npz, the columns of a table, nothing for an .npy."""
    kind = file_format(path)
    if kind == ".npz":
        with _intact("arrays", path), zipfile.ZipFile(path) as archive:
            return tuple(name.removesuffix(".npy") for name in archive.namelist())
    if kind == ".parquet":
        with _intact("columns", path), arrow().parquet.ParquetFile(path) as file:
            return tuple(file.schema_arrow.names)
    if kind in ARROW:
        with _intact("columns", path), _arrow_reader(path) as reader:
            return tuple(reader.schema.names)
    if kind == ".csv":
        with _intact("columns", path), open(path, encoding="utf-8-sig", newline="") as file:
            names = tuple(next(csv.reader(file), ()))
        # Class names may be whole numbers, but fractions are the first row of data.
        if all(map(_is_number, names)) and not (names and all(map(is_whole, names))):
            got = listing(names) if names else "nothing"
            raise ValueError(f"{path} must start with a line of column names: got {got}. Add it.")
        return names
    return ()


def listing(names: Sequence[str]) -> str:
    """Names in a message, not too many of them."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def either(names: Sequence[str]) -> str:
    """One, two or three."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def is_whole(name: str) -> bool:
    """Whether a name is a whole number."""
    return re.fullmatch(r"[+-]?\d+", name.strip()) is not None


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


# Writing


@contextmanager
def growing_npy(path: Path) -> Iterator[Callable[[Array], None]]:
    """A function that appends rows to a new .npy file, whose header is completed at the end."""
    shape: tuple[int, ...] = ()

    def write_header() -> None:
        file.seek(0)
        # NumPy pads the header so that it keeps its length when the first axis grows.
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": shape}
        )

    def append(rows: Array) -> None:
        nonlocal shape
        if not shape:
            shape = (0, *rows.shape[1:])
            write_header()
        file.write(rows.astype("<f8").tobytes())
        shape = (shape[0] + len(rows), *shape[1:])

    with open(path, "wb") as file:
        yield append
        write_header()


def write_batches(path: Path, kind: str, batches: Iterator[Any]) -> None:
    """Write Arrow record batches, at least one, to a .csv or .parquet file."""
    pa = arrow()
    first = next(batches)
    schema = first.schema
    if kind == ".parquet":
        # Bounds hardly repeat: a dictionary of them takes time and room. Names do.
        repeat = [field.name for field in schema if pa.types.is_string(field.type)]
        with pa.parquet.ParquetWriter(path, schema, use_dictionary=repeat) as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)
        return
    header = io.StringIO(newline="")
    csv.writer(header, lineterminator="\n").writerow(schema.names)  # pyarrow would quote them all
    options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
    with open(path, "wb") as file:
        file.write(header.getvalue().encode())
        with pa.csv.CSVWriter(file, schema, write_options=options) as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)
