"""How a perturbation moves logits and probabilities: class shifts, temperature, yours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import check_choice
from decal._base.numerics import (
    Array,
    Logits,
    compiled,
    for_each_block,
    margins,
    sigmoid,
    softplus,
)
from decal.directions._lines import Direction

DEEPEST_LOGIT = 300.0
"""Exponentials of shifts, and of margins of the largest class, stay in linear scale up to here."""


@dataclass(frozen=True)
class Temperature:
    """The scale of the logits, z becomes s z, as a direction.

    Parameters
    ----------
    ratio : nats per example that the scale may lose, in units of -log alpha. By default, with
        evidence="model", K times the nats that the model claims to know about an example, log K -
        its mean entropy: a class shift concerns about one example in K, so that -log alpha is
        about K times as much for those concerned, and the scale may lose this share of what the
        model knows. With evidence="labels", 16.
    evidence : who says what a scale costs. "model": the sharper of the two models, the scaled and
        the unscaled; a scale is plausible if believing the softer one while the sharper one is true
        costs no more than the budget. "labels": the likelihood of the labels, as for class shifts.
    """

    ratio: float | None = None
    evidence: str = "model"
    name = "temperature"

    def __post_init__(self) -> None:
        check_choice(self.evidence, "evidence", ("model", "labels"))
        if self.ratio is not None and not 0 <= self.ratio < np.inf:
            raise ValueError(f"ratio must be a finite number, not negative: got {self.ratio!r}.")


@dataclass(frozen=True)
class Shifts:
    """How far each class's logit may move, at a given alpha (or several).

    Attributes
    ----------
    lower, upper : (K,) ends in nats, lower <= 0 <= upper, measured from `center`; (A, K) for A
        alphas. Infinite where the data cannot object: -inf for a class that never occurs, inf for
        one that always does, both at alpha = 0.
    center : (K,) the reference model's shifts: zero, or with reference="best" the
        maximum-likelihood ones. Minus infinity for a class that never occurs; `upper` is then
        measured from the model's own logit.
    alpha : the level, or (A,) levels.
    residual : by how much the gain at a finite end misses the budget at most, in nats per example.
    error : bound of what the summary of the data may hide, in nats per example, on top of that.
    """

    lower: Array
    upper: Array
    center: Array
    alpha: float | Array
    residual: float
    error: float


def parse_directions(directions: Iterable[Any]) -> tuple[str | Temperature | Direction, ...]:
    """Names and objects as objects; "class" stays a name, for it is K directions at once."""
    parsed: list[str | Temperature | Direction] = []
    if isinstance(directions, str):
        directions = (directions,)
    for direction in directions:
        if isinstance(direction, str):
            check_choice(direction, "directions", ("class", "temperature"))
            parsed.append(Temperature() if direction == "temperature" else direction)
        elif isinstance(direction, Temperature | Direction):
            parsed.append(direction)
        else:
            raise ValueError(
                "directions must be 'class', 'temperature' or objects with a name, a ratio and "
                f"move(logits): got {direction!r}."
            )
    names = [d if isinstance(d, str) else d.name for d in parsed]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"directions must be one or more, each once: got {names}.")
    return tuple(parsed)


def described(direction: str | Temperature | Direction) -> Any:
    """A direction of decal's own as JSON."""
    if isinstance(direction, Temperature):
        return {"ratio": direction.ratio, "evidence": direction.evidence}
    return direction


def restored(description: Any) -> Any:
    """What `described` described."""
    return Temperature(**description) if isinstance(description, dict) else description


def shift_box(
    logits: Logits, center: Array, lower: Array, upper: Array, *, joint: bool
) -> tuple[Array, Array, Array]:
    """The range of every probability while one class's logit is shifted between its ends.

    With S the sum of exponentials, moving class k by t changes S to D_k(t) = S - e_k + e_k e^t,
    its own probability to e_k e^t / D_k(t) and any other to e_j / D_k(t). All are monotone in t,
    so only the ends matter; and among the other classes only the one with the largest D_k
    (smallest probability of j) and the one with the smallest (largest probability of j).

    Parameters
    ----------
    logits : (n, K) finite.
    center : (K,) shifts of the reference model. -inf takes a class out of it altogether.
    lower, upper : (K,) ends, -inf <= lower <= 0 <= upper <= inf, from the center. For a class
        whose center is -inf: lower is -inf, and upper is measured from the logit itself.
    joint : take the range over the shifts of all classes, not only the class's own.

    Returns
    -------
    low, high, point : (n, K); point is the softmax at the center. O(n K) time.
    """
    n, K = logits.shape
    low, high, point = (np.empty((n, K)) for _ in range(3))
    absent = np.isneginf(center)
    offset = np.where(absent, 0.0, center)
    # A product e * exp(t) is cheaper than exp(z + t), but only where neither factor overflows.
    steep = absent | ~(np.maximum(-lower, upper) < DEEPEST_LOGIT)
    factors = np.exp(np.where(steep, 0.0, np.stack([lower, upper])))
    deepest = np.exp(-DEEPEST_LOGIT)

    def log_block(deep: NDArray[np.intp]) -> None:
        if deep.size:
            m = margins(logits[deep], center).T
            found = log_box(m, lower, upper, absent=absent, joint=joint)
            low[deep], high[deep], point[deep] = found

    kernels = compiled(n * K)
    if kernels is not None:
        model = offset, np.flatnonzero(absent), np.stack([lower, upper]), factors
        settings = np.flatnonzero(steep), joint, deepest

        def compiled_block(rows: slice) -> None:
            z = np.ascontiguousarray(logits[rows])
            log_block(kernels.boxes(z, *model, *settings, low, high, point, rows.start))

        for_each_block(compiled_block, n, K)
        return low, high, point

    def block(rows: slice) -> None:
        z = logits[rows] + offset
        largest = np.where(absent, -np.inf, z) if absent.any() else z
        z -= largest.max(axis=1, keepdims=True)
        e = np.exp(z)
        if absent.any():
            e[:, absent] = 0.0
        each, top = np.arange(len(e)), e.argmax(axis=1)
        e[each, top] = 0.0
        others = e.sum(axis=1)  # against the largest class: never S - 1, which cancels
        e[each, top] = 1.0
        total = others + 1.0
        rest = total[:, None] - e
        rest[each, top] = others
        down, up = e * factors[0], e * factors[1]
        if steep.any():
            down[:, steep] = np.exp(z[:, steep] + lower[steep])
            up[:, steep] = np.exp(z[:, steep] + upper[steep])
        after_down, after_up = rest + down, np.add(rest, up, out=rest)
        np.divide(e, total[:, None], out=point[rows])
        own_low = np.divide(down, after_down, out=down)
        own_high = np.divide(up, after_up, out=up)
        if steep.any():
            own_high[np.isnan(own_high)] = 1.0  # inf / inf
        if joint:
            other_low = e / _extreme_of_others(after_up, total, largest=True)
            other_high = e / _extreme_of_others(after_down, total, largest=False)
        else:
            other_low = other_high = point[rows]
        np.minimum(own_low, other_low, out=low[rows])
        np.minimum(np.maximum(own_high, other_high, out=own_high), 1.0, out=high[rows])
        log_block(rows.start + np.flatnonzero(others < deepest))

    def quiet_block(rows: slice) -> None:
        # Overflow to inf has the right limit; 0 / 0 occurs in deep rows only, which are replaced.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            block(rows)

    for_each_block(quiet_block, n, K)
    return low, high, point


def _extreme_of_others(after: Array, unmoved: Array, *, largest: bool) -> Array:
    """(n, K): the largest (or smallest) of `unmoved` and all D_k of the classes k other than j.

    Overwrites `after`, the (n, K) array of the D_k.
    """
    each, most = np.arange(len(after)), np.maximum if largest else np.minimum
    first = after.argmax(axis=1) if largest else after.argmin(axis=1)
    extreme = np.empty_like(after)
    extreme[:] = most(after[each, first], unmoved)[:, None]
    after[each, first] = unmoved
    extreme[each, first] = most.reduce(after, axis=1)
    return extreme


def log_box(
    m: Array, lower: Array, upper: Array, *, absent: NDArray[np.bool_], joint: bool
) -> tuple[Array, Array, Array]:
    """shift_box in logarithms, from margins m (n, K): nothing underflows.

    Parameters
    ----------
    m : (n, K), see `margins`.
    lower, upper : (K,) ends, or (n, K) where they differ from row to row.
    absent : (K,) classes that the reference model leaves out.
    joint : as for `shift_box`.
    """
    log_p = np.where(absent, -np.inf, -softplus(-m))
    low, high, point = sigmoid(m + lower), sigmoid(m + upper), np.exp(log_p)
    if joint:
        # D_k / S, from the probabilities of all other classes and of the moved one.
        log_rest = np.where(absent, 0.0, -softplus(m))
        log_own = np.where(absent, m, log_p)
        log_up = np.logaddexp(log_rest, log_own + upper)
        log_down = np.logaddexp(log_rest, log_own + lower)
        unmoved = np.zeros(len(m))
        log_up = _extreme_of_others(log_up, unmoved, largest=True)
        log_down = _extreme_of_others(log_down, unmoved, largest=False)
        low = np.minimum(low, np.exp(log_p - log_up))
        high = np.maximum(high, np.exp(log_p - log_down))
    return np.minimum(low, point), np.minimum(np.maximum(high, point), 1.0), point
