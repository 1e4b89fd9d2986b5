"""Text classifiers from the Hugging Face hub: texts in, logits and credal sets out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from decal._base.errors import InputError, needs
from decal._base.settings import check_flag

with needs(
    "torch",
    "transformers",
    message="decal.llm.text needs transformers and PyTorch: pip install 'decal[zeroshot]'",
):
    import torch
    import transformers

from decal.llm._causal import token_limit
from decal.llm.pretrained import (
    SINGLE_PRECISION,
    PretrainedClassifier,
    Scores,
    batches,
    choose_device,
    loading,
    require_weights,
)

__all__ = ["TextClassifier"]

Text = str | tuple[str, str]


class TextClassifier(PretrainedClassifier):
    """A fine-tuned text classifier: BERT, RoBERTa, DeBERTa and others.

    Parameters
    ----------
    model, tokenizer
        Of transformers, for sequence classification into two or more classes; `from_pretrained`
        loads both. The model is put into evaluation mode.
    truncate : bool, optional
        Whether to cut texts of more tokens than the model takes; by default they are refused.

    Attributes
    ----------
    classes, limit : tuple of str, int or None
        The names of the K classes, column by column, from the model's own `config.id2label`; and
        the number of tokens that the model takes, if it has a limit.
    """

    def __init__(self, model: Any, tokenizer: Any, *, truncate: bool = False) -> None:
        config = model.config
        if config.problem_type == "multi_label_classification":
            why = "whose logits are answers to separate questions"
            fact = f"problem_type {config.problem_type!r}, {why}"
            remedy = "Pass its logits to decal.MultiLabelDecalibrator."
            raise InputError("model", "choose one class per text", fact, remedy)
        if config.num_labels < 2:
            remedy = "A model with one output is a regression."
            raise InputError("model", "have two classes or more", f"{config.num_labels}", remedy)
        self.classes = tuple(str(config.id2label[k]) for k in range(config.num_labels))
        self.truncate = check_flag(truncate, "truncate")
        self.limit = token_limit(config, tokenizer)
        self._model, self._tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, truncate: bool = False, device: Any = None, **options: Any
    ) -> Self:
        """Load a model and its tokenizer, to compute in float32.

        From a folder that `save_pretrained` wrote, or from the hub; by default to a GPU if PyTorch
        has one. Options are those of transformers: `revision`, `token`, `cache_dir`,
        `local_files_only`.
        """
        name = str(name_or_path)
        files = "config.json, model.safetensors, tokenizer_config.json and tokenizer.json"
        with loading(name, files, options):
            model, found = transformers.AutoModelForSequenceClassification.from_pretrained(
                name, **SINGLE_PRECISION, output_loading_info=True, **options
            )
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(name, **options)
        require_weights(model, found, name)
        return cls(model.to(choose_device(device)), tokenizer, truncate=truncate)

    def __repr__(self) -> str:
        return f"TextClassifier({self._model.config.model_type}, {len(self.classes)} classes)"

    def logits(
        self, texts: Iterable[Text], *, batch_size: int = 32, progress: bool = False
    ) -> Scores:
        """(n, K) logits of texts, or of (premise, hypothesis) pairs."""
        if isinstance(texts, str):
            raise InputError("texts", "be a list of texts", "one text", "Put it in a list.")
        rows = [
            self._encode(batch, start)
            for start, batch in batches(texts, batch_size, progress=progress, unit="texts")
        ]
        if not rows:
            raise InputError("texts", "hold at least one text", "none")
        return np.concatenate(rows)

    def _encode(self, batch: list[Text], start: int) -> Scores:
        first, second = _first_and_second(batch, start)
        if self.limit is not None and not self.truncate:
            lengths = [len(ids) for ids in self._tokenizer(first, second)["input_ids"]]
            if max(lengths) > self.limit:
                rule = f"have at most {self.limit} tokens each"
                fact = f"{max(lengths)} at index {start + int(np.argmax(lengths))}"
                remedy = "Shorten them, or load the model with truncate=True."
                raise InputError("texts", rule, fact, remedy)
        cut = {"truncation": True, "max_length": self.limit} if self.truncate else {}
        tokens = self._tokenizer(first, second, padding=True, return_tensors="pt", **cut)
        with torch.inference_mode():
            logits = self._model(**tokens.to(self._model.device)).logits
        return np.asarray(logits.float().cpu().numpy(), dtype=np.float32)


def _first_and_second(batch: Sequence[Text], start: int) -> tuple[list[str], list[str] | None]:
    """The first texts of a batch, and the second ones if it holds pairs."""
    pairs = not isinstance(batch[0], str)
    for index, item in enumerate(batch, start):
        single = isinstance(item, str)
        if not single and (len(item) != 2 or not all(isinstance(part, str) for part in item)):
            fact = f"{item!r} at index {index}"
            raise InputError("texts", "be strings or pairs of strings", fact)
        if single == pairs:
            fact = f"both, the first of the other kind at index {index}"
            raise InputError("texts", "all be strings or all be pairs", fact)
    if pairs:
        return [item[0] for item in batch], [item[1] for item in batch]
    return [str(item) for item in batch], None
