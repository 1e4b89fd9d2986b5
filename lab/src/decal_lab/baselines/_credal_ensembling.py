"""Credal Ensembling: the convex hull of the members that agree most with the ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import rel_entr
from torch import nn

from decal import HullCredalSet
from decal_lab.baselines._ensemble_base import Ensemble
from decal_lab.baselines._trainer import Trainer
from decal_lab.checks import Array, check_alpha, check_choice, check_member_probabilities

__all__ = ["CredalEnsembling", "credal_ensembling"]

TIE_DECIMALS = 12
"""Distances that agree to this number of decimals are equal: the earlier member is closer."""


def _kl(p: Array, mean: Array) -> Array:
    # Of the member from the mean, which is positive wherever a member is: always finite.
    return np.asarray(rel_entr(p, mean).sum(axis=2))


DISTANCES: dict[str, Callable[[Array, Array], Array]] = {
    "euclidean": lambda p, mean: np.sqrt(np.square(p - mean).sum(axis=2)),
    "manhattan": lambda p, mean: np.abs(p - mean).sum(axis=2),
    "chebyshev": lambda p, mean: np.abs(p - mean).max(axis=2),
    "kl": _kl,
    "hellinger": lambda p, mean: np.sqrt(np.square(np.sqrt(p) - np.sqrt(mean)).sum(axis=2) / 2),
}
"""Members (n, M, K) and their mean (n, 1, K) to distances (n, M)."""


def credal_ensembling(
    probabilities: Any,
    alpha: float = 0.0,
    *,
    distance: str = "euclidean",
    classes: Iterable[Any] | None = None,
) -> HullCredalSet:
    """The convex hull of the share 1 - alpha of members that is closest to their mean.

    Parameters
    ----------
    probabilities : (n, M, K) array
        Inputs × members × classes, as for `HullCredalSet`.
    alpha : float
        Share of members to discard, in [0, 1]: 0 keeps all. (1 - alpha) M is rounded, half to even
        as the published code does, and at least one member stays.
    distance : str
        From the mean of the members: "euclidean", "manhattan", "chebyshev", "kl" (of the member
        from the mean) or "hellinger". Of equally distant members the earlier ones stay.
    classes : iterable, optional
        K names.

    Returns
    -------
    HullCredalSet
        Whose vertices are the members kept, in their order. Its point is their mean.

    Notes
    -----
    Differs from the paper in: the representative is the mean for every distance, where the paper
    has others. The mean minimises the sum of squared Euclidean distances and that of KL
    divergences, not the sums of the other distances.

    References
    ----------
    Nguyen, Zhang and Destercke (2025), "Credal ensembling in multi-class classification".

    Examples
    --------
    >>> from decal_lab.baselines import credal_ensembling
    >>> members = [[[0.5, 0.5], [0.6, 0.4], [0.0, 1.0]]]
    >>> credal_ensembling(members, alpha=1 / 3)
    HullCredalSet: 1 input, 2 vertices, 2 classes, mean width 0.100
      0  0 [0.500, 0.600]  1 [0.400, 0.500]
    """
    p = check_member_probabilities(probabilities)
    alpha = check_alpha(alpha)
    check_choice(distance, "distance", tuple(DISTANCES))
    M = p.shape[1]
    kept = max(1, round((1 - alpha) * M))
    d = DISTANCES[distance](p, p.mean(axis=1, keepdims=True)).round(TIE_DECIMALS)
    closest = np.sort(np.argsort(d, axis=1, kind="stable")[:, :kept], axis=1)
    return HullCredalSet(
        np.take_along_axis(p, closest[:, :, None], axis=1), axis=1, classes=classes
    )


class CredalEnsembling(Ensemble):
    """An ensemble whose credal sets are hulls of the members closest to their mean.

    Parameters
    ----------
    factory, members, trainer, folder
        As for `CredalWrapper`.
    alpha : float, optional
        The share of members to discard for each input, in [0, 1]; `predict_credal` takes any other.
    distance : str, optional
        As for `credal_ensembling`.

    Attributes
    ----------
    members, trainings
        As for `CredalWrapper`.

    See Also
    --------
    credal_ensembling : The same for given predictions.

    Examples
    --------
    >>> from decal_lab.baselines import CredalEnsembling
    >>> logits = [[[0.0, 0.0]], [[0.4, 0.0]], [[-5.0, 0.0]]]
    >>> CredalEnsembling.from_logits(logits).predict_credal(alpha=0.3)
    HullCredalSet: 1 input, 2 vertices, 2 classes, mean width 0.099
      0  0 [0.500, 0.599]  1 [0.401, 0.500]
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module] | None,
        *,
        alpha: float = 0.0,
        distance: str = "euclidean",
        members: int = 10,
        trainer: Trainer | None = None,
        folder: Path | str | None = None,
    ) -> None:
        super().__init__(factory, members=members, trainer=trainer, folder=folder)
        self.alpha = check_alpha(alpha)
        self.distance = check_choice(distance, "distance", tuple(DISTANCES))

    def predict_credal(self, inputs: Any = None, *, alpha: float | None = None) -> HullCredalSet:
        """The credal set of every input.

        Parameters
        ----------
        inputs
            An array or a tensor (n, ...), or a loader of batches; for estimators whatever their
            predict_proba takes; nothing for an ensemble made of saved logits.
        alpha : float, optional
            By default that of the method.
        """
        return credal_ensembling(
            self.member_probabilities(inputs),
            self.alpha if alpha is None else alpha,
            distance=self.distance,
            classes=self._class_names,
        )
