"""Files from the web, kept in a cache: downloads resume after a break, and are checked.

A file is first written as ``NAME.part``. It gets its name only when it is complete and has the
known digest, so that the cache never holds half a file. If no digest is known, the first download
is trusted and its digest recorded in ``NAME.sha256``; later downloads must agree with it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import os
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from decal.io import on_terminal, progress_bar, replacing

ByteProgress = Callable[[int, int | None], None]
"""Called with the number of bytes received and the number expected, None if that is unknown."""

CHUNK_BYTES = 1 << 18
TRIES = 4
"""An address is given up after this many attempts in a row without a new byte."""

TIMEOUT_SECONDS = 30.0
RETRIED_CODES = (408, 425, 429, 500, 502, 503, 504)
"""Answers after which another attempt may succeed; every other refusal is final."""

RANGE_NOT_SATISFIABLE = 416

HOPELESS = (socket.gaierror, ConnectionRefusedError, ssl.SSLCertVerificationError)
"""Errors of the connection after which another attempt would fail too."""


class MissingDataError(FileNotFoundError):
    """Raised when data are not available; the message says which file to put where."""


class DamagedDataError(ValueError):
    """Raised when a file is not what it should be; the message names it."""


@dataclass(frozen=True)
class Remote:
    """A public file: its addresses, and how to recognise it.

    Attributes
    ----------
    dataset : str
        The name of the folder it belongs to in the cache.
    name : str
        Name of the file.
    urls : tuple of str
        Addresses of the same file, tried in turn.
    md5, sha256 : str or None
        Hexadecimal digests, where they are known for sure.
    size : int or None
        Bytes, where known.
    start : bytes
        Bytes that it begins with: a page of a website in its place is not taken for it.
    """

    dataset: str
    name: str
    urls: tuple[str, ...]
    md5: str | None = None
    sha256: str | None = None
    size: int | None = None
    start: bytes = b""

    @property
    def home(self) -> Path:
        """The folder of the cache that it is kept in."""
        return cache_folder() / self.dataset

    @property
    def path(self) -> Path:
        """Where it is, or would be, in the cache."""
        return self.home / self.name

    def get(self, *, download: bool = True) -> Path:
        """The file in the cache, downloaded first if need be and allowed."""
        if not download and not self.path.exists():
            raise MissingDataError(
                f"{self.dataset} is not here: put {self.name} into {self.home}, "
                "pass folder=…, or allow download=True."
            )
        return fetch(
            self.urls,
            self.path,
            md5=self.md5,
            sha256=self.sha256,
            size=self.size,
            start=self.start,
            what=self.dataset,
        )


def cache_folder() -> Path:
    """The folder that downloads are kept in.

    The environment variable DECAL_CACHE; else ``decal`` in the user's cache: ~/.cache (or
    XDG_CACHE_HOME), on macOS ~/Library/Caches, on Windows LOCALAPPDATA.
    """
    chosen = os.environ.get("DECAL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "decal"


def fetch(
    url: str | Sequence[str],
    path: str | Path,
    *,
    md5: str | None = None,
    sha256: str | None = None,
    size: int | None = None,
    start: bytes = b"",
    what: str | None = None,
    progress: ByteProgress | None = None,
    pause: float = 1.0,
) -> Path:
    """The file at `path`, downloaded there unless it is there already.

    A download that broke off goes on where it stopped, if the server can (HTTP Range) and the
    result can be checked by a digest or a size; otherwise it starts again. A file that is there,
    downloaded or put there by hand, is checked every time.

    Parameters
    ----------
    url : str or sequence of str
        The address, https, or several of the same file. Plain http needs a digest.
    path : path
        The file to have; folders are made as needed.
    md5, sha256 : str, optional
        Hexadecimal digests the file must have.
    size : int, optional
        Bytes it must have.
    start : bytes
        What it must begin with.
    what : str, optional
        Its name in messages; by default the name of the file.
    progress
        Called repeatedly with the bytes downloaded and the total (None if unknown). By default, a
        bar on the error stream if that is a terminal.
    pause : float
        Seconds before the second try, doubled before each further one.

    Raises
    ------
    MissingDataError
        No address gave the file.
    DamagedDataError
        What came, or what is there, is not the file. It is not kept.
    """
    path = Path(path)
    wanted = _Wanted(path, md5, sha256, size, start)
    if wanted.is_there():
        return path
    urls = (url,) if isinstance(url, str) else tuple(url)
    what = what or path.name
    for address in urls:
        if urlsplit(address).scheme not in ("http", "https"):
            raise ValueError(f"url must start with http:// or https://: got {address!r}.")
        if not wanted.has_digest and not _private(address):
            raise ValueError(
                f"url must start with https:// where no digest is known: got {address!r}, and "
                "anybody on the way could alter the file. Give its sha256."
            )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingDataError(
            f"{what} cannot be kept in {path.parent}: {error.strerror}. "
            "Set DECAL_CACHE to a folder of yours, or pass folder=…."
        ) from error
    with _alone_in(path.parent):
        if wanted.is_there():  # another process was faster
            return path
        failures: list[str] = []
        wrong: DamagedDataError | None = None
        for address in urls:
            try:
                with progress_bar(what, unit="B", show=progress is None and on_terminal()) as bar:
                    _download(address, wanted, progress or bar.update, pause)
                wanted.accept()
                return path
            except _FailedError as failure:
                failures.append(f"{urlsplit(address).netloc}: {failure}")
            except DamagedDataError as error:
                wrong = error  # perhaps the next address has the right file
    if wrong is not None:
        raise wrong
    raise MissingDataError(
        f"{what} could not be downloaded (no network?): put {path.name} into {path.parent}, or "
        f"pass folder=… with a folder that holds it. Tried {'; '.join(failures)}."
    )


class _FailedError(Exception):
    """An address did not give the file; the text says why."""


@dataclass(frozen=True)
class _Wanted:
    """A file to have, and what is known of it."""

    path: Path
    md5: str | None
    sha256: str | None
    size: int | None
    start: bytes

    @property
    def part(self) -> Path:
        return self.path.with_name(self.path.name + ".part")

    @property
    def record(self) -> Path:
        return self.path.with_name(self.path.name + ".sha256")

    @property
    def has_digest(self) -> bool:
        return bool(self.md5 or self.sha256)

    @property
    def resumable(self) -> bool:
        """Whether a part of unknown age may be continued, since a wrong result would be noticed."""
        return bool(self.has_digest or self.size or self.record.exists())

    def is_there(self) -> bool:
        if not self.path.exists():
            return False
        # Every time: nothing but its content tells whether it is still the file that it was.
        self._check(self.path, "Remove it, or put the right file in its place.")
        if not self.record.exists():
            with contextlib.suppress(OSError):  # a cache that others share may be read-only
                self._note(self.path)
        return True

    def accept(self) -> None:
        """Give the part its name, or remove it and say what is wrong with it."""
        try:
            self._check(self.part, "It was not kept. Try again, or pass folder=….")
        except DamagedDataError:
            self.part.unlink()
            raise
        self._note(self.part)
        self.part.replace(self.path)

    def _note(self, path: Path) -> None:
        """Record the digest of what is there, for later downloads."""
        with replacing(self.record) as partial:
            partial.write_text(f"{_digest(path, 'sha256')}  {self.path.name}\n", encoding="utf-8")

    def _check(self, path: Path, advice: str) -> None:
        if self.size is not None and path.stat().st_size != self.size:
            raise DamagedDataError(
                f"{self.path} must have {self.size:,} bytes: got {path.stat().st_size:,}. {advice}"
            )
        with path.open("rb") as file:
            start = file.read(len(self.start))
        if start != self.start:
            raise DamagedDataError(
                f"{self.path} must begin with {self.start!r}: got {start!r}. {advice}"
            )
        known = {"sha256": self.sha256, "md5": self.md5}
        for kind, expected in known.items():
            if expected and (found := _digest(path, kind)) != expected.lower():
                raise DamagedDataError(
                    f"{self.path} must have the {kind} {expected}: got {found}. {advice}"
                )
        if not self.has_digest and self.record.exists():
            expected = self.record.read_text(encoding="utf-8").strip().partition(" ")[0]
            if (found := _digest(path, "sha256")) != expected:
                raise DamagedDataError(
                    f"{self.path} must be the file first downloaded, with the sha256 {expected}: "
                    f"got {found}. Remove {self.record.name} next to it to accept the new one."
                )


@dataclass
class _Version:
    """The version of a file, as named by the server that sent it."""

    tag: str | None = None


def _download(url: str, wanted: _Wanted, report: ByteProgress, pause: float) -> None:
    """Complete the part of a file from one address, or raise _FailedError."""
    idle, best, version = 0, _length(wanted.part), _Version()
    while True:
        if not wanted.resumable and version.tag is None:  # a wrong result would not be noticed
            wanted.part.unlink(missing_ok=True)
        before = _length(wanted.part)
        try:
            _continue(url, wanted, before, version, report)
            return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == RANGE_NOT_SATISFIABLE and before:
                if _is_whole(error.headers.get("Content-Range"), before):
                    return
                wanted.part.unlink()  # longer than the file, or of another one: begin again
                continue
            reason, final = f"answered {error.code}", error.code not in RETRIED_CODES
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            reason = str(cause) or type(cause).__name__
            final = isinstance(cause, HOPELESS) or getattr(cause, "errno", None) == errno.ENOSPC
        reached = _length(wanted.part)
        idle, best = (0, reached) if reached > best else (idle + 1, best)
        if final or idle >= TRIES:
            raise _FailedError(reason)
        time.sleep(pause * 2 ** max(idle - 1, 0))


def _continue(
    url: str, wanted: _Wanted, start: int, version: _Version, report: ByteProgress
) -> None:
    """Download the rest of a part, and note which version of the file it belongs to."""
    headers = {"User-Agent": "decal_lab.data", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if version.tag:
            headers["If-Range"] = version.tag
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        continues = response.status == 206 and _starts_at(
            response.headers.get("Content-Range"), start
        )
        if response.status == 206 and not continues:
            raise http.client.HTTPException("answered with another range than asked for")
        if not wanted.has_digest and not _private(response.url):
            raise _FailedError(f"led to {response.url}, which anybody on the way could alter")
        tag = response.headers.get("ETag") or ""
        version.tag = tag if tag.startswith('"') else None  # weak tags do not promise equal bytes
        done = start if continues else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        if total is None and not response.chunked and not wanted.resumable:
            raise _FailedError("says neither how long the file is nor is a digest known")
        with open(wanted.part, "ab" if continues else "wb", opener=_not_a_link) as file:
            report(done, total)
            while chunk := response.read(CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                report(done, total)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and done != total:
            raise http.client.HTTPException(f"broke off after {done:,} of {total:,} bytes")


def _starts_at(content_range: str | None, start: int) -> bool:
    return (content_range or "").replace("=", " ").startswith(f"bytes {start}-")


def _is_whole(content_range: str | None, length: int) -> bool:
    """Whether a server that refuses a range says that the file has this length."""
    return (content_range or "").endswith(f"/{length}")


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(kind, usedforsecurity=False)
        ).hexdigest()


def _not_a_link(path: str, flags: int) -> int:
    """Opens a file of a name that everybody knows, but follows no link there."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _private(url: str) -> bool:
    """Whether nobody on the way to an address can alter what comes from there."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process at a time downloads into a folder, where the system can lock folders."""
    try:
        import fcntl
    except ImportError:  # Windows: two at once would damage the part, and its digest shows it
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # which also unlocks
