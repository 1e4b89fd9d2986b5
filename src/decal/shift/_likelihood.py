"""The likelihood of class frequencies, given unlabelled inputs: a concave function of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decal._base.numerics import Array

PRODUCT_CLASSES = 50  # with more, products of two ratios are not kept
TINY = 1e-300  # stands for 0 in divisors
PRECISION = 1e-12  # how far from its maximum, in nats per input, a likelihood may be
RIDGE = 1e-13  # of the mean curvature: classes that inputs cannot tell apart leave none


@dataclass(frozen=True, eq=False)
class Likelihood:
    """l(v) = sum_i w_i log <a_i, v> of frequencies v that sum to one."""

    ratios: Array  # (N, K) a: probabilities over supposed frequencies, up to a factor per input
    weights: Array  # (N,) w: how many inputs each row stands for

    @classmethod
    def joined(cls, pieces: list[Likelihood]) -> Likelihood:
        """Of the inputs of all pieces together, in their order."""
        if len(pieces) == 1:
            return pieces[0]
        return cls(
            np.concatenate([piece.ratios for piece in pieces]),
            np.concatenate([piece.weights for piece in pieces]),
        )

    @cached_property
    def total(self) -> float:
        """Number of inputs."""
        return float(self.weights.sum())

    @cached_property
    def products(self) -> Array:
        """(N, K (K + 1) / 2) weighted products of two ratios, for second derivatives."""
        i, j = np.triu_indices(self.ratios.shape[1])
        return np.asarray(self.ratios[:, i] * self.ratios[:, j] * self.weights[:, None])

    def at(self, v: Array) -> Array:
        """(P,) values at frequencies (P, K)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(v @ self.ratios.T) @ self.weights)

    def slopes(self, v: Array) -> tuple[Array, Array]:
        """(P,) values and (P, K) gradients at frequencies (P, K)."""
        x = v @ self.ratios.T
        with np.errstate(divide="ignore"):
            value = np.log(x) @ self.weights
        return value, (self.weights / x) @ self.ratios

    @np.errstate(divide="ignore", invalid="ignore")  # of impossible inputs: -inf, and no slope
    def curvatures(self, v: Array) -> tuple[Array, Array, Array]:
        """(P,) values, (P, K) gradients and (P, K, K) second derivatives at frequencies (P, K)."""
        K = v.shape[1]
        x = v @ self.ratios.T
        value = np.log(x) @ self.weights
        np.reciprocal(x, out=x)
        slope = x @ (self.ratios * self.weights[:, None])
        np.square(x, out=x)
        if K > PRODUCT_CLASSES:
            each = [(self.ratios * (self.weights * row)[:, None]).T @ self.ratios for row in x]
            return value, slope, -np.array(each)
        i, j = np.triu_indices(K)
        curvature = np.empty((len(v), K, K))
        curvature[:, i, j] = curvature[:, j, i] = -(x @ self.products)
        return value, slope, curvature

    def require_intact(self, classes: int) -> None:
        """ValueError if these cannot be the ratios of inputs of so many classes."""
        a = self.ratios
        good = a.ndim == 2 and a.shape[1] == classes and len(a) > 0
        if not (good and np.all((a >= 0) & (a <= 1)) and a.any(axis=1).all()):
            raise ValueError("its inputs are damaged")

    def without(self, k: int, frequency: float) -> Likelihood:
        """The likelihood of the other classes' shares, with the frequency of class k fixed."""
        others = np.delete(self.ratios, k, axis=1)
        return Likelihood((1 - frequency) * others + frequency * self.ratios[:, [k]], self.weights)


@dataclass(frozen=True, eq=False)
class Maximum:
    """The most likely frequencies."""

    frequencies: Array  # (K,) where the likelihood is largest
    value: float  # how large, in nats
    gap: float  # no frequencies have a likelihood that is larger by more than this


def most_likely(likelihood: Likelihood) -> Maximum:
    """The frequencies of the largest likelihood, by Newton's method with non-negative steps.

    The gap follows from concavity: l(v') <= l(v) + N (max_k g_k - 1) for all v', with the mean
    gradient g. ArithmeticError if the search ends far from the maximum.
    """
    N, K = likelihood.total, likelihood.ratios.shape[1]
    v = np.full(K, 1 / K)
    for _ in range(10):  # expectation-maximisation, before Newton's method takes over
        v = v * likelihood.slopes(v[None])[1][0] / N
        v /= v.sum()
    value, gap = -np.inf, np.inf
    accepted, stalled = 1e3 * PRECISION * N + 1e-6, 0
    for _ in range(100):
        values, slope, curvature = likelihood.curvatures(v[None])
        g, value = slope[0] / N, float(values[0])
        before, gap = gap, N * max(float(g.max()) - 1, 0.0)
        stalled = stalled + 1 if accepted >= gap > before / 2 else 0
        if gap <= PRECISION * N or stalled == 3:
            break
        step = _least_squares(-curvature[0] / N, 2 * g - 1) - v
        size = _step_size(likelihood, v, step, float((g - 1) @ step))
        if size < 1e-12:
            break
        v = np.maximum(v + size * step, 0.0)
        v /= v.sum()
    if gap > accepted:
        raise ArithmeticError(
            f"the most likely frequencies were not found: {gap:.2g} nats may be missing. Please "
            "report this, with the logits."
        )
    return Maximum(v, value, gap)


def _least_squares(curvature: Array, target: Array) -> Array:
    """The y >= 0 that minimises y' curvature y / 2 - target' y."""
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    K = len(target)
    root = np.linalg.cholesky(curvature + RIDGE * np.trace(curvature) / K * np.eye(K))
    y, _ = nnls(root.T, solve_triangular(root, target, lower=True), maxiter=100 * K)
    return np.asarray(y)


def _step_size(likelihood: Likelihood, v: Array, step: Array, slope: float) -> float:
    """How much of a step raises l(v) / N - sum v, whose maximum has sum one, as it should."""

    def value(at: Array) -> float:
        return float(likelihood.at(at[None])[0]) / likelihood.total - float(at.sum())

    start = value(v)
    for size in 0.5 ** np.arange(41.0):
        if value(np.maximum(v + size * step, 0.0)) >= start + 1e-4 * size * slope - 1e-15:
            return float(size)
    return 0.0
