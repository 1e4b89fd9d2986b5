"""What callbacks of trainers share: batches in, a decalibrator out, and what to log of it."""

from __future__ import annotations

import io
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from decal._base.errors import InputError
from decal._base.settings import check_keywords
from decal.choose import Wish
from decal.decalibrator import Decalibrator
from decal.torch import decalibrate_batches, decalibrate_model
from decal.torch.batches import Batch, batch_of, check_batch, label_tensor, logits_of

WISHES = ("alpha", "miss", "width", "hold", "per", "unit", "tolerate")
OF_LOADERS = ("model", "loader", "votes", "device", "progress")  # which are the trainer's


class AfterValidation:
    """Collects logits and labels of a validation, and decalibrates by them at its end.

    Attributes
    ----------
    decalibrator : Decalibrator or None
        That of the last validation.
    """

    def __init__(
        self, *, dim: int | None = None, ignore_index: int | None = None, **wish: Any
    ) -> None:
        called = type(self).__name__
        check_keywords(wish, called, decalibrate_model, Decalibrator, without=OF_LOADERS)
        Wish.of(**{name: wish.get(name) for name in WISHES}, seed=wish.get("seed", 0))
        if wish.get("tolerate") is not None and wish.get("unit") is None:
            raise InputError("tolerate", "go with unit", "no unit")
        self.dim, self.ignore_index, self.wish = dim, ignore_index, wish
        self.decalibrator: Decalibrator | None = None
        self._batches: list[Batch] = []

    def add(self, output: Any, labels: Any) -> None:
        """Keep the logits and labels of one batch, on the CPU."""
        y = label_tensor(labels, dense=True)
        batch = batch_of(logits_of(output, None).detach(), y, self.dim)
        check_batch(batch, batch.place(0, self.ignore_index), self.ignore_index)
        self._batches.append(batch)

    def finish(self) -> dict[str, float]:
        """Decalibrate by the batches of all processes, and say what it came to."""
        batches, self._batches = gathered(self._batches), []
        self.decalibrator = decalibrate_batches(batches, self.ignore_index, **self.wish)
        return told(self.decalibrator)

    def packed(self) -> dict[str, Tensor]:
        """The decalibrator as bytes of its file, in a tensor: nothing of it is pickled."""
        if self.decalibrator is None:
            return {}
        file = io.BytesIO()
        self.decalibrator.save(file)
        return {"decalibrator": torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)}

    def unpack(self, state: dict[str, Any]) -> None:
        """Take over what `packed` gave."""
        if "decalibrator" in state:
            content = bytes(state["decalibrator"].cpu().numpy())
            self.decalibrator = Decalibrator.load(io.BytesIO(content))


def gathered(batches: list[Batch]) -> list[Batch]:
    """The batches of all processes, if there are several."""
    here = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not here or torch.distributed.get_world_size() == 1:
        return batches
    every: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(every, batches)
    return [batch for one in every for batch in one]


def told(decalibrator: Decalibrator) -> dict[str, float]:
    """What a logger shows: alpha and, of a promise, its target and what it costs."""
    found, promise = {"alpha": float(decalibrator.alpha)}, decalibrator.promise
    if promise is not None:
        found[promise.kind] = float(promise.target)
        costs = {"kept": "set_size", "single": "single", "width": "width"}
        found |= {name: float(promise.costs[k]) for k, name in costs.items() if k in promise.costs}
    return found
