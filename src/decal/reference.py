"""Where gains are measured from: the maximum-likelihood shift of all logits at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decal._numerics import Array, Logits, row_blocks

MAX_NEWTON_STEPS = 100
DECREMENT_TOLERANCE = 1e-18
"""Expected gain of a Newton step, in nats per unit of weight, at which nothing is left to gain."""

SAFE_DECREMENT = 1e-6
"""Expected gain below which full Newton steps converge quadratically and need no line search."""


@dataclass(frozen=True)
class BestShift:
    """The shift vector that maximises the likelihood, and what it gains.

    Attributes
    ----------
    center : (K,) shifts, mean zero over the classes that occur; -inf for those that do not.
    gain : log-likelihood gained over the model itself, in nats per unit of weight.
    """

    center: Array
    gain: float


def best_shift(logits: Logits, labels: NDArray[np.intp], weights: Array) -> BestShift:
    """Maximise the log-likelihood of the labels over one shift per class.

    The log-likelihood is concave in the shifts and has, on mean zero, a unique maximum as soon as
    every class counted occurs. A class without labels is best left out: its best shift is -inf.

    Parameters
    ----------
    logits : (n, K) finite.
    labels : (n,) integers.
    weights : (n,) positive.

    Notes
    -----
    Newton's method with the exact Hessian, each step one pass over the data: O(n K^2) time, O(K^2)
    memory.
    """
    label_weight = np.bincount(labels, weights, minlength=logits.shape[1]).astype(np.float64)
    present = np.flatnonzero(label_weight)
    if len(present) < 2:
        raise ValueError(
            "labels must contain at least two classes for reference='best': "
            f"got only class {present[0]}. Use reference='model'."
        )
    everything = np.arange(logits.shape[1])
    at_model, _, _ = _log_likelihood(logits, labels, weights, everything, np.zeros(len(everything)))
    W, target = label_weight.sum(), label_weight[present]
    shift = np.zeros(len(present))
    value, expected, second = _log_likelihood(logits, labels, weights, present, shift)
    for _ in range(MAX_NEWTON_STEPS):
        gradient = target - expected
        # Shifting all classes together changes nothing; the constant only fixes that freedom.
        hessian = np.diag(expected) - second + expected.sum() / len(present) ** 2
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        step -= step.mean()
        decrement = float(gradient @ step) / 2
        if decrement <= DECREMENT_TOLERANCE * W:
            break
        while True:
            trial = _log_likelihood(logits, labels, weights, present, shift + step)
            if trial[0] > value or decrement <= SAFE_DECREMENT * W:
                break
            step, decrement = step / 2, decrement / 2
        shift = shift + step
        value, expected, second = trial
    center = np.full(logits.shape[1], -np.inf)
    center[present] = shift
    return BestShift(center, (value - at_model) / W)


def _log_likelihood(
    logits: Logits, labels: NDArray[np.intp], weights: Array, columns: NDArray[np.intp], c: Array
) -> tuple[float, Array, Array]:
    """Sum w log p_y, sum w p and sum w p p^T, p the softmax of (logits + c) over `columns`."""
    value, first, second = 0.0, np.zeros(len(c)), np.zeros((len(c), len(c)))
    label = np.searchsorted(columns, labels)
    for rows in row_blocks(len(logits), len(c)):
        w = weights[rows]
        z = logits[rows][:, columns] + c
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        total = p.sum(axis=1)
        value += float(w @ (z[np.arange(len(z)), label[rows]] - np.log(total)))
        p /= total[:, None]
        weighted = w[:, None] * p
        first += weighted.sum(axis=0)
        second += weighted.T @ p
    return value, first, second
