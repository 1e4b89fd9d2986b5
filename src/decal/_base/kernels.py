"""The innermost loops, compiled: what `numerics` and the directions do, in one pass.

Imported only through `numerics.compiled`, where Numba is installed (the extra `fast`) and there is
enough to do. Every kernel has a twin in NumPy, which defines it; they agree to about 1e-14. Kernels
release the interpreter lock and write to parts of their own, so they run on the threads of
`numerics.for_each_block`, and no sum depends on how many there are.
"""

# Compiled functions have no types that mypy could see.
# mypy: ignore-errors

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from decal._base.elementary import LOWEST_EXPONENT, VECTOR, exp, larger, log_ratio, place

SMALLEST_SAFE_SUM = 1e-200  # as in `numerics`: rows of smaller sums are done in logarithms
LARGEST_PRODUCT = 1e200  # where a product of numbers from 1 to 1e100 is stopped before it overflows
BLOCK = 256  # classes whose numbers stay in the innermost cache
TILE = 8  # rows transposed at once: a cache line of float64


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def margins_of_row(z: Any, center: Any, absent: Any, d: Any, e: Any, m: Any) -> None:
    K = len(z)
    top = -np.inf
    for k in range(K):
        d[k] = z[k] + center[k]
        top = larger(top, d[k])
    for k in range(K):
        d[k] -= top
        e[k] = exp(d[k])
    for k in absent:
        e[k] = 0.0
    smaller, ties = 0.0, -1  # a whole number, so that no reordering adds 1 and subtracts it again
    for k in range(K):
        smaller += e[k] if d[k] < 0 else 0.0
        ties += 0 if d[k] < 0 else 1
    others = smaller + ties
    log_total = math.log1p(others)
    if others < SMALLEST_SAFE_SUM:
        second, rest = -np.inf, 0.0
        for k in range(K):
            if d[k] < 0:
                second = max(second, d[k])
        if second == -np.inf:  # alone: all others are masked
            of_top = np.inf
        else:
            for k in range(K):
                if d[k] < 0:
                    rest += math.exp(d[k] - second)
            of_top = -second - math.log(rest)
    else:
        of_top = -math.log(others)
    # log(S - e) = log S + log(1 - e / S), and e <= S / 2 for all but the largest.
    twice = 2.0 * (1.0 + others)
    for k in range(K):
        m[k] = d[k] - (log_total - log_ratio(e[k] / (twice - e[k])))
    for k in range(K):
        if d[k] >= 0:
            m[k] = of_top
    for k in absent:
        m[k] = (z[k] - top) - log_total


@njit(nogil=True, cache=True, error_model="numpy")
def margins(z: Any, center: Any, absent: Any, m: Any, first: int) -> None:
    """Margins of rows z (n, K) into the columns of m (K, N) from `first` on.

    `absent` are the classes with center -inf. See `numerics.margins`.
    """
    n, K = z.shape
    d, e, tile = np.empty(K), np.empty(K), np.empty((TILE, K))
    for start in range(0, n, TILE):
        count = min(TILE, n - start)
        for i in range(count):
            margins_of_row(z[start + i], center, absent, d, e, tile[i])
        for k in range(K):
            for i in range(count):
                m[k, first + start + i] = tile[i, k]


@njit(nogil=True, cache=True, error_model="numpy")
def deposit(
    m: Any, weights: Any, low: Any, width: int, bin_width: float, grid: Any, start: int, stop: int
) -> None:
    """Add power sums of the margins m (K, n) of classes start to stop to grid (K * (width + 1), 6).

    Those outside the grid are left out. `weights` is (n,), or empty for ones. See
    `_summarise.Summariser`.
    """
    n = m.shape[1]
    scale = 1.0 / bin_width
    weighted = len(weights) > 0
    for k in range(start, stop):
        for i in range(n):
            x = m[k, i] * scale - low[k]
            if not 0 <= x < width:
                continue
            cell = int(x)
            x = (x - cell - 0.5) * bin_width
            w = weights[i] if weighted else 1.0
            sums = grid[k * (width + 1) + cell]
            a = w * x
            b = a * x
            c = b * x
            f = c * x
            sums[0] += w
            sums[1] += a
            sums[2] += b
            sums[3] += c
            sums[4] += f
            sums[5] += f * x


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _series_of_class(centers: Any, a: Any, first: int, last: int, t: float) -> Any:
    value, slope = 0.0, 0.0
    for i in range(first, last):
        x = centers[i] + t
        e = exp(-abs(x))
        r = 1.0 / (1.0 + e)
        s = r if x >= 0 else e * r
        d1 = e * r * r
        d2 = d1 * (1.0 - 2.0 * s)
        d3 = d1 * (1.0 - 6.0 * d1)
        d4 = d2 * (1.0 - 12.0 * d1)
        d5 = d1 * (1.0 - 30.0 * d1 * (1.0 - 4.0 * d1))
        hinge = larger(t + min(centers[i], 0.0), -larger(centers[i], 0.0))
        f = hinge + log_ratio(e / (2.0 + e))
        a0, a1, a2 = a[0, i], a[1, i], a[2, i] * (1 / 2)
        a3, a4, a5 = a[3, i] * (1 / 6), a[4, i] * (1 / 24), a[5, i] * (1 / 120)
        value += a0 * f + a1 * s + a2 * d1 + a3 * d2 + a4 * d3 + a5 * d4
        slope += a0 * s + a1 * d1 + a2 * d2 + a3 * d3 + a4 * d4 + a5 * d5
    return value, slope


@njit(nogil=True, cache=True, error_model="numpy")
def softplus_sum(
    centers: Any,
    moments: Any,
    edges: Any,
    shifts: Any,
    value: Any,
    slope: Any,
    start: int,
    stop: int,
) -> None:
    """Sums over the bins of classes start to stop, of softplus and its slope at shifts (T, K).

    Those of class k are edges[k] to edges[k + 1]. See `_margins.Series.softplus_sum`.
    """
    for k in range(start, stop):
        for j in range(len(shifts)):
            found = _series_of_class(centers, moments, edges[k], edges[k + 1], shifts[j, k])
            value[j, k], slope[j, k] = found


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _move(e: Any, total: float, factor: Any, moved: Any, after: Any) -> None:
    for k in range(len(e)):
        moved[k] = e[k] * factor[k]
        after[k] = (total - e[k]) + moved[k]


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _move_block(
    e: Any,
    start: int,
    stop: int,
    at: int,
    others: float,
    total: float,
    factors: Any,
    steep: Any,
    steeply: Any,
    passed: int,
    moves: Any,
) -> int:
    """What classes' own moves, down and up, make of their exponentials, and of D, into `moves`.

    Returns how many of the steep classes, whose moves are known, were passed.
    """
    part = e[start:stop]
    for side in range(2):
        _move(part, total, factors[side, start:stop], moves[0, side], moves[1, side])
        if start <= at < stop:
            moves[0, side, at - start] = factors[side, at]
            moves[1, side, at - start] = others + factors[side, at]
    while passed < len(steep) and steep[passed] < stop:
        for side in range(2):
            for i in range(2):
                moves[i, side, steep[passed] - start] = steeply[i, side, passed]
        passed += 1
    return passed


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _largest(a: Any, count: int, sign: float) -> float:
    found = -np.inf
    for k in range(count):
        found = larger(found, sign * a[k])
    return found


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _two_largest(
    a: Any, count: int, sign: float, start: int, at: int, first: float, second: float
) -> Any:
    """Where sign * a is largest, it, and the next, of this block and of those before; spoils a."""
    found = _largest(a, count, sign)
    if found > first:
        inside = place(a[:count], found, sign)
        a[inside] = -sign * np.inf
        second = max(first, _largest(a, count, sign))
        at, first = start + inside, found
    elif found > second:
        second = found
    return at, first, second


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _end_block(
    e: Any,
    moves: Any,
    to_point: float,
    to_low: float,
    to_high: float,
    low: Any,
    high: Any,
    point: Any,
) -> None:
    """Ends of intervals, by each class's own moves and by those of the others."""
    down, after_down, up, after_up = moves[0, 0], moves[1, 0], moves[0, 1], moves[1, 1]
    for k in range(len(e)):
        point[k] = e[k] * to_point
        low[k] = -larger(-(down[k] / after_down[k]), -e[k] * to_low)
        high[k] = -larger(-larger(up[k] / after_up[k], e[k] * to_high), -1.0)


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _box_of_row(
    z: Any,
    offset: Any,
    absent: Any,
    shifts: Any,
    factors: Any,
    steep: Any,
    joint: bool,
    deepest: float,
    e: Any,
    steeply: Any,
    moves: Any,
    low: Any,
    high: Any,
    point: Any,
) -> bool:
    K = len(z)
    for k in range(K):
        e[k] = z[k] + offset[k]
    for k in absent:
        e[k] = -np.inf
    top = -np.inf
    for k in range(K):
        top = larger(top, e[k])
    for k in range(K):
        d = e[k] - top
        e[k] = exp(d) if d >= LOWEST_EXPONENT else 0.0
    for k in absent:
        e[k] = 0.0
    at = place(e, 1.0, 1.0)
    e[at] = 0.0
    others = 0.0
    for k in range(K):
        others += e[k]
    e[at] = 1.0
    if others < deepest:
        return False
    total = others + 1.0
    for i in range(len(steep)):
        k = steep[i]
        d = z[k] + offset[k] - top
        rest = others if k == at else total - e[k]
        for side in range(2):  # a masked class is not moved, not even by an infinite shift
            x = math.exp(d + shifts[side, k]) if d != -np.inf else 0.0
            steeply[0, side, i], steeply[1, side, i] = x, rest + x
    # The others' probabilities are divided by the largest and smallest D; but the two classes whose
    # own these are look to the second ones.
    up_at, largest, second_largest = -1, total, total
    down_at, smallest, second_smallest = -1, -total, -total
    if joint:
        passed = 0
        for start in range(0, K, BLOCK):
            stop = min(start + BLOCK, K)
            passed = _move_block(
                e, start, stop, at, others, total, factors, steep, steeply, passed, moves
            )
            up_at, largest, second_largest = _two_largest(
                moves[1, 1], stop - start, 1.0, start, up_at, largest, second_largest
            )
            down_at, smallest, second_smallest = _two_largest(
                moves[1, 0], stop - start, -1.0, start, down_at, smallest, second_smallest
            )
    for i in range(len(steep)):
        if steeply[0, 1, i] == np.inf:
            steeply[0, 1, i] = steeply[1, 1, i] = 1.0
    to_point, to_low, to_high = 1.0 / total, 1.0 / largest, -1.0 / smallest
    passed, own_low, own_high = 0, 0.0, 0.0
    for start in range(0, K, BLOCK):
        stop = min(start + BLOCK, K)
        passed = _move_block(
            e, start, stop, at, others, total, factors, steep, steeply, passed, moves
        )
        if start <= up_at < stop:
            own_low = moves[0, 0, up_at - start] / moves[1, 0, up_at - start]
        if start <= down_at < stop:
            own_high = moves[0, 1, down_at - start] / moves[1, 1, down_at - start]
        bounds = low[start:stop], high[start:stop], point[start:stop]
        _end_block(e[start:stop], moves, to_point, to_low, to_high, *bounds)
    # The point is within, also where a quotient is rounded otherwise than a product.
    if up_at >= 0:
        low[up_at] = min(own_low, e[up_at] / second_largest, point[up_at])
    if down_at >= 0:
        high[down_at] = min(max(own_high, -e[down_at] / second_smallest, point[down_at]), 1.0)
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def boxes(
    z: Any,
    offset: Any,
    absent: Any,
    shifts: Any,
    factors: Any,
    steep: Any,
    joint: bool,
    deepest: float,
    low: Any,
    high: Any,
    point: Any,
    first: int,
) -> Any:
    """Bounds and points of rows z (n, K) into the rows of low, high, point from `first` on.

    Returns the rows left out: those whose exponentials below the largest sum to less than
    `deepest`. See `_ranges.shift_box`.
    """
    n, K = z.shape
    e, steeply, moves = np.empty(K), np.empty((2, 2, len(steep))), np.empty((2, 2, BLOCK))
    left = np.empty(n, dtype=np.int64)
    count = 0
    for i in range(n):
        r = first + i
        row = (low[r], high[r], point[r])
        model = (offset, absent, shifts, factors, steep, joint, deepest)
        if not _box_of_row(z[i], *model, e, steeply, moves, *row):
            left[count] = r
            count += 1
    return left[:count]


@njit(nogil=True, cache=True, error_model="numpy")
def distinct(a: Any, b: Any) -> int:
    """How many different numbers two sorted arrays hold, each of different ones."""
    i, j, count = 0, 0, 0
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]
        i += x <= y
        j += y <= x
        count += 1
    return count + (len(a) - i) + (len(b) - j)


@njit(nogil=True, cache=True, error_model="numpy")
def add_bins(a: Any, sums_a: Any, b: Any, sums_b: Any, keys: Any, sums: Any) -> None:
    """Bins with sorted keys a and b, and their power sums (6, B), added key by key."""
    i, j = 0, 0
    for at in range(len(keys)):
        first = j == len(b) or (i < len(a) and a[i] <= b[j])
        second = i == len(a) or (j < len(b) and b[j] <= a[i])
        keys[at] = a[i] if first else b[j]
        for p in range(len(sums)):
            total = 0.0
            if first:
                total += sums_a[p, i]
            if second:
                total += sums_b[p, j]
            sums[p, at] = total
        i += first
        j += second


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _rung(d: Any, e: Any, scale: float, afresh: bool) -> Any:
    """Sums of e and e d, where e becomes exp(scale d): the square of what it was, or computed."""
    if afresh:
        for k in range(len(d)):
            x = scale * d[k]
            e[k] = exp(x) if x >= LOWEST_EXPONENT else 0.0
    else:
        for k in range(len(d)):
            e[k] *= e[k]
    total, expected = 0.0, 0.0
    for k in range(len(d)):
        total += e[k]
        expected += e[k] * d[k]
    return total, expected


@njit(nogil=True, cache=True, error_model="numpy")
def climb(d: Any, weights: Any, count: Any, scales: Any, saturated: float, least: int) -> Any:
    """R and dR / d log s at the lowest of `scales`, half an octave apart, as far as rows change.

    `weights` is (n,), or empty for ones. See `_ladder._climb`.
    """
    n, K = d.shape
    R = len(scales)
    pair = np.empty((2, K))
    # Of the rows of weight 1 the totals are multiplied, and few logarithms taken.
    logs, products, slopes, finished = np.zeros(R), np.ones(R), np.zeros(R), np.zeros(R)
    weighted = len(weights) > 0
    rungs = 2 * ((least + 1) // 2)
    for i in range(n):
        w = weights[i] if weighted else 1.0
        r, total = 0, np.inf
        while r < R and (r % 2 or total - count[i] >= saturated):
            total, expected = _rung(d[i], pair[r % 2], scales[r], r % 32 < 2)
            slopes[r] += w * scales[r] * (expected / total)
            if weighted:
                logs[r] += w * math.log(total)
            else:
                products[r] *= total
                if products[r] > LARGEST_PRODUCT:
                    logs[r] += math.log(products[r])
                    products[r] = 1.0
            r += 1
        if r < R:
            finished[r] += w * math.log(count[i])
        rungs = max(rungs, r)
    values = logs[:rungs] + np.log(products[:rungs]) + np.cumsum(finished[:rungs])
    return values, slopes[:rungs].copy()
