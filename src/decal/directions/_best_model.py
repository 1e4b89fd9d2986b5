"""The best model: the maximum-likelihood shifts, and scale, of all logits at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, Setting
from decal._base.numerics import Array, Logits
from decal.directions._log_likelihood import (
    DENSE_CLASSES,
    OPTIMAL,
    OUT_OF_REACH,
    SMOOTH_GAP,
    LikelihoodAt,
    LogLikelihood,
    climbed,
    the_model,
)
from decal.directions._reference import USE_MODEL, Reference

SHARES = {"halfway": 0.5, "best": 1.0}
"""Shares of the way from the model to the best one, by the names of references."""

NO_SCALE = 1e-12  # a scale times the gap between logits that is 0 but for round-off
PERFECT = 1e-9  # mean loss, in nats, of perfect predictions: the best scale is infinite


def best_model(
    logits: Logits,
    labels: NDArray[np.intp],
    weights: Array | None,
    *,
    scale: bool,
    name: str = "best",
) -> Reference:
    """The reference of the greatest likelihood, over one shift per class, and the scale if wanted.

    A class without labels is best left out: its shift is -inf. The others have mean zero. Named
    "halfway", the mean of its logits and the model's. ArithmeticError if the search fails.

    Newton's method on logits (n, K), finite or -inf for masked classes. Up to 64 classes with the
    exact Hessian; more by conjugate gradients, in O(n K) time and O(K) memory, and with the
    Hessian only if they take long. Where logits differ by so much that the log-likelihood is nearly
    a polyhedron, the best shifts are followed from a small scale, which makes it smooth.
    """
    if weights is None:
        weights = np.ones(len(labels))
    label_weight = np.bincount(labels, weights, minlength=logits.shape[1]).astype(np.float64)
    present = np.flatnonzero(label_weight)
    if len(present) < 2:
        rule: tuple[Any, ...] = "contain at least two classes for ", Setting("reference", name)
        raise InputError("labels", rule, f"only class {present[0]}", USE_MODEL)
    K, W = len(present), float(label_weight.sum())
    whole = LogLikelihood(logits, np.searchsorted(present, labels), weights, present)
    floor = -OUT_OF_REACH * whole.gap if scale else -np.inf
    likelihood = whole.with_settings(floor=floor, dense=K <= DENSE_CLASSES)
    found = _climbed(likelihood, scale=scale)
    left = likelihood.slope(found, scale=scale)
    if left > OPTIMAL and not likelihood.dense:
        likelihood = likelihood.with_settings(dense=True)
        found = _climbed(likelihood, scale=scale)
        left = likelihood.slope(found, scale=scale)
    if left > OPTIMAL and not scale:
        found = _cooled(likelihood)
        left = likelihood.slope(found, scale=scale)
    elif left > OPTIMAL:
        smooth = np.append(np.zeros(K), min(SMOOTH_GAP / likelihood.gap, 1.0))
        found = climbed(likelihood, smooth, 1 / likelihood.depth)
        left = likelihood.slope(found, scale=scale)
    with_scale = " with the temperature or local sets"
    if scale and found.value > -PERFECT * W:
        why = f"{with_scale}: the best scale is infinite"
        rule = "not be perfectly predictable for ", Setting("reference", name), why
        remedy = "Use ", Setting("reference", "model"), ", or more data."
        raise InputError("labels", rule, remedy=remedy)
    if found.model[-1] * likelihood.gap <= NO_SCALE:
        asked = Setting("reference", name)
        rule = "tell more about the labels than chance for ", asked, with_scale
        raise InputError("logits", rule, f"a best scale of {found.model[-1]:.3g}", USE_MODEL)
    if scale:  # logits that are out of reach count
        whole = likelihood.with_settings(floor=-np.inf, dense=False)
        left = max(left, whole.slope(whole(found.model), scale=scale))
    if left > OPTIMAL:
        raise ArithmeticError(
            f"reference={name!r} was not found: the log-likelihood still rises by {left:.2g} nats "
            "per example and nat. Use reference='model', and please report it with your data."
        )
    center = np.full(logits.shape[1], -np.inf)
    model, value = found.model, found.value
    if SHARES[name] < 1:
        model = SHARES[name] * model
        model[-1] += 1 - SHARES[name]
        value = whole.value(model)
    center[present] = model[:K]
    every = LogLikelihood(logits, labels, weights, np.arange(logits.shape[1]))
    at_model = every.value(the_model(logits.shape[1]))
    return Reference(center, float(model[-1]), (value - at_model) / W, name)


def _climbed(likelihood: LogLikelihood, *, scale: bool) -> LikelihoodAt:
    """The maximum, from the model as it is."""
    unit = 1 / likelihood.gap if scale else 0.0
    return climbed(likelihood, the_model(len(likelihood.columns)), unit)


def _cooled(likelihood: LogLikelihood) -> LikelihoodAt:
    """The best shifts at a scale of 1, followed from a scale at which they are easily found."""
    K = len(likelihood.columns)
    scale = min(SMOOTH_GAP / likelihood.gap, 1.0)
    found = climbed(likelihood, np.append(np.zeros(K), scale))
    while scale < 1.0:
        scale = min(4.0 * scale, 1.0)
        model = found.model * (scale / found.model[-1])
        model[-1] = scale
        found = climbed(likelihood, model)
    return found
