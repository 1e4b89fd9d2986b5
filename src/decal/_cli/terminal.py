"""What commands print on: results on one stream, messages and progress on the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from decal._io.sources import Chunk, LogitSource

output = Console()
messages = Console(stderr=True)


def say(message: str, *, style: str) -> None:
    """One line, apart from the results."""
    messages.print(message, style=style, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress_bar(*columns: ProgressColumn) -> Iterator[Progress]:
    """A bar that vanishes when all is done; none where nobody watches."""
    hidden = not messages.is_terminal
    with Progress(*columns, console=messages, transient=True, disable=hidden) as progress:
        yield progress


def row_columns() -> tuple[ProgressColumn, ...]:
    """What a bar of rows shows."""
    return (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
    )


def with_progress(source: LogitSource, description: str) -> Iterator[Chunk]:
    """The chunks of a source, with a bar on the terminal."""
    with progress_bar(*row_columns()) as progress:
        task = progress.add_task(description, total=source.rows)
        for chunk in source.chunks():
            yield chunk
            progress.advance(task, len(chunk))


def score_table(
    alphas: Iterable[float], coverage: Iterable[float], efficiency: Iterable[float]
) -> Table:
    """Coverage and efficiency at each level."""
    table = Table()
    for heading, style in (("alpha", "bold"), ("coverage", "cyan"), ("efficiency", "magenta")):
        table.add_column(heading, justify="right", style=style)
    for alpha, covered, efficient in zip(alphas, coverage, efficiency, strict=True):
        table.add_row(f"{alpha:g}", f"{covered:.3f}", f"{efficient:.3f}")
    return table
