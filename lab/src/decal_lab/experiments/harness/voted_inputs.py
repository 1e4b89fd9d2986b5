"""Inputs with people's votes: labels drawn from them, and what sets hold of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal

Array = NDArray[np.float64]
ALL = "all"
"""In place of a number of labels: those of all people."""

THRESHOLDS = 60


@dataclass(frozen=True)
class Voted:
    """Logits of inputs, and what people say of them.

    Attributes
    ----------
    logits : (n, K) array
        Logits.
    votes : (n, K) array
        How many people named each class; or shares.
    counted : bool
        Whether votes are numbers of people.
    """

    logits: NDArray[Any]
    votes: Array
    counted: bool

    @property
    def shares(self) -> Array:
        """(n, K) the share of each class among the votes of every input."""
        return shares_of(self.votes)

    def __getitem__(self, rows: Any) -> Voted:
        return Voted(self.logits[rows], self.votes[rows], self.counted)

    def drawn(self, raters: str, rng: np.random.Generator) -> decal.Votes:
        """So many labels of every input; of fewer votes, all of them."""
        if raters == ALL:
            make = decal.Votes.of_counts if self.counted else decal.Votes.of_distributions
            return make(self.votes)
        m = int(raters)
        if not self.counted:
            return decal.Votes.of_counts(rng.multinomial(m, self.shares))
        votes = self.votes.astype(np.int64)
        counts = [rng.multivariate_hypergeometric(v, min(m, v.sum())) for v in votes]
        return decal.Votes.of_counts(np.array(counts))


def shares_of(votes: Array) -> Array:
    """(n, K) the share of each class among the votes of every input."""
    return np.asarray(votes / votes.sum(axis=1, keepdims=True))


def measured(ball: decal.KLCredalSet, new: Voted) -> dict[str, float]:
    """Shares held, efficiency of the box, and what the votes of new inputs prove to be held."""
    held = float(ball.contains(new.shares, atol=0).mean())
    return {"held": held, "efficiency": decal.metrics.efficiency(ball), "proved": proved(ball, new)}


def proved(ball: decal.KLCredalSet, new: Voted) -> float:
    """A share of balls that hold the truth, or less on average, whatever the truth is.

    With v = KL(shares || center) and budget b, one minus the mean of (v - s)+ / (b - s), which is
    at least the share of balls missed: for every half of the inputs, s is chosen on the other.
    """
    ratio = ball.divergence(new.shares) / ball.radius
    thresholds = np.linspace(0, 1, THRESHOLDS, endpoint=False)

    def missed(v: Array, s: float) -> float:
        return float(np.maximum(v - s, 0).mean() / (1 - s))

    halves = ratio[::2], ratio[1::2]
    found = [
        missed(one, min(thresholds, key=lambda s: missed(other, s)))
        for one, other in (halves, halves[::-1])
    ]
    return 1 - float(np.mean(found))
