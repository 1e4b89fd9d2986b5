"""Pixels and tokens at size: seconds and memory of 100 x 21 x 512 x 512 logits, in batches.

    python benchmarks/dense.py [--images 100] [--batch 2] [--tables FOLDER]

550 million float32 logits (2.2 GB) of 21 classes, as networks for PASCAL VOC give them, drawn batch
by batch; a tenth of the labels is ignored. Each step reads all batches, in a process of its own
that does nothing else; the drawing is not timed, and its memory is that of the step "softmax",
`scipy.special.softmax` of the same rows. Memory is the most that the process held beyond what it
held before the first batch.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLASSES, SIDE, IGNORED = 21, 512, 255
DENSE: dict[str, Any] = {"dim": 1, "ignore_index": IGNORED}
Pair = tuple[NDArray[np.float32], NDArray[np.int64]]


class Timed:
    """Batches of images, and how long it took to draw them."""

    def __init__(self, images: int, size: int) -> None:
        self.images, self.size, self.seconds = images, size, 0.0

    def __iter__(self) -> Iterator[Pair]:
        rng = np.random.default_rng(0)
        for start in range(0, self.images, self.size):
            begun = time.process_time()
            shape = min(self.size, self.images - start), CLASSES, SIDE, SIDE
            z = rng.standard_normal(shape, dtype=np.float32)
            z *= 3.0
            y = (z + rng.standard_normal(shape, dtype=np.float32)).argmax(axis=1)
            y[rng.random(y.shape, dtype=np.float32) < 0.1] = IGNORED
            self.seconds += time.process_time() - begun
            yield z, y


def softmax(batches: Timed) -> None:
    """What all is compared with."""
    from scipy import special

    for z, _ in batches:
        special.softmax(z, axis=1)


def partial_fit(batches: Timed) -> None:
    """Class shifts, batch by batch."""
    import decal

    d = decal.Decalibrator(0.9)
    for z, y in batches:
        d.partial_fit(z, y, **DENSE)


def decalibrate_model(batches: Timed) -> None:
    """The same out of a loader of tensors."""
    from decal import torch

    torch.decalibrate_model(None, _tensors(batches), alpha=0.9, progress=False, **DENSE)


def predict(batches: Timed) -> None:
    """Maps of every batch, of which the possible classes are asked."""
    d = _fitted()
    for z, _ in batches:
        d.predict(z, dim=1).possible  # noqa: B018


def evaluate_model(batches: Timed) -> None:
    """Counts of what is kept and missed."""
    from decal import torch

    torch.evaluate_model(None, _fitted(), _tensors(batches), progress=False, **DENSE)


STEPS: tuple[Callable[[Timed], None], ...] = (
    softmax,
    partial_fit,
    decalibrate_model,
    predict,
    evaluate_model,
)


def _tensors(batches: Timed) -> Iterator[tuple[Any, Any]]:
    import torch

    for z, y in batches:
        yield torch.from_numpy(z), torch.from_numpy(y)


def _fitted() -> Any:
    """Local sets, the kind most wishes take, fitted on one image."""
    import decal

    ((z, y),) = Timed(1, 1)
    return decal.Decalibrator(0.9, directions="local").fit(z, y, **DENSE)


def peak() -> float:
    """MB that this process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(step: Callable[[Timed], None], images: int, size: int) -> tuple[float, float, float]:
    """Seconds of CPU and of the clock, and MB, after a small batch that compiles all loops."""
    import torch

    torch.set_num_threads(1)
    step(Timed(1, 1))
    before = peak()
    batches = Timed(images, size)
    cpu, begun = time.process_time(), time.perf_counter()
    step(batches)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - begun
    return cpu - batches.seconds, wall, peak() - before


def main() -> None:
    """Print a table, line by line; and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--batch", type=int, default=2, help="images per batch")
    parser.add_argument("--steps", nargs="+", help="some of the steps", default=None)
    parser.add_argument("--tables", type=Path)
    given = parser.parse_args()
    table = ["| step | seconds of CPU | × softmax | ns per logit | MB beyond the start |"]
    table.append("|---|---:|---:|---:|---:|")
    print("\n".join(table))
    reference, logits = 0.0, given.images * CLASSES * SIDE**2
    for step in STEPS:
        if given.steps and step.__name__ not in (*given.steps, "softmax"):
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            cpu, wall, memory = pool.apply(measured, (step, given.images, given.batch))
        reference = reference or cpu
        line = f"| `{step.__name__}` | {cpu:.1f} | {cpu / reference:.1f} | "
        line += f"{cpu / logits * 1e9:.1f} | {memory:,.0f} |"
        table.append(line)
        print(line, f"  # {wall:.0f} s by the clock, drawing included", flush=True)
    if given.tables:
        given.tables.mkdir(parents=True, exist_ok=True)
        (given.tables / "dense.md").write_text("\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
