"""What an experiment tells: a table for the terminal, claims that hold or fail, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Claim:
    """A sentence about the results, and whether they bear it out."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Report:
    """The results of an experiment.

    Attributes
    ----------
    title, headings : of the table for the terminal.
    sections : its rows, as text, under the heading of each section.
    caption : how to read it.
    claims : what was to be shown.
    needs : names of files that were absent, and whose cells are missing therefore.
    notes : what else a reader must know.
    files : what was written.
    """

    title: str
    headings: tuple[str, ...]
    sections: dict[str, list[tuple[str, ...]]]
    caption: str
    claims: tuple[Claim, ...]
    needs: tuple[str, ...]
    notes: tuple[str, ...]
    files: tuple[Path, ...]


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text in Markdown; every column but the first two is aligned to the right."""
    rule = ["---" if column < 2 else "---:" for column in range(len(headings))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (headings, rule, *rows))
