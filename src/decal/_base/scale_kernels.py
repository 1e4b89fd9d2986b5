"""The innermost loops of boxes over scales, compiled: see `_peaks`, which defines their numbers.

Imported only where `numerics.compiled` finds Numba and enough to do. What `kernels` says of its
loops holds here too. With d = z - max z and A(s) = log sum_k exp(s d_k), class k peaks at the scale
where A'(s) = d_k. Of few classes, each seeks its own. Many read their peaks from polynomials
between nodes of A: four per octave, so that the exponentials of the next are squares of the last,
and eight where A turns sharply.
"""

# Compiled functions have no types that mypy could see.
# mypy: ignore-errors

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from decal._base.elementary import LOWEST_EXPONENT, VECTOR, exp, larger

VECTOR_LENGTH = 8
SMALLEST, LARGEST = 1e-60, 1e60  # |d| of rows that are done here: their powers are numbers

NEAR, NEARLY_EVEN = 1e-7, 1e-2  # nats from a peak, and skewness up to it, that a series bridges
MOST_STEPS = 80

PER_OCTAVE, RATIO, HALF_RATIO = 4, 2.0**0.25, 2.0**0.125
POWERS = RATIO ** np.arange(-1.0, PER_OCTAVE - 1)
MOST_NODES = 24 * PER_OCTAVE
AFRESH = 8  # octaves after which exponentials are computed again: squares double their round-off
FIRST_NODE = 0.75  # over the largest |d|: up to there A is one polynomial
SMALLEST_STEP = 1e-300

MIDDLE_TOLERANCE = 4e-9
"""Nats by which polynomials of degree 7 and 15 may differ in the middle of an interval, by their
coefficients there and at both ends: at one place the difference may vanish by chance. The latter,
which is used, then misses 1e-12 to 1e-11: 6561 times the square of this, over what A turns by."""

ENOUGH = 256.0 * MIDDLE_TOLERANCE  # of what is multiplied by 1/256 in the middle


def _reciprocals(nodes: Any) -> Any:
    """(16, 16) one over the distances in divided differences, at nodes (4,) that count four times.

    The first index is the order of the difference.
    """
    x = np.repeat(nodes, 4)
    apart = np.array([[x[i] - x[max(i - order, 0)] for i in range(16)] for order in range(16)])
    return np.divide(1.0, apart, out=np.zeros((16, 16)), where=apart != 0)


# An interval goes from 0 to 1. Its polynomial knows A at both ends and at a node on either side;
# between the scale 0 and the first node, at two nodes above.
APART = np.array(
    [[0.0, 1.0, math.sqrt(2.0), 2.0]] + [[0.0, 1.0, -1.0 / r, 1.0 + r] for r in (RATIO, HALF_RATIO)]
)
RECIPROCALS = np.stack([_reciprocals(nodes) for nodes in APART])
# Where these four are, from the interval's first node on.
FROM_ZERO, AROUND = (0, 4, 4 + PER_OCTAVE, 4 + 2 * PER_OCTAVE), (0, 1, -1, 2)


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _halfway(d: Any, e: Any, m: int, s: float) -> None:
    """The exponentials e = exp(s d / 2) of m classes, and 0 for what fills the last vector."""
    for k in range(len(d)):
        x = 0.5 * s * d[k]
        e[k] = exp(x) if x >= LOWEST_EXPONENT / 2 else 0.0
    for k in range(m, len(d)):
        e[k] = 0.0


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _squared_sums(d: Any, e: Any) -> Any:
    """Sums of d^p e, p = 0 to 3, where e becomes the square of what it was."""
    a, b, c, f = 0.0, 0.0, 0.0, 0.0
    for k in range(len(d)):
        square = e[k] * e[k]
        e[k] = square
        y = square * d[k]
        x = y * d[k]
        a += square
        b += y
        c += x
        f += x * d[k]
    return a, b, c, f


@njit(nogil=True, forceinline=True, error_model="numpy")
def _power_sums(d: Any, e: Any, m: int, s: float) -> Any:
    """Sums of d^p e, p = 0 to 3, where e becomes exp(s d)."""
    _halfway(d, e, m, s)
    return _squared_sums(d, e)


@njit(nogil=True, forceinline=True, error_model="numpy")
def _cumulants(sums: Any) -> Any:
    """The first three derivatives of A."""
    share = 1.0 / sums[0]
    mean, second, third = share * sums[1], share * sums[2], share * sums[3]
    return mean, second - mean * mean, third - mean * (3.0 * second - 2.0 * mean * mean)


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _include(e: Any, share: float, low: Any, high: Any) -> None:
    for k in range(len(e)):
        p = e[k] * share
        low[k] = -larger(-low[k], -p)
        high[k] = larger(high[k], p)


@njit(nogil=True, forceinline=True, error_model="numpy")
def _ends(d: Any, e: Any, m: int, first: float, last: float, low: Any, high: Any, at: Any) -> bool:
    """Widen to the probabilities at two scales; False where powers of d are no numbers.

    Into `at` (2, 2) go the tangents of A there: values at 0, and slopes.
    """
    least, ties = 0.0, 0
    for k in range(m):
        least = min(least, d[k])
        ties += d[k] == 0.0
    if least != 0.0 and not SMALLEST <= -least <= LARGEST:
        return False
    for end in range(2):
        s = last if end else first
        if s == np.inf:
            total, at[end, 0], at[end, 1] = float(ties), math.log(ties), 0.0
            for k in range(len(d)):
                e[k] = 1.0 if d[k] == 0.0 else 0.0
        else:
            sums = _power_sums(d, e, m, s)
            total, at[end, 1] = sums[0], sums[1] / sums[0]
            at[end, 0] = math.log(total) - s * at[end, 1]
        _include(e, 1.0 / total, low, high)
    return True


@njit(nogil=True, forceinline=True, error_model="numpy")
def _few_peaks(d: Any, e: Any, m: int, tangents: Any, first: float, last: float, high: Any) -> bool:
    """Raise high (K,) to peaks between the scales, one search for each; whether all were found."""
    at_first, rise, at_last, fall = tangents[0, 0], tangents[0, 1], tangents[1, 0], tangents[1, 1]
    if not rise < fall:
        return True
    # Both tangents are below A: no class is more probable than where they meet.
    meet = (at_first - at_last) / (fall - rise)
    least = at_first + rise * meet
    known, at_meet = False, (0.0, 0.0, 0.0, 0.0)
    for j in range(m):
        target = d[j]
        if not rise < target < fall or meet * target - least <= math.log(high[j]):
            continue
        s, below, above = meet, first, last
        found = False
        for step in range(MOST_STEPS):
            if step == 0 and known:
                sums = at_meet
            else:
                sums = _power_sums(d, e, m, s)
                if step == 0:
                    at_meet, known = sums, True
            mean, variance, third = _cumulants(sums)
            ahead = target - mean
            near, skew = ahead / variance, third / variance
            if ahead * near <= NEAR and abs(skew * near) <= NEARLY_EVEN:
                rest = ahead * near * (0.5 - skew * near / 6.0)
                high[j] = max(high[j], math.exp(s * target - math.log(sums[0]) + rest))
                found = True
                break
            if ahead > 0.0:
                below = s
            else:
                above = s
            # Newton's method for log(-A'), which is almost straight at large scales.
            s += math.log(target / mean) * mean / variance
            if not below < s < above:
                s = 2.0 * below + meet if above == np.inf else 0.5 * (below + above)
        if not found:
            return False
    return True


@njit(nogil=True, forceinline=True, error_model="numpy")
def _fill(s: float, sums: Any, node: Any) -> None:
    """The scale s, and there A and its derivatives over 1, 2 and 6."""
    mean, variance, third = _cumulants(sums)
    node[0], node[1], node[2] = s, math.log(sums[0]), mean
    node[3], node[4] = variance / 2.0, third / 6.0


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _polynomials(
    nodes: Any, at: Any, j0: int, j1: int, of: int, power: Any, c: Any, differs: Any
) -> None:
    """Coefficients c[:, j] of A at four nodes at[j] each, in Newton's form, for j from j0 to j1.

    The first 8 are those of two nodes; differs[j] is what the others make of it.
    """
    for j in range(j0, j1):
        power[j], differs[j] = 1.0, 0.0
    for i in range(16):
        for j in range(j0, j1):
            c[i, j] = nodes[at[j, i // 4], 1]
    for order in range(1, 16):
        for j in range(j0, j1):
            power[j] *= nodes[at[j, 1], 0] - nodes[at[j, 0], 0]
        for i in range(15, order - 1, -1):
            if i // 4 == (i - order) // 4:
                for j in range(j0, j1):
                    c[i, j] = nodes[at[j, i // 4], 1 + order] * power[j]
            else:
                rate = RECIPROCALS[of, order, i]
                for j in range(j0, j1):
                    c[i, j] = (c[i, j] - c[i - 1, j]) * rate
    for i in range(3):
        u, v = 0.5 * i - APART[of, 2], 0.5 * i - APART[of, 3]
        for j in range(j0, j1):
            p = ((c[15, j] * v + c[14, j]) * v + c[13, j]) * v + c[12, j]
            p = (((p * u + c[11, j]) * u + c[10, j]) * u + c[9, j]) * u + c[8, j]
            differs[j] = larger(differs[j], abs(p))


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _newton(
    x: float,
    wanted: float,
    c1: float,
    c2: float,
    c3: float,
    c4: float,
    c5: float,
    c6: float,
    c7: float,
) -> float:
    """A better place in [0, 1] at which the slope of the polynomial of degree 7 is `wanted`."""
    y = x - 1.0
    p = ((c7 * y + c6) * y + c5) * y + c4
    slope = (3.0 * c7 * y + 2.0 * c6) * y + c5
    curve = 6.0 * c7 * y + 2.0 * c6
    curve = ((curve * x + 8.0 * slope) * x + 12.0 * p) * x * x + 6.0 * c3 * x + 2.0 * c2
    slope = ((slope * x + 4.0 * p) * x + 3.0 * c3) * x * x + 2.0 * c2 * x + c1
    x += (wanted - slope) / larger(curve, SMALLEST_STEP)
    return larger(-larger(-x, -1.0), 0.0)


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _read(target: Any, c: Any, of: int, first: Any, second: Any, found: Any) -> None:
    """Raise `found` to the largest exp(s d - A(s)) between two nodes, for targets d."""
    c0, c1, c2, c3, c4, c5, c6, c7 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
    c8, c9, c10, c11, c12, c13, c14, c15 = c[8], c[9], c[10], c[11], c[12], c[13], c[14], c[15]
    third, fourth = APART[of, 2], APART[of, 3]
    start, length = first[0], second[0] - first[0]
    rate = 1.0 / larger(length * second[2] - c1, SMALLEST_STEP)
    for i in range(len(target)):
        wanted = target[i] * length
        x = (wanted - c1) * rate
        x = _newton(x, wanted, c1, c2, c3, c4, c5, c6, c7)
        x = _newton(x, wanted, c1, c2, c3, c4, c5, c6, c7)
        x = _newton(x, wanted, c1, c2, c3, c4, c5, c6, c7)
        y, u, v = x - 1.0, x - third, x - fourth
        q = ((c15 * v + c14) * v + c13) * v + c12
        q = (((q * u + c11) * u + c10) * u + c9) * u + c8
        p = ((((q * y + c7) * y + c6) * y) + c5) * y + c4
        p = (((p * x + c3) * x + c2) * x + c1) * x
        found[i] = larger(found[i], exp(start * target[i] + (wanted * x - p) - c0))


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _intervals(d: Any, rise: float, fall: float, nodes: Any, N: int, rank: Any) -> None:
    """The interval of each class's peak, 0 or 2 to N - 3; N for classes without."""
    for k in range(len(d)):
        rank[k] = 0.0 if d[k] < nodes[4, 2] and nodes[0, 0] == 0.0 else 2.0
    for j in range(3, N - 2):
        mean = nodes[2 * j, 2]
        for k in range(len(d)):
            rank[k] += 1.0 if d[k] >= mean else 0.0
    for k in range(len(d)):
        rank[k] = rank[k] if rise < d[k] and d[k] < fall else N


@njit(nogil=True, forceinline=True, error_model="numpy")
def _tabulate(d: Any, e: Any, m: int, first: float, least: float, most: float, nodes: Any) -> int:
    """The number of nodes of A that are needed up to a slope of `most`; 0 if there is no room."""
    start = FIRST_NODE / -least
    fewest = 2  # the scale 0, a node below the first interval, its two ends, and so on
    nodes[0, 0] = 1.0
    if first < start:
        fewest += PER_OCTAVE
        _fill(0.0, _power_sums(d, e[0], m, 0.0), nodes[0])
        nodes[1, 0] = 0.0
    start = max(first, start)
    N, enough = 1, MOST_NODES
    while enough >= N:
        if N == MOST_NODES:
            return 0
        octave, lane = divmod(N - 1, PER_OCTAVE)
        s = start * POWERS[lane] * 2.0**octave
        if octave % AFRESH == 0:
            _halfway(d, e[lane], m, s)
        _fill(s, _squared_sums(d, e[lane]), nodes[2 * N])
        nodes[2 * N + 1, 0] = 0.0  # not known
        if enough == MOST_NODES and N > 2 and nodes[2 * N, 2] >= most:
            enough = max(N + 1, fewest)
        N += 1
    return N


@njit(nogil=True, forceinline=True, error_model="numpy")
def _group(
    d: Any, m: int, rank: Any, nodes: Any, N: int, work: Any, which: Any, sizes: Any
) -> None:
    """Put targets of one interval together, in whole vectors; all other classes come last.

    Afterwards sizes[j] says where the targets of interval j end.
    """
    sizes[: N + 1] = 0
    for k in range(m):
        sizes[int(rank[k])] += 1
    filled = 0
    for j in range(N + 1):
        count = sizes[j]
        sizes[j] = filled
        for i in range(filled + count, filled + _whole(count)):
            work[0, i], which[i] = nodes[2 * j, 2], len(d)
        filled += _whole(count)
    work[1, :filled] = 0.0
    for k in range(m):
        at = int(rank[k])
        work[0, sizes[at]], which[sizes[at]] = d[k], k
        sizes[at] += 1


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _asking(d: Any, rise: float, fall: float) -> Any:
    """The least d, and the largest of a class that peaks between the scales; -inf if none does."""
    least, most = 0.0, -np.inf
    for k in range(len(d)):
        least = -larger(-least, -d[k])
        most = larger(most, d[k] if rise < d[k] and d[k] < fall else -np.inf)
    return least, most


@njit(nogil=True, forceinline=True, error_model="numpy")
def _many_peaks(
    d: Any, e: Any, m: int, tangents: Any, first: float, high: Any, table: Any, groups: Any
) -> bool:
    """Raise high (K,) to peaks between the scales, from a table; whether it is fine enough."""
    nodes, at, power, c, differs = table
    work, which, rank, sizes = groups
    rise, fall = tangents[0, 1], tangents[1, 1]
    least, most = _asking(d, rise, fall)
    if most == -np.inf:
        return True
    N = _tabulate(d, e, m, first, least, most, nodes)
    if N == 0:
        return False
    _intervals(d, rise, fall, nodes, N, rank)
    _group(d, m, rank, nodes, N, work, which, sizes)
    for j in range(2, N - 2):
        for i in range(4):
            at[j, i] = 2 * (j + AROUND[i])
    _polynomials(nodes, at, 2, N - 2, 1, power, c, differs)
    filled = 0
    for j in range(N):
        count = _whole(sizes[j] - filled)
        if count == 0:
            continue
        of, j0, parts = 1, j, 1
        if j == 0:
            of, j0 = 0, N
        elif differs[j] > ENOUGH:  # its halves, with nodes in the middle of it and its neighbours
            of, j0, parts = 2, N, 2
            for middle in range(2 * j - 1, 2 * j + 5, 2):
                if nodes[middle, 0] == 0.0:
                    s = nodes[middle - 1, 0] * HALF_RATIO
                    _fill(s, _power_sums(d, e[0], m, s), nodes[middle])
        if of != 1:
            for part in range(parts):
                for i in range(4):
                    at[N + part, i] = 2 * j + part + (AROUND[i] if j else FROM_ZERO[i])
            _polynomials(nodes, at, N, N + parts, of, power, c, differs)
        rows = slice(filled, filled + count)
        for part in range(j0, j0 + parts):
            if differs[part] > ENOUGH:
                return False
            ends = nodes[at[part, 0]], nodes[at[part, 1]]
            _read(work[0, rows], c[:, part], of, ends[0], ends[1], work[1, rows])
        filled += count
    for i in range(filled):
        high[which[i]] = max(high[which[i]], work[1, i])
    return True


@njit(nogil=True, forceinline=True, error_model="numpy")
def _whole(count: int) -> int:
    return -(-count // VECTOR_LENGTH) * VECTOR_LENGTH


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _take(z: Any, columns: Any, low: Any, high: Any, d: Any, bounds: Any, place: Any) -> int:
    """How many of the columns of a row are not masked; their d, bounds and places."""
    m, top, least = len(z), -np.inf, 0.0
    for k in range(m):
        top = larger(top, z[k])
        least = -larger(-least, -z[k])
    if len(columns) == m and least > -np.inf:
        for k in range(m):
            place[k], d[k], bounds[0, k], bounds[1, k] = k, z[k], low[k], high[k]
    else:
        m, top = 0, -np.inf
        for k in columns:
            x = float(z[k])
            if x == -np.inf:
                low[k] = 0.0
            else:
                place[m], d[m], bounds[0, m], bounds[1, m] = k, x, low[k], high[k]
                top = larger(top, x)
                m += 1
    for k in range(m):
        d[k] -= top
    for k in range(m, len(d)):
        d[k] = 0.0
    return m


@njit(nogil=True, cache=True, error_model="numpy")
def boxes_of_few(
    z: Any, columns: Any, first: float, last: float, low: Any, high: Any, start: int
) -> Any:
    """Widen the rows of low and high from `start` on to those of z (n, K) at scales first to last.

    For few columns. Returns the rows left out. See `_peaks.widen_by_scale`.
    """
    n, K = len(z), _whole(len(columns))
    d, e, bounds, tangents = np.empty(K), np.empty(K), np.zeros((2, K)), np.empty((2, 2))
    taken, left, missed = np.empty(K, dtype=np.int64), np.empty(n, dtype=np.int64), 0
    for i in range(n):
        r = start + i
        m = _take(z[i], columns, low[r], high[r], d, bounds, taken)
        if _ends(d, e, m, first, last, bounds[0], bounds[1], tangents) and _few_peaks(
            d, e, m, tangents, first, last, bounds[1]
        ):
            for k in range(m):
                low[r, taken[k]], high[r, taken[k]] = bounds[0, k], bounds[1, k]
        else:
            left[missed] = r
            missed += 1
    return left[:missed]


@njit(nogil=True, cache=True, error_model="numpy")
def boxes_of_many(
    z: Any, columns: Any, first: float, last: float, low: Any, high: Any, start: int
) -> Any:
    """As `boxes_of_few`, for many columns."""
    n, K = len(z), _whole(len(columns))
    room = K + VECTOR_LENGTH * (MOST_NODES + 1)
    d, e, tangents = np.empty(K), np.empty((PER_OCTAVE, K)), np.empty((2, 2))
    bounds, M = np.zeros((2, K + 1)), MOST_NODES + 2
    nodes, at = np.empty((2 * MOST_NODES, 5)), np.empty((M, 4), dtype=np.int64)
    table = nodes, at, np.empty(M), np.empty((16, M)), np.empty(M)
    which, sizes = np.empty(room, dtype=np.int64), np.empty(MOST_NODES + 1, dtype=np.int64)
    groups = np.empty((2, room)), which, np.empty(K), sizes
    taken, left, missed = np.empty(K, dtype=np.int64), np.empty(n, dtype=np.int64), 0
    for i in range(n):
        r = start + i
        m = _take(z[i], columns, low[r], high[r], d, bounds, taken)
        if _ends(d, e[0], m, first, last, bounds[0], bounds[1], tangents) and _many_peaks(
            d, e, m, tangents, first, bounds[1], table, groups
        ):
            for k in range(m):
                low[r, taken[k]], high[r, taken[k]] = bounds[0, k], bounds[1, k]
        else:
            left[missed] = r
            missed += 1
    return left[:missed]
