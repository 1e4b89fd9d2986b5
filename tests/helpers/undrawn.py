"""Experiments without their figures, which take most of the time of a small run."""

from contextlib import contextmanager
from unittest.mock import patch

from decal._experiments.harness import figures


def _write_empty(_draw, folder, name):
    written = [folder / f"{name}{suffix}" for suffix in (".svg", ".png", "_dark.svg")]
    for path in written:
        path.touch()
    return written


@contextmanager
def undrawn():
    """Write empty files in place of figures, in a run whose figures another test draws."""
    with patch.object(figures, "save", _write_empty):
        yield
