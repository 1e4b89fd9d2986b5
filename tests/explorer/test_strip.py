"""The strip's numbers, against loops over inputs and the definition of possible classes."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

import decal
from decal.explorer._strip import OWN, strip_alphas, strip_data, telling_rows
from helpers.explorations import data
from oracles.decisions import admissible_margins, box_vertices

CLASSES = ["ant", "bee", "cat", "dog"]
ROWS = [3, 0, 7]


@pytest.fixture(scope="module")
def shown():
    """Sets of 60 inputs at some levels, what the model says, labels, and the strip of them."""
    z, labels, _ = data(60, 4)
    noisy = z + 1.5 * np.random.default_rng(2).standard_normal(z.shape)
    model = decal.decalibrate(
        *data(300, 4, seed=1)[:2], alpha=0.97, reference="best", classes=CLASSES
    )
    sets = [model.predict(noisy, alpha=alpha) for alpha in strip_alphas(0.97)[::4]]
    says = np.exp(noisy) / np.exp(noisy).sum(axis=1, keepdims=True)
    texts = [f"text {i}" for i in range(60)]
    strip = strip_data(iter(sets), says, labels, own=4, rows=ROWS, texts=texts, promise="some")
    return sets, says, labels, strip


@pytest.fixture(scope="module")
def possible(shown):
    """By level and input, the classes that some distribution of the box calls likeliest."""
    return [
        [
            set(np.flatnonzero(admissible_margins(box_vertices(low, high)) >= -1e-9).tolist())
            for low, high in zip(credal.lower, credal.upper, strict=True)
        ]
        for credal in shown[0]
    ]


def surest(p, number):
    return sorted(range(len(p)), key=lambda i: (-max(p[i]), i))[:number]


def test_levels_go_from_1_through_the_models_own():
    alphas = strip_alphas(0.97)
    assert alphas[0] == 1
    assert alphas[OWN] == 0.97
    roots = [math.sqrt(-math.log(alpha)) for alpha in alphas]
    steps = [after - before for before, after in pairwise(roots)]
    np.testing.assert_allclose(steps, roots[OWN] / OWN, rtol=1e-6)


def test_inputs_with_one_possible_class_are_filed_and_some_of_them_wrong(shown, possible):
    _, says, labels, strip = shown
    point = np.asarray(shown[0][4].point)
    for level, left in enumerate(possible):
        alone = [i for i in range(60) if len(left[i]) == 1]
        assert strip["filed"][level] == len(alone)
        assert strip["wrong"][level] == sum(left[i] != {labels[i]} for i in alone)
        assert strip["missed"][level] == sum(labels[i] not in left[i] for i in range(60))
        for name, p in (("confidence", says), ("recalibrated", point)):
            errors = sum(np.argmax(p[i]) != labels[i] for i in surest(p, len(alone)))
            assert strip[name][level] == errors, name
    assert len(set(strip["filed"])) > 4
    assert max(strip["wrong"]) > 3


def test_dots_stand_in_the_order_in_which_they_stop_being_filed(shown):
    strip = shown[3]
    for filed, wrong in zip(strip["filed"], strip["wrong"], strict=True):
        assert strip["dots"][:filed].count("1") == wrong
    assert len(strip["dots"]) == strip["count"] == 60


def test_examples_hold_their_ranges_and_when_each_class_becomes_possible(shown, possible):
    sets, says, labels, strip = shown
    assert [example["text"] for example in strip["examples"]] == ["text 3", "text 0", "text 7"]
    for row, example in zip(ROWS, strip["examples"], strict=True):
        assert example["true"] == CLASSES[labels[row]]
        bars = {CLASSES.index(bar["name"]): bar for bar in example["bars"]}
        assert {labels[row], np.argmax(says[row])} <= set(bars)
        begins = {
            k: next((level for level, left in enumerate(possible) if k in left[row]), len(sets))
            for k in range(4)
        }
        assert example["others"] == [begins[k] for k in range(4) if k not in bars]
        for k, bar in bars.items():
            assert bar["from"] == begins[k]
            assert bar["says"] == pytest.approx(says[row, k], abs=5e-5)
            np.testing.assert_allclose(bar["lower"], [s.lower[row, k] for s in sets], atol=5e-4)
            np.testing.assert_allclose(bar["upper"], [s.upper[row, k] for s in sets], atol=5e-4)
        alone = sum(len(left[row]) == 1 for left in possible)
        assert [example["dot"] < filed for filed in strip["filed"]] == [
            j < alone for j in range(len(sets))
        ]


def of_counts(ours, theirs, both):
    """What is compared of two ways to file 30 inputs, which err alone or together."""
    n, level = 40, 1
    labels, says = np.zeros(n, int), np.full((n, 2), 0.5)
    filed_by_us = np.arange(n) < 30
    wrong = np.zeros(n, bool)
    wrong[:ours] = True  # only we err: the model is right
    says[:, 0], says[:, 1] = 0.9, 0.1
    says[ours : ours + theirs] = [0.1, 0.9]  # only the model errs
    both_at = slice(ours + theirs, ours + theirs + both)
    wrong[both_at], says[both_at] = True, [0.1, 0.9]
    says[~filed_by_us] = [0.6, 0.4]
    point = np.where(wrong[:, None], [0.2, 0.8], [0.8, 0.2])
    wide = np.where(filed_by_us[:, None], point, 0.5)
    sets = [
        decal.IntervalCredalSet(*ends, point=point, classes=["a", "b"])
        for ends in ((point, point), (np.minimum(wide, point), np.maximum(wide, point)))
    ]
    strip = strip_data(sets, says, labels, own=level, rows=[0], texts=["x"] * n)
    assert strip["filed"][level] == 30
    assert (strip["wrong"][level], strip["confidence"][level]) == (ours + both, theirs + both)
    return strip["compared"][level]


def test_a_difference_counts_if_chance_seldom_makes_it():
    # A fair coin falls 6 times on one side in 2 of 64 rows of 6 throws: 3 %, and 5 times 6 %.
    assert of_counts(0, 6, both=3) == "fewer"
    assert of_counts(6, 0, both=3) == "more"
    assert of_counts(0, 5, both=3) == "tie"
    assert of_counts(2, 2, both=0) == "tie"


def test_without_labels_nothing_is_wrong(shown):
    sets, says, _, full = shown
    bare = strip_data(sets, says, own=4, rows=[0], texts=["x"] * 60)
    assert bare["filed"] == full["filed"]
    assert not {"wrong", "missed", "confidence", "recalibrated", "compared"} & set(bare)
    assert bare["examples"][0]["true"] is None
    assert json.loads(json.dumps(bare)) == bare


def test_telling_rows_are_sure_torn_hopeless_and_missed():
    known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    model = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    credal = model.predict(new.logits)
    says = np.exp(new.logits - new.logits.max(axis=1, keepdims=True))
    says /= says.sum(axis=1, keepdims=True)
    sure, *torn, hopeless, missed = telling_rows(credal, says, new.labels)
    left, names = credal.possible(), [new.classes[k] for k in new.labels]
    predicted = [new.classes[k] for k in says.argmax(axis=1)]
    assert left[sure] == [names[sure]]
    assert len(torn) == len({tuple(sorted(left[row])) for row in torn}) == 3
    for row in torn:
        assert len(left[row]) == 2
        assert names[row] in left[row]
        assert names[row] != predicted[row]
    assert len(left[hopeless]) == max(map(len, left))
    assert names[missed] not in left[missed]
    assert says[missed].max() == max(
        says[i].max() for i in range(len(new)) if names[i] not in left[i]
    )
    assert len(telling_rows(credal, says)) == 5
