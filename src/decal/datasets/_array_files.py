"""Arrays in files: IDX, .npy and .npz. Nothing is unpickled; errors name the damaged file."""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal.datasets._archives import GZIP, damaged
from decal.datasets._downloads import DamagedDataError

UNSIGNED_BYTES = 0x08


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of bytes in an IDX file, plain or compressed, in the shape of its header.

    The header: two zero bytes, the type (8: unsigned bytes), the number of dimensions, and each
    dimension as a big-endian whole number of four bytes.
    """
    content = path.read_bytes()
    if content[:2] == GZIP:  # by content, since some tools unpack files without renaming them
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise damaged(path, error) from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTES:
        raise DamagedDataError(
            f"{path} must be an IDX file of bytes: got {content[:4].hex(' ') or 'nothing'} "
            "at its start."
        )
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise damaged(path, "it ends within its header")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) != start + math.prod(shape):
        raise DamagedDataError(
            f"{path} must have {start + math.prod(shape):,} bytes for {shape}: "
            f"got {len(content):,}. Remove it and get it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_npy(path: Path) -> NDArray[Any]:
    """The array in an .npy file."""
    try:
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise damaged(path, error) from error


def read_npz(path: Path, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """All arrays in an .npz file, or those named, which must be there."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            for key in keys or ():
                if key not in names:
                    raise DamagedDataError(f"{path} must hold {key}: got {', '.join(names)}.")
            arrays = {}
            for key in names if keys is None else keys:
                with archive.open(f"{key}.npy") as member:
                    arrays[key] = np.lib.format.read_array(member, allow_pickle=False)
            return arrays
    except DamagedDataError:
        raise
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, ValueError) as error:
        raise damaged(path, error) from error
