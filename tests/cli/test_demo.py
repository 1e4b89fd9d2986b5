"""decal demo, as a user runs it."""

from __future__ import annotations

import re
import sys

import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")


from helpers.commands import refused, succeed

pytestmark = pytest.mark.usefixtures("logit_files")


def test_the_demo_prints_its_table_and_commands_that_work():
    pytest.importorskip("sklearn", reason="needs decal[sklearn]")
    printed = succeed("demo", "--out", "out").stdout
    assert "The 5 most uncertain images" in printed
    commands = re.findall(r"^  decal (.*)$", printed, flags=re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["predict", "evaluate", "explore"]
    for command in commands:
        succeed(*command.split())


def test_the_demo_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    message = refused("demo")
    assert (
        message == "decal demo: decal demo needs scikit-learn: pip install 'decal[cli,sklearn]'\n"
    )
