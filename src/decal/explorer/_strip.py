"""The strip: some telling inputs at every level of caution, and all inputs as dots, as plain data.

More caution only adds possible classes. So a class needs one number, the first level at which it is
possible; and of dots in the order in which they stop being filed alone, a level needs their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from decal._base.numerics import Array, Indices, Mask
from decal.credal import IntervalCredalSet

OWN, LEVELS = 16, 37
"""The number of the model's own level, and how many there are."""

SHOWN = 3
"""Classes of an example whose ranges are drawn."""

CHANCE = 0.05
"""Two ways to choose inputs tie if chance makes such a difference more often than this."""


def strip_alphas(alpha: float) -> list[float]:
    """From 1 to five times alpha's budget. Widths grow as roots of budgets: they step evenly."""
    budget = -math.log(alpha)
    return [math.exp(-budget * (j / OWN) ** 2) if j != OWN else alpha for j in range(LEVELS)]


def telling_rows(
    credal: IntervalCredalSet, says: Array, labels: Indices | None = None
) -> list[int]:
    """Up to six inputs that tell what sets are good for, by the model's probabilities (n, K).

    One sure and right; the surest errors with two possible classes, the true one among them, of
    three pairs; the one with most possible classes; and the surest of which the true one is missed.
    Without labels (n,), the surest of each kind.
    """
    kept = credal.decide(credal.rule)
    size, hit, wrong = kept.sum(axis=1), np.ones(len(says), bool), np.ones(len(says), bool)
    if labels is not None:
        hit, wrong = kept[np.arange(len(says)), labels], says.argmax(axis=1) != labels
    surest = np.argsort(-says.max(axis=1), kind="stable")
    pairs: dict[tuple[int, ...], int] = {}
    for row in surest[((size == 2) & hit & wrong)[surest]].tolist():
        pairs.setdefault(tuple(np.flatnonzero(kept[row]).tolist()), row)
    sure = np.argmax(np.where((size == 1) & hit, credal.lower.max(axis=1), -1.0))
    hopeless = np.argmax(np.where(hit, size, 0))
    missed = surest[~hit[surest]][:1].tolist()
    return list(dict.fromkeys([int(sure), *list(pairs.values())[:3], int(hopeless), *missed]))


def strip_data(
    sets: Iterable[IntervalCredalSet],
    says: Array,
    labels: Indices | None = None,
    *,
    own: int,
    rows: Sequence[int],
    texts: Sequence[str],
    meanings: Sequence[str] | None = None,
    promise: str = "",
    noun: str = "text",
) -> dict[str, Any]:
    """What static/strip.js draws.

    An input is filed alone where one class is possible. By confidence, as many are filed: those of
    which the model is surest, as what it predicts.

    Parameters
    ----------
    sets : iterable of credal sets
        Of all n inputs, at each level from the least cautious on; they have classes and a point.
    says : (n, K) array
        The model's own probabilities.
    labels : (n,) array of int, optional
        True classes. Without them nothing is wrong, missed or compared.
    own : int
        The level that the promise is about, at which the strip opens.
    rows : sequence of int
        The inputs shown one by one, as from `telling_rows`.
    texts, meanings : sequences of n str
        What inputs are, and what they mean to those who do not read them.
    promise, noun : str
        What holds at the model's own level, such as "misses at most 1 in 10"; and what an input is.
    """
    kept, ranges = [], []
    for level, credal in enumerate(sets):
        kept.append(credal.decide(credal.rule))
        ranges.append((credal.lower[list(rows)], credal.upper[list(rows)]))
        if level == own:
            point, classes = np.asarray(credal.point), credal.classes
    first = len(kept) - np.sum(kept, axis=0)  # (n, K) level from which a class is possible
    alone = np.sort(first, axis=1)[:, 1]  # (n,) level from which another one is
    order = np.lexsort((-point.max(axis=1), -alone))
    place = np.argsort(order)
    filed = [alone > level for level in range(len(kept))]
    lower, upper = (np.stack(ends, axis=-1) for ends in zip(*ranges, strict=True))
    truth = [None] * len(says) if labels is None else labels.tolist()
    data: dict[str, Any] = {
        "noun": noun,
        "promise": promise,
        "own": own,
        "count": len(says),
        "filed": _counts(filed),
        "dots": "0" * len(says),
        "examples": [
            {
                "text": texts[row],
                "meaning": "" if meanings is None else meanings[row],
                "dot": int(place[row]),
                **_example(says[row], first[row], low, high, classes, truth[row], own),
            }
            for row, low, high in zip(rows, lower, upper, strict=True)
        ],
    }
    if labels is None:
        return data
    wrong = first.argmin(axis=1) != labels
    errors = [wrong & some for some in filed]
    plain, recalibrated = (_errors_by_confidence(p, labels, filed) for p in (says, point))
    missed = [first[np.arange(len(says)), labels] > level for level in range(len(kept))]
    return data | {
        "dots": "".join("01"[int(w)] for w in wrong[order]),
        "wrong": _counts(errors),
        "missed": _counts(missed),
        "confidence": _counts(plain),
        "recalibrated": _counts(recalibrated),
        "compared": [_compared(*both) for both in zip(errors, plain, strict=True)],
    }


def _counts(masks: list[Mask]) -> list[int]:
    return [int(mask.sum()) for mask in masks]


def _errors_by_confidence(p: Array, labels: Indices, filed: list[Mask]) -> list[Mask]:
    """For each level, (n,) the errors among as many inputs, those of greatest confidence."""
    rank = np.argsort(np.argsort(-p.max(axis=1), kind="stable"))
    wrong = p.argmax(axis=1) != labels
    return [wrong & (rank < some.sum()) for some in filed]


def _compared(ours: Mask, theirs: Mask) -> str:
    """Whether ours are fewer errors, more, or a tie by an exact sign test of those not shared."""
    only, others = int(np.sum(ours & ~theirs)), int(np.sum(theirs & ~ours))
    if only == others or binomtest(only, only + others).pvalue >= CHANCE:
        return "tie"
    return "fewer" if only < others else "more"


def _example(
    says: Array, first: Indices, lower: Array, upper: Array, classes: Any, label: Any, own: int
) -> dict[str, Any]:
    """One input: the classes to draw with their ranges (levels,), and when others are possible."""
    told = [says.argmax()] if label is None else [label, says.argmax()]
    shown = list(dict.fromkeys([*told, *np.argsort(-upper[:, own])]))[:SHOWN]
    bars = [
        {
            "name": str(classes[k]),
            "says": round(float(says[k]), 4),
            "from": int(first[k]),
            "lower": np.round(lower[k], 3).tolist(),
            "upper": np.round(upper[k], 3).tolist(),
        }
        for k in sorted(shown, key=lambda k: -says[k])
    ]
    others = sorted(np.delete(first, shown).tolist())
    return {"true": None if label is None else str(classes[label]), "bars": bars, "others": others}
