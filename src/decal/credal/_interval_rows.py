"""IntervalRows: inputs with an interval per class or label, picked, named, tabulated and shown."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import ROW, Index, Numbers, check_index, name_of, require_same_order
from decal._base.errors import counted, needs, several
from decal._base.markup import bar, table
from decal._base.numerics import Array, Mask, read_only

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

ROWS_SHOWN, CLASSES_SHOWN = 5, 4
LINE_WIDTH = 88
"""Columns of a terminal, or of a page, that a line may take: of long names, fewer are shown."""


class IntervalRows(ABC):
    """What all sets share, whatever they are sets of: bounds (n, K), and names of the inputs.

    A kind is a dataclass. Its fields that are arrays have a row per input, and are picked together.
    """

    lower: Array
    upper: Array
    point: Array | None
    classes: tuple[str, ...] | None

    _of: ClassVar[str] = "class"
    """What the columns are, in the singular."""

    _index: Index | None = None
    """`index`, or the numbers of rows in the frame that the sets come from."""

    _carried: ClassVar[tuple[str, ...]] = ()
    """What goes with the rows that are picked, besides the fields."""

    @classmethod
    def unchecked(cls, *parts: Any) -> Self:
        """Sets of what decal itself computed, in the order of the fields; nothing is checked."""
        found = cls.__new__(cls)
        found._hold(**dict(zip(_field_names(cls), parts, strict=False)))
        return found

    def _hold(self, **parts: Any) -> None:
        """Keep arrays, which become read-only, and whatever else the sets are made of."""
        for name, part in parts.items():
            vars(self)[name] = read_only(part) if isinstance(part, np.ndarray) else part

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

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        """TypeError: sets are several arrays."""
        raise TypeError(f"credal sets, {type(self).__name__}. Pass their lower, upper or point")

    def __getitem__(self, rows: Any) -> Self:
        """The credal set of the chosen rows: an integer, a slice, a mask or a list of integers."""
        rows = row_index(rows, len(self))
        names = *_field_names(type(self)), *self._carried
        parts = {name: getattr(self, name) for name in names}
        chosen = type(self).__new__(type(self))
        chosen._hold(**{k: v[rows] if isinstance(v, np.ndarray) else v for k, v in parts.items()})
        index = self._index
        if index is not None:
            index = type(index)({name: values[rows] for name, values in index.items()})
        return chosen.with_index(index)

    @property
    def index(self) -> Index | None:
        """What names the inputs, vectors (n,) by name; None if they are only numbered."""
        return None if isinstance(self._index, Numbers) else self._index

    def with_index(self, index: Any) -> Self:
        """These sets with names of the inputs, which stay with the rows that are picked.

        Parameters
        ----------
        index
            An (n,) array, an index of pandas, or a mapping of names to such arrays; or credal sets
            of the same inputs, whose names they get. None forgets them.

        Examples
        --------
        >>> import decal
        >>> c = decal.IntervalCredalSet([[0.2, 0.3], [0, 0.9]], [[0.7, 0.8], [0.1, 1]])
        >>> c.with_index({"patient": ["P-17", "P-21"]})[1]
        IntervalCredalSet: 1 input, 2 classes, mean width 0.100
          P-21  1 [0.900, 1.000]  0 [0.000, 0.100]
        """
        require_same_order(credal=self, index=index)
        given = index._index if isinstance(index, IntervalRows) else index
        if given is None and self._index is None:
            return self
        found = None if given is None else check_index(given, len(self))
        named = copy.copy(self)
        named._hold(_index=Numbers(given) if isinstance(given, Numbers) else found)
        return named

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def _named(self, mask: Mask) -> list[list[Any]]:
        """For every input, the names of the classes (or labels) that a mask (n, K) marks.

        Without names, their numbers. Those that are most probable at the point come first.
        """
        n, K = self.shape
        each: NDArray[Any] = np.array(self.classes or range(K), dtype=object)
        rows, marked = np.nonzero(mask)
        if self.point is not None and not getattr(self, "ordered", False):
            marked = marked[np.lexsort((-self.point[rows, marked], rows))]
        names = each[marked].tolist()
        ends = np.cumsum(np.count_nonzero(mask, axis=1)).tolist()
        return [names[start:end] for start, end in zip([0, *ends][:n], ends, strict=True)]

    # How it reads

    def to_pandas(self) -> pd.DataFrame:
        """A tidy DataFrame: one row per input and class (or label), columns lower, upper, point."""
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        names, bounds = self._columns()
        return pd.DataFrame(
            bounds, index=pd.MultiIndex.from_arrays([*names.values()], names=[*names])
        )

    def to_polars(self) -> pl.DataFrame:
        """A tidy DataFrame, a row per input and class; the index of `to_pandas` is columns."""
        with needs("polars", message="to_polars needs polars: pip install 'decal[polars]'"):
            import polars as pl
        names, bounds = self._columns()
        return pl.DataFrame(names | bounds)

    def _columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Names and bounds of every input and class, (n K,) each."""
        n, K = self.shape
        names = {k: np.repeat(v, K) for k, v in (self.index or {ROW: np.arange(n)}).items()}
        each = np.array(self.classes, dtype=object) if self.classes else np.arange(K)
        names[self._of] = np.tile(each, n)
        bounds = {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        if self.point is not None:
            bounds["point"] = self.point.ravel()
        return names, bounds

    def __repr__(self) -> str:
        n, K = self.shape
        width = f", mean width {np.mean(self.upper - self.lower):.3f}" if n else ""
        names = self.classes or tuple(map(str, range(K)))
        size = f"{counted(n, 'input')}, {self._size()}{counted(K, self._of)}{width}"
        lines = [f"{type(self).__name__}: {size}"]
        called = [self.input_name(row) for row in range(min(n, ROWS_SHOWN))]
        called = [name if len(name) <= 40 else f"{name[:39]}…" for name in called]
        longest = max(map(len, called), default=0)
        for row, name in enumerate(called):
            line, shown = f"  {name:{longest}}", 0
            for k in self._foremost(row):
                span = f"  {names[k]} [{self.lower[row, k]:.3f}, {self.upper[row, k]:.3f}]"
                more = "  …" if shown + 1 < K else ""
                if shown and len(line + span + more) > LINE_WIDTH:
                    break
                line, shown = line + span, shown + 1
            lines.append(line + ("  …" if shown < K else ""))
        if n > ROWS_SHOWN:
            lines.append(f"  … {n - ROWS_SHOWN:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The first inputs as a notebook shows them: their likeliest classes, with bars."""
        n, K = self.shape
        more = [f"{n - ROWS_SHOWN:,} more inputs"] if n > ROWS_SHOWN else []
        if K > CLASSES_SHOWN:
            more.append(f"{K - CLASSES_SHOWN:,} more {several(self._of)}")
        return table(
            repr(self).splitlines()[0],
            ("input", self._of, "", "lower", "upper"),
            self._bars(),
            note=f"and {', '.join(more)}" if more else "",
            left=3,
        )

    def _bars(self) -> Iterator[tuple[object, ...]]:
        """Lines of the table: those classes of each input that have the greatest upper bounds."""
        names = self.classes or range(self.shape[1])
        for row in range(min(len(self), ROWS_SHOWN)):
            first = self.input_name(row)
            for k in self._foremost(row):
                low, high = float(self.lower[row, k]), float(self.upper[row, k])
                middle = None if self.point is None else float(self.point[row, k])
                yield first, names[k], bar(low, high, middle), f"{low:.3f}", f"{high:.3f}"
                first = ""

    def _foremost(self, row: int) -> NDArray[np.intp]:
        """The classes that are shown of an input: those of the greatest upper bounds, and first."""
        shown = np.argsort(-self.upper[row], kind="stable")[:CLASSES_SHOWN]
        return np.sort(shown) if getattr(self, "ordered", False) else shown

    def input_name(self, row: int) -> str:
        """The name of an input: that of the index, or its number."""
        return str(row) if self.index is None else name_of(self.index, row)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


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
