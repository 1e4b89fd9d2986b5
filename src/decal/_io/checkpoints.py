"""Fitting file by file, with checkpoints that survive an interruption.

A fit keeps two Decalibrators: the evidence of all finished files, and that of the file it is in.
Rows are added in chunks whose bounds depend on the file alone, and files are merged in their order,
so a fit that was stopped and continued adds the same numbers in the same order as one that was not:
the results are equal bit for bit. A file that turns out bad in the middle leaves none of its
evidence behind.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from decal._io.folders import CHECKPOINT_ENDING, Folder, Layout, Part
from decal._io.formats import listing
from decal._io.model_files import replacing
from decal.decalibrator import Decalibrator

FORMAT = "decal-checkpoint"
VERSION = 1

EVERY = 30.0
"""Seconds between checkpoints."""

LARGEST_SHARE = 0.05
"""Of the time of a fit that writing checkpoints may take: large evidence is written more rarely."""

CHUNK_ELEMENTS = 1 << 23
"""Logits per chunk of a fit: 32 MB of float32. Smaller chunks would be merged too often."""


class Stopped(Exception):  # noqa: N818  (asked for, so no error)
    """The work was stopped from outside. The message tells what is kept."""


class Watch:
    """Looks on while files are worked on; by default it sees nothing and never stops."""

    def start(self, rows: int | None, done: int) -> None:
        """There are so many rows in all, None if unknown, of which some were done before."""

    def advance(self, rows: int) -> None:
        """So many more are done."""

    def stopping(self) -> bool:
        """Whether to stop now. Asked between chunks, when everything is consistent."""
        return False


@dataclass
class State:
    """How far a fit is.

    Attributes
    ----------
    settings : what the evidence depends on besides the files.
    layout : what all files have in common; None before the first.
    done : the fingerprints of the finished files, in order, each with its number of "rows".
    evidence : of these.
    current : fingerprint of the file in work, with the number of its "rows" seen so far; or None.
    partial : their evidence.
    """

    settings: dict[str, Any]
    layout: Layout | None = None
    done: list[dict[str, Any]] = field(default_factory=list)
    evidence: Decalibrator | None = None
    current: dict[str, Any] | None = None
    partial: Decalibrator | None = None

    @property
    def rows(self) -> int:
        """Rows of the finished files, and of the one in work."""
        return self.finished_rows + (self.current["rows"] if self.current else 0)

    @property
    def finished_rows(self) -> int:
        """Rows of the finished files."""
        return sum(part["rows"] for part in self.done)

    def __str__(self) -> str:
        finished = f"{len(self.done):,} finished file{'s' * (len(self.done) != 1)}"
        if self.current is None:
            return finished
        return f"{finished} and {self.current['rows']:,} rows of {self.current['name']}"


class Checkpoint:
    """A folder that holds the state of an unfinished fit.

    ``state.json`` names the model files that belong to it. It is replaced in one step after they
    are written, so at every moment the folder holds one complete state.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: tuple[int, str | None] = (-1, None)

    @classmethod
    def beside(cls, model: Path) -> Checkpoint:
        """Where the checkpoint of a model file is kept."""
        return cls(model.with_name(model.name + CHECKPOINT_ENDING))

    def read(self, settings: Mapping[str, Any]) -> State | None:
        """The state, if there is one; ValueError if it is of another fit, or damaged."""
        try:
            text = (self.path / "state.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            kept = json.loads(text)
            if (kept.pop("format"), kept.pop("version")) != (FORMAT, VERSION):
                raise ValueError("of another format or version")
            layout = kept.pop("layout")
            classes = layout and layout["classes"] and tuple(layout["classes"])
            models = {
                name: kept[name] and Decalibrator.load(self.path / Path(kept[name]).name)
                for name in ("evidence", "partial")
            }
            self._written = (len(kept["done"]), kept["evidence"])
            state = State(
                kept.pop("settings"),
                layout and Layout(int(layout["width"]), classes),
                [_checked(part) for part in kept.pop("done")],
                models["evidence"],
                kept["current"] and _checked(kept["current"]),
                models["partial"],
            )
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise ValueError(
                f"checkpoint must be intact: got {self.path} ({error}). Start over with --restart."
            ) from error
        for name, now in settings.items():
            if state.settings.get(name) != now:
                raise ValueError(
                    f"{name} must be as before the fit was stopped: got {now}, and "
                    f"{state.settings.get(name)} in {self.path}. "
                    "Give the same options, or start over with --restart."
                )
        return state

    def write(self, state: State) -> None:
        """Keep this state instead of the one before."""
        self.path.mkdir(exist_ok=True)
        if self._written[0] != len(state.done):
            self._written = (len(state.done), self._save(state.evidence))
        layout = state.layout and {
            "width": state.layout.width,
            "classes": state.layout.classes,
        }
        kept = {
            "format": FORMAT,
            "version": VERSION,
            "settings": state.settings,
            "layout": layout,
            "evidence": self._written[1],
            "partial": self._save(state.partial),
            "current": state.current,
            "done": state.done,
        }
        with replacing(self.path / "state.json") as partial:
            partial.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        for old in self.path.iterdir():
            if old.name not in ("state.json", kept["evidence"], kept["partial"]):
                old.unlink(missing_ok=True)

    def _save(self, model: Decalibrator | None) -> str | None:
        if model is None:
            return None
        name = f"{uuid4().hex}.npz"  # a name of its own: what the state now names stays as it is
        model.save(self.path / name)
        return name

    def remove(self) -> None:
        """Forget the state."""
        shutil.rmtree(self.path, ignore_errors=True)


def _checked(part: dict[str, Any]) -> dict[str, Any]:
    kinds = {"name": str, "size": int, "modified": int, "rows": int}
    if set(part) != set(kinds) or not all(isinstance(part[k], kinds[k]) for k in kinds):
        raise ValueError("fingerprints are damaged")
    return part


def learn(
    model: Decalibrator,
    folder: Folder,
    checkpoint: Checkpoint,
    *,
    every: float = EVERY,
    skip_bad: bool = False,
    watch: Watch | None = None,
) -> dict[str, str]:
    """Fit a model on all files of a folder, or continue where an earlier call was stopped.

    Parameters
    ----------
    model : not fitted yet; gets all the evidence.
    folder : its options must ask for labels.
    checkpoint : where to keep unfinished work: every so often, when stopped, and when a file turns
        out bad. It is left to the caller to remove it when the model is safe.
    every : seconds between checkpoints; 0 writes one after every chunk.
    skip_bad : leave out files that cannot be read or hold impossible numbers.
    watch : is told of the progress, and may stop the work, which raises `Stopped`.

    Returns
    -------
    What is wrong with the files left out, by name. A later call with the same checkpoint, after
    their repair, adds them.
    """
    watch = watch or Watch()
    settings = folder.settings | {"directions": [[d.name, d.settings()] for d in model.directions]}
    settings = json.loads(json.dumps(settings))
    state = checkpoint.read(settings) or State(settings)
    todo = _remaining(folder, state, checkpoint)
    survey = folder.survey(todo, state.layout)
    faults = dict(survey.faults)
    if faults and not skip_bad:
        raise _refusal(faults, folder, state, checkpoint)
    state.layout = survey.layout
    total = survey.total
    watch.start(total if total is None else total + state.finished_rows, state.rows)
    clock, wait = time.monotonic(), every

    def keep() -> None:
        nonlocal clock, wait
        begun = time.monotonic()
        checkpoint.write(state)
        clock = time.monotonic()
        wait = max(every, (clock - begun) / LARGEST_SHARE) if every else 0.0

    for part in todo:
        if part.name in faults:
            continue
        current = state.current = state.current or part.fingerprint | {"rows": 0}
        try:
            source = folder.open(part, state.layout)
            for chunk in source.chunks(CHUNK_ELEMENTS, current["rows"]):
                if chunk.weights is None or chunk.weights.any():
                    state.partial = state.partial or _empty(model)
                    state.partial.partial_fit(
                        chunk.logits,
                        chunk.labels,
                        sample_weight=chunk.weights,
                        classes=source.classes,
                    )
                current["rows"] += len(chunk)
                watch.advance(len(chunk))
                if watch.stopping():
                    checkpoint.write(state)
                    raise Stopped(f"{checkpoint.path} holds {state}")
                if time.monotonic() - clock >= wait:
                    keep()
            part.require_unchanged()
        except (ValueError, OSError) as error:
            state.current = state.partial = None
            faults[part.name] = part.fault(error)
            if skip_bad:
                continue
            if state.done:
                checkpoint.write(state)
            raise _refusal({part.name: faults[part.name]}, folder, state, checkpoint) from error
        if state.partial is not None:
            state.evidence = (state.evidence or _empty(model)).merge(state.partial)
        state.done.append(current)
        state.current = state.partial = None
    if not state.done:
        raise ValueError(
            f"{folder.path} must hold a file that can be fitted: got {len(faults)} bad ones. "
            f"{next(iter(faults.values()))}"
        )
    if state.evidence is None:
        raise ValueError("weights must be positive somewhere: got only zeros.")
    if faults:
        checkpoint.write(state)
    model.merge(state.evidence)
    return faults


def _empty(model: Decalibrator) -> Decalibrator:
    return Decalibrator(model.alpha, likelihood=model.likelihood, directions=model.directions)


def _remaining(folder: Folder, state: State, checkpoint: Checkpoint) -> list[Part]:
    """The parts to work on, the one begun first; ValueError if a finished one has changed."""
    now = {part.name: part for part in folder.parts}
    for kept in state.done:
        part = now.pop(kept["name"], None)
        if part is None or part.fingerprint != {k: kept[k] for k in part.fingerprint}:
            what = "which is gone" if part is None else "of another size or time of change"
            raise ValueError(
                f"files must stay as they were when they were fitted: got {kept['name']}, {what}. "
                f"Put it back, or forget {checkpoint.path} with --restart."
            )
    if state.current is not None:
        begun = now.get(state.current["name"])
        if begun and state.current == begun.fingerprint | {"rows": state.current["rows"]}:
            return [begun, *(part for part in now.values() if part is not begun)]
    state.current = state.partial = None
    return list(now.values())


def _refusal(
    faults: dict[str, str], folder: Folder, state: State, checkpoint: Checkpoint
) -> ValueError:
    """An error about bad parts that says what is kept and what can be done."""
    first, *others = faults
    message = faults[first]
    if others:
        message += f" So {len(others):,} more: {listing(others)}."
    if len(folder.parts) > 1:
        if state.done:
            message += f" {checkpoint.path} keeps {state}."
        message += " Repair or remove it and run the same command again, or add --skip-bad."
    return ValueError(message)
