"""Which columns of a table are classes.

All columns that nobody says anything about are taken for classes, but for those that look like
something else: the index of a data frame, row numbers, identifiers. To take such a column for a
class moves the endpoints of all others, so it is refused and the user asked to choose.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from decal._base.data_frames import INDEX, row_numbers
from decal._base.errors import is_whole_number, listing
from decal.io.formats import Block, DataFile, Stream

ALL = "*"
"""The choice of all columns, whatever they look like."""


def chosen_classes(
    name: str,
    file: DataFile,
    columns: Sequence[str],
    classes: Sequence[str] | None,
    skip: Collection[str],
) -> tuple[str, ...]:
    """The columns of a table that hold the classes, in their order.

    Parameters
    ----------
    name : str
        What messages call the matrix.
    file : DataFile
        The table.
    columns : sequence of str
        The user's choice: names, ALL, or nothing.
    classes : sequence of str, optional
        The names of a model's classes, which are then the columns.
    skip : collection of str
        Columns that are something else.
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
            raise ValueError(f"columns must be distinct: got {column!r} more than once.")
        if column in skip:
            raise ValueError(f"columns must not be labels or ignored: got {column!r}.")
    if classes and set(classes) != set(columns):
        raise ValueError(
            f"columns must be the model's classes {listing(classes)}: got {listing(columns)}. "
            "Leave --columns out, as they are found by their names; rename them in the file if "
            "they have others."
        )


def without_row_numbers(stream: Stream, file: DataFile) -> Stream:
    """The same stream, which refuses columns of row numbers when its first rows are read."""

    def blocks(start: int) -> Iterator[Block]:
        first = True
        for block in stream.read(start):
            numbers = row_numbers(stream.columns or (), block) if first else None
            if numbers is not None:
                reason = "whose whole numbers look like those of rows"
                what, columns = f"the column {numbers!r}", stream.columns or ()
                raise _refusal(stream.name, file, what, reason, numbers, columns)
            first = False
            yield block

    return replace(stream, blocks=blocks)


def _refusal(
    name: str, file: DataFile, what: str, reason: str, column: str, found: Sequence[str]
) -> ValueError:
    others = [n for n in found if n != column and not INDEX.fullmatch(n)]
    return ValueError(
        f"{name} must be classes alone: got {what} in {file.path}, {reason}. "
        f"Leave it out with --ignore {_typed([column])}, or name the classes with "
        f"--columns {_typed(others)} ('{ALL}' takes all)."
    )


def _typed(names: Sequence[str]) -> str:
    """Names as one types them after an option, not too many of them."""
    shown = [f'"{n}"' if "," in n else n for n in names[:12]]
    return shlex.quote(",".join(shown)) + (",…" if len(names) > len(shown) else "")


# Labels


def labels_are_names(labels: Stream, classes: Sequence[str] | None) -> bool:
    """Whether labels are names of classes, not numbers of columns, as their first rows tell."""
    if any(map(is_whole_number, classes or ())):
        return True
    first = next(labels.read(), np.empty(0))
    return not all(is_whole_number(str(label)) for label in np.unique(first.astype(str)))


def unlabelled_refusal(path: Any, never: Sequence[str], labelled: Sequence[str]) -> ValueError:
    """The error about columns of a table that no label names."""
    return ValueError(
        f"logits must be classes alone: got {listing(never)} in {path}, which no label names. "
        f"Leave columns that are no classes out with --ignore {_typed(never)}; if they are "
        f"classes, name all with --columns {_typed([*labelled, *never])} ('{ALL}' takes all)."
    )
