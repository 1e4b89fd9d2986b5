"""Labels that do not exclude each other, by their definitions: slow, literal, nothing of decal."""

from itertools import product
from math import exp, inf, log, log1p

import numpy as np
from scipy.optimize import linprog


def log_sigmoid(x):
    return -log1p(exp(-x)) if x >= 0 else x - log1p(exp(x))


def log_likelihood(logits, answers, weights, shift=0.0, scale=1.0):
    """Of the answers 0 and 1 of one label; -1 and NaN are no answers."""
    total = 0.0
    for z, y, w in zip(logits, answers, weights, strict=True):
        x = scale * z + shift
        if y == 1:
            total += w * log_sigmoid(x)
        elif y == 0:
            total += w * log_sigmoid(-x)
    return total


def bisected(fine, inside, outside, steps=200):
    """The last number between the two that is fine."""
    for _ in range(steps):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if fine(middle) else (inside, middle)
    return inside


def plausible_shifts(logits, answers, weights, budget):
    """The shifts of one label that lose no more than the budget; infinite without an objection."""
    start = log_likelihood(logits, answers, weights)
    ends = []
    for side, answer in ((-1, 1), (1, 0)):
        if answer not in [y for y in answers if y in (0, 1)]:
            ends.append(side * inf)
            continue

        def fine(size, side=side):
            return log_likelihood(logits, answers, weights, side * size) - start >= -budget

        ends.append(side * bisected(fine, 0.0, 1e3))
    return ends


def plausible_scales(logits, answers, weights, budget):
    """The factors whose softer model costs no more than the budget if the sharper one is true."""
    known = [(z, w) for z, y, w in zip(logits, answers, weights, strict=True) if y in (0, 1)]
    weight = sum(w for _, w in known)

    def entropy(z):
        return -sum(exp(log_sigmoid(x)) * log_sigmoid(x) for x in (z, -z))

    def lost(s):
        true, believed = (1.0, s) if s < 1 else (s, 1.0)
        total = 0.0
        for z, w in known:
            for x in (z, -z):
                p = exp(log_sigmoid(true * x))
                total += w * p * (log_sigmoid(true * x) - log_sigmoid(believed * x))
        return total

    knowledge = sum(w * (log(2) - entropy(z)) for z, w in known) / weight
    allowed = 2 * knowledge * budget
    return [
        bisected(lambda s: lost(s) <= allowed, 1.0, 0.0),
        bisected(lambda s: lost(s) <= allowed, 1.0, 1e3),
    ]


def local_interval(logit, budget):
    """The probabilities q with KL(q || sigmoid(logit)) <= budget."""
    c, d = exp(log_sigmoid(logit)), exp(log_sigmoid(-logit))

    def fine(q):
        first = q * log(q / c) if q > 0 else 0.0
        return first + ((1 - q) * log((1 - q) / d) if q < 1 else 0.0) <= budget

    return [
        0.0 if fine(0.0) else bisected(fine, c, 0.0),
        1.0 if fine(1.0) else bisected(fine, c, 1.0),
    ]


def number_of_events(lower, upper, happens):
    """Least and greatest probability of a statement about how many of m events happen.

    Over all joint distributions of the m events whose marginals lie in the intervals: a linear
    program over the 2^m combinations.
    """
    combinations = np.array(list(product((0, 1), repeat=len(lower))))
    objective = np.array([1.0 if happens(sum(c)) else 0.0 for c in combinations])
    rows = np.vstack([combinations.T, -combinations.T])
    limits = np.concatenate([upper, -np.asarray(lower)])
    everything = {"A_ub": rows, "b_ub": limits, "A_eq": np.ones((1, len(objective))), "b_eq": [1.0]}
    least, greatest = (linprog(side * objective, **everything).fun for side in (1, -1))
    return least, -greatest
