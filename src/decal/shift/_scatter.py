"""How much more likelihoods scatter because labels are few: to first order, or by a bootstrap.

Estimated from labels are the shifts b and the scale of the calibration, and the frequencies pi of
the classes. Odds are softmax(scale z + b) / pi, so that only b - log pi and the scale matter, and
of b - log pi no constant that is added to all classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decal._base.numerics import Array, Indices, Logits, row_blocks, softmax
from decal.rows import Rows
from decal.shift._calibrated import Calibrated, calibrate
from decal.shift._likelihood import Likelihood, most_likely
from decal.shift._observed import Observed

LEAST_CURVATURE = 4.0  # frequencies lie in [0, 1]: a standard deviation of at most a half
CUTOFF = 1e-10  # of pseudo-inverses: a constant added to all shifts changes nothing
BLOCK_ELEMENTS = 1 << 20  # numbers of inputs, times classes, that are looked at together


@dataclass(frozen=True, eq=False)
class Scatter:
    """How statistics of the likelihood scatter, in units of what they would with the true model."""

    variances: Array  # (K - 1,) of the squares that the statistic of all frequencies sums; >= 1
    single: Array  # (K,) of the square that is the statistic of each frequency; >= 1

    def joint(self, confidence: float) -> float:
        """Factor of the quantile of the statistic of all frequencies; at least 1.

        The sum of squares is taken for the scaled chi-square variable with its mean and variance.
        """
        from scipy.stats import chi2

        if not len(self.variances):
            return 1.0
        mean, square = self.variances.sum(), np.sum(self.variances**2)
        quantile = square / mean * chi2.ppf(confidence, mean**2 / square)
        return max(float(quantile / chi2.ppf(confidence, len(self.variances))), 1.0)


def scatter(calibrated: Calibrated, observed: Observed) -> Scatter:
    """How much more statistics scatter because few labels were there.

    Errors of what the labels tell, of covariance V, move the likelihood's gradient by C V C'. In
    units of its curvature H the statistic is then a sum of squares with variances
    1 + eig(H^-1 C V C'), instead of 1. H has a least curvature: inputs may be few.
    """
    present, V = np.flatnonzero(calibrated.frequencies), calibrated.covariance
    V = from_inputs(calibrated, observed) if V is None else V
    parameters = np.append(present, len(calibrated.frequencies))
    H, C = _sensitivity(calibrated, observed, present)
    basis = np.linalg.svd(np.ones((1, len(present))))[2][1:]  # (K - 1, K): sums of zero
    inverse = np.linalg.inv(basis @ H @ basis.T)
    inverse = (inverse + inverse.T) / 2
    spread = basis.T @ inverse  # (K, K - 1)
    D = basis @ C
    moved = D @ V[np.ix_(parameters, parameters)] @ D.T
    root = np.linalg.cholesky(inverse)
    single = np.ones(len(calibrated.frequencies))
    if len(basis):
        more = np.sum((spread @ moved) * spread, axis=1) / np.sum(spread * basis.T, axis=1)
        single[present] += np.maximum(more, 0.0)
    return Scatter(1 + np.maximum(np.linalg.eigvalsh(root.T @ moved @ root), 0.0), single)


def _sensitivity(
    calibrated: Calibrated, observed: Observed, present: Indices
) -> tuple[Array, Array]:
    """The curvature H = sum b b', and (K, K + 1) the gradient's slope C in the parameters."""
    likelihood, v = observed.likelihood, observed.smoothed[present]
    K = len(present)
    H, C = LEAST_CURVATURE * np.eye(K), np.zeros((K, K + 1))
    for rows in row_blocks(len(likelihood.weights), K, BLOCK_ELEMENTS):
        a, z = likelihood.ratios[rows][:, present], calibrated.logits(likelihood.ratios[rows])
        b = a / (a @ v)[:, None]
        weighted, p, z = b * likelihood.weights[rows, None], b * v, _finite(z[:, present])
        H += weighted.T @ b
        C[:, :K] += np.diag(weighted.sum(axis=0)) - weighted.T @ p
        C[:, K] += np.sum(weighted * (z - np.sum(p * z, axis=1, keepdims=True)), axis=0)
    return H, C


# The covariance V of shifts minus log-frequencies, and of the scale: (K + 1, K + 1), with zeros for
# classes without labels


def from_labels(calibrated: Calibrated, labelled: Rows) -> Array:
    """V of a model that was calibrated on these rows: the sandwich, right if the model is not.

    A row moves the parameters by its score u, times the inverse of the information J, and the
    log-frequencies by e = (its class - pi) / (n pi). V is the sum of the squares of J^-1 u - e.
    """
    labelled = labelled.counted()
    z, y = labelled.logits, labelled.labels
    w = np.ones(len(y)) if labelled.weights is None else labelled.weights
    present = np.flatnonzero(calibrated.frequencies)
    K, pi = len(present), calibrated.frequencies[present]
    J, S, by_class = np.zeros((K + 1, K + 1)), np.zeros((K + 1, K + 1)), np.zeros((K + 1, K))
    for rows in row_blocks(len(y), K, BLOCK_ELEMENTS):
        score = calibrated.scale * z[rows][:, present] + calibrated.center[present]
        r = softmax(score)
        known = _finite(z[rows][:, present].astype(np.float64))
        is_class = (y[rows, None] == present).astype(np.float64)
        u = np.column_stack([is_class - r, np.sum((is_class - r) * known, axis=1)])
        J += _information(r, known, w[rows])
        S += (u * w[rows, None]).T @ u
        by_class += (u * w[rows, None]).T @ is_class
    inverse = np.linalg.pinv(J, rcond=CUTOFF, hermitian=True)
    both = inverse @ (by_class / (calibrated.weight * pi))  # the scores of all rows sum to zero
    V = inverse @ S @ inverse
    V[:, :K] -= both
    V[:K] -= both.T
    V[:K, :K] += (np.diag(1 / pi) - 1) / calibrated.weight
    return _for_all_classes(V, calibrated, present)


def from_counts(calibrated: Calibrated) -> Array:
    """V of a model that was taken as it is, where the classes of the labels were only counted."""
    present = np.flatnonzero(calibrated.frequencies)
    V = np.zeros((len(present) + 1, len(present) + 1))
    V[:-1, :-1] = (np.diag(1 / calibrated.frequencies[present]) - 1) / calibrated.weight
    return _for_all_classes(V, calibrated, present)


def from_inputs(calibrated: Calibrated, observed: Observed) -> Array:
    """V where the rows that calibrated are not at hand: that of a right model, from other inputs.

    The scores of a right model have the covariance J, so that V = J^-1 - diag(1 / pi) / n. Weighted
    by <a, pi> / <a, v>, inputs from where the frequencies are v tell J where they are pi.
    """
    present = np.flatnonzero(calibrated.frequencies)
    likelihood, v = observed.likelihood, observed.smoothed[present]
    K, pi = len(present), calibrated.frequencies[present]
    J, total = np.zeros((K + 1, K + 1)), 0.0
    for rows in row_blocks(len(likelihood.weights), K, BLOCK_ELEMENTS):
        a, z = likelihood.ratios[rows][:, present], calibrated.logits(likelihood.ratios[rows])
        before = a @ pi
        w = likelihood.weights[rows] * before / (a @ v)
        J += _information(a * pi / before[:, None], _finite(z[:, present]), w)
        total += float(w.sum())
    J *= calibrated.weight / total
    if calibrated.scale == 1:  # it was not sought
        J[K] = J[:, K] = 0.0
    V = np.asarray(np.linalg.pinv(J, rcond=CUTOFF, hermitian=True), dtype=np.float64)
    V[:K, :K] -= np.diag(1 / pi) / calibrated.weight
    return _for_all_classes(V, calibrated, present)


def _information(r: Array, z: Array, w: Array) -> Array:
    """(K + 1, K + 1) that rows hold on shifts and scale, from their probabilities and logits."""
    K = r.shape[1]
    J = np.empty((K + 1, K + 1))
    away = z - np.sum(r * z, axis=1, keepdims=True)
    J[:K, :K] = np.diag(w @ r) - (r * w[:, None]).T @ r
    J[:K, K] = J[K, :K] = w @ (r * away)
    J[K, K] = w @ np.sum(r * away**2, axis=1)
    return J


def _for_all_classes(V: Array, calibrated: Calibrated, present: Indices) -> Array:
    K = len(calibrated.frequencies)
    result = np.zeros((K + 1, K + 1))
    parameters = np.append(present, K)
    result[np.ix_(parameters, parameters)] = V
    return result


def _finite(z: Logits) -> Array:
    """Logits with 0 where a class is masked, which weighs nothing there."""
    return np.where(np.isfinite(z), z, 0.0)


# By drawing again


def inflated(
    calibrated: Calibrated,
    observed: Observed,
    labelled: Rows,
    *,
    anew: bool,
    confidence: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Factors of the statistics of all frequencies, and of one; at least 1.

    Both data sets are drawn again, and what the frequencies found at first lose is compared with
    theory. Infinite if a class has so few labels that it is often not drawn.
    """
    from scipy.stats import chi2

    weights = np.ones(len(labelled)) if labelled.weights is None else labelled.weights
    unlabelled, truth = observed.likelihood, observed.maximum.frequencies
    logits = calibrated.logits(unlabelled.ratios)
    present = np.flatnonzero(calibrated.frequencies)
    given = calibrated.covariance is not None and not calibrated.covariance.any()

    def redrawn(weights: Array) -> Array:
        n = len(weights)
        return np.asarray(weights * rng.multinomial(n, np.full(n, 1 / n)))

    found = np.full((draws, 2), np.inf)
    for statistics in found:
        again, drawn = redrawn(weights), redrawn(unlabelled.weights)
        kept, here = again > 0, drawn > 0
        new = calibrate(Rows(labelled.logits[kept], labelled.labels[kept], again[kept]), anew)
        if given:
            new = replace(new, frequencies=calibrated.frequencies)
        if np.any(new.frequencies[present] == 0):
            continue
        likelihood = Likelihood(new.odds(logits[here]), drawn[here])
        best = most_likely(likelihood).value
        k = int(rng.choice(present))
        rest = most_likely(likelihood.without(k, float(truth[k]))).value
        statistics[:] = 2 * (best - float(likelihood.at(truth[None])[0])), 2 * (best - rest)
    quantiles = np.quantile(found, confidence, axis=0, method="higher")
    joint, single = quantiles / chi2.ppf(confidence, [max(calibrated.freedom, 1), 1])
    return max(float(joint), 1.0), max(float(single), 1.0)
