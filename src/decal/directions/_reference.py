"""The reference: the model from which gains are measured, as it is or at its best.

The best one has the maximum-likelihood shifts, and scale, of all logits at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, Setting
from decal._base.numerics import Array, Logits, row_blocks

REFERENCES = {"model": 0.0, "halfway": 0.5, "best": 1.0}
"""Shares of the way from the model to the best one, by the names of references."""

USE_MODEL = ("Use ", Setting("reference", "model"), ".")

MAX_NEWTON_STEPS = 100
# Steps shorter than this, in nats, or than this share of the shifts, are not taken any more.
SHORTEST_STEP, SHORTEST_SHARE = 1e-11, 4 * float(np.finfo(np.float64).eps)
ROUND_OFF = 1e-14  # error of a log-likelihood, relative to its size and per unit of weight
SINGULAR = 1e-12  # eigenvalues of a Hessian, scaled to ones on its diagonal, that are round-off
SMOOTH_GAP = 4.0  # nats by which logits may differ in a problem that is easy to solve
OPTIMAL = 1e-9  # slope of the log-likelihood, per weight and nat, that may be left at its maximum
NO_SCALE = 1e-12  # a scale times the gap between logits that is 0 but for round-off
LEAST_DEPTH = 1e-100  # smaller differences of logits count as this: its inverse has a square
# Logits this many gaps below the largest are masks: they do not count while a scale is sought, or
# they would keep it from 0, where logits that tell nothing about the labels send it.
OUT_OF_REACH = 1e6
NO_SLOPE = 1e-290  # a derivative below, in nats per nat, leads nowhere: its quotients underflow
PERFECT = 1e-9  # mean loss, in nats, of perfect predictions: the best scale is infinite


@dataclass(frozen=True)
class Reference:
    """The model from which gains are measured: scale * logits + center."""

    center: Array  # (K,) shifts of the logits; -inf leaves a class out
    scale: float = 1.0
    distance: float = 0.0  # nats gained over the model itself, per unit of weight
    name: str = "model"  # a key of REFERENCES

    @property
    def is_best(self) -> bool:
        """Whether no shift gains likelihood over it."""
        return self.name == "best"

    def scaled(self, logits: Logits) -> Logits:
        """The logits times the scale, in float64 unless there is nothing to do."""
        if self.scale == 1:
            return logits
        return np.multiply(logits, self.scale, dtype=np.float64)

    def logits(self, logits: Logits) -> Array:
        """(n, K) scale * logits + center, in float64; -inf for the classes left out."""
        return np.asarray(self.scaled(logits) + self.center, dtype=np.float64)

    @cached_property
    def _left_out(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.isneginf(self.center))

    def require_rivals(self, logits: Logits) -> None:
        """ValueError if only classes that the reference leaves out are not masked in a row."""
        if not self._left_out.size or np.minimum.reduce(logits, axis=None) > -np.inf:
            return
        kept = np.delete(logits, self._left_out, axis=1)
        alone = np.isneginf(kept.max(axis=1))
        if alone.any():
            asked = Setting("reference", self.name)
            rule = "leave a class unmasked that fit has seen labels of, for ", asked
            raise InputError("logits", rule, f"none in row {int(alone.argmax())}", USE_MODEL)


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

    Newton's method with the exact Hessian on logits (n, K), finite or -inf for masked classes:
    O(n K^2) time, O(K^2) memory. Where logits differ by so much that the log-likelihood is nearly a
    polyhedron, the best shifts are followed from a small scale, which makes it smooth.
    """
    if weights is None:
        weights = np.ones(len(labels))
    label_weight = np.bincount(labels, weights, minlength=logits.shape[1]).astype(np.float64)
    present = np.flatnonzero(label_weight)
    if len(present) < 2:
        rule: tuple[Any, ...] = "contain at least two classes for ", Setting("reference", name)
        raise InputError("labels", rule, f"only class {present[0]}", USE_MODEL)
    at_model = _log_likelihood(logits, labels, weights)
    whole = likelihood = LogLikelihood(logits, labels, weights, present)
    if scale:
        likelihood = replace(whole, floor=-OUT_OF_REACH * whole.gap)
    K, W = len(present), float(label_weight.sum())
    unit = 1 / likelihood.gap if scale else 0.0
    found = _climbed(likelihood, np.append(np.zeros(K), 1.0), unit)
    left = likelihood.slope(found, scale=scale)
    if left > OPTIMAL and not scale:
        found = _cooled(likelihood)
        left = likelihood.slope(found, scale=scale)
    elif left > OPTIMAL:
        smooth = np.append(np.zeros(K), min(SMOOTH_GAP / likelihood.gap, 1.0))
        found = _climbed(likelihood, smooth, 1 / likelihood.depth)
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
    left = max(left, whole.slope(whole(found.model), scale=scale))
    if left > OPTIMAL:
        raise ArithmeticError(
            f"reference={name!r} was not found: the log-likelihood still rises by {left:.2g} nats "
            "per example and nat. Use reference='model', and please report it with your data."
        )
    center = np.full(logits.shape[1], -np.inf)
    model = found.model
    if REFERENCES[name] < 1:
        model = REFERENCES[name] * model
        model[-1] += 1 - REFERENCES[name]
        found = whole(model)
    center[present] = model[:K]
    return Reference(center, float(model[-1]), (found.value - at_model) / W, name)


def _log_likelihood(logits: Logits, labels: NDArray[np.intp], weights: Array) -> float:
    """Sum of w log p_y of the model as it is, of all classes."""
    value = 0.0
    for rows in row_blocks(*logits.shape):
        z = logits[rows].astype(np.float64)
        z -= z.max(axis=1, keepdims=True)
        each, y = np.arange(len(z)), labels[rows]
        own = z[each, y]
        z[each, z.argmax(axis=1)] = -np.inf  # the largest is 1: nothing is lost beside it
        value += float(weights[rows] @ (own - np.log1p(np.exp(z).sum(axis=1))))
    return value


@dataclass(frozen=True)
class LikelihoodAt:
    """A model, the log-likelihood there, its gradient and its negative Hessian."""

    model: Array
    value: float
    gradient: Array
    hessian: Array


@dataclass(frozen=True)
class LogLikelihood:
    """Sum of w log p_y as a function of a model: a shift for each column, then the scale."""

    logits: Logits
    labels: NDArray[np.intp]
    weights: Array
    columns: NDArray[np.intp]
    floor: float = -np.inf  # logits further below the largest of their row are masked

    @cached_property
    def depth(self) -> float:
        """The most that two logits of a row differ, but for masks."""
        deepest = 0.0
        for rows in row_blocks(len(self.logits), len(self.columns)):
            z, _, _ = self._block(rows)
            deepest = max(deepest, float(-z[np.isfinite(z)].min()))
        return max(deepest, LEAST_DEPTH)

    @cached_property
    def gap(self) -> float:
        """By how much logits differ where it matters: labels from the largest, and others."""
        below, typical = 0.0, []
        for rows in row_blocks(len(self.logits), len(self.columns)):
            z, y, _ = self._block(rows)
            below = max(below, float(-z[np.arange(len(z)), y].min()))
            second = np.partition(z, -2, axis=1)[:, -2]
            typical.append(second[np.isfinite(second)])
        middle = np.median(np.concatenate([[0.0], *typical]))
        return max(below, float(-middle), SMOOTH_GAP)

    def slope(self, found: LikelihoodAt, *, scale: bool) -> float:
        """The largest derivative, per unit of weight and nat that logits move."""
        slopes = np.abs(found.gradient)
        slopes[-1] = slopes[-1] / self.gap if scale else 0.0
        return float(slopes.max() / self.weights.sum())

    def _block(self, rows: slice) -> tuple[Array, NDArray[np.intp], Array]:
        """Logits less the largest of their row, labels and weights of some rows."""
        z = self.logits[rows][:, self.columns].astype(np.float64)
        z -= z.max(axis=1, keepdims=True)
        z[z < self.floor] = -np.inf
        return z, np.searchsorted(self.columns, self.labels[rows]), self.weights[rows]

    def __call__(self, model: Array) -> LikelihoodAt:
        """At shifts and scale; exact also where probabilities are close to 0 or 1."""
        K = len(self.columns)
        c, scale = model[:K], model[K]
        value, gradient, hessian = 0.0, np.zeros(K + 1), np.zeros((K + 1, K + 1))
        for rows in row_blocks(len(self.logits), K):
            z, y, w = self._block(rows)
            masked = np.isneginf(z)
            z[masked] = 0.0
            moved = scale * z + c
            moved[masked] = -np.inf
            moved -= moved.max(axis=1, keepdims=True)
            each, top = np.arange(len(z)), moved.argmax(axis=1)
            p = np.exp(moved)
            p[each, top] = 0.0
            beside = p.sum(axis=1)  # the largest is 1: nothing is subtracted from a number close
            p[each, top] = 1.0
            value += float(w @ (moved[each, y] - np.log1p(beside)))
            p /= (1.0 + beside)[:, None]
            mean = (p * z).sum(axis=1)
            centered = z - mean[:, None]
            weighted = w[:, None] * p
            mixed = (weighted * centered).sum(axis=0)
            hessian[:K, :K] -= weighted.T @ p
            hessian[:K, K] += mixed
            hessian[K, :K] += mixed
            with np.errstate(over="ignore"):
                hessian[K, K] += float((weighted * centered * centered).sum())
            weighted[each, y] = 0.0
            wrong = weighted.sum(axis=1)
            gradient[:K] += np.bincount(y, wrong, minlength=K) - weighted.sum(axis=0)
            gradient[K] += float(wrong @ z[each, y] - (weighted * z).sum())
        hessian[K, K] = min(hessian[K, K], float(np.finfo(np.float64).max))
        # Shifting all classes together changes nothing: every row of the Hessian sums to zero.
        inner = hessian[:K, :K]
        np.fill_diagonal(inner, 0.0)
        np.fill_diagonal(inner, -inner.sum(axis=1))
        return LikelihoodAt(model, value, gradient, hessian)


def _cooled(likelihood: LogLikelihood) -> LikelihoodAt:
    """The best shifts at a scale of 1, followed from a scale at which they are easily found."""
    K = len(likelihood.columns)
    scale = min(SMOOTH_GAP / likelihood.gap, 1.0)
    found = _climbed(likelihood, np.append(np.zeros(K), scale))
    while scale < 1.0:
        scale = min(4.0 * scale, 1.0)
        model = found.model * (scale / found.model[-1])
        model[-1] = scale
        found = _climbed(likelihood, model)
    return found


def _climbed(likelihood: LogLikelihood, model: Array, scale_unit: float = 0.0) -> LikelihoodAt:
    """The maximum of the log-likelihood, over the shifts alone or the scale too, from a model.

    Newton's method, with a curvature added that keeps steps within an adaptive radius. A step of
    `scale_unit` in the scale counts as one of a nat in a shift; 0 leaves the scale as it is.
    """
    W, radius = float(likelihood.weights.sum()), 16.0  # nats
    unit = np.append(np.ones(len(model) - 1), scale_unit)
    here = likelihood(model)
    flat = None
    for _ in range(MAX_NEWTON_STEPS):
        if likelihood.slope(here, scale=scale_unit > 0) <= OPTIMAL:
            flat = here
        step = unit * _newton_step(
            here.gradient * unit, here.hessian * np.outer(unit, unit), radius
        )
        length = float(np.abs(step / np.where(unit > 0, unit, 1.0)).max())
        if length <= SHORTEST_STEP + SHORTEST_SHARE * float(np.abs(here.model).max()):
            break
        promised = float(here.gradient @ step - step @ here.hessian @ step / 2)
        there = likelihood(here.model + step)
        noise = ROUND_OFF * (W + abs(here.value))
        if there.value >= here.value + 1e-4 * promised - noise:
            here, radius = there, 4.0 * max(radius, length)
        else:
            radius = length / 4.0
    # Where the best scale is infinite, steps go on until round-off alone is left of the slopes.
    if flat is not None and likelihood.slope(here, scale=scale_unit > 0) > OPTIMAL:
        return flat
    return here


def _newton_step(gradient: Array, hessian: Array, radius: float) -> Array:
    """What solves (hessian + |gradient| / radius) step = gradient; one shift stays where it is."""
    steepest = float(np.abs(gradient).max())
    step = np.zeros(len(gradient))
    if steepest / max(radius, 1.0) <= NO_SLOPE:
        return step
    fixed = int(np.diag(hessian)[:-1].argmax())
    free = np.flatnonzero((np.arange(len(gradient)) != fixed) & (gradient != 0))
    if not free.size:
        return step
    curvature = hessian[np.ix_(free, free)] + np.diag(np.full(len(free), steepest / radius))
    size = np.sqrt(np.diag(curvature))  # scaled by it, derivatives of any size keep their digits
    scaled, target = curvature / size / size[:, None], gradient[free] / size
    try:
        found = np.linalg.solve(scaled, target)
    except np.linalg.LinAlgError:
        found = np.full(len(free), np.inf)
    with np.errstate(over="ignore"):
        longest = np.abs(found / size).max()
    if not longest <= 2 * np.sqrt(len(free)) * radius:
        # Masks leave groups of classes that never compete, or one that only the scale moves: along
        # what round-off alone decides, there is no step.
        found = np.linalg.lstsq(scaled, target, rcond=SINGULAR)[0]
    step[free] = found / size
    step[:-1] -= step[:-1].mean()
    return step
