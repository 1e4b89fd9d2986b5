"""Definitions of questions about ordered classes, slow and literal. Imports nothing from decal."""

from __future__ import annotations

import mpmath
import numpy as np
from scipy.optimize import linprog


def box_range(lower, upper, values):
    """Least and greatest expectation of values (K,) over one box, by linear programs."""
    found = []
    for sign in (1, -1):
        solved = linprog(
            sign * np.asarray(values, float),
            A_eq=np.ones((1, len(lower))),
            b_eq=[1.0],
            bounds=list(zip(lower, upper, strict=True)),
        )
        assert solved.status == 0
        found.append(sign * solved.fun)
    return tuple(found)


def ball_event(c, radius, event, digits=60):
    """Least and greatest probability of an event over one ball, by bisection in long arithmetic."""
    with mpmath.workdps(digits):
        a = mpmath.fsum(mpmath.mpf(float(p)) for p, inside in zip(c, event, strict=True) if inside)
        a /= mpmath.fsum(mpmath.mpf(float(p)) for p in c)
        b = mpmath.mpf(float(radius))

        def nats(q):
            terms = [(u, v) for u, v in ((q, a), (1 - q, 1 - a)) if u > 0]
            if any(v == 0 for _, v in terms):
                return mpmath.inf
            return mpmath.fsum(u * mpmath.log(u / v) for u, v in terms)

        found = []
        for end in (mpmath.mpf(0), mpmath.mpf(1)):
            outside, inside = end, a
            if nats(end) > b:
                for _ in range(200):
                    middle = (outside + inside) / 2
                    if nats(middle) > b:
                        outside = middle
                    else:
                        inside = middle
                found.append(float(inside))
            else:
                found.append(float(end))
        return tuple(found)


def quantile(p, q):
    """The first class k with P(Y <= k) >= q."""
    total = 0.0
    for k, mass in enumerate(p):
        total += mass
        if total >= q - 1e-12:
            return k
    return len(p) - 1


def grown(point, lower_probability):
    """The interval that grows from the mode until `lower_probability` of it is one half."""
    first = last = int(np.argmax(point))
    while lower_probability(first, last) < 0.5 - 1e-12:
        left = point[first - 1] if first > 0 else -1.0
        right = point[last + 1] if last + 1 < len(point) else -1.0
        if left > right:
            first -= 1
        else:
            last += 1
    return first, last
