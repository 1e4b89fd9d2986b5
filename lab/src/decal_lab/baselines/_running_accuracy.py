"""The accuracy of a module during an epoch of training, counted from the outputs it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from decal.torch.batches import label_tensor, logits_of, move, split_batch
from decal_lab.checks import check_labels

__all__ = ["RunningAccuracy"]


class RunningAccuracy:
    """Counts right answers, and refuses labels for which the module has no column.

    A hook reads the module's outputs before the loss does. So any loss is covered, without a second
    pass through the module.

    Parameters
    ----------
    predicted : callable, optional
        Turns the module's output into scores (n, K); by default the output or its `.logits`.
    """

    def __init__(self, predicted: Callable[[Any], Tensor] | None) -> None:
        self.predicted = predicted
        self.reset()

    def reset(self) -> None:
        """Start counting from zero."""
        self.rows = self.right = self.answered = 0
        self.labels = torch.empty(0, dtype=torch.int64)
        self.answers: Tensor | None = None
        self.counts = torch.zeros(1, dtype=torch.int64)

    @contextmanager
    def observing(self, module: nn.Module) -> Iterator[None]:
        """Read the outputs of this module."""
        handle = module.register_forward_hook(self._read)
        try:
            yield
        finally:
            handle.remove()

    def _read(self, module: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG002
        n = len(self.labels)
        scores = logits_of(output if self.predicted is None else self.predicted(output), n)
        check_labels(self.labels, rows=n, classes=scores.shape[1], first_row=self.rows)
        self.answers = scores.detach().argmax(dim=1).cpu()

    def batches(
        self, loader: Iterable[Any], device: torch.device, name: str
    ) -> Iterator[tuple[Any, Tensor]]:
        """Inputs and labels (n,) of every batch, on the device. Call `count` after each."""
        for batch in loader:
            inputs, y = split_batch(batch)
            self.labels, self.answers = label_tensor(y), None
            yield move(inputs, device), self.labels.to(device)
        if self.rows == 0:
            raise ValueError(f"{name} must yield at least one batch in every epoch: got none.")

    def count(self) -> None:
        """Add the answers to the latest batch."""
        self.rows += len(self.labels)
        if self.answers is not None:
            self.right += int((self.answers == self.labels).sum())
            self.answered += len(self.labels)
            counts = torch.bincount(self.labels, minlength=len(self.counts))
            counts[: len(self.counts)] += self.counts
            self.counts = counts

    @property
    def accuracy(self) -> float:
        """The share of right answers; NaN if the module was never called."""
        return self.right / self.answered if self.answered else math.nan

    @property
    def commonest(self) -> float:
        """The accuracy of always answering with the commonest label; NaN likewise."""
        return int(self.counts.max()) / self.answered if self.answered else math.nan
