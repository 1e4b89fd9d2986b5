"""What is seen of a training while it runs: labels, right answers, a bar."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from decal.torch import _check_labels, _label_tensor, _logits_of, _moved, _split


class Watch:
    """Looks at a module's outputs: refuses labels without a column, counts right answers.

    It sees outputs by a hook, before the loss does, so that any loss is covered without a second
    pass.

    Parameters
    ----------
    predicted : the module's output to scores (n, K); by default the output or its `.logits`.
    """

    def __init__(self, predicted: Callable[[Any], Tensor] | None) -> None:
        self.predicted = predicted
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        self.rows = self.right = self.answered = 0
        self.labels = torch.empty(0, dtype=torch.int64)
        self.answers: Tensor | None = None
        self.counts = torch.zeros(1, dtype=torch.int64)

    @contextmanager
    def on(self, module: nn.Module) -> Iterator[None]:
        """Watch the outputs of this module."""
        handle = module.register_forward_hook(self._see)
        try:
            yield
        finally:
            handle.remove()

    def _see(self, module: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG002
        n = len(self.labels)
        scores = _logits_of(output if self.predicted is None else self.predicted(output), n)
        _check_labels(self.labels, n, scores.shape[1], self.rows)
        self.answers = scores.detach().argmax(dim=1).cpu()

    def batches(
        self, loader: Iterable[Any], device: torch.device, name: str
    ) -> Iterator[tuple[Any, Tensor]]:
        """Inputs and labels (n,) of every batch, on the device. Call `count` after each."""
        for batch in loader:
            inputs, y = _split(batch)
            self.labels, self.answers = _label_tensor(y), None
            yield _moved(inputs, device), self.labels.to(device)
        if self.rows == 0:
            raise ValueError(f"{name} must yield at least one batch in every epoch: got none.")

    def count(self) -> None:
        """Add up the batch that was just evaluated."""
        self.rows += len(self.labels)
        if self.answers is not None:
            self.right += int((self.answers == self.labels).sum())
            self.answered += len(self.labels)
            counts = torch.bincount(self.labels, minlength=len(self.counts))
            counts[: len(self.counts)] += self.counts
            self.counts = counts

    @property
    def accuracy(self) -> float:
        """Share of right answers; NaN if the module was never called."""
        return self.right / self.answered if self.answered else math.nan

    @property
    def commonest(self) -> float:
        """Share of right answers of who always says the commonest label; NaN likewise."""
        return int(self.counts.max()) / self.answered if self.answered else math.nan


@contextmanager
def bar(wanted: bool, title: str, total: int, done: int) -> Iterator[Callable[[str], None]]:
    """What to call after each epoch: moves a bar, if one is wanted, can be drawn and seen."""
    if not wanted or not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ModuleNotFoundError:
        pass
    else:
        with tqdm(total=total, initial=done, desc=title, unit="epoch") as drawn:

            def advance(note: str) -> None:
                drawn.set_postfix_str(note)
                drawn.update()

            yield advance
        return
    try:
        bars = importlib.import_module("rich.progress")
    except ModuleNotFoundError:
        yield lambda _: None
        return
    console = importlib.import_module("rich.console").Console(stderr=True)
    with bars.Progress(console=console) as drawn:
        task = drawn.add_task(title, total=total, completed=done)
        yield lambda note: drawn.update(task, advance=1, description=f"{title}, {note}")
