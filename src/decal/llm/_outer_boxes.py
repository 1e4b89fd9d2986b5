"""Credal sets of label masses that are known as intervals: outer boxes, proved to hold the truth.

The probability of a label, after any plausible change of the model, is

    p_j = M_j^s e^(d_j) / sum_l M_l^s e^(d_l),        s >= 0, d in R^K,

with the label masses M. It grows with M_j and falls with every other mass, whatever s and d are.
So the lower bound of the box of label j, over all plausible changes and over all masses between
their bounds, is that of the ordinary box where M_j is least and the others are greatest, and the
upper bound that where M_j is greatest and the others are least: 2 K ordinary boxes per input.
docs/llm.md has the proof, and why it holds for local sets as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from decal._base.numerics import Array, softmax
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.directions import Direction
from decal.directions._class_shifts import ClassShifts
from decal.directions._local import Local
from decal.directions._temperature import Temperature
from decal.llm._masses import LabelMasses

__all__ = ["label_probabilities", "predict"]


def predict(
    decalibrator: Decalibrator, masses: LabelMasses, *, alpha: float | None = None
) -> IntervalCredalSet:
    """Credal sets of answers, whatever the tokens that are not listed.

    Parameters
    ----------
    decalibrator : Decalibrator
        Fitted on logits of the same labels, by `decal.llm.decalibrate` or otherwise. Class shifts,
        temperature and local sets, in any combination; but not `decal.Local(by_entropy=...)`, and
        no lines, for which nothing is proved.
    masses : LabelMasses
        Of the answers.
    alpha : float, optional
        The level; by default the decalibrator's.

    Returns
    -------
    IntervalCredalSet
        Each box contains the one that the probabilities of the whole vocabulary would give. Where
        all masses are known it is that box. The point is the reference's prediction for the
        masses halfway between their bounds. 2 K + 1 predictions.

    Examples
    --------
    >>> import numpy as np, decal
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, classes=["yes", "no"])
    >>> z = np.log([[0.5, 0.3, 0.15, 0.05]])
    >>> v = decal.llm.Verbaliser(["yes", "no"])
    >>> tokens = ["yes", "the", "no", "a"]
    >>> for top in (None, 2):
    ...     print(decal.llm.predict(d, decal.llm.vocabulary_masses(z, tokens, v, top=top)))
    IntervalCredalSet: 1 input, 2 classes, mean width 0.556
      0  yes [0.306, 0.861]  no [0.139, 0.694]
    IntervalCredalSet: 1 input, 2 classes, mean width 0.752
      0  yes [0.248, 1.000]  no [0.000, 0.752]
    """
    require_monotone(decalibrator.directions)
    _require_same_labels(decalibrator, masses)
    model = decalibrator._taking_logits()
    center = decalibrator.reference_model.center

    def box(logits: Array) -> IntervalCredalSet:
        return model.predict(logits, alpha=alpha)

    return _outer(masses, box, np.isfinite(center))


def label_probabilities(masses: LabelMasses) -> IntervalCredalSet:
    """The probabilities of the labels themselves, normalised over the labels; nothing is moved.

    Parameters
    ----------
    masses : LabelMasses
        Of the answers.

    Examples
    --------
    >>> import numpy as np, decal
    >>> v = decal.llm.Verbaliser(["yes", "no"])
    >>> z = np.log([[0.5, 0.3, 0.15, 0.05]])
    >>> masses = decal.llm.vocabulary_masses(z, ["yes", "no", "the", "a"], v, top=2)
    >>> decal.llm.label_probabilities(masses)
    IntervalCredalSet: 1 input, 2 classes, mean width 0.000
      0  yes [0.625, 0.625]  no [0.375, 0.375]
    """

    def box(logits: Array) -> IntervalCredalSet:
        p = softmax(logits)
        return IntervalCredalSet._trusted(p, p, p, masses.classes)

    return _outer(masses, box, np.ones(masses.shape[1], dtype=bool))


def _outer(masses: LabelMasses, box: Any, present: Any) -> IntervalCredalSet:
    """The outer box of `box`, a function from logits (n, K) to boxes.

    Parameters
    ----------
    masses : LabelMasses
        Of n inputs.
    box : callable
        Whose bound of label j is monotone: it grows with logit j and falls with the others.
    present : (K,) array
        The labels that the reference does not leave out.
    """
    middle = box(masses.middle)
    low, high = np.array(middle.lower), np.array(middle.upper)
    rows = np.flatnonzero(~masses.exact)
    if rows.size:
        least, most = masses.lower[rows], masses.upper[rows]
        for j in range(masses.shape[1]):
            low[rows, j] = _bound(box, most, least, j, np.isneginf(least[:, j]), 0.0, low[rows, j])
            # Without a rival that certainly has mass, the label may have all of it.
            rivals = present.copy()
            rivals[j] = False
            alone = np.isneginf(least[:, rivals]).all(axis=1)
            high[rows, j] = _bound(box, least, most, j, alone, 1.0, high[rows, j])
    names = masses.names
    found = IntervalCredalSet._trusted(low, high, middle.point, masses.classes)
    return found if names is None else found.with_index(list(names))


def _bound(
    box: Any, others: Array, own: Array, j: int, vacuous: Any, limit: float, known: Array
) -> Array:
    """One side of the interval of label j: `limit` where nothing is known, else from a corner."""
    found = np.full(len(own), limit)
    rows = np.flatnonzero(~vacuous)
    if rows.size:
        corner = others[rows]
        corner[:, j] = own[rows, j]
        at = box(corner)
        # The interval of the masses halfway lies inside, but for round-off.
        if limit == 0.0:
            found[rows] = np.minimum(at.lower[:, j], known[rows])
        else:
            found[rows] = np.maximum(at.upper[:, j], known[rows])
    return found


def require_monotone(directions: Iterable[Direction]) -> None:
    """ValueError if a direction's bounds are not known to be monotone in the logits."""
    for direction in directions:
        local = isinstance(direction, Local) and direction.by_entropy is None
        if not (local or isinstance(direction, ClassShifts | Temperature)):
            raise ValueError(
                "directions must be class shifts, temperature or local sets for intervals of label "
                f"masses: got {direction}, whose bounds are not known to be monotone in the "
                "logits. Choose other directions, or ask for all tokens."
            )


def _require_same_labels(decalibrator: Decalibrator, masses: LabelMasses) -> None:
    K = len(decalibrator.class_weights)
    if (decalibrator.classes or masses.classes) != masses.classes or masses.shape[1] != K:
        raise ValueError(
            f"decalibrator must be fitted on the labels {masses.classes}: got "
            f"{decalibrator.classes or K}."
        )
