"""The region of plausible shifts, whatever the query: how far it reaches, and its corners."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decal._base.numerics import Array
from decal.coupled._loss import ROUND_OFF, Evaluated, ShiftLoss
from decal.coupled._solver import (
    BUDGET_TOLERANCE,
    LOWER,
    MAX_LINE_STEPS,
    EndpointBatch,
    Problem,
    Slope,
    newton,
)

MOST_PAIRED_CLASSES = 32  # whose pairs are each solved; beyond, an ellipsoid bounds them all
MARGIN = 1e-9  # share by which reaches are widened: more than round-off can add up to
SERIES_BELOW = 1e-3  # below this, e^x - 1 - x is taken from its series


@dataclass(frozen=True)
class Region:
    """The shifts of the classes that occur, D(c) <= budget, in coordinates centered at the best."""

    problem: Problem
    reach: Array  # (K, K) outer bounds of the greatest c_j - c_k
    bank: Evaluated  # good starts: the best shift, those that attain the reaches, and `starts`
    rho: Array  # (K,) below 1: every KKT point of the lower endpoint of class k is global
    bend: Array  # (K,) what `theorem` compares

    @classmethod
    @np.errstate(all="ignore")  # infinite reaches are an answer
    def of(cls, data: ShiftLoss, budget: float, starts: Array) -> Region:
        """The region of a positive budget; `starts` (M, K) join the bank."""
        K = len(data.center)
        reach = _ellipsoid_reaches(data, budget)
        problem = Problem(data, budget, data.best, float((reach + reach.T).max()))
        points = np.concatenate([data.best.shift, starts])
        if 1 < K <= MOST_PAIRED_CLASSES:
            solved, corners = _reaches(problem)
            reach = np.minimum(reach, solved)
            points = np.concatenate([points, corners])
        problem = replace(problem, diameter=float((reach + reach.T).max()))
        bend = _bend_over_curvature(data)
        rho = theorem(data, budget, reach, bend)
        curvature = K <= MOST_PAIRED_CLASSES or bool((rho >= 1).any())
        bank = data.evaluate(points, curvature=curvature)
        moved = problem.pull(points, bank.loss)
        if (moved != points).any():
            bank = data.evaluate(moved, curvature=curvature)
        return cls(problem, reach, bank, rho, bend)

    @property
    def radius(self) -> float:
        """Greatest spread of a plausible shift, max c - min c."""
        return float(self.reach.max())

    @property
    def curvature(self) -> bool:
        """Whether Newton's method takes the Hessian at every point."""
        return bool(self.bank.hessian.shape[1])


def kappa(r: Any) -> Any:
    """e^-r + r - 1: what self-concordance leaves of r^2 / 2."""
    r = np.asarray(r, dtype=np.float64)
    return np.where(r < SERIES_BELOW, r * r / 2 * (1 - r / 3), np.expm1(-r) + r)


def psi(r: Any) -> Any:
    """2 kappa(r) / r^2, from 1 at r = 0 downwards."""
    r = np.maximum(np.asarray(r, dtype=np.float64), SERIES_BELOW**2)
    return 2 * kappa(r) / r**2


def bulge(r: Any) -> Any:
    """2 (e^r - 1 - r) / r^2, from 1 at r = 0 upwards."""
    r = np.maximum(np.asarray(r, dtype=np.float64), SERIES_BELOW**2)
    with np.errstate(over="ignore"):
        return np.where(r < SERIES_BELOW, 1 + r / 2, 2 * (np.expm1(r) - r) / r**2)


def theorem(data: ShiftLoss, budget: float, reach: Array, bend: Array) -> Array:
    """(K,) rho_k: where below 1, every KKT point of the lower endpoint is global, for all queries.

    At a KKT point c0 with multiplier tau, any plausible c0 + v has D >= budget + tau d v + half of
    psi(spread of v) e^-(spread of c0) v'H*v, as the Hessian changes by at most e^spread; and
    g <= g0 + d v + half of v'v / 2 over the other classes. So g <= g0 if tau / 2 <= psi e^-spread
    H*. Tau is at most the slope of D along c0, over d c0, which is the region's reach along d.
    """
    K = len(reach)
    if K < 3:
        return np.zeros(K)  # g is linear
    radius, spread = item_spreads(reach)
    with np.errstate(over="ignore", invalid="ignore"):
        steepness = budget * radius * np.expm1(radius) / (np.expm1(radius) - radius)
        least_reach = np.sqrt(2 * budget / (bulge(reach.max()) * np.diag(data.best.hessian[0])))
        rho = steepness / least_reach * np.exp(radius) / psi(spread) * bend
    return np.where(np.isnan(rho), np.inf, rho)


def item_spreads(reach: Array) -> tuple[Array, Array]:
    """(K,) greatest spread of shifts at the lower endpoint of class k, and of v between two.

    Such a shift lifts no class less than class k, measured from the best shift: see `by_item`.
    """
    two = np.sort(reach, axis=0)[-2:]
    return two[1], two.sum(axis=0)


def _bend_over_curvature(data: ShiftLoss) -> Array:
    """(K,) largest eigenvalue of half the identity on all classes but k, against H*."""
    K = len(data.center)
    largest = np.zeros(K)
    if K < 3:
        return largest
    for k in range(K):
        others = np.delete(np.arange(K), k)
        block = data.inverse_metric[np.ix_(others, others)]
        block = block - block.mean(axis=0)
        block = block - block.mean(axis=1, keepdims=True)
        largest[k] = np.linalg.eigvalsh(block)[-1] / 2
    return largest


def _reaches(problem: Problem) -> tuple[Array, Array]:
    """Outer bounds of the greatest c_j - c_k over the region, (K, K), and shifts near it."""
    K = len(problem.data.center)
    j, k = np.nonzero(~np.eye(K, dtype=bool))
    start = problem.data.best[np.zeros(len(j), dtype=np.intp)]
    endpoints = newton(
        problem, EndpointBatch(np.eye(K)[j], k, np.full(len(j), LOWER), start, linear=True)
    )
    slope = Slope.of(endpoints)
    reach = np.zeros((K, K))
    reach[j, k] = slope.g
    # Bounds of the reaches need the diameter, which they bound: try one, and see whether it holds.
    diameter = 2 * float((reach + reach.T).max())
    reach[j, k] += slope.slack(endpoints, replace(problem, diameter=diameter))
    reach *= 1 + MARGIN
    if not (reach + reach.T).max() <= diameter:
        reach = np.full((K, K), np.inf)
    return reach, endpoints.at.shift


def _ellipsoid_reaches(data: ShiftLoss, budget: float) -> Array:
    """Outer bounds (K, K) of the greatest c_j - c_k, without solving for it.

    D(c) >= kappa(r) / r^2 c'H*c for a shift of spread r, and r^2 <= the greatest distance times
    c'H*c: so that kappa(r) <= budget times that distance, which bounds r, and then every c_j - c_k.
    """
    distance = distances(data.inverse_metric)
    farthest = budget * float(distance.max())
    r = farthest + 1.0  # beyond the root, as kappa(r) >= r - 1
    for _ in range(MAX_LINE_STEPS):
        excess = float(kappa(r)) - farthest
        if excess <= BUDGET_TOLERANCE * farthest:
            break
        r -= excess / -float(np.expm1(-r))
    return np.asarray(np.sqrt(2 * budget * distance / psi(r)) * (1 + MARGIN))


def distances(inverse: Array) -> Array:
    """(..., K, K) squared distances (e_i - e_j)' inverse (e_i - e_j), and what round-off may hide.

    Where the data hardly bend the loss, entries are huge and cancel: round-off is added, so that
    bounds hold.
    """
    diagonal = np.einsum("...ii->...i", inverse)
    total = diagonal[..., :, None] + diagonal[..., None, :]
    hidden = ROUND_OFF * inverse.shape[-1] * (total + 2 * np.abs(inverse))
    hidden[..., np.arange(inverse.shape[-1]), np.arange(inverse.shape[-1])] = 0.0
    return np.asarray(np.maximum(total - 2 * inverse, 0.0) + hidden)
