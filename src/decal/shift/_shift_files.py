"""Model files of a LabelShift: settings, calibration and unlabelled inputs; no labelled data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from decal._base.checks import check_class_names, check_weights
from decal.io import model_files
from decal.shift._calibrated import Calibrated, check_sums_to_one
from decal.shift._few_labels import from_counts
from decal.shift._known import Known
from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed

KIND = "label shift"
"""What the settings of a file call a LabelShift."""

SETTINGS = ("confidence", "calibrate", "region", "error", "corrected", "probabilities", "floor")
"""Arguments of a LabelShift."""

ARRAYS = ("center", "frequencies", "covariance", "ratios", "input_weights")
"""What a file may hold."""


def write_shift(
    path: str | Path | BinaryIO, settings: dict[str, Any], known: Known, *, compressed: bool
) -> None:
    """Write what a LabelShift has learnt."""
    calibrated, observed = known.calibrated, known.observed
    header = {
        **settings,
        "scale": calibrated.scale,
        "weight": calibrated.weight,
        "classes": calibrated.names,
        "inflations": [str(factor) for factor in known.bootstrapped or ()],
    }
    arrays = {"center": calibrated.center, "frequencies": calibrated.frequencies}
    if calibrated.covariance is not None:
        arrays["covariance"] = calibrated.covariance
    if observed is not None:
        arrays["ratios"] = observed.likelihood.ratios
        arrays["input_weights"] = observed.likelihood.weights
    file = Path(path) if isinstance(path, str) else path
    model_files.write(file, header, arrays, kind=KIND, compressed=compressed)


def read_shift(path: str | Path | BinaryIO) -> tuple[dict[str, Any], Known]:
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
        known = Known(calibrated, observed=observed, bootstrapped=_factors(header["inflations"]))
        if not header["probabilities"]:
            header["floor"] = None  # older files may have one, of which nothing came
        # Older files do not say whether to correct.
        return {name: header[name] for name in SETTINGS if name in header}, known


def _factors(written: list[str]) -> tuple[float, float] | None:
    """What a bootstrap found; None if there was none."""
    if not written:
        return None
    joint, single = map(float, written)
    if not (joint >= 1 and single >= 1):
        raise ValueError("its inflations are damaged")
    return None if joint == single == 1 else (joint, single)
