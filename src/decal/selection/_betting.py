"""Is the mean of bounded numbers below a bound? A bet that it is not, and what the bet has won."""

from __future__ import annotations

import math

import numpy as np

from decal._base.numerics import Array

LARGEST_STAKE = 0.75
"""Share of its wealth that a bet may lose in one step."""


def mean_is_below(values: Array, bound: float, *, most: float, error: float) -> bool:
    """Whether independent numbers show that their mean is below a bound, with confidence.

    If the mean of numbers in [0, most] is at least the bound, the answer is True with probability
    `error` at most, for any number of them.

    Parameters
    ----------
    values : (n,) array
        Independent draws, in an order that does not depend on their values.
    bound : float
        In the unit of the values.
    most : float
        No value can be larger.
    error : float
        Accepted probability of a wrong True, in [0, 1].

    Notes
    -----
    A player starts with 1 and stakes a share of his wealth on every number being small: number x,
    in units of `most`, multiplies his wealth by 1 - lambda (x - mu), where mu is the bound. If the
    mean is mu or more, no choice of lambda >= 0 that looks only at earlier numbers makes his wealth
    grow on average, and by Ville's inequality it ever reaches 1 / error with probability `error`
    at most. Stakes are those of Waudby-Smith and Ramdas (2023, section 4.3): nearly the best ones
    for n numbers of the variance seen so far. Variance counts from mu (1 - mu), the largest
    that numbers of mean mu can have.
    """
    if bound >= most or error >= 1:
        return True
    if bound <= 0 or error <= 0 or not len(values):
        return False
    n, mu = len(values), bound / most
    x = values / most
    count = np.arange(2, n + 2)
    mean = (mu + np.cumsum(x)) / count
    variance = (mu * (1 - mu) + np.cumsum((x - mean) ** 2)) / count
    before = np.concatenate([[mu * (1 - mu)], variance[:-1]])
    wanted = math.log(1 / error)
    stake = np.minimum(np.sqrt(2 * wanted / (n * before)), LARGEST_STAKE / (1 - mu))
    wealth = np.cumsum(np.log1p(-stake * (x - mu)))
    return bool(wealth.max() >= wanted)
