"""The streams that commands print on: one for results, one for messages and progress."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from rich.console import Console

from decal._io import progress
from decal._io.progress import ProgressBar
from decal._io.sources import Chunk, LogitSource

__all__ = [
    "messages",
    "output",
    "progress_bar",
    "renamed",
    "say",
    "stand_in",
    "with_options",
    "with_progress",
]

output = Console()
messages = Console(stderr=True)


def say(message: str, *, style: str) -> None:
    """Print one line on the stream of messages."""
    messages.print(renamed(message), style=style, markup=False, highlight=False, soft_wrap=True)


WITH_OPTIONS = (
    (r"leave probabilities=True out for logits", "say --logits if they are logits"),
    (r"Pass probabilities=True if they are probabilities", "Add --probabilities if they are"),
    (r"Pass probabilities=True, convert them with [\w.]+, or pass", "Add --probabilities, or give"),
    (r"pass probabilities=True, convert them with [\w.]+, or pass", "add --probabilities, or give"),
    (r"Raise zeros with floor,", "Raise zeros with --floor,"),
    (r"\b(likelihood|reference|box)='(\w+)'", r"--\1 \2"),
    (r"\balpha=([\d.]*\d)", r"--alpha \1"),
    (r"^output must be (given|one of the model's)", r"--classifier-output must be \1"),
    (r"Pass output=\.", "Pass --classifier-output."),
)
"""How messages advise arguments of Python, and what is said of options instead."""


def with_options(message: str) -> str:
    """The same message about options of the command line."""
    for said, instead in WITH_OPTIONS:
        message = re.sub(said, instead, message)
    return message


_temporary: ContextVar[str] = ContextVar("_temporary", default="")


@contextmanager
def stand_in(folder: str) -> Iterator[None]:
    """While it lasts, messages call files of this temporary folder by their names alone.

    The names are those of what the files stand for: "standard input" and "standard output".
    """
    before = _temporary.set(folder)
    try:
        yield
    finally:
        _temporary.reset(before)


def renamed(message: str) -> str:
    """The message without the folder and the endings of files that stand for streams."""
    folder = _temporary.get()
    if not folder:
        return message
    return re.sub(re.escape(folder + os.sep) + r"(standard \w+)\.\w+", r"\1", message)


def progress_bar(
    title: str, total: int | None = None, *, unit: str = "rows"
) -> AbstractContextManager[ProgressBar]:
    """A bar on the stream of messages that vanishes at the end; hidden unless on a terminal."""
    return progress.progress_bar(
        title, total, unit=unit, show=messages.is_terminal, console=messages, transient=True
    )


def with_progress(source: LogitSource, title: str) -> Iterator[Chunk]:
    """The chunks of a source, with a bar on the terminal."""
    with progress_bar(title, source.rows) as bar:
        for chunk in source.chunks():
            yield chunk
            bar.advance(len(chunk))
