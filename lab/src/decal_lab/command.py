"""decal reproduce: run experiments on the data available, and gather their results on a page."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box as borders
from rich.table import Table
from rich.text import Text

from decal.cli import messages, output, progress_bar, say
from decal_lab.data import cache_folder
from decal_lab.experiments import EXPERIMENTS
from decal_lab.experiments.harness import public_data, reports
from decal_lab.experiments.harness.contributions import contributed
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.logit_sets import NoDataAvailableError
from decal_lab.experiments.harness.report_page import write_page
from decal_lab.experiments.harness.reports import Report
from decal_lab.experiments.harness.rows import Cell, provenance

RESULTS = Path("decal-results")
FIRST_COLUMN = 8
"""Least width of a table's first column in characters, however narrow the terminal."""

REPRODUCE_EXAMPLES = """Examples:
    decal reproduce --list
    decal reproduce coverage-efficiency zero-shot --download
    decal reproduce directions --data logits --seeds 0,1,2
    decal reproduce yours --extra my_method.py --quick
    decal reproduce --all --quick --report report.html
"""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Experiments to run.", autocompletion=lambda: list(EXPERIMENTS)
        ),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="List the experiments, what each needs and what is here."),
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="DECAL_DATA",
            help="Folder of logits, .npz. Default: what --download has kept.",
        ),
    ] = None,
    download: Annotated[
        bool,
        typer.Option(
            "--download",
            help="Fetch what is missing and public, without asking; once, and checked.",
        ),
    ] = False,
    extra: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            help="Your own METHODS or DATA_SETS, for the experiment yours. The file is run.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of results; with several experiments, it gets a folder for each. "
            "Default: decal-results/NAME.",
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Seeds of all random draws. Default: 0.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same as --seeds with one seed.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a coarser version.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Gather results in one .html file; without NAME, the results of earlier runs.",
        ),
    ] = None,
) -> None:
    """Run the paper's experiments on the data available.

    Writes rows of results, tables and figures.
    Results that are already in the folder are not computed again unless their data or settings
    have changed, so a stopped run continues where it was. Data that are not available are listed
    and left out; those that are public can be fetched.
    """
    if listed:
        _print_list(data or public_data.default_folder())
        return
    wanted = _wanted(names, everything=everything, page=page)
    drawn = _seeds(seeds, seed)
    yours = contributed(extra or ()) if "yours" in wanted else None
    if extra and yours is None:
        raise ValueError(f"extra must go with the experiment yours: got {', '.join(wanted)}.")
    if everything and yours is not None and not yours.methods and not yours.data_sets:
        wanted.remove("yours")
    data = _data(data, wanted, download=download)
    for name in wanted:
        folder = RESULTS / name if out is None else out
        if out is not None and (everything or len(wanted) > 1):
            folder /= name
        start = time.perf_counter()
        try:
            report = run(
                EXPERIMENTS[name].design,
                data,
                folder,
                seeds=drawn,
                quick=quick,
                extra=yours,
                track=_cells,
            )
        except (NoDataAvailableError, ImportError) as error:
            if not everything:
                raise
            say(f"{name} was left out: {error}", style="yellow")
            continue
        seconds = time.perf_counter() - start
        reports.save(report, folder, _origin(name, data, drawn, seconds, quick=quick))
        _print_report(report)
    if page is not None:
        found = write_page(page, RESULTS if out is None else out, list(EXPERIMENTS))
        say(f"Wrote {page}: {', '.join(found)}", style="green")


def register(command: Callable[..., Any]) -> None:
    """Add `reproduce` to the commands of decal, which calls this: see the entry points."""
    command(epilog=REPRODUCE_EXAMPLES)(reproduce)


def _data(given: Path | None, wanted: list[str], *, download: bool) -> Path:
    """The folder of data, after fetching what is missing if the user agrees.

    Without a folder of the user's it is one in the cache. Nobody is asked who named a folder, or
    who is not at a terminal.
    """
    folder = given or public_data.default_folder()
    needs = [need for name in wanted for need in EXPERIMENTS[name].needs]
    missing = public_data.downloadable(needs, folder)
    if missing and not download and given is None and _at_terminal():
        question = f"Download {', '.join(missing)} to {cache_folder()}?"
        download = typer.confirm(question, err=True)
    if missing and download:
        public_data.download(missing, folder)
        missing = []
    bound = [name for name in wanted if not EXPERIMENTS[name].finds_data]
    if (
        given is None
        and bound
        and not any(
            public_data.NEEDS[need].here(folder)
            for name in bound
            for need in EXPERIMENTS[name].needs
        )
    ):
        some = f" Or let {len(missing)} public files be fetched with --download." if missing else ""
        raise ValueError(
            "data must be a folder of logits: got none. Give it with --data or the environment "
            f"variable DECAL_DATA.{some}"
        )
    return folder


def _at_terminal() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and messages.is_terminal


def _wanted(names: list[str] | None, *, everything: bool, page: Path | None) -> list[str]:
    """The experiments to run, each once."""
    if everything:
        return list(EXPERIMENTS)
    wanted = list(dict.fromkeys(names or ()))
    for name in wanted or ([] if page else [""]):
        if name not in EXPERIMENTS:
            known = ", ".join(EXPERIMENTS)
            raise ValueError(f"NAME must be one of {known}: got {name or 'none'}. Try --list.")
    return wanted


def _seeds(seeds: str | None, seed: int | None) -> tuple[int, ...]:
    """The seeds, each once; 0 if none is given."""
    if seeds is None:
        return (seed or 0,)
    if seed is not None:
        raise ValueError("seeds must be given once: got both --seeds and --seed.")
    texts = [text.strip() for text in seeds.split(",")]
    if not all(text.isascii() and text.isdigit() for text in texts):
        raise ValueError(f"seeds must be numbers such as 0,1,2: got {seeds}.")
    return tuple(dict.fromkeys(map(int, texts)))


def _origin(
    name: str, data: Path, seeds: tuple[int, ...], seconds: float, *, quick: bool
) -> dict[str, Any]:
    """What a report says about its run: command, versions, machine and seconds."""
    return {
        "name": name,
        "summary": EXPERIMENTS[name].summary,
        "command": _command(name, data, seeds, quick=quick),
        "seeds": list(seeds),
        "quick": quick,
        "run_seconds": round(seconds, 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        **provenance(),
    }


def _command(name: str, data: Path, seeds: tuple[int, ...], *, quick: bool) -> str:
    """The command that repeats one experiment, whatever else was run with it."""
    words = ["decal", "reproduce", name, "--data", str(data)]
    words += ["--seeds", ",".join(map(str, seeds))] if seeds != (0,) else []
    return shlex.join(words + ["--quick"] * quick)


def _cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells of an experiment, with a bar on the terminal."""
    with progress_bar("", len(cells), unit="") as bar:
        for cell in cells:
            bar.describe(str(cell))
            yield cell
            bar.advance()


def _print_list(folder: Path) -> None:
    """What each experiment shows, what data it can use, and what of these is here."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, experiment in EXPERIMENTS.items():
        table.add_row(Text(name, style="bold"), Text(experiment.summary))
        needs = public_data.status(experiment.needs, folder) or "no data of yours"
        table.add_row("", Text(f"needs {needs}" if experiment.needs else needs, style="dim"))
    output.print(table)
    say(f"Data are looked for in {folder}.", style="dim")


def _print_report(report: Report) -> None:
    """The tables, the claims, the data that are not available, and the files."""
    for told in report.tables:
        table = Table(
            title=told.title, box=borders.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
        )
        for column, heading in enumerate(told.headings):
            side = {"justify": "right", "no_wrap": True} if column else {"min_width": FIRST_COLUMN}
            table.add_column(heading, **side)
        for heading, rows in told.sections.items():
            if heading:
                table.add_row(Text(heading, style="bold"))
            for row in rows:
                table.add_row(*(_verdict(cell) for cell in row))
            table.add_section()
        output.print(table)
        output.print(f"\n{told.caption}\n", style="dim", markup=False, highlight=False)
    claims = Table.grid(padding=(0, 1))
    for claim in report.claims:
        claims.add_row(_verdict("pass" if claim.holds else "fail"), Text(claim.text))
    output.print(claims)
    if report.needs:
        absent = ", ".join(report.needs)
        output.print(f"\nNot available: {absent}", markup=False, highlight=False)
    for note in report.notes:
        say(note, style="yellow")
    for path in report.files:
        say(f"Wrote {path}", style="green")


def _verdict(text: str) -> Text:
    """A cell of a report, coloured if it ends in a verdict."""
    style = {"pass": "green", "fail": "bold red"}.get(text.rpartition(" ")[2], "")
    return Text(text, style=style)
