"""Frequencies near others by definition: divergences, and extremes of a probability by search."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def divergence(kind, v, c):
    """sum v log(v / c), or sum (v - c)^2 / c, one class after the other."""
    total = 0.0
    for f, g in zip(v, c, strict=True):
        if kind == "kl":
            total += f * np.log(f / g) if f > 0 else 0.0
        else:
            total += (f - g) ** 2 / g
    return total


def posterior(odds, v):
    """Probabilities of one input under frequencies v."""
    weighted = np.array([o * f for o, f in zip(odds, v, strict=True)])
    return weighted / weighted.sum()


def by_rays(kind, odds, c, radius, *, angles=240, zooms=16):
    """(2, K) extremes for two or three classes: where the ball ends on rays from its center."""
    K = len(c)
    axes = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])[:, :K]

    def reached(angle):
        step = np.cos(angle) * axes[0] + (np.sin(angle) * axes[1] if K > 2 else 0)
        falling = step < 0
        low, high = 0.0, np.min(c[falling] / -step[falling]) if falling.any() else 0.0
        if divergence(kind, np.maximum(c + high * step, 0), c) <= radius:
            low = high
        for _ in range(45):
            middle = (low + high) / 2
            inside = divergence(kind, np.maximum(c + middle * step, 0), c) <= radius
            low, high = (middle, high) if inside else (low, middle)
        return posterior(odds, np.maximum(c + low * step, 0))

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


def by_slsqp(kind, odds, c, radius, k, sign):
    """The extreme of one probability, from several starts; what it finds lies inside."""

    def softmax(t):
        return np.exp(t - t.max()) / np.exp(t - t.max()).sum()

    reached = []
    for share in (0.0, 0.1, 0.3):
        found = minimize(
            lambda t: -sign * np.log(posterior(odds, softmax(t))[k]),
            np.log((1 - share) * c + share / len(c)),
            bounds=[(-20, 0)] * len(c),
            constraints={
                "type": "ineq",
                "fun": lambda t: radius - divergence(kind, softmax(t), c),
            },
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 400},
        )
        v = softmax(found.x)
        if divergence(kind, v, c) <= radius + 1e-7:
            reached.append(posterior(odds, v)[k])
    return max(reached) if sign > 0 else min(reached)
