"""Plausible frequencies, and the largest odds that they allow: exact, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, for_each_block, row_blocks
from decal.shift._likelihood import Likelihood
from decal.shift._surrogate import Geometry, Surrogate
from decal.shift._tangents import Tangents

Indices = NDArray[np.intp]

NEWTON_STEPS, INTERIOR_STEPS = 20, 500

FURTHEST = 8.0
"""Factor by which a frequency may change in a step of Newton's method."""

PRECISION = 1e-8
"""How far outside of the exact probability a bound may lie, unless more is allowed."""

EXACT_ERROR = 1e-5
"""At most, of problems that ellipsoids did not solve."""

COARSE = 1e-6
"""If so much is allowed, ellipsoids solve most problems."""

TOUCHES, BENT_TOUCHES, EXACT_TOUCHES = 2, 6, 3
"""How often an ellipsoid is laid against the region: at first, by the curvature there, and with all
inputs."""

KEPT, MORE_KEPT, SHARE_KEPT = 48, 1024, 1 / 8
"""Inputs that a surrogate keeps as they are, and a finer one: so many, or this share of all."""

TOUCH_ELEMENTS = 1 << 19
"""Numbers that the curvatures of a block of problems may take: in larger blocks more problems hold
the same frequencies at zero, and are solved at once."""

TINY = 1e-300

DIGITS = 16 * float(np.finfo(np.float64).eps)
"""Relative round-off of sums."""

BLOCK_ELEMENTS = 1 << 21
"""Numbers that the likelihoods of a block of problems may take."""

LARGEST_WEIGHT = 1e14
"""Of the objective: beyond, numbers have lost their digits."""

POLISHED = (1e-4, 1e-6, 1e-8)
"""Frequencies below these are taken for 0 where the interior method left digits to find."""

REACHED = 1e-9
"""Nats below the floor at which frequencies count as plausible when an error is stated."""

SLACK = 1e-6
"""Round-off of what a step gains, in the units of the barrier."""

CENTERED, GROWTH = 0.1, 4.0
"""By which the weight of the objective, against the barrier, rises."""


@dataclass(frozen=True, eq=False)
class PlausibleFrequencies:
    """All frequencies v with l(v) >= floor: convex.

    Attributes
    ----------
    likelihood : Likelihood
        l.
    floor : float
        The least likelihood that is plausible.
    middle : (K,) array
        The most likely frequencies.
    gap : float
        No frequencies are likelier by more nats than this.

    Notes
    -----
    The odds of an event are <c, v> / <d, v>, with c >= 0 for classes that belong to it and d >= 0
    for the others. In s = v / <c, v> the smallest odds against it are the minimum of <d, s> under
    <c, s> = 1, s >= 0 and q(s) >= 0, with q(s) = y (l(s / y) - floor), y = sum s, which is
    concave: a convex problem. q is homogeneous, so q(s) <= <q'(s'), s> for all s'. Hence for every
    s' and m >= 0 with d - m q'(s') - beta c >= 0, the odds against the event are at least beta:
    what is returned never lies inside of the exact bound.

    Where an error is allowed, ellipsoids that hold the region and touch it near the maximum solve
    most problems (`Tangents`), at a cost that hardly grows with observed inputs (`Surrogate`).
    """

    likelihood: Likelihood
    floor: float
    middle: Array
    gap: float = 0.0

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
        """The same with more of the inputs as they are, where that is better."""
        if self.surrogate.exact:
            return self.surrogate
        N = len(self.likelihood.weights)
        return Surrogate.of(self.geometry, max(MORE_KEPT, int(SHARE_KEPT * N)))

    @cached_property
    def whole(self) -> Surrogate:
        """The likelihood of all inputs, in the same coordinates."""
        N = len(self.likelihood.weights)
        return self.finer if self.finer.exact else Surrogate.of(self.geometry, N)

    def largest_probability(
        self, event: Array, rest: Array, error: float = PRECISION
    ) -> tuple[Array, Array]:
        """The largest <c, v> / (<c, v> + <d, v>), and how far it may be from exact.

        Parameters
        ----------
        event, rest : (P, K) arrays
            c and d, not negative. Where c is 0 the answer is 0, where d is 0 it is 1.
        error : float
            How far from exact it may be.

        Returns
        -------
        (P,) arrays
        """
        bound, errors = np.zeros(len(event)), np.zeros(len(event))
        bound[~rest.any(axis=1)] = 1.0
        asked = np.flatnonzero(event.any(axis=1) & rest.any(axis=1))
        fast = error >= COARSE
        if fast and len(asked):
            both = event[asked] + rest[asked]
            size = both.max(axis=1, keepdims=True)
            tangents = Tangents(self.geometry, event[asked] / size, both / size)
            self._touch(tangents, error)
            bound[asked], errors[asked] = tangents.upper, tangents.errors
            asked = asked[~(tangents.errors <= error)]
        if len(asked):
            least = self.geometry.least if fast else self.least
            bound[asked], errors[asked] = self._exactly(
                event[asked], rest[asked], least, min(error, EXACT_ERROR)
            )
        return bound, errors

    def _touch(self, tangents: Tangents, error: float) -> None:
        """Solve problems by ellipsoids: with the surrogate, a finer one, then all inputs."""
        self._stage(tangents, error, self.surrogate, TOUCHES, None)
        if not len(tangents.open(error)):
            return
        finer = self.finer
        if not self.surrogate.exact:
            self._stage(tangents, error, finer, TOUCHES, None)
        if finer.bends:
            self._stage(tangents, error, finer, BENT_TOUCHES, self.surrogate)
        if not finer.exact:
            self._stage(tangents, error, self.whole, EXACT_TOUCHES, self.surrogate)

    def _stage(
        self,
        tangents: Tangents,
        error: float,
        surrogate: Surrogate,
        touches: int,
        bent: Surrogate | None,
    ) -> None:
        """Touch the region for all problems that are open, on all cores."""
        which = tangents.open(error)

        def work(block: slice) -> None:
            tangents.solve(surrogate, which[block], error, touches=touches, bent=bent)

        width = len(self.middle) ** 2 + (0 if bent is None else len(bent.rows))
        for_each_block(work, len(which), width, TOUCH_ELEMENTS)

    def _exactly(
        self, event: Array, rest: Array, least: Array, precision: float
    ) -> tuple[Array, Array]:
        """The same by Newton's and an interior-point method, with all inputs."""
        bound, error = np.zeros(len(event)), np.zeros(len(event))
        size = len(self.likelihood.weights) + event.shape[1] ** 2
        for block in row_blocks(len(event), size, elements=BLOCK_ELEMENTS):
            problems = _Problems(self, event[block], rest[block], least, precision)
            problems.solve()
            bound[block], error[block] = problems.upper, problems.errors
        return bound, error

    def slope(self, value: Array, gradient: Array) -> Array:
        """(P, K) the gradient of q, of the value and the gradient of l."""
        return np.asarray(gradient + (value - self.floor - self.likelihood.total)[:, None])


class _Problems:
    """A block of problems: the best bounds found so far, and where they were found."""

    def __init__(
        self,
        region: PlausibleFrequencies,
        event: Array,
        rest: Array,
        least: Array,
        precision: float,
    ) -> None:
        self.region, self.precision = region, precision
        both = event + rest
        size = both.max(axis=1)[:, None]
        self.event, self.rest = event / size, rest / size
        self.least = np.maximum(both.min(axis=1), both @ least) / size[:, 0]
        self.upper = np.ones(len(event))  # no plausible frequencies give more
        self.reached = np.zeros(len(event))  # and some give this

    @property
    def errors(self) -> Array:
        """(P,) by how much the upper bounds may be too large."""
        return self.upper - self.reached

    @property
    def open(self) -> Indices:
        """Problems that are not solved."""
        return np.flatnonzero(self.errors > self.precision)

    def solve(self) -> None:
        """Narrow the bounds to the precision."""
        self.newton(np.arange(len(self.event)), self._ellipsoid())
        unsolved = self.open
        if not len(unsolved):
            return
        self.raise_least(unsolved)
        v = self.interior()
        for smallest in POLISHED:
            still = self.errors[unsolved] > self.precision
            unsolved, v = unsolved[still], v[still]
            if not len(unsolved):
                return
            self.newton(unsolved, np.where(v > smallest, v, 0.0))

    def raise_least(self, which: Indices) -> None:
        """Bound the smallest <c + d, v> of plausible frequencies: a problem of the same kind."""
        both = self.event[which] + self.rest[which]
        none = np.zeros(both.shape[1])
        smallest = _Problems(self.region, np.ones_like(both), both, none, self.precision)
        smallest.interior()
        against = 1 / np.minimum(smallest.upper, 1.0) - 1
        self.least[which] = np.maximum(self.least[which], against)

    @np.errstate(over="ignore", invalid="ignore")  # far from plausible: such bounds are not taken
    def note(
        self, which: Indices, v: Array, value: Array, gradient: Array, m: Array | None = None
    ) -> None:
        """Learn from the likelihood at frequencies v: what is excluded, and what is reached."""
        event, rest, least = self.event[which], self.rest[which], self.least[which]
        yes, no = np.sum(event * v, axis=1), np.sum(rest * v, axis=1)
        odds = no / np.maximum(yes, TINY)
        cut, aim = self.region.slope(value, gradient), rest - odds[:, None] * event
        fitted = np.sum(aim * cut * v, axis=1) / np.maximum(np.sum(cut**2 * v, axis=1), TINY)
        for multiplier in (fitted,) if m is None else (fitted, m):
            multiplier = np.maximum(multiplier, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                lines = np.where(event > 0, -multiplier[:, None] * cut / event, np.inf)
            for against in (odds, np.maximum(lines.min(axis=1), 0.0)):
                bound = _certified(event, rest, cut, multiplier, against, least)
                self.upper[which] = np.fmin(self.upper[which], bound)
        inside = np.where(value >= self.region.floor - REACHED, yes / (yes + no), 0.0)
        self.reached[which] = np.maximum(self.reached[which], inside)

    def newton(self, left: Indices, v: Array) -> None:
        """Newton's method on the conditions of a maximum, from frequencies v; those of 0 stay 0."""
        region, likelihood = self.region, self.region.likelihood
        N, K = likelihood.total, len(region.middle)
        v = v / v.sum(axis=1, keepdims=True)
        diagonal = np.arange(K)
        for _ in range(NEWTON_STEPS):
            value, gradient, curvature = likelihood.curvatures(v)
            self.note(left, v, value, gradient)
            going = (self.errors[left] > self.precision) & np.isfinite(value)
            going &= (np.sum(self.event[left] * v, axis=1) > 0) & (
                np.sum(self.rest[left] * v, axis=1) > 0
            )
            if not going.any():
                return
            left, v, value = left[going], v[going], value[going]
            gradient, curvature = gradient[going], curvature[going]
            free = (v > 0).astype(np.float64)
            c = self.event[left] / np.sum(self.event[left] * v, axis=1)[:, None]
            d = self.rest[left] / np.sum(self.rest[left] * v, axis=1)[:, None]
            rise, g = c - d, gradient - N
            m = np.maximum(
                -np.sum(rise * g * v, axis=1) / np.maximum(np.sum(g * g * v, axis=1), TINY), 1e-12
            )
            system = np.zeros((len(v), K + 2, K + 2))
            system[:, :K, :K] = m[:, None, None] * (curvature + N) - _outer(c) + _outer(d)
            system[:, :K, :K] *= _outer(free)
            system[:, diagonal, diagonal] += 1 - free
            system[:, :K, K] = system[:, K, :K] = g * free
            system[:, :K, K + 1] = system[:, K + 1, :K] = free
            right = np.zeros((len(v), K + 2))
            right[:, :K], right[:, K] = -rise * free, region.floor - value
            moved = np.minimum(v + _solve(system, right[:, :, None])[:, :K, 0], FURTHEST * v)
            # A frequency on its way to 0 is taken for 0; the certificate tells whether it is.
            moved[moved < v / FURTHEST] = 0.0
            total = moved.sum(axis=1)
            fine = np.isfinite(total) & (total > 0)
            left, v = left[fine], moved[fine] / total[fine, None]

    def _ellipsoid(self) -> Array:
        """(P, K) where the maxima would be if the likelihood were quadratic."""
        region, likelihood = self.region, self.region.likelihood
        K = len(region.middle)
        v = np.maximum(region.middle, 1e-3 / K)
        v /= v.sum()
        value, _, curvature = likelihood.curvatures(v[None])
        B = -curvature[0] + likelihood.total
        B += 1e-9 * np.trace(B) / K * np.eye(K)
        c = self.event / (self.event @ v)[:, None] - self.rest / (self.rest @ v)[:, None]
        step = np.linalg.solve(B, c.T).T
        step -= step.sum(axis=1, keepdims=True) * v
        size = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", step, B, step), 1e-300))
        step *= (np.sqrt(2 * max(float(value[0]) - region.floor, 0.0)) / size)[:, None]
        start = np.maximum(v + step, v / FURTHEST)
        return np.asarray(start / start.sum(axis=1, keepdims=True))

    def interior(self) -> Array:
        """An interior-point method, for problems whose maximum may lie at a frequency of 0.

        Returns
        -------
        (P, K) array
            Frequencies where it ended, of the problems that were open.
        """
        which = self.open
        ended = np.empty((len(self.event), len(self.region.middle)))
        asked = which
        region, likelihood = self.region, self.region.likelihood
        N, K = likelihood.total, len(region.middle)
        s = self._interior_start(which)
        t = np.full(len(which), 1.0) / np.sum(self.rest[which] * s, axis=1)
        t *= K + 1
        for _ in range(INTERIOR_STEPS):
            event, rest = self.event[which], self.rest[which]
            y = s.sum(axis=1)
            value, gradient, curvature = likelihood.curvatures(s / y[:, None])
            q = y * (value - region.floor)
            ended[which] = s / y[:, None]
            self.note(which, ended[which], value, gradient, 1 / (t * np.maximum(q, TINY)))
            going = self.errors[which] > self.precision
            going &= (t * np.sum(rest * s, axis=1) < LARGEST_WEIGHT) & (q > 0)
            if not going.any():
                break
            which, s, t, y, q = which[going], s[going], t[going], y[going], q[going]
            event, rest, value = event[going], rest[going], value[going]
            gradient, curvature = gradient[going], curvature[going]
            slope = region.slope(value, gradient)
            bend = gradient[:, :, None] + gradient[:, None, :] + curvature - N
            # Maximise -t <d, s> + log q(s) + sum log s under <c, s> = 1, in units of s.
            g = (-t[:, None] * rest + slope / q[:, None]) * s + 1
            H = bend / (q * y)[:, None, None] - _outer(slope / q[:, None])
            H = H * s[:, :, None] * s[:, None, :] - np.eye(K)
            c = event * s
            both = _solve(-H, np.stack([g, c], axis=2))
            of_g, of_c = both[:, :, 0], both[:, :, 1]
            step = of_g - of_c * (np.sum(c * of_g, 1) / np.sum(c * of_c, 1))[:, None]
            rise = np.sum(step * g, axis=1)
            size = 0.95 / np.maximum(0.95, (-step).max(axis=1))
            fall = t * np.sum(rest * s * step, axis=1)
            waiting = np.arange(len(s))
            for _ in range(40):
                part, taken = size[waiting], size[waiting, None] * step[waiting]
                moved = s[waiting] * (1 + taken)
                total = moved.sum(axis=1)
                room = total * (likelihood.at(moved / total[:, None]) - region.floor)
                with np.errstate(divide="ignore", invalid="ignore"):
                    gain = np.log(room / q[waiting]) + np.log1p(taken).sum(axis=1)
                good = gain - part * fall[waiting] >= 0.1 * part * rise[waiting] - SLACK
                waiting = waiting[~good]
                if not len(waiting):
                    break
                size[waiting] /= 2
            size[waiting] = 0.0
            s = s * (1 + size[:, None] * step)
            s /= np.sum(event * s, axis=1)[:, None]
            t = np.where(rise < CENTERED, t * GROWTH, t)
        return np.asarray(ended[asked])

    def _interior_start(self, which: Indices) -> Array:
        """(P, K) plausible frequencies, none of them 0, over their weight for the event."""
        region = self.region
        K = len(region.middle)
        share = 0.5
        while True:
            v = (1 - share) * region.middle + share / K
            if region.likelihood.at(v[None])[0] > region.floor:
                break
            share /= 2
        return np.asarray(v / (self.event[which] @ v)[:, None])


def _certified(
    event: Array, rest: Array, cut: Array, m: Array, against: Array, least: Array
) -> Array:
    """(P,) no plausible frequencies give the event a larger probability.

    For all of them <cut, .> >= 0, so <d, .> - against <c, .> is at least the least element of
    d - against c - m cut, and d + c at least `least`.
    """
    gained, lost = rest - m[:, None] * cut, against[:, None] * event
    # Where an input weighs little, round-off counts.
    digits = DIGITS * (rest + m[:, None] * np.abs(cut) + lost).max(axis=1)
    short = (lost - gained).max(axis=1)
    short = short + digits
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = (1 + np.where(short <= 0, 0.0, short / least)) / (1 + against)
    return np.where(np.isnan(bound), 1.0, bound)


def _solve(matrices: Array, right: Array) -> Array:
    """Solutions of linear systems; of singular ones, some."""
    try:
        return np.asarray(np.linalg.solve(matrices, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrices) @ right)


def _outer(x: Array) -> Array:
    """(P, K, K) products of rows (P, K) with themselves."""
    return np.asarray(x[:, :, None] * x[:, None, :])
