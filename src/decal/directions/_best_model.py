"""The reference "best": the maximum-likelihood shifts, and scale, of all logits at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, row_blocks
from decal.directions._direction import Reference

MAX_NEWTON_STEPS = 100
DECREMENT_TOLERANCE = 1e-18
"""Expected gain of a Newton step, in nats per unit of weight, at which nothing is left to gain."""

SAFE_DECREMENT = 1e-6
"""Expected gain below which full Newton steps converge quadratically and need no line search."""

PERFECT = 1e-9
"""Mean loss, in nats, at which labels count as perfectly predicted: the best scale is infinite."""


def best_model(
    logits: Logits, labels: NDArray[np.intp], weights: Array | None, *, scale: bool
) -> Reference:
    """Maximise the log-likelihood of the labels over one shift per class, and the scale if wanted.

    The log-likelihood is concave in shifts and scale together. It has, on mean zero, a unique
    maximum in the shifts as soon as every class counted occurs. A class without labels is best left
    out: its best shift is -inf. The best scale is finite unless the labels can be predicted
    perfectly.

    Parameters
    ----------
    logits : (n, K) array
        Finite.
    labels : (n,) array
        Integers.
    weights : (n,) array, optional
        Positive, or None for ones.
    scale : bool
        Seek the best scale too; otherwise it is 1.

    Notes
    -----
    Newton's method with the exact Hessian, each step one pass over the data: O(n K^2) time, O(K^2)
    memory.
    """
    if weights is None:
        weights = np.ones(len(labels))
    label_weight = np.bincount(labels, weights, minlength=logits.shape[1]).astype(np.float64)
    present = np.flatnonzero(label_weight)
    if len(present) < 2:
        raise ValueError(
            "labels must contain at least two classes for reference='best': "
            f"got only class {present[0]}. Use reference='model'."
        )
    everything = np.arange(logits.shape[1])
    start = np.zeros(len(everything) + 1)
    start[-1] = 1.0
    at_model, _, _ = _log_likelihood(logits, labels, weights, everything, start)
    W, K = label_weight.sum(), len(present)
    model = np.append(np.zeros(K), 1.0)  # the shifts, then the scale
    free = K + 1 if scale else K
    value, gradient, hessian = _log_likelihood(logits, labels, weights, present, model)
    for _ in range(MAX_NEWTON_STEPS):
        # Shifting all classes together changes nothing; the constant only fixes that freedom.
        curvature = hessian[:free, :free].copy()
        curvature[:K, :K] += W / K**2
        step = np.zeros(K + 1)
        step[:free] = np.linalg.lstsq(curvature, gradient[:free], rcond=None)[0]
        step[:K] -= step[:K].mean()
        decrement = float(gradient @ step) / 2
        if decrement <= DECREMENT_TOLERANCE * W:
            break
        while True:
            trial = _log_likelihood(logits, labels, weights, present, model + step)
            if trial[0] > value or decrement <= SAFE_DECREMENT * W:
                break
            step, decrement = step / 2, decrement / 2
        model = model + step
        value, gradient, hessian = trial
        if scale and value > -PERFECT * W:
            raise ValueError(
                "labels must not be perfectly predictable for reference='best' with the "
                "temperature: the best scale is infinite. Use reference='model', or more data."
            )
    if model[-1] <= 0:
        raise ValueError(
            "logits must tell more about the labels than chance for reference='best' with the "
            f"temperature: got a best scale of {model[-1]:.3g}. Use reference='model'."
        )
    center = np.full(logits.shape[1], -np.inf)
    center[present] = model[:K]
    return Reference(center, float(model[-1]), (value - at_model) / W, is_best=True)


def _log_likelihood(
    logits: Logits,
    labels: NDArray[np.intp],
    weights: Array,
    columns: NDArray[np.intp],
    model: Array,
) -> tuple[float, Array, Array]:
    """Sum w log p_y with its gradient and negative Hessian, p the softmax over `columns`.

    `model` holds the shifts (K,) of these columns and then the scale.
    """
    K = len(columns)
    c, scale = model[:K], model[K]
    value, gradient, hessian = 0.0, np.zeros(K + 1), np.zeros((K + 1, K + 1))
    label = np.searchsorted(columns, labels)
    for rows in row_blocks(len(logits), K):
        w, y = weights[rows], label[rows]
        z = logits[rows][:, columns].astype(np.float64)
        moved = scale * z + c
        moved -= moved.max(axis=1, keepdims=True)
        p = np.exp(moved)
        total = p.sum(axis=1)
        each = np.arange(len(z))
        value += float(w @ (moved[each, y] - np.log(total)))
        p /= total[:, None]
        mean = (p * z).sum(axis=1)
        # One more column, the derivative by the scale: it moves logit k by z_k.
        score = np.concatenate([-p, (z[each, y] - mean)[:, None]], axis=1)
        score[each, y] += 1.0
        gradient += w @ score
        weighted = w[:, None] * p
        hessian[:K, :K] -= weighted.T @ p
        hessian[np.arange(K), np.arange(K)] += weighted.sum(axis=0)
        centered = z - mean[:, None]
        mixed = (weighted * centered).sum(axis=0)
        hessian[:K, K] += mixed
        hessian[K, :K] += mixed
        hessian[K, K] += float((weighted * centered**2).sum())
    return value, gradient, hessian
