"""What a long run over many files shows, and how it is stopped without loss."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.progress import Progress, TaskID

from decal._cli.terminal import progress_bar, row_columns, say
from decal._io.checkpoints import Monitor, Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what schedulers of clusters send before they end a process."""


class Bar(Monitor):
    """Moves a bar, and stops the work at the next chunk after the first signal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress, self.task = progress, task
        self.signal: int | None = None

    def start(self, rows: int | None, done: int) -> None:
        """Show how much there is to do."""
        if done:
            say(f"Continuing after {done:,} rows done before.", style="yellow")
        self.progress.update(self.task, total=rows, completed=done)

    def advance(self, rows: int) -> None:
        """Move the bar."""
        self.progress.advance(self.task, rows)

    def stopping(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None

    def catch(self, number: int, _frame: Any) -> None:
        """Remember a signal; a second one ends the work at once."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watched(description: str) -> Iterator[Bar]:
    """A bar for work that may be stopped; if it is, says what is kept and exits as signals do."""
    with progress_bar(*row_columns()) as progress:
        bar = Bar(progress, progress.add_task(description, total=None))
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, bar.catch) for number in SIGNALS}
        try:
            yield bar
        except Stopped as stopped:
            say(f"Stopped. {stopped}. Run the same command again to continue.", style="yellow")
            raise typer.Exit(128 + (bar.signal or signal.SIGINT)) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
