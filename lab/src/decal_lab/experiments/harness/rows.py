"""Tidy rows in a .csv file, gathered in cells: an interrupted run loses at most the last cell."""

from __future__ import annotations

import csv
import io
import os
import subprocess
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

import decal
from decal.io import replacing

Row = dict[str, Any]

CELL = {"data": str, "method": str, "seed": int}
FINGERPRINT = {"fingerprint": str}
ORIGIN = {"seconds": float, "decal": str, "numpy": str, "commit": str} | FINGERPRINT
"""Columns of every experiment: the cell; the seconds it took, which versions computed it, and from
which data and settings."""


@dataclass(frozen=True)
class Cell:
    """One data set, one method, one seed: what is computed, and skipped, as a whole."""

    data: str
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.data}: {self.method}"


Track = Callable[[Sequence[Cell]], Iterable[Cell]]
"""Yields the cells to compute one by one, and may draw a progress bar."""


class RowStore:
    """The rows of an experiment, in a file that grows by whole cells.

    A cell is appended as a whole. If a killed run, or an editor, left a cell incomplete, it counts
    as not finished, and is replaced when it is added again.

    Parameters
    ----------
    path : path
        The .csv file. Neither it nor its folder need exist.
    columns : mapping of str to type
        The type (str, int or float) of every column by its name. "data", "method" and "seed" name
        the cell; `level` distinguishes the rows of a cell.
    level : str
        The name of a column, such as "alpha" or "measure".
    """

    def __init__(self, path: Path, columns: Mapping[str, type], *, level: str) -> None:
        self.path = path
        self.columns = dict(columns)
        self.level = level
        self.cells: dict[Cell, list[Row]] = {}
        self._damaged = False
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read()

    def finished(self, cell: Cell, levels: Iterable[Hashable]) -> bool:
        """Whether a cell has rows, and one for each of these levels."""
        rows = self.cells.get(cell, ())
        return bool(rows) and {row[self.level] for row in rows} >= set(levels)

    def add(self, cell: Cell, rows: Sequence[Row]) -> None:
        """Write a cell; rows that it had before are replaced."""
        replaced = cell in self.cells
        self.cells[cell] = [{name: row[name] for name in self.columns} for row in rows]
        if replaced or self._damaged or not self.path.exists():
            self._write_all()
            return
        with self.path.open("a", newline="", encoding="utf-8") as file:
            self._write(file, self.cells[cell])
            _to_disk(file)

    def origins(self, seeds: Iterable[int]) -> list[str]:
        """A warning if rows of these seeds were computed by different versions."""
        wanted = set(seeds)
        origins = {
            f"decal {row['decal']}" + (f" ({row['commit']})" if row["commit"] else "")
            for cell, rows in self.cells.items()
            for row in rows
            if cell.seed in wanted
        }
        if len(origins) < 2:
            return []
        return [
            f"rows were computed by {' and '.join(sorted(origins))}: "
            f"delete {self.path} to compute all of them again"
        ]

    def _read(self) -> None:
        with self.path.open(newline="", encoding="utf-8") as file:
            text = file.read()
        lines = csv.reader(io.StringIO(text, newline=""))
        columns, header = list(self.columns), next(lines, None)
        unknown = [""] if header == columns[:-1] and columns[-1:] == list(FINGERPRINT) else []
        if header is None or header != columns[: len(columns) - len(unknown)]:
            raise ValueError(
                f"{self.path} must hold the columns {', '.join(self.columns)}: got others. "
                "Choose another folder, or delete the file to compute its rows again."
            )
        # A last line without a line break was cut off, possibly within a number.
        self._damaged = not text.endswith("\n") or bool(unknown)
        found = list(lines)
        for fields in found[:-1] if not text.endswith("\n") else found:
            values = [*fields, *unknown]
            try:
                row = {
                    name: kind(value)
                    for (name, kind), value in zip(self.columns.items(), values, strict=True)
                }
            except ValueError:
                self._damaged = True
                continue
            cell = Cell(row["data"], row["method"], row["seed"])
            self.cells.setdefault(cell, []).append(row)

    def _write_all(self) -> None:
        with replacing_text(self.path) as file:
            csv.writer(file, lineterminator="\n").writerow(self.columns)
            for rows in self.cells.values():
                self._write(file, rows)
        self._damaged = False

    def _write(self, file: IO[str], rows: Iterable[Row]) -> None:
        # str of a float is the shortest text that reads back as the same number.
        csv.writer(file, lineterminator="\n").writerows(row.values() for row in rows)


@contextmanager
def replacing_text(path: Path) -> Iterator[IO[str]]:
    """A file to write that takes the place of another only once it is complete."""
    with (
        replacing(path) as partial,
        partial.open("w", newline="", encoding="utf-8") as file,
    ):
        yield file


def provenance() -> dict[str, str]:
    """Which versions of decal and NumPy compute, and which commit of decal if that is known."""
    return {"decal": decal.__version__, "numpy": np.__version__, "commit": _commit()}


def _commit() -> str:
    """The commit of decal's sources, with "-dirty" if they were changed; "" outside a checkout."""
    package = Path(decal.__file__)
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=package.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    try:
        # An environment may lie inside somebody's checkout, which then does not track decal.
        git("ls-files", "--error-unmatch", package.name)
        return git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _to_disk(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


def untracked(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells themselves, without a progress bar."""
    yield from cells
