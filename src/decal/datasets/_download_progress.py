"""How far a download is: a bar on the error stream, if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

Progress = Callable[[int, int | None], None]
"""Called with the bytes at hand and those in all, None if unknown."""


@contextlib.contextmanager
def shown(what: str, progress: Progress | None) -> Iterator[Progress]:
    """The progress asked for; else a bar on a terminal, drawn by rich if it is installed."""
    if progress is not None:
        yield progress
    elif not sys.stderr.isatty():
        yield _silent
    else:
        try:
            import rich.progress  # noqa: F401
        except ImportError:
            bar = _plain_line(what, sys.stderr)
        else:
            bar = _rich_bar(what)
        with bar as report:
            yield report


@contextlib.contextmanager
def _rich_bar(what: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with RichProgress("{task.description}", *columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextlib.contextmanager
def _plain_line(what: str, stream: TextIO) -> Iterator[Progress]:
    last = ""

    def report(done: int, total: int | None) -> None:
        nonlocal last
        share = (
            f"{done / total:4.0%} of {total / 1e6:,.1f} MB" if total else f"{done / 1e6:,.1f} MB"
        )
        if share != last:
            last = share
            stream.write(f"\r{what}: {share}")
            stream.flush()

    try:
        yield report
    finally:
        if last:
            stream.write("\n")


def _silent(_done: int, _total: int | None) -> None:
    """Nobody is looking."""
