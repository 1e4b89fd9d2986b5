"""Outer boxes contain the boxes of every completion, by a literal definition of both."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decal
from decal.llm import (
    LabelMasses,
    Verbaliser,
    label_masses,
    label_probabilities,
    predict,
    vocabulary_masses,
)
from helpers.llm_responses import CHAT
from helpers.vocabularies import random_vocabulary
from oracles import tokens as oracle

ROUNDING = 1e-9


def fitted(rng, K, names, **settings):
    labels = rng.integers(0, K, 40)
    logits = 2 * rng.normal(size=(40, K)) + 2 * np.eye(K)[labels]
    return decal.decalibrate(logits, labels, classes=names, **settings)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    top=st.integers(1, 12),
    alpha=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    directions=st.sampled_from([("class",), ("class", "temperature"), ("temperature",)]),
    box=st.sampled_from(["joint", "own"]),
)
def test_boxes_of_every_completion_lie_in_the_outer_box(seed, top, alpha, directions, box):
    rng = np.random.default_rng(seed)
    p, tokens, spellings, v = random_vocabulary(rng)
    d = fitted(rng, len(v), v.classes, alpha=alpha, directions=directions, box=box)
    top = min(top, len(p))
    outer = predict(d, vocabulary_masses(np.log(p)[None], tokens, v, top=top))
    shifts = (d.shifts().lower, d.shifts().upper) if "class" in directions else None
    scales = None
    if "temperature" in directions:
        scales = d.scales().lower, min(d.scales().upper, 50.0)
    listed = p >= np.sort(p)[-top]
    for q in oracle.completions(rng, p, listed, 12):
        mass = oracle.masses(q, tokens, spellings)
        if max(mass) == 0:
            continue
        moved = list(oracle.predictions(mass, shifts if box == "joint" else None, scales))
        for found in moved:
            assert (found >= outer.lower[0] - ROUNDING).all()
            assert (found <= outer.upper[0] + ROUNDING).all()
        if box == "own" and shifts is not None:
            for k, ends in enumerate(zip(*shifts, strict=True)):
                for t in np.clip(ends, -600, 600):
                    z = np.log(np.maximum(mass, 1e-300)) + t * (np.arange(len(mass)) == k)
                    assert outer.lower[0, k] - ROUNDING <= oracle.softmax(list(z))[k]
                    assert oracle.softmax(list(z))[k] <= outer.upper[0, k] + ROUNDING


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    top=st.integers(1, 12),
    alpha=st.sampled_from([0.3, 0.8, 0.99]),
    mix=st.sampled_from([0.0, 0.1]),
)
def test_local_sets_of_every_completion_lie_in_the_outer_box(seed, top, alpha, mix):
    rng = np.random.default_rng(seed)
    p, tokens, spellings, v = random_vocabulary(rng)
    d = fitted(rng, len(v), v.classes, alpha=alpha, directions=(decal.Local(mix=mix),))
    top = min(top, len(p))
    outer = predict(d, vocabulary_masses(np.log(p)[None], tokens, v, top=top))
    listed = p >= np.sort(p)[-top]
    for q in oracle.completions(rng, p, listed, 12):
        mass = np.array(oracle.masses(q, tokens, spellings))
        if (mass < 1e-12).any():  # a label without mass would be masked, and others share the mix
            continue
        center = (1 - mix) * mass / mass.sum() + mix / len(mass)
        for k, c in enumerate(center):
            least, most = oracle.ball_interval(c, -np.log(alpha))
            assert outer.lower[0, k] <= least + ROUNDING
            assert most <= outer.upper[0, k] + ROUNDING


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize("reference", ["model", "best", "halfway"])
def test_recentred_models_and_classes_without_labels(reference):
    rng = np.random.default_rng(5)
    for _ in range(30):
        p, tokens, _, v = random_vocabulary(rng)
        K = len(v)
        labels = rng.integers(0, max(2, K - 1), 40)  # the last class has none, if K > 2
        logits = 2 * rng.normal(size=(40, K)) + 2 * np.eye(K)[labels]
        d = decal.decalibrate(
            logits, labels, alpha=0.7, reference=reference, directions=("class", "temperature")
        )
        full = predict(d, vocabulary_masses(np.log(p)[None], tokens, v))
        for top in (1, 3, 8):
            outer = predict(d, vocabulary_masses(np.log(p)[None], tokens, v, top=top))
            assert (outer.lower <= full.lower + ROUNDING).all()
            assert (outer.upper >= full.upper - ROUNDING).all()


def test_the_whole_vocabulary_gives_the_ordinary_box():
    rng = np.random.default_rng(1)
    p, tokens, spellings, v = random_vocabulary(rng)
    d = fitted(rng, len(v), v.classes, alpha=0.8)
    found = predict(d, vocabulary_masses(np.log(p)[None], tokens, v))
    expected = d.predict(np.log([oracle.masses(p, tokens, spellings)]))
    np.testing.assert_allclose(found.lower, expected.lower, atol=1e-12)
    np.testing.assert_allclose(found.upper, expected.upper, atol=1e-12)
    np.testing.assert_allclose(found.point, expected.point, atol=1e-12)


def test_the_bounds_are_reached_where_each_label_has_one_token():
    v = Verbaliser(["a", "b"], space=False)
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, classes=["a", "b"])
    p = np.array([[0.5, 0.3, 0.1, 0.1]])
    outer = predict(d, vocabulary_masses(np.log(p), ["a", "x", "b", "y"], v, top=2))
    # b has at most 0.2, which is all that is left, and perhaps nothing.
    worst = d.predict(np.log([[0.5, 0.2 + 1e-6]]))
    np.testing.assert_allclose(outer.lower[0, 0], worst.lower[0, 0], atol=1e-9)
    np.testing.assert_allclose(outer.upper[0, 1], worst.upper[0, 1], atol=1e-9)
    assert outer.upper[0, 0] == 1.0
    assert outer.lower[0, 1] == 0.0


def test_labels_of_which_nothing_is_listed_are_vacuous():
    masses = label_masses([CHAT], Verbaliser(["left", "right"]))
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    for credal in (predict(d, masses), label_probabilities(masses)):
        assert credal.lower.tolist() == [[0.0, 0.0]]
        assert credal.upper.tolist() == [[1.0, 1.0]]


def test_probabilities_without_any_move():
    v = Verbaliser({"up": ["Yes", " yes"], "down": "No"}, space=False)
    credal = label_probabilities(label_masses([CHAT], v))
    np.testing.assert_allclose(credal.lower, [[0.84375, 0.15625]], atol=1e-4)
    np.testing.assert_allclose(credal.upper, credal.lower)


def test_names_of_a_batch_become_the_index():
    line = {"custom_id": "q7", "response": {"body": CHAT}}
    masses = label_masses([line], Verbaliser(["Yes", "No"]))
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    assert "q7" in repr(predict(d, masses))


class Tilt(decal.Line):
    name = "tilt"

    def move(self, logits):
        return logits**2


@pytest.mark.parametrize("direction", [decal.Local(by_entropy=0.1), Tilt()])
def test_directions_without_a_proof_are_refused(direction):
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, directions=[direction])
    masses = label_masses([CHAT], Verbaliser(["Yes", "No"]))
    with pytest.raises(ValueError, match="directions must be class shifts, temperature or local"):
        predict(d, masses)


def test_a_model_of_other_labels_is_refused():
    masses = label_masses([CHAT], Verbaliser(["Yes", "No"]))
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, classes=["No", "Yes"])
    with pytest.raises(ValueError, match=r"fitted on the labels \('Yes', 'No'\): got \('No', 'Yes"):
        predict(d, masses)
    d = decal.decalibrate(np.eye(3), [0, 1, 2], alpha=0.9)
    with pytest.raises(ValueError, match=r"fitted on the labels \('Yes', 'No'\): got 3"):
        predict(d, masses)


def test_models_that_learnt_from_probabilities_are_taken():
    p, y = [[0.9, 0.1], [0.4, 0.6]], [0, 1]
    masses = label_masses([CHAT], Verbaliser(["Yes", "No"]))
    one = decal.decalibrate(p, y, alpha=0.9, probabilities=True)
    other = decal.decalibrate(np.log(p), y, alpha=0.9)
    np.testing.assert_allclose(predict(one, masses).lower, predict(other, masses).lower)


def test_a_mass_known_to_be_nothing_is_masked():
    lower, upper = np.array([[-1.0, -np.inf, -2.0]]), np.array([[-0.5, -np.inf, -2.0]])
    one = np.array([1])
    masses = LabelMasses(lower, upper, np.zeros((1, 3), dtype=int), one * 0.0, one, ("a", "b", "c"))
    d = decal.decalibrate(np.eye(3), [0, 1, 2], alpha=0.9)
    credal = predict(d, masses)
    assert credal.upper[0, 1] == 0.0
    assert 0 < credal.lower[0, 0] < credal.upper[0, 0] < 1
