"""All that a LabelShift has learnt: the calibrated model, and the unlabelled inputs it observed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from decal._base.errors import NotFittedError
from decal.shift._bootstrap import Labelled
from decal.shift._calibrated import Calibrated
from decal.shift._few_labels import Scatter, scatter
from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed


@dataclass(frozen=True, eq=False)
class Known:
    """All that was learnt: never changed, replaced whole.

    Attributes
    ----------
    calibrated : Calibrated
        The model where it was calibrated.
    labelled : tuple, optional
        The data it was calibrated on; model files do not hold them.
    observed : Observed, optional
        Unlabelled inputs.
    waiting : tuple of Likelihood
        Further inputs, which nobody has asked about yet.
    bootstrapped : tuple of two floats, optional
        By how much larger statistics of all frequencies, and of one, are than theory says, if a
        bootstrap has found it.
    """

    calibrated: Calibrated
    labelled: Labelled | None = None
    observed: Observed | None = None
    waiting: tuple[Likelihood, ...] = ()
    bootstrapped: tuple[float, float] | None = None

    def with_inputs(self, more: Likelihood) -> Known:
        """The same with further inputs, which undo what a bootstrap found."""
        waiting = [*self.waiting, more]
        # Pieces double in size, so that N inputs in small pieces are copied log N times each.
        while len(waiting) > 1 and len(waiting[-1].weights) >= len(waiting[-2].weights):
            waiting[-2:] = [joined(waiting[-2:])]
        return replace(self, waiting=tuple(waiting), bootstrapped=None)

    @property
    def settled(self) -> Known:
        """The same with all inputs in one."""
        if not self.waiting:
            return self
        before = [] if self.observed is None else [self.observed.likelihood]
        return replace(self, observed=Observed(joined([*before, *self.waiting])), waiting=())

    @property
    def inputs(self) -> float:
        """How many were observed."""
        before = 0.0 if self.observed is None else self.observed.likelihood.total
        return before + sum(piece.total for piece in self.waiting)

    @cached_property
    def scatter(self) -> Scatter:
        """How much more statistics scatter than theory says, because the labels are few."""
        return scatter(self.calibrated, self.seen)

    @property
    def seen(self) -> Observed:
        """The unlabelled inputs; NotFittedError if there are none."""
        if self.observed is None:
            raise NotFittedError(
                "this LabelShift",
                "have observed unlabelled inputs first",
                remedy="Call observe, or say what frequencies you suppose: predict(logits, "
                "frequencies={...}).",
            )
        return self.observed


def joined(pieces: list[Likelihood]) -> Likelihood:
    """The likelihood of all inputs together, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    return Likelihood(
        np.concatenate([piece.ratios for piece in pieces]),
        np.concatenate([piece.weights for piece in pieces]),
    )
