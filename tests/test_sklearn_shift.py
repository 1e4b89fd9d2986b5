"""ShiftAdaptedClassifier: the numbers of LabelShift, by the rules of scikit-learn."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import decal
from decal.sklearn import ShiftAdaptedClassifier

NAMES = np.array(["ant", "bee", "cow"])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def data():
    """Labelled rows, and others of which most are of one class."""
    X, y = make_classification(900, 6, n_informative=4, n_classes=3, class_sep=1.2, random_state=0)
    rest = np.arange(500, 900)
    kept = rest[(y[rest] == 2) | (rest % 8 == 0)]
    return X[:500], NAMES[y[:500]], X[kept], NAMES[y[kept]]


# Several of the checks fit labels that are noise, or perfectly predictable. Such logits cannot be
# calibrated, and calibrate=True says so.
@pytest.mark.filterwarnings("ignore::decal.AnswerWarning")
@parametrize_with_checks([ShiftAdaptedClassifier(LogisticRegression(), cv=2, calibrate=False)])
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_it_is_a_label_shift_of_out_of_fold_logits(data):
    X, y, new, _ = data
    model = LogisticRegression(C=0.5)
    clf = ShiftAdaptedClassifier(model, cv=StratifiedKFold(4)).fit(X, y).observe(new)
    logits = np.log(cross_val_predict(model, X, y, cv=StratifiedKFold(4), method="predict_proba"))
    shift = decal.LabelShift().fit(logits, np.searchsorted(NAMES, y), classes=NAMES)
    again = np.log(clone(model).fit(X, y).predict_proba(new))
    sets = shift.observe(again).predict(again)
    found = clf.predict_credal(new)
    assert found.classes == ("ant", "bee", "cow")
    assert found.upper == pytest.approx(sets.upper, abs=2e-3)
    assert clf.predict_proba(new) == pytest.approx(sets.point, abs=1e-7)
    assert clf.frequencies_.estimate == pytest.approx(shift.frequencies.estimate, abs=1e-7)
    assert clf.shift_.test().p_value < 1e-6
    kept = clf.predict_set(new)
    assert np.array_equal(kept, found.decide("e_admissible"))


def test_predictions_follow_what_is_observed(data):
    X, y, new, truth = data
    clf = ShiftAdaptedClassifier(LogisticRegression()).fit(X, y)
    before = clf.predict_proba(new)
    accuracy = clf.score(new, truth)
    clf.observe(new[:100]).observe(new[100:])
    after = clf.predict_proba(new)
    right = np.searchsorted(NAMES, truth)
    rows = np.arange(len(new))
    assert -np.log(after[rows, right]).mean() < -np.log(before[rows, right]).mean() - 0.05
    assert clf.score(new, truth) >= accuracy
    assert set(clf.predict(new)) <= set(NAMES)
    assert clf.frequencies_.estimate[2] > 0.6
    assert clf.fit(X, y).predict_proba(new) == pytest.approx(before)
    with pytest.raises(decal.NotFittedError, match="must have observed"):
        clf.predict_credal(new)


def test_what_if_needs_nothing_observed(data):
    X, y, new, _ = data
    clf = ShiftAdaptedClassifier(LogisticRegression()).fit(X, y)
    rare = clf.predict_credal(new, frequencies={"cow": (0.01, 0.05)})
    near = clf.predict_credal(new, frequencies=decal.shift.Near(ratio=2))
    assert np.all(rare.upper[:, 2] <= 1)
    assert np.all(near.lower <= near.point)
    assert rare.point[:, 2].mean() < near.point[:, 2].mean()
    assert clf.predict_set(new, frequencies={"cow": 1.0})[:, 2].all()


def test_it_goes_through_clones_pickles_pipelines_searches_and_frozen_models(data):
    X, y, new, _ = data
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    clf = ShiftAdaptedClassifier(inner, confidence=0.8).fit(X, y).observe(new)
    fresh = clone(clf)
    assert fresh.confidence == 0.8
    with pytest.raises(NotFittedError):
        fresh.observe(new)
    copy = pickle.loads(pickle.dumps(clf))
    assert np.array_equal(copy.predict_credal(new).lower, clf.predict_credal(new).lower)
    outer = make_pipeline(StandardScaler(), ShiftAdaptedClassifier(LogisticRegression()))
    outer.fit(X, y)[-1].observe(outer[:-1].transform(new))
    assert outer.predict_proba(new) == pytest.approx(clf.predict_proba(new), abs=0.02)
    search = GridSearchCV(
        ShiftAdaptedClassifier(LogisticRegression()), {"estimator__C": [0.01, 1]}, cv=2
    )
    assert search.fit(X, y).best_estimator_.observe(new).frequencies_.inputs == len(new)
    forest = RandomForestClassifier(20, random_state=0).fit(X[:250], y[:250])
    frozen = ShiftAdaptedClassifier(FrozenEstimator(forest)).fit(X[250:], y[250:])
    assert frozen.observe(new).frequencies_.estimate[2] > 0.6


def test_frames_keep_their_index_and_bad_input_is_refused(data):
    pandas = pytest.importorskip("pandas")
    X, y, new, _ = data
    frame = pandas.DataFrame(new, columns=list("abcdef"), index=[f"p{i}" for i in range(len(new))])
    labelled = pandas.DataFrame(X, columns=list("abcdef"))
    clf = ShiftAdaptedClassifier(LogisticRegression()).fit(labelled, y).observe(frame)
    assert clf.predict_credal(frame).to_pandas().index[0] == ("p0", "ant")
    with pytest.raises(ValueError, match="sample_weight must be 164 numbers, one per row"):
        clf.observe(frame, sample_weight=[1.0])
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1"):
        ShiftAdaptedClassifier(LogisticRegression(), confidence=0.0).fit(X, y)
    with pytest.raises(ValueError, match="must not be perfectly predictable for calibrate=True"):
        ShiftAdaptedClassifier(LogisticRegression(C=1e9), cv=2).fit(
            [[0.0], [0], [1], [1]], list("aabb")
        )
    with pytest.raises(ValueError, match="rule must be one of"):
        clf.predict_set(frame, rule="best")
    assert clf.frequencies_.inputs == len(new)
