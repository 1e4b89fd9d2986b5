"""Writing whole files or none, and folders that one process at a time writes into.

`replacing` is the one way in which decal writes files. The new content goes to a partial file of a
random name in the same folder, is brought to the disk, and takes the place of the old file in one
step. Whoever reads sees the old file or the new one, and of several writers the last one wins.

A writer holds a lock on its partial file. One of this machine that nobody holds is what a killed
process left, and the next writer removes it; one of another machine, whose lock may not reach a
network drive, after a day. Where no locks are known (Windows), nothing is removed, and everybody
may write.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import re
import secrets
import stat
import time
import zipfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError

KNOWS_LOCKS = find_spec("fcntl") is not None  # false on Windows

UNLOCKABLE = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What drives say that know no locks."""

PARTIAL = re.compile(r"\..*\.([0-9a-f]{12})-[0-9a-f]{16}\.partial", re.DOTALL)
"""The names of partial files, which name the machine of their writer."""


@contextlib.contextmanager
def replacing(path: str | Path, *, sweep_first: bool = True) -> Iterator[Path]:
    """A partial file that takes the place of `path` if all goes well and vanishes otherwise.

    A file that was there keeps its permissions; of a link, the file it leads to is replaced. What
    killed writers left in the folder is swept away first; whoever writes very many files into one
    folder calls `sweep` once instead.
    """
    target = Path(os.path.realpath(path))
    old = _status(target)
    if sweep_first:
        sweep(target.parent)
    partial, handle = _begin(target, private=old is not None)
    try:
        yield partial
        if old is not None:
            _take_over(handle, old)
        os.fsync(handle)
        if not KNOWS_LOCKS:
            os.close(handle)  # Windows moves no open files
            handle = -1
        os.replace(partial, target)
        _folder_to_disk(target.parent)
    finally:
        partial.unlink(missing_ok=True)  # while the lock is held, so that nobody else takes it
        if handle >= 0:
            os.close(handle)


def sweep(folder: Path) -> None:
    """Remove the partial files that killed writers left in a folder."""
    if not KNOWS_LOCKS:
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries]:
            if writer := PARTIAL.fullmatch(name):
                _remove_if_abandoned(folder / name, writer[1])


def _status(target: Path) -> os.stat_result | None:
    """That of the file to be replaced; None if there is none."""
    try:
        found = target.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise InputError("path", "be a file", f"{target}, which is a folder, link or device")
    return found


def _begin(target: Path, *, private: bool) -> tuple[Path, int]:
    """A new partial file, open and locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    name = os.fsdecode(os.fsencode(target.name)[:160])  # a partial file's name is longer
    while True:  # as mkstemp does, but with the permissions of a new file
        partial = target.with_name(f".{name}.{_machine()}-{secrets.token_hex(8)}.partial")
        try:
            handle = os.open(partial, flags, 0o600 if private else 0o666)
        except FileExistsError:
            continue
        # Another process may have swept the file away before the lock was on it.
        if not KNOWS_LOCKS or (try_lock(handle) and os.fstat(handle).st_nlink):
            return partial, handle
        os.close(handle)


def _remove_if_abandoned(partial: Path, machine: str) -> None:
    try:
        handle = os.open(partial, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # gone, or not ours
        return
    try:
        status = os.fstat(handle)
        here = machine == _machine()
        old = time.time() - status.st_mtime > 24 * 3600
        if stat.S_ISREG(status.st_mode) and (here or old) and try_lock(handle, if_unknown=old):
            partial.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _machine() -> str:
    """Names the machine since it was started: a lock that survives a restart holds nothing."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        name = platform.node()
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _take_over(handle: int, old: os.stat_result) -> None:
    """Give a new file the owner, where that is allowed, and the permissions of the old one."""
    if not hasattr(os, "fchmod"):
        return
    now = os.fstat(handle)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode))


def _folder_to_disk(folder: Path) -> None:
    """Bring the new name to the disk, too, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Folders that one process writes into


def only_writer(folder: Path) -> contextlib.AbstractContextManager[None]:
    """A context for writing into a folder, which one process at a time can be in."""
    return exclusive(folder / ".decal.lock", str(folder))


def only_writer_of(path: Path) -> contextlib.AbstractContextManager[None]:
    """A context for writing one file, or a folder that comes and goes: the lock is next to it."""
    return exclusive(path.with_name(f".{path.name}.lock"), str(path))


@contextlib.contextmanager
def exclusive(lock: Path, what: str) -> Iterator[None]:
    """A context that one process at a time can be in; InputError about `what` for others.

    The lock ends with the process, however that ends. It is on a file of its own: network drives
    lock no folders, and the file tells who holds it.
    """
    if not KNOWS_LOCKS:
        yield
        return
    handle = _entered(lock, what)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # before it is unlocked: see `_entered`
        os.close(handle)


def _entered(lock: Path, what: str) -> int:
    """The open lock file, locked by this process."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            if not try_lock(handle):
                holder = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
                fact = f"{holder}, which writes it now"
                remedy = "Wait for it to end, or choose another place."
                raise InputError(what, "be written by one run at a time", fact, remedy)
            if os.fstat(handle).st_nlink:  # else its holder has just left, and removed it
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {platform.node()}".encode(), 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def try_lock(handle: int, *, if_unknown: bool = True) -> bool:
    """Whether an open file is now locked by this handle; `if_unknown` where no locks are known."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in UNLOCKABLE:
            raise
        return if_unknown
    return True


# Archives


def write_npz(
    file: Path | IO[bytes], arrays: Mapping[str, NDArray[Any]], *, compressed: bool = False
) -> None:
    """Write named arrays as an .npz archive, of which none may hold Python objects.

    `numpy.savez` can refuse objects from NumPy 2.2 on only.
    """
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    # Numbers become hardly smaller at a higher level, which takes twice the time.
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as opened:
                np.lib.format.write_array(opened, array, allow_pickle=False)
