"""How often people disagree about an input, and how much of that sets account for."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from decal._base.data_frames import require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array, Indices
from decal.credal import CredalSet, disagreement_range
from decal.votes import Votes

LINE = 96  # columns


@dataclass(frozen=True, eq=False, repr=False)
class Disagreement:
    """How often two labels of one input differ, as seen and as its set allows.

    Attributes
    ----------
    inputs : (n,) integers
        The inputs with two labels or more, or a distribution.
    observed : (n,) array
        The share of pairs of an input's labels that differ. On average over draws of the labels
        this is 1 - sum p_k^2 for the distribution p that they are drawn from.
    expected : (n,) array
        That of the plain prediction; NaN if the sets have no point.
    lower, upper : (n,) arrays
        The least and the greatest that the input's set allows.
    """

    inputs: Indices
    observed: Array
    expected: Array
    lower: Array
    upper: Array

    @property
    def remains(self) -> float:
        """How much more, or if negative less, labels differ on average than any set allows.

        Sets that hold the distributions of all inputs leave nothing, but for chance.
        """
        seen = float(self.observed.mean())
        return seen - float(np.clip(seen, self.lower.mean(), self.upper.mean()))

    @property
    def error(self) -> float:
        """The standard error of the mean of what is observed."""
        n = len(self.observed)
        return float(self.observed.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf

    def __repr__(self) -> str:
        seen, said = self.observed.mean(), self.expected.mean()
        told = "" if np.isnan(said) else f"the plain prediction expects {said:.1%}; "
        text = (
            f"Disagreement: two labels of one input differ in {seen:.1%} of pairs "
            f"(± {self.error:.1%}), by {len(self.inputs):,} inputs. The sets allow "
            f"{self.lower.mean():.1%} to {self.upper.mean():.1%}, {told}"
            f"beyond the sets: {self.remains:+.1%}."
        )
        return textwrap.fill(text, LINE, subsequent_indent="  ")


def disagreement(credal: CredalSet, votes: Any) -> Disagreement:
    """How much of the spread of people's labels, a `decal.Votes`, the sets account for.

    Two people who label one input, each by a draw from its distribution p, differ with probability
    1 - sum p_k^2. Its range in a box is exact, but for a certified bound where the search for the
    least gives up; other sets stand for the box around them. Inputs with one label say nothing.

    Examples
    --------
    >>> import decal
    >>> credal = decal.IntervalCredalSet([[0.7, 0.1], [0.2, 0.4]], [[0.9, 0.3], [0.6, 0.8]],
    ...                                  point=[[0.8, 0.2], [0.4, 0.6]])
    >>> decal.evaluate.disagreement(credal, decal.Votes.of_counts([[3, 1], [2, 2]]))
    Disagreement: two labels of one input differ in 58.3% of pairs (± 8.3%), by 2 inputs. The sets
      allow 25.0% to 46.0%, the plain prediction expects 40.0%; beyond the sets: +12.3%.
    """
    if not isinstance(votes, Votes):
        remedy = "Make them by decal.Votes.of_annotations, of_counts or of_table."
        raise InputError("votes", "be decal.Votes", f"a {type(votes).__name__}", remedy)
    require_same_order(credal=credal, votes=votes)
    votes.require("votes", credal.shape, credal.classes)
    several = np.flatnonzero(votes.number > 1)
    if not several.size:
        raise InputError("votes", "hold two labels of an input", "one of each")
    n, p = votes.counts[several], votes.shares[several]
    agree = (p**2).sum(axis=1)
    if votes.counted:
        m = n.sum(axis=1)
        agree = (n * (n - 1)).sum(axis=1) / (m * (m - 1))
    box = credal.box() if hasattr(credal, "box") else credal
    box = box[several].with_members("raise").tighten()
    lower, upper = disagreement_range(box.lower, box.upper)
    point = credal.point
    plain = np.full(len(several), np.nan) if point is None else point[several]
    expected = 1 - (plain.reshape(len(several), -1) ** 2).sum(axis=1)
    return Disagreement(several, 1 - agree, expected, lower, upper)
