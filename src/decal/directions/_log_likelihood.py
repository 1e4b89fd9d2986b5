"""The log-likelihood of labels as a function of shifts and scale of all logits, and its maximum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from decal._base.arrays import extreme
from decal._base.numerics import (
    BLOCK_ELEMENTS,
    Array,
    Indices,
    Logits,
    Mask,
    compiled,
    for_each_block,
    row_blocks,
)

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
DENSE_CLASSES = 64  # of more classes the Hessian is not made but multiplied by
SAMPLE = 1024  # rows that say what is typical
LARGEST_COMPILED = 1e100  # nats between logits that compiled loops are given
COMPILED_BLOCK_ELEMENTS = 1 << 18  # need no temporaries
LARGEST = float(np.finfo(np.float64).max)
NO_ROWS = np.empty(0, dtype=np.intp)
# Products with a Hessian that is not made, for one step, and such steps: after them it is made,
# unless there is a ridge.
MAX_PRODUCTS, MAX_ROUGH_STEPS = 100, 60
NEAR_LEVEL = 60.0  # nats by which a sum of exponentials may be off without underflow in float32
ROUGHEST = 0.1  # residual of a step, relative to the gradient


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
    labels: Indices  # of the rows, as numbers of columns
    weights: Array
    columns: Indices
    floor: float = -np.inf  # logits further below the largest of their row are masked
    ridge: float = 0.0
    dense: bool = True  # whether Hessians are made; else their diagonals, and products with them
    rows: Indices | None = None  # of the logits; all of them, in their order, if None

    @cached_property
    def below(self) -> Array:
        """(n,) by how much the logits of the labels are below the largest of their rows."""
        found = np.empty(len(self.labels))

        def fill(rows: slice) -> None:
            z = self._taken(rows)
            own = z[np.arange(len(z)), self.labels[rows]].astype(np.float64)
            found[rows] = extreme(z, largest=True)[:, 0] - own

        for_each_block(fill, len(self.labels), len(self.columns), self._block_elements)
        return found

    @cached_property
    def gap(self) -> float:
        """By how much logits differ where it matters: labels from the largest, and others."""
        z = self._taken(slice(None, None, -(-len(self.labels) // SAMPLE))).astype(np.float64)
        second, first = np.partition(z, (-2, -1), axis=1)[:, -2:].T
        typical = (first - second)[np.isfinite(second)]
        middle = float(np.median(typical)) if typical.size else 0.0
        return max(float(self.below.max()), middle, SMOOTH_GAP)

    @property
    def depth(self) -> float:
        """The most that two logits of a row differ, but for masks."""
        deepest = 0.0
        for rows in row_blocks(len(self.labels), len(self.columns)):
            z, _ = self._block(rows)
            deepest = max(deepest, float(-z.min()))
        return max(deepest, LEAST_DEPTH)

    @cached_property
    def total_weight(self) -> float:
        """Of all rows."""
        return float(self.weights.sum())

    def with_settings(self, **settings: Any) -> LogLikelihood:
        """Of the same rows."""
        known = self.__dict__.copy()
        if "floor" in settings:
            known.pop("_only_block", None)
        other = replace(self, **settings)
        other.__dict__.update(known, **settings)
        return other

    def part(self, rows: Indices) -> LogLikelihood:
        """Of some of the rows, with the unit of length of all."""
        of = rows if self.rows is None else self.rows[rows]
        other = replace(self, labels=self.labels[rows], weights=self.weights[rows], rows=of)
        other.__dict__.update(below=self.below[rows], gap=self.gap, _compiled=self._compiled)
        return other

    def slope(self, found: LikelihoodAt, *, scale: bool) -> float:
        """The largest derivative, per unit of weight and nat that logits move."""
        slopes = np.abs(found.gradient)
        slopes[-1] = slopes[-1] / self.gap if scale else 0.0
        return float(slopes.max() / self.total_weight)

    def __call__(self, model: Array) -> LikelihoodAt:
        """At shifts and scale."""
        return self.at(model, self.sums(model))

    def sums(self, model: Array) -> Array:
        """Over the rows: the value, the second derivative by the scale, and the gradient (K + 1,).

        Then the diagonal of the Hessian of the shifts; or, dense, that by shifts and scale and that
        of pairs of shifts, (K, K), below its diagonal. All second derivatives with a minus.
        """
        K, kernels = len(self.columns), self._kernels

        def fill(rows: slice, found: Array) -> None:
            if kernels is not None and (K <= kernels.FEW_CLASSES or not self.dense):
                given = *self._given(rows), self.labels[rows], self.weights[rows], model
                kernels.sums(*given, self.floor, self.dense, found)
            else:
                self._fill_sums(rows, model, found)

        return self._added(fill, 2 * K + 3 + (K * K if self.dense else 0))

    def at(self, model: Array, sums: Array) -> LikelihoodAt:
        """At a model, where the rows have these sums."""
        K = len(self.columns)
        value, bend, gradient = float(sums[0]), min(sums[1], LARGEST), sums[2 : K + 3]
        if self.ridge:
            value -= self.ridge / 2 * float(model[:K] @ model[:K])
            gradient[:K] -= self.ridge * model[:K]
        if not self.dense:
            return LikelihoodAt(model, value, gradient, np.append(sums[K + 3 :] + self.ridge, bend))
        inner = np.tril(sums[2 * K + 3 :].reshape(K, K), -1)
        inner += inner.T
        # Shifting all classes together changes nothing: every row of the Hessian sums to zero.
        inner.flat[:: K + 1] = self.ridge - inner.sum(axis=1)
        hessian = np.empty((K + 1, K + 1))
        hessian[:K, :K], hessian[K, K] = inner, bend
        hessian[:K, K] = hessian[K, :K] = sums[K + 3 : 2 * K + 3]
        return LikelihoodAt(model, value, gradient, hessian)

    def losses(self, model: Array) -> Array:
        """(n,) -log p_y of every row."""
        found, kernels = np.empty(len(self.labels)), self._kernels

        def fill(rows: slice) -> None:
            if kernels is None:
                found[rows] = -self._predicted(*self._block(rows), self.labels[rows], model)[1]
            else:
                given = *self._given(rows), self.labels[rows], model, self.floor
                kernels.losses(*given, found[rows])

        for_each_block(fill, len(self.labels), len(self.columns), self._block_elements)
        return found

    def value(self, model: Array) -> float:
        """The log-likelihood alone, without the ridge."""
        return -float((self.weights * self.losses(model)).sum())

    def levels(self, model: Array) -> Array:
        """(n,) the log of the sum of exp(scale * z + shifts), or close enough to take exponentials.

        The largest z of a row is 0.
        """
        shifts, scale = model[:-1], model[-1]
        if np.ptp(shifts) <= NEAR_LEVEL:
            return np.full(len(self.labels), shifts.max())
        return np.asarray(self.losses(model) + shifts[self.labels] - scale * self.below)

    def product(self, model: Array, levels: Array, vector: Array) -> Array:
        """The negative Hessian at a model, times a vector."""
        K, kernels = len(self.columns), self._kernels

        def fill(rows: slice, found: Array) -> None:
            w, level = self.weights[rows], levels[rows]
            if kernels is not None:
                given = *self._given(rows), self.labels[rows], self.below[rows], w, level
                kernels.product(*given, model, self.floor, vector, found)
                return
            z, masked = self._block(rows)
            p = np.exp(model[K] * z + model[:K] - level[:, None])
            if masked is not None:
                p[masked] = 0.0
            p /= p.sum(axis=1)[:, None]
            along = vector[K] * z + vector[:K]
            along -= along[np.arange(len(z)), self.labels[rows]][:, None]
            along -= (p * along).sum(axis=1)[:, None]
            along *= p
            along *= w[:, None]
            found[:K] = along.sum(axis=0)
            found[K] = np.einsum("ij,ij->", along, z)

        found = self._added(fill, K + 1)
        found[:K] += self.ridge * vector[:K]
        return found

    # Rows

    @cached_property
    def _compiled(self) -> ModuleType | None:
        """Compiled loops, where there is enough to do."""
        if compiled(len(self.labels) * len(self.columns)) is None:
            return None
        from decal._base import likelihood_kernels

        return likelihood_kernels

    @property
    def _kernels(self) -> ModuleType | None:
        """Compiled loops, where also no square overflows."""
        return self._compiled if self.below.max() <= LARGEST_COMPILED else None

    @property
    def _block_elements(self) -> int:
        return BLOCK_ELEMENTS if self._compiled is None else COMPILED_BLOCK_ELEMENTS

    def _given(self, rows: slice) -> tuple[Logits, Indices, Indices]:
        """What compiled loops take of some rows."""
        if self.rows is None:
            return self.logits[rows], self.columns, NO_ROWS
        return self.logits, self.columns, self.rows[rows]

    def _added(self, fill: Callable[[slice, Array], None], size: int) -> Array:
        """The sum of what blocks of rows fill arrays of this size with."""
        n, K = len(self.labels), len(self.columns)
        if size > BLOCK_ELEMENTS:  # too large to have several
            total, part = np.zeros(size), np.empty(size)
            for rows in row_blocks(n, K, size):
                fill(rows, part)
                total += part
            return total
        step = max(1, self._block_elements // K)
        parts = np.empty((-(-n // step), size))

        def work(rows: slice) -> None:
            fill(rows, parts[rows.start // step])

        for_each_block(work, n, K, self._block_elements)
        return np.asarray(parts.sum(axis=0)) if len(parts) > 1 else parts[0]

    def _taken(self, rows: slice) -> Logits:
        """The logits of some rows as they are."""
        z = self.logits[rows] if self.rows is None else self.logits[self.rows[rows]]
        return z[:, self.columns] if len(self.columns) < self.logits.shape[1] else z

    def _block(self, rows: slice) -> tuple[Array, Mask | None]:
        """Logits of some rows less the largest, and which are masked, if any: these are zeros."""
        if len(self.labels) * len(self.columns) <= BLOCK_ELEMENTS:
            return self._only_block
        return self._centered(rows)

    @cached_property
    def _only_block(self) -> tuple[Array, Mask | None]:
        return self._centered(slice(None))

    def _centered(self, rows: slice) -> tuple[Array, Mask | None]:
        z = self._taken(rows).astype(np.float64)
        z -= extreme(z, largest=True)
        masked = np.isneginf(z) | (z < self.floor)
        if not masked.any():
            return z, None
        z[masked] = 0.0
        return z, masked

    def _predicted(
        self, z: Array, masked: Mask | None, y: Indices, model: Array
    ) -> tuple[Array, Array]:
        """Probabilities, and log p_y; exact also close to 0 or 1."""
        moved = model[-1] * z
        moved += model[:-1]
        if masked is not None:
            moved[masked] = -np.inf
        each, top = np.arange(len(z)), moved.argmax(axis=1)
        moved -= moved[each, top][:, None]
        own = moved[each, y]
        p = np.exp(moved, out=moved)
        p[each, top] = 0.0
        beside = p.sum(axis=1)  # the largest is 1: nothing is subtracted from a number close
        p[each, top] = 1.0
        p /= (1.0 + beside)[:, None]
        return p, own - np.log1p(beside)

    def _fill_sums(self, rows: slice, model: Array, found: Array) -> None:
        K, y, w = len(self.columns), self.labels[rows], self.weights[rows]
        z, masked = self._block(rows)
        p, own = self._predicted(z, masked, y, model)
        weighted = w[:, None] * p
        centered = z - (p * z).sum(axis=1)[:, None]
        found[0] = (w * own).sum()
        turned = weighted * centered
        with np.errstate(over="ignore"):
            found[1] = np.einsum("ij,ij->", turned, centered)
        if self.dense:
            found[K + 3 : 2 * K + 3] = turned.sum(axis=0)
            np.negative(weighted.T @ p, out=found[2 * K + 3 :].reshape(K, K))
        else:
            found[K + 3 :] = (weighted * (1.0 - p)).sum(axis=0)
        each = np.arange(len(z))
        weighted[each, y] = 0.0
        wrong = weighted.sum(axis=1)
        found[2 : K + 2] = np.bincount(y, wrong, minlength=K) - weighted.sum(axis=0)
        found[K + 2] = (wrong * z[each, y]).sum() - np.einsum("ij,ij->", weighted, z)


def the_model(K: int) -> Array:
    """No shifts, and a scale of 1."""
    return np.append(np.zeros(K), 1.0)


def climbed(
    likelihood: LogLikelihood,
    start: Array | LikelihoodAt,
    scale_unit: float = 0.0,
    shortest: float = SHORTEST_STEP,
    *,
    tested: bool = True,
) -> LikelihoodAt:
    """The maximum of the log-likelihood, over the shifts alone or the scale too, from a model.

    Newton's method, with a curvature added that keeps steps within an adaptive radius. A step of
    `scale_unit` in the scale counts as one of a nat in a shift; 0 leaves the scale as it is. Steps
    shorter than `shortest` are not taken. Steps shrink faster and faster: the last one need not be
    tested, then value and gradient are as it promises.
    """
    W, radius, roughness = likelihood.total_weight, 16.0, ROUGHEST  # the radius in nats
    here = start if isinstance(start, LikelihoodAt) else likelihood(start)
    unit = np.append(np.ones(len(here.model) - 1), scale_unit)
    slope = likelihood.slope(here, scale=scale_unit > 0)
    flat, before = None, 0.0
    for i in range(MAX_NEWTON_STEPS):
        if slope <= OPTIMAL:
            flat = here
        found = None
        if not likelihood.dense and (i < MAX_ROUGH_STEPS or likelihood.ridge):
            found = _conjugate_step(likelihood, here, unit, radius, roughness, shortest)
        if found is None:
            if not likelihood.dense:
                likelihood = likelihood.with_settings(dense=True)
                here = likelihood(here.model)
            found = _direct_step(here, unit, radius, pinned=likelihood.ridge == 0)
        step, bent = found
        length = float(np.abs(step / np.where(unit > 0, unit, 1.0)).max())
        if length <= shortest + SHORTEST_SHARE * float(np.abs(here.model).max()):
            break
        promised = float(here.gradient @ step - step @ bent / 2)
        if not tested and length * length * length <= before * before * shortest:
            value, gradient = here.value + promised, here.gradient - bent
            return LikelihoodAt(here.model + step, value, gradient, here.hessian)
        there = likelihood(here.model + step)
        noise = ROUND_OFF * (W + abs(here.value))
        if not there.value >= here.value + 1e-4 * promised - noise:
            radius, before = length / 4.0, 0.0
            continue
        here, radius = there, 4.0 * max(radius, length)
        slope, steeper = likelihood.slope(here, scale=scale_unit > 0), slope
        roughness = min(ROUGHEST, min(slope / max(steeper, NO_SLOPE), 1.0) ** 2)
        if slope <= OPTIMAL and length * length <= before * shortest:
            break
        before = length
    # Where the best scale is infinite, steps go on until round-off alone is left of the slopes.
    return here if flat is None or slope <= OPTIMAL else flat


def _direct_step(
    here: LikelihoodAt, unit: Array, radius: float, *, pinned: bool
) -> tuple[Array, Array]:
    """What solves (hessian + |gradient| / radius) step = gradient, and hessian times step.

    Pinned, a shift stays put.
    """
    gradient, hessian = here.gradient * unit, here.hessian * np.outer(unit, unit)
    steepest = float(np.abs(gradient).max())
    step = np.zeros(len(gradient))
    if steepest / max(radius, 1.0) <= NO_SLOPE:
        return step, step
    fixed = int(np.diag(hessian)[:-1].argmax()) if pinned else -1
    free = np.flatnonzero((np.arange(len(gradient)) != fixed) & (gradient != 0))
    if not free.size:
        return step, step
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
    step *= unit
    return step, here.hessian @ step


def _conjugate_step(
    likelihood: LogLikelihood,
    here: LikelihoodAt,
    unit: Array,
    radius: float,
    roughness: float,
    shortest: float,
) -> tuple[Array, Array] | None:
    """As `_direct_step`, by conjugate gradients, but for a residual relative to the gradient.

    None if it takes long, or round-off is all that is left, and there is no ridge.
    """
    left = gradient = here.gradient * unit
    steepest = float(np.abs(left).max())
    step = np.zeros(len(left))
    if steepest / max(radius, 1.0) <= NO_SLOPE:
        return step, step
    damping = steepest / radius
    size = here.hessian * unit**2 + damping
    size[size == 0] = 1.0
    toward = along = left / size
    rest = float(left @ toward)
    enough = rest * roughness**2
    levels = likelihood.levels(here.model)
    for _ in range(MAX_PRODUCTS):
        bent = unit * likelihood.product(here.model, levels, unit * along) + damping * along
        curvature = float(along @ bent)
        if not curvature > 0:
            curvature = 0.0
            break
        share = rest / curvature
        step = step + share * along
        left = left - share * bent
        toward = left / size
        before, rest = rest, float(left @ toward)
        if rest <= enough or np.abs(toward).max() <= shortest / 10:
            break
        along = toward + (rest / before) * along
    else:
        curvature = 0.0
    if likelihood.ridge == 0:
        if curvature == 0:
            return None
        step[:-1] -= step[:-1].mean()
    bent = (gradient - left - damping * step) / np.where(unit > 0, unit, 1.0)
    return unit * step, bent
