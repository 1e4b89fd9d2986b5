"""The likelihood curves behind the intervals, for the page to draw and to read off while one drags.

A curve is stored by what can be read off it: for every budget b of a grid, the shifts (or scales)
at which the log-likelihood has fallen by b. Between them the page interpolates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.decalibrator import Decalibrator
from decal.directions import ClassShifts, Local, MarginSummary, Temperature


def likelihood_curves(
    model: Any, levels: list[float]
) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]] | None:
    """What the page must know of a Decalibrator's curves, and arrays (2, B, K); None of others."""
    if not isinstance(model, Decalibrator):
        return None
    if not all(isinstance(d, ClassShifts | Temperature | Local) for d in model.directions):
        return None
    budgets = _budgets(levels, 4.7 if model.likelihood == "mean" else 280.0)
    header: dict[str, Any] = {
        "budgets": budgets.tolist(),
        "joint": model.box == "joint",
        "likelihood": model.likelihood,
        "directions": [direction.name for direction in model.directions],
        "whole": bool(np.isfinite(model.reference_model.center).all()),
    }
    arrays: dict[str, Array] = {}
    for which, direction in enumerate(model.directions):
        if isinstance(direction, Local):
            share = 1.0 if model.likelihood == "mean" else 1 / float(sum(model.class_weights))
            header["local"] = {"mix": direction.mix, "by_entropy": direction.by_entropy}
            header["local"]["per_example"] = share
            continue
        found = model.steps(direction.name, np.exp(-budgets))
        ends = np.stack([found.lower, found.upper])
        arrays[f"curve/{direction.name}"] = ends.reshape(2, len(budgets), -1)
        evidence = model.fitted.evidence[which]
        if isinstance(evidence, MarginSummary):
            arrays["curve/top"] = _top(model, evidence, ends[:, 0])
    return header, {name: array.astype(np.float32) for name, array in arrays.items()}


def _budgets(levels: list[float], largest: float) -> Array:
    """Budgets in nats, rising from 0: dense where curves bend, and those of the levels."""
    grid = largest * (np.arange(64) / 63) ** 2
    with np.errstate(divide="ignore"):
        own = -np.log(np.asarray(levels, dtype=np.float64))
    return np.unique(np.abs(np.concatenate([grid, own[own <= largest]])))


def _top(model: Decalibrator, evidence: MarginSummary, ends: Array) -> Array:
    """(2, 33, K) shifts between the ends of alpha = 1, and the log-likelihood gained there."""
    low, high = np.where(np.isfinite(ends), ends, 0.0)
    shifts = low + (high - low) * np.linspace(0, 1, 33)[:, None]
    center = model.reference_model.center
    series = evidence.series
    value, start = (series.softplus_sum(t)[0] for t in (shifts, np.zeros((1, len(center)))))
    base = np.where(np.isneginf(center), -series.hinges[0], start[0])
    gain = evidence.open_labels * shifts - value + base
    if model.likelihood == "mean":
        gain /= evidence.total_weight
    return np.stack([shifts, gain])
