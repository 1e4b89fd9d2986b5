"""Predicting local sets: times one softmax, beside the other directions, in one process.

    python benchmarks/local.py

With Numba installed (decal[fast]) everything is timed twice: compiled, and in NumPy alone.
"""

from __future__ import annotations

import os
import platform

import numpy as np
from scipy.special import softmax

import decal
from core import line, load_numba, make_data, numpy_only, seconds

SIZES = ((100_000, 10), (5_000, 1_000), (100, 49_152))
MOST_CLASSES = {"class + temperature": 1_000}
"""Beyond this, a method is left out: fitting it takes too long or too much memory."""

METHODS = {
    "class": {},
    "class + temperature": {"directions": ("class", "temperature")},
    "local": {"directions": ("local",)},
    "local, halfway": {"directions": ("local",), "reference": "halfway"},
    "local, budgets by entropy": {"directions": (decal.Local(by_entropy=0.1),)},
    "local, mixed": {"directions": (decal.Local(mix=0.01),)},
}


def time_size(n: int, K: int, fast: bool) -> None:
    logits, labels = make_data(n, K)
    print(f"\n{n:,} × {K:,} float32, predict (× = times one softmax)")
    methods = {m: s for m, s in METHODS.items() if MOST_CLASSES.get(m, K) >= K}
    works = []
    for settings in methods.values():
        d = decal.Decalibrator(0.9, **settings).fit(logits, labels)
        d.predict(logits[:2])
        works.append(lambda d=d: d.predict(logits))
    once, *took = seconds(
        lambda: softmax(logits, axis=1), *map(numpy_only, works), *works[: len(works) * fast]
    )
    line("one softmax", once, once)
    names = [f"{m}, {loops}" for loops in ("NumPy", "fast") for m in methods]
    for name, time in zip(names, took, strict=False):
        line(name, time, once)


if __name__ == "__main__":
    print(f"decal {decal.__version__}, NumPy {np.__version__}, Python {platform.python_version()}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    fast = load_numba()
    for n, K in SIZES:
        time_size(n, K, fast)
