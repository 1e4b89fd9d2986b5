"""The program itself: its version, its help, how it ends, and what it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from types import ModuleType

import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")


from typer.testing import CliRunner

import decal
from decal import __main__ as _entry
from decal.cli import app, plugins
from helpers.commands import refused, run, succeed

pytestmark = pytest.mark.usefixtures("logit_files")


def test_the_version_is_printed():
    assert succeed("--version").stdout == f"decal {decal.__version__}\n"


COMMANDS = ["fit", "predict", "evaluate", "choose", "report", "explore"]


@pytest.mark.parametrize("command", [*COMMANDS, "demo"])
def test_every_command_has_help(command):
    assert f" {command} " in succeed("--help").stdout
    text = succeed(command, "--help").stdout
    assert "Usage: " in text
    assert command == "demo" or f" decal {command} " in text  # examples to copy
    assert "bool" not in text.lower()  # flags take no value


@pytest.mark.parametrize("command", [None, *COMMANDS, "triage", "shift", "export", "demo"])
def test_help_fits_eighty_columns_and_begins_with_what_it_is_for(command):
    asked = [] if command is None else [command]
    result = CliRunner().invoke(app, [*asked, "--help"], env={"COLUMNS": "80"}, terminal_width=80)
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].lstrip().startswith("Usage: ")
    assert re.match(r"  [A-Z][a-z]+ ", lines[1])
    assert not re.search(r"\w(…|\.\.\.)", result.stdout)  # nothing is cut


def test_flags_of_the_program_show_no_type():
    assert "bool" not in succeed("--help").stdout.lower()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("root choo", "choose"),
        ("root report m.npz x.csv --rule minimax", "minimax_regret"),
        ("root evaluate m.npz x.csv --rule e_", "e_admissible"),
    ],
)
def test_a_shell_completes_commands_and_rules(typed, offered):
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    result = CliRunner().invoke(app, [], env=asked | {"_ROOT_COMPLETE": "complete_bash"})
    assert result.stdout.split() == [offered]


# Commands of other packages


def offer(monkeypatch, **commands):
    """Make decal find these commands of other packages, and nothing else."""
    found = {
        name: metadata.EntryPoint(name, value, plugins.GROUP) for name, value in commands.items()
    }
    monkeypatch.setattr(plugins, "found", lambda: found)


def register_greeting(command):
    @command(epilog="decal greet Ada")
    def greet(name: str, loud: bool = False):
        """Greet somebody."""
        if loud:
            raise ValueError("NAME must be quiet: got --loud.")
        print(f"Hello {name}")


def test_a_command_of_another_package_works_like_one_of_decal(monkeypatch):
    module = ModuleType("decal_greetings")
    module.register = register_greeting
    monkeypatch.setitem(sys.modules, module.__name__, module)
    offer(monkeypatch, greet="decal_greetings:register")
    assert " greet " in succeed("--help").stdout
    assert succeed("greet", "Ada").stdout == "Hello Ada\n"
    told = succeed("greet", "--help").stdout
    assert "Greet somebody." in told
    assert "decal greet Ada" in told
    assert "bool" not in told.lower()
    result = run("greet", "Ada", "--loud")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "decal greet: NAME must be quiet: got --loud.\n"


def test_without_the_laboratory_its_command_says_what_to_install(monkeypatch):
    offer(monkeypatch)
    assert " reproduce " in succeed("--help").stdout
    assert "pip install decal-lab" in succeed("reproduce", "--help").stdout
    result = run("reproduce", "local", "--quick")
    assert (result.exit_code, result.stdout) == (2, "")
    wanted = "decal reproduce: this command needs the laboratory: pip install decal-lab\n"
    assert result.stderr == wanted


def test_a_broken_package_breaks_its_own_command_only(monkeypatch):
    offer(monkeypatch, reproduce="decal_gone.command:register", greet="os:no_such_name")
    listed = succeed("--help").stdout
    assert " reproduce " in listed
    assert " greet " in listed
    result = run("reproduce", "--list")
    assert result.exit_code == 2
    assert result.stderr == (
        "decal reproduce: decal_gone.command:register must be a command that can be imported: got "
        "ModuleNotFoundError: No module named 'decal_gone'. Install or update its package.\n"
    )
    assert "got AttributeError" in run("greet").stderr


def test_commands_of_other_packages_are_listed_without_an_import(monkeypatch):
    def load(_):
        raise AssertionError("imported")

    offer(monkeypatch, reproduce="decal_gone.command:register", greet="decal_gone:register")
    monkeypatch.setattr(metadata.EntryPoint, "load", load)
    assert " greet " in succeed("--help").stdout
    assert "imported" in run("greet").stderr


def test_a_command_that_nobody_has_is_a_usage_error(monkeypatch):
    offer(monkeypatch)
    assert "No such command 'greet'" in run("greet").stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--nosuch", "decal: No such option"),
        ("greet", "decal: No such command 'greet'. See decal --help."),
        ("evaluate", "decal evaluate: Missing argument 'MODEL'. See decal evaluate --help."),
        ("fit logits.csv --mis 1", "decal fit: No such option"),
        ("fit logits.csv -o m.npz --miss x", "decal fit: Invalid value for '--miss'"),
        ("fit none.csv -o m.npz", "decal fit: LOGITS must exist: got none.csv.\n"),
        ("fit logits.csv --weights . -o m.npz", "decal fit: --weights must be a file: got the"),
    ],
)
def test_whatever_is_wrong_is_said_in_one_line_of_one_style(typed, said, monkeypatch):
    offer(monkeypatch)
    assert refused(*typed.split()).startswith(said)


def test_no_arguments_at_all_show_the_help():
    assert "Start with decal demo." in run().output


def test_completion_can_be_installed():
    assert "--install-completion" in succeed("--help").stdout


def test_a_file_that_does_not_exist_is_a_usage_error():
    result = run("fit", "--alpha=0.8", "nothing.csv", "-o", "model.npz")
    assert result.exit_code == 2
    assert "nothing.csv" in result.stderr


def test_an_interrupt_is_tidy(model, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(decal.Decalibrator, "predict_rows", interrupted)
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
        [*command, "fit", "--alpha=0.8", "logits.csv", "-o", "model.npz"],
        capture_output=True,
        encoding="utf-8",
        env=plain | {"PYTHONIOENCODING": "utf-8"},
    )
    assert fitted.returncode == 0, fitted.stderr
    assert "\x1b" not in fitted.stdout + fitted.stderr
    assert "│ cat " in fitted.stdout
    failed = subprocess.run(
        [*command, "fit", "--alpha=0.8", "logits.csv", "-o", "model.npz"],
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
