"""The levels of the slider, and the one at which a page opens."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal.explorer import _levels as levels
from decal.explorer import explore
from helpers.explorations import data, fitted


def at_start(page):
    """The means over all inputs at the level a page opens at."""
    header = page.payload.header
    curve = header["models"][0]["curve"]
    return {name: values[header["start"]] for name, values in curve.items() if values}


@pytest.mark.parametrize("K", [2, 3, 10, 60])
def test_without_labels_a_page_opens_where_there_is_something_to_see(K):
    page = explore(fitted(K), data(300, K)[0])
    widest = min(0.2, 2 / K)
    means = at_start(page)
    assert widest / 8 < 1 - means["efficiency"] <= widest
    assert means["size"] < max(2, K / 2)
    assert "wide on average" in page.payload.header["opened"]


def test_with_labels_a_page_opens_where_half_of_the_errors_are_caught():
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=2000)
    z = rng.normal(size=(2000, 5))
    z[np.arange(2000), labels] += 1.8
    model = decal.decalibrate(z[:1000], labels[:1000], alpha=0.5)
    page = explore(model, z, labels=labels)
    header = page.payload.header
    assert "at most half as many labels" in header["opened"]
    missed, start = header["models"][0]["curve"]["missed"], header["start"]
    errors = np.mean(z.argmax(axis=1) != labels)
    assert missed[start] <= errors / 2
    narrower = 1 - header["models"][0]["curve"]["efficiency"][start - 1]
    assert missed[start - 1] > errors / 2 or narrower < 0.25 * 0.2
    assert header["alphas"][header["own"]] == 0.5


def test_the_level_asked_for_is_the_first():
    header = explore(fitted(3), data(5, 3)[0], start=0.31).payload.header
    assert header["alphas"][header["start"]] == 0.3
    assert header["opened"] == "the level asked for"


def test_many_classes_have_levels_closer_to_one():
    few = levels.levels_of("mean", 0.9, None, 10)
    many = levels.levels_of("mean", 0.9, None, 1000)
    assert sum(0.995 < level < 1 for level in few) == 1
    assert sum(0.995 < level < 1 for level in many) >= 6
    assert {1, 0.9, 0} <= set(many)
    assert many == sorted(set(many), reverse=True)
    assert levels.levels_of("mean", 0.9, [0.2, 1], 1000) == [1, 0.2]


def test_an_end_of_the_slider_is_no_place_to_open():
    certain = np.where(np.eye(3)[np.arange(60) % 3] > 0, 30.0, 0.0)
    sure = decal.decalibrate(certain, np.arange(60) % 3, alpha=0.9)
    header = explore(sure, certain, labels=np.arange(60) % 3).payload.header
    assert 0 < header["start"] < len(header["alphas"])
