"""The commands of docs/command_line.md print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")
pytest.importorskip("sklearn")

from helpers.commands import run
from helpers.printed import lines_agree

PAGE = Path(__file__).parents[2] / "docs/command_line.md"
FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
PIPED = re.compile(r"(?:cat (?P<file>\S+) \| )?decal (?P<words>.*?)(?: \| head -(?P<head>\d+))?")


LONG = re.compile(r"(\d\.\d{6})\d+")
"""Numbers of more than six decimals: the others are those of one machine."""


def printed_by(line):
    """What a shell prints; of pipes, it knows a `cat` before and a `head` after."""
    parts = PIPED.fullmatch(line)
    stdin = Path(parts["file"]).read_bytes() if parts["file"] else None
    result = run(*shlex.split(parts["words"]), stdin=stdin)
    if parts["head"]:
        return "".join(result.stdout.splitlines(keepends=True)[: int(parts["head"])])
    return result.output


def test_the_commands_of_the_page_print_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    run_commands = 0
    for kind, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, str(PAGE), "exec"), {})
        for line, expected in COMMAND.findall(text) if kind == "console" else ():
            printed = printed_by(line)
            run_commands += 1
            if not lines_agree(LONG.sub(r"\1", expected), LONG.sub(r"\1", printed)):
                assert f"$ {line}\n{printed}" == f"$ {line}\n{expected}"
    assert run_commands >= 8
