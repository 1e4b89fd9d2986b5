"""The levels of the slider, the one at which a page opens, and the input."""

from __future__ import annotations

import numpy as np

import decal
from decal.explorer import _levels as levels
from decal.explorer import explore
from helpers.explorations import data, fitted


def test_a_page_opens_at_the_models_own_level_and_says_what_it_promises():
    z, labels, _ = data(600, 3)
    model = decal.decalibrate(z, labels, miss=0.1)
    header = explore(model, data(20, 3, seed=5)[0]).payload.header
    assert header["alphas"][header["start"]] == header["alphas"][header["own"]] == model.alpha
    assert header["promise"] == {"brief": "misses at most 1 in 10", "text": str(model.promise)}
    plain = explore(fitted(3, alpha=0.7), data(5, 3)[0]).payload.header
    assert plain["alphas"][plain["start"]] == 0.7
    assert plain["promise"] is None


def test_the_level_asked_for_is_the_first():
    header = explore(fitted(3), data(5, 3)[0], start=0.31).payload.header
    assert header["alphas"][header["start"]] == 0.3
    assert levels.opening([1, 0.5, 0], None) == 1


def test_sure_errors_that_a_set_of_two_catches_come_first():
    size = np.array([1, 2, 2, 3, 2, 1, 4])
    sure = np.array([0.9, 0.6, 0.8, 0.7, 0.95, 0.99, 0.5])
    least = np.array([0.5, 0.2, 0.3, 0.1, 0.4, 0.8, 0.05])
    wrong = np.array([1, 1, 1, 1, 0, 0, 0], dtype=bool)
    caught = np.array([0, 1, 1, 1, 0, 0, 0], dtype=bool)
    order = levels.worth_a_look(size, sure, least, wrong, caught)
    assert order.tolist() == [2, 1, 0, 3, 4, 6, 5]
    # Without labels, the surest with two classes left; then the least sure.
    assert levels.worth_a_look(size, sure, least).tolist() == [4, 2, 1, 6, 3, 0, 5]
    assert levels.worth_a_look(size).tolist() == [6, 3, 1, 2, 4, 0, 5]


def test_many_classes_have_levels_closer_to_one():
    few = levels.levels_of("mean", 0.9, None, 10)
    many = levels.levels_of("mean", 0.9, None, 1000)
    assert sum(0.995 < level < 1 for level in few) == 1
    assert sum(0.995 < level < 1 for level in many) >= 6
    assert {1, 0.9, 0} <= set(many)
    assert many == sorted(set(many), reverse=True)
    assert levels.levels_of("mean", 0.9, [0.2, 1], 1000) == [1, 0.2]
