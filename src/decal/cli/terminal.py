"""The streams of commands: results and messages, and `-` for standard input or standard output.

A stream can be read once and forwards only, while readers of files look several times. So standard
input is copied to a temporary file first, and what goes to standard output is copied from one at
the end: a command that fails writes nothing there. Messages call the streams by their names.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from decal._base.errors import DecalWarning, Dialect, InputError
from decal.choose import PER_CLASS
from decal.io import model_files, progress
from decal.io.progress import ProgressBar

output = Console()
messages = Console(stderr=True)


def say(message: str, *, style: str) -> None:
    """Print one line on the stream of messages, which a terminal breaks between words."""
    told = renamed(message)
    if messages.is_terminal:
        told = fill(told, messages.width, break_long_words=False, break_on_hyphens=False)
    messages.print(told, style=style, markup=False, highlight=False, soft_wrap=True)


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
    "Pass groups=": "Give --alpha, or their column with --groups",
    "Predict such inputs with alpha=0, or choose again with examples of them.": (
        "Predict such inputs with --alpha 0, or fit again with examples of them."
    ),
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
    "Wish for less, or for miss=, or label more rows.": (
        "Wish for less, or for --miss, or label more rows."
    ),
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
        option = CALLED.get(name, f"--{name.replace('_', '-')}")
        return option if value is None or value is True else f"{option} {value}"


OPTIONS = Options(PHRASES)


def told(error: BaseException) -> str:
    """The message of an error or a warning, about options."""
    return error.told(OPTIONS) if isinstance(error, InputError | DecalWarning) else str(error)


def in_options(promised: str) -> str:
    """What a promise says, about options."""
    return promised.replace(PER_CLASS, "--per class guarantees every class")


def renamed(message: str) -> str:
    """The message with streams by their names, not by the files that stand in for them."""
    folder = re.escape(os.path.join(tempfile.gettempdir(), PREFIX))
    return re.sub(folder + r"\w+\W(standard \w+)\.\w+", r"\1", message)


def table(
    title: str | None,
    headings: Sequence[str],
    lines: Iterable[Sequence[str]],
    caption: str | Text | None = None,
) -> Table:
    """A table with names in its first column and numbers in the others."""
    found = Table(title=title, caption=caption)
    for place, heading in enumerate(headings):
        found.add_column(heading, justify="right" if place else "left")
    for name, *numbers in lines:
        found.add_row(Text(name), *numbers)
    return found


def progress_bar(
    title: str, total: int | None = None, *, unit: str = "rows"
) -> AbstractContextManager[ProgressBar]:
    """A bar on the stream of messages that vanishes at the end; hidden unless on a terminal."""
    return progress.progress_bar(
        title, total, unit=unit, show=messages.is_terminal, console=messages, transient=True
    )


# A dash in place of a file

STREAM = Path("-")
PREFIX = "decal-stream-"  # how the names of folders begin that hold the files in place of streams

INPUTS = ("logits", "labelled", "new", "labels", "truth", "weights")
"""The arguments that may be standard input, in every command that has them."""

FIRST_BYTES = {
    b"PK": ".npz",
    b"\x93NUMPY": ".npy",
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"\xff\xff\xff\xff": ".arrow",
}
"""How files of each format begin; a .csv begins with a name of a column."""


def run_with_streams(command: Callable[..., None], arguments: dict[str, Any], written: str) -> None:
    """Run a command with files in the place of dashes; the one that it writes is called `out`.

    What is `written` on standard output has this format, unless the argument `format_` names one.
    """
    dashed = [name for name in INPUTS if arguments.get(name) == STREAM]
    if len(dashed) > 1:
        fact, remedy = f"- for {' and '.join(dashed)}", "Write the others to files first."
        raise InputError("standard input", "be one file", fact, remedy)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        for name in dashed:
            arguments[name] = _standard_input(Path(folder) / "standard input")
        if arguments.get("out") != STREAM:
            command(**arguments)
            return
        kind = arguments.get("format_")
        suffix = f".{kind.lstrip('.')}" if kind else written
        _require_a_file(arguments.values(), suffix)
        out = arguments["out"] = Path(folder) / f"standard output{suffix}"
        before, output.stderr = output.stderr, True  # results stay apart from tables
        try:
            command(**arguments)
        finally:
            output.stderr = before
        with open(out, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _standard_input(path: Path) -> Path:
    """A file with what the stream holds, whose ending tells the format that it has."""
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    if not path.stat().st_size:
        raise InputError("standard input", "hold a file", "nothing")
    with open(path, "rb") as file:
        begins = file.read(8)
    found = (kind for start, kind in FIRST_BYTES.items() if begins.startswith(start))
    return path.rename(path.with_name(path.name + next(found, ".csv")))


def _require_a_file(arguments: Any, suffix: str) -> None:
    """ValueError if what is written would be no file, or nothing that a terminal can show."""
    if any(isinstance(value, Path) and value.is_dir() for value in arguments):
        raise InputError("output", "be a folder for a folder of logits", "-", "Name one.")
    if suffix not in (".csv", ".html") and sys.stdout.isatty():
        rule, fact = "go to a file or another program", f"{suffix} for a terminal"
        remedy = "Name a file, or leave the format out for a .csv."
        raise InputError("output", rule, fact, remedy)
