"""Tail probabilities of counts of independent events, and p-values of many tests at once."""

from __future__ import annotations

import math

import numpy as np

from decal._base.numerics import Array, sigmoid

TILT_TOLERANCE = 1e-9
"""How far, in events, the tilted mean may stay from the count: any tilt gives the same tail."""


def at_least(count: int, probabilities: Array) -> float:
    """P(S >= count), S the number of independent events with these probabilities that occur.

    S has a Poisson-binomial distribution. Its mass is moved to the count by exponential tilting,
    computed there, and moved back, so that tails of any size keep their leading digits:
    P(S >= s) = E exp(K(t) - t S) 1{S >= s} under tilted events, K the log moment generating
    function. O(n log² n). Round-off may bring a probability below 0 or above 1.
    """
    p = np.clip(probabilities, 0.0, 1.0)
    s = count - int(np.count_nonzero(p == 1))
    p = p[(p > 0) & (p < 1)]
    if s <= 0:
        return 1.0
    if s > len(p):
        return 0.0
    log_odds = np.log(p) - np.log1p(-p)
    t = _tilt(log_odds, min(float(s), len(p) - 0.5))
    # log E e^(tS), without overflow: each event contributes log(1 - p + p e^t).
    generating = float(np.sum(np.logaddexp(np.log1p(-p), np.log(p) + t)))
    mass = _mass(sigmoid(log_odds + t))
    beyond = np.arange(s, len(mass))
    with np.errstate(under="ignore"):
        total = math.fsum(mass[s:] * np.exp(-t * (beyond - s)))
        return min(1.0, math.exp(generating - t * s) * total)


def at_most(count: int, probabilities: Array) -> float:
    """P(S <= count): at least n - count events do not occur."""
    return at_least(len(probabilities) - count, 1 - probabilities)


def _tilt(log_odds: Array, mean: float) -> float:
    """The t >= 0 at which events of log-odds + t have this mean; 0 if they have more."""
    t, low, high = 0.0, 0.0, math.inf
    for _ in range(100):
        q = sigmoid(log_odds + t)
        missing = mean - float(q.sum())
        if abs(missing) <= TILT_TOLERANCE or (t == 0 and missing < 0):
            break
        low, high = (t, high) if missing > 0 else (low, t)
        step = t + missing / max(float(np.sum(q * (1 - q))), 1e-300)
        top = high if high < math.inf else 2.0 * t + 8.0
        t = step if low < step < top else (low + top) / 2
    return t


def _mass(p: Array) -> Array:
    """(n + 1,) probabilities of 0 to n events, by multiplying their generating polynomials."""
    factors = np.stack([1 - p, p], axis=1)
    while len(factors) > 1:
        if len(factors) % 2:  # the polynomial 1 changes nothing
            one = np.zeros((1, factors.shape[1]))
            one[0, 0] = 1.0
            factors = np.concatenate([factors, one])
        factors = _products(factors[::2], factors[1::2])
    mass: Array = np.maximum(factors[0, : len(p) + 1], 0.0)
    return mass


def _products(left: Array, right: Array) -> Array:
    """Row by row, the coefficients of the products of two polynomials."""
    length = left.shape[1]
    full = 2 * length - 1
    if length > 64:  # shorter ones are multiplied term by term
        size = 1 << (full - 1).bit_length()
        spectrum = np.fft.rfft(left, size) * np.fft.rfft(right, size)
        made: Array = np.fft.irfft(spectrum, size)[:, :full]
        return made
    product = np.zeros((len(left), full))
    for power in range(length):
        product[:, power : power + length] += left[:, power, None] * right
    return product


def holm(p_values: Array) -> Array:
    """P-values of tests that may depend on each other, adjusted for their number (Holm, 1979)."""
    order = np.argsort(p_values, kind="stable")
    left = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(left * p_values[order]), 1.0)
    return adjusted
