"""What it costs to ask a person: by the sets, and by the model's own confidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from decal._base.numerics import Array, Indices, Mask

PRICES = np.arange(1, 20) / 20
"""Of asking a person, where an error costs 1."""


class Prices:
    """How sure the model is of every input, and whether it errs: what asking costs without sets.

    By the sets, an input is settled if one class is possible, and a person is asked about all
    others. The model alone asks where its probability is below 1 minus the price.
    """

    def __init__(self) -> None:
        self._sure: list[Array] = []
        self._wrong: list[Mask] = []

    def add(self, said: Array, labels: Indices) -> None:
        """Take note of some inputs, of which the model says (n, K)."""
        self._sure.append(said.max(axis=1))
        self._wrong.append(said.argmax(axis=1) != labels)

    def alone_wrong(self, counts: Array) -> list[float]:
        """The share of errors among so many inputs of which the model is surest, for each count."""
        order = np.argsort(-np.concatenate(self._sure), kind="stable")
        errors = np.concatenate([[0], np.cumsum(np.concatenate(self._wrong)[order])])
        found: list[float] = (errors[counts.astype(np.intp)] / np.maximum(counts, 1)).tolist()
        return found

    def summary(self, settled: Array, wrong: Array, start: int) -> dict[str, Any]:
        """Mean costs of an input at every price, and the price at which sets save most at `start`.

        At every level so many inputs are settled, and so many of these wrongly.
        """
        sure, errs = np.concatenate(self._sure), np.concatenate(self._wrong)
        n = len(sure)
        named = sure[:, None] >= 1 - PRICES
        alone = PRICES * (~named).mean(axis=0) + (named & errs[:, None]).mean(axis=0)
        sets = PRICES * (1 - settled / n)[:, None] + (wrong / n)[:, None]
        return {
            "prices": PRICES.tolist(),
            "best": int((alone - sets[start]).argmax()),
            "sets": sets.tolist(),
            "alone": alone.tolist(),
            "alone_asked": (~named).mean(axis=0).tolist(),
            "nobody": float(errs.mean()),
        }
