"""The command line: parse, call, print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box as borders
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

import decal
from decal import files
from decal._formats import TABLES
from decal.demo import PAPER_ALPHAS, Demo, block_art, run_demo
from decal.experiments import EXPERIMENTS
from decal.experiments.report import Report
from decal.experiments.rows import Cell
from decal.files import Chunk, Source

CLASSES_SHOWN = 20
"""Classes listed after fitting."""

BAR_WIDTH = 32
"""Characters from probability 0 to 1."""

output = Console()
messages = Console(stderr=True)


class _Commands(typer.core.TyperGroup):
    """Commands whose bad input ends in one line and exit code 2, not in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, OSError, ImportError) as error:
            _say(f"decal {ctx.invoked_subcommand}: {error}", style="red")
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            _say("Stopped. Nothing half-written was left behind.", style="yellow")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Arguments and options that several commands share.
Logits = Annotated[
    Path,
    typer.Argument(
        metavar="LOGITS",
        exists=True,
        dir_okay=False,
        help="A row per input, a column per class: .npz, .npy, .csv or .parquet.",
    ),
]
Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", exists=True, dir_okay=False, help="Written by decal fit."),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="File of the labels. Default: in LOGITS, under 'labels' or 'label'.",
    ),
]
LogitsKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="Array of an .npz that holds the logits.")
]
LabelsKey = Annotated[
    str | None,
    typer.Option(
        "--labels-key",
        "--label-column",
        metavar="KEY",
        help="Array of an .npz, or column of a table, that holds the labels.",
    ),
]
Ignore = Annotated[
    str,
    typer.Option(metavar="A,B,…", help="Columns of a table that are neither classes nor labels."),
]
Probabilities = Annotated[
    bool,
    typer.Option("--probabilities", help="LOGITS holds probabilities: take their logarithm."),
]
Floor = Annotated[
    float,
    typer.Option(help="Raise smaller probabilities to this. Without it zeros are refused."),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output.")]


def _version(wanted: bool) -> None:
    if wanted:
        output.print(f"decal {decal.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _decal(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Credal predictions from any classifier's logits.

    Start with [bold]decal demo[/]. With logits of your own: [bold]decal fit[/] learns from labelled
    ones how far they may move, [bold]decal predict[/] turns new ones into probability intervals.
    """


@app.command(
    epilog="""[bold]Examples[/]

    decal fit validation.npz -o model.npz

    decal fit logits.npy --labels labels.npy -o model.npz --alpha 0.9

    decal fit scores.csv --label-column species --probabilities -o model.npz

    decal fit all.npz --logits-key train_logits --labels-key train_labels -o model.npz
    """
)
def fit(
    logits: Logits,
    model: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, .npz.")],
    labels: Labels = None,
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
            help="Measure from the model as it is, or recentred (loads all data).",
        ),
    ] = "model",
    box: Annotated[
        str, typer.Option(metavar="joint|own", help="Intervals over all shifts, or each its own.")
    ] = "joint",
    directions: Annotated[
        str,
        typer.Option(metavar="A,B", help="What may move: class, temperature, or both."),
    ] = "class",
    weights: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="File of sample weights, one per row."),
    ] = None,
    weights_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Array of an .npz, or column of a table, of weights."),
    ] = None,
    logits_key: LogitsKey = None,
    labels_key: LabelsKey = None,
    ignore: Ignore = "",
    probabilities: Probabilities = False,
    floor: Floor = 0.0,
    force: Force = False,
) -> None:
    """Learn from labelled logits how far each class's logit may move.

    Reads in one pass, in constant memory. Labels are class names or column numbers from 0.
    """
    files.check_output(model, force=force, formats=(".npz",))
    fitted = decal.Decalibrator(
        alpha,
        likelihood=likelihood,
        reference=reference,
        box=box,
        directions=_split(directions),
    )
    source = files.open_source(
        logits,
        labels=labels,
        weights=weights,
        keys={"logits": logits_key, "labels": labels_key, "weights": weights_key},
        ignore=_split(ignore),
        needed=("labels",),
        probabilities=probabilities,
        floor=floor,
    )
    if reference == "best":
        data = source.all()
        fitted.fit(data.logits, data.labels, sample_weight=data.weights, classes=source.classes)
    else:
        learnt = False
        for chunk in _with_progress(source, "Fitting"):
            if chunk.weights is None or chunk.weights.any():
                fitted.partial_fit(
                    chunk.logits, chunk.labels, sample_weight=chunk.weights, classes=source.classes
                )
                learnt = True
        if not learnt:
            raise ValueError("weights must be positive somewhere: got only zeros.")
    fitted.save(model)
    output.print(_shifts_table(fitted))
    _say(f"Wrote {model}: {fitted!r}", style="green")


@app.command(
    epilog="""[bold]Examples[/]

    decal predict model.npz test.csv -o credal.parquet

    decal predict model.npz test.npy -o credal.npz --alpha 0.95

    [bold]Output[/]

    .csv, .parquet: a line per input and class with row, class, lower, upper, point

    .npz: arrays lower, upper, point (n × K) and classes; .npy: one array (n × K × 2)
    """
)
def predict(
    model: Model,
    logits: Logits,
    out: Annotated[Path, typer.Option("--output", "-o", help="The file of intervals to write.")],
    alpha: Annotated[
        float | None, typer.Option(help="Level, 0 to 1. Default: the one given to fit.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="npz|npy|csv|parquet", help="If OUT's name does not say."),
    ] = None,
    logits_key: LogitsKey = None,
    labels_key: LabelsKey = None,
    ignore: Ignore = "",
    probabilities: Probabilities = False,
    floor: Floor = 0.0,
    force: Force = False,
) -> None:
    """Turn logits into intervals of probabilities, one per input and class."""
    files.check_output(out, force=force, file_format=format_)
    fitted = decal.Decalibrator.load(model)
    source = files.open_source(
        logits,
        keys={"logits": logits_key},
        ignore=[*_split(ignore), *([labels_key] if labels_key else [])],
        classes=fitted.classes,
        wanted=(),
        probabilities=probabilities,
        floor=floor,
    )
    rows, width = 0, 0.0

    def predictions() -> Iterator[decal.IntervalCredalSet]:
        nonlocal rows, width
        for chunk in _with_progress(source, "Predicting"):
            credal = fitted.predict(chunk.logits, alpha=alpha)
            rows += len(credal)
            width += len(credal) * (1 - decal.metrics.efficiency(credal))
            yield credal

    files.write_credal(out, predictions(), file_format=format_)
    level = fitted.alpha if alpha is None else alpha
    _say(
        f"Wrote {out}: {rows:,} inputs at alpha {level:g}, mean width {width / rows:.3f}",
        style="green",
    )


@app.command(
    epilog="""[bold]Examples[/]

    decal evaluate model.npz test.csv --truth truth.csv

    decal evaluate model.npz cifar10h.npz --truth-key human --alpha 0.8,0.9 -o table.csv
    """
)
def evaluate(
    model: Model,
    logits: Logits,
    truth: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="File of true distributions. Default: in LOGITS, under 'truth' or 'human'.",
        ),
    ] = None,
    alpha: Annotated[str, typer.Option(metavar="A,B,…", help="Levels to compare.")] = ",".join(
        f"{alpha:g}" for alpha in PAPER_ALPHAS
    ),
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the table: .csv or .parquet.")
    ] = None,
    labels: Labels = None,
    truth_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Array of an .npz that holds the truth.")
    ] = None,
    logits_key: LogitsKey = None,
    labels_key: LabelsKey = None,
    ignore: Ignore = "",
    probabilities: Probabilities = False,
    floor: Floor = 0.0,
    force: Force = False,
) -> None:
    """Measure coverage and efficiency at several levels.

    Coverage: share of inputs whose true distribution lies in the credal set.
    Efficiency: one minus the mean width of the intervals.
    With labels, also accuracy and calibration error of the point prediction.
    """
    if out is not None:
        files.check_output(out, force=force, formats=TABLES)
    alphas = _levels(alpha)
    fitted = decal.Decalibrator.load(model)
    source = files.open_source(
        logits,
        labels=labels,
        truth=truth,
        keys={"logits": logits_key, "labels": labels_key, "truth": truth_key},
        ignore=_split(ignore),
        classes=fitted.classes,
        wanted=("labels",),
        needed=("truth",),
        probabilities=probabilities,
        floor=floor,
    )
    coverage, efficiency, point = _scores(fitted, source, alphas)
    output.print(_score_table(alphas, coverage, efficiency))
    if point:
        output.print(
            f"point prediction: accuracy {point['accuracy']:.3f}, "
            f"expected calibration error {point['calibration_error']:.3f}",
            highlight=False,
        )
    if out is not None:
        columns = {"alpha": alphas, "coverage": coverage, "efficiency": efficiency}
        same = {name: [value] * len(alphas) for name, value in point.items()}
        files.write_columns(out, columns | same)
        _say(f"Wrote {out}", style="green")


@app.command()
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


@app.command(
    epilog="""[bold]Examples[/]

    decal reproduce --list

    decal reproduce directions --data logits --quick
    """
)
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


# Calling


def _with_progress(source: Source, description: str) -> Iterator[Chunk]:
    """The chunks of a source, with a bar on the terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
    )
    hidden = not messages.is_terminal
    with Progress(*columns, console=messages, transient=True, disable=hidden) as progress:
        task = progress.add_task(description, total=source.rows)
        for chunk in source.chunks():
            yield chunk
            progress.advance(task, len(chunk))


def _cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells of an experiment, with a bar on the terminal."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    hidden = not messages.is_terminal
    with Progress(*columns, console=messages, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=len(cells))
        for cell in cells:
            progress.update(task, description=str(cell))
            yield cell
            progress.advance(task)


def _scores(
    model: decal.Decalibrator, source: Source, alphas: list[float]
) -> tuple[list[float], list[float], dict[str, float]]:
    """Coverage and efficiency at each level, and how good the point predictions are."""
    sums = np.zeros((2, len(alphas)))
    points: list[Any] = []
    labels: list[Any] = []
    rows = 0
    for chunk in _with_progress(source, "Evaluating"):
        rows += len(chunk)
        for a, alpha in enumerate(alphas):
            credal = model.predict(chunk.logits, alpha=alpha)
            sums[0, a] += len(chunk) * decal.metrics.coverage(credal, chunk.truth)
            sums[1, a] += len(chunk) * decal.metrics.efficiency(credal)
        if chunk.labels is not None:
            points.append(credal.point)
            labels.append(chunk.labels)
    coverage, efficiency = (sums / rows).tolist()
    if not labels:
        return coverage, efficiency, {}
    p, y = np.concatenate(points), np.concatenate(labels)
    point = {
        "accuracy": float(np.mean(p.argmax(axis=1) == y)),
        "calibration_error": decal.metrics.expected_calibration_error(p, y),
    }
    return coverage, efficiency, point


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _levels(text: str) -> list[float]:
    try:
        levels = [float(level) for level in _split(text)]
    except ValueError:
        levels = []
    if not levels or not all(0 <= level <= 1 for level in levels):
        raise ValueError(f"alpha must be numbers from 0 to 1, with commas between: got {text!r}.")
    return levels


# Printing


def _say(message: str, *, style: str) -> None:
    """One line, apart from the results."""
    messages.print(message, style=style, markup=False, highlight=False, soft_wrap=True)


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


def _score_table(
    alphas: Iterable[float], coverage: Iterable[float], efficiency: Iterable[float]
) -> Table:
    table = Table()
    for heading, style in (("alpha", "bold"), ("coverage", "cyan"), ("efficiency", "magenta")):
        table.add_column(heading, justify="right", style=style)
    for alpha, covered, efficient in zip(alphas, coverage, efficiency, strict=True):
        table.add_row(f"{alpha:g}", f"{covered:.3f}", f"{efficient:.3f}")
    return table


def _print_demo(demo: Demo) -> None:
    n = len(demo.credal)
    output.print(
        f"Handwritten digits: decalibrated on {demo.model.examples} images, tested on {n}.\n",
        highlight=False,
    )
    output.print(_score_table(PAPER_ALPHAS, demo.coverage, demo.efficiency))
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
    folder = demo.folder
    output.print(f"Results are in {folder}. Try next:", style="bold", highlight=False)
    for command in (
        f"decal predict {folder}/model.npz {folder}/test.csv -o credal.csv --alpha 0.95",
        f"decal evaluate {folder}/model.npz {folder}/test.csv --truth {folder}/truth.csv",
    ):
        output.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)


def _print_digit(demo: Demo, row: int) -> None:
    """An image and, beside it, its widest intervals."""
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
    """A scale from 0 to 1 with an interval and the truth on it."""
    cells = ["·"] * BAR_WIDTH
    first, last, mark = (min(int(p * BAR_WIDTH), BAR_WIDTH - 1) for p in (lower, upper, truth))
    cells[first : last + 1] = ["━"] * (last + 1 - first)
    cells[mark] = "◆"
    bar = Text("".join(cells), style="dim")
    bar.stylize("cyan not dim", first, last + 1)
    bar.stylize("bold yellow not dim", mark, mark + 1)
    return bar


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
        _say(note, style="yellow")
    for path in report.files:
        _say(f"Wrote {path}", style="green")


def _verdict(text: str) -> Text:
    """A cell of a report; one that ends in a verdict is coloured."""
    style = {"pass": "green", "fail": "bold red"}.get(text.rpartition(" ")[2], "")
    return Text(text, style=style)
