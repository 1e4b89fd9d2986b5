"""decal explore: a model's predictions as an interactive page, served or exported."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import decal
from decal import explorer
from decal._base.errors import InputError, listing
from decal.cli import options
from decal.cli.options import file_option, option
from decal.cli.terminal import progress_bar, say
from decal.io import model_files
from decal.io.formats import TABLES, load_array, open_file, open_table
from decal.io.row_files import LogitSource, open_source
from decal.io.writers import check_output

EXPLORE_EXAMPLES = """Examples:
    decal explore model.npz test.npz
    decal explore model.npz test.npz --images pictures/ -o page.html
    decal explore model.npz test.csv --id-column patient
    decal explore model.npz pixels.npy --dim 1 --labels y.npy --images x.npy
    decal explore model.npz tokens.npy --dim 2 --texts sentences.txt
    decal explore nli.npz logits.npz --texts nli.jsonl --texts-key a,b
    decal explore nli.npz logits.npz --texts nli.jsonl --texts-key example.a
    decal explore clinic.npz new.npz -o page.html  # after decal shift --save
    decal explore en.npz en.csv --compare zh.npz --compare-logits zh.csv
"""

USUAL_KEYS = {
    "texts": ("texts", "text"),
    "names": ("names", "name"),
    "images": ("images", "image"),
    "groups": ("groups", "group"),
}
"""The keys and columns that are tried when the user names none."""

LISTS = (".txt", ".jsonl", ".csv", ".parquet", ".npz", ".npy")


@options.with_reading("groups", "weights_key", written=".html")
def explore(
    model: options.SavedArgument,
    logits: options.LogitsArgument,
    labels: options.LabelsOption = None,
    truth: options.TruthOption = None,
    texts: Annotated[
        Path | None,
        file_option("Texts of the inputs: .txt, one per line, .jsonl, .csv, .parquet or .npz."),
    ] = None,
    texts_key: Annotated[
        str | None,
        option("Column, key or field of the texts; A,B joins two, A.B is B within A.", "KEY"),
    ] = None,
    images: Annotated[
        Path | None,
        option(
            "Pictures of the inputs: a folder of files named by row, such as 17.png; a .txt with "
            "a path per line; or an array in .npy or .npz.",
            exists=True,
        ),
    ] = None,
    images_key: Annotated[
        str | None, option("Array of an .npz that holds the pictures.", "KEY")
    ] = None,
    names: Annotated[Path | None, file_option("Names of the inputs, in such a file too.")] = None,
    names_key: Annotated[str | None, option("Column, key or field of the names.", "KEY")] = None,
    groups: Annotated[
        Path | None,
        file_option("Metadata of the inputs, such as site or scanner, in such a file too."),
    ] = None,
    groups_key: Annotated[
        str | None, option("Columns, keys or fields of the metadata.", "A,B,…")
    ] = None,
    compare: Annotated[Path | None, file_option("A second model, side by side.", "MODEL2")] = None,
    compare_logits: Annotated[
        Path | None, file_option("The second model's logits of the same inputs. Default: LOGITS.")
    ] = None,
    name: Annotated[
        str | None, option("What the page calls the model. Default: its file's name.", "NAME")
    ] = None,
    compare_name: Annotated[str | None, option("What it calls the second model.", "NAME")] = None,
    alphas: Annotated[
        str | None, option("Levels of the slider. Default: some 20.", "A,B,…")
    ] = None,
    start: Annotated[
        float | None,
        option("The level shown first. Default: the model's own.", "ALPHA", min=0, max=1),
    ] = None,
    rows: Annotated[
        int | None,
        option(
            "Show so many inputs, drawn at random. Default: all, up to about 32 MB.", "N", min=1
        ),
    ] = None,
    title: Annotated[str | None, option("Title of the page. Default: LOGITS.", "TITLE")] = None,
    out: Annotated[
        Path | None,
        options.output_option(
            "Write the page to a file instead of serving it; - for standard output.",
            "--export",
            value="PAGE.html",
        ),
    ] = None,
    port: Annotated[
        int, option("Port of 127.0.0.1. Default: a free one.", "PORT", min=0, max=65535)
    ] = 0,
    no_browser: Annotated[
        bool, option("Print the address, open nothing.", None, "--no-browser")
    ] = False,
    seed: Annotated[int, option("Seed that draws the inputs to show.", "N", min=0)] = 0,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Look at a model's predictions in a browser.

    Serves a page to this machine only, until Ctrl-C, or exports it as one file to keep or to send.
    Nothing is uploaded. Labels and truth are taken from LOGITS if they are there. With a MODEL that
    decal shift --save wrote, sets are adapted, and the page shows class frequencies.
    """
    if out is not None:
        check_output(out, force=force, formats=(".html",))
    if compare is None and (compare_logits or compare_name):
        raise InputError("compare", "be given with compare-logits or compare-name", "none")
    slider = None if alphas is None else options.levels(alphas)
    if reading.ignore_index is not None and reading.dim is None:
        raise InputError("ignore-index", "go with --dim", "no --dim")
    fitted = _load(model, one_level=not alphas and start is None and compare is None)
    other = None if compare is None else decal.Decalibrator.load(compare)

    def open_logits(
        path: Path, model: decal.Decalibrator | decal.LabelShift, **companions: Any
    ) -> LogitSource:
        # A model that knows its classes finds them by name, also in logits of another model.
        chosen = "" if path != logits and model.classes else reading.columns
        return open_source(
            path,
            classes=model.classes,
            wanted=tuple(companions),
            **reading.places(*companions, named=bool(companions), columns=chosen),
            **reading.meaning(model),
            **companions,
        )

    shown: dict[str, Any] = {
        "texts": texts and read_list(texts, texts_key, "texts"),
        "images": images and read_images(images, images_key),
        "names": names and read_list(names, names_key, "names"),
        "groups": groups and read_groups(groups, groups_key),
        "rows": rows,
        "name": name or model.stem,
        "title": title or logits.stem,
        "seed": seed,
    }
    if reading.dim is not None:
        _refuse_beside_maps(truth=truth, compare=compare, alphas=alphas, groups=groups)
        with open_logits(logits, fitted, labels=labels) as source:
            page = _page_of_maps(fitted, source, reading, shown | {"start": start})
    else:
        with open_logits(logits, fitted, labels=labels, truth=truth) as source:
            data = source.all()
        second = None
        if compare is not None and other is not None:
            with open_logits(compare_logits or logits, other) as source:
                others = source.all().logits
            second = _with(other, **OF_LOGITS), others, compare_name or compare.stem
        shown |= {"labels": data.labels, "truth": data.truth, "ids": data.ids}
        at_levels = {"alphas": slider, "start": start, "compare": second}
        page = _page(_with(fitted, **OF_LOGITS), data.logits, shown, at_levels)
    if out is None:
        page.serve(port, not no_browser)
        return
    page.save(out)
    size = out.stat().st_size / 1e6
    say(f"Wrote {out}, {size:.1f} MB: {str(page).splitlines()[0]}", style="green")


def _refuse_beside_maps(**given: Any) -> None:
    """InputError about what pages of pixels and tokens do not show."""
    for name, value in given.items():
        if value is not None:
            raise InputError(name, "be left out with --dim", f"{value}")


def _page_of_maps(
    model: Any, source: LogitSource, reading: options.Reading, shown: dict[str, Any]
) -> explorer.Exploration:
    """A page about pixels or, with texts, about tokens."""
    assert source.grid is not None
    (shape,), axis = source.grid.shapes, source.grid.axis
    z = np.concatenate([*source.logits.read()]).reshape(*shape, -1)
    if source.labels is not None:
        shown["labels"] = np.concatenate([*source.labels.read()]).reshape(shape)
    texts = shown.pop("texts")
    if texts is not None:
        shown["tokens"] = [t.split() if isinstance(t, str) else list(t) for t in texts]
    found, z = _with(model, **reading.meaning(model)), np.moveaxis(z, -1, axis)
    return explorer.explore(found, z, dim=axis, ignore_index=reading.ignore_index, **shown)


def _load(path: Path, *, one_level: bool) -> decal.Decalibrator | decal.LabelShift:
    """What `decal fit` or `decal shift --save` wrote."""
    if model_files.kind_of(path) != decal.LabelShift.kind:
        return decal.Decalibrator.load(path)
    if not one_level:
        rule = "not be given with a model of decal shift, whose sets have one level: leave them out"
        raise InputError("alphas, start and compare", rule)
    return decal.LabelShift.load(path)


def _with(model: Any, **settings: Any) -> Any:
    """The model with other settings and the same promise."""
    found = model.with_settings(**settings)
    found.promise = model.promise
    return found


OF_LOGITS: dict[str, Any] = {"probabilities": False, "floor": None}  # what files give as logits


def _page(
    model: decal.Decalibrator | decal.LabelShift,
    logits: Any,
    shown: dict[str, Any],
    at_levels: dict[str, Any],
) -> explorer.Exploration:
    if isinstance(model, decal.LabelShift):
        return explorer.explore_shift(model, logits, **shown)
    with progress_bar("Exploring") as bar:
        return explorer.explore(model, logits, progress=bar.update, **at_levels, **shown)


def read_list(path: Path, key: str | None, what: str) -> list[Any]:
    """Texts or names, one for every input; with a key A,B pairs of them."""
    kind = path.suffix.lower()
    if kind not in LISTS:
        raise InputError(what, f"be in a file that ends in {listing(LISTS)}", f"{path}")
    if kind == ".txt":
        return _lines(path, what)
    if kind == ".jsonl":
        return _json_lines(path, key, what)
    file = open_file(path)
    keys = () if kind == ".npy" else _keys(path, key, what, file.names)
    if kind in TABLES:
        blocks = open_table(what, file, keys, text=True).read()
        rows = [row for block in blocks for row in block.tolist()]
        return [row[0] if len(keys) == 1 else row for row in rows]
    arrays = [load_array(what, file, k) for k in keys or (None,)]
    file.close()
    if any(array.dtype.kind != "U" or array.ndim != 1 for array in arrays):
        fact = f"shape {arrays[0].shape}, dtype {arrays[0].dtype} in {path}"
        raise InputError(what, "be a vector of text", fact)
    columns_of_text = [array.tolist() for array in arrays]
    return columns_of_text[0] if len(arrays) == 1 else list(zip(*columns_of_text, strict=True))


def read_groups(path: Path, key: str | None) -> dict[str, list[Any]]:
    """Columns of metadata by their names."""
    if not key:
        rule = f"name the columns of {path}"
        raise InputError("groups-key", rule, "none", "Pass --groups-key A,B.")
    return {name: read_list(path, name, "groups") for name in options.split(key)}


def read_images(path: Path, key: str | None) -> Any:
    """Pictures: a folder, the paths listed in a .txt, relative to it, or an array."""
    if path.is_dir():
        return path
    match path.suffix.lower():
        case ".txt":
            return [path.parent / line for line in _lines(path, "images")]
        case ".npy":
            return load_array("images", open_file(path), None)
        case ".npz":
            file = open_file(path)
            return load_array("images", file, _keys(path, key, "images", file.names)[0])
    raise InputError("images", "be a folder, or end in .txt, .npy or .npz", f"{path}")


def _lines(path: Path, what: str) -> list[str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return [line.removesuffix("\n") for line in file]
    except UnicodeDecodeError as error:
        raise InputError(what, "be in UTF-8", f"{path} ({error})") from error


def _json_lines(path: Path, key: str | None, what: str) -> list[Any]:
    """Strings, lists of strings, or fields of objects."""
    found = []
    for number, line in enumerate(_lines(path, what), start=1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            fact = f"line {number} of {path} ({error})"
            raise InputError(what, "be JSON in every line", fact) from error
        if isinstance(entry, dict):
            fields = _fields(entry, options.split(key) if key is not None else ())
            keys = _keys(path, key, what, tuple(fields))
            entry = fields[keys[0]] if len(keys) == 1 else [fields[k] for k in keys]
        found.append(entry)
    return found


def _fields(entry: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The fields of a JSON object, and those within its objects that dotted keys ask for."""
    found = dict(entry)
    for key in keys:
        inner: Any = entry
        for part in key.split("."):
            inner = inner.get(part) if isinstance(inner, dict) else None
        if key not in found and inner is not None:
            found[key] = inner
    return found


def _keys(path: Path, key: str | None, what: str, present: tuple[str, ...]) -> tuple[str, ...]:
    """The columns, keys or fields asked for; else the usual one, or the only one."""
    wanted = (
        options.split(key) if key is not None else [k for k in USUAL_KEYS[what] if k in present]
    )
    if key is None and not wanted and len(present) == 1:
        wanted = [present[0]]
    missing = [k for k in wanted if k not in present]
    if missing or not wanted or (key is None and len(wanted) > 1):
        got = f"no {missing[0]}" if missing else "no usual name" if not wanted else "several"
        fact = f"{got} among {listing(present)}"
        raise InputError(what, f"be found in {path}", fact, f"Choose with --{what}-key.")
    return tuple(wanted)
