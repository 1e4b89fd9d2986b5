"""Requests that arrive while a batch is being computed go together into the next one.

Nobody waits for a batch to fill: an idle server answers at once, a busy one in ever larger batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bounds = tuple[NDArray[Any], NDArray[Any]]
Compute = Callable[[NDArray[Any], float | None], Bounds]


class OverloadedError(Exception):
    """Too many requests are waiting already."""


@dataclass(eq=False)
class _Job:
    rows: NDArray[Any]
    alpha: float | None
    answer: asyncio.Future[Bounds]

    @property
    def kind(self) -> tuple[Any, ...]:
        """Jobs of one kind may be computed together without changing a digit."""
        return self.alpha, self.rows.dtype, self.rows.shape[1:]


class Batcher:
    """Computes jobs in a thread, one batch at a time.

    Parameters
    ----------
    compute : of stacked rows and an alpha, (lower, upper); ValueError if rows are wrong.
    max_rows : of a batch; a larger request is a batch of its own.
    max_waiting : requests; one more is refused.
    """

    def __init__(self, compute: Compute, *, max_rows: int = 4096, max_waiting: int = 1024) -> None:
        self._compute, self._max_rows = compute, max_rows
        self._waiting: asyncio.Queue[_Job] = asyncio.Queue(max_waiting)
        self._worker: asyncio.Task[None] | None = None
        self.requests = self.batches = 0

    async def start(self) -> None:
        """Begin to answer."""
        self._worker = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Answer nothing more."""
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker

    async def submit(self, rows: NDArray[Any], alpha: float | None) -> Bounds:
        """The bounds for some rows (n, K), computed together with those of others."""
        job = _Job(rows, alpha, asyncio.get_running_loop().create_future())
        try:
            self._waiting.put_nowait(job)
        except asyncio.QueueFull:
            raise OverloadedError from None
        return await job.answer

    async def _work(self) -> None:
        while True:
            jobs = [await self._waiting.get()]
            rows = len(jobs[0].rows)
            while not self._waiting.empty() and rows < self._max_rows:
                jobs.append(self._waiting.get_nowait())
                rows += len(jobs[-1].rows)
            self.requests += len(jobs)
            for kind in dict.fromkeys(job.kind for job in jobs):
                self.batches += 1
                group = [job for job in jobs if job.kind == kind]
                answers = await asyncio.to_thread(self._answers, group)
                for job, answer in zip(group, answers, strict=True):
                    if job.answer.done():  # whoever asked has gone
                        continue
                    if isinstance(answer, Exception):
                        job.answer.set_exception(answer)
                    else:
                        job.answer.set_result(answer)

    def _answers(self, jobs: list[_Job]) -> list[Bounds | Exception]:
        try:
            stacked = jobs[0].rows if len(jobs) == 1 else np.concatenate([j.rows for j in jobs])
            lower, upper = self._compute(stacked, jobs[0].alpha)
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            # One request is wrong: the others must not suffer, and its message counts its own rows.
            return [answer for job in jobs for answer in self._answers([job])]
        ends = np.cumsum([len(job.rows) for job in jobs])[:-1]
        return list(zip(np.split(lower, ends), np.split(upper, ends), strict=True))
