"""Reports of experiments: tables in three forms, claims that hold or fail, needs and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decal_lab.experiments.harness.rows import replacing_text

Sections = dict[str, list[tuple[str, ...]]]

SAVED = "report.json"
"""The name of a report's file in the folder of an experiment."""

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
"""Characters that have another meaning in LaTeX, and how to print them."""


@dataclass(frozen=True)
class Claim:
    """A sentence about the results, and whether it is true of them."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes
    ----------
    title : str
        The title of the table.
    headings : tuple of str
        The headings of its columns. All columns but the first are aligned to the right.
    sections : mapping of str to list of rows
        Its rows, under the heading of each section.
    caption : str
        How to read it.
    """

    title: str
    headings: tuple[str, ...]
    sections: Sections
    caption: str = ""


@dataclass(frozen=True)
class Report:
    """The results of an experiment.

    Attributes
    ----------
    title, headings, sections, caption : str, tuple of str, mapping, str
        The first table.
    claims : tuple of Claim
        What was to be shown.
    needs : tuple of str
        Data that are not available, so that their cells are missing.
    notes : tuple of str
        What else a reader must know.
    files : tuple of path
        Files that were written.
    further : tuple of Table
        The other tables.
    """

    title: str
    headings: tuple[str, ...]
    sections: Sections
    caption: str
    claims: tuple[Claim, ...] = ()
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    further: tuple[Table, ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables in their order."""
        first = Table(self.title, self.headings, self.sections, self.caption)
        return (first, *self.further)


def save(report: Report, folder: Path, origin: Mapping[str, Any]) -> Path:
    """Save a report and its origin, for a page that gathers several.

    Parameters
    ----------
    report : Report
        A report whose files lie in `folder`.
    folder : path
        Folder of the experiment's results.
    origin : mapping of str to plain data
        The name of the experiment, the command, versions, the machine.
    """
    plain = asdict(report) | {"files": [path.name for path in report.files], **origin}
    path = folder / SAVED
    with replacing_text(path) as file:
        # Verdicts and counts may be NumPy scalars.
        json.dump(plain, file, ensure_ascii=False, indent=1, default=lambda x: x.item())
        file.write("\n")
    return path


def saved(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The reports saved in a folder or in the folders within it, each with its own folder."""
    for path in (folder / SAVED, *sorted(folder.glob(f"*/{SAVED}"))):
        if path.exists():
            yield path.parent, json.loads(path.read_text(encoding="utf-8"))


# Tables as text


def markdown_report(report: Report) -> str:
    """The tables, claims and needs of a report in Markdown."""
    parts = ["\n".join(markdown_section(table) for table in report.tables)]
    if report.claims:
        parts.append(f"\n## What was to be shown\n\n{markdown_claims(report.claims)}")
    if report.needs:
        parts.append("\n## Not available\n\n")
        parts += [f"- needs {need}\n" for need in report.needs]
    return "".join(parts)


def latex_report(report: Report) -> str:
    """The tables of a report in LaTeX."""
    return "\n".join(latex_table(table) for table in report.tables)


def markdown_section(table: Table) -> str:
    """A heading, a caption, and a table for each section, in Markdown."""
    parts = [f"# {table.title}\n"]
    if table.caption:
        parts.append("\n".join(f"{line}  " for line in table.caption.splitlines()) + "\n")
    for heading, rows in table.sections.items():
        if heading:
            parts.append(f"## {heading}\n")
        parts.append(markdown_table(table.headings, rows, left=1))
    return "\n".join(parts)


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 2) -> str:
    """A table of text in Markdown; every column but the first `left` is aligned to the right."""
    rule = ["---" if column < left else "---:" for column in range(len(headings))]
    texts = ([cell.replace("|", "\\|") for cell in row] for row in (headings, rule, *rows))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in texts)


def markdown_claims(claims: Iterable[Claim]) -> str:
    """A list of claims in Markdown, each with its verdict."""
    return "".join(f"- {c.text}: **{'pass' if c.holds else 'fail'}**\n" for c in claims)


def latex_table(table: Table) -> str:
    """A table environment in LaTeX, with rules of the booktabs package."""
    columns = len(table.headings)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(' '.join([table.title + '.', *table.caption.splitlines()]))}}}",
        rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}",
        r"\toprule",
        _latex_row(table.headings),
    ]
    for heading, rows in table.sections.items():
        lines.append(r"\midrule")
        if heading:
            lines.append(rf"\multicolumn{{{columns}}}{{l}}{{\textbf{{{latex_text(heading)}}}}} \\")
        lines += [_latex_row(row) for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """LaTeX that prints this text."""
    return "".join(LATEX.get(character, character) for character in text)


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"


# Numbers as text


def number(x: float, digits: int = 3) -> str:
    """A number as text; a dash for NaN."""
    return "–" if x != x else f"{x:.{digits}f}"


def signed(x: float, digits: int = 3) -> str:
    """A difference with its sign, but never -0.000; a dash for NaN."""
    return "–" if x != x else f"{round(x, digits) + 0.0:+.{digits}f}"


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds in words: "seed 0", "seeds 0, 1, 2"."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
