"""Tilt: classes in an order, of which all higher ones become more probable, or all lower ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decal._base.numerics import Array
from decal._base.settings import check_tolerance
from decal.directions._lines import Line


@dataclass(frozen=True)
class Tilt(Line):
    """Moves the logits along the order of the classes: z_k + theta s_k, s = 0..K-1 standardised.

    A judge who is stricter or milder than the labels say, by as much for all inputs. As a
    `decal.Line` it needs all data at once, and cannot be merged, saved or exported.

    Parameters
    ----------
    ratio : float
        It may use this many times the budget of a class shift.

    Examples
    --------
    >>> import decal
    >>> logits = [[2.0, 0.0, -1.0], [0.0, 1.0, 0.5], [-1.0, 0.0, 1.0], [0.5, 1.0, 0.0]]
    >>> d = decal.decalibrate(logits, [0, 1, 2, 0], alpha=0.9, directions="tilt", order=True)
    >>> lower, upper = d.predict([[0.0, 1.0, 0.0]]).mean()
    >>> float(lower[0].round(2)), float(upper[0].round(2))
    (0.47, 1.16)
    """

    ratio: float = 1.0
    name = "tilt"

    def __post_init__(self) -> None:
        check_tolerance(self.ratio, "ratio")

    def move(self, logits: Array) -> Array:
        """Standardised scores, whatever the logits."""
        scores = np.arange(logits.shape[1]) - (logits.shape[1] - 1) / 2
        return np.broadcast_to(scores / scores.std(), logits.shape)
