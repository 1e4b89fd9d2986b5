"""Memory that code may ask for."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path


@contextmanager
def limited_memory(megabytes):
    """A context in which no more than this can be had besides, where the system can say so."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        yield
        return
    largest = pages * resource.getpagesize() + (megabytes << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
