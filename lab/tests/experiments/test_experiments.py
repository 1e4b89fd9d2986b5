"""The table of experiments, what they may import, and how far they are from the core."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import decal
from decal import _experiments as experiments

PACKAGE = Path(decal.__file__).parent
HERE = PACKAGE / "_experiments"
MOST_CALLS = 6
"""Functions on the way from the command to the core, both included."""

COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
"""Frames that are no calls."""


def private_names(source):
    """Dotted names of decal, outside its experiments, that only decal itself may use."""
    public = {*decal.__all__, "__version__", "__file__"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if node.value.startswith("decal._") else []  # import_module
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "decal":
            if node.attr not in public:
                yield f"decal.{node.attr}"
            continue
        else:
            continue
        for name in names:
            first, *inner = name.split(".")
            elsewhere = first == "decal" and inner[:1] != ["_experiments"]
            if elsewhere and inner[:1] == ["io"] and inner[1:2] in (["whole_files"], ["locks"]):
                continue  # how files are written changes no number
            if elsewhere and any(part.startswith("_") for part in inner):
                yield name


def test_experiments_use_public_names_only():
    paths = list(HERE.rglob("*.py"))
    assert {path.parent.name for path in paths} == {"_experiments", "harness", "comparison"}
    for path in paths:
        assert list(private_names(path.read_text())) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "from decal.io.model_files import replacing",
        "from decal import io",
        "import decal.io",
        "import_module('decal.io')",
        "from decal.credal import _boxes",
        "import decal; decal.io",
        "def f():\n    from decal_lab.data._downloads import fetch",
    ],
)
def test_private_names_would_be_noticed(source):
    assert list(private_names(source))


def test_every_experiment_can_be_found():
    for name, experiment in experiments.EXPERIMENTS.items():
        assert callable(experiment.design), name


def calls_to_the_core(function):
    """The calls from `function` to the core, as lists of names; the longest of each place."""
    ours = (str(HERE), str(PACKAGE / "cli"))
    apart = (*ours, *(str(PACKAGE / name) for name in ("datasets", "plot", "baselines")))
    found = {}

    def watch(frame, event, _):
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(str(PACKAGE)) or file.startswith(apart):
            return
        caller = frame.f_back  # none for the work of a thread
        if caller is None or not caller.f_code.co_filename.startswith(str(HERE)):
            return
        way, at = [frame.f_code.co_qualname], caller
        while at is not None:
            name = at.f_code.co_qualname
            if at.f_code.co_filename.startswith(ours) and not name.endswith(COMPREHENSIONS):
                way.append(name)
            at = at.f_back
        found[way[0], way[1]] = max(found.get((way[0], way[1]), []), way[::-1], key=len)

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return list(found.values())


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("coverage-efficiency", "paper_folder"),
        ("networks-together", "paper_folder"),
        ("solvers", "paper_folder"),
        ("zero-shot", "paper_folder"),
        ("spider-gallery", "paper_folder"),
        ("single-models", "paper_folder"),
        ("directions", "one_file"),
        ("local", "one_file"),
        ("ood", "resnet20_folder"),
        ("runtime", "resnet20_folder"),
        ("tabpfn", "tables_folder"),
        ("active-learning", "tables_folder"),
        ("ensemble-size", "tables_folder"),
    ],
)
def test_few_calls_lead_from_the_command_to_the_core(name, folder, request, tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="needs decal[cli]")
    needed = {
        "active-learning": "sklearn",
        "ensemble-size": "sklearn",
        "networks-together": "torch",
    }
    pytest.importorskip(needed.get(name, "decal"))
    from decal_lab.command import reproduce

    monkeypatch.setattr("decal_lab.experiments.harness.experiment.save_all", lambda *_: ([], []))
    monkeypatch.setattr("decal_lab.experiments.ensemble_size.EPOCHS", 2)
    monkeypatch.setattr("decal_lab.experiments.ensemble_size.QUICK_DRAWS", 1)
    monkeypatch.setattr("decal_lab.experiments.local_against_wrapper.QUICK_TABLES", ())
    data = request.getfixturevalue(folder)
    ways = calls_to_the_core(lambda: reproduce([name], data=data, out=tmp_path, quick=True))
    assert ways
    assert all(way[0] == "reproduce" for way in ways)
    assert max(map(len, ways)) <= MOST_CALLS, max(ways, key=len)
