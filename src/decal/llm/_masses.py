"""The probability mass of every label, as far as the listed tokens tell it: an interval.

A token that is not listed has at most the probability of the last one listed, and all of them
together have what the listed ones leave. So the mass of a label lies between what is listed of it
and that plus, for each of its spellings that is not listed, such a token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from decal._base.errors import InputError
from decal._base.numerics import Array, row_blocks
from decal._base.row_checks import check_logits
from decal._base.settings import check_count
from decal.llm._answers import Answer, is_list, is_path, read_answer, read_answers
from decal.llm._unlisted import LabelMasses
from decal.llm._verbaliser import Verbaliser, plain_text

REMAINDER_ROUNDING = 1e-6  # added to the remainder: servers compute in single precision
NORMALISED, LOW_PRECISION = 1e-3, 0.01  # how far sums may be from one; and are, of bfloat16


def label_masses(
    answers: Any, verbaliser: Verbaliser, *, position: int = 0, errors: str = "raise"
) -> LabelMasses:
    """The masses of the labels in the responses of a language model.

    `answers` and `errors` are as for `decal.llm.read_answers`, or one response; `verbaliser` tells
    what spells which label, by one token, and `position` which token of the answer is the label.

    Examples
    --------
    >>> import decal
    >>> top = [{"token": "Yes", "logprob": -0.4}, {"token": "The", "logprob": -2.0}]
    >>> entry = {"token": "Yes", "logprob": -0.4, "top_logprobs": top}
    >>> response = {"choices": [{"logprobs": {"content": [entry]}}]}
    >>> masses = decal.llm.label_masses([response], decal.llm.Verbaliser(["Yes", "No"]))
    >>> masses.lower.round(3), masses.upper.round(3)
    (array([[-0.4, -inf]]), array([[-0.216, -1.638]]))
    """
    one = isinstance(answers, Answer) or not (is_path(answers) or is_list(answers))
    read = read_answers([read_answer(answers)] if one else answers, errors=errors)
    rows = [_row(answer, i, verbaliser, position) for i, answer in enumerate(read)]
    named = all(answer.name is not None for answer in read)
    names = tuple(str(answer.name) for answer in read) if named else None
    columns = map(np.array, zip(*rows, strict=True))
    return replace(_bounded(verbaliser, *columns), names=names, skipped=read.skipped)


def _row(answer: Answer, index: int, verbaliser: Verbaliser, position: int) -> tuple[Any, ...]:
    """Listed and doubtful masses; how many tokens may be missing; cap and remainder."""
    if not 0 <= position < len(answer.positions):
        fact = f"{position} for answer {index}, which has {len(answer.positions)}"
        rule = "be that of a token in every answer"
        raise InputError("position", rule, fact, "Ask for more tokens.")
    K = len(verbaliser)
    listed, doubtful = np.zeros(K), np.zeros(K)
    begins: dict[str, float] = {}
    at = answer.positions[position]
    texts = [plain_text(token) for token, _ in at.tokens]
    # One text with one probability, twice, may be one token that the server lists twice.
    pairs = dict.fromkeys(zip(texts, (value for _, value in at.tokens), strict=True))
    for text, value in pairs:
        k, mass = verbaliser.label_of(text), float(np.exp(value))
        begun = () if verbaliser.partial == "ignore" else verbaliser.begun_by(text)
        if k is not None and (verbaliser.partial == "refuse" or not begun):
            listed[k] += mass
        elif begun:  # and perhaps complete
            doubtful[[*begun] if k is None else [*begun, k]] += mass
            begins[text] = begins.get(text, 0.0) + mass
    most = np.array([float(len(own.difference(texts))) for own in verbaliser.texts])
    if verbaliser.partial == "refuse":
        _refuse_partial(begins, listed, verbaliser, index)
        doubtful[:] = 0
    elif verbaliser.partial == "bound":
        most[[*verbaliser.begun_by_some()]] = np.inf
    if any(texts.count(text) > 1 for own in verbaliser.texts for text in own):
        most[:] = np.inf  # several tokens have one text, so that spellings are no count of tokens
    rest = max(0.0, 1.0 - math.fsum(math.exp(value) for _, value in pairs))
    return listed, doubtful, most, np.exp(at.cap), rest


def _refuse_partial(
    begins: dict[str, float], listed: Array, verbaliser: Verbaliser, index: int
) -> None:
    """InputError if tokens that only begin labels outweigh the labels themselves."""
    if sum(begins.values()) <= listed.sum():
        return
    token = max(begins, key=lambda text: begins[text])
    labels = [repr(verbaliser.classes[k]) for k in verbaliser.begun_by(token)]
    whose = f"labels {' and '.join(labels)} share" if len(labels) > 1 else f"label {labels[0]} has"
    fact = f"{token!r} with probability {begins[token]:.3g} in answer {index}, of which {whose} "
    fact += f"only the beginning, and all labels together {listed.sum():.3g}"
    remedy = "Spell labels by words or letters that are one token, score them with label_logits, "
    remedy += "or pass partial='bound' to the Verbaliser."
    raise InputError("labels", "be single tokens in a response", fact, remedy)


def vocabulary_masses(
    log_probabilities: Any, tokens: Sequence[str], verbaliser: Verbaliser, *, top: int | None = None
) -> LabelMasses:
    """The masses of the labels from log-probabilities of the whole vocabulary.

    Parameters
    ----------
    log_probabilities, tokens : (n, V) array, sequence of V str
        Of the next token, normalised; and the tokens, as text or as `vocabulary_tokens` has them.
    verbaliser : Verbaliser
        What spells which label: every token that is a spelling counts, and nothing else.
    top : int, optional
        List only the most probable tokens, as a server does; by default all: masses are exact.

    Examples
    --------
    >>> import numpy as np, decal
    >>> z = np.log([[0.5, 0.3, 0.15, 0.05]])
    >>> v = decal.llm.Verbaliser(["yes", "no"])
    >>> decal.llm.vocabulary_masses(z, ["yes", "the", "no", "a"], v, top=2)
    LabelMasses: 1 answers, 2 labels, 0 known exactly
    """
    z = check_logits(log_probabilities, name="log_probabilities", masked=True)
    n, V = z.shape
    if len(tokens) != V:
        rule = "be as many as columns of log_probabilities"
        raise InputError("tokens", rule, f"{len(tokens)} for {V}")
    columns: list[list[int]] = [[] for _ in verbaliser.classes]
    for column, token in enumerate(tokens):
        k = verbaliser.label_of(token)
        if k is not None:
            columns[k].append(column)
    for name, own in zip(verbaliser.classes, columns, strict=True):
        if not own:
            remedy = "Spell it in another way, or score it with label_logits."
            rule = "each have a spelling among the tokens"
            raise InputError("labels", rule, f"none for {name!r}", remedy)
    m = V if top is None else check_count(top, "top")
    listed, doubtful = np.zeros((n, len(columns))), np.zeros((n, len(columns)))
    unlisted = np.zeros(listed.shape)
    cap, remainder = np.zeros(n), np.zeros(n)
    for rows in row_blocks(n, V):
        p = np.exp(z[rows].astype(np.float64))
        _require_normalised(p, rows.start)
        kept = np.ones(p.shape, dtype=bool)
        if m < V:
            kept = np.zeros(p.shape, dtype=bool)
            np.put_along_axis(kept, np.argpartition(-p, m - 1, axis=1)[:, :m], True, axis=1)
            cap[rows] = np.where(kept, p, np.inf).min(axis=1)
            remainder[rows] = np.maximum(1.0 - np.where(kept, p, 0.0).sum(axis=1), 0.0)
        for k, own in enumerate(columns):
            listed[rows, k] = np.where(kept[:, own], p[:, own], 0.0).sum(axis=1)
            unlisted[rows, k] = (~kept[:, own]).sum(axis=1)
    return _bounded(verbaliser, listed, doubtful, unlisted, cap, remainder)


def _require_normalised(p: Array, start: int) -> None:
    total = p.sum(axis=1)
    off = np.flatnonzero(np.abs(total - 1) > NORMALISED)
    if off.size:
        first = float(total[off[0]])
        remedy = "Take log_softmax of logits over the whole vocabulary first."
        if abs(first - 1) <= LOW_PRECISION:
            remedy = "Low precision is the likely cause: take log_softmax in float32."
        fact = f"a sum of {first:.4g} in row {start + off[0]}"
        raise InputError("log_probabilities", "be normalised", fact, remedy)


def _bounded(
    verbaliser: Verbaliser,
    listed: Array,
    doubtful: Array,
    most: Array,
    cap: Array,
    remainder: Array,
) -> LabelMasses:
    """Masses of what is listed, what is `doubtful`, and at `most` so many tokens not listed."""
    room = (remainder + REMAINDER_ROUNDING)[:, None]
    any_number = np.isinf(most)
    counted = np.minimum(np.where(any_number, 0, most) * cap[:, None], room)
    extra = np.where(any_number, room, counted) + doubtful
    with np.errstate(divide="ignore"):
        lower = np.log(listed)
        # Where nothing is missing the bounds are to be the same number.
        upper = np.where(extra > 0, np.log(listed + extra), lower)
    hopeless = np.flatnonzero(np.isneginf(upper).all(axis=1))
    if hopeless.size:
        why = "which lists every token that spells one with probability 0"
        fact = f"none in answer {hopeless[0]}, {why}"
        raise InputError("answers", "leave a label some probability", fact)
    return LabelMasses(lower, upper, verbaliser.classes)
