"""Which score is chosen, and that its own fit does not flatter it."""

import numpy as np
import pytest

from decal import metrics
from decal.choose._doubt_scores import (
    CONFIDENCE,
    DoubtScores,
    best_of,
    contributions,
    cross_scored,
    trials,
)


def test_contributions_add_up_to_the_area():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 30))
        scores, wrong = rng.integers(0, 6, n) * 1.0, rng.random(n) < 0.4
        assert contributions(scores, wrong).mean() == pytest.approx(metrics.aurc(scores, wrong))


def test_rows_are_scored_by_what_was_fitted_on_other_rows():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(40, 3))
    y = rng.integers(0, 3, 40)
    scored = cross_scored(z, y, None)
    even, odd = slice(0, None, 2), slice(1, None, 2)
    name = "lower probability, alpha 0.99"
    for half, other in ((even, odd), (odd, even)):
        expected, predicted = DoubtScores.of(z[other], y[other], None).score(name, z[half])
        assert (scored[name][0][half] == expected).all()
        assert (scored[name][1][half] == (predicted != y[half])).all()


def test_another_score_must_be_clearly_better():
    rng = np.random.default_rng(2)
    wrong = rng.random(300) < 0.2
    own = rng.normal(size=300) + wrong
    nearly = own + 1e-3 * rng.normal(size=300)
    better = rng.normal(size=300) + 4 * wrong
    tried = trials({CONFIDENCE: (own, wrong), "nearly": (nearly, wrong)})
    assert best_of(tried) == CONFIDENCE
    tried = trials({CONFIDENCE: (own, wrong), "nearly": (nearly, wrong), "better": (better, wrong)})
    assert best_of(tried) == "better"
    assert tried["better"].gain == pytest.approx(
        tried[CONFIDENCE].curve.area - tried["better"].curve.area
    )


def test_the_standard_error_is_about_that_of_new_samples():
    rng = np.random.default_rng(3)
    gains, errors = [], []
    for _ in range(300):
        wrong = rng.random(200) < 0.3
        own, other = rng.normal(size=200) + wrong, rng.normal(size=200) + 1.5 * wrong
        trial = trials({CONFIDENCE: (own, wrong), "other": (other, wrong)})["other"]
        gains.append(trial.gain)
        errors.append(trial.error)
    assert 0.7 < np.mean(errors) / np.std(gains) < 1.5


def test_without_errors_the_models_own_confidence_is_taken():
    rng = np.random.default_rng(4)
    z = rng.normal(size=(40, 3))
    assert best_of(trials(cross_scored(z, z.argmax(axis=1), None))) == CONFIDENCE
