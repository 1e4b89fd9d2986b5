"""Progress bars on the error stream, drawn by rich if it is installed, which is imported then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ProgressBar", "on_terminal", "progress_bar", "tracked"]

BYTES = "B"  # the unit whose numbers are shown as kB, MB and so on, with a speed

Item = TypeVar("Item")


class ProgressBar:
    """Counts finished steps of a total that may be unknown, with a note after the bar.

    `draw`, if there is one, is called with all three whenever one changes.
    """

    def __init__(
        self, total: int | None, done: int, draw: Callable[..., None] | None = None
    ) -> None:
        self.total, self.done, self.note, self._draw = total, done, "", draw

    def advance(self, steps: int = 1) -> None:
        """Count further steps as finished."""
        self.update(self.done + steps, self.total)

    def update(self, done: int, total: int | None) -> None:
        """Replace both numbers."""
        self.done, self.total = done, total
        self._show()

    def describe(self, note: str) -> None:
        """Replace the note."""
        self.note = note
        self._show()

    def _show(self) -> None:
        if self._draw is not None:
            self._draw(completed=self.done, total=self.total, note=self.note)


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
    is what is counted, in the plural, or "B" for bytes, which show a speed. Nothing is drawn unless
    `show`; `on_terminal()` and what the user asked for decide. What is printed on the `console`
    stays above the bar, which vanishes at the end if `transient`.
    """
    bars = _rich_bars(unit, console, transient) if show else None
    if bars is None:
        yield ProgressBar(total, done)
        return
    with bars:
        task = bars.add_task(title, total=total, completed=done, note="")
        yield ProgressBar(total, done, partial(bars.update, task))


def _rich_bars(unit: str, console: Console | None, transient: bool) -> Any:
    """A rich.progress.Progress with columns for the unit; None without rich."""
    try:
        import rich.progress as columns
        from rich.console import Console
    except ImportError:
        return None
    shown: tuple[columns.ProgressColumn, ...] = (
        columns.MofNCompleteColumn(),
        columns.TextColumn(unit, markup=False),
        columns.TimeElapsedColumn(),
    )
    if unit == BYTES:
        speed, left = columns.TransferSpeedColumn(), columns.TimeRemainingColumn()
        shown = (columns.DownloadColumn(), speed, left)
    return columns.Progress(
        columns.TextColumn("{task.description}", markup=False),
        columns.BarColumn(),
        *shown,
        columns.TextColumn("{task.fields[note]}", markup=False),
        console=console or Console(stderr=True),
        transient=transient,
    )


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
