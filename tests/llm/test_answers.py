"""Responses of servers: their recorded forms, and what is wrong with them, in words."""

import json
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal.llm import Verbaliser, label_masses, read_answer, read_answers
from helpers.llm_responses import CHAT, COMPLETION, FORMS, LLAMA_CPP, OLLAMA, changed

EXPECTED = ("Yes", -0.2231), ("No", -1.897), (" yes", -4.605)


@pytest.mark.parametrize("form", FORMS, ids=FORMS)
def test_every_form_gives_the_same_answer(form):
    answer = read_answer(FORMS[form])
    assert answer.positions[0].tokens == EXPECTED
    assert answer.positions[0].cap == -4.605
    assert answer.positions[0].remainder == pytest.approx(0.0400, abs=1e-4)
    assert answer.text == "Yes"


@pytest.mark.parametrize("form", FORMS, ids=FORMS)
def test_json_text_and_objects_are_read_like_dicts(form):
    expected = read_answer(FORMS[form])
    assert read_answer(json.dumps(FORMS[form])) == expected
    assert read_answer(attributes(FORMS[form])) == expected
    assert read_answer(Dumped(FORMS[form])) == expected


class Dumped:
    """As objects of the openai and ollama clients, which are pydantic models."""

    def __init__(self, body):
        self._body = body

    def model_dump(self):
        return self._body


def attributes(value):
    if isinstance(value, dict) and "Yes" not in value:
        return SimpleNamespace(**{key: attributes(item) for key, item in value.items()})
    return [attributes(item) for item in value] if isinstance(value, list) else value


def test_lines_of_a_file_keep_the_names_of_a_batch(tmp_path):
    path = tmp_path / "batch.jsonl"
    lines = [
        {"custom_id": f"row-{i}", "response": {"status_code": 200, "body": CHAT}, "error": None}
        for i in range(3)
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    for where in (path, str(path)):
        assert [answer.name for answer in read_answers(where)] == ["row-0", "row-1", "row-2"]


def test_a_bad_line_is_named_and_nothing_is_left_out(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps(CHAT) + "\n" + json.dumps(CHAT)[:-9] + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"^answers\.jsonl, line 2: response must be JSON: got"):
        read_answers(path)


def test_a_bad_response_of_a_list_is_named():
    with pytest.raises(ValueError, match="^response 1: response must have log-probabilities"):
        read_answers([CHAT, changed(CHAT, "choices", 0, "logprobs", to=None)])


LIMIT = {"message": "Rate limit reached for requests per minute", "type": "requests"}
NO_ANSWERS = {
    "OpenAI, 429": ({"status_code": 429, "body": {"error": LIMIT}}, None, "status 429, Rate limit"),
    "OpenAI, expired": (None, {"code": "batch_expired", "message": "expired"}, "error, expired"),
    "status without words": ({"status_code": 500, "body": {}}, None, "got status 500"),
    "vLLM": (
        {"status_code": 400, "body": {"object": "error", "message": "too long", "code": 400}},
        None,
        "got status 400, too long",
    ),
    "error beside a body": ({"status_code": 200, "body": CHAT}, {"message": "cut"}, "error, cut"),
    "no logprobs": (
        {"status_code": 200, "body": changed(CHAT, "choices", 0, "logprobs", to=None)},
        None,
        "must have log-probabilities",
    ),
}


def batch_lines(response, error):
    """Lines of a batch's output, the second of which is no answer."""
    fine = {"status_code": 200, "request_id": "r", "body": CHAT}
    each = [(fine, None), (response, error), (fine, None)]
    return [
        {"id": f"batch_{i}", "custom_id": f"q{i}", "response": response, "error": error}
        for i, (response, error) in enumerate(each)
    ]


@pytest.mark.parametrize("kind", NO_ANSWERS)
def test_one_bad_line_does_not_lose_the_file(tmp_path, kind):
    response, error, reason = NO_ANSWERS[kind]
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(map(json.dumps, batch_lines(response, error))), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^batch\.jsonl, line 2: .*{reason}"):
        read_answers(path)
    with pytest.warns(
        decal.InputWarning, match=f"1 of 3 responses .* left out: q1. The first: .*{reason}"
    ):
        answers = read_answers(path, errors="skip")
    assert [answer.name for answer in answers] == ["q0", "q2"]
    (skipped,) = answers.skipped
    assert (skipped.index, skipped.name) == (1, "q1")
    assert reason in skipped.reason
    with pytest.warns(decal.InputWarning, match="q1"):
        masses = label_masses(path, Verbaliser(["Yes", "No"]), errors="skip")
    assert masses.names == ("q0", "q2")
    assert masses.skipped == answers.skipped
    assert label_masses(answers, Verbaliser(["Yes", "No"])).skipped == answers.skipped


@pytest.mark.parametrize(
    "bad",
    [
        {
            "error": {"code": 500, "message": "slot unavailable", "type": "server_error"}
        },  # llama.cpp
        {"error": "model 'smollm2:135m' not found"},  # ollama
        {"object": "error", "message": "overloaded", "type": "ServiceUnavailable", "code": 503},
        "<html>502 Bad Gateway</html>",
        b"\xff\xfe not text",
        None,
    ],
)
def test_responses_without_ids_are_skipped_by_their_place(bad):
    with pytest.warns(decal.InputWarning, match="1 of 3 responses .* left out: response 2."):
        answers = read_answers([CHAT, OLLAMA, bad], errors="skip")
    assert len(answers) == 2
    assert [(one.index, one.name) for one in answers.skipped] == [(2, None)]


def test_many_bad_lines_are_counted_and_the_first_are_named(tmp_path):
    lines = [json.dumps({"custom_id": f"q{i}", "error": LIMIT}) for i in range(30)]
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join([*lines, "{broken", "", json.dumps(CHAT)]), encoding="utf-8")
    with pytest.warns(decal.InputWarning) as caught:
        answers = read_answers(path, errors="skip")
    assert len(caught) == 1
    assert "31 of 32 responses" in str(caught[0].message)
    assert "q0, q1, q2, " in str(caught[0].message)
    assert caught[0].filename == __file__
    assert [one.index for one in answers.skipped] == [*range(31)]
    assert answers.skipped[-1].name is None


def test_nothing_but_errors_is_an_error(tmp_path):
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps({"custom_id": "q0", "error": LIMIT}), encoding="utf-8")
    with pytest.raises(ValueError, match="at least one answer: got none among 1.* Rate limit"):
        read_answers(path, errors="skip")
    with pytest.raises(ValueError, match="errors must be one of 'raise', 'skip': got 'ignore'"):
        read_answers(path, errors="ignore")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps(CHAT) + "\r\n" + json.dumps(CHAT), encoding="utf-8-sig")
    assert len(read_answers(path)) == 2


def test_a_line_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(json.dumps(CHAT).encode() + b'\n{"custom_id": "\xff"}\n')
    with pytest.raises(ValueError, match=r"^answers\.jsonl, line 2: response must be JSON"):
        read_answers(path)


def test_a_sampled_token_that_ends_the_list_bounds_nothing():
    logprobs = {"tokens": ["zebra"], "token_logprobs": [-9.0]}
    logprobs["top_logprobs"] = [{"Yes": -0.5, "No": -1.5, "zebra": -9.0}]
    position = read_answer({"choices": [{"logprobs": logprobs}]}).positions[0]
    assert position.cap == -1.5
    assert position.tokens[-1] == ("zebra", -9.0)


def test_a_sampled_token_beside_the_list_is_added_to_it():
    response = changed(CHAT, "choices", 0, "logprobs", "content", 0, "token", to="Hm")
    response = changed(response, "choices", 0, "logprobs", "content", 0, "bytes", to=None)
    response = changed(response, "choices", 0, "logprobs", "content", 0, "logprob", to=-7.0)
    position = read_answer(response).positions[0]
    assert position.tokens == (*EXPECTED, ("Hm", -7.0))
    assert position.cap == -4.605


def test_one_listed_token_that_was_sampled_bounds_nothing():
    logprobs = {"tokens": ["Yes"], "token_logprobs": [-0.5], "top_logprobs": [{"Yes": -0.5}]}
    assert read_answer({"choices": [{"logprobs": logprobs}]}).positions[0].cap == 0.0


def test_a_token_too_improbable_to_say_is_not_listed():
    response = changed(OLLAMA, "logprobs", 0, "top_logprobs", 2, "logprob", to=-9999.0)
    assert read_answer(response).positions[0].tokens == EXPECTED[:2]


def test_bytes_say_a_token_exactly():
    token = {"token": "Ġix", "bytes": [*b" ix"], "logprob": -0.1}
    entry = {**token, "top_logprobs": [token]}
    answer = read_answer({"choices": [{"logprobs": {"content": [entry]}}]})
    assert answer.positions[0].tokens[0][0] == " ix"


def test_markup_in_tokens_is_text():
    token = {"token": "<script>alert(1)</script>", "logprob": -0.1}
    entry = {**token, "top_logprobs": [token]}
    answer = read_answer({"choices": [{"logprobs": {"content": [entry]}}]})
    assert answer.positions[0].tokens[0][0] == "<script>alert(1)</script>"


FIRST = "choices", 0, "logprobs", "content", 0
TOP = *FIRST, "top_logprobs"


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (changed(CHAT, "choices", 0, "logprobs", to=None), "got logprobs=None. Ask for them: logp"),
        (changed(CHAT, *TOP, to=[]), "position 0 must have top_logprobs: got an empty list. Ask"),
        (changed(CHAT, *TOP, to=None), "position 0 must have top_logprobs: got None"),
        (changed(CHAT, *FIRST[:-1], to=[]), "must have log-probabilities: got an empty list. Ask"),
        (changed(CHAT, *TOP, 0, "logprob", to=float("nan")), "got NaN for 'Yes' at position 0"),
        (changed(CHAT, *TOP, 0, "logprob", to=0.8), "at most 0: got 0.8 for 'Yes' at position 0"),
        (changed(CHAT, *TOP, 0, "logprob", to="-1"), "must be a number: got '-1' for 'Yes'"),
        (changed(CHAT, *TOP, 0, "logprob", to=None), "must be a number: got None for 'Yes'"),
        (changed(CHAT, *TOP, 0, to={"tok": "a"}), r"with their logprob: got \['tok'\] at position"),
        (changed(CHAT, *TOP, 1, "logprob", to=-0.01), "got a sum of 1.8 at position 0"),
        (changed(OLLAMA, "logprobs", 0, "top_logprobs", 0, "token", to=5), "be text: got int 5"),
        (changed(OLLAMA, "logprobs", 0, "token", to="token_id:5"), "got str 'token_id:5'. Leave"),
        (changed(CHAT, "choices", to=[]), "must have one choice: got 0. Ask for n=1"),
        (changed(CHAT, "choices", to=CHAT["choices"] * 2), "must have one choice: got 2"),
        (changed(COMPLETION, "choices", 0, "logprobs", "top_logprobs", to=None), "got None. Ask"),
        (changed(COMPLETION, "choices", 0, "logprobs", "tokens", to=["a", "b"]), "got 2 tokens"),
        (changed(COMPLETION, "choices", 0, "logprobs", "top_logprobs", to=[3]), "got int 3"),
        (changed(COMPLETION, "choices", 0, "logprobs", to={"x": 1}), r"got the keys \['x'\]"),
        (changed(OLLAMA, "logprobs", to=None), "must have log-probabilities: got none. Ask"),
        (changed(LLAMA_CPP, "completion_probabilities", 0, to={"top_probs": []}), "after sampling"),
        ({"error": {"message": "no such model"}}, "got an error, .*no such model"),
        ({"object": "list"}, r"got the keys \['object'\]. Pass the whole response"),
        ([1, 2], "must be a response of a language model: got list"),
        ("<html>502</html>", "must be JSON: got '<html>502</html>', which is not"),
        (None, "must be a response of a language model: got None"),
    ],
)
def test_wrong_responses_say_what_was_found(response, message):
    with pytest.raises(ValueError, match=message):
        read_answer(response)


def test_an_empty_file_a_missing_file_and_one_response_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ValueError, match="at least one response: got none"):
        read_answers(tmp_path / "empty.jsonl")
    with pytest.raises(FileNotFoundError, match="absent.jsonl, which does not exist"):
        read_answers(tmp_path / "absent.jsonl")
    with pytest.raises(ValueError, match="got one dict. Put it in a list"):
        read_answers(CHAT)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["", "Yes"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["token", "logprob", "top_logprobs", "content", "logprobs", "bytes"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(form=st.sampled_from([*FORMS]), data=st.data())
def test_whatever_a_server_sends_is_read_or_refused_in_words(form, data):
    response = FORMS[form]
    paths = list(nodes(response))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(paths))
        with suppress(KeyError, IndexError, TypeError):  # the place may be gone already
            response = changed(response, *path, to=data.draw(VALUES))
    try:
        answer = read_answer(response)
    except ValueError:
        return
    for position in answer.positions:
        assert all(value <= 0 for _, value in position.tokens)
        assert position.cap <= 0 <= position.remainder <= 1


def nodes(value, path=()):
    """The paths of all that a response holds."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from nodes(inner, (*path, key))
