"""Every Python snippet of the README and the documentation runs and prints what it says.

`make pages` does the same in fresh environments, each with what its page installs.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import decal
from helpers.snippets import snippets, surprises

pytestmark = pytest.mark.filterwarnings("error")  # what a page shows must not warn

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
EXTRAS = {
    "comparison": ["decal_lab"],
    "deploy": ["onnx", "onnxruntime"],
    "evidence_promises": ["decal_lab"],
    "evidence_sets": ["decal_lab"],
    "frames": ["pandas", "narwhals"],
    "gallery": ["matplotlib"],
    "dense": ["torch"],
    "torch": ["torch"],
    "zeroshot": ["torch", "transformers"],
}


@pytest.fixture
def no_open_figures():
    """Figures that other pages and docstrings leave open do not count."""
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.mark.usefixtures("no_open_figures")
@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: p.stem)
def test_snippets_print_what_the_page_says(page, tmp_path, monkeypatch):
    for needed in ["sklearn", *EXTRAS.get(page.stem, ())]:
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    for printed, expected in surprises(page):
        assert printed == expected  # fails, and pytest shows the difference


NAMED_TEST = re.compile(r"`((?:lab/)?tests/[\w/]+\.py)::(\w+)`")


def test_the_tests_that_hold_promises_exist():
    named = NAMED_TEST.findall((DOCS / "numerics.md").read_text(encoding="utf-8"))
    assert len(named) > 15
    missing = []
    for file, name in named:
        code = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
        if f"\ndef {name}(" not in code:
            missing.append(f"{file}::{name}")
    assert missing == []


REPRODUCED = re.compile(r"`decal reproduce ([a-z][a-z-]*)[` ]")


def test_pages_name_experiments_that_exist_and_one_page_names_all():
    EXPERIMENTS = pytest.importorskip("decal_lab.experiments").EXPERIMENTS
    pages = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    for name, text in pages.items():
        assert set(REPRODUCED.findall(text)) <= set(EXPERIMENTS), name
    assert len(set(REPRODUCED.findall(pages["reproducing.md"]))) > 10
    unnamed = [name for name in EXPERIMENTS if f"{name}`" not in pages["reproducing.md"]]
    assert unnamed == []


TOCTREE = re.compile(r"```\{toctree\}\n((?::.*\n)+)\n((?:.+\n)+)```")
CAPTION = re.compile(r":caption: (.+)")
SHORT = ("Your model", "Your question")
MOST_PAGES, MOST_WORDS, MOST_OF_A_SHORT_PAGE = 40, 47_000, 900


def words(page):
    return len((DOCS / f"{page}.md").read_text(encoding="utf-8").split())


def test_every_page_is_in_the_sidebar_once_and_is_called_there_as_its_title_says():
    told = (DOCS / "index.md").read_text(encoding="utf-8")
    entries = [line for _, lines in TOCTREE.findall(told) for line in lines.splitlines()]
    assert [entry for entry in entries if "<" in entry] == []
    written = [entry for entry in entries if "/generated/" not in entry]
    assert sorted(["index", *written]) == sorted([*hand_written_pages(), "changelog"])


def test_the_documentation_stays_within_its_budget_of_pages_and_words():
    pages = hand_written_pages()
    assert len(pages) <= MOST_PAGES
    assert sum(map(words, pages)) <= MOST_WORDS
    told = (DOCS / "index.md").read_text(encoding="utf-8")
    sections = {CAPTION.search(head)[1]: lines.split() for head, lines in TOCTREE.findall(told)}
    long = {
        page: words(page)
        for section in SHORT
        for page in sections[section]
        if words(page) > MOST_OF_A_SHORT_PAGE
    }
    assert long == {}


def hand_written_pages():
    found = [*DOCS.glob("*.md"), *(DOCS / "tutorials").glob("*.md"), DOCS / "reference/index.md"]
    names = {page.relative_to(DOCS).with_suffix("").as_posix() for page in found}
    return names - {"changelog"}


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
    "new_inputs",
    "pretrained",
    "refutation",
    "rows",
    "schema",
    "shift",
    "style",
}
"""Rooms that others import from: only what users need of them has a page."""


def test_every_public_name_has_a_page_in_the_reference():
    for needed in (
        "torch",
        "sklearn",
        "onnx",
        "dask",
        "pyspark",
        "matplotlib",
        "transformers",
        "lightning",
    ):
        pytest.importorskip(needed)
    pytest.importorskip("decal_lab")
    listed = DOCUMENTED.findall((DOCS / "reference/index.md").read_text(encoding="utf-8"))
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
