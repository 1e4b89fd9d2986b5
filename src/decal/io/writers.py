"""Credal sets and columns into files of the formats .npz, .npy, .csv and .parquet.

Rows are written as they come, in constant memory but for columns of an .npz, to a temporary file
that takes the place of the real one at the end. So a failure leaves nothing half-written.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.numerics import Array
from decal.credal import IntervalCredalSet
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


@contextmanager
def credal_writer(path: Path, *, file_format: str | None = None) -> Iterator[Append]:
    """A function that appends credal sets to a new file, as if they were one.

    * ``.npz``: lower, upper, point (n, K), and classes and the index if they have names.
    * ``.npy``: (n, K, 2), the lower and the upper bound.
    * ``.csv``, ``.parquet``: a line per row and class: row, the index of the sets if they have
      one, class, lower, upper, point. In a .csv, names that a spreadsheet would take for formulas
      have an apostrophe before them.

    The file is there when the context is left without an error; its format is the ending of its
    name, or `file_format` with or without the dot.
    """
    suffix = _suffix(path, file_format)
    with replacing(path) as partial:
        if suffix == ".npz":
            with _npz_members(partial) as append:
                yield append
        elif suffix == ".npy":
            with partial.open("wb") as file, _growing_npy(file) as append_rows:
                yield lambda sets: append_rows(np.stack([sets.lower, sets.upper], axis=-1))
        else:
            with _credal_table(partial, suffix, _line_per_class) as append:
                yield append


@contextmanager
def list_writer(path: Path, note: Mapping[str, str]) -> Iterator[Append]:
    """A function that appends credal sets to a .parquet, one line per row, in a tenth of the time.

    The columns are row, and lists of K numbers: lower, upper, point; the `note` is kept in the
    metadata of the file. Callers write many files into one folder, so they call `sweep` once.
    """

    def lines(sets: IntervalCredalSet, first_row: int) -> Any:
        return _line_per_row(sets, first_row).replace_schema_metadata(dict(note))

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
def _npz_members(path: Path) -> Iterator[Append]:
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
                for name, values in _bounds(sets).items():
                    if name not in members:
                        file = gathered.enter_context(tempfile.TemporaryFile(dir=path.parent))
                        files[name] = file
                        members[name] = growing.enter_context(_growing_npy(file))
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


@contextmanager
def _growing_npy(file: IO[bytes]) -> Iterator[Callable[[Array], None]]:
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

    yield append
    write_header()


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


def _line_per_class(sets: IntervalCredalSet, first_row: int) -> Any:
    """A record batch of row, class, lower, upper, point; a line for every row and class."""
    pa = arrow()
    n, K = sets.shape
    names = pa.array(sets.classes or [str(k) for k in range(K)])
    index = np.tile(np.arange(K, dtype=np.int32), n)
    columns: dict[str, Any] = {"row": np.repeat(np.arange(first_row, first_row + n), K)}
    columns |= {
        k: pa.array(v).take(np.repeat(np.arange(n), K)) for k, v in (sets.index or {}).items()
    }
    columns["class"] = pa.DictionaryArray.from_arrays(index, names).cast(pa.string())
    return pa.record_batch(columns | {k: v.ravel() for k, v in _bounds(sets).items()})


def _line_per_row(sets: IntervalCredalSet, first_row: int) -> Any:
    """A record batch of row, and of lists of K numbers lower, upper, point."""
    pa = arrow()
    n, K = sets.shape
    columns: dict[str, Any] = {"row": np.arange(first_row, first_row + n)} | dict(sets.index or {})
    for name, values in _bounds(sets).items():
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), K)
    return pa.record_batch(columns)


def _bounds(sets: IntervalCredalSet) -> dict[str, Array]:
    """The arrays (n, K) of a credal set, by name; it may have no point."""
    arrays = {name: getattr(sets, name) for name in ("lower", "upper", "point")}
    return {name: values for name, values in arrays.items() if values is not None}


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Objects as text: an .npz without pickle holds none."""
    return values.astype(str) if values.dtype.kind in "OT" else values


def _suffix(path: Path, file_format: str | None) -> str:
    return path.suffix.lower() if file_format is None else f".{file_format.lower().lstrip('.')}"
