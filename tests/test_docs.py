"""Every Python snippet of the README and the documentation runs and prints what it says.

`make pages` does the same in fresh environments, each with what its page installs.
"""

import re
from pathlib import Path

import pytest

from decal._experiments import EXPERIMENTS
from helpers.snippets import snippets, surprises

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = {
    "explorer": ["PIL"],
    "frames": ["pandas", "narwhals"],
    "gallery": ["matplotlib"],
    "onnx": ["onnx", "onnxruntime"],
    "torch": ["torch"],
    "zeroshot": ["torch", "transformers"],
}


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: p.stem)
def test_snippets_print_what_the_page_says(page, tmp_path, monkeypatch):
    for needed in ["sklearn", *EXTRAS.get(page.stem, ())]:
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    for printed, expected in surprises(page):
        assert printed == expected  # fails, and pytest shows the difference


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


REPRODUCED = re.compile(r"`decal reproduce ([a-z][a-z-]*)[` ]")


def test_pages_name_experiments_that_exist_and_the_papers_page_names_all():
    pages = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    for name, text in pages.items():
        assert set(REPRODUCED.findall(text)) <= set(EXPERIMENTS), name
    assert len(set(REPRODUCED.findall(pages["paper.md"]))) > 10
    unnamed = [name for name in EXPERIMENTS if f"{name}`" not in pages["paper.md"]]
    assert unnamed == []
