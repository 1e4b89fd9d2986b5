"""What a LabelShift has learnt: the calibrated model, and unlabelled inputs; and its files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from decal._base.checks import check_class_names, check_weights
from decal._base.errors import NotFittedError
from decal.io import model_files
from decal.shift._calibrated import Calibrated, check_sums_to_one
from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed
from decal.shift._scatter import Labelled, Scatter, from_counts, scatter

KIND = "label shift"
"""What the settings of a file call a LabelShift."""

SETTINGS = ("confidence", "calibrate", "region", "error", "corrected", "probabilities", "floor")
"""Arguments of a LabelShift."""

ARRAYS = ("center", "frequencies", "covariance", "ratios", "input_weights")
"""What a file may hold."""


@dataclass(frozen=True, eq=False)
class FrequencyEvidence:
    """What data say about class frequencies: never changed, replaced whole."""

    calibrated: Calibrated
    labelled: Labelled | None = None  # what it was calibrated on; model files do not hold it
    observed: Observed | None = None
    pending: tuple[Likelihood, ...] = ()  # further inputs, which nobody has asked about yet
    bootstrapped: tuple[float, float] | None = None
    """By how much larger statistics of all frequencies, and of one, are than theory says, if a
    bootstrap has found it."""

    def with_inputs(self, more: Likelihood) -> FrequencyEvidence:
        """With further inputs, which undo what a bootstrap found."""
        pending = [*self.pending, more]
        # Pieces double in size, so that N inputs in small pieces are copied log N times each.
        while len(pending) > 1 and len(pending[-1].weights) >= len(pending[-2].weights):
            pending[-2:] = [Likelihood.joined(pending[-2:])]
        return replace(self, pending=tuple(pending), bootstrapped=None)

    @property
    def gathered(self) -> FrequencyEvidence:
        """With all inputs in one likelihood, none pending."""
        if not self.pending:
            return self
        before = [] if self.observed is None else [self.observed.likelihood]
        observed = Observed(Likelihood.joined([*before, *self.pending]))
        return replace(self, observed=observed, pending=())

    @property
    def inputs(self) -> float:
        """How many were observed."""
        before = 0.0 if self.observed is None else self.observed.likelihood.total
        return before + sum(piece.total for piece in self.pending)

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


def write_shift(
    path: str | Path | BinaryIO,
    settings: dict[str, Any],
    evidence: FrequencyEvidence,
    *,
    compressed: bool,
) -> None:
    """Write what a LabelShift has learnt, without labelled data."""
    calibrated, observed = evidence.calibrated, evidence.observed
    header = {
        **settings,
        "scale": calibrated.scale,
        "weight": calibrated.weight,
        "classes": calibrated.names,
        "inflations": [str(factor) for factor in evidence.bootstrapped or ()],
    }
    arrays = {"center": calibrated.center, "frequencies": calibrated.frequencies}
    if calibrated.covariance is not None:
        arrays["covariance"] = calibrated.covariance
    if observed is not None:
        arrays["ratios"] = observed.likelihood.ratios
        arrays["input_weights"] = observed.likelihood.weights
    file = Path(path) if isinstance(path, str) else path
    model_files.write(file, header, arrays, kind=KIND, compressed=compressed)


def read_shift(path: str | Path | BinaryIO) -> tuple[dict[str, Any], FrequencyEvidence]:
    """The settings and what was learnt; ValueError if the file holds no intact LabelShift."""
    file = Path(path) if isinstance(path, str) else path
    header, arrays = model_files.read(file, lambda name, _: name in ARRAYS, kind=KIND)
    with model_files.intact(file):
        frequencies = check_sums_to_one(arrays["frequencies"])
        calibrated = Calibrated(
            arrays["center"].astype(np.float64),
            float(header["scale"]),
            frequencies,
            float(header["weight"]),
            check_class_names(header["classes"], len(frequencies)),
            arrays.get("covariance"),
        )
        calibrated.require_intact()
        if calibrated.covariance is None and not header["calibrate"]:
            calibrated = replace(calibrated, covariance=from_counts(calibrated))
        observed = None
        if "ratios" in arrays:
            weights = check_weights(arrays["input_weights"], rows=len(arrays["ratios"]))
            assert weights is not None
            likelihood = Likelihood(arrays["ratios"].astype(np.float64), weights)
            likelihood.require_intact(len(frequencies))
            observed = Observed(likelihood)
        factors = _factors(header["inflations"])
        if not header["probabilities"]:
            header["floor"] = None  # older files may have one, of which nothing came
        # Older files do not say whether to correct.
        settings = {name: header[name] for name in SETTINGS if name in header}
        return settings, FrequencyEvidence(calibrated, observed=observed, bootstrapped=factors)


def _factors(written: list[str]) -> tuple[float, float] | None:
    """What a bootstrap found; None if there was none."""
    if not written:
        return None
    joint, single = map(float, written)
    if not (joint >= 1 and single >= 1):
        raise ValueError("its inflations are damaged")
    return None if joint == single == 1 else (joint, single)
