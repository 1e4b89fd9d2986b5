"""Coverage, efficiency, AUROC, calibration error, and the error rate of the rows that are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decal._base.data_frames import class_columns, is_frame, require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.row_checks import (
    check_class_names,
    check_labels,
    check_losses,
    check_probabilities,
    check_scores,
)
from decal._base.settings import check_count
from decal.credal import CredalSet
from decal.grids import CredalMaps

__all__ = [
    "RiskCoverage",
    "aurc",
    "auroc",
    "calibration_gaps",
    "coverage",
    "efficiency",
    "expected_calibration_error",
    "risk_coverage",
]


def coverage(credal: CredalSet | CredalMaps, distributions: Any, *, atol: float = 5e-4) -> float:
    """Share of inputs whose true distribution lies in their credal set.

    Distributions (n, K) are for instance the shares of human annotators' labels. `atol` is a
    tolerance on every bound: the published numbers round bounds to three decimals. Of
    `decal.CredalMaps`, distributions have the shape of their logits.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.6], [0.1, 0.6]], [[0.4, 0.9], [0.4, 0.9]])
    >>> decal.metrics.coverage(c, [[0.3, 0.7], [0.5, 0.5]])
    0.5
    """
    _require_inputs(credal)
    if isinstance(credal, CredalMaps):
        inside = credal.flat.contains(credal.in_rows(distributions, "distributions"), atol=atol)
    else:
        inside = credal.contains(distributions, atol=atol)
    return float(inside.mean())


def efficiency(credal: CredalSet | CredalMaps, *, empty: str = "raise") -> float:
    """One minus the mean width of all intervals: 1 for points, 0 when nothing is excluded.

    Of inputs whose bounds no distribution satisfies, `empty="raise"` names the first, and "nan"
    leaves them out; NaN if no others are left.
    """
    _require_inputs(credal)
    credal = credal.flat if isinstance(credal, CredalMaps) else credal
    sets = credal.with_members(empty) if isinstance(credal, CredalSet) else credal
    return 1.0 - float(np.mean(sets.upper - sets.lower)) if len(sets) else np.nan


def _require_inputs(credal: CredalSet | CredalMaps) -> None:
    if not len(credal):
        raise InputError("credal", "hold at least one input", "none")


def auroc(in_scores: Any, out_scores: Any) -> float:
    """Probability that a random outlier scores higher than a random inlier; ties count half.

    The Mann-Whitney statistic, O(n log n), of the uncertainty of in-distribution and of
    out-of-distribution inputs, or of right and of wrong predictions: two vectors, perhaps of
    different lengths. A label and a score for every input are refused.

    Examples
    --------
    >>> import decal
    >>> decal.metrics.auroc([0.1, 0.2], [0.2, 0.3])
    0.875
    """
    inside, outside = check_scores(in_scores, "in_scores"), check_scores(out_scores, "out_scores")
    _require_no_labels(in_scores=inside, out_scores=outside)
    inside.sort()
    below = np.searchsorted(inside, outside, side="left")
    not_above = np.searchsorted(inside, outside, side="right")
    return float(np.mean(below + not_above) / (2 * len(inside)))


def _require_no_labels(**vectors: Array) -> None:
    """ValueError if one of two vectors of equal length looks like the labels of the other."""
    lengths = {len(values) for values in vectors.values()}
    if len(lengths) > 1 or min(lengths) < 10:  # fewer zeros and ones may well be scores
        return
    whole = [name for name, values in vectors.items() if (values == np.round(values)).all()]
    if len(whole) == 1 and set(np.unique(vectors[whole[0]])) == {0.0, 1.0}:
        fact = "zeros and ones alone, which look like labels"
        right = "auroc(scores[labels == 0], scores[labels == 1])"
        raise InputError(
            whole[0], "be scores", fact, f"For a label and a score per input write {right}."
        )


def expected_calibration_error(
    probabilities: Any, labels: Any, *, bins: int = 10, classes: Iterable[Any] | None = None
) -> float:
    """Mean gap between confidence and accuracy over bins of equal width of the confidence.

    Labels (n,) are integers; or names, with K `classes` in the order of the columns or a data
    frame. Bins divide (0, 1]; a confidence on an edge falls into the bin below.

    Examples
    --------
    >>> import decal
    >>> round(decal.metrics.expected_calibration_error([[0.9, 0.1], [0.7, 0.3]], [0, 1]), 3)
    0.4
    """
    gaps = calibration_gaps(probabilities, labels, bins=bins, classes=classes)
    return float(np.abs(gaps).sum() / len(probabilities))


def calibration_gaps(
    probabilities: Any, labels: Any, *, bins: int = 10, classes: Iterable[Any] | None = None
) -> Array:
    """(bins,) sums of confidence minus correctness, which add up over chunks of rows.

    The expected calibration error is the sum of their absolute values over the number of rows.
    Arguments as for `expected_calibration_error`, of one chunk.
    """
    names = None if classes is None else tuple(str(name) for name in classes)
    require_same_order(probabilities=probabilities, labels=labels)
    framed = is_frame(probabilities)
    if framed:
        probabilities, names = class_columns(probabilities, names, name="probabilities")
    p = check_probabilities(probabilities)
    names = check_class_names(names, p.shape[1])
    y = check_labels(labels, rows=len(p), classes=p.shape[1], names=names, in_table=framed)
    bins = check_count(bins, "bins")
    confidence = p.max(axis=1)
    gap = confidence - (p.argmax(axis=1) == y)
    # Not confidence * bins, which round-off lifts above the number of an edge.
    bin_of = np.searchsorted(np.arange(1, bins) / bins, confidence, side="left")
    gaps: Array = np.bincount(bin_of, gap, minlength=bins).astype(np.float64)
    return gaps


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The mean loss of what is kept, for every number of rows that may be kept.

    Attributes
    ----------
    coverage : (n,) array
        Share of rows kept: 1/n, 2/n, up to 1. Those of the lowest score are kept first.
    risk : (n,) array
        Mean loss of the rows kept; of 0/1 losses, the error rate.
    best : (n,) array
        Mean loss in the best order, which keeps the smallest losses first.
    """

    coverage: Array
    risk: Array
    best: Array

    @property
    def area(self) -> float:
        """Mean of the risk over all coverages, the AURC. Lower is better."""
        return float(self.risk.mean())

    @property
    def excess(self) -> float:
        """Area above that of the best order: 0 for a perfect score."""
        return float(self.risk.mean() - self.best.mean())


def risk_coverage(scores: Any, losses: Any) -> RiskCoverage:
    """The risk-coverage curve: keep the rows of the lowest scores, hand over the others.

    Scores (n,) are doubts, as in `auroc`. Losses (n,) are what it costs to keep a row: True or 1
    where the prediction is wrong, or any number that is not negative. The area is the mean of n
    risks (Geifman, Uziel and El-Yaniv, 2019). Rows of equal scores count as if their order were
    drawn: the mean over all their orders. O(n log n).

    Examples
    --------
    >>> import decal
    >>> curve = decal.metrics.risk_coverage([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0])
    >>> curve.risk.round(2)
    array([0.  , 0.  , 0.33, 0.25])
    >>> round(curve.area, 3), round(curve.excess, 3)
    (0.146, 0.083)
    """
    require_same_order(scores=scores, losses=losses)
    doubt = check_scores(scores, "scores")
    loss = check_losses(losses, len(doubt))
    coverage = np.arange(1, len(loss) + 1) / len(loss)
    return RiskCoverage(coverage, _risks(doubt, loss), _risks(loss, loss))


def aurc(scores: Any, losses: Any) -> float:
    """Area under `risk_coverage`: the mean error rate of what is kept. Lower is better.

    Examples
    --------
    >>> import decal
    >>> decal.metrics.aurc([0.1, 0.9], [False, True])
    0.25
    """
    return risk_coverage(scores, losses).area


def _risks(scores: Array, losses: Array) -> Array:
    """(n,) mean loss of the k rows of the lowest scores; ties in the mean over all their orders."""
    order = np.argsort(scores, kind="stable")
    s, n = scores[order], len(scores)
    total = np.concatenate([[0.0], np.cumsum(losses[order])])
    # Within rows of equal scores, the expected total grows in equal steps.
    ends = np.concatenate([[0], np.flatnonzero(s[1:] > s[:-1]) + 1, [n]])
    kept = np.arange(1, n + 1)
    risks: Array = np.interp(kept, ends, total[ends]) / kept
    return risks
