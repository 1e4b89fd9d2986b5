"""Folders of predictions: a .parquet file for every file of logits.

Each carries the fingerprints of its input and its model, which tell a later run that it is
finished. Files take their names in one step when they are complete, so none is ever half-written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from decal._base.errors import PYTHON, InputError, Words
from decal.credal import IntervalCredalSet
from decal.io.checkpoints import Monitor, Stopped
from decal.io.folders import Folder, Layout, Part, UnreadableError
from decal.io.formats import arrow
from decal.io.row_files import LogitSource
from decal.io.whole_files import only_writer, replacing, sweep
from decal.io.writers import BOUNDS, Written, list_writer
from decal.rows import Rows

Predict = Callable[[Rows], IntervalCredalSet]
"""From rows to their credal sets."""

MANIFEST = "_SUCCESS.json"  # the file whose presence tells that a folder of predictions is complete


def predict_files(
    predict: Predict,
    layout: Layout,
    origin: Mapping[str, Any],
    folder: Folder,
    out: Path,
    *,
    overwrite: bool = False,
    skip_bad: bool = False,
    monitor: Monitor | None = None,
    written: Written = BOUNDS,
) -> dict[str, Any]:
    """Predict all files of a folder into a folder of .parquet files, one for each.

    Every line of them is a row of the input: row, counted from 0, the columns that name it, and
    lists of K numbers lower, upper and point, or what else is `written`. Files that an earlier call
    has finished are left as they are. Only one process at a time can write into the folder.

    The model has the classes of the `layout`; `origin` is what predictions depend on besides these
    and the folder, as plain data. Replaces files of another origin if asked to `overwrite`, and
    leaves out files that cannot be read if asked to `skip_bad`. The monitor may stop the work,
    which raises `Stopped`. Returns what ``_SUCCESS.json`` says: the settings, "parts", "rows", and
    why some are "skipped".
    """
    run = _Run(folder, out, _origin(origin, layout, folder), written)
    run.require_no_strangers()
    out.mkdir(exist_ok=True)
    with only_writer(out):
        run.find_finished(overwrite=overwrite)
        _predict_missing(predict, layout, run, skip_bad=skip_bad, monitor=monitor or Monitor())
        return run.finish()


def _predict_missing(
    predict: Predict, layout: Layout, run: _Run, *, skip_bad: bool, monitor: Monitor
) -> None:
    """Predict the parts that no earlier run has finished."""
    folder, out = run.folder, run.out
    todo = [part for part in folder.parts if part.name not in run.rows]
    survey = folder.survey(todo, layout)
    if todo:
        (out / MANIFEST).unlink(missing_ok=True)
    for place in {run.target(part).parent for part in todo}:
        sweep(place)
    done = sum(run.rows.values())
    if not done and survey.total == 0 and not survey.faults:
        raise folder.without_rows()
    monitor.start(None if todo and survey.total is None else done + (survey.total or 0), done)
    for part in todo:
        try:
            if part.name in survey.faults:
                raise UnreadableError(survey.faults[part.name])
            with survey.open(part) as source:
                run.rows[part.name] = _predict_part(predict, source, layout, part, run, monitor)
        except UnreadableError as error:
            run.faults[part.name] = error.words
            if not skip_bad:
                advice = "Repair or remove it and run the same command again, or add --skip-bad."
                raise InputError((error.words, f" {run}. {advice}")) from error


def _predict_part(
    predict: Predict, source: LogitSource, layout: Layout, part: Part, run: _Run, monitor: Monitor
) -> int:
    """Write the predictions for one file; returns the number of its rows."""
    rows, target = 0, run.target(part)
    target.parent.mkdir(parents=True, exist_ok=True)
    note = {"decal": json.dumps(run.note(part))}
    with list_writer(target, note, run.written) as append:
        for chunk in part.chunks(source):
            if monitor.stopping():
                raise Stopped(str(run))
            append(predict(chunk))
            rows += len(chunk)
            monitor.advance(len(chunk))
        if not rows:  # the columns alone
            nameless = {name: np.empty(0, dtype=str) for name in source.ids}
            append(predict(Rows(np.empty((0, layout.width)), ids=nameless or None)))
        part.require_unchanged()
    return rows


def _origin(origin: Mapping[str, Any], layout: Layout, folder: Folder) -> dict[str, Any]:
    """What all predictions of a run have in common, as plain data."""
    options = {k: v for k, v in folder.settings.items() if k != "classes"}
    common = {**origin, "classes": layout.classes, "options": options}
    plain: dict[str, Any] = json.loads(json.dumps(common))
    return plain


@dataclass(frozen=True)
class _Run:
    """The files that a run reads and writes."""

    folder: Folder
    out: Path
    origin: Mapping[str, Any]  # what all its predictions have in common
    written: Written
    rows: dict[str, int] = field(default_factory=dict)  # of every finished part, by name
    faults: dict[str, Words] = field(default_factory=dict)  # of the parts left out

    def __str__(self) -> str:
        return f"{self.out} holds {len(self.rows):,} of {len(self.folder.parts):,} files"

    def target(self, part: Part) -> Path:
        """Where the predictions for a part go."""
        return (self.out / part.name).with_suffix(".parquet")

    def note(self, part: Part) -> dict[str, Any]:
        """What a file of predictions says of its origin."""
        return {**self.origin, "input": part.fingerprint}

    def require_no_strangers(self) -> None:
        """Whoever reads the folder reads all its files: none may be of another origin."""
        out = self.out
        if out.exists() and not out.is_dir():
            raise InputError("output", "be a folder, as the input is one", f"the file {out}")
        if not out.parent.is_dir():
            raise InputError("output", "be in a folder that exists", f"{out}", "Create it first.")
        targets = {self.target(part) for part in self.folder.parts}
        for file in sorted(out.rglob("*.parquet")):
            hidden = any(name.startswith((".", "_")) for name in file.relative_to(out).parts)
            if file not in targets and not hidden:
                fact = f"{file}, which is none of these inputs'"
                remedy = "Move it away, or choose another folder."
                raise InputError("output", "hold no other predictions", fact, remedy)

    def find_finished(self, *, overwrite: bool) -> None:
        """Note the parts that an earlier run has predicted."""
        for part in self.folder.parts:
            target = self.target(part)
            found = _read_note(target)
            if found is not None and found[0] == self.note(part):
                self.rows[part.name] = found[1]
            elif target.exists() and not overwrite:
                rule, fact = "be of the same model, level and input", f"{target}, which is not"
                remedy = "Choose another folder, or overwrite it with --force."
                raise InputError("output", rule, fact, remedy)

    def finish(self) -> dict[str, Any]:
        """Write the manifest; ValueError if no part could be predicted."""
        if not self.rows:
            raise self.folder.all_bad("read", self.faults)
        if not any(self.rows.values()):
            raise self.folder.without_rows()
        manifest = {
            "format": "decal-predictions",
            **self.origin,
            "rows": sum(self.rows.values()),
            "parts": [
                {
                    "input": part.fingerprint,
                    "output": self.target(part).relative_to(self.out).as_posix(),
                    "rows": self.rows[part.name],
                }
                for part in self.folder.parts
                if part.name in self.rows
            ],
            "skipped": {name: PYTHON.say(fault) for name, fault in self.faults.items()},
        }
        with replacing(self.out / MANIFEST) as partial:
            partial.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        return manifest | {"skipped": self.faults}


def _read_note(target: Path) -> tuple[dict[str, Any], int] | None:
    """What a file of predictions says of its origin, and its rows; None if it is not ours."""
    try:
        metadata = arrow().parquet.read_metadata(target)
        return json.loads(metadata.metadata[b"decal"]), metadata.num_rows
    except (OSError, ValueError, KeyError, TypeError):
        return None
