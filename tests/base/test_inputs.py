"""What people pass as logits: probabilities are converted if called so, and noticed if not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import decal
from decal.schema import look_like_probabilities
from helpers.strategies import labelled_logits


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def make_labelled(n=200, K=3, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, K))
    return z, np.argmax(z + rng.gumbel(size=z.shape), axis=1)


# The conversion


@given(arrays(np.float64, (4, 3), elements=st.floats(-300, 300)))
def test_the_softmax_of_the_logits_gives_the_probabilities_back(z):
    p = softmax(z)
    np.testing.assert_allclose(softmax(decal.logits_from_probabilities(p)), p, rtol=1e-12)


def test_a_floor_says_what_a_zero_is():
    p = [[1.0, 0.0], [0.995, 0.005]]
    np.testing.assert_allclose(decal.logits_from_probabilities(p)[0, 1], -708.396, atol=1e-3)
    assert decal.logits_from_probabilities(p)[1, 1] == np.log(0.005)  # only zeros change
    assert decal.logits_from_probabilities(p, floor=0)[0, 1] == -np.inf
    np.testing.assert_array_equal(
        decal.logits_from_probabilities(p, floor=0.01)[:, 1], np.log([0.01, 0.01])
    )


def test_the_input_is_left_as_it_is():
    p = np.array([[1.0, 0.0]])
    decal.logits_from_probabilities(p, floor=0.5)
    assert p.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([[0.5, 0.6]], r"probabilities must sum to 1 in every row: got 1.1 in row 0. Divide"),
        (
            [[0.5, -0.5]],
            r"between 0 and 1: got -0.5 at index \(0, 1\).*leave probabilities=True",
        ),
        ([[0.5, np.nan]], r"lie between 0 and 1: got nan"),
        ([0.5, 0.6], r"one column per class.*got shape \(2,\).*stack it as \[1 - p, p\]"),
        ([[0.5], [0.6]], r"one column per class.*got shape \(2, 1\)"),
    ],
)
def test_what_are_no_probabilities_is_refused(p, message):
    with pytest.raises(ValueError, match=message):
        decal.logits_from_probabilities(p)


@pytest.mark.parametrize("floor", [1, -0.1, "auto", True, np.nan])
def test_a_floor_is_a_number_below_one(floor):
    with pytest.raises(ValueError, match="floor must be None or a number from 0 to below 1"):
        decal.logits_from_probabilities([[0.5, 0.5]], floor=floor)


# A model of probabilities


@pytest.mark.parametrize(
    "settings",
    [{}, {"reference": "best"}, {"directions": ("class", "temperature")}, {"directions": "local"}],
    ids=str,
)
def test_probabilities_predict_what_their_logits_predict(settings):
    z, y = make_labelled()
    by_logits = decal.decalibrate(z, y, alpha=0.9, **settings)
    by_p = decal.decalibrate(softmax(z), y, alpha=0.9, probabilities=True, **settings)
    a, b = by_logits.predict(z[:20]), by_p.predict(softmax(z)[:20])
    np.testing.assert_allclose(a.lower, b.lower, rtol=0, atol=1e-9)
    np.testing.assert_allclose(a.upper, b.upper, rtol=0, atol=1e-9)
    if settings == {"directions": "local"}:
        ball = by_p.predict_ball(softmax(z)[:20])
        np.testing.assert_allclose(ball.lower, b.lower, rtol=0, atol=1e-9)


def test_a_saved_model_remembers_what_it_takes(tmp_path):
    z, y = make_labelled()
    d = decal.decalibrate(softmax(z), y, alpha=0.9, probabilities=True, floor=1e-4)
    d.save(tmp_path / "p.npz")
    again = decal.Decalibrator.load(tmp_path / "p.npz")
    assert (again.probabilities, again.floor) == (True, 1e-4)
    assert repr(again) == repr(d)
    assert "probabilities=True, floor=0.0001" in repr(d)
    certain = [[1.0, 0.0, 0.0]]
    np.testing.assert_array_equal(again.predict(certain).upper, d.predict(certain).upper)
    with pytest.raises(ValueError, match="probabilities must lie between 0 and 1: got"):
        again.predict(z)


def test_chunks_merge_only_with_their_like():
    z, y = make_labelled()
    p = softmax(z)
    whole = decal.decalibrate(p, y, alpha=0.9, probabilities=True)
    parts = decal.Decalibrator(0.9, probabilities=True).partial_fit(p[:50], y[:50])
    parts.merge(decal.decalibrate(p[50:], y[50:], alpha=0.9, probabilities=True))
    np.testing.assert_allclose(parts.shifts().upper, whole.shifts().upper, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="other must have probabilities=True: got False"):
        parts.merge(decal.decalibrate(z, y, alpha=0.9))


def test_a_label_of_probability_zero_needs_a_floor():
    p, y = np.array([[0.9, 0.1], [1.0, 0.0], [0.2, 0.8]]), [0, 1, 1]
    message = r"got 1, of probability 0, at index 1, one of 1 such rows.*floor, for example to 0.2"
    with pytest.raises(ValueError, match=message):
        decal.decalibrate(p, y, alpha=0.9, probabilities=True)
    with pytest.raises(ValueError, match="labels must be classes that are not masked"):
        decal.decalibrate(p, y, alpha=0.9, probabilities=True, floor=0)
    d = decal.decalibrate(p, y, alpha=0.9, probabilities=True, floor=0.01)
    expected = decal.decalibrate(np.log(np.maximum(p, 0.01)), y, alpha=0.9)
    np.testing.assert_array_equal(d.shifts().upper, expected.shifts().upper)


def test_other_zeros_need_no_floor():
    p, y = np.array([[0.9, 0.1], [1.0, 0.0], [0.2, 0.8]]), [0, 0, 1]
    d = decal.decalibrate(p, y, alpha=0.9, probabilities=True)
    assert np.isfinite(d.predict(p).upper).all()


def test_settings_that_cannot_be_are_refused():
    for estimator in (decal.Decalibrator, decal.MultiLabelDecalibrator, decal.LabelShift):
        message = "floor must go with probabilities: got 0.1 for logits. Pass probabilities=True if"
        with pytest.raises(ValueError, match=message):
            estimator(floor=0.1)
        estimator(probabilities=True, floor=0.1)
    with pytest.raises(ValueError, match="probabilities must be True or False: got 'yes'"):
        decal.Decalibrator(probabilities="yes")
    top = decal.TopLogits(np.log([[0.5, 0.3]]), [[0, 1]], total_classes=3)
    with pytest.raises(ValueError, match="probabilities of all classes: got TopLogits"):
        decal.decalibrate(top, [0], alpha=0.9, probabilities=True)


# Probabilities that nobody called so


def noticed(function, *arguments, **settings):
    """The line that the warning names, if there is one warning."""
    with pytest.warns(decal.InputWarning, match="Pass probabilities=True") as found:
        function(*arguments, **settings)
    (only,) = found
    return only.filename


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("K", [2, 3, 100])
def test_probabilities_passed_as_logits_get_a_warning(K, dtype):
    z, y = make_labelled(30, K)
    p = softmax(z).astype(dtype)
    assert noticed(decal.decalibrate, p, y, alpha=0.9) == __file__
    assert noticed(decal.Decalibrator(0.9).partial_fit, p, y) == __file__
    assert noticed(decal.decalibrate(z, y, alpha=0.9).predict, p) == __file__


def test_questions_of_a_model_notice_them_too():
    z, y = make_labelled()
    d = decal.decalibrate(z, y, alpha=0.9)
    with pytest.warns(decal.InputWarning, match="must not be probabilities") as found:
        decal.choose(d, softmax(z), width=0.5)
    assert {(w.filename, str(w.message)) for w in found} == {(__file__, str(found[0].message))}
    with pytest.warns(decal.InputWarning, match="Pass probabilities=True, convert them"):
        decal.CoupledDecalibrator(0.9, likelihood="mean").fit(softmax(z), y)


def test_probabilities_rounded_to_three_decimals_are_noticed():
    p = softmax(make_labelled(50, 3)[0]).round(3)
    assert look_like_probabilities(p)
    forest = np.random.default_rng(0).multinomial(7, [0.2, 0.3, 0.5], size=50) / 7
    assert look_like_probabilities(forest)
    assert look_like_probabilities(np.eye(3)[np.arange(12) % 3])  # a tree


@pytest.mark.parametrize(
    "z",
    [
        np.eye(3),  # a few rows of ones and zeros may be logits
        np.array([[0.7, 0.3]]),  # and so may one or two rows of anything
        np.array([[0.7, 0.3], [0.6, 0.4]]),
        np.log(softmax(make_labelled()[0])),
        np.abs(make_labelled()[0]),
        np.vstack([softmax(make_labelled()[0]), [[0.0, 0.0, 5.0]]]),
        np.full((20, 4), -0.25),
        np.full((20, 3), 1e308),
    ],
    ids=["eye", "one", "two", "logs", "positive", "one row is not", "negative", "huge"],
)
def test_logits_are_not_taken_for_probabilities(z):
    assert not look_like_probabilities(z)


def test_percentages_get_a_warning_that_says_to_divide():
    z, y = make_labelled(30, 3)
    remedy = "sum to 100, as percentages do.* Divide them by 100, and pass probabilities=True"
    with pytest.warns(decal.InputWarning, match=remedy):
        decal.decalibrate(100 * softmax(z), y, alpha=0.9)
    d = decal.decalibrate(z, y, alpha=0.9)
    with pytest.warns(decal.InputWarning, match=remedy):
        d.predict((100 * softmax(z)).round(1))


@given(labelled_logits())
def test_nasty_logits_get_no_warning(data):
    z, y, *_ = data
    if (np.abs(np.asarray(z, dtype=float).sum(axis=1) - 1) <= 0.01).all():
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".* must not be probabilities")
        decal.Decalibrator(0.9).fit(z, y)


# Labels in another order


@pytest.mark.parametrize("K", [2, 3, 5])
def test_labels_in_another_order_than_the_columns_get_a_warning(K):
    z, y = make_labelled(1000, K)
    message = r"in [\d.]+% of 1,000 rows, .* Are the columns .* And the rows\?"
    for fit in (decal.Decalibrator().fit, decal.Decalibrator().partial_fit):
        with pytest.warns(decal.InputWarning, match=message) as found:
            fit(z, (y + 1) % K)
        assert found[0].filename == __file__
    decal.Decalibrator().partial_fit(z, y).partial_fit(z, (y + 1) % K)  # one chunk may be odd


def test_breast_cancer_with_its_classes_swapped_gets_a_warning():
    datasets = pytest.importorskip("sklearn.datasets")
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, target = datasets.load_breast_cancer(return_X_y=True)  # 0 is malignant
    model = linear_model.LogisticRegression(max_iter=5000).fit(X[:369, :5], target[:369])
    p = model.predict_proba(X[369:, :5])
    with pytest.warns(decal.InputWarning, match=r"of 200 rows"):
        decal.decalibrate(
            p,
            1 - target[369:],
            classes=["benign", "malignant"],
            probabilities=True,
            floor=1e-6,
            alpha=0.8,
        )


@pytest.mark.filterwarnings("error:labels agree with the largest logit")
def test_too_few_rows_ties_and_rows_without_weight_prove_nothing():
    z = np.tile([2.0, 0.0], (36, 1))
    decal.decalibrate(z, np.ones(36, dtype=int), alpha=0.8)
    decal.decalibrate(np.zeros((500, 2)), np.ones(500, dtype=int), alpha=0.8)
    many, weights = np.tile(z, (10, 1)), np.r_[np.ones(36), np.zeros(324)]
    decal.decalibrate(many, np.ones(360, dtype=int), sample_weight=weights, alpha=0.8)
    with pytest.warns(decal.InputWarning, match="in 0% of 360 rows"):
        decal.decalibrate(many, np.ones(360, dtype=int), alpha=0.8)
