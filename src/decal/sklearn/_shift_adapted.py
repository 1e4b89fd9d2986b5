"""ShiftAdaptedClassifier: `decal.LabelShift` around an estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from decal._base.data_frames import index_of, require_same_order
from decal._base.numerics import Array
from decal._base.settings import check_choice
from decal.credal import SET_RULES, IntervalCredalSet
from decal.shift import Frequencies, LabelShift
from decal.sklearn._held_out import HeldOutClassifier


class ShiftAdaptedClassifier(HeldOutClassifier):
    """A classifier that adapts to other class frequencies, from inputs without labels.

    `fit` calibrates the estimator's logits on rows it was not fitted to. `observe` takes unlabelled
    inputs from where the classifier is to be used. From then on `predict` and `predict_proba` are
    adapted to the most likely frequencies there, and `predict_credal` gives the interval of every
    probability. `fit` forgets what was observed, and so does `clone`.

    Parameters
    ----------
    estimator, cv, method, floor, n_jobs
        As in `decal.sklearn.CredalClassifier`, which has the other attributes, too.
    confidence, calibrate, region, corrected
        As in `decal.LabelShift`. Labels that the logits predict perfectly, or no better than
        chance, have no best scale: they need calibrate=False.

    Attributes
    ----------
    shift_
        The fitted `decal.LabelShift`: its `test` tells whether frequencies changed.
    frequencies_
        How frequent the classes are among the inputs observed, with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from decal.sklearn import ShiftAdaptedClassifier
    >>> rng = np.random.default_rng(0)
    >>> def draw(n, share):
    ...     y = (rng.random(n) < share).astype(int)
    ...     return (1.7 * y + rng.normal(size=n))[:, None], np.array(["well", "sick"])[y]
    >>> clf = ShiftAdaptedClassifier(LogisticRegression(tol=1e-8)).fit(*draw(2000, 0.5))
    >>> clf.predict_proba([[1.0]]).round(2)
    array([[0.57, 0.43]])
    >>> clf.observe(draw(1000, 0.1)[0]).predict_proba([[1.0]]).round(2)
    array([[0.14, 0.86]])
    >>> clf.predict_credal([[1.0]])
    IntervalCredalSet: 1 input, 2 classes, mean width 0.099
      0  well [0.810, 0.909]  sick [0.091, 0.190]
    """

    _learner_name = "shift_"
    shift_: LabelShift

    def __init__(
        self,
        estimator: Any,
        *,
        confidence: float = 0.95,
        calibrate: bool = True,
        region: str = "auto",
        corrected: bool = True,
        cv: Any = 5,
        method: str = "auto",
        floor: float | str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(estimator, cv=cv, method=method, floor=floor, n_jobs=n_jobs)
        self.confidence = confidence
        self.calibrate = calibrate
        self.region = region
        self.corrected = corrected

    # Learning

    def _learner(self) -> LabelShift:
        return LabelShift(
            self.confidence, calibrate=self.calibrate, region=self.region, corrected=self.corrected
        )

    def observe(self, X: Any, sample_weight: Any = None) -> Self:
        """Take note of unlabelled inputs; a weight of 2 counts like two equal rows."""
        check_is_fitted(self)
        require_same_order(X=X, sample_weight=sample_weight)
        self.shift_.observe(self.predict_logits(X), sample_weight=sample_weight)
        return self

    @property
    def frequencies_(self) -> Frequencies:
        """How frequent the classes are among the inputs observed, of which there must be some."""
        check_is_fitted(self)
        return self.shift_.frequencies

    # Asking

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) most probable classes, at the most likely frequencies."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Array:
        """(n, K) probabilities at the most likely frequencies; before `observe`, calibrated."""
        logits = self.predict_logits(X)
        return self.shift_.fitted.point(logits)

    def predict_credal(self, X: Any, frequencies: Any = None) -> IntervalCredalSet:
        """The credal sets of n inputs, with the classes' names and the index of a DataFrame.

        `frequencies` are as for `LabelShift.predict`; without, something must be observed first.
        """
        logits = self.predict_logits(X)
        sets = self.shift_.predict(logits, frequencies=frequencies)
        return sets.with_index(index_of(X, rows=len(sets), name="X"))

    def predict_set(
        self, X: Any, rule: str = "e_admissible", frequencies: Any = None
    ) -> NDArray[np.bool_]:
        """(n, K) which classes remain; rules are those of `CredalClassifier.predict_set`."""
        check_choice(rule, "rule", SET_RULES)
        return np.asarray(self.predict_credal(X, frequencies).decide(rule))
