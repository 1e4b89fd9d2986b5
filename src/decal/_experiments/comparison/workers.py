"""All credal methods trained on the same data, each cell once, in a process per core."""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from decal._experiments.comparison.plan import OUTSIDE, REAL, Plan, Task, tasks
from decal._experiments.harness.rows import Cell, RowStore, Track, provenance, untracked


def compute(
    store: RowStore,
    plan: Plan,
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...],
    kinds: Sequence[str],
    at_hand: Collection[str] = (),
    track: Track = untracked,
) -> None:
    """Add the cells that the store does not hold, a process per core training at a time.

    Parameters
    ----------
    store : of COLUMNS, by alpha.
    plan : on what, and how large.
    data, out : folders of data and of results; trained networks are kept in members in `out`.
    seeds : of data and trainings.
    kinds : of labels, REAL or DRAWN or both.
    at_hand : sets out of distribution that there are: rows that lack them are computed again.
    track : hands on the cells to compute, for a progress bar.
    """
    wanted = {
        Cell(plan.data(task.labels), method, task.seed): task
        for task in tasks(seeds, kinds)
        for method in task.methods
    }
    missing = {cell: t for cell, t in wanted.items() if not _finished(store, cell, t, at_hand)}
    if not missing:
        return
    _require_packages()
    from decal._experiments.comparison import (
        methods as comparison_methods,  # needs PyTorch, which reports do not
    )

    origin = provenance()
    context = multiprocessing.get_context("spawn")
    reading, writing = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(os.cpu_count() or 1, len(set(missing.values()))),
        mp_context=context,
        initializer=comparison_methods.begin,
        initargs=(reading,),
    )
    # Closing `writing`, as the end of this process does, ends the workers at once.
    with reading, pool, writing:
        results = {
            task: pool.submit(comparison_methods.work, task, plan, data, out)
            for task in dict.fromkeys(missing.values())
        }
        for cell in track(list(missing)):
            rows = results[missing[cell]].result()[cell.method]
            store.add(cell, [row | origin for row in rows])


def _require_packages() -> None:
    if find_spec("sklearn") is None:
        raise ImportError("this comparison needs scikit-learn: pip install 'decal[sklearn]'")
    import_module("decal.baselines")  # its error names what to install


def _finished(store: RowStore, cell: Cell, task: Task, at_hand: Collection[str]) -> bool:
    """Whether all levels are there, and detection of all inputs that are at hand."""
    rows = store.cells.get(cell, [])
    detected = task.labels != REAL or not any(
        math.isnan(row[column])
        for row in rows
        for column, name in OUTSIDE.items()
        if name in at_hand
    )
    return bool(rows) and store.finished(cell, task.levels(cell.method)) and detected
