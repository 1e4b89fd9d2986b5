"""Which score to trust: all of them are judged on rows that none of them was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.evaluate.metrics import RiskCoverage, risk_coverage
from decal.selection._plausibility import Predictor
from decal.triage._doubts import OWN, Doubts

Labels = NDArray[np.intp]
Scored = dict[str, tuple[Array, NDArray[np.bool_]]]
"""(n,) scores by name, and whether the prediction is wrong that each doubts."""

BY_MORE_THAN = 2.0
"""Standard errors by which a score must beat the model's own confidence to take its place."""


@dataclass(frozen=True)
class Trial:
    """How a score did on labelled rows: its risk-coverage curve, and how it compares.

    Attributes
    ----------
    curve : RiskCoverage
        Error rates of what is kept.
    gain : float
        By how much its area is below that of the model's own confidence.
    error : float
        Standard error of the gain.
    """

    curve: RiskCoverage
    gain: float
    error: float


def cross_scored(logits: Array, labels: Labels, model: Predictor | None) -> Scored:
    """Scores of every row by what was fitted on the other half of the rows."""
    n = len(labels)
    halves = np.arange(n) % 2 == 0, np.arange(n) % 2 == 1
    fitted = [Doubts.of(logits[~half], labels[~half], model) for half in halves]
    found: Scored = {}
    for name in fitted[0].names:
        if name not in fitted[1].names:  # one half cannot be recalibrated
            continue
        scores, wrong = np.empty(n), np.empty(n, dtype=bool)
        for half, doubts in zip(halves, fitted, strict=True):
            scores[half], predicted = doubts.score(name, logits[half])
            wrong[half] = predicted != labels[half]
        found[name] = scores, wrong
    return found


def trials(scored: Scored) -> dict[str, Trial]:
    """How every score did, by name."""
    base = contributions(*scored[OWN])
    found = {}
    for name, (scores, wrong) in scored.items():
        gain = base - contributions(scores, wrong)
        error = float(gain.std() / np.sqrt(len(gain)))
        found[name] = Trial(risk_coverage(scores, wrong), float(gain.mean()), error)
    return found


def best_of(tried: Mapping[str, Trial]) -> str:
    """The score of the least area; the model's own confidence unless that is clearly better."""
    name = min(tried, key=lambda name: tried[name].curve.area)
    clearly = tried[name].gain > BY_MORE_THAN * tried[name].error
    return name if clearly else OWN


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
