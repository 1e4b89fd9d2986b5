"""Where a number stands, and what is said if it cannot be.

Messages read: <argument> must <requirement>: got <fact>. <What to do next.>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

NAMES_SHOWN = 12
"""How many names a message lists."""


@dataclass(frozen=True)
class Place:
    """Names rows and entries in messages; this class by their index in an array.

    Data that come from elsewhere have a class of their own: `decal.io.formats.FilePlace` names a
    file, `decal.distributed._partitions.PartitionPlace` a partition.

    Parameters
    ----------
    first_row : int
        Number of the first row, where the array is one of several pieces of the data.
    """

    first_row: int = 0

    error: ClassVar[type[ValueError]] = ValueError
    """What is raised for data in such a place."""

    @property
    def within(self) -> str:
        """Names the place as a whole, for faults of shape or type; nothing to say of an array."""
        return ""

    def row(self, row: int) -> str:
        """Names a whole row."""
        return f"in row {self.first_row + row}"

    def entry(self, row: int, column: int | None = None) -> str:
        """Names an entry of a vector, or with a column that of a matrix."""
        number = self.first_row + row
        return f"at index {number if column is None else (number, column)}"

    def after(self, rows: int) -> Self:
        """The same place for what follows after some rows."""
        return replace(self, first_row=self.first_row + rows)


IN_ARRAY = Place()


@dataclass(frozen=True, kw_only=True)
class TablePlace(Place):
    """A place whose columns may have names. Subclasses say how its rows are named.

    Parameters
    ----------
    columns : tuple of str, optional
        The names of the columns; without them, columns are numbered from 0.
    """

    columns: tuple[str, ...] | None = None

    def entry(self, row: int, column: int | None = None) -> str:
        """Names the row and, if there is one, the column."""
        if column is None:
            return self.row(row)
        return f"{self.row(row)}, column {self.columns[column] if self.columns else column}"


def require_all(
    fine: NDArray[np.bool_],
    values: NDArray[Any],
    name: str,
    rule: str,
    *,
    place: Place = IN_ARRAY,
    advice: str = "",
) -> None:
    """Raise an error about the first entry that breaks a rule.

    Parameters
    ----------
    fine : (n,) or (n, K) array of bool
        Which entries are as they should be.
    values : array of the same shape
        The entries, to be shown.
    name : str
        What the message calls them.
    rule : str
        What they must do, such as "be finite".
    place : Place
        Where they stand.
    advice : str
        What to do next.
    """
    if fine.all():
        return
    index = tuple(int(i) for i in np.argwhere(~fine)[0])
    value = values[index]
    shown = repr(str(value)) if values.dtype.kind in "OSTU" else value
    raise place.error(
        f"{name} must {rule}: got {shown} {place.entry(*index)}." + (advice and f" {advice}")
    )


def listing(names: Sequence[str]) -> str:
    """Names in a message, not too many of them."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def is_whole_number(name: str) -> bool:
    """Whether a name is a whole number."""
    return re.fullmatch(r"[+-]?\d+", name.strip()) is not None
