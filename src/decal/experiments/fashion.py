"""All credal methods on real images: Fashion-MNIST in, MNIST and notMNIST out of distribution.

Ten networks train for every ensemble; decalibration and the free scores take the first of them.
With the real labels, methods are compared by accuracy, calibration, detection and seconds; with
labels drawn from a known truth, by how often their sets hold it, and how wide they are.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from decal.experiments.data import NothingAtHandError
from decal.experiments.fashion_data import absent
from decal.experiments.fashion_plan import (
    COLUMNS,
    FULL,
    OUTSIDE,
    QUICK,
    REAL,
    Plan,
    Task,
    tasks,
)
from decal.experiments.fashion_report import report
from decal.experiments.report import Report
from decal.experiments.rows import Cell, RowStore, Track, provenance, untracked


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,
    track: Track = untracked,
    plan: Plan | None = None,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder with folders of images, such as fashion-mnist and mnist; what is not there is
        looked for where `decal.datasets` finds it. Nothing is downloaded.
    out : folder of results, created if need be: rows.csv, tables (.md, .tex, .csv), figures, and
        all trained networks in members, some 0.8 MB each.
    seeds : of images and trainings. One stands for itself and the two that follow.
    quick : one seed, three members, fewer images: a trial, not a result.
    track : hands on the cells to compute, for a progress bar.
    plan : sizes of your own, in place of `quick`.
    """
    plan = plan or (QUICK if quick else FULL)
    seeds = plan.all_seeds(seeds)
    missing = absent(data)
    if "Fashion-MNIST" in missing:
        raise NothingAtHandError(
            f"data must hold Fashion-MNIST: got none. Needs {missing['Fashion-MNIST']}."
        )
    store = RowStore(out / "rows.csv", COLUMNS, level="alpha")
    at_hand = set(OUTSIDE.values()) - set(missing)
    compute(store, plan, data, out, seeds=seeds, at_hand=at_hand, track=track)
    return report(store, out, plan=plan, seeds=seeds, needs=tuple(missing.values()))


def compute(
    store: RowStore,
    plan: Plan,
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...],
    at_hand: set[str],
    track: Track = untracked,
) -> None:
    """Add the cells that the store does not hold, a process per core training at a time."""
    wanted = {
        Cell(plan.data(task.labels), method, task.seed): task
        for task in tasks(seeds)
        for method in task.methods
    }
    missing = {cell: t for cell, t in wanted.items() if not _finished(store, cell, t, at_hand)}
    if not missing:
        return
    _require_packages()
    from decal.experiments import fashion_methods  # needs PyTorch, which reports do not

    origin = provenance()
    context = multiprocessing.get_context("spawn")
    reading, writing = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(os.cpu_count() or 1, len(set(missing.values()))),
        mp_context=context,
        initializer=fashion_methods.begin,
        initargs=(reading,),
    )
    # Closing `writing`, as the end of this process does, ends the workers at once.
    with reading, pool, writing:
        results = {
            task: pool.submit(fashion_methods.work, task, plan, data, out)
            for task in dict.fromkeys(missing.values())
        }
        for cell in track(list(missing)):
            rows = results[missing[cell]].result()[cell.method]
            store.add(cell, [row | origin for row in rows])


def _require_packages() -> None:
    if find_spec("sklearn") is None:
        raise ImportError("fashion-mnist needs scikit-learn: pip install 'decal[sklearn]'")
    import_module("decal.baselines")  # its error names what to install


def _finished(store: RowStore, cell: Cell, task: Task, at_hand: set[str]) -> bool:
    """Whether all levels are there, and detection of all images that are at hand."""
    rows = store.cells.get(cell, [])
    detected = task.labels != REAL or not any(
        math.isnan(row[column])
        for row in rows
        for column, name in OUTSIDE.items()
        if name in at_hand
    )
    return bool(rows) and store.finished(cell, task.levels(cell.method)) and detected
