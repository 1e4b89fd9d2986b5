"""Logits, labels and truth from files, credal sets into files, a chunk of rows at a time.

What the files hold:

* ``.npz``: the arrays ``logits`` (n, K), ``labels`` (n,), and, if wanted, ``classes`` (K names) and
  ``truth`` or ``human`` (n, K). Other keys can be chosen.
* ``.csv``, ``.parquet``, ``.feather``, ``.arrow``: a column per class, named after it, and a column
  ``label``. A .csv starts with a line of names. All but a .csv may instead hold the logits of a row
  as a list, in one column ``logits``.
* ``.npy``: one array; labels and truth in files of their own.

A label is the name of a class or, where no class is called by a whole number, the number of its
column counted from 0. Columns are matched to the classes of a model, or of another file, by name
where both have names, by position otherwise.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import SUM_TOLERANCE
from decal._base.numerics import Array, Logits
from decal._io.formats import (
    CHUNK_ELEMENTS,
    FORMATS,
    READABLE_TABLES,
    Block,
    Stream,
    arrow,
    column_types,
    either,
    file_format,
    growing_npy,
    is_list,
    is_whole,
    listing,
    names_in,
    open_array,
    open_lists,
    open_table,
    regroup,
    write_batches,
)
from decal._io.model_files import replacing
from decal.credal._boxes import IntervalCredalSet

USUAL_KEYS = {
    "logits": ("logits",),
    "probabilities": ("probabilities", "probs"),
    "labels": ("labels", "label"),
    "truth": ("truth", "human"),
    "weights": (),  # weights change results, so they are only used when asked for
}
"""The keys of an .npz, or the columns of a table, looked for when none is named."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a source: what was asked for, and None for what there is not."""

    logits: Logits
    labels: NDArray[np.intp] | None
    weights: Array | None
    truth: Array | None

    def __len__(self) -> int:
        return len(self.logits)


@dataclass(frozen=True)
class Source:
    """Logits and what belongs to their rows, read chunk by chunk.

    Attributes
    ----------
    logits, labels, weights, truth : where each comes from; None where there is none.
    classes : the names of the classes, if known.
    floor : None for logits. For probabilities, whose logarithm is taken, the number that smaller
        ones are raised to; 0 refuses zeros.
    """

    logits: Stream
    labels: Stream | None = None
    weights: Stream | None = None
    truth: Stream | None = None
    classes: tuple[str, ...] | None = None
    floor: float | None = None

    @property
    def rows(self) -> int | None:
        """The number of rows, where a file tells it in advance."""
        streams = (self.logits, self.labels, self.weights, self.truth)
        return next((s.rows for s in streams if s is not None and s.rows is not None), None)

    def chunks(self, elements: int = CHUNK_ELEMENTS, start: int = 0) -> Iterator[Chunk]:
        """All rows from `start` on, in order, about `elements` logits at a time, checked.

        Errors name the file, the row and the column of the first number that cannot be.
        """
        K = self.logits.width
        others = {
            name: stream
            for name in ("labels", "weights", "truth")
            if (stream := getattr(self, name)) is not None
        }
        streams = [self.logits, *others.values()]
        step = max(1, elements // K)
        for blocks in zip_longest(
            *(regroup(s.read(start), step) for s in streams), fillvalue=np.empty(0)
        ):
            for stream, block in zip(streams, blocks, strict=True):
                if len(block) != len(blocks[0]):
                    raise _different_lengths(self.logits, stream)
            rows = dict(zip(others, blocks[1:], strict=True))
            yield Chunk(
                self._logits(start, blocks[0]),
                self._labels(start, rows["labels"], K) if self.labels else None,
                _weights(self.weights, start, rows["weights"]) if self.weights else None,
                _distributions(self.truth, start, rows["truth"]) if self.truth else None,
            )
            start += len(blocks[0])
        if start == 0:
            raise _no_rows(self.logits)

    def all(self) -> Chunk:
        """All rows in one chunk, in memory."""
        parts = list(self.chunks())

        def joined(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            return None if arrays[0] is None else np.concatenate(arrays)

        return Chunk(joined("logits"), joined("labels"), joined("weights"), joined("truth"))

    def _logits(self, start: int, block: Block) -> Logits:
        stream = self.logits
        if self.floor is None:
            advice = "Mask or repair such rows first."
            _require(np.isfinite(block), stream, start, block, "be finite", advice)
            return block
        p = _distributions(stream, start, block)
        p = np.maximum(p, self.floor)
        advice = "Raise zeros with --floor, say to 1e-6, or export logits instead."
        _require(p > 0, stream, start, block, "be positive to have a logarithm", advice)
        return np.log(p)

    def _labels(self, start: int, block: Block, K: int) -> NDArray[np.intp]:
        """Class numbers of labels that are names or numbers."""
        assert self.labels is not None
        names = self.classes or ()
        number = {name: k for k, name in enumerate(names)}
        expected = f"be one of the classes {listing(names)}" if names else ""
        if not any(is_whole(name) for name in names):
            number |= {str(k): k for k in range(K)}
            expected += f" or a column 0 to {K - 1}" if names else f"lie in 0 to {K - 1}"
        values, inverse = np.unique(block, return_inverse=True)
        found = np.array([number.get(str(value), -1) for value in values], dtype=np.intp)
        result = found[inverse]
        _require(result >= 0, self.labels, start, block, expected)
        return result


def open_source(
    path: Path,
    *,
    labels: Path | None = None,
    weights: Path | None = None,
    truth: Path | None = None,
    keys: Mapping[str, str | None] | None = None,
    ignore: Collection[str] = (),
    classes: Sequence[str] | None = None,
    wanted: Collection[str] = ("labels",),
    needed: Collection[str] = (),
    probabilities: bool = False,
    floor: float = 0.0,
    constants: Mapping[str, str] | None = None,
) -> Source:
    """Logits in a file, with the labels, weights and truth beside them or in other files.

    Parameters
    ----------
    path : the logits.
    labels, weights, truth : files of their own; by default they are looked for in `path`.
    keys : for "logits", "labels", "weights" or "truth" the key of an .npz or the column of a table.
    ignore : columns of tables that are neither classes nor labels.
    classes : the names of a model's classes, in its order.
    wanted : "labels" and "truth", each used if it is there. Weights are used if a file or a key
        is given.
    needed : those of them whose absence is an error.
    probabilities : the file holds probabilities; the source yields their logarithms.
    floor : raises smaller probabilities; by default zeros are refused.
    constants : columns that the file has not, as all rows have the same value there.

    Nothing but names and shapes is read yet.
    """
    keys, constants = dict(keys or {}), constants or {}
    if not 0 <= floor < 1:
        raise ValueError(f"floor must lie between 0 and 1: got {floor}.")
    if floor and not probabilities:
        raise ValueError(f"floor must go with probabilities: got {floor} for logits.")
    skip = {*ignore, *USUAL_KEYS["labels"], *filter(None, keys.values())}
    kind = "probabilities" if probabilities else "logits"
    matrix = _open_matrix(kind, path, keys.get("logits"), classes, skip)
    names = tuple(classes) if classes else matrix.columns

    def beside(name: str, other: Path | None) -> Stream | None:
        key = keys.get(name)
        if other is None and key is None and name not in {*wanted, *needed}:
            return None
        fixed = [k for k in ((key,) if key else USUAL_KEYS[name]) if k in constants]
        if other is None and fixed and fixed[0] not in names_in(path):
            return _constant(name, path, constants[fixed[0]], matrix)
        if other is None and not _holds(name, path, key):
            if name in needed:
                raise ValueError(
                    f"{name} must come with the {kind}: got none in {path}{_contents(path)}. "
                    f"Give a file with --{name}, or their name there with --{name}-key."
                )
            return None
        if name == "truth":
            return _open_matrix(name, other or path, key, names, skip)
        return _open_vector(name, other or path, key)

    source = Source(
        matrix,
        beside("labels", labels),
        beside("weights", weights),
        beside("truth", truth),
        names,
        floor if probabilities else None,
    )
    if matrix.rows == 0:
        raise _no_rows(matrix)
    if matrix.width < 2:
        raise ValueError(
            f"{kind} must have a column per class, two or more: got {matrix.width} in {path}."
        )
    for stream, width in ((matrix, len(names or ())), (source.truth, matrix.width)):
        if stream and width and stream.width != width:
            raise ValueError(
                f"{stream.name} must have {width} columns, one per class: "
                f"got {stream.width} in {stream.path}."
            )
    for stream in (source.labels, source.weights, source.truth):
        if stream and None not in (stream.rows, matrix.rows) and stream.rows != matrix.rows:
            raise _different_lengths(matrix, stream)
    return source


def _open_matrix(
    name: str, path: Path, key: str | None, classes: Sequence[str] | None, skip: Collection[str]
) -> Stream:
    """A matrix with a column per class, in the order of `classes` where the file has names."""
    if file_format(path) in READABLE_TABLES:
        present = names_in(path)
        if file_format(path) != ".csv" and key is not None:
            return open_lists(name, path, _required_key(name, path, key) or "")
        column = list_column(name, path)
        if column is not None:
            return open_lists(name, path, column)
        columns = tuple(classes or (column for column in present if column not in skip))
        _require_names(name, path, columns, present)
        return open_table(name, path, columns)
    stream = open_array(name, path, _required_key(name, path, key), dimensions=2)
    if stream.columns is None or classes is None or stream.columns == tuple(classes):
        return stream
    _require_names(name, path, classes, stream.columns)
    order = [stream.columns.index(column) for column in classes]
    return replace(
        stream,
        columns=tuple(classes),
        blocks=lambda start: (block[:, order] for block in stream.read(start)),
    )


def _open_vector(name: str, path: Path, key: str | None) -> Stream:
    """One value per row: an array, or a column of a table."""
    key = _required_key(name, path, key)
    if file_format(path) not in READABLE_TABLES:
        return open_array(name, path, key, dimensions=1)
    assert key is not None
    table = open_table(name, path, (key,), text=name == "labels")
    return replace(table, blocks=lambda start: (block[:, 0] for block in table.read(start)))


def _constant(name: str, path: Path, value: str, matrix: Stream) -> Stream:
    """The same value in every row of a matrix."""
    constant: Any = value if name == "labels" else float(value)

    def blocks(start: int) -> Iterator[Block]:
        return (np.full(len(block), constant) for block in matrix.read(start))

    return Stream(name, path, matrix.rows, 1, None, blocks)


def list_column(name: str, path: Path) -> str | None:
    """The column of usual name that holds, in every row, a list with a number per class."""
    if file_format(path) == ".csv":
        return None
    types = column_types(path)
    return next((k for k in USUAL_KEYS[name] if k in types and is_list(types[k])), None)


def _required_key(name: str, path: Path, key: str | None) -> str | None:
    """The key or column that holds an array, named or usual; None for an .npy file."""
    if file_format(path) == ".npy":
        return None
    present = names_in(path)
    usual = USUAL_KEYS[name] if key is None else (key,)
    found = [k for k in usual if k in present]
    if key is None and not found and len(present) == 1:
        found = [present[0]]
    if len(found) != 1:
        got = "both " + " and ".join(found) if found else f"no {' or '.join(usual) or 'name'}"
        option = "logits" if name == "probabilities" else name
        raise ValueError(
            f"{name} must be found in {path}: got {got} among {listing(present)}. "
            f"Choose with --{option}-key."
        )
    return found[0]


def _holds(name: str, path: Path, key: str | None) -> bool:
    """Whether a file seems to hold labels, weights or truth beside its logits."""
    if file_format(path) == ".npy":
        return False
    if name == "truth" and file_format(path) in READABLE_TABLES:
        return key is not None or list_column(name, path) is not None
    return key is not None or any(usual in names_in(path) for usual in USUAL_KEYS[name])


def _require_names(name: str, path: Path, wanted: Sequence[str], present: Sequence[str]) -> None:
    for column in wanted:
        if list(present).count(column) != 1:
            times = "no column" if column not in present else "more than one column"
            raise ValueError(
                f"{name} must have one column for every class: "
                f"got {times} {column!r} in {path}{_contents(path)}."
            )


def _contents(path: Path) -> str:
    names = names_in(path)
    return f", which holds {listing(names)}" if names else ""


# Checking


def _require(
    fine: NDArray[np.bool_], stream: Stream, start: int, block: Block, rule: str, advice: str = ""
) -> None:
    if not fine.all():
        row, *column = (int(i) for i in np.argwhere(~fine)[0])
        value = block[row, *column]
        value = repr(str(value)) if block.dtype.kind in "OUS" else value
        raise ValueError(
            f"{stream.name} must {rule}: got {value} in {stream.place(start + row, *column)}."
            + (advice and f" {advice}")
        )


def _weights(stream: Stream, start: int, block: Block) -> Array:
    fine = np.isfinite(block) & (block >= 0)
    _require(fine, stream, start, block, "be finite and not negative")
    return block.astype(np.float64)


def _distributions(stream: Stream, start: int, block: Block) -> Array:
    p = block.astype(np.float64)
    sums = p.sum(axis=1)
    advice = "Divide counts by their sum; leave --probabilities out for logits."
    _require((p >= 0) & np.isfinite(p), stream, start, block, "be finite and not negative", advice)
    _require(
        np.abs(sums - 1) <= SUM_TOLERANCE, stream, start, sums, "sum to 1 in every row", advice
    )
    return p


def _no_rows(stream: Stream) -> ValueError:
    return ValueError(f"{stream.name} must have at least one row: got none in {stream.path}.")


def _different_lengths(logits: Stream, other: Stream) -> ValueError:
    def counted(stream: Stream) -> str:
        rows = stream.rows if stream.rows is not None else sum(map(len, stream.read()))
        return f"{rows:,} in {stream.path}"

    return ValueError(
        f"{other.name} must have as many rows as {logits.name}: "
        f"got {counted(other)} and {counted(logits)}."
    )


# Writing


def check_output(
    path: Path, *, force: bool, formats: Sequence[str] = FORMATS, file_format: str | None = None
) -> None:
    """Refuse, before any work, an output that could not or should not be written.

    Parameters
    ----------
    path : the output.
    force : it may exist already.
    formats : those the output can have.
    file_format : one of them, with or without its dot; by default the name's ending.
    """
    suffix = _suffix(path, file_format)
    if suffix not in formats:
        raise ValueError(f"output must end in {either(formats)}: got {file_format or path}.")
    if not path.parent.is_dir():
        raise ValueError(f"output must be in a folder that exists: got {path}. Create it first.")
    if path.is_dir():
        raise ValueError(f"output must be a file: got the folder {path}.")
    if path.exists() and not force:
        raise ValueError(f"output must be a new file: got {path}. Overwrite it with --force.")


def write_credal(
    path: Path,
    sets: Iterable[IntervalCredalSet],
    *,
    file_format: str | None = None,
    note: Mapping[str, str] | None = None,
) -> None:
    """Write credal sets, one after the other, as if they were one.

    * ``.npz``: lower, upper, point (n, K), and classes if they have names.
    * ``.npy``: (n, K, 2), the lower and the upper bound.
    * ``.csv``, ``.parquet``: a line per row and class: row, class, lower, upper, point.
    * ``.parquet`` with a `note`, kept in its metadata: a line per row, with lists of K numbers in
      the columns lower, upper and point. Takes a tenth of the time, for large outputs.
    """
    suffix = _suffix(path, file_format)
    with replacing(path) as partial:
        if note is not None:
            write_batches(partial, ".parquet", _list_batches(sets, note))
        elif suffix == ".npz":
            _write_npz(partial, sets)
        elif suffix == ".npy":
            with growing_npy(partial) as append:
                for credal in sets:
                    append(np.stack([credal.lower, credal.upper], axis=-1))
        else:
            write_batches(partial, suffix, _tidy_batches(sets))


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Write named columns of equal length: a table, or the arrays of an .npz."""
    with replacing(path) as partial:
        if file_format(path) == ".npz":
            with open(partial, "wb") as file:
                np.savez(file, allow_pickle=False, **{k: np.asarray(v) for k, v in columns.items()})
        else:
            batch = arrow().record_batch({k: np.asarray(v) for k, v in columns.items()})
            write_batches(partial, file_format(path), iter([batch]))


def _write_npz(path: Path, sets: Iterable[IntervalCredalSet]) -> None:
    sets = iter(sets)
    first = next(sets)
    names = [name for name in ("lower", "upper", "point") if getattr(first, name) is not None]
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name) as folder:
        # Rows arrive together but members are stored one after the other: gather them in files.
        with ExitStack() as stack:
            members = [stack.enter_context(growing_npy(Path(folder, name))) for name in names]
            for credal in chain([first], sets):
                for name, append in zip(names, members, strict=True):
                    append(getattr(credal, name))
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.write(Path(folder, name), f"{name}.npy")
            if first.classes:
                with archive.open("classes.npy", "w") as member:
                    np.lib.format.write_array(member, np.array(first.classes), allow_pickle=False)


def _tidy_batches(sets: Iterable[IntervalCredalSet]) -> Iterator[Any]:
    pa = arrow()
    start = 0
    for credal in sets:
        n, K = credal.shape
        names = pa.array(credal.classes or [str(k) for k in range(K)])
        index = np.tile(np.arange(K, dtype=np.int32), n)
        columns = {
            "row": np.repeat(np.arange(start, start + n), K),
            "class": pa.DictionaryArray.from_arrays(index, names).cast(pa.string()),
            "lower": credal.lower.ravel(),
            "upper": credal.upper.ravel(),
        }
        if credal.point is not None:
            columns["point"] = credal.point.ravel()
        yield pa.record_batch(columns)
        start += n


def _list_batches(sets: Iterable[IntervalCredalSet], note: Mapping[str, str]) -> Iterator[Any]:
    pa = arrow()
    start = 0
    for credal in sets:
        n, K = credal.shape
        bounds = {"lower": credal.lower, "upper": credal.upper, "point": credal.point}
        columns: dict[str, Any] = {"row": np.arange(start, start + n)}
        for name, values in bounds.items():
            if values is not None:
                flat = pa.array(values.ravel())
                columns[name] = pa.FixedSizeListArray.from_arrays(flat, K)
        batch = pa.record_batch(columns)
        yield batch.replace_schema_metadata(dict(note))
        start += n


def _suffix(path: Path, file_format: str | None) -> str:
    return path.suffix.lower() if file_format is None else f".{file_format.lower().lstrip('.')}"
