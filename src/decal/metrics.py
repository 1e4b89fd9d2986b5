"""How good credal predictions are: coverage, efficiency, AUROC, calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np

from decal._base.checks import check_count, check_labels, check_probabilities, check_scores
from decal._base.numerics import Array
from decal.credal import CredalSet

__all__ = ["auroc", "calibration_gaps", "coverage", "efficiency", "expected_calibration_error"]


def coverage(credal: CredalSet, distributions: Any, *, atol: float = 5e-4) -> float:
    """Share of inputs whose true distribution lies in their credal set.

    Parameters
    ----------
    credal : CredalSet
        n inputs, K classes.
    distributions : (n, K) array
        True distributions, for instance the shares of human annotators' labels.
    atol : float
        Tolerance on every bound. The published numbers round bounds to three decimals.

    See Also
    --------
    efficiency : What coverage is traded for.
    decal.selection.alpha_for_coverage : The alpha that reaches a wanted coverage.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.6], [0.1, 0.6]], [[0.4, 0.9], [0.4, 0.9]])
    >>> decal.metrics.coverage(c, [[0.3, 0.7], [0.5, 0.5]])
    0.5
    """
    return float(credal.contains(distributions, atol=atol).mean())


def efficiency(credal: CredalSet) -> float:
    """One minus the mean width of all intervals: 1 for points, 0 when nothing is excluded.

    Parameters
    ----------
    credal : CredalSet
        n inputs, K classes.

    See Also
    --------
    coverage : What efficiency is traded for.
    decal.selection.alpha_for_efficiency : The alpha that reaches a wanted efficiency.
    """
    return 1.0 - float(np.mean(credal.upper - credal.lower))


def auroc(in_scores: Any, out_scores: Any) -> float:
    """Probability that a random outlier scores higher than a random inlier; ties count half.

    Parameters
    ----------
    in_scores, out_scores : vectors
        Uncertainty of in-distribution and of out-of-distribution inputs.

    Notes
    -----
    The Mann-Whitney statistic, O(n log n).

    Examples
    --------
    >>> import decal
    >>> decal.metrics.auroc([0.1, 0.2], [0.2, 0.3])
    0.875
    """
    inside, outside = check_scores(in_scores, "in_scores"), check_scores(out_scores, "out_scores")
    inside.sort()
    below = np.searchsorted(inside, outside, side="left")
    not_above = np.searchsorted(inside, outside, side="right")
    return float(np.mean(below + not_above) / (2 * len(inside)))


def expected_calibration_error(probabilities: Any, labels: Any, *, bins: int = 10) -> float:
    """Mean gap between confidence and accuracy over bins of equal width of the confidence.

    Parameters
    ----------
    probabilities : (n, K) array
        Predictions.
    labels : (n,) integers
        True classes.
    bins : int
        Number of bins of (0, 1]; a confidence on an edge falls into the bin below.

    See Also
    --------
    calibration_gaps : The same for rows that arrive in chunks.

    Examples
    --------
    >>> import decal
    >>> round(decal.metrics.expected_calibration_error([[0.9, 0.1], [0.7, 0.3]], [0, 1]), 3)
    0.4
    """
    gaps = calibration_gaps(probabilities, labels, bins=bins)
    return float(np.abs(gaps).sum() / len(probabilities))


def calibration_gaps(probabilities: Any, labels: Any, *, bins: int = 10) -> Array:
    """(bins,) sums of confidence minus correctness, which add up over chunks of rows.

    The expected calibration error is the sum of their absolute values over the number of rows.

    Parameters
    ----------
    probabilities : (n, K) array
        Predictions of one chunk.
    labels : (n,) integers
        Their true classes.
    bins : int
        The same number for all chunks.

    See Also
    --------
    expected_calibration_error : The error itself, for rows that fit into memory.
    """
    p = check_probabilities(probabilities)
    y = check_labels(labels, rows=len(p), classes=p.shape[1])
    bins = check_count(bins, "bins")
    confidence = p.max(axis=1)
    gap = confidence - (p.argmax(axis=1) == y)
    bin_of = np.clip(np.ceil(confidence * bins).astype(np.intp) - 1, 0, bins - 1)
    gaps: Array = np.bincount(bin_of, gap, minlength=bins).astype(np.float64)
    return gaps
