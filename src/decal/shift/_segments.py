"""One frequency at a time: how far it may move while the others keep their proportions."""

from __future__ import annotations

import numpy as np

from decal._base.numerics import Array
from decal.shift._likelihood import Likelihood

HALVINGS = 60


def others_of(middle: Array) -> Array:
    """(K, K) for each class, the frequencies of the other classes among themselves.

    If a class has all of the frequency, the others share equally.
    """
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

    Parameters
    ----------
    likelihood : Likelihood
        Of frequencies.
    floor : float or (K,) array
        The least likelihood that is plausible; it may differ from class to class.
    middle : (K,) array
        The most likely frequencies.
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
        for _ in range(HALVINGS):
            halfway = (inside + outside) / 2
            good = plausible(halfway)
            inside, outside = np.where(good, halfway, inside), np.where(good, outside, halfway)
        endpoints.append(np.where(everything, end, outside))
    return endpoints[0], endpoints[1]


def segment_box(odds: Array, middle: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """(n, K) the range of each probability while one frequency moves.

    Along a segment every probability is monotone, so its range is that of the endpoints.

    Parameters
    ----------
    odds : (n, K) array
        Each input's probabilities over the frequencies that the model supposes.
    middle, low, high : (K,) arrays
        The most likely frequencies, and between which each may move.
    """
    least = most = adapted(odds, middle)
    for k, others in enumerate(others_of(middle)):
        for x in (low[k], high[k]):
            moved = (1 - x) * others
            moved[k] = x
            p = adapted(odds, moved)
            least, most = np.minimum(least, p), np.maximum(most, p)
    return least, most


def adapted(odds: Array, frequencies: Array) -> Array:
    """(n, K) probabilities if the classes have these frequencies.

    Where no class that the model allows has any, those of the model.
    """
    weighted = odds * frequencies
    total = weighted.sum(axis=1, keepdims=True)
    return np.where(
        total > 0,
        weighted / np.where(total > 0, total, 1.0),
        odds / odds.sum(axis=1, keepdims=True),
    )
