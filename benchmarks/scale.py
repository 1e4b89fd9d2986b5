"""How time and memory of a fit grow with rows, classes, levels and workers; a merge tree, checked.

    python benchmarks/scale.py                            # some minutes
    python benchmarks/scale.py --full                     # to 1,280,000 × 1,000, 20,000 × 100,000
    python benchmarks/scale.py --only merging             # one section
    python benchmarks/scale.py --out docs/_static/scale   # also scale.csv and its pictures

Every measurement is a process of its own, which tells its peak of resident memory. Logits are
generated in chunks, outside the time that is measured. `softmax` is one scipy.special.softmax over
the same chunks in the same process: times are given as multiples of it.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 1 << 23
"""Logits per chunk: 32 MB of float32."""

LARGE_CHUNK = 50_000_000
"""The same for large label sets: 200 MB, some hundred rows of 100,000 classes."""

LISTED = 100
"""Classes listed per row, where not all are."""

VOCABULARY = (4_000, 49_152)
"""Rows and classes: the tokens of a small language model."""

EIGHT = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
FAN_IN = 32
LEAVES = 10_000
TREE_TOLERANCE = 1e-9

Row = dict[str, Any]


# Data and measurement


def chunks(
    N: int, K: int, seed: int = 0, size: int = CHUNK
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Logits of an overconfident classifier that is right four times in five, and labels.

    All chunks share one block of memory.
    """
    rng = np.random.default_rng(seed)
    step = min(N, max(1, size // K))
    memory = np.empty((step, K), dtype=np.float32)
    for start in range(0, N, step):
        n = min(step, N - start)
        logits = rng.standard_normal(out=memory[:n], dtype=np.float32)
        logits *= 3
        labels = rng.integers(K, size=n)
        right = np.flatnonzero(rng.random(n) < 0.8)
        logits[right, labels[right]] += 12
        yield logits, labels


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike ru_maxrss this starts anew when a process starts a program
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measured(task: str, cores: int | None = None, **arguments: Any) -> Row:
    """The result of a task below, in a process of its own, on so many cores."""
    command = [sys.executable, __file__, "--task", json.dumps([task, cores, arguments])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{task} ended with code {done.returncode}: {done.stderr}")
    found: Row = json.loads(done.stdout)
    return arguments | found


# Tasks: run in processes of their own


def task_fit(N: int, K: int, size: int = CHUNK) -> Row:
    """One pass of partial_fit over generated chunks, then eight levels."""
    from scipy.special import softmax

    import decal
    from decal._base import numerics as _numerics

    _numerics._kernels()  # loaded, if there are any, before time counts
    warm = next(chunks(64, K))
    decal.Decalibrator().partial_fit(*warm).predict(warm[0])
    first = next(chunks(N, K, size=size))
    before = peak_megabytes()  # the libraries, and one chunk
    del warm, first
    model = decal.Decalibrator()
    fitting = cpu = 0.0
    for logits, labels in chunks(N, K, size=size):
        begun = time.process_time()
        fitting += timed(lambda z=logits, y=labels: model.partial_fit(z, y))[0]
        cpu += time.process_time() - begun
    begun = time.process_time()
    solving = timed(lambda: model.shifts(EIGHT))[0]
    cpu_to_solve = time.process_time() - begun
    memory = peak_megabytes()
    logits = logits[: max(1, CHUNK // K)]  # after the peak is taken, as softmax has one of its own
    once = min(timed(lambda: softmax(logits, axis=1))[0] for _ in range(3))
    once *= N * K / logits.size
    found = {
        "seconds": fitting + solving,
        "fit": fitting,
        "cpu_ns_per_logit": cpu / (N * K) * 1e9,
        "solve": solving,
        "softmax": once,
        "megabytes": memory - before,
        "megabytes_in_all": memory,
        "evidence": evidence_bytes(model) / 2**20,
    }
    begun = time.process_time()
    took = min(timed(lambda: model.predict(logits))[0] for _ in range(3))
    cpu_to_predict = (time.process_time() - begun) / 3
    share = N * K / logits.size
    return found | {
        "predict": took * share,
        "cpu_fit": cpu,
        "cpu_solve": cpu_to_solve,
        "cpu_predict": cpu_to_predict * share,
    }


def task_lists(N: int, K: int) -> Row:
    """Lists of the most probable classes: fit, eight levels, predict."""
    import decal

    values, members, rest, labels = [], [], [], []
    for logits, y in chunks(N, K, size=LARGE_CHUNK):
        at = np.argpartition(logits, -LISTED, axis=1)[:, -LISTED:]
        top = np.take_along_axis(logits, at, axis=1)
        total, listed = (np.exp(z).sum(axis=1, dtype=np.float64) for z in (logits, top))
        values.append(top)
        members.append(at.astype(np.int32))
        rest.append(np.log(total - listed))
        labels.append(y)
    parts = [np.concatenate(part) for part in (values, members, rest)]
    y = np.concatenate(labels)
    model = decal.Decalibrator()

    def fit() -> decal.TopLogits:
        top = decal.TopLogits(*parts, total_classes=K)
        model.fit(top, y)
        return top

    fitting, top = timed(fit)
    solving = timed(lambda: model.shifts(EIGHT))[0]
    predicting = timed(lambda: model.predict(top))[0]
    return {
        "seconds": fitting + solving,
        "predict": predicting,
        "lists": sum(part.nbytes for part in parts) / 2**20,
        "megabytes_in_all": peak_megabytes(),
    }


def task_levels(N: int, K: int, counts: list[int]) -> Row:
    """Shifts at more and more levels after one fit."""
    import decal

    model = decal.Decalibrator()
    for logits, labels in chunks(N, K):
        model.partial_fit(logits, labels)
    model.shifts([0.5])
    times = []
    for count in counts:
        alphas = np.linspace(0.05, 0.95, count)
        times.append(min(timed(lambda a=alphas: model.shifts(a))[0] for _ in range(3)))
    return {"times": times}


def task_files(kind: str, folder: str) -> Row:
    """`decal fit` on files, as the command line does it."""
    from decal.decalibrator import Decalibrator
    from decal.io.checkpoints import FitCheckpoint, learn
    from decal.io.folders import open_folder

    path = Path(folder, kind)
    beside = Path(folder, "labels.npy") if kind.endswith(".npy") else None
    opened = open_folder(path, labels=beside, needed=("labels",))
    before = peak_megabytes()
    model = Decalibrator()
    seconds, _ = timed(lambda: learn(model, opened, FitCheckpoint(Path(folder, "none"))))
    return {"seconds": seconds, "megabytes": peak_megabytes() - before}


def task_dask(N: int, K: int, workers: int) -> Row:
    """decal.distributed on a local Dask cluster of processes with one thread each."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    import decal.distributed

    step = max(1, CHUNK // K)

    def block(block_info: Any = None) -> np.ndarray:
        (start, stop), _ = block_info[None]["array-location"]
        return next(chunks(stop - start, K, seed=start))[0]

    rows = tuple(min(step, N - start) for start in range(0, N, step))
    logits = da.map_blocks(block, chunks=(rows, (K,)), dtype=np.float32)
    labels = np.concatenate(
        [next(chunks(n, K, seed=i * step))[1] for i, n in enumerate(rows)]
    )  # the blocks' own
    cluster = LocalCluster(workers, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        generated = timed(lambda: logits.max().compute())[0]
        seconds, _ = timed(lambda: decal.distributed.fit(logits, labels, alpha=0.8))
    return {"seconds": seconds, "generating": generated}


def evidence_bytes(model: Any) -> int:
    """What has to be sent to merge a model elsewhere: the file it is saved in."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.npz")
        model.save(path)
        return path.stat().st_size


def task_merging(leaves: int, K: int, rows: int, fan_in: int) -> Row:
    """A tree of merges against merging one after the other."""
    import decal

    def leaf(i: int) -> Any:
        logits, labels = next(chunks(rows, K, seed=i))
        return decal.Decalibrator().fit(logits, labels)

    sequential = decal.Decalibrator()
    for i in range(leaves):
        sequential.merge(leaf(i))
    level = [leaf(i) for i in range(leaves)]
    sizes, moved = [evidence_bytes(x) for x in level[:20]], []
    depth = 0
    merging = 0.0
    while len(level) > 1:
        sample = [evidence_bytes(x) for x in level[:20]]
        moved.append(len(level) * float(np.mean(sample)))
        groups = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
        start = time.perf_counter()
        level = [merged(group) for group in groups]
        merging += time.perf_counter() - start
        depth += 1
    (tree,) = level
    a, b = tree.shifts(EIGHT), sequential.shifts(EIGHT)
    inner = slice(1, None)  # at level 0 the ends are infinite
    differences = [
        np.abs(x[inner] - y[inner]).max() for x, y in ((a.lower, b.lower), (a.upper, b.upper))
    ]
    return {
        "depth": depth,
        "seconds": merging,
        "difference": float(max(differences)),
        "leaf_bytes": float(np.mean(sizes)),
        "root_bytes": evidence_bytes(tree),
        "moved": moved,
        "rows_merged": tree.examples,
    }


def merged(group: list[Any]) -> Any:
    import decal

    whole = decal.Decalibrator()
    for part in group:
        whole.merge(part)
    return whole


TASKS = {
    "fit": task_fit,
    "lists": task_lists,
    "levels": task_levels,
    "files": task_files,
    "dask": task_dask,
    "merging": task_merging,
}


# Sections: what is printed


def rows(full: bool) -> Iterator[Row]:
    print("\nRows: one pass and eight levels, 1,000 classes")
    sizes = (10_000, 20_000, 40_000, 80_000) + ((320_000, 1_280_000) if full else ())
    for N in sizes:
        yield line("rows", measured("fit", N=N, K=1000))


def classes(full: bool) -> Iterator[Row]:
    logits = 80_000_000 if full else 20_000_000
    print(f"\nClasses: one pass and eight levels, {logits // 1_000_000} million logits")
    for K in (10, 100, 1_000, 10_000):
        yield line("classes", measured("fit", N=logits // K, K=K))


def vocabulary(full: bool) -> Iterator[Row]:
    for N, K in (VOCABULARY, (20_000, 100_000) if full else (4_000, 20_000)):
        print(f"\nLarge label sets: {N:,} × {K:,}, one pass and eight levels")
        found = measured("fit", N=N, K=K, size=LARGE_CHUNK)
        print(
            f"  dense         {found['seconds']:>8.1f} s, "
            f"{found['seconds'] / found['softmax']:.1f} × softmax; of CPU: fit "
            f"{found['cpu_fit']:.1f} s, eight levels {found['cpu_solve']:.1f} s, predict "
            f"{found['cpu_predict']:.1f} s; {found['megabytes_in_all']:,.0f} MB in all, with a "
            f"chunk of {LARGE_CHUNK * 4 / 2**20:.0f} MB; evidence {found['evidence']:.0f} MB",
            flush=True,
        )
        yield {"section": "vocabulary"} | found
        found = measured("lists", N=N, K=K)
        print(
            f"  {LISTED} per row   {found['seconds']:>8.1f} s, predict {found['predict']:.1f} s, "
            f"{found['megabytes_in_all']:,.0f} MB in all, with lists of {found['lists']:,.0f} MB "
            "and the chunk they were taken from",
            flush=True,
        )
        yield {"section": "lists"} | found


def levels(full: bool) -> Iterator[Row]:  # noqa: ARG001
    print("\nLevels: after one fit of 20,000 × 1,000")
    counts = [1, 2, 4, 8, 16, 32, 64]
    found = measured("levels", N=20_000, K=1000, counts=counts)
    for count, took in zip(counts, found["times"], strict=True):
        print(f"  {count:>3} levels {took:>9.4f} s {took / count * 1e3:>9.2f} ms each")
        yield {"section": "levels", "N": 20_000, "K": 1000, "levels": count, "seconds": took}


def workers(full: bool) -> Iterator[Row]:
    N = 80_000 if full else 20_000
    print(f"\nWorkers: {N:,} × 1,000")
    alone = None
    for cores in sorted({1, os.cpu_count() or 1}):
        if not hasattr(os, "sched_setaffinity"):
            print("  cores: cannot be limited on this system")
            break
        found = measured("fit", cores, N=N, K=1000)
        alone = alone or found["seconds"]
        print(f"  {cores} cores  {found['seconds']:>8.2f} s {alone / found['seconds']:>6.2f} ×")
        yield {"section": "cores", "workers": cores} | found
    try:
        import dask.distributed  # noqa: F401

        import decal.distributed  # noqa: F401
    except ImportError as error:
        print(f"  Dask: left out ({error})")
        return
    alone = None
    for count in sorted({1, os.cpu_count() or 1}):
        found = measured("dask", N=N, K=1000, workers=count)
        alone = alone or found["seconds"]
        print(
            f"  {count} Dask workers {found['seconds']:>7.2f} s {alone / found['seconds']:>6.2f} × "
            f"(generating alone: {found['generating']:.2f} s)"
        )
        yield {"section": "dask"} | found


def reading(full: bool) -> Iterator[Row]:
    N, K = (400_000 if full else 80_000), 250
    print(f"\nFiles: {N:,} × {K} float32 ({N * K * 4 / 2**20:,.0f} MB), one pass")
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        print(f"  left out ({error})")
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = np.lib.format.open_memmap(Path(folder, "mapped.npy"), "w+", np.float32, (N, K))
        every = np.empty(N, np.int64)
        for name in ("lists", "columns"):
            Path(folder, name).mkdir()
        start = 0
        for i, (z, y) in enumerate(chunks(N, K)):
            plain[start : start + len(z)], every[start : start + len(z)] = z, y
            start += len(z)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), K)
            options = {"use_dictionary": False, "row_group_size": 1 << 14}
            name = f"part-{i:04d}.parquet"
            pq.write_table(
                pa.table({"logits": lists, "label": y}), Path(folder, "lists", name), **options
            )
            columns = {f"c{k}": z[:, k] for k in range(K)}
            pq.write_table(
                pa.table(columns | {"label": y}), Path(folder, "columns", name), **options
            )
        plain.flush()
        del plain
        np.save(Path(folder, "labels.npy"), every)
        for kind in ("mapped.npy", "lists", "columns"):
            found = measured("files", kind=kind, folder=folder) | {"N": N, "K": K}
            print(
                f"  {kind:<12}{found['seconds']:>8.2f} s {per_logit(found):>7.1f} ns per logit"
                f"{found['megabytes']:>8.0f} MB"
            )
            yield {"section": "files"} | {k: v for k, v in found.items() if k != "folder"}


def merging(full: bool) -> Iterator[Row]:
    shapes = [(LEAVES, 20, 40, FAN_IN)] + ([(256, 1_000, 4_000, FAN_IN)] if full else [])
    for leaves, K, n, fan_in in shapes:
        print(f"\nMerging: {leaves:,} summaries of {n:,} × {K:,} in a tree of fan-in {fan_in}")
        found = measured("merging", leaves=leaves, K=K, rows=n, fan_in=fan_in)
        print(
            f"  depth {found['depth']}, {found['rows_merged']:,} rows; a summary: "
            f"{found['leaf_bytes'] / 2**10:,.1f} kB at a leaf, "
            f"{found['root_bytes'] / 2**10:,.1f} kB at the root"
        )
        for i, size in enumerate(found["moved"]):
            print(f"  level {i}: {size / 2**20:>10,.1f} MB moved")
        print(
            f"  all merges {found['seconds']:.2f} s; tree and sequence differ by at most "
            f"{found['difference']:.1e} nats"
        )
        if not found["difference"] <= TREE_TOLERANCE or found["rows_merged"] != leaves * n:
            raise SystemExit("the merge tree lost evidence")
        yield {
            "section": "merging",
            **found,
            "moved": sum(found["moved"]),
            "N": leaves * n,
        }


SECTIONS = {
    "rows": rows,
    "classes": classes,
    "vocabulary": vocabulary,
    "levels": levels,
    "workers": workers,
    "files": reading,
    "merging": merging,
}


def per_logit(found: Row) -> float:
    return float(found["seconds"] / (found["N"] * found["K"]) * 1e9)


def line(section: str, found: Row) -> Row:
    print(
        f"  {found['N']:>9,} × {found['K']:<7,}{found['seconds']:>8.2f} s "
        f"{per_logit(found):>6.1f} ns per logit ({found['cpu_ns_per_logit']:.1f} of CPU to fit) "
        f"{found['seconds'] / found['softmax']:>5.1f} × "
        f"softmax{found['megabytes']:>7.0f} MB beyond a chunk, "
        f"evidence {found['evidence']:.2f} MB, "
        f"predict {found['predict'] / found['softmax']:.1f} ×",
        flush=True,
    )
    return {"section": section, "ns_per_logit": per_logit(found)} | found


# Output


def write_csv(path: Path, found: list[Row]) -> None:
    names = list(dict.fromkeys(name for row in found for name in row))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(found)


def draw(path: Path, found: list[Row], *, narrow: bool = False) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    by = {name: [row for row in found if row["section"] == name] for name in SECTIONS}
    panels = [
        ("rows", "N", "seconds", "rows, 1,000 classes", "seconds"),
        ("rows", "N", "megabytes", "rows, 1,000 classes", "MB beyond a chunk"),
        ("classes", "K", "cpu_ns_per_logit", "classes, as many logits", "ns of CPU per logit"),
        ("levels", "levels", "seconds", "levels, after the fit", "seconds"),
    ]
    with mpl.rc_context({"svg.hashsalt": "decal", "font.size": 9}):
        figure = Figure(figsize=(4.1, 8.4) if narrow else (6.4, 4.4), layout="constrained")
        grid = figure.subplots(4, 1) if narrow else figure.subplots(2, 2)
        for ax, (section, x, y, x_label, y_label) in zip(grid.flat, panels, strict=True):
            xs, ys = [r[x] for r in by[section]], [r[y] for r in by[section]]
            ax.loglog(xs, ys, "o-", color="#2166ac", markersize=3.5, linewidth=1.2)
            if y == "seconds" and xs:
                linear = [ys[-1] * v / xs[-1] for v in xs]
                ax.loglog(xs, linear, "--", color="#999999", linewidth=0.8, zorder=0)
            if ys:
                floor = 10.0 ** math.floor(math.log10(max(min(ys), 1e-6)))
                ax.set_ylim(floor, 10.0 ** math.ceil(math.log10(max(ys) * 1.01)))
            ax.set(xlabel=x_label, ylabel=y_label)
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(alpha=0.25, linewidth=0.5)
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--full", action="store_true", help="to 1,280,000 × 1,000, 20,000 × 100,000"
    )
    parser.add_argument("--only", choices=SECTIONS, action="append", help="these sections")
    parser.add_argument(
        "--out", type=Path, metavar="STEM", help="write STEM.csv, STEM.svg and STEM_narrow.svg"
    )
    parser.add_argument("--task", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        name, cores, options = json.loads(arguments.task)
        if cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
        print(json.dumps(TASKS[name](**options)))
        return
    import decal

    print(f"decal {decal.__version__}, NumPy {np.__version__}, Python {platform.python_version()}")
    found: list[Row] = []
    for name in arguments.only or SECTIONS:
        found += SECTIONS[name](arguments.full)
        if arguments.out:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            write_csv(arguments.out.with_suffix(".csv"), found)
            draw(arguments.out.with_suffix(".svg"), found)
            draw(arguments.out.with_name(f"{arguments.out.name}_narrow.svg"), found, narrow=True)


if __name__ == "__main__":
    main()
