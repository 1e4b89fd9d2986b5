"""A Triage as plain settings and arrays, and back, for files without pickle."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

import numpy as np

from decal._base.checks import check_alpha, check_choice, check_class_names, check_count, check_flag
from decal._base.inputs import check_floor
from decal.decalibrator import Decalibrator
from decal.evaluate.metrics import RiskCoverage
from decal.io.model_files import Arrays
from decal.triage._choosing import Trial
from decal.triage._doubts import FLOOR, Doubts, Recalibration
from decal.triage._thresholds import SelectedOfBatch, Threshold, TopOfBatch

KIND = "triage"
"""What the header of such a file says it is."""

PURPOSES = ("cost", "budget", "error_rate", "slip_rate")

SCALARS = ("score", "purpose", "target", "confidence", "note")
OUTCOME = ("rows", "handed_over", "error_rate", "slip_rate")

CURVE = "curve "
"""How names of arrays with the curves of scores begin; the number of the score follows."""


def is_known(name: str, settings: dict[str, Any]) -> bool:
    """Whether a file with these settings may hold an array of this name."""
    curves = {f"{CURVE}{i}" for i in range(len(settings["trials"]))}
    return name in curves or name in ("threshold", "slips", "shifts", "scale", "model")


def pack(triage: Any) -> tuple[dict[str, Any], Arrays]:
    """Settings and arrays of a Triage; ValueError if its credal sets are not a Decalibrator's."""
    doubts = triage._doubts
    if not isinstance(doubts.model, Decalibrator):
        raise ValueError(
            f"model must be a Decalibrator to be saved: got {type(doubts.model).__name__}."
        )
    file = BytesIO()
    doubts.model.save(file)
    rule = triage._rule
    arrays: Arrays = {"model": np.frombuffer(file.getvalue(), dtype=np.uint8)}
    if doubts.best is not None:
        arrays |= {"scale": np.array(doubts.best.scale), "shifts": doubts.best.shifts}
    if isinstance(rule, SelectedOfBatch):
        arrays["slips"] = rule.slips
    elif isinstance(rule, Threshold):
        arrays["threshold"] = np.array(rule.threshold)
    trials = []
    for i, (name, trial) in enumerate(triage.trials.items()):
        arrays[f"{CURVE}{i}"] = np.stack([trial.curve.risk, trial.curve.best])
        trials.append([name, trial.gain, trial.error])
    settings = {
        **{name: getattr(triage, name) for name in SCALARS},
        "outcome": [getattr(triage.outcome, name) for name in OUTCOME],
        "trials": trials,
        "probabilities": triage._probabilities,
        "floor": triage._floor,
        "classes": triage._names,
        "class_count": triage._classes,
    }
    return settings, arrays


def unpack(settings: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """The arguments of Triage, but "outcome", whose numbers are returned; ValueError if damaged."""
    purpose = check_choice(settings["purpose"], "purpose", PURPOSES)
    target, confidence = settings["target"], settings["confidence"]
    check_count(target, "target") if isinstance(target, int) else check_alpha(target, "target")
    if confidence is not None:
        check_alpha(confidence, "confidence")
    K = check_count(settings["class_count"], "class_count", least=2)
    names = settings["classes"]
    rows, *shares = settings["outcome"]
    outcome = [check_count(rows, "rows"), *(check_alpha(share, "outcome") for share in shares)]
    doubts = _doubts(arrays, K)
    trials = {
        str(n): _trial(arrays[f"{CURVE}{i}"], *numbers)
        for i, (n, *numbers) in enumerate(settings["trials"])
    }
    if settings["score"] not in trials:
        raise ValueError("its score was never tried")
    rule = _rule(purpose, target, rows, arrays)
    return {
        **{name: settings[name] for name in SCALARS},
        "threshold": rule.threshold,
        "trials": trials,
        "outcome": outcome,
        "_rule": rule,
        "_doubts": doubts,
        "_probabilities": check_flag(settings["probabilities"], "probabilities"),
        "_floor": check_floor(settings.get("floor", FLOOR)),  # older files do not say
        "_names": None if names is None else check_class_names(names, K),
        "_classes": K,
    }


def _rule(
    purpose: str, target: float, rows: int, arrays: Arrays
) -> Threshold | TopOfBatch | SelectedOfBatch:
    if "threshold" in arrays:
        threshold = float(arrays["threshold"])
        if math.isnan(threshold):
            raise ValueError("its threshold is NaN")
        return Threshold(threshold)
    if "slips" in arrays:
        slips = arrays["slips"].astype(np.float64)
        if slips.ndim != 1 or len(slips) > rows or np.isnan(slips).any():
            raise ValueError("its slips are damaged")
        return SelectedOfBatch(np.sort(slips), rows, float(target))
    if purpose != "budget" or not isinstance(target, int):
        raise ValueError("it has no threshold")
    return TopOfBatch(target)


def _doubts(arrays: Arrays, classes: int) -> Doubts:
    model = Decalibrator.load(BytesIO(arrays["model"].tobytes()))
    if len(model.class_weights) != classes:
        raise ValueError("its model has other classes")
    if "shifts" not in arrays:
        return Doubts(model, None)
    scale, shifts = float(arrays["scale"]), arrays["shifts"].astype(np.float64)
    if shifts.shape != (classes,) or not np.isfinite(shifts).all() or not 0 <= scale < math.inf:
        raise ValueError("its recalibration is damaged")
    return Doubts(model, Recalibration(scale, shifts))


def _trial(curve: Any, gain: float, error: float) -> Trial:
    risk, best = curve.astype(np.float64)
    if risk.ndim != 1 or not len(risk) or not ((curve >= 0) & (curve <= 1)).all():
        raise ValueError("its curves are damaged")
    if not (math.isfinite(gain) and 0 <= error < math.inf):
        raise ValueError("its gains are damaged")
    coverage = np.arange(1, len(risk) + 1) / len(risk)
    return Trial(RiskCoverage(coverage, risk, best), float(gain), float(error))
