"""Every Python snippet of the README and the documentation runs and prints what it says.

The snippets of one page share their names, as a reader's session would. A fence of plain text right
after a snippet is what it prints: the same words, line by line, and nearly the same numbers.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

from helpers.printed import lines_agree

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = {
    "explorer": ["PIL"],
    "gallery": ["matplotlib"],
    "torch": ["torch"],
    "zeroshot": ["torch", "transformers"],
}
FENCE = re.compile(r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def snippets(page):
    return [(m[1], m[2]) for m in FENCE.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: p.stem)
def test_snippets_print_what_the_page_says(page, tmp_path, monkeypatch):
    for needed in ["sklearn", *EXTRAS.get(page.stem, ())]:
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, expected in snippets(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        if expected is not None and not lines_agree(expected, printed.getvalue()):
            assert printed.getvalue() == expected  # fails, and pytest shows the difference


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_the_tests_that_hold_promises_exist():
    named = NAMED_TEST.findall((ROOT / "docs/guarantees.md").read_text(encoding="utf-8"))
    assert len(named) > 15
    missing = []
    for file, name in named:
        code = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
        if f"\ndef {name}(" not in code:
            missing.append(f"{file}::{name}")
    assert missing == []
