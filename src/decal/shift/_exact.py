"""The largest odds that plausible frequencies allow, exact: Newton's and an interior method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decal._base.numerics import Array, Indices
from decal.shift._likelihood import TINY, Likelihood

LARGEST_FACTOR = 8.0  # factor by which a frequency may change in a step of Newton's method
DIGITS = 16 * float(np.finfo(np.float64).eps)  # relative round-off of sums
REACHED = 1e-9  # nats below the floor at which frequencies still count as reached
SLACK = 1e-6  # round-off of what a step gains, in the units of the barrier


@dataclass(frozen=True, eq=False)
class LikelihoodRegion:
    """All frequencies v with l(v) >= floor: convex."""

    likelihood: Likelihood  # l
    floor: float  # the least likelihood that is plausible
    middle: Array  # (K,) the most likely frequencies

    def slope(self, value: Array, gradient: Array) -> Array:
        """(P, K) the gradient of q, of the value and the gradient of l.

        q(s) = y (l(s / y) - floor) with y = sum s, which is concave and homogeneous.
        """
        return np.asarray(gradient + (value - self.floor - self.likelihood.total)[:, None])


class Problems:
    """A block of problems: the best bounds found so far, and where they were found."""

    def __init__(
        self, region: LikelihoodRegion, event: Array, rest: Array, least: Array, precision: float
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
        for smallest in (1e-4, 1e-6, 1e-8):  # frequencies below are taken for 0
            still = self.errors[unsolved] > self.precision
            unsolved, v = unsolved[still], v[still]
            if not len(unsolved):
                return
            self.newton(unsolved, np.where(v > smallest, v, 0.0))

    def raise_least(self, which: Indices) -> None:
        """Bound the smallest <c + d, v> of plausible frequencies: a problem of the same kind."""
        both = self.event[which] + self.rest[which]
        none = np.zeros(both.shape[1])
        smallest = Problems(self.region, np.ones_like(both), both, none, self.precision)
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
        for _ in range(20):
            value, gradient, curvature = likelihood.curvatures(v)
            self.note(left, v, value, gradient)
            going = (self.errors[left] > self.precision) & np.isfinite(value)
            yes, no = (np.sum(c[left] * v, axis=1) for c in (self.event, self.rest))
            going &= (yes > 0) & (no > 0)
            if not going.any():
                return
            left, v, value = left[going], v[going], value[going]
            gradient, curvature = gradient[going], curvature[going]
            free = (v > 0).astype(np.float64)
            c, d = self.event[left] / yes[going, None], self.rest[left] / no[going, None]
            rise, g = c - d, gradient - N
            m = -np.sum(rise * g * v, axis=1) / np.maximum(np.sum(g * g * v, axis=1), TINY)
            m = np.maximum(m, 1e-12)
            system = np.zeros((len(v), K + 2, K + 2))
            system[:, :K, :K] = m[:, None, None] * (curvature + N) - _outer(c) + _outer(d)
            system[:, :K, :K] *= _outer(free)
            system[:, diagonal, diagonal] += 1 - free
            system[:, :K, K] = system[:, K, :K] = g * free
            system[:, :K, K + 1] = system[:, K + 1, :K] = free
            right = np.zeros((len(v), K + 2))
            right[:, :K], right[:, K] = -rise * free, region.floor - value
            moved = np.minimum(v + _solve(system, right[:, :, None])[:, :K, 0], LARGEST_FACTOR * v)
            # A frequency on its way to 0 is taken for 0; the certificate tells whether it is.
            moved[moved < v / LARGEST_FACTOR] = 0.0
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
        size = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", step, B, step), TINY))
        step *= (np.sqrt(2 * max(float(value[0]) - region.floor, 0.0)) / size)[:, None]
        start = np.maximum(v + step, v / LARGEST_FACTOR)
        return np.asarray(start / start.sum(axis=1, keepdims=True))

    def interior(self) -> Array:
        """(P, K) where an interior-point method ends, for open problems; maxima at 0 included."""
        which = asked = self.open
        region, likelihood = self.region, self.region.likelihood
        N, K = likelihood.total, len(region.middle)
        ended = np.empty((len(self.event), K))
        s = self._interior_start(which)
        t = (K + 1) * (1.0 / np.sum(self.rest[which] * s, axis=1))
        for _ in range(500):
            event, rest = self.event[which], self.rest[which]
            y = s.sum(axis=1)
            value, gradient, curvature = likelihood.curvatures(s / y[:, None])
            q = y * (value - region.floor)
            ended[which] = s / y[:, None]
            self.note(which, ended[which], value, gradient, 1 / (t * np.maximum(q, TINY)))
            going = self.errors[which] > self.precision
            # Beyond these, numbers have lost their digits, or the event has no probability.
            going &= (t * np.sum(rest * s, axis=1) < 1e14) & (q > 0) & (y < 1e100)
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
            t = np.where(rise < 0.1, t * 4.0, t)  # centered: the objective counts more
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
    short = (lost - gained).max(axis=1) + digits
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
