"""decal choose-alpha: the level that serves a purpose, as a number, a table or a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import decal
from decal._base.checks import check_choice
from decal.cli import options
from decal.cli.terminal import output, progress_bar, say
from decal.credal import SET_RULES
from decal.io.folders import Layout, open_folder
from decal.io.formats import TABLES
from decal.io.row_files import Chunk
from decal.io.writers import check_output, write_columns
from decal.selection import Choice

CHOOSE_ALPHA_EXAMPLES = """[bold]Examples[/]

    decal choose-alpha model.npz heldout.csv --miss-rate 0.05

    decal choose-alpha model.npz heldout.npz --coverage 0.9 --guaranteed -o chosen.npz

    decal choose-alpha model.npz logits.npy --efficiency 0.8 -o choice.csv

    decal predict model.npz new.csv -o sets.csv --alpha $(decal choose-alpha model.npz heldout.csv \
--miss-rate 0.05)

    [bold]Which purpose needs what[/]

    --efficiency: logits alone. The intervals have this efficiency (one minus their mean width).

    --coverage: true distributions. So many of them lie in their sets; with --guaranteed, those of \
new inputs do, with this probability.

    --miss-rate: labels that neither trained nor fitted the model. The decision sets of new \
inputs miss the label at most so often, guaranteed.

    --distribution-miss-rate: such labels, and a model of local sets (decal fit --directions local \
--mix 0.001). The sets of new inputs miss the whole true distribution at most so often, \
guaranteed.

    [bold]Output[/]

    The number alone on standard output, what it achieves on standard error. With -o also a file: \
.npz is the same model with this alpha as its default, .csv and .parquet hold the choice.
    """


def choose_alpha(
    model: options.ModelArgument,
    logits: options.LogitsArgument,
    efficiency: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Wanted efficiency, 0 to 1.")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Wanted coverage of true distributions, 0 to 1."),
    ] = None,
    miss_rate: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Accepted share of labels missed, 0 to 1."),
    ] = None,
    distribution_miss_rate: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Accepted share of true distributions missed."),
    ] = None,
    guaranteed: Annotated[
        bool, typer.Option("--guaranteed", help="With --coverage: of new inputs, not of these.")
    ] = False,
    rule: Annotated[
        str, options.rule_option("With --miss-rate, the classes that a set keeps")
    ] = "e_admissible",
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="With --distribution-miss-rate: over the draw of these labels, not on average.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="With --distribution-miss-rate: orders the labels.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Also write the model with this alpha, .npz; or the choice, .csv or .parquet.",
        ),
    ] = None,
    labels: options.LabelsOption = None,
    truth: options.TruthOption = None,
    logits_key: options.LogitsKeyOption = None,
    labels_key: options.LabelsKeyOption = None,
    truth_key: options.TruthKeyOption = None,
    columns: options.ColumnsOption = "",
    ignore: options.IgnoreOption = "",
    ids: options.IdsOption = "",
    probabilities: options.AsFittedOption = None,
    floor: options.FloorOption = None,
    force: options.ForceOption = False,
) -> None:
    """Find the alpha that serves a purpose: a width, a coverage, or how often to be wrong.

    Name one purpose. Take inputs that the model was not fitted on.
    """
    wanted = {
        "efficiency": efficiency,
        "coverage": coverage,
        "miss-rate": miss_rate,
        "distribution-miss-rate": distribution_miss_rate,
    }
    given = [name for name, target in wanted.items() if target is not None]
    if len(given) != 1:
        purposes = ", ".join(f"--{name}" for name in wanted)
        got = " and ".join(f"--{name}" for name in given) or "none"
        raise ValueError(f"purpose must be one of {purposes}: got {got}.")
    (purpose,) = given
    _require_purpose("guaranteed", guaranteed, purpose, "coverage")
    _require_purpose("confidence", confidence is not None, purpose, "distribution-miss-rate")
    check_choice(rule, "rule", SET_RULES)
    if out is not None:
        check_output(out, force=force, formats=(".npz", *TABLES))
    fitted = decal.Decalibrator.load(model)
    takes_logits = fitted._taking_logits()
    needed = {"efficiency": (), "coverage": ("truth",)}.get(purpose, ("labels",))
    keys = {"logits": logits_key, "labels": labels_key, "truth": truth_key}
    folder = open_folder(
        logits,
        labels=labels if "labels" in needed else None,
        truth=truth if "truth" in needed else None,
        classes=fitted.classes,
        wanted=(),
        needed=needed,
        **options.reading(columns, ignore, ids, keys, used=needed, named=False),
        **options.meaning(fitted, probabilities, floor),
    )
    layout = Layout(len(fitted.class_weights), fitted.classes)
    part = folder.parts[0]
    with part.reading(*folder.companions), folder.open(part, layout) as source:
        data = source.all()
    with progress_bar("Choosing"):
        if efficiency is not None:
            choice = decal.selection.alpha_for_efficiency(takes_logits, data.logits, efficiency)
        elif coverage is not None:
            choice = decal.selection.alpha_for_coverage(
                takes_logits, data.logits, data.truth, coverage, guaranteed=guaranteed
            )
        elif miss_rate is not None:
            choice = decal.selection.alpha_for_labels(
                takes_logits, data.logits, data.labels, miss_rate, rule=rule
            )
        else:
            choice = _for_distributions(
                takes_logits, data, distribution_miss_rate, confidence, seed
            )
    said = str(choice).replace(
        "alpha_for_classes guarantees every class", "the guarantee is for all classes together"
    )
    say(said, style="yellow" if choice.note else "green")
    output.print(repr(choice.alpha), highlight=False)
    if out is not None:
        _write(out, fitted, choice)
        say(f"Wrote {out}", style="green")


def _require_purpose(option: str, given: bool, purpose: str, wanted: str) -> None:
    if given and purpose != wanted:
        raise ValueError(f"{option} must go with --{wanted}: got --{purpose}.")


def _for_distributions(
    model: decal.Decalibrator, data: Chunk, delta: float | None, confidence: float | None, seed: int
) -> Choice:
    local = [direction for direction in model.directions if isinstance(direction, decal.Local)]
    if not local or not local[0].mix:
        raise ValueError(
            "model must have local sets with a positive mix for --distribution-miss-rate: got "
            f"{', '.join(d.name for d in model.directions)}. Fit it anew with "
            "--directions local --mix 0.001."
        )
    return decal.selection.alpha_for_distribution(
        model, data.logits, data.labels, delta, confidence=confidence, seed=seed
    )


def _write(out: Path, model: decal.Decalibrator, choice: Choice) -> None:
    if out.suffix.lower() == ".npz":
        model._with(alpha=choice.alpha).save(out)
        return
    columns = {name: [value] for name, value in vars(choice).items()}
    write_columns(out, columns)
