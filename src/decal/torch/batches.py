"""Running PyTorch models over batches, for `decal.torch` and for trainers of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from decal._base.errors import InputError, Place
from decal._base.row_checks import SEVERAL_LABELS, check_labels, check_logits, to_numpy
from decal.io.progress import on_terminal, tracked

__all__ = [
    "at_least_float32",
    "check_rows",
    "evaluating",
    "label_tensor",
    "labelled_logits",
    "logits_of",
    "model_logits",
    "move",
    "require_classes_last",
    "require_none_ignored",
    "split_batch",
]


# Running a model


@contextmanager
def evaluating(
    model: Callable[..., Any], device: torch.device | str | None = None
) -> Iterator[torch.device | None]:
    """A model in evaluation mode, on a device, until the end; yields the device of its inputs."""
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


def labelled_logits(
    model: Callable[..., Any], loader: Iterable[Any], device: torch.device | None, progress: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Checked logits (n, K) and labels (n,) of every batch, on the CPU."""
    row, K = 0, None
    batches = tracked(loader, "logits", unit="batches", show=progress and on_terminal())
    for number, batch in enumerate(batches):
        inputs, y = split_batch(batch)
        labels = label_tensor(y)
        require_none_ignored(labels, row)
        # Entered for each batch: a generator must not leave its caller in inference mode.
        with torch.inference_mode(), _explained(inputs, number):
            logits = model_logits(model, move(inputs, device), len(labels))
            check_rows(logits, row)
            logits = at_least_float32(logits).cpu()
        if K is not None and logits.shape[1] != K:
            rule = f"return {K} columns for every batch, as for the first"
            raise InputError("model", rule, f"{logits.shape[1]} from row {row} on")
        K = logits.shape[1]
        check_labels(labels, rows=len(logits), classes=K, place=Place(row))
        row += len(logits)
        yield logits, labels
    if K is None:
        remedy = "An iterator yields its batches once."
        raise InputError("loader", "yield at least one batch", "none", remedy)


@contextmanager
def _explained(inputs: Any, number: int) -> Iterator[None]:
    """Complaints of a model about the types of its inputs say what the inputs are."""
    try:
        yield
    except (TypeError, AttributeError) as error:
        several = inputs if isinstance(inputs, tuple | list) else [inputs]
        given = [("", value) for value in several]
        advice = "Wrap the model in a function that takes them."
        if isinstance(inputs, Mapping):
            given = [(f"{name}=", value) for name, value in inputs.items()]
            advice = "A mapping is passed by keyword: leave out what the model does not take."
        if any(isinstance(value, np.ndarray) for _, value in given):
            advice = "Turn arrays into tensors, as a DataLoader does."
        shown = [name + _described(value) for name, value in given]
        raise TypeError(
            f"model must take the inputs that loader yields: got {', '.join(shown)} in batch "
            f"{number}, and {type(error).__name__}: {str(error).rstrip('.')}. {advice}"
        ) from error


def _described(value: Any) -> str:
    """The type of an input, and its shape."""
    shape = getattr(value, "shape", None)
    return type(value).__name__ + ("" if shape is None else f" {tuple(shape)}")


def model_logits(model: Callable[..., Any], inputs: Any, rows: int) -> Tensor:
    """(rows, K) logits that a model returns for one batch of inputs."""
    if isinstance(inputs, Mapping):
        output = model(**inputs)
    elif isinstance(inputs, tuple | list):
        output = model(*inputs)
    else:
        output = model(inputs)
    return logits_of(output, rows)


# Batches and tensors


def split_batch(batch: Any) -> tuple[Any, Any]:
    """Inputs and labels of a batch: a pair, or a mapping with the key "labels"."""
    if isinstance(batch, Mapping):
        if "labels" not in batch:
            raise InputError("loader", "yield mappings with 'labels'", f"keys {list(batch)}")
        inputs = {name: v for name, v in batch.items() if name != "labels"}
        return inputs, _several(batch["labels"])
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], _several(batch[1])
    size = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
    rule = "yield (inputs, labels) or mappings with 'labels'"
    raise InputError("loader", rule, f"a {type(batch).__name__}{size}")


def _several(labels: Any) -> Any:
    """The labels; InputError for the one label of a single example."""
    if isinstance(labels, int) or getattr(labels, "ndim", None) == 0:
        fact = "single examples, with one label each"
        remedy = "Wrap the data set in a torch.utils.data.DataLoader."
        raise InputError("loader", "yield batches", fact, remedy)
    return labels


def move(inputs: Any, device: torch.device | None) -> Any:
    """Inputs on a device: tensors, and those inside of mappings, tuples and lists."""
    if device is None:
        return inputs
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, Mapping):
        return {name: move(value, device) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return [move(value, device) for value in inputs]
    return inputs


def at_least_float32(tensor: Tensor) -> Tensor:
    """A tensor as it is, but half precision as float32."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


# Checks of tensors. Those of arrays are in `decal._base.row_checks`.


def logits_of(output: Any, rows: int) -> Tensor:
    """(rows, K) logits in what a model returned: the output itself, or its `.logits`."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        rule = "return a tensor of logits, or an object with such a tensor as .logits"
        remedy = "Wrap the model in a function that picks them."
        raise InputError("model", rule, f"a {type(output).__name__}", remedy)
    fact, remedy = f"shape {tuple(logits.shape)}", ""
    if logits.ndim != 2 or logits.shape[0] != rows:
        if logits.ndim > 2:
            remedy = "If axis 1 has the classes, wrap the model in a function that returns "
            remedy += "logits.movedim(1, -1).flatten(0, -2)."
        rule = f"return logits of shape ({rows}, K), a row per label and a column per class"
        raise InputError("model", rule, fact, remedy)
    if logits.shape[1] < 2:
        remedy = "For a binary classifier with one score, stack it as [zeros, score]."
        raise InputError("model", "return one column per class, two or more", fact, remedy)
    return logits


def require_real_tensor(logits: Any) -> None:
    """TypeError about anything but a tensor of real numbers."""
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"logits must be a tensor: got a {type(logits).__name__}. Use torch.as_tensor, or the "
            ".logits of what a model returned."
        )
    if logits.is_complex():
        raise TypeError(f"logits must be real numbers: got dtype {logits.dtype}.")


def require_classes_last(logits: Any, K: int) -> None:
    """InputError about what are not clearly logits (..., K); dynamic axes may be anything."""
    require_real_tensor(logits)
    shape: tuple[Any, ...] = logits.shape
    *others, columns = shape or (None,)
    exporting = getattr(torch.compiler, "is_exporting", bool)()  # PyTorch 2.7 and later tell
    if exporting and torch.compiler.is_dynamo_compiling():  # strictly: any axis may be dynamic
        others = []
    alike = [axis for axis, n in enumerate(others) if not isinstance(n, torch.SymInt) and n == K]
    if columns != K:
        advice = "Use the logits of the same model."
        if alike:
            advice = f"If the classes are axis {alike[0]}, pass logits.movedim({alike[0]}, -1)."
        rule = f"have {K} columns, one per class seen by fit"
        raise InputError("logits", rule, f"shape {tuple(shape)}", advice)
    between = [axis for axis in alike if axis > 0]  # the first axis counts inputs
    if between:
        other, last = between[0], len(shape) - 1
        raise InputError(
            "logits",
            "have classes in the last axis, and no axis between as long",
            f"shape {tuple(shape)}, where axes {other} and {last} have {K} entries",
            f"Make rows of the other axes: logits.movedim({other}, -1).flatten(0, -2) if axis "
            f"{other} has the classes, logits.flatten(0, -2) if the last one has.",
        )


def label_tensor(labels: Any) -> Tensor:
    """(n,) labels as a tensor of int64 on the CPU."""
    given = labels if isinstance(labels, Tensor) else to_numpy(labels, "labels")
    try:
        tensor = torch.as_tensor(given).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        remedy = "Turn names into column numbers first."
        raise InputError("labels", "be integers", f"{labels!r:.60}", remedy) from error
    if tensor.ndim != 1:
        advice = "Flatten them, and let the model return a row of logits per label."
        if tensor.ndim == 2:
            advice = "Use labels.squeeze(1)." if tensor.shape[1] == 1 else SEVERAL_LABELS
        rule = "be a vector with one label per row of logits"
        raise InputError("labels", rule, f"shape {tuple(tensor.shape)}", advice)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise InputError("labels", "be integers", f"dtype {tensor.dtype}")
    return tensor.to(torch.int64)


def require_none_ignored(labels: Tensor, first_row: int) -> None:
    """InputError for labels of rows that losses of PyTorch would leave out."""
    ignored = (labels == -100).flatten().nonzero()
    if len(ignored):
        fact = f"-100 at index {first_row + int(ignored[0])}, which losses of PyTorch ignore"
        rule = "be columns of logits, from 0 on"
        raise InputError("labels", rule, fact, "Leave such rows out.")


def check_rows(logits: Tensor, first_row: int) -> None:
    """InputError about logits that are NaN or inf; their rows start at `first_row` of all data."""
    if not torch.isfinite(logits).all():
        check_logits(logits, place=Place(first_row), masked=True)
