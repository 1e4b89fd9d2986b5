"""Compiled loops switched on and off, whatever the size of the problem."""

import os

import pytest

from decal._base import numerics
from decal.directions import _class_shifts, _ladder

NEVER = 1 << 62


class using:  # noqa: N801
    """Compiled loops always or never, and this many threads, while the block runs."""

    def __init__(self, compiled, threads=None):
        self.compiled, self.threads = compiled, threads

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(numerics, "COMPILED_ELEMENTS", 0 if self.compiled else NEVER)
        for module in (_class_shifts, _ladder):
            self.patch.setattr(module, "COMPILED_CLASSES", 0)
        if self.threads:
            self.patch.setattr(os, "cpu_count", lambda: self.threads)

    def __exit__(self, *_):
        self.patch.undo()


def both(work):
    """What `work` gives compiled, and what it gives in NumPy."""
    with using(True):
        first = work()
    with using(False):
        return first, work()
