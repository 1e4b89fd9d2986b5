"""How far the confidence of a model, and its sets, can be trusted: sums over all inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array

BINS = 15
"""Bins of the model's confidence, equally wide from 0 to 1."""


class Trust:
    """Counts by the confidence of the model's prediction, and by true class, at every level."""

    def __init__(self, levels: int, classes: int, confusions: bool) -> None:
        self.inputs, self.confidence, self.correct = np.zeros((3, BINS))
        self.kept, self.size = np.zeros((2, levels, BINS))
        self.confusion = np.zeros((levels, classes, classes)) if confusions else None
        self.labels = np.zeros(classes)

    def add(
        self,
        level: int,
        point: Array | None,
        kept: NDArray[np.bool_],
        labels: NDArray[np.intp],
    ) -> None:
        """Count some inputs at a level."""
        hit = kept[np.arange(len(kept)), labels]
        if self.confusion is not None:
            np.add.at(self.confusion[level], labels, kept)
        if level == 0:
            self.labels += np.bincount(labels, minlength=len(self.labels))
        if point is None:
            return
        top = point.max(axis=1)
        bins = np.minimum((top * BINS).astype(np.intp), BINS - 1)

        def summed(weights: Array | None) -> Array:
            return np.bincount(bins, weights, minlength=BINS).astype(np.float64)

        self.kept[level] += summed(hit.astype(np.float64))
        self.size[level] += summed(kept.sum(axis=1).astype(np.float64))
        if level == 0:
            self.inputs += summed(None)
            self.confidence += summed(top)
            self.correct += summed((point.argmax(axis=1) == labels).astype(np.float64))

    def summary(self) -> dict[str, Any]:
        """Plain lists for the page; shares of an empty bin or class are 0."""
        most = np.maximum(self.inputs, 1)
        found: dict[str, Any] = {
            "inputs": self.inputs.tolist(),
            "confidence": (self.confidence / most).tolist(),
            "accuracy": (self.correct / most).tolist(),
            "kept": (self.kept / most).tolist(),
            "size": (self.size / most).tolist(),
        }
        if self.confusion is not None:
            shares = self.confusion / np.maximum(self.labels, 1)[:, None]
            found["confusion"] = shares.round(6).tolist()
        return found
