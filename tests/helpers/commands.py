"""Commands as a user runs them."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
from typer.testing import CliRunner

from decal.cli import app


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)


def succeed(*arguments, stdin=None):
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, stdin=None):
    """Exit code 2, nothing on stdout, one line of message, no new file; returns the line."""
    before = sorted(os.listdir())
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert sorted(os.listdir()) == before
    return result.stderr
