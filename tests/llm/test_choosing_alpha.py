"""Alphas chosen on answers of which not all tokens are listed: what users get is what counts."""

import numpy as np
import pandas as pd
import pytest

import decal
from decal.choose import plausibility
from decal.llm import Verbaliser, label_masses, predict, vocabulary_masses
from decal.llm import decalibrate as decalibrate_masses

TOKENS = ["a", "b", "c", "x", "y", "z", "u", "w"]
ABC = Verbaliser(["a", "b", "c"], space=False)


def drawn(rng, n):
    """Log-probabilities (n, 8) of tokens, and labels drawn from those of the labels."""
    z = 2.5 * rng.normal(size=(n, len(TOKENS)))
    labels = (z[:, :3] + rng.gumbel(size=(n, 3))).argmax(axis=1)
    return z - np.logaddexp.reduce(z, axis=1, keepdims=True), labels


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    z, labels = drawn(rng, 200)
    masses = vocabulary_masses(z, TOKENS, ABC, top=7)
    return decalibrate_masses(masses, labels, alpha=0.9, unlisted="bounds")


def missed(model, masses, labels, alpha):
    """Labels that are the most probable class of no distribution in the set, by definition."""
    credal = predict(model, masses, alpha=alpha)
    found = []
    for low, high, label in zip(credal.lower, credal.upper, labels, strict=True):
        others = np.delete(low, label), np.delete(high, label)
        own = min(high[label], 1 - others[0].sum())  # as much as it may have, and others no more
        fits = (others[0] <= own).all() and own + np.minimum(others[1], own).sum() >= 1
        found.append(not fits)
    return np.array(found)


def test_the_alpha_of_a_miss_rate_is_the_largest_that_misses_few_enough(fitted):
    rng = np.random.default_rng(1)
    z, labels = drawn(rng, 300)
    masses = vocabulary_masses(z, TOKENS, ABC, top=7)
    choice = decal.choose(fitted, masses, labels, miss=0.1)
    assert 0 < choice.alpha < 1
    misses = missed(fitted, masses, labels, choice.alpha).sum()
    assert misses / 300 == pytest.approx(choice.achieved)
    assert (misses + 1) / 301 <= 0.1
    above = np.exp(0.999 * np.log(choice.alpha))
    assert (missed(fitted, masses, labels, above).sum() + 1) / 301 > 0.1


def test_the_guarantee_holds_for_lists_of_tokens(fitted):
    rng = np.random.default_rng(2)
    share = []
    for _ in range(60):
        z, labels = drawn(rng, 60)
        masses = vocabulary_masses(z, TOKENS, ABC, top=6)
        alpha = decal.choose(fitted, masses[:40], labels[:40], miss=0.2).alpha
        share.append(missed(fitted, masses[40:], labels[40:], alpha).mean())
    assert np.mean(share) <= 0.2 + 3 * np.std(share) / np.sqrt(len(share))


def test_every_choice_takes_label_masses(fitted):
    rng = np.random.default_rng(3)
    z, labels = drawn(rng, 150)
    p = np.exp(z[:, :3]) / np.exp(z[:, :3]).sum(axis=1, keepdims=True)
    masses = vocabulary_masses(z, TOKENS, ABC, top=7)
    by_class = decal.choose(fitted, masses, labels, miss=0.2, per="class")
    kept = by_class.decide(masses)
    for k in range(3):
        rows = labels == k
        n, misses = (
            rows.sum(),
            missed(
                fitted, masses[rows], labels[rows], list(by_class.parts.values())[k].alpha
            ).sum(),
        )
        assert (misses + 1) / (n + 1) <= 0.2
        assert (~kept[rows, k]).sum() == misses
    covered = decal.choose(fitted, masses, coverage=0.9, distributions=p)
    sets = predict(fitted, masses, alpha=covered.alpha)
    inside = ((sets.lower - 5e-4 <= p) & (p <= sets.upper + 5e-4)).all(axis=1)
    assert inside.mean() == pytest.approx(covered.achieved)
    assert covered.achieved >= 0.9
    wide = decal.choose(fitted, masses, width=0.8)
    sets = predict(fitted, masses, alpha=wide.alpha)
    assert 1 - (sets.upper - sets.lower).mean() == pytest.approx(0.2, abs=1e-5)
    groups = np.arange(150) % 2
    by_group = decal.choose(fitted, masses, labels, miss=0.2, groups=groups)
    both = by_group.predict(masses, groups=groups)
    odd = predict(fitted, masses[groups == 1], alpha=by_group.parts[1].alpha)
    np.testing.assert_array_equal(both.lower[groups == 1], odd.lower)
    contour = plausibility(fitted, masses, labels=labels)
    assert (missed(fitted, masses, labels, 0.9) == (contour < 0.9)).mean() > 0.99
    kept = predict(fitted, masses, alpha=0.9).decide("e_admissible")
    assert (~kept[np.arange(150), labels] == missed(fitted, masses, labels, 0.9)).all()


def named(names, probabilities):
    """Lines of a batch: Yes with these probabilities, No with most of the rest."""
    lines = []
    for name, p in zip(names, probabilities, strict=True):
        top = [{"token": "Yes", "logprob": np.log(p)}, {"token": "No", "logprob": np.log(0.99 - p)}]
        body = {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}
        lines.append({"custom_id": name, "response": {"status_code": 200, "body": body}})
    return lines


def test_labels_of_the_same_ids_in_another_order_are_refused():
    p, ids = [0.9, 0.2, 0.8, 0.1], ["q0", "q1", "q2", "q3"]
    masses = label_masses(named(ids, p), Verbaliser(["Yes", "No"], space=False))
    labels = pd.Series(["Yes", "No", "Yes", "No"], index=ids)
    d = decalibrate_masses(masses, labels, alpha=0.8, unlisted="bounds")
    shuffled = labels.loc[["q3", "q0", "q1", "q2"]]
    message = "labels must be in the order of .*'q3' in row 0, where .* 'q0'"
    for ask in (
        lambda y: decalibrate_masses(masses, y, alpha=0.8, unlisted="bounds"),
        lambda y: decal.choose(d, masses, y, miss=0.5),
        lambda y: plausibility(d, masses, labels=y),
    ):
        with pytest.raises(ValueError, match=message):
            ask(shuffled)
        ask(shuffled.loc[list(masses.names)])
        ask(labels.reset_index(drop=True))  # without ids they go by position
    labels = pd.Series(["No"] * 5, index=["more", *ids])
    with pytest.raises(
        ValueError, match=r"one label per row of logits, 4 in all: got shape \(5,\)"
    ):
        decalibrate_masses(masses, labels, alpha=0.8, unlisted="bounds")


def test_ids_that_number_rows_are_compared_with_the_numbers_of_labels():
    masses = label_masses(named(["1", "0"], [0.9, 0.2]), Verbaliser(["Yes", "No"], space=False))
    with pytest.raises(ValueError, match="in the order of masses: got 0 in row 0, where .* '1'"):
        decalibrate_masses(masses, pd.Series(["No", "Yes"]), alpha=0.8, unlisted="bounds")


def test_predict_of_a_model_takes_label_masses_and_keeps_their_names(fitted):
    z, _ = drawn(np.random.default_rng(3), 5)
    masses = vocabulary_masses(z, TOKENS, ABC, top=6)
    for alpha in (None, 0.5):
        found, expected = fitted.predict(masses, alpha=alpha), predict(fitted, masses, alpha=alpha)
        np.testing.assert_array_equal(found.lower, expected.lower)
        np.testing.assert_array_equal(found.upper, expected.upper)
    assert fitted.predict(masses, ids=list("pqrst")).index["row"].tolist() == list("pqrst")


# Wishes of lists of tokens


@pytest.mark.parametrize("n", [30, 200])
def test_a_wish_is_granted_for_lists_of_tokens(n):
    rng = np.random.default_rng(4)
    share = []
    for _ in range(40):
        z, labels = drawn(rng, n + 50)
        masses = vocabulary_masses(z, TOKENS, ABC, top=6)
        d = decalibrate_masses(masses[:n], labels[:n], miss=0.2, unlisted="bounds")
        share.append(missed(d, masses[n:], labels[n:], d.alpha).mean())
    assert np.mean(share) <= 0.2 + 2 * np.std(share) / np.sqrt(len(share))
    assert np.mean(share) > 0.02  # nor is everything kept
    whole = decal.decalibrate(z[:n, :3], labels[:n], miss=0.2)
    assert d.promise.rows == whole.promise.rows
    assert d.reference == "model"


@pytest.mark.parametrize("wish", ["class", "group", "width"])
def test_wishes_by_class_or_group_and_of_width_are_granted_for_lists(wish, tmp_path):
    z, labels = drawn(np.random.default_rng(5), 500)
    masses = vocabulary_masses(z, TOKENS, ABC, top=6)
    groups = None if wish != "group" else np.where(masses.middle[:, 0] > -2, "sure", "other")
    asked = {"miss": 0.2, "per": wish} if wish == "class" else {"miss": 0.2, "groups": groups}
    asked = {"width": 0.7} if wish == "width" else asked
    d = decalibrate_masses(masses, labels, unlisted="bounds", **asked)
    d.save(tmp_path / "answers.npz")
    sets = predict(decal.load(tmp_path / "answers.npz"), masses, groups=groups)
    if wish == "width":
        assert (sets.upper - sets.lower).mean() == pytest.approx(0.7, abs=1e-5)
        return
    possible = sets.possible()
    inside = np.array([ABC.classes[y] in kept for y, kept in zip(labels, possible, strict=True)])
    for part in np.unique(labels if wish == "class" else groups):
        rows = (labels if wish == "class" else groups) == part
        assert (~inside[rows]).mean() <= 0.25  # two standard errors of a hundred rows
    level = {k: float(a) for k, a in d.promise.levels.items()}
    assert len(level) == (3 if wish == "class" else 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hold": 0.5}, "logits must be a matrix of all classes for hold: got LabelMasses"),
        ({"miss": 0.1, "reference": "auto"}, "reference must be 'model' for unlisted='bounds'"),
        ({"miss": 0.1, "directions": ("temperature",)}, "class shifts or local sets for unlisted"),
        ({"miss": 0.1, "sample_weight": np.ones(200)}, "sample_weight must be left out for unlis"),
        ({"miss": 0.001}, "miss must be at least 0.005 with 200 rows: got 0.001"),
        ({"miss": 0.1, "alpha": 0.9}, "must be given: got alpha and miss"),
        ({}, "one of alpha, miss, width, hold must be given: got none"),
    ],
)
def test_wishes_that_lists_cannot_grant_are_refused_in_a_sentence(settings, message):
    z, labels = drawn(np.random.default_rng(6), 200)
    masses = vocabulary_masses(z, TOKENS, ABC, top=6)
    with pytest.raises(ValueError, match=message):
        decalibrate_masses(masses, labels, unlisted="bounds", **settings)


def test_known_masses_grant_wishes_as_logits_do(fitted):
    z, labels = drawn(np.random.default_rng(7), 300)
    masses = vocabulary_masses(z, TOKENS, ABC)
    found = decalibrate_masses(masses, labels, miss=0.1, seed=3)
    expected = decal.decalibrate(z[:, :3], labels, miss=0.1, seed=3, classes=ABC.classes)
    assert found.promise == expected.promise
    assert found.alpha == pytest.approx(expected.alpha, rel=1e-6)
    assert predict(found, masses[:20]).possible() == expected.predict(z[:20, :3]).possible()
    with pytest.raises(ValueError, match="decal.llm.decalibrate and decal.llm.predict"):
        fitted.partial_fit(masses, labels)
