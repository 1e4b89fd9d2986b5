"""IntervalRows: inputs with an interval per class or label, picked, named, tabulated and shown."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import (
    ROW,
    Index,
    Numbers,
    check_index,
    name_of,
    require_same_order,
)
from decal._base.errors import needs
from decal._base.numerics import Array
from decal.credal._notebook import as_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

ROWS_SHOWN = 5
CLASSES_SHOWN = 4
LETTERS_SHOWN = 40
"""Of the name of an input, which may be a text."""

LINE_WIDTH = 88
"""Columns of a terminal, or of a page, that a line may take: of long names, fewer are shown."""

MORE = "  …"


class IntervalRows(ABC):
    """What all sets share, whatever they are sets of: bounds (n, K), and names of the inputs."""

    lower: Array
    upper: Array
    point: Array | None

    _of: ClassVar[str] = "class"
    """What the columns are, in the singular."""

    _index: Index | None = None
    """`index`, or the numbers of rows in the frame that the sets come from."""

    @abstractmethod
    def _picked(self, rows: Any) -> Self:
        """The sets of the rows that index an array so; without their names."""

    @property
    @abstractmethod
    def _names(self) -> tuple[str, ...] | None:
        """The names of the columns."""

    def _size(self) -> str:
        """What `repr` says of a kind between the numbers of inputs and of classes."""
        return ""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes, or labels."""
        n, K = self.lower.shape
        return n, K

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> Self:
        """The credal set of the chosen rows: an integer, a slice, a mask or a list of integers."""
        rows = row_index(rows, len(self))
        index = self._index
        if index is not None:
            index = type(index)({name: values[rows] for name, values in index.items()})
        return self._picked(rows)._named(index)

    @property
    def index(self) -> Index | None:
        """What names the inputs: vectors (n,) by name, or None if they are only numbered.

        Sets that are predicted from a pandas DataFrame have its index; `with_index` gives one.
        """
        return None if isinstance(self._index, Numbers) else self._index

    def with_index(self, index: Any) -> Self:
        """The same sets, with names of the inputs, which stay with the rows that are picked.

        Parameters
        ----------
        index
            An (n,) array, an index of pandas, or a mapping of names to such arrays. None forgets
            them.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.2, 0.3], [0, 0.9]], [[0.7, 0.8], [0.1, 1]])
        >>> c.with_index({"patient": ["P-17", "P-21"]})[1]
        IntervalCredalSet: 1 input, 2 classes, mean width 0.100
          P-21  1 [0.900, 1.000]  0 [0.000, 0.100]
        """
        require_same_order(credal=self, index=index)
        return self._named(None if index is None else check_index(index, len(self)))

    def _named(self, index: Index | None) -> Self:
        """The same sets with an index that fits them."""
        if index is self._index:
            return self
        named = copy.copy(self)
        vars(named)["_index"] = index
        return named

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    # How it reads

    def to_pandas(self) -> pd.DataFrame:
        """A tidy DataFrame: one row per input and class (or label), columns lower, upper, point.

        Its index is that of the inputs, or their numbers, and the class or label.
        """
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        names, bounds = self._columns()
        return pd.DataFrame(
            bounds, index=pd.MultiIndex.from_arrays([*names.values()], names=[*names])
        )

    def to_polars(self) -> pl.DataFrame:
        """A tidy DataFrame: one row per input and class; what `to_pandas` has as index is columns.

        The columns are the names of the inputs, or their numbers as row; class; lower, upper (and
        point).
        """
        with needs("polars", message="to_polars needs polars: pip install 'decal[polars]'"):
            import polars as pl
        names, bounds = self._columns()
        return pl.DataFrame(names | bounds)

    def _columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Names and bounds of every input and class, (n K,) each."""
        n, K = self.shape
        names = {k: np.repeat(v, K) for k, v in (self.index or {ROW: np.arange(n)}).items()}
        each = np.array(self._names, dtype=object) if self._names else np.arange(K)
        names[self._of] = np.tile(each, n)
        bounds = {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        if self.point is not None:
            bounds["point"] = self.point.ravel()
        return names, bounds

    def __repr__(self) -> str:
        n, K = self.shape
        width = f", mean width {np.mean(self.upper - self.lower):.3f}" if n else ""
        names = self._names or tuple(str(k) for k in range(K))
        size = f"{_counted(n, 'input')}, {self._size()}{_counted(K, self._of)}{width}"
        lines = [f"{type(self).__name__}: {size}"]
        called = [_cut(self._called(row)) for row in range(min(n, ROWS_SHOWN))]
        longest = max(map(len, called), default=0)
        for row, name in enumerate(called):
            line, shown = f"  {name:{longest}}", 0
            for k in np.argsort(-self.upper[row], kind="stable")[:CLASSES_SHOWN]:
                span = f"  {names[k]} [{self.lower[row, k]:.3f}, {self.upper[row, k]:.3f}]"
                more = MORE if shown + 1 < K else ""
                if shown and len(line + span + more) > LINE_WIDTH:
                    break
                line, shown = line + span, shown + 1
            lines.append(line + (MORE if shown < K else ""))
        if n > ROWS_SHOWN:
            lines.append(f"  … {n - ROWS_SHOWN:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        title = repr(self).splitlines()[0]
        bounds = self.lower, self.upper, self.point
        return as_table(title, *bounds, self._names, self._called, of=self._of)

    def _called(self, row: int) -> str:
        """The name of an input: that of the index, or its number."""
        return str(row) if self.index is None else name_of(self.index, row)


def _cut(name: str) -> str:
    """The name of an input, or its beginning."""
    return name if len(name) <= LETTERS_SHOWN else f"{name[: LETTERS_SHOWN - 1]}…"


def _counted(number: int, thing: str) -> str:
    """A number of things, in words."""
    several = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else several}"


def row_index(rows: Any, count: int) -> Any:
    """What picks some of `count` rows of an array and keeps its axes."""
    if isinstance(rows, tuple):
        raise IndexError("a credal set is indexed by rows only: use .lower[row, class]")
    if isinstance(rows, slice):
        return rows  # which picks a view
    number = np.asarray(rows)
    if number.ndim == 0 and number.dtype.kind in "iu":
        if not -count <= number < count:
            raise IndexError(f"row {number} is out of range for {count} inputs")
        return [int(number)]
    picked = np.arange(count)[rows]
    if picked.ndim != 1:
        raise IndexError(
            "rows must be a number, a slice, a mask or a list of numbers: got "
            f"{type(rows).__name__}, which picks shape {picked.shape}."
        )
    return picked
