"""The published solver, SLSQP."""

from __future__ import annotations

import numpy as np

from decal_lab.experiments.harness import published_solver
from lab_helpers.experiment_files import softmax
from oracles import boxes as box_oracles
from oracles import class_shifts as oracles

K = 3


def test_slsqp_finds_the_ends_where_it_converges_and_they_reach_alpha(resnet20_folder):
    with np.load(resnet20_folder / "resnet20_cifar10.npz") as file:
        fit = file["cifar10_train"], file["train_labels"]
    ratio = published_solver.Ratio(*fit)
    ends = published_solver.endpoints(ratio, (0.5, 0.9))
    for i, alpha in enumerate((0.5, 0.9)):
        b = oracles.budget(alpha, "mean", 50)
        expected = [oracles.plausible_interval(*fit, k, b) for k in range(K)]
        np.testing.assert_allclose(ends[i].T, expected, rtol=1e-3)
    np.testing.assert_allclose(published_solver.reached(ratio, ends)[0], 0.5, atol=1e-3)


def test_published_sets_hold_the_models_of_larger_alphas_too(resnet20_folder):
    with np.load(resnet20_folder / "resnet20_cifar10.npz") as file:
        z = file["mnist"].astype(float)
    ends = np.array([[[-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]], [[0.0] * 3, [0.5] * 3]])
    models = published_solver.moved_predictions(z, ends)
    assert models.shape == (20, 12, K)
    np.testing.assert_allclose(models[:, 4], softmax(z + np.array([0, 2.0, 0])), rtol=1e-12)
    np.testing.assert_allclose(models[:, 11], softmax(z + np.array([0, 0, 0.5])), rtol=1e-12)


def test_entropies_by_slsqp_are_near_the_exact_ones_on_most_rows(resnet20_folder):
    with np.load(resnet20_folder / "resnet20_cifar10.npz") as file:
        z = file["mnist"].astype(float)
    models = published_solver.moved_predictions(z, np.array([[[-0.5] * K, [0.5] * K]]))
    lower, upper = box_oracles.tighten(models.min(axis=1), models.max(axis=1))
    exact = box_oracles.upper_entropy(lower, upper) - box_oracles.lower_entropy(lower, upper)
    found = published_solver.entropy_difference(models) * np.log(2)
    assert (found <= exact + 1e-6).all()
    assert np.mean(np.abs(found - exact) < 1e-4) > 0.5
