"""The commands as a user runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.archives import read_npz

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc
import pyarrow.parquet as pq

import decal
from decal import __main__ as _entry
from decal._cli.digits import PAPER_ALPHAS
from decal._io import sources as files
from helpers.logit_folders import run, succeed

NAMES = ("cat", "dog", "eel")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder: logits in logits.csv, logits.npz and logits.npy, truth in truth.csv."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((200, 3))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.argmax(truth.cumsum(axis=1) > rng.random((200, 1)), axis=1)
    monkeypatch.chdir(tmp_path)
    columns = {name: logits[:, k] for k, name in enumerate(NAMES)}
    files.write_columns(tmp_path / "logits.csv", columns | {"label": np.array(NAMES)[labels]})
    files.write_columns(tmp_path / "truth.csv", {name: truth[:, k] for k, name in enumerate(NAMES)})
    np.savez("logits.npz", logits=logits, labels=labels, classes=NAMES, truth=truth)
    np.save("logits.npy", logits)
    np.save("labels.npy", labels)


def fail(*arguments):
    """Exit code 2, nothing on stdout, one line of message, no new file; returns the line."""
    before = sorted(os.listdir())
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert sorted(os.listdir()) == before
    return result.stderr


def in_memory(**settings):
    data = read_npz("logits.npz")
    return decal.decalibrate(data["logits"], data["labels"], **{"alpha": 0.8} | settings)


# fit


@pytest.mark.parametrize(
    "source",
    [["logits.csv"], ["logits.npz"], ["logits.npy", "--labels", "labels.npy"]],
    ids=lambda source: source[0],
)
def test_fit_equals_fitting_in_memory(source):
    result = succeed("fit", *source, "-o", "model.npz", "--alpha", 0.9, "--box", "own")
    model = decal.Decalibrator.load("model.npz")
    expected = in_memory(alpha=0.9, box="own")
    assert repr(model) == repr(expected)
    np.testing.assert_allclose(model.shifts().upper, expected.shifts().upper, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.shifts().lower, expected.shifts().lower, rtol=0, atol=1e-12)
    assert "Plausible shifts, alpha 0.9" in result.stdout
    assert "Wrote model.npz: Decalibrator(alpha=0.9" in result.stderr


@pytest.mark.parametrize("setting", [{"likelihood": "sum"}, {"reference": "best"}])
def test_settings_reach_the_model(setting):
    ((name, value),) = setting.items()
    succeed("fit", "logits.csv", "-o", "model.npz", f"--{name}", value)
    found = decal.Decalibrator.load("model.npz").shifts()
    expected = in_memory(**setting).shifts()
    np.testing.assert_allclose(found.upper, expected.upper, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.center, expected.center, rtol=0, atol=1e-12)


def test_weights_count_like_repetition():
    weights = np.arange(200) % 3
    np.save("weights.npy", weights)
    succeed("fit", "logits.npz", "-o", "model.npz", "--weights", "weights.npy")
    data = read_npz("logits.npz")
    expected = decal.decalibrate(
        np.repeat(data["logits"], weights, axis=0), np.repeat(data["labels"], weights), alpha=0.8
    )
    found = decal.Decalibrator.load("model.npz")
    np.testing.assert_allclose(found.shifts().upper, expected.shifts().upper, rtol=0, atol=1e-9)
    np.save("weights.npy", np.zeros(200))
    message = fail("fit", "logits.npz", "-o", "m.npz", "--weights", "weights.npy")
    assert "weights must be positive somewhere: got only zeros." in message


def test_probabilities_fit_like_their_logits():
    data = read_npz("logits.npz")
    np.savez("p.npz", probabilities=data["truth"], labels=data["labels"])
    succeed("fit", "p.npz", "-o", "model.npz", "--probabilities")
    found = decal.Decalibrator.load("model.npz").shifts()
    np.testing.assert_allclose(found.upper, in_memory().shifts().upper, rtol=0, atol=1e-9)


def test_many_classes_are_not_all_listed():
    np.savez("wide.npz", logits=np.eye(30), labels=np.arange(30))
    assert "and 10 more classes" in succeed("fit", "wide.npz", "-o", "model.npz").stdout


# predict


@pytest.fixture
def model():
    succeed("fit", "logits.csv", "-o", "model.npz")
    return "model.npz"


@pytest.mark.parametrize("kind", ["npz", "npy", "csv", "parquet"])
@pytest.mark.parametrize("source", ["logits.csv", "logits.npz", "logits.npy"])
def test_predict_writes_what_the_model_predicts(model, source, kind):
    result = succeed("predict", model, source, "-o", f"out.{kind}", "--alpha", 0.95)
    expected = in_memory().predict(np.load("logits.npy"), alpha=0.95)
    if kind == "npz":
        upper = read_npz("out.npz")["upper"]
    elif kind == "npy":
        upper = np.load("out.npy")[..., 1]
    else:
        table = pc.read_csv("out.csv") if kind == "csv" else pq.read_table("out.parquet")
        upper = table["upper"].to_numpy().reshape(200, 3)
        assert table["class"].to_pylist()[:3] == list(NAMES)
    np.testing.assert_allclose(upper, expected.upper, rtol=0, atol=1e-12)
    width = np.mean(expected.upper - expected.lower)
    assert f"200 inputs at alpha 0.95, mean width {width:.3f}" in result.stderr


def test_the_format_can_be_told_apart_from_the_name(model):
    succeed("predict", model, "logits.csv", "-o", "out", "--format", "parquet")
    assert pq.read_table("out").num_rows == 600
    message = fail("predict", model, "logits.csv", "-o", "out2", "--format", "xlsx")
    assert "output must end in .npz, .npy, .csv or .parquet: got xlsx." in message


# evaluate


def test_evaluate_tells_what_the_metrics_tell(model):
    alphas = [0.5, 0.9]
    succeed(
        "evaluate", model, "logits.csv", "--truth", "truth.csv", "--alpha", "0.5,0.9", "-o", "t.csv"
    )
    data = read_npz("logits.npz")
    sets = [in_memory().predict(data["logits"], alpha=a) for a in alphas]
    table = pc.read_csv("t.csv").to_pydict()
    assert table["alpha"] == alphas
    coverage = [decal.metrics.coverage(c, data["truth"]) for c in sets]
    efficiency = [decal.metrics.efficiency(c) for c in sets]
    np.testing.assert_allclose(table["coverage"], coverage)
    np.testing.assert_allclose(table["efficiency"], efficiency)
    error = decal.metrics.expected_calibration_error(sets[0].point, data["labels"])
    np.testing.assert_allclose(table["calibration_error"], [error, error])
    accuracy = np.mean(sets[0].point.argmax(axis=1) == data["labels"])
    np.testing.assert_allclose(table["accuracy"], [accuracy, accuracy])


def test_evaluate_prints_the_papers_levels_and_finds_truth_in_an_npz(model):
    printed = succeed("evaluate", model, "logits.npz").stdout
    found = re.findall(r"│ +([\d.]+) │ +([\d.]+) │ +([\d.]+) │", printed)
    assert [level for level, _, _ in found] == [f"{level:g}" for level in PAPER_ALPHAS]
    assert found[0] == ("0", "1.000", "0.000")
    assert re.search(r"point prediction: accuracy 0\.\d{3}, expected calibration error", printed)


def test_evaluate_without_labels_leaves_accuracy_out(model):
    printed = succeed("evaluate", model, "logits.npy", "--truth", "truth.csv").stdout
    assert "coverage" in printed
    assert "accuracy" not in printed


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "logits.npy"], "labels must come with the logits: got none in logits.npy."),
        (
            ["fit", "logits.csv", "--label-column", "x"],
            "labels must be found in logits.csv: got no",
        ),
        (
            ["fit", "logits.npz", "--logits-key", "z"],
            "got no z among logits, labels, classes, truth",
        ),
        (["fit", "logits.csv", "--alpha", "2"], "alpha must lie between 0 and 1: got 2.0."),
        (["fit", "logits.csv", "--likelihood", "x"], "likelihood must be one of 'mean', 'sum'"),
        (["fit", "logits.csv", "--probabilities"], "probabilities must be finite and not negative"),
        (["predict", "logits.npz", "logits.csv"], "must be a file that `save` wrote"),
    ],
)
def test_bad_input_ends_in_one_line_and_no_file(arguments, message):
    assert message in fail(*arguments, "-o", "out.npz")


def test_bad_levels_are_refused(model):
    for levels in ("0.5,x", "0.5,1.5", ","):
        message = fail("evaluate", model, "logits.npz", "--alpha", levels)
        assert "alpha must be numbers from 0 to 1, with commas between: got" in message


def test_evaluate_asks_for_the_truth(model):
    message = fail("evaluate", model, "logits.csv")
    assert "truth must come with the logits: got none in logits.csv" in message


def test_a_file_that_does_not_exist_is_a_usage_error():
    result = run("fit", "nothing.csv", "-o", "model.npz")
    assert result.exit_code == 2
    assert "nothing.csv" in result.stderr


def test_nothing_is_overwritten_without_force(model):
    before = Path(model).read_bytes()
    assert "output must be a new file: got model.npz." in fail("fit", "logits.csv", "-o", model)
    assert Path(model).read_bytes() == before
    succeed("fit", "logits.csv", "-o", model, "--alpha", 0.5, "--force")
    assert decal.Decalibrator.load(model).alpha == 0.5
    for command in ("predict", "evaluate"):
        Path("old.csv").touch()
        assert "Overwrite it with --force." in fail(command, model, "logits.npz", "-o", "old.csv")


def test_an_error_in_the_middle_leaves_nothing_behind(model):
    logits = np.load("logits.npy")
    logits[150, 2] = np.nan
    np.save("bad.npy", logits)
    message = fail("predict", model, "bad.npy", "-o", "out.npz")
    assert "logits must be finite: got nan in bad.npy, row 150, column 2." in message


def test_an_interrupt_is_tidy(model, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(decal.Decalibrator, "predict", interrupted)
    before = sorted(os.listdir())
    result = run("predict", model, "logits.csv", "-o", "out.csv")
    assert result.exit_code == 130
    assert result.stderr == "Stopped. Nothing half-written was left behind.\n"
    assert sorted(os.listdir()) == before


# The program


def test_the_version_is_printed():
    assert succeed("--version").stdout == f"decal {decal.__version__}\n"


@pytest.mark.parametrize(
    "command", [[], ["fit"], ["predict"], ["evaluate"], ["demo"], ["reproduce"]]
)
def test_every_command_has_help(command):
    assert "Usage: " in succeed(*command, "--help").stdout


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
    message = fail("demo")
    assert (
        message == "decal demo: decal demo needs scikit-learn: pip install 'decal[cli,sklearn]'\n"
    )


def test_without_typer_the_program_says_what_to_install(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "decal._cli")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stopped:
        _entry.main()
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert message == "decal's command line needs typer: pip install 'decal[cli]'\n"


def test_a_piped_program_writes_plain_text_and_importing_decal_stays_light():
    command = [sys.executable, "-W", "error", "-m", "decal.__main__"]
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


# reproduce


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
        assert message in fail("reproduce", "directions", "--data", "data", *wrong)


def test_reproduce_gathers_results_on_a_page():
    write_logits("data")
    message = fail("reproduce", "--report", "page.html")
    assert "out must hold results of experiments: got none in decal-results." in message
    succeed("reproduce", "single-models", "--data", "data", "--report", "page.html")
    succeed("reproduce", "coverage-efficiency", "--data", "data")
    assert "coverage-efficiency" not in Path("page.html").read_text()
    told = succeed("reproduce", "--report", "page.html").stderr
    assert told == "Wrote page.html: coverage-efficiency, single-models\n"
    page = Path("page.html").read_text()
    assert "VGG 15" in page
    assert "decal reproduce single-models --data data" in page


def test_reproduce_all_leaves_out_what_has_no_data_and_says_so(monkeypatch):
    write_logits("data")
    command = sys.modules["decal._cli.reproduce"]
    some = {name: command.EXPERIMENTS[name] for name in ("zero-shot", "single-models")}
    monkeypatch.setattr(command, "EXPERIMENTS", some)
    result = succeed("reproduce", "--all", "--data", "data", "--out", "there")
    assert "zero-shot was left out: data must hold files of logits: got none" in result.stderr
    assert [path.name for path in Path("there").iterdir()] == ["single-models"]
    assert "got none in data" in fail("reproduce", "zero-shot", "--data", "data")


def test_reproduce_says_what_it_needs(monkeypatch):
    monkeypatch.delenv("DECAL_DATA", raising=False)
    message = fail("reproduce")
    assert "NAME must be one of coverage-efficiency, " in message
    assert ": got none. Try --list." in message
    assert ": got magic. Try --list." in fail("reproduce", "magic")
    assert "data must be a folder of logits: got none. Give it with --data or" in fail(
        "reproduce", "directions"
    )
    assert "data must be a folder of logits: got nowhere, which is none." in fail(
        "reproduce", "directions", "--data", "nowhere"
    )
    message = fail("reproduce", "directions", "--data", ".")
    assert "data must hold files of logits: got none in .. Needs clip_cifar10_en.npz, " in message


def test_fit_takes_directions():
    succeed("fit", "logits.npz", "-o", "m.npz", "--directions", "class,temperature")
    expected = in_memory(directions=("class", "temperature")).scales(0.95)
    found = decal.Decalibrator.load("m.npz").scales(0.95)
    assert found.lower == pytest.approx(expected.lower, abs=1e-6)
    message = fail("fit", "logits.npz", "-o", "n.npz", "--directions", "sideways")
    assert "directions must be one of 'class', 'temperature'" in message
