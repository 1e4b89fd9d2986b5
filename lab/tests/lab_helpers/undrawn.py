"""Experiments without their figures, which take most of the time of a small run."""

from contextlib import contextmanager
from unittest.mock import patch

from decal_lab.experiments.harness import figures

_draw = figures.save


def _write_empty(_figure, folder, name):
    written = [folder / f"{name}{suffix}" for suffix in (".svg", ".png", "_dark.svg")]
    for path in written:
        path.touch()
    return written


@contextmanager
def undrawn(*, but=0):
    """Write empty files in place of figures, in a run whose figures another test draws.

    The first `but` figures are drawn, even within another such context: enough where all of them
    are drawn alike.
    """
    left = iter(range(but))

    def save(*arguments):
        return _write_empty(*arguments) if next(left, None) is None else _draw(*arguments)

    with patch.object(figures, "save", save):
        yield
