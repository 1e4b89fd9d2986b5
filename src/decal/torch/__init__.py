"""PyTorch: logits of a model and a loader, and credal sets as a layer of a network.

Imports from `_base`, `grids`, `schema`, `votes`, `credal`, `io`, `directions`, `model`,
`decalibrator`, `multilabel`, `evaluate` and `choose`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from decal._base.errors import Place, needs
from decal._base.row_checks import check_labels, check_weights
from decal._base.settings import check_keywords
from decal.choose import Wish, decalibrate
from decal.decalibrator import Decalibrator
from decal.evaluate import Evaluation
from decal.schema import look_like_probabilities, warn_of_probabilities
from decal.votes import Votes

with needs("torch", message="decal.torch needs PyTorch: pip install 'decal[torch]'"):
    import torch
    from torch import Tensor

from decal.torch._head import CredalHead
from decal.torch.batches import (
    Batch,
    at_least_float32,
    check_rows,
    evaluating,
    evaluations,
    joined,
    label_tensor,
    labelled_logits,
    require_decalibrator,
    together,
)

__all__ = [
    "CredalCoverage",
    "CredalHead",
    "LightningDecalibration",
    "MissRate",
    "SetSize",
    "TrainerDecalibration",
    "collect_logits",
    "decalibrate_model",
    "evaluate_model",
    "fit",
]

CHUNK_ELEMENTS = 1 << 22  # logits learnt from at once: 16 MB of float32

ON_FIRST_USE = {
    "CredalCoverage": "_kept_metrics",
    "LightningDecalibration": "_lightning",
    "MissRate": "_kept_metrics",
    "SetSize": "_kept_metrics",
    "TrainerDecalibration": "_hugging_face",
}
"""What needs torchmetrics, Lightning or transformers, by the module that holds it."""


def collect_logits(
    model: Callable[..., Any] | None,
    loader: Iterable[Any],
    *,
    dim: int | None = None,
    ignore_index: int | None = None,
    votes: str | None = None,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> tuple[Any, Any]:
    """The logits (n, K) of all inputs of a loader, and their labels (n,), on the CPU.

    Of pixels or tokens, logits and labels keep their axes. Images or sentences of several sizes
    become two lists, of an entry each.

    Parameters
    ----------
    model : callable or None
        Returns a tensor (n, K), or an object with one as `.logits`; of pixels (n, K, height,
        width), of tokens (n, length, K), say. A module is put into evaluation mode meanwhile; a
        network inside of another function is not. Half becomes float32. None if the loader yields
        logits in the place of inputs.
    loader : iterable
        Yields batches (inputs, labels), or mappings with the key "labels" or "label". Labels are
        integers 0..K-1, in the shape of the logits without the classes. Inputs that are a mapping
        are passed by keyword, a tuple or list by position. A third item that names examples, by
        text or numbers, is left out; any other is refused.
    dim : int, optional
        The axis of the classes in a batch; by default the only one that fits the labels.
    ignore_index : int, optional
        The label of inputs that do not count: -100 for losses of PyTorch. Their logits are not
        checked. Pass it on to what learns from them.
    votes : "annotations" or "counts", optional
        What labels are that several people gave: whole numbers (batch, people), a column per
        person, -1 where one gave none; or (batch, K), how many people named each class. The labels
        returned are then `decal.Votes`.
    device : torch.device or str, optional
        The model is moved there, and back at the end. By default it runs where it is.
    progress : bool, optional
        Whether to draw a bar, on a terminal and if rich is installed.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import collect_logits
    >>> loader = [(torch.eye(3), torch.tensor([0, 1, 2])), (torch.ones(1, 3), torch.tensor([2]))]
    >>> logits, labels = collect_logits(torch.nn.Linear(3, 4), loader)
    >>> logits.shape, labels
    (torch.Size([4, 4]), tensor([0, 1, 2, 2]))
    """
    given: dict[str, Any] = {"dim": dim, "ignore_index": ignore_index}
    with evaluating(model, device) as home:
        found = labelled_logits(model, loader, home, progress, votes=votes, **given)
        batches = [batch._replace(logits=at_least_float32(batch.logits)) for batch in found]
    logits, labels, axis = joined(batches)
    rows = [logits] if axis is None else (batch.rows(ignore_index)[0] for batch in batches)
    if all(look_like_probabilities(z.numpy()) for z in rows):
        remedy = "If the network ends in Softmax, cut that layer off, or pass probabilities=True"
        warn_of_probabilities("the model's outputs", f"{remedy} to what learns from its outputs")
    return logits, labels


def decalibrate_model(
    model: Callable[..., Any] | None,
    loader: Iterable[Any],
    *,
    alpha: float | None = None,
    miss: float | None = None,
    width: float | None = None,
    hold: float | None = None,
    per: str | None = None,
    unit: str | None = None,
    tolerate: float | None = None,
    classes: Iterable[Any] | None = None,
    dim: int | None = None,
    ignore_index: int | None = None,
    votes: str | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on a model's logits of labelled batches.

    Parameters are those of `collect_logits` and `decal.decalibrate`, of which exactly one of alpha,
    miss, width and hold is needed: the loader should yield data that the model was not trained on,
    and a network that ends in Softmax takes probabilities=True. With alpha it holds 16 MB of logits
    and a batch at a time; all, in the precision of the model, for a wish, for references other than
    "model" and for directions of your own. With `unit`, the first axis of batches holds the images,
    sentences or other units. For a wish in groups, see `collect_logits`.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import decalibrate_model
    >>> loader = [(torch.eye(3), torch.tensor([0, 1, 2]))]
    >>> decalibrate_model(torch.nn.Identity(), loader, alpha=0.9)
    Decalibrator(alpha=0.9, likelihood='mean', reference='model', box='joint'), fitted on 3 ...
    """
    check_keywords(settings, "decal.torch.decalibrate_model", decalibrate_model, Decalibrator)
    wish: dict[str, Any] = {"alpha": alpha, "miss": miss, "width": width, "hold": hold, "per": per}
    wish |= {"unit": unit, "tolerate": tolerate, "seed": seed}
    Wish.of(**wish, settings=settings)  # or the model would run for nothing
    decalibrator = Decalibrator(0.5 if alpha is None else alpha, **settings)
    names = None if classes is None else tuple(classes)
    given: dict[str, Any] = {"dim": dim, "ignore_index": ignore_index}
    with evaluating(model, device) as home:
        batches = labelled_logits(model, loader, home, progress, votes=votes, **given)
        if alpha is None or not _streams(decalibrator):
            return decalibrate_batches(
                list(batches), ignore_index, **wish, classes=names, **settings
            )
        for logits, labels in _chunks(batch.rows(ignore_index)[:2] for batch in batches):
            decalibrator.partial_fit(logits, labels, classes=names)
    return decalibrator


def decalibrate_batches(
    batches: Sequence[Batch], ignore_index: int | None, **wish: Any
) -> Decalibrator:
    """As `decal.decalibrate`, of batches that a model gave."""
    logits, labels, dim = joined(batches)
    return decalibrate(logits, labels, dim=dim, ignore_index=ignore_index, **wish)


def evaluate_model(
    model: Callable[..., Any] | None,
    decalibrator: Any,
    loader: Iterable[Any],
    *,
    dim: int | None = None,
    ignore_index: int | None = None,
    votes: str | None = None,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> Evaluation:
    """How good the sets of a decalibrator are on labelled batches that it has not seen.

    Classes are kept by the rule of its promise, or else those that are E-admissible. Holds one
    batch of logits, and 32 MB of sets, at a time. If the promise is about images, or other units,
    these are the first axis of the logits. With `votes`, every input counts once: see `Evaluation`.

    Parameters
    ----------
    model, loader, dim, ignore_index, votes, device, progress
        As for `collect_logits`.
    decalibrator : Decalibrator
        Or another model of decal that tells classes apart; not one that promises by groups.

    Examples
    --------
    >>> import torch, decal
    >>> from decal.torch import evaluate_model
    >>> known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    >>> d = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    >>> loader = [(torch.tensor(new.logits), torch.tensor(new.labels))]
    >>> found = evaluate_model(None, d, loader)
    >>> print(f"{found.miss_rate:.3f} missed, {found.set_size:.2f} classes kept")
    0.106 missed, 2.12 classes kept
    """
    require_decalibrator(decalibrator)
    with evaluating(model, device) as home:
        given: dict[str, Any] = {"dim": dim, "ignore_index": ignore_index, "votes": votes}
        batches = labelled_logits(model, loader, home, progress, **given)
        return Evaluation.total(evaluations(decalibrator, batches, ignore_index))


def fit(
    decalibrator: Decalibrator,
    logits: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
    dim: int | None = None,
    ignore_index: int | None = None,
) -> Decalibrator:
    """Fit a Decalibrator on tensors as `decalibrator.fit` does, copying 16 MB of them at most.

    Float32 or float64 on the CPU is not copied at all. References other than "model", directions of
    your own, and logits with more axes than two or labels to ignore, need all logits at once on the
    CPU. Parameters are those of `Decalibrator.fit`, the logits on any device; the decalibrator is
    returned.
    """
    names = None if classes is None else tuple(classes)
    shared = not isinstance(logits, Tensor) or (
        logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
    )
    whole = shared or logits.ndim != 2 or 0 in logits.shape or not _streams(decalibrator)
    whole = whole or isinstance(labels, Votes)
    if whole or dim is not None or ignore_index is not None:
        on_host = logits if shared else at_least_float32(logits.detach()).cpu()
        given: dict[str, Any] = {"sample_weight": sample_weight, "classes": names}
        return decalibrator.fit(on_host, labels, **given, dim=dim, ignore_index=ignore_index)
    n, K = logits.shape
    rows = max(1, CHUNK_ELEMENTS // K)
    starts = range(0, n, rows)
    labels = label_tensor(labels)
    check_labels(labels, rows=n, classes=K)
    weights = check_weights(sample_weight, rows=n)
    for start in starts:  # before any chunk is learnt from, so that a refusal changes nothing
        check_rows(logits[start : start + rows].detach(), Place(start))
    learn = decalibrator.fit
    for start in starts:
        chunk = slice(start, start + rows)
        w = None if weights is None else weights[chunk]
        if w is None or w.any():
            z = at_least_float32(logits[chunk].detach().cpu())
            learn(z, labels[chunk], sample_weight=w, classes=names)
            learn = decalibrator.partial_fit
    return decalibrator


def _streams(decalibrator: Decalibrator) -> bool:
    """Whether the decalibrator may learn from one chunk after the other."""
    return decalibrator.reference == "model" and all(d.streams for d in decalibrator.directions)


def _chunks(batches: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Logits and labels of consecutive batches, joined until there are CHUNK_ELEMENTS logits."""
    held: list[Sequence[Any]] = []
    for batch in batches:
        held.append(batch)
        if sum(logits.numel() for logits, _ in held) >= CHUNK_ELEMENTS:
            yield [together(parts) for parts in zip(*held, strict=True)]
            held = []
    if held:
        yield [together(parts) for parts in zip(*held, strict=True)]


def __getattr__(name: str) -> Any:
    if name not in ON_FIRST_USE:
        raise AttributeError(f"module 'decal.torch' has no attribute {name!r}")
    return getattr(import_module(f"decal.torch.{ON_FIRST_USE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
