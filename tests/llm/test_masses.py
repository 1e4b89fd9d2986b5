"""Masses of labels: intervals where tokens are not listed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decal import TopLogits
from decal.llm import Verbaliser, label_masses, vocabulary_masses
from helpers.llm_responses import CHAT, FORMS
from helpers.vocabularies import random_vocabulary
from oracles import tokens as oracle

YES_NO = Verbaliser(["Yes", "No"])


@pytest.mark.parametrize("form", FORMS, ids=FORMS)
def test_masses_of_a_response_are_what_is_listed_and_what_could_be(form):
    masses = label_masses([FORMS[form]], YES_NO)
    # " Yes" and " No" are not listed: each has at most e^-4.605 = 0.01.
    np.testing.assert_allclose(np.exp(masses.lower), [[0.8, 0.15]], atol=1e-4)
    np.testing.assert_allclose(np.exp(masses.upper), [[0.81, 0.16]], atol=1e-4)
    assert masses.unlisted.tolist() == [[1, 1]]
    assert not masses.exact.any()


def test_one_response_a_list_and_a_file_are_taken(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"custom_id": "x", "response": ' + json.dumps(CHAT) + "}\n")
    for given_ in (CHAT, [CHAT], tmp_path / "a.jsonl", json.dumps(CHAT)):
        assert len(label_masses(given_, YES_NO)) == 1
    assert label_masses(tmp_path / "a.jsonl", YES_NO).names == ("x",)


def test_a_bad_line_of_a_file_is_named(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(CHAT) + "\n{broken\n")
    with pytest.raises(ValueError, match=r"^a\.jsonl, line 2: response must be JSON"):
        label_masses(str(tmp_path / "a.jsonl"), YES_NO)


def test_everything_listed_is_known_exactly():
    v = Verbaliser({"up": ["Yes", " yes"], "down": "No"}, space=False)
    masses = label_masses([CHAT], v)
    assert masses.exact.all()
    np.testing.assert_allclose(np.exp(masses.logits()), [[0.81, 0.15]], atol=1e-4)


def chat(**listed):
    top = [{"token": t, "logprob": float(np.log(p))} for t, p in listed.items()]
    return {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}


def test_labels_of_several_tokens_are_refused_where_their_beginning_outweighs_all():
    v = Verbaliser(["entailment", "neutral"])
    with pytest.raises(ValueError, match="got 'ent' with probability 0.6 in answer 0, of which la"):
        label_masses([chat(ent=0.6, neutral=0.3)], v)
    assert label_masses([chat(neutral=0.6, ent=0.3)], v).lower.shape == (1, 2)


def test_labels_that_share_a_first_token_are_refused_or_bounded():
    labels, response = ["positive", "possible", "no"], chat(pos=0.6, no=0.3)
    with pytest.raises(ValueError, match="labels 'positive' and 'possible' share only the beginn"):
        label_masses([response], Verbaliser(labels))
    masses = label_masses([response], Verbaliser(labels, space=False, partial="bound"))
    np.testing.assert_allclose(np.exp(masses.upper), [[0.7, 0.7, 0.3]], atol=1e-5)
    np.testing.assert_allclose(np.exp(masses.lower), [[0.0, 0.0, 0.3]], atol=1e-5)
    ignored = label_masses([response], Verbaliser(labels, space=False, partial="ignore"))
    np.testing.assert_allclose(np.exp(ignored.upper), [[0.1, 0.1, 0.3]], atol=1e-5)


def test_another_position_can_be_the_answer():
    two = chat(The=0.9)
    two["choices"][0]["logprobs"]["content"] += chat(Yes=0.7, No=0.2)["choices"][0]["logprobs"][
        "content"
    ]
    masses = label_masses([two], YES_NO, position=1)
    np.testing.assert_allclose(np.exp(masses.lower), [[0.7, 0.2]])
    with pytest.raises(ValueError, match="got 2 for answer 0, which has 2. Ask for more tokens"):
        label_masses([two], YES_NO, position=2)


def test_the_even_model_is_that_of_top_logits():
    p = np.array([[0.5, 0.2, 0.16, 0.1, 0.04]])
    tokens, v = ["a", "x", "b", "c", "y"], Verbaliser(["a", "b", "c"], space=False)
    masses = vocabulary_masses(np.log(p), tokens, v, top=2)
    dense = TopLogits(np.log(p[:, :2]), [[0, 1]], total_classes=5).dense()
    np.testing.assert_allclose(masses.logits("even", vocabulary=5), dense[:, [0, 2, 3]])
    with pytest.raises(ValueError, match="got 1 of 1 answers with labels that are not listed"):
        masses.logits()
    with pytest.raises(ValueError, match="vocabulary must be the number of all tokens"):
        masses.logits("even")
    with pytest.raises(ValueError, match="vocabulary must be larger than the tokens listed"):
        masses.logits("even", vocabulary=3)


@pytest.mark.parametrize(
    ("log_probabilities", "tokens", "message"),
    [
        ([[0.0, 1.0]], ["a", "b"], "must be normalised: got a sum of 3.718 in row 0. Take log_so"),
        (np.log([[0.5, 0.4989]]), ["a", "b"], "sum of 0.9989 in row 0. Low precision .* float32"),
        (np.log([[0.5, 0.5]]), ["a"], "as many as columns of log_probabilities: got 1 for 2"),
        (np.log([[0.5, 0.5]]), ["a", "x"], "a spelling among the tokens: got none for 'b'"),
        ([[np.nan, 0.0]], ["a", "b"], "log_probabilities must be finite"),
    ],
)
def test_wrong_vocabularies_say_what_was_found(log_probabilities, tokens, message):
    with pytest.raises(ValueError, match=message):
        vocabulary_masses(log_probabilities, tokens, Verbaliser(["a", "b"]))


def test_answers_without_any_probability_of_a_label_are_refused():
    z = np.array([[0.0, -np.inf, -np.inf]])
    with pytest.raises(ValueError, match="must leave a label some probability: got none in answer"):
        vocabulary_masses(z, ["x", "a", "b"], Verbaliser(["a", "b"]))


def test_rows_are_picked_like_those_of_an_array():
    z = np.log([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    masses = vocabulary_masses(z, ["a", "b", "x"], Verbaliser(["a", "b"]))
    for one in (slice(1, None), 1, -1, np.array(1)):
        assert masses[one].lower.tolist() == masses.lower[1:].tolist()
        assert len(masses[one].remainder) == 1
    with pytest.raises(IndexError, match="rows must be a number, a slice, a mask or a list of"):
        masses[None]
    assert repr(masses[[0]]) == "LabelMasses: 1 answers, 2 labels, 1 known exactly"


@given(seed=st.integers(0, 2**32 - 1), top=st.integers(1, 12))
def test_masses_of_every_completion_lie_between_the_bounds(seed, top):
    rng = np.random.default_rng(seed)
    p, tokens, spellings, v = random_vocabulary(rng)
    top = min(top, len(p))
    masses = vocabulary_masses(np.log(p)[None], tokens, v, top=top)
    listed = p >= np.sort(p)[-top]
    for q in oracle.completions(rng, p, listed, 20):
        found = np.array(oracle.masses(q, tokens, spellings))
        assert (np.exp(masses.lower[0]) <= found + 1e-12).all()
        assert (found <= np.exp(masses.upper[0]) + 1e-12).all()
