"""Order statistics: the alpha, or the threshold, that leaves out so many of n rows and no more.

If n rows and a new one are exchangeable, the score of the new one is among the k smallest of all
n + 1 with probability k / (n + 1), which is at most a rate if k = `allowed(rate, n)`. Miss rates,
guaranteed coverages, budgets and slip rates are this one statement about different scores: the
plausibility of a label or a distribution (`largest_alpha`), or the doubt about a prediction
(`share_threshold`, `slip_threshold`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from decal._base.numerics import Array
from decal.choose._plausibility import Indices, Inside, Mask, alpha_at

SEARCH_LEVELS = 1 << 26  # steps from alpha = 1 to 0: 3e-7 of the budget each, 26 predictions
ROUND_OFF = 1e-12  # of shares of labels that add up to what is tolerated
GREATEST = float(np.finfo(np.float64).max)  # what an infinite doubt counts as


def allowed(rate: float, rows: int) -> int:
    """The largest k with k / (rows + 1) <= rate."""
    k = math.ceil(rate * (rows + 1))
    while k / (rows + 1) > rate:  # at most twice
        k -= 1
    return k


def needed(share: float, rows: int) -> int:
    """The smallest k with k / rows >= share."""
    k = math.floor(share * rows)
    while k / rows < share:  # at most twice
        k += 1
    return k


def largest_alpha(
    inside: Inside, rows: Indices, outside: float, loss: Callable[[Indices], float] = len
) -> tuple[float, float] | None:
    """The largest alpha at which at most so many rows are outside, and how many are, or None.

    Instead of their number, any `loss` of the rows outside that more of them never lower. Sets are
    nested, so only rows outside at the narrow level and inside at the wide one are asked.
    """
    if outside < 0:
        return None
    undecided = rows[~inside(rows, 1.0)]
    if loss(undecided) <= outside:
        return 1.0, loss(undecided)
    now = inside(undecided, 0.0)
    lost, undecided = undecided[~now], undecided[now]  # outside at the wide level
    if loss(lost) > outside:
        return None
    narrow, wide = 0, SEARCH_LEVELS
    while wide - narrow > 1:
        middle = (narrow + wide) // 2
        now = inside(undecided, alpha_at(middle, SEARCH_LEVELS))
        missed = np.concatenate([lost, undecided[~now]])
        if loss(missed) <= outside:
            wide, lost, undecided = middle, missed, undecided[now]
        else:
            narrow, undecided = middle, undecided[~now]
    return alpha_at(wide, SEARCH_LEVELS), loss(lost)


class UnitLosses:
    """What missed rows cost the units, such as images, that they are part of.

    Parameters
    ----------
    units : (n,) array
        The unit of each row.
    tolerate : float, optional
        By default a unit loses the share of its rows that is missed; with this share, it loses 1 if
        more of them are missed, else nothing.
    weights : (n,) array, optional
        How much each row counts within its unit.
    """

    def __init__(self, units: Any, tolerate: float | None, weights: Array | None = None) -> None:
        names, self._unit, self._sizes = np.unique(units, return_inverse=True, return_counts=True)
        self.units, self._tolerate = len(names), tolerate
        self._shares = None
        if weights is not None:
            self._shares = weights / np.bincount(self._unit, weights)[self._unit]

    def __call__(self, missed: Indices) -> float:
        """The sum of all losses."""
        if self._shares is not None:
            shares = np.bincount(self._unit[missed], self._shares[missed], minlength=self.units)
            if self._tolerate is not None:
                return float((shares > self._tolerate + ROUND_OFF).sum())
            return float(shares.sum())
        lost = np.bincount(self._unit[missed], minlength=self.units)
        if self._tolerate is not None:
            return float((lost / self._sizes > self._tolerate).sum())
        # Units of one size are added up before they are divided, which rounds once, not each time.
        of_size = np.bincount(self._sizes, lost)
        return float((of_size[1:] / np.arange(1, len(of_size))).sum())


def largest_alphas(missed: Callable[[Array], Indices], outside: Indices) -> Array:
    """(L,) for every label the largest alpha at which at most so many answers are missed, or 0.

    `missed` counts them, (L,), at (L,) alphas. All labels are bisected at once.
    """
    narrow = np.zeros(len(outside), dtype=np.intp)
    wide = np.full(len(outside), SEARCH_LEVELS)
    wide[missed(np.ones(len(outside))) <= outside] = 0

    def alphas(steps: Indices) -> Array:
        return np.array([alpha_at(step, SEARCH_LEVELS) for step in steps.tolist()])

    while (wide - narrow > 1).any():
        middle = (narrow + wide) // 2
        few = missed(alphas(middle)) <= outside
        wide, narrow = np.where(few, middle, wide), np.where(few, narrow, middle)
    return alphas(wide)


def share_threshold(doubts: Array, share: float) -> float:
    """The threshold that a new row's doubt reaches with probability `share` at most."""
    k = allowed(share, len(doubts))
    if k > len(doubts):
        return -math.inf
    if k == 0:
        return math.inf
    return math.nextafter(min(float(np.sort(doubts)[-k]), GREATEST), math.inf)


def slip_threshold(doubts: Array, wrong: Mask, rate: float) -> float:
    """The threshold: a new row is below it and wrong with probability `rate` at most."""
    k = allowed(rate, len(doubts))
    if k == 0:
        return -math.inf
    slips = np.sort(doubts[wrong])
    return min(float(slips[k - 1]), GREATEST) if k <= len(slips) else math.inf
