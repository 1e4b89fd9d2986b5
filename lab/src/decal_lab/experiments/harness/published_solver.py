"""The published solver, to compare with: SLSQP for every endpoint, and for every row's entropies.

The paper's code hands each endpoint of each class to SciPy's SLSQP, starts it at no shift, and
takes the result without asking whether the solver succeeded. On confident logits the likelihood is
flat at the start, the first step goes far out, and some endpoints come back as 1e31. The entropies
of a box are found in the same way, one row at a time.

Differs from the published code in: there is one variable, where that code has K of which all but
one are fixed to 0 (SciPy drops those before it calls the solver).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import entr, log_softmax, softmax

Array = NDArray[np.float64]

DIVERGED = 1e3
"""A larger shift, at a finite budget, is no endpoint: the solver has diverged."""


class Ratio:
    """Geometric mean of the likelihood ratios against the model, when one class is shifted."""

    def __init__(self, logits: Any, labels: Any) -> None:
        self.logits = np.asarray(logits, dtype=np.float64)
        self.labels = np.asarray(labels)
        self._model = self._mean_log_likelihood(self.logits)

    def __call__(self, k: int, shift: float) -> float:
        """The ratio when `shift` is added to the logit of class k."""
        moved = self.logits.copy()
        moved[:, k] += shift
        return float(np.exp(self._mean_log_likelihood(moved) - self._model))

    def _mean_log_likelihood(self, logits: Array) -> float:
        rows = np.arange(len(logits))
        return float(log_softmax(logits, axis=1)[rows, self.labels].mean())


def endpoints(ratio: Ratio, alphas: Sequence[float]) -> Array:
    """(A, 2, K) least and greatest shift of each class as the solver returns them, unchecked."""
    K = ratio.logits.shape[1]
    found = np.empty((len(alphas), 2, K))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for i, alpha in enumerate(alphas):
            for k in range(K):
                for side, sign in enumerate((1.0, -1.0)):

                    def slack(t: Array, k: int = k, alpha: float = alpha) -> float:
                        return ratio(k, t[0]) - alpha

                    def aim(t: Array, sign: float = sign) -> float:
                        return float(sign * t[0])

                    solved = minimize(
                        aim,
                        [0.0],
                        method="SLSQP",
                        constraints=[{"type": "ineq", "fun": slack}],
                    )
                    found[i, side, k] = solved.x[0]
    return found


def reached(ratio: Ratio, found: Array) -> Array:
    """(A, 2, K) the likelihood ratio at each endpoint, which is alpha if the solver succeeded."""
    return np.array([[[ratio(k, t) for k, t in enumerate(row)] for row in pair] for pair in found])


def moved_predictions(logits: Any, found: Array) -> Array:
    """(n, M, K) predictions of all shifted models: every class, both endpoints, all alphas given.

    The published set at alpha consists of the models of this and of every larger alpha.
    """
    z = np.asarray(logits, dtype=np.float64)
    K = z.shape[1]
    moved = np.empty((len(z), found.size, K))
    for m, (k, t) in enumerate((k, t) for pair in found for row in pair for k, t in enumerate(row)):
        shifted = z.copy()
        shifted[:, k] += t
        moved[:, m] = softmax(shifted, axis=1)
    return moved


def entropy_difference(models: Array) -> Array:
    """(n,) upper minus lower entropy in bits of the box around each row's models, by SLSQP.

    Parameters
    ----------
    models : (n, M, K) array
        Predictions. The solver starts from their mean.
    """
    lower, upper, middle = models.min(axis=1), models.max(axis=1), models.mean(axis=1)
    adds_up: Any = {"type": "eq", "fun": lambda x: x.sum() - 1}
    found = np.empty(len(models))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for row, (lo, hi, start) in enumerate(zip(lower, upper, middle, strict=True)):
            bounds = list(zip(lo, hi, strict=True))
            greatest = minimize(
                _minus_bits, start, method="SLSQP", bounds=bounds, constraints=adds_up
            )
            least = minimize(_bits, start, method="SLSQP", bounds=bounds, constraints=adds_up)
            found[row] = -greatest.fun - least.fun
    return found


def _bits(x: Array) -> float:
    return float(entr(x / x.sum()).sum() / np.log(2))


def _minus_bits(x: Array) -> float:
    return -_bits(x)
