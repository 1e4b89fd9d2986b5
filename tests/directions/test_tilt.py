"""A tilt along the order of the classes."""

import numpy as np
import pytest

import decal


def test_the_tilt_moves_to_where_its_budget_is_spent():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 5))
    labels = (logits + rng.gumbel(size=(200, 5))).argmax(axis=1)
    d = decal.decalibrate(logits, labels, alpha=0.9, directions="tilt", order=True)
    ends = d.steps("tilt")
    s = (np.arange(5) - 2) / np.std(np.arange(5))

    def mean_log_likelihood(theta):
        z = logits + theta * s
        return np.mean(z[np.arange(200), labels] - np.log(np.exp(z).sum(axis=1)))

    for end in (ends.lower, ends.upper):
        lost = mean_log_likelihood(0.0) - mean_log_likelihood(end)
        assert lost == pytest.approx(-np.log(0.9), abs=1e-9)
    assert ends.lower < 0 < ends.upper


def test_a_tilt_is_no_part_of_a_file_and_has_a_positive_ratio():
    d = decal.decalibrate([[1.0, 0.0], [0.0, 1.0]], [0, 0], alpha=0.9, directions="tilt")
    with pytest.raises(ValueError, match="directions must all support save: got 'tilt'"):
        d.save("model.npz")
    with pytest.raises(ValueError, match="ratio must be"):
        decal.directions.Tilt(-1.0)
