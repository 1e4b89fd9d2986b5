"""CredalClassifier: a scikit-learn estimator around a scikit-learn estimator.

It computes the estimator's logits on rows that were held out, passes them to a Decalibrator, and
follows the conventions of scikit-learn. All the mathematics is in `decal.Decalibrator`.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from decal._base.checks import (
    DEFAULT_ALPHA,
    check_choice,
    check_weights,
    to_numpy,
)
from decal._base.data_frames import index_of
from decal._base.inputs import SMALLEST, logits_from_probabilities, read_logits
from decal._base.numerics import Array
from decal._io import model_files
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.decisions import SET_RULES
from decal.directions import Direction

try:
    from sklearn import get_config  # type: ignore[import-untyped]
    from sklearn.base import (  # type: ignore[import-untyped]
        BaseEstimator,
        ClassifierMixin,
        MetaEstimatorMixin,
        clone,
    )
    from sklearn.frozen import FrozenEstimator  # type: ignore[import-untyped]
    from sklearn.model_selection import (  # type: ignore[import-untyped]
        StratifiedShuffleSplit,
        check_cv,
    )
    from sklearn.utils import (  # type: ignore[import-untyped]
        Bunch,
        assert_all_finite,
        get_tags,
        indexable,
    )
    from sklearn.utils.metadata_routing import (  # type: ignore[import-untyped]
        MetadataRouter,
        MethodMapping,
        process_routing,
    )
    from sklearn.utils.metaestimators import _safe_split  # type: ignore[import-untyped]
    from sklearn.utils.multiclass import (  # type: ignore[import-untyped]
        check_classification_targets,
    )
    from sklearn.utils.parallel import Parallel, delayed  # type: ignore[import-untyped]
    from sklearn.utils.validation import (  # type: ignore[import-untyped]
        _check_method_params,
        check_is_fitted,
        column_or_1d,
        has_fit_parameter,
        validate_data,
    )
except ImportError as error:
    raise ImportError("decal.sklearn needs scikit-learn: pip install 'decal[sklearn]'") from error

__all__ = ["CredalClassifier"]

Indices = NDArray[np.intp]

METHODS = ("auto", "predict_logits", "predict_proba", "decision_function")

FORMAT = "decal-classifier"
"""What the header of a file that `save` writes calls its format."""

SPLIT_SEED = 0
"""The seed of the split if cv is a share of rows: it holds out the same rows every time."""


class CredalClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that also predicts credal sets: an interval of probabilities per class.

    `fit` computes the estimator's logits on rows it was not fitted to, and learns from them and
    their labels how far each logit may move (`decal.Decalibrator`). Logits on training rows would
    not serve: an overfitted model is sure of the labels it has seen, so its likelihood there says
    little about how wrong it may be elsewhere.

    Parameters
    ----------
    estimator
        A classifier. With a FrozenEstimator around a fitted one, that model is taken as it is, and
        the rows given to `fit` must be ones it was not fitted to.
    alpha : float
        Level in [0, 1]; smaller is more cautious. One fit serves every alpha: see the `alpha`
        argument of `predict_credal` and `predict_set`; set_params(alpha=...) needs no new fit.
    directions, likelihood, reference, box
        As in `decal.Decalibrator`.
    cv
        Which rows are held out.

        * A whole number, or a splitter, or pairs of row numbers (train, test): each test part gets
          its logits from a clone fitted to its train part. With several parts the estimator is then
          refitted to all rows; with one, the clone that gave the logits is kept.
        * A share between 0 and 1: this share of every class is held out, drawn with a fixed seed,
          and the estimator is fitted once, to the other rows. For another seed pass
          StratifiedShuffleSplit(1, ...), for rows of your choice PredefinedSplit(...).

        No row may be held out twice. Not used with a FrozenEstimator.
    method : str
        Where logits come from. "predict_logits", as TabPFN has; "predict_proba", of which the
        logarithm is taken; "decision_function", if you know that its values are logits, as those of
        logistic regression and gradient boosting are and those of support vector machines are not
        (a single column is the log-odds of the second class). "auto" takes predict_logits if the
        estimator has it, otherwise predict_proba, never decision_function.
    floor : float or str
        Least probability, for the logarithm. A forest says 0 if no tree votes for a class. If that
        happens to the label of a held-out row, the likelihood is 0 and no set is plausible. "auto"
        then raises all probabilities to at least 1 / (n + K), for n rows and K classes; if no label
        contradicts a zero, zeros become the smallest positive number. A number in (0, 1) is used
        throughout. A class missing from the rows that a model was fitted to gets 1 / (n + K), or
        that number, in any case.
    n_jobs : int, optional
        How many of the clones are fitted at the same time, as everywhere in scikit-learn: None is
        one, -1 as many as there are processors. The results are the same.

    Attributes
    ----------
    estimator_
        The fitted estimator behind all predictions.
    decalibrator_
        The fitted `decal.Decalibrator`.
    classes_ : (K,) array
        Class labels, sorted.
    method_
        The method that logits come from.
    floor_
        The least probability; only used if `method_` is "predict_proba".
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
        self.estimator = estimator
        self.alpha = alpha
        self.directions = directions
        self.likelihood = likelihood
        self.reference = reference
        self.box = box
        self.cv = cv
        self.method = method
        self.floor = floor
        self.n_jobs = n_jobs

    # Learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator, unless it is frozen, and learn from its logits on held-out rows.

        Parameters
        ----------
        X : (n, d) array
            Features; anything that the estimator takes.
        y : (n,) array
            Labels: numbers or strings, two classes or more.
        sample_weight : (n,) array, optional
            A weight of 2 counts like two equal rows in the likelihood.
        fit_params
            For the estimator's `fit`; values of length n are split along with the rows.
        """
        decalibrator = Decalibrator(
            self.alpha,
            likelihood=self.likelihood,
            reference=self.reference,
            box=self.box,
            directions=self.directions,
        )
        check_choice(self.method, "method", METHODS)
        floor = _check_floor(self.floor)
        X, y = validate_data(self, X, y, skip_check_array=True)
        _require_one_label(y)
        X, y = indexable(X, column_or_1d(y, warn=True))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        weights = check_weights(sample_weight, rows=len(y))
        routed = self._route(weights, fit_params)

        frozen = isinstance(self.estimator, FrozenEstimator)
        if frozen:
            check_is_fitted(self.estimator)
        classes = np.unique(_classes_of(self.estimator) if frozen else y)
        labels = _columns(y, classes)
        if frozen:
            parts = [(self.estimator, X, np.arange(len(y)))]
        else:
            parts = self._fit_parts(X, y, routed)
        model = parts[0][0]
        method = _choose_method(model, self.method)
        if len(parts) > 1:
            model = clone(self.estimator)
            model.fit(X, y, **_check_method_params(X, routed.estimator.fit))

        unseen = floor or 1 / (len(y) + len(classes))
        logits = np.empty((len(y), len(classes)))
        for part, X_rows, rows in parts:
            logits[rows] = _logits(part, X_rows, method, classes, unseen)
        rows = np.sort(np.concatenate([rows for _, _, rows in parts]))
        if floor is None:
            counted = rows if weights is None else rows[weights[rows] > 0]
            impossible = np.isneginf(logits[counted, labels[counted]]).any()
            floor = unseen if impossible else SMALLEST
        if method == "predict_proba":
            logits = np.maximum(logits, np.log(floor))
        decalibrator.fit(
            logits[rows],
            labels[rows],
            sample_weight=None if weights is None else weights[rows],
            classes=classes,
        )

        self.estimator_, self.decalibrator_, self.classes_ = model, decalibrator, classes
        self.method_, self.floor_, self._unseen = method, floor, unseen
        return self

    def _route(self, weights: Array | None, fit_params: dict[str, Any]) -> Bunch:
        """The arguments besides X and y of the estimator's fit and of the splitter's split."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=weights, **fit_params)
        if weights is not None and not isinstance(self.estimator, FrozenEstimator):
            if has_fit_parameter(self.estimator, "sample_weight"):
                fit_params = {**fit_params, "sample_weight": weights}
            else:
                warnings.warn(
                    f"{type(self.estimator).__name__}.fit takes no sample_weight: the weights only "
                    "count in the likelihood. For a step of a pipeline, enable metadata routing.",
                    UserWarning,
                    stacklevel=3,
                )
        return Bunch(estimator=Bunch(fit=fit_params), splitter=Bunch(split={}))

    def _fit_parts(self, X: Any, y: NDArray[Any], routed: Bunch) -> list[tuple[Any, Any, Indices]]:
        """Fitted clones of the estimator, each with the rows that were held out from it."""
        splits = list(_splitter(self.cv, y).split(X, y, **routed.splitter.split))
        times = np.zeros(len(y), dtype=np.intp)
        for _, rows in splits:
            np.add.at(times, rows, 1)
        if not splits or times.max() != 1:
            raise ValueError(
                "cv must hold out some rows, and none more than once: got "
                f"{times.max()} times for row {times.argmax()}. Take one split, or a partition."
            )
        return list(
            Parallel(n_jobs=self.n_jobs)(
                delayed(_fit_part)(self.estimator, X, y, train, rows, routed.estimator.fit)
                for train, rows in splits
            )
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Who gets which metadata; see scikit-learn's guide to metadata routing."""
        fit = MethodMapping().add(caller="fit", callee="fit")
        split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=fit)
        return router.add(splitter=self.cv, method_mapping=split)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
            tags.classifier_tags.multi_label = False
        return tags

    # Asking

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) most probable classes: the estimator's own predictions.

        Unless reference="model", those of the recentered model.
        """
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
            return np.asarray(softmax(self._new_logits(X), axis=1))
        own = to_numpy(self.estimator_.predict_proba(X), "predict_proba")
        known = _columns(_classes_of(self.estimator_), self.classes_)
        probabilities = np.zeros((len(own), len(self.classes_)))
        probabilities[:, known] = own
        return probabilities

    def predict_logits(self, X: Any) -> Array:
        """(n, K) the logits that credal sets are made from, a column per class of `classes_`."""
        check_is_fitted(self)
        return self._new_logits(X)

    def predict_credal(self, X: Any, alpha: float | None = None) -> IntervalCredalSet:
        """The credal sets of n inputs, with the classes' names.

        Their `point` is the softmax of the logits, which need not be `predict_proba`: TabPFN
        averages the logits of its members for the one and their probabilities for the other. The
        index of a pandas DataFrame stays with the sets.

        Parameters
        ----------
        X : (n, d) array
            Features.
        alpha : float, optional
            Level in [0, 1]; by default the one given at construction.
        """
        check_is_fitted(self)
        return self._credal(X, alpha)

    def predict_set(
        self, X: Any, rule: str = "e_admissible", alpha: float | None = None
    ) -> NDArray[np.bool_]:
        """(n, K) which classes remain, a column per class of `classes_`.

        Parameters
        ----------
        X : (n, d) array
            Features.
        rule : str
            "e_admissible", every class that is most probable for some distribution in the set;
            "maximality" or "interval_dominance", all that no other class beats for sure. For rules
            that choose a single class, or with utilities, ask predict_credal(X).decide(...).
        alpha : float, optional
            Level in [0, 1]; by default the one given at construction.
        """
        check_choice(rule, "rule", SET_RULES)
        check_is_fitted(self)
        return np.asarray(self._credal(X, alpha).decide(rule))

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write what decal has learnt to one small file (.npz, no pickle); not the estimator.

        Estimators know best how to be saved: with joblib, skops, or in a format of their own.
        Pickles run code when they are loaded, and this file does not.

        Parameters
        ----------
        path : path
            Where to.

        See Also
        --------
        load : Puts the two together again.
        """
        check_is_fitted(self)
        classes = self.classes_
        if classes.dtype.kind == "O" and not all(isinstance(name, str) for name in classes):
            raise ValueError(
                f"classes must be numbers or texts to be saved: got {classes.tolist()!r:.60}."
            )
        file = io.BytesIO()
        self.decalibrator_.save(file)
        names = getattr(self, "feature_names_in_", None)
        settings = {
            "alpha": float(self.alpha),
            "method": self.method_,
            "floor": float(self.floor_),
            "unseen": float(self._unseen),
            "objects": classes.dtype.kind == "O",
            "features": getattr(self, "n_features_in_", None),
            "names": None if names is None else [str(name) for name in names],
        }
        arrays = {
            "decalibrator": np.frombuffer(file.getvalue(), dtype=np.uint8),
            "classes": classes.astype(str) if settings["objects"] else classes,
        }
        model_files.write(Path(path), settings, arrays, compressed=False, kind=FORMAT)

    @classmethod
    def load(cls, path: str | Path, estimator: Any) -> Self:
        """A fitted classifier: what `save` wrote, around the estimator that it was fitted with.

        Runs no code from the file, so files of strangers are safe; the estimator is yours to load.

        Parameters
        ----------
        path : path
            Written by `save`.
        estimator
            The same fitted estimator as ``clf.estimator_``, loaded from where you keep it.
        """
        file = Path(path)
        known = ("decalibrator", "classes")
        settings, arrays = model_files.read(file, lambda name, _: name in known, kind=FORMAT)
        with model_files.intact(file):
            decalibrator = Decalibrator.load(io.BytesIO(arrays["decalibrator"].tobytes()))
            classes = arrays["classes"]
            if settings["objects"]:
                classes = classes.astype(object)
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
        own = _classes_of(estimator)
        if not np.isin(own, classes).all():
            raise ValueError(
                f"estimator must know the classes of {path}, {classes.tolist()!r:.60}: got one of "
                f"{own.tolist()!r:.60}. Pass the estimator that it was saved with."
            )
        _choose_method(estimator, clf.method_)
        clf.estimator_ = estimator
        return clf

    def _new_logits(self, X: Any) -> Array:
        logits = _logits(self.estimator_, X, self.method_, self.classes_, self._unseen)
        if self.method_ == "predict_proba":
            return np.maximum(logits, np.log(self.floor_))
        return logits

    def _credal(self, X: Any, alpha: float | None) -> IntervalCredalSet:
        level = self.alpha if alpha is None else alpha
        sets = self.decalibrator_.predict(self._new_logits(X), alpha=level)
        return sets._named(index_of(X, rows=len(sets), name="X"))

    def _point(self, X: Any) -> Array:
        point = self._credal(X, None).point
        assert point is not None  # a Decalibrator's sets have one
        return point


def _logits(model: Any, X: Any, method: str, classes: NDArray[Any], unseen: float) -> Array:
    """(n, K) logits: -inf for a probability of 0, log(unseen) for a class the model lacks."""
    known = _classes_of(model)
    raw = to_numpy(getattr(model, method)(X), method)
    if method == "decision_function" and raw.ndim == 1 and len(known) == 2:
        raw = np.column_stack([np.zeros(len(raw)), raw])
    if raw.ndim != 2 or raw.shape[1] != len(known):
        raise ValueError(
            f"estimator must have a {method} with a column for each of its {len(known)} classes: "
            f"{type(model).__name__} gave shape {raw.shape}. Choose another method=."
        )
    if method == "predict_proba":
        scores = logits_from_probabilities(raw, floor=0.0, name=method)
    else:
        remedy = "Set method='predict_proba' if the estimator has that"
        scores = read_logits(raw, name=method, masked=False, remedy=remedy).astype(np.float64)
    if np.array_equal(known, classes):
        return scores
    logits = np.full((len(scores), len(classes)), np.log(unseen))
    logits[:, _columns(known, classes)] = log_softmax(scores, axis=1)
    return logits


def _fit_part(
    estimator: Any, X: Any, y: NDArray[Any], train: Indices, rows: Indices, params: Any
) -> tuple[Any, Any, Indices]:
    """A clone fitted to the rows `train`, and the `rows` held out, with their inputs."""
    X_train, y_train = _safe_split(estimator, X, y, train)
    model = clone(estimator)
    model.fit(X_train, y_train, **_check_method_params(X, params, train))
    X_rows, _ = _safe_split(estimator, X, y, rows, train)
    return model, X_rows, np.asarray(rows)


def _require_one_label(y: Any) -> None:
    """ValueError if rows have several labels."""
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must be a vector, one label per row: got shape {shape}. Of one-hot rows take "
            "y.argmax(axis=1). If a row may have several labels, each is a question of its own: "
            "decal.MultiLabelDecalibrator takes predictions of all of them at once, and "
            "sklearn.multioutput.MultiOutputClassifier(CredalClassifier(...)) fits one per column."
        )


def _choose_method(model: Any, method: str) -> str:
    wanted = ("predict_logits", "predict_proba") if method == "auto" else (method,)
    for name in wanted:
        if hasattr(model, name):
            return name
    advice = "Set method='decision_function' if that gives logits." if method == "auto" else ""
    raise ValueError(
        f"estimator must have {' or '.join(wanted)}: {type(model).__name__} has not. {advice}"
    )


def _classes_of(model: Any) -> NDArray[Any]:
    if not hasattr(model, "classes_"):
        raise ValueError(
            f"estimator must be a classifier with classes_: {type(model).__name__} has none."
        )
    return np.asarray(model.classes_)


def _columns(labels: NDArray[Any], classes: NDArray[Any]) -> Indices:
    """The index of each label among the sorted classes."""
    if len(classes) < 2:
        raise ValueError(f"y must hold two classes or more: got one class, {classes.tolist()}.")
    known = np.isin(labels, classes)
    if not known.all():
        raise ValueError(
            f"y must hold classes that the frozen estimator knows, {classes.tolist()}: "
            f"got {labels[~known].tolist()[0]!r} at index {int(known.argmin())}."
        )
    return np.searchsorted(classes, labels)


def _splitter(cv: Any, y: NDArray[Any]) -> Any:
    if isinstance(cv, str):
        advice = (
            "Put the fitted estimator into sklearn.frozen.FrozenEstimator, and call fit with rows "
            "that it has not seen."
            if cv == "prefit"
            else "Pass a number, a share of rows, a splitter or pairs of row numbers."
        )
        raise ValueError(f"cv must not be text: got {cv!r}. {advice}")
    if isinstance(cv, Real) and not isinstance(cv, Integral):
        if not 0 < float(cv) < 1:
            raise ValueError(f"cv must lie between 0 and 1 as a share of rows: got {cv}.")
        return StratifiedShuffleSplit(1, test_size=float(cv), random_state=SPLIT_SEED)
    return check_cv(cv, y, classifier=True)


def _check_floor(floor: Any) -> float | None:
    if isinstance(floor, str) and floor == "auto":
        return None
    if isinstance(floor, bool) or not isinstance(floor, Real) or not 0 < float(floor) < 1:
        raise ValueError(f"floor must be 'auto' or a number between 0 and 1: got {floor!r}.")
    return float(floor)
