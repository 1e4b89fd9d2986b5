"""Sums over all inputs at every level: how wide and how right sets are, and confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Indices, Mask
from decal.credal import CredalSet
from decal.evaluate import metrics
from decal.explorer._prices import Prices

BINS = 15  # bins of the model's confidence, equally wide from 0 to 1


class Curves:
    """Sums over all inputs, shown or not, at every level; and over those of each group."""

    def __init__(
        self,
        levels: int,
        groups: Sequence[int] = (),
        counts: ConfidenceCounts | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.rows = np.zeros(levels)
        self.sums: dict[str, Array] = {}
        self.counts, self.prices = counts, prices
        self.parts = [[Curves(levels) for _ in range(values)] for values in groups]

    def add(
        self,
        level: int,
        credal: CredalSet,
        said: Array | None,
        kept: Mask,
        labels: Indices | None,
        truth: Array | None,
        codes: Sequence[NDArray[np.uint8]] = (),
    ) -> None:
        """Add n inputs: their sets, what the model says and what is possible (n, K), and so on.

        Codes are the values (n,) of each column of groups.
        """
        n, sets = len(credal), credal[~credal.is_empty]
        single = kept.sum(axis=1) == 1
        found = {
            "efficiency": len(sets) * metrics.efficiency(sets) if len(sets) else 0.0,
            "size": kept.sum(),
            "single": single.sum(),
            "empty": n - len(sets),
        }
        if truth is not None:
            found["coverage"] = n * metrics.coverage(credal, truth)
        if labels is not None:
            missed = ~kept[np.arange(n), labels]
            found["missed"], found["settled_wrong"] = missed.sum(), (missed & single).sum()
        if said is not None:
            found["confidence"] = said.max(axis=1).sum()
            if labels is not None:
                found["accuracy"] = np.sum(said.argmax(axis=1) == labels)
        self.rows[level] += n
        for name, value in found.items():
            self.sums.setdefault(name, np.zeros(len(self.rows)))[level] += value
        if self.counts is not None and labels is not None:
            self.counts.add(level, said, kept, labels)
        if self.prices is not None and labels is not None and said is not None and level == 0:
            assert credal.point is not None
            self.prices.add(said, credal.point, labels)
        for column, parts in zip(codes, self.parts, strict=True):
            for value in np.unique(column):
                rows = np.flatnonzero(column == value)
                y = None if labels is None else labels[rows]
                p = None if truth is None else truth[rows]
                q = None if said is None else said[rows]
                parts[value].add(level, credal[rows], q, kept[rows], y, p)

    def means(self) -> dict[str, list[float] | None]:
        """Each curve of the page; None if it needs labels or a truth that were not given."""
        of = {"efficiency": self.rows - self.sums.get("empty", 0)}  # empty sets have no width
        of["settled_wrong"] = self.sums.get("single", self.rows)
        names = "efficiency", "coverage", "size", "missed", "single", "settled_wrong"
        found = {
            name: (self.sums[name] / np.maximum(of.get(name, self.rows), 1)).tolist()
            if name in self.sums
            else None
            for name in names
        }
        return found | ({} if self.prices is None else self.prices.wrong_at(self.sums["single"]))

    def costs(self, start: int) -> dict[str, Any] | None:
        """What asking a person costs, at every price and level; None without labels."""
        if self.prices is None:
            return None
        return self.prices.summary(self.sums["single"], self.sums["settled_wrong"], start)

    def group(self) -> dict[str, Any]:
        """The number of inputs and the means at every level, of one group."""
        means = {name: values for name, values in self.means().items() if values is not None}
        if "accuracy" in self.sums:
            means["accuracy"] = (self.sums["accuracy"] / np.maximum(self.rows, 1)).tolist()
        return {"inputs": int(self.rows[0]), **means}

    def summary(self, start: int) -> list[list[str]]:
        """Pairs of text about all inputs."""
        rows = self.rows[start]
        pairs = [["inputs", f"{int(rows):,}"]]
        for name, title in (("accuracy", "accuracy"), ("confidence", "mean confidence")):
            if name in self.sums:
                pairs.append([title, f"{100 * self.sums[name][start] / rows:.1f} %"])
        if self.sums["empty"].any():
            pairs.append(["empty sets", f"{int(self.sums['empty'][start]):,} at first"])
        return pairs


class ConfidenceCounts:
    """Counts by the confidence of the model's prediction, and by true class, at every level."""

    def __init__(self, levels: int, classes: int, confusions: bool) -> None:
        self.inputs, self.confidence, self.correct = np.zeros((3, BINS))
        self.kept, self.size = np.zeros((2, levels, BINS))
        self.confusion = np.zeros((levels, classes, classes)) if confusions else None
        self.labels = np.zeros(classes)

    def add(self, level: int, said: Array | None, kept: Mask, labels: Indices) -> None:
        """Count some inputs at a level."""
        hit = kept[np.arange(len(kept)), labels]
        if self.confusion is not None:
            np.add.at(self.confusion[level], labels, kept)
        if level == 0:
            self.labels += np.bincount(labels, minlength=len(self.labels))
        if said is None:
            return
        top = said.max(axis=1)
        bins = np.minimum((top * BINS).astype(np.intp), BINS - 1)

        def summed(weights: Array | None) -> Array:
            return np.bincount(bins, weights, minlength=BINS).astype(np.float64)

        self.kept[level] += summed(hit.astype(np.float64))
        self.size[level] += summed(kept.sum(axis=1).astype(np.float64))
        if level == 0:
            self.inputs += summed(None)
            self.confidence += summed(top)
            self.correct += summed((said.argmax(axis=1) == labels).astype(np.float64))

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
