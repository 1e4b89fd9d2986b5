"""Long runs over many files: a progress bar, and a stop on Ctrl-C that loses no finished work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from decal.cli.terminal import progress_bar, say
from decal.io.checkpoints import Monitor, Stopped
from decal.io.progress import ProgressBar

__all__ = ["StoppableProgress", "watched"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what the scheduler of a cluster sends before it ends a process."""


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
        """Move the bar."""
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
            before = {number: signal.signal(number, progress.catch) for number in SIGNALS}
        try:
            yield progress
        except Stopped as stopped:
            say(f"Stopped. {stopped}. Run the same command again to continue.", style="yellow")
            raise typer.Exit(128 + (progress.signal or signal.SIGINT)) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
