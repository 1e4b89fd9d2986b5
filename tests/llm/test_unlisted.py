"""Answers of which not all tokens are listed: what is learnt from them, and sets of them.

Outer boxes contain the boxes of every completion, by a literal definition of both.
"""

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
from decal.llm import decalibrate as decalibrate_masses
from helpers.llm_responses import CHAT
from helpers.sealed_files import write_sealed
from helpers.vocabularies import random_vocabulary
from oracles import tokens as oracle

TOKENS = ["a", "b", "c", "x", "y", "z", "u", "w"]
ABC = Verbaliser(["a", "b", "c"], space=False)
ROUNDING = 1e-9


def labelled(rng, n=25, spread=1.5):
    z = spread * rng.normal(size=(n, len(TOKENS)))
    labels = rng.integers(0, 3, n)
    z[np.arange(n), labels] += 1.0
    p = np.exp(z)
    return p / p.sum(axis=1, keepdims=True), labels


def test_all_tokens_give_the_ordinary_model():
    p, labels = labelled(np.random.default_rng(0))
    d = decalibrate_masses(vocabulary_masses(np.log(p), TOKENS, ABC), labels, alpha=0.8)
    expected = decal.decalibrate(np.log(p[:, :3]), labels, alpha=0.8)
    np.testing.assert_allclose(d.shifts().upper, expected.shifts().upper)
    assert d.classes == ("a", "b", "c")


def test_names_of_labels_are_taken():
    p, labels = labelled(np.random.default_rng(0))
    masses = vocabulary_masses(np.log(p), TOKENS, ABC)
    named = decalibrate_masses(masses, np.array(["a", "b", "c"])[labels], alpha=0.8)
    by_number = decalibrate_masses(masses, labels, alpha=0.8)
    np.testing.assert_array_equal(named.shifts().upper, by_number.shifts().upper)


def test_missing_tokens_are_refused_unless_the_caller_says_what_to_do():
    p, labels = labelled(np.random.default_rng(0))
    masses = vocabulary_masses(np.log(p), TOKENS, ABC, top=3)
    with pytest.raises(ValueError, match="masses must be known exactly for logits: got 2"):
        decalibrate_masses(masses, labels, alpha=0.8)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    top=st.integers(2, 6),
    alpha=st.sampled_from([0.5, 0.8, 0.95]),
    likelihood=st.sampled_from(["mean", "sum"]),
)
def test_bounds_hold_the_shifts_of_every_completion(seed, top, alpha, likelihood):
    rng = np.random.default_rng(seed)
    p, labels = labelled(rng, n=12)
    masses = vocabulary_masses(np.log(p), TOKENS, ABC, top=top)
    d = decalibrate_masses(masses, labels, alpha=alpha, likelihood=likelihood, unlisted="bounds")
    budget = -np.log(alpha) * (len(labels) if likelihood == "mean" else 1)
    spellings = [["a"], ["b"], ["c"]]
    each = [oracle.completions(rng, row, row >= np.sort(row)[-top], 6) for row in p]
    for rows in zip(*each, strict=True):
        mass = np.maximum([oracle.masses(q, TOKENS, spellings) for q in rows], 1e-300)
        for k in range(3):
            m = np.log(mass[:, k]) - np.log(mass.sum(axis=1) - mass[:, k] + 1e-300)
            for end in (d.shifts().lower[k], d.shifts().upper[k]):
                if np.isfinite(end):
                    outside = end * (1 + 1e-6) + np.sign(end) * 1e-6
                    assert not oracle.plausible(outside, m, labels == k, budget)


def test_boxes_of_bounded_models_hold_those_of_the_whole_vocabulary():
    rng = np.random.default_rng(3)
    p, labels = labelled(rng, n=60)
    new, _ = labelled(rng, n=40)
    v = ABC
    for directions in (("class",), ("local",), ("class", "local")):
        settings = {"alpha": 0.8, "directions": directions}
        full = decalibrate_masses(vocabulary_masses(np.log(p), TOKENS, v), labels, **settings)
        inner = predict(full, vocabulary_masses(np.log(new), TOKENS, v))
        for top in (2, 4, 6):
            cut = vocabulary_masses(np.log(p), TOKENS, v, top=top)
            d = decalibrate_masses(cut, labels, unlisted="bounds", **settings)
            outer = predict(d, vocabulary_masses(np.log(new), TOKENS, v, top=top))
            assert (outer.lower <= inner.lower + 1e-9).all()
            assert (outer.upper >= inner.upper - 1e-9).all()


@pytest.mark.parametrize("directions", [("class",), ("local",), ("local", "class")])
def test_what_was_learnt_from_intervals_is_saved_and_predicts_the_same(tmp_path, directions):
    rng = np.random.default_rng(3)
    p, labels = labelled(rng, n=60)
    masses = vocabulary_masses(np.log(p), TOKENS, ABC, top=3)
    new = vocabulary_masses(np.log(labelled(rng)[0]), TOKENS, ABC, top=4)
    d = decalibrate_masses(masses, labels, alpha=0.8, unlisted="bounds", directions=directions)
    d.save(tmp_path / "model.npz")
    loaded = decal.Decalibrator.load(tmp_path / "model.npz")
    for alpha in (None, 1.0, 0.3, 0.0):
        found, expected = predict(loaded, new, alpha=alpha), predict(d, new, alpha=alpha)
        np.testing.assert_array_equal(found.lower, expected.lower)
        np.testing.assert_array_equal(found.upper, expected.upper)
        np.testing.assert_array_equal(found.point, expected.point)
    assert loaded.classes == ("a", "b", "c")
    assert repr(loaded) == repr(d)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("class.low.moments", lambda a: -a),
        ("class.high.keys", lambda a: a[::-1]),
        ("class.high.label_weight", lambda a: a[[1, 0, 2]]),
    ],
)
def test_damaged_intervals_of_a_file_are_refused(tmp_path, name, change):
    p, labels = labelled(np.random.default_rng(3), n=60)
    masses = vocabulary_masses(np.log(p), TOKENS, ABC, top=3)
    decalibrate_masses(masses, labels, alpha=0.8, unlisted="bounds").save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        arrays = dict(file)
    write_sealed(tmp_path / "model.npz", arrays | {name: change(arrays[name])})
    with pytest.raises(ValueError, match="must be an intact model file"):
        decal.Decalibrator.load(tmp_path / "model.npz")


def test_intervals_and_known_logits_add_up_in_either_order():
    p, labels = labelled(np.random.default_rng(0), n=40)
    known, some = np.log(p[:, :3]), vocabulary_masses(np.log(p[:15]), TOKENS, ABC, top=3)
    for first_known in (True, False):
        models = [
            decalibrate_masses(some, labels[:15], alpha=0.8, unlisted="bounds"),
            decal.decalibrate(known[15:], labels[15:], alpha=0.8, classes=ABC.classes),
        ]
        one, other = models[::-1] if first_known else models
        ends = one.merge(other).shifts()
        every = decal.decalibrate(known, labels, alpha=0.8).shifts()
        assert (ends.lower <= every.lower).all()
        assert (ends.upper >= every.upper).all()
        for k in range(3):  # the margins of the first 15 are at their bounds, those of others known
            for end, side in ((ends.lower[k], 1), (ends.upper[k], -1)):
                m = known[:, k] - np.log(np.exp(known).sum(axis=1) - np.exp(known[:, k]))
                m[:15] = extreme_margins(some, k, side)
                budget = -40 * np.log(0.8)
                assert oracle.plausible(end * (1 - 1e-6), m, labels == k, budget)
                assert not oracle.plausible(end * (1 + 1e-6), m, labels == k, budget)


def extreme_margins(masses, k, side):
    """The greatest (side 1) or the least (side -1) log-odds of label k in every answer."""
    own, others = (masses.upper, masses.lower) if side > 0 else (masses.lower, masses.upper)
    with np.errstate(divide="ignore"):
        rest = np.log(np.exp(np.delete(others, k, axis=1)).sum(axis=1))
    return np.clip(own[:, k] - rest, -1000, 1000)


def test_gains_of_intervals_are_refused_in_words():
    p, labels = labelled(np.random.default_rng(3))
    masses = vocabulary_masses(np.log(p), TOKENS, ABC, top=3)
    d = decalibrate_masses(masses, labels, alpha=0.8, unlisted="bounds")
    with pytest.raises(ValueError, match="gains must be of known logits: got a model that learnt"):
        d.gains("class", [0.1])
    assert "3 classes" in repr(d.explore(np.log(p[:5, :3])))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"directions": ("class", "temperature")}, "class shifts or local sets for unlisted='bou"),
        ({"reference": "best"}, "reference must be 'model' for unlisted='bounds': got 'best'"),
    ],
)
def test_what_needs_logits_is_refused(settings, message):
    p, labels = labelled(np.random.default_rng(0))
    masses = vocabulary_masses(np.log(p), TOKENS, ABC, top=3)
    with pytest.raises(ValueError, match=message):
        decalibrate_masses(masses, labels, alpha=0.8, unlisted="bounds", **settings)


def test_masses_are_no_logits_and_say_what_takes_them():
    p, labels = labelled(np.random.default_rng(0))
    masses = vocabulary_masses(np.log(p), TOKENS, ABC)
    message = "got LabelMasses, .* Use decal.llm.decalibrate and decal.llm.predict, or"
    with pytest.raises(ValueError, match=message):
        decal.decalibrate(masses, labels, alpha=0.8)
    coupled = decal.CoupledDecalibrator(0.9, likelihood="mean").fit(np.log(p[:, :3]), labels)
    with pytest.raises(ValueError, match=message):
        coupled.predict(masses)


# Outer boxes


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
    masses = LabelMasses(lower, upper, ("a", "b", "c"))
    d = decal.decalibrate(np.eye(3), [0, 1, 2], alpha=0.9)
    credal = predict(d, masses)
    assert credal.upper[0, 1] == 0.0
    assert 0 < credal.lower[0, 0] < credal.upper[0, 0] < 1
