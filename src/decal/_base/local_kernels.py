"""The innermost loop of local sets, compiled: what `bernoulli.EndpointTable` reads off.

Imported only where `numerics.compiled` finds Numba and enough to do. What `kernels` says of its
loops holds here too.
"""

# Compiled functions have no types that mypy could see.
# mypy: ignore-errors

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from decal._base.bernoulli import COEFFICIENTS, WITHIN_CELL
from decal._base.elementary import EXACT, VECTOR, bits_of, exp, larger, log_ratio, number_of, place


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=EXACT)
def _end(left: float, powers: Any, base: int) -> float:
    """One end of an interval, see `bernoulli.EndpointTable.ends`."""
    bits = bits_of(left) >> WITHIN_CELL
    t = left - number_of((bits << WITHIN_CELL) + (1 << WITHIN_CELL - 1))
    c = powers[max(bits - base, 0)]
    found = c[COEFFICIENTS - 1]
    for power in range(COEFFICIENTS - 2, -1, -1):
        found = found * t + c[power]
    return found


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _exponentials(z: Any, offset: Any, d: Any, e: Any) -> Any:
    """Logits d and exponentials e below the largest, the others' sum, its place, the least."""
    top = -np.inf
    for k in range(len(z)):
        d[k] = z[k] + offset[k]
        top = larger(top, d[k])
    at = place(d, top, 1.0)
    others, least = 0.0, 0.0
    for k in range(len(z)):
        d[k] -= top
        e[k] = exp(d[k])
        least = -larger(-least, -d[k])
    e[at] = 0.0
    for k in range(len(z)):
        others += e[k]
    e[at] = 1.0
    return others, at, least


@njit(nogil=True, cache=True, error_model="numpy")
def local_boxes(
    z: Any,
    offset: Any,
    budget: float,
    base: int,
    powers: Any,
    deepest: float,
    low: Any,
    high: Any,
    point: Any,
) -> Any:
    """Bounds and points of rows z (n, K) into low, high, point (n, K); the rows left out.

    See `_local._read_off`, and `bernoulli.EndpointTable` for the three arguments after `offset`.
    """
    n, K = z.shape
    d, e = np.empty(K), np.empty(K)
    left = np.empty(n, dtype=np.intp)
    count = 0
    unmoved = -math.expm1(-budget)
    upper, lower = powers[0], powers[1]
    for i in range(n):
        others, at, least = _exponentials(z[i], offset, d, e)
        deep, alone = False, least < deepest
        if least < deepest:
            for k in range(K):
                deep |= -np.inf < d[k] < deepest
                alone &= d[k] == -np.inf or k == at
        if deep or alone:
            left[count] = i
            count += 1
            continue
        log_total, inverse = math.log1p(others), 1.0 / (1.0 + others)
        for k in range(K):
            c = e[k] * inverse
            if d[k] == -np.inf:
                low[i, k] = high[i, k] = point[i, k] = 0.0
                continue
            point[i, k] = c
            high[i, k] = _end(log_total - d[k] - budget, upper, base)
            low[i, k] = 0.0
            if c > unmoved and k != at:  # -log(1 - c), as log((1 + u) / (1 - u))
                low[i, k] = _end(log_ratio(c / (2.0 - c)) - budget, lower, base)
        # Of the largest class 1 - c, and so c > unmoved, may be lost to rounding.
        low[i, at] = _end(math.log1p(1.0 / others) - budget, lower, base)
    return left[:count]
