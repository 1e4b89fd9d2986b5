"""NewInputs: what is noticed of inputs while they are predicted, and told once per model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.confidences import FEWEST_NEW_ROWS, Confidences
from decal._base.errors import AnswerWarning
from decal.credal import warn_of_width
from decal.rows import Rows

__all__ = ["NewInputs"]

UNLIKE = 1e-3
"""New inputs are unlike the labelled ones if chance makes them differ so with this probability."""

SAME_ROWS = 1e-9  # distribution functions of confidences that differ by less are of the same rows
FEWEST_SETS = 10  # fewer sets say little about their mean width


class NewInputs:
    """What is noticed of new inputs of a model at one level, over all chunks of them."""

    def __init__(self, model: Any, alpha: float) -> None:
        self.model, self.alpha = model, alpha
        self.rows, self._width = 0, 0.0
        self._seen: Confidences | None = None

    def add(self, rows: Rows, sets: Any) -> Self:
        """Take note of some inputs and their sets."""
        n = len(rows)
        enough = n >= FEWEST_NEW_ROWS or self._seen is not None
        if enough and self.model.confidences() is not None and "unlike" not in self.model._told:
            more = Confidences.of(rows.logits, units=_units(rows))
            self._seen = more if self._seen is None else self._seen + more
        self.rows += n
        self._width += float(sets.upper.mean() - sets.lower.mean()) * n if n else 0.0
        return self

    @property
    def mean_width(self) -> float:
        """Of all intervals."""
        return self._width / self.rows

    def warn(self) -> None:
        """Tell, once each, of inputs unlike the labelled ones and of sets that exclude nothing."""
        told = self.model._told
        if self._seen is not None and "unlike" not in told:
            self._warn_if_unlike(self._seen, told)
        if self.alpha > 0 and self.rows >= FEWEST_SETS and "vacuous" not in told:
            warn_of_width(self.mean_width, self.alpha, told)

    def _warn_if_unlike(self, new: Confidences, told: set[str]) -> None:
        """The first inputs that are not the labelled ones settle it."""
        fitted = self.model.confidences()
        if fitted is None or new.units < FEWEST_NEW_ROWS or fitted.distance(new) < SAME_ROWS:
            return
        told.add("unlike")
        p = fitted.p_value(new)
        if p < UNLIKE:
            AnswerWarning.warn(
                f"logits must look like those that fit was given: got a mean confidence of "
                f"{new.mean:.2f} on {new.rows:,.0f} inputs, and {fitted.mean:.2f} on the labelled "
                f"ones (p = {p:.1g}). If the model was trained on these, fit on held-out data; if "
                "the inputs are of another kind, the labels say little about them."
            )


def _units(rows: Rows) -> NDArray[Any] | None:
    """(n,) the image, or other unit, of each row; one alone if classes are the first axis."""
    grid, units = rows.grid, rows.units
    if grid is not None and not grid.several and grid.axis == 0 and len(grid.shapes[0]) > 1:
        units = np.zeros(len(rows), np.intp)
    return None if units is None else np.asarray(units)
