"""Text classifiers from the Hugging Face hub: texts in, logits and credal sets out.

What any door to a pretrained model needs stands here too: loading with an answer to what is
missing, batches with a progress bar, and labels given as names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

try:
    import torch
    import transformers
    from huggingface_hub import constants, errors
    from safetensors import SafetensorError
    from tqdm import tqdm  # type: ignore[import-untyped]
except ModuleNotFoundError as error:
    raise ImportError(
        f"decal.text needs transformers and PyTorch: pip install 'decal[zeroshot]' ({error})"
    ) from error

from decal._base.checks import check_count, check_logits
from decal._base.numerics import Array
from decal.credal._boxes import IntervalCredalSet
from decal.decalibrator import Decalibrator, decalibrate

__all__ = ["TextClassifier"]

TEXT_FILES = "config.json, model.safetensors, tokenizer_config.json and tokenizer.json"
"""What the folder of a text classifier holds; older models have vocabularies of other names."""

UNLIMITED = 10**9
"""A tokenizer without a limit of its own claims an astronomic one: anything above this."""

Text = str | tuple[str, str]
Scores = NDArray[np.float32]


class TextClassifier:
    """A fine-tuned text classifier: BERT, RoBERTa, DeBERTa and others.

    Parameters
    ----------
    model : a transformers model for sequence classification with two or more classes.
    tokenizer : its tokenizer.
    truncate : what to do with texts of more tokens than the model takes: cut them, or (default)
        refuse them.

    Attributes
    ----------
    classes : K names, column by column, from the model's own `config.id2label`.
    limit : the number of tokens that the model takes, or None.

    Notes
    -----
    `from_pretrained` loads both parts. Numbers are computed in float32.
    """

    def __init__(self, model: Any, tokenizer: Any, *, truncate: bool = False) -> None:
        config = model.config
        if config.problem_type == "multi_label_classification":
            raise ValueError(
                "model must choose one class per text: got problem_type "
                "'multi_label_classification', whose logits are answers to separate questions."
            )
        if config.num_labels < 2:
            raise ValueError(
                f"model must have two classes or more: got {config.num_labels}. A model with one "
                "output is a regression."
            )
        self.classes = tuple(str(config.id2label[k]) for k in range(config.num_labels))
        self.truncate = truncate
        limits = (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None))
        self.limit = min((n for n in limits if n is not None and n < UNLIMITED), default=None)
        self._model, self._tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        truncate: bool = False,
        device: Any = None,
        **options: Any,
    ) -> Self:
        """Load a model and its tokenizer.

        Parameters
        ----------
        name_or_path : a folder that `save_pretrained` wrote, or a model of the hub.
        truncate : as for `TextClassifier`.
        device : where to compute; by default a GPU if PyTorch has one, else the CPU.
        **options : handed to transformers: `revision`, `token`, `cache_dir`, `local_files_only`.
        """
        name = str(name_or_path)
        with loading(name, TEXT_FILES, options):
            model, found = transformers.AutoModelForSequenceClassification.from_pretrained(
                name, dtype=torch.float32, output_loading_info=True, **options
            )
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(name, **options)
        require_weights(model, found, name)
        return cls(model.to(choose_device(device)), tokenizer, truncate=truncate)

    def __repr__(self) -> str:
        return f"TextClassifier({self._model.config.model_type}, {len(self.classes)} classes)"

    def logits(
        self, texts: Iterable[Text], *, batch_size: int = 32, progress: bool = False
    ) -> Scores:
        """(n, K) logits of texts, or of (premise, hypothesis) pairs.

        Parameters
        ----------
        texts : n strings, or n pairs of strings; any iterable.
        batch_size : texts per pass through the model.
        progress : show a bar.
        """
        if isinstance(texts, str):
            raise ValueError("texts must be a list of texts: got one text. Put it in a list.")
        rows = [
            self._encode(batch, start)
            for start, batch in batches(texts, batch_size, progress=progress, unit="text")
        ]
        if not rows:
            raise ValueError("texts must hold at least one text: got none.")
        return np.concatenate(rows)

    def probabilities(
        self, texts: Iterable[Text], *, batch_size: int = 32, progress: bool = False
    ) -> Array:
        """(n, K) softmax of the logits."""
        return probabilities_of(self.logits(texts, batch_size=batch_size, progress=progress))

    def decalibrate(
        self,
        texts: Iterable[Text],
        labels: Any,
        *,
        alpha: float,
        batch_size: int = 32,
        progress: bool = False,
        **settings: Any,
    ) -> Decalibrator:
        """A Decalibrator fitted on labelled texts, best ones the model was not trained on.

        Parameters
        ----------
        texts : as for `logits`.
        labels : n names out of `classes`, or n column numbers.
        alpha, **settings : as for `decal.decalibrate`.
        """
        logits = self.logits(texts, batch_size=batch_size, progress=progress)
        return fit_on(logits, labels, self.classes, alpha, settings)

    def predict_credal(
        self,
        decalibrator: Decalibrator,
        texts: Iterable[Text],
        *,
        alpha: float | None = None,
        batch_size: int = 32,
        progress: bool = False,
    ) -> IntervalCredalSet:
        """The credal sets of new texts."""
        require_classes(decalibrator, self.classes)
        logits = self.logits(texts, batch_size=batch_size, progress=progress)
        return decalibrator.predict(logits, alpha=alpha)

    def _encode(self, batch: list[Text], start: int) -> Scores:
        first, second = _split(batch, start)
        if self.limit is not None and not self.truncate:
            lengths = [len(ids) for ids in self._tokenizer(first, second)["input_ids"]]
            if max(lengths) > self.limit:
                raise ValueError(
                    f"texts must have at most {self.limit} tokens each: got {max(lengths)} at "
                    f"index {start + int(np.argmax(lengths))}. Shorten them, or load the model "
                    "with truncate=True."
                )
        tokens = self._tokenizer(
            first,
            second,
            padding=True,
            truncation=self.truncate,
            max_length=self.limit if self.truncate else None,
            return_tensors="pt",
        )
        with torch.inference_mode():
            logits = self._model(**tokens.to(self._model.device)).logits
        return np.asarray(logits.float().cpu().numpy(), dtype=np.float32)


def _split(batch: Sequence[Text], start: int) -> tuple[list[str], list[str] | None]:
    """The texts, and the second texts if the batch is one of pairs."""
    pairs = not isinstance(batch[0], str)
    for index, item in enumerate(batch, start):
        alone = isinstance(item, str)
        if not alone and (len(item) != 2 or not all(isinstance(part, str) for part in item)):
            raise ValueError(
                f"texts must be strings or pairs of strings: got {item!r} at index {index}."
            )
        if alone == pairs:
            raise ValueError(
                "texts must all be strings or all be pairs: got both, the first of the other kind "
                f"at index {index}."
            )
    if pairs:
        return [item[0] for item in batch], [item[1] for item in batch]
    return [str(item) for item in batch], None


# What doors to pretrained models share


@contextmanager
def loading(name: str, files: str, options: dict[str, Any]) -> Iterator[None]:
    """Turn what goes wrong while loading into what to download and where to put it."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{name} needs a package that is not here: {_first_sentence(error)}. "
            "Try pip install 'decal[zeroshot]'."
        ) from error
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if "mismatch" in str(error):
            raise ValueError(
                "name_or_path must hold weights that fit the model of its config: got "
                f"{name!r}, whose weights have other shapes. Is it the config of another model?"
            ) from error
        # The stack trace of the hub's client says nothing that the message does not.
        raise FileNotFoundError(_missing(name, files, options, error)) from None


def _missing(name: str, files: str, options: dict[str, Any], error: BaseException) -> str:
    wanted = "name_or_path must be a folder with a saved model, or a model on the Hugging Face hub"
    if Path(name).is_dir():
        return (
            f"{wanted}: got {name!r}, a folder that does not hold all of it, or not intact. "
            f"Needed: {files}. ({_first_sentence(error)})"
        )
    kinds = tuple(type(e) for e in _causes(error))
    cache = options.get("cache_dir") or constants.HF_HUB_CACHE
    if _any(kinds, errors.HFValidationError):
        return f"{wanted}: got {name!r}, which is no folder here and no owner/name of the hub."
    if _any(kinds, errors.GatedRepoError):
        why = (
            "which is gated: its owner grants access to those who accept the terms at "
            f"https://huggingface.co/{name} and run `hf auth login`"
        )
    elif _any(kinds, errors.RepositoryNotFoundError):
        why = "which is neither a folder here nor (publicly) on the hub"
    elif _any(kinds, errors.LocalEntryNotFoundError):
        why = f"which is not in the cache {cache}, and the hub cannot be reached"
    else:
        why = f"which cannot be loaded: {_first_sentence(error)}"
    folder = name.rsplit("/", 1)[-1]
    return (
        f"{wanted}: got {name!r}, {why}. Where the hub can be reached, run `hf download {name} "
        f"--local-dir {folder}`, bring that folder here and pass its path; or bring the cache to "
        f"{cache}. Needed: {files}."
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _any(kinds: tuple[type[BaseException], ...], wanted: type[BaseException]) -> bool:
    return any(issubclass(kind, wanted) for kind in kinds)


def _first_sentence(error: BaseException) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
    return line.split(". ")[0].rstrip(".")


def require_weights(model: Any, found: dict[str, Any], name: str) -> None:
    """Refuse a model some of whose weights were not in the file: transformers makes them random."""
    if found["missing_keys"]:
        first, *others = sorted(found["missing_keys"])
        more = f" and {len(others)} more" if others else ""
        raise ValueError(
            f"name_or_path must hold all weights of a {type(model).__name__}: got {name!r} without "
            f"{first}{more}, which would be random numbers. Take a model trained for this task."
        )


def choose_device(device: Any) -> Any:
    """The device asked for; by default a GPU if PyTorch has one, else the CPU."""
    if device is not None:
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def batches(
    items: Iterable[Any], size: int, *, progress: bool, unit: str
) -> Iterator[tuple[int, list[Any]]]:
    """Lists of `size` items with the index of their first, under a progress bar if asked."""
    size = check_count(size, "batch_size")
    total = len(items) if isinstance(items, Sized) else None
    remaining, start = iter(items), 0
    with tqdm(total=total, unit=unit, disable=not progress) as bar:
        while batch := list(itertools.islice(remaining, size)):
            yield start, batch
            start += len(batch)
            bar.update(len(batch))


def class_ids(labels: Any, classes: Sequence[str]) -> Any:
    """Column numbers of labels: names are looked up, numbers stay what they are."""
    array = np.asarray(labels)
    if not any(isinstance(label, str) for label in array.flat):
        return labels
    column = {name: k for k, name in enumerate(classes)}
    for index, label in enumerate(array):
        if label not in column:
            known = ", ".join(repr(name) for name in classes[:12])
            raise ValueError(
                f"labels must be column numbers or names out of {known}"
                f"{', …' if len(classes) > 12 else ''}: got {str(label)!r} at index {index}."
            )
    return np.array([column[label] for label in array], dtype=np.intp)


def fit_on(
    logits: Any, labels: Any, classes: Sequence[str], alpha: float, settings: dict[str, Any]
) -> Decalibrator:
    """A Decalibrator fitted on logits, and labels given as names or numbers."""
    return decalibrate(logits, class_ids(labels, classes), alpha=alpha, classes=classes, **settings)


def require_classes(decalibrator: Decalibrator, classes: tuple[str, ...]) -> None:
    """Refuse a Decalibrator that was fitted on other classes."""
    if decalibrator.classes is not None and decalibrator.classes != classes:
        raise ValueError(
            f"decalibrator must be fitted on the classes {classes}: got {decalibrator.classes}."
        )


def probabilities_of(logits: Any) -> Array:
    """(n, K) softmax over the columns, in float64."""
    return np.asarray(softmax(check_logits(logits).astype(np.float64), axis=1))
