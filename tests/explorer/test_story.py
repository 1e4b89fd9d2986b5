"""The story's payload: its levels, its curves and the input that it tells about."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal.explorer import story, telling_row
from decal.explorer._story import story_levels
from helpers.explorations import data, decoded, fitted

CLASSES = ["ant", "bee", "cat"]


def log_likelihood(z, labels):
    """Mean log-probability of the labels, by definition."""
    return np.mean(z[np.arange(len(z)), labels] - np.log(np.exp(z).sum(axis=1)))


@pytest.fixture(scope="module")
def told():
    z, labels, _ = data(50, 3)
    return story(
        fitted(3, classes=CLASSES),
        z,
        labels=labels,
        texts=[f"Text {i}" for i in range(50)],
        link=("All texts", "page.html#alpha=0.9"),
    )


def test_the_curves_are_the_likelihood_of_the_labelled_data(told):
    z, labels, _ = data(120, 3, seed=1)  # on which the model was fitted
    header, arrays = decoded(told.payload.to_bytes())
    about = header["story"]
    assert about["examples"] == 120
    first, last, nodes = about["shifts"]
    assert arrays["gains"].shape == (nodes, 3)
    for at in (0, 57, nodes - 1):
        shift = first + (last - first) * at / (nodes - 1)
        for k in range(3):
            gain = log_likelihood(z + shift * np.eye(3)[k], labels) - log_likelihood(z, labels)
            assert arrays["gains"][at, k] == pytest.approx(gain, abs=1e-7)
    # They reach down to the lowest level for every class.
    assert np.exp(arrays["gains"][[0, -1]]).min() <= about["alphas"][-1] + 1e-6
    budgets = header["models"][0]["evidence"]["budgets"]
    assert all(np.isclose(budgets, -np.log(alpha), atol=1e-12).any() for alpha in about["alphas"])


@pytest.mark.parametrize("alpha", [0.5, 0.8, 0.9, 0.95, 0.987, 0.999])
def test_levels_are_round_and_have_the_models_own(alpha):
    levels = story_levels(alpha)
    assert levels[0] == 1
    assert levels == sorted(set(levels), reverse=True)
    assert alpha in levels
    assert levels[-1] < alpha or alpha == 0.999
    assert all(len(f"{level:.12g}") <= 5 for level in levels)
    assert len(levels) < 150


def test_it_tells_about_the_surest_error_that_the_set_catches():
    # Errors are rows 0 to 3; of row 0 only the wrong label is plausible, of row 1 all three are.
    point = [
        [0.8, 0.1, 0.1],
        [0.5, 0.3, 0.2],
        [0.55, 0.35, 0.1],
        [0.6, 0.3, 0.1],
        [0.62, 0.26, 0.12],
    ]
    lower = [
        [0.7, 0.05, 0.05],
        [0.2, 0.2, 0.1],
        [0.4, 0.2, 0.05],
        [0.4, 0.2, 0.05],
        [0.4, 0.2, 0.05],
    ]
    upper = [[0.9, 0.2, 0.2], [0.7, 0.6, 0.5], [0.7, 0.5, 0.2], [0.7, 0.5, 0.2], [0.7, 0.5, 0.2]]
    sets = decal.IntervalCredalSet(lower, upper, point=point)
    assert telling_row(sets, np.array([1, 1, 1, 1, 0])) == 3
    assert telling_row(sets, np.array([1, 1, 1, 2, 0])) == 2  # the label of row 3 is not plausible
    assert telling_row(sets) == telling_row(sets, np.zeros(5, dtype=int)) == 4
    assert telling_row(sets[:2]) == 1  # no set has two labels: the widest
    at_the_edge = decal.IntervalCredalSet(lower[3:], upper[3:], point=[[0.65, 0.3, 0.05], point[4]])
    assert telling_row(at_the_edge, np.array([1, 0])) == 1


def test_the_story_says_what_it_is(told):
    about = told.payload.header["story"]
    assert about["noun"] == "text"
    assert about["link"] == ["All texts", "page.html#alpha=0.9"]
    assert repr(told).startswith(f"Story: From a point to a decision, input {about['input']} of 50")
    assert told._repr_html_().startswith('<iframe title="Story"')
    assert "&lt;!doctype html&gt;" in told._repr_html_()
    z = data(4, 3)[0]
    named = [
        story(fitted(3), z, **by).payload.header["story"]["noun"]
        for by in (
            {},
            {"images": np.zeros((4, 8, 8))},
            {"noun": "beetle"},
        )
    ]
    assert named == ["input", "image", "beetle"]
    assert story(fitted(3), z, row=2).payload.header["story"]["input"] == 2


def test_what_cannot_be_told_is_refused():
    z = data(6, 3)[0]
    with pytest.raises(TypeError, match="model must be a Decalibrator: got object"):
        story(object(), z)
    with pytest.raises(ValueError, match=r"model must have three classes.*: got 4. Keep"):
        story(fitted(4), data(6, 4)[0])
    for settings in ({"likelihood": "sum"}, {"box": "own"}, {"directions": "temperature"}):
        with pytest.raises(ValueError, match=r"model must have directions=\('class',\)"):
            story(fitted(3, **settings), z)
    lone = decal.decalibrate(z, np.array([0, 1, 0, 1, 0, 1]), alpha=0.9)
    with pytest.raises(ValueError, match="model must have seen every class among its labels"):
        story(lone, z)
    with pytest.raises(ValueError, match="model's alpha must lie between 0 and 1"):
        story(fitted(3, alpha=1.0), z)
    with pytest.raises(ValueError, match="row must be below the number of inputs, 6: got 6"):
        story(fitted(3), z, row=6)
    with pytest.raises(ValueError, match="logits must have at most 500 rows: got 501"):
        story(fitted(3), data(501, 3)[0])
    for address in ("javascript:alert(1)", "data:text/html,x", " javascript:alert(1)"):
        with pytest.raises(ValueError, match=r"link must be a relative address or http\(s\)"):
            story(fitted(3), z, link=("Explore", address))
