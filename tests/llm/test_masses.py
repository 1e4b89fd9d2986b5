"""Masses of labels: intervals where tokens are not listed."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decal.llm import Verbaliser, label_masses, label_probabilities, vocabulary_masses
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
    return listing(*listed.items())


def listing(*pairs):
    """A response that lists tokens with these probabilities; a token may be listed twice."""
    top = [{"token": t, "logprob": float(np.log(p))} for t, p in pairs]
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
    # A token that is not listed, such as "n", may begin "no": it has at most the remainder, 0.1.
    np.testing.assert_allclose(np.exp(masses.upper), [[0.7, 0.7, 0.4]], atol=1e-5)
    np.testing.assert_allclose(np.exp(masses.lower), [[0.0, 0.0, 0.3]], atol=1e-5)
    ignored = label_masses([response], Verbaliser(labels, space=False, partial="ignore"))
    np.testing.assert_allclose(np.exp(ignored.upper), [[0.1, 0.1, 0.3]], atol=1e-5)


@pytest.mark.parametrize("blank", [" ", "▁", "Ġ", "\n", "Ċ", "ĠĠ", "\t"])
def test_white_space_may_begin_every_label(blank):
    response = listing(("Yes", 0.5), (blank, 0.3), ("No", 0.15))
    masses = label_masses([response], Verbaliser(["Yes", "No"], partial="bound"))
    np.testing.assert_allclose(np.exp(masses.lower), [[0.5, 0.15]])
    np.testing.assert_allclose(np.exp(masses.upper), [[0.85, 0.5]], atol=1e-5)
    much = listing((blank, 0.8), ("Yes", 0.15), ("No", 0.01))
    with pytest.raises(ValueError, match="with probability 0.8 in answer 0, of which labels 'Yes'"):
        label_masses([much], Verbaliser(["Yes", "No"]))
    wide = label_probabilities(label_masses([much], Verbaliser(["Yes", "No"], partial="bound")))
    assert (wide.upper - wide.lower > 0.8).all()
    exact = Verbaliser(["Yes", "No"], space=False, partial="refuse")  # labels that begin at once
    np.testing.assert_allclose(np.exp(label_masses([much], exact).lower), [[0.15, 0.01]])


def test_white_space_may_begin_spellings_that_are_no_tokens():
    response = listing(("Yes", 0.2), (" ", 0.7), ("No", 0.05))
    v = Verbaliser(["Yes", "No"], partial="bound").among(["Yes", "No", " "])
    np.testing.assert_allclose(np.exp(label_masses([response], v).upper), [[0.95, 0.8]], atol=1e-5)


@pytest.mark.parametrize("part", ["�", " �"])
def test_a_part_of_a_character_may_begin_the_labels_that_have_one(part):
    v = Verbaliser(["✓", "✗", "no"], partial="bound")
    masses = label_masses([listing((part, 0.6), ("no", 0.3))], v)
    np.testing.assert_allclose(np.exp(masses.upper), [[0.7, 0.7, 0.4]], atol=1e-5)
    token = {"token": "\\xe2\\x9c", "bytes": [0xE2, 0x9C], "logprob": float(np.log(0.6))}
    entry = {**token, "top_logprobs": [token, {"token": "no", "logprob": float(np.log(0.3))}]}
    same = label_masses([{"choices": [{"logprobs": {"content": [entry]}}]}], v)
    np.testing.assert_allclose(same.upper, masses.upper)


def test_a_label_that_begins_another_may_become_it():
    response = listing(("1", 0.6), ("2", 0.3))
    masses = label_masses([response], Verbaliser(["1", "2", "10"], space=False, partial="bound"))
    np.testing.assert_allclose(np.exp(masses.lower), [[0.0, 0.3, 0.0]], atol=1e-12)
    np.testing.assert_allclose(np.exp(masses.upper), [[0.6, 0.3, 0.7]], atol=1e-5)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), top=st.integers(1, 9), space=st.booleans())
def test_masses_of_all_texts_lie_between_the_bounds(seed, top, space):
    rng = np.random.default_rng(seed)
    labels = [["no", "not"], ["yes", "y"], ["1", "10", "2"]][seed % 3]
    tokens = ["no", "t", "n", "o", "y", "es", "yes", "1", "0", "2", "?", " no", " y", " ", "\n"]
    if not space:  # labels without a space do not begin with one
        tokens = [t for t in tokens if not t[:1].isspace()]
    each = {}

    def next_token(text):
        if text not in each:
            z = np.exp(rng.normal(size=len(tokens)) * 3)
            each[text] = z / z.sum()
        return each[text]

    first = next_token("")
    listed = np.argsort(-first)[: min(top, len(tokens))]
    response = listing(*[(tokens[i], first[i]) for i in listed])
    v = Verbaliser(labels, space=space, partial="bound")
    masses = label_masses([response], v)
    found = oracle.said_masses(next_token, tokens, v.spellings, most=4)
    assert (np.exp(masses.lower[0]) <= found + 1e-9).all()
    assert (found <= np.exp(masses.upper[0]) + 1e-9).all()


def test_two_tokens_of_one_text_are_one_spelling_and_two_masses():
    # " Yes" is not listed; nor is a second "No".
    masses = label_masses([listing(("Yes", 0.5), ("Yes", 0.2), ("No", 0.1))], YES_NO)
    np.testing.assert_allclose(np.exp(masses.lower), [[0.7, 0.1]])
    np.testing.assert_allclose(np.exp(masses.upper), [[0.9, 0.3]], atol=1e-5)


def test_one_text_with_one_probability_twice_may_be_one_token():
    masses = label_masses([listing(("Yes", 0.3), ("Yes", 0.3), ("No", 0.1))], YES_NO)
    np.testing.assert_allclose(np.exp(masses.lower), [[0.3, 0.1]])
    np.testing.assert_allclose(np.exp(masses.upper), [[0.9, 0.7]], atol=1e-5)


@given(seed=st.integers(0, 2**32 - 1), top=st.integers(2, 10))
def test_masses_of_vocabularies_with_equal_texts_lie_between_the_bounds(seed, top):
    rng = np.random.default_rng(seed)
    texts = ["Yes", " Yes", "No", " No", "the", "a"]
    tokens = [*texts, *rng.choice(texts, 6)]
    p = np.exp(2 * rng.normal(size=len(tokens)))
    p /= p.sum()
    order = np.argsort(-p)[:top]
    said = [tokens[i] for i in order]
    if max(said.count(s) for own in YES_NO.spellings for s in own) < 2:
        return  # nothing tells that texts repeat, and decal takes them not to
    masses = label_masses([listing(*[(tokens[i], p[i]) for i in order])], YES_NO)
    listed = np.isin(np.arange(len(tokens)), order)
    for q in [p, *oracle.completions(rng, p, listed, 10)]:
        found = np.array(oracle.masses(q, tokens, YES_NO.spellings))
        assert (np.exp(masses.lower[0]) <= found + 1e-9).all()
        assert (found <= np.exp(masses.upper[0]) + 1e-9).all()


def test_beginnings_of_one_text_are_weighed_together():
    response = listing(("ent", 0.25), ("neutral", 0.3), ("ent", 0.2))
    with pytest.raises(ValueError, match="got 'ent' with probability 0.45 in answer 0"):
        label_masses([response], Verbaliser(["entailment", "neutral"]))


def test_another_position_can_be_the_answer():
    two = chat(The=0.9)
    two["choices"][0]["logprobs"]["content"] += chat(Yes=0.7, No=0.2)["choices"][0]["logprobs"][
        "content"
    ]
    masses = label_masses([two], YES_NO, position=1)
    np.testing.assert_allclose(np.exp(masses.lower), [[0.7, 0.2]])
    with pytest.raises(ValueError, match="got 2 for answer 0, which has 2. Ask for more tokens"):
        label_masses([two], YES_NO, position=2)


def test_logits_are_of_masses_that_are_known():
    p = np.array([[0.5, 0.2, 0.16, 0.1, 0.04]])
    tokens, v = ["a", "x", "b", "c", "y"], Verbaliser(["a", "b", "c"], space=False)
    masses = vocabulary_masses(np.log(p), tokens, v, top=2)
    with pytest.raises(ValueError, match="got 1 of 1 answers with labels that are not listed"):
        masses.logits()
    whole = vocabulary_masses(np.log(p), tokens, v)
    np.testing.assert_allclose(whole.logits(), np.log(p[:, [0, 2, 3]]))


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
        assert masses[one].upper.tolist() == masses.upper[1:].tolist()
    with pytest.raises(IndexError, match="rows must be a number, a slice, a mask or a list of"):
        masses[None]
    assert repr(masses[[0]]) == "LabelMasses: 1 answers, 2 labels, 1 known exactly"


def test_one_answer_is_picked_with_its_name():
    lines = [{"custom_id": f"q{i}", "response": {"body": CHAT}} for i in range(3)]
    masses = label_masses(lines, YES_NO)
    for row in (-1, np.array(2), [2], slice(2, None), np.array([False, False, True])):
        assert masses[row].names == ("q2",)
        assert masses[row].shape == (1, 2)
    assert [one.names for one in masses] == [("q0",), ("q1",), ("q2",)]
    with pytest.raises(IndexError, match="rows must be a number, a slice"):
        masses[None]


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
