"""The log-likelihood of labels as a function of shifts and scale of all logits, and its maximum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, row_blocks

MAX_NEWTON_STEPS = 100
# Steps shorter than this, in nats, or than this share of the shifts, are not taken any more.
SHORTEST_STEP, SHORTEST_SHARE = 1e-11, 4 * float(np.finfo(np.float64).eps)
ROUND_OFF = 1e-14  # error of a log-likelihood, relative to its size and per unit of weight
SINGULAR = 1e-12  # eigenvalues of a Hessian, scaled to ones on its diagonal, that are round-off
SMOOTH_GAP = 4.0  # nats by which logits may differ in a problem that is easy to solve
OPTIMAL = 1e-9  # slope of the log-likelihood, per weight and nat, that may be left at its maximum
LEAST_DEPTH = 1e-100  # smaller differences of logits count as this: its inverse has a square
# Logits this many gaps below the largest are masks: they do not count while a scale is sought, or
# they would keep it from 0, where logits that tell nothing about the labels send it.
OUT_OF_REACH = 1e6
NO_SLOPE = 1e-290  # a derivative below, in nats per nat, leads nowhere: its quotients underflow
DENSE_CLASSES = 64  # of more classes, with a ridge, the Hessian is not made but multiplied by
MAX_PRODUCTS = 200  # with a Hessian, for one step


@dataclass(frozen=True)
class LikelihoodAt:
    """A model, the log-likelihood there, its gradient and its negative Hessian, or its diagonal."""

    model: Array
    value: float
    gradient: Array
    hessian: Array


@dataclass(frozen=True)
class LogLikelihood:
    """Sum of w log p_y as a function of a model: a shift for each column, then the scale.

    Less a ridge on the shifts, if there is one: half of it times the sum of their squares.
    """

    logits: Logits
    labels: NDArray[np.intp]
    weights: Array
    columns: NDArray[np.intp]
    floor: float = -np.inf  # logits further below the largest of their row are masked
    ridge: float = 0.0

    @cached_property
    def depth(self) -> float:
        """The most that two logits of a row differ, but for masks."""
        deepest = 0.0
        for rows in row_blocks(len(self.logits), len(self.columns)):
            z, _, _ = self._block(rows)
            deepest = max(deepest, float(-z[np.isfinite(z)].min()))
        return max(deepest, LEAST_DEPTH)

    @cached_property
    def below(self) -> Array:
        """(n,) by how much the logits of the labels are below the largest of their rows."""
        found = np.empty(len(self.labels))
        for rows in row_blocks(len(self.logits), len(self.columns)):
            z, y, _ = self._block(rows)
            found[rows] = -z[np.arange(len(z)), y]
        return found

    @cached_property
    def gap(self) -> float:
        """By how much logits differ where it matters: labels from the largest, and others."""
        typical = []
        for rows in row_blocks(len(self.logits), len(self.columns)):
            z, _, _ = self._block(rows)
            second = np.partition(z, -2, axis=1)[:, -2]
            typical.append(second[np.isfinite(second)])
        middle = np.median(np.concatenate([[0.0], *typical]))
        return max(float(self.below.max()), float(-middle), SMOOTH_GAP)

    def weighted(self, weights: Array) -> LogLikelihood:
        """The same rows with other weights; 0 leaves a row out."""
        other = replace(self, weights=weights)
        other.__dict__.update(below=self.below, gap=self.gap)  # a unit of length, for all parts
        return other

    def slope(self, found: LikelihoodAt, *, scale: bool) -> float:
        """The largest derivative, per unit of weight and nat that logits move."""
        slopes = np.abs(found.gradient)
        slopes[-1] = slopes[-1] / self.gap if scale else 0.0
        return float(slopes.max() / self.weights.sum())

    @cached_property
    def _positions(self) -> NDArray[np.intp]:
        """Of the labels, among the columns."""
        return np.searchsorted(self.columns, self.labels)

    def _block(self, rows: slice) -> tuple[Array, NDArray[np.intp], Array]:
        """Logits less the largest of their row, labels and weights of some rows."""
        some = len(self.columns) < self.logits.shape[1]
        z = self.logits[rows][:, self.columns] if some else self.logits[rows]
        z = z.astype(np.float64)
        z -= z.max(axis=1, keepdims=True)
        z[z < self.floor] = -np.inf
        return z, self._positions[rows], self.weights[rows]

    def _predicted(self, z: Array, y: NDArray[np.intp], model: Array) -> tuple[Array, Array]:
        """Probabilities, and log p_y; exact also close to 0 or 1. Masks of z become zeros."""
        masked = np.isneginf(z)
        z[masked] = 0.0
        moved = model[-1] * z + model[:-1]
        moved[masked] = -np.inf
        moved -= moved.max(axis=1, keepdims=True)
        each, top = np.arange(len(z)), moved.argmax(axis=1)
        p = np.exp(moved)
        p[each, top] = 0.0
        beside = p.sum(axis=1)  # the largest is 1: nothing is subtracted from a number close
        p[each, top] = 1.0
        p /= (1.0 + beside)[:, None]
        return p, moved[each, y] - np.log1p(beside)

    def losses(self, model: Array) -> Array:
        """(n,) -log p_y of every row."""
        found = np.empty(len(self.labels))
        for rows in row_blocks(len(self.logits), len(self.columns)):
            z, y, _ = self._block(rows)
            found[rows] = -self._predicted(z, y, model)[1]
        return found

    def at_scale(self, scale: float) -> tuple[float, float, float]:
        """Without shifts: the value, its derivative by the scale, and minus the second one."""
        value = slope = curvature = 0.0
        model = np.append(np.zeros(len(self.columns)), scale)
        for rows in row_blocks(len(self.logits), len(self.columns)):
            z, y, w = self._block(rows)
            p, own = self._predicted(z, y, model)
            mean = (p * z).sum(axis=1)
            value += float(w @ own)
            slope += float(w @ (z[np.arange(len(z)), y] - mean))
            with np.errstate(over="ignore"):
                curvature += float(w @ (p * (z - mean[:, None]) ** 2).sum(axis=1))
        return value, slope, min(curvature, float(np.finfo(np.float64).max))

    def __call__(self, model: Array) -> LikelihoodAt:
        """At shifts and scale."""
        K = len(self.columns)
        dense = K <= DENSE_CLASSES or self.ridge == 0
        value, gradient, mixed, bend = 0.0, np.zeros(K + 1), np.zeros(K), 0.0
        inner = np.zeros((K, K) if dense else K)
        for rows in row_blocks(len(self.logits), K):
            z, y, w = self._block(rows)
            p, own = self._predicted(z, y, model)
            value += float(w @ own)
            mean = (p * z).sum(axis=1)
            centered = z - mean[:, None]
            weighted = w[:, None] * p
            mixed += (weighted * centered).sum(axis=0)
            if dense:
                inner -= weighted.T @ p
            else:
                inner += (weighted * (1.0 - p)).sum(axis=0)
            with np.errstate(over="ignore"):
                bend += float((weighted * centered * centered).sum())
            each = np.arange(len(z))
            weighted[each, y] = 0.0
            wrong = weighted.sum(axis=1)
            gradient[:K] += np.bincount(y, wrong, minlength=K) - weighted.sum(axis=0)
            gradient[K] += float(wrong @ z[each, y] - (weighted * z).sum())
        bend = min(bend, float(np.finfo(np.float64).max))
        if self.ridge:
            value -= self.ridge / 2 * float(model[:K] @ model[:K])
            gradient[:K] -= self.ridge * model[:K]
        if not dense:
            return LikelihoodAt(model, value, gradient, np.append(inner + self.ridge, bend))
        # Shifting all classes together changes nothing: every row of the Hessian sums to zero.
        np.fill_diagonal(inner, 0.0)
        np.fill_diagonal(inner, self.ridge - inner.sum(axis=1))
        hessian = np.block([[inner, mixed[:, None]], [mixed, bend]])
        return LikelihoodAt(model, value, gradient, hessian)

    def product(self, model: Array, vector: Array) -> Array:
        """The negative Hessian at a model, times a vector."""
        K = len(self.columns)
        found = np.append(self.ridge * vector[:K], 0.0)
        for rows in row_blocks(len(self.logits), K):
            z, y, w = self._block(rows)
            p, _ = self._predicted(z, y, model)
            along = vector[K] * z + vector[:K]
            along -= (p * along).sum(axis=1, keepdims=True)
            along *= p
            along *= w[:, None]
            found[:K] += along.sum(axis=0)
            found[K] += float((along * z).sum())
        return found


def climbed(
    likelihood: LogLikelihood,
    model: Array,
    scale_unit: float = 0.0,
    shortest: float = SHORTEST_STEP,
) -> LikelihoodAt:
    """The maximum of the log-likelihood, over the shifts alone or the scale too, from a model.

    Newton's method, with a curvature added that keeps steps within an adaptive radius. A step of
    `scale_unit` in the scale counts as one of a nat in a shift; 0 leaves the scale as it is. Steps
    shorter than `shortest` are not taken.
    """
    W, radius = float(likelihood.weights.sum()), 16.0  # nats
    unit = np.append(np.ones(len(model) - 1), scale_unit)
    here = likelihood(model)
    flat = None
    for _ in range(MAX_NEWTON_STEPS):
        if likelihood.slope(here, scale=scale_unit > 0) <= OPTIMAL:
            flat = here
        if here.hessian.ndim == 2:
            scaled = here.hessian * np.outer(unit, unit)
            pinned = likelihood.ridge == 0
            step = unit * _newton_step(here.gradient * unit, scaled, radius, pinned=pinned)
        else:
            step = unit * _conjugate_step(likelihood, here, unit, radius)
        length = float(np.abs(step / np.where(unit > 0, unit, 1.0)).max())
        if length <= shortest + SHORTEST_SHARE * float(np.abs(here.model).max()):
            break
        if here.hessian.ndim == 2:
            bent = here.hessian @ step
        else:
            bent = likelihood.product(here.model, step)
        promised = float(here.gradient @ step - step @ bent / 2)
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


def _newton_step(gradient: Array, hessian: Array, radius: float, *, pinned: bool) -> Array:
    """What solves (hessian + |gradient| / radius) step = gradient; pinned, a shift stays put."""
    steepest = float(np.abs(gradient).max())
    step = np.zeros(len(gradient))
    if steepest / max(radius, 1.0) <= NO_SLOPE:
        return step
    fixed = int(np.diag(hessian)[:-1].argmax()) if pinned else -1
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


def _conjugate_step(
    likelihood: LogLikelihood, here: LikelihoodAt, unit: Array, radius: float
) -> Array:
    """What solves (hessian + |gradient| / radius) step = gradient, by conjugate gradients.

    As closely as the gradient is small, so that steps converge faster and faster.
    """
    left = here.gradient * unit
    steepest = float(np.abs(left).max())
    step = np.zeros(len(left))
    if steepest / max(radius, 1.0) <= NO_SLOPE:
        return step
    damping = steepest / radius
    size = here.hessian * unit**2 + damping
    toward = along = left / size
    rest = float(left @ toward)
    enough = rest * min(0.1, steepest / float(likelihood.weights.sum())) ** 2
    for _ in range(MAX_PRODUCTS):
        bent = unit * likelihood.product(here.model, unit * along) + damping * along
        curvature = float(along @ bent)
        if not curvature > 0:  # round-off is all that is left
            break
        share = rest / curvature
        step += share * along
        left = left - share * bent
        toward = left / size
        before, rest = rest, float(left @ toward)
        if rest <= enough:
            break
        along = toward + (rest / before) * along
    return step
