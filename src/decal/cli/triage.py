"""decal triage: which rows should a person check?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal.choose import FLOOR, Triage
from decal.choose import triage as choose_rows
from decal.cli import options
from decal.cli.options import option
from decal.cli.run import all_rows, chunks_of_all
from decal.cli.terminal import output, progress_bar, say
from decal.io.folders import Folder, Layout, open_folder
from decal.io.formats import TABLES
from decal.io.writers import check_output, column_writer
from decal.rows import Rows

TRIAGE_EXAMPLES = """Examples:
    decal triage labelled.csv --error-rate 0.02
    decal triage labelled.csv new.csv --budget 0.1 -o handed_over.csv
    decal triage labelled.npz --slip-rate 0.01 --save triage.npz
    decal triage triage.npz new.npz -o handed_over.csv
Which purpose promises what:
    --cost 0.1: a check costs a tenth of an error. The threshold that costs least on these rows.
    --budget 0.1, or 50: a new row is handed over with at most this probability; or so many rows \
of NEW are.
    --error-rate 0.02: of new rows that are kept, at most so many are wrong, with --confidence.
    --slip-rate 0.01: of all new rows, at most so many are kept and wrong, on average.
Output:
    .csv, .parquet or .npz: a line per row of NEW with row, predicted (the class), doubt (the \
score, higher where a check is needed more) and hand_over (1 for a person, 0 for the model)
"""


@options.with_reading("groups", "truth_key", "weights_key", "floor")
def triage(
    labelled: Annotated[
        Path,
        typer.Argument(
            metavar="LABELLED",
            callback=options.is_file,
            help="Logits with labels that are new to the classifier; or what --save wrote.",
        ),
    ],
    new: Annotated[
        Path | None,
        typer.Argument(
            metavar="NEW",
            callback=options.is_file,
            help="Logits of the rows to hand over, or to keep.",
        ),
    ] = None,
    cost: Annotated[
        float | None, option("Cost of a check, as a share of the cost of an error.", "SHARE")
    ] = None,
    budget: Annotated[str | None, option("What may be handed over.", "SHARE|ROWS")] = None,
    error_rate: Annotated[
        float | None, option("Largest share of kept rows that are wrong.", "SHARE")
    ] = None,
    slip_rate: Annotated[
        float | None, option("Largest share of all rows that are kept and wrong.", "SHARE")
    ] = None,
    confidence: Annotated[
        float, option("With --error-rate; 0 for a promise on average over batches.", "SHARE")
    ] = 0.9,
    score: Annotated[
        str | None, option("Score to use. Default: the one that labels choose.", "NAME")
    ] = None,
    seed: Annotated[
        int, option("Seed that draws the labelled rows which choose the score.", "N", min=0)
    ] = 0,
    out: Annotated[
        Path | None,
        options.output_option("Write NEW's rows: .csv, .parquet or .npz; - for standard output."),
    ] = None,
    save: Annotated[
        Path | None, option("Also keep score and threshold, .npz, for other rows.", "FILE")
    ] = None,
    labels: options.LabelsOption = None,
    floor: Annotated[
        float | None,
        option(
            "Raise smaller probabilities to this.", "P", show_default="1e-12, or what --save kept"
        ),
    ] = None,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Find the rows that a person should check.

    Give labelled rows and one target. Prints how well every score finds the model's errors. The
    labels choose among the scores, and say whether recalibrating would help.
    """
    if (new is None) != (out is None):
        got = "NEW alone" if out is None else "--output alone"
        raise InputError("NEW and --output", "be given together, or neither", got)
    if out is not None:
        check_output(out, force=force, formats=(*TABLES, ".npz"))
    if save is not None:
        check_output(save, force=force, formats=(".npz",))
    wish: dict[str, Any] = {
        "cost": cost,
        "budget": None if budget is None else _number(budget),
        "error_rate": error_rate,
        "slip_rate": slip_rate,
    }
    if any(value is not None for value in wish.values()):
        reads = _meaning(bool(reading.probabilities), FLOOR, floor)
        named = reading.places("labels", named=False)
        data = all_rows(open_folder(labelled, labels=labels, needed=("labels",), **named, **reads))
        with progress_bar("Choosing"):
            chosen = choose_rows(
                data, data.labels, **wish, confidence=confidence or None, score=score, seed=seed
            )
    else:
        chosen = _saved(labelled)
        given = chosen.probabilities if reading.probabilities is None else reading.probabilities
        reads = _meaning(given, chosen.floor if chosen.probabilities else FLOOR, floor)
    described = chosen.described(len(chosen.trials))
    output.print(described, highlight=False, markup=False, soft_wrap=True)
    if save is not None:
        chosen.taking(**reads).save(save)
        say(f"Wrote {save}", style="green")
    if new is not None and out is not None:
        folder = open_folder(new, wanted=(), classes=chosen.classes, **reading.places(), **reads)
        handed, rows = _write(out, chosen, folder)
        say(f"Wrote {out}: {handed:,} of {rows:,} rows for a person", style="green")


def _number(budget: str) -> float:
    """A share, or a whole number of rows."""
    try:
        return int(budget) if budget.strip().isdigit() else float(budget)
    except ValueError:
        rule = "be a share, such as 0.1, or a number of rows, such as 50"
        raise InputError("budget", rule, f"{budget!r}") from None


def _meaning(probabilities: bool, own: float | None, floor: float | None) -> dict[str, Any]:
    """What the numbers of a file mean; without --floor, its `own` is that of probabilities."""
    default = own if probabilities else None
    return {"probabilities": probabilities, "floor": default if floor is None else floor}


def _saved(path: Path) -> Triage:
    try:
        return Triage.load(path)
    except ValueError as error:
        wish = "one of --cost, --budget, --error-rate and --slip-rate"
        rule = "be given, or LABELLED be a file that --save wrote"
        raise InputError(wish, rule, str(path)) from error


def _write(out: Path, chosen: Triage, folder: Folder) -> tuple[int, int]:
    """Write a line per row; how many go to a person, and how many there are."""
    handed = rows = 0
    layout = Layout(chosen.class_count, chosen.classes)
    by_batch = math.isnan(chosen.threshold)  # then all rows together decide
    together = [all_rows(folder, layout)] if by_batch else None
    with column_writer(out) as append:
        for chunk in together or chunks_of_all(folder, layout, "Handing over"):
            lines = _lines(chosen, chunk, rows)
            append(lines)
            handed += int(lines["hand_over"].sum())
            rows += len(chunk)
    return handed, rows


def _lines(chosen: Triage, chunk: Rows, first_row: int) -> dict[str, NDArray[Any]]:
    ids = {name: values.astype(str) for name, values in (chunk.ids or {}).items()}
    return {
        "row": first_row + np.arange(len(chunk)),
        **ids,
        "predicted": chosen.predict(chunk).astype(str),
        "doubt": chosen.doubt(chunk),
        "hand_over": chosen.hand_over(chunk).astype(np.int8),
    }
