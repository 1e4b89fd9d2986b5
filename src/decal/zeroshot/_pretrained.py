"""Models that are used as they are: loading them, batches, and what decal makes of their logits."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from huggingface_hub import constants, errors
from numpy.typing import NDArray
from safetensors import SafetensorError

from decal._base.data_frames import require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array, softmax
from decal._base.row_checks import check_logits
from decal._base.settings import check_count, check_keywords
from decal.choose import decalibrate, one_wish
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.io.progress import progress_bar

Scores = NDArray[np.float32]

# Version 5 has other names for some options than version 4.
NEW_TRANSFORMERS = int(transformers.__version__.partition(".")[0]) >= 5
SINGLE_PRECISION: dict[str, Any] = {"dtype" if NEW_TRANSFORMERS else "torch_dtype": torch.float32}


class PretrainedClassifier(ABC):
    """A classifier that is used as it is: logits, and what decal makes of them."""

    classes: tuple[str, ...]  # the names of the K classes, column by column

    @abstractmethod
    def logits(
        self, inputs: Iterable[Any], /, *, batch_size: int = 32, progress: bool = False
    ) -> Scores:
        """(n, K) logits of the inputs."""

    def probabilities(
        self, inputs: Iterable[Any], *, batch_size: int = 32, progress: bool = False
    ) -> Array:
        """(n, K) softmax of the logits: the point predictions of credal sets."""
        logits = check_logits(self.logits(inputs, batch_size=batch_size, progress=progress))
        return softmax(logits.astype(np.float64))

    def decalibrate(
        self,
        inputs: Iterable[Any],
        labels: Any,
        *,
        alpha: float | None = None,
        miss: float | None = None,
        width: float | None = None,
        hold: float | None = None,
        batch_size: int = 32,
        progress: bool = False,
        **settings: Any,
    ) -> Decalibrator:
        """A Decalibrator fitted on labelled inputs, best ones the model was not trained on.

        Labels (n,) are names out of `classes`, or column numbers; parameters are those of `logits`
        and of `decal.decalibrate`, of which exactly one of alpha, miss, width and hold is needed.
        """
        require_same_order(inputs=inputs, labels=labels)
        front = f"{type(self).__name__}.decalibrate"
        check_keywords(settings, front, type(self).decalibrate, decalibrate, Decalibrator)
        wish: dict[str, Any] = {"alpha": alpha, "miss": miss, "width": width, "hold": hold}
        one_wish(**wish)  # or the model would run for nothing
        logits = self.logits(inputs, batch_size=batch_size, progress=progress)
        return decalibrate(logits, labels, classes=self.classes, **wish, **settings)

    def predict_credal(
        self,
        decalibrator: Decalibrator,
        inputs: Iterable[Any],
        *,
        alpha: Any = None,
        groups: Any = None,
        batch_size: int = 32,
        progress: bool = False,
    ) -> IntervalCredalSet:
        """The credal sets of new inputs, by a Decalibrator fitted for these classes."""
        if decalibrator.classes is not None and decalibrator.classes != self.classes:
            rule = f"be fitted on the classes {self.classes}"
            raise InputError("decalibrator", rule, f"{decalibrator.classes}")
        logits = self.logits(inputs, batch_size=batch_size, progress=progress)
        return decalibrator.predict(logits, alpha=alpha, groups=groups)


def batches(
    items: Iterable[Any], size: int, *, unit: str, progress: bool = False
) -> Iterator[tuple[int, list[Any]]]:
    """Lists of `size` items, each with the index of its first item, under a bar if asked."""
    size = check_count(size, "batch_size")
    total = len(items) if isinstance(items, Sized) else None
    remaining, start = iter(items), 0
    with progress_bar(unit, total, unit=unit, show=progress) as bar:
        while batch := list(itertools.islice(remaining, size)):
            yield start, batch
            start += len(batch)
            bar.advance(len(batch))


# Loading


@contextmanager
def loading(name: str, files: str, options: dict[str, Any]) -> Iterator[None]:
    """Errors of loading `name` say which `files` to download and where to put them."""
    try:
        yield
    except ImportError as error:
        why = f"{name} needs a package that is not installed: {_first_sentence(error)}"
        raise ImportError(f"{why}. Try pip install 'decal[zeroshot]'.") from error
    except (OSError, ValueError, RuntimeError, SafetensorError, AttributeError) as error:
        # An AttributeError is how transformers 4.57 says that there is no tokenizer.json.
        if "mismatch" in str(error):
            fact = f"{name!r}, whose weights have other shapes"
            remedy = "Is it the config of another model?"
            rule = "hold weights that fit the model of its config"
            raise InputError("name_or_path", rule, fact, remedy) from error
        # The traceback of the hub's client would add nothing to the message.
        raise FileNotFoundError(_missing(name, files, options, error)) from None


def _missing(name: str, files: str, options: dict[str, Any], error: BaseException) -> str:
    """What to say of `name`, which cannot be loaded."""
    wanted = "name_or_path must be a folder with a saved model, or a model on the Hugging Face hub"
    if Path(name).is_dir():
        why = f"a folder that does not hold all of it, or not intact. Needed: {files}"
        return f"{wanted}: got {name!r}, {why}. ({_first_sentence(error)})"
    causes = tuple(_causes(error))

    def is_due_to(kind: type[BaseException]) -> bool:
        return any(isinstance(cause, kind) for cause in causes)

    cache = options.get("cache_dir") or constants.HF_HUB_CACHE
    if is_due_to(errors.HFValidationError):
        return f"{wanted}: got {name!r}, which is no folder here and no owner/name of the hub."
    if is_due_to(errors.GatedRepoError):
        why = "which is gated: its owner grants access to those who accept the terms at "
        why += f"https://huggingface.co/{name} and run `hf auth login`"
    elif is_due_to(errors.RepositoryNotFoundError):
        why = "which is neither a folder here nor (publicly) on the hub"
    elif is_due_to(errors.LocalEntryNotFoundError):
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


def _first_sentence(error: BaseException) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
    return line.split(". ")[0].rstrip(".")


def require_weights(model: Any, found: dict[str, Any], name: str) -> None:
    """InputError if a file lacks some weights of its model: they would be drawn at random."""
    if found["missing_keys"]:
        first, *others = sorted(found["missing_keys"])
        more = f" and {len(others)} more" if others else ""
        fact = f"{name!r} without {first}{more}, which would be random numbers"
        rule = f"hold all weights of a {type(model).__name__}"
        raise InputError("name_or_path", rule, fact, "Take a model trained for this task.")


def choose_device(device: Any) -> Any:
    """The device asked for; by default a GPU if PyTorch has one, else the CPU."""
    default = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(default if device is None else device)
