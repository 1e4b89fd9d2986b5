"""The best model: maximum likelihood over shifts, and the scale; sets measured from there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import decal
from helpers.strategies import at_most, endpoints
from oracles import class_shifts as oracles

BOTH = ("class", "temperature")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(400, 4)) * 2.5
    labels = np.array([rng.choice(4, p=p) for p in softmax(0.6 * logits, axis=1)])
    return logits, labels


@pytest.mark.filterwarnings("ignore::decal.ReferenceWarning")
@at_most(40)
@given(st.integers(0, 10**6), st.floats(0.05, 0.99), st.sampled_from(["own", "joint"]))
def test_best_reference_is_the_model_recentred_at_its_maximum_likelihood_shift(seed, alpha, box):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 5))
    logits = rng.normal(size=(40, K)) * 2
    labels = np.concatenate([np.arange(K), rng.integers(0, K, 40 - K)])
    center = oracles.best_shift(logits, labels)
    best = decal.decalibrate(logits, labels, alpha=alpha, reference="best", box=box)
    np.testing.assert_allclose(best.shifts().center, center, atol=1e-6)
    recentred = decal.decalibrate(logits + center, labels, alpha=alpha, box=box)
    np.testing.assert_allclose(endpoints(best, alpha), endpoints(recentred, alpha), atol=1e-5)
    a, b = best.predict(logits), recentred.predict(logits + center)
    np.testing.assert_allclose(a.lower, b.lower, atol=1e-6)
    np.testing.assert_allclose(a.upper, b.upper, atol=1e-6)
    at_model = oracles.log_likelihood(logits, labels)
    at_best = oracles.log_likelihood(logits + center, labels)
    assert best.distance == pytest.approx((at_best - at_model) / 40, abs=1e-9)


def test_best_reference_at_alpha_one_is_a_point(clear_data):
    d = decal.decalibrate(*clear_data, alpha=1.0, reference="best")
    credal = d.predict(clear_data[0])
    np.testing.assert_allclose(credal.lower, credal.point, atol=1e-15)
    np.testing.assert_allclose(credal.upper, credal.point, atol=1e-15)


def test_best_reference_leaves_out_a_class_that_never_occurs_but_lets_it_come_back():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(60, 3))
    labels = rng.integers(0, 2, 60)  # class 2 never occurs
    d = decal.decalibrate(logits, labels, alpha=0.9, reference="best")
    shifts = d.shifts()
    assert np.isneginf(shifts.center[2])
    assert np.isneginf(shifts.lower[2])
    credal = d.predict(logits)
    assert (credal.point[:, 2] == 0).all()
    assert (credal.lower[:, 2] == 0).all()
    # The end, by definition: the model with the two best shifts, class 2 raised from -inf to s.
    moved = logits + np.array([*shifts.center[:2], shifts.upper[2]])
    without = logits[:, :2] + shifts.center[:2]
    lost = oracles.log_likelihood(moved, labels) - oracles.log_likelihood(without, labels)
    assert lost == pytest.approx(60 * np.log(0.9), abs=1e-9)
    np.testing.assert_allclose(credal.upper[:, 2], oracles.softmax(moved, axis=1)[:, 2], atol=1e-12)
    assert (credal.lower[:, :2] <= oracles.softmax(moved, axis=1)[:, :2] + 1e-12).all()
    one = d.predict(logits, alpha=1.0)
    np.testing.assert_allclose(one.upper, one.point, atol=1e-15)


def test_best_reference_needs_all_data_at_once(clear_data):
    d = decal.Decalibrator(reference="best")
    with pytest.raises(ValueError, match="reference must be 'model' to merge or partial_fit"):
        d.partial_fit(*clear_data)
    with pytest.raises(ValueError, match="at least two classes for reference='best': got only"):
        d.fit([[0.0, 1.0]], [1])


# With the temperature


def test_the_best_model_maximises_the_likelihood_over_shifts_and_scale(data):
    from scipy.optimize import minimize

    logits, labels = data

    def loss(x):
        return -oracles.log_likelihood(x[-1] * logits + x[:-1], labels)

    found = minimize(loss, [0, 0, 0, 0, 1.0], method="BFGS", options={"gtol": 1e-6})
    d = decal.Decalibrator(0.9, directions=BOTH, reference="best").fit(logits, labels)
    assert d.scales().center == pytest.approx(found.x[-1], abs=1e-4)
    center = found.x[:-1] - found.x[:-1].mean()
    np.testing.assert_allclose(d.shifts().center, center, atol=1e-4)
    gained = (-found.fun - oracles.log_likelihood(logits, labels)) / 400
    assert d.distance == pytest.approx(gained, abs=1e-7)
    point = d.predict(logits, alpha=1.0)
    np.testing.assert_allclose(point.lower, point.upper, atol=1e-12)
    recentred = decal.Decalibrator(0.9, directions=BOTH)
    z = d.scales().center * logits + d.shifts().center
    np.testing.assert_allclose(
        d.predict(logits).upper, recentred.fit(z, labels).predict(z).upper, atol=1e-6
    )


def test_the_best_model_with_an_absent_class(data):
    logits, labels = data
    labels = np.where(labels == 3, 0, labels)
    d = decal.Decalibrator(0.9, directions=BOTH, reference="best").fit(logits, labels)
    credal = d.predict(logits)
    assert (credal.point[:, 3] == 0).all()
    assert (credal.lower[:, 3] == 0).all()
    assert (credal.upper[:, 3] > 0).all()
    assert np.isfinite(credal.upper).all()


def test_an_infinite_or_negative_best_scale_is_refused(data):
    logits = np.repeat(2.0 * np.eye(3), 4, axis=0)
    d = decal.Decalibrator(directions=BOTH, reference="best")
    with pytest.raises(ValueError, match="perfectly predictable for reference='best'"):
        d.fit(logits, np.repeat(np.arange(3), 4))
    with pytest.raises(ValueError, match="tell more about the labels than chance"):
        d.fit(-data[0], data[1])


def test_a_model_far_from_its_best_is_reported(data):
    logits, labels = data
    off = logits + np.array([3.0, 0, 0, 0])
    with pytest.warns(decal.ReferenceWarning, match="nats per example from its best shift"):
        d = decal.Decalibrator(0.99, reference="best").fit(off, labels)
    assert d.distance > 0.1
    decal.Decalibrator(0.5, reference="best").fit(off, labels)  # within ten budgets: no warning
