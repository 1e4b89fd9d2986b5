"""Folders of files of logits: the parts of one data set, listed, opened and checked one by one.

The parts of a folder are its files, and those of the folders in it, in the order of their names.
Names that start with a dot or an underscore are not data: engines such as Spark mark with them what
they write besides. A folder called ``key=value``, as Hive names partitions, gives the rows below it
a column of that value.

A single file is a folder of one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from decal._io.formats import READABLE, either, listing
from decal._io.sources import Source, open_source

CHECKPOINT_ENDING = ".checkpoint"
"""How the folders end in which an unfinished fit is kept."""

BESIDE = ("labels", "weights", "truth")


@dataclass(frozen=True)
class Part:
    """One file of a folder, as it was when it was listed.

    Attributes
    ----------
    path : the file.
    name : its path within the folder, with slashes.
    size : bytes.
    modified : time of its last change, in nanoseconds.
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

    @property
    def constants(self) -> dict[str, str]:
        """The columns that the names of the folders around it give."""
        pairs = (folder.partition("=") for folder in self.name.split("/")[:-1])
        return {key: unquote(value) for key, equals, value in pairs if equals}

    def require_unchanged(self) -> None:
        """ValueError if the file is no longer what it was when it was listed."""
        if Part.of(self.path, self.name) != self:
            raise ValueError(f"{self.path} must stay as it is while it is read: got a change.")

    def fault(self, error: Exception) -> str:
        """What is wrong with this file; its name is always there."""
        text = str(error)
        return text if self.path.name in text else f"{self.path} must be readable: got {text}"


@dataclass(frozen=True)
class Layout:
    """What all parts must have in common: the number of classes, and their names if known."""

    width: int
    classes: tuple[str, ...] | None


@dataclass(frozen=True)
class Survey:
    """What the parts say about themselves before their numbers are read.

    Attributes
    ----------
    layout : of the first part that is in order; None if there is none.
    rows : rows of every part in order, by name; None where only reading tells.
    faults : what is wrong with the other parts, by name.
    """

    layout: Layout | None
    rows: Mapping[str, int | None]
    faults: Mapping[str, str]

    @property
    def total(self) -> int | None:
        """Rows of all parts in order, if they tell."""
        known = [rows for rows in self.rows.values() if rows is not None]
        return sum(known) if len(known) == len(self.rows) else None


@dataclass(frozen=True)
class Folder:
    """The parts of one data set, and how to read them.

    Attributes
    ----------
    path : the folder, or the only file.
    parts : its files, in order.
    options : those of `decal._io.sources.open_source`.
    """

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

    def open(self, part: Part, layout: Layout | None = None) -> Source:
        """One part; ValueError if it is not like the others."""
        options = {**self.options, "constants": part.constants}
        source = open_source(part.path, **options)
        if layout is None:
            return source
        if source.classes and layout.classes:
            extra = [name for name in source.classes if name not in layout.classes]
            if extra:
                raise ValueError(
                    f"{source.logits.name} must have the same {layout.width} classes in every "
                    f"file: got {listing(extra)} besides in {part.path}. "
                    "Leave out columns that are not classes with --ignore."
                )
        elif source.logits.width != layout.width:
            raise ValueError(
                f"{source.logits.name} must have {layout.width} columns, one per class, in every "
                f"file: got {source.logits.width} in {part.path}."
            )
        if source.classes == layout.classes or layout.classes is None:
            return replace(source, classes=layout.classes)
        return open_source(part.path, **options | {"classes": layout.classes})

    def survey(self, parts: Iterable[Part], layout: Layout | None = None) -> Survey:
        """Open parts without reading their numbers, and note those that cannot be read."""
        rows: dict[str, int | None] = {}
        faults = {}
        for part in parts:
            try:
                source = self.open(part, layout)
            except (ValueError, OSError) as error:
                faults[part.name] = part.fault(error)
                continue
            layout = layout or Layout(source.logits.width, source.classes)
            rows[part.name] = source.rows
        return Survey(layout, rows, faults)


def open_folder(path: Path, **options: Any) -> Folder:
    """The files of a folder, or one file, with the options of `decal._io.sources.open_source`.

    ValueError if there are none, if they are of several formats, or if labels, weights or truth of
    a folder come in files of their own.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not path.is_dir():
        return Folder(path, (Part.of(path),), given)
    for name in BESIDE:
        if name in given:
            raise ValueError(
                f"{name} must be a column of the files themselves for a folder: got the file "
                f"{given[name]}. Name the column with --{name}-key."
            )
    parts = [Part.of(file, name) for name, file in sorted(_data_files(path))]
    if not parts:
        raise ValueError(f"{path} must hold files that end in {either(READABLE)}: got none.")
    kinds = sorted({part.path.suffix.lower() for part in parts})
    if len(kinds) > 1:
        raise ValueError(f"{path} must hold files of one format: got {' and '.join(kinds)}.")
    return Folder(path, tuple(parts), given)


def _data_files(folder: Path) -> Iterable[tuple[str, Path]]:
    for file in folder.rglob("*"):
        within = file.relative_to(folder).parts
        hidden = any(name.startswith((".", "_")) for name in within)
        kept = any(name.endswith(CHECKPOINT_ENDING) for name in within)
        if not hidden and not kept and file.suffix.lower() in READABLE and file.is_file():
            yield "/".join(within), file
