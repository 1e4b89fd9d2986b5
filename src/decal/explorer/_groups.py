"""Columns of metadata by which inputs are told apart: site, scanner, data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_VALUES = 100
"""Distinct values of a column; more would be names, not groups."""


@dataclass(frozen=True)
class GroupColumn:
    """One column.

    Attributes
    ----------
    name : str
        Of the column.
    values : tuple of str
        Its distinct values, in order.
    codes : (n,) uint8 array
        The value of every input, by its place among them.
    """

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.uint8]


def open_groups(groups: Mapping[str, Any] | None, *, total: int) -> list[GroupColumn]:
    """Columns of metadata, checked: one value for every input, not too many distinct ones."""
    if groups is None:
        return []
    if not isinstance(groups, Mapping):
        raise ValueError(
            "groups must map names to one value for every input: got "
            f"{type(groups).__name__}. Pass, for example, {{'site': sites}}."
        )
    return [_group(str(name), column, total) for name, column in groups.items()]


def rows_of_groups(groups: Any) -> dict[str, Any]:
    """The columns, by what messages call them; none of what is no mapping."""
    found = groups if isinstance(groups, Mapping) else {}
    return {f"groups[{name!r}]": column for name, column in found.items()}


def _group(name: str, column: Any, total: int) -> GroupColumn:
    listed = column.tolist() if hasattr(column, "tolist") else list(column)
    if len(listed) != total:
        raise ValueError(
            f"groups[{name!r}] must have {total} values, one for every input: got {len(listed)}."
        )
    texts = [_text(value) for value in listed]
    distinct = sorted(set(texts), key=_as_numbers_if_all(set(texts)))
    if len(distinct) > MOST_VALUES:
        raise ValueError(
            f"groups[{name!r}] must have at most {MOST_VALUES} distinct values: got "
            f"{len(distinct):,}. Put them into bins first, or pass them as names."
        )
    place = {value: at for at, value in enumerate(distinct)}
    return GroupColumn(
        name, tuple(distinct), np.array([place[text] for text in texts], dtype=np.uint8)
    )


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "unknown" if value is None or value != value else str(value)


def _as_numbers_if_all(texts: set[str]) -> Any:
    """A key that sorts numbers as numbers, where all are."""
    try:
        numbers = {text: float(text) for text in texts}
    except ValueError:
        return str
    return numbers.__getitem__
