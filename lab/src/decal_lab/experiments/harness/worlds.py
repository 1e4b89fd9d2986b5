"""Small worlds with a known truth: kinds of inputs, each with its logits and its distribution.

A statement about new inputs can be checked in them without error of its own, since there are so few
kinds of inputs. Some are made to be as hard as the theory allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KINDS, CLASSES = 200, 5

EDGE = 1.0
"""Budget of the balls that truths lie just outside of."""


@dataclass(frozen=True)
class World:
    """Kinds of inputs.

    Attributes
    ----------
    share : (T,) array
        How often each kind occurs.
    logits : (T, K) array
        What the model says.
    truth : (T, K) array
        What labels are drawn from.
    threshold : float
        Loss up to which a class counts as expected there, fixed beforehand.
    """

    share: Array
    logits: Array
    truth: Array
    threshold: float = 1.0

    def draw(
        self, shape: tuple[int, ...], rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Independent examples: their kinds, and their labels."""
        kinds = rng.choice(len(self.share), size=shape, p=self.share)
        beyond = self.truth.cumsum(axis=1)[kinds] > rng.random((*shape, 1)) * (1 - 1e-12)
        return kinds, np.asarray(beyond.argmax(axis=-1))


def softmax(z: Array) -> Array:
    """(T, K) probabilities of logits."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def calibrated(delta: float, mix: float) -> World:  # noqa: ARG001
    """The model is right."""
    z = 8 * np.random.default_rng(0).normal(size=(KINDS, CLASSES))
    return World(np.full(KINDS, 1 / KINDS), z, softmax(z))


def overconfident(delta: float, mix: float) -> World:  # noqa: ARG001
    """The model is too sure of itself, and biased."""
    z = 12 * np.random.default_rng(1).normal(size=(KINDS, CLASSES))
    return World(np.full(KINDS, 1 / KINDS), z, softmax(0.6 * z + np.linspace(-1, 1, CLASSES)))


def certain(delta: float, mix: float) -> World:  # noqa: ARG001
    """Labels are certain, drawn once for every kind: the divergence is the loss.

    A share delta of them are not what the model expects.
    """
    rng = np.random.default_rng(2)
    z = 4 * rng.normal(size=(KINDS, CLASSES))
    order = z.argsort(axis=1)
    wrong = np.arange(KINDS) < round(delta * KINDS)
    others = order[np.arange(KINDS), rng.integers(0, CLASSES - 1, size=KINDS)]
    return World(
        np.full(KINDS, 1 / KINDS), z, np.eye(CLASSES)[np.where(wrong, others, order[:, -1])]
    )


def two_losses(delta: float, mix: float) -> World:  # noqa: ARG001
    """Two kinds that the model cannot tell apart, with certain labels: Markov's extreme case."""
    z = np.log([[0.95, 0.05], [0.95, 0.05]])
    return World(np.array([1 - delta, delta]), z, np.eye(2))


def edges(delta: float, mix: float) -> World:
    """A share delta of inputs have a truth just outside of a ball.

    Each is a mixture of the class that the model expects and another one, so that its mean weight
    is 1: the bound by weights is exact at this budget. The model cannot tell them from others that
    have the expected label for certain.
    """
    rng = np.random.default_rng(3)
    p = np.full((KINDS, CLASSES), 0.005)
    p[:, 0] = 1 - rng.uniform(0.02, 0.2, size=KINDS)
    p[:, 1:] += (1 - p.sum(axis=1, keepdims=True)) / (CLASSES - 1)
    c = (1 - mix) * p + mix / CLASSES
    low, high = c[:, 1] / (c[:, 0] + c[:, 1]), np.ones(KINDS)
    for _ in range(60):  # the share of class 1 at which the divergence is the budget
        m = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.where(m < 1, (1 - m) * np.log((1 - m) / c[:, 0]), 0.0)
        inside = m * np.log(m / c[:, 1]) + rest <= EDGE
        low, high = np.where(inside, m, low), np.where(inside, high, m)
    outside = np.zeros((KINDS, CLASSES))
    outside[:, 0], outside[:, 1] = 1 - high, high
    return World(
        np.concatenate([np.full(KINDS, (1 - delta) / KINDS), np.full(KINDS, delta / KINDS)]),
        np.log(np.concatenate([p, p])),
        np.concatenate([np.eye(CLASSES)[np.zeros(KINDS, dtype=np.intp)], outside]),
        threshold=EDGE / 2,
    )


WORLDS: dict[str, Callable[[float, float], World]] = {
    "calibrated": calibrated,
    "overconfident": overconfident,
    "certain labels": certain,
    "two losses": two_losses,
    "edges of balls": edges,
}
"""Worlds by name: functions of the share delta of inputs that may be missed, and of the share of
equal probabilities in the center of balls."""
