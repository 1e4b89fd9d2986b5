"""What it costs to ask a person: by the sets, and by confidence as it is or recalibrated."""

from __future__ import annotations

from typing import Any

import numpy as np

from decal._base.numerics import Array, Indices, Mask

PRICES = np.arange(1, 20) / 20
"""Of asking a person, where an error costs 1."""

SAME = 1e-9
"""Probabilities that differ by less are the same answer."""


class Prices:
    """How sure a model is of every input, and whether it errs: what asking costs without sets.

    By the sets, an input is settled if one class is possible, and a person is asked about all
    others. By confidence, a person is asked where it is below 1 minus the price; confidence is what
    the classifier says or, recalibrated, the point that the sets are around.
    """

    def __init__(self) -> None:
        self._sure: dict[str, list[Array]] = {"alone": [], "recalibrated": []}
        self._wrong: dict[str, list[Mask]] = {"alone": [], "recalibrated": []}
        self._differ = False

    def add(self, said: Array, point: Array, labels: Indices) -> None:
        """Take note of some inputs: what the classifier says of them, and their points (n, K)."""
        for name, p in (("alone", said), ("recalibrated", point)):
            self._sure[name].append(p.max(axis=1))
            self._wrong[name].append(p.argmax(axis=1) != labels)
        self._differ |= bool(np.abs(said - point).max(initial=0.0) > SAME)

    def _sides(self) -> dict[str, tuple[Array, Mask]]:
        """Confidence and errors; recalibrated ones only if they are others."""
        names = ("alone", "recalibrated") if self._differ else ("alone",)
        joined = np.concatenate
        return {name: (joined(self._sure[name]), joined(self._wrong[name])) for name in names}

    def wrong_at(self, counts: Array) -> dict[str, list[float]]:
        """The share of errors among so many inputs of which each is surest, for each count."""
        found = {}
        for name, (sure, wrong) in self._sides().items():
            errors = np.concatenate([[0], np.cumsum(wrong[np.argsort(-sure, kind="stable")])])
            shares = errors[counts.astype(np.intp)] / np.maximum(counts, 1)
            found[f"{name}_wrong"] = shares.tolist()
        return found

    def summary(self, settled: Array, wrong: Array, start: int) -> dict[str, Any]:
        """Mean costs of an input at every price, and the price at which sets do best at `start`.

        At every level so many inputs are settled, and so many of these wrongly. Sets are compared
        with the cheapest of all others.
        """
        sides = self._sides()
        n = len(sides["alone"][0])
        others = {"nobody": np.full(len(PRICES), sides["alone"][1].mean())}
        for name, (sure, errs) in sides.items():
            named = sure[:, None] >= 1 - PRICES
            others[name] = PRICES * (~named).mean(axis=0) + (named & errs[:, None]).mean(axis=0)
        sets = PRICES * (1 - settled / n)[:, None] + (wrong / n)[:, None]
        rival = np.min(list(others.values()), axis=0)
        return {
            "prices": PRICES.tolist(),
            "best": int(((rival - sets[start]) / rival.clip(SAME)).argmax()),
            "sets": sets.tolist(),
            "others": {name: costs.tolist() for name, costs in others.items()},
        }
