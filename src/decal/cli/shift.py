"""decal shift: how frequent the classes are among unlabelled inputs, and what follows for each."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table

import decal
from decal._base.errors import InputError, Words, counted
from decal._base.numerics import Logits
from decal._base.settings import check_choice, check_share
from decal.cli import options, terminal
from decal.cli.options import option
from decal.cli.run import Predictions, all_rows, check_intervals, list_skipped
from decal.cli.terminal import output, progress_bar, say
from decal.io import model_files
from decal.io.folders import Folder, Layout, Part, Survey, UnreadableError, open_folder
from decal.io.formats import TABLES
from decal.io.progress import ProgressBar
from decal.io.writers import check_output, write_columns
from decal.rows import Rows
from decal.shift import REGIONS, Frequencies, Near, ShiftTest, is_calibrated, p_text

SHIFT_EXAMPLES = """Examples:
    decal shift best.npz unlabelled.parquet
    decal shift best.npz unlabelled.parquet -o adapted.csv
    decal shift best.npz new.csv --bootstrap 200 --labelled validation.csv
Observe now, predict later:
    decal shift best.npz january/ --save clinic.npz
    decal shift clinic.npz february/ --save clinic.npz --force
    decal shift clinic.npz patients.csv --no-observe -o adapted.csv
What if nothing is observed, but supposed?
    decal shift best.npz new.csv --what-if melanoma=0.01:0.1 -o rare.csv
    decal shift best.npz new.csv --ratio 2 -o up_to_twice.csv
    decal shift clinic.npz new.csv --kl 0.05 --around observed -o near.csv
Memory:
    K numbers are kept of each observed input, in FILE too: 80 bytes with ten classes. --sample \
1000000 bounds it; intervals are then those of a million inputs.
"""


@options.with_reading("groups", "truth_key", "weights_key", "dim", "ignore_index")
def shift(
    model: options.SavedArgument,
    logits: options.FilesArgument,
    out: Annotated[
        Path | None,
        options.output_option(
            "Also write the intervals of these inputs, - for standard output; a folder for a "
            "folder."
        ),
    ] = None,
    format_: options.FormatOption = None,
    observe: Annotated[
        bool,
        option(
            "Whether LOGITS count, or are only to be predicted.", None, "--observe/--no-observe"
        ),
    ] = True,
    sample: Annotated[
        int | None, option("Observe a random sample of so many rows: bounds memory.", "ROWS", min=1)
    ] = None,
    save: Annotated[
        Path | None, option("Keep what was observed as an .npz, a MODEL for later.", "FILE")
    ] = None,
    table: Annotated[
        Path | None, option("Also write frequencies and p-values: .csv, .parquet or .npz.", "FILE")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        option(
            "Suppose this frequency, or interval, instead of estimating. Several with commas, or "
            "repeated; classes not named keep their proportions.",
            "CLASS=LOW:HIGH",
        ),
    ] = None,
    ratio: Annotated[
        float | None,
        option("Suppose that no frequency changed by more than this factor.", "FACTOR"),
    ] = None,
    kl: Annotated[
        float | None, option("Suppose that their Kullback-Leibler divergence is at most this.", "D")
    ] = None,
    chi2: Annotated[
        float | None, option("Suppose that their chi-square divergence is at most this.", "D")
    ] = None,
    around: Annotated[
        str,
        option(
            "From where --ratio, --kl and --chi2 count: the frequencies where MODEL was fitted, or "
            "those that it has observed.",
            "before|observed",
        ),
    ] = "before",
    confidence: Annotated[
        float | None,
        option("Confidence of the ranges, 0 to 1.", "SHARE", show_default="MODEL's, or 0.95"),
    ] = None,
    region: Annotated[
        str | None,
        option(
            "All frequencies at once (exact, slow), or one at a time (smaller, fast).",
            "auto|joint|own",
            show_default="MODEL's, or auto",
        ),
    ] = None,
    corrected: Annotated[
        bool | None,
        option(
            "Whether regions and p-values allow for the labels being few.",
            None,
            "--corrected/--uncorrected",
            show_default="MODEL's, or corrected",
        ),
    ] = None,
    bootstrap: Annotated[
        int | None,
        option(
            "Allow for few labels by the bootstrap, better with a hundred or fewer; 200 draws will "
            "do.",
            "DRAWS",
            min=20,
        ),
    ] = None,
    labelled: options.LabelledOption = None,
    skip_bad: options.SkipBadOption = False,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Estimate class frequencies, and adapt predictions to them.

    Reads logits without labels. Supposes that inputs of each class look as they did when MODEL was
    fitted, and that only the frequencies of the classes changed. MODEL must be calibrated: fit it
    with --reference best --directions class,temperature.
    """
    supposed = _supposed(what_if or [], ratio=ratio, kl=kl, chi2=chi2, around=around)
    observes = observe and supposed is None
    _check_request(supposed is not None, observes, out, save, table, bootstrap, labelled)
    _check_outputs(logits, out, format_, save, table, reading.ids, force)
    adapted = load_shift(model, confidence, region, corrected)
    reads = {"classes": adapted.classes, **reading.meaning(adapted)}
    folder = open_folder(logits, wanted=(), **reading.places(), **reads)
    layout = Layout(len(adapted.calibrated.frequencies), adapted.classes)
    if observes:
        rows, faults = observe_folder(adapted, folder, layout, sample=sample, skip_bad=skip_bad)
        list_skipped(faults)
        if sample is not None and rows > sample:
            say(f"Observed a random sample of {sample:,} of {rows:,} inputs.", style="yellow")
    if bootstrap is not None:
        assert labelled is not None
        named = reading.places("labels", named=False)
        data = all_rows(open_folder(labelled, needed=("labels",), **reads | named))
        adapted = adapted.bootstrapped(bootstrap, labelled=data)
    if save is not None:
        adapted.save(save)
        say(f"Wrote {save}: {adapted!r}", style="green")
    if out is not None:
        predict = partial(adapted.predict_rows, frequencies=supposed)
        run = Predictions(predict, layout, folder)
        if logits.is_dir():
            origin = _origin(adapted, supposed)
            run.to_folder(out, origin, overwrite=force, skip_bad=skip_bad)
        else:
            run.to_file(out, format_)
    if supposed is None:
        _report(adapted, table)


def _check_outputs(
    logits: Path,
    out: Path | None,
    file_format: str | None,
    save: Path | None,
    table: Path | None,
    ids: str,
    force: bool,
) -> None:
    """Refuse what cannot be written, before anything is read."""
    if out is not None:
        check_intervals(logits, out, file_format, ids, force=force)
    elif file_format not in (None, "parquet"):
        raise InputError("format", "be parquet for a folder", f"{file_format}")
    for path, formats in ((save, (".npz",)), (table, (*TABLES, ".npz"))):
        if path is not None:
            check_output(path, force=force, formats=formats)


def load_shift(
    path: Path, confidence: float | None, region: str | None, corrected: bool | None
) -> decal.LabelShift:
    """What `--save` wrote, or a LabelShift of what `decal fit` wrote, with these settings."""
    if region is not None:
        check_choice(region, "region", REGIONS)
    if confidence is not None:
        check_share(confidence, "confidence", positive=True)
    if model_files.kind_of(path) == decal.LabelShift.kind:
        found = decal.LabelShift.load(path)
    else:
        model = decal.Decalibrator.load(path)
        if not is_calibrated(model):
            names = ",".join(direction.name for direction in model.directions)
            fact = f"{path} with --reference {model.reference} --directions {names}"
            remedy = f"Fit it again: {options.calibrating_fit(model)}"
            raise InputError("MODEL", "be calibrated, in shifts and scale", fact, remedy)
        found = decal.LabelShift.of(model, 0.95)
    asked = {"confidence": confidence, "region": region, "corrected": corrected}
    return found.with_settings(
        **{name: value for name, value in asked.items() if value is not None}
    )


def _check_request(
    supposed: bool,
    observes: bool,
    out: Path | None,
    save: Path | None,
    table: Path | None,
    bootstrap: int | None,
    labelled: Path | None,
) -> None:
    """ValueError if options do not go together."""
    if supposed and out is None:
        raise InputError(
            "--what-if, --ratio, --kl and --chi2 need --output: they say what to predict."
        )
    if supposed and (save or table or bootstrap):
        raise InputError(
            "--save, --table and --bootstrap are about what is observed: got --what-if, --ratio, "
            "--kl or --chi2, with which nothing is. Leave one of them out."
        )
    if save and not observes:
        raise InputError("--save", "keep something new", "--no-observe", "Leave one of them out.")
    if (bootstrap is None) != (labelled is None):
        rule = "be given together: the labelled data are drawn again, and MODEL does not hold them"
        raise InputError("--bootstrap and --labelled", rule)


def _report(adapted: decal.LabelShift, path: Path | None) -> None:
    """Print frequencies and p-values, and write them."""
    frequencies, test = adapted.frequencies, adapted.test()
    output.print(frequency_table(frequencies, test))
    changed = "changed" if test.p_value < 1 - adapted.confidence else "may not have changed"
    output.print(
        f"The frequencies {changed}: p-value {p_text(test.p_value)} for no change.", highlight=False
    )
    if path is not None:
        names = np.array(frequencies.classes)
        columns = {"class": names, **frequencies.columns(), **test.columns()}
        write_columns(path, columns)
        say(f"Wrote {path}: {len(names):,} classes", style="green")


def frequency_table(found: Frequencies, test: ShiftTest) -> Table:
    """Before and now, and the p-value of no change, for the classes that changed most."""
    order = found.most_changed
    shown = sorted(order[:20])
    known = [] if np.isnan(test.p_values).all() else ["p-value"]
    lines = []
    for k in shown:
        p_value = "" if np.isnan(test.p_values[k]) else p_text(test.p_values[k], 2)
        interval = f"{found.lower[k]:.3f} to {found.upper[k]:.3f}"
        line = [found.classes[k], f"{found.before[k]:.3f}", f"{found.estimate[k]:.3f}", interval]
        lines.append([*line, p_value] if known else line)
    left = len(order) - len(shown)
    inputs = counted(found.inputs, "input")
    return terminal.table(
        f"{inputs}, intervals at {found.confidence:g}",
        ["class", "before", "now", "interval", *known],
        lines,
        f"and {left:,} classes that changed less" if left > 0 else None,
    )


def _origin(adapted: decal.LabelShift, supposed: Any) -> dict[str, Any]:
    """What predictions depend on: the model and what it observed, or what is supposed."""
    file = io.BytesIO()
    adapted.save(file)
    if isinstance(supposed, Near):
        supposed = asdict(supposed)
    return {"shift": hashlib.sha256(file.getvalue()).hexdigest(), "supposed": supposed}


def _supposed(
    what_if: list[str], *, around: str, **sizes: float | None
) -> dict[str, tuple[float, float]] | Near | None:
    """The frequencies that the options suppose; None if they suppose nothing."""
    near = any(size is not None for size in sizes.values())
    if what_if and near:
        raise InputError("--what-if", "stand alone", "--ratio, --kl or --chi2 as well")
    if around != "before" and not near:
        raise InputError("--around", "go with --ratio, --kl or --chi2", "none of them")
    if near:
        return Near(around, **sizes)
    return dict(_interval(text) for texts in what_if for text in options.split(texts)) or None


def _interval(text: str) -> tuple[str, tuple[float, float]]:
    """A class and its interval."""
    name, _, interval = text.rpartition("=")
    try:
        bounds = [float(part) for part in interval.split(":")]
    except ValueError:
        bounds = []
    if not name or len(bounds) not in (1, 2):
        raise InputError("--what-if", "be CLASS=LOW:HIGH or CLASS=VALUE", f"{text}")
    return name, (bounds[0], bounds[-1])


# Observing


def observe_folder(
    adapted: decal.LabelShift,
    folder: Folder,
    layout: Layout,
    *,
    sample: int | None = None,
    skip_bad: bool = False,
) -> tuple[int, dict[str, Words]]:
    """Let a LabelShift observe all files of a folder, each of them whole or not at all.

    It keeps K numbers of each input: a likelihood has no smaller summary that serves all
    frequencies. What must not grow with the files is bounded by a `sample` of so many inputs, drawn
    evenly from all files in one pass. Returns how many rows the files have, and what is wrong with
    those left out, by name.
    """
    survey = folder.survey(folder.parts, layout)
    faults = dict(survey.faults)
    if faults and not skip_bad:
        raise _refusal(next(iter(faults.values())), folder)
    drawn = None if sample is None else Reservoir(sample)
    rows = 0
    with progress_bar("Observing", survey.total) as bar:
        for part in folder.parts:
            if part.name in faults:
                continue
            before = deepcopy(drawn) if skip_bad else drawn
            found, seen = adapted.unobserved(), 0
            try:
                for logits in _chunks_of(part, survey, bar):
                    seen += len(logits)
                    if drawn is None:
                        found.add(found.seen(Rows(logits)))
                    else:
                        drawn.add(logits)
            except UnreadableError as error:
                if not skip_bad:
                    raise _refusal(error.words, folder) from error
                faults[part.name], drawn = error.words, before
                continue
            adapted.merge(found)
            rows += seen
    if not rows and not faults:
        raise folder.without_rows()
    if not rows:
        raise folder.all_bad("read", faults)
    if drawn is not None:
        adapted.add(adapted.seen(Rows(drawn.rows)))
    return rows, faults


def _chunks_of(part: Part, survey: Survey, bar: ProgressBar) -> Iterator[Logits]:
    """The logits of one file; UnreadableError if it is bad."""
    with survey.open(part) as source:
        for chunk in part.chunks(source):
            yield chunk.logits
            bar.advance(len(chunk))
    part.require_unchanged()


def _refusal(fault: Words, folder: Folder) -> InputError:
    """An error about a bad file that says what can be done."""
    several = len(folder.parts) > 1
    return InputError((fault, " Repair or remove it, or add --skip-bad.") if several else fault)


class Reservoir:
    """A random sample of `size` rows that arrive in pieces, each with the same chance."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._kept: Logits | None = None
        self._rng = np.random.default_rng(0)  # the same files give the same sample

    @property
    def rows(self) -> Logits:
        """Those kept."""
        assert self._kept is not None
        return self._kept[: self.seen]

    def add(self, rows: Logits) -> None:
        """Take note of further rows."""
        if self._kept is None:
            self._kept = np.empty((self.size, rows.shape[1]), dtype=rows.dtype)
        first = min(len(rows), max(self.size - self.seen, 0))
        self._kept[self.seen : self.seen + first] = rows[:first]
        # Row number t takes the place of one of t + 1 rows, itself among them.
        places = self._rng.integers(0, self.seen + 1 + np.arange(first, len(rows)))
        taken = places < self.size
        self._kept[places[taken]] = rows[first:][taken]
        self.seen += len(rows)
