"""Files of a data set, in a folder or in an archive that is read but never unpacked.

Names inside an archive are only looked up, never written to a disk. So a name such as
``../../.profile`` does no harm, and the cache holds nothing half unpacked.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import threading
import zipfile
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast

from decal.io import gate
from decal_lab.data._downloads import DamagedDataError, MissingDataError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
GZIP = b"\x1f\x8b"
"""The first bytes of a compressed file."""


class Tree(Protocol):
    """Named files, each read as a whole."""

    path: Path

    def names(self) -> list[str]:
        """Every file's path inside, with slashes, sorted."""
        ...

    def read(self, name: str) -> bytes:
        """The content of a file; MissingDataError if it is not there."""
        ...


class FolderTree:
    """The files in a folder and its sub-folders."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        """Every file's path inside, with slashes, sorted."""
        found = (p for p in self.path.rglob("*") if p.is_file())
        return sorted(p.relative_to(self.path).as_posix() for p in found)

    def read(self, name: str) -> bytes:
        """The content of a file, which must lie in the folder."""
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts:
            raise DamagedDataError(f"{self.path} must list files inside it: got {name!r}.")
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingDataError(f"{self.path} must hold {name}: got no such file.") from error


class ZipTree:
    """The files in a .zip archive. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._open: tuple[int, zipfile.ZipFile] | None = None
        with self._lock:
            members = self._archive().infolist()
        self._names = sorted(member.filename for member in members if not member.is_dir())

    def names(self) -> list[str]:
        """Every file's path inside, sorted."""
        return list(self._names)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self._lock:
            try:
                member = self._archive().getinfo(name)
            except KeyError as error:
                raise MissingDataError(
                    f"{self.path} must hold {name}: got no such file."
                ) from error
            with intact(self.path / name):
                gate.require_modest(member.file_size, member.compress_size)
                return self._archive().read(member)

    def _archive(self) -> zipfile.ZipFile:
        """The archive, opened by this process: forked processes must not share a position."""
        if self._open is None or self._open[0] != os.getpid():
            with intact(self.path):
                self._open = os.getpid(), zipfile.ZipFile(self.path)
        return self._open[1]

    def __reduce__(self) -> tuple[type[ZipTree], tuple[Path]]:
        return ZipTree, (self.path,)

    def __del__(self) -> None:
        if self._open is not None:
            self._open[1].close()


class TarTree:
    """The files in a .tar archive, compressed or not; links are left out.

    Threads and processes may share it. A compressed archive is read from front to back: ask for
    files in the order of `names`, or it is unpacked anew for each.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._open: tuple[int, IO[bytes]] | None = None
        with intact(path), tarfile.open(path) as archive:
            members = [m for m in archive if m.isreg() and not m.issparse()]
        with path.open("rb") as file:
            self._packed = file.read(2) == GZIP
        self._places = {str(PurePosixPath(m.name)): (m.offset_data, m.size) for m in members}

    def names(self) -> list[str]:
        """Every file's path inside, in the order of the archive."""
        return list(self._places)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        if name not in self._places:
            raise MissingDataError(f"{self.path} must hold {name}: got no such file.")
        start, size = self._places[name]
        with self._lock, intact(self.path / name):
            gate.require_modest(size, self.path.stat().st_size)
            stream = self._stream()
            stream.seek(start)
            return bytes(gate.read_exactly(stream, size))

    def _stream(self) -> IO[bytes]:
        """The archive, unpacked, opened by this process: see ZipTree."""
        if self._open is None or self._open[0] != os.getpid():
            stream = gzip.GzipFile(self.path) if self._packed else self.path.open("rb")
            self._open = os.getpid(), cast(IO[bytes], stream)
        return self._open[1]

    def __reduce__(self) -> tuple[type[TarTree], tuple[Path]]:
        return TarTree, (self.path,)

    def __del__(self) -> None:
        if self._open is not None:
            self._open[1].close()


def open_tree(path: Path) -> Tree:
    """The files of a folder or of an archive."""
    if path.is_dir():
        return FolderTree(path)
    if path.suffix == ".zip":
        return ZipTree(path)
    if path.name.endswith(ARCHIVES):
        return TarTree(path)
    raise ValueError(f"folder must be a folder or one of {', '.join(ARCHIVES)}: got {path}.")


def read_all(tree: Tree, names: Collection[str]) -> dict[str, bytes]:
    """Files by their base names, each read once, in the order in which the tree stores them."""
    found = {}
    for name in tree.names():
        base = PurePosixPath(name).name
        if base in names and base not in found:
            found[base] = tree.read(name)
    missing = sorted(set(names) - set(found))
    if missing:
        raise MissingDataError(
            f"{tree.path} must hold {', '.join(missing)}: got none of that name."
        )
    return found


def existing_folder(folder: str | Path) -> Path:
    """A folder, or an archive in its place, that is there."""
    path = Path(folder).expanduser()
    if not path.exists():
        raise MissingDataError(f"folder must exist: got {path}.")
    return path


def file_in(folder: Path, names: tuple[str, ...], under: tuple[str, ...] = ("",)) -> Path:
    """The first of the named files found in a folder, or in the sub-folders named."""
    for path in candidates(folder, names, under):
        if path.exists():
            return path
    inside = [u for u in under if u]
    also = f" (or in {', '.join(inside)} beneath it)" if inside else ""
    raise MissingDataError(f"folder must hold {' or '.join(names)}{also}: got {folder}.")


def candidates(folder: Path, names: tuple[str, ...], under: tuple[str, ...]) -> Iterator[Path]:
    """Where the files may be, most usual place first."""
    return (folder / sub / name for sub in under for name in names)


def intact(path: Path) -> AbstractContextManager[None]:
    """A context in which whatever damage causes becomes a DamagedDataError that names the file."""
    return gate.intact(path, lambda reason: damaged(path, reason))


def damaged(path: Path, reason: object) -> DamagedDataError:
    """An error that names the file."""
    return DamagedDataError(f"{path} is damaged: {reason}. Remove it and get it again.")
