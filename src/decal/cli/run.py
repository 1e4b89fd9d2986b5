"""Runs over files of logits: a bar, a stop on Ctrl-C that loses no finished work, and intervals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from decal._base.errors import InputError, Words, counted
from decal.cli.options import Reading
from decal.cli.terminal import OPTIONS, progress_bar, say
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.evaluate import metrics
from decal.io.checkpoints import Monitor, Stopped
from decal.io.folders import Folder, Layout
from decal.io.predictions import Predict, predict_files
from decal.io.progress import ProgressBar
from decal.io.writers import BOUNDS, Written, check_output, credal_writer
from decal.model import promised_sets
from decal.new_inputs import NewInputs
from decal.promise import Promise
from decal.rows import Rows


class StoppableProgress(Monitor):
    """Moves a bar, and stops the work at the first chunk boundary after a signal."""

    def __init__(self, bar: ProgressBar) -> None:
        self.bar = bar
        self.signal: int | None = None

    def start(self, rows: int | None, done: int) -> None:
        """Show the number of rows in total, and of those finished by an earlier run."""
        if done:
            say(f"Continuing after {done:,} rows done before.", style="yellow")
        self.bar.update(done, rows)

    def advance(self, rows: int) -> None:
        """Moves the bar."""
        self.bar.advance(rows)

    def stopping(self) -> bool:
        """Whether a signal has arrived."""
        return self.signal is not None

    def catch(self, number: int, _frame: Any) -> None:
        """Remember the first signal; a second one ends the work at once."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watched(title: str) -> Iterator[StoppableProgress]:
    """A bar for work that a signal may stop.

    If a signal does stop it, the user reads what is kept, and the command exits with the status
    that shells expect after a signal.
    """
    with progress_bar(title) as bar:
        progress = StoppableProgress(bar)
        before = {}
        if threading.current_thread() is threading.main_thread():
            caught = (signal.SIGINT, signal.SIGTERM)  # clusters send the latter before an end
            before = {number: signal.signal(number, progress.catch) for number in caught}
        try:
            yield progress
        except Stopped as stopped:
            say(f"Stopped. {stopped}. Run the same command again to continue.", style="yellow")
            raise typer.Exit(128 + (progress.signal or signal.SIGINT)) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


# One file


def all_rows(folder: Folder, layout: Layout | None = None) -> Rows:
    """All rows of the only file of a folder, in memory."""
    part = folder.parts[0]
    with part.reading(*folder.companions), folder.open(part, layout) as source:
        return source.all()


# All files


def chunks_of_all(folder: Folder, layout: Layout, title: str) -> Iterator[Rows]:
    """The chunks of all files, with a bar on the terminal; InputError if one is bad."""
    survey = folder.survey(folder.parts, layout)
    for fault in survey.faults.values():
        raise InputError(fault)
    with watched(title) as monitor:
        monitor.start(survey.total, 0)
        for part in folder.parts:
            with survey.open(part) as source:
                for chunk in part.chunks(source):
                    yield chunk
                    monitor.advance(len(chunk))
                    if monitor.stopping():
                        raise KeyboardInterrupt


def list_skipped(faults: Mapping[str, Words]) -> None:
    """Say which files were left out, and why."""
    for name, fault in faults.items():
        say(f"Left out {name}: {OPTIONS.say(fault)}", style="yellow")


# Sets


@dataclass(frozen=True)
class Asked:
    """What a model is asked of the rows of files: its promise, or the sets of an alpha."""

    model: Decalibrator
    alpha: float | None
    reading: Reading

    @property
    def level(self) -> float:
        """The alpha of all sets, or the least of several."""
        return self.model.level(self.alpha)

    @property
    def promise(self) -> Promise | None:
        """What the model promises, unless another alpha is asked for."""
        return self.model.promise if self.alpha is None else None

    def predict(self, *, possible: bool = True) -> Predict:
        """What predicts the sets, with the `possible` classes of the promise if wanted."""
        promise = self.promise
        if not possible and promise is not None and promise.per != "group":
            promise = None
        if promise is None and self.reading.groups is None:
            return partial(self.model.predict_rows, alpha=self.level)

        def promised(rows: Rows) -> IntervalCredalSet:
            rows, groups = self.reading.grouped(rows)
            sets: IntervalCredalSet
            sets = promised_sets(self.model, rows, self.level, promise, groups)
            return sets

        return promised

    def __str__(self) -> str:
        if self.promise is not None and self.promise.per == "group":
            return f" at the alphas of {len(self.promise.levels)} groups"
        return f" at alpha {self.level:g}"


# Intervals


def check_intervals(
    logits: Path,
    out: Path,
    file_format: str | None,
    ids: str,
    *,
    force: bool,
    written: Written = BOUNDS,
) -> None:
    """Refuse intervals that cannot be written, before anything is read."""
    if not logits.is_dir():
        check_output(out, force=force, file_format=file_format)
        named = "--id-column" if ids else "--top" if written.top else ""
        if named and (file_format or out.suffix).lower().lstrip(".") == "npy":
            rule = f"be .npz, .csv or .parquet with {named}"
            raise InputError("output", rule, ".npy, which holds one array")
    elif file_format not in (None, "parquet"):
        raise InputError("format", "be parquet for a folder", f"{file_format}")


@dataclass(frozen=True)
class Predictions:
    """Intervals of one file, or of all files of a folder; `level` is told at the end."""

    predict: Predict
    layout: Layout
    folder: Folder
    level: str = ""
    written: Written = BOUNDS

    def to_file(self, out: Path, file_format: str | None, noticed: NewInputs | None = None) -> None:
        """Write a file of intervals; what is noticed of the inputs is told at the end."""
        rows, width, part = 0, 0.0, self.folder.parts[0]
        with (
            self.folder.open(part, self.layout) as source,
            credal_writer(
                out, file_format=file_format, written=self.written, grid=source.grid
            ) as append,
            progress_bar("Predicting", source.rows) as bar,
        ):
            for chunk in part.chunks(source):
                credal = self.predict(chunk)
                append(credal)
                rows += len(credal)
                bar.advance(len(credal))
                width += len(credal) * (1 - metrics.efficiency(credal))
                if noticed is not None:
                    noticed.add(chunk, credal)
        if noticed is not None:
            noticed.warn()
        told = f"{counted(rows, 'input')}{self.level}, mean width {width / rows:.3f}"
        say(f"Wrote {out}: {told}", style="green")

    def to_folder(
        self, out: Path, origin: Mapping[str, Any], *, overwrite: bool, skip_bad: bool
    ) -> None:
        """Write a folder of intervals; `origin` is what they depend on besides the files."""
        with watched("Predicting") as monitor:
            written = predict_files(
                self.predict,
                self.layout,
                origin,
                self.folder,
                out,
                overwrite=overwrite,
                skip_bad=skip_bad,
                monitor=monitor,
                written=self.written,
            )
        list_skipped(written["skipped"])
        told = f"{len(written['parts']):,} files, {written['rows']:,} inputs{self.level}"
        say(f"Wrote {out}: {told}", style="green")
