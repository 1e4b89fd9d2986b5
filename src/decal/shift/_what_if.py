"""What if the frequencies lie in intervals, or one of them moves? Exact ranges of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from decal._base.data_frames import native_index
from decal._base.errors import InputError
from decal._base.numerics import Array, Mask
from decal.shift._likelihood import Likelihood


def adapted(odds: Array, frequencies: Array) -> Array:
    """(n, K) probabilities at these frequencies; the model's if no class it allows has any."""
    weighted = odds * frequencies
    total = weighted.sum(axis=1, keepdims=True)
    own = odds / odds.sum(axis=1, keepdims=True)
    return np.where(total > 0, weighted / np.where(total > 0, total, 1.0), own)


def what_if_box(odds: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """(n, K) the range of each probability while the frequencies lie between bounds and sum to one.

    The odds of a class rise with its frequency, and fall with what the others weigh: it is most
    probable with as much of it as possible, and the rest given to the classes of the least odds
    first. O(n K^2).
    """
    order = np.argsort(odds, axis=1)
    least, most = np.empty_like(odds), np.empty_like(odds)
    for k in range(odds.shape[1]):
        others = order[order != k].reshape(len(odds), odds.shape[1] - 1)
        w, floor = np.take_along_axis(odds, others, axis=1), low[others]
        room = high[others] - floor
        spare = 1 - (low.sum() - low[k])
        largest = min(high[k], spare)
        smallest = max(low[k], 1 - (high.sum() - high[k]))
        most[:, k] = _share(odds[:, k], largest, w, floor, room, spare - largest)
        least[:, k] = _share(
            odds[:, k], smallest, w[:, ::-1], floor[:, ::-1], room[:, ::-1], spare - smallest
        )
    return least, most


def _share(
    own: Array, frequency: float, others: Array, floor: Array, room: Array, spare: float
) -> Array:
    """(n,) the probability of a class, if the others take in turn what is spare."""
    before = np.cumsum(room, axis=1) - room
    taken = floor + np.clip(spare - before, 0.0, room)
    weight, rest = own * frequency, np.sum(others * taken, axis=1)
    total = weight + rest
    return np.where(total > 0, weight / np.where(total > 0, total, 1.0), float(frequency > 0))


class FrequencyIntervals(NamedTuple):
    """(K,) the least and the largest frequency of every class, and whether it was named."""

    low: Array
    high: Array
    named: Mask


def supposed_sets(
    odds: Array, intervals: FrequencyIntervals, usual: Array
) -> tuple[Array, Array, Array]:
    """(n, K) lower and upper bounds, and a prediction, if frequencies lie in intervals.

    Classes not named keep the proportions that they have in `usual` (K,).
    """
    low, high, named = intervals
    if named.all():
        groups, proportions = np.arange(len(named)), np.ones(len(named))
    else:
        # The classes not named move together, as one.
        groups = np.where(named, np.cumsum(named) - 1, named.sum())
        rest = np.where(named, 0.0, usual)
        total = rest.sum()
        equal = ~named / np.sum(~named)
        proportions = np.where(named, 1.0, rest / total if total > 0 else equal)
    blocks = int(groups.max()) + 1
    least, largest = np.zeros(blocks), np.ones(blocks)
    least[groups[named]], largest[groups[named]] = low[named], high[named]
    if least.sum() > 1 + 1e-12 or largest.sum() < 1 - 1e-12:
        found = f"{least.sum():.4g} to {largest.sum():.4g} in all"
        raise InputError("frequencies", "allow a sum of one", found)
    weighted = odds * proportions
    grouped = np.zeros((len(odds), blocks))
    for k, group in enumerate(groups):
        grouped[:, group] += weighted[:, k]
    low_of, high_of = what_if_box(grouped, least, largest)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(grouped[:, groups] > 0, weighted / grouped[:, groups], 0.0)
    middle = _between(least, largest)
    point = adapted(odds, middle[groups] * proportions)
    lower, upper = low_of[:, groups] * share, high_of[:, groups] * share
    return np.minimum(lower, point), np.maximum(upper, point), point


def _between(least: Array, largest: Array) -> Array:
    """Frequencies that sum to one, each about in the middle of what the bounds leave it."""
    low = np.maximum(least, 1 - (largest.sum() - largest))
    high = np.minimum(largest, 1 - (least.sum() - least))
    middle = (low + high) / 2
    excess = float(middle.sum()) - 1
    room = middle - low if excess > 0 else high - middle
    return np.asarray(middle - excess * room / room.sum() if room.sum() > 0 else middle)


def check_frequencies(frequencies: Any, classes: tuple[str, ...]) -> FrequencyIntervals:
    """What is supposed, by class or as an array."""
    K = len(classes)
    low, high, named = np.zeros(K), np.ones(K), np.zeros(K, dtype=bool)
    native = native_index(frequencies)
    if isinstance(frequencies, Mapping):
        items = list(frequencies.items())
    elif native is not None:
        items = list(zip(native, frequencies.to_numpy(), strict=True))
    else:
        array = np.asarray(frequencies, dtype=np.float64)
        if array.shape not in ((K,), (K, 2)):
            rule = f"be a mapping of classes to intervals, or a ({K}, 2) array"
            raise InputError("frequencies", rule, f"an array of shape {array.shape}")
        items = list(enumerate(array))
    for name, bounds in items:
        k = class_number(name, classes)
        pair = np.atleast_1d(np.asarray(bounds, dtype=np.float64))
        least, largest = (pair[0], pair[-1]) if len(pair) in (1, 2) else (np.nan, np.nan)
        if not 0 <= least <= largest <= 1:
            rule = "lie between 0 and 1, the smaller first"
            raise InputError("frequencies", rule, f"{bounds!r} for class {classes[k]}")
        low[k], high[k], named[k] = least, largest, True
    return FrequencyIntervals(low, high, named)


def class_number(name: Any, classes: tuple[str, ...], argument: str = "frequencies") -> int:
    """The number of a class, by its name or number."""
    if str(name) in classes:
        return classes.index(str(name))
    if isinstance(name, int | np.integer) and 0 <= name < len(classes):
        return int(name)
    verb = "name classes" if argument == "frequencies" else "be a class"
    raise InputError(argument, verb, f"{name!r}, not among {list(classes)[:8]}")


# One frequency at a time, while the others keep their proportions


def others_of(middle: Array) -> Array:
    """(K, K) for each class, the frequencies of the others among themselves; equal if all are 0."""
    K = len(middle)
    others = np.where(np.eye(K, dtype=bool), 0.0, middle)
    total = others.sum(axis=1, keepdims=True)
    equal = (1 - np.eye(K)) / max(K - 1, 1)
    return np.where(total > 0, others / np.where(total > 0, total, 1.0), equal)


def plausible_segments(
    likelihood: Likelihood, floor: float | Array, middle: Array
) -> tuple[Array, Array]:
    """(K,) the least and the largest plausible frequency of each class, others in proportion.

    The likelihood is concave along each segment, so its endpoints are found by bisection; what is
    returned is never inside of them.
    """
    base = likelihood.ratios @ others_of(middle).T

    def plausible(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            value = np.log(base * (1 - x) + likelihood.ratios * x)
        return np.asarray(likelihood.weights @ value >= floor)

    endpoints = []
    for end in (np.zeros_like(middle), np.ones_like(middle)):
        everything = plausible(end)
        inside, outside = middle, end
        for _ in range(60):
            halfway = (inside + outside) / 2
            good = plausible(halfway)
            inside, outside = np.where(good, halfway, inside), np.where(good, outside, halfway)
        endpoints.append(np.where(everything, end, outside))
    return endpoints[0], endpoints[1]


def segment_box(odds: Array, middle: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """(n, K) the range of each probability, monotone along segments, while one frequency moves."""
    least = most = adapted(odds, middle)
    for k, others in enumerate(others_of(middle)):
        for x in (low[k], high[k]):
            moved = (1 - x) * others
            moved[k] = x
            p = adapted(odds, moved)
            least, most = np.minimum(least, p), np.maximum(most, p)
    return least, most
