"""Many rows and many classes: seconds, seconds per softmax, and peak memory, each in a new process.

    python benchmarks/large.py                 # all of it
    python benchmarks/large.py rows --rows 200000
    python benchmarks/large.py dense lists --classes 20000

rows  : rows × 1,000 float32 logits through partial_fit, generated in chunks.
dense : 20,000 × classes float32 logits through partial_fit, generated in chunks.
lists : 20,000 rows that list their 100 most probable classes, through fit and predict.

Memory is the largest resident set of the process, that of Python, NumPy and the chunk included.
The same work of `scipy.special.softmax` over the chunks, one after the other, is the unit of time.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from scipy.special import softmax

import decal

SIX = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
CHUNK_ELEMENTS = 50_000_000
LISTED = 100
CASES = ("rows", "dense", "lists")


def chunks(rows: int, classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Logits and labels of a model whose classes are unevenly frequent, in one buffer."""
    rng = np.random.default_rng(0)
    popularity = np.sort(rng.standard_normal(classes, dtype=np.float32))[::-1] * 2
    step = min(rows, CHUNK_ELEMENTS // classes)
    memory = np.empty((step, classes), dtype=np.float32)
    for start in range(0, rows, step):
        logits = memory[: min(step, rows - start)]
        rng.standard_normal(out=logits, dtype=np.float32)
        logits *= 2
        logits += popularity
        best = logits.argmax(axis=1)
        labels = np.where(rng.random(len(logits)) < 0.5, best, rng.integers(0, classes, len(best)))
        yield logits, labels


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def dense(rows: int, classes: int) -> None:
    """partial_fit over chunks; every chunk's softmax is timed beside it."""
    model = decal.Decalibrator()
    fitting, unit, done = 0.0, 0.0, 0
    marks = []
    for logits, labels in chunks(rows, classes):
        start = time.perf_counter()
        model.partial_fit(logits, labels)
        fitting += time.perf_counter() - start
        done += len(logits)
        if done * 4 >= rows * (len(marks) + 1):
            marks.append(f"{done:,} rows {fitting:.1f} s")
        held = megabytes()
        start = time.perf_counter()
        softmax(logits[: max(1, len(logits) // 4)], axis=1)  # a quarter: it needs three copies
        unit += 4 * (time.perf_counter() - start)
    start = time.perf_counter()
    shifts = model.shifts(SIX)
    solving = time.perf_counter() - start
    chunk = logits.nbytes / 2**20
    print(f"  partial_fit {fitting:.1f} s, {fitting / unit:.1f} × softmax; as it went: ", end="")
    print("; ".join(marks))
    print(f"  six alphas {solving:.1f} s; gain known to {shifts.error:.1e} nats per row")
    print(f"  peak {held:,.0f} MB in all, with a chunk of {chunk:,.0f} MB")


def lists(rows: int, classes: int) -> None:
    """Lists of the most probable classes, made from dense chunks that are then dropped."""
    values, members, rest, labels = [], [], [], []
    for logits, y in chunks(rows, classes):
        at = np.argpartition(logits, -LISTED, axis=1)[:, -LISTED:]
        top = np.take_along_axis(logits, at, axis=1)
        total = np.exp(logits).sum(axis=1, dtype=np.float64)
        listed = np.exp(top).sum(axis=1, dtype=np.float64)
        values.append(top)
        members.append(at.astype(np.int32))
        rest.append(np.log(total - listed))
        labels.append(y)
    parts = [np.concatenate(part) for part in (values, members, rest)]
    before = megabytes()
    start = time.perf_counter()
    top = decal.TopLogits(*parts, total_classes=classes)
    model = decal.Decalibrator().fit(top, np.concatenate(labels))
    fitting = time.perf_counter() - start
    start = time.perf_counter()
    shifts = model.shifts(SIX)
    solving = time.perf_counter() - start
    model.shifts()
    start = time.perf_counter()
    found = model.predict(top)
    predicting = time.perf_counter() - start
    size = sum(part.nbytes for part in parts) / 2**20
    print(
        f"  fit {fitting:.1f} s; six alphas {solving:.1f} s; predict {predicting:.1f} s; ", end=""
    )
    print(f"gain known to {shifts.error:.1e} nats per row")
    print(f"  mean width listed {(found.upper - found.lower).mean():.4f}, ", end="")
    print(f"others {(found.others_upper - found.others_lower).mean():.4f}")
    print(f"  peak {megabytes():,.0f} MB in all, {before:,.0f} before; lists of {size:,.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", default=CASES, help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=1_280_000, help="of the case rows")
    parser.add_argument("--classes", type=int, default=100_000, help="of the other two cases")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    for case in options.cases:
        if not options.here:
            command = [sys.executable, __file__, case, "--here"]
            sizes = ["--rows", str(options.rows), "--classes", str(options.classes)]
            subprocess.run([*command, *sizes], check=True)
            continue
        rows, classes = (options.rows, 1_000) if case == "rows" else (20_000, options.classes)
        busy = os.getloadavg()[0]
        print(
            f"\n{case}: {rows:,} × {classes:,}; load average {busy:.1f} on {os.cpu_count()} cores"
        )
        (lists if case == "lists" else dense)(rows, classes)
        sys.stdout.flush()
