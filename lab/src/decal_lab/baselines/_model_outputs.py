"""The outputs of trained models for inputs, as float64 arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn

from decal.torch.batches import at_least_float32, evaluating, model_logits, move
from decal_lab.checks import Array, check_probabilities, to_numpy

__all__ = ["batch_logits", "ensemble_logits", "evaluate", "member_logits", "model_probabilities"]

BATCH_ROWS = 512
"""The number of inputs per batch, if they are one array or tensor."""


def member_logits(module: nn.Module, inputs: Any) -> Array:
    """(n, K) logits of one module."""
    return np.asarray(ensemble_logits([module], inputs)[:, 0])


def ensemble_logits(modules: Sequence[nn.Module], inputs: Any) -> Array:
    """(n, M, K) logits of several modules, in one pass over the inputs.

    One pass, because a loader may shuffle: rows of two passes would be of different inputs.

    Parameters
    ----------
    modules : sequence of torch.nn.Module
        Run in evaluation mode, without gradients, each on the device where it is; afterwards they
        are in the mode they were in.
    inputs
        An array or a tensor (n, ...); or a loader of batches, with labels or without: (inputs,
        labels), (inputs,), a tensor, or a mapping, whose "labels" are left out.
    """
    return evaluate(batch_logits, modules, inputs)


def batch_logits(module: nn.Module, batch: Any) -> Tensor:
    """(rows, K) logits of one batch of inputs."""
    return model_logits(module, batch, _rows(batch))


def evaluate(
    call: Callable[[nn.Module, Any], Tensor], modules: Sequence[nn.Module], inputs: Any
) -> Array:
    """(n, M, ...) results of `call`, which gets a module and a batch and returns (rows, ...)."""
    parts: list[Array] = []
    row = 0
    with ExitStack() as stack:
        homes = [stack.enter_context(evaluating(module)) for module in modules]
        for batch in _batches(inputs, _precision(modules[0])):
            with torch.inference_mode():
                found = [
                    _to_array(call(module, move(batch, home)))
                    for module, home in zip(modules, homes, strict=True)
                ]
            _check_members(found, row)
            parts.append(np.stack(found, axis=1))
            row += len(found[0])
    if not parts:
        raise ValueError(
            "inputs must hold at least one row: got none. An iterator yields its batches once."
        )
    return np.concatenate(parts)


def model_probabilities(models: Sequence[Any], inputs: Any) -> Array:
    """(n, M, K) probabilities of modules, or of estimators with predict_proba."""
    if all(isinstance(model, nn.Module) for model in models):
        return np.asarray(softmax(ensemble_logits(models, inputs), axis=2))
    found = [
        check_probabilities(model.predict_proba(inputs), name=f"models[{m}].predict_proba(inputs)")
        for m, model in enumerate(models)
    ]
    return np.stack(found, axis=1)


def _to_array(tensor: Tensor) -> Array:
    array: Array = at_least_float32(tensor).cpu().numpy().astype(np.float64)
    return array


def _check_members(found: Sequence[Array], row: int) -> None:
    for m, array in enumerate(found):
        if array.shape != found[0].shape:
            raise ValueError(
                f"member {m} must return as many columns as member 0, {found[0].shape[1:]}: "
                f"got {array.shape[1:]}."
            )
        wrong = np.argwhere(~np.isfinite(array))
        if len(wrong):
            raise ValueError(
                f"member {m} must return finite numbers: got {array[tuple(wrong[0])]} for input "
                f"{row + int(wrong[0][0])}. It did not converge, or that input is not finite."
            )


def _batches(inputs: Any, precision: torch.dtype) -> Iterator[Any]:
    """The inputs of every batch, without labels."""
    if isinstance(inputs, Tensor | np.ndarray):
        yield from _slices(inputs, precision)
        return
    if not isinstance(inputs, Iterable) or isinstance(inputs, str | Mapping):
        raise ValueError(
            "inputs must be an array, a tensor or a loader of batches: "
            f"got a {type(inputs).__name__}."
        )
    for batch in inputs:
        if isinstance(batch, Mapping):
            yield {name: value for name, value in batch.items() if name != "labels"}
        elif isinstance(batch, tuple | list) and len(batch) in (1, 2):
            yield batch[0]
        elif isinstance(batch, Tensor):
            yield batch
        else:
            raise ValueError(
                "inputs must be an array, a tensor or a loader of batches (inputs, labels), "
                f"(inputs,) or inputs: got a batch that is a {type(batch).__name__}."
            )


def _slices(inputs: Any, precision: torch.dtype) -> Iterator[Tensor]:
    tensor = inputs
    if not isinstance(inputs, Tensor):
        tensor = torch.as_tensor(to_numpy(inputs, "inputs"))
        if tensor.is_floating_point():
            tensor = tensor.to(precision)
    if tensor.ndim < 2:
        raise ValueError(
            "inputs must have a row per example, and further dimensions: "
            f"got shape {tuple(tensor.shape)}."
        )
    yield from tensor.split(BATCH_ROWS) if len(tensor) else ()


def _rows(batch: Any) -> int:
    while isinstance(batch, Mapping | tuple | list):
        batch = next(iter(batch.values() if isinstance(batch, Mapping) else batch))
    return len(batch)


def _precision(module: nn.Module) -> torch.dtype:
    floats = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floats, torch.float32)
