"""The gate for files of strangers: no size is believed, and damage becomes one kind of error.

Sizes that the header of an array or the directory of an archive claims are compared with each other
and with the bytes that are there, before anything is unpacked or memory is asked for.
"""

from __future__ import annotations

import errno
import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError

SMALL = 1 << 26  # bytes that any file may unpack to: 64 MB

LARGEST_RATIO = 256
"""Beyond SMALL, bytes held in memory per byte of the file. The keys of a model's bins are a tenth
of it and are all different: models are packed by less than 60, and logits by far less."""

PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What NumPy writes. Others can unpack to a million times their size."""

OF_THE_CONTENT = (None, errno.EINVAL, errno.EOVERFLOW, errno.EFBIG, errno.ENOMEM)
"""Errors of the system that impossible sizes and places cause. (pyarrow's own have no number.)"""


@contextmanager
def intact(path: object, complaint: Callable[[str], Exception]) -> Iterator[None]:
    """Turn the many errors that a damaged file causes into one, made by `complaint` of a reason.

    Errors of the system, such as a missing file, and of missing packages stay what they are; the
    former name the file. Errors of the type of the complaint pass, since they are about the file,
    too, unless it is a plain ValueError or InputError.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in OF_THE_CONTENT:
            if error.filename is not None:
                raise
            raise type(error)(error.errno, error.strerror, str(path)) from error
        if isinstance(error, FileNotFoundError):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        wrapped = complaint(reason)
        if type(wrapped) not in (ValueError, InputError) and isinstance(error, type(wrapped)):
            raise
        raise wrapped from error


class ArrayHeader(NamedTuple):
    """What the header of an array says."""

    shape: tuple[int, ...]
    fortran: bool  # whether columns follow each other, not rows
    dtype: np.dtype[Any]
    size: int  # bytes that follow it


def read_header(file: IO[bytes], size: int) -> ArrayHeader:
    """The header of an .npy file or member of `size` bytes, left at the first byte of numbers.

    ValueError if it does not describe them.
    """
    start = file.read(8)
    version = np.lib.format.read_magic(io.BytesIO(start))
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its version is {version}")
    told = file.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(told, "little")
    if length > 10_000:  # NumPy's own limit, too
        raise ValueError(f"its header has {length:,} bytes")
    text = file.read(length)
    rest = io.BytesIO(told + text)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(rest)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(rest)
    claimed = math.prod(shape) * dtype.itemsize
    left = size - len(start) - len(told) - len(text)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which decal does not read")
    if min(shape, default=0) < 0 or dtype.itemsize == 0:
        raise ValueError(f"it says that it holds {shape} of {dtype}")
    if claimed != left:
        raise ValueError(f"it says that it holds {claimed:,} bytes of numbers: got {left:,}")
    return ArrayHeader(shape, fortran, dtype, claimed)


def read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """The array in an .npy file or member of `size` bytes."""
    header = read_header(file, size)
    data = read_exactly(file, header.size)
    order: Any = "F" if header.fortran else "C"
    return np.frombuffer(data, header.dtype).reshape(header.shape, order=order)


def read_exactly(file: IO[bytes], count: int) -> bytearray:
    """So many bytes; ValueError if there are fewer."""
    data = bytearray(count)
    at = 0
    while at < count:
        piece = file.read(min(1 << 20, count - at))
        if not piece:
            raise ValueError(f"it ends after {at:,} of {count:,} bytes")
        data[at : at + len(piece)] = piece
        at += len(piece)
    return data


def require_modest(held: int, packed: int) -> None:
    """ValueError if bytes are packed so tightly that to hold them may fill the memory."""
    if held > SMALL + LARGEST_RATIO * packed:
        raise ValueError(f"it says that {packed:,} bytes unpack to {held:,}")


class Archive:
    """The arrays in an .npz file, none of which is unpacked before it is asked for."""

    def __init__(self, file: Path | IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file)
        try:
            self._members = self._listed()
        except BaseException:
            self._zip.close()
            raise

    def _listed(self) -> dict[str, zipfile.ZipInfo]:
        found: dict[str, zipfile.ZipInfo] = {}
        for member in self._zip.infolist():
            name = member.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"it holds {name} twice")
            found[name] = member
        return found

    def close(self) -> None:
        """Close the file, if a path was given. No array can be read any more."""
        self._zip.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arrays."""
        return tuple(self._members)

    def size(self, name: str) -> int:
        """Bytes that a member unpacks to, as the directory says; none is unpacked further."""
        return self._members[name].file_size

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A member to read, unpacked on the way."""
        member = self._members[name]
        if member.compress_type not in PACKINGS or not member.filename.endswith(".npy"):
            raise ValueError(f"{member.filename} is not packed as NumPy does")
        with self._zip.open(member) as opened:
            yield opened

    def packed_size(self, *names: str) -> int:
        """Bytes that some members take in the file."""
        # What the directory says of the packed sizes is a claim, too.
        packed = sum(self._members[name].compress_size for name in names)
        return min(packed, getattr(self._zip, "start_dir", packed))

    def read(self, name: str) -> NDArray[Any]:
        """A whole array."""
        size = self.size(name)
        require_modest(size, self.packed_size(name))
        with self.open(name) as member:
            return read_array(member, size)


def length(file: IO[bytes]) -> int:
    """Bytes of an open file."""
    here = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(here)
    return end
