"""Locks that end with the process that holds them, and folders that one process writes into.

Where a system or a drive knows no locks, everybody may enter.
"""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path

KNOWS_LOCKS = find_spec("fcntl") is not None
"""False on Windows."""

UNLOCKABLE = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What drives say that know no locks."""

LOCK = ".decal.lock"
"""The file in a folder by which a process keeps others from writing there."""


def only_writer(folder: Path) -> AbstractContextManager[None]:
    """A context for writing into a folder, which one process at a time can be in; see `alone`."""
    return alone(folder / LOCK, str(folder))


def only_writer_of(path: Path) -> AbstractContextManager[None]:
    """The same for one file, or a folder that comes and goes: the lock is next to it."""
    return alone(path.with_name(f".{path.name}.lock"), str(path))


@contextmanager
def alone(lock: Path, what: str) -> Iterator[None]:
    """A context that one process at a time can be in; ValueError, with its number, for others.

    The lock ends with the process, however that ends. It is on a file, not on the folder itself:
    network drives lock files only, and the file tells who holds it.

    Parameters
    ----------
    lock : path
        A file that is made for this purpose, and removed afterwards.
    what : str
        What is written, for the message.
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
                raise ValueError(
                    f"{what} must be written by one run at a time: got {holder}, which writes it "
                    "now. Wait for it to end, or choose another place."
                )
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
