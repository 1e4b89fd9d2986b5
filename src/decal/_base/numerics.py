"""Stable elementary functions of logits. Knows nothing of credal sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Logits = NDArray[np.float32] | NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

BLOCK_ELEMENTS = 1 << 16  # per block of rows: a few temporaries of this size stay in cache
BLOCKS_PER_THREAD = 4  # fewer blocks than this per thread are not worth starting it
SMALLEST_SAFE_SUM = 1e-200  # below, exponentials are taken relative to the second largest logit
# Numbers to work on that are worth a compiled loop. Numba takes half a second to load, once per
# process, and once per machine some seconds to compile what it then keeps on disk.
COMPILED_ELEMENTS = 1 << 15


def compiled(elements: int) -> ModuleType | None:
    """The compiled inner loops; None if Numba is not installed or there is too little to do.

    They agree with the NumPy code next to them to about 1e-14, but not to the last bit. So the
    choice depends on the size of the problem and on nothing that happened before: the same call
    gives the same bits, in whatever process it is made.
    """
    return _kernels() if elements >= COMPILED_ELEMENTS else None


@cache
def _kernels() -> ModuleType | None:
    try:
        from decal._base import kernels
    except ImportError:
        return None
    return kernels


def row_blocks(rows: int, columns: int, /, elements: int = BLOCK_ELEMENTS) -> Iterator[slice]:
    """Slices of consecutive rows, each about `elements` numbers large."""
    step = max(1, elements // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def for_each_block(
    work: Callable[[slice], None], rows: int, columns: int, elements: int = BLOCK_ELEMENTS
) -> None:
    """Call `work` on every block of rows, on all cores when there is enough to do.

    NumPy releases the interpreter lock inside its loops, so threads suffice. Blocks must write to
    disjoint rows; the result cannot depend on the number of threads.
    """
    if rows * columns <= elements:
        work(slice(0, rows))
        return
    blocks = list(row_blocks(rows, columns, elements))
    workers = len(blocks) // BLOCKS_PER_THREAD
    if workers > 1:
        workers = min(workers, os.cpu_count() or 1)
    if workers < 2:
        for block in blocks:
            work(block)
        return
    from concurrent.futures import ThreadPoolExecutor  # loads logging and sockets

    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, blocks):
            pass


def row_sums(a: Array) -> Array:
    """(n,) sums of the rows of a (n, K): `a.sum(axis=1)`, which is slow for few columns."""
    sums: Array = np.einsum("ij->i", a) if a.shape[1] <= 64 else a.sum(axis=1)
    return sums


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of an array through which nobody can change its numbers."""
    array = array.view()
    array.flags.writeable = False
    return array


def budget(alphas: Any) -> Array:
    """-log alpha, in nats: what levels in [0, 1] allow to lose; 0 at 1, and inf at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(0.0 - np.log(alphas))  # -np.log(1.0) would be -0.0


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), exact in both tails."""
    value: Array = np.log1p(np.exp(-np.abs(x)))
    value += np.maximum(x, 0.0)
    return value


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow; exact at infinite x."""
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, decay) / (1.0 + decay)


def softmax(z: Array) -> Array:
    """(n, K) exp(z) over its sum per row; each row of z has a finite maximum."""
    e: Array = np.exp(z - z.max(axis=1, keepdims=True))
    e /= e.sum(axis=1, keepdims=True)
    return e


def log_sum_exp(z: Array) -> Array:
    """(n,) log of the sum of exp over the rows of z (n, K); each row has a finite maximum."""
    top = z.max(axis=1)
    total: Array = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
    return total


def margins(logits: Logits, center: Array) -> Array:
    """(K, n) log-odds of every class against all others: m with softmax(z)_k = sigmoid(m_k).

    Logits (n, K) may be -inf for masked classes, whose margin is -inf; that of a class alone in its
    row is inf. A `center` (K,) is added to them. A class of center -inf is no rival to the others,
    and its own margin is that of its logit as it is; two classes or more have a finite center.
    """
    given = rivals = logits.T.astype(np.float64, order="C")
    absent = np.isneginf(center)
    if center.any():
        kept = ~absent if absent.any() else slice(None)
        rivals = given[kept] + center[kept, None]
    n = rivals.shape[1]
    z = rivals - rivals.max(axis=0)
    largest = np.flatnonzero(z == 0)
    column = largest % n
    # Each largest logit counts as an exact 1, apart from the sum of the smaller ones. So nothing
    # is ever subtracted from a number close to it: against the largest stands the sum of the
    # others alone, and against any other class that sum, less its own term, plus the exact 1.
    e = np.exp(z)
    e.ravel()[largest] = 0.0
    others = e.sum(axis=0) + (np.bincount(column, minlength=n) - 1)
    np.subtract(others, e, out=e)
    m: Array = np.subtract(z, np.log1p(e, out=e), out=e)
    with np.errstate(divide="ignore"):
        m.ravel()[largest] = -np.log(others)[column]
    (deep,) = np.nonzero(others < SMALLEST_SAFE_SUM)
    if deep.size:
        m[:, deep] = _deep_margins(z[:, deep])
    if not absent.any():
        return m
    every = np.empty_like(given)
    every[~absent] = m
    every[absent] = given[absent] - log_sum_exp(rivals.T)
    return every


def _deep_margins(z: Array) -> Array:
    """Margins where the largest logit is 0 and the exponentials of all others underflow."""
    second = np.where(z < 0, z, -np.inf).max(axis=0)
    alone = np.isneginf(second)  # against masked classes only
    second[alone] = 0.0
    rest = np.exp(z - second, where=z < 0, out=np.zeros_like(z)).sum(axis=0)
    rest[alone] = 1.0
    return np.where(z < 0, z, np.where(alone, np.inf, -second - np.log(rest)))
