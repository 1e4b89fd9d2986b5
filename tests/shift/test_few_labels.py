"""Regions that allow for few labels, against differences, the bootstrap and a simulation."""

import numpy as np
import pytest

import decal
from decal.shift._calibrated import calibrate
from decal.shift._few_labels import _influence, _sensitivity, linearised


def draw(n, frequencies, rng):
    K = len(frequencies)
    y = rng.choice(K, p=frequencies, size=n)
    x = rng.normal(size=(n, K))
    x[np.arange(n), y] += 1.5
    return 1.5 * x, y


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labelled = draw(300, [0.5, 0.3, 0.2], rng)
    model = decal.LabelShift(0.95).fit(*labelled).observe(draw(900, [0.2, 0.2, 0.6], rng)[0])
    return labelled, model


def parameters(calibrated):
    """Shifts over frequencies, up to a constant, and the scale."""
    shifts = calibrated.center - np.log(calibrated.frequencies)
    return np.append(shifts - shifts.mean(), calibrated.scale)


def test_influences_are_differences_of_calibrations(data):
    (z, y), model = data
    influence = _influence(model._known.calibrated, (z, y, None), np.arange(3))
    influence[:, :3] -= influence[:, :3].mean(axis=1, keepdims=True)
    for row in (0, 17, 123):
        step, moved = 1e-3, []
        for sign in (-1, 1):
            w = np.ones(len(y))
            w[row] += sign * step
            moved.append(parameters(calibrate(z, y, w, None, True)))
        assert influence[row] == pytest.approx((moved[1] - moved[0]) / (2 * step), abs=1e-5)


def test_sensitivities_are_differences_of_gradients(data):
    _, model = data
    known = model._known
    H, C = _sensitivity(known.calibrated, known.seen, np.arange(3))
    likelihood, v = known.seen.likelihood, known.seen.smoothed
    z = known.calibrated.logits(likelihood.ratios)

    def gradient(shift, scale):
        a = np.exp(
            scale * z + known.calibrated.center - np.log(known.calibrated.frequencies) + shift
        )
        return likelihood.weights @ (a / (a @ v)[:, None])

    step, scale = 1e-5, known.calibrated.scale
    for j, e in enumerate(np.eye(3)):
        slope = (gradient(step * e, scale) - gradient(-step * e, scale)) / (2 * step)
        assert C[:, j] == pytest.approx(slope, rel=1e-4, abs=1e-3)
    slope = (gradient(np.zeros(3), scale + step) - gradient(np.zeros(3), scale - step)) / (2 * step)
    assert C[:, 3] == pytest.approx(slope, rel=1e-4, abs=1e-3)
    a = likelihood.ratios / (likelihood.ratios @ v)[:, None]
    assert pytest.approx((a * likelihood.weights[:, None]).T @ a) == H


def test_it_finds_about_what_the_bootstrap_finds(data):
    _, model = data
    corrected = model.corrected()._known.inflations
    bootstrapped = model.bootstrapped(100)._known.inflations
    assert min(corrected) > 1.5
    assert corrected == pytest.approx(bootstrapped, rel=0.3)


def test_statistics_scatter_as_much_as_it_says():
    """Where the truth is known: the level of the corrected region, not of the plain one."""
    v, plain, corrected = np.array([0.3, 0.7]), 0, 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 1])
        model = decal.LabelShift(0.9).fit(*draw(200, [0.5, 0.5], rng))
        model.observe(draw(1500, v, rng)[0])
        lost = model._known.seen.maximum.value - model._known.seen.likelihood.at(v[None])[0]
        wider = model.corrected()
        plain += lost <= model._depth(model._known, 1)
        corrected += lost <= wider._depth(wider._known, 1)
    assert plain < 45
    assert corrected >= 48


def test_weights_count_like_rows_and_many_labels_change_nothing(data):
    (z, y), model = data
    observed, calibrated = model._known.seen, model._known.calibrated
    once = linearised(calibrated, observed, (z, y, None), confidence=0.95)
    twice = linearised(calibrated, observed, (z, y, np.full(len(y), 2.0)), confidence=0.95)
    doubled = linearised(
        calibrated, observed, (np.tile(z, (2, 1)), np.tile(y, 2), None), confidence=0.95
    )
    assert twice == pytest.approx(doubled)
    assert np.all(np.array(twice) < once)
    many = linearised(calibrated, observed, (z, y, np.full(len(y), 1e6)), confidence=0.95)
    assert many == pytest.approx((1.0, 1.0), abs=1e-3)


def test_what_was_not_calibrated_is_not_corrected(data):
    (z, y), model = data
    plain = decal.LabelShift(calibrate=False).fit(z, y).observe(z)
    assert plain.corrected()._known.inflations == (1.0, 1.0)
    lower, wider = model.frequencies, model.corrected().frequencies
    assert np.all((wider.lower <= lower.lower) & (wider.upper >= lower.upper))
