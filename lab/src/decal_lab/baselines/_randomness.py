"""Random numbers that depend on a seed alone, and leave random states as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

__all__ = ["derived_seed", "randomness"]


def derived_seed(seed: int, *path: int) -> int:
    """A seed below 2^63 that differs for every path of numbers."""
    words = np.random.SeedSequence(seed, spawn_key=path).generate_state(1, np.uint64)
    return int(words[0] >> 1)


@contextmanager
def randomness(seed: int, device: torch.device | str = "cpu", *loaders: Any) -> Iterator[None]:
    """Inside the block all random numbers follow from `seed`; then every state is restored.

    The generators are PyTorch's on the CPU and on `device` (CUDA), Python's and NumPy's global
    ones, and those of the loaders and their samplers.
    """
    device = torch.device(device)
    cuda = []
    if device.type == "cuda":
        cuda = [torch.cuda.current_device() if device.index is None else device.index]
    generators = _generators(loaders)
    states = [generator.get_state() for generator in generators]
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=cuda):
        try:
            torch.default_generator.manual_seed(seed)
            for index in cuda:
                with torch.cuda.device(index):
                    torch.cuda.manual_seed(seed)
            for number, generator in enumerate(generators):
                generator.manual_seed(derived_seed(seed, number))
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)


def _generators(loaders: tuple[Any, ...]) -> list[torch.Generator]:
    """The generators that loaders draw the order of their batches from, each once."""
    found: dict[int, torch.Generator] = {}
    for loader in loaders:
        batch_sampler = getattr(loader, "batch_sampler", None)
        owners = (loader, getattr(loader, "sampler", None), batch_sampler)
        for owner in (*owners, getattr(batch_sampler, "sampler", None)):
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator):
                found.setdefault(id(generator), generator)
    return list(found.values())
