"""Credal sets as a notebook shows them: the first inputs, their likeliest classes, and bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from decal._base.markup import bar, table
from decal._base.numerics import Array

ROWS_SHOWN = 5
CLASSES_SHOWN = 4


def as_table(
    title: str,
    lower: Array,
    upper: Array,
    point: Array | None,
    classes: Sequence[str] | None,
    called: Callable[[int], str] = str,
    *,
    of: str = "class",
) -> str:
    """HTML of the first rows: a line per class, those of the greatest upper probability.

    Parameters
    ----------
    title : str
        Above the table.
    lower, upper, point : (n, K) arrays
        Bounds, and where the tick is; there need be none.
    classes : sequence of str, optional
        K names.
    called : callable
        From the number of an input to its name.
    of : str
        What the columns are: "class" or "label".
    """
    n, K = lower.shape
    names = classes or tuple(str(k) for k in range(K))

    def lines() -> Iterator[tuple[object, ...]]:
        for row in range(min(n, ROWS_SHOWN)):
            first = called(row)
            for k in np.argsort(-upper[row], kind="stable")[:CLASSES_SHOWN]:
                low, high = float(lower[row, k]), float(upper[row, k])
                middle = None if point is None else float(point[row, k])
                yield first, names[k], bar(low, high, middle), f"{low:.3f}", f"{high:.3f}"
                first = ""

    more = [f"{n - ROWS_SHOWN:,} more inputs"] if n > ROWS_SHOWN else []
    several = "classes" if of == "class" else f"{of}s"
    more += [f"{K - CLASSES_SHOWN:,} more {several}"] if K > CLASSES_SHOWN else []
    note = f"and {', '.join(more)}" if more else ""
    headings = ("input", of, "", "lower", "upper")
    return table(title, headings, lines(), note=note, left=3)
