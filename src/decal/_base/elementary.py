"""Elementary functions for compiled loops: vector code, where the C library's would not be.

They become part of every kernel that calls them (`forceinline`), like all helpers of kernels: a
function that is called could also be the one compiled alone, whose sums have another order, and the
process that compiles would differ in the last bit from those that read what it kept on disk. Numba
keeps a kernel until the *kernel's* file changes: whoever changes a number here must touch
`kernels`, `local_kernels`, `likelihood_kernels` and `scale_kernels`.
"""

# Compiled functions have no types that mypy could see; intrinsics have arguments that they ignore.
# mypy: ignore-errors
# ruff: noqa: ARG001

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LOWEST_EXPONENT = -708.0  # of less, exp is taken of this: only rows done in logarithms would notice
ROUND = 6755399441055744.0  # 1.5 * 2^52: a small number plus this ends in the nearest integer
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
SEARCHED = 256  # numbers looked through at once

# Loops over classes or bins become vector instructions only if sums may be reordered. The order is
# still a fixed one: the same machine gives the same bits.
VECTOR = {"nnan", "nsz", "contract", "reassoc"}
EXACT = {"contract"}


# Of exp in float32; its polynomial is the series of 2^f, for |f| <= 1/2
ROUND_32, LOG2_E_32 = np.float32(12582912.0), np.float32(LOG2_E)
LOWEST_EXPONENT_32 = np.float32(-87.0)
POWERS_32 = tuple(np.float32(np.log(2.0) ** i / math.factorial(i)) for i in range(7))


@intrinsic
def bits_of(typing_context: Any, number: Any) -> Any:
    """The bits of a float64 as an int64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), build


@intrinsic
def number_of(typing_context: Any, bits: Any) -> Any:
    """The float64 with these bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), build


@intrinsic
def _bits_32(typing_context: Any, number: Any) -> Any:
    """The bits of a float32 as an int32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), build


@intrinsic
def _number_32(typing_context: Any, bits: Any) -> Any:
    """The float32 with these bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), build


@intrinsic
def larger(typing_context: Any, a: Any, b: Any) -> Any:
    """max(a, b) in a form that a loop over it becomes vector code."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b = arguments
        above = builder.fcmp_ordered(">", a, b, flags=("nnan", "nsz"))
        return builder.select(above, a, b, flags=("nnan", "nsz"))

    kind = a if a == b == types.float32 else types.float64
    return kind(kind, kind), build


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=VECTOR)
def place(a: Any, largest: float, sign: float) -> int:
    """The first place of the largest sign * a[k]: block by block, each in vector code."""
    start = 0
    while True:
        stop = min(start + SEARCHED, len(a))
        found = -np.inf
        for k in range(start, stop):
            found = larger(found, sign * a[k])
        if found == largest or stop == len(a):
            break
        start = stop
    while sign * a[start] != largest:
        start += 1
    return start


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=EXACT)
def exp(x: Any) -> Any:
    """The exponential of x <= 0, to an ulp: that of the C library would not become vector code."""
    x = larger(x, LOWEST_EXPONENT)
    rounded = x * LOG2_E + ROUND
    power = rounded - ROUND
    r = (x - power * LN2_HIGH) - power * LN2_LOW  # |r| <= log(2) / 2
    p = (((1 / 479001600 * r + 1 / 39916800) * r + 1 / 3628800) * r + 1 / 362880) * r + 1 / 40320
    p = (((p * r + 1 / 5040) * r + 1 / 720) * r + 1 / 120) * r + 1 / 24
    p = (((p * r + 1 / 6) * r + 1 / 2) * r + 1.0) * r + 1.0
    return p * number_of((bits_of(rounded) << 52) + (1023 << 52))


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=EXACT)
def exp_32(x: Any) -> Any:
    """The exponential of x <= 0 in float32, to about 1e-7, or of x if that is less."""
    t = larger(x, LOWEST_EXPONENT_32) * LOG2_E_32
    rounded = t + ROUND_32
    f = t - (rounded - ROUND_32)
    p = (POWERS_32[6] * f + POWERS_32[5]) * f + POWERS_32[4]
    p = (((p * f + POWERS_32[3]) * f + POWERS_32[2]) * f + POWERS_32[1]) * f + POWERS_32[0]
    return _number_32(_bits_32(p) + np.int32(_bits_32(rounded) << np.int32(23)))


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=EXACT)
def log_ratio(u: Any) -> Any:
    """log((1 + u) / (1 - u)) for |u| <= 1/3, by its series."""
    v = u * u
    p = (((1 / 31 * v + 1 / 29) * v + 1 / 27) * v + 1 / 25) * v + 1 / 23
    p = (((p * v + 1 / 21) * v + 1 / 19) * v + 1 / 17) * v + 1 / 15
    p = (((p * v + 1 / 13) * v + 1 / 11) * v + 1 / 9) * v + 1 / 7
    p = ((p * v + 1 / 5) * v + 1 / 3) * v + 1.0
    return 2.0 * u * p


@njit(nogil=True, forceinline=True, error_model="numpy", fastmath=EXACT)
def log(x: Any) -> Any:
    """The logarithm of a normal x > 0, to an ulp of 1 or of itself."""
    bits = bits_of(x)
    mantissa = number_of((bits & 0xFFFFFFFFFFFFF) | (1023 << 52))
    # An integer that becomes the lowest bits of 2^52 is converted without an instruction for it.
    power = number_of((bits >> 52) | (1075 << 52)) - (4503599627370496.0 + 1023.0)
    return power * LN2_HIGH + (log_ratio((mantissa - 1.0) / (mantissa + 1.0)) + power * LN2_LOW)
