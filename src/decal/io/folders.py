"""Folders of files of logits: the parts of one data set, listed, opened and checked one by one.

The parts of a folder are its files, and those of the folders in it, in the order of their names.
Names that start with a dot or an underscore are not data: engines such as Spark give such names to
their own notes.

A part may have no rows, as engines write them; not all may. A single file is a folder of one part.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decal._base.errors import InputError, Words, listing
from decal.io.formats import IGNORE_ADVICE, READABLE, either
from decal.io.row_files import LogitSource, lists_of_nothing, open_source
from decal.rows import Rows

CHECKPOINT_ENDING = ".checkpoint"  # how the names of folders end that keep an unfinished fit

COMPANIONS = ("labels", "weights", "truth")
"""What may come in files of its own, if the logits are one file."""

FAULTS_OF_A_FILE = {None} | {
    getattr(errno, name) for name in ("ENOENT", "EACCES", "EPERM", "EISDIR", "EINVAL", "EIO")
}
"""Errors of the system that concern one file alone. (pyarrow's own have no number.)"""


class UnreadableError(InputError):
    """One file of a folder cannot be read, or holds what cannot be: it alone may be left out."""


@dataclass(frozen=True)
class Part:
    """One file of a folder, as it was when it was listed.

    Its name is its path within the folder, with slashes; it was modified at a time in nanoseconds.
    """

    path: Path
    name: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> Part:
        """A file as it is now."""
        status = path.stat()
        return cls(path, name or path.name, status.st_size, status.st_mtime_ns)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What tells a changed file from an unchanged one."""
        return {"name": self.name, "size": self.size, "modified": self.modified}

    def require_unchanged(self) -> None:
        """UnreadableError if the file is no longer what it was when it was listed."""
        with self.reading():
            if Part.of(self.path, self.name) != self:
                raise InputError(str(self.path), "stay as it is while it is read", "a change")

    @contextmanager
    def reading(self, *others: Path) -> Iterator[None]:
        """Turn errors about this file, or about others read with it, into one that names it.

        Errors that the machine causes, such as too many open files, are no fault of the file.
        """
        try:
            yield
        except (ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in FAULTS_OF_A_FILE:
                raise
            words = error.words if isinstance(error, InputError) else str(error)
            if not any(path.name in str(error) for path in (self.path, *others)):
                words = f"{self.path} must be readable: got ", words
            raise UnreadableError(words) from error

    def chunks(self, source: LogitSource, *arguments: int) -> Iterator[Rows]:
        """`source.chunks` of this file; UnreadableError if reading fails."""
        found = source.chunks(*arguments)
        files = [file.path for file in source.files]
        while True:
            with self.reading(*files):
                chunk = next(found, None)
            if chunk is None:
                return
            yield chunk


@dataclass(frozen=True)
class Layout:
    """What all parts must have in common: the number of classes, and their names if known."""

    width: int
    classes: tuple[str, ...] | None


@dataclass(frozen=True)
class Folder:
    """The parts of one data set, in order, and the options of `open_source` to read them with."""

    path: Path
    parts: tuple[Part, ...]
    options: Mapping[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        """The options as plain data, with files by their fingerprints."""
        plain: dict[str, Any] = {}
        for name, value in self.options.items():
            if isinstance(value, Path):
                plain[name] = Part.of(value).fingerprint
            else:
                plain[name] = list(value) if isinstance(value, tuple | list | set) else value
        return plain

    @property
    def companions(self) -> tuple[Path, ...]:
        """The files of labels, weights and truth, where these are not in the parts themselves."""
        return tuple(value for value in self.options.values() if isinstance(value, Path))

    def open(self, part: Part, layout: Layout | None = None) -> LogitSource:
        """One part; UnreadableError if it cannot be read, or is not like the others."""
        several = self.path.is_dir()
        options = {**self.options, "may_be_empty": several}
        with part.reading(*self.companions):
            source = open_source(part.path, **options)
            if layout is None or lists_of_nothing(source.logits):
                return source
            if source.classes and layout.classes:
                expected = set(layout.classes)
                extra = [name for name in source.classes if name not in expected]
                if extra:
                    rule = f"have the same {layout.width} classes in every file"
                    fact = f"{listing(extra)} besides in {part.path}"
                    raise InputError(source.logits.name, rule, fact, IGNORE_ADVICE)
            elif source.logits.width != layout.width:
                rule = f"have {layout.width} columns, one per class"
                rule += ", in every file" if len(self.parts) > 1 else ""
                raise InputError(source.logits.name, rule, f"{source.logits.width} in {part.path}")
            if source.classes == layout.classes or layout.classes is None:
                return replace(source, classes=layout.classes)
            with source:  # its columns stand in another order: open it again in the right one
                return open_source(part.path, **options | {"classes": layout.classes})

    def without_rows(self) -> InputError:
        """The error about parts that are all empty."""
        files = f"{len(self.parts):,} empty file{'s' * (len(self.parts) != 1)}"
        return InputError(str(self.path), "hold at least one row", files)

    def all_bad(self, what: str, faults: Mapping[str, Words]) -> InputError:
        """The error about parts none of which can be read, or fitted."""
        fact = f"{len(faults)} bad ones"
        fault = next(iter(faults.values()))
        return InputError(str(self.path), f"hold a file that can be {what}", fact, fault)

    def survey(self, parts: Iterable[Part], layout: Layout | None = None) -> Survey:
        """Open parts without reading their numbers, and note those that cannot be read."""
        rows: dict[str, int | None] = {}
        faults: dict[str, Words] = {}
        first: dict[str, LogitSource] = {}
        for part in parts:
            try:
                source = self.open(part, layout)
            except UnreadableError as error:
                faults[part.name] = error.words
                continue
            if layout is None and not lists_of_nothing(source.logits):
                layout = Layout(source.logits.width, source.classes)
            rows[part.name] = source.rows
            if first:
                source.close()
            else:
                first[part.name] = source
        return Survey(self, layout, rows, faults, first)


@dataclass(frozen=True)
class Survey:
    """What the parts of a folder say about themselves before their numbers are read."""

    folder: Folder
    layout: Layout | None  # that of the first intact part
    rows: Mapping[str, int | None]  # of every intact part; None where only reading tells
    faults: Mapping[str, Words]  # what is wrong with the others
    still_open: dict[str, LogitSource]  # the first one, so that a single file is opened once

    @property
    def total(self) -> int | None:
        """Rows of all intact parts; None unless all of them tell."""
        known = [rows for rows in self.rows.values() if rows is not None]
        return sum(known) if len(known) == len(self.rows) else None

    def open(self, part: Part) -> LogitSource:
        """A part, with the columns of all; UnreadableError if it cannot be opened."""
        source = self.still_open.pop(part.name, None)
        return self.folder.open(part, self.layout) if source is None else source


def open_folder(path: Path, **options: Any) -> Folder:
    """The files of a folder, or one file, with the options of `decal.io.row_files.open_source`.

    A folder holds files of one format, with labels, weights and truth in the files themselves.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not path.is_dir():
        return Folder(path, (Part.of(path),), given)
    for name in COMPANIONS:
        if name in given:
            rule = "be a column of the files themselves for a folder"
            remedy = f"Name the column with --{name}-key."
            raise InputError(name, rule, f"the file {given[name]}", remedy)
    parts = [Part.of(file, name) for name, file in sorted(_data_files(path))]
    if not parts:
        raise InputError(str(path), f"hold files that end in {either(READABLE)}", "none")
    kinds = sorted({part.path.suffix.lower() for part in parts})
    if len(kinds) > 1:
        raise InputError(str(path), "hold files of one format", " and ".join(kinds))
    return Folder(path, tuple(parts), given)


def _data_files(folder: Path) -> Iterable[tuple[str, Path]]:
    for file in folder.rglob("*"):
        within = file.relative_to(folder).parts
        hidden = any(name.startswith((".", "_")) for name in within)
        kept = any(name.endswith(CHECKPOINT_ENDING) for name in within)
        if not hidden and not kept and file.suffix.lower() in READABLE and file.is_file():
            yield "/".join(within), file
