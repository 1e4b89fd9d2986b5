"""A calibrated member is refuted no more often than the level, however narrow the sets are."""

import numpy as np
import pytest

from decal_lab.members import calibrated_member
from helpers.narrow_sets import KINDS, LEVEL, WIDTHS, WORLDS, best_models, drawn, most

REPETITIONS = 12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_the_truth_in_a_narrow_set_is_rarely_called_uncalibrated(world, kind):
    found = 0
    for seed in range(REPETITIONS):
        rng = np.random.default_rng([seed, 4])
        truth = WORLDS[world](rng, 80)
        sets, y = kind(truth, WIDTHS[seed % len(WIDTHS)]), drawn(truth, rng)
        found += calibrated_member(sets, y, level=LEVEL, draws=59, landmarks=8).refuted
    assert found / REPETITIONS <= most(REPETITIONS)


@pytest.mark.parametrize("world", ["rare classes", "sure"])
def test_labels_of_the_best_model_itself_rarely_refute_it(world):
    found = 0
    for seed in range(REPETITIONS):
        rng = np.random.default_rng([seed, 5])
        sets = best_models(world, rng)
        y = drawn(sets.point, rng)
        found += calibrated_member(sets, y, level=LEVEL, draws=59, landmarks=8).refuted
    assert found / REPETITIONS <= most(REPETITIONS)
