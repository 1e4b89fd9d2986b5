"""One line per input, what a person needs: prediction, possible classes, what to check and to do.

`_per_input` finds what a line says, `_printout` and `_report_page` show it. Imports from `model`,
`io`, `credal`, `grids` and `_base`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import ROW, Index
from decal._base.errors import InputError, needs
from decal._base.numerics import Array, Mask
from decal.credal import CredalSet, row_index
from decal.grids import CredalMaps
from decal.io.formats import arrow, either
from decal.io.whole_files import replacing
from decal.io.writers import column_writer
from decal.model import answers_labels, require_takes_logits
from decal.promise import Promise
from decal.report._label_report import LabelReport
from decal.report._per_input import ACTION_RULES as ACTION_RULES
from decal.report._per_input import Lines, as_names, cheapest, predicted
from decal.report._per_input import share_to_check as share_to_check
from decal.report._printout import printed
from decal.report._report_page import in_notebook, page

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LabelReport", "Report", "report"]

SAVED = (".csv", ".parquet", ".html")
COLUMNS = ("prediction", "possible", "lower", "upper", "node", "path", "check", "action")
BETWEEN = " | "
"""What stands between possible classes where a cell is one text."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Report(Lines):
    """One line per input: what a person needs.

    It is printed as a table, and notebooks show it with bars. `len`, iteration (a dict per input)
    and picking of rows work as for a list; ``report[report.check]`` are the lines to check.

    Attributes
    ----------
    index : dict
        What names the inputs, vectors (n,) by name; their numbers if they have no names.
    prediction : (n,) array
        The class that is most probable at the point prediction, by its name if it has one.
    possible : (n,) array of lists
        The classes that are possible, as `CredalSet.possible` lists them.
    lower, upper : (n,) arrays
        The interval of the predicted class's probability.
    node, path : (n,) arrays or None
        Of classes with a tree: the most specific node that is sure, and the nodes down to it as
        text with their ranges, see `CredalSet.paths`.
    check : (n,) array or None
        True where a person should look.
    action : (n,) array or None
        What to do, by the costs.
    promise : str
        What the model promises, in one sentence; empty if nothing.
    ordered : bool
        Whether classes have an order: possible ones are then printed as "2 to 4".
    """

    index: Index
    prediction: NDArray[Any]
    possible: NDArray[Any]
    lower: Array
    upper: Array
    node: NDArray[Any] | None = None
    path: NDArray[Any] | None = None
    check: Mask | None = None
    action: NDArray[Any] | None = None
    promise: str = ""
    ordered: bool = False

    @classmethod
    def of(
        cls,
        credal: CredalSet | CredalMaps | list[CredalMaps],
        *,
        check: Any = None,
        costs: Any = None,
        rule: str = "e_admissible",
        promise: Promise | str | None = None,
    ) -> Self:
        """The report of credal sets that have a point, and of what is promised of them.

        Parameters as for `report`.
        """
        if isinstance(credal, CredalMaps | list):
            rule = "be a set per line, and not maps"
            fact = "logits with more axes than rows and classes"
            remedy = "Report some inputs: decal.Report.of(maps[mask].flat)."
            raise InputError("the sets of a report", rule, fact, remedy)
        best = predicted(credal)
        n, K = credal.shape
        index = credal.index or {ROW: np.arange(n)}
        free = set() if credal.tree is not None else {"node"}
        taken = (set(COLUMNS) & set(index)) - free
        if taken:
            rule = "not be called like a column of the report"
            raise InputError("ids", rule, f"{min(taken)!r}", "Rename it first.")
        possible = np.fromiter(credal.possible(), dtype=object, count=n)
        lower = credal.lower[np.arange(n), best]
        if check is True:
            check = np.array([len(names) != 1 for names in possible], dtype=bool)
        elif check is not None:
            check = share_to_check(assurance(credal, promise), check)
        return cls(
            index=index,
            prediction=as_names(credal.classes, K)[best],
            possible=possible,
            lower=lower,
            upper=credal.upper[np.arange(n), best],
            node=None if credal.tree is None else credal.node(),
            path=None if credal.tree is None else credal.paths(),
            check=check,
            action=None
            if costs is None
            else cheapest(credal, costs, rule, better_point(credal, promise)),
            promise=str(promise or ""),
            ordered=credal.ordered,
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """All lines of several parts of one report."""

        def joined(values: list[Any]) -> Any:
            return None if values[0] is None else np.concatenate(values)

        index = {name: joined([part.index[name] for part in parts]) for name in parts[0].index}
        columns = {name: joined([getattr(part, name) for part in parts]) for name in COLUMNS}
        first = parts[0]
        return cls(index=index, promise=first.promise, ordered=first.ordered, **columns)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """(n,) columns by name, first those that name the inputs."""
        said = {name: getattr(self, name) for name in COLUMNS}
        return {**self.index, **{name: v for name, v in said.items() if v is not None}}

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> Any:
        """A line as a dict, by its number; a report of the lines of a slice, a mask or a list."""
        picked = row_index(rows, len(self))
        columns = {name: values[picked] for name, values in self.columns.items()}
        index = {name: columns.pop(name) for name in self.index}
        chosen = replace(self, index=index, **columns)
        return chosen if isinstance(rows, slice) or np.ndim(rows) else next(iter(chosen))

    # Elsewhere

    def to_polars(self) -> pl.DataFrame:
        """A DataFrame with a row per input; what names them is in the first columns."""
        with needs("polars", message="to_polars needs polars: pip install 'decal[polars]'"):
            import polars as pl
        kinds: dict[str, Any] = {}
        texts = {name: getattr(self, name) for name in ("prediction", "node", "path", "action")}
        for name, values in texts.items():
            if values is not None:  # of no rows they could not be told
                kinds[name] = pl.String if values.dtype == object else pl.Int64
        kinds["possible"] = pl.List(kinds["prediction"])
        plain = {k: v.tolist() if v.dtype == object else v for k, v in self.columns.items()}
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
            text = page(self.title, in_notebook(self, len(self)))
            with replacing(path) as partial:
                partial.write_text(text, encoding="utf-8", newline="\n")
            return
        with column_writer(path) as append:
            append(self.arrow_columns(lists=suffix == ".parquet"))

    def arrow_columns(self, *, lists: bool) -> dict[str, Any]:
        """Columns of `to_polars` for a file; possible classes as lists, or as one text each."""
        pa = arrow()
        kind = pa.string() if self.prediction.dtype == object else pa.int64()
        columns: dict[str, Any] = self.columns
        columns["prediction"] = pa.array(self.prediction, kind)
        if self.path is not None:
            columns |= {name: pa.array(columns[name], pa.string()) for name in ("node", "path")}
        if lists:
            columns["possible"] = pa.array(self.possible.tolist(), pa.list_(kind))
        else:
            texts = [BETWEEN.join(map(str, names)) for names in self.possible]
            columns["possible"] = pa.array(texts, pa.string())
        return columns

    # How it reads

    @property
    def marked(self) -> int | None:
        """How many inputs to check, if that was asked."""
        return None if self.check is None else int(self.check.sum())

    @property
    def title(self) -> str:
        """How many inputs there are, and how many of them to check."""
        return f"Report: {titled(len(self), self.marked)}"

    def __repr__(self) -> str:
        return summary(self, len(self), self.marked)

    def _repr_html_(self) -> str:
        return in_notebook(self)


def better_point(credal: CredalSet, promise: Any) -> Array | None:
    """(n, K) the prediction that all labelled rows fitted, where sets were fitted on some."""
    return promise.recalibrated(credal.point) if isinstance(promise, Promise) else None


def assurance(credal: CredalSet, promise: Any) -> Array:
    """(n,) how sure the prediction is: its probability fitted on all rows, or its lower one."""
    better = better_point(credal, promise)
    found: Array = credal.lower if better is None else better
    return found[np.arange(len(credal)), predicted(credal)]


def titled(rows: int, marked: int | None) -> str:
    """So many inputs, of which so many are to be checked."""
    said = f"{rows:,} {'input' if rows == 1 else 'inputs'}"
    return said if marked is None else f"{said}, {marked:,} to check"


def summary(first: Report, rows: int, marked: int | None) -> str:
    """The text of a report of so many inputs, whose first lines are given."""
    return printed(first, f"Report: {titled(rows, marked)}", rows)


def in_parts(
    sets: Callable[[], Iterable[CredalSet]], *, check: Any = None, **options: Any
) -> Iterator[Report]:
    """The report of sets that come in parts, which are asked for twice if there is a `check`.

    What is held of all inputs at once is one number each. Options are those of `Report.of`.
    """
    marked, rows = None, 0
    if check is not None:
        found = [assurance(credal, options.get("promise")) for credal in sets()]
        marked = share_to_check(np.concatenate(found), check)
    for credal in sets():
        part = Report.of(credal, **options)
        here = np.arange(rows, rows + len(part))
        index = part.index if credal.index else {ROW: here}
        yield replace(part, index=index, check=None if marked is None else marked[here])
        rows += len(part)


def report(
    model: Any,
    logits: Any,
    *,
    ids: Any = None,
    check: Any = None,
    costs: Any = None,
    rule: str = "e_admissible",
    **options: Any,
) -> Report:
    """One line per input: prediction, possible classes, interval, whom to ask and what to do.

    Parameters
    ----------
    model : Model
        Whatever predicts credal sets. Of a `MultiLabelDecalibrator` this is a `LabelReport`.
    logits, ids
        As for its `predict`.
    check : float or True, optional
        The share of the inputs, above 0 and at most 1, that a person should see, rounded up to
        whole inputs: those whose predicted class has the smallest lower probability or, where a
        wish has fitted a prediction on all rows, the smallest probability there, which finds more
        errors; of ties, the first. True for all inputs that do not have exactly one possible class.
        Of labels, those with the greatest expected number of wrong answers at worst; True for all
        inputs with an open label.
    costs : frame or mapping, optional
        What each action costs in each class, both matched by name. A frame has a column for each
        class; its rows are named by a column "action", or by the index of pandas. A mapping goes
        from actions to mappings from classes to numbers. An array goes by position. Of labels, the
        costs of a wrong yes and of a wrong no, as for `MultiLabelCredalSet.decide`.
    rule : str
        How costs choose the action, see `CredalSet.decide`. Of several that are kept, as with
        "e_admissible", the one of least expected cost at the point prediction; of ties, the first.
        A wish fits its sets on some of the labelled rows: there, the prediction that all rows fit
        takes the place of the point, as one more plausible prediction.
    options
        Others of its `predict`, such as alpha.

    Examples
    --------
    >>> import decal
    >>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
    >>> d = decal.Decalibrator(alpha=0.9).fit(logits, labels, classes=["ham", "spam"])
    >>> costs = {"file": {"ham": 0, "spam": 1}, "drop": {"ham": 20, "spam": 0}}
    >>> d.report([[0.5, 0.0], [-3.0, 2.0]], check=0.5, costs=costs)
    Report: 2 inputs, 1 to check
      row  prediction  possible    lower  upper  check  action  0··········1
      0    ham         ham | spam  0.286  0.814  yes    file    ···███████··
      1    spam        spam        0.982  0.998         drop    ···········█
    """
    require_takes_logits(model)
    credal = model.predict(logits, ids=ids, **options)
    promise = getattr(model if options.get("alpha") is None else options["alpha"], "promise", None)
    if answers_labels(model):
        found: Any = LabelReport.of(credal, check=check, costs=costs, promise=promise)
        return found  # type: ignore[no-any-return]  # callers know which model they have
    return Report.of(credal, check=check, costs=costs, rule=rule, promise=promise)
