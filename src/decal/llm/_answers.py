"""Responses of language-model servers, read into one plain form; docs/llm.md lists the servers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeGuard

from decal._base.errors import InputError, InputWarning, listing
from decal._base.settings import check_choice

ASK = "Ask for them: logprobs=True, top_logprobs=20 (completions: logprobs=5; llama.cpp: n_probs)."

UNLIKELY = -9999.0  # what OpenAI and vLLM write for -inf, or for a token too improbable to list
ROUNDING = 1e-4  # by which rounded probabilities may sum to more than 1, and logarithms exceed 0


@dataclass(frozen=True)
class Position:
    """What is known of the next token at one position of an answer."""

    tokens: tuple[tuple[str, float], ...]  # with log-probabilities in nats, the greatest first
    cap: float  # no token that is not listed has a greater log-probability

    @property
    def remainder(self) -> float:
        """The probability of all tokens not listed together."""
        return max(0.0, 1.0 - math.fsum(math.exp(value) for _, value in self.tokens))


@dataclass(frozen=True)
class Answer:
    """The answer of a language model: its text, and a position for each token of it."""

    positions: tuple[Position, ...]
    text: str = ""
    name: str | None = None  # the `custom_id` of a batch

    def __repr__(self) -> str:
        listed = len(self.positions[0].tokens)
        return f"Answer({self.text!r}, {len(self.positions)} positions, {listed} tokens listed)"


@dataclass(frozen=True)
class Skipped:
    """A response that holds no answer: its index among all, its `custom_id` if any, and why."""

    index: int
    name: str | None
    reason: str


class Answers(tuple[Answer, ...]):
    """Answers in the order of the responses; `skipped` are the responses that were left out."""

    skipped: tuple[Skipped, ...]

    def __new__(cls, answers: Iterable[Answer], skipped: Iterable[Skipped] = ()) -> Self:
        found = super().__new__(cls, answers)
        found.skipped = tuple(skipped)
        return found


def read_answers(responses: Any, *, errors: str = "raise") -> Answers:
    """The answers in a list of responses, as `read_answer` takes them, or in a file of JSON lines.

    `errors` says what to do with a response without an answer, as of a request that met a limit
    (429): "raise" an InputError, or "skip" it with an InputWarning, and list it in `skipped`.
    """
    check_choice(errors, "errors", ("raise", "skip"))
    if isinstance(responses, Answers):
        return responses
    if is_path(responses):
        path = Path(responses)
        if not path.is_file():
            wanted = "responses must be a list of responses, or a file of JSON lines"
            raise FileNotFoundError(f"{wanted}: got {path}, which does not exist.")
        return _read_each(_lines(path), errors)
    if not is_list(responses):
        fact, remedy = f"one {type(responses).__name__}", "Put it in a list, or use read_answer."
        raise InputError("responses", "be a list of responses", fact, remedy)
    return _read_each(((f"response {i}", item) for i, item in enumerate(responses)), errors)


def _read_each(named: Iterable[tuple[str, Any]], errors: str) -> Answers:
    """The answers in responses, each with what messages call it."""
    answers: list[Answer] = []
    skipped: list[Skipped] = []
    called = []
    for index, (where, item) in enumerate(named):
        try:
            answers.append(read_answer(item))
        except ValueError as error:
            if errors == "raise":
                raise InputError(f"{where}: {error}") from error
            skipped.append(Skipped(index, _name_of(item), str(error)))
            called.append(skipped[-1].name or where)
    total = len(answers) + len(skipped)
    if not total:
        raise InputError("responses", "hold at least one response", "none")
    if not answers:
        remedy = f"The first: {skipped[0].reason}"
        raise InputError("responses", "hold at least one answer", f"none among {total}", remedy)
    if skipped:
        InputWarning.warn(
            f"{len(skipped)} of {total} responses hold no answer and are left out: "
            f"{listing(called)}. The first: {skipped[0].reason}"
        )
    return Answers(answers, skipped)


def _name_of(response: Any) -> str | None:
    """The `custom_id` of a response, if it has one and that much of it can be read."""
    try:
        body = _parsed(response)
    except ValueError:
        return None
    name = body.get("custom_id") if isinstance(body, Mapping) else None
    return None if name is None else str(name)


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"{path.name}, line {number}", line


def read_answer(response: Any) -> Answer:
    """The answer in one response: a dict, JSON text, or the object that a client returns.

    It is one of OpenAI, vLLM, llama.cpp or ollama, in any form; or a line of a batch's output.

    Examples
    --------
    >>> import decal
    >>> logprobs = {"tokens": ["Yes"], "token_logprobs": [-0.2],
    ...             "top_logprobs": [{"Yes": -0.2, " yes": -2.0, "No": -4.0}]}
    >>> answer = decal.llm.read_answer({"choices": [{"text": "Yes", "logprobs": logprobs}]})
    >>> answer.positions[0].cap, round(answer.positions[0].remainder, 3)
    (-4.0, 0.028)
    """
    if isinstance(response, Answer):
        return response
    body = _parsed(response)
    if not isinstance(body, Mapping):
        remedy = "Pass the whole response as a dict, as JSON text, or as the client's object."
        raise InputError("response", "be a response of a language model", _kind(body), remedy)
    name = _name_of(body)
    inner = _plain(body.get("response"))
    if isinstance(inner, Mapping):
        _require_success(body)
        _require_success(inner)
        body = _object(inner.get("body", inner), "response.body")
    _require_success(body)
    entries = _entries(body)
    if not entries:
        raise InputError("response", "have log-probabilities", "an empty list", ASK)
    positions = tuple(_position(entry, i) for i, entry in enumerate(entries))
    text = "".join(_token_of(entry) for entry in entries)
    return Answer(positions, text, name)


def _require_success(body: Mapping[str, Any]) -> None:
    """InputError if a response, or the line of a batch that holds it, tells of an error."""
    status = body.get("status_code")
    failed = isinstance(status, int) and not 200 <= status < 300
    if not (failed or body.get("error") or body.get("object") == "error"):
        return
    told = _plain(body.get("body")) if failed else body
    told = _plain(told.get("error")) or told if isinstance(told, Mapping) else told
    words = str(told.get("message") or dict(told)) if isinstance(told, Mapping) else str(told)
    got = f"status {status}" if failed else "an error"
    raise InputError("response", "be an answer", f"{got}, {words[:200]}")


# Finding the log-probabilities


def _entries(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One entry per position: {token, logprob, top_logprobs: [{token, logprob}, ...]}."""
    if "choices" in body:
        return _of_choices(body["choices"])
    if "completion_probabilities" in body:
        return _listed(body, "completion_probabilities")
    if "output" in body:
        return _of_outputs(body["output"])
    if body.get("logprobs") is not None:
        return _listed(body, "logprobs")
    if {"message", "response", "content", "logprobs"} & set(body):
        raise InputError("response", "have log-probabilities", "none", ASK)
    rule = "have choices (OpenAI, vLLM, llama.cpp), completion_probabilities (llama.cpp), output "
    rule += "(OpenAI) or logprobs (ollama)"
    raise InputError("response", rule, f"the keys {sorted(body)[:8]}", "Pass the whole response.")


def _of_choices(choices: Any) -> list[Mapping[str, Any]]:
    if not is_list(choices) or len(choices) != 1:
        count = len(choices) if is_list(choices) else _kind(choices)
        raise InputError("response", "have one choice", f"{count}", "Ask for n=1.")
    choice = _object(choices[0], "choices[0]")
    if choice.get("logprobs") is None:
        raise InputError("response", "have log-probabilities", "logprobs=None", ASK)
    logprobs = _object(choice["logprobs"], "logprobs")
    if logprobs.get("content") is not None:
        return _listed(logprobs, "content")
    if "top_logprobs" not in logprobs:
        rule = "have content (chat) or top_logprobs (completions)"
        raise InputError("logprobs", rule, f"the keys {sorted(logprobs)}", ASK)
    return _of_mappings(logprobs)


def _of_mappings(logprobs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The form of completions: parallel lists, and a mapping from tokens to numbers."""
    tops = _listed(logprobs, "top_logprobs")
    tokens, values = (
        _listed(logprobs, key) if logprobs.get(key) else [None] * len(tops)
        for key in ("tokens", "token_logprobs")
    )
    if not len(tokens) == len(values) == len(tops):
        counts = f"{len(tokens)} tokens, {len(values)} token_logprobs and {len(tops)} top_logprobs"
        raise InputError("logprobs", "have as many tokens as top_logprobs", counts)
    found: list[Mapping[str, Any]] = []
    for token, value, top in zip(tokens, values, tops, strict=True):
        if not isinstance(top, Mapping):
            raise InputError("top_logprobs", "map tokens to numbers", _kind(top), ASK)
        listed = [{"token": name, "logprob": number} for name, number in top.items()]
        found.append({"token": token, "logprob": value, "top_logprobs": listed})
    return found


def _of_outputs(outputs: Any) -> list[Mapping[str, Any]]:
    """The form of OpenAI's responses: a list of messages, each a list of texts."""
    for output in outputs if is_list(outputs) else ():
        parts = _object(output, "output").get("content")
        for part in parts if is_list(parts) else ():
            said = _object(part, "content")
            if said.get("logprobs"):
                return _listed(said, "logprobs")
    remedy = "Ask for them: top_logprobs=20, include=['message.output_text.logprobs']."
    raise InputError("response", "have log-probabilities", "none", remedy)


# Reading one position


def _position(entry: Any, index: int) -> Position:
    """What an entry tells of its token; InputError if that is no log-probability."""
    where = f"position {index}"
    if not isinstance(entry, Mapping):
        raise InputError(where, "be an object", _kind(entry))
    if "top_probs" in entry or "probs" in entry:
        remedy = "Leave post_sampling_probs out, and use a llama.cpp of 2025 or later."
        raise InputError(where, "have top_logprobs", "probabilities after sampling", remedy)
    top = entry.get("top_logprobs")
    if not is_list(top) or not len(top):
        got = "an empty list" if is_list(top) else _kind(top)
        raise InputError(where, "have top_logprobs", got, ASK)
    listed = [_pair(_plain(item), index) for item in top]
    sampled = _token_of(entry) if entry.get("token") is not None else None
    return _bounded(listed, sampled, entry.get("logprob"), index)


def _bounded(
    listed: list[tuple[str, float]], sampled: str | None, value: Any, index: int
) -> Position:
    """A position of what is listed, and of the token that was sampled, which may not be listed."""
    listed = sorted(((t, v) for t, v in listed if v > UNLIKELY), key=lambda pair: -pair[1])
    if not listed:
        raise InputError(f"position {index}", "list a possible token", "-inf only")
    # Some servers list the sampled token although it is not among the most probable: it then
    # bounds nothing, and the one before it does.
    bounding = listed[:-1] if listed[-1][0] == sampled else listed
    cap = bounding[-1][1] if bounding else 0.0
    if sampled is not None and value is not None and sampled not in (t for t, _ in listed):
        token, number = _pair({"token": sampled, "logprob": value}, index)
        if number > UNLIKELY:
            listed.append((token, number))
    total = math.fsum(math.exp(number) for _, number in listed)
    if total > 1 + ROUNDING * len(listed):
        fact = f"a sum of {total:.4g} at position {index}"
        remedy = "Ask for the model's own, not those after sampling."
        raise InputError("top_logprobs", "be logarithms of probabilities", fact, remedy)
    return Position(tuple(listed), cap)


def _pair(item: Any, index: int) -> tuple[str, float]:
    """A token and its log-probability."""
    if not isinstance(item, Mapping) or "logprob" not in item or item.get("token") is None:
        keys = sorted(item) if isinstance(item, Mapping) else _kind(item)
        fact = f"{keys} at position {index}"
        raise InputError("top_logprobs", "hold tokens with their logprob", fact)
    token, value = _token_of(item), item["logprob"]
    where = f"for {token!r} at position {index}"
    if isinstance(value, bool) or not isinstance(value, int | float) or value > 1e300:
        raise InputError("logprob", "be a number", f"{_short(value)} {where}")
    value = max(value, -1e300)  # whole numbers may be too large for a float
    if math.isnan(value):
        remedy = "The server's model overflows; another precision may help."
        raise InputError("logprob", "be a number", f"NaN {where}", remedy)
    if value > ROUNDING:
        remedy = "These may be logits or probabilities: ask for log-probabilities."
        raise InputError("logprob", "be at most 0", f"{value:g} {where}", remedy)
    return token, min(float(value), 0.0)


def _token_of(entry: Mapping[str, Any]) -> str:
    """The text of a token, by its bytes if the server gives them; part of a character is "�"."""
    raw = entry.get("bytes")
    if is_list(raw) and len(raw):
        try:
            return bytes(raw).decode("utf-8", "replace")
        except (ValueError, TypeError):
            pass  # no bytes
    token = entry.get("token")
    if token is None:
        return ""
    if not isinstance(token, str) or re.fullmatch(r"token_id:\d+", token):  # vLLM's numbers
        raise InputError("token", "be text", _kind(token), "Leave return_tokens_as_token_ids out.")
    return token


# Forms of responses


def _parsed(response: Any) -> Any:
    """What JSON text says, or what an object holds."""
    if not isinstance(response, str | bytes):
        return _plain(response)
    try:
        return json.loads(response)
    except ValueError as error:
        fact = f"{_short(response)}, which is not ({error})"
        raise InputError("response", "be JSON", fact) from error


def _plain(value: Any) -> Any:
    """A mapping of what has attributes instead of keys; everything else as it is."""
    if value is None or isinstance(value, Mapping | str | bytes | int | float) or is_list(value):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return getattr(value, "__dict__", value)


def _object(value: Any, name: str) -> Mapping[str, Any]:
    found = _plain(value)
    if not isinstance(found, Mapping):
        raise InputError(name, "be an object", _kind(found), "Pass the whole response.")
    return found


def _listed(body: Mapping[str, Any], key: str) -> list[Any]:
    listed = body[key]
    if not is_list(listed):
        raise InputError(key, "be a list", _kind(listed), ASK)
    return [_plain(item) for item in listed]


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list, or like one; a text is not."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def is_path(value: Any) -> TypeGuard[str | Path]:
    """Whether a value is a path, rather than a response as JSON text."""
    text = isinstance(value, str) and value.lstrip()[:1] not in ("{", "[", "")
    return text or isinstance(value, Path)


def _kind(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {_short(value)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
