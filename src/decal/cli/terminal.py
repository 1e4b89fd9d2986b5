"""The streams that commands print on: one for results, one for messages and progress."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from rich.console import Console

from decal._base.errors import DecalWarning, Dialect, InputError
from decal.io import model_files, progress
from decal.io.progress import ProgressBar

__all__ = [
    "OPTIONS",
    "messages",
    "output",
    "progress_bar",
    "renamed",
    "say",
    "stand_in",
    "told",
]

output = Console()
messages = Console(stderr=True)


def say(message: str, *, style: str) -> None:
    """Print one line on the stream of messages."""
    messages.print(renamed(message), style=style, markup=False, highlight=False, soft_wrap=True)


WRITERS = {"Decalibrator": "fit", "LabelShift": "shift", "Triage": "triage"}
"""The commands that write models, by the classes of these."""

READERS = {
    "Decalibrator": "decal fit wrote",
    "LabelShift": "is for decal shift and decal explore",
    "Triage": "is for decal triage",
}

PHRASES = {
    "Pass ": "Add ",
    "pass ": "add ",
    "one with ": "one fitted with ",
    " if they are probabilities.": " if they are.",
    "leave probabilities=True out for logits": "say --logits if they are logits",
    ", convert them with decal.logits_from_probabilities, or pass": ", or give",
    "path": "MODEL",
    model_files.SAVED: "be a file that a command of decal wrote",
    "be a file as `save` wrote it": "be as a command of decal wrote it",
    "Save the model again, or copy the file anew.": "Make the model again, or copy the file anew.",
    **{f"hold a {kind}": f"be a file that decal {name} wrote" for kind, name in WRITERS.items()},
    **{
        f"holds a {kind}": READERS.get(kind, "is for decal in Python")
        for kind in (name.rpartition(".")[2] for name in model_files.KINDS.values())
    },
    **{f"Load it with {name}.load.": "" for name in model_files.KINDS.values()},
    "this LabelShift": "MODEL",
    "Call observe, or say what frequencies you suppose: predict(logits, frequencies={...}).": (
        "Let decal shift observe some and keep them with --save, or suppose frequencies with "
        "--what-if."
    ),
    "Add the direction 'class'.": "Fit it with --directions class, or with class and others.",
    "; see lower_entropy(max_nodes=...)": "",
    "or pass a list of paths.": "or list their paths in a .txt.",
    "Pass output=.": "Say which with --classifier-output.",
    "Use decal.MultiLabelDecalibrator on its logits.": "",
    "Export a decal.torch.CredalHead with torch.onnx.export instead.": (
        "Fit it with --directions of these."
    ),
    "Fit it on what decal.onnx.run returns.": "Fit it on the classifier's logits.",
    " on run(..., read='probabilities')": "",
    "be two that the graph does not have": "have nothing called lower or upper",
    "Pass others, such as names=('credal_lower', 'credal_upper').": "Rename it there.",
}
"""What messages for Python say, and what is said on the command line instead."""

CALLED = {"output": "--classifier-output", "names": "CLASSIFIER"}
"""Arguments that are not called like their option."""


class Options(Dialect):
    """Settings as options of commands."""

    def setting(self, name: str, value: object) -> str:
        """Writes an option, with its value unless it is a flag."""
        option = CALLED.get(name, f"--{name}")
        return option if value is None or value is True else f"{option} {value}"


OPTIONS = Options(PHRASES)


def told(error: BaseException) -> str:
    """The message of an error or a warning, about options."""
    return error.told(OPTIONS) if isinstance(error, InputError | DecalWarning) else str(error)


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
