"""Model files: plain arrays and JSON in an .npz archive, without pickle."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from decal._io import gate, whole_files

FORMAT = "decal-model"
VERSION = 2
READABLE = (1, 2)

READERS = {
    "decal-multilabel-model": "decal.MultiLabelDecalibrator",
    "decal-classifier": "decal.sklearn.CredalClassifier",
}
"""What reads files of other formats."""

Arrays = dict[str, NDArray[Any]]

PathOrFile = Path | BinaryIO
"""Where a model is: a path, or a file open for bytes."""

Known = Callable[[str, dict[str, Any]], bool]
"""From the name of an array, and the settings of a model, to whether such a model has it."""


def write(
    file: PathOrFile,
    settings: dict[str, Any],
    arrays: Arrays,
    *,
    compressed: bool,
    kind: str = FORMAT,
) -> None:
    """Write a model file. If anything fails, a path keeps what was there before."""
    header = np.array(json.dumps({"format": kind, "version": VERSION, **settings}))
    members = {"header": header, **arrays}
    if not isinstance(file, Path):
        whole_files.write_npz(file, members, compressed=compressed)
        return
    with whole_files.replacing(file) as partial:
        whole_files.write_npz(partial, members, compressed=compressed)


def read(
    file: PathOrFile, known: Known | None = None, *, kind: str = FORMAT
) -> tuple[dict[str, Any], Arrays]:
    """Settings, with the "version" of the format, and arrays; ValueError if it is no model file.

    Parameters
    ----------
    file : path or file
        The model file.
    known : callable, optional
        Whether a file with these settings may hold an array of this name. What is not known is
        refused before it is unpacked.
    kind : str
        What the header of the file must call its format.
    """
    path = _name(file)
    with ExitStack() as stack:
        archive, settings = _opened(file, kind, stack)
        names = [name for name in archive.names if name != "header"]
        with _guarded(path):
            unknown = [name for name in names if known and not known(name, settings)]
        if unknown:
            raise ValueError(f"path must hold nothing unknown: got {path} with {unknown}.")
        with _guarded(path):
            archive.require_modest(sum(map(archive.size, names)), *names)
            arrays = {name: archive.read(name) for name in names}
    return settings, arrays


def read_settings(file: PathOrFile, *, kind: str = FORMAT) -> dict[str, Any]:
    """The settings alone; ValueError if it is no model file."""
    with ExitStack() as stack:
        return _opened(file, kind, stack)[1]


def _opened(file: PathOrFile, kind: str, stack: ExitStack) -> tuple[gate.Archive, dict[str, Any]]:
    """A model file, open until the stack is closed, and its settings."""
    path = _name(file)
    with _guarded(path):
        archive = stack.enter_context(gate.Archive(file))
        if "header" not in archive.names:
            raise ValueError("it has no header")
        settings = json.loads(str(archive.read("header")))
    _require_format(settings, path, kind)
    return archive, settings


def _guarded(path: object) -> AbstractContextManager[None]:
    """A context in which whatever is wrong becomes a ValueError about a file of another kind."""

    def complaint(reason: str) -> ValueError:
        return ValueError(
            f"path must be a file that `save` wrote: got {path}, which is not one, or is damaged "
            f"({reason})."
        )

    return gate.intact(path, complaint)


def _require_format(settings: Any, path: object, kind: str) -> None:
    found = settings.pop("format", None) if isinstance(settings, dict) else None
    if found != kind:
        reader = READERS.get(str(found))
        advice = f" Read it with {reader}.load." if reader else ""
        raise ValueError(
            f"path must be a file that `save` wrote: got {path}, of another format.{advice}"
        )
    if settings.get("version") not in READABLE:
        raise ValueError(
            f"path must be of model format {VERSION} or older: got {path}, of format "
            f"{settings.get('version')}. Upgrade decal to read it."
        )


def intact(file: PathOrFile) -> AbstractContextManager[None]:
    """A context in which whatever is wrong becomes a ValueError that names the model file."""
    path = _name(file)

    def complaint(reason: str) -> ValueError:
        return ValueError(f"path must be an intact model file: got {path} ({reason}).")

    return gate.intact(path, complaint)


def _name(file: PathOrFile) -> object:
    return file if isinstance(file, Path) else getattr(file, "name", "a file without a name")
