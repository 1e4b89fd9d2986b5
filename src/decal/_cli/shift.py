"""decal shift: how frequent the classes are among unlabelled inputs, and what follows for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import decal
from decal._base.checks import check_choice
from decal._cli.options import (
    AsFittedOption,
    ColumnsOption,
    FilesArgument,
    FloorOption,
    ForceOption,
    IgnoreOption,
    LogitsKeyOption,
    ModelArgument,
    meaning,
    split,
)
from decal._cli.terminal import output, say, with_progress
from decal._io.folders import Folder, Layout, open_folder
from decal._io.writers import check_output, credal_writer
from decal.shift import Frequencies

SHIFT_EXAMPLES = """[bold]Examples[/]

    decal fit validation.csv --reference best --directions class,temperature -o best.npz

    decal shift best.npz unlabelled.parquet

    decal shift best.npz unlabelled.parquet -o adapted.csv

    decal shift best.npz new.csv --what-if melanoma=0.01:0.10 -o if_rare.csv
    """


def shift(
    model: ModelArgument,
    logits: FilesArgument,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also write the intervals of these inputs."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=LOW:HIGH",
            help="Suppose this frequency, or interval, instead of estimating; may be repeated.",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Of intervals and sets, between 0 and 1.")
    ] = 0.95,
    region: Annotated[
        str,
        typer.Option(
            metavar="auto|joint|own",
            help="All frequencies at once (exact, slow), or one at a time (smaller, fast).",
        ),
    ] = "auto",
    logits_key: LogitsKeyOption = None,
    columns: ColumnsOption = "",
    ignore: IgnoreOption = "",
    probabilities: AsFittedOption = None,
    floor: FloorOption = None,
    force: ForceOption = False,
) -> None:
    """Estimate class frequencies from unlabelled logits, and adapt predictions to them.

    Supposes that inputs of each class look as they did when MODEL was fitted, and that only the
    frequencies of the classes changed. MODEL should be calibrated: fit it with --reference best.
    """
    check_choice(region, "region", ("auto", "joint", "own"))
    supposed = dict(_supposed(text) for text in what_if or ())
    if supposed and out is None:
        raise ValueError("--what-if needs --output: it says what to predict.")
    if out is not None:
        check_output(out, force=force)
    fitted = decal.Decalibrator.load(model)
    adapted = decal.LabelShift.of(fitted._taking_logits(), confidence, region=region)
    folder = open_folder(
        logits,
        keys={"logits": logits_key},
        columns=split(columns) or None,
        ignore=split(ignore),
        classes=fitted.classes,
        wanted=(),
        **meaning(fitted, probabilities, floor),
    )
    layout = Layout(len(fitted.class_weights), fitted.classes)
    if not supposed:
        for part in folder.parts:
            with folder.open(part, layout) as source:
                for chunk in with_progress(source, "Observing"):
                    adapted.observe(chunk.logits)
        output.print(frequency_table(adapted.frequencies))
        found = adapted.test()
        changed = "changed" if found.p_value < 0.05 else "may not have changed"
        output.print(
            f"The frequencies {changed}: p-value {found.p_value:.3g} for no change.",
            highlight=False,
        )
    if out is not None:
        rows = _write(adapted, folder, layout, out, supposed)
        say(f"Wrote {out}: {rows:,} inputs", style="green")


def _write(
    adapted: decal.LabelShift,
    folder: Folder,
    layout: Layout,
    out: Path,
    supposed: dict[str, tuple[float, float]],
) -> int:
    rows = 0
    with credal_writer(out) as append:
        for part in folder.parts:
            with folder.open(part, layout) as source:
                for chunk in with_progress(source, "Predicting"):
                    append(adapted.predict(chunk.logits, frequencies=supposed or None))
                    rows += len(chunk.logits)
    return rows


def frequency_table(found: Frequencies) -> Table:
    """Before and now, for every class."""
    table = Table(title=f"{found.inputs:,.0f} inputs, intervals at {found.confidence:g}")
    table.add_column("class")
    for heading in ("before", "now", "interval"):
        table.add_column(heading, justify="right")
    for k, name in enumerate(found.classes):
        table.add_row(
            Text(name),
            f"{found.before[k]:.3f}",
            f"{found.estimate[k]:.3f}",
            f"{found.lower[k]:.3f} to {found.upper[k]:.3f}",
        )
    return table


def _supposed(text: str) -> tuple[str, tuple[float, float]]:
    """A class and its interval."""
    name, _, interval = text.rpartition("=")
    try:
        bounds = [float(part) for part in interval.split(":")]
    except ValueError:
        bounds = []
    if not name or len(bounds) not in (1, 2):
        raise ValueError(f"--what-if must be CLASS=LOW:HIGH or CLASS=VALUE: got {text}.")
    return name, (bounds[0], bounds[-1])
