"""The probabilities within a Kullback-Leibler divergence of a given one, in log-odds.

For c = sigmoid(m) and q = sigmoid(l), l = m + t with t >= 0, the divergence is

    kl(q || c) = q log(q / c) + (1 - q) log((1 - q) / (1 - c)) = t q - (softplus(l) - softplus(m)).

It grows with t, at the rate t q (1 - q), from 0 to kl(1 || c) = softplus(-m). What is left of it,
kl(1 || c) - kl(q || c) = softplus(-l) + t (1 - q), is a sum of positive terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, sigmoid, softplus

SMALL_SHIFT = 1e-2  # shifts below this use the series of the divergence: its terms would cancel
LARGE_SHIFT = 1.0  # shifts above this use the difference of two softplus: nothing cancels
MAX_STEPS = 12  # steps of Halley's method. Four are enough for all we tried
LAST_STEP = 1e-5  # nats, and share of the shift: a step this short is the last, it leaves its cube
# Log-odds of which a table of endpoints is made, from which a search takes one step; and how far it
# stays away from those at which certainty is within the budget.
TABLE_START, TABLE_STOP, TABLE_STEP = -48.0, 48.0, 0.25
TABLE_MARGIN = 1.5


def largest_log_odds(m: Array | float, budget: Array | float, table: Array | None = None) -> Array:
    """Log-odds of the largest probability q with kl(q || sigmoid(m)) <= budget.

    The smallest one is ``-largest_log_odds(-m, budget)``.

    Parameters
    ----------
    m : array
        Log-odds from -inf to inf. A probability of 0 or 1 stays what it is.
    budget : array
        Nats in [0, inf], of a shape that broadcasts with that of m.
    table : (2, T) array, optional
        `table_of_endpoints` of this budget, which makes it three times as fast.

    Returns
    -------
    array
        At least m; inf where even q = 1 is within the budget.

    Notes
    -----
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
        found[solve] = _between(m[solve], b[solve], most[solve], table)
    return found


def table_of_endpoints(budget: float) -> Array:
    """(2, T): the largest log-odds within the budget, and their slopes times TABLE_STEP.

    Of log-odds in steps of TABLE_STEP from TABLE_START on, as far as the endpoints are smooth.
    """
    stop = np.clip(certain_from(budget) - TABLE_MARGIN, TABLE_START, TABLE_STOP)
    m = np.arange(TABLE_START, float(stop), TABLE_STEP)
    x = largest_log_odds(m, budget)
    q, p = sigmoid(x), sigmoid(-x)
    return np.stack([x, TABLE_STEP * (q - sigmoid(m)) / ((x - m) * q * p)])


def certain_from(budget: Array | float) -> Array:
    """The log-odds m from which on q = 1 is within the budget: where softplus(-m) = budget."""
    with np.errstate(divide="ignore", over="ignore"):
        certain: Array = np.where(budget < 30.0, -np.log(np.expm1(budget)), np.negative(budget))
    return certain


def _between(m: Array, b: Array, most: Array, table: Array | None) -> Array:
    """Where the divergence is b, for 0 < b < most = kl(1 || c)."""
    left = most - b
    wanted = np.log(b) - np.log(left)
    if table is None or table.shape[1] < 2:
        x = _first(m, b, wanted)
    else:
        x = _from_table(m, b, wanted, table)
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


def _from_table(m: Array, b: Array, wanted: Array, table: Array) -> Array:
    """Cubics through the endpoints and slopes of a table; beyond it, lower bounds."""
    u = (m - TABLE_START) / TABLE_STEP
    (beyond,) = np.nonzero(~((u >= 0) & (u < table.shape[1] - 1)))
    u[beyond] = 0.0
    cell = u.astype(np.intp)
    u -= cell
    x: Array = table[0, cell]
    slope, (after, slope_after) = table[1, cell], table[:, cell + 1]
    rise = after - x
    x += u * (rise + (1 - u) * ((1 - u) * (slope - rise) + u * (rise - slope_after)))
    x[beyond] = _first(m[beyond], b[beyond], wanted[beyond])
    return x


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
