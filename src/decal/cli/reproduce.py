"""decal reproduce: experiments on the logits at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box as borders
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from decal.cli.terminal import output, progress_bar, say
from decal.experiments import EXPERIMENTS
from decal.experiments.report import Report
from decal.experiments.rows import Cell

REPRODUCE_EXAMPLES = """[bold]Examples[/]

    decal reproduce --list

    decal reproduce directions --data logits --quick
    """


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Experiments to run.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="DECAL_DATA", help="Folder of logits, .npz."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of results, of several experiments a folder in it for each. "
            "Default: decal-results/NAME.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws the halves of the data.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A coarser run.")] = False,
) -> None:
    """Run experiments on the logits at hand: rows of results, tables and figures.

    Results already in the folder are kept and not computed again, so a run that was stopped goes
    on where it was. Data that are not at hand are listed, and left out.
    """
    if listed:
        for name, experiment in EXPERIMENTS.items():
            output.print(f"[bold]{name}[/]  {experiment.summary}", highlight=False)
        return
    wanted = list(dict.fromkeys(names or ()))
    for name in wanted or [""]:
        if name not in EXPERIMENTS:
            known = ", ".join(EXPERIMENTS)
            raise ValueError(f"NAME must be one of {known}: got {name or 'none'}. Try --list.")
    if data is None:
        raise ValueError(
            "data must be a folder of logits: got none. "
            "Give it with --data or the environment variable DECAL_DATA."
        )
    for name in wanted:
        folder = Path("decal-results", name) if out is None else out
        if out is not None and len(wanted) > 1:
            folder /= name
        report = EXPERIMENTS[name].run(data, folder, seed=seed, quick=quick, track=_cells)
        _print_report(report)


def _cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells of an experiment, with a bar on the terminal."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with progress_bar(*columns) as progress:
        task = progress.add_task("", total=len(cells))
        for cell in cells:
            progress.update(task, description=str(cell))
            yield cell
            progress.advance(task)


def _print_report(report: Report) -> None:
    """A table, then what it shows, then what is missing and where the files are."""
    table = Table(
        title=report.title, box=borders.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    for column, heading in enumerate(report.headings):
        table.add_column(heading, justify="right" if column else "left", no_wrap=column > 0)
    for heading, rows in report.sections.items():
        table.add_row(Text(heading, style="bold"))
        for row in rows:
            table.add_row(*(_verdict(cell) for cell in row))
        table.add_section()
    output.print(table)
    output.print(f"\n{report.caption}\n", style="dim", markup=False, highlight=False)
    claims = Table.grid(padding=(0, 1))
    for claim in report.claims:
        claims.add_row(_verdict("pass" if claim.holds else "fail"), Text(claim.text))
    output.print(claims)
    if report.needs:
        absent = ", ".join(report.needs)
        output.print(f"\nNot at hand: needs {absent}", markup=False, highlight=False)
    for note in report.notes:
        say(note, style="yellow")
    for path in report.files:
        say(f"Wrote {path}", style="green")


def _verdict(text: str) -> Text:
    """A cell of a report; one that ends in a verdict is coloured."""
    style = {"pass": "green", "fail": "bold red"}.get(text.rpartition(" ")[2], "")
    return Text(text, style=style)
