"""Sets that hold the truth are refuted no more often than the level, however narrow and rare."""

import numpy as np
import pytest
from decal.calibration import calibrated_member, refute

import decal

LEVEL, CLASSES = 0.2, 3
WIDTHS = (0.0, 1e-300, 1e-17, 1e-15, 1e-12, 1e-6)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


WORLDS = {
    "rare classes": lambda rng, n: rng.dirichlet([5, 0.05, 0.02], size=n),
    "sure": lambda rng, n: softmax(20 * rng.normal(size=(n, CLASSES))),
    "certain": lambda rng, n: np.eye(CLASSES)[rng.integers(CLASSES, size=n)],
    "open": lambda rng, n: rng.dirichlet(np.ones(CLASSES), size=n),
}


def box(truth, width):
    lower, upper = np.maximum(truth - width, 0), np.minimum(truth + width, 1)
    return decal.IntervalCredalSet(lower, upper, point=truth)


def box_without_point(truth, width):
    return decal.IntervalCredalSet(box(truth, width).lower, box(truth, width).upper)


def ball(truth, width):
    return decal.KLCredalSet(truth, width**2)


def hull(truth, width):
    other = (1 - width) * truth + width / CLASSES
    return decal.HullCredalSet(np.stack([truth, other, truth], axis=1))


def drawn(truth, rng):
    behind = (truth.cumsum(axis=1) < rng.random((len(truth), 1))).sum(axis=1)
    return np.minimum(behind, CLASSES - 1)


def most(repetitions):
    """The greatest share that chance explains."""
    return LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / repetitions)


@pytest.mark.parametrize("kind", [box, box_without_point, ball, hull])
@pytest.mark.parametrize("world", WORLDS)
def test_cells_of_narrow_sets_around_the_truth_are_rarely_refuted(world, kind):
    repetitions, found = 60, dict.fromkeys(("class", "top", "exceptions"), 0)
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 3])
        truth = WORLDS[world](rng, 200)
        sets, y = kind(truth, WIDTHS[seed % len(WIDTHS)]), drawn(truth, rng)
        found["class"] += refute(sets, y, level=LEVEL).refuted
        found["top"] += refute(sets, y, level=LEVEL, by="top").refuted
        found["exceptions"] += refute(sets, y, level=LEVEL, exceptions=0.01).refuted
    assert max(found.values()) / repetitions <= most(repetitions), found


@pytest.mark.parametrize("kind", [box, box_without_point, ball, hull])
@pytest.mark.parametrize("world", WORLDS)
def test_the_truth_in_a_narrow_set_is_rarely_called_uncalibrated(world, kind):
    repetitions, found = 12, 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 4])
        truth = WORLDS[world](rng, 80)
        sets, y = kind(truth, WIDTHS[seed % len(WIDTHS)]), drawn(truth, rng)
        found += calibrated_member(sets, y, level=LEVEL, draws=59, landmarks=8).refuted
    assert found / repetitions <= most(repetitions)


@pytest.mark.parametrize("world", ["rare classes", "sure"])
def test_labels_of_the_best_model_itself_rarely_refute_it(world):
    repetitions, cells, members = 40, 0, 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 5])
        truth = WORLDS[world](rng, 1000)
        z = np.log(np.maximum(truth, 1e-300))
        d = decal.Decalibrator(alpha=1, reference="best", directions=("class", "temperature"))
        sets = d.fit(z[:800], drawn(truth, rng)[:800]).predict(z[800:])
        y = drawn(sets.point, rng)
        cells += refute(sets, y, level=LEVEL).refuted
        if seed < 12:
            members += calibrated_member(sets, y, level=LEVEL, draws=59, landmarks=8).refuted
    assert cells / repetitions <= most(repetitions)
    assert members / 12 <= most(12)
