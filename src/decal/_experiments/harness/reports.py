"""What an experiment tells: tables in three forms, claims that hold or fail, needs and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decal._experiments.harness.rows import replacing

Sections = dict[str, list[tuple[str, ...]]]

SAVED = "report.json"
"""What a report is called in the folder of an experiment."""

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
"""Characters that LaTeX reads otherwise."""


@dataclass(frozen=True)
class Claim:
    """A sentence about the results, and whether they bear it out."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes
    ----------
    title, headings : of the table and of its columns; all but the first are aligned to the right.
    sections : its rows, under the heading of each section.
    caption : how to read it.
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
    title, headings, sections, caption : its foremost table.
    claims : what was to be shown.
    needs : what was absent, and whose cells are missing therefore.
    notes : what else a reader must know.
    files : what was written.
    further : more tables.
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
        """All tables, the foremost first."""
        first = Table(self.title, self.headings, self.sections, self.caption)
        return (first, *self.further)


def save(report: Report, folder: Path, origin: Mapping[str, Any]) -> Path:
    """Keep a report, and what computed it, for a page that gathers several.

    Parameters
    ----------
    report : whose files lie in `folder`.
    folder : of the experiment's results.
    origin : plain data: the name of the experiment, the command, versions, the machine.
    """
    plain = asdict(report) | {"files": [path.name for path in report.files], **origin}
    path = folder / SAVED
    with replacing(path) as file:
        # Verdicts and counts may be NumPy's.
        json.dump(plain, file, ensure_ascii=False, indent=1, default=lambda x: x.item())
        file.write("\n")
    return path


def saved(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The reports kept in a folder or in the folders within it, each with its own folder."""
    for path in (folder / SAVED, *sorted(folder.glob(f"*/{SAVED}"))):
        if path.exists():
            yield path.parent, json.loads(path.read_text(encoding="utf-8"))


# Tables as text


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write table.md and table.tex: the tables of a report, and its claims."""
    markdown, latex = folder / "table.md", folder / "table.tex"
    with replacing(markdown) as file:
        file.write("\n".join(markdown_section(table) for table in report.tables))
        if report.claims:
            file.write(f"\n## What was to be shown\n\n{markdown_claims(report.claims)}")
        if report.needs:
            file.write("\n## Not at hand\n\n")
            file.writelines(f"- needs {need}\n" for need in report.needs)
    with replacing(latex) as file:
        file.write("\n".join(latex_table(table) for table in report.tables))
    return [markdown, latex]


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
    """Text that LaTeX prints as it is."""
    return "".join(LATEX.get(character, character) for character in text)


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"


# Numbers as text


def number(x: float, digits: int = 3) -> str:
    """A number, or a dash for none."""
    return "–" if x != x else f"{x:.{digits}f}"


def signed(x: float, digits: int = 3) -> str:
    """A difference with its sign, and never -0.000; or a dash for none."""
    return "–" if x != x else f"{round(x, digits) + 0.0:+.{digits}f}"


def seeds_text(seeds: Sequence[int]) -> str:
    """Words for some seeds: "seed 0", "seeds 0, 1, 2"."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
