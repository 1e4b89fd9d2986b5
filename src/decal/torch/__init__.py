"""PyTorch: logits of a model and a loader, and credal sets as a layer of a network.

`collect_logits` and `decalibrate_model` run a model over labelled batches; `fit` learns from
tensors; `CredalHead` is `Decalibrator.predict` as a module that trains, compiles and exports.
Imports from `_base`, `io`, `directions` and `decalibrator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from decal._base.checks import DEFAULT_ALPHA, check_keywords, check_labels, check_weights
from decal._base.errors import needs
from decal._base.inputs import look_like_probabilities, warn_of_probabilities
from decal.decalibrator import Decalibrator

with needs("torch", message="decal.torch needs PyTorch: pip install 'decal[torch]'"):
    import torch
    from torch import Tensor

from decal.torch._head import CredalHead
from decal.torch.batches import (
    at_least_float32,
    check_rows,
    evaluating,
    label_tensor,
    labelled_logits,
    require_none_ignored,
)

__all__ = ["CredalHead", "collect_logits", "decalibrate_model", "fit"]

SOFTMAX = (
    "If the network ends in Softmax, cut that layer off, or pass probabilities=True to what learns "
    "from its outputs"
)

CHUNK_ELEMENTS = 1 << 22
"""Logits learnt from at once: 16 MB of float32."""


# Learning from a model and a loader, or from tensors


def collect_logits(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> tuple[Tensor, Tensor]:
    """The logits (n, K) of all inputs of a loader, and their labels (n,), on the CPU.

    A module runs in evaluation mode and without gradients; afterwards every part of it is in the
    mode it was in before. Half precision comes back as float32.

    Parameters
    ----------
    model : callable
        A module, or any function, that returns a tensor (n, K), or an object with such a tensor as
        `.logits`, as models of Hugging Face do. A function hides its network: put that into
        evaluation mode yourself, or dropout makes every run another one.
    loader : iterable
        Yields batches (inputs, labels), or mappings with the key "labels"; labels are integers
        0..K-1, (n,). Inputs that are a mapping are passed by keyword, a tuple or list by position.
    device : torch.device or str, optional
        The model is moved there, and back at the end. By default it runs where it is.
    progress : bool, optional
        Whether to draw a bar on stderr, if that is a terminal and rich is installed.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import collect_logits
    >>> loader = [(torch.eye(3), torch.tensor([0, 1, 2])), (torch.ones(1, 3), torch.tensor([2]))]
    >>> logits, labels = collect_logits(torch.nn.Linear(3, 4), loader)
    >>> logits.shape, labels
    (torch.Size([4, 4]), tensor([0, 1, 2, 2]))
    """
    with evaluating(model, device) as home:
        batches = list(labelled_logits(model, loader, home, progress))
    logits, labels = _joined(batches)
    if look_like_probabilities(logits.numpy()):
        warn_of_probabilities("the model's outputs", SOFTMAX)
    return logits, labels


def decalibrate_model(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    alpha: float = DEFAULT_ALPHA,
    classes: Iterable[Any] | None = None,
    device: torch.device | str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on a model's logits of labelled batches.

    It learns from one chunk of logits after the other: no more than a chunk (16 MB) and a batch are
    in memory at a time, whatever the length of the loader. References other than "model", and
    directions of your own, need all logits at once; these are then collected first.

    Parameters
    ----------
    model, loader, device, progress
        As for `collect_logits`. The loader should yield data that the model was not trained on.
    alpha : float
        The level, as for `Decalibrator`.
    classes : iterable, optional
        The names of the K classes.
    **settings
        Further settings of `Decalibrator`. A network that ends in Softmax takes probabilities=True:
        without it, an InputWarning says so. One that ends in LogSoftmax needs nothing, as
        log-probabilities are logits.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import decalibrate_model
    >>> loader = [(torch.eye(3), torch.tensor([0, 1, 2]))]
    >>> decalibrate_model(torch.nn.Identity(), loader, alpha=0.9)
    Decalibrator(alpha=0.9, likelihood='mean', reference='model', box='joint'), fitted on 3 ...
    """
    check_keywords(settings, "decal.torch.decalibrate_model", decalibrate_model, Decalibrator)
    decalibrator = Decalibrator(alpha, **settings)
    names = None if classes is None else tuple(classes)
    with evaluating(model, device) as home:
        batches = labelled_logits(model, loader, home, progress)
        if not _streams(decalibrator):
            return decalibrator.fit(*_joined(list(batches)), classes=names)
        for logits, labels in _chunks(batches):
            decalibrator.partial_fit(logits, labels, classes=names)
    return decalibrator


def fit(
    decalibrator: Decalibrator,
    logits: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
) -> Decalibrator:
    """Fit a Decalibrator on tensors, on any device, without copying more than a chunk of them.

    The result is that of `decalibrator.fit`. Tensors of float32 or float64 on the CPU share their
    memory with NumPy and are not copied at all. Others are copied in chunks of 16 MB, half
    precision as float32. References other than "model", and directions of your own, need all
    logits at once, as float32 or float64 on the CPU.

    Parameters
    ----------
    decalibrator : Decalibrator
        What it learnt before is forgotten.
    logits : (n, K) tensor
        On any device.
    labels, sample_weight, classes
        As for `Decalibrator.fit`.

    Returns
    -------
    Decalibrator
        The one that was given.
    """
    if isinstance(labels, Tensor):
        require_none_ignored(labels, 0)
    names = None if classes is None else tuple(classes)
    if not isinstance(logits, Tensor):
        return decalibrator.fit(logits, labels, sample_weight=sample_weight, classes=names)
    shared = logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
    if shared or not _streams(decalibrator) or logits.ndim != 2 or 0 in logits.shape:
        on_host = logits if shared else at_least_float32(logits.detach()).cpu()
        return decalibrator.fit(on_host, labels, sample_weight=sample_weight, classes=names)
    n, K = logits.shape
    rows = max(1, CHUNK_ELEMENTS // K)
    starts = range(0, n, rows)
    labels = label_tensor(labels)
    check_labels(labels, rows=n, classes=K)
    weights = check_weights(sample_weight, rows=n)
    for start in starts:  # before any chunk is learnt from, so that a refusal changes nothing
        check_rows(logits[start : start + rows].detach(), start)
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


def _chunks(batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Consecutive batches joined until they hold CHUNK_ELEMENTS logits."""
    held: list[tuple[Tensor, Tensor]] = []
    elements = 0
    for batch in batches:
        held.append(batch)
        elements += batch[0].numel()
        if elements >= CHUNK_ELEMENTS:
            yield _joined(held)
            held, elements = [], 0
    if held:
        yield _joined(held)


def _joined(batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Consecutive batches as one."""
    logits, labels = zip(*batches, strict=True)
    # Outside of inference mode: what is made here may enter other computations.
    return torch.cat(logits), torch.cat(labels)
