"""Credal Bayesian deep learning: variational networks under several priors, and their hull."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812

from decal import HullCredalSet, NotFittedError
from decal.torch.batches import label_tensor, model_logits, split_batch
from decal_lab.baselines._model_outputs import model_probabilities
from decal_lab.baselines._randomness import derived_seed
from decal_lab.baselines._trainer import Trainer, Training, train_member
from decal_lab.checks import Array, check_count, check_tolerance

__all__ = ["CredalBayesian", "Variational", "even_priors"]

WITH_PRIOR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers with random weights and biases. Others, such as normalisations, are trained as usual."""


class CredalBayesian:
    """One Bayesian network per prior, and all mixtures of what they predict (Caprio et al., 2024).

    The posterior of every prior is approximated by independent Gaussians (Bayes by backprop,
    Blundell et al. 2015). A prediction draws one set of weights from each; the credal set is the
    hull of their predictions. So it reflects both the choice of prior and the spread of posteriors.

    Parameters
    ----------
    factory : callable
        Builds a fresh network with outputs (n, K), of any kind: its linear and convolutional layers
        become random, by substituting drawn weights.
    members : int
        Networks to train, each under its own prior.
    priors : sequence, optional
        The mean and standard deviation of every weight, a pair per member. By default
        `even_priors(members)`.
    kl_weight : float, optional
        Weight of the Kullback-Leibler divergence from the prior, against a mean loss per example.
        By default 1 / N for N training examples, the evidence lower bound. The published
        comparisons use 1e-7: large networks with few data otherwise stay close to their prior.
    deviation : float
        Deviation of the posteriors, at the start.
    trainer : Trainer, optional
        How to train.
    folder : path, optional
        Where to keep the trained networks, as for `train_member`.

    Attributes
    ----------
    members, trainings
        The trained networks, each a `Variational`, and their records.
    priors
        (mean, deviation) of each.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import CredalBayesian, Trainer
    >>> x = torch.linspace(-1, 1, 80)[:, None]
    >>> loader = [(x, (x[:, 0] > 0).long())]
    >>> trainer = Trainer(epochs=60, learning_rate=0.1)
    >>> method = CredalBayesian(lambda: torch.nn.Linear(1, 2), members=3, trainer=trainer)
    >>> method.fit(loader).predict_credal(x).vertices.shape
    (80, 3, 2)
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module],
        *,
        members: int = 10,
        priors: Sequence[tuple[float, float]] | None = None,
        kl_weight: float | None = None,
        deviation: float = 0.05,
        trainer: Trainer | None = None,
        folder: Path | str | None = None,
    ) -> None:
        check_count(members, "members")
        self.factory = factory
        self.priors = even_priors(members) if priors is None else list(priors)
        if len(self.priors) != members:
            raise ValueError(
                f"priors must be {members} pairs, one per member: got {len(self.priors)}."
            )
        for mean, spread in self.priors:
            if not (math.isfinite(mean) and math.isfinite(spread) and spread > 0):
                raise ValueError(
                    "priors must be pairs of a finite mean and a positive standard deviation: "
                    f"got ({mean}, {spread})."
                )
        self.kl_weight = None if kl_weight is None else check_tolerance(kl_weight, "kl_weight")
        self.deviation = check_tolerance(deviation, "deviation")
        if deviation == 0:
            raise ValueError("deviation must be positive: got 0.")
        self.trainer = Trainer() if trainer is None else trainer
        self.folder = folder
        self.members: tuple[Variational, ...] = ()
        self.trainings: tuple[Training, ...] = ()

    def fit(self, loader: Iterable[Any], validation: Iterable[Any] | None = None) -> Self:
        """Train a network under each prior on labelled batches."""
        weight = 1 / _examples(loader) if self.kl_weight is None else self.kl_weight

        def evidence_bound(module: nn.Module, inputs: Any, labels: Tensor, epoch: int) -> Tensor:  # noqa: ARG001
            assert isinstance(module, Variational)
            outputs = model_logits(module, inputs, len(labels))
            return F.cross_entropy(outputs, labels) + weight * module.divergence()

        members: list[Variational] = []
        trainings = []
        for index, (mean, spread) in enumerate(self.priors):
            member = train_member(
                lambda prior=(mean, spread): Variational(  # type: ignore[misc]
                    self.factory(), prior=prior, deviation=self.deviation
                ),
                loader,
                index=index,
                trainer=self.trainer,
                folder=self.folder,
                loss=evidence_bound,
                validation=validation,
                settings={
                    "prior": [mean, spread],
                    "kl_weight": weight,
                    "deviation": self.deviation,
                },
                apart_from=members,
            )
            assert isinstance(member.module, Variational)
            members.append(member.module)
            trainings.append(member.training)
        self.members, self.trainings = tuple(members), tuple(trainings)
        return self

    def predict_credal(self, inputs: Any, *, seed: int | None = None) -> HullCredalSet:
        """The hull of one draw from each posterior, (n, M, K).

        Parameters
        ----------
        inputs
            An array or tensor of inputs, or a loader of batches.
        seed : int, optional
            Seed of the draws, one per member for all inputs. By default that of the trainer, so
            that the same inputs get the same answer.
        """
        if not self.members:
            raise NotFittedError("CredalBayesian has seen no data. Call fit first.")
        seed = self.trainer.seed if seed is None else check_count(seed, "seed", least=0)
        drawn = [m.draw(seed=derived_seed(seed, i)) for i, m in enumerate(self.members)]
        return HullCredalSet(model_probabilities(drawn, inputs), axis=1)

    def predict_proba(self, inputs: Any, *, seed: int | None = None) -> Array:
        """(n, K) the mean of the draws from all posteriors."""
        return self.predict_credal(inputs, seed=seed).point


class Variational(nn.Module):
    """A network with independent Gaussian weights: every call draws new ones.

    Works for any module: weights and biases of its linear and convolutional layers are replaced by
    draws when it is called. Their means are the parameters of the module itself, so that they start
    as it would, and the deviations are softplus of `raw_deviations`.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    prior : tuple of float
        Mean and standard deviation of every random weight.
    deviation : float
        Standard deviation of the posteriors, at the start.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines._bayesian import Variational
    >>> net = Variational(torch.nn.Linear(3, 2), prior=(0.0, 1.0), deviation=0.05)
    >>> {name: tuple(mean.shape) for name, (mean, _) in net.posterior().items()}
    {'weight': (2, 3), 'bias': (2,)}
    """

    def __init__(self, module: nn.Module, *, prior: tuple[float, float], deviation: float) -> None:
        super().__init__()
        self.module = module
        self.prior = prior
        found = {
            id(parameter): (f"{path}.{name}" if path else name, parameter)
            for path, layer in module.named_modules()
            if isinstance(layer, WITH_PRIOR)
            for name, parameter in layer.named_parameters(recurse=False)
        }  # by identity: a weight that two layers share is drawn once
        if not found:
            raise ValueError(
                "factory must build a network with linear or convolutional layers: got none of "
                f"them in {type(module).__name__}."
            )
        self.names = tuple(name for name, _ in found.values())
        start = math.log(math.expm1(deviation))
        self.raw_deviations = nn.ParameterList(
            torch.full_like(parameter, start) for _, parameter in found.values()
        )

    def posterior(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Mean and standard deviation of every random weight, by the name of its tensor."""
        return {
            name: (self.module.get_parameter(name), F.softplus(raw))
            for name, raw in zip(self.names, self.raw_deviations, strict=True)
        }

    def divergence(self) -> Tensor:
        """KL(posterior || prior), summed over all random weights, in nats."""
        m, sigma = self.prior
        terms = [
            (torch.log(sigma / s) + (s**2 + (mean - m) ** 2) / (2 * sigma**2) - 0.5).sum()
            for mean, s in self.posterior().values()
        ]
        return torch.stack(terms).sum()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The network's output with weights drawn for this call."""
        drawn = {
            name: mean + s * torch.randn_like(s) for name, (mean, s) in self.posterior().items()
        }
        return functional_call(self.module, drawn, inputs, named)

    @torch.no_grad()
    def draw(self, *, seed: int) -> nn.Module:
        """A copy of the network with fixed weights, drawn from the posterior."""
        generator = torch.Generator().manual_seed(seed)
        module = copy.deepcopy(self.module)
        for name, (mean, s) in self.posterior().items():
            noise = torch.randn(s.shape, generator=generator, dtype=s.dtype)
            module.get_parameter(name).copy_(mean + s * noise.to(s.device))
        return module


def even_priors(
    members: int,
    *,
    means: tuple[float, float] = (-1.0, 1.0),
    deviations: tuple[float, float] = (0.1, 2.0),
) -> list[tuple[float, float]]:
    """Pairs (mean, deviation), evenly spread from the first of both to the last of both.

    Differs from the published comparisons in: they draw the deviations at random.
    """
    check_count(members, "members")
    pairs = zip(np.linspace(*means, members), np.linspace(*deviations, members), strict=True)
    return [(float(mean), float(deviation)) for mean, deviation in pairs]


def _examples(loader: Any) -> int:
    """The number of examples of a loader; counted if it does not know."""
    try:
        return max(1, len(loader.dataset))
    except (AttributeError, TypeError):
        return max(1, sum(len(label_tensor(split_batch(batch)[1])) for batch in loader))
