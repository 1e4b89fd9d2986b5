"""The record of a training, and its files.

Files are replaced in one step, and reading them runs no code that they contain.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from decal.io import only_writer_of, replacing

__all__ = ["MemberFiles", "Training", "TrainingCheckpoint", "TrainingState"]


@dataclass(frozen=True)
class Training:
    """How a training went.

    Attributes
    ----------
    epochs : int
        Epochs run.
    losses : tuple of float
        Mean training loss of every epoch.
    validation : tuple of float
        Validation loss after every epoch; empty without validation data.
    accuracy : float
        Share of right answers during the last epoch, as the weights moved; NaN if the loss did not
        call the module.
    seconds : float
        Spent on training, over all runs that were needed.
    converged : bool
        False if the loss or the weights became infinite or NaN, or if the accuracy is no better
        than always guessing the commonest class; a training that was asked to stop has converged
        even so.
    reason : str
        Why it ended: "all epochs", "no improvement for 5 epochs", "stopped after epoch 3", "loss
        became nan in epoch 3", …
    """

    epochs: int
    losses: tuple[float, ...]
    validation: tuple[float, ...]
    accuracy: float
    seconds: float
    converged: bool
    reason: str


@dataclass
class TrainingState:
    """A training after some of its epochs; `reason` is empty until it ends."""

    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    accuracy: float = math.nan
    commonest: float = math.nan
    seconds: float = 0.0
    converged: bool = True
    reason: str = ""
    best_loss: float = math.inf
    best_epoch: int = -1
    best: dict[str, Tensor] | None = None

    def training(self) -> Training:
        """The record for users."""
        return Training(
            epochs=len(self.losses),
            losses=tuple(self.losses),
            validation=tuple(self.validation),
            accuracy=self.accuracy,
            seconds=self.seconds,
            converged=self.converged,
            reason=self.reason,
        )


class TrainingCheckpoint:
    """The file of an unfinished training: weights, optimizer and state after its latest epoch."""

    def __init__(
        self,
        path: Path,
        facts: Mapping[str, Any],
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.path, self.facts, self.module, self.optimizer = path, facts, module, optimizer

    def save(self, state: TrainingState) -> None:
        """Replace the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        contents = {
            "settings": json.dumps(self.facts),
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "state": vars(state),
        }
        with replacing(self.path) as partial:
            torch.save(contents, partial)

    def alone(self) -> AbstractContextManager[None]:
        """Keeps other processes from the file; ValueError if one is in this context."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return only_writer_of(self.path)

    def resume(self) -> TrainingState | None:
        """Load module and optimizer from the file and return the state; None without a file."""
        if not self.path.exists():
            return None
        contents = _load(self.path)
        try:
            settings, kept = json.loads(contents["settings"]), contents["state"]
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self.path) from error
        _require_same(settings, self.facts, self.path, "checkpoint")
        self.module.load_state_dict(contents["module"])
        self.optimizer.load_state_dict(contents["optimizer"])
        return TrainingState(**kept)


class MemberFiles:
    """The files of one member in a folder; a member with a record is finished."""

    def __init__(self, folder: Path, index: int, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.weights = folder / f"member-{index:03}.pt"
        self.record = folder / f"member-{index:03}.json"
        self.checkpoint = folder / f"member-{index:03}.checkpoint"

    def load(self, module: nn.Module) -> Training | None:
        """Load the weights into the module and return the record; None if it is not finished."""
        if not self.record.exists():
            return None
        try:
            record = json.loads(self.record.read_text())
            settings, kept = record["settings"], dict(record["training"])
            for name in ("losses", "validation"):
                kept[name] = tuple(float(v) for v in kept[name])
            training = Training(**{**kept, "accuracy": float(kept["accuracy"])})
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self.record) from error
        _require_same(settings, self.facts, self.record, "folder")
        module.load_state_dict(_load(self.weights))
        return training

    def save(self, module: nn.Module, training: Training) -> None:
        """Write the weights, then the record, and remove the checkpoint."""
        kept = asdict(training)
        for name in ("losses", "validation"):
            kept[name] = [_number(v) for v in kept[name]]
        kept["accuracy"] = _number(training.accuracy)
        self.weights.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.weights) as partial:
            torch.save(module.state_dict(), partial)
        with replacing(self.record) as partial:
            record = {"settings": self.facts, "training": kept}
            partial.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
        self.checkpoint.unlink(missing_ok=True)


def _load(path: Path) -> dict[str, Any]:
    """The tensors, numbers and texts in a file, on the CPU."""
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, KeyError, OSError, EOFError, pickle.UnpicklingError) as error:
        raise _damaged(path) from error
    if not isinstance(contents, dict):
        raise _damaged(path)
    return contents


def _require_same(found: Any, wanted: Mapping[str, Any], path: Path, argument: str) -> None:
    """Refuse a file made with other settings, and name the first that differs."""
    expected = json.loads(json.dumps(wanted))  # like `found`, with lists for tuples
    for name in (*expected, *(found.keys() - expected.keys())):
        if name not in found or name not in expected or found[name] != expected[name]:
            raise ValueError(
                f"{argument} must come from the same settings: got {name} = {found.get(name)!r} "
                f"in {path.name}, and {expected.get(name)!r} now. Use another one, or delete it."
            )


def _damaged(path: Path) -> ValueError:
    return ValueError(
        f"{path.name} must be there, as a training wrote it: got a damaged or missing file. "
        "Delete all files of that member to train it again."
    )


def _number(value: float) -> float | str:
    """A number as JSON, which knows neither NaN nor infinity: these become strings."""
    return value if math.isfinite(value) else str(value)
