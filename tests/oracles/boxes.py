"""Interval credal sets by definition: slow, literal, importing nothing from decal.

Boxes are arrays (n, K) of lower and upper bounds; entropies are in nats.
"""

from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_matrix

KINDS = (
    "plain",
    "ties",
    "zeros",
    "degenerate",
    "barely feasible",
    "nested",
    "peaked",
    "almost tied",
)


def tighten(lower, upper):
    """Reachable bounds, from the old values on both sides."""
    missing = 1.0 - lower.sum(axis=1, keepdims=True)
    spare = upper.sum(axis=1, keepdims=True) - 1.0
    return np.maximum(lower, upper - spare), np.minimum(upper, lower + missing)


def random_boxes(rng, n, K, kind="plain"):
    """n non-empty boxes with reachable bounds, around random distributions."""
    p = rng.dirichlet(np.full(K, 0.2 if kind == "peaked" else 1.0), n)
    lower = p * rng.uniform(size=(n, K))
    upper = p + (1.0 - p) * rng.uniform(size=(n, K)) * rng.uniform(size=(n, 1))
    if kind in ("ties", "almost tied"):
        # Multiples of 1/16 are exact: equal bounds and equal widths abound.
        lower, upper = np.floor(16 * lower) / 16, np.ceil(16 * upper) / 16
    if kind == "almost tied":
        lower += 10.0 ** rng.uniform(-40, -9, (n, K)) * (lower < p)
        upper += 10.0 ** rng.uniform(-18, -9, (n, K))
    elif kind == "zeros":
        lower *= rng.uniform(size=(n, K)) < 0.4
        nothing = rng.uniform(size=(n, K)) < 0.3
        nothing[np.arange(n), rng.integers(K, size=n)] = False
        lower[nothing] = upper[nothing] = 0.0
        keeper = (~nothing).argmax(axis=1)
        upper[np.arange(n), keeper] = 1.0
    elif kind == "degenerate":
        fixed = rng.uniform(size=(n, K)) < 0.5
        lower, upper = np.where(fixed, p, lower), np.where(fixed, p, upper)
    elif kind == "barely feasible":
        tight_above = rng.uniform(size=(n, 1)) < 0.5
        hair = 10.0 ** rng.uniform(-16, -8, (n, 1))
        near = rng.uniform(size=(n, K)) * hair
        lower = np.where(tight_above, lower, np.maximum(p - near, 0.0))
        upper = np.where(tight_above, p + near, upper)
    elif kind == "nested":
        half = np.sort(rng.uniform(0.0, 1.0, (n, K)), axis=1) / K
        lower, upper = 1.0 / K - half, 1.0 / K + half * rng.uniform(0.8, 1.2, (n, K))
        upper = np.maximum(upper, 1.0 / K)
    return tighten(lower, np.minimum(upper, 1.0))


def entropy(p):
    """-sum p ln p over the last axis, with 0 ln 0 = 0."""
    return -np.sum(p * np.log(np.where(p > 0.0, p, 1.0)), axis=-1)


def vertices(lower, upper):
    """All vertices of each box, and a few near-copies: (n, M, K), missing ones NaN."""
    return np.stack([*each_vertex(lower, upper)], axis=1)


def each_vertex(lower, upper, atol=1e-11):
    """One vertex (n, K) of each box after the other, missing ones NaN.

    At a vertex all classes but one are at a bound; that one takes what is left.
    """
    n, K = lower.shape
    for j in range(K):
        others = [k for k in range(K) if k != j]
        for at_upper in product([False, True], repeat=K - 1):
            p = np.empty((n, K))
            p[:, others] = np.where(at_upper, upper[:, others], lower[:, others])
            p[:, j] = 1.0 - p[:, others].sum(axis=1)
            inside = (p[:, j] >= lower[:, j] - atol) & (p[:, j] <= upper[:, j] + atol)
            p[:, j] = np.clip(p[:, j], lower[:, j], upper[:, j])
            p[~inside] = np.nan
            yield p


def lower_entropy(lower, upper):
    """Entropy is concave, so its minimum is at a vertex: try them all."""
    least = np.full(len(lower), np.inf)
    for p in each_vertex(lower, upper):
        least = np.fmin(least, entropy(p))
    return least


def upper_entropy(lower, upper):
    """The most level distribution: bisect the height at which it sums to one."""
    low, high = np.zeros((len(lower), 1)), np.ones((len(lower), 1))
    for _ in range(100):
        middle = (low + high) / 2
        short = np.clip(middle, lower, upper).sum(axis=1, keepdims=True) < 1.0
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return entropy(np.clip(high, lower, upper))


def maximum_of(objective, lower, upper):
    """Largest value of a linear function over one box, by linear programming."""
    return maxima_of(np.asarray(objective)[None], lower, upper)[0]


def maxima_of(objectives, lower, upper):
    """(m,) largest values of linear functions (m, K) over one box, by linear programming.

    One program for all: a copy of the box for each of them, with nothing in common.
    """
    m, K = objectives.shape
    result = linprog(
        -objectives.ravel(), A_eq=block_diag([coo_matrix(np.ones((1, K)))] * m), b_eq=np.ones(m),
        bounds=np.tile(np.column_stack([lower, upper]), (m, 1)), method="highs",
    )  # fmt: skip
    assert result.status == 0
    return (objectives * result.x.reshape(m, K)).sum(axis=1)


def can_be_most_probable(j, lower, upper):
    """Whether some distribution in one box gives class j the largest probability, by LP."""
    K = len(lower)
    result = linprog(
        np.zeros(K), A_ub=np.eye(K) - np.eye(K)[j], b_ub=np.zeros(K),
        A_eq=np.ones((1, K)), b_eq=[1.0],
        bounds=np.column_stack([lower, upper]), method="highs",
    )  # fmt: skip
    return result.status == 0


def zero_one(lower, upper):
    """Regret of predicting some p's most probable class, in one box: nothing but LPs."""
    K = len(lower)
    leads = [
        np.eye(K)[k] - np.eye(K)[j]
        for j in range(K)
        if can_be_most_probable(j, lower, upper)
        for k in range(K)
        if k != j
    ]
    return max(0.0, *maxima_of(np.array(leads), lower, upper))


def smallest_maximum(lower, upper):
    """min over p of max_k p_k in one box, as the linear program min t, p_k <= t."""
    K = len(lower)
    result = linprog(
        np.append(np.zeros(K), 1.0), A_ub=np.column_stack([np.eye(K), -np.ones(K)]),
        b_ub=np.zeros(K), A_eq=np.append(np.ones(K), 0.0)[None], b_eq=[1.0],
        bounds=[*zip(lower, upper, strict=True), (0.0, 1.0)], method="highs",
    )  # fmt: skip
    assert result.status == 0
    return result.fun


def hartley(lower, upper):
    """sum m(A) ln|A|, with m from the lower probabilities of all sets, for each box."""
    K = lower.shape[1]
    sets = [frozenset(A) for size in range(K + 1) for A in combinations(range(K), size)]
    mass, total = {}, np.zeros(len(lower))
    for A in sets:
        inside = np.array([k in A for k in range(K)])
        probability = np.maximum(lower[:, inside].sum(axis=1), 1.0 - upper[:, ~inside].sum(axis=1))
        mass[A] = probability - sum(mass[B] for B in mass if B < A)
        if A:
            total += mass[A] * np.log(len(A))
    return total


def total_variation(lower, upper):
    """(n,) the greatest distance of two vertices: convex in both, it is greatest at vertices."""
    corner = vertices(lower, upper)
    greatest = np.zeros(len(lower))
    for one in np.moveaxis(corner, 1, 0):
        apart = np.abs(corner - one[:, None, :]).sum(axis=2) / 2
        greatest = np.maximum(greatest, np.nan_to_num(apart).max(axis=1))
    return greatest


def imprecision(lower, upper):
    """The greatest upper minus lower probability of an event, by linear programs; one box."""
    events = np.array([*product([0.0, 1.0], repeat=len(lower))])
    most, least = maxima_of(events, lower, upper), -maxima_of(-events, lower, upper)
    return (most - least).max()
