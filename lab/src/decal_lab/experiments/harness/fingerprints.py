"""Fingerprints of what a cell is computed from: the content of its data, and its settings.

A fingerprint is text such as "data=0123456789abcdef settings=fedcba9876543210", a digest for each
part, so that rows can keep it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = 16
"""Hexadecimal digits of a digest: 64 bits."""


class Fingerprints:
    """Digests of values; a file is read once as long as its size and its time stay the same.

    One of them serves one run. A later run reads files anew, as a time of change can be set.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[Path, int, int], bytes] = {}

    def of(self, parts: Mapping[str, Any]) -> str:
        """The fingerprint of named parts: paths, arrays and plain values, nested as you like."""
        return " ".join(f"{name}={self.digest(value)}" for name, value in parts.items())

    def digest(self, value: Any) -> str:
        """The digest of one value; TypeError if it has no plain content."""
        return self._digest(value).hex()[:DIGITS]

    def _digest(self, value: Any) -> bytes:
        if isinstance(value, Path):
            return self._of_path(value)
        if isinstance(value, np.ndarray) and value.dtype.kind not in "OT":
            return _hashed(f"{value.dtype.str} {value.shape}", np.ascontiguousarray(value).data)
        if isinstance(value, np.ndarray):
            return self._of_items("objects", value.tolist())
        if is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in fields(value)]
            return self._of_items(
                type(value).__name__, [part for n in names for part in (n, getattr(value, n))]
            )
        if isinstance(value, Mapping):
            return self._of_items("mapping", [part for item in value.items() for part in item])
        if isinstance(value, list | tuple):
            return self._of_items("list", list(value))
        if value is None or isinstance(value, str | int | float):
            return _hashed(type(value).__name__, repr(value).encode())
        raise TypeError(f"inputs must be paths, arrays or plain values: got {value!r:.80}.")

    def _of_items(self, kind: str, values: list[Any]) -> bytes:
        return _hashed(f"{kind} {len(values)}", b"".join(map(self._digest, values)))

    def _of_path(self, path: Path) -> bytes:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            parts = [part for f in inside for part in (f.relative_to(path).as_posix(), f)]
            return self._of_items("folder", parts)
        status = path.stat()
        key = path.resolve(), status.st_size, status.st_mtime_ns
        if key not in self._files:
            with path.open("rb") as file:
                self._files[key] = hashlib.file_digest(file, "sha256").digest()
        return _hashed("file", self._files[key])


def _hashed(kind: str, content: Any) -> bytes:
    found = hashlib.sha256(kind.encode() + b"\0")
    found.update(content)
    return found.digest()


def is_current(kept: str, now: str) -> bool:
    """Whether rows with the fingerprint `kept` are of what has the fingerprint `now`.

    Parts that only one of them has say nothing: data may arrive later, and what they add is for the
    experiment to say (`Experiment.stale`). But they must have something in common.
    """
    before, after = _parts(kept), _parts(now)
    common = before.keys() & after.keys()
    return (bool(common) or kept == now) and all(before[name] == after[name] for name in common)


def _parts(fingerprint: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in fingerprint.split())
    return {name: digest for name, _, digest in pairs}
