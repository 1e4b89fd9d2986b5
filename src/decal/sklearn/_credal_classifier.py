"""CredalClassifier: credal sets around an estimator. All the mathematics is in `Decalibrator`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from decal._base.data_frames import index_of
from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.row_checks import to_numpy
from decal._base.settings import DEFAULT_ALPHA, check_alpha, check_choice, check_share
from decal.credal import SET_RULES, IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.directions import Direction
from decal.io import model_files
from decal.sklearn._held_out import (
    METHODS,
    HeldOutClassifier,
    choose_method,
    classes_of,
    columns_of,
)


class CredalClassifier(HeldOutClassifier):
    """A classifier that also predicts credal sets: an interval of probabilities per class.

    `fit` computes the estimator's logits on rows it was not fitted to, and learns from them and
    their labels how far each logit may move (`decal.Decalibrator`).

    Parameters
    ----------
    estimator
        A classifier. In a FrozenEstimator a fitted one is taken as it is, and the rows given to
        `fit` must be ones it was not fitted to.
    alpha : float
        Level in [0, 1]; smaller is more cautious. set_params(alpha=...) needs no new fit.
    directions, likelihood, reference, box
        As in `decal.Decalibrator`.
    cv
        Which rows are held out; not used with a FrozenEstimator.

        * A whole number, a splitter, or pairs of row numbers (train, test): each test part gets
          its logits from a clone fitted to its train part. With several parts the estimator is then
          refitted to all rows; with one, that clone is kept. No row may be held out twice.
        * A share between 0 and 1: so much of every class is held out, drawn with a fixed seed, and
          the estimator is fitted once, to the other rows.
    method : str
        Where logits come from. "predict_logits", as TabPFN has; "predict_proba", of which the
        logarithm is taken; "decision_function", if its values are logits, as those of logistic
        regression and gradient boosting are and those of support vector machines are not. "auto"
        takes predict_logits if the estimator has it, otherwise predict_proba.
    floor : float or str
        What smaller probabilities are raised to: a number in (0, 1). "auto": 1 / (n + K), for n
        rows and K classes, if a held-out label has probability 0, as from a forest without a vote
        for it; otherwise the smallest positive number. A class that a model was not fitted to gets
        1 / (n + K), or that number, in any case.
    n_jobs : int, optional
        How many clones are fitted at the same time; -1 is one per processor.

    Attributes
    ----------
    estimator_, decalibrator_
        The fitted estimator behind all predictions, and the fitted `decal.Decalibrator`.
    classes_ : (K,) array
        Class labels, sorted.
    method_, floor_
        Where logits come from and, for "predict_proba", the least probability.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Sample weights count in the likelihood, and go to the estimator's `fit` if it takes them. With
    metadata routing enabled, the estimator and the splitter get what they request.

    Differs from the paper in: held-out instead of training logits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from decal.sklearn import CredalClassifier
    >>> flowers = load_iris()
    >>> X, y = flowers.data, flowers.target_names[flowers.target]
    >>> model = LogisticRegression(max_iter=1000, tol=1e-8)  # the same digits on every machine
    >>> clf = CredalClassifier(model, alpha=0.9).fit(X, y)
    >>> clf.predict_credal(X[70:71])
    IntervalCredalSet: 1 input, 3 classes, mean width 0.485
      0  virginica [0.172, 0.880]  versicolor [0.120, 0.823]  setosa [0.000, 0.044]
    >>> [str(name) for name in clf.classes_[clf.predict_set(X[70:71])[0]]]
    ['versicolor', 'virginica']
    """

    _learner_name = "decalibrator_"
    decalibrator_: Decalibrator

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float = DEFAULT_ALPHA,
        directions: Iterable[str | Direction] = ("class",),
        likelihood: str = "mean",
        reference: str = "model",
        box: str = "joint",
        cv: Any = 5,
        method: str = "auto",
        floor: float | str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(estimator, cv=cv, method=method, floor=floor, n_jobs=n_jobs)
        self.alpha, self.directions, self.likelihood = alpha, directions, likelihood
        self.reference, self.box = reference, box

    def _learner(self) -> Decalibrator:
        return Decalibrator(
            self.alpha,
            likelihood=self.likelihood,
            reference=self.reference,
            box=self.box,
            directions=self.directions,
        )

    # Asking

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) most probable classes: the estimator's own, or a recentered model's."""
        check_is_fitted(self)
        if self.decalibrator_.reference == "model":
            predicted = np.asarray(self.estimator_.predict(X))
            return predicted.reshape(len(predicted))  # CatBoost predicts a column
        return np.asarray(self.classes_[self._point(X).argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        """(n, K) probabilities: the estimator's own, or the softmax of its logits if it has none.

        Unless reference="model", those of the recentered model: the credal sets' `point`.
        """
        check_is_fitted(self)
        if self.decalibrator_.reference != "model":
            return self._point(X)
        if not hasattr(self.estimator_, "predict_proba"):
            return np.asarray(softmax(self.predict_logits(X), axis=1))
        own = to_numpy(self.estimator_.predict_proba(X), "predict_proba")
        known = columns_of(classes_of(self.estimator_), self.classes_)
        probabilities = np.zeros((len(own), len(self.classes_)))
        probabilities[:, known] = own
        return probabilities

    def predict_credal(self, X: Any, alpha: float | None = None) -> IntervalCredalSet:
        """The credal sets of n inputs, at this alpha or the classifier's own.

        Their `point` is the softmax of `predict_logits`. The index of a DataFrame stays with them.
        """
        logits = self.predict_logits(X)
        level = self.alpha if alpha is None else alpha
        sets = self.decalibrator_.predict(logits, alpha=level)
        return sets.with_index(index_of(X, rows=len(sets), name="X"))

    def predict_set(
        self, X: Any, rule: str = "e_admissible", alpha: float | None = None
    ) -> NDArray[np.bool_]:
        """(n, K) which classes remain, a column per class of `classes_`.

        By the rule "e_admissible" every class that is most probable for some distribution in the
        set; by "maximality" or "interval_dominance" all that no other class beats for sure.
        """
        check_choice(rule, "rule", SET_RULES)
        return np.asarray(self.predict_credal(X, alpha).decide(rule))

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write what decal has learnt, not the estimator, to a small .npz without pickle."""
        check_is_fitted(self)
        classes = self.classes_
        objects = classes.dtype.kind == "O"
        if objects and not all(isinstance(name, str) for name in classes):
            fact = f"{classes.tolist()!r:.60}"
            raise InputError("classes", "be numbers or texts to be saved", fact)
        names = getattr(self, "feature_names_in_", None)
        settings = {
            "alpha": check_alpha(self.alpha),
            "method": self.method_,
            "floor": float(self.floor_),
            "unseen": float(self._unseen),
            "objects": objects,
            "features": getattr(self, "n_features_in_", None),
            "names": None if names is None else [str(name) for name in names],
        }
        arrays = {
            "decalibrator": model_files.packed(self.decalibrator_),
            "classes": classes.astype(str) if objects else classes,
        }
        model_files.write(Path(path), settings, arrays, compressed=False, kind="classifier")

    @classmethod
    def load(cls, path: str | Path, estimator: Any) -> Self:
        """A fitted classifier: what `save` wrote, around `estimator`, which was ``clf.estimator_``.

        Runs no code from the file, so files of strangers are safe; the estimator is yours to load.
        """
        file = Path(path)
        known = ("decalibrator", "classes")
        settings, arrays = model_files.read(file, lambda name, _: name in known, kind="classifier")
        with model_files.intact(file):
            decalibrator = model_files.unpacked(arrays["decalibrator"], Decalibrator.load)
            classes = arrays["classes"].astype(object) if settings["objects"] else arrays["classes"]
            _require_intact(settings, classes, decalibrator)
            clf = cls(
                estimator if isinstance(estimator, FrozenEstimator) else FrozenEstimator(estimator),
                alpha=settings["alpha"],
                directions=decalibrator.directions,
                likelihood=decalibrator.likelihood,
                reference=decalibrator.reference,
                box=decalibrator.box,
                method=settings["method"],
                floor=settings["floor"],
            )
            clf.decalibrator_, clf.classes_, clf.method_ = decalibrator, classes, clf.method
            clf.floor_, clf._unseen = settings["floor"], settings["unseen"]
            if settings["features"] is not None:
                clf.n_features_in_ = settings["features"]
            if settings["names"] is not None:
                clf.feature_names_in_ = np.array(settings["names"], dtype=object)
        check_is_fitted(estimator)
        own = classes_of(estimator)
        if not np.isin(own, classes).all():
            rule = f"know the classes of {path}, {classes.tolist()!r:.60}"
            remedy = "Pass the estimator that it was saved with."
            raise InputError("estimator", rule, f"one of {own.tolist()!r:.60}", remedy)
        choose_method(estimator, clf.method_)
        clf.estimator_ = estimator
        return clf

    def _point(self, X: Any) -> Array:
        point = self.predict_credal(X, 1.0).point  # the same at every alpha
        assert point is not None  # a Decalibrator's sets have one
        return point


def _require_intact(
    settings: dict[str, Any], classes: NDArray[Any], decalibrator: Decalibrator
) -> None:
    """InputError if these cannot be of one fitted classifier."""
    check_alpha(settings["alpha"])
    check_choice(settings["method"], "method", METHODS[1:])
    for name in ("floor", "unseen"):
        check_share(settings[name], name, positive=True)
    if not np.array_equal(np.unique(classes), classes):
        raise InputError("classes", "be sorted, each once")
    if tuple(map(str, classes)) != decalibrator.classes:
        raise InputError("classes", "be those of the Decalibrator")
    features, names = settings["features"], settings["names"]
    if names is not None and (not isinstance(names, list) or len(names) != features):
        raise InputError("names", "be one per feature")
