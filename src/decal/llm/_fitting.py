"""Learning from labelled answers, and predicting, where not all tokens are listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from decal._base.checks import DEFAULT_ALPHA, check_choice, check_keywords, check_labels
from decal._base.data_frames import by_name, require_same_order
from decal._base.numerics import Array, softmax
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.decalibrator import decalibrate as decalibrate_logits
from decal.directions import Reference
from decal.directions._bounded_margins import BoundedMargins
from decal.directions._class_shifts import ClassShifts
from decal.directions._direction import LabelledLogits
from decal.directions._learnt import Learnt
from decal.directions._local import Local
from decal.llm._masses import LabelMasses

__all__ = ["decalibrate", "label_probabilities", "predict"]


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
        Names of labels, or their numbers; or a mapping from the names of answers to these. Those
        with an index of pandas must be in the order of `masses.names`.
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
    if isinstance(labels, Mapping):
        labels = by_name(labels, masses.names, n, "labels", of="answers")
    require_same_order(masses=masses, labels=labels)
    masses.require_order_of(labels)
    columns = check_labels(labels, rows=n, classes=K, names=masses.classes)
    if unlisted != "bounds" or masses.exact.all():
        logits = masses.logits("even" if unlisted == "even" else "refuse", vocabulary=vocabulary)
        return decalibrate_logits(logits, columns, alpha=alpha, classes=masses.classes, **settings)
    model = Decalibrator(alpha, **settings)
    _require_bounds_taken(model)
    weight = np.bincount(columns, minlength=K).astype(np.float64)
    evidence = []
    for direction in model.directions:
        if isinstance(direction, ClassShifts):
            evidence.append(BoundedMargins.of(*margin_bounds(masses), columns))
        else:
            data = LabelledLogits(masses.middle, np.zeros(K), columns, None)
            evidence.append(direction.summarise(data))
    at = Reference(np.zeros(K))
    return model._add(Learnt(model.directions, at, n, weight, tuple(evidence), masses.classes))


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
    return masses.predicted_by(decalibrator, alpha=alpha)


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
        return IntervalCredalSet.unchecked(p, p, p, masses.classes)

    return masses.outer(box, np.ones(masses.shape[1], dtype=bool))


def _require_bounds_taken(model: Decalibrator) -> None:
    """ValueError if nothing is proved about what this model learns from intervals."""
    if model.reference != "model":
        raise ValueError(
            "reference must be 'model' for unlisted='bounds': got "
            f"{model.reference!r}, which needs logits to learn from."
        )
    for direction in model.directions:
        if not isinstance(direction, ClassShifts | Local):
            raise ValueError(
                "directions must be class shifts or local sets for unlisted='bounds': got "
                f"{direction}, which needs logits to learn from. Ask for more tokens, or pass "
                "unlisted='even'."
            )


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
