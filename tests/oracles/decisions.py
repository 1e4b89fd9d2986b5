"""Definitions of decisions and hulls, slow and literal, and cases to try them on.

Imports nothing from decal. A definition takes one row: `vertices` (M, K) are the extreme points, of
a hull as given, of a box as enumerated, and `earned` (M, A) the expected utilities there, so that
one definition judges both. A margin is >= 0 iff the action is kept.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.sparse import block_diag, coo_matrix

BOX_KINDS = ("random", "narrow", "grid", "vacuous", "point", "barely feasible")
HULL_KINDS = ("random", "grid", "repeated", "collinear", "zeros", "one-hot", "overconfident")
UTILITY_KINDS = ("random", "integer", "abstain", "hedge", "zero-one")


def random_boxes(rng, n, K, kind):
    """n tightened boxes; "grid" has ties and zeros."""
    p = rng.dirichlet(np.full(K, rng.choice([0.2, 1.0, 5.0])), n)
    lower, upper = p * rng.random((n, K)), p + (1 - p) * rng.random((n, K))
    if kind == "narrow":
        lower, upper = p * 0.9, np.minimum(p * 1.2, 1.0)
    elif kind == "grid":
        p = rng.multinomial(10, np.full(K, 1 / K), n) / 10
        lower = np.maximum(p - rng.integers(0, 4, (n, K)) / 10, 0.0)
        upper = np.minimum(p + rng.integers(0, 4, (n, K)) / 10, 1.0)
    elif kind == "vacuous":
        lower, upper = np.zeros((n, K)), np.ones((n, K))
    elif kind == "point":
        lower, upper = p.copy(), p.copy()
    elif kind == "barely feasible":
        lower = p * (1 - 1e-13 * rng.random((n, 1)))
    sum_lower, sum_upper = lower.sum(axis=1, keepdims=True), upper.sum(axis=1, keepdims=True)
    return (
        np.maximum(lower, upper - (sum_upper - 1)),
        np.minimum(upper, lower + (1 - sum_lower)),
    )


def random_hulls(rng, n, M, K, kind):
    """n hulls of M vertices."""
    v = rng.dirichlet(np.full(K, rng.choice([0.05, 0.3, 1.0, 5.0])), (n, M))
    if kind == "grid":
        v = rng.multinomial(6, np.full(K, 1 / K), (n, M)) / 6
    elif kind == "repeated":
        v = v[:, rng.integers(0, M, M)]
    elif kind == "collinear":
        t = rng.random((n, M, 1))
        v = t * v[:, :1] + (1 - t) * v[:, -1:] + 1e-9 * v
    elif kind == "zeros":
        v = v * (rng.random((n, M, K)) < 0.5)
        v[v.sum(axis=2) < 1e-3] = np.eye(K)[0]
    elif kind == "one-hot":
        v = np.eye(K)[rng.integers(0, K, (n, M))]
    elif kind == "overconfident":
        z = 30 * rng.normal(size=(n, M, K))
        v = np.exp(z - z.max(axis=2, keepdims=True))
    return v / v.sum(axis=2, keepdims=True)


def random_utility(rng, K, kind):
    """Utilities (A, K)."""
    A = int(rng.integers(2, 7))
    U = rng.normal(size=(A, K))
    if kind == "integer":
        U = rng.integers(-2, 3, (A, K)).astype(float)
    elif kind == "abstain":
        U = np.vstack([np.eye(K), np.full(K, rng.random())])
    elif kind == "hedge":
        U[-1] = U[:-1].mean(axis=0)
    elif kind == "zero-one":
        U = np.eye(K)
    return U


def box_vertices(lower, upper):
    """All extreme points of {lower <= p <= upper, sum p = 1}: at most one class off its bounds."""
    K = len(lower)
    points = []
    for free in range(K):
        others = [k for k in range(K) if k != free]
        for corner in product(*[(lower[k], upper[k]) for k in others]):
            rest = 1.0 - sum(corner)
            if lower[free] - 1e-12 <= rest <= upper[free] + 1e-12:
                p = np.empty(K)
                p[others] = corner
                p[free] = rest
                points.append(p)
    return np.array(points)


def box_expectation(lower, upper, values):
    """Least and greatest expectation over a box, by linear programming."""
    bounds = list(zip(lower, upper, strict=True))
    one = np.ones((1, len(lower)))
    low, high = (
        linprog(sign * values, A_eq=one, b_eq=[1.0], bounds=bounds, method="highs").fun * sign
        for sign in (1.0, -1.0)
    )
    return low, high


def dominance_margins(earned):
    """Interval dominance: best case of each action minus the best worst case."""
    return earned.max(axis=0) - earned.min(axis=0).max()


def maximality_margins(earned):
    """For each action, minus the largest lead that some other keeps over it at every vertex."""
    return np.array([-(earned - of_a[:, None]).min(axis=0).max() for of_a in earned.T])


def admissible_margins(earned):
    """For each a, max_p min_{b != a} E_p(U_a - U_b) over mixtures of vertices, by an LP."""
    A = earned.shape[1]
    if A == 1:
        return np.array([np.inf])
    return game_values([earned[:, [a]] - np.delete(earned, a, axis=1) for a in range(A)])


def game_value(payoffs):
    """max_w min_c (w @ payoffs)_c over the simplex of w (S,), by an LP."""
    return game_values([payoffs])[0]


def game_values(games):
    """The values of several games (S, C), by one LP: nothing but the sum of values joins them."""
    sizes = [payoffs.shape for payoffs in games]
    result = linprog(
        np.concatenate([np.r_[np.zeros(S), -1.0] for S, _ in sizes]),
        A_ub=block_diag(
            [coo_matrix(np.c_[-payoffs.T, np.ones(payoffs.shape[1])]) for payoffs in games]
        ),
        b_ub=np.zeros(sum(C for _, C in sizes)),
        A_eq=block_diag([coo_matrix(np.r_[np.ones(S), 0.0][None]) for S, _ in sizes]),
        b_eq=np.ones(len(games)),
        bounds=[bound for S, _ in sizes for bound in [(0, None)] * S + [(None, None)]],
        method="highs",
    )
    return result.x[np.cumsum([S + 1 for S, _ in sizes]) - 1]


def regret(earned, a):
    """Greatest shortfall of a from the best action."""
    return max(max(e) - e[a] for e in earned)


def zero_one(vertices):
    """max over p, p' of max_k p_k - p_{argmax p'}: all E-admissible classes, all vertices."""
    admissible = np.flatnonzero(admissible_margins(vertices) >= -1e-9)
    return max(max(p) - p[j] for j in admissible for p in vertices)


def hull_distance(vertices, p):
    """Distance in maximum norm of p from the hull, by an LP."""
    M, K = vertices.shape
    result = linprog(
        np.r_[np.zeros(M), 1.0],
        A_ub=np.r_[np.c_[vertices.T, -np.ones(K)], np.c_[-vertices.T, -np.ones(K)]],
        b_ub=np.r_[p, -p],
        A_eq=[np.r_[np.ones(M), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * (M + 1),
        method="highs",
    )
    return result.fun


def entropy(p):
    """Shannon entropy in nats."""
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def hull_upper_entropy(vertices):
    """Highest entropy of a mixture, by a general-purpose solver from several starts."""
    M = len(vertices)
    starts = [np.full(M, 1 / M), *(0.9 * np.eye(M) + 0.1 / M)]
    found = []
    for start in starts:
        result = minimize(
            lambda w: (
                -entropy(np.clip(w, 0, None) @ vertices / max(np.clip(w, 0, None).sum(), 1e-9))
            ),
            start,
            method="SLSQP",
            bounds=[(0, 1)] * M,
            constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1}],
            options={"ftol": 1e-13, "maxiter": 300},
        )
        found.append(-result.fun)
    return max(found)
