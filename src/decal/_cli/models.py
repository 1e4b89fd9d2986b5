"""decal fit, predict and evaluate: from files of logits to models, credal sets and scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

import decal
from decal._base.checks import check_alpha
from decal._base.places import listing
from decal._cli.digits import PAPER_ALPHAS
from decal._cli.options import (
    ColumnsOption,
    FilesArgument,
    FloorOption,
    ForceOption,
    IgnoreOption,
    LabelsKeyOption,
    LabelsOption,
    LogitsKeyOption,
    ModelArgument,
    ProbabilitiesOption,
    SkipBadOption,
    TruthKeyOption,
    TruthOption,
    WeightsKeyOption,
    WeightsOption,
    levels,
    split,
)
from decal._cli.terminal import output, say, score_table, with_progress
from decal._cli.watching import watched
from decal._io.checkpoints import EVERY, FitCheckpoint, learn
from decal._io.columns import labels_are_names, unlabelled_refusal
from decal._io.folders import Folder, Layout, open_folder
from decal._io.formats import TABLES
from decal._io.predictions import predict_folder
from decal._io.sources import Chunk
from decal._io.writers import check_output, credal_writer, write_columns

CLASSES_SHOWN = 20
"""Classes listed after fitting."""

PAPER_LEVELS = ",".join(f"{alpha:g}" for alpha in PAPER_ALPHAS)

FIT_EXAMPLES = """[bold]Examples[/]

    decal fit validation.npz -o model.npz

    decal fit logits.npy --labels labels.npy -o model.npz --alpha 0.9

    decal fit scores.csv --label-column species --probabilities -o model.npz

    decal fit frame.csv --columns cat,dog,eel -o model.npz

    decal fit all.npz --logits-key train_logits --labels-key train_labels -o model.npz

    decal fit parquet_files/ --labels-key label -o model.npz

    [bold]Interrupted?[/] Run the same command again: it continues from MODEL.checkpoint.
    """

PREDICT_EXAMPLES = """[bold]Examples[/]

    decal predict model.npz test.csv -o credal.parquet

    decal predict model.npz test.npy -o credal.npz --alpha 0.95

    decal predict model.npz parquet_files/ -o credal_files/

    [bold]Output[/]

    .csv, .parquet: a line per input and class with row, class, lower, upper, point; in a .csv,
    names of classes that a spreadsheet would take for formulas get an apostrophe in front

    .npz: arrays lower, upper, point (n × K) and classes; .npy: one array (n × K × 2)

    for a folder, a folder: a .parquet per file, with lists lower, upper, point in every row, and
    _SUCCESS.json when all are there. Run the same command again to continue.
    """

EVALUATE_EXAMPLES = """[bold]Examples[/]

    decal evaluate model.npz test.csv --truth truth.csv

    decal evaluate model.npz cifar10h.npz --truth-key human --alpha 0.8,0.9 -o table.csv
    """


def fit(
    logits: FilesArgument,
    model: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, .npz.")],
    labels: LabelsOption = None,
    alpha: Annotated[
        float, typer.Option(help="Default level for predictions, 0 to 1; smaller is wider.")
    ] = 0.8,
    likelihood: Annotated[
        str, typer.Option(metavar="mean|sum", help="Likelihood ratio per example, or of all data.")
    ] = "mean",
    reference: Annotated[
        str,
        typer.Option(
            metavar="model|best",
            help="Measure from the model as it is, or recentered (loads all data).",
        ),
    ] = "model",
    box: Annotated[
        str, typer.Option(metavar="joint|own", help="Intervals over all shifts, or each its own.")
    ] = "joint",
    directions: Annotated[
        str,
        typer.Option(metavar="A,B", help="What may move: class, temperature, or both."),
    ] = "class",
    weights: WeightsOption = None,
    weights_key: WeightsKeyOption = None,
    logits_key: LogitsKeyOption = None,
    labels_key: LabelsKeyOption = None,
    columns: ColumnsOption = "",
    ignore: IgnoreOption = "",
    probabilities: ProbabilitiesOption = False,
    floor: FloorOption = 0.0,
    skip_bad: SkipBadOption = False,
    checkpoint_every: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="How often to keep what was learnt so far."),
    ] = EVERY,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget what an interrupted fit has learnt.")
    ] = False,
    force: ForceOption = False,
) -> None:
    """Learn from labelled logits how far each class's logit may move.

    Reads in one pass, in constant memory. Labels are class names or column numbers from 0.
    """
    check_output(model, force=force, formats=(".npz",))
    fitted = decal.Decalibrator(
        alpha,
        likelihood=likelihood,
        reference=reference,
        box=box,
        directions=split(directions),
    )
    if reference == "best" and logits.is_dir():
        raise ValueError(
            "reference must be 'model' for a folder: got 'best', whose recentering needs all the "
            "data in memory at once. Leave --reference out, or fit one file."
        )
    folder = open_folder(
        logits,
        labels=labels,
        weights=weights,
        keys={"logits": logits_key, "labels": labels_key, "weights": weights_key},
        columns=split(columns) or None,
        ignore=split(ignore),
        needed=("labels",),
        probabilities=probabilities,
        floor=floor,
    )
    checkpoint = FitCheckpoint.next_to(model)
    with checkpoint.alone():
        if restart:
            checkpoint.remove()
        faults: dict[str, str] = {}
        if reference == "best":
            with folder.open(folder.parts[0]) as source:
                data = source.all()
            assert data.labels is not None
            counts = np.bincount(data.labels, data.weights, minlength=data.logits.shape[1])
            warning = _about_labels(counts, source.classes, folder, faults)
            fitted.fit(data.logits, data.labels, sample_weight=data.weights, classes=source.classes)
        else:
            with watched("Fitting") as monitor:
                faults = learn(
                    fitted,
                    folder,
                    checkpoint,
                    every=checkpoint_every,
                    skip_bad=skip_bad,
                    monitor=monitor,
                )
            warning = _about_labels(fitted.class_weights, fitted.classes, folder, faults)
        fitted.save(model)
        if not faults:
            checkpoint.remove()
    output.print(_shifts_table(fitted))
    say(f"Wrote {model}: {fitted!r}", style="green")
    if warning:
        say(warning, style="bold red")
    if faults:
        _list_skipped(faults)
        say(
            f"{checkpoint.path} keeps the evidence of the others: repair these files and run the "
            "same command with --force to add them.",
            style="yellow",
        )


def predict(
    model: ModelArgument,
    logits: FilesArgument,
    out: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file of intervals to write; a folder for one."),
    ],
    alpha: Annotated[
        float | None, typer.Option(help="Level, 0 to 1. Default: the one given to fit.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="npz|npy|csv|parquet", help="If OUT's name does not say."),
    ] = None,
    logits_key: LogitsKeyOption = None,
    labels_key: LabelsKeyOption = None,
    columns: ColumnsOption = "",
    ignore: IgnoreOption = "",
    probabilities: ProbabilitiesOption = False,
    floor: FloorOption = 0.0,
    skip_bad: SkipBadOption = False,
    force: ForceOption = False,
) -> None:
    """Turn logits into intervals of probabilities, one per input and class."""
    if not logits.is_dir():
        check_output(out, force=force, file_format=format_)
    elif format_ not in (None, "parquet"):
        raise ValueError(f"format must be parquet for a folder: got {format_}.")
    fitted = decal.Decalibrator.load(model)
    level = fitted.alpha if alpha is None else check_alpha(alpha)
    folder = open_folder(
        logits,
        keys={"logits": logits_key},
        columns=split(columns) or None,
        ignore=[*split(ignore), *([labels_key] if labels_key else [])],
        classes=fitted.classes,
        wanted=(),
        probabilities=probabilities,
        floor=floor,
    )
    if logits.is_dir():
        with watched("Predicting") as monitor:
            written = predict_folder(
                fitted,
                model,
                folder,
                out,
                alpha=level,
                overwrite=force,
                skip_bad=skip_bad,
                monitor=monitor,
            )
        _list_skipped(written["skipped"])
        say(
            f"Wrote {out}: {len(written['parts']):,} files, {written['rows']:,} inputs at alpha "
            f"{level:g}",
            style="green",
        )
        return
    rows, width = 0, 0.0
    layout = Layout(len(fitted.class_weights), fitted.classes)
    with (
        folder.open(folder.parts[0], layout) as source,
        credal_writer(out, file_format=format_) as append,
    ):
        for chunk in with_progress(source, "Predicting"):
            credal = fitted._predict_checked(chunk.logits, level)
            append(credal)
            rows += len(credal)
            width += len(credal) * (1 - decal.metrics.efficiency(credal))
    say(
        f"Wrote {out}: {rows:,} inputs at alpha {level:g}, mean width {width / rows:.3f}",
        style="green",
    )


def evaluate(
    model: ModelArgument,
    logits: FilesArgument,
    truth: TruthOption = None,
    alpha: Annotated[str, typer.Option(metavar="A,B,…", help="Levels to compare.")] = PAPER_LEVELS,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the table: .csv or .parquet.")
    ] = None,
    labels: LabelsOption = None,
    truth_key: TruthKeyOption = None,
    logits_key: LogitsKeyOption = None,
    labels_key: LabelsKeyOption = None,
    columns: ColumnsOption = "",
    ignore: IgnoreOption = "",
    probabilities: ProbabilitiesOption = False,
    floor: FloorOption = 0.0,
    force: ForceOption = False,
) -> None:
    """Measure coverage and efficiency at several levels.

    Coverage: share of inputs whose true distribution lies in the credal set.
    Efficiency: one minus the mean width of the intervals.
    With labels, also accuracy and calibration error of the point prediction.
    """
    if out is not None:
        check_output(out, force=force, formats=TABLES)
    alphas = levels(alpha)
    fitted = decal.Decalibrator.load(model)
    folder = open_folder(
        logits,
        labels=labels,
        truth=truth,
        keys={"logits": logits_key, "labels": labels_key, "truth": truth_key},
        columns=split(columns) or None,
        ignore=split(ignore),
        classes=fitted.classes,
        wanted=("labels",),
        needed=("truth",),
        probabilities=probabilities,
        floor=floor,
    )
    coverage, efficiency, point = _scores(fitted, folder, alphas)
    output.print(score_table(alphas, coverage, efficiency))
    if point:
        output.print(
            f"point prediction: accuracy {point['accuracy']:.3f}, "
            f"expected calibration error {point['calibration_error']:.3f}",
            highlight=False,
        )
    if out is not None:
        scores = {"alpha": alphas, "coverage": coverage, "efficiency": efficiency}
        same = {name: [value] * len(alphas) for name, value in point.items()}
        write_columns(out, scores | same)
        say(f"Wrote {out}", style="green")


def _about_labels(
    weights: Any, classes: tuple[str, ...] | None, folder: Folder, faults: dict[str, str]
) -> str:
    """A warning of classes that no label names; ValueError if the columns may be no classes.

    Parameters
    ----------
    weights : (K,) array
        Weight of the labels of every class.
    classes : tuple of str or None
        Their names.
    folder : Folder
        The files that were read.
    faults : dict of str to str
        Those of its files, by name, that could not be read.
    """
    names = classes or tuple(str(k) for k in range(len(weights)))
    labelled = [name for name, weight in zip(names, weights, strict=True) if weight > 0]
    never = [name for name, weight in zip(names, weights, strict=True) if weight == 0]
    if len(labelled) == 1:
        raise ValueError(
            f"labels must be of two classes or more: got only {labelled[0]} in {folder.path}. "
            "One class alone does not tell how far logits may move: fit on data of all classes."
        )
    if not never or not labelled:  # without any, weights are the fault
        return ""
    part = next(part for part in folder.parts if part.name not in faults)
    with folder.open(part) as source:
        assert source.labels is not None
        if source.guessed and labels_are_names(source.labels, source.classes):
            raise unlabelled_refusal(folder.path, never, labelled)
    return (
        f"Warning: {len(never):,} of {len(names):,} classes {'are' if len(never) > 1 else 'is'} "
        f"never labelled in {folder.path}: {listing(never)}. Nothing bounds how far their logits "
        "may fall. If columns are no classes, leave them out with --ignore."
    )


def _list_skipped(faults: dict[str, str]) -> None:
    for name, fault in faults.items():
        say(f"Left out {name}: {fault}", style="yellow")


def _all_chunks(model: decal.Decalibrator, folder: Folder) -> Iterator[Chunk]:
    """The chunks of all files, with a bar on the terminal."""
    layout = Layout(len(model.class_weights), model.classes)
    survey = folder.survey(folder.parts, layout)
    for fault in survey.faults.values():
        raise ValueError(fault)
    with watched("Evaluating") as monitor:
        monitor.start(survey.total, 0)
        for part in folder.parts:
            with survey.open(part) as source:
                for chunk in source.chunks():
                    yield chunk
                    monitor.advance(len(chunk))
                    if monitor.stopping():
                        raise KeyboardInterrupt


def _scores(
    model: decal.Decalibrator, folder: Folder, alphas: list[float]
) -> tuple[list[float], list[float], dict[str, float]]:
    """Coverage and efficiency at each level, and how good the point predictions are."""
    sums = np.zeros((2, len(alphas)))
    gaps: Any = 0.0
    right = labelled = rows = 0
    for chunk in _all_chunks(model, folder):
        rows += len(chunk)
        for a, alpha in enumerate(alphas):
            credal = model._predict_checked(chunk.logits, alpha)
            sums[0, a] += len(chunk) * decal.metrics.coverage(credal, chunk.truth)
            sums[1, a] += len(chunk) * decal.metrics.efficiency(credal)
        if chunk.labels is not None:
            assert credal.point is not None
            labelled += len(chunk)
            right += int((credal.point.argmax(axis=1) == chunk.labels).sum())
            gaps += decal.metrics.calibration_gaps(credal.point, chunk.labels)
    coverage, efficiency = (sums / rows).tolist()
    if not labelled:
        return coverage, efficiency, {}
    point = {
        "accuracy": right / labelled,
        "calibration_error": float(np.abs(gaps).sum()) / labelled,
    }
    return coverage, efficiency, point


def _shifts_table(model: decal.Decalibrator) -> Table:
    shifts = model.shifts()
    names = model.classes or tuple(str(k) for k in range(len(shifts.lower)))
    more = len(names) - CLASSES_SHOWN
    table = Table(
        title=f"Plausible shifts, alpha {model.alpha:g}",
        caption=f"and {more:,} more classes" if more > 0 else None,
    )
    table.add_column("class")
    for heading in ("labels", "lower", "upper"):
        table.add_column(heading, justify="right")
    for k in range(min(len(names), CLASSES_SHOWN)):
        numbers = (
            f"{model.class_weights[k]:,.6g}",
            f"{shifts.lower[k]:.3f}",
            f"{shifts.upper[k]:+.3f}",
        )
        table.add_row(Text(names[k]), *numbers)
    return table
