"""Credal Wrapper: intervals between the least and the greatest prediction of an ensemble."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from decal import IntervalCredalSet
from decal_lab.baselines._ensemble_base import Ensemble
from decal_lab.checks import check_member_probabilities

__all__ = ["CredalWrapper", "credal_wrapper"]


def credal_wrapper(
    probabilities: Any, *, classes: Iterable[Any] | None = None
) -> IntervalCredalSet:
    """For every class the least and the greatest probability that a member gives it.

    Parameters
    ----------
    probabilities : (n, M, K) array
        Inputs × members × classes, as for `HullCredalSet`.
    classes : iterable, optional
        K names.

    Returns
    -------
    IntervalCredalSet
        With the mean of the members as point. Never empty: all members are inside.

    Notes
    -----
    Differs from the paper in: the point. The paper predicts the intersection probability, which is
    `credal.intersection_probability()`.

    References
    ----------
    Wang, Cuzzolin, Shariatmadar, Moens and Hallez (2025), "Credal wrapper of model averaging for
    uncertainty estimation in classification".

    Examples
    --------
    >>> from decal_lab.baselines import credal_wrapper
    >>> credal_wrapper([[[0.9, 0.1, 0.0], [0.5, 0.2, 0.3]]])
    IntervalCredalSet: 1 input, 3 classes, mean width 0.267
      0  0 [0.500, 0.900]  2 [0.000, 0.300]  1 [0.100, 0.200]
    """
    p = check_member_probabilities(probabilities)
    return IntervalCredalSet(p.min(axis=1), p.max(axis=1), point=p.mean(axis=1), classes=classes)


class CredalWrapper(Ensemble):
    """An ensemble whose credal sets are the boxes around its members' predictions.

    Parameters
    ----------
    factory : callable
        Builds a fresh module, inputs to logits (n, K), at every call.
    members : int, optional
        The number of members to train.
    trainer : Trainer, optional
        How to train; by default `Trainer()`.
    folder : path, optional
        Where trained members are kept and found again; see `train_members`.

    Attributes
    ----------
    members : tuple
        The trained modules, or the models given to `from_models`.
    trainings : tuple of Training
        The record of each training.

    See Also
    --------
    credal_wrapper : The same for given predictions.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import CredalWrapper, Trainer, mlp
    >>> x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    >>> loader = [(x, (x[:, 0] > 0).long())]
    >>> trainer = Trainer(epochs=30, learning_rate=0.05)
    >>> w = CredalWrapper(lambda: mlp(2, inputs=2, hidden=(8,)), members=3, trainer=trainer)
    >>> w.fit(loader).predict_credal(x[:5]).shape
    (5, 2)
    """

    def predict_credal(self, inputs: Any = None) -> IntervalCredalSet:
        """The credal set of every input.

        Parameters
        ----------
        inputs
            An array or a tensor (n, ...), or a loader of batches; for estimators whatever their
            predict_proba takes; nothing for an ensemble made of saved logits.
        """
        return credal_wrapper(self.member_probabilities(inputs), classes=self._class_names)
