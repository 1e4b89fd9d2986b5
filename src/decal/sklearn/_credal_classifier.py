"""CredalClassifier: credal sets around an estimator. All the mathematics is in `Decalibrator`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d

from decal._base.data_frames import index_of, require_same_order
from decal._base.errors import FitWarning, InputError, listing
from decal._base.numerics import Array, Indices
from decal._base.row_checks import to_numpy
from decal._base.settings import DEFAULT_ALPHA, check_alpha, check_choice, check_share
from decal.choose import Choice, Promise, Wish
from decal.credal import SET_RULES, IntervalCredalSet
from decal.decalibrator import PUBLISHED, Decalibrator
from decal.directions import Direction
from decal.io import model_files
from decal.report import Report
from decal.rows import Rows
from decal.sklearn._held_out import (
    METHODS,
    HeldOutClassifier,
    choose_method,
    classes_of,
    columns_of,
)
from decal.votes import Votes

DEFAULT_MISS = 0.1  # the wish if none is given

CROSS_FITTED = (
    "approximate, by cross-fitting: clones of the estimator predicted these rows, and one that is "
    "fitted to all of them predicts new inputs; `promise` with rows of its own guarantees it"
)


class CredalClassifier(HeldOutClassifier):
    """A classifier that also predicts credal sets: an interval of probabilities per class.

    `fit` computes the estimator's logits on rows it was not fitted to, and learns from them and
    their labels (`decal.decalibrate`) which classes are possible for a new input, and how probable.

    Parameters
    ----------
    estimator
        A classifier. In a FrozenEstimator a fitted one is taken as it is, and the rows given to
        `fit` must be ones it was not fitted to.
    miss, width, hold : float
        A wish, of which decal chooses the kind of set, its reference and alpha, as
        `decal.decalibrate` does: the true label is outside the possible classes for this share of
        new inputs at most; intervals have this mean width; sets hold the whole true distribution
        for this share of new inputs at least. Give one, or alpha; without any, miss=0.1, and if
        rows are too few for that, a warning, and alpha=0.8.
    per : str, optional
        "class": `miss` holds for every class.
    alpha : float
        A level in [0, 1] instead of a wish, as published; smaller is more cautious. It promises
        nothing. set_params(alpha=...) needs no new fit.
    directions, reference
        As in `decal.Decalibrator`. By default a wish chooses them, and with alpha they are
        ("class",) and "model".
    likelihood, box, tree
        As in `decal.Decalibrator`.
    order : bool
        Whether classes have an order, as numbers of grades have: possible classes are then an
        interval of them. Labels that are an ordered categorical of pandas have one in any case,
        that of their categories, and so have the columns of credal sets and logits.
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
        rows and K classes; with alpha only if a held-out label has probability 0, as from a forest
        without a vote for it, and otherwise the smallest positive number. A class that a model was
        not fitted to gets 1 / (n + K), or that number, in any case.
    n_jobs : int, optional
        How many clones are fitted at the same time; -1 is one per processor.

    Attributes
    ----------
    estimator_, decalibrator_
        The fitted estimator behind all predictions, and the fitted `decal.Decalibrator`.
    promise_ : decal.choose.Promise or None
        What is promised of new inputs; ``print(clf.decalibrator_)`` also tells what it costs.
    classes_ : (K,) array
        Class labels, sorted.
    method_, floor_
        Where logits come from and, for "predict_proba", the least probability.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    What is promised of `miss` and `hold` is guaranteed if the rows it rests on were held out from
    the very estimator that predicts new ones: a frozen one, or cv with one part, or `promise` with
    rows of its own. With several parts, the default, clones predicted these rows, so that they are
    not exchangeable with new inputs: it is approximate, and says so. As `estimator_` has seen more
    rows than its clones, it usually misses less.

    Sample weights count in the likelihood, and go to the estimator's `fit` if it takes them. With
    metadata routing enabled, the estimator and the splitter get what they request.

    Differs from the paper in: held-out instead of training logits, and wishes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from decal.sklearn import CredalClassifier
    >>> flowers = load_iris()
    >>> X, y = flowers.data, flowers.target_names[flowers.target]
    >>> model = LogisticRegression(max_iter=1000, tol=1e-8)  # the same digits on every machine
    >>> clf = CredalClassifier(model, miss=0.02).fit(X, y)
    >>> clf.report(X[[0, 70]], check=0.5)
    Report: 2 inputs, 1 to check
    The true label is outside the kept classes for at most 1 new input in 50; approximately,
    by 99 rows.
      row  prediction  possible                lower  upper  check  0··········1
      0    setosa      setosa                  0.977  1.000         ···········█
      1    virginica   virginica | versicolor  0.498  0.844  yes    ·····█████··
    >>> clf.possible(X[[0, 70]])
    [['setosa'], ['virginica', 'versicolor']]
    """

    _learner_name = "decalibrator_"
    decalibrator_: Decalibrator

    def __init__(
        self,
        estimator: Any,
        *,
        miss: float | None = None,
        width: float | None = None,
        hold: float | None = None,
        per: str | None = None,
        alpha: Any = None,
        directions: Iterable[str | Direction] | None = None,
        likelihood: str = "mean",
        reference: str | None = None,
        box: str = "joint",
        order: bool = False,
        tree: Any = None,
        cv: Any = 5,
        method: str = "auto",
        floor: float | str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(estimator, cv=cv, method=method, floor=floor, n_jobs=n_jobs)
        self.miss, self.width, self.hold, self.per = miss, width, hold, per
        self.alpha, self.directions, self.likelihood = alpha, directions, likelihood
        self.reference, self.box, self.order, self.tree = reference, box, order, tree

    @classmethod
    def published(cls, estimator: Any, alpha: float, **settings: Any) -> Self:
        """A classifier with the settings of the paper, as `decal.published`, and others of yours.

        It promises nothing.
        """
        return cls(estimator, alpha=alpha, **PUBLISHED, **settings)

    # Learning

    @property
    def _promises(self) -> bool:
        return self.alpha is None

    @property
    def _settings(self) -> dict[str, Any]:
        """Settings of a Decalibrator, but for those that are left to a wish."""
        names = ("likelihood", "box", "directions", "reference", "order", "tree")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    def _wish(self, **levels: Any) -> Wish:
        """What this classifier was asked for, or wishes instead of alpha."""
        given = {"miss": self.miss, "width": self.width, "hold": self.hold, **levels}
        if all(value is None for value in given.values()):
            given["miss"] = DEFAULT_MISS
        return Wish.of(**given, per=self.per, settings=self._settings)

    def _learner(self) -> Decalibrator | Wish:
        plain = Decalibrator(DEFAULT_ALPHA if self.alpha is None else self.alpha, **self._settings)
        wish = self._wish(alpha=self.alpha)
        return plain if wish.name == "alpha" else wish

    def _learnt(self, learner: Decalibrator | Wish, held: Rows) -> Decalibrator:
        plain = Decalibrator(DEFAULT_ALPHA, **self._settings)
        order = self._order_of_classes()
        rows = plain.read_labelled(
            held.logits[:, order],
            np.argsort(order)[held.labels],
            sample_weight=held.weights,
            classes=self.classes_[order],
        )
        rows = rows if self._categories is None else replace(rows, order=True)
        if isinstance(learner, Wish) and self._has_too_few(rows.counted(), learner):
            learner = plain
        model = learner.granted(rows) if isinstance(learner, Wish) else learner.fit_rows(rows)
        if self._refitted:
            model.forget_confidences()
            if model.promise is not None and model.promise.guaranteed:
                notes = (*model.promise.notes, CROSS_FITTED)
                model.promise = replace(model.promise, guaranteed=False, notes=notes)
        self._fitted_alpha = self.alpha
        return model

    def _order_of_classes(self) -> Indices:
        """(K,) the numbers of the classes in their order: as labels tell it, or else sorted."""
        classes = self.classes_
        if self._categories is None:
            if self.order and classes.dtype.kind not in "iufb":
                rule = "go with labels that are numbers, or an ordered categorical of pandas"
                remedy = "Pass pd.Categorical(y, categories=[...], ordered=True) as y."
                raise InputError(
                    "order", rule, f"{listing(list(map(str, classes)))}, as sorted", remedy
                )
            return np.arange(len(classes))
        places = self._categories.get_indexer(classes)
        if (places < 0).any():
            fact = f"none for {classes[places.argmin()]!r}, which the estimator knows"
            raise InputError("y", "have a category for every class", fact)
        return np.argsort(places)

    @property
    def _order(self) -> Indices:
        """(K,) the numbers of the classes in the order of the columns of credal sets."""
        at = {str(name): number for number, name in enumerate(self.classes_)}
        return np.array([at[name] for name in self.decalibrator_.classes or at])

    def _columns_of(self, y: Any) -> Indices:
        """(n,) the columns of labels in credal sets."""
        return np.argsort(self._order)[columns_of(column_or_1d(y), self.classes_)]

    def _has_too_few(self, rows: Rows, wish: Wish) -> bool:
        """Whether rows cannot grant the wish of a classifier that was given none; warns if so."""
        asked = any(wished is not None for wished in (self.miss, self.width, self.hold, self.per))
        classes = len(np.unique(rows.labels))
        if asked or (len(rows) >= wish.needed and classes > 1):
            return False
        FitWarning.warn(
            f"miss={DEFAULT_MISS:g}, the default, needs {wish.needed} rows of two classes: got "
            f"{len(rows)} of {classes}. Nothing is promised, and alpha is {DEFAULT_ALPHA:g}"
        )
        return True

    def promise(
        self,
        X: Any,
        y: Any,
        *,
        miss: float | None = None,
        width: float | None = None,
        hold: float | None = None,
        per: str | None = None,
        groups: Any = None,
    ) -> Self:
        """Choose alpha again, on all of these rows: new ones, neither in `fit` nor in training.

        What the fitted classifier then promises of `miss` and `hold` is guaranteed, however `fit`
        held rows out. A wish is as in `decal.choose`; by default it is the classifier's own. For
        `hold` the classifier must have been fitted with that wish. `groups` (n,), of which `miss`
        or `hold` holds in each, are then needed for predictions, too. With several labels per row,
        pass `decal.Votes` as y, made with ``classes=clf.decalibrator_.classes``.
        """
        check_is_fitted(self)
        require_same_order(X=X, y=y, groups=groups)
        given: dict[str, Any] = {"miss": miss, "width": width, "hold": hold}
        if per is None and self.alpha is None and all(v is None for v in given.values()):
            wish = self._wish()
        else:
            wish = Wish.of(**given, per=per, groups=groups)
        labels = y if isinstance(y, Votes) else self._columns_of(y)
        rows = self.decalibrator_.read(self.predict_logits(X), labels, empty=False, votes=True)
        self.decalibrator_ = wish.granted_by(self.decalibrator_, rows, groups)
        self._fitted_alpha = self.alpha
        return self

    @property
    def promise_(self) -> Promise | None:
        """What is promised of new inputs, if a wish was granted."""
        check_is_fitted(self)
        return self._asked(None).promise

    def _asked(self, alpha: Any) -> Decalibrator:
        """What predicts at an alpha or a Choice, or at one that was set after `fit`."""
        check_is_fitted(self)
        if alpha is None and self.alpha == self._fitted_alpha:
            return self.decalibrator_
        level = self.alpha if alpha is None else alpha
        if isinstance(level, Choice):
            return self.decalibrator_.with_promise(level)
        return self.decalibrator_.with_settings(alpha=level)

    # Asking

    def predict_logits(self, X: Any) -> Array:
        """(n, K) the logits that credal sets are made from, as `decalibrator_` takes them.

        A column per class of `decalibrator_.classes`: those of `classes_`, in their order, if they
        have one.
        """
        return super().predict_logits(X)[:, self._order]

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) most probable classes: the estimator's own, or a recentered model's.

        It is recentered unless ``decalibrator_.reference`` is "model".
        """
        check_is_fitted(self)
        if self.decalibrator_.reference == "model":
            predicted = np.asarray(self.estimator_.predict(X))
            return predicted.reshape(len(predicted))  # CatBoost predicts a column
        return np.asarray(self.classes_[self._point(X).argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        """(n, K) probabilities: the estimator's own, or the softmax of its logits if it has none.

        If the model was recentered, as for `predict`, they are its own: the credal sets' `point`.
        """
        check_is_fitted(self)
        if self.decalibrator_.reference != "model":
            return self._point(X)
        if not hasattr(self.estimator_, "predict_proba"):
            return np.asarray(softmax(super().predict_logits(X), axis=1))
        own = to_numpy(self.estimator_.predict_proba(X), "predict_proba")
        known = columns_of(classes_of(self.estimator_), self.classes_)
        probabilities = np.zeros((len(own), len(self.classes_)))
        probabilities[:, known] = own
        return probabilities

    def predict_credal(
        self, X: Any, alpha: Any = None, *, ids: Any = None, groups: Any = None
    ) -> IntervalCredalSet:
        """The credal sets of n inputs, by the classifier's promise or at an alpha or a Choice.

        Their `point` is the softmax of `predict_logits`, whose columns they have, or a recentered
        model's. `ids` and `groups` are as for `Decalibrator.predict`; the index of a DataFrame
        stays with the sets.
        """
        model, logits = self._asked(alpha), self.predict_logits(X)
        require_same_order(X=X, groups=groups)
        sets = model.predict(logits, groups=groups)
        return sets.with_index(index_of(X, ids, rows=len(sets), name="X"))

    def predict_set(
        self, X: Any, rule: str | None = None, alpha: Any = None, *, groups: Any = None
    ) -> NDArray[np.bool_]:
        """(n, K) which classes remain, a column per class of `classes_`.

        By default those of the promise. By the rule "e_admissible" every class that is most
        probable for some distribution in the set; by "maximality" or "interval_dominance" all that
        no other class beats for sure.
        """
        if rule is not None:
            check_choice(rule, "rule", SET_RULES)
        sets = self.predict_credal(X, alpha, groups=groups)
        kept = sets.possible_mask() if rule is None else np.asarray(sets.decide(rule))
        return kept[:, np.argsort(self._order)]

    def possible(self, X: Any, alpha: Any = None, *, groups: Any = None) -> list[list[Any]]:
        """For every input, its possible classes, those of `predict_set`, the most probable first.

        They are labels as in `classes_`.
        """
        sets = self.predict_credal(X, alpha, groups=groups)
        label = dict(zip(map(str, self.classes_), self.classes_.tolist(), strict=True))
        return [[label[name] for name in names] for names in sets.possible()]

    def report(
        self,
        X: Any,
        *,
        ids: Any = None,
        check: Any = None,
        costs: Any = None,
        alpha: Any = None,
        groups: Any = None,
    ) -> Report:
        """One line per input, what a person needs, see `decal.report.report`.

        Costs are matched by the names of classes: a class 7 is called "7".
        """
        sets = self.predict_credal(X, alpha, ids=ids, groups=groups)
        return Report.of(sets, check=check, costs=costs, promise=self._asked(alpha).promise)

    def explore(self, X: Any, *, labels: Any = None, **options: Any) -> Any:
        """An interactive page about these predictions, see `decal.explorer.explore`.

        Labels are those of `classes_`, and other options those of the page.
        """
        model, logits = self._asked(None), self.predict_logits(X)
        require_same_order(X=X, labels=labels)
        options["ids"] = index_of(X, options.get("ids"), rows=len(logits), name="X")
        labels = None if labels is None else self._columns_of(labels)
        return model.explore(logits, labels=labels, **options)

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
        model = self._asked(None)
        settings = {
            "alpha": model.alpha,
            "method": self.method_,
            "floor": float(self.floor_),
            "unseen": float(self._unseen),
            "objects": objects,
            "features": getattr(self, "n_features_in_", None),
            "names": None if names is None else [str(name) for name in names],
        }
        arrays = {
            "decalibrator": model_files.packed(model),
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
            if decalibrator.promise is None:  # in older files, alpha may be another
                decalibrator = decalibrator.with_settings(alpha=settings["alpha"])
            clf = cls(
                estimator if isinstance(estimator, FrozenEstimator) else FrozenEstimator(estimator),
                **_wished(decalibrator),
                directions=decalibrator.directions,
                likelihood=decalibrator.likelihood,
                reference=decalibrator.reference,
                box=decalibrator.box,
                order=decalibrator.order,
                tree=decalibrator.tree,
                method=settings["method"],
                floor=settings["floor"],
            )
            clf.decalibrator_, clf.classes_, clf.method_ = decalibrator, classes, clf.method
            clf._fitted_alpha = clf.alpha
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
        return point[:, np.argsort(self._order)]


def _wished(model: Decalibrator) -> dict[str, Any]:
    """The arguments of a classifier that stand for what its model promises, or for its alpha."""
    promise = model.promise
    if promise is None or promise.kind not in ("miss", "width", "hold"):
        return {"alpha": model.alpha}
    return {promise.kind: promise.target, "per": "class" if promise.per == "class" else None}


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
    if sorted(map(str, classes)) != sorted(decalibrator.classes or ()):
        raise InputError("classes", "be those of the Decalibrator")
    features, names = settings["features"], settings["names"]
    if names is not None and (not isinstance(names, list) or len(names) != features):
        raise InputError("names", "be one per feature")
