"""Sets that hold the truth are refuted no more often than the level, however narrow and rare."""

import numpy as np
import pytest

from decal.evaluate.calibration import refute
from helpers.narrow_sets import KINDS, LEVEL, WIDTHS, WORLDS, best_models, drawn, most


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("world", ["rare classes", "sure"])
def test_labels_of_the_best_model_itself_rarely_refute_it(world):
    repetitions, refuted = 40, 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 5])
        sets = best_models(world, rng)
        refuted += refute(sets, drawn(sets.point, rng), level=LEVEL).refuted
    assert refuted / repetitions <= most(repetitions)
