"""The experiments behind `decal reproduce`: each is data × method × measure, in a file of its own.

An experiment computes cells and keeps them as tidy rows (`rows`); tables and figures are rebuilt
from the rows. It uses public names of decal only, so that a user can repeat it without the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from decal.experiments import directions
from decal.experiments.report import Report
from decal.experiments.rows import Track


class Run(Protocol):
    """Computes the cells of an experiment that are not in `out` yet, and reports on all of them."""

    def __call__(self, data: Path, out: Path, *, seed: int, quick: bool, track: Track) -> Report:
        """Read `data`, write into `out`; `track` hands on the cells, for a progress bar."""
        ...


@dataclass(frozen=True)
class Experiment:
    """An entry of `decal reproduce --list`."""

    summary: str
    run: Run


EXPERIMENTS = {
    "directions": Experiment(
        "Coverage against efficiency, with class shifts, temperature and both", directions.run
    ),
}
"""Every experiment by the name that `decal reproduce` knows it by."""
