"""The streams that commands print on: one for results, one for messages and progress."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from rich.console import Console

from decal.io import progress
from decal.io.progress import ProgressBar
from decal.io.sources import Chunk, LogitSource

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
    (r"Pass output=\.", "Say which with --classifier-output."),
    (
        r"path must be a file that `save` wrote",
        "MODEL must be a file that a command of decal wrote",
    ),
    (r"path must be a file as `save` wrote it", "MODEL must be as a command of decal wrote it"),
    (r"path must hold a Decalibrator:", "MODEL must be a file that decal fit wrote:"),
    (r"path must hold a LabelShift:", "MODEL must be a file that decal shift wrote:"),
    (r"path must hold a Triage:", "MODEL must be a file that decal triage wrote:"),
    (r"which holds a Decalibrator\. .*", "which decal fit wrote."),
    (r"which holds a LabelShift\. .*", "which is for decal shift and decal explore."),
    (r"which holds a Triage\. .*", "which is for decal triage."),
    (r"which holds a \w+\. .*", "which is for decal in Python."),
    (
        r"this LabelShift must have observed unlabelled inputs first\. .*",
        "MODEL must have observed unlabelled inputs first. Let decal shift observe some and keep "
        "them with --save, or suppose frequencies with --what-if.",
    ),
    (r"alpha_for_classes guarantees every class", "the guarantee is for all classes together"),
    (r"; see lower_entropy\(max_nodes=\.\.\.\)", ""),
    (r"Add the direction 'class'\.", "Fit it with --directions class, or with class and others."),
    (r"or pass a list of paths\.", "or list their paths in a .txt."),
    (r" Use decal\.MultiLabelDecalibrator on its logits\.", ""),
    (r"Export a decal\.torch\.CredalHead with .* instead\.", "Fit it with --directions of these."),
    (r"Fit it with probabilities=True on run\(.*\)\.", "Fit it with --probabilities."),
    (
        r"got one with probabilities=True\. Fit it on .*",
        "got one fitted with --probabilities. Fit it on the classifier's logits.",
    ),
    (
        r"names must be two that the graph does not have: (.*)\. Pass others, .*",
        r"CLASSIFIER must have nothing called lower or upper: \1. Rename it there.",
    ),
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
