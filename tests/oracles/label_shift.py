"""Label shift by its definition: the likelihood of frequencies, bounds by scanning all rays, and
how much estimates scatter because the labels are few, by leaving a little of each row out."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def log_likelihood(v, ratios, weights):
    """sum_i w_i log sum_k v_k a_ik, one input after the other."""
    total = 0.0
    for row, weight in zip(ratios, weights, strict=True):
        inner = sum(float(f) * float(a) for f, a in zip(v, row, strict=True))
        total += float(weight) * (np.log(inner) if inner > 0 else -np.inf)
    return total


def posterior(odds, v):
    """Probabilities of one input under frequencies v."""
    weighted = np.array([o * f for o, f in zip(odds, v, strict=True)])
    return weighted / weighted.sum()


def furthest(middle, direction, ratios, weights, floor):
    """The last plausible frequencies on a ray from the middle, within the simplex, by bisection."""
    shrinking = direction < 0
    edge = np.min(middle[shrinking] / -direction[shrinking]) if shrinking.any() else 0.0
    low, high = 0.0, edge
    if log_likelihood(np.maximum(middle + edge * direction, 0), ratios, weights) >= floor:
        return np.maximum(middle + edge * direction, 0)
    for _ in range(44):
        step = (low + high) / 2
        if log_likelihood(middle + step * direction, ratios, weights) >= floor:
            low = step
        else:
            high = step
    return middle + low * direction


def plausible_points(middle, ratios, weights, floor, rng, count):
    """(count, K) plausible frequencies on random rays; every other is the last of its ray."""
    points = []
    for i in range(count):
        v = rng.dirichlet(np.full(len(middle), rng.choice([0.1, 1.0])))
        end = furthest(middle, v - middle, ratios, weights, floor)
        points.append(middle + (1 if i % 2 else rng.random()) * (end - middle))
    return np.array(points)


def bounds(odds, middle, ratios, weights, floor, *, angles=60, zooms=10):
    """(2, K) least and largest probability over plausible frequencies, of two or three classes.

    A probability is quasi-monotone in the frequencies, so that its extremes lie on the boundary of
    the convex region: where it ends on a ray from the middle. Each bound is looked for among many
    rays, and then among more and more that are close to the best.
    """
    K = len(odds)
    along = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])[:, :K]

    def reached(angle):
        if K == 2:
            direction = np.array([1.0, -1.0]) * np.cos(angle)
        else:
            direction = np.cos(angle) * along[0] + np.sin(angle) * along[1]
        return posterior(odds, furthest(middle, direction, ratios, weights, floor))

    first = np.linspace(0, 2 * np.pi, angles if K > 2 else 3)
    found = np.array([reached(a) for a in first])
    result = np.empty((2, K))
    for side, sign in enumerate((-1, 1)):
        for k in range(K):
            best = int(np.argmax(sign * found[:, k]))
            center, value, size = first[best], sign * found[best, k], 2 * np.pi / angles
            for _ in range(zooms if K > 2 else 0):
                for angle in center + np.linspace(-size, size, 9):
                    here = sign * reached(angle)[k]
                    if here > value:
                        center, value = angle, here
                size /= 3
            result[side, k] = sign * value
    return result


def calibrated_odds(logits, labels, weights, new):
    """Odds of new inputs: shifts and scale of the largest likelihood, over counted frequencies."""
    K = logits.shape[1]

    is_class = np.eye(K)[labels]

    def loss(parameters):
        z = parameters[K] * logits + parameters[:K]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        left = weights[:, None] * (p - is_class)
        slope = np.append(left.sum(axis=0), np.sum(left * logits))
        return -weights @ np.log(np.sum(p * is_class, axis=1)), slope

    start = np.append(np.zeros(K), 1.0)
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8}).x
    frequencies = np.bincount(labels, weights, minlength=K) / weights.sum()
    z = found[K] * new + found[:K] - np.log(frequencies)
    return np.exp(z - z.max(axis=1, keepdims=True))


def likeliest(odds, weights):
    """Frequencies of the largest likelihood, with half an input of every class, by EM."""
    v = np.full(odds.shape[1], 1 / odds.shape[1])
    moved = 1.0
    while moved > 1e-12:
        counts = weights @ (odds * v / (odds @ v)[:, None]) + 0.5
        v, before = counts / counts.sum(), v
        moved = np.abs(v - before).max()
    return v


def scatters(logits, labels, new, step=0.02):
    """Covariances (K, K) of the frequencies found, through the labelled rows and through the new.

    Each is the sum of the squares of how much a row moves the frequencies, if it counts a little
    more or less: the infinitesimal jackknife.
    """

    def moved(row, rows, find):
        more, less = np.ones(rows), np.ones(rows)
        more[row] += step
        less[row] -= step
        return (find(more) - find(less)) / (2 * step)

    odds = calibrated_odds(logits, labels, np.ones(len(labels)), new)
    ones = np.ones(len(new))
    by_label = [
        moved(i, len(labels), lambda w: likeliest(calibrated_odds(logits, labels, w, new), ones))
        for i in range(len(labels))
    ]
    by_input = [moved(i, len(new), lambda w: likeliest(odds, w)) for i in range(len(new))]
    return [np.transpose(rows) @ np.array(rows) for rows in (by_label, by_input)]
