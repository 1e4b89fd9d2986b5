"""Rows of experiments, and runs that are stopped, for tests."""

import csv
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest.mock import patch

from decal_lab.experiments.comparison import workers
from decal_lab.experiments.harness import curves


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(path):
    """Rows without the columns that differ between equal runs."""
    return [{k: v for k, v in r.items() if k not in ("seconds", "commit")} for r in table(path)]


COARSE_EXPONENTS = -4, -1
"""Powers of two that the budgets of a coarse run lie between."""


@contextmanager
def coarse():
    """Quick runs with 9 levels in place of 29, for tests of how a run goes, not of its curves."""
    with patch.object(curves, "QUICK_EXPONENTS", COARSE_EXPONENTS):
        yield


class Stopped:
    """Yields the cells of a run, remembers them, and interrupts it before the n-th."""

    def __init__(self, after=None):
        self.cells, self.after = [], after

    def __call__(self, cells):
        for cell in cells:
            if len(self.cells) == self.after:
                raise KeyboardInterrupt
            self.cells.append(cell)
            yield cell


class OneThread(ThreadPoolExecutor):
    """In place of processes."""

    def __init__(self, _processes, **_settings):
        super().__init__(1)


@contextmanager
def in_one_thread():
    """Train networks in this process: one of its own would import PyTorch for seconds.

    The tests of Fashion-MNIST have runs with processes too.
    """
    with patch.object(workers, "ProcessPoolExecutor", OneThread):
        yield
