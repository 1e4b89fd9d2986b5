"""How much more likelihoods scatter than theory says, because the labelled data are few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits
from decal.shift._calibrated import Calibrated, calibrate
from decal.shift._likelihood import Likelihood, most_likely
from decal.shift._observed import Observed

Labelled = tuple[Logits, NDArray[np.intp], Array | None]


def inflated(
    calibrated: Calibrated,
    observed: Observed,
    labelled: Labelled,
    *,
    anew: bool,
    confidence: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Factors of the statistics of all frequencies, and of one; at least 1.

    Infinite if a class has so few labels that it is often not drawn: nothing is excluded then.

    Both data sets are drawn again. Each time the model is calibrated anew (if wanted), and the
    likelihood that the frequencies found at first lose is compared with what theory says.
    """
    from scipy.stats import chi2

    z, y, w = labelled
    weights = np.ones(len(y)) if w is None else w
    unlabelled, truth = observed.likelihood, observed.maximum.frequencies
    logits = calibrated.logits(unlabelled.ratios)
    present = np.flatnonzero(calibrated.frequencies)
    given = calibrated.covariance is not None and not calibrated.covariance.any()
    statistics: list[float] = []
    singles: list[float] = []
    for _ in range(draws):
        again, drawn = (a * _counts(len(a), rng) for a in (weights, unlabelled.weights))
        kept, here = again > 0, drawn > 0
        new = calibrate(z[kept], y[kept], again[kept], None, anew)
        if given:
            new = replace(new, frequencies=calibrated.frequencies)
        if np.any(new.frequencies[present] == 0):
            statistics.append(np.inf)
            singles.append(np.inf)
            continue
        likelihood = Likelihood(new.odds(logits[here]), drawn[here])
        best = most_likely(likelihood).value
        k = int(rng.choice(present))
        rest = most_likely(likelihood.without(k, float(truth[k]))).value
        statistics.append(2 * (best - float(likelihood.at(truth[None])[0])))
        singles.append(2 * (best - rest))

    def inflation(found: list[float], freedom: int) -> float:
        quantile = np.quantile(found, confidence, method="higher")
        return max(float(quantile / chi2.ppf(confidence, max(freedom, 1))), 1.0)

    return inflation(statistics, calibrated.freedom), inflation(singles, 1)


def _counts(n: int, rng: np.random.Generator) -> Array:
    """How often each of n rows is drawn, in n draws."""
    return rng.multinomial(n, np.full(n, 1 / n)).astype(np.float64)
