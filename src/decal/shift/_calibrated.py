"""The model where it was calibrated: what it says of inputs apart from class frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from decal._base.errors import AnswerWarning, InputError, listing
from decal._base.numerics import Array, Logits
from decal.decalibrator import Decalibrator
from decal.directions import best_model
from decal.rows import Rows

VANISHING = 1e-9  # of the largest covariance: so far below 0 round-off may bring a variance


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The model where it was calibrated."""

    center: Array  # (K,) shifts that calibrate the logits; -inf for classes without labels
    scale: float  # factor that calibrates the logits
    frequencies: Array  # (K,) of the classes, there
    weight: float  # number of labelled examples
    names: tuple[str, ...] | None
    covariance: Array | None = None
    """(K + 1, K + 1) of the errors of center minus log-frequencies, and of the scale, that few
    labels cause; see `_scatter`. None if the labelled rows were not at hand."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names, or numbers."""
        return self.names or tuple(map(str, range(len(self.frequencies))))

    @property
    def freedom(self) -> int:
        """How many frequencies can be chosen: one less than the classes that occur."""
        return int(np.count_nonzero(self.frequencies)) - 1

    def equals(self, other: Calibrated) -> bool:
        """Whether both say the same of all inputs."""
        same = np.array_equal(self.center, other.center) and self.scale == other.scale
        return same and np.array_equal(self.frequencies, other.frequencies)

    def require_intact(self) -> None:
        """ValueError if this cannot come from a calibration."""
        if self.center.shape != self.frequencies.shape or not np.all(self.center < np.inf):
            raise ValueError("its center is damaged")
        if not (0 < self.scale < np.inf and 0 < self.weight < np.inf):
            raise ValueError("its scale or weight is damaged")
        V, K = self.covariance, len(self.frequencies)
        if V is None:
            return
        good = V.shape == (K + 1, K + 1) and np.isfinite(V).all() and np.allclose(V, V.T)
        if not good or (np.diag(V) < -VANISHING * np.abs(V).max()).any():
            raise ValueError("its covariance is damaged")

    def warn_of_absent(self) -> None:
        """Warn of classes without labels."""
        absent = np.flatnonzero(self.frequencies == 0)
        if len(absent):
            AnswerWarning.warn(
                f"no labelled example is of class {listing([self.classes[k] for k in absent])}: "
                "what its inputs look like is not known, and it is taken not to occur"
            )

    def logits(self, odds: Array) -> Array:
        """(n, K) logits, up to a constant per row, that have these odds."""
        known = np.isfinite(self.center)
        with np.errstate(divide="ignore"):
            z = np.log(odds * self.frequencies) - np.where(known, self.center, 0.0)
        return np.where(known, z / self.scale, -np.inf)

    def odds(self, logits: Logits) -> Array:
        """(n, K) probabilities over the frequencies supposed, up to a factor per input."""
        occurs = (self.frequencies > 0) & np.isfinite(self.center)
        shift = np.zeros(len(occurs))
        shift[occurs] = self.center[occurs] - np.log(self.frequencies[occurs])
        z = np.where(occurs, logits.astype(np.float64) * self.scale + shift, -np.inf)
        top = z.max(axis=1, keepdims=True)
        if np.isneginf(top).any():
            row = int(np.flatnonzero(np.isneginf(top))[0])
            rule = "leave a class that was seen when the model was calibrated"
            raise InputError("logits", rule, f"row {row}, in which all of them are masked")
        return np.asarray(np.exp(z - top))


def calibrate(rows: Rows, best: bool) -> Calibrated:
    """The model calibrated by the best shifts and scale, or as it is; frequencies of the labels."""
    K = rows.shape[1]
    counts = np.bincount(rows.labels, rows.weights, minlength=K).astype(np.float64)
    center, scale = np.zeros(K), 1.0
    if best:
        reference = best_model(rows.logits, rows.labels, rows.weights, scale=True)
        center, scale = reference.center, reference.scale
    total = float(counts.sum())
    return Calibrated(center, scale, counts / total, total, rows.classes)


def is_calibrated(model: Decalibrator) -> bool:
    """Whether the reference of a model has the best shifts and scale, as `calibrate` finds them."""
    return model.reference == "best" and any(d.moves_scale for d in model.directions)


def check_sums_to_one(frequencies: Any) -> Array:
    """Frequencies of all classes."""
    values = np.asarray(frequencies, dtype=np.float64)
    good = values.ndim == 1 and np.all(values >= 0) and abs(float(values.sum()) - 1) <= 1e-6
    if not good:
        raise InputError("frequencies", "be non-negative numbers that sum to one, one per class")
    return np.asarray(values / values.sum())
