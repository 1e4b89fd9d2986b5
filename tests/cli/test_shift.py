"""decal shift, as a user runs it."""

from __future__ import annotations

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
    best.fit(*draw(800, [0.5, 0.3, 0.2]), classes=NAMES).save("best.npz")
    np.save("new.npy", draw(40, [0.8, 0.05, 0.15])[0])
    return decal.LabelShift.of(best)


def test_frequencies_are_printed_and_intervals_written(files):
    said = succeed("shift", "best.npz", "new.npy", "-o", "adapted.npz").output
    found = files.observe(np.load("new.npy"))
    for number in (found.frequencies.estimate[0], found.frequencies.upper[1]):
        assert f"{number:.3f}" in said
    assert f"p-value {found.test().p_value:.3g}" in said
    sets = found.predict(np.load("new.npy"))
    assert read_npz("adapted.npz")["upper"] == pytest.approx(sets.upper, abs=1e-7)


def test_what_if_supposes_frequencies(files):
    said = succeed(
        "shift", "best.npz", "new.npy", "--what-if", "melanoma=0.01:0.1", "-o", "supposed.npz"
    ).output
    assert "p-value" not in said
    sets = files.predict(np.load("new.npy"), frequencies={"melanoma": (0.01, 0.1)})
    assert read_npz("supposed.npz")["lower"] == pytest.approx(sets.lower)
    assert read_npz("supposed.npz")["point"] == pytest.approx(sets.point)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--what-if", "melanoma=0.1"], "--what-if needs --output"),
        (["--what-if", "melanoma", "-o", "x.npz"], "must be CLASS=LOW:HIGH"),
        (["--what-if", "mole=a:b", "-o", "x.npz"], "must be CLASS=LOW:HIGH"),
        (["--what-if", "boil=0.1", "-o", "x.npz"], "must name classes: got 'boil'"),
        (["--confidence", "2"], "confidence must lie between 0 and 1: got 2"),
        (["--region", "all"], "region must be"),
    ],
)
def test_bad_options_are_refused(options, message):
    assert message in refused("shift", "best.npz", "new.npy", *options)
