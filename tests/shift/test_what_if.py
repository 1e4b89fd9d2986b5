"""Ranges over given intervals of frequencies, against linear programs."""

import numpy as np
import pytest
from scipy.optimize import linprog

from decal.shift._what_if import what_if_box


def by_linear_programs(odds, low, high, k, side):
    """The extreme of w_k v_k / <w, v>, linear in y = v / <w, v> and t = 1 / <w, v>."""
    K = len(odds)
    objective = np.zeros(K + 1)
    objective[k] = -side * odds[k]
    upper = np.zeros((2 * K, K + 1))
    for j in range(K):
        upper[j, j], upper[j, K] = 1, -high[j]
        upper[K + j, j], upper[K + j, K] = -1, low[j]
    equal = np.zeros((2, K + 1))
    equal[0, :K], equal[1, :K], equal[1, K] = odds, 1, -1
    found = linprog(objective, upper, np.zeros(2 * K), equal, [1, 0], bounds=[(0, None)] * (K + 1))
    return -side * found.fun


def test_boxes_are_those_of_linear_programs():
    rng = np.random.default_rng(0)
    for K in (2, 3, 5, 8):
        for _ in range(6):
            middle = rng.dirichlet(np.ones(K))
            low = middle * rng.uniform(0, 1, K)
            high = middle + (1 - middle) * rng.uniform(0, 1, K)
            odds = np.exp(2 * rng.normal(size=(2, K)))
            least, most = what_if_box(odds, low, high)
            for i in range(2):
                for k in range(K):
                    assert least[i, k] == pytest.approx(
                        by_linear_programs(odds[i], low, high, k, -1), abs=1e-7
                    )
                    assert most[i, k] == pytest.approx(
                        by_linear_programs(odds[i], low, high, k, 1), abs=1e-7
                    )


def test_one_set_of_frequencies_gives_one_prediction():
    odds, v = np.array([[1.0, 0.5, 0.1]]), np.array([0.2, 0.5, 0.3])
    least, most = what_if_box(odds, v, v)
    assert least == pytest.approx(odds * v / (odds @ v))
    assert most == pytest.approx(least)


def test_equal_odds_and_impossible_classes():
    odds = np.array([[1.0, 1.0, 0.0]])
    least, most = what_if_box(odds, np.zeros(3), np.ones(3))
    assert np.array_equal(least, [[0, 0, 0]])
    assert np.array_equal(most[0, :2], [1, 1])
