"""A forest as the truth."""

from __future__ import annotations

import numpy as np
import pytest

from decal_lab.experiments.harness.forest_truth import forest

pytest.importorskip("sklearn", reason="needs decal[sklearn]")


def test_a_forest_is_the_published_one_and_knows_absent_classes():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), 2 * rng.integers(2, size=60)
    new = rng.standard_normal((20, 3))
    truth = forest(X, y, 4, seed=7)(new)
    published = RandomForestClassifier(max_depth=5, random_state=7).fit(X, y).predict_proba(new)
    np.testing.assert_allclose(truth[:, [0, 2]], published)
    assert (truth[:, [1, 3]] == 0).all()
