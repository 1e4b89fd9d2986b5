"""Moving logits along a line: z + theta D(z), for any D. Exact endpoints and exact boxes.

Along a line the log-likelihood is concave in theta, so the plausible theta form an interval; and so
is the logarithm of every probability, log p_j = z_j + theta D_j - logsumexp(z + theta D). Hence a
probability is smallest at an endpoint of the interval, and largest at an endpoint or at the one
theta where the expectation of D equals D_j.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.numerics import Array, Logits, for_each_block, log_sum_exp, row_blocks
from decal.directions._direction import Box, Direction, Endpoints, Inputs, LabelledLogits
from decal.directions._reference import USE_MODEL, Reference

MAX_NEWTON_STEPS = 200
TOLERANCE = 4 * float(np.finfo(np.float64).eps)  # nats per unit of weight that may be missed
PEAK_STEPS = 30
PEAK_TOLERANCE = 1e-10  # nats by which a step may still raise a peak that is taken as found
WORTHWHILE = 1e-12  # a peak is looked for where it may raise a bound by more than this share

Move = Callable[[Array], Array]  # logits (n, K) to what one unit of a parameter adds to them

Ray = Callable[[Array], tuple[Array, Array]]
"""Logits (n, K) to those at a parameter of 0, and to what one unit of it adds to them."""


class Line(Direction):
    """A direction of your own: z becomes z + theta * move(z), for a parameter theta around 0.

    Subclass it and write `move`. The plausible theta form an interval, and the range of every
    probability along it is exact. A model with a line keeps a reference to its data, and cannot be
    merged or saved; a subclass of `decal.Direction` can.

    Attributes
    ----------
    name : str
        Shown in messages, and the name for `Decalibrator.steps`.
    ratio : float
        The line may use this many times the budget of a class shift.

    Examples
    --------
    >>> import decal
    >>> class FirstClass(decal.Line):
    ...     name = "first class"
    ...
    ...     def move(self, logits):
    ...         return [1.0, 0.0] + 0.0 * logits
    >>> logits = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]]
    >>> d = decal.decalibrate(logits, [0, 0, 1, 1], alpha=0.9, directions=[FirstClass()])
    >>> round(d.steps("first class").upper, 3)
    0.977
    """

    ratio: float = 1.0
    streams = False
    saves = False

    @abstractmethod
    def move(self, logits: Array) -> Array:
        """What theta = 1 adds to logits (n, K): finite, and each row from that row alone."""

    def summarise(self, data: LabelledLogits) -> LabelledLogits:
        """The data themselves."""
        if not data.present.all():
            what = f"every class for another reference than the model itself with {self.name!r}"
            fact = f"none of class {data.present.argmin()}"
            raise InputError("labels", f"contain {what}", fact, USE_MODEL)
        return data

    def restore(self, arrays: dict[str, NDArray[Any]]) -> LabelledLogits:
        """Not possible: no model file holds data."""
        raise NotImplementedError

    def endpoints(
        self,
        evidence: LabelledLogits,
        budgets: Array,
        reference: Reference,  # noqa: ARG002
    ) -> Endpoints:
        """Plausible steps (A,)."""
        return plausible_steps(evidence, self.move, self.ratio * budgets)

    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """Widen to the range of every probability along the line."""
        box = box or Box.at_point(inputs)
        steps = endpoints.lower, endpoints.upper
        widen_along(box.low, box.high, inputs.recentered, lambda z: (z, self.move(z)), *steps)
        return box


def plausible_steps(data: LabelledLogits, move: Move, budgets: Array) -> Endpoints:
    """The theta that lose at most the budget (A,) in all; infinite where no label ever objects."""
    logits, labels = data.recentered, data.labels
    weights = np.ones(len(labels)) if data.weights is None else data.weights
    A, W = len(budgets), float(weights.sum())
    b = -np.concatenate([budgets, budgets])
    side = np.repeat([-1.0, 1.0], A)

    def blocks() -> Iterator[tuple[Any, ...]]:
        """Logits, what moves them, weights, places of the labels and their log-probabilities."""
        for rows in row_blocks(*logits.shape):
            z = logits[rows].astype(np.float64)
            label = np.arange(len(z)), labels[rows]
            yield z, move(z), weights[rows], label, z[label] - log_sum_exp(z)

    def gain(theta: Array) -> tuple[Array, Array]:
        value, slope = np.zeros(len(theta)), np.zeros(len(theta))
        for z, D, w, label, base in blocks():
            for i, t in enumerate(theta):
                moved = z + t * D
                total = log_sum_exp(moved)
                value[i] += w @ (moved[label] - total - base)
                p = np.exp(moved - total[:, None])
                slope[i] += w @ (D[label] - (p * D).sum(axis=1))
        return value, slope

    # logsumexp is at least the term moved furthest: a line above the gain, whose root lies outside.
    height, rate = np.zeros(2), np.zeros(2)
    for z, D, w, label, base in blocks():
        for i, sign in enumerate((-1.0, 1.0)):
            furthest = (sign * D).max(axis=1)
            rate[i] += w @ (sign * D[label] - furthest)
            highest = np.where(sign * D == furthest[:, None], z, -np.inf).max(axis=1)
            height[i] += w @ (z[label] - highest - base)
    height, rate = np.repeat(height, A), np.repeat(rate, A)
    infinite = np.isneginf(b) | (rate == 0)
    _, slope_at_zero = gain(np.zeros(1))
    still = ~infinite & (b == 0) & (side * slope_at_zero <= 0)
    solve = ~(infinite | still)
    theta = np.divide(side * (b - height), rate, out=np.zeros(2 * A), where=solve)
    missed = np.zeros(2 * A)
    at = np.flatnonzero(solve)
    for _ in range(MAX_NEWTON_STEPS):
        if not at.size:
            break
        value, slope = gain(theta[at])
        left = value - b[at]
        missed[at] = np.abs(left)
        off = missed[at] > TOLERANCE * W
        step = np.divide(left, slope, out=np.zeros(len(at)), where=off)
        theta[at] -= step
        at = at[np.abs(step) > TOLERANCE * (1.0 + np.abs(theta[at]))]
    theta = np.where(infinite, side * np.inf, theta)
    return Endpoints(theta[:A], theta[A:], 0.0, None, float(missed.max()) / W)


def widen_along(
    low: Array,
    high: Array,
    logits: Logits,
    ray: Ray,
    first: float,
    last: float,
) -> None:
    """Widen bounds (n, K), in place, to the range of probabilities while theta is in [first, last].

    Classes with a logit of -inf have probability 0. O(K) per row and endpoint, and per class that
    may peak between them.
    """

    def block(rows: slice) -> None:
        z = logits[rows].astype(np.float64)
        masked = np.isneginf(z)
        start, D = ray(z)
        if masked.any():
            start, D = np.where(masked, -np.inf, start), np.where(masked, 0.0, D)
        floor, ceiling = low[rows], high[rows]
        lines = []
        for theta in (first, last):
            log_p, expected = _at(start, D, theta)
            p = np.exp(log_p)
            np.minimum(floor, p, out=floor)
            np.maximum(ceiling, p, out=ceiling)
            # The tangent there: log p_j <= intercept + slope * theta, for every theta. What is
            # taken off the start is a mean of moderate numbers, however large theta and D are.
            seen = p > 0
            below = np.sum(p * np.subtract(start, log_p, where=seen, out=np.zeros_like(p)), axis=1)
            lines.append((start - below[:, None], D - expected[:, None]))
        (rise_at, rise), (fall_at, fall) = lines
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = (fall_at - rise_at) / (rise - fall)
            height = rise_at + rise * crossing
            worth = height > np.log(ceiling) + WORTHWHILE
        row, j = np.nonzero((rise > 0) & (fall < 0) & worth)
        for part in row_blocks(len(row), z.shape[1], 1 << 18):
            r, k = row[part], j[part]
            peak = _peak(start[r], D[r], k, crossing[r, k], first, last)
            ceiling[r, k] = np.maximum(ceiling[r, k], peak)

    for_each_block(block, *logits.shape)


def _at(z: Array, D: Array, theta: float) -> tuple[Array, Array]:
    """Log p (n, K) and the expectation (n,) of D at theta, or in the limit of an infinite one."""
    if np.isinf(theta):
        side = np.sign(theta)
        extreme = side * np.where(np.isneginf(z), -np.inf, side * D).max(axis=1)
        moved = np.where(extreme[:, None] == D, z, -np.inf)
        return moved - log_sum_exp(moved)[:, None], extreme
    with np.errstate(over="ignore"):
        moved = z + theta * D
    log_p = moved - log_sum_exp(moved)[:, None]
    return log_p, (np.exp(log_p) * D).sum(axis=1)


def _peak(
    z: Array, D: Array, j: NDArray[np.intp], theta: Array, first: float, last: float
) -> Array:
    """Largest probability (m,) of class j between the endpoints: where E[D] = D_j."""
    each = np.arange(len(z))
    low, high = np.full(len(z), first), np.full(len(z), last)
    best = np.zeros(len(z))
    for _ in range(PEAK_STEPS):
        moved = z + theta[:, None] * D
        log_p = moved - log_sum_exp(moved)[:, None]
        best = np.maximum(best, np.exp(log_p[each, j]))
        p = np.exp(log_p)
        mean = (p * D).sum(axis=1)
        variance = (p * (D - mean[:, None]) ** 2).sum(axis=1)
        lead = D[each, j] - mean  # positive before the peak
        low, high = np.where(lead > 0, theta, low), np.where(lead > 0, high, theta)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = theta + lead / variance
            middle = np.where(
                np.isinf(low), 2 * high - 1, np.where(np.isinf(high), 2 * low + 1, (low + high) / 2)
            )
        ahead = np.where((newton > low) & (newton < high), newton, middle)
        if (variance * (ahead - theta) ** 2 <= PEAK_TOLERANCE).all():
            break
        theta = ahead
    return best
