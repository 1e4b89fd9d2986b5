"""How many of several events happen, when only an interval of each one's probability is known.

Nothing is assumed of how the events depend on each other: bounds are the least and the greatest
over all joint distributions whose marginals lie in the intervals, and some such distribution
attains each. They generalise those of Boole and Frechet for "any" and "all".
"""

from __future__ import annotations

import numpy as np

from decal._base.numerics import Array


def most_of_at_least(upper: Array, count: int) -> Array:
    """(n,) the greatest probability that `count` or more of m events happen.

    Mass q on "count or more" can hold no more than min(u_i, q) of event i, and needs count q in
    all, so q is feasible while sum_i min(u_i, q) >= count q. That is a concave function of q, and
    its root is the least over j of (sum of the m - j smallest u) / (count - j).

    Parameters
    ----------
    upper : (n, m) array
        Greatest probabilities.
    count : int
        0 to m + 1.
    """
    n, m = upper.shape
    if count <= 0 or count > m:
        return np.full(n, 1.0 if count <= 0 else 0.0)
    sums = np.cumsum(np.sort(upper, axis=1), axis=1)
    j = np.arange(count)
    shares = sums[:, m - 1 - j] / (count - j)
    return np.asarray(np.minimum(shares.min(axis=1), 1.0))


def most_of_at_most(lower: Array, count: int) -> Array:
    """(n,) the greatest probability that `count` or fewer of m events happen: the others do not."""
    return most_of_at_least(1.0 - lower, lower.shape[1] - count)


def at_least(lower: Array, upper: Array, count: int) -> tuple[Array, Array]:
    """The least and the greatest probability that `count` or more happen, (n,) each."""
    return 1.0 - most_of_at_most(lower, count - 1), most_of_at_least(upper, count)


def exactly(lower: Array, upper: Array, count: int) -> tuple[Array, Array]:
    """The least and the greatest probability that `count` happen, no more and no fewer, (n,) each.

    Mass q on "exactly count" is feasible as long as it is on "count or more" and on "count or
    fewer". And what is left for it when these two others are as large as they can be is needed: if
    more and fewer leave a gap, the events split into `count` that are more probable than the gap's
    upper end and others that are less probable than its lower end, and both are attained at once.
    """
    fewer, more = most_of_at_most(lower, count - 1), most_of_at_least(upper, count + 1)
    greatest = np.minimum(most_of_at_least(upper, count), most_of_at_most(lower, count))
    return np.maximum(1.0 - fewer - more, 0.0), greatest
