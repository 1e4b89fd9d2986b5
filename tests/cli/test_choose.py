"""decal choose, as a user runs it."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.archives import read_npz

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc

import decal
from helpers.commands import refused, succeed

pytestmark = pytest.mark.usefixtures("logit_files")


def choices(model):
    """What the functions choose, by the options that ask for the same."""
    data = read_npz("logits.npz")
    z, y, truth = data["logits"], data["labels"], np.load("people.npy")
    dominance = {"rule": "interval_dominance"}
    return {
        ("--width", 0.3): decal.choose(model, z, width=0.3),
        ("--coverage", 0.9): decal.choose(model, z, coverage=0.9, distributions=truth),
        ("--coverage", 0.9, "--guaranteed"): decal.choose(
            model, z, coverage=0.9, distributions=truth, guaranteed=True
        ),
        ("--miss", 0.1): decal.choose(model, z, y, miss=0.1),
        ("--miss", 0.1, "--rule", "interval_dominance"): decal.choose(
            model, z, y, miss=0.1, **dominance
        ),
    }


def test_it_chooses_what_the_functions_choose(model):
    rough = np.random.default_rng(1).dirichlet([1, 1, 1], 200)
    np.save("people.npy", 0.9 * read_npz("logits.npz")["truth"] + 0.1 * rough)
    found = set()
    for options, choice in choices(decal.Decalibrator.load(model)).items():
        result = succeed("choose", model, "logits.npz", "--truth", "people.npy", *options)
        assert float(result.stdout) == choice.alpha
        assert result.stderr == f"{choice}\n"
        found.add(choice.alpha)
    assert len(found) == 5  # each option counts


def test_distributions_are_guaranteed_with_local_sets(model):
    options = ("--hold", 0.7, "--seed", 1)
    message = refused("choose", model, "logits.csv", *options)
    assert "got class. Fit it anew with --directions local --mix 0.001." in message
    succeed(
        "fit",
        "--alpha=0.8",
        "logits.csv",
        "-o",
        "local.npz",
        "--directions",
        "local",
        "--mix",
        0.001,
    )
    data, local = read_npz("logits.npz"), decal.Decalibrator.load("local.npz")
    for more in ({}, {"confidence": 0.8}):
        choice = decal.choose(local, data["logits"], data["labels"], hold=0.7, seed=1, **more)
        extra = [f"--confidence={more['confidence']}"] if more else []
        result = succeed("choose", "local.npz", "logits.csv", *options, *extra)
        assert float(result.stdout) == pytest.approx(choice.alpha, rel=1e-9)


def test_a_width_needs_no_labels(model):
    labelled = succeed("choose", model, "logits.npz", "--width", 0.3).stdout
    assert succeed("choose", model, "logits.npy", "--width", 0.3).stdout == labelled


def test_the_choice_is_written(model):
    options = ("--miss", 0.1)
    result = succeed("choose", model, "logits.csv", *options, "-o", "chosen.npz")
    alpha = float(result.stdout)
    chosen, before = decal.Decalibrator.load("chosen.npz"), decal.Decalibrator.load(model)
    assert chosen.alpha == alpha != before.alpha
    np.testing.assert_array_equal(chosen.shifts(0.5).upper, before.shifts(0.5).upper)
    data = read_npz("logits.npz")
    assert chosen.promise == decal.choose(before, data["logits"], data["labels"], miss=0.1).promise
    succeed("choose", model, "logits.csv", *options, "-o", "choice.csv")
    row = pc.read_csv("choice.csv").to_pydict()
    assert (row["alpha"], row["wish"], row["target"]) == ([alpha], ["miss"], [0.1])
    message = refused("choose", model, "logits.csv", *options, "-o", "choice.csv")
    assert "Overwrite it with --force." in message


def test_every_class_or_group_has_an_alpha_of_its_own(model):
    data, fitted = read_npz("logits.npz"), decal.Decalibrator.load(model)
    z, y, sites = data["logits"], data["labels"], np.arange(200) % 2
    np.savez("sites.npz", logits=z, labels=y, classes=data["classes"], site=sites)
    expected = decal.choose(fitted, z, y, miss=0.2, per="class")
    result = succeed("choose", model, "logits.csv", "--miss", 0.2, "--per", "class", "-o", "c.npz")
    assert float(result.stdout) == expected.alpha
    assert result.stderr.startswith(f"{expected}\n")
    assert decal.Decalibrator.load("c.npz").promise == expected.promise
    asked = ("sites.npz", "--miss", 0.2, "--groups", "site")
    succeed("choose", model, *asked, "-o", "g.npz")
    by_group, expected = decal.load("g.npz"), decal.choose(fitted, z, y, miss=0.2, groups=sites)
    found = by_group.predict(z, groups=sites).lower
    np.testing.assert_array_equal(found, expected.predict(z, groups=sites).lower)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the wish must be one of --miss, --width, --hold, --coverage: got none."),
        (["--miss", 0.1, "--coverage", 0.9], "got --miss and --coverage."),
        (["--coverage", 0.9], "truth must come with the logits: got none in logits.csv"),
        (["--miss", 2], "miss must lie between 0 and 1: got 2"),
        (["--miss", 0.1, "--guaranteed"], "guaranteed must go with --coverage"),
        (["--miss", 0.1, "--confidence", 0.9], "must go with --hold"),
        (["--miss", 0.1, "--rule", "point"], "rule must be one of"),
    ],
)
def test_bad_questions_are_refused(model, options, message):
    assert message in refused("choose", model, "logits.csv", *options)


@pytest.mark.filterwarnings("ignore:inputs that come in images")  # a promise about pixels
@pytest.mark.parametrize("wish", [("--width", 0.2), ("--miss", 0.1)])
def test_pixels_give_the_alpha_of_the_rows_that_are_not_ignored(model, wish):
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (60, 3, 4, 5))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    y[rng.random(y.shape) < 0.1] = 255
    known = y != 255
    np.savez("pixels.npz", logits=z, labels=y)
    np.savez("rows.npz", logits=np.moveaxis(z, 1, -1)[known], labels=y[known])
    dense = ("--dim", 1, "--ignore-index", 255)
    pixels = succeed("choose", model, "pixels.npz", *dense, *wish).stdout
    assert pixels == succeed("choose", model, "rows.npz", *wish).stdout
