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


def ball_mean(c, radius, values, digits=60):
    """Least and greatest mean of values (K,) over one ball, by bisection of the tilt.

    The extremes are the tilts c_k exp(t v_k), normalised: their divergence grows with |t|, up to
    that of the classes of extreme value alone.
    """
    with mpmath.workdps(digits):
        p = [mpmath.mpf(float(x)) for x in c]
        p = [x / mpmath.fsum(p) for x in p]
        v = [mpmath.mpf(float(x)) for x in values]
        b = mpmath.mpf(float(radius))
        ends = []
        for sign in (-1, 1):
            best = max(sign * x for x, mass in zip(v, p, strict=True) if mass > 0)

            def tilted(t, best=best, sign=sign):
                w = [m * mpmath.exp(t * (sign * x - best)) for m, x in zip(p, v, strict=True)]
                total = mpmath.fsum(w)
                q = [x / total for x in w]
                nats = t * mpmath.fsum(x * (sign * y - best) for x, y in zip(q, v, strict=True))
                return nats - mpmath.log(total), mpmath.fsum(
                    x * y for x, y in zip(q, v, strict=True)
                )

            alone = mpmath.fsum(m for m, x in zip(p, v, strict=True) if sign * x == best)
            if b >= -mpmath.log(alone):
                ends.append(float(sign * best))
                continue
            low, high = mpmath.mpf(0), mpmath.mpf(1)
            while tilted(high)[0] < b:
                high *= 2
            for _ in range(200):
                t = (low + high) / 2
                low, high = (t, high) if tilted(t)[0] < b else (low, t)
            ends.append(float(tilted(low)[1]))
        return tuple(ends)


def quantile_range(cumulative, q):
    """First and last q-quantile of a set, from the least and greatest P(Y <= k) of every k."""
    first = next(k for k, (_, most) in enumerate(cumulative) if most >= q - 1e-9)
    last = next(k for k, (least, _) in enumerate(cumulative) if least >= q - 1e-9)
    return first, last


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
