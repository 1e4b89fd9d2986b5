"""Model files of a LabelShift: settings, calibration and unlabelled inputs; no labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from decal._base.checks import check_class_names, check_weights
from decal._io import model_files
from decal.shift._calibrated import Calibrated, check_sums_to_one
from decal.shift._known import Known
from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed

KIND = "label shift"
"""What the settings of a file call a LabelShift."""

SETTINGS = ("confidence", "calibrate", "region", "error", "probabilities", "floor")
"""Arguments of a LabelShift."""

ARRAYS = ("center", "frequencies", "ratios", "input_weights")
"""What a file may hold."""


def write_shift(
    path: str | Path | BinaryIO, settings: dict[str, Any], known: Known, *, compressed: bool
) -> None:
    """Write what a LabelShift has learnt."""
    calibrated, observed = known.calibrated, known.observed
    header = {
        "kind": KIND,
        **settings,
        "scale": calibrated.scale,
        "weight": calibrated.weight,
        "classes": calibrated.names,
        "inflations": [str(factor) for factor in known.inflations],
    }
    arrays = {"center": calibrated.center, "frequencies": calibrated.frequencies}
    if observed is not None:
        arrays["ratios"] = observed.likelihood.ratios
        arrays["input_weights"] = observed.likelihood.weights
    file = Path(path) if isinstance(path, str) else path
    model_files.write(file, header, arrays, compressed=compressed)


def read_shift(path: str | Path | BinaryIO) -> tuple[dict[str, Any], Known]:
    """The settings and what was learnt; ValueError if the file holds no intact LabelShift."""
    file = Path(path) if isinstance(path, str) else path
    header, arrays = model_files.read(file, lambda name, _: name in ARRAYS)
    with model_files.intact(file):
        if header.get("kind") != KIND:
            raise ValueError("it holds no LabelShift")
        frequencies = check_sums_to_one(arrays["frequencies"])
        calibrated = Calibrated(
            arrays["center"].astype(np.float64),
            float(header["scale"]),
            frequencies,
            float(header["weight"]),
            check_class_names(header["classes"], len(frequencies)),
        )
        calibrated.require_intact()
        observed = None
        if "ratios" in arrays:
            weights = check_weights(arrays["input_weights"], rows=len(arrays["ratios"]))
            assert weights is not None
            likelihood = Likelihood(arrays["ratios"].astype(np.float64), weights)
            likelihood.require_intact(len(frequencies))
            observed = Observed(likelihood)
        joint, single = map(float, header["inflations"])
        if not (joint >= 1 and single >= 1):
            raise ValueError("its inflations are damaged")
        known = Known(calibrated, observed=observed, inflations=(joint, single))
        return {name: header[name] for name in SETTINGS}, known
