"""decal reproduce, as a user runs it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")


from helpers.commands import refused, succeed
from lab_helpers.experiment_runs import coarse
from lab_helpers.undrawn import undrawn


@pytest.fixture(autouse=True)
def logits_here(tmp_path, monkeypatch):
    """The current folder: logits of three classes, their truth and labels in logits.npz."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((200, 3))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.argmax(truth.cumsum(axis=1) > rng.random((200, 1)), axis=1)
    monkeypatch.chdir(tmp_path)
    np.savez("logits.npz", logits=logits, labels=labels, truth=truth)


@pytest.fixture(autouse=True)
def few_levels():
    with coarse():
        yield


def write_logits(folder):
    """A folder with one file of logits in the format of the experiments."""
    os.makedirs(folder)
    with np.load("logits.npz") as data:
        np.savez(
            f"{folder}/cnn_vgg_15_BN_64_test.npz",
            logits=data["logits"],
            labels=data["labels"],
            human=data["truth"],
        )


def test_reproduce_runs_an_experiment_and_resumes_it():
    write_logits("data")
    result = succeed("reproduce", "directions", "--data", "data", "--quick")
    assert "Coverage at efficiency 0.8, seed 0" in result.stdout
    assert re.search(r"VGG 15 +\d\.\d{3} .* 0\.85 (pass|fail)", result.stdout)
    assert "least gain over class" in result.stdout
    absent = result.stdout.partition("Not available: ")[2]
    assert "clip_cifar10_en.npz" in absent
    assert "cnn_vgg_15_BN_64_test.npz" not in absent
    assert "Wrote decal-results/directions/table.md" in result.stderr
    rows = Path("decal-results/directions/rows.csv").read_bytes()
    again = succeed("reproduce", "directions", "--data", "data", "--quick")
    assert again.stdout == result.stdout
    assert Path("decal-results/directions/rows.csv").read_bytes() == rows


@undrawn()
def test_reproduce_tells_other_data_from_those_it_has_results_of():
    write_logits("data")
    command = ("reproduce", "single-models", "--data", "data", "--out", "there")
    first = succeed(*command)
    with np.load("logits.npz") as data:
        arrays = dict(data)
    np.savez("logits.npz", **arrays | {"labels": (arrays["labels"] + 1) % 3})
    os.remove("data/cnn_vgg_15_BN_64_test.npz")
    os.rmdir("data")
    write_logits("data")
    again = succeed(*command)
    assert "1 cell of an earlier run was computed again, as" in again.stderr
    assert again.stdout != first.stdout
    assert again.stdout == succeed(*command[:-1], "fresh").stdout


@undrawn()
def test_reproduce_takes_its_data_from_the_environment_and_its_output_as_told(monkeypatch):
    write_logits("data")
    monkeypatch.setenv("DECAL_DATA", "data")
    succeed("reproduce", "directions", "--quick", "--seed", 3, "--out", "there")
    assert ",3," in Path("there/table.csv").read_text()
    assert not Path("decal-results").exists()


def test_reproduce_lists_its_experiments():
    listed = succeed("reproduce", "--list").stdout
    assert listed.startswith("coverage-efficiency")
    assert re.search(r"^directions +Coverage against efficiency", listed, flags=re.MULTILINE)


@undrawn()
def test_reproduce_runs_several_seeds_and_several_experiments():
    write_logits("data")
    names = ["directions", "single-models"]
    result = succeed(
        "reproduce", *names, "--data", "data", "--quick", "--seeds", "2, 3", "--out", "there"
    )
    assert "Coverage at efficiency 0.8, seeds 2, 3" in result.stdout
    rows = Path("there/directions/rows.csv").read_text()
    assert ",2," in rows
    assert ",3," in rows
    assert Path("there/single-models/table.tex").read_text().startswith(r"\begin{table}")
    for wrong, message in (
        (["--seeds", "1,x"], "seeds must be numbers such as 0,1,2: got 1,x."),
        (["--seeds", "1", "--seed", 2], "seeds must be given once"),
    ):
        assert message in refused("reproduce", "directions", "--data", "data", *wrong)


def test_reproduce_gathers_results_on_a_page():
    write_logits("data")
    message = refused("reproduce", "--report", "page.html")
    assert "out must hold results of experiments: got none in decal-results." in message
    succeed("reproduce", "single-models", "--data", "data", "--report", "page.html")
    succeed("reproduce", "coverage-efficiency", "--data", "data")
    assert "coverage-efficiency" not in Path("page.html").read_text()
    told = succeed("reproduce", "--report", "page.html").stderr
    assert told == "Wrote page.html: coverage-efficiency, single-models\n"
    page = Path("page.html").read_text()
    assert "VGG 15" in page
    assert "decal reproduce single-models --data data" in page


@undrawn()
def test_reproduce_all_leaves_out_what_has_no_data_and_says_so(monkeypatch):
    write_logits("data")
    command = sys.modules["decal_lab.command"]
    some = {name: command.EXPERIMENTS[name] for name in ("zero-shot", "single-models")}
    monkeypatch.setattr(command, "EXPERIMENTS", some)
    result = succeed("reproduce", "--all", "--data", "data", "--out", "there")
    assert "zero-shot was left out: data must hold files of logits: got none" in result.stderr
    assert [path.name for path in Path("there").iterdir()] == ["single-models"]
    assert "got none in data" in refused("reproduce", "zero-shot", "--data", "data")


def test_reproduce_says_what_it_needs(monkeypatch):
    monkeypatch.delenv("DECAL_DATA", raising=False)
    message = refused("reproduce")
    assert "NAME must be one of coverage-efficiency, " in message
    assert ": got none. Try --list." in message
    assert ": got magic. Try --list." in refused("reproduce", "magic")
    assert "data must be a folder of logits: got none. Give it with --data or" in refused(
        "reproduce", "directions"
    )
    assert "data must be a folder of logits: got nowhere, which is none." in refused(
        "reproduce", "directions", "--data", "nowhere"
    )
    message = refused("reproduce", "directions", "--data", ".")
    assert "data must hold files of logits: got none in .. Needs clip_cifar10_en.npz, " in message


@pytest.fixture
def public(monkeypatch, tmp_path):
    """Where there are no data of one's own: what would be fetched is recorded, and written."""
    monkeypatch.delenv("DECAL_DATA", raising=False)
    monkeypatch.setenv("DECAL_CACHE", str(tmp_path / "cache"))
    command = sys.modules["decal_lab.command"]
    fetched = []

    def download(names, folder):
        fetched.extend(names)
        folder.mkdir(parents=True, exist_ok=True)
        with np.load("logits.npz") as data:
            arrays = {"logits": data["logits"], "labels": data["labels"], "human": data["truth"]}
        np.savez(folder / "clip_cifar10_en.npz", **arrays)

    monkeypatch.setattr(command.public_data, "download", download)
    return fetched


@undrawn()
def test_public_data_are_fetched_if_one_says_so(public):
    message = refused("reproduce", "single-models")
    assert message.endswith("Or let 11 public files be fetched with --download.\n")
    assert public == []
    result = succeed("reproduce", "single-models", "--download")
    assert len(public) == 11
    assert "CLIP, English" in result.stdout
    # They are kept: the next run needs neither a folder nor the network.
    assert "CLIP, English" in succeed("reproduce", "single-models").stdout
    assert len(public) == 11
    listed = succeed("reproduce", "--list").stdout
    assert "needs zero-shot logits (1 of 9 here, can be downloaded)" in " ".join(listed.split())


@undrawn()
def test_at_a_terminal_one_is_asked(public, monkeypatch):
    command = sys.modules["decal_lab.command"]
    monkeypatch.setattr(command, "_at_terminal", lambda: True)
    answers, asked = iter([False, True]), []
    monkeypatch.setattr(
        command.typer, "confirm", lambda question, **_: asked.append(question) or next(answers)
    )
    refused("reproduce", "single-models")
    assert public == []
    succeed("reproduce", "single-models")
    assert len(public) == 11
    assert asked[0].startswith("Download clip_cifar10_en.npz, clip_cifar10_fr.npz, ")
    # Whoever names a folder is not asked.
    write_logits("data")
    succeed("reproduce", "single-models", "--data", "data", "--out", "there")
    assert len(asked) == 2


def test_an_experiment_without_data_of_yours_needs_no_folder(public):  # noqa: ARG001
    assert "no data of yours" in " ".join(succeed("reproduce", "--list").stdout.split())


@undrawn()
def test_a_method_of_ones_own_is_compared(public):
    Path("mine.py").write_text(
        "import decal\n"
        "METHODS = {'my method': lambda: decal.Decalibrator(directions=('temperature',))}\n"
    )
    run = ("reproduce", "yours", "--extra", "mine.py", "--quick")
    assert "let decal fetch some with --download" in refused(*run)
    result = succeed(*run, "--download")
    assert "CLIP, English: my method" in result.stdout
    assert len(public) == 9
    message = refused("reproduce", "directions", "--extra", "mine.py", "--data", ".")
    assert "extra must go with the experiment yours: got directions." in message
