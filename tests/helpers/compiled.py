"""Compiled loops switched on and off, whatever the size of the problem."""

import os

from decal._base import numerics

NEVER = 1 << 62


class using:  # noqa: N801
    """Compiled loops always or never, and this many threads, while the block runs."""

    def __init__(self, compiled, threads=None):
        self.compiled, self.threads = compiled, threads

    def __enter__(self):
        self.before = numerics.COMPILED_ELEMENTS, os.cpu_count
        numerics.COMPILED_ELEMENTS = 0 if self.compiled else NEVER
        if self.threads:
            os.cpu_count = lambda: self.threads

    def __exit__(self, *_):
        numerics.COMPILED_ELEMENTS, os.cpu_count = self.before


def both(work):
    """What `work` gives compiled, and what it gives in NumPy."""
    with using(True):
        first = work()
    with using(False):
        return first, work()
