"""Every Python snippet of the README and the documentation runs and prints what it says.

`make pages` does the same in fresh environments, each with what its page installs.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import decal
from helpers.snippets import snippets, surprises

pytestmark = pytest.mark.filterwarnings("error")  # what a page shows must not warn

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = {
    "calibration_tests": ["decal_lab"],
    "datasets": ["decal_lab"],
    "explorer": ["PIL"],
    "frames": ["pandas", "narwhals"],
    "gallery": ["matplotlib"],
    "onnx": ["onnx", "onnxruntime"],
    "scores": ["decal_lab"],
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


NAMED_TEST = re.compile(r"`((?:lab/)?tests/[\w/]+\.py)::(\w+)`")


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
    EXPERIMENTS = pytest.importorskip("decal_lab.experiments").EXPERIMENTS
    pages = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    for name, text in pages.items():
        assert set(REPRODUCED.findall(text)) <= set(EXPERIMENTS), name
    assert len(set(REPRODUCED.findall(pages["paper.md"]))) > 10
    unnamed = [name for name in EXPERIMENTS if f"{name}`" not in pages["paper.md"]]
    assert unnamed == []


DOCUMENTED = re.compile(r"^(?:   |\.\. py:data:: )(decal(?:_lab)?\.[\w.]+)$", re.MULTILINE)


def public_modules(package=decal):
    yield package.__name__
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if "._" in found.name or found.name.endswith("__main__"):
            continue
        if found.ispkg:
            yield from public_modules(importlib.import_module(found.name))
        else:
            yield found.name


ROOMS = {
    "choose",
    "cli",
    "coupled",
    "credal",
    "directions",
    "evaluate",
    "io",
    "model",
    "multilabel",
    "pretrained",
    "refutation",
    "rows",
    "shift",
    "style",
}
"""Rooms that others import from: only what users need of them has a page."""


def test_every_public_name_has_a_page_in_the_reference():
    for needed in ("torch", "sklearn", "onnx", "dask", "pyspark", "matplotlib", "transformers"):
        pytest.importorskip(needed)
    pytest.importorskip("decal_lab")
    listed = [
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in DOCUMENTED.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(listed) == len(set(listed))
    laboratory = [f"decal_lab.{room}" for room in ("baselines", "data", "members")]
    names = [*public_modules(), *laboratory]
    modules = {name: importlib.import_module(name) for name in names}
    shown = {}
    for name in listed:
        module, _, last = name.rpartition(".")
        shown.setdefault(last, []).append(getattr(importlib.import_module(module), last))
    missing = [
        f"{module}.{name}"
        for module, held in modules.items()
        if not ROOMS.intersection(module.split(".")[1:])
        for name in getattr(held, "__all__", ())
        if not inspect.ismodule(getattr(held, name))
        and not any(getattr(held, name) is known for known in shown.get(name, ()))
    ]
    assert missing == []
