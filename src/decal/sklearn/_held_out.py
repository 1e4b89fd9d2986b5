"""Logits of an estimator on rows that it was not fitted to, by the conventions of scikit-learn."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedShuffleSplit, check_cv
from sklearn.utils import Bunch, assert_all_finite, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from decal._base.data_frames import require_same_order
from decal._base.errors import FitWarning, InputError
from decal._base.numerics import Array
from decal._base.row_checks import check_weights, to_numpy
from decal._base.settings import check_choice
from decal.rows import Rows
from decal.schema import SMALLEST, Schema, logits_from_probabilities, read_logits
from decal.votes import Votes

Indices = NDArray[np.intp]

METHODS = ("auto", "predict_logits", "predict_proba", "decision_function")


class HeldOutClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """What classifiers around an estimator share: its logits on rows that it was not fitted to."""

    _learner_name: ClassVar[str]  # the attribute that keeps what learns from the logits

    def __init__(
        self, estimator: Any, *, cv: Any, method: str, floor: float | str, n_jobs: int | None
    ) -> None:
        self.estimator, self.cv, self.method = estimator, cv, method
        self.floor, self.n_jobs = floor, n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator, unless it is frozen, and learn from its logits on held-out rows.

        X is anything that the estimator takes, y (n,) labels of two classes or more. A weight of 2
        counts like two equal rows in the likelihood. `fit_params` are for the estimator's `fit`;
        values of length n are split along with the rows.
        """
        learner = self._learner()  # refuses bad settings before anything is fitted
        held = self._fit_held_out(X, y, sample_weight, fit_params)
        setattr(self, self._learner_name, self._learnt(learner, held))
        return self

    def _learner(self) -> Any:
        """What learns from the held-out logits, with this classifier's settings."""
        raise NotImplementedError

    @property
    def _promises(self) -> bool:
        """Whether labels are to prove a promise, and so must not decide about the floor."""
        return False

    def _learnt(self, learner: Any, held: Rows) -> Any:
        """What was learnt from the held-out rows."""
        return learner.fit(
            held.logits, held.labels, sample_weight=held.weights, classes=self.classes_
        )

    def _fit_held_out(self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any]) -> Rows:
        """Held-out rows; this sets `estimator_`, and whether it was refitted to all of them."""
        check_choice(self.method, "method", METHODS)
        floor = _check_floor(self.floor)
        require_same_order(X=X, y=y, sample_weight=sample_weight)
        X, y = validate_data(self, X, y, skip_check_array=True)
        _require_one_label(y)
        kind: Any = getattr(y, "dtype", None)
        self._categories = kind.categories if getattr(kind, "ordered", False) else None
        X, y = indexable(X, column_or_1d(y, warn=True))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        weights = check_weights(sample_weight, rows=len(y))
        routed = self._route(weights, fit_params)

        frozen = isinstance(self.estimator, FrozenEstimator)
        if frozen:
            check_is_fitted(self.estimator)
        classes = np.unique(classes_of(self.estimator) if frozen else y)
        labels = columns_of(y, classes)
        whole = [(self.estimator, X, np.arange(len(y)))]
        parts = whole if frozen else self._fit_parts(X, y, routed)
        model = parts[0][0]
        method = choose_method(model, self.method)
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
            floor = unseen if impossible or self._promises else SMALLEST
        if method == "predict_proba":
            logits = np.maximum(logits, np.log(floor))

        self.estimator_, self.classes_ = model, classes
        self.method_, self.floor_, self._unseen = method, floor, unseen
        self._refitted = len(parts) > 1
        return Rows(logits, labels, weights)[rows]

    def _route(self, weights: Array | None, fit_params: dict[str, Any]) -> Bunch:
        """The arguments besides X and y of the estimator's fit and of the splitter's split."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=weights, **fit_params)
        if weights is not None and not isinstance(self.estimator, FrozenEstimator):
            if has_fit_parameter(self.estimator, "sample_weight"):
                fit_params = {**fit_params, "sample_weight": weights}
            else:
                FitWarning.warn(
                    f"{type(self.estimator).__name__}.fit takes no sample_weight: the weights only "
                    "count in the likelihood. For a step of a pipeline, enable metadata routing."
                )
        return Bunch(estimator=Bunch(fit=fit_params), splitter=Bunch(split={}))

    def _fit_parts(self, X: Any, y: NDArray[Any], routed: Bunch) -> list[tuple[Any, Any, Indices]]:
        """Fitted clones of the estimator, each with the rows that were held out from it."""
        splitter = _splitter(self.cv, y)
        try:
            splits = list(splitter.split(X, y, **routed.splitter.split))
        except ValueError as error:
            fact = f"{self.cv!r:.60}, and scikit-learn says: {str(error).rstrip('.')}"
            remedy = "Pass another cv=, such as fewer parts, or more rows of every class."
            raise InputError("cv", f"suit the {len(y)} rows", fact, remedy) from error
        times = np.zeros(len(y), dtype=np.intp)
        for train, rows in splits:
            # Negative numbers count rows from the end, and a mask has one entry per row.
            both = np.intersect1d(*(np.arange(len(y))[np.asarray(part)] for part in (train, rows)))
            if both.size:
                fact = f"row {both[0]} in both parts of a split, one of {both.size} such rows"
                rule = "hold out rows that the estimator is not fitted to"
                raise InputError("cv", rule, fact, "Leave them out of the train part.")
            np.add.at(times, rows, 1)
        if not splits or times.max() != 1:
            rule = "hold out some rows, and none more than once"
            fact = f"{times.max()} times for row {times.argmax()}"
            raise InputError("cv", rule, fact, "Take one split, or a partition.")
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

    def predict_logits(self, X: Any) -> Array:
        """(n, K) the logits that credal sets are made from, a column per class of `classes_`."""
        check_is_fitted(self)
        logits = _logits(self.estimator_, X, self.method_, self.classes_, self._unseen)
        if self.method_ == "predict_proba":
            return np.maximum(logits, np.log(self.floor_))
        return logits


def _logits(model: Any, X: Any, method: str, classes: NDArray[Any], unseen: float) -> Array:
    """(n, K) logits: -inf for a probability of 0, log(unseen) for a class the model lacks."""
    known = classes_of(model)
    raw = to_numpy(getattr(model, method)(X), method)
    if method == "decision_function" and raw.ndim == 1 and len(known) == 2:
        raw = np.column_stack([np.zeros(len(raw)), raw])
    if raw.ndim != 2 or raw.shape[1] != len(known):
        raise InputError(
            f"estimator must have a {method} with a column for each of its {len(known)} classes: "
            f"{type(model).__name__} gave shape {raw.shape}. Choose another method=."
        )
    if method == "predict_proba":
        scores = logits_from_probabilities(raw, floor=0.0, name=method)
    else:
        remedy = "Set method='predict_proba' if the estimator has that"
        z = read_logits(raw, Schema(masks=False), name=method, remedy=remedy)
        scores = z.astype(np.float64)
    if np.array_equal(known, classes):
        return scores
    logits = np.full((len(scores), len(classes)), np.log(unseen))
    logits[:, columns_of(known, classes)] = log_softmax(scores, axis=1)
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
    """InputError if rows have several labels."""
    if isinstance(y, Votes):
        remedy = "Fit to one label per row, then pass Votes of other rows to promise."
        raise InputError("y", "be one label per row", f"{y}", remedy)
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        remedy = (
            "Of one-hot rows take y.argmax(axis=1). If a row may have several labels, each is a "
            "question of its own: decal.MultiLabelDecalibrator takes predictions of all of them at "
            "once, and sklearn.multioutput.MultiOutputClassifier(CredalClassifier(...)) fits one "
            "per column."
        )
        raise InputError("y", "be a vector, one label per row", f"shape {shape}", remedy)


def choose_method(model: Any, method: str) -> str:
    """The method of a model that gives logits or probabilities; InputError if it has none."""
    wanted = ("predict_logits", "predict_proba") if method == "auto" else (method,)
    for name in wanted:
        if hasattr(model, name):
            return name
    advice = "Set method='decision_function' if that gives logits." if method == "auto" else ""
    raise InputError(
        f"estimator must have {' or '.join(wanted)}: {type(model).__name__} has not. {advice}"
    )


def classes_of(model: Any) -> NDArray[Any]:
    """(K,) the classes of a fitted model."""
    if not hasattr(model, "classes_"):
        raise InputError(
            f"estimator must be a classifier with classes_: {type(model).__name__} has none."
        )
    return np.asarray(model.classes_)


def columns_of(labels: NDArray[Any], classes: NDArray[Any]) -> Indices:
    """The index of each label among the sorted classes."""
    if len(classes) < 2:
        raise InputError("y", "hold two classes or more", f"one class, {classes.tolist()}")
    known = np.isin(labels, classes)
    if not known.all():
        fact = f"{labels[~known].tolist()[0]!r} at index {int(known.argmin())}"
        rule = f"hold classes that the estimator knows, {classes.tolist()}"
        raise InputError("y", rule, fact)
    return np.searchsorted(classes, labels)


def _splitter(cv: Any, y: NDArray[Any]) -> Any:
    """What splits rows, from what `cv` may be."""
    if isinstance(cv, str):
        remedy = "Pass a number, a share of rows, a splitter or pairs of row numbers."
        if cv == "prefit":
            fitted = "Put the fitted estimator into sklearn.frozen.FrozenEstimator"
            remedy = f"{fitted}, and call fit with rows that it has not seen."
        raise InputError("cv", "not be text", f"{cv!r}", remedy)
    if isinstance(cv, Real) and not isinstance(cv, Integral):
        if not 0 < float(cv) < 1:
            raise InputError("cv", "lie between 0 and 1 as a share of rows", f"{cv}")
        # The same rows are held out every time.
        return StratifiedShuffleSplit(1, test_size=float(cv), random_state=0)
    return check_cv(cv, y, classifier=True)


def _check_floor(floor: Any) -> float | None:
    if isinstance(floor, str) and floor == "auto":
        return None
    if isinstance(floor, bool) or not isinstance(floor, Real) or not 0 < float(floor) < 1:
        raise InputError("floor", "be 'auto' or a number between 0 and 1", f"{floor!r}")
    return float(floor)
