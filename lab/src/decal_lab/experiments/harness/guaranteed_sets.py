"""Credal sets with a guarantee, each as coverage and efficiency on new inputs.

From labels, by `decal.choose` or by the simpler bound of Markov and Jensen; from known
distributions, by split conformal prediction with several scores, among them the balls of Javanmardi
et al. (2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal

Array = NDArray[np.float64]

THRESHOLDS = 60
"""Thresholds tried for the simpler bound, in equal steps."""


@dataclass(frozen=True)
class Labelled:
    """Rows of a data set.

    Attributes
    ----------
    logits : (n, K) array
        Logits.
    labels : (n,) array
        The labels that come with the data, or drawn from the truth.
    truth : (n, K) array
        The distributions.
    """

    logits: NDArray[Any]
    labels: NDArray[Any]
    truth: NDArray[Any]

    def __getitem__(self, rows: Any) -> Labelled:
        return Labelled(self.logits[rows], self.labels[rows], self.truth[rows])


@dataclass(frozen=True)
class Outcome:
    """What sets give on new inputs.

    Attributes
    ----------
    ball : float
        Share of inputs whose truth is in the ball; NaN if the set is no ball.
    box : float
        Share whose truth is in the intervals.
    efficiency : float
        One minus the mean width.
    """

    ball: float
    box: float
    efficiency: float


def divergences(truth: NDArray[Any], center: Array) -> Array:
    """(n,) KL(truth || center)."""
    p = np.asarray(truth, dtype=np.float64)
    there = p > 0
    ratios = np.ones_like(p)
    with np.errstate(divide="ignore"):
        np.divide(p, center, out=ratios, where=there)
    return np.asarray((p * np.log(ratios)).sum(axis=1))


def centers(model: decal.Decalibrator, logits: NDArray[Any]) -> tuple[Array, Array]:
    """(n, K) centers of a model's balls, and (n,) the factors on their budgets."""
    (local,) = (d for d in model.directions if isinstance(d, decal.Local))
    point = model.predict(logits, alpha=1.0).point
    assert point is not None
    c = (1 - local.mix) * point + local.mix / point.shape[1]
    if local.by_entropy is None:
        return c, np.ones(len(c))
    with np.errstate(divide="ignore", invalid="ignore"):
        return c, local.by_entropy - np.where(c > 0, c * np.log(c), 0.0).sum(axis=1)


def of_local_sets(model: decal.Decalibrator, alpha: float, new: Labelled) -> Outcome:
    """The outcome of local sets at an alpha."""
    center, factor = centers(model, new.logits)
    budget = math.inf if alpha == 0 else -math.log(alpha)
    credal = model.predict(new.logits, alpha=alpha)
    return Outcome(
        float((divergences(new.truth, center) <= budget * factor).mean()),
        decal.metrics.coverage(credal, new.truth),
        decal.metrics.efficiency(credal),
    )


def alpha_by_markov(
    model: decal.Decalibrator, held_out: Labelled, delta: float, rng: np.random.Generator
) -> float:
    """The alpha of Markov's and Jensen's inequalities: weights (l - s)+ / (b - s), on average.

    The threshold s is planned on three tenths of the rows, as for `hold`.
    """
    (local,) = (d for d in model.directions if isinstance(d, decal.Local))
    center, _ = centers(model, held_out.logits)
    losses = -np.log(center[np.arange(len(center)), held_out.labels])
    most = math.log(center.shape[1] / local.mix)
    order = rng.permutation(len(losses))
    first, rest = np.split(losses[order], [3 * len(order) // 10])
    n = len(rest)

    def budget(some: Array, s: float) -> float:
        mean = float(np.maximum(some - s, 0).mean())
        return s + (n * mean + most - s) / ((n + 1) * delta)

    s = min(np.linspace(0, most, THRESHOLDS, endpoint=False), key=lambda s: budget(first, s))
    found = budget(rest, float(s))
    return math.exp(-found) if found < most else 0.0


def of_conformal_balls(
    model: decal.Decalibrator, known: Labelled, new: Labelled, score: str, delta: float
) -> Outcome:
    """Balls around the prediction that split conformal prediction makes as large as it must.

    Parameters
    ----------
    model : Decalibrator
        With local sets and no mix.
    known, new : Labelled
        Rows to choose the radius on, by their truth, and rows to evaluate.
    score : str
        A key of SCORES.
    delta : float
        Accepted share of misses.
    """
    measure = SCORES[score]
    center, _ = centers(model, known.logits)
    scores = np.sort(measure(known.truth, center))
    last = math.ceil((len(scores) + 1) * (1 - delta))
    radius = float(scores[last - 1]) if last <= len(scores) else math.inf
    c, _ = centers(model, new.logits)
    if score == "KL ball":
        credal = model.predict(new.logits, alpha=math.exp(-radius))
    else:
        low, high = np.clip(c - radius, 0, 1), np.clip(c + radius, 0, 1)
        credal = decal.IntervalCredalSet(low, high).tighten()
    inside = measure(new.truth, c) <= radius
    return Outcome(
        float(inside.mean()),
        decal.metrics.coverage(credal, new.truth),
        decal.metrics.efficiency(credal),
    )


def _total_variation(truth: NDArray[Any], center: Array) -> Array:
    return np.asarray(np.abs(truth - center).sum(axis=1) / 2)


def _largest_difference(truth: NDArray[Any], center: Array) -> Array:
    return np.asarray(np.abs(truth - center).max(axis=1))


SCORES: dict[str, Callable[[NDArray[Any], Array], Array]] = {
    "KL ball": divergences,
    "TV ball": _total_variation,
    "sup-norm ball": _largest_difference,
}
"""Distances of the truth from the prediction whose balls are compared."""
