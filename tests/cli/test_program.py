"""The program itself: its version, its help, how it ends, and what it needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")


from typer.testing import CliRunner

import decal
from decal import __main__ as _entry
from decal.cli import app
from helpers.commands import run, succeed

pytestmark = pytest.mark.usefixtures("logit_files")


def test_the_version_is_printed():
    assert succeed("--version").stdout == f"decal {decal.__version__}\n"


COMMANDS = ["fit", "predict", "evaluate", "choose-alpha", "decide", "recalibrate", "explore"]


@pytest.mark.parametrize("command", [*COMMANDS, "demo", "reproduce"])
def test_every_command_has_help(command):
    assert f" {command} " in succeed("--help").stdout
    text = succeed(command, "--help").stdout
    assert "Usage: " in text
    assert command == "demo" or f" decal {command} " in text  # examples to copy
    assert "bool" not in text.lower()  # flags take no value


def test_flags_of_the_program_show_no_type():
    assert "bool" not in succeed("--help").stdout.lower()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("root choo", "choose-alpha"),
        ("root decide m.npz x.csv --rule minimax", "minimax_regret"),
        ("root evaluate m.npz x.csv --rule e_", "e_admissible"),
        ("root recalibrate m.npz x.csv --write prob", "probabilities"),
    ],
)
def test_a_shell_completes_commands_and_rules(typed, offered):
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    result = CliRunner().invoke(app, [], env=asked | {"_ROOT_COMPLETE": "complete_bash"})
    assert result.stdout.split() == [offered]


def test_completion_can_be_installed():
    assert "--install-completion" in succeed("--help").stdout


def test_a_file_that_does_not_exist_is_a_usage_error():
    result = run("fit", "nothing.csv", "-o", "model.npz")
    assert result.exit_code == 2
    assert "nothing.csv" in result.stderr


def test_an_interrupt_is_tidy(model, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(decal.Decalibrator, "_predict_checked", interrupted)
    before = sorted(os.listdir())
    result = run("predict", model, "logits.csv", "-o", "out.csv")
    assert result.exit_code == 130
    assert result.stderr == "Stopped. Nothing half-written was left behind.\n"
    assert sorted(os.listdir()) == before


def test_without_typer_the_program_says_what_to_install(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "decal.cli")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stopped:
        _entry.main()
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert message == "decal's command line needs typer: pip install 'decal[cli]'\n"


def test_a_piped_program_writes_plain_text_and_importing_decal_stays_light():
    # Older typer uses names that newer click no longer likes; that is between them.
    strictly = ["-W", "error", "-W", "ignore::DeprecationWarning:typer"]
    command = [sys.executable, *strictly, "-m", "decal"]
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "COLUMNS")}
    fitted = subprocess.run(
        [*command, "fit", "logits.csv", "-o", "model.npz"],
        capture_output=True,
        encoding="utf-8",
        env=plain | {"PYTHONIOENCODING": "utf-8"},
    )
    assert fitted.returncode == 0, fitted.stderr
    assert "\x1b" not in fitted.stdout + fitted.stderr
    assert "│ cat " in fitted.stdout
    failed = subprocess.run(
        [*command, "fit", "logits.csv", "-o", "model.npz"],
        capture_output=True,
        text=True,
        env=plain,
    )
    assert failed.returncode == 2
    assert failed.stderr == (
        "decal fit: output must be a new file: got model.npz. Overwrite it with --force.\n"
    )
    light = (
        "import sys, decal; assert not {'typer', 'rich', 'pyarrow', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", light], check=True)
