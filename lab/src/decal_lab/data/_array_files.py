"""Arrays in files: IDX, .npy and .npz. Nothing is unpickled; errors name the damaged file."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from decal.io import gate
from decal_lab.data._archives import GZIP, damaged, intact
from decal_lab.data._downloads import DamagedDataError

UNSIGNED_BYTES = 0x08


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of bytes in an IDX file, plain or compressed, in the shape of its header.

    The header: two zero bytes, the type (8: unsigned bytes), the number of dimensions, and each
    dimension as a big-endian whole number of four bytes.
    """
    with intact(path), path.open("rb") as stored:
        # By content, since some tools unpack files without renaming them.
        packed = stored.read(len(GZIP)) == GZIP
        stored.seek(0)
        content = cast(IO[bytes], gzip.GzipFile(fileobj=stored)) if packed else stored
        shape = _idx_shape(content, path)
        header, size = content.tell(), math.prod(shape)
        told = f"{path} must have {header + size:,} bytes for {shape}"
        advice = "Remove it and get it again."
        if packed:
            gate.require_modest(size, gate.length(stored))
        elif gate.length(stored) != header + size:
            raise DamagedDataError(f"{told}: got {gate.length(stored):,}. {advice}")
        pixels = gate.read_exactly(content, size)
        if content.read(1):
            raise DamagedDataError(f"{told}: got more. {advice}")
    return np.frombuffer(pixels, dtype=np.uint8).reshape(shape)


def _idx_shape(content: IO[bytes], path: Path) -> tuple[int, ...]:
    """What the header of an IDX file says."""
    start = content.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] != UNSIGNED_BYTES:
        raise DamagedDataError(
            f"{path} must be an IDX file of bytes: got {start.hex(' ') or 'nothing'} at its start."
        )
    dimensions = start[3]
    told = content.read(4 * dimensions)
    if len(told) < 4 * dimensions:
        raise damaged(path, "it ends within its header")
    return struct.unpack(f">{dimensions}I", told)


def read_npy(path: Path) -> NDArray[Any]:
    """The array in an .npy file."""
    with intact(path), path.open("rb") as file:
        return gate.read_array(file, gate.length(file))


def read_npz(path: Path, keys: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """All arrays in an .npz file, or those named, which must be there."""
    with intact(path), gate.Archive(path) as archive:
        for key in keys or ():
            if key not in archive.names:
                raise DamagedDataError(f"{path} must hold {key}: got {', '.join(archive.names)}.")
        return {key: archive.read(key) for key in (archive.names if keys is None else keys)}
