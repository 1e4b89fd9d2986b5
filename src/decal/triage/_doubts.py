"""Scores of doubt: what may be asked of a row to decide whether a person should check it.

A score comes with the prediction that it doubts: that of the model as it is, or of the model after
recalibration. Only the order of scores matters, so they have no common unit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import AnswerWarning, FitWarning
from decal._base.numerics import Array, log_sum_exp, margins
from decal.credal import CredalSet
from decal.decalibrator import Decalibrator
from decal.selection._plausibility import Predictor

Labels = NDArray[np.intp]

OWN = "confidence"
"""The score that needs no fitting: the model's own probability of its prediction."""

RECALIBRATED = "recalibrated"
"""How names of scores of the recalibrated model begin."""

DECIMALS = 12
"""Of entropies in nats: those of all sets that hold the uniform distribution are equal, up to
round-off, which must not put rows in an order."""

FLOOR = 1e-12
"""Without a model that says otherwise, smaller probabilities count as this."""

LEVELS = (0.99, 0.9)
"""Alphas of the credal sets that are asked."""


def of_margin(z: Array) -> Array:
    """Log-odds against the prediction: in the order of 1 - max p, but without its round-off."""
    against: Array = -margins(z, np.zeros(z.shape[1])).max(axis=0)
    return against


def of_entropy(z: Array) -> Array:
    """Entropy of the softmax, in nats."""
    log_p = z - log_sum_exp(z)[:, None]
    p = np.exp(log_p)
    entropy: Array = -np.multiply(p, log_p, where=p > 0, out=np.zeros_like(p)).sum(axis=1)
    return entropy


def of_lower(credal: CredalSet, predicted: Labels) -> Array:
    """How improbable the predicted class is at worst."""
    lower: Array = credal.lower[np.arange(len(predicted)), predicted]
    return -lower


CREDAL_DOUBTS: dict[str, Callable[[CredalSet, Labels], Array]] = {
    "lower probability": of_lower,
    "width": lambda credal, _: credal.epistemic("width"),
    "upper entropy": lambda credal, _: credal.total().round(DECIMALS),
    "epistemic": lambda credal, _: credal.epistemic("entropy").round(DECIMALS),
}
"""Scores that a credal set offers, by name."""

POINT_DOUBTS: dict[str, Callable[[Array], Array]] = {
    OWN: of_margin,
    "entropy": of_entropy,
}
"""Scores that logits offer, by name."""


@dataclass(frozen=True)
class Doubts:
    """All that scores of new rows need: credal sets at any alpha, and a recalibrated model.

    Attributes
    ----------
    model : Predictor
        Predicts credal sets.
    best : Recalibration or None
        None where labels do not allow it.
    """

    model: Predictor
    best: Recalibration | None

    @classmethod
    def of(cls, logits: Array, labels: Labels, model: Predictor | None) -> Doubts:
        """Fitted on labelled rows; a model that is given was fitted on others and stays."""
        if model is None:
            model = Decalibrator(0.9).fit(logits, labels)
        return cls(model, recalibrated(logits, labels))

    @property
    def names(self) -> list[str]:
        """Of all scores, the simplest first."""
        names = list(POINT_DOUBTS)
        if self.best is not None:
            names += [f"{RECALIBRATED} {name}" for name in POINT_DOUBTS]
        return names + [f"{name}, alpha {a:g}" for name in CREDAL_DOUBTS for a in LEVELS]

    def score(self, name: str, logits: Array) -> tuple[Array, Labels]:
        """The scores of a name, (n,), and the predictions that they doubt, (n,)."""
        predicted = logits.argmax(axis=1)
        if name in POINT_DOUBTS:
            return POINT_DOUBTS[name](logits), predicted
        if name.startswith(RECALIBRATED):
            assert self.best is not None, "names lists such scores only if there is one"
            z = self.best(logits)
            return POINT_DOUBTS[name.removeprefix(f"{RECALIBRATED} ")](z), z.argmax(axis=1)
        measure, alpha = name.split(", alpha ")
        with warnings.catch_warnings():  # whether a score serves is what the labels are asked
            warnings.filterwarnings("ignore", r"credal sets exclude|epistemic\(", AnswerWarning)
            credal = self.model.predict(logits, alpha=float(alpha))
            return CREDAL_DOUBTS[measure](credal, predicted), predicted


@dataclass(frozen=True)
class Recalibration:
    """Another model of the same family: scale * logits + shifts."""

    scale: float
    shifts: Array

    def __call__(self, logits: Array) -> Array:
        """(n, K) the logits of that model."""
        return np.asarray(self.scale * logits + self.shifts)


def recalibrated(logits: Array, labels: Labels) -> Recalibration | None:
    """The scale, and the shift of each class, of the greatest likelihood.

    Where there is no best scale, because the labels are predicted perfectly or no better than by
    chance, only the shifts. The best shift of a class without labels would exclude it: it gets the
    mean of the others' instead. None if there is one class only.
    """
    for directions in (("class", "temperature"), ("class",)):
        best = Decalibrator(1.0, reference="best", directions=directions)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the model is .* from its reference", FitWarning)
                found = best.fit(logits, labels).reference_model
        except ValueError:
            continue
        known = np.isfinite(found.center)
        shifts = np.where(known, found.center, found.center[known].mean())
        return Recalibration(float(found.scale), shifts)
    return None
