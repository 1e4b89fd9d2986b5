"""Label masses that are known as intervals: learning from them, and sets proved to hold the truth.

The probability of a label, after any plausible change of the model, is

    p_j = M_j^s e^(d_j) / sum_l M_l^s e^(d_l),        s >= 0, d in R^K,

with the label masses M. It grows with M_j and falls with every other mass, whatever s and d are.
So the lower bound of the box of label j, over all plausible changes and over all masses between
their bounds, is that of the ordinary box where M_j is least and the others are greatest, and the
upper bound that where M_j is greatest and the others are least: 2 K ordinary boxes per input.
docs/evidence_sets.md has the proof, and why it holds for local sets as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import ROW, by_name, require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array, softmax
from decal._base.row_checks import check_labels
from decal._base.settings import check_choice, check_keywords
from decal.choose import decalibrate as decalibrate_logits
from decal.credal import IntervalCredalSet, row_index
from decal.decalibrator import Decalibrator
from decal.directions import (
    BoundedMargins,
    ClassShifts,
    Direction,
    FitState,
    LabelledLogits,
    Local,
    Reference,
    Temperature,
)
from decal.llm._answers import Skipped
from decal.rows import Rows


@dataclass(frozen=True, eq=False)
class LabelMasses:
    """Lower and upper log-masses of K labels in n answers.

    `label_masses` reads them from responses, `vocabulary_masses` from log-probabilities of all
    tokens; `decal.llm.predict` makes credal sets of them.

    Attributes
    ----------
    lower, upper : (n, K) arrays
        Logarithms of the least and the greatest mass of each label; -inf for none.
    classes, names, skipped : tuples
        The names of the labels, those of the answers (or None), and the responses left out.
    """

    lower: Array
    upper: Array
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = None
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.lower)

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        """TypeError: intervals are no array, and an array of their rows would be nonsense."""
        raise TypeError(
            "LabelMasses, which are intervals. Use decal.llm.decalibrate and decal.llm.predict, or "
            "pass masses.logits()"
        )

    def predicted_by(
        self, decalibrator: Decalibrator, *, alpha: float | None = None
    ) -> IntervalCredalSet:
        """Credal sets of these answers: `decal.llm.predict`, and `decalibrator.predict`, too."""
        require_monotone(decalibrator.directions)
        K = len(decalibrator.class_weights)
        if (decalibrator.classes or self.classes) != self.classes or self.shape[1] != K:
            rule = f"be fitted on the labels {self.classes}"
            raise InputError("decalibrator", rule, f"{decalibrator.classes or K}")

        def box(logits: Array) -> IntervalCredalSet:
            found: IntervalCredalSet = decalibrator.predict_rows(Rows(logits), alpha=alpha)
            return found

        return outer_boxes(self, box, np.isfinite(decalibrator.reference_model.center))

    def learnt_by(self, model: Decalibrator, labels: NDArray[np.intp]) -> FitState:
        """The evidence of labelled answers, whatever the tokens that are not listed."""
        _require_bounds_taken(model)
        n, K = self.shape
        weight = np.bincount(labels, minlength=K).astype(np.float64)
        evidence = []
        for direction in model.directions:
            if isinstance(direction, ClassShifts):
                evidence.append(BoundedMargins.of(*margin_bounds(self), labels))
            else:
                data = LabelledLogits(self.middle, np.zeros(K), labels, None)
                evidence.append(direction.summarise(data))
        at = Reference(np.zeros(K))
        return FitState(model.directions, at, n, weight, tuple(evidence), self.classes)

    @property
    def _index(self) -> dict[str, NDArray[Any]] | None:
        """What tells answers apart, see `decal._base.data_frames.require_same_order`."""
        return None if self.names is None else {ROW: np.array(self.names)}

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): answers and labels."""
        n, K = self.lower.shape
        return n, K

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(n,) True where nothing is missing: lower and upper masses are the same."""
        return np.asarray((self.lower == self.upper).all(axis=1))

    @property
    def middle(self) -> Array:
        """(n, K) logarithms of the masses halfway between the bounds: one of all completions."""
        with np.errstate(divide="ignore"):
            middle: Array = np.logaddexp(self.lower, self.upper) - np.log(2.0)
        return middle

    def __getitem__(self, rows: Any) -> LabelMasses:
        """The chosen answers: an integer, a slice, a mask or a list of integers."""
        rows = row_index(rows, len(self.lower))
        names = None if self.names is None else tuple(np.array(self.names, dtype=object)[rows])
        return replace(
            self, lower=self.lower[rows], upper=self.upper[rows], names=names, skipped=()
        )

    def __repr__(self) -> str:
        n, K = self.shape
        exact = int(self.exact.sum())
        return f"LabelMasses: {n:,} answers, {K} labels, {exact:,} known exactly"

    def logits(self) -> Array:
        """(n, K) logits of the labels; InputError unless all masses are known."""
        rows = np.flatnonzero(~self.exact)
        if rows.size:
            fact = f"{rows.size} of {len(self)} answers with labels that are not listed, the "
            fact += f"first at index {rows[0]}"
            remedy = "Ask for more tokens, or pass unlisted='bounds' to decal.llm.decalibrate."
            raise InputError("masses", "be known exactly for logits", fact, remedy)
        return self.lower


def decalibrate(
    masses: LabelMasses,
    labels: Any,
    *,
    unlisted: str = "refuse",
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on labelled answers, at an alpha or with a promise.

    Parameters
    ----------
    masses, labels : LabelMasses, (n,) array
        Of n answers, and names of labels, or their numbers; or a mapping from the names of answers
        to these. Labels with an index of names must be in the order of the answers.
    unlisted : str
        If some masses are intervals, "refuse": an error. "bounds": learn the shifts that some
        completion makes plausible, which contain those of the true one; for class shifts and local
        sets with reference="model", of which a wish chooses, and not for `hold`.
    settings
        As for `decal.decalibrate`: exactly one of `alpha`, `miss`, `width` and `hold`, and others.

    Examples
    --------
    >>> import numpy as np, decal
    >>> z = np.log([[0.5, 0.3, 0.15, 0.05], [0.1, 0.3, 0.55, 0.05]])
    >>> v = decal.llm.Verbaliser({"yes": ["yes", "yep"], "no": "no"})
    >>> cut = decal.llm.vocabulary_masses(z, ["yes", "the", "no", "yep"], v, top=3)
    >>> d = decal.llm.decalibrate(cut, ["yes", "no"], alpha=0.9, unlisted="bounds")
    >>> d.shifts().upper.round(2)
    array([1.45, 1.12])
    """
    takers = decalibrate, decalibrate_logits, Decalibrator
    check_keywords(settings, "decal.llm.decalibrate", *takers)
    check_choice(unlisted, "unlisted", ("refuse", "bounds"))
    n, K = masses.shape
    if isinstance(labels, Mapping):
        labels = by_name(labels, masses.names, n, "labels", of="answers")
    require_same_order(masses=masses, labels=labels)
    columns = check_labels(labels, rows=n, classes=K, names=masses.classes)
    if unlisted != "bounds" or masses.exact.all():
        return decalibrate_logits(masses.logits(), columns, classes=masses.classes, **settings)
    if settings.get("sample_weight") is not None:
        raise InputError("sample_weight", "be left out for unlisted='bounds'", "some")
    rows = Rows(masses, columns, classes=masses.classes)
    settings = {"reference": "model"} | settings
    _require_bounds_taken(Decalibrator(reference=settings["reference"]))
    return decalibrate_logits(rows, None, classes=masses.classes, **settings)


def predict(
    decalibrator: Decalibrator, masses: LabelMasses, *, alpha: Any = None, groups: Any = None
) -> IntervalCredalSet:
    """Credal sets of answers, whatever the tokens that are not listed.

    Each box contains the one that the whole vocabulary would give, and is that one where all masses
    are known. The point is that of masses halfway. Takes 2 K + 1 predictions of a decalibrator
    fitted on these labels, in class shifts, temperature and local sets; nothing is proved for lines
    and `decal.Local(by_entropy=...)`.

    Examples
    --------
    >>> import numpy as np, decal
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, classes=["yes", "no"])
    >>> z = np.log([[0.5, 0.3, 0.15, 0.05]])
    >>> v = decal.llm.Verbaliser(["yes", "no"])
    >>> cut = decal.llm.vocabulary_masses(z, ["yes", "the", "no", "a"], v, top=2)
    >>> decal.llm.predict(d, cut)
    IntervalCredalSet: 1 input, 2 classes, mean width 0.752
      0  yes [0.248, 1.000]  no [0.000, 0.752]
    """
    return decalibrator.predict(masses, alpha=alpha, groups=groups)


def label_probabilities(masses: LabelMasses) -> IntervalCredalSet:
    """The probabilities of the labels in the answers, normalised over the labels; nothing moves."""

    def box(logits: Array) -> IntervalCredalSet:
        p = softmax(logits)
        return IntervalCredalSet.unchecked(p, p, p, masses.classes)

    return outer_boxes(masses, box, np.ones(masses.shape[1], dtype=bool))


def _require_bounds_taken(model: Decalibrator) -> None:
    """InputError if nothing is proved about what this model learns from intervals."""
    needs = "which needs logits to learn from"
    if model.reference != "model":
        rule = "be 'model' for unlisted='bounds'"
        raise InputError("reference", rule, f"{model.reference!r}, {needs}")
    for direction in model.directions:
        if not isinstance(direction, ClassShifts | Local):
            rule = "be class shifts or local sets for unlisted='bounds'"
            remedy = "Ask for more tokens."
            raise InputError("directions", rule, f"{direction}, {needs}", remedy)


def margin_bounds(masses: LabelMasses) -> tuple[Array, Array]:
    """(n, K) least and greatest log-odds of every label against the rest; perhaps infinite."""
    n, K = masses.shape
    low, high = np.empty((n, K)), np.empty((n, K))
    for j in range(K):
        others = np.arange(K) != j
        with np.errstate(invalid="ignore"):
            low[:, j] = masses.lower[:, j] - np.logaddexp.reduce(masses.upper[:, others], axis=1)
            high[:, j] = masses.upper[:, j] - np.logaddexp.reduce(masses.lower[:, others], axis=1)
    # Nothing against nothing says nothing.
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def outer_boxes(
    masses: LabelMasses, box: Callable[[Array], IntervalCredalSet], present: NDArray[np.bool_]
) -> IntervalCredalSet:
    """The boxes that hold `box(logits)`, (n, K), of all masses; (K,) `present` to its reference."""
    inside = box(masses.middle)
    low, high = np.array(inside.lower), np.array(inside.upper)
    rows = np.flatnonzero(~masses.exact)
    if rows.size:
        least, most = masses.lower[rows], masses.upper[rows]
        for j in range(least.shape[1]):
            low[rows, j] = _bound(box, most, least, j, np.isneginf(least[:, j]), 0.0, low[rows, j])
            # Without a rival that certainly has mass, the label may have all of it.
            rivals = present.copy()
            rivals[j] = False
            unrivalled = np.isneginf(least[:, rivals]).all(axis=1)
            high[rows, j] = _bound(box, least, most, j, unrivalled, 1.0, high[rows, j])
    found = IntervalCredalSet.unchecked(low, high, np.asarray(inside.point), masses.classes)
    return found if masses.names is None else found.with_index(list(masses.names))


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
        end, outer = (at.lower, np.minimum) if limit == 0.0 else (at.upper, np.maximum)
        # The interval of the masses halfway lies inside, but for round-off.
        found[rows] = outer(end[:, j], known[rows])
    return found


def require_monotone(directions: Iterable[Direction]) -> None:
    """InputError if a direction's bounds are not known to be monotone in the logits."""
    for direction in directions:
        local = isinstance(direction, Local) and direction.by_entropy is None
        if not (local or isinstance(direction, ClassShifts | Temperature)):
            rule = "be class shifts, temperature or local sets for intervals of label masses"
            fact = f"{direction}, whose bounds are not known to be monotone in the logits"
            remedy = "Choose other directions, or ask for all tokens."
            raise InputError("directions", rule, fact, remedy)
