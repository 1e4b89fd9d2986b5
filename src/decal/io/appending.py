"""Columns and matrices into files as their rows come, in constant memory but for an .npz."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import Index
from decal._base.numerics import Array
from decal.io.formats import arrow
from decal.io.whole_files import replacing, write_npz
from decal.io.writers import _growing_npy, _suffix, _table

AppendColumns = Callable[[Mapping[str, Any]], None]
"""Writes the next rows of every column."""

AppendMatrix = Callable[[Array, NDArray[np.str_] | None, Index | None], None]
"""Writes the next rows of a matrix, and their labels and names if they have any."""


@contextmanager
def column_writer(path: Path, *, file_format: str | None = None) -> Iterator[AppendColumns]:
    """A function that appends rows to the columns of a new .csv or .parquet, or arrays of an .npz.

    Parameters
    ----------
    path : path
        The file, which is there when the context is left without an error.
    file_format : str, optional
        Its format, with or without its dot; by default the ending of the name.
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


@contextmanager
def matrix_writer(
    path: Path, name: str, classes: Sequence[str] | None, *, file_format: str | None = None
) -> Iterator[AppendMatrix]:
    """A function that appends rows to a new file that decal's commands can read again.

    * ``.npz``: the matrix under `name`, labels, columns of names, and classes if they have names.
    * ``.npy``: the matrix alone.
    * ``.csv``, ``.parquet``: columns of names, a column per class, and a column ``label``.

    Parameters
    ----------
    path : path
        The file, which is there when the context is left without an error.
    name : str
        "logits" or "probabilities".
    classes : sequence of str, optional
        Names of the columns; by default their numbers.
    file_format : str, optional
        One of the formats, with or without its dot; by default the ending of the name.
    """
    suffix = _suffix(path, file_format)
    if suffix == ".npy":
        with replacing(path) as partial, partial.open("wb") as file, _growing_npy(file) as rows:
            yield lambda matrix, *_: rows(matrix)
        return
    named = suffix == ".npz"
    with column_writer(path, file_format=suffix) as append:

        def append_rows(
            matrix: Array, labels: NDArray[np.str_] | None, ids: Index | None = None
        ) -> None:
            names = classes or [str(k) for k in range(matrix.shape[1])]
            columns = {name: matrix} if named else dict(zip(names, matrix.T.copy(), strict=True))
            columns = {key: values.astype(str) for key, values in (ids or {}).items()} | columns
            if labels is not None:
                columns |= {"labels" if named else "label": labels}
            append(columns)

        yield append_rows
        if named and classes:
            append({"classes": np.array(classes)})
