"""decal shift, as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import decal
from helpers.archives import read_npz
from helpers.commands import refused, succeed

NAMES = ["mole", "melanoma", "wart"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A recalibrated model, and unlabelled inputs of another mix of classes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)

    def draw(n, frequencies):
        y = rng.choice(3, p=frequencies, size=n)
        x = rng.normal(size=(n, 3))
        x[np.arange(n), y] += 2
        return 3 * x, y

    best = decal.Decalibrator(reference="best", directions=("class", "temperature"))
    logits, labels = draw(800, [0.5, 0.3, 0.2])
    np.savez("labelled.npz", logits=logits, labels=labels)
    best.fit(logits, labels, classes=NAMES).save("best.npz")
    np.save("new.npy", draw(40, [0.8, 0.05, 0.15])[0])
    return decal.LabelShift.of(best)


@pytest.fixture
def labelled(files):  # noqa: ARG001  (which writes them)
    with np.load("labelled.npz") as archive:
        return archive["logits"], archive["labels"]


def test_frequencies_are_printed_and_intervals_written(files):
    said = succeed("shift", "best.npz", "new.npy", "-o", "adapted.npz").output
    found = files.observe(np.load("new.npy"))
    for number in (found.frequencies.estimate[0], found.frequencies.upper[1]):
        assert f"{number:.3f}" in said
    assert f"p-value {found.test().p_value:.3g}" in said
    sets = found.predict(np.load("new.npy"))
    assert read_npz("adapted.npz")["upper"] == pytest.approx(sets.upper, abs=2e-3)


@pytest.mark.parametrize("probabilities", [False, True])
def test_a_model_that_is_not_calibrated_is_refused_with_the_command_that_makes_one(
    labelled, probabilities
):
    z, y = labelled
    given = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) if probabilities else z
    np.savez("rows.npz", **{"probabilities" if probabilities else "logits": given}, labels=y)
    options = ["--probabilities", "--floor", "1e-06"] if probabilities else []
    succeed("fit", "--alpha=0.8", "rows.npz", "-o", "default.npz", *options)
    for asked in ([], ["--what-if", "0=0.1", "-o", "x.npz"]):
        message = refused("shift", "default.npz", "rows.npz", *asked)
        assert "got default.npz with --reference model --directions class" in message
    words = re.search(r"decal (fit LABELLED .*\.npz)", message)[1].split()
    succeed(*["rows.npz" if word == "LABELLED" else word for word in words], "--force")
    made = decal.Decalibrator.load(words[-1])
    assert (made.probabilities, made.floor) == (probabilities, 1e-6 if probabilities else None)
    assert "may not have changed" in succeed("shift", words[-1], "rows.npz").output


def test_what_if_supposes_frequencies(files):
    said = succeed(
        "shift", "best.npz", "new.npy", "--what-if", "melanoma=0.01:0.1", "-o", "supposed.npz"
    ).output
    assert "p-value" not in said
    sets = files.predict(np.load("new.npy"), frequencies={"melanoma": (0.01, 0.1)})
    assert read_npz("supposed.npz")["lower"] == pytest.approx(sets.lower)
    assert read_npz("supposed.npz")["point"] == pytest.approx(sets.point)


def test_several_classes_and_balls_are_supposed(files):
    z = np.load("new.npy")
    several = {"melanoma": (0.01, 0.1), "wart": 0.2}
    asked = ["--what-if", "melanoma=0.01:0.1,wart=0.2"]
    for options, frequencies in (
        (asked, several),
        (["--what-if", "melanoma=0.01:0.1", "--what-if", "wart=0.2"], several),
        (["--ratio", "1.5"], decal.shift.Near(ratio=1.5)),
        (["--kl", "0.1"], decal.shift.Near(kl=0.1)),
        (["--chi2", "0.1", "--around", "before"], decal.shift.Near(chi2=0.1)),
    ):
        succeed("shift", "best.npz", "new.npy", *options, "-o", "supposed.npz", "--force")
        sets = files.predict(z, frequencies=frequencies)
        assert read_npz("supposed.npz")["upper"] == pytest.approx(sets.upper)


def test_what_was_observed_is_kept_and_goes_on(files):
    z = np.load("new.npy")
    np.save("first.npy", z[:25])
    np.save("second.npy", z[25:])
    succeed("shift", "best.npz", "first.npy", "--save", "clinic.npz", "--confidence", "0.8")
    succeed("shift", "clinic.npz", "second.npy", "--save", "clinic.npz", "--force")
    kept = decal.LabelShift.load("clinic.npz")
    assert kept.confidence == 0.8
    assert kept.frequencies.inputs == 40
    assert kept.frequencies.estimate == pytest.approx(files.observe(z).frequencies.estimate)
    said = succeed("shift", "clinic.npz", "first.npy", "--no-observe", "-o", "adapted.npz").output
    assert "40 inputs, intervals at 0.8" in said
    assert read_npz("adapted.npz")["lower"] == pytest.approx(kept.predict(z[:25]).lower, abs=2e-3)
    near = decal.shift.Near("observed", kl=0.05)
    succeed(
        "shift", "clinic.npz", "first.npy", "--kl", "0.05", "--around", "observed", "-o", "near.npz"
    )
    assert read_npz("near.npz")["lower"] == pytest.approx(
        kept.predict(z[:25], frequencies=near).lower
    )


def test_a_folder_is_observed_and_predicted_into_a_folder(files, tmp_path):
    z = np.load("new.npy")
    (tmp_path / "parts").mkdir()
    np.save("parts/a.npy", z[:15])
    np.save("parts/b.npy", z[15:])
    said = succeed("shift", "best.npz", "parts", "-o", "adapted").output
    assert "40 inputs" in said
    pyarrow = pytest.importorskip("pyarrow.parquet")
    written = pyarrow.read_table("adapted/b.parquet")
    sets = files.observe(z).predict(z[15:])
    assert np.array(written["upper"].to_pylist()) == pytest.approx(sets.upper, abs=2e-3)
    again = succeed("shift", "best.npz", "parts", "-o", "adapted").output
    assert "Continuing after 40 rows done before" in again
    assert "which is not" in refused(
        "shift", "best.npz", "parts", "-o", "adapted", "--confidence", "0.5"
    )
    said = succeed("shift", "best.npz", "parts", "--sample", "10").output
    assert "random sample of 10 of 40 inputs" in said


def test_intervals_allow_for_few_labels_unless_asked_not_to(files):
    z = np.repeat(np.load("new.npy"), 40, axis=0)
    np.save("many.npy", z)
    wide = files.observe(z).frequencies.upper[0]
    narrow = files.with_settings(corrected=False).frequencies.upper[0]
    assert wide > narrow + 0.004
    save = ["--save", "plain.npz", "--region", "joint"]
    assert f"{wide:.3f}" in succeed("shift", "best.npz", "many.npy").output
    assert (
        f"{narrow:.3f}" in succeed("shift", "best.npz", "many.npy", "--uncorrected", *save).output
    )
    again = ["shift", "plain.npz", "new.npy", "--no-observe"]
    assert f"{narrow:.3f}" in succeed(*again).output
    assert f"{wide:.3f}" in succeed(*again, "--corrected").output


def test_tables_are_written_and_pipes_work(files):
    z = np.load("new.npy")
    succeed("shift", "best.npz", "new.npy", "--table", "frequencies.csv")
    lines = Path("frequencies.csv").read_text().replace('"', "").splitlines()
    assert lines[0] == "class,before,estimate,lower,upper,p_value"
    found = files.observe(z)
    estimate = {line.split(",")[0]: float(line.split(",")[2]) for line in lines[1:]}
    assert estimate["mole"] == pytest.approx(found.frequencies.estimate[0])
    piped = succeed("shift", "best.npz", "-", "-o", "-", stdin=Path("new.npy").read_bytes())
    assert piped.stdout.splitlines()[0] == "row,class,lower,upper,point"
    assert len(piped.stdout.splitlines()) == 1 + 40 * 3
    assert "p-value" in piped.stderr


def test_the_bootstrap_draws_the_labelled_file_again(files, labelled):
    options = ["--bootstrap", "20", "--labelled", "labelled.npz"]
    said = succeed("shift", "best.npz", "new.npy", *options, "--save", "wider.npz").output
    wider = files.observe(np.load("new.npy")).bootstrapped(20, labelled=labelled)
    assert f"{wider.frequencies.upper[1]:.3f}" in said
    assert decal.LabelShift.load("wider.npz").test().p_value == pytest.approx(wider.test().p_value)
    np.savez("labelled.npz", logits=labelled[0][:9], labels=labelled[1][:9])
    assert "labelled must be the 800 examples" in refused("shift", "best.npz", "new.npy", *options)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--what-if", "melanoma=0.1"], "--chi2 need --output"),
        (["--kl", "0.1"], "need --output"),
        (["--kl", "0.1", "--ratio", "2", "-o", "x.npz"], "one of them: got ratio and kl"),
        (["--kl", "0.1", "--what-if", "mole=0.1", "-o", "x.npz"], "--what-if must stand alone"),
        (["--around", "observed"], "--around must go with"),
        (["--kl", "1", "--around", "observed", "-o", "x.npz"], "must have observed"),
        (["--bootstrap", "50"], "--bootstrap and --labelled must be given together"),
        (["--no-observe"], "must have observed unlabelled inputs first"),
        (["--no-observe", "--save", "x.npz"], "--save must keep something new"),
        (["--save", "best.npz"], "Overwrite it with --force"),
        (["--ratio", "2", "-o", "x.npz", "--table", "t.csv"], "about what is observed"),
        (["--what-if", "melanoma", "-o", "x.npz"], "must be CLASS=LOW:HIGH"),
        (["--what-if", "mole=a:b", "-o", "x.npz"], "must be CLASS=LOW:HIGH"),
        (["--what-if", "boil=0.1", "-o", "x.npz"], "must name classes: got 'boil'"),
        (["--confidence", "2"], "confidence must lie between 0 and 1: got 2"),
        (["--region", "all"], "region must be"),
    ],
)
def test_bad_options_are_refused(options, message):
    assert message in refused("shift", "best.npz", "new.npy", *options)
