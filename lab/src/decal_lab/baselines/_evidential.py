"""Evidential deep learning: a network that predicts how much evidence it has for every class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from decal import NotFittedError
from decal.torch.batches import model_logits
from decal_lab.baselines._model_outputs import member_logits
from decal_lab.baselines._trainer import Trainer, Training, train_member
from decal_lab.checks import Array, check_choice, check_count

__all__ = ["Evidential"]

EVIDENCE: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "softplus": F.softplus}
"""Outputs of a network to evidence, which is not negative."""


class Evidential:
    """A Dirichlet distribution per input, from one network (Sensoy et al., NeurIPS 2018).

    The outputs of the network, made nonnegative, count as evidence e; the prediction is the
    Dirichlet distribution with alpha = e + 1, of strength S = sum alpha. Without evidence it is
    uniform, and the uncertainty K / S is 1.

    Parameters
    ----------
    factory : callable
        Builds a fresh network with outputs (n, K).
    trainer : Trainer, optional
        How to train.
    evidence : str
        "relu", as in the paper, or "softplus". Where "relu" gives an example no evidence at all it
        has no gradient either; if training stalls, "softplus" does not.
    annealing : int
        Epochs over which the penalty on misleading evidence grows to its full weight.
    folder : path, optional
        Where to keep the trained network, as for `train_member`.

    Attributes
    ----------
    members, trainings
        The trained network and its record, one of each.

    Notes
    -----
    The loss of an example with label y is its expected squared error under the Dirichlet, plus
    min(1, epoch / annealing) times KL(Dir(alpha') || Dir(1)), where alpha' is alpha with the right
    class set to 1: evidence for wrong classes should vanish. Epochs count from 0.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import Evidential, Trainer
    >>> x = torch.linspace(-1, 1, 80)[:, None]
    >>> loader = [(x, (x[:, 0] > 0).long())]
    >>> trainer = Trainer(epochs=60, learning_rate=0.1)
    >>> method = Evidential(lambda: torch.nn.Linear(1, 2), trainer=trainer, evidence="softplus")
    >>> scores = method.fit(loader).score(torch.tensor([[0.0], [1.0]]))
    >>> bool(scores[0] > scores[1])
    True
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module],
        *,
        trainer: Trainer | None = None,
        evidence: str = "relu",
        annealing: int = 10,
        folder: Path | str | None = None,
    ) -> None:
        self.factory = factory
        self.trainer = Trainer() if trainer is None else trainer
        self.evidence = check_choice(evidence, "evidence", tuple(EVIDENCE))
        self.annealing = check_count(annealing, "annealing")
        self.folder = folder
        self.members: tuple[nn.Module, ...] = ()
        self.trainings: tuple[Training, ...] = ()

    def fit(self, loader: Iterable[Any], validation: Iterable[Any] | None = None) -> Self:
        """Train the network on labelled batches."""
        member = train_member(
            self.factory,
            loader,
            index=0,
            trainer=self.trainer,
            folder=self.folder,
            loss=self._loss,
            validation=validation,
            settings={"evidence": self.evidence, "annealing": self.annealing},
        )
        self.members, self.trainings = (member.module,), (member.training,)
        return self

    def dirichlet(self, inputs: Any) -> Array:
        """(n, K) parameters alpha of the predicted Dirichlet distributions."""
        if not self.members:
            raise NotFittedError("Evidential has seen no data. Call fit first.")
        outputs = torch.from_numpy(member_logits(self.members[0], inputs))
        return np.asarray(EVIDENCE[self.evidence](outputs).numpy() + 1)

    def score(self, inputs: Any) -> Array:
        """(n,) uncertainty K / S in (0, 1]: the mass that no evidence supports."""
        alpha = self.dirichlet(inputs)
        return np.asarray(alpha.shape[1] / alpha.sum(axis=1))

    def predict_proba(self, inputs: Any) -> Array:
        """(n, K) the mean of the Dirichlet, alpha / S."""
        alpha = self.dirichlet(inputs)
        return np.asarray(alpha / alpha.sum(axis=1, keepdims=True))

    def _loss(self, module: nn.Module, inputs: Any, labels: Tensor, epoch: int) -> Tensor:
        outputs = model_logits(module, inputs, len(labels))
        alpha = EVIDENCE[self.evidence](outputs) + 1
        weight = min(1.0, epoch / self.annealing)
        risk, penalty = squared_error(alpha, labels), misleading_evidence(alpha, labels)
        return (risk + weight * penalty).mean()


def squared_error(alpha: Tensor, labels: Tensor) -> Tensor:
    """(n,) E ||y - p||^2 for p from Dir(alpha): squared bias plus variance, class by class."""
    strength = alpha.sum(dim=1, keepdim=True)
    mean = alpha / strength
    bias = F.one_hot(labels, alpha.shape[1]) - mean
    return (bias**2 + mean * (1 - mean) / (strength + 1)).sum(dim=1)


def misleading_evidence(alpha: Tensor, labels: Tensor) -> Tensor:
    """(n,) KL(Dir(alpha') || Dir(1)), alpha' being alpha with 1 at the label."""
    wrong = alpha.scatter(1, labels[:, None], 1.0)
    strength = wrong.sum(dim=1)
    log_ratio = (
        torch.lgamma(strength)
        - torch.lgamma(wrong).sum(dim=1)
        - torch.lgamma(strength.new_tensor(float(alpha.shape[1])))
    )
    surprise = torch.digamma(wrong) - torch.digamma(strength)[:, None]
    return log_ratio + ((wrong - 1) * surprise).sum(dim=1)
