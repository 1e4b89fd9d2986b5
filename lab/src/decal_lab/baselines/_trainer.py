"""Training one network, or the members of an ensemble, so that it can be repeated and resumed.

Every method here that trains does it through `Trainer`. Randomness follows from seeds alone: an
epoch's from the seed and the epoch, a member's from the trainer's seed and the member's number. So
an interrupted training continues to the same weights, and members do not depend on each other.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from decal.io import on_terminal, progress_bar
from decal.torch.batches import model_logits
from decal_lab.baselines._randomness import derived_seed, randomness
from decal_lab.baselines._running_accuracy import RunningAccuracy
from decal_lab.baselines._training_records import (
    MemberFiles,
    Training,
    TrainingCheckpoint,
    TrainingState,
)
from decal_lab.checks import check_choice, check_count, check_tolerance

__all__ = [
    "ConvergenceWarning",
    "Loss",
    "Member",
    "Stop",
    "Trainer",
    "Training",
    "cross_entropy",
    "train_member",
    "train_members",
]

Loss = Callable[[nn.Module, Any, Tensor, int], Tensor]
"""Module, inputs (n, ...), labels (n,) and epoch, from 0, to a scalar: the mean over the batch."""

Stop = Callable[[nn.Module, int], bool]
"""Module, in evaluation mode, and the epoch, from 0, just finished: whether to stop here."""


class ConvergenceWarning(UserWarning):
    """A network was trained, but not to anything useful."""


def cross_entropy(module: nn.Module, inputs: Any, labels: Tensor, epoch: int) -> Tensor:  # noqa: ARG001
    """Mean cross-entropy of a batch, in nats."""
    return F.cross_entropy(model_logits(module, inputs, len(labels)), labels)


@dataclass(frozen=True)
class Member:
    """One trained network of an ensemble: its index, its seed, the module and its record."""

    index: int
    seed: int
    module: nn.Module
    training: Training


@dataclass(frozen=True)
class Trainer:
    """How to train: the optimiser and its settings, as one frozen object.

    Parameters
    ----------
    epochs : int
        Passes over the data.
    optimizer : str
        "adam", or "sgd" with momentum.
    learning_rate, momentum, weight_decay : float
        Of the optimiser; momentum of "sgd" only.
    schedule : str
        "cosine", from the learning rate towards zero over all epochs, or "constant".
    seed : int
        Seed of weights, dropout and the order of batches.
    device : str
        Where to train; the module stays there.
    patience : int, optional
        Stop after so many epochs without a lower validation loss, and go back to the weights of the
        lowest. None trains for all epochs and keeps the last weights.
    progress : bool
        Draw a bar on stderr, if that is a terminal and rich is installed.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import Trainer
    >>> x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    >>> loader = [(x, (x[:, 0] > 0).long())]
    >>> net = torch.nn.Linear(2, 2)
    >>> Trainer(epochs=50, learning_rate=0.1).train(net, loader).reason
    'all epochs'
    """

    epochs: int = 20
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "cosine"
    seed: int = 0
    device: str = "cpu"
    patience: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check_count(self.epochs, "epochs")
        check_choice(self.optimizer, "optimizer", ("adam", "sgd"))
        check_choice(self.schedule, "schedule", ("cosine", "constant"))
        for name in ("learning_rate", "momentum", "weight_decay"):
            check_tolerance(getattr(self, name), name)
        check_count(self.seed, "seed", least=0)
        if self.patience is not None:
            check_count(self.patience, "patience")

    @property
    def settings(self) -> dict[str, Any]:
        """What the trained weights depend on: all fields but device and progress."""
        return {k: v for k, v in asdict(self).items() if k not in ("device", "progress")}

    def train(
        self,
        module: nn.Module,
        loader: Iterable[Any],
        *,
        loss: Loss = cross_entropy,
        validation: Iterable[Any] | None = None,
        seed: int | None = None,
        checkpoint: Path | str | None = None,
        stop: Stop | None = None,
        predicted: Callable[[Any], Tensor] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Training:
        """Train a module in place, and leave it in evaluation mode.

        Global random states, and those of the loaders' generators, are left as found.

        Parameters
        ----------
        module : torch.nn.Module
            Any module with parameters that require gradients.
        loader : iterable
            Loader of batches (inputs, labels), or mappings with the key "labels", as for
            `decal.torch.collect_logits`. Gone through once per epoch.
        loss
            Module, inputs, labels, epoch (from 0) to a scalar.
        validation : iterable, optional
            A loader to compute the loss on after every epoch; `patience` needs it.
        seed : int, optional
            By default that of the trainer.
        checkpoint : path, optional
            File written after each epoch and read if it is there: an interrupted training continues
            to the same weights, on the CPU with the same number of threads bit for bit. It is not
            removed at the end.
        stop
            Module and epoch (from 0), after each epoch: True ends the training, as intended.
        predicted : callable, optional
            The module's output to scores (n, K) whose largest is the answer. Needed if the output
            is neither such a tensor nor has one as `.logits`.
        settings : mapping, optional
            Further facts, as JSON, that a checkpoint must agree with to be continued.

        Warns
        -----
        ConvergenceWarning
            If the training ended without converging.
        """
        training = self._train(
            module, loader, loss, validation, seed, checkpoint, stop, predicted, settings
        )
        if not training.converged:
            warnings.warn(
                f"the training did not converge: {training.reason}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return training

    def _train(
        self,
        module: nn.Module,
        loader: Iterable[Any],
        loss: Loss,
        validation: Iterable[Any] | None,
        seed: int | None,
        checkpoint: Path | str | None,
        stop: Stop | None,
        predicted: Callable[[Any], Tensor] | None,
        settings: Mapping[str, Any] | None,
        title: str = "training",
    ) -> Training:
        seed = self.seed if seed is None else check_count(seed, "seed", least=0)
        _require_repeatable(loader, "loader")
        _require_repeatable(validation, "validation")
        if self.patience is not None and validation is None:
            raise ValueError("validation must be given for patience: got None.")
        device = torch.device(self.device)
        module.to(device)
        optimizer = self._optimizer(module)
        state, keeper, locked = TrainingState(), None, ExitStack()
        if checkpoint is not None:
            facts = {**self.settings, **_facts(module, loss), **(settings or {}), "seed": seed}
            keeper = TrainingCheckpoint(Path(checkpoint), facts, module, optimizer)
        running = RunningAccuracy(predicted)
        with locked, running.observing(module):
            if keeper is not None:
                locked.enter_context(keeper.alone())
                found = keeper.resume()
                state = found or state
                if found is None:  # the first epoch, too, may be interrupted
                    keeper.save(state)
            bar = progress_bar(
                title,
                self.epochs,
                unit="epochs",
                show=self.progress and on_terminal(),
                done=len(state.losses),
            )
            shown = locked.enter_context(bar)
            while not state.reason:
                began, epoch = time.perf_counter(), len(state.losses)
                with randomness(derived_seed(seed, epoch), device, loader, validation):
                    self._learn(module, optimizer, loader, loss, epoch, running, state)
                    module.eval()
                    if validation is not None:
                        value = self._validate(module, validation, loss, epoch, running)
                        state.validation.append(value)
                    self._judge(module, stop, epoch, state)
                state.seconds += time.perf_counter() - began
                if keeper is not None:
                    keeper.save(state)
                shown.describe(f"loss {state.losses[-1]:.4g}")
                shown.advance()
        module.eval()
        return state.training()

    def _optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        trainable = [p for p in module.parameters() if p.requires_grad]
        if not trainable:
            raise ValueError(
                "module must have parameters that require gradients: got none of them."
            )
        if self.optimizer == "adam":
            return torch.optim.Adam(
                trainable, lr=self.learning_rate, weight_decay=self.weight_decay
            )
        return torch.optim.SGD(
            trainable,
            lr=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )

    def _rate(self, epoch: int) -> float:
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * epoch / self.epochs)) / 2

    def _learn(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        loader: Iterable[Any],
        loss: Loss,
        epoch: int,
        running: RunningAccuracy,
        state: TrainingState,
    ) -> None:
        """One pass over the data; ends early at the first loss that is not finite."""
        module.train()
        for group in optimizer.param_groups:
            group["lr"] = self._rate(epoch)
        running.reset()
        total, failed = 0.0, False
        for inputs, labels in running.batches(loader, torch.device(self.device), "loader"):
            value = _scalar(loss(module, inputs, labels, epoch))
            total += float(value.detach()) * len(labels)
            running.count()
            if not math.isfinite(total):
                failed = True
                break
            optimizer.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        state.losses.append(total / running.rows)
        state.accuracy, state.commonest = running.accuracy, running.commonest
        if failed:
            word = "nan" if math.isnan(total) else "infinite"
            state.reason = f"loss became {word} in epoch {epoch + 1}"
        elif not all(bool(torch.isfinite(p).all()) for p in module.parameters()):
            state.reason = f"weights became nan or infinite in epoch {epoch + 1}"
        state.converged = not state.reason

    @torch.no_grad()
    def _validate(
        self,
        module: nn.Module,
        validation: Iterable[Any],
        loss: Loss,
        epoch: int,
        running: RunningAccuracy,
    ) -> float:
        running.reset()
        total = 0.0
        for inputs, labels in running.batches(validation, torch.device(self.device), "validation"):
            total += float(_scalar(loss(module, inputs, labels, epoch))) * len(labels)
            running.count()
        return total / running.rows

    def _judge(
        self, module: nn.Module, stop: Stop | None, epoch: int, state: TrainingState
    ) -> None:
        """After an epoch: decide whether to continue; if not, go back to the best weights."""
        if not state.reason:
            if self.patience is not None and state.validation[-1] < state.best_loss:
                state.best_loss, state.best_epoch = state.validation[-1], epoch
                state.best = {k: v.detach().clone() for k, v in module.state_dict().items()}
            if stop is not None and stop(module, epoch):
                state.reason = f"stopped after epoch {epoch + 1}"
                return  # keeps the weights that `stop` was called with
            state.reason = self._end(epoch, state)
            self._compare_with_guessing(state)
        if state.reason and state.best is not None:
            module.load_state_dict(state.best)

    def _end(self, epoch: int, state: TrainingState) -> str:
        if self.patience is not None and epoch - state.best_epoch >= self.patience:
            return f"no improvement for {self.patience} epochs"
        return "all epochs" if epoch + 1 == self.epochs else ""

    def _compare_with_guessing(self, state: TrainingState) -> None:
        if state.reason and state.accuracy <= state.commonest:  # false for NaN
            state.converged = False
            state.reason += (
                f", but accuracy {state.accuracy:.3g} is no better than always guessing the "
                f"commonest class ({state.commonest:.3g})"
            )


class MemberOptions(TypedDict, total=False):
    """The arguments that `train_members` hands on to `train_member`."""

    folder: Path | str | None
    loss: Loss
    validation: Iterable[Any] | None
    prepare: Callable[[nn.Module, int], None] | None
    stop: Stop | None
    predicted: Callable[[Any], Tensor] | None
    settings: Mapping[str, Any] | None


def train_members(
    factory: Callable[[], nn.Module],
    loader: Iterable[Any],
    *,
    members: int,
    trainer: Trainer,
    **options: Unpack[MemberOptions],
) -> list[Member]:
    """The members of an ensemble, trained one after the other, each from a seed of its own.

    Member m depends on (trainer.seed, m) only: not on the other members, nor on global random
    states. A member that does not converge is reported by a ConvergenceWarning, and stays in the
    list.

    Parameters
    ----------
    factory, loader, trainer, **options
        As for `train_member`.
    members : int
        The number of members, which get the indices 0 to `members` - 1.
    """
    found: list[Member] = []
    for index in range(check_count(members, "members")):
        member = train_member(
            factory,
            loader,
            index=index,
            trainer=trainer,
            apart_from=[earlier.module for earlier in found],
            **options,
        )
        found.append(member)
    return found


def train_member(
    factory: Callable[[], nn.Module],
    loader: Iterable[Any],
    *,
    index: int,
    trainer: Trainer,
    folder: Path | str | None = None,
    loss: Loss = cross_entropy,
    validation: Iterable[Any] | None = None,
    prepare: Callable[[nn.Module, int], None] | None = None,
    stop: Stop | None = None,
    predicted: Callable[[Any], Tensor] | None = None,
    settings: Mapping[str, Any] | None = None,
    apart_from: Iterable[nn.Module] = (),
) -> Member:
    """One member of an ensemble: built, trained, stored; or found where it was stored.

    Parameters
    ----------
    factory : callable
        Builds a fresh module at every call.
    loader, loss, validation, stop, predicted
        As for `Trainer.train`.
    index : int
        Number of the member, from 0.
    folder : path, optional
        Where finished members are kept (weights and a JSON record), and the one in the making after
        each epoch, so that nothing is trained twice. Members found there must have been made with
        the same settings; which data, beyond their number, is not checked.
    prepare : callable, optional
        Module and index, after building: another start, for instance.
    settings : mapping, optional
        Further facts, as JSON, that members in `folder` must agree with.
    apart_from : iterable of torch.nn.Module
        Modules whose trainable parameters it must not share.
    """
    check_count(index, "index", least=0)
    seed = derived_seed(trainer.seed, index)
    with randomness(derived_seed(seed), trainer.device):
        module = factory()
        _require_fresh(module, apart_from)
        if prepare is not None:
            prepare(module, index)
    facts = {
        **trainer.settings,
        **_facts(module, loss),
        **_sizes("", loader),
        **_sizes("validation_", validation),
        **(settings or {}),
        "member": index,
    }
    files = None if folder is None else MemberFiles(Path(folder), index, facts)
    training = None if files is None else files.load(module)
    if training is None:
        training = trainer._train(
            module,
            loader,
            loss,
            validation,
            seed,
            None if files is None else files.checkpoint,
            stop,
            predicted,
            facts,
            title=f"member {index}",
        )
        if files is not None:
            files.save(module, training)
    module.to(trainer.device)
    module.eval()
    if not training.converged:
        warnings.warn(
            f"member {index} did not converge: {training.reason}.", ConvergenceWarning, stacklevel=2
        )
    return Member(index, seed, module, training)


def _scalar(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"loss must return a tensor of one number: got {got}.")
    return value


def _require_repeatable(loader: Any, name: str) -> None:
    if isinstance(loader, Iterator):
        raise ValueError(
            f"{name} must give its batches anew in every epoch: got an iterator, which gives them "
            "once. Pass a DataLoader or a list."
        )


def _require_fresh(module: Any, others: Iterable[nn.Module]) -> None:
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"factory must return a module: got a {type(module).__name__}. "
            "Pass a function that builds one."
        )
    taken = {id(p) for other in others for p in other.parameters()}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and id(parameter) in taken:
            raise ValueError(
                "factory must build a fresh module at every call: "
                f"got {name!r} again, which an earlier member trains."
            )


def _facts(module: nn.Module, loss: Loss) -> dict[str, Any]:
    """What distinguishes one architecture and loss from another."""
    weights = [f"{name} {tuple(value.shape)}" for name, value in module.state_dict().items()]
    return {
        "loss": getattr(loss, "__qualname__", type(loss).__qualname__),
        "parameters": sum(p.numel() for p in module.parameters()),
        "architecture": hashlib.sha256("\n".join(weights).encode()).hexdigest()[:16],
    }


def _sizes(prefix: str, loader: Any) -> dict[str, Any]:
    """The numbers of examples and of rows per batch, if the loader knows them."""
    try:
        examples = len(loader.dataset)
    except (AttributeError, TypeError):
        examples = None
    return {
        f"{prefix}examples": examples,
        f"{prefix}batch_size": getattr(loader, "batch_size", None),
    }
