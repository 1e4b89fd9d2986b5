"""CredalClassifier: the same numbers as with arrays, by the rules of scikit-learn."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")

import joblib
import sklearn
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import decal
from decal.choose import plausibility, triage
from decal.sklearn import CredalClassifier, ShiftAdaptedClassifier
from helpers.sealed_files import write_sealed

NAMES = np.array(["ant", "bee", "cow"])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On matrices this small the threads of a linear algebra library mostly wait."""
    with threadpool_limits(1):
        yield


def data(rows=240, seed=0, **settings):
    settings = {"n_informative": 4, "n_classes": 3, "class_sep": 0.7, **settings}
    X, y = make_classification(rows, 6, random_state=seed, **settings)
    return X, NAMES[y]


def columns(y):
    return np.searchsorted(NAMES, y)


def same(left, right):
    """Two credal sets, to 1e-6 and better."""
    for bound in ("lower", "upper", "point"):
        np.testing.assert_allclose(getattr(left, bound), getattr(right, bound), atol=1e-9)


class Overfitted(ClassifierMixin, BaseEstimator):
    """Sure of every label it has seen, and of the nearest one elsewhere; has logits, as TabPFN."""

    def __init__(self, sharpness=20.0, columns=None):
        self.sharpness = sharpness
        self.columns = columns

    def fit(self, X, y):
        self.nearest_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.nearest_.classes_
        return self

    def predict_logits(self, X):
        logits = self.sharpness * self.nearest_.predict_proba(X).astype(np.float32)
        return logits if self.columns is None else logits[..., : self.columns]

    def predict(self, X):
        return self.nearest_.predict(X)


# scikit-learn's own checks

DIRECTIONS = ("class", "temperature")

CHECKED = [
    CredalClassifier(LogisticRegression(), cv=2),
    CredalClassifier(RandomForestClassifier(3, random_state=0), cv=2, directions=DIRECTIONS),
    CredalClassifier(LogisticRegression(), cv=0.4, method="decision_function"),
    CredalClassifier(LogisticRegression(), cv=0.4, alpha=0.8, reference="best"),
    CredalClassifier(make_pipeline(StandardScaler(), GaussianNB()), cv=2),
]

WEIGHTS = ("dense", "sparse")


def expected_failures(classifier):
    """Only about what the wrapped estimator does with weights, and each for its reason."""
    match classifier.estimator:
        case RandomForestClassifier():
            reason = "bootstrap draws rows, not weights, so a forest is not reproduced by repeats"
        case sklearn.pipeline.Pipeline():
            reason = "a pipeline takes no sample_weight unless metadata routing is enabled"
        case _:
            return {}
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in WEIGHTS}


@pytest.mark.filterwarnings("ignore:.*takes no sample_weight:UserWarning")
@pytest.mark.filterwarnings("ignore:miss=0.1, the default, needs 9 rows:decal.FitWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


# The same numbers as through arrays


@pytest.mark.parametrize("directions", [("class",), ("class", "temperature")])
@pytest.mark.parametrize("reference", ["model", "best"])
def test_sets_are_those_of_a_decalibrator_on_out_of_fold_logits(directions, reference):
    X, y = data()
    model = LogisticRegression(C=0.5)
    settings = {"alpha": 0.9, "directions": directions, "reference": reference}
    clf = CredalClassifier(model, cv=4, **settings).fit(X, y)

    logits = cross_val_predict(model, X, y, cv=4, method="predict_log_proba")
    direct = decal.Decalibrator(**settings).fit(logits, columns(y), classes=NAMES)
    new = model.fit(X, y).predict_log_proba(X[:50])
    same(clf.predict_credal(X[:50]), direct.predict(new))
    same(clf.predict_credal(X[:50], alpha=0.5), direct.predict(new, alpha=0.5))
    assert clf.predict_credal(X).classes == tuple(NAMES)
    np.testing.assert_array_equal(
        clf.predict_set(X[:50], "maximality"), direct.predict(new).decide("maximality")
    )


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
@pytest.mark.parametrize("box", ["joint", "own"])
def test_a_frozen_model_is_taken_as_it_is_and_the_rows_are_calibration_data(likelihood, box):
    X, y = data()
    model = LogisticRegression().fit(X[:100], y[:100])
    settings = {"alpha": 0.8, "likelihood": likelihood, "box": box}
    clf = CredalClassifier(FrozenEstimator(model), **settings).fit(X[100:200], y[100:200])
    log_p = model.predict_log_proba(X)
    direct = decal.Decalibrator(**settings).fit(log_p[100:200], columns(y[100:200]))
    same(clf.predict_credal(X[200:]), direct.predict(log_p[200:]))
    assert clf.estimator_.estimator is model


def test_the_decalibrator_and_the_logits_inside_can_be_used_by_themselves():
    X, y = data()
    clf = CredalClassifier(LogisticRegression(), alpha=0.8).fit(X, y)
    same(clf.predict_credal(X), clf.decalibrator_.predict(clf.predict_logits(X)))
    assert clf.decalibrator_.examples == len(y)


# Held-out rows


def test_a_share_of_rows_is_held_out_and_the_model_that_gave_the_logits_is_kept():
    X, y = data()
    clf = CredalClassifier(LogisticRegression(), cv=0.25, alpha=0.8).fit(X, y)
    split = StratifiedShuffleSplit(1, test_size=0.25, random_state=0)
    ((train, test),) = split.split(X, y)
    model = LogisticRegression().fit(X[train], y[train])
    np.testing.assert_allclose(clf.predict_proba(X), model.predict_proba(X))
    assert clf.decalibrator_.examples == len(test) == 60
    np.testing.assert_array_equal(
        clf.decalibrator_.class_weights, np.bincount(columns(y[test]), minlength=3)
    )


def test_rows_of_ones_choice_may_be_held_out():
    X, y = data()
    clf = CredalClassifier(
        LogisticRegression(), cv=PredefinedSplit([-1] * 200 + [0] * 40), alpha=0.8
    )
    clf.fit(X, y)
    frozen = FrozenEstimator(LogisticRegression().fit(X[:200], y[:200]))
    same(
        clf.predict_credal(X),
        CredalClassifier(frozen, alpha=0.8).fit(X[200:], y[200:]).predict_credal(X),
    )


def test_pairs_of_row_numbers_are_a_way_to_keep_groups_together():
    X, y = data()
    groups = np.arange(len(y)) % 12
    pairs = list(GroupKFold(3).split(X, y, groups))
    clf = CredalClassifier(LogisticRegression(), cv=pairs, alpha=0.8).fit(X, y)
    logits = cross_val_predict(
        LogisticRegression(), X, y, groups=groups, cv=GroupKFold(3), method="predict_log_proba"
    )
    direct = decal.Decalibrator().fit(logits, columns(y))
    np.testing.assert_allclose(clf.decalibrator_.shifts().upper, direct.shifts().upper, atol=1e-9)


def test_training_logits_of_an_overfitted_model_mislead():
    X, y = data(class_sep=0.5, flip_y=0.2)
    forest = RandomForestClassifier(50, min_samples_leaf=3, random_state=0)
    settings = {"reference": "best", "directions": ("class", "temperature"), "alpha": 0.1}
    honest = CredalClassifier(forest, **settings).fit(X[:160], y[:160])
    seen = FrozenEstimator(clone(forest).fit(X[:160], y[:160]))
    naive = CredalClassifier(seen, **settings).fit(X[:160], y[:160])

    # On its own training rows the forest is always right, so it seems too modest.
    assert honest.decalibrator_.scales().center < 1 < 3 < naive.decalibrator_.scales().center
    loss = [
        -np.log(clf.predict_proba(X[160:])[np.arange(80), columns(y[160:])]).mean()
        for clf in (honest, naive)
    ]
    assert loss[1] > 2 * loss[0]


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=2), "cv must hold out some rows, and none"),
        ([], "cv must hold out some rows|No.*split"),
        (1.5, "cv must lie between 0 and 1 as a share of rows: got 1.5"),
        (-0.2, "cv must lie between 0 and 1"),
        ("prefit", "cv must not be text: got 'prefit'. Put the fitted .* sklearn.frozen.FrozenEst"),
        ("five", "cv must not be text: got 'five'. Pass a number"),
    ],
)
def test_a_bad_cv_is_refused(cv, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        CredalClassifier(GaussianNB(), cv=cv).fit(X, y)


# Where logits come from


def test_logits_of_a_model_that_has_them_are_preferred():
    X, y = data()
    model = Overfitted()
    clf = CredalClassifier(model, cv=3, alpha=0.8).fit(X, y)
    assert clf.method_ == "predict_logits"
    logits = np.empty((len(y), 3))
    for train, test in StratifiedKFold(3).split(X, y):
        logits[test] = clone(model).fit(X[train], y[train]).predict_logits(X[test])
    direct = decal.Decalibrator().fit(logits, columns(y))
    same(clf.predict_credal(X), direct.predict(model.fit(X, y).predict_logits(X)))
    np.testing.assert_allclose(clf.predict_proba(X), softmax(model.predict_logits(X), axis=1))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_decision_function_of_logits_gives_the_sets_of_the_probabilities(classes):
    X, y = data(n_classes=classes)
    by_decision, by_probability = (
        CredalClassifier(LogisticRegression(C=0.1), method=method, alpha=0.8).fit(X, y)
        for method in ("decision_function", "predict_proba")
    )
    same(by_decision.predict_credal(X), by_probability.predict_credal(X))
    assert by_decision.predict_logits(X).shape == (len(X), classes)


def test_scores_that_are_no_logits_are_never_taken_for_logits_unasked():
    X, y = data()
    with pytest.raises(ValueError, match="LinearSVC has not.*method='decision_function'"):
        CredalClassifier(LinearSVC()).fit(X, y)
    clf = CredalClassifier(LinearSVC(), method="decision_function").fit(X, y)
    np.testing.assert_array_equal(
        clf.predict(X), clf.predict_credal(X).decide("point").choose(NAMES)
    )
    assert clf.predict_proba(X).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("estimator", "method", "message"),
    [
        (LogisticRegression(), "predict_logits", "must have predict_logits: LogisticRegression"),
        (LogisticRegression(), "logits", "method must be one of 'auto', 'predict_logits'"),
        (Overfitted(columns=2), "auto", r"each of its 3 classes: Overfitted gave shape \(80, 2\)"),
        (
            SVC(decision_function_shape="ovo"),
            "decision_function",
            r"each of its 4 classes: SVC gave shape \(\d+, 6\)",
        ),
    ],
)
def test_a_model_that_does_not_give_a_column_per_class_is_refused(estimator, method, message):
    X, y = data()
    if isinstance(estimator, SVC):
        X, y = make_classification(200, 6, n_informative=4, n_classes=4, random_state=0)
    with pytest.raises(ValueError, match=message):
        CredalClassifier(estimator, method=method, cv=3).fit(X, y)


def test_probabilities_that_are_none_are_refused():
    class Logits(LogisticRegression):
        def predict_proba(self, X):
            return self.decision_function(X)

    X, y = data()
    with pytest.raises(ValueError, match="predict_proba must lie between 0 and 1: got -"):
        CredalClassifier(Logits()).fit(X, y)


def test_several_targets_at_once_are_refused():
    X, y = data()
    message = r"y must be a vector, one label per row: got shape \(240, 2\).*MultiOutputClassifier"
    with pytest.raises(ValueError, match=message):
        CredalClassifier(KNeighborsClassifier()).fit(X, np.column_stack([y, y]))


def test_the_advice_for_several_labels_works():
    X, y = data()
    several = np.column_stack([y == name for name in NAMES])
    models = MultiOutputClassifier(CredalClassifier(GaussianNB(), cv=2)).fit(X, several)
    sets = [model.predict_credal(X) for model in models.estimators_]
    assert [s.shape for s in sets] == [(240, 2)] * 3


# Zeros


def test_a_label_that_a_forest_calls_impossible_raises_the_floor_for_all():
    X, y = data(class_sep=0.4)
    forest = RandomForestClassifier(5, random_state=0)
    p = cross_val_predict(forest, X, y, cv=5, method="predict_proba")
    assert (p[np.arange(len(y)), columns(y)] == 0).any()
    clf = CredalClassifier(forest, alpha=0.8).fit(X, y)
    assert clf.floor_ == 1 / (len(y) + 3)
    direct = decal.Decalibrator().fit(np.log(np.maximum(p, clf.floor_)), columns(y))
    np.testing.assert_allclose(clf.decalibrator_.shifts().upper, direct.shifts().upper, atol=1e-9)
    assert np.isfinite(clf.predict_credal(X).upper).all()
    assert clf.predict_logits(X).min() == np.log(clf.floor_)


def test_a_zero_that_no_label_contradicts_stays_as_good_as_zero():
    X, y = np.repeat([[0.0], [1.0]], 30, axis=0), np.r_[["ant"] * 30, ["bee", "cow"] * 15]
    clf = CredalClassifier(DecisionTreeClassifier(), cv=3, box="own", alpha=0.8).fit(X, y)
    assert clf.floor_ == np.finfo(float).tiny
    assert clf.predict_credal(X[:1]).upper[0, 1:].max() < 1e-300


def test_a_floor_of_ones_own_is_used_throughout():
    X, y = data()
    clf = CredalClassifier(LogisticRegression(), floor=0.05).fit(X, y)
    p = np.maximum(clf.estimator_.predict_proba(X), 0.05)
    np.testing.assert_allclose(clf.predict_logits(X), np.log(p))
    np.testing.assert_allclose(
        clf.predict_credal(X).point, p / p.sum(axis=1, keepdims=True), atol=1e-12
    )


@pytest.mark.parametrize("floor", [0, 1.0, -1e-3, "tiny", True, None])
def test_a_bad_floor_is_refused(floor):
    X, y = data()
    with pytest.raises(ValueError, match="floor must be 'auto' or a number between 0 and 1: got"):
        CredalClassifier(LogisticRegression(), floor=floor).fit(X, y)


# Classes


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
def test_a_class_too_rare_for_every_fold_keeps_its_column(method):
    X, y = data()
    rows = np.r_[np.flatnonzero(y != "cow"), np.flatnonzero(y == "cow")[:1]]
    clf = CredalClassifier(LogisticRegression(), cv=4, alpha=0.8, method=method).fit(
        X[rows], y[rows]
    )
    credal = clf.predict_credal(X)
    assert list(clf.classes_) == list(NAMES)
    assert credal.classes == tuple(NAMES)
    assert credal.shape == (len(X), 3)
    assert clf.decalibrator_.class_weights[2] == 1
    assert np.isfinite(credal.upper).all()


def test_a_class_that_the_kept_model_never_saw_has_a_small_probability_in_the_sets():
    X, y = data()
    cow = np.flatnonzero(y == "cow")[:1]
    rows = np.r_[np.flatnonzero(y != "cow"), cow]
    split = PredefinedSplit([-1] * (len(rows) - 40) + [0] * 40)
    clf = CredalClassifier(LogisticRegression(), cv=split, alpha=0.8).fit(X[rows], y[rows])
    n = len(rows)
    np.testing.assert_allclose(clf.predict_logits(X)[:, 2], -np.log(n + 3))
    logits = clf.estimator_.predict_log_proba(X)
    np.testing.assert_allclose(log_softmax(clf.predict_logits(X)[:, :2], axis=1), logits)
    np.testing.assert_array_equal(clf.predict_proba(X)[:, 2], 0)
    assert (clf.predict_credal(X).upper[:, 2] > 0).all()


def test_a_class_unseen_in_calibration_may_vanish():
    X, y = data()
    model = LogisticRegression().fit(X, y)
    few = y != "cow"
    clf = CredalClassifier(FrozenEstimator(model), alpha=0.8).fit(X[few], y[few])
    assert np.isneginf(clf.decalibrator_.shifts().lower[2])
    np.testing.assert_array_equal(clf.predict_credal(X).lower[:, 2], 0)


def test_a_label_that_a_frozen_model_does_not_know_is_refused():
    X, y = data()
    two = y != "cow"
    model = LogisticRegression().fit(X[two], y[two])
    first = int((~two).argmax())
    with pytest.raises(ValueError, match=f"knows, .'ant', 'bee'.: got 'cow' at index {first}"):
        CredalClassifier(FrozenEstimator(model)).fit(X, y)


def test_one_class_is_no_classification():
    X, _ = data()
    with pytest.raises(ValueError, match="y must hold two classes or more: got one class, .'ant'."):
        CredalClassifier(GaussianNB()).fit(X, np.repeat("ant", len(X)))


@pytest.mark.parametrize("labels", [[0, 1, 2], [-1.0, 2.0, 7.0], [False, True, True], "names"])
def test_labels_of_any_kind_come_back_as_they_went_in(labels):
    X, y = data()
    y = y.astype(object) if labels == "names" else np.array(labels)[columns(y)]
    clf = CredalClassifier(GaussianNB(), cv=3).fit(X, y)
    assert set(clf.predict(X)) <= set(y)
    assert clf.predict_credal(X).classes == tuple(str(label) for label in np.unique(y))


# Predictions


def test_wrapping_a_model_does_not_change_its_predictions():
    X, y = data(class_sep=0.4)
    forest = RandomForestClassifier(5, random_state=0)
    clf = CredalClassifier(forest, alpha=0.8).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), forest.fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(clf.predict(X), forest.predict(X))
    assert clf.score(X, y) == forest.score(X, y)


@pytest.mark.parametrize("reference", ["best", "auto"])
def test_the_best_reference_predicts_the_recentered_model(reference):
    X, y = data()
    clf = CredalClassifier(GaussianNB(), reference=reference).fit(X, y)
    point = clf.predict_credal(X).point
    np.testing.assert_allclose(clf.predict_proba(X), point, rtol=1e-14)
    np.testing.assert_array_equal(clf.predict(X), NAMES[point.argmax(axis=1)])
    assert np.abs(point - clf.estimator_.predict_proba(X)).max() > 1e-3


def test_smaller_alpha_keeps_more_classes_without_a_new_fit():
    X, y = data()
    clf = CredalClassifier(LogisticRegression(), alpha=0.95).fit(X, y)
    few, many = clf.predict_set(X), clf.predict_set(X, alpha=0.3)
    assert (many >= few).all()
    assert many.sum() > few.sum()
    np.testing.assert_array_equal(clf.set_params(alpha=0.3).predict_set(X), many)
    assert (clf.predict_set(X, "interval_dominance") >= clf.predict_set(X)).all()


def test_rules_that_keep_no_set_are_refused():
    X, y = data()
    clf = CredalClassifier(LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="rule must be one of .*: got 'gamma_maximin'"):
        clf.predict_set(X, "gamma_maximin")


@pytest.mark.parametrize(
    "ask", ["predict", "predict_proba", "predict_logits", "predict_credal", "predict_set"]
)
def test_nothing_can_be_asked_before_fit(ask):
    with pytest.raises(NotFittedError):
        getattr(CredalClassifier(LogisticRegression()), ask)([[0.0]])
    with pytest.raises(NotFittedError):
        CredalClassifier(FrozenEstimator(LogisticRegression())).fit(*data())


@pytest.mark.parametrize(
    "settings", [{"alpha": 2}, {"likelihood": "max"}, {"box": "big"}, {"directions": ("up",)}]
)
def test_bad_settings_are_refused_before_anything_is_fitted(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must"):
        CredalClassifier(LogisticRegression(), **settings).fit(*data())


# A wish


def test_a_wish_is_granted_by_decalibrate_on_out_of_fold_logits():
    X, y = data(600)
    model = LogisticRegression()
    clf = CredalClassifier(model, miss=0.2, floor=1e-3).fit(X[:400], y[:400])
    p = cross_val_predict(model, X[:400], y[:400], cv=5, method="predict_proba")
    logits = np.log(np.maximum(p, 1e-3))
    direct = decal.decalibrate(logits, columns(y[:400]), miss=0.2, classes=NAMES)
    new = np.log(np.maximum(model.fit(X[:400], y[:400]).predict_proba(X[400:]), 1e-3))
    same(clf.predict_credal(X[400:]), direct.predict(new))
    assert clf.possible(X[400:]) == direct.predict(new).possible()
    assert clf.promise_.rows == direct.promise.rows
    assert clf.promise_.costs == direct.promise.costs


GRADES = ("mild", "severe", "critical")  # not in the order of the alphabet


def ordered_labels(y):
    """Labels 0, 1 and 2 as an ordered categorical of pandas, with one category that nobody has."""
    pd = pytest.importorskip("pandas")
    return pd.Series(pd.Categorical(np.array(GRADES)[y], [*GRADES, "fatal"], ordered=True))


def test_an_ordered_categorical_orders_sets_logits_and_all_that_is_asked_of_them(tmp_path):
    X, names = data(400)
    y = columns(names)
    model = LogisticRegression()
    clf = CredalClassifier(model, miss=0.1).fit(X[:300], ordered_labels(y[:300]))
    numbers = CredalClassifier(model, miss=0.1, order=True).fit(X[:300], y[:300])
    assert clf.classes_.tolist() == ["critical", "mild", "severe"]  # as scikit-learn sorts them
    assert clf.decalibrator_.classes == GRADES
    of_numbers = np.array([2, 0, 1])
    clf.save(tmp_path / "clf.npz")
    for found in (clf, CredalClassifier.load(tmp_path / "clf.npz", clf.estimator_)):
        sets, expected = found.predict_credal(X[300:]), numbers.predict_credal(X[300:])
        assert sets.ordered
        np.testing.assert_allclose(sets.lower, expected.lower, atol=1e-6)
        np.testing.assert_allclose(sets.upper, expected.upper, atol=1e-6)
        logits = found.predict_logits(X[300:])
        same(found.decalibrator_.predict(logits), sets)
        np.testing.assert_array_equal(
            found.predict_set(X[300:]), numbers.predict_set(X[300:])[:, of_numbers]
        )
        by_number = numbers.possible(X[300:])
        assert found.possible(X[300:]) == [[GRADES[k] for k in row] for row in by_number]
        np.testing.assert_allclose(
            found.predict_proba(X[300:]), numbers.predict_proba(X[300:])[:, of_numbers], atol=1e-6
        )
        assert (found.predict(X[300:]) == np.array(GRADES)[numbers.predict(X[300:])]).all()
        by_name = found.score(X[300:], np.array(GRADES)[y[300:]])
        assert by_name == numbers.score(X[300:], y[300:])
    promised = clf.promise(X[300:], np.array(GRADES)[y[300:]], miss=0.2)
    assert promised.promise_.rule == "ordered_majority"
    assert promised.promise_ == numbers.promise(X[300:], y[300:], miss=0.2).promise_
    shown = clf.explore(X[:50], labels=np.array(GRADES)[y[:50]]).payload.arrays["labels"]
    assert shown.tolist() == y[:50].tolist()


def test_text_is_not_ordered_by_the_alphabet():
    X, names = data(300)
    y = columns(names)
    with pytest.raises(decal.InputError, match="order must go with labels that are numbers"):
        CredalClassifier(LogisticRegression(), order=True).fit(X, np.array(GRADES)[y])
    frozen = FrozenEstimator(LogisticRegression().fit(X, names))
    with pytest.raises(decal.InputError, match="y must hold classes that the estimator knows"):
        CredalClassifier(frozen).fit(X, ordered_labels(y))


@pytest.mark.parametrize("own_rows", [False, True])
def test_new_labels_are_missed_as_rarely_as_promised(own_rows):
    X, y = data(10_000)
    rng = np.random.default_rng(0)
    missed = []
    for _ in range(25):
        order = rng.permutation(len(y))
        known, more, new = order[:100], order[100:200], order[200:1200]
        clf = CredalClassifier(GaussianNB(), miss=0.2, directions="local", reference="model")
        if own_rows:
            clf.fit(X[known], y[known]).promise(X[more], y[more])
        else:
            clf.fit(X[order[:200]], y[order[:200]])
        kept = clf.predict_set(X[new])[np.arange(1000), columns(y[new])]
        missed.append(1 - kept.mean())
    error = np.std(missed) / np.sqrt(len(missed))
    assert 0.1 < np.mean(missed) < 0.2 + 2 * error


@pytest.mark.parametrize("wish", [{"miss": 0.2}, {"miss": 0.3, "per": "class"}, {"hold": 0.5}])
def test_a_promise_is_approximate_by_cross_fitting_and_guaranteed_by_the_very_model(wish):
    X, y = data(600)
    folds = CredalClassifier(LogisticRegression(), **wish).fit(X, y)
    assert not folds.promise_.guaranteed
    assert "; approximately, by " in str(folds.promise_)
    assert "Approximate, by cross-fitting: clones" in " ".join(folds.promise_.lines())
    frozen = FrozenEstimator(LogisticRegression().fit(X[:200], y[:200]))
    for strict in (
        CredalClassifier(LogisticRegression(), cv=0.5, **wish).fit(X, y),
        CredalClassifier(frozen, **wish).fit(X[200:], y[200:]),
        folds.fit(X[:300], y[:300]).promise(X[300:], y[300:]),
    ):
        assert strict.promise_.guaranteed
        assert "; guaranteed, by " in str(strict.promise_)
        assert strict.promise_.target == next(iter(wish.values()))
        assert strict.promise_.per == wish.get("per")
    assert strict.promise_.rows == 300 or "hold" in wish


def test_a_width_is_that_of_the_held_out_rows():
    X, y = data()
    frozen = FrozenEstimator(LogisticRegression().fit(X[:100], y[:100]))
    clf = CredalClassifier(frozen, width=0.3).fit(X[100:], y[100:])
    credal = clf.predict_credal(X[100:])
    assert (credal.upper - credal.lower).mean() == pytest.approx(0.3, abs=1e-5)


def test_without_a_wish_one_input_in_ten_is_missed_at_most():
    X, y = data()
    clf = CredalClassifier(GaussianNB()).fit(X, y)
    assert (clf.promise_.kind, clf.promise_.target) == ("miss", 0.1)
    assert clf.get_params()["miss"] is None
    same(
        clf.predict_credal(X), CredalClassifier(GaussianNB(), miss=0.1).fit(X, y).predict_credal(X)
    )


def test_rows_that_are_too_few_for_the_default_promise_nothing_and_refuse_a_wish():
    X, y = data()
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    with pytest.warns(decal.FitWarning, match="needs 9 rows of two classes: got 8 of 3. Nothing"):
        clf = CredalClassifier(frozen).fit(X[:8], y[:8])
    assert clf.promise_ is None
    plain = CredalClassifier(frozen, alpha=0.8, floor=clf.floor_).fit(X[:8], y[:8])
    same(clf.predict_credal(X), plain.predict_credal(X))
    weights = (y[:40] == "ant").astype(float)
    with pytest.warns(decal.FitWarning, match="got .* of 1. Nothing is promised"):
        CredalClassifier(frozen).fit(X[:40], y[:40], sample_weight=weights)
    for wish in ({"miss": 0.1}, {"per": "class"}):
        with pytest.raises(ValueError, match="miss must be at least 0.1112 with 8 rows"):
            CredalClassifier(frozen, **wish).fit(X[:8], y[:8])
    with pytest.raises(ValueError, match="labels must be of two classes or more for a wish"):
        CredalClassifier(frozen, miss=0.1).fit(X[:40], y[:40], sample_weight=weights)
    CredalClassifier(frozen).fit(X[:9], y[:9])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"alpha": 0.9, "miss": 0.1},
            "one of miss, width, hold, alpha must be given: got miss and",
        ),
        ({"width": 0.9, "hold": 0.1}, "must be given: got width and hold"),
        ({"alpha": 0.9, "per": "class"}, "per must go with miss: got alpha"),
        ({"per": "label"}, "per must be one of 'class': got 'label'"),
        ({"miss": 2}, "miss must lie between 0 and 1: got 2"),
    ],
)
def test_bad_wishes_are_refused_before_anything_is_fitted(settings, message):
    with pytest.raises(ValueError, match=message):
        CredalClassifier(LogisticRegression(), **settings).fit(None, None)


def test_labels_do_not_decide_about_the_floor_of_what_they_prove():
    X, y = np.repeat([[0.0], [1.0]], 30, axis=0), np.r_[["ant"] * 30, ["bee", "cow"] * 15]
    clf = CredalClassifier(DecisionTreeClassifier(), cv=3).fit(X, y)
    assert clf.floor_ == 1 / (60 + 3)


def test_a_promise_by_rows_of_their_own_is_that_of_choose_on_all_of_them():
    X, y = data(600)
    clf = CredalClassifier(GaussianNB(), alpha=0.9).fit(X[:200], y[:200])
    z = clf.predict_logits(X)
    choice = decal.choose(clf.decalibrator_, z[200:400], columns(y[200:400]), miss=0.1, per="class")
    assert clf.promise(X[200:400], y[200:400], miss=0.1, per="class") is clf
    assert (clf.promise_.rows, clf.promise_.per) == (200, "class")
    assert clf.promise_.levels == choice.promise.levels
    np.testing.assert_array_equal(clf.predict_set(X[400:]), choice.decide(z[400:]))
    assert clf.promise_.costs["kept"] == pytest.approx(choice.decide(z[200:400]).sum(axis=1).mean())
    assert clf.get_params()["alpha"] == 0.9
    clf.set_params(alpha=0.5)  # asks for something else, until the next promise
    assert clf.promise_ is None
    same(clf.predict_credal(X), clf.decalibrator_.predict(z, alpha=0.5))
    assert clf.promise(X[200:400], y[200:400], miss=0.1).promise_.per is None


def test_a_promise_about_several_labels_per_row_is_that_of_choose():
    X, y = data(900)
    clf = CredalClassifier(GaussianNB(), hold=0.7).fit(X[:300], y[:300])
    said = np.column_stack([y[300:], y[300:], NAMES[np.arange(600) % 3]])
    votes = decal.Votes.of_annotations(said, classes=NAMES)
    choice = decal.choose(clf.decalibrator_, clf.predict_logits(X[300:]), votes, hold=0.7)
    clf.promise(X[300:], votes)
    assert clf.decalibrator_.alpha == float(choice)
    assert "independent draws" in str(clf.promise_.notes)
    clf.promise(X[300:], votes, miss=0.4)
    kept = clf.predict_set(X[300:])
    missed = np.mean([~kept[np.arange(600), columns(column)] for column in said.T])
    assert missed <= 0.4
    assert "at most 4 labels in 10" in str(clf.promise_)
    with pytest.raises(ValueError, match="labels must be of the classes ant, bee, cow: got votes"):
        clf.promise(X[300:], decal.Votes.of_annotations(said, classes=NAMES[::-1]))
    with pytest.raises(ValueError, match="per must be left out with several .*: got 'class'"):
        clf.promise(X[300:], votes, miss=0.4, per="class")
    with pytest.raises(ValueError, match="y must be one label per row.*pass Votes .* to promise"):
        clf.fit(X[300:], votes)


def test_a_promise_in_groups_needs_the_groups_of_new_inputs():
    X, y = data(600)
    sites = np.array(["here", "there"])[np.arange(600) % 2]
    clf = CredalClassifier(GaussianNB()).fit(X[:200], y[:200])
    clf.promise(X[200:400], y[200:400], miss=0.2, groups=sites[200:400])
    assert set(clf.promise_.levels) == {"here", "there"}
    sets = clf.predict_set(X[400:], groups=sites[400:])
    assert clf.report(X[400:], groups=sites[400:]).possible.tolist() == clf.possible(
        X[400:], groups=sites[400:]
    )
    for site in ("here", "there"):
        some = np.flatnonzero(sites[400:] == site)
        at = clf.predict_set(X[400:], alpha=clf.promise_.levels[site])
        np.testing.assert_array_equal(sets[some], at[some])
    with pytest.raises(ValueError, match="groups must be given"):
        clf.possible(X)


def test_bad_rows_of_a_promise_are_refused_and_leave_the_classifier_as_it_was():
    X, y = data()
    clf = CredalClassifier(GaussianNB(), alpha=0.9).fit(X, y)
    with pytest.raises(
        ValueError, match="y must hold classes that the estimator knows.*: got 'yak'"
    ):
        clf.promise(X, np.where(y == "ant", "yak", y), miss=0.1)
    with pytest.raises(ValueError, match="miss must be at least 0.1667 with 5 rows"):
        clf.promise(X[:5], y[:5], miss=0.1)
    with pytest.raises(ValueError, match="one of miss, width, hold must be given: got none"):
        clf.promise(X, y)
    with pytest.raises(ValueError, match="per must go with miss: got width"):
        clf.promise(X, y, width=0.2, per="class")
    with pytest.raises(NotFittedError):
        CredalClassifier(GaussianNB()).promise(X, y)
    assert clf.promise_ is None
    assert clf.decalibrator_.alpha == 0.9


def test_possible_classes_are_labels_as_they_went_in():
    X, y = data()
    clf = CredalClassifier(GaussianNB(), miss=0.05).fit(X, columns(y) * 10)
    possible, sets = clf.possible(X), clf.predict_set(X)
    assert [sorted(labels) for labels in possible] == [clf.classes_[row].tolist() for row in sets]
    point = clf.predict_credal(X).point
    first = [clf.classes_.tolist().index(labels[0]) for labels in possible]
    np.testing.assert_array_equal(first, point.argmax(axis=1))
    several = clf.predict_set(X, "interval_dominance")
    assert (several >= sets).all()


def test_a_report_names_inputs_checks_and_costs():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    frame = pandas.DataFrame(X, columns=list("abcdef"), index=[f"plot {i}" for i in range(240)])
    clf = CredalClassifier(LogisticRegression(), miss=0.1).fit(frame, pandas.Series(y, frame.index))
    costs = {"keep": dict.fromkeys(NAMES, 0.5), "sell": {"ant": 1, "bee": 1, "cow": 0}}
    found = clf.report(frame[:10], check=0.2, costs=costs)
    assert found.index["row"].tolist() == [f"plot {i}" for i in range(10)]
    assert found.possible.tolist() == clf.possible(frame[:10])
    np.testing.assert_array_equal(found.prediction, clf.predict(frame[:10]))
    assert found.check.sum() == 2
    assert set(found.action) <= {"keep", "sell"}
    assert found.promise == str(clf.promise_)
    assert clf.report(frame[:2], ids=["x", "y"]).index["row"].tolist() == ["x", "y"]
    assert isinstance(found, decal.Report)


def test_a_page_is_explored_with_labels_as_they_went_in():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    clf = CredalClassifier(GaussianNB(), miss=0.1).fit(X, columns(y) * 10)
    page = clf.explore(X[:20], labels=columns(y[:20]) * 10, title="Fields")
    z = clf.predict_logits(X[:20])
    direct = clf.decalibrator_.explore(z, labels=columns(y[:20]), title="Fields")
    assert page.payload.header == direct.payload.header
    frame = pandas.DataFrame(X[:20], index=[f"plot {i}" for i in range(20)])
    named = clf.decalibrator_.explore(z, ids=[f"plot {i}" for i in range(20)])
    assert clf.explore(frame).payload.header == named.payload.header


def test_the_published_settings_have_a_name():
    X, y = data()
    clf = CredalClassifier.published(LogisticRegression(), 0.9, cv=3).fit(X, y)
    logits = cross_val_predict(LogisticRegression(), X, y, cv=3, method="predict_log_proba")
    direct = decal.published(0.9)
    assert repr(direct).startswith("Decalibrator(alpha=0.9, likelihood='mean', reference='model', ")
    assert [direction.name for direction in direct.directions] == ["class"]
    direct.fit(logits, columns(y))
    new = LogisticRegression().fit(X, y).predict_log_proba(X)
    same(clf.predict_credal(X), direct.predict(new))
    assert clf.promise_ is None


# Weights


def test_weights_count_like_repeated_rows_with_a_frozen_model():
    X, y = data()
    model = FrozenEstimator(LogisticRegression().fit(X[:100], y[:100]))
    weights = np.random.default_rng(0).integers(0, 4, 140)
    weighted = CredalClassifier(model, alpha=0.8).fit(X[100:], y[100:], sample_weight=weights)
    rows = np.repeat(np.arange(100, 240), weights)
    repeated = CredalClassifier(model, alpha=0.8).fit(X[rows], y[rows])
    same(weighted.predict_credal(X), repeated.predict_credal(X))


def test_weights_reach_the_estimator_and_the_likelihood():
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    clf = CredalClassifier(LogisticRegression(), cv=3, alpha=0.8).fit(X, y, sample_weight=weights)
    own = LogisticRegression().fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(clf.predict_proba(X), own.predict_proba(X))
    logits = np.empty((len(y), 3))
    for train, test in StratifiedKFold(3).split(X, y):
        part = LogisticRegression().fit(X[train], y[train], sample_weight=weights[train])
        logits[test] = part.predict_log_proba(X[test])
    direct = decal.Decalibrator().fit(logits, columns(y), sample_weight=weights)
    np.testing.assert_allclose(clf.decalibrator_.shifts().lower, direct.shifts().lower, atol=1e-9)


def test_an_estimator_that_takes_no_weights_is_named():
    X, y = data()
    with pytest.warns(UserWarning, match="KNeighborsClassifier.fit takes no sample_weight"):
        CredalClassifier(KNeighborsClassifier(9)).fit(X, y, sample_weight=np.ones(len(y)))


def test_other_parameters_of_fit_are_split_along_with_the_rows():
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    clf = CredalClassifier(pipeline, cv=3, alpha=0.8)
    clf.fit(X, y, logisticregression__sample_weight=weights)
    own = clone(pipeline).fit(X, y, logisticregression__sample_weight=weights)
    np.testing.assert_allclose(clf.predict_proba(X), own.predict_proba(X))


def test_metadata_routing_brings_weights_to_a_step_and_groups_to_the_splitter():
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    groups = np.arange(len(y)) % 12
    with sklearn.config_context(enable_metadata_routing=True):
        step = LogisticRegression().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), step)
        clf = CredalClassifier(pipeline, cv=GroupKFold(3), alpha=0.8)
        clf.fit(X, y, sample_weight=weights, groups=groups)
        own = clone(pipeline).fit(X, y, sample_weight=weights)
        outer = GridSearchCV(
            CredalClassifier(LogisticRegression().set_fit_request(sample_weight=True), cv=2)
            .set_fit_request(sample_weight=True)
            .set_score_request(sample_weight=False),
            {"alpha": [0.8]},
            cv=2,
        ).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(clf.predict_proba(X), own.predict_proba(X))
    total = outer.best_estimator_.decalibrator_.class_weights.sum()
    assert total == pytest.approx(weights.sum())


# Living in scikit-learn


def test_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    flowers = load_iris(as_frame=True)
    y = flowers.target_names[flowers.target]
    clf = CredalClassifier(GaussianNB()).fit(flowers.data, pandas.Series(y))
    assert list(clf.feature_names_in_) == list(flowers.data.columns)
    assert clf.n_features_in_ == 4
    credal = clf.predict_credal(flowers.data)
    same(
        credal,
        CredalClassifier(GaussianNB())
        .fit(flowers.data.to_numpy(), y)
        .predict_credal(flowers.data.to_numpy()),
    )
    assert set(credal.to_pandas().reset_index()["class"]) == set(flowers.target_names)
    plants = flowers.data[:3].set_axis(["a", "b", "c"])
    assert clf.predict_credal(plants).index["row"].tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict_credal(flowers.data.rename(columns=str.upper))


def test_texts_and_other_inputs_go_through_to_a_pipeline():
    texts = ["good film", "fine good film", "bad film", "awful bad film"] * 10
    labels = np.array(["yes", "yes", "no", "no"] * 10)
    clf = CredalClassifier(make_pipeline(CountVectorizer(), MultinomialNB())).fit(texts, labels)
    assert list(clf.predict(["good", "bad"])) == ["yes", "no"]
    assert not hasattr(clf, "n_features_in_")


def test_a_precomputed_kernel_is_split_both_ways():
    X, y = data(120)
    by_kernel = CredalClassifier(SVC(kernel="precomputed"), method="decision_function", cv=3)
    by_rows = CredalClassifier(SVC(kernel="linear"), method="decision_function", cv=3)
    same(by_kernel.fit(X @ X.T, y).predict_credal(X @ X.T), by_rows.fit(X, y).predict_credal(X))


def test_it_may_be_the_last_step_of_a_pipeline():
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), CredalClassifier(LogisticRegression())).fit(X, y)
    credal = pipeline[-1].predict_credal(pipeline[:-1].transform(X))
    assert credal.contains(pipeline.predict_proba(X)).all()
    assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.5


def test_a_grid_searches_over_its_settings_and_the_estimators():
    X, y = data()

    def discounted(clf, X, y):
        sets = clf.predict_set(X)
        covered = sets[np.arange(len(y)), np.searchsorted(clf.classes_, y)]
        return np.mean(covered / sets.sum(axis=1))

    grid = {"alpha": [0.2, 0.99], "estimator__C": [0.01, 1.0]}
    scoring = {"accuracy": "accuracy", "discounted": discounted}
    search = GridSearchCV(
        CredalClassifier(LogisticRegression(), cv=2),
        grid,
        scoring=scoring,
        cv=2,
        refit="discounted",
    ).fit(X, y)
    assert search.best_params_["alpha"] == 0.99
    accuracy = search.cv_results_["mean_test_accuracy"]
    np.testing.assert_allclose(accuracy[:2], accuracy[2:])


def test_a_grid_searches_over_wishes_and_clones_keep_them():
    X, y = data()

    def size(clf, X, _):
        return -clf.predict_set(X).sum(axis=1).mean()

    clf = CredalClassifier(GaussianNB(), cv=2)
    search = GridSearchCV(clf, {"miss": [0.05, 0.3]}, scoring=size, cv=2).fit(X, y)
    assert search.best_params_ == {"miss": 0.3}
    assert search.best_estimator_.promise_.target == 0.3
    copy = clone(search.best_estimator_)
    assert (copy.miss, copy.alpha) == (0.3, None)
    assert not hasattr(copy, "promise_")


def test_frames_go_through_a_pipeline_that_hands_them_on():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    frame = pandas.DataFrame(X, columns=list("abcdef"), index=np.arange(240) + 7)
    pipeline = make_pipeline(StandardScaler(), CredalClassifier(GaussianNB(), miss=0.2))
    pipeline.set_output(transform="pandas").fit(frame, y)
    scaled = pipeline[:-1].transform(frame)
    assert list(pipeline[-1].feature_names_in_) == list("abcdef")
    assert pipeline[-1].report(scaled).index["row"].tolist() == frame.index.tolist()


def test_sets_are_asked_of_the_best_estimator_and_of_the_last_step():
    X, y = data()
    inside = CredalClassifier(make_pipeline(StandardScaler(), LogisticRegression()), cv=2)
    search = GridSearchCV(inside, {"estimator__logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, y)
    credal = search.best_estimator_.predict_credal(X)
    assert credal.contains(search.predict_proba(X)).all()
    pipeline = make_pipeline(StandardScaler(), CredalClassifier(LogisticRegression(), cv=2))
    within = GridSearchCV(pipeline, {"credalclassifier__alpha": [0.8, 0.9]}, cv=2).fit(X, y)
    best = within.best_estimator_
    credal = best[-1].predict_credal(best[:-1].transform(X))
    assert credal.contains(within.predict_proba(X)).all()


def test_clones_may_be_fitted_at_the_same_time():
    X, y = data()
    one = CredalClassifier(GaussianNB(), cv=3).fit(X, y)
    with joblib.parallel_backend("threading"):
        several = CredalClassifier(GaussianNB(), cv=3, n_jobs=2).fit(X, y)
    same(several.predict_credal(X), one.predict_credal(X))
    assert several.get_params()["n_jobs"] == 2


class PredictsColumns(GaussianNB):
    """As CatBoost's classifier of three classes does."""

    def predict(self, X):
        return super().predict(X)[:, None]


def test_predictions_that_are_columns_become_vectors():
    X, y = data()
    clf = CredalClassifier(PredictsColumns(), cv=2).fit(X, y)
    assert clf.predict(X).shape == (240,)
    assert clf.score(X, y) > 0.5


# Keeping


@pytest.mark.parametrize("kind", ["names", "objects", "integers", "booleans"])
def test_a_saved_classifier_predicts_the_same_around_its_estimator(tmp_path, kind):
    X, y = data(n_classes=2) if kind == "booleans" else data()
    made = {"objects": y.astype(object), "integers": columns(y) * 10, "booleans": y == "bee"}
    y = made.get(kind, y)
    settings = {"directions": ("class", "temperature"), "reference": "best", "alpha": 0.9}
    forest = RandomForestClassifier(5, random_state=0)
    clf = CredalClassifier(forest, floor=1e-3, cv=2, **settings).fit(X, y)
    clf.save(tmp_path / "credal.npz")
    again = CredalClassifier.load(tmp_path / "credal.npz", clf.estimator_)
    same(again.predict_credal(X), clf.predict_credal(X))
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert again.classes_.dtype == clf.classes_.dtype
    assert again.predict_credal(X).classes == clf.predict_credal(X).classes
    assert (again.alpha, again.floor_, again.n_features_in_) == (0.9, 1e-3, 6)
    clf.set_params(alpha=0.5).save(tmp_path / "credal.npz")
    loaded = CredalClassifier.load(str(tmp_path / "credal.npz"), FrozenEstimator(clf.estimator_))
    assert loaded.alpha == 0.5


@pytest.mark.parametrize("per", [None, "class"])
def test_a_promise_travels_in_the_file_and_in_pickles(tmp_path, per):
    X, y = data()
    clf = CredalClassifier(GaussianNB(), miss=0.2, per=per).fit(X[:120], y[:120])
    before = clf.promise_
    clf.promise(X[120:], y[120:])
    assert (clf.promise_.rows, before.guaranteed, clf.promise_.guaranteed) == (120, False, True)
    clf.save(tmp_path / "credal.npz")
    joblib.dump(clf, tmp_path / "credal.joblib")
    for again in (
        CredalClassifier.load(tmp_path / "credal.npz", clf.estimator_),
        decal.load(tmp_path / "credal.npz", estimator=clf.estimator_),
        joblib.load(tmp_path / "credal.joblib"),
    ):
        assert again.promise_ == clf.promise_
        assert (again.miss, again.per, again.alpha) == (0.2, per, None)
        np.testing.assert_array_equal(again.predict_set(X), clf.predict_set(X))
        assert again.report(X[:3]).promise == str(clf.promise_)


def test_the_file_holds_no_pickle_and_no_estimator(tmp_path):
    X, y = data()
    clf = CredalClassifier(GaussianNB(), cv=2).fit(X, y)
    clf.save(tmp_path / "credal.npz")
    with np.load(tmp_path / "credal.npz", allow_pickle=False) as file:
        assert sorted(file) == ["classes", "decalibrator", "header"]
    with pytest.raises(NotFittedError):
        CredalClassifier(GaussianNB()).save(tmp_path / "none.npz")
    with pytest.raises(NotFittedError):
        CredalClassifier.load(tmp_path / "credal.npz", GaussianNB())
    stranger = GaussianNB().fit(X, np.where(y == "ant", "yak", y))
    with pytest.raises(ValueError, match="estimator must know the classes of .*'cow'.*'yak'"):
        CredalClassifier.load(tmp_path / "credal.npz", stranger)
    clf.decalibrator_.save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="path must hold a CredalClassifier: got .*a Decalibrator"):
        CredalClassifier.load(tmp_path / "model.npz", clf.estimator_)
    with pytest.raises(ValueError, match=r"Load it with decal\.sklearn\.CredalClassifier\.load"):
        decal.Decalibrator.load(tmp_path / "credal.npz")


def test_damaged_files_are_refused(tmp_path):
    X, y = data()
    clf = CredalClassifier(GaussianNB(), cv=2).fit(X, y)
    clf.save(tmp_path / "credal.npz")
    with np.load(tmp_path / "credal.npz") as file:
        members = dict(file)
    np.savez(tmp_path / "more.npz", **members, extra=np.zeros(2))
    with pytest.raises(ValueError, match="nothing unknown: got .*more.npz with .'extra'."):
        CredalClassifier.load(tmp_path / "more.npz", clf.estimator_)
    members["decalibrator"] = members["decalibrator"][:100]
    write_sealed(tmp_path / "cut.npz", members)
    with pytest.raises(ValueError, match="path must be an intact model file: got .*cut.npz"):
        CredalClassifier.load(tmp_path / "cut.npz", clf.estimator_)


def test_clones_pickles_and_pictures():
    X, y = data()
    clf = CredalClassifier(RandomForestClassifier(5, random_state=0), alpha=0.7).fit(X, y)
    same(pickle.loads(pickle.dumps(clf)).predict_credal(X), clf.predict_credal(X))
    copy = clone(clf)
    assert copy.get_params()["alpha"] == 0.7
    assert not hasattr(copy, "decalibrator_")
    assert "RandomForestClassifier" in clf._repr_html_()
    assert repr(copy).startswith("CredalClassifier(alpha=0.7,")


# Installation


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_torch_is_not_needed():
    code = "import sys, decal.sklearn; print('torch' in sys.modules)"
    assert run(code).stdout == "False\n"


def test_a_missing_scikit_learn_is_named_with_the_command_that_installs_it():
    found = run("import sys; sys.modules['sklearn'] = None; import decal.sklearn")
    message = "ImportError: decal.sklearn needs scikit-learn: pip install 'decal[sklearn]'"
    assert message in found.stderr


def test_too_few_rows_for_the_parts_say_to_pass_cv():
    X, y = data()
    some = np.r_[np.flatnonzero(y == "ant")[:3], np.flatnonzero(y == "bee")[:3]]
    message = "cv must suit the 6 rows: got 5, .*n_splits=5 cannot be .* Pass another cv="
    with pytest.raises(ValueError, match=message):
        CredalClassifier(GaussianNB()).fit(X[some], y[some])
    CredalClassifier(GaussianNB(), cv=3, alpha=0.8).fit(X[some], y[some])


def test_choosing_alpha_says_to_pass_the_decalibrator_and_its_logits():
    X, y = data()
    clf = CredalClassifier(GaussianNB(), cv=2).fit(X, y)
    message = "got CredalClassifier.* pass clf.decalibrator_, and clf.predict_logits"
    with pytest.raises(ValueError, match=message):
        decal.choose(clf, X, y, miss=0.1)
    with pytest.raises(ValueError, match=message):
        decal.choose(clf, X, width=0.5)
    decal.choose(clf.decalibrator_, clf.predict_logits(X), y, miss=0.1)


# Where a model of logits is taken


def test_a_classifier_of_features_is_refused_by_name_where_logits_are_taken():
    X, y = data()
    clf = CredalClassifier(GaussianNB(), cv=2).fit(X, y)
    z, labels = clf.predict_logits(X), np.searchsorted(clf.classes_, y)
    calls = [
        lambda: triage(z, labels, budget=0.1, model=clf),
        lambda: decal.choose(clf, z, labels, miss=0.1),
        lambda: decal.choose(clf, z, labels, miss=0.1, per="class"),
        lambda: decal.choose(clf, z, width=0.5),
        lambda: decal.choose(clf, z, coverage=0.5, distributions=softmax(z, axis=1)),
        lambda: decal.choose(clf, z, labels, hold=0.9),
        lambda: plausibility(clf, z, labels=labels),
        lambda: decal.LabelShift.of(clf),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"got CredalClassifier, which takes features.*clf.decal"
        ):
            call()


def test_a_choice_of_any_kind_is_taken_wherever_an_alpha_is():
    X, y = data(480)
    clf = CredalClassifier(GaussianNB(), cv=2, alpha=0.9).fit(X[:200], y[:200])
    model, z, labels = clf.decalibrator_, clf.predict_logits(X[200:]), columns(y[200:])
    sites = np.array(["here", "there"])[np.arange(280) % 2]
    one = decal.choose(model, z, labels, miss=0.2)
    by_class = decal.choose(model, z, labels, miss=0.2, per="class")
    by_group = decal.choose(model, z, labels, miss=0.2, groups=sites)
    for choice, groups in ((one, None), (by_class, None), (by_group, sites[:50])):
        new, logits = X[200:250], z[:50]
        same(
            clf.predict_credal(new, alpha=choice, groups=groups),
            model.predict(logits, alpha=choice, groups=groups),
        )
        kept = choice.decide(logits, groups=groups)
        np.testing.assert_array_equal(clf.predict_set(new, alpha=choice, groups=groups), kept)
        found = clf.report(new, alpha=choice, groups=groups)
        assert found.promise == str(choice.promise)
        assert [sorted(names) for names in found.possible] == [list(NAMES[row]) for row in kept]
    clf.set_params(alpha=by_class)
    np.testing.assert_array_equal(clf.predict_set(X[200:]), by_class.decide(z))
    assert clf.promise_ == by_class.promise
    with pytest.raises(ValueError, match="groups must be given, as alpha was chosen by groups"):
        clf.predict_set(X, alpha=by_group)
    with pytest.raises(ValueError, match="alpha must be one number .* which holds 3 of them"):
        clf.fit(X, y)  # the promise of a choice is about the model that it was made for


@pytest.mark.parametrize("train", [np.arange(200), np.arange(240) < 200, np.arange(-240, -40)])
def test_rows_that_an_estimator_is_fitted_to_are_not_held_out_from_it(train):
    X, y = data()
    split = [(train, np.arange(150, 240))]
    message = "cv must hold out rows that the estimator is not fitted to: got row 150 .* 50 such"
    with pytest.raises(ValueError, match=message):
        CredalClassifier(GaussianNB(), cv=split).fit(X, y)
    with pytest.raises(ValueError, match="cv must hold out rows that the estimator"):
        ShiftAdaptedClassifier(GaussianNB(), cv=split).fit(X, y)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("alpha", 2, "alpha must lie between 0 and 1"),
        ("likelihood", "Mean", "likelihood must be one of"),
        ("reference", "Best", "reference must be one of"),
        ("box", "nonsense", "box must be one of"),
        ("directions", "nonsense", "directions must be one of"),
        ("method", "nonsense", "method must be one of"),
        ("floor", 2.0, "floor must be 'auto' or a number"),
        ("cv", 1.5, "cv must lie"),
    ],
)
def test_settings_are_checked_by_fit_as_everywhere_in_scikit_learn(name, value, message):
    X, y = data(60)
    clf = CredalClassifier(GaussianNB(), cv=2).set_params(**{name: value})
    with pytest.raises(ValueError, match=message):
        clf.fit(X, y)


def test_an_alpha_that_is_none_is_refused_by_predictions_and_by_save(tmp_path):
    X, y = data(60)
    clf = CredalClassifier(GaussianNB(), cv=2).fit(X, y).set_params(alpha=2)
    for call in (lambda: clf.predict_credal(X), lambda: clf.save(tmp_path / "c.npz")):
        with pytest.raises(ValueError, match="alpha must lie between 0 and 1: got 2"):
            call()


@pytest.mark.filterwarnings("error")
def test_inputs_are_compared_with_rows_of_the_very_model_and_not_of_its_clones(tmp_path):
    X, y = make_classification(900, 6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)
    forest = RandomForestClassifier(random_state=0)
    folds = CredalClassifier(forest).fit(X[:400], y[:400])
    folds.predict_credal(X[400:])
    folds.save(tmp_path / "folds.npz")
    CredalClassifier.load(tmp_path / "folds.npz", folds.estimator_).predict_credal(X[400:])
    CredalClassifier(forest, cv=0.5).fit(X[:400], y[:400]).predict_credal(X[400:])
    own = CredalClassifier(FrozenEstimator(forest.fit(X[:400], y[:400]))).fit(X[:400], y[:400])
    with pytest.warns(decal.AnswerWarning, match="fit on held-out data"):
        own.predict_credal(X[400:])


def test_a_tree_of_classes_goes_with_the_classifier(tmp_path):
    flowers = load_iris()
    X, y = flowers.data[:, :2], flowers.target_names[flowers.target]
    tree = {"setosa": None, "other": ["versicolor", "virginica"]}
    clf = clone(CredalClassifier(LogisticRegression(), miss=0.1, tree=tree)).fit(X, y)
    assert clf.promise_.rule == "node"
    assert {tuple(sorted(names)) for names in clf.possible(X)} <= {
        ("setosa",),
        ("versicolor",),
        ("virginica",),
        ("versicolor", "virginica"),
        ("setosa", "versicolor", "virginica"),
    }
    assert clf.report(X[[70]]).path[0].startswith("other [")
    clf.save(tmp_path / "clf.npz")
    again = CredalClassifier.load(tmp_path / "clf.npz", clf.estimator_)
    assert again.possible(X) == clf.possible(X)
    assert again.tree == clf.decalibrator_.tree
