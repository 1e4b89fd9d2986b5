"""Model files: plain arrays and JSON in an .npz archive, without pickle."""

from __future__ import annotations

import json
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from decal._io import whole_files

FORMAT = "decal-model"
VERSION = 2
READABLE = (1, 2)

Arrays = dict[str, NDArray[Any]]

PathOrFile = Path | BinaryIO
"""Where a model is: a path, or a file open for bytes."""


def write(file: PathOrFile, settings: dict[str, Any], arrays: Arrays, *, compressed: bool) -> None:
    """Write a model file. If anything fails, a path keeps what was there before."""
    header = np.array(json.dumps({"format": FORMAT, "version": VERSION, **settings}))
    save = np.savez_compressed if compressed else np.savez
    if not isinstance(file, Path):
        save(file, allow_pickle=False, header=header, **arrays)
        return
    with whole_files.replacing(file) as partial, open(partial, "wb") as opened:
        save(opened, allow_pickle=False, header=header, **arrays)


def read(file: PathOrFile) -> tuple[dict[str, Any], Arrays]:
    """Settings, with the "version" of the format, and arrays; ValueError if it is no model file."""
    path = file if isinstance(file, Path) else getattr(file, "name", "a file without a name")
    try:
        with (
            open(file, "rb") if isinstance(file, Path) else nullcontext(file) as opened,
            np.load(opened, allow_pickle=False) as archive,
        ):
            if not hasattr(archive, "files") or "header" not in archive.files:
                raise KeyError("header")
            settings = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header"}
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"path must be a file that `save` wrote: got {path}, which is not one, or is damaged."
        ) from error
    if not isinstance(settings, dict) or settings.pop("format", None) != FORMAT:
        raise ValueError(f"path must be a file that `save` wrote: got {path}, of another format.")
    if settings.get("version") not in READABLE:
        raise ValueError(
            f"path must be of model format {VERSION} or older: got {path}, of format "
            f"{settings.get('version')}. Upgrade decal to read it."
        )
    return settings, arrays
