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
from decal.choose import Promise, path, plausibility, triage
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
    CredalClassifier(LogisticRegression(), cv=0.4, method="decision_function", reference="best"),
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
    settings = {"likelihood": likelihood, "box": box}
    clf = CredalClassifier(FrozenEstimator(model), **settings).fit(X[100:200], y[100:200])
    log_p = model.predict_log_proba(X)
    direct = decal.Decalibrator(**settings).fit(log_p[100:200], columns(y[100:200]))
    same(clf.predict_credal(X[200:]), direct.predict(log_p[200:]))
    assert clf.estimator_.estimator is model


def test_the_decalibrator_and_the_logits_inside_can_be_used_by_themselves():
    X, y = data()
    clf = CredalClassifier(LogisticRegression()).fit(X, y)
    same(clf.predict_credal(X), clf.decalibrator_.predict(clf.predict_logits(X)))
    assert clf.decalibrator_.examples == len(y)


# Held-out rows


def test_a_share_of_rows_is_held_out_and_the_model_that_gave_the_logits_is_kept():
    X, y = data()
    clf = CredalClassifier(LogisticRegression(), cv=0.25).fit(X, y)
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
    clf = CredalClassifier(LogisticRegression(), cv=PredefinedSplit([-1] * 200 + [0] * 40))
    clf.fit(X, y)
    frozen = FrozenEstimator(LogisticRegression().fit(X[:200], y[:200]))
    same(clf.predict_credal(X), CredalClassifier(frozen).fit(X[200:], y[200:]).predict_credal(X))


def test_pairs_of_row_numbers_are_a_way_to_keep_groups_together():
    X, y = data()
    groups = np.arange(len(y)) % 12
    pairs = list(GroupKFold(3).split(X, y, groups))
    clf = CredalClassifier(LogisticRegression(), cv=pairs).fit(X, y)
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
    clf = CredalClassifier(model, cv=3).fit(X, y)
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
        CredalClassifier(LogisticRegression(C=0.1), method=method).fit(X, y)
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
    clf = CredalClassifier(forest).fit(X, y)
    assert clf.floor_ == 1 / (len(y) + 3)
    direct = decal.Decalibrator().fit(np.log(np.maximum(p, clf.floor_)), columns(y))
    np.testing.assert_allclose(clf.decalibrator_.shifts().upper, direct.shifts().upper, atol=1e-9)
    assert np.isfinite(clf.predict_credal(X).upper).all()
    assert clf.predict_logits(X).min() == np.log(clf.floor_)


def test_a_zero_that_no_label_contradicts_stays_as_good_as_zero():
    X, y = np.repeat([[0.0], [1.0]], 30, axis=0), np.r_[["ant"] * 30, ["bee", "cow"] * 15]
    clf = CredalClassifier(DecisionTreeClassifier(), cv=3, box="own").fit(X, y)
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
    clf = CredalClassifier(LogisticRegression(), cv=4, method=method).fit(X[rows], y[rows])
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
    clf = CredalClassifier(LogisticRegression(), cv=split).fit(X[rows], y[rows])
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
    clf = CredalClassifier(FrozenEstimator(model)).fit(X[few], y[few])
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
    clf = CredalClassifier(forest).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), forest.fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(clf.predict(X), forest.predict(X))
    assert clf.score(X, y) == forest.score(X, y)


@pytest.mark.parametrize("reference", ["best", "auto"])
def test_the_best_reference_predicts_the_recentered_model(reference):
    X, y = data()
    clf = CredalClassifier(GaussianNB(), reference=reference).fit(X, y)
    point = clf.predict_credal(X).point
    np.testing.assert_array_equal(clf.predict_proba(X), point)
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


# Weights


def test_weights_count_like_repeated_rows_with_a_frozen_model():
    X, y = data()
    model = FrozenEstimator(LogisticRegression().fit(X[:100], y[:100]))
    weights = np.random.default_rng(0).integers(0, 4, 140)
    weighted = CredalClassifier(model).fit(X[100:], y[100:], sample_weight=weights)
    rows = np.repeat(np.arange(100, 240), weights)
    same(
        weighted.predict_credal(X), CredalClassifier(model).fit(X[rows], y[rows]).predict_credal(X)
    )


def test_weights_reach_the_estimator_and_the_likelihood():
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    clf = CredalClassifier(LogisticRegression(), cv=3).fit(X, y, sample_weight=weights)
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
    clf = CredalClassifier(pipeline, cv=3).fit(X, y, logisticregression__sample_weight=weights)
    own = clone(pipeline).fit(X, y, logisticregression__sample_weight=weights)
    np.testing.assert_allclose(clf.predict_proba(X), own.predict_proba(X))


def test_metadata_routing_brings_weights_to_a_step_and_groups_to_the_splitter():
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    groups = np.arange(len(y)) % 12
    with sklearn.config_context(enable_metadata_routing=True):
        step = LogisticRegression().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), step)
        clf = CredalClassifier(pipeline, cv=GroupKFold(3))
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
    CredalClassifier(GaussianNB(), cv=3).fit(X[some], y[some])


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
        lambda: path(clf, z),
        lambda: decal.LabelShift.of(clf),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"got CredalClassifier, which takes features.*clf.decal"
        ):
            call()


def test_a_choice_for_every_class_is_refused_in_one_sentence():
    X, y = data()
    clf = CredalClassifier(GaussianNB(), cv=2).fit(X, y)
    one = decal.Choice(0.9, 0.08, Promise("miss", 0.1, 50, "e_admissible"), clf.decalibrator_)
    promise = Promise("miss", 0.1, 150, "e_admissible", "class")
    choice = decal.Choice.of_parts(dict.fromkeys("abc", one), promise)
    for ask in (clf.predict_set, clf.predict_credal):
        with pytest.raises(ValueError, match="got a Choice, which holds 3 of them. Call its"):
            ask(X[:2], alpha=choice)
        assert len(ask(X[:2], alpha=one)) == 2
    z = clf.predict_logits(X[:2])
    assert choice.decide(z).tolist() == clf.predict_set(X[:2], alpha=0.9).tolist()


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
