"""The Python snippets of a page of the documentation, and whether they print what the page says.

The snippets of one page share their names, as a reader's session would. A fence of plain text right
after a snippet is what it prints: the same words, line by line, and nearly the same numbers.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from helpers.printed import lines_agree

WIDTH = "88"
"""Columns of the terminal that a page shows: reports are printed as wide as theirs."""

FENCE = re.compile(r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def snippets(page: Path) -> list[tuple[str, str | None]]:
    """The code of each snippet, and what it prints if the page says so."""
    return [(m[1], m[2]) for m in FENCE.finditer(page.read_text(encoding="utf-8"))]


def surprises(page: Path) -> Iterator[tuple[str, str]]:
    """Run a page's snippets; what they printed and what the page says, where these differ."""
    names: dict[str, object] = {}
    for code, expected in snippets(page):
        printed = io.StringIO()
        terminal = mock.patch.dict(os.environ, COLUMNS=WIDTH)
        with contextlib.redirect_stdout(printed), terminal:
            exec(compile(code, str(page), "exec"), names)
        if expected is not None and not lines_agree(expected, printed.getvalue()):
            yield printed.getvalue(), expected
