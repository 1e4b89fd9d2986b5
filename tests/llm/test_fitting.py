"""Learning from answers of which not all tokens are listed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decal
from decal.llm import Verbaliser, predict, vocabulary_masses
from decal.llm import decalibrate as decalibrate_masses
from oracles import tokens as oracle

TOKENS = ["a", "b", "c", "x", "y", "z", "u", "w"]
ABC = Verbaliser(["a", "b", "c"], space=False)


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
        decalibrate_masses(masses, labels)
    even = decalibrate_masses(masses, labels, alpha=0.8, unlisted="even", vocabulary=8)
    expected = decal.decalibrate(masses.logits("even", vocabulary=8), labels, alpha=0.8)
    np.testing.assert_allclose(even.shifts().upper, expected.shifts().upper)


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


def test_bounds_of_known_masses_are_the_ordinary_endpoints():
    p, labels = labelled(np.random.default_rng(0))
    logits = np.log(p[:, :3])
    bounded = decal.Decalibrator(0.8, directions=[decal.llm._fitting.BoundedShifts()])
    bounded.fit(logits, labels)
    expected = decal.decalibrate(logits, labels, alpha=0.8)
    np.testing.assert_allclose(bounded.shifts().lower, expected.shifts().lower, atol=1e-8)
    np.testing.assert_allclose(bounded.shifts().upper, expected.shifts().upper, atol=1e-8)
    half = decal.Decalibrator(0.8, directions=[decal.llm._fitting.BoundedShifts()])
    half.partial_fit(logits[:9], labels[:9]).partial_fit(logits[9:], labels[9:])
    np.testing.assert_allclose(half.shifts().upper, expected.shifts().upper, atol=1e-8)
    with pytest.raises(ValueError, match="directions must all support save"):
        bounded.save("model.npz")


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
        decalibrate_masses(masses, labels, unlisted="bounds", **settings)


def test_masses_are_no_logits_and_say_what_takes_them():
    p, labels = labelled(np.random.default_rng(0))
    masses = vocabulary_masses(np.log(p), TOKENS, ABC)
    d = decalibrate_masses(masses, labels)
    message = "got LabelMasses, .* Use decal.llm.decalibrate and decal.llm.predict, or"
    with pytest.raises(ValueError, match=message):
        decal.decalibrate(masses, labels)
    with pytest.raises(ValueError, match=message):
        d.predict(masses)
