"""Fitting file by file, with checkpoints that survive an interruption.

A fit keeps two models: the evidence of all finished files, and that of the file it is in. Rows are
added in chunks whose bounds depend on the file alone, and files in their order. So a fit that was
stopped and continued gives what one gives that was not, bit for bit, given the same libraries on
the same kind of machine. A file that turns out bad in the middle leaves no evidence behind.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from decal._base.errors import InputError, Words, listing
from decal.io.folders import CHECKPOINT_ENDING, Folder, Layout, Part, UnreadableError
from decal.io.row_files import LogitSource
from decal.io.whole_files import only_writer_of, replacing

FORMAT = "decal-checkpoint"
VERSION = 1

EVERY = 30.0  # seconds between checkpoints

CHUNK_ELEMENTS = 1 << 23
"""Logits per chunk of a fit: 32 MB of float32. Smaller chunks would be merged too often."""

Model = Any
"""A Decalibrator. Models are handed in and never imported: their modules stand above this one."""


class Stopped(Exception):  # noqa: N818  (asked for, so no error)
    """The work was stopped from outside. The message tells what is kept."""


class Monitor:
    """Receives the progress of a run over files, and may stop it; this one does neither."""

    def start(self, rows: int | None, done: int) -> None:
        """Called once before the work: how many rows there are, if known, and are done already."""

    def advance(self, rows: int) -> None:
        """Called after every chunk with the number of its rows."""

    def stopping(self) -> bool:
        """Whether to stop now. Asked between chunks, when everything is consistent."""
        return False


@dataclass
class FitProgress:
    """How far a fit has come.

    Files are kept as fingerprints, each with the number of its "rows" that were read.
    """

    settings: dict[str, Any]  # what the evidence depends on besides the files
    layout: Layout | None = None  # None before the first file
    done: list[dict[str, Any]] = field(default_factory=list)  # the finished files, in order
    evidence: Model | None = None  # what they say
    current: dict[str, Any] | None = None  # the file that is being read
    partial: Model | None = None  # what its rows say so far

    @property
    def rows(self) -> int:
        """Rows of the finished files, and those read of the current one."""
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

    def begin(self, part: Part) -> dict[str, Any]:
        """The file that was left half-read by a stop; else this part."""
        self.current = self.current or part.fingerprint | {"rows": 0}
        return self.current

    def finish(self, model: Model) -> None:
        """Add the evidence of the current file to that of the others."""
        assert self.current is not None
        if self.partial is not None:
            self.evidence = (self.evidence or model.unfitted()).merge(self.partial)
        self.done.append(self.current)
        self.abandon()

    def abandon(self) -> None:
        """Forget the current file and its evidence."""
        self.current = self.partial = None


class FitCheckpoint:
    """A folder that holds the state of an unfinished fit.

    ``state.json`` names the model files that belong to it. It is replaced in one step after they
    are written, so at every moment the folder holds one complete state.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # The evidence of finished files is written again only if there are more of them.
        self._written: tuple[int, str | None] = (-1, None)

    @classmethod
    def next_to(cls, model: Path) -> FitCheckpoint:
        """The checkpoint of a model file, in the same folder."""
        return cls(model.with_name(model.name + CHECKPOINT_ENDING))

    def read(
        self, settings: Mapping[str, Any], load: Callable[[Path], Model]
    ) -> FitProgress | None:
        """The state, if there is one; ValueError if it is of other settings, or damaged."""
        try:
            text = (self.path / "state.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            state = self._parsed(text, load)
        except Exception as error:  # whatever damage causes
            fact, remedy = f"{self.path} ({error})", "Start over with --restart."
            raise InputError("checkpoint", "be intact", fact, remedy) from error
        for name, now in settings.items():
            before = state.settings.get(name)
            if before != now:
                fact = f"{now}, and {before} in {self.path}"
                remedy = "Give the same options, or start over with --restart."
                raise InputError(name, "be as before the fit was stopped", fact, remedy)
        return state

    def _parsed(self, text: str, load: Callable[[Path], Model]) -> FitProgress:
        kept = json.loads(text)
        if (kept["format"], kept["version"]) != (FORMAT, VERSION):
            raise ValueError("of another format or version")
        if not isinstance(kept["settings"], dict):
            raise ValueError("settings are damaged")
        layout = kept["layout"]
        classes = layout and layout["classes"] and tuple(layout["classes"])
        models = {
            name: kept[name] and load(self.path / Path(kept[name]).name)
            for name in ("evidence", "partial")
        }
        self._written = (len(kept["done"]), kept["evidence"])
        return FitProgress(
            kept["settings"],
            layout and Layout(int(layout["width"]), classes),
            [_checked(part) for part in kept["done"]],
            models["evidence"],
            kept["current"] and _checked(kept["current"]),
            models["partial"],
        )

    def write(self, state: FitProgress) -> None:
        """Replace the state that was written before."""
        self.path.mkdir(exist_ok=True)
        if self._written[0] != len(state.done):
            self._written = (len(state.done), self._save(state.evidence))
        kept = {
            "format": FORMAT,
            "version": VERSION,
            "settings": state.settings,
            "layout": state.layout and asdict(state.layout),
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

    def _save(self, model: Model | None) -> str | None:
        if model is None:
            return None
        name = f"{uuid4().hex}.npz"  # a new name, so that the files of the last state stay intact
        model.save(self.path / name)
        return name

    def exclusive(self) -> AbstractContextManager[None]:
        """Keeps other processes from the checkpoint and its model; ValueError if one is there."""
        return only_writer_of(self.path)

    def remove(self) -> None:
        """Forget the state."""
        shutil.rmtree(self.path, ignore_errors=True)


def _checked(part: dict[str, Any]) -> dict[str, Any]:
    kinds = {"name": str, "size": int, "modified": int, "rows": int}
    known = set(part) == set(kinds) and all(type(part[k]) is kinds[k] for k in kinds)
    if not known or part["rows"] < 0:
        raise ValueError("fingerprints are damaged")
    return part


def learn(
    model: Model,
    folder: Folder,
    checkpoint: FitCheckpoint,
    *,
    every: float = EVERY,
    skip_bad: bool = False,
    monitor: Monitor | None = None,
) -> dict[str, Words]:
    """Fit a model on all files of a folder, or continue where an earlier call was stopped.

    The model, not fitted yet, gets all the evidence; the options of the folder must ask for labels.
    Unfinished work is kept in the checkpoint `every` so many seconds, with 0 after every chunk; the
    caller removes it when the model is safe. With `skip_bad`, files that cannot be read or hold
    impossible numbers are left out: returns what is wrong with them, by name; a later call, after
    their repair, adds them. The monitor may stop the work, which raises `Stopped`.
    """
    model.require_mergeable()
    monitor = monitor or Monitor()
    settings = folder.settings | {"directions": [[d.name, d.settings()] for d in model.directions]}
    settings = json.loads(json.dumps(settings))
    state = checkpoint.read(settings, type(model).load) or FitProgress(settings)
    todo = _remaining(folder, state, checkpoint)
    survey = folder.survey(todo, state.layout)
    faults = dict(survey.faults)
    if faults and not skip_bad:
        raise _refusal(faults, folder, state, checkpoint)
    state.layout = survey.layout
    total = survey.total
    monitor.start(total if total is None else total + state.finished_rows, state.rows)
    keeper = _Keeper(checkpoint, state, every)
    for part in todo:
        if part.name in faults:
            continue
        try:
            with survey.open(part) as source:
                _learn_part(model, part, source, state, keeper, monitor)
        except UnreadableError as error:
            state.abandon()
            faults[part.name] = error.words
            if skip_bad:
                continue
            if state.done:
                checkpoint.write(state)
            raise _refusal({part.name: faults[part.name]}, folder, state, checkpoint) from error
        state.finish(model)
    evidence = _all_evidence(state, folder, faults)
    if faults:
        checkpoint.write(state)
    model.merge(evidence)
    return faults


def _learn_part(
    model: Model,
    part: Part,
    source: LogitSource,
    state: FitProgress,
    keeper: _Keeper,
    monitor: Monitor,
) -> None:
    """Learn from the rows of one file that were not read before."""
    current = state.begin(part)
    for chunk in part.chunks(source, CHUNK_ELEMENTS, current["rows"]):
        if chunk.weights is None or chunk.weights.any():
            state.partial = state.partial or model.unfitted()
            state.partial.add(model.learn(chunk))
        current["rows"] += chunk.inputs
        monitor.advance(chunk.inputs)
        if monitor.stopping():
            keeper.write()
            raise Stopped(f"{keeper.checkpoint.path} holds {state}")
        keeper.write_if_due()
    part.require_unchanged()


class _Keeper:
    """Writes checkpoints, but not so often that this takes more than a twentieth of the time."""

    def __init__(self, checkpoint: FitCheckpoint, state: FitProgress, every: float) -> None:
        self.checkpoint, self.state, self.every = checkpoint, state, every
        self.last, self.wait = time.monotonic(), every

    def write_if_due(self) -> None:
        if time.monotonic() - self.last >= self.wait:
            self.write()

    def write(self) -> None:
        begun = time.monotonic()
        self.checkpoint.write(self.state)
        self.last = time.monotonic()
        self.wait = max(self.every, 20 * (self.last - begun)) if self.every else 0.0


def _all_evidence(state: FitProgress, folder: Folder, faults: Mapping[str, Words]) -> Model:
    """What all files say; ValueError if they say nothing."""
    if not state.done:
        raise folder.all_bad("fitted", faults)
    if not state.finished_rows:
        raise folder.without_rows()
    if state.evidence is None:
        raise InputError("weights", "be positive somewhere", "only zeros")
    return state.evidence


def _remaining(folder: Folder, state: FitProgress, checkpoint: FitCheckpoint) -> list[Part]:
    """The parts still to be read, a half-read one first; ValueError if a finished one changed."""
    now = {part.name: part for part in folder.parts}
    for kept in state.done:
        part = now.pop(kept["name"], None)
        if part is None or part.fingerprint != {k: kept[k] for k in part.fingerprint}:
            what = "which is gone" if part is None else "of another size or time of change"
            fact = f"{kept['name']}, {what}"
            remedy = f"Put it back, or forget {checkpoint.path} with --restart."
            raise InputError("files", "stay as they were when they were fitted", fact, remedy)
    if state.current is not None:
        begun = now.get(state.current["name"])
        if begun and state.current == begun.fingerprint | {"rows": state.current["rows"]}:
            return [begun, *(part for part in now.values() if part is not begun)]
    state.abandon()
    return list(now.values())


def _refusal(
    faults: dict[str, Words], folder: Folder, state: FitProgress, checkpoint: FitCheckpoint
) -> InputError:
    """An error about bad parts that says what is kept and what can be done."""
    first, *others = faults
    message = f" So {len(others):,} more: {listing(others)}." if others else ""
    if len(folder.parts) > 1:
        if state.done:
            message += f" {checkpoint.path} keeps {state}."
        message += " Repair or remove it and run the same command again, or add --skip-bad."
    return InputError((faults[first], message))
