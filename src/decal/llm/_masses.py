"""The probability mass of every label, as far as the listed tokens tell it: an interval.

A token that is not listed has at most the probability of the last one listed, and all of them
together have what the listed ones leave. So the mass of a label lies between what is listed of it
and that plus, for each of its spellings that is not listed, such a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import check_choice, check_count, check_logits
from decal._base.numerics import Array, row_blocks
from decal.credal._interval_rows import row_index
from decal.llm._answers import Answer, is_list, is_path, read_answer, read_answers
from decal.llm._verbaliser import Verbaliser

__all__ = ["LabelMasses", "label_masses", "vocabulary_masses"]

REMAINDER_ROUNDING = 1e-6
"""Probability that the remainder is given in addition: servers compute in single precision."""

LARGEST_TOTAL = 1 + 1e-3
"""Probabilities of one row add up to no more, or they are none."""

ROUNDED = 0.01
"""How far from one the probabilities of a row may sum if bfloat16 has rounded their logarithms."""

Counts = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class LabelMasses:
    """Lower and upper log-masses of K labels in n answers.

    Attributes
    ----------
    lower, upper : (n, K) arrays
        Logarithms of the least and the greatest mass of each label; -inf for none.
    unlisted : (n, K) array
        The number of spellings of a label that are not listed.
    remainder : (n,) array
        The probability of all tokens that are not listed.
    tokens : (n,) array
        The number of tokens listed.
    classes : tuple of str
        The names of the labels.
    names : tuple of str, or None
        The names of the answers, if they have any.

    See Also
    --------
    label_masses : From responses.
    vocabulary_masses : From log-probabilities of all tokens.
    decal.llm.predict : Credal sets of them.
    """

    lower: Array
    upper: Array
    unlisted: Counts
    remainder: Array
    tokens: Counts
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.lower)

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        """TypeError: intervals are no array, and an array of their rows would be nonsense."""
        raise TypeError(
            "LabelMasses, which are intervals. Use decal.llm.decalibrate and decal.llm.predict, or "
            "pass masses.logits()"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): answers and labels."""
        n, K = self.lower.shape
        return n, K

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(n,) True where nothing is missing: lower and upper masses are the same."""
        same: NDArray[np.bool_] = (self.lower == self.upper).all(axis=1)
        return same

    @property
    def middle(self) -> Array:
        """(n, K) logarithms of the masses halfway between the bounds: one of all completions."""
        with np.errstate(divide="ignore"):
            middle: Array = np.logaddexp(self.lower, self.upper) - np.log(2.0)
        return middle

    def __getitem__(self, rows: Any) -> LabelMasses:
        """The chosen answers: an integer, a slice, a mask or a list of integers."""
        rows = row_index(rows, len(self.lower))
        names = None if self.names is None else tuple(np.array(self.names, dtype=object)[rows])
        return LabelMasses(
            self.lower[rows],
            self.upper[rows],
            self.unlisted[rows],
            self.remainder[rows],
            self.tokens[rows],
            self.classes,
            names,
        )

    def __repr__(self) -> str:
        n, K = self.shape
        exact = int(self.exact.sum())
        return f"LabelMasses: {n:,} answers, {K} labels, {exact:,} known exactly"

    def logits(self, unlisted: str = "refuse", *, vocabulary: int | None = None) -> Array:
        """(n, K) logits of the labels, for all that takes numbers rather than intervals.

        Parameters
        ----------
        unlisted : str
            "refuse": an error unless all masses are known. "even": a model, not a bound, that of
            `decal.TopLogits`: tokens not listed share the remainder evenly.
        vocabulary : int, optional
            The number of all tokens, for "even".
        """
        check_choice(unlisted, "unlisted", ("refuse", "even"))
        if unlisted == "refuse":
            rows = np.flatnonzero(~self.exact)
            if rows.size:
                raise ValueError(
                    f"masses must be known exactly for logits: got {rows.size} of {len(self)} "
                    f"answers with labels that are not listed, the first at index {rows[0]}. Ask "
                    "for more tokens; or pass unlisted='even' with vocabulary=, which is a model "
                    "of the rest, or unlisted='bounds' to decal.llm.decalibrate."
                )
            return self.lower
        if vocabulary is None:
            raise ValueError(
                "vocabulary must be the number of all tokens for unlisted='even': got None."
            )
        others = check_count(vocabulary, "vocabulary", least=2) - self.tokens
        if (others < self.unlisted.sum(axis=1)).any():
            raise ValueError(
                f"vocabulary must be larger than the tokens listed: got {vocabulary} for "
                f"{int(self.tokens.max())} listed tokens and the spellings not listed."
            )
        share = self.remainder / np.maximum(others, 1)
        with np.errstate(divide="ignore"):
            return np.log(np.exp(self.lower) + self.unlisted * share[:, None])


def label_masses(answers: Any, verbaliser: Verbaliser, *, position: int = 0) -> LabelMasses:
    """The masses of the labels in the responses of a language model.

    Parameters
    ----------
    answers : list, or path
        Responses, as for `decal.llm.read_answers`; or a single one.
    verbaliser : Verbaliser
        What spells which label. Every spelling is taken to be one token.
    position : int
        The token of the answer that is to be the label; the first by default.

    Returns
    -------
    LabelMasses

    Examples
    --------
    >>> import decal
    >>> top = [{"token": "Yes", "logprob": -0.4}, {"token": "The", "logprob": -2.0}]
    >>> entry = {"token": "Yes", "logprob": -0.4, "top_logprobs": top}
    >>> response = {"choices": [{"logprobs": {"content": [entry]}}]}
    >>> masses = decal.llm.label_masses([response], decal.llm.Verbaliser(["Yes", "No"]))
    >>> masses
    LabelMasses: 1 answers, 2 labels, 0 known exactly
    >>> import numpy as np
    >>> np.exp(masses.lower).round(3), np.exp(masses.upper).round(3)
    (array([[0.67, 0.  ]]), array([[0.806, 0.194]]))
    """
    read = _read(answers)
    rows = [_row(answer, i, verbaliser, position) for i, answer in enumerate(read)]
    names = tuple(str(answer.name) for answer in read)
    named = all(answer.name is not None for answer in read)
    listed, doubtful, unlisted, cap, rest, tokens = map(np.array, zip(*rows, strict=True))
    known = names if named else None
    return _bounded(listed, doubtful, unlisted, cap, rest, tokens, verbaliser, known)


def _read(answers: Any) -> tuple[Answer, ...]:
    """Those of a list or a file; or of a single response."""
    one = isinstance(answers, Answer) or not (is_path(answers) or is_list(answers))
    return (read_answer(answers),) if one else read_answers(answers)


def _row(answer: Answer, index: int, verbaliser: Verbaliser, position: int) -> tuple[Any, ...]:
    """Listed and doubtful masses, spellings not listed, cap, remainder and number of tokens."""
    if not 0 <= position < len(answer.positions):
        raise ValueError(
            f"position must be that of a token in every answer: got {position} for answer {index}, "
            f"which has {len(answer.positions)}. Ask for more tokens."
        )
    K = len(verbaliser)
    listed, doubtful = np.zeros(K), np.zeros(K)
    unlisted = np.array([len(own) for own in verbaliser.spellings])
    begins: dict[str, tuple[int, ...]] = {}
    at = answer.positions[position]
    for token, value in at.tokens:
        k = verbaliser.label_of(token)
        if k is not None:
            listed[k] += np.exp(value)
            unlisted[k] = max(0, unlisted[k] - 1)
        elif verbaliser.partial != "ignore" and (begun := verbaliser.begun_by(token)):
            doubtful[[*begun]] += np.exp(value)
            begins[token] = begun
    if verbaliser.partial == "refuse":
        _refuse_partial(begins, at.tokens, listed, verbaliser, index)
        doubtful[:] = 0
    return listed, doubtful, unlisted, np.exp(at.cap), at.remainder, len(at.tokens)


def _refuse_partial(
    begins: dict[str, tuple[int, ...]],
    tokens: Iterable[tuple[str, float]],
    listed: Array,
    verbaliser: Verbaliser,
    index: int,
) -> None:
    """ValueError if tokens that only begin labels outweigh the labels themselves."""
    mass = {token: float(np.exp(value)) for token, value in tokens if token in begins}
    if sum(mass.values()) <= listed.sum():
        return
    token = max(mass, key=lambda t: mass[t])
    labels = [repr(verbaliser.classes[k]) for k in begins[token]]
    whose = f"labels {' and '.join(labels)} share" if len(labels) > 1 else f"label {labels[0]} has"
    raise ValueError(
        f"labels must be single tokens in a response: got {token!r} with probability "
        f"{mass[token]:.3g} in answer {index}, of which {whose} only the beginning, and all labels "
        f"together {listed.sum():.3g}. Spell labels by words or letters that are one token, score "
        "them with label_logits, or pass partial='bound' to the Verbaliser."
    )


def vocabulary_masses(
    log_probabilities: Any,
    tokens: Sequence[str],
    verbaliser: Verbaliser,
    *,
    top: int | None = None,
) -> LabelMasses:
    """The masses of the labels from log-probabilities of the whole vocabulary.

    Parameters
    ----------
    log_probabilities : (n, V) array
        Of the next token, normalised.
    tokens : sequence of str
        The V tokens, as text or as the vocabulary writes them (`convert_ids_to_tokens`).
    verbaliser : Verbaliser
        What spells which label: every token that is a spelling counts, and nothing else.
    top : int, optional
        See only the so many most probable tokens of every row, as a server would list them.

    Returns
    -------
    LabelMasses
        Exact unless `top` is given.

    Examples
    --------
    >>> import numpy as np, decal
    >>> z = np.log([[0.5, 0.3, 0.15, 0.05]])
    >>> v = decal.llm.Verbaliser(["yes", "no"])
    >>> decal.llm.vocabulary_masses(z, ["yes", "the", "no", "a"], v)
    LabelMasses: 1 answers, 2 labels, 1 known exactly
    >>> decal.llm.vocabulary_masses(z, ["yes", "the", "no", "a"], v, top=2)
    LabelMasses: 1 answers, 2 labels, 0 known exactly
    """
    z = check_logits(log_probabilities, name="log_probabilities", masked=True)
    n, V = z.shape
    if len(tokens) != V:
        raise ValueError(
            f"tokens must be as many as columns of log_probabilities: got {len(tokens)} for {V}."
        )
    columns: list[list[int]] = [[] for _ in verbaliser.classes]
    for column, token in enumerate(tokens):
        k = verbaliser.label_of(token)
        if k is not None:
            columns[k].append(column)
    for name, own in zip(verbaliser.classes, columns, strict=True):
        if not own:
            raise ValueError(
                f"labels must each have a spelling among the tokens: got none for {name!r}. "
                "Spell it in another way, or score it with label_logits."
            )
    m = V if top is None else check_count(top, "top")
    listed, doubtful = np.zeros((n, len(columns))), np.zeros((n, len(columns)))
    unlisted = np.zeros(listed.shape, dtype=np.intp)
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
    count = np.full(n, min(m, V))
    return _bounded(listed, doubtful, unlisted, cap, remainder, count, verbaliser, None)


def _require_normalised(p: Array, start: int) -> None:
    total = p.sum(axis=1)
    off = np.flatnonzero(np.abs(total - 1) > LARGEST_TOTAL - 1)
    if off.size:
        sum_ = float(total[off[0]])
        advice = (
            "Low precision is the likely cause: take log_softmax in float32."
            if abs(sum_ - 1) <= ROUNDED
            else "Take log_softmax of logits over the whole vocabulary first."
        )
        raise ValueError(
            f"log_probabilities must be normalised: got a sum of {sum_:.4g} in row "
            f"{start + off[0]}. {advice}"
        )


def _bounded(
    listed: Array,
    doubtful: Array,
    unlisted: Counts,
    cap: Array,
    remainder: Array,
    tokens: Counts,
    verbaliser: Verbaliser,
    names: tuple[str, ...] | None,
) -> LabelMasses:
    room = (remainder + REMAINDER_ROUNDING)[:, None]
    extra = np.where(unlisted > 0, np.minimum(unlisted * cap[:, None], room), 0.0) + doubtful
    with np.errstate(divide="ignore"):
        lower = np.log(listed)
        # Where nothing is missing the bounds are to be the same number.
        upper = np.where(extra > 0, np.log(listed + extra), lower)
    hopeless = np.flatnonzero(np.isneginf(upper).all(axis=1))
    if hopeless.size:
        raise ValueError(
            f"answers must leave a label some probability: got none in answer {hopeless[0]}, which "
            "lists every token that spells one with probability 0."
        )
    return LabelMasses(lower, upper, unlisted, remainder, tokens, verbaliser.classes, names)
