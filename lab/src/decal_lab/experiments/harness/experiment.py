"""What every experiment is, and the one function that runs it.

A file of `decal_lab.experiments` defines a function that looks for its data and returns an
`Experiment`: which cells there are, how one is computed, and how rows become tables, figures and
claims. `run` does the rest, in the same way for all of them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from decal.io import only_writer
from decal_lab.experiments.harness.contributions import Contributions
from decal_lab.experiments.harness.figures import save_all
from decal_lab.experiments.harness.fingerprints import Fingerprints, is_current
from decal_lab.experiments.harness.reports import Report, latex_report, markdown_report
from decal_lab.experiments.harness.rows import (
    Cell,
    Row,
    RowStore,
    Track,
    provenance,
    replacing_text,
    untracked,
)

ROWS_FILE = "rows.csv"

NAMES_SHOWN = 12
"""Data sets that a note lists."""

EXPECTED = (
    "credal sets exclude next to nothing",
    "labels agree with the largest logit",
    "logits must look like those that fit was given",
)
"""How warnings begin that decal gives of levels and of data that experiments choose on purpose."""


@dataclass(frozen=True)
class Request:
    """What a user asked for.

    Attributes
    ----------
    data : path
        Folder of data.
    out : path
        Folder of results.
    seeds : tuple of int
        Seeds of whatever is drawn at random.
    quick : bool
        Whether a coarser run will do.
    extra : Contributions
        Methods and data sets of the user's own.
    """

    data: Path
    out: Path
    seeds: tuple[int, ...] = (0,)
    quick: bool = False
    extra: Contributions = field(default_factory=Contributions)

    def extended_seeds(self, count: int) -> tuple[int, ...]:
        """The seeds, if several were asked for; else `count` seeds, counted up from the one."""
        if len(self.seeds) > 1:
            return self.seeds
        return tuple(range(self.seeds[0], self.seeds[0] + count))


@dataclass(frozen=True)
class Findings:
    """What the rows of an experiment show.

    Attributes
    ----------
    report : Report
        Tables and claims, as the terminal shows them.
    figures : mapping of str to callable
        Functions that draw a figure, by the name of its files.
    in_files : Report, optional
        The tables as table.md and table.tex hold them, where these have more columns.
    texts : mapping of str to str
        Further files, or others in place of table.md and table.tex, by name.
    notes : tuple of str
        What else a reader must know.
    """

    report: Report
    figures: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    in_files: Report | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def _never(row: Row) -> bool:  # noqa: ARG001 - most experiments have no rows to compute again
    return False


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment on the data that are available.

    Attributes
    ----------
    columns : mapping of str to type
        Columns of its rows.
    level : str
        The column that distinguishes the rows of a cell.
    cells : sequence of Cell
        All cells, in the order in which they are computed.
    levels : callable
        From a cell to the values of the column `level` that a finished cell has.
    inputs : callable
        From a cell to what its rows depend on besides the cell: data (paths or arrays) and
        settings, by name. A finished cell is computed again if one of them has changed.
    rows : callable
        From a cell to its rows, without the columns of CELL and ORIGIN.
    findings : callable
        From all rows to what they show.
    seeds : tuple of int
        Seeds of the rows that the findings are about.
    needs : tuple of str
        Data that are not available, so that their cells are missing.
    stale : callable
        Whether a row must be computed again although its cell is finished.
    begin : callable
        From the cells to compute to a context that is entered before the first of them.
    """

    columns: Mapping[str, type]
    level: str
    cells: Sequence[Cell]
    levels: Callable[[Cell], Collection[Hashable]]
    inputs: Callable[[Cell], Mapping[str, Any]]
    rows: Callable[[Cell], Iterable[Row]]
    findings: Callable[[RowStore], Findings]
    seeds: tuple[int, ...]
    needs: tuple[str, ...] = ()
    stale: Callable[[Row], bool] = _never
    begin: Callable[[list[Cell]], AbstractContextManager[object]] = nullcontext


Design = Callable[[Request], Experiment]
"""What a file of an experiment defines. It raises NoDataAvailableError if it can use no data."""


def ignore_what_is_expected() -> None:
    """Hear no warnings of levels that nobody chose, for the rest of a block or of a process."""
    for beginning in EXPECTED:
        warnings.filterwarnings("ignore", beginning)


@contextmanager
def _what_is_expected_ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        ignore_what_is_expected()
        yield


@_what_is_expected_ignored()
def run(
    design: Design,
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,
    extra: Contributions | None = None,
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write tables and figures of all rows.

    A cell is missing, too, if it was computed from other data or with other settings. ValueError if
    another run writes into the same folder.

    Parameters
    ----------
    design : callable
        From a Request to the Experiment.
    data, out : path
        Folders of data and of results; the latter is created if it does not exist.
    seeds : tuple of int
        Seeds of whatever the experiment draws at random.
    quick : bool
        Whether a coarser run will do.
    extra : Contributions, optional
        Methods and data sets of the user's own.
    track : callable
        Yields the cells to compute one by one, and may draw a progress bar.
    """
    experiment = design(Request(data, out, seeds, quick, extra or Contributions()))
    out.mkdir(parents=True, exist_ok=True)
    with only_writer(out):
        store = RowStore(out / ROWS_FILE, experiment.columns, level=experiment.level)
        known = Fingerprints()
        prints = {cell: known.of(experiment.inputs(cell)) for cell in experiment.cells}
        changed = [
            cell
            for cell, now in prints.items()
            if not all(is_current(row["fingerprint"], now) for row in store.cells.get(cell, ()))
        ]
        missing = [
            cell
            for cell in experiment.cells
            if not store.finished(cell, experiment.levels(cell))
            or cell in changed
            or any(map(experiment.stale, store.cells[cell]))
        ]
        origin = provenance()
        with experiment.begin(missing):
            for cell in track(missing):
                start = time.perf_counter()
                rows = list(experiment.rows(cell))
                same = {**vars(cell), **origin, "seconds": round(time.perf_counter() - start, 4)}
                same["fingerprint"] = prints[cell]
                store.add(cell, [same | row for row in rows])
        found = experiment.findings(store)
        notes = _about_earlier_runs(experiment, store, changed)
        found = replace(found, notes=(*found.notes, *notes))
        return write(found, store, out, seeds=experiment.seeds, needs=experiment.needs)


def _about_earlier_runs(
    experiment: Experiment, store: RowStore, changed: Sequence[Cell]
) -> Iterator[str]:
    """Which cells were computed again, and which were not compared with their data."""
    if changed:
        cells, were = ("cell", "was") if len(changed) == 1 else ("cells", "were")
        yield (
            f"{len(changed):,} {cells} of an earlier run {were} computed again, as their data or "
            f"settings had changed: {_listed(cell.data for cell in changed)}"
        )
    here = {cell.data for cell in experiment.cells}
    seeds = set(experiment.seeds)
    gone = [cell.data for cell in store.cells if cell.data not in here and cell.seed in seeds]
    if gone:
        yield (
            f"rows of {_listed(gone)} are of an earlier run: their data are not here to be compared"
        )


def _listed(names: Iterable[str]) -> str:
    """Names, each once, not too many of them."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - NAMES_SHOWN
    return ", ".join(distinct[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def write(
    found: Findings,
    store: RowStore,
    out: Path,
    *,
    seeds: tuple[int, ...],
    needs: tuple[str, ...] = (),
) -> Report:
    """Write tables and figures, and return the report with the list of all files.

    Parameters
    ----------
    found : Findings
        What the rows show.
    store : RowStore
        The rows themselves.
    out : path
        Folder of results.
    seeds : tuple of int
        Seeds of the rows that the findings are about.
    needs : tuple of str
        Data that are not available.
    """
    report = replace(found.report, needs=needs)
    told = replace(found.in_files or report, claims=report.claims, needs=needs)
    texts = {"table.md": markdown_report(told), "table.tex": latex_report(told), **found.texts}
    for name, text in texts.items():
        with replacing_text(out / name) as file:
            file.write(text)
    figures, complaints = save_all(found.figures, out)
    return replace(
        report,
        notes=(*found.notes, *store.origins(seeds), *complaints),
        files=(store.path, *(out / name for name in texts), *figures),
    )
