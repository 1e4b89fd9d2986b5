"""A report of labels that do not exclude each other: what is there, what is open, what is not."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import ROW, Index
from decal._base.errors import InputError
from decal._base.markup import span
from decal._base.numerics import Array, Mask
from decal.credal import MultiLabelCredalSet, row_index
from decal.io.formats import arrow, either
from decal.io.whole_files import replacing
from decal.io.writers import column_writer
from decal.report._per_input import Lines, as_names, share_to_check
from decal.report._printout import LINES, NARROWEST, WIDEST, aligned, cut, listed
from decal.report._report_page import IN_NOTEBOOK, in_pieces, page, sortable

ANSWERS = {"yes": 1, "open": -1, "no": 0}
"""The columns of findings, and how `MultiLabelCredalSet.decide` writes each."""

SAVED = (".csv", ".parquet", ".html")
LEAST_ROOM = 12  # characters that a column of findings gets at least


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelReport(Lines):
    """One line per input: the findings that are there, open, or not there, with their ranges.

    `len`, iteration (a dict per input) and picking of rows work as for a list.

    Attributes
    ----------
    index : dict
        What names the inputs, vectors (n,) by name; their numbers if they have no names.
    labels : (L,) array
        Names of the labels, or their numbers.
    said : (n, L) array
        1 yes, 0 no, -1 open.
    lower, upper : (n, L) arrays
        The range of each label's probability.
    check : (n,) array or None
        True where a person should look.
    promise : str
        What the model promises, in one sentence; empty if nothing.
    """

    index: Index
    labels: NDArray[Any]
    said: NDArray[np.int8]
    lower: Array
    upper: Array
    check: Mask | None = None
    promise: str = ""

    @classmethod
    def of(
        cls,
        credal: MultiLabelCredalSet,
        *,
        check: Any = None,
        costs: Any = None,
        promise: Any = None,
    ) -> Self:
        """The report of sets of labels, and of what is promised of them; as `decal.report.report`.

        With `costs` of wrong answers, as for `MultiLabelCredalSet.decide`, nothing is promised.
        """
        n, L = credal.shape
        said = credal.decide(costs=costs)
        index = credal.index or {ROW: np.arange(n)}
        taken = {*ANSWERS, "check"} & set(index)
        if taken:
            rule = "not be called like a column of the report"
            raise InputError("ids", rule, f"{min(taken)!r}", "Rename it first.")
        if check is True:
            check = (said < 0).any(axis=1)
        elif check is not None:
            check = share_to_check(-wrong_at_worst(credal), check)
        return cls(
            index=index,
            labels=as_names(credal.classes, L),
            said=said,
            lower=credal.lower,
            upper=credal.upper,
            check=check,
            promise="" if costs is not None else str(promise or ""),
        )

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """(n,) columns by name: those that name the inputs, findings as text, what to check."""
        found = dict(self.index) | {name: self.findings(name) for name in ANSWERS}
        return found if self.check is None else found | {"check": self.check}

    def findings(self, answer: str, *, ranges: bool = True) -> NDArray[Any]:
        """(n,) text of the labels of one answer, "yes", "open" or "no", the likeliest first."""
        if answer not in ANSWERS:
            raise InputError("answer", "be 'yes', 'open' or 'no'", f"{answer!r}")
        found = [", ".join(self._named(row, answer, ranges)) for row in range(len(self))]
        return np.array([*found, None], dtype=object)[:-1]

    def _named(self, row: int, answer: str, ranges: bool) -> list[str]:
        here = np.flatnonzero(self.said[row] == ANSWERS[answer])
        here = here[np.argsort(-(self.lower + self.upper)[row, here], kind="stable")]
        if not ranges:
            return [str(self.labels[k]) for k in here]
        return [f"{self.labels[k]} {span(self.lower[row, k], self.upper[row, k])}" for k in here]

    def _in_room(self, row: int, answer: str, room: int) -> str:
        """The findings of one answer with ranges, or without them, or only the first few."""
        names = self._named(row, answer, ranges=False)
        whole = ", ".join(self._named(row, answer, ranges=True))
        if not names or (answer != "no" and len(whole) <= room):
            return whole
        return listed(names, room, ", ")

    def __len__(self) -> int:
        return len(self.said)

    def __getitem__(self, rows: Any) -> Any:
        """A line as a dict, by its number; a report of the lines of a slice, a mask or a list."""
        picked = row_index(rows, len(self))
        chosen = replace(
            self,
            index={name: values[picked] for name, values in self.index.items()},
            said=self.said[picked],
            lower=self.lower[picked],
            upper=self.upper[picked],
            check=None if self.check is None else self.check[picked],
        )
        return chosen if isinstance(rows, slice) or np.ndim(rows) else next(iter(chosen))

    def save(self, path: str | Path) -> None:
        """Write a .csv or .parquet with the columns of `to_pandas`, or an .html page."""
        path = Path(path)
        if path.suffix.lower() not in SAVED:
            raise InputError("path", f"end in {either(SAVED)}", f"{path}")
        if path.suffix.lower() == ".html":
            text = page(self.title, self._in_html(len(self)))
            with replacing(path) as partial:
                partial.write_text(text, encoding="utf-8", newline="\n")
            return
        pa = arrow()
        texts = {name: pa.array(self.findings(name), pa.string()) for name in ANSWERS}
        with column_writer(path) as append:
            append(self.columns | texts)

    @property
    def title(self) -> str:
        """How many inputs there are, and how many of them to check."""
        said = f"Report: {len(self):,} {'input' if len(self) == 1 else 'inputs'}"
        return said if self.check is None else f"{said}, {int(self.check.sum()):,} to check"

    def __repr__(self) -> str:
        width = min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST)
        lines = textwrap.wrap(self.title, width) + textwrap.wrap(self.promise, width)
        shown = self[:LINES]
        columns = {name: [cut(str(v)) for v in values] for name, values in shown.index.items()}
        taken = sum(2 + max(map(len, [name, *values])) for name, values in columns.items())
        taken += 0 if self.check is None else 7
        room = width - taken - 2
        for name in ANSWERS:
            each = max(room // 2 - 2, LEAST_ROOM) if name != "no" else max(room - 2, LEAST_ROOM)
            columns[name] = [shown._in_room(row, name, each) for row in range(len(shown))]
            room -= 2 + max(map(len, [name, *columns[name]]))
        if shown.check is not None:
            columns["check"] = ["yes" if marked else "" for marked in shown.check]
        lines += aligned(columns) if len(shown) else []
        more = len(self) - len(shown)
        return "\n".join([*lines, f"  … {more:,} more"] if more > 0 else lines)

    def _repr_html_(self) -> str:
        return self._in_html(IN_NOTEBOOK)

    def _in_html(self, lines: int) -> str:
        shown = self[:lines]
        cells: dict[str, Any] = shown.columns
        for name in ANSWERS:
            found = (shown._named(row, name, ranges=True) for row in range(len(shown)))
            cells[name] = [in_pieces(names, ", ", name=name) for names in found]
        if shown.check is not None:
            cells["check"] = ["check" if marked else "" for marked in shown.check]
        title = ". ".join(filter(None, (self.promise.rstrip("."), self.title)))
        more = len(self) - len(shown)
        return sortable(title, cells, f"and {more:,} more inputs" if more > 0 else "")


def wrong_at_worst(credal: MultiLabelCredalSet) -> Array:
    """(n,) how many answers of the point may be wrong: the greatest expected number.

    A label to which the point says yes may be absent with probability 1 - lower; one to which it
    says no may be there with probability upper. Expectations add up, whatever depends on what.
    """
    middle = (credal.lower + credal.upper) / 2 if credal.point is None else credal.point
    return np.asarray(np.where(middle > 0.5, 1.0 - credal.lower, credal.upper).sum(axis=1))
