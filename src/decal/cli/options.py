"""Arguments and options that several commands share."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from decal.credal import SET_RULES
from decal.decalibrator import Decalibrator
from decal.io.folders import COMPANIONS
from decal.io.formats import READABLE
from decal.shift import LabelShift

STREAM = Path("-")
"""Standard input, or standard output."""


# typer's own check of a path that exists takes no dash in some of its versions.
def _exists(path: Path | None) -> Path | None:
    """The path of a file or a folder that exists, or the dash."""
    if path is not None and path != STREAM and not path.exists():
        raise typer.BadParameter(f"{path} does not exist.")
    return path


def is_file(path: Path | None) -> Path | None:
    """The path of a file that exists, or the dash."""
    if path is not None and path.is_dir():
        raise typer.BadParameter(f"{path} is a folder. Name a file.")
    return _exists(path)


def _is_model(path: Path) -> Path:
    """The path of a file that may be a model."""
    if path.suffix.lower() in READABLE and path.suffix.lower() != ".npz":
        raise typer.BadParameter(f"{path} is no model, which ends in .npz. MODEL comes first.")
    if path == STREAM:
        raise typer.BadParameter("a model is read from a file, not from standard input.")
    is_file(path)
    return path


def _file(text: str) -> Any:
    """An option that takes a file which exists, or standard input."""
    return typer.Option(callback=is_file, help=text)


def _key(text: str, *names: str) -> Any:
    """An option that takes a key of an .npz, or a column of a table."""
    return typer.Option(*names, metavar="KEY", help=text)


def rule_option(text: str) -> Any:
    """An option that takes a rule for decision sets."""
    return typer.Option(
        metavar="RULE",
        help=f"{text}: {', '.join(SET_RULES)}.",
        autocompletion=lambda: list(SET_RULES),
    )


LogitsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="LOGITS",
        callback=is_file,
        help="A row per input, a column per class: .npz, .npy, .csv or .parquet; - for standard "
        "input.",
    ),
]
FilesArgument = Annotated[
    Path,
    typer.Argument(
        metavar="LOGITS",
        callback=_exists,
        help="A row per input, a column per class: .npz, .npy, .csv, .parquet, .feather or .arrow; "
        "- for standard input; or a folder of such files.",
    ),
]
ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", callback=_is_model, help="Written by decal fit."),
]
SavedArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", callback=_is_model, help="Written by decal fit, or by decal shift --save."
    ),
]
LabelsOption = Annotated[
    Path | None, _file("File of the labels. Default: in LOGITS, under 'labels' or 'label'.")
]
TruthOption = Annotated[
    Path | None, _file("File of true distributions. Default: in LOGITS, under 'truth' or 'human'.")
]
WeightsOption = Annotated[Path | None, _file("File of sample weights, one per row.")]
LabelledOption = Annotated[
    Path | None, _file("The labelled file that MODEL was fitted on, for --bootstrap.")
]
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
    typer.Option(
        "--probabilities/--logits",
        help="LOGITS holds probabilities: take their logarithms, now and when MODEL predicts.",
    ),
]
AsFittedOption = Annotated[
    bool | None,
    typer.Option(
        "--probabilities/--logits",
        help="What LOGITS holds.",
        show_default="what MODEL was fitted on",
    ),
]
FloorOption = Annotated[
    float | None,
    typer.Option(
        help="Raise smaller probabilities to this. Default: the model's, or that zeros count as "
        "2e-308 and are refused if they belong to labels."
    ),
]
IdsOption = Annotated[
    str,
    typer.Option(
        "--id-column",
        metavar="A,B,…",
        help="Columns of a table, or arrays of an .npz, that name the inputs: no classes, and "
        "written beside what is said of each input.",
    ),
]
SkipBadOption = Annotated[
    bool,
    typer.Option("--skip-bad", help="Leave out, and list, the files of a folder that are bad."),
]
AlphaOption = Annotated[
    float | None, typer.Option(help="Level, 0 to 1. Default: the one given to fit.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="npz|npy|csv|parquet", help="If OUT's name does not say."),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output.")]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the user says of a file: where its arrays and columns are, and what its numbers mean."""

    logits_key: LogitsKeyOption = None
    labels_key: LabelsKeyOption = None
    truth_key: TruthKeyOption = None
    weights_key: WeightsKeyOption = None
    columns: ColumnsOption = ""
    ignore: IgnoreOption = ""
    ids: IdsOption = ""
    probabilities: AsFittedOption = None
    floor: FloorOption = None

    def places(self, *used: str, named: bool = True, columns: str | None = None) -> dict[str, Any]:
        """Options of `open_folder` about arrays and columns, perhaps with other `columns`.

        What the command takes from the file besides logits is `used`; other columns that the user
        names are left out, and need not be there. `named` tells whether the command says something
        of every input, beside which its names go.
        """
        keys = {what: getattr(self, f"{what}_key") for what in ("logits", *COMPANIONS)}
        kept = {what: key for what, key in keys.items() if what in ("logits", *used)}
        others = [key for what, key in keys.items() if what not in kept and key]
        names = split(self.ids)
        found = {
            "keys": kept,
            "columns": split(self.columns if columns is None else columns) or None,
            "ignore": [*split(self.ignore), *others, *([] if named else names)],
        }
        return found | ({"ids": names} if named and names else {})

    def meaning(self, model: Decalibrator | LabelShift) -> dict[str, Any]:
        """Options of `open_folder` about what numbers mean: as in the fit, unless they say it."""
        given = model.probabilities if self.probabilities is None else self.probabilities
        own = model.floor if given else None
        return {"probabilities": given, "floor": own if self.floor is None else self.floor}


def with_reading(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of commands: puts the options of `Reading` in the place of `reading`.

    Commands that have no use for some of them, or their own, go `without`.
    """
    shared = [field for field in fields(Reading) if field.name not in without]
    hints = get_type_hints(Reading, include_extras=True)

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_options(**arguments: Any) -> None:
            said = Reading(**{field.name: arguments.pop(field.name) for field in shared})
            command(**arguments, reading=said)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command, eval_str=True).parameters.values():
            if own.name != "reading":
                parameters.append(own.replace(kind=keyword))
                continue
            for field in shared:
                hint, default = hints[field.name], field.default
                parameters.append(
                    inspect.Parameter(field.name, keyword, default=default, annotation=hint)
                )
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {own.name: own.annotation for own in parameters}
        return with_options

    return decorated


def require_room_for_ids(ids: str, out: Path, file_format: str | None) -> None:
    """ValueError if the output cannot hold the names of inputs."""
    if ids and (file_format or out.suffix).lower().lstrip(".") == "npy":
        raise ValueError(
            "output must be .npz, .csv or .parquet with --id-column: got .npy, which has no room "
            "for names."
        )


def calibrating_fit(model: Decalibrator) -> str:
    """The command that fits a calibrated model in the place of this one."""
    reads = " --probabilities" if model.probabilities else ""
    reads += "" if model.floor is None else f" --floor {model.floor}"
    best = "--reference best --directions class,temperature"
    return f"decal fit LABELLED{reads} {best} -o best.npz"


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
