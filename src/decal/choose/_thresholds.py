"""From scores and errors of labelled rows to a threshold: rows that reach it are handed over.

Every function here takes a score that was fixed without looking at these rows. What each promises
for new rows is proved in docs/evidence_promises.md. A row is kept if its score is *below* the
threshold: inf keeps all rows, -inf none. An infinite score counts as the greatest finite number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from decal._base.numerics import Array
from decal.choose._order import GREATEST, share_threshold, slip_threshold
from decal.choose._plausibility import Mask


def below(scores: Array, threshold: float) -> Mask:
    """(n,) which rows are kept."""
    return np.minimum(scores, GREATEST) < threshold


@dataclass(frozen=True)
class Threshold:
    """Hands over the rows whose score reaches a threshold."""

    threshold: float

    def handed(self, scores: Array) -> Mask:
        """(n,) which rows to hand over."""
        return ~below(scores, self.threshold)

    def arrays(self) -> dict[str, Array]:
        """What a file holds of it."""
        return {"threshold": np.array(self.threshold)}


@dataclass(frozen=True)
class TopOfBatch:
    """Hands over so many rows of every batch: those of the highest scores."""

    rows: int
    threshold = math.nan

    def handed(self, scores: Array) -> Mask:
        """(n,) which rows of a batch to hand over; of equal ones the first."""
        found = np.zeros(len(scores), dtype=bool)
        found[np.argsort(-scores, kind="stable")[: self.rows]] = True
        return found

    def arrays(self) -> dict[str, Array]:
        """What a file holds of it: its number of rows is the target of the triage."""
        return {}


@dataclass(frozen=True)
class SelectedOfBatch:
    """Keeps as much of a batch as the errors of labelled rows allow, see `kept_of_batch`."""

    slips: Array
    rows: int
    rate: float
    threshold = math.nan

    def handed(self, scores: Array) -> Mask:
        """(n,) which rows of a batch to hand over."""
        return ~kept_of_batch(scores, self.slips, self.rows, self.rate)

    def arrays(self) -> dict[str, Array]:
        """What a file holds of it."""
        return {"slips": self.slips}


Rule = Threshold | TopOfBatch | SelectedOfBatch


def cost_threshold(scores: Array, wrong: Mask, cost: float) -> float:
    """The threshold of the least cost, if an error costs 1; of equal ones the largest."""
    candidates, errors, kept = _kept_below(scores, wrong)
    spent = errors + cost * (len(scores) - kept)
    return float(candidates[len(spent) - 1 - spent[::-1].argmin()])


def rate_threshold(
    scores: Array, wrong: Mask, rate: float, confidence: float, *, plan: tuple[Array, Mask]
) -> float:
    """The threshold below which at most `rate` of new rows are wrong, with confidence.

    Thresholds planned on other rows, the (scores, wrong) of `plan`, are tested upwards, each by how
    unlikely so few errors among so many kept rows would be at an error rate above `rate`, until one
    test fails: -inf if it is the first.
    """
    found = -math.inf
    for threshold in planned_thresholds(*plan, rate, len(scores)):
        kept = below(scores, threshold)
        if tail(int(wrong[kept].sum()), int(kept.sum()), rate) > 1 - confidence:
            break
        found = float(threshold)
    return found


def planned_thresholds(scores: Array, wrong: Mask, rate: float, rows: int) -> Array:
    """At most 100 thresholds to test on `rows` other rows, rising from the most promising one."""
    candidates, errors, kept = _kept_below(scores, wrong)
    some = np.unique(np.linspace(0, len(candidates) - 1, 100).round().astype(np.intp))
    candidates, errors, kept = candidates[some], errors[some], kept[some]
    scale = rows / len(scores)
    expected = [
        tail(math.ceil(w * scale), int(m * scale), rate) for w, m in zip(errors, kept, strict=True)
    ]
    # Of equally promising ones the last: it keeps most.
    first = len(expected) - 1 - int(np.argmin(expected[::-1]))
    return np.asarray(candidates[first:])


def tail(errors: int, rows: int, rate: float) -> float:
    """P(Binomial(rows, rate) <= errors)."""
    from scipy.special import bdtr  # here: it doubles the time of `import decal`

    return 1.0 if errors >= rows else float(bdtr(errors, rows, rate))


def kept_of_batch(scores: Array, slips: Array, rows: int, rate: float) -> Mask:
    """(m,) which rows of a batch to keep, so that on average at most `rate` of them are wrong.

    `slips` are the scores of those of so many labelled rows that are wrong. Conformal selection
    (Jin and Candes, 2023), see docs/evidence_promises.md.
    """
    m = len(scores)
    p_values = (1 + np.searchsorted(np.sort(slips), scores, side="right")) / (rows + 1)
    order = np.sort(p_values)
    enough = np.flatnonzero(order <= rate * np.arange(1, m + 1) / m)
    return np.asarray(p_values <= (order[enough[-1]] if enough.size else -1.0))


def _kept_below(scores: Array, wrong: Mask) -> tuple[Array, Array, Array]:
    """Every threshold that makes a difference, and errors and rows that are kept below it."""
    scores = np.minimum(scores, GREATEST)
    order = np.argsort(scores, kind="stable")
    values, first = np.unique(scores[order], return_index=True)
    kept = np.append(first, len(scores)).astype(np.float64)
    errors = np.append(0.0, np.cumsum(wrong[order]))[kept.astype(np.intp)]
    return np.append(values, math.inf), errors, kept


def rule_for(
    purpose: str,
    target: float,
    level: float | None,
    scores: Array,
    wrong: Mask,
    plan: tuple[Array, Mask],
) -> Rule:
    """How rows are handed over for a purpose, by labelled rows."""
    if purpose == "cost":
        return Threshold(cost_threshold(scores, wrong, target))
    if purpose == "slip_rate":
        return Threshold(slip_threshold(scores, wrong, target))
    if purpose == "budget":
        return Threshold(share_threshold(scores, target)) if target < 1 else TopOfBatch(int(target))
    if level is None:
        return SelectedOfBatch(np.sort(scores[wrong]), len(scores), target)
    return Threshold(rate_threshold(scores, wrong, target, level, plan=plan))


def read_rule(purpose: str, target: float, rows: int, arrays: dict[str, Any]) -> Rule:
    """The rule that a file holds, taken out of its arrays; ValueError if it is damaged."""
    if "threshold" in arrays:
        threshold = float(arrays.pop("threshold"))
        if math.isnan(threshold):
            raise ValueError("its threshold is NaN")
        return Threshold(threshold)
    if "slips" in arrays:
        slips = arrays.pop("slips").astype(np.float64)
        if slips.ndim != 1 or len(slips) > rows or np.isnan(slips).any():
            raise ValueError("its slips are damaged")
        return SelectedOfBatch(np.sort(slips), rows, float(target))
    if purpose != "budget" or not isinstance(target, int):
        raise ValueError("it has no threshold")
    return TopOfBatch(target)
