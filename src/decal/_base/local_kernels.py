"""The innermost loops of local sets, compiled: the endpoints of `bernoulli`, many at once.

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

from decal._base.elementary import VECTOR, exp, exp_less_1, larger, log, log_1_plus
from decal._base.kernels import margins_of_row

HALLEY_STEPS = 4  # steps to an endpoint of a local interval: their last one changes nothing
STEPS_FROM_TABLE = 1  # steps from where a table of endpoints leads
FURTHEST_MARGIN = 600.0  # rows with larger margins are left to NumPy
TABLE_STEP = 0.25  # between log-odds of a table of endpoints
LOCAL_TILE = 512  # endpoints sought at once
SMALL_SHIFT, LARGE_SHIFT = 1e-2, 1.0  # as in `bernoulli`
SMALLEST_REST = 1e-300  # stands for what is left where nothing is: the endpoint is infinite there


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _first_log_odds(x0: Any, b: Any, x: Any) -> None:
    """Lower bounds, see `bernoulli.largest_log_odds`."""
    for i in range(len(x0)):
        e = exp(-abs(x0[i]))
        rarer = e / (1.0 + e)
        skew = larger(2.0 * (0.5 - rarer) * (1.0 if x0[i] < 0 else -1.0), 0.0)
        width = math.sqrt((1.0 - rarer) * rarer / (2.0 * b[i]))
        left = larger(log_1_plus(e) + larger(-x0[i], 0.0) - b[i], SMALLEST_REST)
        x[i] = larger(x0[i] + 1.0 / (width + skew * (1 / 3)), log(b[i] / left))


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _log_odds_from_table(x0: Any, start: float, table: Any, x: Any) -> None:
    """Cubics through values, and slopes times TABLE_STEP, at steps of TABLE_STEP from `start`."""
    for i in range(len(x0)):
        u = (x0[i] - start) * (1 / TABLE_STEP)
        cell = int(u)
        u -= cell
        rise = table[0, cell + 1] - table[0, cell]
        first, second = table[1, cell] - rise, rise - table[1, cell + 1]
        x[i] = table[0, cell] + u * (rise + (1.0 - u) * ((1.0 - u) * first + u * second))


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _better_log_odds(x0: Any, rarer: Any, plus: Any, odds: Any, x: Any) -> None:
    """One step of Halley's method, see `bernoulli.largest_log_odds`."""
    for i in range(len(x0)):
        t = x[i] - x0[i]
        e = exp(-abs(x[i]))
        plus_now = log_1_plus(e)
        inverse = 1.0 / (1.0 + e)
        share = e * inverse
        q = share if x[i] < 0 else inverse
        p = inverse if x[i] < 0 else share
        rest = plus_now + larger(-x[i], 0.0) + t * p
        turn = 1.0 if x0[i] < 0 else -1.0
        far = plus_now - plus[i] + larger(turn * x[i], 0.0) - larger(turn * x0[i], 0.0)
        near = log_1_plus(rarer[i] * exp_less_1(turn * -larger(-t, -1.0)))
        value = turn * t * (q if x0[i] < 0 else p) - (near if t < LARGE_SHIFT else far)
        d1 = (1.0 - rarer[i]) * rarer[i]
        d2, d3 = 2.0 * d1 * (0.5 - rarer[i]) * turn, d1 * (1.0 - 6.0 * d1)
        d4, d5 = d2 * (1.0 - 12.0 * d1), d1 * (1.0 - 30.0 * d1 * (1.0 - 4.0 * d1))
        series = d1 * (1 / 2) + t * (
            d2 * (1 / 3) + t * (d3 * (1 / 8) + t * (d4 * (1 / 30) + t * d5 * (1 / 144)))
        )
        value = t * t * series if t < SMALL_SHIFT else value
        w = q * p
        rise, fall = t * w / value, t * w / rest
        step = log(value / (rest * odds[i])) / (rise + fall)
        bend = (1.0 + t * (p - q)) / t + fall - rise
        damp = -larger(-larger(1.0 - 0.5 * step * bend, 0.5), -2.0)
        x[i] = larger(x[i] - step / damp, x0[i])


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _search(work: Any, first: int, last: int, steps: int) -> None:
    """Log-odds work[5] of the probabilities at a divergence work[1] from those of work[0]."""
    x0, b, x = work[0, first:last], work[1, first:last], work[5, first:last]
    rarer, plus, odds = work[2, first:last], work[3, first:last], work[4, first:last]
    for i in range(len(x0)):
        e = exp(-abs(x0[i]))
        rarer[i] = e / (1.0 + e)
        plus[i] = log_1_plus(e)
        odds[i] = b[i] / larger(plus[i] + larger(-x0[i], 0.0) - b[i], SMALLEST_REST)
    for _ in range(steps):
        _better_log_odds(x0, rarer, plus, odds, x)


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _sigmoids(x: Any, sign: float, found: Any) -> None:
    for i in range(len(x)):
        y = sign * x[i]
        e = exp(-abs(y))
        found[i] = (1.0 if y >= 0 else e) / (1.0 + e)


@njit(nogil=True, forceinline=True, error_model="numpy")
def _local_ends(
    m: Any,
    sign: float,
    b: Any,
    limit: Any,
    start: float,
    table: Any,
    work: Any,
    place: Any,
    found: Any,
) -> None:
    """Probabilities at the upper (sign 1) or lower (-1) ends of local intervals."""
    nodes = table.shape[1]
    stop = start + max(nodes - 1, 0) * TABLE_STEP
    # Endpoints that the table helps with come first, others last; limits need no search.
    size = len(m)
    easy, hard = 0, size
    x0, budget = work[0], work[1]
    for i in range(size):
        y = sign * m[i]
        if y >= limit[i]:
            found[i] = 0.5 + 0.5 * sign
        elif y < -FURTHEST_MARGIN:
            found[i] = 0.0  # masked, or in a row that is left out
        elif start <= y < stop:
            x0[easy], budget[easy], place[easy] = y, b[i], i
            easy += 1
        else:
            hard -= 1
            x0[hard], budget[hard], place[hard] = y, b[i], i
    if easy:
        _log_odds_from_table(x0[:easy], start, table, work[5, :easy])
        _search(work, 0, easy, STEPS_FROM_TABLE)
    if hard < size:
        _first_log_odds(x0[hard:size], budget[hard:size], work[5, hard:size])
        _search(work, hard, size, HALLEY_STEPS)
    _sigmoids(work[5, :easy], sign, x0[:easy])
    _sigmoids(work[5, hard:size], sign, x0[hard:size])
    for i in range(easy):
        found[place[i]] = x0[i]
    for i in range(hard, size):
        found[place[i]] = x0[i]


@njit(nogil=True, cache=True, error_model="numpy")
def local_boxes(
    z: Any,
    offset: Any,
    absent: Any,
    budgets: Any,
    limits: Any,
    start: float,
    table: Any,
    low: Any,
    high: Any,
    point: Any,
    first: int,
) -> Any:
    """Bounds and points of rows z (n, K) into the rows of low, high, point from `first` on.

    Budgets are (n,) and positive; limits are the log-odds from which on they reach certainty. If
    budgets are all the same, a table of endpoints helps. Returns the rows left out: those with
    finite margins beyond `FURTHEST_MARGIN`. See `_local.local_box`.
    """
    n, K = z.shape
    tile = max(1, LOCAL_TILE // K)
    d, e, place = np.empty(K), np.empty(K), np.empty(tile * K, dtype=np.int64)
    m, b, limit = np.empty(tile * K), np.empty(tile * K), np.empty(tile * K)
    work, ends = np.empty((6, tile * K)), np.empty((3, tile * K))
    left = np.empty(n, dtype=np.int64)
    count = 0
    for top in range(0, n, tile):
        rows = min(tile, n - top)
        size = rows * K
        for i in range(rows):
            own = m[i * K : (i + 1) * K]
            margins_of_row(z[top + i], offset, absent, d, e, own)
            for k in absent:
                own[k] = -np.inf
            deep = False
            for k in range(K):
                deep |= abs(own[k]) > FURTHEST_MARGIN and own[k] != -np.inf
            if deep:
                left[count] = first + top + i
                count += 1
            b[i * K : (i + 1) * K] = budgets[top + i]
            limit[i * K : (i + 1) * K] = limits[top + i]
        settings = b[:size], limit[:size], start, table, work, place
        _local_ends(m[:size], -1.0, *settings, ends[0, :size])
        _local_ends(m[:size], 1.0, *settings, ends[1, :size])
        _sigmoids(m[:size], 1.0, ends[2, :size])
        for i in range(rows):
            r, at = first + top + i, i * K
            low[r], high[r] = ends[0, at : at + K], ends[1, at : at + K]
            for k in range(K):
                point[r, k] = 0.0 if m[at + k] == -np.inf else ends[2, at + k]
    return left[:count]
