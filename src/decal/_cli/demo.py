"""decal demo: what a decalibrated classifier of digits looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.text import Text

from decal._cli.digits import PAPER_ALPHAS, Demo, block_art, run_demo
from decal._cli.terminal import messages, output, say, score_table

BAR_WIDTH = 32
"""Characters from probability 0 to 1."""


def demo(
    seed: Annotated[int, typer.Option(min=0, help="For the split, the forest and the labels.")] = 0,
    out: Annotated[
        Path,
        typer.Option(
            "--out", file_okay=False, help="Folder of results; an earlier demo's are replaced."
        ),
    ] = Path("decal-demo"),
) -> None:
    """Decalibrate a classifier of handwritten digits and show what comes out.

    Needs scikit-learn. The truth is a random forest of depth 5, from which all labels are drawn.
    """
    with messages.status("Training and decalibrating a classifier of digits …"):
        result = run_demo(seed, out)
    _print_demo(result)


def _print_demo(demo: Demo) -> None:
    n = len(demo.credal)
    output.print(
        f"Handwritten digits: decalibrated on {demo.model.examples} images, tested on {n}.\n",
        highlight=False,
    )
    output.print(score_table(PAPER_ALPHAS, demo.coverage, demo.efficiency))
    output.print(
        "coverage: share of images whose true distribution lies in the credal set\n"
        "efficiency: one minus the mean width of the intervals\n",
        style="dim",
        highlight=False,
    )
    output.print(
        f"The {len(demo.most_uncertain)} most uncertain images, alpha 0.8 (◆ is the truth)\n",
        style="bold",
        highlight=False,
    )
    for row in demo.most_uncertain:
        _print_digit(demo, row)
    for note in demo.notes:
        say(note, style="yellow")
    if demo.pictures:
        output.print("Look at the pictures, and open the page in a browser:", style="bold")
        for path in demo.pictures:
            output.print(f"  {path}", markup=False, highlight=False, soft_wrap=True)
        output.print()
    folder = demo.folder
    output.print(f"Results are in {folder}. Try next:", style="bold", highlight=False)
    for command in (
        f"decal predict {folder}/model.npz {folder}/test.csv -o credal.csv --alpha 0.95",
        f"decal evaluate {folder}/model.npz {folder}/test.csv --truth {folder}/truth.csv",
        f"decal explore {folder}/model.npz {folder}/test.csv --export page.html",
    ):
        output.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)


def _print_digit(demo: Demo, row: int) -> None:
    """An image and, to its right, its widest intervals."""
    credal, truth = demo.credal[row], demo.truth[row]
    art = block_art(demo.images[row])
    likely = np.argsort(-credal.upper[0], kind="stable")[: len(art) - 2]
    lines = [Text(f"test row {row}, label {demo.labels[row]}", style="bold"), Text()]
    for k in likely:
        lower, upper = credal.lower[0, k], credal.upper[0, k]
        bar = Text(f"{k}  ") + _interval(lower, upper, truth[k])
        lines.append(bar + Text(f"  {lower:.2f} to {upper:.2f}"))
    for picture, line in zip(art, lines, strict=True):
        output.print(Text(f"  {picture}   ", style="bright_black") + line)
    output.print()


def _interval(lower: float, upper: float, truth: float) -> Text:
    """A line from 0 to 1 with an interval and the truth on it."""
    cells = ["·"] * BAR_WIDTH
    first, last, mark = (min(int(p * BAR_WIDTH), BAR_WIDTH - 1) for p in (lower, upper, truth))
    cells[first : last + 1] = ["━"] * (last + 1 - first)
    cells[mark] = "◆"
    bar = Text("".join(cells), style="dim")
    bar.stylize("cyan not dim", first, last + 1)
    bar.stylize("bold yellow not dim", mark, mark + 1)
    return bar
