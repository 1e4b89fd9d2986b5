"""Sets that hold the truth, however narrow and rare, and how often they may be refuted."""

from __future__ import annotations

import numpy as np

import decal

LEVEL, CLASSES = 0.2, 3
WIDTHS = (0.0, 1e-300, 1e-17, 1e-15, 1e-12, 1e-6)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


WORLDS = {
    "rare classes": lambda rng, n: rng.dirichlet([5, 0.05, 0.02], size=n),
    "sure": lambda rng, n: softmax(20 * rng.normal(size=(n, CLASSES))),
    "certain": lambda rng, n: np.eye(CLASSES)[rng.integers(CLASSES, size=n)],
    "open": lambda rng, n: rng.dirichlet(np.ones(CLASSES), size=n),
}


def box(truth, width):
    lower, upper = np.maximum(truth - width, 0), np.minimum(truth + width, 1)
    return decal.IntervalCredalSet(lower, upper, point=truth)


def box_without_point(truth, width):
    return decal.IntervalCredalSet(box(truth, width).lower, box(truth, width).upper)


def ball(truth, width):
    return decal.KLCredalSet(truth, width**2)


def hull(truth, width):
    other = (1 - width) * truth + width / CLASSES
    return decal.HullCredalSet(np.stack([truth, other, truth], axis=1))


def drawn(truth, rng):
    behind = (truth.cumsum(axis=1) < rng.random((len(truth), 1))).sum(axis=1)
    return np.minimum(behind, CLASSES - 1)


def most(repetitions):
    """The greatest share that chance explains."""
    return LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / repetitions)


KINDS = (box, box_without_point, ball, hull)


def best_models(world, rng):
    """Sets at alpha 1, the best model itself, of inputs of a world."""
    truth = WORLDS[world](rng, 1000)
    z = np.log(np.maximum(truth, 1e-300))
    d = decal.Decalibrator(alpha=1, reference="best", directions=("class", "temperature"))
    return d.fit(z[:800], drawn(truth, rng)[:800]).predict(z[800:])
