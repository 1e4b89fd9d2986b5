"""Scores of doubt: what each asks, and what it needs."""

import numpy as np
import pytest
from scipy.special import softmax

import decal
from decal.choose._doubt_scores import (
    CONFIDENCE,
    CREDAL_DOUBTS,
    DoubtScores,
    of_entropy,
    of_margin,
    recalibrated,
)


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 3)) * 2
    y = (0.5 * z + [0.0, 1.0, -1.0] + rng.gumbel(size=z.shape)).argmax(axis=1)
    return z, y


def test_the_margin_orders_rows_as_the_greatest_probability_does(sample):
    z, _ = sample
    order = np.argsort(of_margin(z))
    assert (np.diff(softmax(z, axis=1).max(axis=1)[order]) <= 0).all()
    # Where probabilities are 1 but for round-off, margins still tell rows apart.
    assert (np.diff(of_margin(np.array([[100.0, 0.0], [200.0, 0.0], [1e4, 0.0]]))) < 0).all()


def test_the_entropy_is_that_of_the_softmax(sample):
    z, _ = sample
    p = softmax(z, axis=1)
    assert np.allclose(of_entropy(z), -(p * np.log(p)).sum(axis=1))
    assert of_entropy(np.array([[0.0, -np.inf, 0.0]])) == pytest.approx(np.log(2))


def test_recalibration_finds_shifts_and_scale_and_predicts_with_them(sample):
    z, y = sample
    doubts = DoubtScores.of(z, y, None)
    point = decal.decalibrate(
        z, y, alpha=1.0, reference="best", directions=("class", "temperature")
    ).predict(z, alpha=1.0)
    scores, predicted = doubts.score("recalibrated confidence", z)
    assert (predicted == point.point.argmax(axis=1)).all()
    assert np.allclose(-scores, np.log(point.point.max(axis=1) / (1 - point.point.max(axis=1))))
    assert (predicted == y).mean() > (z.argmax(axis=1) == y).mean() + 0.02


def test_credal_scores_are_those_of_the_sets(sample):
    z, y = sample
    doubts = DoubtScores.of(z, y, None)
    credal = decal.Decalibrator(0.9).fit(z, y).predict(z)
    found, predicted = doubts.score("lower probability, alpha 0.9", z)
    assert np.allclose(-found, credal.lower[np.arange(400), z.argmax(axis=1)])
    assert (predicted == z.argmax(axis=1)).all()
    assert np.allclose(doubts.score("width, alpha 0.9", z)[0], credal.epistemic("width"))
    assert np.allclose(doubts.score("upper entropy, alpha 0.9", z)[0], credal.total())
    assert np.allclose(
        doubts.score("epistemic, alpha 0.9", z)[0], credal.total() - credal.aleatoric()
    )


def test_a_class_without_labels_is_not_excluded_by_recalibrating(sample):
    z, y = sample
    rows = y != 2
    model = recalibrated(z[rows], y[rows])
    assert np.isfinite(model.shifts).all()
    assert model.shifts[2] == pytest.approx(model.shifts[:2].mean())
    best = decal.decalibrate(
        z[rows][:, :2], y[rows], alpha=1.0, reference="best", directions=("class", "temperature")
    )
    assert model.scale == pytest.approx(best.reference_model.scale)


@pytest.mark.filterwarnings("ignore:labels agree with the largest logit")
@pytest.mark.parametrize("labels", ["perfect", "no better than chance"])
def test_without_a_best_scale_the_shifts_remain(sample, labels):
    z, _ = sample
    y = {"perfect": z.argmax(axis=1), "no better than chance": z.argmin(axis=1)}[labels]
    found = recalibrated(z, y)
    assert found.scale == 1
    assert np.isfinite(found.shifts).all()


def test_where_nothing_can_be_recalibrated_the_other_scores_remain(sample):
    z, _ = sample
    doubts = DoubtScores.of(z, np.zeros(len(z), dtype=int), None)
    assert doubts.best is None
    assert not [name for name in doubts.names if name.startswith("recalibrated")]
    assert doubts.names[0] == CONFIDENCE
    assert np.isfinite(doubts.score("width, alpha 0.99", z)[0]).all()


def test_a_model_that_is_given_is_asked_and_not_fitted_again(sample):
    z, y = sample
    model = decal.Decalibrator(0.5, directions=("temperature",)).fit(z[:100], y[:100])
    doubts = DoubtScores.of(z, y, model)
    width = model.predict(z, alpha=0.9).epistemic("width")
    assert np.allclose(doubts.score("width, alpha 0.9", z)[0], width)


def test_round_off_puts_no_rows_in_an_order():
    rng = np.random.default_rng(0)
    lower = 0.02 * rng.random((200, 10))
    credal = decal.IntervalCredalSet(lower, lower + 0.2)  # all hold the uniform distribution
    found = CREDAL_DOUBTS["upper entropy"](credal, np.zeros(200, dtype=np.intp))
    assert len(np.unique(found)) == 1
