"""Scores of doubt: what may be asked of a row to decide whether a person should check it.

A score comes with the prediction that it doubts: that of the model as it is, or of the model after
recalibration. Only the order of scores matters, so they have no common unit. Labels tell which
score to trust: all of them are judged on rows that none of them was fitted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, log_sum_exp, margins
from decal.choose._plausibility import Predictor
from decal.credal import CredalSet
from decal.decalibrator import Decalibrator
from decal.evaluate.metrics import RiskCoverage, risk_coverage
from decal.model import predict_rows
from decal.rows import Rows, require_possible
from decal.schema import Schema

Labels = NDArray[np.intp]

Scored = dict[str, tuple[Array, NDArray[np.bool_]]]
"""(n,) scores by name, and whether the prediction is wrong that each doubts."""

CONFIDENCE = "confidence"  # of the model in its prediction: a score that needs no fitting
STANDARD_ERRORS = 2.0  # by how many a score must beat the model's own confidence to take its place
RECALIBRATED = "recalibrated"  # how names of scores of the recalibrated model begin

DECIMALS = 12
"""Of entropies in nats: those of all sets that hold the uniform distribution are equal, up to
round-off, which must not put rows in an order."""

FLOOR = 1e-12  # without a model that says otherwise, smaller probabilities count as this
LEVELS = (0.99, 0.9)  # alphas of the credal sets that are asked


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
    # As epistemic("entropy"), which warns that it may not rank inputs: labels are asked just that.
    "epistemic": lambda credal, _: np.maximum(credal.total() - credal.aleatoric(), 0).round(
        DECIMALS
    ),
}
"""Scores that a credal set offers, by name."""

POINT_DOUBTS: dict[str, Callable[[Array], Array]] = {
    CONFIDENCE: of_margin,
    "entropy": of_entropy,
}
"""Scores that logits offer, by name."""


@dataclass(frozen=True)
class DoubtScores:
    """All that scores of new rows need: credal sets at any alpha, and a recalibrated model."""

    model: Predictor
    best: Recalibration | None  # None where labels do not allow it

    @classmethod
    def of(cls, logits: Array, labels: Labels, model: Predictor | None) -> DoubtScores:
        """Fitted on labelled rows; a model that is given was fitted on others and stays."""
        if model is None:
            rows = require_possible(Rows(logits, labels), Schema())
            model = Decalibrator(0.9).fit_rows(rows, warn=False)
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
        return self.scores([name], logits)[name]

    def scores(self, names: Iterable[str], logits: Array) -> dict[str, tuple[Array, Labels]]:
        """Scores (n,) and the predictions that they doubt, (n,), by name."""
        predicted = logits.argmax(axis=1)
        sets: dict[str, CredalSet] = {}
        found = {}
        for name in names:
            kind, _, alpha = name.partition(", alpha ")
            if kind in POINT_DOUBTS:
                found[name] = POINT_DOUBTS[kind](logits), predicted
            elif kind in CREDAL_DOUBTS:
                if alpha not in sets:
                    sets[alpha] = predict_rows(self.model, Rows(logits), float(alpha))
                found[name] = CREDAL_DOUBTS[kind](sets[alpha], predicted), predicted
            else:
                assert self.best is not None, "names lists such scores only if there is one"
                z = self.best(logits)
                kind = kind.removeprefix(f"{RECALIBRATED} ")
                found[name] = POINT_DOUBTS[kind](z), z.argmax(axis=1)
        return found


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
    rows = Rows(logits, labels)
    for directions in (("class", "temperature"), ("class",)):
        best = Decalibrator(1.0, reference="best", directions=directions)
        try:
            found = best.learn(require_possible(rows, Schema()), whole=True, warn=False).reference
        except ValueError:
            continue
        known = np.isfinite(found.center)
        shifts = np.where(known, found.center, found.center[known].mean())
        return Recalibration(float(found.scale), shifts)
    return None


# Which score to trust


@dataclass(frozen=True)
class Trial:
    """How a score did on labelled rows.

    Its risk-coverage `curve`; the `gain`, by how much its area is below that of the model's own
    confidence; and the standard `error` of that.
    """

    curve: RiskCoverage
    gain: float
    error: float


def cross_scored(logits: Array, labels: Labels, model: Predictor | None) -> Scored:
    """Scores of every row by what was fitted on the other half of the rows."""
    n = len(labels)
    halves = np.arange(n) % 2 == 0, np.arange(n) % 2 == 1
    fitted = [DoubtScores.of(logits[~half], labels[~half], model) for half in halves]
    names = [name for name in fitted[0].names if name in fitted[1].names]  # of both halves
    found: Scored = {name: (np.empty(n), np.empty(n, dtype=bool)) for name in names}
    for half, doubts in zip(halves, fitted, strict=True):
        for name, (scores, predicted) in doubts.scores(names, logits[half]).items():
            found[name][0][half], found[name][1][half] = scores, predicted != labels[half]
    return found


def trials(scored: Scored) -> dict[str, Trial]:
    """How every score did, by name."""
    base = contributions(*scored[CONFIDENCE])
    found = {}
    for name, (scores, wrong) in scored.items():
        gain = base - contributions(scores, wrong)
        error = float(gain.std() / np.sqrt(len(gain)))
        found[name] = Trial(risk_coverage(scores, wrong), float(gain.mean()), error)
    return found


def best_of(tried: Mapping[str, Trial]) -> str:
    """The score of the least area; the model's own confidence unless that is clearly better."""
    name = min(tried, key=lambda name: tried[name].curve.area)
    clearly = tried[name].gain > STANDARD_ERRORS * tried[name].error
    return name if clearly else CONFIDENCE


def contributions(scores: Array, wrong: NDArray[np.bool_]) -> Array:
    """(n,) numbers whose mean is the area under the risk-coverage curve, one for each row.

    A wrong row of rank r counts in the risks of the best r, r + 1, ..., n rows: as 1/r + ... + 1/n.
    Rows of equal scores share the mean of theirs.
    """
    n = len(scores)
    order = np.argsort(scores, kind="stable")
    later = np.cumsum(1 / np.arange(n, 0, -1))[::-1]
    _, group = np.unique(scores[order], return_inverse=True)
    shared = np.bincount(group, later) / np.bincount(group)
    found = np.empty(n)
    found[order] = wrong[order] * shared[group]
    return found
