"""`-` in place of a file: standard input and standard output.

A stream can be read once and forwards only, while readers of files look several times. So standard
input is copied to a temporary file first, and what goes to standard output is copied from one at
the end: a command that fails writes nothing there. Messages call the streams by their names.
"""

from __future__ import annotations

import functools
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from decal.cli.options import STREAM
from decal.cli.terminal import output, renamed, stand_in, told

INPUTS = ("logits", "labelled", "new", "labels", "truth", "weights")
"""The arguments that may be standard input, in every command that has them."""

OUTPUT = "out"
"""The argument that may be standard output."""

FIRST_BYTES = {
    b"PK": ".npz",
    b"\x93NUMPY": ".npy",
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"\xff\xff\xff\xff": ".arrow",
}
"""How files of each format begin; a .csv begins with a name of a column."""


def with_pipes(command: Callable[..., None], written: str = ".csv") -> Callable[..., None]:
    """A command that also takes `-` for files; the one that it writes is called `out`.

    What is `written` on standard output has this format, unless the argument `format_` names one.
    """

    @functools.wraps(command)
    def piped(**arguments: Any) -> None:
        dashed = [name for name in INPUTS if arguments.get(name) == STREAM]
        to_stdout = arguments.get(OUTPUT) == STREAM
        if len(dashed) > 1:
            raise ValueError(
                f"standard input must be one file: got - for {' and '.join(dashed)}. "
                "Write the others to files first."
            )
        if not dashed and not to_stdout:
            command(**arguments)
            return
        with tempfile.TemporaryDirectory(prefix="decal-") as folder, stand_in(folder):
            for name in dashed:
                arguments[name] = _copied(sys.stdin.buffer, Path(folder) / "standard input")
            if to_stdout:
                kind = arguments.get("format_")
                suffix = f".{kind.lstrip('.')}" if kind else written
                arguments[OUTPUT] = Path(folder) / f"standard output{suffix}"
                _require_a_file(arguments.values(), suffix)
                before, output.stderr = output.stderr, True  # results stay apart from tables
            try:
                command(**arguments)
            except (ValueError, OSError) as error:
                raise ValueError(renamed(told(error))) from error
            finally:
                if to_stdout:
                    output.stderr = before
            if to_stdout:
                with open(arguments[OUTPUT], "rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.buffer.flush()

    return piped


def _copied(stream: BinaryIO, path: Path) -> Path:
    """A file with what a stream holds, whose ending tells the format that it has."""
    with open(path, "wb") as file:
        shutil.copyfileobj(stream, file)
    if not path.stat().st_size:
        raise ValueError("standard input must hold a file: got nothing.")
    with open(path, "rb") as file:
        begins = file.read(8)
    found = (kind for start, kind in FIRST_BYTES.items() if begins.startswith(start))
    return path.rename(path.with_name(path.name + next(found, ".csv")))


def _require_a_file(arguments: Any, suffix: str) -> None:
    """ValueError if what is written would be no file, or nothing that a terminal can show."""
    if any(isinstance(value, Path) and value.is_dir() for value in arguments):
        raise ValueError("output must be a folder for a folder of logits: got -. Name one.")
    if suffix not in (".csv", ".html") and sys.stdout.isatty():
        raise ValueError(
            f"output must go to a file or another program: got {suffix} for a terminal. "
            "Name a file, or leave the format out for a .csv."
        )
