"""PyTorch: logits of a model and a loader, and credal sets as a layer of a network.

Imports from `_base`, `schema`, `credal`, `io`, `directions`, `decalibrator` and `choose`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from decal._base.errors import needs
from decal._base.row_checks import check_labels, check_weights
from decal._base.settings import check_keywords
from decal.choose import decalibrate, one_wish
from decal.decalibrator import Decalibrator
from decal.schema import look_like_probabilities, warn_of_probabilities

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

CHUNK_ELEMENTS = 1 << 22  # logits learnt from at once: 16 MB of float32


def collect_logits(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> tuple[Tensor, Tensor]:
    """The logits (n, K) of all inputs of a loader, and their labels (n,), on the CPU.

    Parameters
    ----------
    model : callable
        Returns a tensor (n, K), or an object with one as `.logits`. A module is put into evaluation
        mode meanwhile; a network inside of another function is not. Half becomes float32.
    loader : iterable
        Yields batches (inputs, labels), or mappings with the key "labels"; labels are integers
        0..K-1, (n,). Inputs that are a mapping are passed by keyword, a tuple or list by position.
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
    with evaluating(model, device) as home:
        batches = list(labelled_logits(model, loader, home, progress))
    logits, labels = _joined(batches)
    if look_like_probabilities(logits.numpy()):
        remedy = "If the network ends in Softmax, cut that layer off, or pass probabilities=True"
        warn_of_probabilities("the model's outputs", f"{remedy} to what learns from its outputs")
    return logits, labels


def decalibrate_model(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    alpha: float | None = None,
    miss: float | None = None,
    width: float | None = None,
    hold: float | None = None,
    per: str | None = None,
    classes: Iterable[Any] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on a model's logits of labelled batches.

    Parameters are those of `collect_logits` and `decal.decalibrate`, of which exactly one of alpha,
    miss, width and hold is needed: the loader should yield data that the model was not trained on,
    and a network that ends in Softmax takes probabilities=True. With alpha it holds 16 MB of logits
    and a batch at a time; all, for a wish, for references other than "model" and for directions of
    your own. For a wish in groups, see `collect_logits`.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import decalibrate_model
    >>> loader = [(torch.eye(3), torch.tensor([0, 1, 2]))]
    >>> decalibrate_model(torch.nn.Identity(), loader, alpha=0.9)
    Decalibrator(alpha=0.9, likelihood='mean', reference='model', box='joint'), fitted on 3 ...
    """
    check_keywords(settings, "decal.torch.decalibrate_model", decalibrate_model, Decalibrator)
    wish: dict[str, Any] = {"alpha": alpha, "miss": miss, "width": width, "hold": hold}
    one_wish(**wish)  # or the model would run for nothing
    decalibrator = Decalibrator(0.5 if alpha is None else alpha, **settings)
    names = None if classes is None else tuple(classes)
    with evaluating(model, device) as home:
        batches = labelled_logits(model, loader, home, progress)
        if alpha is None or per is not None or not _streams(decalibrator):
            logits, labels = _joined(list(batches))
            return decalibrate(
                logits, labels, **wish, per=per, classes=names, seed=seed, **settings
            )
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
    """Fit a Decalibrator on tensors as `decalibrator.fit` does, copying 16 MB of them at most.

    Float32 or float64 on the CPU is not copied at all. References other than "model", and
    directions of your own, need all logits at once on the CPU. Parameters are those of
    `Decalibrator.fit`, the logits on any device; the decalibrator is returned.
    """
    if isinstance(labels, Tensor):
        require_none_ignored(labels, 0)
    names = None if classes is None else tuple(classes)
    shared = not isinstance(logits, Tensor) or (
        logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
    )
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
    for batch in batches:
        held.append(batch)
        if sum(logits.numel() for logits, _ in held) >= CHUNK_ELEMENTS:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Consecutive batches as one."""
    logits, labels = zip(*batches, strict=True)
    # Outside of inference mode: what is made here may enter other computations.
    return torch.cat(logits), torch.cat(labels)
