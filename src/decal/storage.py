"""Model files: plain arrays and JSON in an .npz archive, without pickle."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "decal-model"
VERSION = 1

Arrays = dict[str, NDArray[Any]]


def write(path: Path, settings: dict[str, Any], arrays: Arrays) -> None:
    """Write a model file, or leave what was there before if anything fails."""
    header = json.dumps({"format": FORMAT, "version": VERSION, **settings})
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, header=np.array(header), **arrays)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Settings and arrays of a model file; ValueError if it is anything else."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            if not hasattr(archive, "files") or "header" not in archive.files:
                raise KeyError("header")
            settings = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header"}
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"path must be a file written by Decalibrator.save: got {path}, which is not one, or "
            "is damaged."
        ) from error
    if not isinstance(settings, dict) or settings.pop("format", None) != FORMAT:
        raise ValueError(
            f"path must be a file written by Decalibrator.save: got {path}, of another format."
        )
    version = settings.pop("version", None)
    if version != VERSION:
        raise ValueError(
            f"path must be of model format {VERSION}: got {path}, of format {version}. "
            "Upgrade decal to read it."
        )
    return settings, arrays
