"""The intervals of many queries: inner endpoints are attained, outer endpoints are proved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, for_each_block, sigmoid
from decal.coupled._certificates import by_item, by_theorem
from decal.coupled._region import Region
from decal.coupled._solver import (
    CONVERGED,
    LOWER,
    UPPER,
    EndpointBatch,
    Slope,
    newton_twice,
    odds_against,
)

FIXED_METRIC_CONVERGED = 1e-8  # probability to be reached where convergence is linear
CERTIFIED = 1e-6  # probability by which inner and outer value of a certified endpoint may differ
IMPROVEMENT = 1e-9  # probability by which another start must do better to be taken


class Status(IntEnum):
    """How an endpoint is known, from best to worst."""

    UNBOUNDED = 0
    POINT = 1
    CLOSED_FORM = 2
    CONVEX = 3
    THEOREM = 4
    CERTIFICATE = 5
    BRACKET = 6


STATUS_NAMES = np.array([s.name.lower().replace("_", " ") for s in Status])


@dataclass(frozen=True)
class Bounds:
    """Endpoints as log-odds g against each class: the third axis is (lower, upper)."""

    inner: Array  # (n, K, 2) attained; the greatest g is the lower endpoint
    outer: Array  # (n, K, 2) proved
    status: NDArray[np.int8]  # (n, K, 2) the Status of each endpoint
    shift: Array  # (n, K, 2, K) that attain the inner endpoints

    @classmethod
    def empty(cls, n: int, K: int) -> Bounds:
        """Room for n queries."""
        inner, outer = np.empty((2, n, K, 2))
        return cls(inner, outer, np.empty((n, K, 2), dtype=np.int8), np.empty((n, K, 2, K)))


def bounds(region: Region, logits: Array, tol: float, certify: str) -> Bounds:
    """Inner and outer endpoints of every query (n, K), recentered at the best shift, and class.

    `tol` is the probability by which closed-form bounds may exceed what is attained; `certify` is
    "none", "auto" or "full".
    """
    n, K = logits.shape
    found = Bounds.empty(n, K)

    def block(rows: slice) -> None:
        part = _bounds(region, logits[rows], tol, certify)
        found.inner[rows], found.outer[rows] = part.inner, part.outer
        found.status[rows], found.shift[rows] = part.status, part.shift

    for_each_block(block, n, 2 * K, 512)  # endpoints solved together, on one core
    return found


@np.errstate(all="ignore")  # of infinite reaches and overflows, far out, nothing is proved
def _bounds(region: Region, logits: Array, tol: float, certify: str) -> Bounds:
    n, K = logits.shape
    z = np.repeat(logits, 2 * K, axis=0)
    k = np.tile(np.repeat(np.arange(K), 2), n)
    side = np.tile([LOWER, UPPER], n * K)
    ranked = _rank(region.bank.shift, logits)
    start = ranked[:, 0]
    shift = region.bank.shift[start]
    inner, _ = odds_against(z + shift, k)
    outer = closed_form(region.reach, z, k, side)
    status = np.full(len(k), Status.CLOSED_FORM, dtype=np.int8)
    gap = np.abs(sigmoid(-inner) - sigmoid(-outer))
    todo = np.arange(len(k)) if certify == "full" else np.flatnonzero(gap > tol)
    if todo.size:
        endpoints = _solve(
            region, EndpointBatch(z[todo], k[todo], side[todo], region.bank[start[todo]])
        )
        proof = _prove(region, endpoints, certify)
        if certify != "none":
            again = np.flatnonzero(proof.status == Status.BRACKET)
            if again.size:
                _try_other_starts(region, endpoints, proof, again, ranked[todo[again], 1:], certify)
        pulled = region.problem.pull(endpoints.at.shift, endpoints.at.loss)
        g, _ = odds_against(endpoints.z + pulled, endpoints.k)
        better = endpoints.side * (g - inner[todo]) > 0
        inner[todo[better]], shift[todo[better]] = g[better], pulled[better]
        tighter = endpoints.side * (outer[todo] - proof.outer) > 0
        outer[todo[tighter]] = proof.outer[tighter]
        status[todo] = proof.status
        within = np.abs(sigmoid(-inner[todo]) - sigmoid(-outer[todo])) <= max(tol, CERTIFIED)
        known = np.where(tighter, Status.CERTIFICATE, Status.CLOSED_FORM)
        bracket = proof.status == Status.BRACKET
        status[todo[bracket & within]] = known[bracket & within]
        status[todo[~within]] = Status.BRACKET
    shape = (n, K, 2)
    return Bounds(
        inner.reshape(shape), outer.reshape(shape), status.reshape(shape), shift.reshape(*shape, K)
    )


def closed_form(reach: Array, z: Array, k: NDArray[np.intp], side: Array) -> Array:
    """(P,) outer bounds of g when every other class moves to its reach against class k."""
    moved = z + np.where(side[:, None] == LOWER, reach.T[k], -reach[k])
    each = np.arange(len(k))
    own = moved[each, k].copy()
    moved[each, k] = -np.inf
    return np.asarray(np.logaddexp.reduce(moved, axis=1) - own)


def _rank(bank: Array, logits: Array) -> NDArray[np.intp]:
    """(n K 2, 3) the best points of the bank for every endpoint, best first, if it has three."""
    moved = logits[:, None, :] + bank
    log_p = moved - np.logaddexp.reduce(moved, axis=2, keepdims=True)
    count = min(3, len(bank))
    order = np.argsort(log_p, axis=1, kind="stable")
    lower, upper = order[:, :count], order[:, ::-1][:, :count]
    found = np.stack([lower, upper], axis=1)  # (n, 2, count, K)
    return found.transpose(0, 3, 1, 2).reshape(-1, count)


def _solve(region: Region, start: EndpointBatch) -> EndpointBatch:
    return newton_twice(
        region.problem,
        start,
        convex=bool((region.rho < 1).all()),
        curvature=region.curvature,
        converged=CONVERGED if region.curvature else FIXED_METRIC_CONVERGED,
    )


@dataclass(frozen=True)
class _Proof:
    outer: Array
    status: NDArray[np.int8]


def _prove(region: Region, endpoints: EndpointBatch, certify: str) -> _Proof:
    """What is known of the endpoints found: outer bounds of g (P,), and how."""
    slope = Slope.of(endpoints)
    slack = slope.slack(endpoints, region.problem)
    room = np.where(endpoints.side == UPPER, slack, np.inf)
    status = np.where(endpoints.side == UPPER, Status.CONVEX, Status.BRACKET).astype(np.int8)
    lower = np.flatnonzero((endpoints.side == LOWER) & np.isfinite(slack))
    if certify != "none" and lower.size:
        proved = by_theorem(region, endpoints[lower], slope[lower])
        room[lower[proved]] = slack[lower[proved]]
        status[lower[proved]] = Status.THEOREM
        lower = lower[~proved]
        if lower.size and region.curvature:
            proved, room[lower] = by_item(region, endpoints[lower], slope[lower], slack[lower])
            status[lower[proved]] = Status.CERTIFICATE
    return _Proof(slope.g + endpoints.side * room, status)


def _try_other_starts(
    region: Region,
    endpoints: EndpointBatch,
    proof: _Proof,
    rows: NDArray[np.intp],
    starts: NDArray[np.intp],
    certify: str,
) -> None:
    """Replace lower endpoints by better ones where other points of the bank lead to some."""
    for column in starts.T:
        other = _solve(region, replace(endpoints[rows], at=region.bank[column]))
        p = [sigmoid(-Slope.of(e).g) for e in (endpoints[rows], other)]
        sound = np.abs(other.at.loss - region.problem.budget) <= IMPROVEMENT * region.problem.budget
        better = np.flatnonzero(sound & (p[1] < p[0] - IMPROVEMENT))
        if better.size:
            endpoints.at.put(rows[better], other.at[better])
            anew = _prove(region, other[better], certify)
            proof.outer[rows[better]] = anew.outer
            proof.status[rows[better]] = anew.status
