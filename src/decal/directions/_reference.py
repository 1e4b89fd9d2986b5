"""The reference: the model from which gains are measured, as it is or recentred."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, Setting
from decal._base.numerics import Array, Logits

CHOSEN = ("auto", "consensus")
"""Names of references that labelled rows choose; they may choose the model."""

REFERENCES = ("model", "halfway", "best", *CHOSEN)

USE_MODEL = ("Use ", Setting("reference", "model"), ".")


@dataclass(frozen=True)
class Reference:
    """The model from which gains are measured: scale * logits + center."""

    center: Array  # (K,) shifts of the logits; -inf leaves a class out
    scale: float = 1.0
    distance: float = 0.0  # nats gained over the model itself, per unit of weight
    name: str = "model"  # one of REFERENCES

    @property
    def is_best(self) -> bool:
        """Whether no shift gains likelihood over it."""
        return self.name == "best"

    def described(self) -> str:
        """What the labels chose, in words."""
        if self.scale == 1 and not self.center.any():
            return "the model as it is"
        if not self.center.any():
            return f"the scale {self.scale:.3g}"
        low, high = self.center.min(), self.center.max()
        return f"the scale {self.scale:.3g} and shifts from {low:.2g} to {high:.2g}"

    def scaled(self, logits: Logits) -> Logits:
        """The logits times the scale, in float64 unless there is nothing to do."""
        if self.scale == 1:
            return logits
        return np.multiply(logits, self.scale, dtype=np.float64)

    def logits(self, logits: Logits) -> Array:
        """(n, K) scale * logits + center, in float64; -inf for the classes left out."""
        return np.asarray(self.scaled(logits) + self.center, dtype=np.float64)

    @cached_property
    def _left_out(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.isneginf(self.center))

    def require_rivals(self, logits: Logits) -> None:
        """ValueError if only classes that the reference leaves out are not masked in a row."""
        if not self._left_out.size or np.minimum.reduce(logits, axis=None) > -np.inf:
            return
        kept = np.delete(logits, self._left_out, axis=1)
        alone = np.isneginf(kept.max(axis=1))
        if alone.any():
            asked = Setting("reference", self.name)
            rule = "leave a class unmasked that fit has seen labels of, for ", asked
            raise InputError("logits", rule, f"none in row {int(alone.argmax())}", USE_MODEL)
