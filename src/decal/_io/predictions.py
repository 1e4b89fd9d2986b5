"""Folders of predictions: a .parquet file for every file of logits.

Each carries the fingerprints of its input and its model, which tell a later run that it is
finished. Files take their names in one step when they are complete, so none is ever half-written.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decal._io.checkpoints import Stopped, Watch
from decal._io.folders import Folder, Layout, Part
from decal._io.formats import arrow
from decal._io.model_files import replacing
from decal._io.sources import write_credal
from decal.credal._boxes import IntervalCredalSet
from decal.decalibrator import Decalibrator

MANIFEST = "_SUCCESS.json"
"""What tells, in a folder of predictions, that all of them are there."""


def predict_folder(
    model: Decalibrator,
    model_file: Path,
    folder: Folder,
    out: Path,
    *,
    alpha: float | None = None,
    overwrite: bool = False,
    skip_bad: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Predict all files of a folder into a folder of .parquet files, one for each.

    Every line of them is a row of the input, in its order: row, counted from 0, and lists of K
    numbers lower, upper and point. Files that an earlier call has finished are left as they are.

    Parameters
    ----------
    model, model_file : the fitted model, and the file it came from.
    folder : its options must hold the model's classes.
    out : the folder to write; made if it does not exist.
    alpha : level; by default the model's.
    overwrite : files there that come from another model, level or input are replaced.
    skip_bad : leave out files that cannot be read or hold impossible numbers.
    watch : is told of the progress, and may stop the work, which raises `Stopped`.

    Returns
    -------
    What is also written to ``_SUCCESS.json`` when all is done: the settings, the "parts" and
    their "rows", and those "skipped" with the reason.
    """
    watch = watch or Watch()
    level = model.alpha if alpha is None else alpha
    common = {
        "model": hashlib.sha256(model_file.read_bytes()).hexdigest(),
        "alpha": level,
        "classes": model.classes,
        "options": {k: v for k, v in folder.settings.items() if k != "classes"},
    }
    common = json.loads(json.dumps(common))
    targets = {part.name: _target(out, part) for part in folder.parts}
    _require_own(out, set(targets.values()))
    rows: dict[str, int] = {}
    for part in folder.parts:
        found = _finished(targets[part.name])
        if found is not None and found[0] == common | {"input": part.fingerprint}:
            rows[part.name] = found[1]
        elif targets[part.name].exists() and not overwrite:
            raise ValueError(
                f"output must be of the same model, level and input: got {targets[part.name]}, "
                "which is not. Choose another folder, or overwrite it with --force."
            )
    out.mkdir(exist_ok=True)
    todo = [part for part in folder.parts if part.name not in rows]
    layout = Layout(len(model.class_weights), model.classes)
    survey = folder.survey(todo, layout)
    faults = dict(survey.faults)
    done = sum(rows.values())
    if todo:
        (out / MANIFEST).unlink(missing_ok=True)
    watch.start(None if todo and survey.total is None else done + (survey.total or 0), done)
    for part in todo:
        try:
            if part.name in faults:
                raise ValueError(faults[part.name])
            rows[part.name] = _predict_part(
                model, folder, part, targets[part.name], layout, level, common, watch
            )
        except _StoppedInside:
            raise Stopped(f"{out} holds {len(rows):,} of {len(folder.parts):,} files") from None
        except (ValueError, OSError) as error:
            faults[part.name] = part.fault(error)
            if not skip_bad:
                raise ValueError(
                    f"{faults[part.name]} {out} holds {len(rows):,} of {len(folder.parts):,} "
                    "files. Repair or remove it and run the same command again, or add --skip-bad."
                ) from error
    if not rows:
        raise ValueError(f"{folder.path} must hold a file that can be read: got {faults}.")
    manifest = {
        "format": "decal-predictions",
        **common,
        "rows": sum(rows.values()),
        "parts": [
            {
                "input": part.fingerprint,
                "output": targets[part.name].relative_to(out).as_posix(),
                "rows": rows[part.name],
            }
            for part in folder.parts
            if part.name in rows
        ],
        "skipped": faults,
    }
    with replacing(out / MANIFEST) as partial:
        partial.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return manifest


class _StoppedInside(Exception):  # noqa: N818
    """Leaves the file in work, which is not finished."""


def _predict_part(
    model: Decalibrator,
    folder: Folder,
    part: Part,
    target: Path,
    layout: Layout,
    alpha: float,
    common: dict[str, Any],
    watch: Watch,
) -> int:
    rows = 0

    def predictions() -> Iterator[IntervalCredalSet]:
        nonlocal rows
        for chunk in folder.open(part, layout).chunks():
            if watch.stopping():
                raise _StoppedInside
            yield model.predict(chunk.logits, alpha=alpha)
            rows += len(chunk)
            watch.advance(len(chunk))

    target.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
        abandoned.unlink(missing_ok=True)
    note = json.dumps(common | {"input": part.fingerprint})
    write_credal(target, predictions(), note={"decal": note})
    part.require_unchanged()
    return rows


def _target(out: Path, part: Part) -> Path:
    return (out / part.name).with_suffix(".parquet")


def _finished(target: Path) -> tuple[dict[str, Any], int] | None:
    """What a finished file says of itself, and its rows; None if it is not there or not ours."""
    try:
        metadata = arrow().parquet.read_metadata(target)
        return json.loads(metadata.metadata[b"decal"]), metadata.num_rows
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _require_own(out: Path, targets: set[Path]) -> None:
    """Whoever reads the folder reads all its files: none may be of another origin."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"output must be a folder, as the input is one: got the file {out}.")
    if not out.parent.is_dir():
        raise ValueError(f"output must be in a folder that exists: got {out}. Create it first.")
    for file in sorted(out.rglob("*.parquet")):
        hidden = any(name.startswith((".", "_")) for name in file.relative_to(out).parts)
        if file not in targets and not hidden:
            raise ValueError(
                f"output must hold no other predictions: got {file}, which is none of these "
                "inputs'. Move it away, or choose another folder."
            )
