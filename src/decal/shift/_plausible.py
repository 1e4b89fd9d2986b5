"""Plausible frequencies, and the range of each probability over them, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decal._base.numerics import Array, Indices, for_each_block, row_blocks
from decal.shift._exact import LikelihoodRegion, Problems
from decal.shift._likelihood import TINY
from decal.shift._surrogate import Geometry, Surrogate
from decal.shift._tangents import LEAST_WEIGHT, FirstBounds, Move, Tangents, event_of

PRECISION = 1e-8  # how far outside of the exact probability a bound may lie, unless more is allowed
EXACT_ERROR = 1e-5  # at most, of problems that ellipsoids did not solve
COARSE = 1e-6  # if so much is allowed, ellipsoids solve most problems
KEPT = 48  # inputs that the first surrogate keeps as they are

TOUCH_ELEMENTS = 1 << 19
"""Numbers that the curvatures of a block of problems may take: in larger blocks more problems hold
the same frequencies at zero, and are solved at once."""

BLOCK_ELEMENTS = 1 << 21  # numbers that the likelihoods of a block of problems may take


@dataclass(frozen=True, eq=False)
class PlausibleFrequencies(LikelihoodRegion):
    """All frequencies v with l(v) >= floor, and the range of each probability over them.

    The odds of an event are <c, v> / <d, v>, c >= 0 for its classes and d >= 0 for the others. In
    s = v / <c, v> the smallest odds against it are the minimum of <d, s> under <c, s> = 1, s >= 0
    and q(s) = y (l(s / y) - floor) >= 0, y = sum s: a convex problem. q is homogeneous, so
    q(s) <= <q'(s'), s>, and for all s' and m >= 0 with d - m q'(s') - beta c >= 0 the odds against
    the event are at least beta: what is returned never lies inside of the exact bound. Where an
    error is allowed, `Tangents` solve most problems, with a `Surrogate` of the likelihood.
    """

    gap: float = 0.0  # no frequencies are likelier than the middle by more nats

    @cached_property
    def least(self) -> Array:
        """(K,) the least plausible frequency of each class, at most."""
        return self.ranges(np.arange(len(self.middle)))[0]

    def ranges(self, classes: Indices) -> tuple[Array, Array]:
        """The least and the largest plausible frequency of these classes; never too narrow."""
        K = len(self.middle)
        own, others = np.eye(K)[classes], 1 - np.eye(K)[classes]
        upper, _ = self._exactly(
            np.concatenate([own, others]), np.concatenate([others, own]), np.zeros(K), PRECISION
        )
        high, rest = np.split(upper, 2)
        return np.maximum(1 - rest, 0.0), high

    @cached_property
    def geometry(self) -> Geometry:
        """Coordinates in which the region is nearly a ball."""
        return Geometry.of(self.likelihood, self.middle, self.floor, self.gap)

    @cached_property
    def surrogate(self) -> Surrogate:
        """The likelihood, about, at a cost that hardly grows with observed inputs."""
        return Surrogate.of(self.geometry, KEPT)

    @cached_property
    def finer(self) -> Surrogate:
        """A surrogate that keeps more of the inputs as they are, where that is better."""
        if self.surrogate.exact:
            return self.surrogate
        N = len(self.likelihood.weights)
        return Surrogate.of(self.geometry, max(1024, N // 8))

    @cached_property
    def whole(self) -> Surrogate:
        """The likelihood of all inputs, in the same coordinates."""
        N = len(self.likelihood.weights)
        return self.finer if self.finer.exact else Surrogate.of(self.geometry, N)

    def largest_probability(self, event: Array, rest: Array) -> tuple[Array, Array]:
        """(P,) the largest <c, v> / (<c, v> + <d, v>), and how far it may be from exact.

        c and d are event and rest (P, K). Where c is 0 the answer is 0, where d is 0 it is 1.
        """
        bound, errors = np.zeros(len(event)), np.zeros(len(event))
        bound[~rest.any(axis=1)] = 1.0
        asked = np.flatnonzero(event.any(axis=1) & rest.any(axis=1))
        if len(asked):
            bound[asked], errors[asked] = self._exactly(
                event[asked], rest[asked], self.least, PRECISION
            )
        return bound, errors

    def box(self, odds: Array, error: float) -> tuple[Array, Array]:
        """(n, K) the range of each probability, never too narrow, at most an error too wide.

        v makes an input of class k with probability odds_k v_k / <odds, v>. An error below COARSE
        is that of `largest_probability`.
        """
        if error < COARSE:
            side, row, k = np.indices((2, *odds.shape)).reshape(3, -1)
            event = event_of(odds[row], k, side)
            upper = self.largest_probability(event, odds[row] - event)[0].reshape(2, *odds.shape)
            return np.clip(1 - upper[1], 0.0, 1.0), np.clip(upper[0], 0.0, 1.0)
        odds = odds / np.maximum(odds.max(axis=1, keepdims=True), TINY)
        first = FirstBounds.of(self.geometry, odds)
        upper, unsolved = first.upper, first.upper - first.reached > error
        asked = unsolved & (first.least > LEAST_WEIGHT)[:, None]
        side, row, k = np.nonzero(asked)
        if len(row):
            tangents = Tangents(self.geometry, odds, first, (side, row, k))
            self._touch(tangents, error)
            upper[side, row, k] = tangents.upper
            unsolved[side, row, k] = ~(tangents.errors <= error)
        side, row, k = np.nonzero(unsolved)
        if len(row):
            event = event_of(odds[row], k, side)
            rest, precision = odds[row] - event, min(error, EXACT_ERROR)
            bound, errors = self._exactly(event, rest, self.geometry.least, precision)
            short = errors > error
            if short.any():  # what an input weighs at least decides: not about, but exactly
                again, _ = self._exactly(event[short], rest[short], self.least, PRECISION)
                bound[short] = np.fmin(bound[short], again)
            upper[side, row, k] = np.fmin(upper[side, row, k], bound)
        return np.clip(1 - upper[1], 0.0, 1.0), np.clip(upper[0], 0.0, 1.0)

    def _touch(self, tangents: Tangents, error: float) -> None:
        """Solve problems by ellipsoids: with the surrogate, a finer one, then all inputs."""
        bent = tangents.bent(self.surrogate)
        self._stage(tangents, error, self.surrogate, 2, tangents.plain)
        if len(tangents.open(error)) and not self.surrogate.exact:
            self._stage(tangents, error, self.finer, 2, tangents.plain)
        if len(tangents.open(error)) and self.surrogate.bends:
            self._stage(tangents, error, self.finer, 6, bent)
        if len(tangents.open(error)) and not self.finer.exact:
            self._stage(tangents, error, self.whole, 3, bent)
        self._newton(tangents, error)

    def _newton(self, tangents: Tangents, error: float) -> None:
        """Solve problems by Newton's method, with all inputs, from where ellipsoids led."""
        asked = tangents.open(error)

        def work(block: slice) -> None:
            which = asked[block]
            c, e = tangents.c[which], tangents.e[which]
            problems = Problems(self, c, e - c, self.geometry.least, error)
            problems.upper, problems.reached = tangents.upper[which], tangents.reached[which]
            problems.newton(np.arange(len(which)), tangents.plausible(tangents.z[which])[1])
            tangents.upper[which], tangents.reached[which] = problems.upper, problems.reached

        size = len(self.likelihood.weights) + len(self.middle) ** 2
        for_each_block(work, len(asked), size, BLOCK_ELEMENTS)

    def _stage(
        self, tangents: Tangents, error: float, surrogate: Surrogate, touches: int, move: Move
    ) -> None:
        """Touch the region for all problems that are open, on all cores."""
        asked = tangents.open(error)

        def work(block: slice) -> None:
            tangents.solve(surrogate, asked[block], error, touches=touches, move=move)

        for_each_block(work, len(asked), len(self.middle) ** 2 + KEPT, TOUCH_ELEMENTS)

    def _exactly(
        self, event: Array, rest: Array, least: Array, precision: float
    ) -> tuple[Array, Array]:
        """The largest probabilities by Newton's and an interior-point method, with all inputs."""
        bound, error = np.zeros(len(event)), np.zeros(len(event))
        size = len(self.likelihood.weights) + event.shape[1] ** 2
        for block in row_blocks(len(event), size, elements=BLOCK_ELEMENTS):
            problems = Problems(self, event[block], rest[block], least, precision)
            problems.solve()
            bound[block], error[block] = problems.upper, problems.errors
        return bound, error
