"""Progress bars on the error stream, drawn by rich if it is installed, which is imported then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ByteProgress", "ProgressBar", "byte_progress", "on_terminal", "progress_bar", "tracked"]

BYTES = "B"
"""The unit whose numbers are shown as kB, MB and so on, with a speed."""

ByteProgress = Callable[[int, int | None], None]
"""Called with the number of bytes received and the number expected, None if that is unknown."""

Item = TypeVar("Item")


class ProgressBar:
    """Counts finished steps of a total that may be unknown, with a note after the bar.

    This one draws nothing; its subclasses draw a bar.
    """

    def __init__(self, total: int | None, done: int) -> None:
        self.total, self.done, self.note = total, done, ""

    def advance(self, steps: int = 1) -> None:
        """Count further steps as finished."""
        self.update(self.done + steps, self.total)

    def update(self, done: int, total: int | None) -> None:
        """Replace both numbers."""
        self.done, self.total = done, total
        self.draw()

    def describe(self, note: str) -> None:
        """Replace the note."""
        self.note = note
        self.draw()

    def draw(self) -> None:
        """Show the current numbers."""

    def close(self) -> None:
        """Draw no more."""


class _RichBar(ProgressBar):
    def __init__(
        self,
        title: str,
        total: int | None,
        done: int,
        unit: str,
        console: Console | None,
        transient: bool,
    ) -> None:
        import rich.progress as columns
        from rich.console import Console

        super().__init__(total, done)
        shown: tuple[columns.ProgressColumn, ...] = (
            columns.MofNCompleteColumn(),
            columns.TextColumn(unit, markup=False),
            columns.TimeElapsedColumn(),
        )
        if unit == BYTES:
            shown = (
                columns.DownloadColumn(),
                columns.TransferSpeedColumn(),
                columns.TimeRemainingColumn(),
            )
        self._bars = columns.Progress(
            columns.TextColumn("{task.description}", markup=False),
            columns.BarColumn(),
            *shown,
            columns.TextColumn("{task.fields[note]}", markup=False),
            console=console or Console(stderr=True),
            transient=transient,
        )
        self._task = self._bars.add_task(title, total=total, completed=done, note="")
        self._bars.start()

    def draw(self) -> None:
        self._bars.update(self._task, completed=self.done, total=self.total, note=self.note)

    def close(self) -> None:
        self._bars.stop()


class _PlainLine(ProgressBar):
    """A line of megabytes that rewrites itself, for a terminal without rich."""

    def __init__(self, title: str, stream: TextIO) -> None:
        super().__init__(None, 0)
        self._title, self._stream, self._last = title, stream, ""

    def draw(self) -> None:
        if self.total:
            text = f"{self.done / self.total:4.0%} of {self.total / 1e6:,.1f} MB"
        else:
            text = f"{self.done / 1e6:,.1f} MB"
        if text != self._last:
            self._last = text
            self._stream.write(f"\r{self._title}: {text}")
            self._stream.flush()

    def close(self) -> None:
        if self._last:
            self._stream.write("\n")


def on_terminal() -> bool:
    """Whether the error stream is a terminal."""
    return sys.stderr.isatty()


@contextmanager
def progress_bar(
    title: str,
    total: int | None = None,
    *,
    unit: str,
    show: bool,
    done: int = 0,
    console: Console | None = None,
    transient: bool = False,
) -> Iterator[ProgressBar]:
    """A bar on the error stream, for as long as the block runs.

    Before it stands the title; `done` of `total` steps, if known, were finished before. The `unit`
    is what is counted, in the plural, or "B" for bytes, which show a speed, and are shown as a
    plain line if rich is not installed. Nothing is drawn unless `show`; `on_terminal()` and what
    the user asked for decide. What is printed on the `console` stays above the bar, which vanishes
    at the end if `transient`.
    """
    bar = ProgressBar(total, done)
    if show:
        try:
            bar = _RichBar(title, total, done, unit, console, transient)
        except ImportError:
            bar = _PlainLine(title, sys.stderr) if unit == BYTES else bar
    try:
        yield bar
    finally:
        bar.close()


def tracked(items: Iterable[Item], title: str, *, unit: str, show: bool) -> Iterator[Item]:
    """The items one by one, under a bar as of `progress_bar`."""
    try:
        total = len(items)  # type: ignore[arg-type]
    except TypeError:
        total = None
    with progress_bar(title, total, unit=unit, show=show) as bar:
        for item in items:
            yield item
            bar.advance()


@contextmanager
def byte_progress(title: str, report: ByteProgress | None) -> Iterator[ByteProgress]:
    """The caller's own function, if there is one; else one that moves a bar on a terminal."""
    if report is not None:
        yield report
        return
    with progress_bar(title, unit=BYTES, show=on_terminal()) as bar:
        yield bar.update
