"""Several networks for the same task."""

from __future__ import annotations

import numpy as np
import pytest

from decal_lab.experiments.harness import several_networks as networks
from decal_lab.experiments.harness.logit_sets import HELD_OUT, TRAINING

pytest.importorskip("sklearn", reason="needs decal[sklearn]")


def test_ten_networks_learn_labels_of_a_forest(monkeypatch):
    monkeypatch.setattr(networks, "MEMBERS", 2)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2))
    y = (X[:, 0] + 0.5 * rng.standard_normal(100) > 0).astype(np.intp)
    one, again, other = (networks.table_members(X, y, seed) for seed in (0, 0, 1))
    held, training = one[HELD_OUT], one[TRAINING]
    assert held.logits.shape == (2, 23, 2)
    assert training.logits.shape == (2, 47, 2)
    assert held.new_logits.shape == (2, 30, 2)
    np.testing.assert_array_equal(held.new_logits, training.new_logits)
    np.testing.assert_array_equal(held.logits, again[HELD_OUT].logits)
    assert not np.array_equal(held.truth, other[HELD_OUT].truth)
    np.testing.assert_allclose(held.truth.sum(axis=1), 1)
    right = [(m.logits[0].argmax(axis=1) == m.labels).mean() for m in (training, held)]
    assert right[0] > right[1]  # training rows are those that it knows
    np.testing.assert_array_equal(held.alone(1).logits, held.logits[1])
    p = np.exp(held.new_logits)
    box = held.wrapper()
    np.testing.assert_allclose(box.lower, p.min(axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(box.upper, p.max(axis=0), rtol=0, atol=1e-12)


def test_tables_of_scikit_learn_are_standardised(tmp_path):
    X, y = networks.table_of(tmp_path, "wine")
    assert X.shape == (178, 13)
    np.testing.assert_allclose(X.std(axis=0), 1)
    assert set(y) == {0, 1, 2}
    assert networks.table_of(tmp_path, "splice") is None


def test_networks_of_other_images_do_not_belong(tmp_path):
    for name, labels in zip(networks.SIX[:3], ([0, 1], [0, 1], [1, 1]), strict=True):
        np.savez(tmp_path / f"{name}_test", labels=labels)
    np.savez(tmp_path / "resnet20_cifar10", test_labels=[0, 1])
    found = networks.same_images(tmp_path, networks.SIX)
    assert found == (*networks.SIX[:2], "resnet20_cifar10/half")
    assert networks.same_images(tmp_path / "none", networks.SIX) == ()
