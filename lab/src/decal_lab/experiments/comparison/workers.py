"""A comparison of all methods as an experiment, whose networks train in a process per core."""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec

from decal_lab.experiments.comparison.plan import COLUMNS, OUTSIDE, REAL, Plan, TrainingTask, tasks
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.fingerprints import Fingerprints
from decal_lab.experiments.harness.rows import Cell, Row


def comparison(
    plan: Plan,
    request: Request,
    findings: Callable[..., Findings],
    *,
    kinds: Sequence[str],
    outside: Collection[str] = (),
    needs: tuple[str, ...] = (),
) -> Experiment:
    """All methods of a plan as an experiment.

    Trained networks are kept in the folder `members` of the results.

    Parameters
    ----------
    plan : Plan
        The data, and the size of the run.
    request : Request
        What the user asked for.
    findings : callable
        From the rows, with the keywords `plan` and `seeds`, to what they show.
    kinds : sequence of str
        Kinds of labels, REAL or DRAWN or both.
    outside : collection of str
        Available sets out of distribution. Rows that lack their AUROC are computed again.
    needs : tuple of str
        Data that are not available.
    """
    seeds = request.extended_seeds(plan.seeds)
    every = {
        Cell(plan.data(task.labels), method, task.seed): task
        for task in tasks(seeds, kinds)
        for method in task.methods
    }
    pool = Workers(every, plan, request)
    known = Fingerprints()

    @lru_cache  # the images of all cells are the same
    def inputs(labels: str) -> dict[str, str]:
        parts = plan.contents(labels, request.data) | {"settings": plan}
        return {name: known.digest(part) for name, part in parts.items()}

    columns = [column for column, name in OUTSIDE.items() if name in outside]

    def stale(row: Row) -> bool:
        return row["labels"] == REAL and any(math.isnan(row[column]) for column in columns)

    return Experiment(
        columns=COLUMNS,
        level="alpha",
        cells=list(every),
        levels=lambda cell: every[cell].levels(cell.method),
        inputs=lambda cell: inputs(every[cell].labels),
        rows=pool.rows,
        findings=partial(findings, plan=plan, seeds=seeds),
        seeds=seeds,
        needs=needs,
        stale=stale,
        begin=pool.working,
    )


class Workers:
    """Processes that train the networks of several tasks at a time.

    Parameters
    ----------
    every : mapping of Cell to TrainingTask
        The task that computes each cell.
    plan, request : Plan, Request
        The data, the size of the run, and the folders.
    """

    def __init__(self, every: dict[Cell, TrainingTask], plan: Plan, request: Request) -> None:
        self._every, self._plan, self._request = every, plan, request
        self._results: dict[TrainingTask, Future[dict[str, list[Row]]]] = {}

    @contextmanager
    def working(self, missing: list[Cell]) -> Iterator[None]:
        """Processes that compute these cells, task by task, until the context ends."""
        if not missing:
            yield
            return
        _require_packages()
        from decal_lab.experiments.comparison import methods  # needs PyTorch, which reports do not

        wanted = list(dict.fromkeys(self._every[cell] for cell in missing))
        context = multiprocessing.get_context("spawn")
        reading, writing = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            min(os.cpu_count() or 1, len(wanted)),
            mp_context=context,
            initializer=methods.begin,
            initargs=(reading,),
        )
        # The workers end at once when `writing` is closed, as it is if this process is killed.
        with reading, pool, writing:
            folders = self._request.data, self._request.out
            self._results = {
                task: pool.submit(methods.work, task, self._plan, *folders) for task in wanted
            }
            yield

    def rows(self, cell: Cell) -> list[Row]:
        """The rows of a cell, once its task is done."""
        return self._results[self._every[cell]].result()[cell.method]


def _require_packages() -> None:
    if find_spec("sklearn") is None:
        raise ImportError("this comparison needs scikit-learn: pip install 'decal[sklearn]'")
    import_module("decal_lab.baselines")  # its error names what to install
