"""Folders that one process at a time writes into."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

UNLOCKABLE = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""What network drives say that cannot lock a folder."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """A context that one process at a time can be in; ValueError for others.

    The folder itself is locked, so nothing is left in it, and the lock ends with the process,
    however that ends. Where locks are not known, all may enter.

    Parameters
    ----------
    folder : path
        A folder that exists.
    """
    if sys.platform == "win32":  # it has no such locks
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{folder} must be written by one run at a time: got another that writes it now. "
                "Wait for it to end, or choose another folder."
            ) from None
        except OSError as error:
            if error.errno not in UNLOCKABLE:
                raise
        yield
    finally:
        os.close(handle)
