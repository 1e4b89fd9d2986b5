"""The base of methods that make one credal set of the predictions of several classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from torch import nn

from decal import NotFittedError
from decal_lab.baselines._model_outputs import model_probabilities
from decal_lab.baselines._trainer import Trainer, Training, train_members
from decal_lab.checks import Array, check_count, check_member_logits

__all__ = ["Ensemble"]


class Ensemble:
    """Several classifiers: trained here, given as models, or given by their logits."""

    def __init__(
        self,
        factory: Callable[[], nn.Module] | None,
        *,
        members: int = 10,
        trainer: Trainer | None = None,
        folder: Path | str | None = None,
    ) -> None:
        self.factory = factory
        self.size = check_count(members, "members")
        self.trainer = Trainer() if trainer is None else trainer
        self.folder = folder
        self.members: tuple[Any, ...] = ()
        self.trainings: tuple[Training, ...] = ()
        self._saved: Array | None = None

    @classmethod
    def from_models(cls, models: Iterable[Any], **settings: Any) -> Self:
        """The method for classifiers that are already trained.

        Parameters
        ----------
        models : iterable
            Modules that return logits (n, K), or scikit-learn estimators with predict_proba; all of
            one kind, and with the same classes.
        **settings
            Those of the method, as at construction, except for training.
        """
        members = tuple(models)
        _check_models(members)
        method = cls(None, members=len(members), **settings)
        method.members = members
        return method

    @classmethod
    def from_logits(cls, logits: Iterable[Any], **settings: Any) -> Self:
        """The method for saved logits: an array (n, K) per member. Predict without inputs.

        Parameters
        ----------
        logits : iterable
            M arrays (n, K), or one (M, n, K), for the same inputs in the same order.
        **settings
            Those of the method, as at construction, except for training.
        """
        saved = check_member_logits(logits)
        method = cls(None, members=saved.shape[1], **settings)
        method._saved = np.asarray(softmax(saved, axis=2))
        return method

    def fit(self, loader: Iterable[Any], validation: Iterable[Any] | None = None) -> Self:
        """Train the members, each from a seed of its own.

        Parameters
        ----------
        loader : iterable
            Loader of batches (inputs, labels), or mappings with the key "labels".
        validation : iterable, optional
            A loader for the trainer's `patience`.
        """
        if self.factory is None:
            raise ValueError(
                "factory must be a function that builds a module, to fit: got None. "
                "This ensemble was made of models or logits, and is ready."
            )
        trained = train_members(
            self.factory,
            loader,
            members=self.size,
            trainer=self.trainer,
            folder=self.folder,
            validation=validation,
        )
        self.members = tuple(member.module for member in trained)
        self.trainings = tuple(member.training for member in trained)
        return self

    def member_probabilities(self, inputs: Any = None) -> Array:
        """(n, M, K) predictions of the members.

        Parameters
        ----------
        inputs
            An array or a tensor (n, ...), or a loader of batches; for estimators whatever their
            predict_proba takes; nothing for an ensemble made of saved logits.
        """
        if self._saved is not None:
            if inputs is not None:
                raise ValueError(
                    "inputs must be left out, as the logits were given: "
                    f"got a {type(inputs).__name__}."
                )
            return self._saved
        if not self.members:
            raise NotFittedError(f"{type(self).__name__} has seen no data. Call fit first.")
        if inputs is None:
            raise ValueError("inputs must be given to models: got None.")
        return model_probabilities(self.members, inputs)

    def predict_proba(self, inputs: Any = None) -> Array:
        """(n, K) the mean of the members' predictions."""
        return np.asarray(self.member_probabilities(inputs).mean(axis=1))

    @property
    def _class_names(self) -> list[str] | None:
        """The names of the classes, if the members are scikit-learn estimators."""
        classes = getattr(self.members[0], "classes_", None) if self.members else None
        return None if classes is None else [str(name) for name in classes]

    def __repr__(self) -> str:
        state = "" if self.members or self._saved is not None else ", not fitted"
        return f"{type(self).__name__}: {self.size} members{state}"


def _check_models(models: tuple[Any, ...]) -> None:
    if not models:
        raise ValueError("models must hold one classifier or more: got none.")
    modules = [isinstance(model, nn.Module) for model in models]
    for m, model in enumerate(models):
        if not modules[m] and not hasattr(model, "predict_proba"):
            raise ValueError(
                f"models[{m}] must be a module or an estimator with predict_proba: "
                f"got a {type(model).__name__}."
            )
        if modules[m] != modules[0]:
            raise ValueError(
                "models must be all modules or all estimators: "
                f"got a {type(models[0]).__name__} and, at index {m}, a {type(model).__name__}."
            )
        first, own = (list(getattr(x, "classes_", ())) for x in (models[0], model))
        if own != first:
            raise ValueError(
                f"models[{m}] must have the classes of models[0], {first}: got {own}. "
                "Fit all estimators on data that hold every class."
            )
