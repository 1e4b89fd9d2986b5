"""Credal prediction by relative likelihood: networks stopped at chosen shares of the best fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy

from decal import IntervalCredalSet, NotFittedError
from decal.torch.batches import evaluating, label_tensor, model_logits, move, split_batch
from decal_lab.baselines._model_outputs import model_probabilities
from decal_lab.baselines._randomness import randomness
from decal_lab.baselines._trainer import ConvergenceWarning, Trainer, Training, train_member
from decal_lab.checks import Array, check_alpha, check_alphas, check_count

__all__ = ["CredalRelativeLikelihood"]


class CredalRelativeLikelihood:
    """Networks of chosen relative likelihood, and the box around the plausible ones.

    The method of Löhr, Hofman, Mohr and Hüllermeier (2025, "Credal prediction based on relative
    likelihood"). The first network is trained as usual and stands for the maximum-likelihood model.
    Each of the others starts out certain of one class and is stopped as soon as its relative
    likelihood reaches a target. The credal set at alpha is the box around the predictions of all
    networks whose relative likelihood is at least alpha: one fit serves every alpha.

    Parameters
    ----------
    factory : callable
        Builds a fresh network with outputs (n, K), whose last linear layer, `.head` if it has one,
        has a bias.
    alpha : float
        Least relative likelihood of the networks that a credal set holds, in [0, 1];
        `predict_credal` takes any other.
    members : int
        Networks to train, the maximum-likelihood one included: M.
    targets : (M - 1,) array, optional
        Relative likelihoods to stop at, in (0, 1). By default evenly spread, 1 / M, …, (M - 1) / M.
        The published experiments train anew for every alpha, with targets
        `np.linspace(alpha, 1, M - 1, endpoint=False)`.
    bias : float
        What the last layer's bias of one class starts at, each network its own class in turn; 100
        as published. It takes long to unlearn, and its gradients may kill ReLUs: with few epochs,
        or where targets are missed, 10 serves as well.
    check_every : int
        Batches between two checks of the relative likelihood, which is also checked after every
        epoch. A check costs one pass over the data, without gradients. With rare checks targets are
        overshot; `relative_likelihoods` tells by how much.
    trainer : Trainer, optional
        How to train. `patience` applies to the maximum-likelihood network only.
    folder : path, optional
        Where to keep the trained networks, as for `train_member`.

    Attributes
    ----------
    members, trainings
        The trained networks, the maximum-likelihood one first, and their records.
    targets : (M,) array
        The first being 1.
    relative_likelihoods : (M,) array
        What each reached: exp of its mean log-likelihood per example on the training data, in
        evaluation mode, minus that of the first. Above 1 if a network turned out better than the
        first; NaN if its training diverged, and then no credal set holds it.

    Notes
    -----
    As in the authors' code, likelihoods are geometric means per example: they do not shrink with
    the number of examples.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import CredalRelativeLikelihood, Trainer
    >>> x = torch.linspace(-1, 1, 80)[:, None]
    >>> loader = [(x, (x[:, 0] > 0).long())]
    >>> trainer = Trainer(epochs=200, learning_rate=0.1)
    >>> method = CredalRelativeLikelihood(
    ...     lambda: torch.nn.Linear(1, 2), members=4, bias=5, trainer=trainer
    ... )
    >>> method.fit(loader).targets
    array([1.  , 0.25, 0.5 , 0.75])
    >>> bool((method.relative_likelihoods >= method.targets).all())
    True
    >>> method.predict_credal(x, alpha=0.5).shape
    (80, 2)
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module],
        *,
        alpha: float = 0.8,
        members: int = 10,
        targets: Sequence[float] | None = None,
        bias: float = 100.0,
        check_every: int = 10,
        trainer: Trainer | None = None,
        folder: Path | str | None = None,
    ) -> None:
        count = check_count(members, "members", least=2)
        self.factory = factory
        self.alpha = check_alpha(alpha)
        others = np.arange(1, count) / count if targets is None else check_alphas(targets)
        if len(others) != count - 1:
            raise ValueError(
                f"targets must be {count - 1}, one per member but the first: got {len(others)}."
            )
        if (others == 0).any():
            raise ValueError("targets must be positive: got 0. Every network reaches it at once.")
        self.targets: Array = np.append(1.0, others)
        self.bias = float(bias)
        self.check_every = check_count(check_every, "check_every")
        self.trainer = Trainer() if trainer is None else trainer
        self.folder = folder
        self.members: tuple[nn.Module, ...] = ()
        self.trainings: tuple[Training, ...] = ()
        self.relative_likelihoods: Array = np.array([])

    def fit(self, loader: Iterable[Any], validation: Iterable[Any] | None = None) -> Self:
        """Train all networks on labelled batches.

        Warns
        -----
        ConvergenceWarning
            For a network that ended below its target, with what it reached.
        """
        if getattr(loader, "persistent_workers", False):
            raise ValueError(
                "loader must not keep persistent workers, which cannot go through the data while "
                "an epoch is under way: got persistent_workers=True."
            )
        best = train_member(
            self.factory,
            loader,
            index=0,
            trainer=self.trainer,
            folder=self.folder,
            validation=validation,
        )
        reference = mean_log_likelihood(best.module, loader)

        def relative_likelihood(module: nn.Module) -> float:
            with np.errstate(over="ignore"):
                return float(np.exp(mean_log_likelihood(module, loader) - reference))

        members, reached = [best], [1.0]
        for index, target in enumerate(self.targets[1:], start=1):
            batches = _BatchesUntilTarget(
                loader, relative_likelihood, target=float(target), every=self.check_every
            )
            member = train_member(
                self.factory,
                batches,
                index=index,
                trainer=replace(self.trainer, patience=None),
                folder=self.folder,
                prepare=partial(batches.start, bias=self.bias),
                stop=batches.stop,
                settings={
                    "target": float(target),
                    "bias": self.bias,
                    "check_every": self.check_every,
                },
                apart_from=[m.module for m in members],
            )
            members.append(member)
            reached.append(relative_likelihood(member.module))
            if not reached[-1] >= target:
                warnings.warn(
                    f"member {index} must reach a relative likelihood of {target:.3g}: got "
                    f"{reached[-1]:.3g} after {member.training.epochs} of {self.trainer.epochs} "
                    f"epochs ({member.training.reason}). Train longer, or with a smaller bias.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        self.members = tuple(m.module for m in members)
        self.trainings = tuple(m.training for m in members)
        self.relative_likelihoods = np.array(reached)
        return self

    def plausible(self, alpha: float) -> NDArray[np.intp]:
        """Indices of the members whose relative likelihood is at least alpha: 0, and others."""
        self._fitted()
        return np.flatnonzero(self.relative_likelihoods >= check_alpha(alpha))

    def predict_credal(self, inputs: Any, *, alpha: float | None = None) -> IntervalCredalSet:
        """Box around the predictions of plausible networks; the point is the first network's.

        Parameters
        ----------
        inputs
            An array or tensor of inputs, or a loader of batches.
        alpha : float, optional
            By default that of the method.
        """
        kept = self.plausible(self.alpha if alpha is None else alpha)
        said = model_probabilities([self.members[m] for m in kept], inputs)
        return IntervalCredalSet(said.min(axis=1), said.max(axis=1), point=said[:, 0])

    def predict_proba(self, inputs: Any) -> Array:
        """(n, K) the prediction of the maximum-likelihood network."""
        return model_probabilities([self._fitted()[0]], inputs)[:, 0]

    def _fitted(self) -> tuple[nn.Module, ...]:
        if not self.members:
            raise NotFittedError("CredalRelativeLikelihood has seen no data. Call fit first.")
        return self.members


class _BatchesUntilTarget:
    """The batches of a loader, until the module trained on them reaches its target.

    The relative likelihood is computed between two batches, after the step on the first of them. At
    the target the epoch ends; the trainer then calls `stop`, which ends the training.
    """

    def __init__(
        self,
        loader: Iterable[Any],
        relative_likelihood: Callable[[nn.Module], float],
        *,
        target: float,
        every: int,
    ) -> None:
        self.loader = loader
        self.relative_likelihood = relative_likelihood
        self.target = target
        self.every = every
        self.reached = False

    def __getattr__(self, name: str) -> Any:
        """Other attributes are the loader's: a trainer reads its generators and sizes."""
        return getattr(self.loader, name)

    def start(self, module: nn.Module, index: int, *, bias: float) -> None:
        """Make the module certain of one class."""
        self.module = module
        head = _last_linear(module)
        with torch.no_grad():
            head.bias[(index - 1) % head.out_features] = bias

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self.loader, start=1):
            yield batch
            if number % self.every == 0 and self._check():
                return

    def stop(self, module: nn.Module, epoch: int) -> bool:  # noqa: ARG002
        return self.reached or self._check()

    def _check(self) -> bool:
        self.reached = self.relative_likelihood(self.module) >= self.target
        return self.reached


def _last_linear(module: nn.Module) -> nn.Linear:
    head = getattr(module, "head", None)
    if not isinstance(head, nn.Linear):
        head = next((m for m in list(module.modules())[::-1] if isinstance(m, nn.Linear)), None)
    if head is None or head.bias is None:
        raise ValueError(
            "factory must build a network whose last linear layer has a bias: "
            f"got {'none' if head is None else head} in {type(module).__name__}."
        )
    return head


def mean_log_likelihood(module: nn.Module, loader: Iterable[Any]) -> float:
    """Mean log-probability of the labels, in evaluation mode; NaN if the module gives NaN.

    Leaves modes and random states as they were, so that it may be computed during an epoch.
    """
    total, rows = 0.0, 0
    with evaluating(module) as home, randomness(0, home or "cpu", loader):
        for batch in loader:
            inputs, y = split_batch(batch)
            labels = label_tensor(y)
            with torch.inference_mode():
                # `forward`, because a call would run the hook that counts answers in training.
                outputs = model_logits(module.forward, move(inputs, home), len(labels))
                logits = outputs.double().cpu()
                total -= float(cross_entropy(logits, labels, reduction="sum"))
            rows += len(labels)
    return total / rows
