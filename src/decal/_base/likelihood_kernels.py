"""The innermost loops of recalibration, compiled: the log-likelihood of labels and its derivatives.

Imported only where `numerics.compiled` finds Numba and enough to do. What `kernels` says of its
loops holds here too. Rows are done in tiles, a class at a time, so that few classes suffice for
vector code.
"""

# Compiled functions have no types that mypy could see.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from decal._base.elementary import EXACT, LOWEST_EXPONENT, VECTOR, exp, exp_32, larger, log

TILE, FEW_CLASSES = 64, 64  # rows at once, if there are no more classes
HIDDEN = -1e150  # stands for the logit of a masked class: its square is finite
HIDDEN_32 = np.float32(-1e30)
NONE = np.empty(0)


def losses(
    z: Any, columns: Any, index: Any, labels: Any, model: Any, floor: float, found: Any
) -> None:
    """-log p_y of rows into an array, see `_log_likelihood.LogLikelihood.losses`.

    `index` are the numbers of the rows of z; empty, all of them.
    """
    if len(columns) > FEW_CLASSES:
        losses_of_many(z, columns, index, labels, model, floor, found)
    else:
        sums_of_few(z, columns, index, labels, NONE, model, floor, False, found, NONE)


def sums(z: Any, columns: Any, *rest: Any) -> None:
    """The log-likelihood of rows and its derivatives, see `_log_likelihood.LogLikelihood.sums`."""
    if len(columns) > FEW_CLASSES:
        sums_of_many(z, columns, *rest)
    else:
        *given, found = rest
        sums_of_few(z, columns, *given, NONE, found)


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=EXACT)
def _log_1_plus(x: float) -> float:
    """log(1 + x) for x >= 0, exact also if x is small."""
    t = 1.0 + x
    return log(t) + (x - (t - 1.0)) / t


# Few classes: a tile of rows at a time. Some helpers become part of the kernel before anything is
# compiled, which takes a tenth less time; of `_soften` and `_weigh` that would be slower code.


@njit(inline="always")
def _load(
    z: Any, columns: Any, index: Any, start: int, last: int, floor: float, d: Any, top: Any
) -> None:
    """Logits less the largest of their row, (K, T), from `start` on; the last one is repeated."""
    K, T = d.shape
    for i in range(T):
        at = min(start + i, last)
        r = index[at] if len(index) else at
        for k in range(K):
            d[k, i] = z[r, columns[k]]
        top[i] = -np.inf
    for k in range(K):
        for i in range(T):
            top[i] = larger(top[i], d[k, i])
    for k in range(K):
        for i in range(T):
            x = d[k, i] - top[i]
            d[k, i] = larger(x, HIDDEN) if x >= floor else HIDDEN


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _soften(d: Any, c: Any, s: float, p: Any, row: Any) -> None:
    """Exponentials p less the largest of their row, row[0], their sum less 1 and its log, row[3].

    The largest is 1, and row[1] the sum of the others: nothing is subtracted from a number close.
    """
    K, T = d.shape
    top, beside, ties = row[0], row[1], row[2]
    for i in range(T):
        top[i], beside[i], ties[i] = -np.inf, 0.0, -1.0
    for k in range(K):
        for i in range(T):
            x = s * d[k, i] + c[k] if d[k, i] > HIDDEN else -np.inf
            p[k, i] = x
            top[i] = larger(top[i], x)
    for k in range(K):
        for i in range(T):
            x = p[k, i] - top[i]
            e = exp(x) if x >= LOWEST_EXPONENT else 0.0
            p[k, i] = e
            beside[i] += e if x < 0 else 0.0
            ties[i] += 0.0 if x < 0 else 1.0
    for i in range(T):
        beside[i] += ties[i]
        row[3, i] = _log_1_plus(beside[i])


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _weigh(d: Any, p: Any, q: Any, weight: Any, row: Any) -> None:
    """Probabilities p, q = w p, and row[0] the mean of d under p; row[1] was the sum less 1."""
    K, T = d.shape
    mean, beside = row[0], row[1]
    for i in range(T):
        mean[i] = 0.0
        beside[i] = 1.0 / (1.0 + beside[i])
    for k in range(K):
        for i in range(T):
            p[k, i] *= beside[i]
            q[k, i] = weight[i] * p[k, i]
            mean[i] += p[k, i] * d[k, i]


@njit(inline="always")
def _bend(d: Any, p: Any, q: Any, mean: Any, dense: bool, inner: Any, mixed: Any) -> float:
    """Add to the Hessian: of pairs of shifts, and of shifts and scale; or of each shift alone."""
    K, T = d.shape
    bend = 0.0
    for k in range(K):
        both, square = 0.0, 0.0
        for i in range(T):
            x = d[k, i] - mean[i]
            a = q[k, i] * x
            both += a
            square += a * x
        bend += square
        if dense:
            mixed[k] += both
            for other in range(k):
                product = 0.0
                for i in range(T):
                    product += q[k, i] * p[other, i]
                inner[k * K + other] -= product
        else:
            own = 0.0
            for i in range(T):
                own += q[k, i] * (1.0 - p[k, i])
            inner[k] += own
    return bend


@njit(inline="always")
def _slopes(d: Any, q: Any, row: Any, gradient: Any) -> float:
    """Take what labels are not from the gradient; row[2] is its sum over the classes."""
    K, T = d.shape
    wrong, along = row[2], 0.0
    for i in range(T):
        wrong[i] = 0.0
    for k in range(K):
        total = 0.0
        for i in range(T):
            a = q[k, i]
            wrong[i] += a
            total += a
            along += a * d[k, i]
        gradient[k] -= total
    return along


@njit(nogil=True, cache=True, error_model="numpy", fastmath=VECTOR)
def sums_of_few(
    z: Any,
    columns: Any,
    index: Any,
    labels: Any,
    weights: Any,
    model: Any,
    floor: float,
    dense: bool,
    losses: Any,
    found: Any,
) -> None:
    """The log-likelihood of rows and its derivatives; or its terms alone, if `losses` are (n,).

    One kernel, as half of its time to compile is that of what both need.
    """
    n, K = len(labels), len(columns)
    T = TILE
    d, p, q = np.empty((K, T)), np.empty((K, T)), np.empty((K, T))
    row, weight = np.empty((4, T)), np.empty(T)
    c, s = model[:K], model[K]
    found[:] = 0.0
    gradient, mixed = found[2 : K + 3], found[K + 3 : 2 * K + 3]
    inner = found[2 * K + 3 :] if dense else mixed
    value, bend = 0.0, 0.0
    for start in range(0, n, T):
        count = min(T, n - start)
        _load(z, columns, index, start, n - 1, floor, d, row[0])
        _soften(d, c, s, p, row)
        if len(losses):
            for i in range(count):
                y = labels[start + i]
                losses[start + i] = row[3, i] - (s * d[y, i] + c[y] - row[0, i])
            continue
        for i in range(T):
            weight[i] = weights[start + i] if i < count else 0.0
        for i in range(count):
            y = labels[start + i]
            own = s * d[y, i] + c[y] - row[0, i]
            value += weight[i] * (own - row[3, i])
        _weigh(d, p, q, weight, row)
        bend += _bend(d, p, q, row[0], dense, inner, mixed)
        for i in range(count):
            q[labels[start + i], i] = 0.0
        gradient[K] -= _slopes(d, q, row, gradient)
        for i in range(count):
            y = labels[start + i]
            gradient[y] += row[2, i]
            gradient[K] += row[2, i] * d[y, i]
    if len(found):
        found[0], found[1] = value, bend


# Many classes: a row at a time


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _soften_row(z: Any, columns: Any, c: Any, s: float, floor: float, d: Any, e: Any) -> Any:
    """As `_load` and `_soften`, of one row; returns the largest, the sum less 1 and of e d."""
    K = len(d)
    top = -np.inf
    if len(columns) == len(z):
        for k in range(K):
            d[k] = z[k]
            top = larger(top, d[k])
    else:
        for k in range(K):
            d[k] = z[columns[k]]
            top = larger(top, d[k])
    for k in range(K):
        x = d[k] - top
        d[k] = larger(x, HIDDEN) if x >= floor else HIDDEN
    top = -np.inf
    for k in range(K):
        x = s * d[k] + c[k] if d[k] > HIDDEN else -np.inf
        e[k] = x
        top = larger(top, x)
    beside, ties, along = 0.0, -1, 0.0
    for k in range(K):
        x = e[k] - top
        a = exp(x) if x >= LOWEST_EXPONENT else 0.0
        e[k] = a
        along += a * d[k]
        beside += a if x < 0 else 0.0
        ties += 0 if x < 0 else 1
    return top, beside + ties, along


@njit(nogil=True, cache=True, error_model="numpy")
def losses_of_many(
    z: Any, columns: Any, index: Any, labels: Any, model: Any, floor: float, found: Any
) -> None:
    """-log p_y of rows into found (n,)."""
    K = len(columns)
    d, e = np.empty(K), np.empty(K)
    c, s = model[:K], model[K]
    for i in range(len(labels)):
        r = index[i] if len(index) else i
        top, beside, _ = _soften_row(z[r], columns, c, s, floor, d, e)
        y = labels[i]
        found[i] = _log_1_plus(beside) - (s * d[y] + c[y] - top)


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _slopes_of_row(
    d: Any, e: Any, inverse: float, w: float, mean: float, gradient: Any, inner: Any
) -> Any:
    wrong, along, bend = 0.0, 0.0, 0.0
    for k in range(len(d)):
        p = e[k] * inverse
        q = w * p
        gradient[k] -= q
        inner[k] += q * (1.0 - p)
        wrong += q
        along += q * d[k]
        x = d[k] - mean
        bend += q * x * x
    return wrong, along, bend


@njit(nogil=True, cache=True, error_model="numpy")
def sums_of_many(
    z: Any,
    columns: Any,
    index: Any,
    labels: Any,
    weights: Any,
    model: Any,
    floor: float,
    _dense: bool,
    found: Any,
) -> None:
    """As `sums_of_few`, with the diagonal of the Hessian only."""
    K = len(columns)
    d, e = np.empty(K), np.empty(K)
    c, s = model[:K], model[K]
    found[:] = 0.0
    gradient, inner = found[2 : K + 3], found[K + 3 :]
    for i in range(len(labels)):
        r, y, w = index[i] if len(index) else i, labels[i], weights[i]
        top, beside, total = _soften_row(z[r], columns, c, s, floor, d, e)
        inverse = 1.0 / (1.0 + beside)
        mean = total * inverse
        found[0] += w * (s * d[y] + c[y] - top - _log_1_plus(beside))
        p = e[y] * inverse
        e[y] = 0.0
        wrong, along, bend = _slopes_of_row(d, e, inverse, w, mean, gradient, inner)
        gradient[y] += wrong
        gradient[K] += wrong * d[y] - along
        inner[y] += p * wrong  # 1 - p of it is what the others have
        found[1] += bend + w * p * (d[y] - mean) ** 2


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def _turn_row(
    d: Any, p: Any, c: Any, s: Any, level: Any, floor: Any, y: int, w: Any, v: Any, found: Any
) -> Any:
    """Add to the product what one row has; d are its logits less the largest.

    How far v moves each class is measured from the label: where its probability is close to 1,
    nothing is lost beside it.
    """
    K = len(d)
    zero, one = np.float32(0.0), np.float32(1.0)
    total, mean, last, turn = zero, zero, zero, v[K]
    own = turn * d[y] + v[y]
    for k in range(K):
        x = d[k]
        a = exp_32(s * x + (c[k] - level))
        a = a if x >= floor else zero
        p[k] = a
        total += a
        mean += a * (turn * x + v[k] - own)
    mean /= total
    w *= one / total
    for k in range(K):
        x = d[k]
        a = w * p[k] * (turn * x + v[k] - own - mean)
        found[k] += a
        last += a * x
    return last


@njit(nogil=True, cache=True, error_model="numpy")
def product(
    z: Any,
    columns: Any,
    index: Any,
    labels: Any,
    below: Any,
    weights: Any,
    levels: Any,
    model: Any,
    floor: float,
    vector: Any,
    found: Any,
) -> None:
    """The negative Hessian of the log-likelihood of rows, times a vector, into found (K + 1,).

    In float32, which is enough for a direction to go.
    """
    K = len(columns)
    space = np.zeros((4, K), dtype=np.float32)
    d, p, c, sums = space[0], space[1], space[2], space[3]
    c[:] = model[:K]
    s, v = np.float32(model[K]), vector.astype(np.float32)
    every = z.shape[1] == K
    last = 0.0
    floor = np.float32(max(floor, HIDDEN_32))
    for i in range(len(weights)):
        r = index[i] if len(index) else i
        top = z.dtype.type(z[r, columns[labels[i]]] + below[i])
        if every:
            for k in range(K):
                d[k] = larger(np.float32(z[r, k] - top), HIDDEN_32)
        else:
            for k in range(K):
                d[k] = larger(np.float32(z[r, columns[k]] - top), HIDDEN_32)
        level, w = np.float32(levels[i]), np.float32(weights[i])
        last += _turn_row(d, p, c, s, level, floor, labels[i], w, v, sums)
    found[:K] = sums
    found[K] = last
