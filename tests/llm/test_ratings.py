"""Ratings: expectations, probabilities and means, as intervals."""

import itertools

import numpy as np
import pytest

import decal
from decal.llm import Ratings
from oracles.boxes import random_boxes

CLASSES = ["1", "2", "3", "4", "5"]


@pytest.fixture(scope="module")
def credal():
    lower, upper = random_boxes(np.random.default_rng(0), 20, 5)
    return decal.IntervalCredalSet(lower, upper, classes=CLASSES)


def members(credal, row):
    """Extreme members of a box: all but one class at a bound."""
    low, high = credal.lower[row], credal.upper[row]
    for free in range(5):
        others = [k for k in range(5) if k != free]
        for ends in itertools.product((0, 1), repeat=4):
            p = np.zeros(5)
            p[others] = np.where(ends, high[others], low[others])
            p[free] = 1 - p.sum()
            if low[free] - 1e-12 <= p[free] <= high[free] + 1e-12:
                yield p


def test_expected_ratings_are_those_of_extreme_members(credal):
    lower, upper = Ratings(credal).expected()
    at_least = Ratings(credal).at_least(4)
    for row in range(len(credal)):
        found = np.array(list(members(credal, row)))
        assert lower[row] == pytest.approx((found @ [1, 2, 3, 4, 5]).min())
        assert upper[row] == pytest.approx((found @ [1, 2, 3, 4, 5]).max())
        assert at_least[0][row] == pytest.approx(found[:, 3:].sum(axis=1).min())
        assert at_least[1][row] == pytest.approx(found[:, 3:].sum(axis=1).max())


def test_the_mean_lies_between_the_means_of_the_ends(credal):
    ratings = Ratings(credal)
    lower, upper = ratings.expected()
    mean = ratings.mean()
    assert (mean.lower, mean.upper) == pytest.approx((lower.mean(), upper.mean()))
    wider = ratings.mean(confidence=0.95)
    assert wider.lower == pytest.approx(lower.mean() - 1.959964 * lower.std(ddof=1) / 20**0.5)
    assert wider.upper == pytest.approx(upper.mean() + 1.959964 * upper.std(ddof=1) / 20**0.5)


def test_certain_and_impossible_events(credal):
    assert Ratings(credal).at_least(1)[0].tolist() == [1.0] * 20
    assert Ratings(credal).at_least(6)[1].tolist() == [0.0] * 20


def test_words_need_values():
    words = decal.IntervalCredalSet([[0.2, 0.3]], [[0.7, 0.8]], classes=["bad", "good"])
    with pytest.raises(ValueError, match=r"what the classes are worth: got classes called \('bad'"):
        Ratings(words)
    assert Ratings(words, [0, 10]).expected()[1] == pytest.approx([8.0])
    with pytest.raises(ValueError, match="values must be 2 finite numbers"):
        Ratings(words, [1, 2, 3])
    with pytest.raises(ValueError, match="two items or more: got one"):
        Ratings(words, [0, 1]).mean(confidence=0.9)
