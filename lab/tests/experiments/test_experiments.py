"""The table of experiments, and how far they are from the core."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import decal
import decal_lab
from decal_lab import experiments

LIBRARY = Path(decal.__file__).parent
LABORATORY = Path(decal_lab.__file__).parent
HERE = LABORATORY / "experiments"
MOST_CALLS = 6
"""Functions on the way from the command to the core, both included."""

COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
"""Frames that are no calls."""


def test_every_experiment_can_be_found():
    for name, experiment in experiments.EXPERIMENTS.items():
        assert callable(experiment.design), name


def calls_to_the_core(function):
    """The calls from `function` to the core, as lists of names; the longest of each place."""
    ours = (str(HERE), str(LABORATORY / "command.py"))
    apart = (str(LIBRARY / "cli"), str(LIBRARY / "plot"))
    found = {}

    def watch(frame, event, _):
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(str(LIBRARY)) or file.startswith(apart):
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
