"""What a LabelShift has learnt: the calibrated model, and unlabelled inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from decal._base.errors import NotFittedError
from decal._base.numerics import Array, Logits
from decal._base.row_checks import check_class_names, check_weights
from decal.io.model_files import Arrays
from decal.rows import Rows
from decal.shift._calibrated import Calibrated, check_sums_to_one
from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed
from decal.shift._scatter import Scatter, from_counts, scatter
from decal.shift._what_if import adapted


@dataclass(frozen=True, eq=False)
class FrequencyEvidence:
    """What data say about class frequencies: never changed, replaced whole."""

    calibrated: Calibrated
    labelled: Rows | None = None  # what it was calibrated on; model files do not hold it
    observed: Observed | None = None
    pending: tuple[Likelihood, ...] = ()  # further inputs, which nobody has asked about yet
    bootstrapped: tuple[float, float] | None = None
    """By how much larger statistics of all frequencies, and of one, are than theory says, if a
    bootstrap has found it."""

    ARRAYS: ClassVar = ("center", "frequencies", "covariance", "ratios", "input_weights")
    """What a file may hold."""

    def __add__(self, other: FrequencyEvidence) -> FrequencyEvidence:
        """With the inputs of evidence of equal calibration, which undo what a bootstrap found."""
        pending = list(self.pending)
        for piece in other.pieces:
            pending.append(piece)
            # Pieces double in size, so that N inputs in small pieces are copied log N times each.
            while len(pending) > 1 and len(pending[-1].weights) >= len(pending[-2].weights):
                pending[-2:] = [Likelihood.joined(pending[-2:])]
        return replace(self, pending=tuple(pending), bootstrapped=None) if other.pieces else self

    @property
    def pieces(self) -> list[Likelihood]:
        """Of all inputs, as they came."""
        before = [] if self.observed is None else [self.observed.likelihood]
        return [*before, *self.pending]

    @property
    def gathered(self) -> FrequencyEvidence:
        """With all inputs in one likelihood, none pending."""
        if not self.pending:
            return self
        return replace(self, observed=Observed(Likelihood.joined(self.pieces)), pending=())

    @property
    def inputs(self) -> float:
        """How many were observed."""
        return sum(piece.total for piece in self.pieces)

    @cached_property
    def scatter(self) -> Scatter:
        """How much more statistics scatter than theory says, because the labels are few."""
        return scatter(self.calibrated, self.require_observed())

    def require_observed(self) -> Observed:
        """The unlabelled inputs; NotFittedError if there are none."""
        if self.observed is None:
            raise NotFittedError(
                "this LabelShift",
                "have observed unlabelled inputs first",
                remedy="Call observe, or say what frequencies you suppose: predict(logits, "
                "frequencies={...}).",
            )
        return self.observed

    def point(self, logits: Logits) -> Array:
        """(n, K) predictions at the most likely frequencies; without inputs, at those before."""
        at = self.calibrated.frequencies if self.observed is None else self.observed.smoothed
        return adapted(self.calibrated.odds(logits), at)

    # Files

    def parts(self) -> tuple[dict[str, Any], Arrays]:
        """Plain settings, and arrays, of all but the labelled data."""
        calibrated, observed = self.calibrated, self.observed
        settings = {
            "scale": calibrated.scale,
            "weight": calibrated.weight,
            "classes": calibrated.names,
            "inflations": [str(factor) for factor in self.bootstrapped or ()],
        }
        arrays = {"center": calibrated.center, "frequencies": calibrated.frequencies}
        if calibrated.covariance is not None:
            arrays["covariance"] = calibrated.covariance
        if observed is not None:
            arrays["ratios"] = observed.likelihood.ratios
            arrays["input_weights"] = observed.likelihood.weights
        return settings, arrays

    @classmethod
    def from_parts(
        cls, settings: dict[str, Any], arrays: Arrays, *, counted: bool
    ) -> FrequencyEvidence:
        """From what `parts` gave, which is taken out; ValueError if that is damaged.

        Older files of models whose labels were only counted hold no covariance.
        """
        frequencies = check_sums_to_one(arrays.pop("frequencies"))
        calibrated = Calibrated(
            arrays.pop("center").astype(np.float64),
            float(settings.pop("scale")),
            frequencies,
            float(settings.pop("weight")),
            check_class_names(settings.pop("classes"), len(frequencies)),
            arrays.pop("covariance", None),
        )
        calibrated.require_intact()
        if calibrated.covariance is None and counted:
            calibrated = replace(calibrated, covariance=from_counts(calibrated))
        observed = None
        if "ratios" in arrays:
            ratios = arrays.pop("ratios").astype(np.float64)
            weights = check_weights(arrays.pop("input_weights"), rows=len(ratios))
            assert weights is not None
            likelihood = Likelihood(ratios, weights)
            likelihood.require_intact(len(frequencies))
            observed = Observed(likelihood)
        factors = [float(factor) for factor in settings.pop("inflations")]
        if not (len(factors) in (0, 2) and all(factor >= 1 for factor in factors)):
            raise ValueError("its inflations are damaged")
        found = (factors[0], factors[1]) if any(factor > 1 for factor in factors) else None
        return cls(calibrated, observed=observed, bootstrapped=found)
