"""Lines: what reports share, as a list of lines, a frame, a file, a text and a page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import ROW, Index
from decal._base.errors import InputError, needs
from decal._base.numerics import Mask
from decal.credal import row_index
from decal.io.formats import arrow, either
from decal.io.whole_files import replacing
from decal.io.writers import column_writer
from decal.report._printout import printed, titled
from decal.report._report_page import IN_NOTEBOOK, page, sortable

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

SAVED = (".csv", ".parquet", ".html")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Lines(ABC):
    """An entry of every column per input. Fields that are arrays have a row per input."""

    index: Index
    check: Mask | None = None
    promise: str = ""

    @property
    @abstractmethod
    def columns(self) -> dict[str, NDArray[Any]]:
        """(n,) columns by name: those that name the inputs first."""

    @abstractmethod
    def table(self, width: int) -> list[str]:
        """Lines of text, of so many characters at most."""

    @abstractmethod
    def cells(self) -> dict[str, Any]:
        """Columns of a page, by their headings."""

    def __len__(self) -> int:
        return len(next(iter(self.index.values())))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = self.columns
        lists = [values.tolist() for values in columns.values()]
        return (dict(zip(columns, line, strict=True)) for line in zip(*lists, strict=True))

    def __getitem__(self, rows: Any) -> Any:
        """A line as a dict, by its number; a report of the lines of a slice, a mask or a list."""
        picked = row_index(rows, len(self))
        index = {name: values[picked] for name, values in self.index.items()}
        parts = {k: v[picked] for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        chosen = replace(self, index=index, **parts)
        return chosen if isinstance(rows, slice) or np.ndim(rows) else next(iter(chosen))

    @property
    def marked(self) -> int | None:
        """How many inputs to check, if that was asked."""
        return None if self.check is None else int(self.check.sum())

    @property
    def title(self) -> str:
        """How many inputs there are, and how many of them to check."""
        return f"Report: {titled(len(self), self.marked)}"

    # Elsewhere

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with a row per input, which its index names."""
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        return pd.DataFrame(self.columns).set_index([*self.index])

    def to_polars(self) -> pl.DataFrame:
        """A DataFrame with a row per input; what names them is in the first columns."""
        with needs("polars", message="to_polars needs polars: pip install 'decal[polars]'"):
            import polars as pl
        columns = self.columns
        kinds: dict[str, Any] = dict.fromkeys(self._texts(columns), pl.String)
        if "possible" in columns:
            kinds["possible"] = pl.List(kinds.get("prediction", pl.Int64))
        plain = {k: v.tolist() if v.dtype == object else v for k, v in columns.items()}
        return pl.DataFrame(plain, schema_overrides=kinds)

    def save(self, path: str | Path) -> None:
        """Write a .csv, a .parquet, or an .html page that works offline; replaces an earlier one.

        Columns are those of `to_polars`. Possible classes are a list in a .parquet; in a .csv they
        stand in one cell, with " | " between them.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in SAVED:
            remedy = "Save a .csv or a .parquet, which spreadsheets and data frames read."
            raise InputError("path", f"end in {either(SAVED)}", f"{path}", remedy)
        if suffix == ".html":
            text = page(self.title, self._in_html(len(self)))
            with replacing(path) as partial:
                partial.write_text(text, encoding="utf-8", newline="\n")
            return
        with column_writer(path) as append:
            append(self.arrow_columns(lists=suffix == ".parquet"))

    def arrow_columns(self, *, lists: bool) -> dict[str, Any]:
        """Columns of `to_polars` for a file; possible classes as lists, or as one text each."""
        pa, columns = arrow(), self.columns
        texts = self._texts(columns)
        found: dict[str, Any] = {name: pa.array(columns[name], pa.string()) for name in texts}
        if "possible" in columns and lists:
            kind = pa.string() if "prediction" in texts else pa.int64()
            found["possible"] = pa.array(columns["possible"].tolist(), pa.list_(kind))
        elif "possible" in columns:
            joined = [" | ".join(map(str, names)) for names in columns["possible"]]
            found["possible"] = pa.array(joined, pa.string())
        return columns | found

    def _texts(self, columns: dict[str, NDArray[Any]]) -> list[str]:
        """Which are texts, whose kind could not be told of no rows."""
        beside = (*self.index, "possible")
        return [k for k, v in columns.items() if v.dtype.kind == "O" and k not in beside]

    # How it reads

    def __repr__(self) -> str:
        return printed(self, self.title, len(self))

    def _repr_html_(self) -> str:
        return self._in_html(IN_NOTEBOOK)

    def _in_html(self, lines: int) -> str:
        cells = self[:lines].cells()
        if self.check is not None:
            cells["check"] = ["check" if marked else "" for marked in self.check[:lines]]
        title = ". ".join(filter(None, (self.promise.rstrip("."), self.title)))
        more = len(self) - lines
        return sortable(title, cells, f"and {more:,} more inputs" if more > 0 else "")


def names_of_inputs(credal: Any, columns: set[str]) -> Index:
    """What names the inputs of sets; InputError if it is called like a column of the report."""
    index: Index = credal.index or {ROW: np.arange(len(credal))}
    taken = columns & set(index)
    if taken:
        rule = "not be called like a column of the report"
        raise InputError("ids", rule, f"{min(taken)!r}", "Rename it first.")
    return index
