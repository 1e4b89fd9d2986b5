"""Credal sets and columns into files of the formats .npz, .npy, .csv and .parquet.

Rows are written as they come, in constant memory but for columns of an .npz, to a temporary file
that takes the place of the real one at the end. So a failure leaves nothing half-written.
"""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.numerics import Array, Indices
from decal._base.settings import check_choice, check_count
from decal.credal import IntervalCredalSet
from decal.grids import Grid
from decal.io.formats import FORMATS, arrow, either, file_format
from decal.io.whole_files import replacing, write_npz

Append = Callable[[IntervalCredalSet], None]
"""Writes the credal sets of the next rows."""

AppendColumns = Callable[[Mapping[str, Any]], None]
"""Writes the next rows of every column."""

FORMULA = re.compile(r"'*(\s*[=+\-@]|[\t\r])")
"""How a text begins that a spreadsheet would run, or that was kept from that by apostrophes."""

NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


def check_output(
    path: Path, *, force: bool, formats: Sequence[str] = FORMATS, file_format: str | None = None
) -> None:
    """Refuse, before any work, an output that could not or should not be written.

    With `force` it may exist already. The format is the ending of its name, or `file_format`.
    """
    suffix = _suffix(path, file_format)
    if suffix not in formats:
        raise InputError("output", f"end in {either(formats)}", f"{file_format or path}")
    if not path.parent.is_dir():
        raise InputError("output", "be in a folder that exists", f"{path}", "Create it first.")
    if path.is_dir():
        raise InputError("output", "be a file", f"the folder {path}")
    if path.exists() and not force:
        raise InputError("output", "be a new file", f"{path}", "Overwrite it with --force.")


@dataclass(frozen=True)
class Written:
    """What is written of every credal set.

    Parameters
    ----------
    dtype : str
        "float64", or "float32" in half the room: bounds are then rounded outwards.
    top : int, optional
        Only of so many classes, the most probable ones; `top` holds their numbers.
    kept : bool
        No bounds, but which classes are possible.
    """

    dtype: str = "float64"
    top: int | None = None
    kept: bool = False

    def __post_init__(self) -> None:
        check_choice(self.dtype, "dtype", ("float64", "float32"))
        if self.top is not None:
            check_count(self.top, "top")
        if self.kept and (self.top is not None or self.dtype != "float64"):
            other = f"dtype {self.dtype}" if self.top is None else f"top {self.top}"
            raise InputError("kept", "go without dtype and top", other)

    def arrays(self, sets: IntervalCredalSet) -> dict[str, NDArray[Any]]:
        """Arrays with a row per input, by name; sets may have no point."""
        if self.kept:
            return {"kept": sets.possible_mask()}
        found: dict[str, NDArray[Any]] = {"lower": sets.lower, "upper": sets.upper}
        point = sets.lower if sets.point is None else sets.point
        if sets.point is not None:
            found["point"] = point
        if self.dtype == "float32":
            ends = {"lower": 0.0, "upper": 1.0}
            found = {name: _rounded(values, ends.get(name)) for name, values in found.items()}
        if self.top is None:
            return found
        order = np.argsort(-point, axis=1, kind="stable")[:, : self.top]
        found = {name: np.take_along_axis(values, order, 1) for name, values in found.items()}
        return {"top": order.astype(np.uint16 if point.shape[1] < 1 << 16 else np.int32)} | found

    def lines(self, sets: IntervalCredalSet) -> tuple[Indices, Indices, dict[str, NDArray[Any]]]:
        """Of a line per input and class: row, number of the class, and what is written of both."""
        arrays = self.arrays(sets)
        if self.kept:
            rows, classes = np.nonzero(arrays["kept"])
            return rows, classes, {}
        every = np.broadcast_to(np.arange(sets.shape[1]), sets.shape)
        top = arrays.pop("top", every)
        rows = np.repeat(np.arange(len(sets)), top.shape[1])
        return rows, top.ravel(), {name: values.ravel() for name, values in arrays.items()}


def _rounded(values: Array, towards: float | None) -> NDArray[np.float32]:
    """Numbers as float32, the nearest or, if that is on the wrong side, the next `towards`."""
    found = values.astype(np.float32)
    if towards is not None:
        wrong = found < values if towards else found > values
        found[wrong] = np.nextafter(found[wrong], np.float32(towards))
    return found


BOUNDS = Written()


@contextmanager
def credal_writer(
    path: Path,
    *,
    file_format: str | None = None,
    written: Written = BOUNDS,
    grid: Grid | None = None,
) -> Iterator[Append]:
    """A function that appends credal sets to a new file, as if they were one.

    * ``.npz``: lower, upper, point (n, K), and classes and the index if they have names.
    * ``.npy``: (n, K, 2), the lower and the upper bound; (n, K), the classes kept.
    * ``.csv``, ``.parquet``: a line per row and class: row, the index of the sets if they have
      one, class, lower, upper, point. In a .csv, names that a spreadsheet would take for formulas
      have an apostrophe before them.

    The file is there when the context is left without an error; its format is the ending of its
    name, or `file_format` with or without the dot. Arrays have the axes of a `grid`, and classes
    where it has them.
    """
    suffix = _suffix(path, file_format)
    with replacing(path) as partial:
        if suffix == ".npz":
            with _npz_members(partial, written, grid) as append:
                yield append
        elif suffix == ".npy":
            with partial.open("w+b") as file, _npy(file, grid) as append_rows:
                yield lambda sets: append_rows(_in_one(written.arrays(sets)))
        else:
            with _credal_table(
                partial, suffix, lambda *rows: _line_per_class(written, *rows)
            ) as append:
                yield append


def _in_one(arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """What an .npy holds: the classes kept, or both bounds."""
    if "kept" in arrays:
        return arrays["kept"]
    return np.stack([arrays["lower"], arrays["upper"]], axis=-1)


@contextmanager
def list_writer(path: Path, note: Mapping[str, str], written: Written = BOUNDS) -> Iterator[Append]:
    """A function that appends credal sets to a .parquet, one line per row, in a tenth of the time.

    The columns are row, and lists of K numbers: lower, upper, point; the `note` is kept in the
    metadata of the file. Callers write many files into one folder, so they call `sweep` once.
    """

    def lines(sets: IntervalCredalSet, first_row: int) -> Any:
        return _line_per_row(written, sets, first_row).replace_schema_metadata(dict(note))

    with (
        replacing(path, sweep_first=False) as partial,
        _credal_table(partial, ".parquet", lines) as append,
    ):
        yield append


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write named columns of equal length: a table, or the arrays of an .npz."""
    with column_writer(path, file_format=file_format(path)) as append:
        append({name: np.asarray(values) for name, values in columns.items()})


@contextmanager
def column_writer(path: Path, *, file_format: str | None = None) -> Iterator[AppendColumns]:
    """A function that appends rows to the columns of a new .csv or .parquet, or arrays of an .npz.

    The file and its format are as for `credal_writer`.
    """
    suffix = _suffix(path, file_format)
    with replacing(path) as partial:
        if suffix != ".npz":
            with _table(partial, suffix) as write:
                yield lambda columns: write(arrow().record_batch(dict(columns)))
            return
        held: dict[str, list[Any]] = {}

        def append(columns: Mapping[str, Any]) -> None:
            for name, values in columns.items():
                held.setdefault(name, []).append(np.asarray(values))

        yield append
        write_npz(partial, {name: np.concatenate(parts) for name, parts in held.items()})


# Arrays


@contextmanager
def _npz_members(path: Path, written: Written, grid: Grid | None) -> Iterator[Append]:
    """Appends to the members of a new .npz."""
    # Rows arrive together but members are stored one after the other: gather them in files, which
    # have no names, so that nothing of them is left if the process is killed.
    files: dict[str, IO[bytes]] = {}
    members: dict[str, Callable[[Array], None]] = {}
    names: dict[str, list[Any]] = {}
    classes: tuple[str, ...] | None = None
    with ExitStack() as gathered:
        with ExitStack() as growing:

            def append(sets: IntervalCredalSet) -> None:
                nonlocal classes
                classes = sets.classes
                for name, values in (sets.index or {}).items():
                    names.setdefault(name, []).append(values)
                for name, values in written.arrays(sets).items():
                    if name not in members:
                        file = gathered.enter_context(tempfile.TemporaryFile(dir=path.parent))
                        files[name] = file
                        members[name] = growing.enter_context(_npy(file, grid))
                    members[name](values)

            yield append
        with zipfile.ZipFile(path, "w") as archive:
            for name, file in files.items():
                file.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as opened:
                    shutil.copyfileobj(file, opened, 1 << 20)
            texts = {"classes": np.array(classes)} if classes else {}
            texts |= {name: _plain(np.concatenate(values)) for name, values in names.items()}
            for name, array in texts.items():
                with archive.open(f"{name}.npy", "w") as opened:
                    np.lib.format.write_array(opened, array, allow_pickle=False)


def _npy(
    file: IO[bytes], grid: Grid | None
) -> AbstractContextManager[Callable[[NDArray[Any]], None]]:
    """What writes the rows of a new .npy file: one after the other, or on the axes of a grid."""
    return _growing_npy(file) if grid is None else _filled_npy(file, grid)


@contextmanager
def _growing_npy(file: IO[bytes]) -> Iterator[Callable[[NDArray[Any]], None]]:
    """A function that appends rows to a new .npy file, whose header is completed at the end."""
    shape: tuple[int, ...] = ()
    kind = np.dtype("<f8")

    def append(rows: NDArray[Any]) -> None:
        nonlocal shape, kind
        if not shape:
            shape, kind = (0, *rows.shape[1:]), rows.dtype.newbyteorder("<")
            _write_header(file, kind, shape)
        file.write(rows.astype(kind).tobytes())
        shape = (shape[0] + len(rows), *shape[1:])

    yield append
    # NumPy pads the header so that it keeps its length when the first axis grows.
    _write_header(file, kind, shape)


@contextmanager
def _filled_npy(file: IO[bytes], grid: Grid) -> Iterator[Callable[[NDArray[Any]], None]]:
    """A function that puts the next rows where they belong in a new .npy file of a grid's axes."""
    (inputs,), axis = grid.shapes, grid.axis
    done = 0
    begins = 0

    def append(rows: NDArray[Any]) -> None:
        nonlocal done, begins
        kind, (K, *more) = rows.dtype.newbyteorder("<"), rows.shape[1:]
        shape = (*inputs[:axis], K, *inputs[axis:], *more)
        if not begins:
            begins = _write_header(file, kind, shape)
            file.truncate(begins + math.prod(shape) * kind.itemsize)
        whole = np.memmap(file, kind, "r+", begins, shape)
        places = np.unravel_index(np.arange(done, done + len(rows)), inputs)
        np.moveaxis(whole, axis, len(inputs))[places] = rows
        whole.flush()
        done += len(rows)

    yield append


def _write_header(file: IO[bytes], kind: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Write the first bytes of an .npy file, and return how many they are."""
    file.seek(0)
    np.lib.format.write_array_header_1_0(
        file, {"descr": kind.str, "fortran_order": False, "shape": shape}
    )
    file.flush()
    return file.tell()


# Tables


@contextmanager
def _credal_table(
    path: Path, kind: str, lines: Callable[[IntervalCredalSet, int], Any]
) -> Iterator[Append]:
    """Appends to a new table, whose lines `lines` makes from credal sets and their first row."""
    rows = 0
    with _table(path, kind) as write:

        def append(sets: IntervalCredalSet) -> None:
            nonlocal rows
            write(lines(sets, rows))
            rows += len(sets)

        yield append


@contextmanager
def _table(path: Path, kind: str) -> Iterator[Callable[[Any], None]]:
    """A function that appends Arrow record batches to a new .csv or .parquet file."""
    with ExitStack() as stack:
        writer: Any = None

        def write(batch: Any) -> None:
            nonlocal writer
            if writer is None:  # the first batch tells the columns
                begin = _parquet_writer if kind == ".parquet" else _csv_writer
                writer = stack.enter_context(begin(path, batch.schema))
            writer.write_batch(batch if kind == ".parquet" else _without_formulas(batch))

        yield write


@contextmanager
def _parquet_writer(path: Path, schema: Any) -> Iterator[Any]:
    pa = arrow()
    # Bounds hardly repeat: a dictionary of them takes time and room. Names do.
    repeat = [field.name for field in schema if pa.types.is_string(field.type)]
    with pa.parquet.ParquetWriter(path, schema, use_dictionary=repeat) as writer:
        yield writer


@contextmanager
def _csv_writer(path: Path, schema: Any) -> Iterator[Any]:
    pa = arrow()
    header = io.StringIO(newline="")
    csv.writer(header, lineterminator="\n").writerow(schema.names)  # pyarrow would quote them all
    options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
    with open(path, "wb") as file:
        file.write(header.getvalue().encode())
        with pa.csv.CSVWriter(file, schema, write_options=options) as writer:
            yield writer


def _without_formulas(batch: Any) -> Any:
    """The same with an apostrophe before every text that a spreadsheet would take for a formula."""
    pa = arrow()
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        columns[name] = column
        if pa.types.is_string(column.type):
            texts = column.dictionary_encode()  # names repeat
            safe = pa.array([_harmless(text) for text in texts.dictionary.to_pylist()], pa.string())
            columns[name] = pa.DictionaryArray.from_arrays(texts.indices, safe).cast(pa.string())
    return pa.record_batch(columns)


def _harmless(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def _line_per_class(written: Written, sets: IntervalCredalSet, first_row: int) -> Any:
    """A record batch of row, class, lower, upper, point; a line for every row and class."""
    pa = arrow()
    names = pa.array(sets.classes or [str(k) for k in range(sets.shape[1])])
    rows, classes, values = written.lines(sets)
    columns: dict[str, Any] = {"row": first_row + rows}
    columns |= {k: pa.array(v).take(rows) for k, v in (sets.index or {}).items()}
    named = pa.DictionaryArray.from_arrays(classes.astype(np.int32), names)
    return pa.record_batch(columns | {"class": named.cast(pa.string())} | values)


def _line_per_row(written: Written, sets: IntervalCredalSet, first_row: int) -> Any:
    """A record batch of row, and of lists of numbers lower, upper, point."""
    pa = arrow()
    n = len(sets)
    columns: dict[str, Any] = {"row": np.arange(first_row, first_row + n)} | dict(sets.index or {})
    for name, values in written.arrays(sets).items():
        lists = pa.array(values.ravel()), values.shape[1]
        columns[name] = pa.FixedSizeListArray.from_arrays(*lists)
    return pa.record_batch(columns)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Objects as text: an .npz without pickle holds none."""
    return values.astype(str) if values.dtype.kind in "OT" else values


def _suffix(path: Path, file_format: str | None) -> str:
    return path.suffix.lower() if file_format is None else f".{file_format.lower().lstrip('.')}"
