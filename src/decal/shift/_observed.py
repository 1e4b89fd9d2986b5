"""Unlabelled inputs: the frequencies they make likely, and probabilities under plausible ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from decal._base.numerics import Array, row_blocks
from decal.io.progress import on_terminal, tracked
from decal.shift._likelihood import Likelihood, Maximum, most_likely
from decal.shift._plausible import PRECISION, PlausibleFrequencies
from decal.shift._what_if import plausible_segments, segment_box, what_if_box

ROUND_OFF = 1e-13  # nats per input by which a likelihood may be wrong


@dataclass(frozen=True, eq=False)
class Observed:
    """Unlabelled inputs, and what follows from them."""

    likelihood: Likelihood
    _regions: dict[float, PlausibleFrequencies] = field(default_factory=dict, repr=False)

    @cached_property
    def maximum(self) -> Maximum:
        """The most likely frequencies."""
        return most_likely(self.likelihood)

    @property
    def smoothed(self) -> Array:
        """(K,) the most likely frequencies, with half an input of every class that may occur."""
        occurs = self.likelihood.ratios.any(axis=0)
        counts = self.likelihood.total * self.maximum.frequencies + 0.5 * occurs
        return np.asarray(counts / counts.sum())

    def region(self, depth: float) -> PlausibleFrequencies:
        """Frequencies that lose at most so many nats; the last ones asked for are remembered."""
        if depth not in self._regions:
            for old in list(self._regions)[:-1]:  # of two confidences
                self._regions.pop(old, None)
            self._regions[depth] = self._region(depth)
        return self._regions[depth]

    def _region(self, depth: float) -> PlausibleFrequencies:
        best = self.maximum
        floor = best.value - depth - ROUND_OFF * self.likelihood.total
        return PlausibleFrequencies(self.likelihood, floor, best.frequencies, best.gap)

    def intervals(self, depths: Array, *, joint: bool) -> tuple[Array, Array]:
        """(K,) bounds of each frequency, among those that lose at most (K,) so many nats."""
        best = self.maximum
        if joint:
            low, high = np.zeros(len(depths)), np.ones(len(depths))
            high[~self.likelihood.ratios.any(axis=0)] = 0.0
            for depth in np.unique(depths[depths < np.inf]):
                classes = np.flatnonzero(depths == depth)
                low[classes], high[classes] = self._region(float(depth)).ranges(classes)
        else:
            low, high = plausible_segments(self.likelihood, best.value - depths, best.frequencies)
        return np.minimum(low, best.frequencies), np.maximum(high, best.frequencies)

    def box(self, odds: Array, depth: float, *, joint: bool, error: float) -> tuple[Array, Array]:
        """(n, K) the range of each probability, over frequencies that lose at most so many nats.

        If all frequencies move at once, bounds may be too wide by an error.
        """
        K = odds.shape[1]
        if depth == np.inf:
            return what_if_box(odds, np.zeros(K), np.ones(K))
        if joint and K > 2:
            return joint_box(self.region(depth), odds, error)
        middle = self.maximum.frequencies
        ends = plausible_segments(self.likelihood, self.maximum.value - depth, middle)
        return segment_box(odds, middle, *ends)


def joint_box(
    region: PlausibleFrequencies, odds: Array, error: float = PRECISION
) -> tuple[Array, Array]:
    """(n, K) the range of each probability over plausible frequencies, at most so much too wide."""
    n, K = odds.shape
    low, high = np.empty((n, K)), np.empty((n, K))
    show = n * K * K > 1 << 22 and on_terminal()  # about a second
    blocks = row_blocks(n, K * K, elements=1 << 20)
    for rows in tracked(list(blocks), "Bounding", unit="blocks", show=show):
        low[rows], high[rows] = region.box(odds[rows], error)
    return low, high
