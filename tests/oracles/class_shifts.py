"""Definitions, slow and literal. Imports nothing from decal."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from oracles.log_sums import log_sum_exp

WIDEST = 1e7  # far beyond any finite end in the tests


def log_likelihood(logits, labels, weights=None):
    """sum_n w_n log softmax(z_n)[y_n], by log-sum-exp over whole rows."""
    logits = np.asarray(logits, dtype=np.float64)
    weights = np.ones(len(logits)) if weights is None else weights
    rows = logits[np.arange(len(logits)), labels] - log_sum_exp(logits)
    return float(np.sum(weights * rows))


def gain(logits, labels, k, t, weights=None):
    """Log-likelihood gained by adding t to column k: recomputed from whole rows of logits."""
    moved = np.array(logits, dtype=np.float64)
    moved[:, k] += t
    return log_likelihood(moved, labels, weights) - log_likelihood(logits, labels, weights)


def budget(alpha, likelihood, total_weight):
    if alpha == 0:
        return -np.inf
    return np.log(alpha) * (total_weight if likelihood == "mean" else 1.0)


def plausible_interval(logits, labels, k, b, weights=None):
    """[t-, t+] with gain >= b, by bracketing and Brent's method from the best shift of class k."""
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)
    if b == -np.inf:
        return -np.inf, np.inf
    own = weights[np.asarray(labels) == k].sum()

    unmoved = log_likelihood(logits, labels, weights)

    def excess(t):
        moved = np.array(logits, dtype=np.float64)
        moved[:, k] += t
        return log_likelihood(moved, labels, weights) - unmoved - b

    ends = []
    for sign, unbounded in ((-1.0, own == 0), (1.0, own == weights.sum())):
        if unbounded:
            ends.append(sign * np.inf)
            continue
        near, far = 0.0, sign
        while excess(far) >= 0 and abs(far) < WIDEST:
            near, far = far, 2 * far
        if near == 0.0 and excess(sign * 1e-9) < 0 and b == 0:
            ends.append(0.0)
            continue
        if near == 0.0 and b == 0:
            near = sign * 1e-9
        ends.append(brentq(excess, near, far, xtol=1e-13, rtol=1e-14, maxiter=1000))
    return ends[0], ends[1]


def box(logits, lower, upper, kind):
    """Bounds of every probability over all models with one class moved to one of its ends."""
    logits = np.asarray(logits, dtype=np.float64)
    n, K = logits.shape
    low = softmax(logits, axis=1)
    high = low.copy()
    for row in range(n):
        for k in range(K):
            for t in (lower[k], upper[k]):
                p = _shifted_softmax(logits[row], k, t)
                moved = [k] if kind == "own" else range(K)
                for j in moved:
                    low[row, j] = min(low[row, j], p[j])
                    high[row, j] = max(high[row, j], p[j])
    return low, high


def _shifted_softmax(z, k, t):
    if t == np.inf:
        return np.eye(len(z))[k]
    if t == -np.inf:
        p = np.zeros(len(z))
        others = np.arange(len(z)) != k
        p[others] = softmax(z[others])
        return p
    moved = z.copy()
    moved[k] += t
    return softmax(moved)


def best_shift(logits, labels, weights=None):
    """Maximum-likelihood shifts by a general optimiser; all classes must occur."""
    from scipy.optimize import minimize

    logits = np.asarray(logits, dtype=np.float64)
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)
    K = logits.shape[1]
    onehot = np.eye(K)[labels]

    def loss(c):
        moved = logits + c
        p = softmax(moved, axis=1)
        gradient = (weights[:, None] * (p - onehot)).sum(axis=0)
        return -log_likelihood(moved, labels, weights), gradient

    found = minimize(loss, np.zeros(K), jac=True, method="BFGS", options={"gtol": 1e-10})
    return found.x - found.x.mean()


def auroc(inside, outside):
    """Mean over all pairs of [out > in] + [out == in] / 2."""
    wins = 0.0
    for a in inside:
        for b in outside:
            wins += 1.0 if b > a else 0.5 if b == a else 0.0
    return wins / (len(inside) * len(outside))


def expected_calibration_error(probabilities, labels, bins):
    """sum over bins of (share of rows) |accuracy - mean confidence|, bins (i/B, (i+1)/B]."""
    confidence = [max(p) for p in probabilities]
    correct = [int(np.argmax(p)) == y for p, y in zip(probabilities, labels, strict=True)]
    error = 0.0
    for i in range(bins):
        rows = [r for r, c in enumerate(confidence) if i / bins < c <= (i + 1) / bins]
        if rows:
            accuracy = sum(correct[r] for r in rows) / len(rows)
            mean_confidence = sum(confidence[r] for r in rows) / len(rows)
            error += len(rows) / len(labels) * abs(accuracy - mean_confidence)
    return error
