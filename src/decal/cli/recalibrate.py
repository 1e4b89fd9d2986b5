"""decal recalibrate: the logits or probabilities of the best model near the given one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

import decal
from decal._base.errors import InputError
from decal._base.numerics import softmax
from decal._base.settings import check_choice
from decal.cli import options
from decal.cli.evaluate import PointScores
from decal.cli.run import check_intervals
from decal.cli.terminal import output, progress_bar, say
from decal.io.folders import Layout
from decal.io.writers import matrix_writer

KINDS = ("logits", "probabilities")

RECALIBRATE_EXAMPLES = """Examples:
    decal fit labelled.csv --alpha 0.8 --reference best -o best.npz
    decal recalibrate best.npz test.csv -o recalibrated.csv
    decal recalibrate best.npz new.npy --write probabilities -o shares.npy
Output:
    a file of the same shape, which every command of decal reads: a column per class, the \
labels, if there are any, and the columns of --id-column; .npz, .npy, .csv or .parquet
"""


@options.with_reading("groups", "truth_key", "weights_key")
def recalibrate(
    model: options.ModelArgument,
    logits: options.LogitsArgument,
    out: Annotated[Path, options.output_option("The file to write; - for standard output.")],
    write: Annotated[
        str, options.choice_option("What to write.", "|".join(KINDS), KINDS)
    ] = "logits",
    format_: options.FormatOption = None,
    labels: options.LabelsOption = None,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Write recalibrated logits, fitted to the labelled data.

    MODEL must be fitted with --reference best: the shifts of the greatest likelihood are added to
    the logits, and with --directions class,temperature they are scaled, too. With labels, says
    what that gained on these rows; only rows that the model was not fitted on tell.
    """
    check_choice(write, "write", KINDS)
    check_intervals(logits, out, format_, reading.ids, force=force)
    fitted = decal.Decalibrator.load(model)
    if fitted.reference != "best":
        fact = f"{model} with {fitted.reference!r}"
        remedy = f"Fit it again: {options.calibrating_fit(fitted)}"
        raise InputError("model", "be fitted with --reference best", fact, remedy)
    folder = reading.folder(logits, fitted, "labels", labels=labels)
    layout = Layout(len(fitted.class_weights), fitted.classes)
    names = np.array(layout.classes or [str(k) for k in range(layout.width)])
    reference = fitted.reference_model
    before, after, part = PointScores(), PointScores(), folder.parts[0]
    with (
        folder.open(part, layout) as source,
        matrix_writer(out, write, fitted.classes, file_format=format_) as append,
        progress_bar("Recalibrating", source.rows) as bar,
    ):
        for chunk in part.chunks(source):
            reference.require_rivals(chunk.logits)
            moved = reference.logits(chunk.logits)
            p = softmax(moved)
            named = None if chunk.labels is None else names[chunk.labels]
            append(moved if write == "logits" else p, named, chunk.ids)
            if chunk.labels is not None:
                before.add(softmax(chunk.logits.astype(np.float64)), chunk.labels)
                after.add(p, chunk.labels)
            bar.advance(len(chunk))
    if before.rows:
        output.print(f"before: {before}\nafter:  {after}", highlight=False)
    scale = f", scale {reference.scale:.4g}" if reference.scale != 1 else ""
    shifts = f"shifts from {reference.center.min():.3g} to {reference.center.max():.3g}{scale}"
    say(f"Wrote {out}: {write}, {shifts}", style="green")
