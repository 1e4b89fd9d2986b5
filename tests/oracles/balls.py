"""Definitions about balls { q : KL(q || c) <= b }, slow and literal. Imports nothing from decal.

Two ways: all of a ball of three classes, point by point; and general solvers, for any number of
classes. A third, for single numbers of any size, proves what it returns in high precision.
"""

from __future__ import annotations

import warnings
from itertools import product

import mpmath
import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import rel_entr

RAYS = 3000
DEPTHS = 12


def divergence(q, c):
    """KL(q || c)."""
    return float(rel_entr(q, c).sum())


def solved(*problem, **options):
    """What SLSQP finds. It may leave the bounds by an ulp, and older SciPy warns of that."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)
        return minimize(*problem, method="SLSQP", **options)


def members(c, b):
    """(RAYS * DEPTHS, 3) distributions all over a ball of three classes, the first RAYS on its rim.

    From the center a ray in every direction, to where the ball or the triangle ends.
    """
    angle = np.linspace(0, 2 * np.pi, RAYS, endpoint=False)
    # Directions in the plane of distributions, shorter where the center has little to give.
    ray = np.cos(angle[:, None] + 2 * np.pi / 3 * np.arange(3)) * np.sqrt(c)
    ray -= ray.sum(axis=1, keepdims=True) * c
    with np.errstate(divide="ignore"):
        edge = np.where(ray < 0, -c / ray, np.inf).min(axis=1)
    low, high = np.zeros(RAYS), edge
    for _ in range(60):
        middle = (low + high) / 2
        q = np.maximum(c + middle[:, None] * ray, 0)
        inside = rel_entr(q, c).sum(axis=1) <= b
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    end = np.where(rel_entr(np.maximum(c + edge[:, None] * ray, 0), c).sum(axis=1) <= b, edge, low)
    depth = np.linspace(1, 0, DEPTHS)[:, None, None]
    return np.maximum(c + depth * end[:, None] * ray, 0).reshape(-1, 3)


def greatest(v, c, b):
    """The greatest <v, q> over the ball, by a general solver."""
    return -_least(lambda q: -(v @ q), lambda _: -v, c, b, [c])


def greatest_entropy(c, b):
    """The greatest entropy over the ball, by a general solver."""
    return -_least(lambda q: -entropy(q), lambda q: np.log(np.maximum(q, 1e-300)) + 1, c, b, [c])


def least_entropy(c, b):
    """The least entropy over the ball, by a general solver from many starts, and at the corners."""
    starts = [0.9 * c + 0.1 * (e + f) / 2 for e, f in product(np.eye(len(c)), repeat=2)]
    corners = [0.0 for p in c if p > 0 and -np.log(p) <= b]
    return min(
        [_least(entropy, lambda q: -np.log(np.maximum(q, 1e-300)) - 1, c, b, starts), *corners]
    )


def need(differences, c):
    """The least KL(q || c) of distributions with <d, q> >= 0 for all differences (R, K)."""
    K = len(c)
    rules = [
        {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda _: np.ones(K)},
        {"type": "ineq", "fun": lambda q: differences @ q, "jac": lambda _: differences},
    ]
    found = solved(
        lambda q: divergence(q, c), np.full(K, 1 / K), jac=lambda q: np.log(q / c) + 1,
        bounds=[(1e-14, 1)] * K, constraints=rules,
        options={"maxiter": 500, "ftol": 1e-13},
    )  # fmt: skip
    return found.fun


def distance(p, c, b):
    """The least atol such that some member is within atol of p in every class."""
    K = len(c)
    rules = [
        {"type": "eq", "fun": lambda x: x[:K].sum() - 1},
        {"type": "ineq", "fun": lambda x: b - divergence(x[:K], c)},
        {"type": "ineq", "fun": lambda x: x[K] - (x[:K] - p)},
        {"type": "ineq", "fun": lambda x: x[K] + (x[:K] - p)},
    ]
    start = np.append(c, np.abs(c - p).max())
    found = solved(
        lambda x: x[K], start, bounds=[(1e-14, 1)] * (K + 1), constraints=rules,
        options={"maxiter": 500, "ftol": 1e-14},
    )  # fmt: skip
    return found.fun


def event_range(mass, b):
    """Least and greatest probability of an event that has this much at the center."""

    def kl(q):
        return float(rel_entr(q, mass) + rel_entr(1 - q, 1 - mass)) - b

    low = 0.0 if kl(0.0) <= 0 else brentq(kl, 0, mass, xtol=1e-15)
    high = 1.0 if kl(1.0) <= 0 else brentq(kl, mass, 1, xtol=1e-15)
    return low, high


def total_variation(c, b):
    """The greatest upper(A) - lower(A) over all events."""
    widths = []
    for event in product([False, True], repeat=len(c)):
        low, high = event_range(min(float(c[list(event)].sum()), 1.0), b)
        widths.append(high - low)
    return max(widths)


def proved_greatest(log_c, v, b, digits=60):
    """The greatest <v, q> over the ball, in high precision: a member and a bound that agree."""
    with mpmath.workdps(digits + int(max(-x for x in log_c if x > -np.inf))):
        z = [mpmath.mpf(float(x)) for x in log_c if x > -np.inf]
        values = [mpmath.mpf(float(x)) for x, y in zip(v, log_c, strict=True) if y > -np.inf]
        total = mpmath.log(sum(mpmath.exp(x) for x in z))
        z, b, top = [x - total for x in z], mpmath.mpf(float(b)), max(values)
        ends = sum(mpmath.exp(x) for x, y in zip(z, values, strict=True) if y == top)
        if b >= -mpmath.log(ends):
            return top
        if b == 0:
            return sum(mpmath.exp(x) * y for x, y in zip(z, values, strict=True))

        def tilted(t):
            e = [mpmath.exp(x + t * (y - top)) for x, y in zip(z, values, strict=True)]
            return [x / sum(e) for x in e], mpmath.log(sum(e)) + t * top

        def kl(t):
            q, log_partition = tilted(t)
            return t * sum(x * y for x, y in zip(q, values, strict=True)) - log_partition

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while kl(high) < b:
            low, high = high, 2 * high
        for _ in range(digits * 4):
            middle = (low + high) / 2
            low, high = (middle, high) if kl(middle) <= b else (low, middle)
        member, log_partition = tilted(low)[0], tilted(high)[1]
        attained = sum(x * y for x, y in zip(member, values, strict=True))
        bound = (b + log_partition) / high
        assert abs(bound - attained) <= mpmath.mpf(10) ** -25 * (1 + abs(bound))
        return attained


def entropy(q):
    """In nats."""
    q = np.maximum(q, 1e-300)
    return float(-(q * np.log(q)).sum())


def _least(objective, slope, c, b, starts):
    """The least value of an objective over the ball; classes without probability stay without."""
    there = c > 0
    K, p = int(there.sum()), c[there]

    def whole(q):
        full = np.zeros(len(c))
        full[there] = q
        return full

    rules = [
        {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda _: np.ones(K)},
        {
            "type": "ineq",
            "fun": lambda q: b - divergence(q, p),
            "jac": lambda q: -(np.log(np.maximum(q, 1e-300) / p) + 1),
        },
    ]
    values = []
    for start in starts:
        found = solved(
            lambda q: objective(whole(q)), start[there], jac=lambda q: slope(whole(q))[there],
            bounds=[(1e-14, 1)] * K, constraints=rules,
            options={"maxiter": 500, "ftol": 1e-14},
        )  # fmt: skip
        q = np.maximum(found.x, 0) / np.maximum(found.x, 0).sum()
        if divergence(q, p) <= b * (1 + 1e-6) + 1e-9:
            values.append(objective(whole(q)))
    return min(values)
