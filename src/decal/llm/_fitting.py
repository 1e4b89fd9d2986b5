"""Learning from labelled answers, of which not all tokens are listed.

The gain of shifting label k by t, g(t) = w t - sum_n [softplus(m_n + t) - softplus(m_n)], falls
with every margin m_n for t > 0, and grows with it for t < 0. So with margins between bounds, no
completion makes a shift t > 0 plausible that the lower margins do not, and no shift t < 0 that the
upper margins do not. The greatest plausible shift is taken from the lower margins, the least one
from the upper margins: the interval holds those of all completions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import DEFAULT_ALPHA, check_choice, check_keywords, check_labels
from decal._base.numerics import Array, margins
from decal.decalibrator import Decalibrator
from decal.decalibrator import decalibrate as decalibrate_logits
from decal.directions import Direction, Endpoints, Reference
from decal.directions._binning import summarise_margins
from decal.directions._class_shifts import ClassShifts, plausible_shifts
from decal.directions._direction import LabelledLogits
from decal.directions._learnt import Learnt
from decal.directions._local import Local
from decal.directions._margins import MarginSummary
from decal.llm._masses import LabelMasses

__all__ = ["BoundedShifts", "decalibrate"]

FAR_MARGIN = 1000.0
"""Infinite margins are put here, beyond all that matters..."""

FAR_SHIFT = 900.0
"""...for shifts up to here. Longer ones are taken as infinite, which is further."""


def decalibrate(
    masses: LabelMasses,
    labels: Any,
    *,
    alpha: float = DEFAULT_ALPHA,
    unlisted: str = "refuse",
    vocabulary: int | None = None,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on labelled answers.

    Parameters
    ----------
    masses : LabelMasses
        Of n labelled answers.
    labels : (n,) array
        Names of labels, or their numbers.
    alpha : float
        The level, as for `decal.decalibrate`.
    unlisted : str
        What to do if some masses are known as intervals only. "refuse": an error. "bounds": learn
        the shifts that some completion makes plausible, which contain those of the true one; for
        class shifts and local sets with reference="model". "even": take the tokens not listed to
        share the remainder evenly, a model rather than a bound.
    vocabulary : int, optional
        The number of all tokens, for "even".
    **settings
        Further settings of `decal.decalibrate`.

    Examples
    --------
    >>> import numpy as np, decal
    >>> z = np.log([[0.5, 0.3, 0.15, 0.05], [0.1, 0.3, 0.55, 0.05]])
    >>> v = decal.llm.Verbaliser({"yes": ["yes", "yep"], "no": "no"})
    >>> tokens = ["yes", "the", "no", "yep"]
    >>> full = decal.llm.vocabulary_masses(z, tokens, v)
    >>> decal.llm.decalibrate(full, ["yes", "no"], alpha=0.9).shifts().upper.round(2)
    array([1.12, 1.12])
    >>> cut = decal.llm.vocabulary_masses(z, tokens, v, top=3)
    >>> d = decal.llm.decalibrate(cut, ["yes", "no"], alpha=0.9, unlisted="bounds")
    >>> d.shifts().upper.round(2)
    array([1.45, 1.12])
    """
    check_keywords(settings, "decal.llm.decalibrate", decalibrate, Decalibrator)
    check_choice(unlisted, "unlisted", ("refuse", "even", "bounds"))
    n, K = masses.shape
    columns = check_labels(labels, rows=n, classes=K, names=masses.classes)
    if unlisted != "bounds" or masses.exact.all():
        logits = masses.logits("even" if unlisted == "even" else "refuse", vocabulary=vocabulary)
        return decalibrate_logits(logits, columns, alpha=alpha, classes=masses.classes, **settings)
    model = Decalibrator(alpha, **settings)
    model = model._with(directions=_bounded(model))
    weight = np.bincount(columns, minlength=K).astype(np.float64)
    evidence = []
    for direction in model.directions:
        if isinstance(direction, BoundedShifts):
            evidence.append(BoundedMargins.of(*margin_bounds(masses), columns))
        else:
            data = LabelledLogits(masses.middle, np.zeros(K), columns, None)
            evidence.append(direction.summarise(data))
    at = Reference(np.zeros(K))
    return model._add(Learnt(model.directions, at, n, weight, tuple(evidence), masses.classes))


def _bounded(model: Decalibrator) -> tuple[Direction, ...]:
    """The directions, class shifts among them replaced; ValueError if nothing is proved."""
    if model.reference != "model":
        raise ValueError(
            "reference must be 'model' for unlisted='bounds': got "
            f"{model.reference!r}, which needs logits to learn from."
        )
    found: list[Direction] = []
    for direction in model.directions:
        if not isinstance(direction, ClassShifts | Local):
            raise ValueError(
                "directions must be class shifts or local sets for unlisted='bounds': got "
                f"{direction}, which needs logits to learn from. Ask for more tokens, or pass "
                "unlisted='even'."
            )
        found.append(BoundedShifts() if isinstance(direction, ClassShifts) else direction)
    return tuple(found)


def margin_bounds(masses: LabelMasses) -> tuple[Array, Array]:
    """(n, K) least and greatest log-odds of every label against the rest; perhaps infinite."""
    n, K = masses.shape
    low, high = np.empty((n, K)), np.empty((n, K))
    for j in range(K):
        others = np.arange(K) != j
        with np.errstate(invalid="ignore"):
            low[:, j] = masses.lower[:, j] - _log_sum(masses.upper[:, others])
            high[:, j] = masses.upper[:, j] - _log_sum(masses.lower[:, others])
    # Nothing against nothing says nothing.
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _log_sum(logs: Array) -> Array:
    total: Array = np.logaddexp.reduce(logs, axis=1)
    return total


@dataclass(frozen=True)
class BoundedMargins:
    """Evidence of class shifts where margins are known as intervals.

    Attributes
    ----------
    low, high : tuple of MarginSummary
        For each label against the rest, of the lower and of the upper margins.
    """

    low: tuple[MarginSummary, ...]
    high: tuple[MarginSummary, ...]

    @classmethod
    def of(cls, low: Array, high: Array, labels: NDArray[np.intp]) -> BoundedMargins:
        """Of margins (n, K) and labels (n,)."""
        return cls(_summaries(low, labels), _summaries(high, labels))

    def __add__(self, other: BoundedMargins) -> BoundedMargins:
        """The evidence of both data sets together."""
        return BoundedMargins(
            tuple(a + b for a, b in zip(self.low, other.low, strict=True)),
            tuple(a + b for a, b in zip(self.high, other.high, strict=True)),
        )


def _summaries(m: Array, labels: NDArray[np.intp]) -> tuple[MarginSummary, ...]:
    found = []
    for k, column in enumerate(np.clip(m, -FAR_MARGIN, FAR_MARGIN).T):
        logits = np.column_stack([column, np.zeros(len(column))])
        data = LabelledLogits(logits, np.zeros(2), (labels != k).astype(np.intp), None, False)
        found.append(summarise_margins(data))
    return tuple(found)


@dataclass(frozen=True)
class BoundedShifts(ClassShifts):
    """Class shifts that some completion of the labelled answers makes plausible."""

    saves = False

    def summarise(self, data: LabelledLogits) -> Any:
        """Of logits, whose margins are known."""
        m = margins(data.logits, data.center).T
        return BoundedMargins.of(m, m, data.labels)

    def endpoints(self, evidence: Any, budgets: Array, reference: Reference) -> Endpoints:
        """Plausible shifts (A, K), lower ones of the upper margins, upper ones of the lower."""
        two = Reference(np.zeros(2))
        low = [plausible_shifts(part, budgets, two) for part in evidence.high]
        high = [plausible_shifts(part, budgets, two) for part in evidence.low]
        return Endpoints(
            _far(np.stack([ends.lower[:, 0] for ends in low], axis=1)),
            _far(np.stack([ends.upper[:, 0] for ends in high], axis=1)),
            reference.center,
            None,
            max(ends.residual for ends in (*low, *high)),
            max(ends.error for ends in (*low, *high)),
        )


def _far(shifts: Array) -> Array:
    return np.where(np.abs(shifts) > FAR_SHIFT, np.copysign(np.inf, shifts), shifts)
