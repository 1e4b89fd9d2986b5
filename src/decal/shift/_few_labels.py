"""How much more likelihoods scatter because the calibration rests on few labels: by linearising."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits
from decal.shift._bootstrap import Labelled
from decal.shift._calibrated import Calibrated
from decal.shift._observed import Observed

RIDGE = 1e-9
"""Relative to the mean curvature: classes that the inputs cannot tell apart leave none."""

CUTOFF = 1e-10
"""Of pseudo-inverses: a constant added to all shifts changes nothing."""


def linearised(
    calibrated: Calibrated, observed: Observed, labelled: Labelled, *, confidence: float
) -> tuple[float, float]:
    """Factors of the statistics of all frequencies, and of one; at least 1.

    The calibration's parameters have the covariance V of their influence functions (the sandwich),
    which moves the gradient of the likelihood by C V C'. In units of the curvature H the
    statistic is then a sum of squares with variances 1 + eig(H^-1 C V C'), instead of 1. Its
    quantile is that of the scaled chi-square distribution with the same mean and variance.

    Much faster than drawing the data again, and without chance; right for many labels.
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2

    present = np.flatnonzero(calibrated.frequencies)
    if len(present) < 2:
        return 1.0, 1.0
    H, C = _sensitivity(calibrated, observed, present)
    C_influence = C @ _influence(calibrated, labelled, present).T  # (K, n)
    basis = np.linalg.svd(np.ones((1, len(present))))[2][1:]  # (K - 1, K): sums of zero
    D = basis @ C_influence
    H = basis @ H @ basis.T
    H += RIDGE * np.trace(H) / len(H) * np.eye(len(H))
    inverse = np.linalg.inv(H)
    inverse = (inverse + inverse.T) / 2
    root = np.linalg.cholesky(inverse)
    variances = 1 + np.linalg.svd(root.T @ D, compute_uv=False) ** 2
    variances = np.concatenate([variances, np.ones(max(len(H) - len(variances), 0))])
    mean, square = variances.sum(), np.sum(variances**2)
    joint = square / mean * chi2.ppf(confidence, mean**2 / square) / chi2.ppf(confidence, len(H))
    spread = basis.T @ inverse  # (K, K - 1)
    single = 1 + np.sum((spread @ D) ** 2, axis=1) / np.sum(spread * basis.T, axis=1)

    def excess(quantile: float) -> float:
        return float(np.mean(chi2.sf(quantile / single, 1)) - (1 - confidence))

    usual = float(chi2.ppf(confidence, 1))
    one = brentq(excess, usual, usual * float(single.max()) * (1 + 1e-9)) / usual
    return max(float(joint), 1.0), max(float(one), 1.0)


def _sensitivity(
    calibrated: Calibrated, observed: Observed, present: NDArray[np.intp]
) -> tuple[Array, Array]:
    """The curvature H = sum b b', and (K, K + 1) the gradient's slope C in the parameters."""
    likelihood = observed.likelihood
    v, w = observed.smoothed[present], likelihood.weights
    a = likelihood.ratios[:, present]
    z = _finite(calibrated.logits(likelihood.ratios)[:, present])
    b = a / (a @ v)[:, None]
    weighted, p = b * w[:, None], b * v
    by_shift = np.diag(weighted.sum(axis=0)) - weighted.T @ p
    by_scale = np.sum(weighted * (z - np.sum(p * z, axis=1, keepdims=True)), axis=0)
    return weighted.T @ b, np.column_stack([by_shift, by_scale])


def _influence(calibrated: Calibrated, labelled: Labelled, present: NDArray[np.intp]) -> Array:
    """(n, K + 1) how each labelled row moved shifts minus log-frequencies, and the scale.

    Rows of weight w stand for w rows: they are divided by its root, so that V is a sum of squares.
    """
    logits, y, weights = labelled
    w = np.ones(len(y)) if weights is None else weights
    keep = w > 0
    z, y, w = _finite(logits[keep][:, present].astype(np.float64)), y[keep], w[keep]
    masked = np.isneginf(logits[keep][:, present])
    K = len(present)
    score = np.where(masked, -np.inf, calibrated.scale * z + calibrated.center[present])
    r = np.exp(score - score.max(axis=1, keepdims=True))
    r /= r.sum(axis=1, keepdims=True)
    is_class = (y[:, None] == present).astype(np.float64)
    missed = is_class - r
    u = np.column_stack([missed, np.sum(missed * z, axis=1)])
    rz = np.sum(r * z, axis=1, keepdims=True)
    J = np.empty((K + 1, K + 1))
    J[:K, :K] = np.diag(w @ r) - (r * w[:, None]).T @ r
    J[:K, K] = J[K, :K] = w @ (r * (z - rz))
    J[K, K] = w @ np.sum(r * (z - rz) ** 2, axis=1)
    moved = u @ np.linalg.pinv(J, rcond=CUTOFF, hermitian=True)
    pi = calibrated.frequencies[present]
    moved[:, :K] -= (is_class - pi) / (w.sum() * pi)
    return np.asarray(moved * np.sqrt(w)[:, None])


def _finite(z: Logits) -> Array:
    """Logits with 0 where a class is masked, which weighs nothing there."""
    return np.where(np.isfinite(z), z, 0.0)
