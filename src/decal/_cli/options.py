"""Arguments and options that several commands share."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import typer


def _file(text: str) -> Any:
    """An option that takes a file which exists."""
    return typer.Option(exists=True, dir_okay=False, help=text)


def _key(text: str, *names: str) -> Any:
    """An option that takes a key of an .npz, or a column of a table."""
    return typer.Option(*names, metavar="KEY", help=text)


LogitsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="LOGITS",
        exists=True,
        dir_okay=False,
        help="A row per input, a column per class: .npz, .npy, .csv or .parquet.",
    ),
]
FilesArgument = Annotated[
    Path,
    typer.Argument(
        metavar="LOGITS",
        exists=True,
        help="A row per input, a column per class: .npz, .npy, .csv, .parquet, .feather or .arrow; "
        "or a folder of such files.",
    ),
]
ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", exists=True, dir_okay=False, help="Written by decal fit."),
]
LabelsOption = Annotated[
    Path | None, _file("File of the labels. Default: in LOGITS, under 'labels' or 'label'.")
]
TruthOption = Annotated[
    Path | None, _file("File of true distributions. Default: in LOGITS, under 'truth' or 'human'.")
]
WeightsOption = Annotated[Path | None, _file("File of sample weights, one per row.")]
LogitsKeyOption = Annotated[str | None, _key("Array of an .npz that holds the logits.")]
LabelsKeyOption = Annotated[
    str | None,
    _key(
        "Array of an .npz, or column of a table, that holds the labels.",
        "--labels-key",
        "--label-column",
    ),
]
TruthKeyOption = Annotated[str | None, _key("Array of an .npz that holds the truth.")]
WeightsKeyOption = Annotated[
    str | None, _key("Array of an .npz, or column of a table, of weights.")
]
ColumnsOption = Annotated[
    str,
    typer.Option(
        metavar="A,B,…",
        help="Columns of a table that are the classes; '*' for all but the labels. Default: all "
        "but the labels, if none looks like an index or like row numbers.",
    ),
]
IgnoreOption = Annotated[
    str,
    typer.Option(metavar="A,B,…", help="Columns of a table that are neither classes nor labels."),
]
ProbabilitiesOption = Annotated[
    bool,
    typer.Option("--probabilities", help="LOGITS holds probabilities: take their logarithm."),
]
FloorOption = Annotated[
    float,
    typer.Option(help="Raise smaller probabilities to this. Without it zeros are refused."),
]
SkipBadOption = Annotated[
    bool,
    typer.Option("--skip-bad", help="Leave out, and list, the files of a folder that are bad."),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output.")]


def split(names: str) -> list[str]:
    """The names in a text that separates them by commas; a name in "" may hold commas itself."""
    found = next(csv.reader([names], skipinitialspace=True), [])
    return [name.strip() for name in found if name.strip()]


def levels(text: str) -> list[float]:
    """The numbers from 0 to 1 in a text that separates them by commas."""
    try:
        found = [float(level) for level in split(text)]
    except ValueError:
        found = []
    if not found or not all(0 <= level <= 1 for level in found):
        raise ValueError(f"alpha must be numbers from 0 to 1, with commas between: got {text!r}.")
    return found
