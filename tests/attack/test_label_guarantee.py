"""A choice of miss keeps its promise: over repetitions, labels are missed as rarely as it says."""

import numpy as np
import pytest
from scipy.stats import binom

import decal
from helpers.attack import FACTOR, counted

REPETITIONS = 20 * FACTOR
IMPLAUSIBLE = 1e-6
"""Probability of so many misses, if the promise holds, below which it is taken as broken."""


def world(rng, n, K, wrong):
    """Logits, and labels that follow other probabilities than those of the logits."""
    logits = 2 * rng.normal(size=(n, K))
    truth = 0.4 * logits + wrong
    return logits, np.argmax(truth + rng.gumbel(size=(n, K)), axis=1)


@pytest.mark.parametrize("directions", [("class",), ("class", "temperature")])
@pytest.mark.parametrize(("n", "epsilon"), [(5, 0.2), (19, 0.05), (30, 0.3)])
@counted("guarantee of alpha_for_labels", REPETITIONS)
def test_labels_are_missed_as_rarely_as_promised(n, epsilon, directions):
    seed = [n, len(directions), int(1000 * epsilon)]
    rng = np.random.default_rng(seed if FACTOR == 1 else None)
    K = 3
    wrong = 2 * rng.normal(size=K)
    model = decal.decalibrate(*world(rng, 40, K, wrong), alpha=0.9, directions=directions)
    missed = 0
    for _ in range(REPETITIONS):
        logits, labels = world(rng, n + 1, K, wrong)
        choice = decal.choose(model, logits[:n], labels[:n], miss=epsilon)
        kept = model.predict(logits[n:], alpha=choice.alpha).decide("e_admissible")[0]
        missed += not kept[labels[n]]
    assert binom.sf(missed - 1, REPETITIONS, epsilon) > IMPLAUSIBLE, (missed, REPETITIONS)
