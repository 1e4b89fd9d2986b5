"""Model files: plain arrays and JSON in an .npz archive, without pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal.io import gate, whole_files

FORMAT = "decal-model"
VERSION = 4
READABLE = (1, 2, 3, 4)

SAVED = "be a file that `save` wrote"

KINDS = {
    "decalibrator": "decal.Decalibrator",
    "multilabel": "decal.MultiLabelDecalibrator",
    "coupled": "decal.CoupledDecalibrator",
    "label shift": "decal.LabelShift",
    "triage": "decal.choose.Triage",
    "classifier": "decal.sklearn.CredalClassifier",
}
"""What files of every kind hold; its `load` reads them."""

OLDER_FORMATS = {"decal-multilabel-model": "multilabel", "decal-classifier": "classifier"}
"""Kinds that had a format of their own up to version 3."""

Arrays = dict[str, NDArray[Any]]
M = TypeVar("M")

PathOrFile = str | Path | BinaryIO
"""Where a model is: a path, or a file open for bytes."""

Known = Callable[[str, dict[str, Any]], bool]
"""Whether a model has an array of this name, given its settings."""


def write(
    file: PathOrFile, settings: dict[str, Any], arrays: Arrays, *, kind: str, compressed: bool
) -> None:
    """Write a model file. If anything fails, a path keeps what was there before."""
    header = {"format": FORMAT, "version": VERSION, "kind": kind, **settings}
    header["checksum"] = checksum(header, arrays)
    members = {"header": np.array(json.dumps(header)), **arrays}
    if not isinstance(file, str | Path):
        whole_files.write_npz(file, members, compressed=compressed)
        return
    with whole_files.replacing(Path(file)) as partial:
        whole_files.write_npz(partial, members, compressed=compressed)


def checksum(header: dict[str, Any], arrays: Arrays) -> str:
    """SHA-256 of the header, and of the names, dtypes, shapes and numbers of the arrays.

    It tells whether all members are those that were written together, which their CRC-32 does not.
    It is no signature.
    """
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def read(file: PathOrFile, known: Known, *, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Settings, with the "version" of the format, and arrays, of a file of this kind, of KINDS.

    InputError if it is no such file. Arrays that are not `known` are refused before they are
    unpacked.
    """
    path = _name(file)
    with ExitStack() as stack:
        archive, settings = _opened(file, kind, stack)
        names = [name for name in archive.names if name != "header"]
        with _guarded(path):
            unknown = [name for name in names if not known(name, settings)]
        if unknown:
            raise InputError("path", "hold nothing unknown", f"{path} with {unknown}")
        with _guarded(path):
            gate.require_modest(sum(map(archive.size, names)), archive.packed_size(*names))
            arrays = {name: archive.read(name) for name in names}
    _require_unchanged(settings, arrays, path)
    for marker in ("format", "kind", "model"):
        settings.pop(marker, None)
    return settings, arrays


def kind_of(file: PathOrFile) -> str:
    """What a file holds, of KINDS; ValueError if it is no model file."""
    with ExitStack() as stack:
        found = _kind(_opened(file, None, stack)[1])
    if not isinstance(file, str | Path):
        file.seek(0)
    assert found is not None
    return found


def packed(model: Any) -> NDArray[np.uint8]:
    """The file of a model as an array of bytes, to be kept in the file of another."""
    file = BytesIO()
    model.save(file)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def unpacked(array: NDArray[np.uint8], load: Callable[[BinaryIO], M]) -> M:
    """What `packed` has made an array of, by the `load` of its kind."""
    return load(BytesIO(array.tobytes()))


def _opened(
    file: PathOrFile, kind: str | None, stack: ExitStack
) -> tuple[gate.Archive, dict[str, Any]]:
    """A model file, of one kind or any, open until the stack is closed, and its header."""
    path = _name(file)
    with _guarded(path):
        archive = stack.enter_context(gate.Archive(Path(file) if isinstance(file, str) else file))
        if "header" not in archive.names:
            raise ValueError("it has no header")
        settings = json.loads(str(archive.read("header")))
    _require_format(settings, path, kind)
    return archive, settings


def _guarded(path: object) -> AbstractContextManager[None]:
    """A context in which whatever is wrong becomes a ValueError about a file of another kind."""
    fact = f"{path}, which is not one, or is damaged"
    return gate.intact(path, lambda reason: InputError("path", SAVED, f"{fact} ({reason})"))


def _kind(settings: Any) -> str | None:
    """What a header says that the file holds; None if it is of another format."""
    if not isinstance(settings, dict):
        return None
    found = settings.get("format")
    if found == FORMAT:  # up to version 3, files of a Decalibrator did not say so
        found = settings.get("kind", settings.get("model", "decalibrator"))
    else:
        found = OLDER_FORMATS.get(found) if isinstance(found, str) else None
    return found if isinstance(found, str) and found in KINDS else None


def _require_format(settings: Any, path: object, kind: str | None) -> None:
    found = _kind(settings)
    if found is None:
        raise InputError("path", SAVED, f"{path}, of another format")
    if settings.get("version") not in READABLE:
        rule = f"be of model format {VERSION} or older"
        fact = f"{path}, of format {settings.get('version')}"
        raise InputError("path", rule, fact, "Upgrade decal to read it.")
    if kind not in (None, found):
        wanted, held = (KINDS[name].rpartition(".")[2] for name in (kind, found))
        other, remedy = f"holds a {held}", f"Load it with {KINDS[found]}.load."
        raise InputError("path", f"hold a {wanted}", (f"{path}, which ", other), remedy)


def _require_unchanged(settings: dict[str, Any], arrays: Arrays, path: object) -> None:
    """ValueError if this is not what was written; the checksum is taken out of the settings."""
    told = settings.pop("checksum", None)
    # Files have a checksum from version 3 on.
    if settings["version"] >= 3 and told != checksum(settings, arrays):
        fact = f"{path}, which was changed since: its checksum does not fit its numbers"
        remedy = "Save the model again, or copy the file anew."
        raise InputError("path", "be a file as `save` wrote it", fact, remedy)


def intact(file: PathOrFile) -> AbstractContextManager[None]:
    """A context in which whatever is wrong becomes a ValueError that names the model file."""
    path = _name(file)
    rule = "be an intact model file"
    return gate.intact(path, lambda reason: InputError("path", rule, f"{path} ({reason})"))


def _name(file: PathOrFile) -> object:
    return file if isinstance(file, str | Path) else getattr(file, "name", "a file without a name")
