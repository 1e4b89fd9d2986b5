"""The probabilities within a Kullback-Leibler divergence of a given one, in log-odds.

For c = sigmoid(m) and q = sigmoid(l), l = m + t with t >= 0, the divergence is

    kl(q || c) = q log(q / c) + (1 - q) log((1 - q) / (1 - c)) = t q - (softplus(l) - softplus(m)).

It grows with t, at the rate t q (1 - q), from 0 to kl(1 || c) = softplus(-m). What is left of it,
kl(1 || c) - kl(q || c) = softplus(-l) + t (1 - q), is a sum of positive terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Indices, Mask, row_blocks, sigmoid, softplus

SMALL_SHIFT = 1e-2  # shifts below this use the series of the divergence: its terms would cancel
LARGE_SHIFT = 1.0  # shifts above this use the difference of two softplus: nothing cancels
MAX_STEPS = 12  # steps of Halley's method. Four are enough for all we tried
LAST_STEP = 1e-5  # nats, and share of the shift: a step this short is the last, it leaves its cube
TABLE_BUDGETS = 1e-12, 300.0  # budgets that a table of endpoints may be made of
NEAREST, FURTHEST = -50, 9  # octaves of a table: from that of the budget, nearer ones are round-off
CELL_BITS = 4  # an octave has two to this power of cells
COEFFICIENTS = 10  # of a polynomial in a cell
WITHIN_CELL = 52 - CELL_BITS  # bits of a float64 that tell places in a cell
SEARCHED = 1 << 12  # endpoints sought at once: temporaries of this size stay in cache


def largest_log_odds(m: Array | float, budget: Array | float) -> Array:
    """Log-odds of the largest probability q with kl(q || sigmoid(m)) <= budget.

    The smallest one is ``-largest_log_odds(-m, budget)``. Log-odds m from -inf to inf, where a
    probability of 0 or 1 stays what it is, and budgets in [0, inf] nats have shapes that broadcast.
    The result is at least m, and inf where even q = 1 is within the budget.

    The logarithm of kl(q || c) over what is left of it is nearly a straight line in t, with slopes
    between 2 / t for small t and 1 in both tails. Halley's method from a lower bound reaches
    machine precision in three or four steps, whatever m and budget. Both lower bounds are exact in
    a limit: of small budgets, and of small c.

    Examples
    --------
    >>> from decal._base.numerics import sigmoid
    >>> sigmoid(largest_log_odds(np.array([-2.0, 0.0, 2.0]), 0.1)).round(3)
    array([0.286, 0.72 , 0.993])
    """
    m, b = np.broadcast_arrays(np.asarray(m, np.float64), np.asarray(budget, np.float64))
    most = softplus(-m)
    found = np.where((b >= most) & (b > 0) & (m > -np.inf), np.inf, m)
    solve = np.isfinite(m) & (b > 0) & (b < most)
    if solve.any():
        found[solve] = _between(m[solve], b[solve], most[solve] - b[solve])
    return found


def certain_from(budget: Array | float) -> Array:
    """The log-odds m from which on q = 1 is within the budget: where softplus(-m) = budget."""
    with np.errstate(divide="ignore", over="ignore"):
        certain: Array = np.where(budget < 30.0, -np.log(np.expm1(budget)), np.negative(budget))
    return certain


def _between(m: Array, b: Array, left: Array) -> Array:
    """Where the divergence is b, and `left` are the nats from there to kl(1 || c); both > 0."""
    wanted = np.log(b) - np.log(left)
    x = _first(m, b, wanted)
    moves = x > m  # shifts below the precision of m stay 0
    todo: Any = slice(None) if moves.all() else np.flatnonzero(moves)
    for _ in range(MAX_STEPS):
        x[todo], settled = _step(m[todo], wanted[todo], x[todo])
        todo = np.arange(len(m))[todo][~settled]
        if not todo.size:
            break
    return x


def _step(m: Array, wanted: Array, x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Halley's step from x, and whether it was the last one."""
    t = x - m
    value, rest = divergence(m, x)
    q, p = sigmoid(x), sigmoid(-x)
    off = np.log(value) - np.log(rest) - wanted
    rise, fall = t * q * p / value, t * q * p / rest  # of the two logarithms
    step = off / (rise + fall)
    bend = (1.0 + t * (p - q)) / t + fall - rise  # second over first derivative
    step /= np.clip(1.0 - 0.5 * step * bend, 0.5, 2.0)
    after = np.maximum(x - step, m)
    return after, (np.abs(step) <= LAST_STEP * np.minimum(t, 1.0)) | (after == m)


def _first(m: Array, b: Array, wanted: Array) -> Array:
    """The larger of two lower bounds of the endpoint."""
    c, d = sigmoid(m), sigmoid(-m)
    with np.errstate(over="ignore"):  # of budgets that move nothing
        small = 1.0 / (np.sqrt(c * d / (2.0 * b)) + np.maximum(d - c, 0.0) / 3.0)
    bound: Array = np.maximum(m + small, wanted)
    return bound


def divergence(m: Array, x: Array) -> tuple[Array, Array]:
    """kl(q || c) for c = sigmoid(m) and q = sigmoid(x), x >= m, and kl(1 || c) less that.

    Both to a relative error of about 1e-13, for all finite log-odds.
    """
    t = x - m
    p = sigmoid(-x)
    rest = softplus(-x) + t * p
    sign = np.where(m < 0, 1.0, -1.0)  # seen from the rarer outcome, nothing is close to 1
    gain = softplus(sign * x) - softplus(sign * m)
    near = t < LARGE_SHIFT
    rarer, shift = sigmoid(-np.abs(m[near])), (sign * t)[near]
    gain[near] = np.log1p(rarer * np.expm1(shift))
    value = sign * t * sigmoid(sign * x) - gain
    close = t < SMALL_SHIFT
    value[close] = _series(m[close], t[close])
    return value, rest


def _series(m: Array, t: Array) -> Array:
    """The divergence as a power series in t: the integral of t times a derivative of sigmoid."""
    c, d = sigmoid(m), sigmoid(-m)
    d1, skew = c * d, d - c
    d2, d3 = d1 * skew, d1 * (1 - 6 * d1)
    d4, d5 = d2 * (1 - 12 * d1), d1 * (1 - 30 * d1 * (1 - 4 * d1))
    return t * t * (d1 / 2 + t * (d2 / 3 + t * (d3 / 8 + t * (d4 / 30 + t * d5 / 144))))


@dataclass(frozen=True)
class EndpointTable:
    """The ends of all intervals of one budget b, to be read off instead of searched for.

    The largest q with kl(q || c) <= b depends on the nats left, -log c - b, alone; and the smallest
    one is 1 less the largest of 1 - c. Over a sixteenth of an octave of these nats, a cell, q and
    1 - q are polynomials of degree 9 to all digits: both where nothing is left, to which they have
    no power series, and far away. The bits of a float64 tell the cell. Octaves are made when they
    are needed, whoever asks first.
    """

    budget: float
    base: int  # what the bits above those within a cell are in cell 0, that of nothing left
    powers: Array  # (2, cells, 10) coefficients of q, and of 1 - q
    made: Mask  # (octaves + 1,) those that are; the last one stands for cell 0

    @classmethod
    def of(cls, budget: float) -> EndpointTable:
        """Of a budget in TABLE_BUDGETS."""
        first = math.frexp(budget)[1] + NEAREST
        octaves = FURTHEST - first
        powers = np.empty((2, 1 + (octaves << CELL_BITS), COEFFICIENTS))
        powers[:, 0] = 0.0
        powers[0, 0, 0] = 1.0
        made = np.zeros(octaves + 1, np.bool_)
        made[-1] = True
        return cls(budget, ((first + 1023) << CELL_BITS) - 1, powers, made)

    def make(self, octaves: Indices) -> None:
        """Find the coefficients in some octaves."""
        cells = 1 << CELL_BITS
        exponent = octaves + ((self.base + 1 >> CELL_BITS) - 1023 - CELL_BITS)
        width = np.ldexp(1.0, exponent)[:, None, None]
        nodes = np.cos(np.pi * (np.arange(COEFFICIENTS) + 0.5) / COEFFICIENTS)
        left = width * (np.arange(cells)[:, None] + (cells + 0.5) + nodes / 2)
        x = np.empty(left.size)
        for some in row_blocks(len(x), 1, SEARCHED):
            m = certain_from(left.ravel()[some] + self.budget)
            x[some] = _between(m, np.full_like(m, self.budget), left.ravel()[some])
        to_powers = np.linalg.inv(np.vander(nodes, increasing=True)).T
        scale = (2 / width) ** np.arange(COEFFICIENTS)
        for side, sign in enumerate((1.0, -1.0)):
            ends = sigmoid(sign * x).reshape(left.shape)
            middle = ends[..., :1]  # without which less is rounded
            powers = ((ends - middle) @ to_powers) * scale
            powers[..., :1] += middle
            self.powers[side, 1:].reshape(-1, cells, COEFFICIENTS)[octaves] = powers
        self.made[octaves] = True

    def whole(self) -> tuple[float, int, Array]:
        """Budget, base and powers, all of them made."""
        if not self.made.all():
            self.make(np.flatnonzero(~self.made))
        return self.budget, self.base, self.powers

    def ends(self, left: Array) -> Array:
        """Largest and smallest probabilities (2, ...), of nats left of c and of 1 - c (2, ...)."""
        bits = left.view(np.int64) >> WITHIN_CELL
        center = (bits << WITHIN_CELL) + (1 << WITHIN_CELL - 1)
        t = left - center.view(np.float64)
        cell = np.maximum(np.subtract(bits, self.base, out=bits), 0, out=bits)
        octave = (cell - 1) >> CELL_BITS  # -1 of cell 0
        if not np.logical_and.reduce(made := self.made.take(octave), axis=None):
            self.make(np.unique(octave[~made]))
        cell[1] += self.powers.shape[1]
        powers = self.powers.reshape(-1, COEFFICIENTS).take(cell, axis=0)
        found: Array = powers[..., -1] * t
        for power in range(COEFFICIENTS - 2, 0, -1):
            found += powers[..., power]
            found *= t
        found += powers[..., 0]
        return found
