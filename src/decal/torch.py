"""The door for PyTorch: logits of a model and a loader, and credal sets as a layer of a network.

`collect_logits` and `decalibrate_model` run a model over labelled batches; `fit` learns from
tensors; `CredalHead` is `Decalibrator.predict` as a module that trains, compiles and exports.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from decal._base.checks import check_alpha, check_weights
from decal.decalibrator import Decalibrator
from decal.directions._direction import require

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        "decal.torch needs PyTorch: pip install 'decal[torch]'", name="torch"
    ) from error


__all__ = ["CredalHead", "collect_logits", "decalibrate_model", "fit"]

CHUNK_ELEMENTS = 1 << 22
"""Logits learnt from at once: 16 MB of float32."""


# From a model and a loader to logits


def collect_logits(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> tuple[Tensor, Tensor]:
    """The logits of all inputs of a loader, and their labels.

    The model runs in evaluation mode and without gradients; afterwards every module is in the mode
    it was in before.

    Parameters
    ----------
    model : a module, or any function, that returns a tensor (n, K), or an object with such a tensor
        as `.logits`, as models of Hugging Face do.
    loader : of batches (inputs, labels), or mappings with the key "labels"; labels are integers
        0..K-1, (n,). Inputs that are a mapping are passed by keyword, a tuple or list by position.
    device : where to run. By default where the model is; otherwise the model is moved there, and
        back at the end.
    progress : draw a bar on stderr, if that is a terminal and tqdm or rich is installed.

    Returns
    -------
    logits (n, K), labels (n,) : on the CPU; half precision comes back as float32.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import collect_logits
    >>> loader = [(torch.eye(3), torch.tensor([0, 1, 2])), (torch.ones(1, 3), torch.tensor([2]))]
    >>> logits, labels = collect_logits(torch.nn.Linear(3, 4), loader)
    >>> logits.shape, labels
    (torch.Size([4, 4]), tensor([0, 1, 2, 2]))
    """
    with _evaluating(model, device) as place:
        batches = list(_batches(model, loader, place, progress))
    logits, labels = zip(*batches, strict=True)
    # Outside of inference mode: what is made here may enter other computations.
    return torch.cat(logits), torch.cat(labels)


def decalibrate_model(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    alpha: float,
    classes: Iterable[Any] | None = None,
    device: torch.device | str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on what a model says about labelled batches.

    Logits are learnt from as they come: no more than a chunk of them (16 MB) and a batch is held in
    memory, whatever the length of the loader. Only reference="best" and directions of your own need
    all logits at once; they are then collected first.

    Parameters
    ----------
    model, loader, device, progress : as for `collect_logits`. The loader should hold data that the
        model was not trained on.
    alpha, **settings : as for `Decalibrator`.
    classes : K names, optional.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import decalibrate_model
    >>> loader = [(torch.eye(3), torch.tensor([0, 1, 2]))]
    >>> decalibrate_model(torch.nn.Identity(), loader, alpha=0.9)
    Decalibrator(alpha=0.9, likelihood='mean', reference='model', box='joint'), fitted on 3 ...
    """
    decalibrator = Decalibrator(alpha, **settings)
    names = None if classes is None else tuple(classes)
    if not _streams(decalibrator):
        logits, labels = collect_logits(model, loader, device=device, progress=progress)
        return decalibrator.fit(logits, labels, classes=names)
    with _evaluating(model, device) as place:
        for logits, labels in _chunks(_batches(model, loader, place, progress)):
            decalibrator.partial_fit(logits, labels, classes=names)
    return decalibrator


def fit(
    decalibrator: Decalibrator,
    logits: Tensor,
    labels: Tensor,
    *,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
) -> Decalibrator:
    """Fit a Decalibrator on tensors, on any device, without copying more than a chunk of them.

    The result is that of `decalibrator.fit`. Tensors of float32 or float64 on the CPU share their
    memory with NumPy and are not copied at all; others come over in chunks of 16 MB, half precision
    as float32. Only reference="best" and directions of your own need all logits at once, as
    float32 or float64 on the CPU.

    Parameters
    ----------
    logits, labels : (n, K) and (n,).
    sample_weight, classes : as for `Decalibrator.fit`.

    Returns
    -------
    The same decalibrator.
    """
    logits = torch.as_tensor(logits)
    shared = logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
    names = None if classes is None else tuple(classes)
    if shared or not _streams(decalibrator) or logits.ndim != 2 or 0 in logits.shape:
        on_host = logits if shared else _at_least_float32(logits.detach()).cpu()
        return decalibrator.fit(on_host, labels, sample_weight=sample_weight, classes=names)
    n, K = logits.shape
    rows = max(1, CHUNK_ELEMENTS // K)
    starts = range(0, n, rows)
    labels = _label_tensor(labels)
    _check_labels(labels, n, K, 0)
    weights = check_weights(sample_weight, rows=n)
    for start in starts:  # all of them before anything is learnt: nothing is half-built
        _check_finite(logits[start : start + rows].detach(), start)
    learn = decalibrator.fit
    for start in starts:
        chunk = slice(start, start + rows)
        w = None if weights is None else weights[chunk]
        if w is None or w.any():
            z = _at_least_float32(logits[chunk].detach().cpu())
            learn(z, labels[chunk], sample_weight=w, classes=names)
            learn = decalibrator.partial_fit
    return decalibrator


def _streams(decalibrator: Decalibrator) -> bool:
    """Whether chunks may be learnt from one by one."""
    return decalibrator.reference == "model" and all(d.streams for d in decalibrator.directions)


@contextmanager
def _evaluating(
    model: Callable[..., Any], device: torch.device | str | None
) -> Iterator[torch.device | None]:
    """Evaluation mode, on a device; yields where inputs belong. Both are undone at the end."""
    if not isinstance(model, nn.Module):
        yield None if device is None else torch.device(device)
        return
    modes = [(module, module.training) for module in model.modules()]
    tensor = next(model.parameters(), next(model.buffers(), None))
    home = torch.device("cpu") if tensor is None else tensor.device
    try:
        if device is not None:
            model.to(device)
        model.eval()
        yield home if device is None else torch.device(device)
    finally:
        for module, training in modes:
            module.training = training
        if device is not None:
            model.to(home)


def _batches(
    model: Callable[..., Any], loader: Iterable[Any], device: torch.device | None, progress: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Checked logits (n, K) and labels (n,) of every batch, on the CPU."""
    row, K = 0, None
    for batch in _watched(loader, progress):
        inputs, y = _split(batch)
        labels = _label_tensor(y)
        # Entered for each batch: a generator must not leave its caller in inference mode.
        with torch.inference_mode():
            logits = _logits_of(_run(model, _moved(inputs, device)), len(labels))
            _check_finite(logits, row)
            logits = _at_least_float32(logits).cpu()
        if K is not None and logits.shape[1] != K:
            raise ValueError(
                f"model must return {K} columns for every batch, as for the first: "
                f"got {logits.shape[1]} from row {row} on."
            )
        K = logits.shape[1]
        _check_labels(labels, len(logits), K, row)
        row += len(logits)
        yield logits, labels
    if K is None:
        raise ValueError(
            "loader must yield at least one batch: got none. An iterator yields its batches once."
        )


def _chunks(batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Consecutive batches joined until they hold CHUNK_ELEMENTS logits."""
    held: list[tuple[Tensor, Tensor]] = []
    elements = 0
    for batch in batches:
        held.append(batch)
        elements += batch[0].numel()
        if elements >= CHUNK_ELEMENTS:
            yield torch.cat([z for z, _ in held]), torch.cat([y for _, y in held])
            held, elements = [], 0
    if held:
        yield torch.cat([z for z, _ in held]), torch.cat([y for _, y in held])


def _watched(loader: Iterable[Any], progress: bool) -> Iterable[Any]:
    """The loader, with a progress bar if one is wanted, can be drawn and will be seen."""
    if not progress or not sys.stderr.isatty():
        return loader
    try:
        total = len(loader)  # type: ignore[arg-type]
    except TypeError:
        total = None
    for package in ("tqdm", "rich.progress"):
        try:
            bars = importlib.import_module(package)
        except ModuleNotFoundError:
            continue
        bar: Iterable[Any]
        if package == "tqdm":
            bar = bars.tqdm(loader, total=total, desc="logits", unit="batch")
        else:
            console = importlib.import_module("rich.console").Console(stderr=True)
            bar = bars.track(loader, "logits", total=total, console=console)
        return bar
    return loader


def _split(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, Mapping):
        if "labels" not in batch:
            raise ValueError(f"loader must yield mappings with 'labels': got keys {list(batch)}.")
        return {name: v for name, v in batch.items() if name != "labels"}, batch["labels"]
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    size = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
    raise ValueError(
        "loader must yield (inputs, labels) or mappings with 'labels': "
        f"got a {type(batch).__name__}{size}."
    )


def _moved(value: Any, device: torch.device | None) -> Any:
    if device is None:
        return value
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {name: _moved(v, device) for name, v in value.items()}
    if isinstance(value, tuple | list):
        return [_moved(v, device) for v in value]
    return value


def _run(model: Callable[..., Any], inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    return model(inputs)


def _logits_of(output: Any, rows: int) -> Tensor:
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise ValueError(
            "model must return a tensor of logits, or an object with such a tensor as .logits: "
            f"got a {type(output).__name__}. Wrap the model in a function that picks them."
        )
    if logits.ndim != 2 or logits.shape[0] != rows:
        raise ValueError(
            f"model must return logits of shape ({rows}, K), a row per label and a column per "
            f"class: got shape {tuple(logits.shape)}."
        )
    if logits.shape[1] < 2:
        raise ValueError(
            "model must return one column per class, two or more: "
            f"got shape {tuple(logits.shape)}. "
            "For a binary classifier with one score, stack it as [zeros, score]."
        )
    return logits


def _label_tensor(labels: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(labels).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"labels must be integers: got {labels!r:.60}. Turn names into column numbers first."
        ) from error
    if tensor.ndim != 1:
        raise ValueError(
            "labels must be a vector with one label per row of logits: "
            f"got shape {tuple(tensor.shape)}."
        )
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"labels must be integers: got dtype {tensor.dtype}.")
    return tensor.to(torch.int64)


def _check_labels(labels: Tensor, rows: int, classes: int, first_row: int) -> None:
    """As `decal._base.checks.check_labels`, but rows are counted from the start of all data."""
    if len(labels) != rows:
        raise ValueError(f"labels must be {rows}, one per row of logits: got {len(labels)}.")
    wrong = ((labels < 0) | (labels >= classes)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(
            f"labels must lie in 0 to {classes - 1}, the columns of logits: "
            f"got {int(labels[at])} at index {first_row + at}."
        )


def _check_finite(logits: Tensor, first_row: int) -> None:
    """As in `decal._base.checks.check_logits`, but rows are counted from the start of all data."""
    finite = torch.isfinite(logits)
    if not finite.all():
        row, column = (int(i) for i in (~finite).nonzero()[0])
        raise ValueError(
            f"logits must be finite: got {float(logits[row, column])} at index "
            f"({first_row + row}, {column}). Mask or repair such rows first."
        )


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


# From logits to intervals, as a layer


class CredalHead(nn.Module):
    """Logits (..., K) to the bounds (lower, upper) of every probability, (..., K) each.

    What `Decalibrator.predict` computes, at one alpha, out of PyTorch operations: put it behind a
    classifier and the network predicts credal sets. Works in the precision of the logits, at least
    float32; infinite ends and logits of ±1e4 are fine in either. Does not check its input: NaN in,
    NaN out.

    Parameters
    ----------
    decalibrator : a fitted Decalibrator, with directions that export, as all of decal's do.
    alpha : level in [0, 1]; by default the decalibrator's.

    Attributes
    ----------
    center, scale : (K,) and () buffers, the reference model.
    class_lower, class_upper, temperature_lower, temperature_upper : buffers, the endpoints of each
        direction, as in `Decalibrator.steps`.
    alpha, joint, directions : as they were at construction. Not in the state_dict: to load one,
        build the head from a decalibrator with the same settings first.

    Notes
    -----
    O(K) time and memory per row; with "temperature" as much as some 33 softmaxes.

    Class shifts are exact: bounds agree with `predict` to 1e-12 in float64 and, for logits that
    differ by less than 20, to 1e-6 in float32. Along the temperature the ends are exact, and the
    highest probability between them is interpolated (see `_peaks`): within 2e-6 of the true one on
    all rows we tried, and typically 1e-8. The documentation has a table.

    Gradients are finite everywhere and those of the function wherever it is differentiable. The
    ends are constants. Under an infinite scale a bound is 0 or 1, but for ties, and its gradient 0.

    Buffers are float64 until you say otherwise, so that the head is as exact as the logits it is
    given; below float32, and on devices without float64, they are kept in float32.

    Examples
    --------
    >>> import decal, torch
    >>> from decal.torch import CredalHead
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> lower, upper = CredalHead(d)(torch.tensor([[0.5, 0.0]]))
    >>> lower.numpy().round(3), upper.numpy().round(3)
    (array([[0.179, 0.245]], dtype=float32), array([[0.755, 0.821]], dtype=float32))
    """

    center: Tensor
    scale: Tensor

    def __init__(self, decalibrator: Decalibrator, alpha: float | None = None) -> None:
        super().__init__()
        advice = "Use Decalibrator.predict."
        require(decalibrator.directions, "exports", "a CredalHead", advice)
        reference = decalibrator.reference_model
        self.alpha = decalibrator.alpha if alpha is None else check_alpha(alpha)
        self.joint = decalibrator.box == "joint"
        self.directions = decalibrator.directions
        self.rescaled = reference.scale != 1
        self.register_buffer("center", torch.tensor(reference.center))
        self.register_buffer("scale", torch.tensor(reference.scale, dtype=torch.float64))
        for direction in self.directions:
            endpoints = decalibrator.steps(direction.name, self.alpha)
            for name in ("lower", "upper"):
                values = torch.tensor(getattr(endpoints, name), dtype=torch.float64)
                self.register_buffer(f"{direction.name}_{name}", values)

    @classmethod
    def from_file(cls, path: str | Path, alpha: float | None = None) -> Self:
        """A head from a file that `Decalibrator.save` wrote."""
        return cls(Decalibrator.load(path), alpha)

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds (..., K) of the probabilities, from logits (..., K)."""
        if logits.shape[-1] != len(self.center):
            raise ValueError(
                f"logits must have {len(self.center)} columns, one per class seen by fit: "
                f"got shape {tuple(logits.shape)}."
            )
        z = _at_least_float32(logits)
        center = self.center.to(z.dtype)
        absent = torch.isneginf(center)
        # Relative to the largest logit, which changes no probability: so rounding depends on the
        # differences of logits only, and constants need no gradient.
        z = z - z.masked_fill(absent, -torch.inf).amax(-1, keepdim=True).detach()
        if self.rescaled:
            z = z * self.scale.to(z.dtype)
        z = z + center.masked_fill(absent, 0.0)
        low = high = torch.softmax(z.masked_fill(absent, -torch.inf), -1)
        for direction in self.directions:
            lower, upper = (
                self.get_buffer(f"{direction.name}_{name}").to(z.dtype)
                for name in ("lower", "upper")
            )
            low, high = direction.widen_tensors(
                low, high, z, absent, lower=lower, upper=upper, joint=self.joint
            )
        return low, high.clamp(max=1.0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the buffers as .to() and others ask, but never below float32."""

        def moved(buffer: Tensor) -> Tensor:
            try:
                found = fn(buffer)
            except TypeError:  # a device without float64, such as Apple's
                found = fn(buffer.float())
            return found if found.dtype.itemsize >= 4 else buffer.to(found.device, torch.float32)

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        """Shown by repr."""
        box = "joint" if self.joint else "own"
        names = ", ".join(map(str, self.directions))
        return f"{len(self.center)} classes, alpha={self.alpha:g}, box={box!r}, directions: {names}"
