"""Arguments and options that several commands share, and how they are declared."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer
from numpy.typing import NDArray

import decal
from decal._base.errors import InputError
from decal.cli.terminal import STREAM, run_with_streams
from decal.credal import SET_RULES
from decal.decalibrator import Decalibrator
from decal.io.folders import COMPANIONS, Folder, open_folder
from decal.io.formats import READABLE
from decal.rows import Rows
from decal.shift import LabelShift


# typer's own check of a path that exists takes no dash in some of its versions.
def is_file(asked: typer.CallbackParam, path: Path | None) -> Path | None:
    """The path of a file that exists, or the dash."""
    if path is not None and path.is_dir():
        raise InputError(_called(asked), "be a file", f"the folder {path}")
    return _exists(asked, path)


def _exists(asked: typer.CallbackParam, path: Path | None) -> Path | None:
    """The path of a file or a folder that exists, or the dash."""
    if path is not None and path != STREAM and not path.exists():
        raise InputError(_called(asked), "exist", str(path))
    return path


def _is_model(asked: typer.CallbackParam, path: Path) -> Path:
    """The path of a file that may be a model."""
    if path == STREAM:
        raise InputError(_called(asked), "be a file", "standard input")
    if path.suffix.lower() in READABLE and path.suffix.lower() != ".npz":
        remedy = "The model comes before the logits."
        raise InputError(_called(asked), "be a model, which ends in .npz", str(path), remedy)
    is_file(asked, path)
    return path


def _called(asked: typer.CallbackParam) -> str:
    """What the user calls an option or an argument."""
    return next((name for name in asked.opts if name.startswith("--")), asked.metavar or "")


def option(text: str, value: str | None = None, *names: str, **settings: Any) -> Any:
    """An option with this help, and a word for its value; its names, if not the parameter's."""
    return typer.Option(*names, metavar=value, help=text, **settings)


def output_option(text: str, *names: str, value: str = "FILE") -> Any:
    """The option that names what a command writes."""
    return option(text, value, "--output", "-o", *names)


def file_option(text: str, value: str = "FILE") -> Any:
    """An option that takes a file which exists, or the dash."""
    return option(text, value, callback=is_file)


def choice_option(text: str, value: str, choices: Sequence[str], **settings: Any) -> Any:
    """An option that takes one of these words, which the shell completes."""
    return option(text, value, autocompletion=lambda: list(choices), **settings)


def rule_option(text: str, default: str) -> Any:
    """An option that takes a rule for decision sets; what is taken by default, in words."""
    told = f"{text}: {', '.join(SET_RULES)}."
    return choice_option(told, "RULE", SET_RULES, show_default=default)


def _argument(value: str, check: Callable[..., Any], text: str) -> Any:
    return typer.Argument(metavar=value, callback=check, help=text)


ROWS = "A row per input, a column per class: .npz, .npy, .csv"

ModelArgument = Annotated[Path, _argument("MODEL", _is_model, "Written by decal fit.")]
SavedArgument = Annotated[
    Path, _argument("MODEL", _is_model, "Written by decal fit, or by decal shift --save.")
]
LogitsArgument = Annotated[
    Path, _argument("LOGITS", is_file, f"{ROWS} or .parquet; - for standard input.")
]
FilesArgument = Annotated[
    Path,
    _argument(
        "LOGITS",
        _exists,
        f"{ROWS}, .parquet, .feather or .arrow; - for standard input; or a folder of such files.",
    ),
]
LabelsOption = Annotated[
    Path | None, file_option("File of the labels. Default: in LOGITS, under 'labels' or 'label'.")
]
AnnotatorsOption = Annotated[
    str,
    option(
        "Instead of labels: columns of a table, or arrays of an .npz, of several people's labels, "
        "empty or -1 where one gave none.",
        "A,B,…",
    ),
]
TruthOption = Annotated[
    Path | None,
    file_option("File of true distributions. Default: in LOGITS, under 'truth' or 'human'."),
]
LabelledOption = Annotated[
    Path | None, file_option("The labelled file that MODEL was fitted on, for --bootstrap.")
]
MissOption = Annotated[
    float | None, option("Largest share of new labels to miss, 0 to 1.", "SHARE")
]
WidthOption = Annotated[float | None, option("Mean width of the ranges, 0 to 1.", "WIDTH")]
HoldOption = Annotated[
    float | None, option("Least share of true distributions to hold, 0 to 1.", "SHARE")
]
PerOption = Annotated[str | None, option("With --miss: promise it for every class.", "class")]
UnitOption = Annotated[
    str | None, option("What rows come in, which --miss is about: image.", "NAME")
]
TolerateOption = Annotated[
    float | None, option("Share of misses in a --unit that --miss does not count.", "SHARE")
]
SkipBadOption = Annotated[
    bool, option("Skip bad files of a folder, and list them.", None, "--skip-bad")
]
AlphaOption = Annotated[float | None, option("Level, 0 to 1. Default: that of MODEL.", "LEVEL")]
FormatOption = Annotated[
    str | None,
    option("Format, if the file's name does not tell.", "npz|npy|csv|parquet", "--format"),
]
ForceOption = Annotated[bool, option("Overwrite the output.", None, "--force", "-f")]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the user says of a file: where its arrays and columns are, and what its numbers mean."""

    logits_key: Annotated[str | None, option("Array of an .npz that holds the logits.", "KEY")] = (
        None
    )
    labels_key: Annotated[
        str | None,
        option(
            "Array of an .npz, or column of a table, that holds the labels.",
            "KEY",
            "--label-column",
            "--labels-key",
        ),
    ] = None
    truth_key: Annotated[str | None, option("Array of an .npz that holds the truth.", "KEY")] = None
    weights_key: Annotated[
        str | None, option("Array of an .npz, or column of a table, that holds the weights.", "KEY")
    ] = None
    columns: Annotated[
        str,
        option(
            "Columns of a table that are the classes; '*' for all but the labels. Default: all but "
            "the labels, if none looks like an index or like row numbers.",
            "A,B,…",
        ),
    ] = ""
    ignore: Annotated[
        str, option("Columns of a table that are neither classes nor labels.", "A,B,…")
    ] = ""
    ids: Annotated[
        str,
        option(
            "Columns of a table, or arrays of an .npz, that name the inputs. They are no classes; "
            "results repeat them.",
            "A,B,…",
            "--id-column",
        ),
    ] = ""
    groups: Annotated[
        str | None,
        option("Column of a table, or array of an .npz, with the group of every input.", "COLUMN"),
    ] = None
    probabilities: Annotated[
        bool | None,
        option(
            "What LOGITS holds.",
            None,
            "--probabilities/--logits",
            show_default="what MODEL was fitted on",
        ),
    ] = None
    dim: Annotated[
        int | None,
        option("Axis of the classes, of arrays with more axes: 1 for N × K × H × W.", "AXIS"),
    ] = None
    ignore_index: Annotated[
        int | None, option("Leave out rows with this label, such as 255.", "LABEL")
    ] = None
    floor: Annotated[
        float | None,
        option(
            "Raise smaller probabilities to this. Default: MODEL's; else zeros count as 2e-308, "
            "and a label with probability zero is refused.",
            "P",
        ),
    ] = None

    def places(
        self,
        *used: str,
        named: bool = True,
        columns: str | None = None,
        annotators: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Options of `open_folder` about arrays and columns, perhaps with other `columns`.

        What the command takes from the file besides logits is `used`, and the labels of
        `annotators`; other columns that the user names are left out, and need not be there. `named`
        tells whether the command says something of every input, beside which its names go.
        """
        if annotators and self.ignore_index is not None:
            remedy = "Leave labels that do not count empty."
            raise InputError(
                "ignore-index", "be left out with --annotators", f"{self.ignore_index}", remedy
            )
        keys = {what: getattr(self, f"{what}_key") for what in ("logits", *COMPANIONS)}
        kept = {what: key for what, key in keys.items() if what in ("logits", *used)}
        others = [key for what, key in keys.items() if what not in kept and key]
        names = split(self.ids)
        given = [*(names if named else ()), *filter(None, [self.groups]), *annotators]
        beside = dict.fromkeys(given)
        found: dict[str, Any] = {
            "dim": self.dim,
            "ignore_index": self.ignore_index,
            "keys": kept,
            "columns": split(self.columns if columns is None else columns) or None,
            "ignore": [*split(self.ignore), *others, *([] if named else names)],
        }
        return found | ({"ids": list(beside)} if beside else {})

    def grouped(self, rows: Rows) -> tuple[Rows, NDArray[Any] | None]:
        """Rows as they would be without --groups, and the (n,) groups as text."""
        if self.groups is None:
            return rows, None
        beside = dict(rows.ids or {})
        groups = beside[self.groups].astype(str)
        if self.groups not in split(self.ids):
            del beside[self.groups]
        return replace(rows, ids=beside or None), groups

    def meaning(self, model: Decalibrator | LabelShift) -> dict[str, Any]:
        """Options of `open_folder` about what numbers mean: as in the fit, unless they say it."""
        given = model.probabilities if self.probabilities is None else self.probabilities
        own = model.floor if given else None
        return {"probabilities": given, "floor": own if self.floor is None else self.floor}

    def folder(
        self,
        path: Path,
        model: Decalibrator,
        *wanted: str,
        named: bool = True,
        annotators: Sequence[str] = (),
        **files: Path | None,
    ) -> Folder:
        """Logits for a model; labels or truth if `wanted`, from there or from other `files`."""
        places = self.places(*wanted, named=named, annotators=annotators)
        meaning = self.meaning(model)
        return open_folder(path, classes=model.classes, wanted=wanted, **files, **places, **meaning)


def with_reading(
    *without: str, written: str = ".csv"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of commands: puts the options of `Reading` in the place of `reading`.

    Commands that have no use for some of them, or their own, go `without`. Dashes stand for
    streams; what is `written` on standard output has this format.
    """
    shared = [field for field in fields(Reading) if field.name not in without]
    hints = get_type_hints(Reading, include_extras=True)

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_options(**arguments: Any) -> None:
            said = {field.name: arguments.pop(field.name) for field in shared}
            arguments["reading"] = Reading(**said)
            if STREAM in arguments.values():
                run_with_streams(command, arguments, written)
            else:
                command(**arguments)

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


def annotators_of(names: str, labels: Path | None, logits: Path) -> list[str]:
    """The columns of annotators; InputError if they do not go with what else is asked."""
    people = split(names)
    if people and labels is not None:
        raise InputError("annotators", "be left out with --labels", "both")
    if people and logits.is_dir():
        raise InputError("annotators", "go with one file", f"the folder {logits}")
    if len(set(people)) < len(people):
        twice = next(name for name in people if people.count(name) > 1)
        raise InputError("annotators", "be named once each", f"{twice!r} more than once")
    return people


def voted(rows: Rows, annotators: Sequence[str]) -> Rows:
    """Rows with the labels of several people, which were read beside them."""
    if not annotators:
        return rows
    beside = rows.ids or {}
    said = np.column_stack([beside[name].astype(object) for name in annotators])
    votes = decal.Votes.of_annotations(said, classes=rows.classes or rows.shape[1])
    return replace(rows, votes=votes, ids=None)


def one_wish(remedy: str = "", **wishes: float | None) -> str:
    """The name of the one wish that is given; InputError if there are none or several."""
    given = [f"--{name}" for name, target in wishes.items() if target is not None]
    if len(given) != 1:
        rule = f"be one of {', '.join(f'--{name}' for name in wishes)}"
        raise InputError("the wish", rule, " and ".join(given) or "none", "" if given else remedy)
    return given[0][2:]


def calibrating_fit(model: Decalibrator) -> str:
    """The command that fits a calibrated model in the place of this one."""
    reads = " --probabilities" if model.probabilities else ""
    reads += "" if model.floor is None else f" --floor {model.floor}"
    best = "--alpha 0.8 --reference best --directions class,temperature"
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
        raise InputError("alpha", "be numbers from 0 to 1, with commas between", f"{text!r}")
    return found
