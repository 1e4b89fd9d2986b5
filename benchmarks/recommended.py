"""What people should use, in passes: times one scipy.special.softmax of the same float32 logits.

    python benchmarks/recommended.py [--data FOLDER] [--only TEXT] [--repeats 5]

Both sides run in turns in one process. Ratios are those of the medians, and of the least times,
which suffer less from other load; then the least milliseconds, and the ratio without Numba. A row
of the table is a function that yields names, logits and works; the folder holds
efficientnet_lite0_imagenet_sample.npz.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # BLAS that waits busily disturbs its neighbours

import argparse
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from core import load_numba, make_data, numpy_only

Logits = NDArray[np.float32]
Work = Callable[[], object]
Row = tuple[str, Logits, Work]

REFERENCES = ("best", "halfway", "auto", "consensus")
IMAGENET = "efficientnet_lite0_imagenet_sample.npz"
IMPORT = "import time, numpy; t = time.perf_counter(); import decal; s = time.perf_counter() - t"
FIRST = """; z = numpy.random.default_rng(0).normal(size=(100_000, 10)).astype("f4")
d = decal.Decalibrator(0.99, directions=("local",)).fit(z[:500], z[:500].argmax(axis=1))
t = time.perf_counter(); d.predict(z); s = time.perf_counter() - t"""


def imagenet_like(n: int = 20_000, K: int = 1000) -> tuple[Logits, NDArray[np.intp]]:
    """Classes in 50 groups of likeness, of unequal frequencies; three of four rows are right."""
    rng = np.random.default_rng(0)
    groups = rng.normal(size=(50, 64))[rng.integers(0, 50, K)]
    middles = 0.42 * (groups + 0.9 * rng.normal(size=(K, 64)))
    frequency = rng.gamma(5, size=K)
    labels = rng.choice(K, n, p=frequency / frequency.sum())
    z = (middles[labels] + rng.normal(size=(n, 64))) @ middles.T
    z += np.log(frequency) - (middles**2).sum(axis=1) / 2
    return (1.2 * z + 0.4 * rng.normal(size=K)).astype(np.float32), labels


def fits(name: str, logits: Logits, labels: NDArray[np.intp]) -> Iterator[Row]:
    """Of local sets, whose references have a scale; that to the model itself for comparison."""
    for reference in ("model", *REFERENCES):
        model = decal.Decalibrator(0.99, directions=("local",), reference=reference)
        yield f"fit {reference}, {name}", logits, lambda m=model: m.fit(logits, labels)


def fit_few_classes(_: Path | None) -> Iterator[Row]:
    """At most 9 passes."""
    for n in (10_000, 200_000):
        yield from fits(f"{n:,} × 10", *make_data(n, 10))


def fit_many_classes(_: Path | None) -> Iterator[Row]:
    """At most 30 passes."""
    yield from fits("20,000 × 1,000, ImageNet-like", *imagenet_like())


def fit_one_row_per_class(folder: Path | None) -> Iterator[Row]:
    """At most 250 passes."""
    if folder is not None:
        with np.load(folder / IMAGENET) as data:
            logits, labels = data["logits"], data["labels"].astype(np.intp)
        yield from fits("ImageNet sample, 1,000 × 1,000", logits, labels)


def fit_few_rows(_: Path | None) -> Iterator[Row]:
    """As a wish for a miss rate does several times, without loading Numba."""
    yield from fits("300 × 10", *make_data(300, 10))


def local_sets(_: Path | None) -> Iterator[Row]:
    """At most 2.5 passes."""
    for n, K in ((20_000, 1000), (1_000_000, 5), (200_000, 10)):
        logits, labels = make_data(n + 1000, K)
        model = decal.Decalibrator(0.99, directions=("local",)).fit(logits[n:], labels[n:])
        z = logits[:n]
        yield f"predict local, {n:,} × {K:,}", z, lambda m=model, z=z: m.predict(z)


def one_row(_: Path | None) -> Iterator[Row]:
    """At most 30 and 40 µs for 10 classes, 80 and 150 µs for 1,000."""
    for K in (10, 1000):
        logits, labels = make_data(1000, K)
        for name in ("class", "local"):
            model = decal.Decalibrator(0.9, directions=(name,)).fit(logits, labels)
            z = logits[:1]
            yield f"one row, {name}, {K:,} classes", z, lambda m=model, z=z: m.predict(z)


def choices(_: Path | None) -> Iterator[Row]:
    """At most 35 and 10 passes."""
    for K in (10, 1000):
        logits, labels = make_data(10_500, K)
        model = decal.Decalibrator(0.9, directions=("local",)).fit(logits[:500], labels[:500])
        rows = logits[500:], labels[500:]
        yield (
            f"choose(miss=0.1), local, 10,000 × {K:,}",
            rows[0],
            lambda m=model, r=rows: decal.choose(m, *r, miss=0.1),
        )


ROWS: list[Callable[[Path | None], Iterator[Row]]] = [
    fit_few_rows,
    fit_few_classes,
    fit_one_row_per_class,
    fit_many_classes,
    one_row,
    local_sets,
    choices,
]


def in_new_process(code: str) -> float:
    """Seconds s that code in a new process takes, without any kernels kept on disk."""
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code + "; print(s)"],
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            capture_output=True,
            check=True,
        )
    return float(found.stdout)


def timed(works: list[Work], repeats: int) -> NDArray[np.float64]:
    """(repeats, works) seconds, in turns: all meet the same other load on the machine."""
    took = np.empty((repeats, len(works)))
    for i in range(repeats):
        for j, work in enumerate(works):
            start = time.perf_counter()
            work()
            took[i, j] = time.perf_counter() - start
    return took


def main() -> None:
    """Print all rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"decal {decal.__version__}, NumPy {np.__version__}, Python {platform.python_version()}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"import decal {min(in_new_process(IMPORT) for _ in range(5)):.2f} s after NumPy")
    print(f"first local sets, nothing compiled yet, {in_new_process(IMPORT + FIRST):.1f} s")
    fast = load_numba()
    for rows in ROWS:
        for name, logits, work in rows(options.data and Path(options.data)):
            if options.only not in name:
                continue
            work()  # compiles
            works = [lambda z=logits: softmax(z, axis=1), work, *[numpy_only(work)] * fast]
            took = timed(works, options.repeats)
            median, least = np.median(took, axis=0), took.min(axis=0)
            passes = f"{median[1] / median[0]:7.1f}, {least[1] / least[0]:6.1f} passes"
            plain = f"{least[2] / least[0]:8.1f} without Numba" if fast else ""
            print(f"{name:50} {passes} {1e3 * least[1]:9.2f} ms {plain}", flush=True)


if __name__ == "__main__":
    main()
