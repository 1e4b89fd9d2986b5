"""Scores of one network: from its logits, or from its dropout left on. Higher is less certain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.special import entr, logsumexp, softmax
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from decal import HullCredalSet
from decal_lab.baselines._model_outputs import batch_logits, evaluate
from decal_lab.baselines._randomness import randomness
from decal_lab.checks import Array, check_choice, check_count, check_logits

__all__ = ["MCDropout", "energy", "entropy", "max_softmax"]


def max_softmax(logits: Any) -> Array:
    """(n,) one minus the greatest probability, as the sum of the others: exact however small.

    Examples
    --------
    >>> from decal_lab.baselines import max_softmax
    >>> max_softmax([[50.0, 0.0], [0.0, 0.0]])
    array([1.92874985e-22, 5.00000000e-01])
    """
    others, _ = _beside_the_largest(logits)
    total = others.sum(axis=1)
    return np.asarray(total / (1 + total))


def entropy(logits: Any) -> Array:
    """(n,) entropy of the prediction in nats, exact for logits of any size.

    Examples
    --------
    >>> from decal_lab.baselines import entropy
    >>> entropy([[50.0, 0.0], [0.0, 0.0]])
    array([9.83662422e-21, 6.93147181e-01])
    """
    # With others e and their sum s, p = e / (1 + s) and -log p = log(1 + s) + gap, and the largest
    # has gap 0: all terms are positive, so that none loses a digit.
    others, gap = _beside_the_largest(logits)
    total = others.sum(axis=1)
    gained = np.where(others > 0, others * gap, 0.0).sum(axis=1)  # 0 times a gap of inf is 0
    return np.asarray(np.log1p(total) + gained / (1 + total))


def energy(logits: Any) -> Array:
    """(n,) the negative logsumexp of the logits (Liu et al. 2020), at temperature one.

    Unlike the other scores it changes when all logits of a row are shifted alike.

    Examples
    --------
    >>> from decal_lab.baselines import energy
    >>> energy([[10.0, 0.0], [0.0, 0.0]])
    array([-10.0000454 ,  -0.69314718])
    """
    z = check_logits(logits).astype(np.float64)
    return np.asarray(-logsumexp(z, axis=1))


class MCDropout:
    """One trained network as an ensemble: predictions with dropout on, several times (Gal 2016).

    Only the dropout layers are switched on; batch norms and all else stay as for evaluation, and
    all modes are restored afterwards. Dropout layers are those of `torch.nn`; functions such as
    `torch.nn.functional.dropout` inside a module's code stay off.

    Parameters
    ----------
    module : torch.nn.Module
        A trained network with dropout layers, inputs to logits (n, K).
    passes : int
        Predictions per input.
    seed : int
        Seed of the dropout: the same inputs, in the same batches, get the same answers. Global
        random states are left as found.
    measure : str
        What `score` is: "mutual_information" of the class and the dropout, or "entropy" of the mean
        prediction; both in nats.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import MCDropout, small_conv
    >>> images = torch.zeros(3, 1, 28, 28)
    >>> method = MCDropout(small_conv(10), passes=5)
    >>> method.score(images).shape, method.predict_proba(images).shape
    ((3,), (3, 10))
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        passes: int = 20,
        seed: int = 0,
        measure: str = "mutual_information",
    ) -> None:
        if not any(layer.p > 0 for layer in _dropouts(module)):
            raise ValueError(
                "module must have dropout layers with a positive rate: got none of them."
            )
        self.module = module
        self.passes = check_count(passes, "passes")
        self.seed = check_count(seed, "seed", least=0)
        self.measure = check_choice(measure, "measure", ("mutual_information", "entropy"))

    def score(self, inputs: Any) -> Array:
        """(n,) how uncertain: by `measure`, in nats."""
        p = self._predictions(inputs)
        total = entr(p.mean(axis=1)).sum(axis=1)
        if self.measure == "entropy":
            return np.asarray(total)
        within = entr(p).sum(axis=2).mean(axis=1)
        return np.asarray(np.maximum(total - within, 0.0))

    def predict_proba(self, inputs: Any) -> Array:
        """(n, K) the mean over the passes."""
        return np.asarray(self._predictions(inputs).mean(axis=1))

    def predict_credal(self, inputs: Any) -> HullCredalSet:
        """The convex hull of the passes, for every input."""
        return HullCredalSet(self._predictions(inputs), axis=1)

    def _predictions(self, inputs: Any) -> Array:
        """(n, passes, K) probabilities."""

        def passes(module: nn.Module, batch: Any) -> Tensor:
            for layer in _dropouts(module):
                layer.train()
            return torch.stack([batch_logits(module, batch) for _ in range(self.passes)], dim=1)

        tensor = next(self.module.parameters(), torch.empty(0))
        with randomness(self.seed, tensor.device):
            logits = evaluate(passes, [self.module], inputs)[:, 0]
        return np.asarray(softmax(logits, axis=2))


def _dropouts(module: nn.Module) -> list[_DropoutNd]:
    return [layer for layer in module.modules() if isinstance(layer, _DropoutNd)]


def _beside_the_largest(logits: Any) -> tuple[Array, Array]:
    """(n, K) odds of every class against the most probable one, 0 for that itself; their logs."""
    z = check_logits(logits).astype(np.float64)
    with np.errstate(over="ignore"):  # gaps of more than the largest float: odds of 0
        gap = z.max(axis=1, keepdims=True) - z
    odds = np.exp(-gap)
    odds[np.arange(len(z)), z.argmax(axis=1)] = 0.0
    return odds, gap
