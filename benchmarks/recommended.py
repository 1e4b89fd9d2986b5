"""What people should use, in passes: times one scipy.special.softmax of the same float32 logits.

    python benchmarks/recommended.py [--data FOLDER] [--only TEXT] [--out docs/_static/speed]

Both sides run in turns in one process, for some seconds a row. Passes are the ratio of the least
times, which suffer least from other load; where users count in time, so does the row. `limit` is
how far a prediction is from what memory allows: the time of reading the logits and writing two
bounds, over its own. `memory` is the most that was held at once beyond what was there before and
what is returned, in MB. `--out` writes STEM.json, from which `docs/speed_figure.py` draws the
curves of time over rows and classes, and STEM.md, the tables; with `--only` it puts those rows in
the place of older ones there. Rows measured beside much other work are marked. The folder holds
efficientnet_lite0_imagenet_sample.npz. What PyTorch, probly 0.9.1 (Python 3.12 and later) or the
laboratory are needed for is left out without them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # BLAS that waits busily disturbs its neighbours

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from core import load_numba, make_data, numpy_only

Logits = NDArray[np.float32]
Labels = NDArray[np.intp]
Work = Callable[[], Any]

SECONDS = 4.0
"""For the repetitions of a row, but for the first."""

MOST_REPEATS = 30
SIX = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
REFERENCES = ("best", "halfway", "auto", "consensus")
TEMPERATURE = ("class", "temperature")
KINDS = (("class",), TEMPERATURE, ("local",))
IMAGENET = "efficientnet_lite0_imagenet_sample.npz"
BLOCK = 1 << 16
BUSY = 1.25  # load per core, of which this program is a part, from which rows are marked
IMPORT = "import time, numpy; t = time.perf_counter(); import decal; s = time.perf_counter() - t"
FIRST = """; import warnings; warnings.simplefilter("ignore"); r = numpy.random.default_rng(0)
z = 3 * r.normal(size=(100_000, 10)).astype("f4"); y = (z + r.gumbel(size=z.shape)).argmax(axis=1)
d = decal.Decalibrator(0.99, directions={}).fit(z[:500], y[:500])
t = time.perf_counter(); {}; s = time.perf_counter() - t"""
FIRSTS = {
    **{" + ".join(names): FIRST.format(names, "d.predict(z)") for names in KINDS},
    "a wish for a miss rate": FIRST.format(("class",), "decal.decalibrate(z, y, miss=0.1)"),
}


class Row(NamedTuple):
    """A line of the table."""

    name: str
    reach: str  # what the work may take: passes, µs or ms
    work: Work
    logits: Logits
    predicts: bool = False


def imagenet_like(n: int = 20_000, K: int = 1000) -> tuple[Logits, Labels]:
    """Classes in 50 groups of likeness, of unequal frequencies; three of four rows are right."""
    rng = np.random.default_rng(0)
    groups = rng.normal(size=(50, 64))[rng.integers(0, 50, K)]
    middles = 0.42 * (groups + 0.9 * rng.normal(size=(K, 64)))
    frequency = rng.gamma(5, size=K)
    labels = rng.choice(K, n, p=frequency / frequency.sum())
    z = (middles[labels] + rng.normal(size=(n, 64))) @ middles.T
    z += np.log(frequency) - (middles**2).sum(axis=1) / 2
    return (1.2 * z + 0.4 * rng.normal(size=K)).astype(np.float32), labels


def imagenet(folder: Path) -> tuple[Logits, Labels]:
    """A thousand images, one of each class."""
    with np.load(folder / IMAGENET) as data:
        return data["logits"], data["labels"].astype(np.intp)


def fitted(
    logits: Logits, labels: Labels, *directions: str, alpha: float = 0.99
) -> decal.Decalibrator:
    return decal.Decalibrator(alpha, directions=directions).fit(logits, labels)


# The rows of the table


def fits(name: str, reach: str, logits: Logits, labels: Labels) -> Iterator[Row]:
    """Of local sets, whose references have a scale; that to the model itself for comparison."""
    for reference in ("model", *REFERENCES):
        model = decal.Decalibrator(0.99, directions=("local",), reference=reference)
        wanted = reach if reference != "model" else ""
        yield Row(f"fit {reference}, {name}", wanted, lambda m=model: m.fit(logits, labels), logits)


def all_fits(folder: Path | None) -> Iterator[Row]:
    """References; also of few rows, as a wish for a miss rate fits several times."""
    yield from fits("300 × 10", "", *make_data(300, 10))
    for n in (10_000, 200_000):
        yield from fits(f"{n:,} × 10", "9", *make_data(n, 10))
    if folder is not None:
        yield from fits("ImageNet sample, 1,000 × 1,000", "250", *imagenet(folder))
    yield from fits("20,000 × 1,000, ImageNet-like", "30", *imagenet_like())


def one_row(_: Path | None) -> Iterator[Row]:
    """A request to a server."""
    for K, reaches in ((10, ("30 µs", "40 µs", "40 µs")), (1000, ("80 µs", "250 µs", "150 µs"))):
        logits, labels = make_data(1000, K)
        z = logits[:1]
        for names, reach in zip(KINDS, reaches, strict=True):
            model = fitted(logits, labels, *names)
            name = f"one row, {' + '.join(names)}, {K:,} classes"
            yield Row(name, reach, lambda m=model, z=z: m.predict(z), z)


def predictions(folder: Path | None) -> Iterator[Row]:
    """Many rows at once."""
    for n, K in ((50_000, 1000), (200_000, 10), (1_000_000, 5)):
        logits, labels = make_data(n + 1000, K)
        z = logits[:n]
        temperature = {1000: "9", 10: "5"}.get(K)
        for names, reach in (("class",), ""), (("local",), "2.5"), (TEMPERATURE, temperature):
            if reach is not None:
                model = fitted(logits[n:], labels[n:], *names)
                name = f"predict {' + '.join(names)}, {n:,} × {K:,}"
                yield Row(name, reach, lambda m=model, z=z: m.predict(z), z, predicts=True)
    if folder is not None:
        z, labels = imagenet(folder)
        model = fitted(z, labels, *TEMPERATURE)
        name = f"predict {' + '.join(TEMPERATURE)}, ImageNet sample, 1,000 × 1,000"
        yield Row(name, "14", lambda: model.predict(z), z, predicts=True)


def choices(_: Path | None) -> Iterator[Row]:
    """A wish for a miss rate."""
    for K, reach in ((10, "35"), (1000, "10")):
        logits, labels = make_data(10_500, K)
        model = fitted(logits[:500], labels[:500], "local", alpha=0.9)
        z, y = logits[500:], labels[500:]
        name = f"choose(miss=0.1), local, 10,000 × {K:,}"
        yield Row(name, reach, lambda m=model, z=z, y=y: decal.choose(m, z, y, miss=0.1), z)


def entropies(_: Path | None) -> Iterator[Row]:
    """Both bounds of 10,000 boxes, which keep nothing of what was asked before."""
    for K, reach in ((10, "8 ms"), (1000, "")):
        logits, labels = make_data(11_000, K)
        z = logits[:10_000]
        for name in ("class", "local"):
            sets = fitted(logits[10_000:], labels[10_000:], name, alpha=0.9).predict(z)
            yield Row(
                f"entropy bounds, {name}, 10,000 × {K:,}",
                reach,
                lambda c=sets: c[:].entropy(),
                z,
            )


def torch_head(_: Path | None) -> Iterator[Row]:
    """Beside torch.softmax, in float32 on one core."""
    if find_spec("torch") is None:
        return
    import torch

    from decal.torch import CredalHead

    torch.set_num_threads(1)
    for n, K, reach in ((1, 10, "300 µs"), (32, 50_000, "3")):
        rng = np.random.default_rng(0)
        logits = 3 * rng.standard_normal((n + 500, K), dtype=np.float32)
        labels = rng.integers(K, size=500)
        x = torch.from_numpy(logits[:n])
        if n > 1:
            name = f"torch.softmax, {n:,} × {K:,}"
            yield Row(name, "", lambda x=x: torch.softmax(x, -1), logits[:n])
        for names in KINDS:
            head = CredalHead(fitted(logits[n:], labels, *names))

            def work(head: Any = head, x: Any = x) -> object:
                with torch.inference_mode():
                    return head(x)

            name = f"torch head, {' + '.join(names)}, {n:,} × {K:,}"
            yield Row(name, reach, work, logits[:n], predicts=n > 1)


ROWS = (one_row, predictions, torch_head, entropies, choices, all_fits)


# Measurements


def timed(works: list[Work], seconds: float = SECONDS) -> NDArray[np.float64]:
    """(repeats, works) seconds, in turns: all meet the same other load on the machine."""
    took: list[list[float]] = []
    end = time.perf_counter() + seconds
    while not took or (len(took) < MOST_REPEATS and time.perf_counter() < end):
        took.append([])
        for work in works:
            start = time.perf_counter()
            work()
            took[-1].append(time.perf_counter() - start)
    return np.array(took)


def repeated(work: Work, logits: Logits) -> Work:
    """Work on few numbers a hundred times, as the clock is not that fine."""
    return work if logits.size > 5000 else lambda: [work() for _ in range(100)]


def reading_and_writing(z: Logits) -> Work:
    """Read the logits once, write two bounds: what every prediction has to do at least."""
    bounds = np.empty((2, *z.shape))
    step = max(1, BLOCK // z.shape[1])
    starts = range(0, len(z), step)

    def copy(start: int) -> None:
        for bound in bounds:
            bound[start : start + step] = z[start : start + step]

    def work() -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(copy, starts))

    return work


def extra_megabytes(work: Work) -> float:
    """The most that NumPy held at once, but for what `work` returns."""
    tracemalloc.start()
    found = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    arrays = found if isinstance(found, tuple) else [found.lower, found.upper, found.point]
    return (peak - sum(a.nbytes for a in arrays if a is not None)) / 2**20


def measured(row: Row, fast: bool) -> dict[str, Any]:
    """Passes, time, distance from the limit, and memory of one row."""
    row.work()  # compiles
    works = [lambda: softmax(row.logits, axis=1), row.work]
    works += [reading_and_writing(row.logits)] * row.predicts
    times = 100 if repeated(row.work, row.logits) is not row.work else 1
    least = timed([repeated(work, row.logits) for work in works]).min(axis=0) / times
    found = {"name": row.name, "reach": row.reach, "passes": least[1] / least[0], "s": least[1]}
    found["load"] = os.getloadavg()[0]
    if row.predicts:
        found["limit"] = least[2] / least[1]
        found["memory"] = extra_megabytes(row.work)
        found["logits"] = row.logits.nbytes / 2**20
    if fast:
        plain = timed([repeated(numpy_only(row.work), row.logits)], SECONDS / 4).min() / times
        found["plain"] = plain / least[0]
    return found


def in_new_process(code: str) -> float:
    """Seconds s that code in a new process takes: with bytecode, without kernels kept on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-W", "ignore", "-c"]
        for program in (IMPORT, code + "; print(s)"):  # the first writes the bytecode
            found = subprocess.run(
                [*command, program], env=environment, capture_output=True, check=True
            )
    return float(found.stdout)


def beside() -> Iterator[dict[str, Any]]:
    """Seconds of endpoints and boxes of class shifts by decal and by what others publish."""
    for n, K in ((5000, 10), (1000, 1000)):
        logits, labels = make_data(n, K)
        z, new = logits.astype(np.float64), logits[:100].astype(np.float64)
        model = decal.Decalibrator(0.8).fit(z, labels)
        endpoints: dict[str, Work] = {
            "decal": lambda z=z, y=labels: decal.Decalibrator().fit(z, y).shifts(SIX)
        }
        boxes: dict[str, Work] = {"decal": lambda m=model, z=new: m.predict(z)}
        if find_spec("probly") is not None:
            import torch

            from beside_probly import their_endpoints, their_model

            shifts = model.shifts()
            theirs = their_model(np.stack([shifts.lower, shifts.upper]))
            parts = torch.from_numpy(new).split(max(2, 500_000 // K**2))  # the fastest tried
            endpoints["probly"] = lambda z=z, y=labels: [their_endpoints(z, y, a) for a in SIX]
            boxes["probly"] = lambda t=theirs, p=parts: [t.represent(part) for part in p]
        if find_spec("decal_lab") is not None and K == 10:  # it would take hours for more
            from decal_lab.experiments.harness import published_solver

            endpoints["published"] = lambda z=z, y=labels: published_solver.endpoints(
                published_solver.Ratio(z, y), SIX
            )
        for name, works in (
            (f"endpoints of class shifts, six levels, {n:,} × {K:,}", endpoints),
            (f"boxes of class shifts, 100 × {K:,}", boxes),
        ):
            works["decal"]()
            took = {who: float(timed([work], 2.0).min()) for who, work in works.items()}
            yield {"name": name} | took


def scaling() -> Iterator[dict[str, Any]]:
    """Seconds over rows at 10 classes, and over classes at 1,000 rows."""
    sizes = [("rows", 10**p, 10) for p in range(2, 7)]
    sizes += [("classes", 1000, 10**p) for p in range(1, 5)]
    for over, n, K in sizes:
        logits, labels = make_data(n + 500, K)
        z = logits[:n]
        works: dict[str, Work] = {"softmax": lambda z=z: softmax(z, axis=1)}
        for names in KINDS:
            model = fitted(logits[n:], labels[n:], *names)
            works[f"predict, {' + '.join(names)}"] = lambda m=model, z=z: m.predict(z)
        if K <= 1000:
            best = decal.Decalibrator(0.99, directions=("local",), reference="best")
            works["fit, local, best"] = lambda m=best, z=z, y=labels[:n]: m.fit(z, y)
        for work in works.values():
            work()
        least = timed(list(works.values()), SECONDS / 2).min(axis=0)
        for name, s in zip(works, least, strict=True):
            yield {"over": over, "n": n, "K": K, "work": name, "s": float(s)}


# What is printed and written

HEAD = "| work | reach | it takes | without Numba | limit | memory, MB (logits) |"
BESIDE = "| the same work | decal | probly 0.9.1 | published code |"


def duration(s: float) -> str:
    """In a unit that suits."""
    unit, scale = next((u, k) for u, k in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if s * k >= 1)
    return f"{s * scale:.3g} {unit}"


def busy(row: dict[str, Any]) -> str:
    """A mark, if much else ran on the machine."""
    return " †" if row.get("load", 0.0) > BUSY * (os.cpu_count() or 1) else ""


def line(row: dict[str, Any]) -> str:
    """One of the table, in Markdown."""
    in_time = row["reach"].endswith("s")
    takes = f"{row['passes']:.1f} passes, {duration(row['s'])}"
    cells = [
        row["name"] + busy(row),
        row["reach"] + (" passes" if row["reach"] and not in_time else ""),
        takes,
    ]
    cells.append(f"{row['plain']:.1f} passes" if "plain" in row else "")
    cells.append(f"{100 * row['limit']:.0f} %" if "limit" in row else "")
    cells.append(f"{row['memory']:.0f} ({row['logits']:.0f})" if "memory" in row else "")
    return f"| {' | '.join(cells)} |"


def beside_line(row: dict[str, Any]) -> str:
    others = [row.get(name) for name in ("probly", "published")]
    times = [f"{s / row['decal']:,.0f} times" if s else "not run" for s in others]
    return f"| {row['name']} | {duration(row['decal'])} | {' | '.join(times)} |"


def start() -> dict[str, Any]:
    """The machine, and how long it takes to begin."""
    versions = f"decal {decal.__version__}, NumPy {np.__version__}, {platform.python_version()}"
    return {
        "machine": f"{versions}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        "import": min(in_new_process(IMPORT) for _ in range(3)),
        "first": {name: in_new_process(IMPORT + code) for name, code in FIRSTS.items()},
        "rows": [],
        "beside": [],
    }


def heading(found: dict[str, Any]) -> list[str]:
    """What stands above the rows of the table."""
    firsts = ", ".join(f"{name} {duration(s)}" for name, s in found["first"].items())
    text = (
        f"`import decal` takes {duration(found['import'])} after NumPy (reach: 100 ms). First "
        f"answers for 100,000 × 10, with nothing compiled yet (reach: 2 s): {firsts}."
    )
    loads = [row["load"] for row in found["rows"] if busy(row)]
    if loads:
        text += f" †: beside other work, at a load average of {min(loads):.0f} to {max(loads):.0f}."
    if any("ImageNet sample" in row["name"] for row in found["rows"]):
        text += " The ImageNet sample is not in the repository: see `--data`."
    return [found["machine"], "", text, "", HEAD, "|---|---:|---:|---:|---:|---:|"]


def main() -> None:
    """Print all rows, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    parser.add_argument("--only", default="", help="rows whose name has this text, and no curves")
    parser.add_argument("--out", type=Path, metavar="STEM", help="write STEM.json and STEM.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = options.data and Path(options.data)
    repeats = bool(options.only and options.out)
    found = json.loads(options.out.with_suffix(".json").read_text("utf-8")) if repeats else start()
    print("\n".join(heading(found)))
    fast = load_numba()
    known = {row["name"]: row for row in found["rows"]}
    names = []
    for rows in ROWS:
        for row in rows(folder):
            names.append(row.name)
            if options.only in row.name:
                known[row.name] = measured(row, fast)
                print(line(known[row.name]), flush=True)
    found["rows"] = [known[name] for name in names if name in known]
    if not options.only:
        found["beside"] = list(beside())
        print("\n".join(map(beside_line, found["beside"])), flush=True)
        found["scaling"] = list(scaling())
    if options.out:
        options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        lines = [*heading(found), *map(line, found["rows"])]
        lines += ["", BESIDE, "|---|---:|---:|---:|", *map(beside_line, found["beside"])]
        options.out.with_suffix(".md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
