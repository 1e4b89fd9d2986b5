"""Families of members: a distribution within every set, given by a few parameters.

A family turns parameters into one member per input (`members`), and the slope of any function of
the members into its slope in the parameters (`pull_back`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from decal_lab.checks import Array

LEAST_LOG = -30.0
"""Predictions below e^-30 count as that: a class that the set allows can then be lifted."""

SCALES, SHIFTS = (-3.0, 3.0), (-12.0, 12.0)
"""Where the logarithm of the scale, and shifts or weights, are searched for."""

STEPS = 100
SUM_ERROR = 1e-12
"""How far from one a member may sum, per class."""


class Family(Protocol):
    """Members of credal sets by a few parameters."""

    @property
    def start(self) -> Array:
        """Parameters to search from."""
        ...

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Between which each parameter is searched for."""
        ...

    def members(self, parameters: Array) -> Array:
        """(n, K) one member for each input."""
        ...

    def pull_back(self, parameters: Array, members: Array, slope: Array) -> Array:
        """The slope in the parameters of a function with this slope, (n, K), in the members."""
        ...


@dataclass(frozen=True, eq=False)
class TiltedBoxes:
    """Rescaled and shifted predictions, each brought into its box.

    r = softmax(exp(a) log point + b) with one scale and K shifts, and the member of the box closest
    to it: the q that minimises KL(q || r), which is clip(v r, lower, upper) with v such that it
    sums to one. Where the boxes are wide these are all the models that `reference="best"` chooses
    from; where they are narrow, what is left of them.
    """

    lower: Array
    upper: Array
    log_point: Array

    @classmethod
    def around(cls, lower: Array, upper: Array, point: Array) -> TiltedBoxes:
        """The family around predictions, which may be zero."""
        with np.errstate(divide="ignore"):
            return cls(lower, upper, np.maximum(np.log(point), LEAST_LOG))

    @property
    def start(self) -> Array:
        """The predictions themselves."""
        return np.zeros(1 + self.lower.shape[1])

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [SCALES] + [SHIFTS] * self.lower.shape[1]

    def members(self, parameters: Array) -> Array:
        tilted = np.exp(parameters[0]) * self.log_point + parameters[1:]
        return into_boxes(tilted - _log_sum_exp(tilted)[:, None], self.lower, self.upper)

    def pull_back(self, parameters: Array, members: Array, slope: Array) -> Array:
        # Classes strictly inside their interval share what the others leave, in proportion to r:
        # a softmax among themselves. The others do not move.
        free = (members > self.lower) & (members < self.upper)
        q = np.where(free, members, 0.0)
        total = q.sum(axis=1, keepdims=True)
        mean = (q * slope).sum(axis=1, keepdims=True) / np.where(total > 0, total, 1.0)
        by_log = q * (slope - mean)
        by_scale = np.exp(parameters[0]) * np.sum(by_log * self.log_point)
        return np.concatenate([[by_scale], by_log.sum(axis=0)])


@dataclass(frozen=True, eq=False)
class MixedVertices:
    """Mixtures of the vertices of hulls, whose weights depend on the input.

    The weight of vertex m is softmax(a_m + b_m h_m(x)) over m, with h_m(x) the logarithm of its
    largest probability: a vertex may count more, or less, where it is sure.
    """

    vertices: Array
    confidence: Array

    @classmethod
    def of(cls, vertices: Array) -> MixedVertices:
        """The family of mixtures of (n, M, K) vertices."""
        return cls(vertices, np.log(vertices.max(axis=2)))

    @property
    def start(self) -> Array:
        """Equal weights."""
        return np.zeros(2 * self.vertices.shape[1])

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [SHIFTS] * (2 * self.vertices.shape[1])

    def members(self, parameters: Array) -> Array:
        mixed: Array = np.einsum("nm,nmk->nk", self._weights(parameters), self.vertices)
        return mixed

    def pull_back(self, parameters: Array, members: Array, slope: Array) -> Array:
        earned = np.einsum("nmk,nk->nm", self.vertices, slope)
        mean = np.sum(members * slope, axis=1, keepdims=True)
        by_log = self._weights(parameters) * (earned - mean)
        return np.concatenate([by_log.sum(axis=0), (by_log * self.confidence).sum(axis=0)])

    def _weights(self, parameters: Array) -> Array:
        intercepts, slopes = np.split(parameters, 2)
        scores = intercepts + slopes * self.confidence
        return np.exp(scores - _log_sum_exp(scores)[:, None])


def into_boxes(log_r: Array, lower: Array, upper: Array) -> Array:
    """(n, K) the members of reachable boxes that minimise KL(q || r): clip(v r, lower, upper).

    The sum of clip(v r, lower, upper) rises with v, from that of `lower` to that of `upper`. Given
    which classes are clipped, v is known; the guess is improved until no class changes sides, and
    halved where it would leave the bracket.
    """
    slack = SUM_ERROR * log_r.shape[1]
    # Below the bracket every class is at its lower bound, above it at its upper one.
    low = (_log(lower) - log_r).min(axis=1)
    high = (_log(upper) - log_r).max(axis=1)
    v = np.clip(0.0, low, high)
    q = np.empty_like(log_r)
    left = np.arange(len(log_r))
    for _ in range(STEPS):
        least, most = lower[left], upper[left]
        moved = np.exp(np.minimum(log_r[left] + v[left, None], 0.0))
        q[left] = np.clip(moved, least, most)
        excess = q[left].sum(axis=1) - 1
        done = np.abs(excess) <= slack
        if done.all():
            break
        high[left] = np.where(excess > 0, v[left], high[left])
        low[left] = np.where(excess < 0, v[left], low[left])
        inside = np.where((moved > least) & (moved < most), moved, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = v[left] + np.log((inside - excess) / inside)
        fine = (guess > low[left]) & (guess < high[left])  # also false for NaN
        v[left] = np.where(fine, guess, (low[left] + high[left]) / 2)
        left = left[~done]
    return q


def _log(bounds: Array) -> Array:
    """The logarithm, of zero the lowest that matters: no r comes near it."""
    logarithm: Array = np.log(np.maximum(bounds, np.finfo(np.float64).tiny))
    return logarithm


def _log_sum_exp(z: Array) -> Array:
    """(n,) log of the sum of exp over the rows of z (n, K)."""
    top = z.max(axis=1)
    total: Array = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
    return total
