"""decal fit and predict: from files of logits to models and credal sets."""

from __future__ import annotations

import csv
import hashlib
import json
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import decal
from decal._base.errors import InputError, Words, listing
from decal.cli import options
from decal.cli.options import option
from decal.cli.run import Asked, Predictions, all_rows, check_intervals, list_skipped, watched
from decal.cli.terminal import in_options, output, say, table
from decal.io.checkpoints import EVERY, FitCheckpoint, learn
from decal.io.folders import Folder, Layout, open_folder
from decal.io.row_files import labels_are_names, unlabelled_refusal
from decal.io.writers import BOUNDS, Written, check_output
from decal.new_inputs import NewInputs

CLASSES_SHOWN = 20

FIRST_WISH = (
    "Say how often the true label may be missed, for example --miss 0.1; or the level of the "
    "published method, --alpha 0.8."
)
LARGE_REMEDY = "Fit it with --alpha 0.8, and let decal choose grant the wish on held-out rows."

FIT_EXAMPLES = """Examples:
    decal fit validation.csv --miss 0.1 -o model.npz
    decal fit validation.csv --miss 0.1 --per class -o model.npz
    decal fit scores.csv --label-column kind --probabilities --miss 0.1 -o m.npz
    decal fit all.npz --logits-key z --labels-key y --hold 0.8 -o model.npz
    decal fit parquet_files/ --labels-key label --alpha 0.9 -o model.npz
    decal fit z.npy --labels y.npy --dim 1 --miss 0.1 --unit image -o m.npz
    decal fit species.csv --tree families.json --miss 0.1 -o model.npz
    decal fit reads.csv --annotators ann,bob,cy --hold 0.8 -o model.npz
One wish, or a level:
    --miss: the true label of a new input is outside its possible classes at most so often, \
guaranteed; with --per class for every class, with --groups in every group; with --unit image of \
the labels of a new image, on average over images (the first axis of LOGITS, or --groups).
    --hold: the set of a new input holds the whole true distribution at least so often, \
guaranteed.
    --width: intervals of this mean width.
    --alpha: the published method at this level, which promises nothing. It takes files of any \
size, and folders, in constant memory; a wish splits the rows, and reads them all. For more than \
memory holds, fit with --alpha, and let decal choose grant the wish on held-out rows.
Interrupted?
    With --alpha, run the same command again: it continues from \
MODEL.checkpoint.
"""

PREDICT_EXAMPLES = """Examples:
    decal predict model.npz test.csv -o credal.parquet
    decal predict model.npz test.npy -o credal.npz --alpha 0.95
    decal predict model.npz test.csv -o credal.csv --id-column patient
    decal predict model.npz parquet_files/ -o credal_files/
    decal predict model.npz pixels.npy --dim 1 --kept -o possible.npy
Output:
    .csv, .parquet: a line per input and class with row, the columns of --id-column, class, lower, \
upper, point; in a .csv, names of classes that a spreadsheet would take for formulas get an \
apostrophe in front
    .npz: arrays lower, upper, point (n × K) and classes; .npy: one array (n × K × 2). With --dim \
they have the shape of LOGITS
    with --top 5, of these classes alone, in an .npz n × 5, and their numbers under top. With \
--kept true or false in arrays (kept, n × K), and in tables a line per input and possible class
    for a folder, a folder: a .parquet per file, with lists lower, upper, point in every row, and \
_SUCCESS.json when all are there. Run the same command again to continue.
"""


@options.with_reading("truth_key", "probabilities")
def fit(
    logits: options.FilesArgument,
    model: Annotated[Path, options.output_option("The model file to write, .npz.")],
    labels: options.LabelsOption = None,
    annotators: options.AnnotatorsOption = "",
    miss: options.MissOption = None,
    width: options.WidthOption = None,
    hold: options.HoldOption = None,
    alpha: Annotated[
        float | None, option("A level instead of a wish, 0 to 1; smaller is wider.", "LEVEL")
    ] = None,
    per: options.PerOption = None,
    unit: options.UnitOption = None,
    tolerate: options.TolerateOption = None,
    seed: Annotated[int, option("Seed that splits the rows, with a wish.", "N", min=0)] = 0,
    likelihood: Annotated[
        str, option("Likelihood ratio per example, or of all data.", "mean|sum")
    ] = "mean",
    reference: Annotated[
        str | None,
        option(
            "Where gains are measured from: the model as it is (model), recalibrated (best), "
            "halfway between them (halfway), or what labels suggest (auto; consensus for gold "
            "labels). All but model load all data.",
            "NAME",
            show_default="model; a wish chooses",
        ),
    ] = None,
    box: Annotated[
        str, option("Ranges over the shifts of all classes, or of each its own.", "joint|own")
    ] = "joint",
    directions: Annotated[
        str | None,
        option(
            "What may move: class, temperature, local, or several.",
            "A,B",
            show_default="class; a wish chooses",
        ),
    ] = None,
    mix: Annotated[
        float,
        option(
            "Share of equal probabilities mixed into local sets. Guarantees may need 0.001.",
            "SHARE",
        ),
    ] = 0.0,
    order: Annotated[
        bool, option("Columns are in an order: the possible ones are an interval.", None, "--order")
    ] = False,
    tree: Annotated[
        Path | None,
        options.file_option(
            "Tree of the classes: nested names in a .json, or a .csv with a heading and a line "
            "per class, from the coarsest level to the class."
        ),
    ] = None,
    weights: Annotated[
        Path | None, options.file_option("File of sample weights, one per row.")
    ] = None,
    probabilities: Annotated[
        bool,
        option(
            "LOGITS holds probabilities: take their logarithms, now and when MODEL predicts.",
            None,
            "--probabilities/--logits",
        ),
    ] = False,
    skip_bad: options.SkipBadOption = False,
    checkpoint_every: Annotated[
        float, option("Save progress this often.", "SECONDS", min=0)
    ] = EVERY,
    restart: Annotated[
        bool, option("Start again after an interrupted fit.", None, "--restart")
    ] = False,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Learn from labelled logits which classes are possible.

    Name one wish, such as --miss 0.1. Take inputs that did not train the classifier. Labels are
    class names or column numbers from 0.
    """
    wishes: dict[str, Any] = {"alpha": alpha, "miss": miss, "width": width, "hold": hold}
    wish = options.one_wish(LARGE_REMEDY if logits.is_dir() else FIRST_WISH, **wishes)
    check_output(model, force=force, formats=(".npz",))
    moves = _directions(directions or "class", mix) if directions or mix else None
    given = {"reference": reference, "directions": moves}
    settings: dict[str, Any] = {
        "likelihood": likelihood,
        "box": box,
        "probabilities": probabilities,
        "floor": reading.floor,
        "order": order,
        "tree": None if tree is None else _read_tree(tree),
        **{name: value for name, value in given.items() if value is not None},
    }
    fitted = decal.Decalibrator(0.5 if alpha is None else alpha, **settings)
    within = {"per": per, "groups": reading.groups, "unit": unit, "tolerate": tolerate}
    _require_granted(wish, logits, fitted.reference, within)
    people = options.annotators_of(annotators, labels, logits)
    of_rows = () if people else ("labels",)
    asked_of: dict[str, Any] = {"wanted": ()} if people else {"needed": of_rows}
    in_memory = wish != "alpha" or fitted.reference != "model" or bool(people)
    folder = open_folder(
        logits,
        labels=labels,
        weights=weights,
        probabilities=probabilities,
        floor=reading.floor,
        **asked_of,
        **reading.places(*of_rows, "weights", named=False, annotators=people),
    )
    checkpoint = FitCheckpoint.next_to(model)
    with checkpoint.exclusive():
        if restart:
            checkpoint.remove()
        faults: dict[str, Words] = {}
        if in_memory:
            try:
                data, groups = reading.grouped(all_rows(folder))
                data = options.voted(data, people)
            except MemoryError as error:
                fact = f"{logits}, which is too large"
                raise InputError("LOGITS", "fit into memory", fact, LARGE_REMEDY) from error
            said = data.by_label()
            counts = np.bincount(said.labels, said.weights, minlength=data.shape[1])
            warning = _about_labels(counts, data.classes, folder, faults)
            if wish == "alpha":
                fitted.fit_rows(data)
            else:
                asked = {"per": per, "groups": groups, "seed": seed, **settings}
                asked |= {"unit": unit, "tolerate": tolerate}
                fitted = decal.decalibrate(data, data.labels, **wishes, **asked)
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
    _print_learnt(fitted)
    settings_told, learnt_from = fitted.described()
    say(f"Wrote {model}: Decalibrator({settings_told}), {learnt_from}", style="green")
    if warning:
        say(warning, style="bold red")
    if faults:
        list_skipped(faults)
        say(
            f"{checkpoint.path} keeps the evidence of the others: repair these files and run the "
            "same command with --force to add them.",
            style="yellow",
        )


@options.with_reading("truth_key", "weights_key", "ignore_index")
def predict(
    model: options.ModelArgument,
    logits: options.FilesArgument,
    out: Annotated[
        Path,
        options.output_option(
            "The file of intervals to write, - for standard output; a folder for a folder."
        ),
    ],
    alpha: options.AlphaOption = None,
    format_: options.FormatOption = None,
    dtype: Annotated[
        str, option("Numbers of half the size, rounded outwards: float32.", "float64|float32")
    ] = "float64",
    top: Annotated[
        int | None, option("Only the most probable classes, so many.", "N", min=1)
    ] = None,
    kept: Annotated[
        bool, option("No intervals, but which classes are possible.", None, "--kept")
    ] = False,
    skip_bad: options.SkipBadOption = False,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Turn logits into a range of probabilities for every class."""
    written = Written(dtype, top, kept)
    check_intervals(logits, out, format_, reading.ids, force=force, written=written)
    fitted = decal.Decalibrator.load(model)
    asked = Asked(fitted, alpha, reading)
    folder = reading.folder(logits, fitted)
    layout = Layout(len(fitted.class_weights), fitted.classes)
    run = Predictions(asked.predict(possible=kept), layout, folder, str(asked), written)
    if logits.is_dir():
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        origin = {"model": digest, "alpha": asked.level, "groups": reading.groups}
        origin |= {"written": asdict(written)} if written != BOUNDS else {}
        run.to_folder(out, origin, overwrite=force, skip_bad=skip_bad)
    else:
        run.to_file(out, format_, NewInputs(fitted, asked.level))


def _directions(names: str, mix: float) -> list[str | decal.Direction]:
    """The directions named, with this share of equal probabilities mixed into local sets."""
    found: list[str | decal.Direction] = list(options.split(names))
    if not mix:
        return found
    if "local" not in found:
        raise InputError("mix", "go with --directions local", f"{mix:g} for {names}")
    return [decal.Local(mix=mix) if name == "local" else name for name in found]


def _read_tree(path: Path) -> decal.ClassTree:
    """The tree of the classes in a .json or a .csv."""
    kind = path.suffix.lower()
    if kind not in (".json", ".csv"):
        raise InputError("tree", "end in .json or .csv", f"{path}")
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text) if kind == ".json" else [*csv.reader(text.splitlines())][1:]
    except (ValueError, csv.Error) as error:
        raise InputError("tree", f"be a {kind} file", f"{path} ({error})") from error
    if kind == ".csv" and len({len(line) for line in found}) > 1:
        least, most = min(map(len, found)), max(map(len, found))
        fact = f"lines of {least} to {most} in {path}"
        raise InputError("tree", "have a name or nothing in every column", fact)
    return decal.ClassTree.of(found if kind == ".json" else np.array(found, dtype=object))


def _about_labels(
    weights: Any, classes: tuple[str, ...] | None, folder: Folder, faults: dict[str, Words]
) -> str:
    """A warning of classes without labels; ValueError if these columns may be no classes."""
    names = classes or tuple(str(k) for k in range(len(weights)))
    labelled = [name for name, weight in zip(names, weights, strict=True) if weight > 0]
    never = [name for name, weight in zip(names, weights, strict=True) if weight == 0]
    if len(labelled) == 1:
        rule, fact = "be of two classes or more", f"only {labelled[0]} in {folder.path}"
        remedy = (
            "One class alone does not tell how far logits may move: fit on data of all classes."
        )
        raise InputError("labels", rule, fact, remedy)
    if not never or not labelled:  # without any, weights are the fault
        return ""
    for part in folder.parts:
        if part.name in faults:
            continue
        with folder.open(part) as source:
            if source.labels is None:  # annotators have them
                break
            if source.guessed and labels_are_names(source.labels, source.classes):
                raise unlabelled_refusal(folder.path, never, labelled)
            if next(source.labels.read(), None) is not None:  # else an empty file
                break
    return (
        f"Warning: {len(never):,} of {len(names):,} classes {'are' if len(never) > 1 else 'is'} "
        f"never labelled in {folder.path}: {listing(never)}. Nothing bounds how far their logits "
        "may fall. If columns are no classes, leave them out with --ignore."
    )


def _require_granted(wish: str, logits: Path, reference: str, within: Mapping[str, Any]) -> None:
    """InputError about what does not go with alpha, or needs all rows of a folder at once."""
    for name, value in within.items():
        if wish == "alpha" and value is not None:
            wishes = "--miss or --hold" if name == "groups" else "--miss"
            raise InputError(name, f"go with {wishes}", f"{value} with --alpha")
    if wish != "alpha" and logits.is_dir():
        fact = f"the folder {logits}, whose rows --{wish} would need in memory at once"
        raise InputError("LOGITS", "be one file for a wish", fact, LARGE_REMEDY)
    if reference != "model" and logits.is_dir():
        fact = f"{reference!r}, whose recentering needs all the data in memory at once"
        remedy = "Leave --reference out, or fit one file."
        raise InputError("reference", "be 'model' for a folder", fact, remedy)


def _print_learnt(model: decal.Decalibrator) -> None:
    """A promise; or the labels of each class and, if their logits may move, by how much."""
    for line in model.promise.lines() if model.promise else ():
        said = textwrap.fill(in_options(line), output.width)
        output.print(said, highlight=False, markup=False)
    if model.promise:
        return
    shifts = model.shifts() if any(d.name == "class" for d in model.directions) else None
    names = model.classes or tuple(str(k) for k in range(len(model.class_weights)))
    columns = {"labels": [f"{weight:,.6g}" for weight in model.class_weights]}
    if shifts:
        columns["lower"] = [f"{shift:.3f}" for shift in shifts.lower]
        columns["upper"] = [f"{shift:+.3f}" for shift in shifts.upper]
    lines = list(zip(names, *columns.values(), strict=True))
    more = len(lines) - CLASSES_SHOWN
    title = f"Plausible shifts, alpha {model.alpha:g}" if shifts else "Learnt from"
    caption = f"and {more:,} more classes" if more > 0 else None
    output.print(table(title, ("class", *columns), lines[:CLASSES_SHOWN], caption))
