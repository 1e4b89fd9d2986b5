"""Causal language models of transformers: the whole vocabulary, and labels of several tokens."""

from __future__ import annotations

import inspect
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, needs
from decal._base.numerics import Array, softmax
from decal._base.set_checks import read_frames
from decal._base.settings import check_count, check_flag
from decal.credal import HullCredalSet
from decal.io.progress import progress_bar
from decal.llm._answers import is_list
from decal.llm._verbaliser import Verbaliser

Ids = tuple[int, ...]


def next_token_log_probabilities(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[Any],
    *,
    chat: bool = False,
    batch_size: int = 8,
    progress: bool = False,
) -> NDArray[np.float32]:
    """(n, V) log-probabilities of the next token, float32; `label_logits` keeps the labels only.

    Of a causal language model of transformers. Prompts are texts, taken as they are or, with
    `chat`, as messages of a user; or lists of messages, {"role": "user", "content": "..."}, for the
    chat template. `batch_size` of them pass through the model at once; `progress` shows a bar.
    """
    reader = Reader.of(model, tokenizer)
    rows = reader.encoded(_several(prompts), chat)
    out = np.empty((len(rows), reader.size), dtype=np.float32)
    for where, found in reader.log_probabilities(rows, 1, batch_size, progress):
        out[where] = found[:, -1]
    return out


def label_logits(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[Any],
    verbaliser: Verbaliser,
    *,
    templates: str | Sequence[str] | None = None,
    chat: bool = False,
    batch_size: int = 8,
    progress: bool = False,
) -> Array:
    """(n, K) logarithms, not normalised, of the probability that the model says each label.

    Parameters
    ----------
    model, tokenizer, prompts, chat, batch_size, progress
        As for `next_token_log_probabilities`.
    verbaliser : Verbaliser
        The spellings of the labels, of one token or several. No label's tokens may begin those of
        another, or they would count twice.
    templates : str or sequence of str, optional
        Texts with {} for the prompt, or with {name} for its values if prompts are mappings. A
        sequence of M gives (M, n, K): see `decal.llm.spread`.
    """
    versions = [_several(prompts)]
    if templates is not None:
        texts = check_templates([templates] if isinstance(templates, str) else templates)
        versions = [[fill(text, item, i) for i, item in enumerate(versions[0])] for text in texts]
    reader = Reader.of(model, tokenizer)
    spellings = [_sequences(tokenizer, own) for own in verbaliser.spellings]
    _require_apart(spellings, verbaliser, tokenizer)
    each = [
        _scored(reader, reader.encoded(version, chat), spellings, batch_size, progress)
        for version in versions
    ]
    return each[0] if templates is None or isinstance(templates, str) else np.stack(each)


def spread(predictions: Any, *, classes: Iterable[str] | None = None) -> HullCredalSet:
    """The credal sets of inputs that several templates were tried on: all mixtures of predictions.

    Predictions are logits (M, n, K) of M templates, as `label_logits` returns, with `classes` that
    name the labels. `union` takes the credal sets of each.

    Examples
    --------
    >>> import decal
    >>> logits = [[[1.0, 0.0]], [[0.2, 0.0]]]
    >>> decal.llm.spread(logits, classes=["yes", "no"])
    HullCredalSet: 1 input, 2 vertices, 2 classes, mean width 0.181
      0  yes [0.550, 0.731]  no [0.269, 0.450]
    """
    frames = {f"predictions[{m}]": one for m, one in enumerate(predictions)}
    matrices, classes, index = read_frames(classes, **frames)
    logits = np.asarray(matrices, dtype=np.float64)
    if logits.ndim != 3 or not logits.size or np.isnan(logits).any():
        rule = "be logits (templates, inputs, labels) without NaN"
        raise InputError("predictions", rule, f"shape {logits.shape}", "Sets go to union.")
    M, n, K = logits.shape
    p = softmax(logits.reshape(M * n, K)).reshape(M, n, K)
    return HullCredalSet(p.transpose(1, 0, 2), axis=1, classes=classes).with_index(index)


def vocabulary_tokens(tokenizer: Any, size: int | None = None) -> list[str]:
    """The tokens by number, for `vocabulary_masses`; "" for columns, up to `size`, without one."""
    count = len(tokenizer)
    size = count if size is None else check_count(size, "size")
    known = tokenizer.convert_ids_to_tokens(range(min(count, size)))
    return [token or "" for token in known] + [""] * (size - count)


# Prompts


def _several(prompts: Any) -> list[Any]:
    """A list of prompts, of which there must be one or more."""
    if isinstance(prompts, str | Mapping):
        raise InputError("prompts", "be a list of prompts", "one prompt", "Put it in a list.")
    found = list(prompts)
    if not found:
        raise InputError("prompts", "hold at least one prompt", "none")
    return found


def check_templates(templates: Iterable[Any]) -> tuple[str, ...]:
    """Texts with at least one place for a prompt each."""
    found = tuple(templates)
    for template in found:
        if not isinstance(template, str) or not _fields(template):
            rule = "hold {} or {name}, where the prompt goes"
            raise InputError("templates", rule, f"{template!r}")
    if not found:
        raise InputError("templates", "be one text or more", "none")
    return found


def _fields(template: str) -> list[str]:
    """What the braces of a template hold: nothing, or a name."""
    try:
        return [field for _, field, *_ in string.Formatter().parse(template) if field is not None]
    except ValueError as error:
        fact, remedy = f"{template!r} ({error})", "Write {{ and }} for braces."
        raise InputError("templates", "hold {} or {name}", fact, remedy) from error


def fill(template: str, item: Any, index: int = 0) -> str:
    """A template with a text at {}, or with the values of a mapping at {name}."""
    if isinstance(item, str):
        if any(_fields(template)):
            rule = f"be mappings for the template {template!r}"
            raise InputError("prompts", rule, f"a text at index {index}")
        return template.format(*[item] * len(_fields(template)))
    missing = [name for name in _fields(template) if name not in item]
    if missing:
        fact = f"none called {missing[0]!r} at index {index}, but {sorted(item)}"
        raise InputError("prompts", "have what the template names", fact)
    return template.format(**item)


# Labels


def _sequences(tokenizer: Any, spellings: Iterable[str]) -> list[Ids]:
    """The token sequences of one label's spellings, without those that another one begins."""
    found = [tuple(tokenizer(s, add_special_tokens=False)["input_ids"]) for s in spellings]
    found = list(dict.fromkeys(ids for ids in found if ids))
    return [a for a in found if not any(a != b and a[: len(b)] == b for b in found)]


def _require_apart(spellings: list[list[Ids]], verbaliser: Verbaliser, tokenizer: Any) -> None:
    """InputError if a label has no tokens, or if its tokens begin those of another."""
    labelled = list(zip(verbaliser.classes, spellings, strict=True))
    for name, own in labelled:
        if not own:
            raise InputError("labels", "be spelled by tokens", f"none for {name!r}")
    pairs = [(name, ids) for name, own in labelled for ids in own]
    for (first, a), (second, b) in permutations(pairs, 2):
        if first != second and b[: len(a)] == a:
            one, other = (repr(tokenizer.decode(list(ids))) for ids in (a, b))
            fact = f"{one} for {first!r} and {other} for {second!r}"
            raise InputError("labels", "not begin each other", fact, "Spell them in other ways.")


def _scored(
    reader: Reader, rows: list[Ids], spellings: list[list[Ids]], batch_size: int, progress: bool
) -> Array:
    """(n, K) logits: one pass over the prompts for each beginning that labels share."""
    sequences = {ids for own in spellings for ids in own}
    beginnings = {ids[:-1] for ids in sequences}
    # A pass over prompt and beginning tells the probability of every token of that beginning too.
    longest = {a for a in beginnings if not any(a != b and b[: len(a)] == a for b in beginnings)}
    scores = {ids: np.zeros(len(rows)) for ids in sequences}
    for start in sorted(longest):
        mine = [ids for ids in sequences if start[: len(ids) - 1] == ids[:-1]]
        inputs = [row + start for row in rows]
        reader.require_room(inputs)
        for where, found in reader.log_probabilities(inputs, len(start) + 1, batch_size, progress):
            for ids in mine:
                chain = [found[:, i, token] for i, token in enumerate(ids)]
                scores[ids][where] = np.sum(chain, axis=0)
    columns = [
        np.logaddexp.reduce(np.stack([scores[ids] for ids in own]), axis=0) for own in spellings
    ]
    return np.stack(columns, axis=1)


# The model


@dataclass(frozen=True)
class Reader:
    """A model with all that is needed to run it on prompts of different lengths."""

    model: Any
    tokenizer: Any
    size: int  # of its vocabulary: the columns of its logits
    limit: int | None  # the number of tokens that it takes
    takes: frozenset[str]  # its arguments

    @classmethod
    def of(cls, model: Any, tokenizer: Any) -> Reader:
        """Of a model and its tokenizer; InputError if it is no causal language model."""
        message = "decal.llm needs transformers and PyTorch for models: pip install 'decal[llm]'"
        with needs("torch", "transformers", message=message):
            import torch  # noqa: F401
            import transformers  # noqa: F401
        config = model.config
        if not (getattr(model, "can_generate", lambda: False)() and not config.is_encoder_decoder):
            fact, remedy = type(model).__name__, "Load it with AutoModelForCausalLM."
            raise InputError("model", "be a causal language model", fact, remedy)
        size = int(model.get_output_embeddings().weight.shape[0])
        takes = frozenset(inspect.signature(model.forward).parameters)
        return cls(model.eval(), tokenizer, size, token_limit(config, tokenizer), takes)

    def encoded(self, prompts: list[Any], chat: bool) -> list[Ids]:
        """The tokens of every prompt."""
        chat = check_flag(chat, "chat")
        rows = [self._encode(prompt, i, chat) for i, prompt in enumerate(prompts)]
        if () in rows:
            raise InputError("prompts", "hold a token each", f"none at index {rows.index(())}")
        self.require_room(rows)
        return rows

    def _encode(self, prompt: Any, index: int, chat: bool) -> Ids:
        """The tokens of a prompt: a text, or messages."""
        if isinstance(prompt, str) and not chat:
            return tuple(self.tokenizer(prompt)["input_ids"])
        user = [{"role": "user", "content": prompt}]
        messages = user if isinstance(prompt, str) else prompt
        if not _are_messages(messages):
            rule = "be texts, or lists of messages with role and content"
            raise InputError("prompts", rule, f"{prompt!r} at index {index}")
        if not self.tokenizer.chat_template:
            rule = "be texts for a tokenizer without a chat template"
            remedy = "Leave chat=True out, and write the whole prompt."
            raise InputError("prompts", rule, f"messages at index {index}", remedy)
        text = self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def require_room(self, rows: list[Ids]) -> None:
        """InputError if a row has more tokens than the model takes."""
        for index, ids in enumerate(rows):
            if self.limit is not None and len(ids) > self.limit:
                rule = f"have at most {self.limit} tokens each"
                raise InputError("prompts", rule, f"{len(ids)} at index {index}", "Shorten it.")

    def log_probabilities(
        self, rows: list[Ids], last: int, batch_size: int, progress: bool
    ) -> Iterator[tuple[list[int], Array]]:
        """Batches: numbers of rows, and log-probabilities (b, last, V) after their last tokens."""
        import torch

        size = check_count(batch_size, "batch_size")
        padded = {"attention_mask", "position_ids"} <= self.takes
        # Rows of similar length share a batch, padded on the left so that their last tokens stand
        # in the same columns; the attention mask and the positions leave the padding out.
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        with progress_bar("prompts", len(rows), unit="prompts", show=progress) as bar:
            start = 0
            while start < len(order):
                where = order[start : start + size]
                if not padded:  # a model that cannot leave padding out gets rows of one length
                    where = [i for i in where if len(rows[i]) == len(rows[where[0]])]
                with torch.inference_mode():
                    logits = self._run([rows[i] for i in where], last)
                    found = logits[:, -last:].float().log_softmax(dim=-1).cpu().numpy()
                if not np.isfinite(found).any(axis=-1).all():
                    remedy = "Load it in single precision, dtype=torch.float32."
                    raise InputError("model", "give finite logits", "NaN", remedy)
                yield where, found
                start += len(where)
                bar.advance(len(where))

    def _run(self, rows: list[Ids], last: int) -> Any:
        import torch

        width = max(map(len, rows))
        tokens, mask = torch.zeros((2, len(rows), width), dtype=torch.long)
        for i, ids in enumerate(rows):
            tokens[i, width - len(ids) :] = torch.tensor(ids)
            mask[i, width - len(ids) :] = 1
        options: dict[str, Any] = {"attention_mask": mask}
        options["position_ids"] = (mask.cumsum(dim=1) - 1).clamp(min=0)
        given = {k: v.to(self.model.device) for k, v in options.items() if k in self.takes}
        if "logits_to_keep" in self.takes:
            given["logits_to_keep"] = last
        return self.model(input_ids=tokens.to(self.model.device), **given).logits


def token_limit(config: Any, tokenizer: Any) -> int | None:
    """The number of tokens that a model takes; None if it has no limit."""
    limits = (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None))
    # A tokenizer without a limit states an astronomic one.
    return min((n for n in limits if n is not None and n < 10**9), default=None)


def _are_messages(value: Any) -> bool:
    if not is_list(value) or not len(value):
        return False
    return all(isinstance(m, Mapping) and {"role", "content"} <= set(m) for m in value)
