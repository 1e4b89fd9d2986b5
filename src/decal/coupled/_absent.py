"""All plausible models: with classes that never occur, and with shifts of one class alone.

Without labels of a class nothing speaks against ruling it out: the likelihood rises as its shift
goes to -inf, and so the region of plausible shifts is unbounded. The classes that occur span a
bounded region of their own, which is the part of the whole in which the others are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, margins, sigmoid, softplus
from decal.coupled._bounds import CERTIFIED, Bounds, Status, bounds
from decal.coupled._certificates import FARTHEST
from decal.coupled._loss import Evaluated, ShiftLoss
from decal.coupled._region import MARGIN, SERIES_BELOW, Region, bulge
from decal.coupled._solver import (
    LOWER,
    UPPER,
    EndpointBatch,
    Problem,
    Slope,
    last_on_line,
    newton,
    newton_twice,
    odds_against,
)

SHARES = np.append(0.0, np.geomspace(1e-9, 0.999, 240))
"""Shares of the budget that absent classes may cost. Each stands for all shares up to the next."""

NEXT_SHARES = np.append(SHARES[1:], 1.0)


@dataclass(frozen=True)
class PlausibleModels:
    """All that can be computed for a budget before any query is known."""

    data: ShiftLoss  # with all classes
    region: Region  # plausible shifts of the classes that occur
    absent: list[Absent]  # the other classes
    # (M, K) plausible shifts, -inf for classes left out: the reference model, and the endpoints of
    # all shifts of one class alone.
    candidates: Array
    # (P, S) for each class that occurs and each of SHARES: when that share of the budget is spent
    # on absent classes, the greatest rise of g from the best shift is smaller by this factor.
    shrinkage: Array

    @classmethod
    def of(cls, data: ShiftLoss, budget: float, base: Array) -> PlausibleModels:
        """The models that lose at most `budget`; `base` (K,) is the reference model's shift."""
        present, missing = _split(data)
        core = data.subset(present)
        candidates = _line_endpoints(data, core, budget, base)
        starts = candidates[np.isneginf(candidates[:, missing]).all(axis=1)][:, present]
        region = Region.of(core, budget, starts)
        absent = [Absent.of(data, present, int(a), region) for a in missing]
        radius = region.reach.max(axis=0)
        return cls(data, region, absent, candidates, _shrinkage(radius) if absent else radius[:0])

    def bounds(self, logits: Array, tol: float, certify: str) -> Bounds:
        """Inner and outer endpoints of every query, (n, K) recentered logits, and class."""
        present, missing = _split(self.data)
        if not missing.size:
            return bounds(self.region, logits, tol, certify)
        found = Bounds.empty(len(logits), logits.shape[1])
        found.shift[:] = -np.inf
        if len(present) > 1:
            core = bounds(self.region, logits[:, present], tol, certify)
            found.inner[:, present], found.outer[:, present] = core.inner, core.outer
            found.status[:, present] = core.status
            for i, k in enumerate(present):
                found.shift[:, k][:, :, present] = core.shift[:, i]
        else:
            found.inner[:, present], found.outer[:, present] = -np.inf, -np.inf
            found.status[:, present] = Status.UNBOUNDED
            found.shift[:, present[0], :, present[0]] = 0.0
        self._bound_absent(logits, found)
        self._bound_others(logits, found, tol)
        return found

    def _bound_absent(self, logits: Array, found: Bounds) -> None:
        """Fill in the classes that never occur: 0 in the limit, and a convex program."""
        present, missing = _split(self.data)
        found.inner[:, missing, 0] = found.outer[:, missing, 0] = np.inf
        found.status[:, missing, 0] = Status.UNBOUNDED
        for a, absent in zip(missing, self.absent, strict=True):
            columns = np.append(present, a)
            inner, outer, shift = absent.upper(logits[:, columns])
            found.inner[:, a, 1], found.outer[:, a, 1] = inner, outer
            found.status[:, a, 1] = Status.CONVEX
            found.shift[:, a, 0, present] = 0.0
            found.shift[:, a, 1][:, columns] = shift

    def _bound_others(self, logits: Array, found: Bounds, tol: float) -> None:
        """Lower endpoints of the classes that occur, which the absent ones push down further.

        Outer values: what absent classes cost, the others cannot spend. Inner values: by search.
        """
        present, missing = _split(self.data)
        for i, k in enumerate(present):
            lift = [
                (logits[:, a] - logits[:, k])[:, None] + absent.lifts[i]
                for a, absent in zip(missing, self.absent, strict=True)
            ]
            others = np.delete(present, i)
            still = np.logaddexp.reduce(logits[:, others], axis=1) - logits[:, k]
            rise = np.zeros(len(still))
            np.subtract(found.outer[:, k, 0], still, out=rise, where=still > -np.inf)
            spent = still[:, None] + rise[:, None] / self.shrinkage[i]
            found.outer[:, k, 0] = np.logaddexp.reduce([spent, *lift], axis=0).max(axis=1)
        # It may take one absent class to push hardest, or all of them.
        everyone = np.append(present, missing)
        together = self._whole(self.data.subset(everyone))
        tries = [
            (np.append(present, a), b.problem) for a, b in zip(missing, self.absent, strict=True)
        ]
        for columns, problem in [*tries, (everyone, together)][: None if len(missing) > 1 else 1]:
            g, shift = _lower_with_absent(problem, len(present), logits[:, columns])
            for i, k in enumerate(present):
                better = np.flatnonzero(g[:, i] > found.inner[:, k, 0])
                found.inner[better, k, 0] = g[better, i]
                found.shift[better, k, 0] = -np.inf
                found.shift[better[:, None], k, 0, columns] = shift[better, i]
        self._try_candidates(logits, found)
        p = [sigmoid(-endpoints[:, present, 0]) for endpoints in (found.inner, found.outer)]
        known = p[0] - p[1] <= max(tol, CERTIFIED)
        found.status[:, present, 0] = np.where(known, Status.CERTIFICATE, Status.BRACKET)

    def _whole(self, data: ShiftLoss) -> Problem:
        problem = self.region.problem
        return replace(_all(data, problem.budget), diameter=problem.diameter)

    def _try_candidates(self, logits: Array, found: Bounds) -> None:
        for shift in self.candidates:
            g = log_odds_of_rest(logits, shift)
            for side, sign in ((0, LOWER), (1, UPPER)):
                with np.errstate(invalid="ignore"):
                    better = sign * (g - found.inner[:, :, side]) > 0
                found.inner[better, side] = g[better]
                found.shift[better, side] = shift


def log_odds_of_rest(logits: Array, shift: Array) -> Array:
    """(n, K) log-odds of all other classes against each after a shift (K,), finite or -inf."""
    out = np.isneginf(shift)
    if (~out).sum() == 1:
        return np.where(out, np.inf, -np.inf) + np.zeros_like(logits)
    return np.where(out, np.inf, -margins(logits, shift).T)


def _split(data: ShiftLoss) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.flatnonzero(data.label_weight > 0), np.flatnonzero(data.label_weight == 0)


def _line_endpoints(data: ShiftLoss, core: ShiftLoss, budget: float, base: Array) -> Array:
    """(M, K) `base`, and the endpoints of all shifts of one class alone from there.

    An absent class that `base` leaves out comes in from -inf; one that it keeps may go there.
    """
    present, missing = _split(data)
    kept = np.isfinite(base)
    found = [base[None]]
    for a in missing[kept[missing]]:
        found.append(np.where(np.arange(len(base)) == a, -np.inf, base)[None])
    # If only one class occurs, its shift changes nothing.
    lifted = present if len(present) > 1 else present[:0]
    for a in (None, *missing[~kept[missing]]):
        columns = np.flatnonzero(kept) if a is None else np.sort(np.append(present, a))
        up = np.append(lifted, missing[kept[missing]]) if a is None else np.array([a])
        down = present if a is None and kept.sum() > 1 else present[:0]
        classes = np.searchsorted(columns, np.append(up, down))
        if not classes.size:
            continue
        sub = core if np.array_equal(columns, present) else data.subset(columns)
        signs = np.append(np.ones(len(up)), -np.ones(len(down)))
        ray = signs[:, None] * np.eye(len(columns))[classes]
        start = np.where(kept, base, 0.0)[columns] + np.zeros_like(ray)
        endpoints = start + last_on_line(sub, budget, start, ray)[:, None] * ray
        moved = np.full((len(endpoints), len(base)), -np.inf)
        moved[:, columns] = _all(sub, budget).pull(endpoints, sub.loss(endpoints))
        found.append(moved)
    return np.concatenate(found)


def _all(data: ShiftLoss, budget: float) -> Problem:
    """The region of all classes. Its interior point brings in absent ones for half the budget."""
    absent = data.label_weight == 0
    if not absent.any():
        return Problem(data, budget, data.best)
    ray = absent.astype(np.float64)[None]
    t = last_on_line(data, budget / 2, np.zeros_like(ray), ray)
    return Problem(data, budget, data.evaluate(t[:, None] * ray))


@dataclass(frozen=True)
class Absent:
    """A class that never occurs, among those that do."""

    problem: Problem  # the region of the classes that occur, and of this one as the last
    corners: Evaluated  # (M, ...) plausible shifts in which it is lifted as far as possible
    # (K, S) outer bounds of how far it may be lifted over each class that occurs, by the share of
    # the budget, up to the next of SHARES, that this costs.
    lifts: Array

    @classmethod
    def of(cls, data: ShiftLoss, present: NDArray[np.intp], a: int, region: Region) -> Absent:
        """Class a, whose reach is found by lifting it over every class that occurs."""
        sub = data.subset(np.append(present, a))
        K = len(present)
        problem = replace(_all(sub, region.problem.budget), diameter=region.problem.diameter)
        k = np.full(K, K, dtype=np.intp)
        start = problem.interior[np.zeros(K, dtype=np.intp)]
        question = EndpointBatch(np.eye(K, K + 1), k, np.full(K, UPPER), start, linear=True)
        endpoints = newton(problem, question)
        slope = Slope.of(endpoints)
        reach = slope.slack(endpoints, problem) - slope.g
        reach += MARGIN * np.abs(reach)
        corners = problem.pull(endpoints.at.shift, endpoints.at.loss)
        return cls(problem, sub.evaluate(corners), _lifts(sub, region, reach))

    def upper(self, logits: Array) -> tuple[Array, Array, Array]:
        """Inner and outer g (n,) of the upper endpoint of this class, and the shifts (n, K + 1).

        The problem is convex, and no other absent class takes part in it: they only compete.
        """
        n, k = len(logits), np.full(len(logits), logits.shape[1] - 1)
        moved = logits[:, None, :] + self.corners.shift
        own = moved[:, :, -1] - np.logaddexp.reduce(moved, axis=2)
        start = own.argmax(axis=1)
        endpoints = newton_twice(
            self.problem, EndpointBatch(logits, k, np.full(n, UPPER), self.corners[start])
        )
        slope = Slope.of(endpoints)
        outer = slope.g - slope.slack(endpoints, self.problem)
        pulled = self.problem.pull(endpoints.at.shift, endpoints.at.loss)
        return odds_against(logits + pulled, k)[0], outer, pulled


def _lifts(data: ShiftLoss, region: Region, reach: Array) -> Array:
    """(K, S) bounds of c_a - c_k, the last class over each other, by the budget that it costs.

    With x = exp(c_a - c_k), class a costs at least the sum of w log(1 + x o_a / Z), where Z is the
    sum of the others' odds when each is lifted over k as far as possible. That is concave in x, so
    a chord of it bounds x from above.
    """
    found = np.repeat(reach[:, None], len(SHARES), axis=1)
    share_of_highest = np.exp2(np.linspace(-64, 0.0, 513))  # the highest, and 64 octaves below
    for k in np.flatnonzero(np.isfinite(reach) & np.isfinite(region.reach).all(axis=0)):
        others = np.logaddexp.reduce(data.log_odds[:, :-1] + region.reach[:, k], axis=1)
        log_ratio = data.log_odds[:, -1] - others + reach[k]
        costs = [data.weights @ softplus(np.log(x) + log_ratio) for x in share_of_highest]
        spent = NEXT_SHARES * region.problem.budget
        chord = np.interp(spent, np.append(0.0, costs), np.append(0.0, share_of_highest))
        # A share that underflows bounds nothing.
        found[k] += np.log(np.maximum(chord, np.finfo(np.float64).tiny)) + MARGIN
    return found


def _shrinkage(radius: Array) -> Array:
    """(P, S) least t such that c shifted to t c costs the whole budget, if c costs all but a share.

    The loss along a ray grows no faster than e^y - 1 - y, y = t times the spread of c, which is at
    most the radius. And g is convex, so it rises by a t-th at least: what is left of the budget
    raises g from the best shift by at most a t-th of what all of it does.
    """
    r = np.clip(radius, SERIES_BELOW, FARTHEST)[:, None]
    grown = 1.0 / (1.0 - SHARES)
    goal = bulge(r) * r**2 * grown
    low, high = r + np.zeros_like(goal), np.minimum(r + np.log(grown), r * np.sqrt(grown))
    for _ in range(60):
        middle = (low + high) / 2
        beyond = bulge(middle) * middle**2 > goal
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.where(radius[:, None] < FARTHEST, low / r, 1.0)


def _lower_with_absent(problem: Problem, P: int, logits: Array) -> tuple[Array, Array]:
    """Inner g (n, P), not proved, of lower endpoints if only P classes occur; shifts (n, P, K)."""
    n = len(logits)
    z, k = np.repeat(logits, P, axis=0), np.tile(np.arange(P), n)
    start = problem.interior[np.zeros(len(k), dtype=np.intp)]
    endpoints = newton(problem, EndpointBatch(z, k, np.full(len(k), LOWER), start))
    pulled = problem.pull(endpoints.at.shift, endpoints.at.loss)
    return odds_against(z + pulled, k)[0].reshape(n, P), pulled.reshape(n, P, -1)
