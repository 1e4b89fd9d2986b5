"""What if the frequencies are near some? Exact ranges of the adapted probabilities in balls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from decal._base.data_frames import by_name, native_index
from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.settings import check_choice
from decal.credal import extreme_member
from decal.shift._calibrated import check_sums_to_one
from decal.shift._frequency_evidence import FrequencyEvidence
from decal.shift._what_if import adapted, check_frequencies, supposed_sets, what_if_box

SIZES = {"ratio": 1.0, "kl": 0.0, "chi2": 0.0}  # what may say how near, its least
LEAST_GAIN = 1e-12  # gain of the log-odds that ends the search
OUTWARD = 1e-9  # by which bounds are moved outwards, more than the error that rounding leaves

Member = Callable[[Array], Array]
"""From values (n, K) to the frequencies (n, K) of a ball in which their expectation is largest."""


@dataclass(frozen=True, eq=False)
class Near:
    """All frequencies near some, within a ratio or in a ball, for `LabelShift.predict`.

    Parameters
    ----------
    center : str, (K,) array, mapping or Series
        "before", those where the model was calibrated; "observed", the most likely ones among
        the inputs observed, with half an input of every class added; or frequencies of your own,
        by name in a mapping or a Series.
    ratio : float, optional
        At least 1: no frequency is more than so many times larger, or smaller, than the center's.
    kl : float, optional
        Nats: frequencies v whose Kullback-Leibler divergence sum v log(v / c) is at most this.
    chi2 : float, optional
        Frequencies whose chi-square divergence sum (v - c)^2 / c is at most this.

    Notes
    -----
    Exactly one of `ratio`, `kl` and `chi2` must be given. A class of frequency 0 in the center
    keeps it. Bounds of balls are global, at most 1e-8 too wide; O(n K^2) time, some thirty passes.

    Examples
    --------
    >>> import decal
    >>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
    >>> shift = decal.LabelShift(calibrate=False).fit(logits, labels, classes=["no", "yes"])
    >>> shift.predict([[0.5, 0.0]], frequencies=decal.shift.Near("before", ratio=1.5))
    IntervalCredalSet: 1 input, 2 classes, mean width 0.315
      0  no [0.452, 0.767]  yes [0.233, 0.548]
    """

    center: Any = "before"
    ratio: float | None = field(default=None, kw_only=True)
    kl: float | None = field(default=None, kw_only=True)
    chi2: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.center, str):
            check_choice(self.center, "center", ("before", "observed"))
        else:
            named = isinstance(self.center, Mapping)
            values = check_sums_to_one([*self.center.values()] if named else self.center)
            names = self.center if named else native_index(self.center)
            center = values if names is None else dict(zip(names, values, strict=True))
            object.__setattr__(self, "center", center)
        given = [name for name in SIZES if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise InputError("ratio, kl or chi2", "be given, one of them", found)
        name, value = given[0], getattr(self, given[0])
        good = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not good or not float(value) >= SIZES[name]:  # which may be infinite
            raise InputError(name, f"be a number, at least {SIZES[name]:g}", f"{value!r}")
        object.__setattr__(self, name, float(value))

    def box(self, odds: Array, center: Array) -> tuple[Array, Array]:
        """(n, K) the range of each probability while the frequencies are near a center (K,)."""
        if self.ratio is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                high = np.where(center > 0, np.minimum(center * self.ratio, 1.0), 0.0)
            return what_if_box(odds, center / self.ratio, high)
        if self.kl is not None:
            return ball_box(odds, center, kl_member(center, self.kl))
        assert self.chi2 is not None
        return ball_box(odds, center, chi2_member(center, self.chi2))


def supposed(odds: Array, frequencies: Any, known: FrequencyEvidence) -> tuple[Array, Array, Array]:
    """(n, K) lower and upper bounds and the prediction, for frequencies that one supposes."""
    calibrated = known.calibrated
    if isinstance(frequencies, Near):
        center = _center(frequencies, known)
        low, high = frequencies.box(odds, center)
        point, largest = adapted(odds, center), center
    else:
        usual = known.observed.maximum if known.observed else calibrated
        intervals = check_frequencies(frequencies, calibrated.classes)
        low, high, point = supposed_sets(odds, intervals, usual.frequencies)
        largest = np.where(intervals.named, intervals.high, 0.0)
    # Nothing is known of inputs of a class without labels: any input may be one.
    unknown = (calibrated.frequencies == 0) & (largest > 0)
    if unknown.any():
        low, high = np.zeros_like(low), np.where(unknown, 1.0, high)
    return low, high, point


def _center(near: Near, known: FrequencyEvidence) -> Array:
    """The frequencies that others are to be near to."""
    if isinstance(near.center, str):
        before = near.center == "before"
        return known.calibrated.frequencies if before else known.require_observed().smoothed
    K = len(known.calibrated.frequencies)
    center = by_name(near.center, known.calibrated.names, K, "center")
    if len(center) != K:
        raise InputError("center", f"have one number per class, {K}", f"{len(center)}")
    return check_sums_to_one(center)


def ball_box(odds: Array, center: Array, member: Member) -> tuple[Array, Array]:
    """(n, K) the range of each probability over a convex set of frequencies.

    A probability is a ratio of two linear functions. Dinkelbach's method alternates, from a center
    (K,) in the set: the best frequencies for t (`member`), and the probability at these as next t.
    """
    # Relative to what the classes weigh at the center, so that no number is tiny.
    size = np.max(odds * center, axis=1, keepdims=True)
    w = odds / np.where(size > 0, size, 1.0)
    start = adapted(odds, center)
    bounds = []
    for sign in (-1.0, 1.0):
        found = start.copy()
        for k in range(odds.shape[1]):
            found[:, k] = _extreme(w, center, k, sign, member)
        moved = np.where((found > 0) & (found < 1), found + sign * OUTWARD, found)
        bounds.append(np.clip(np.where(size > 0, moved, start), 0.0, 1.0))
    return bounds[0], bounds[1]


def _extreme(w: Array, center: Array, k: int, sign: float, member: Member) -> Array:
    """(n,) the largest, or with a negative sign the least, probability of class k, by its odds."""
    own, others = _parts(w, np.broadcast_to(center, w.shape), k)  # odds keep digits near 1
    asked = np.flatnonzero((own > 0) & (others > 0))
    for _ in range(50):  # Dinkelbach's method needs about five
        if not len(asked):
            break
        here, a, b = w[asked], own[asked], others[asked]
        level = a + b
        values = -(a / level)[:, None] * here
        values[:, k] = b / level * here[:, k]
        reached, rest = _parts(here, member(sign * values), k)
        with np.errstate(divide="ignore"):
            gain = sign * (np.log(reached) - np.log(rest) - np.log(a) + np.log(b))
        better = gain > 0
        own[asked] = np.where(better, reached, a)
        others[asked] = np.where(better, rest, b)
        asked = asked[(gain > LEAST_GAIN) & (gain < np.inf)]
    total = own + others
    return np.asarray(own / np.where(total > 0, total, 1.0))


def _parts(w: Array, v: Array, k: int) -> tuple[Array, Array]:
    """(n,) what class k weighs at frequencies (n, K), and what the others do."""
    weights = w * v
    own = weights[:, k].copy()
    weights[:, k] = 0.0
    return own, weights.sum(axis=1)


def kl_member(center: Array, radius: float) -> Member:
    """The frequencies of a Kullback-Leibler ball that are best for values (n, K)."""
    with np.errstate(divide="ignore"):
        log_center = np.log(center)

    def member(values: Array) -> Array:
        rows = np.broadcast_to(log_center, values.shape)
        return extreme_member(rows, values, np.full(len(values), radius))

    return member


def chi2_member(center: Array, radius: float) -> Member:
    """The frequencies of a chi-square ball that are best for values (n, K).

    They are c_j (a_j - tau)_+, normalised. Their divergence rises with tau; at the values it
    follows from running sums, and in between from a quadratic equation.
    """
    occurs = np.flatnonzero(center > 0)
    c = center[occurs]

    def member(values: Array) -> Array:
        a = values[:, occurs]
        size = np.abs(a).max(axis=1, keepdims=True)
        a = a / np.where(size > 0, size, 1.0)
        order = np.argsort(-a, axis=1, kind="stable")
        down, mass = np.take_along_axis(a, order, axis=1), c[order]
        kept = _classes_kept(down, mass, radius)
        active = np.arange(len(occurs)) < kept[:, None]
        share = np.where(active, mass, 0.0)
        total = share.sum(axis=1)
        mean = (share * down).sum(axis=1) / total
        spread = (share * (down - mean[:, None]) ** 2).sum(axis=1) / total
        room = total * (1 + radius) - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = np.sqrt(spread / np.maximum(room, 0.0))
        # Without spread, or with room for all of it, the best classes alone share everything.
        flat = ~((spread > 0) & (depth > 0) & (depth < np.inf))
        above = np.maximum(down - (mean - np.where(flat, 0.0, depth))[:, None], 0.0)
        best = np.where(flat[:, None], share, share * above)
        best = np.where(best.any(axis=1, keepdims=True), best, share)
        best /= best.sum(axis=1, keepdims=True)
        result = np.zeros(values.shape)
        np.put_along_axis(result, occurs[order], best, axis=1)
        return result

    return member


def _classes_kept(down: Array, mass: Array, radius: float) -> Any:
    """(n,) how many classes, by falling value, have any frequency in the best ones of a ball."""
    total = np.cumsum(mass, axis=1)
    step = down[:, :-1] - down[:, 1:]
    first = np.cumsum(total[:, :-1] * step, axis=1)
    before = np.concatenate([np.zeros((len(down), 1)), first[:, :-1]], axis=1)
    second = np.cumsum(step * (2 * before + total[:, :-1] * step), axis=1)
    # Divergence if the threshold is the next value: falls from class to class.
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(first > 0, second / first**2, 1 / total[:, :-1]) - 1
    return 1 + np.count_nonzero(divergence > radius, axis=1)
