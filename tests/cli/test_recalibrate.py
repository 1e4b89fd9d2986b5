"""decal recalibrate, as a user runs it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc

import decal
from helpers.archives import read_npz
from helpers.commands import refused, succeed
from helpers.logit_files import NAMES

pytestmark = pytest.mark.usefixtures("logit_files")


@pytest.fixture
def best(logit_files):  # noqa: ARG001
    """A recalibrated model of logits that are three times too large, and biased."""
    data = read_npz("logits.npz")
    np.savez("off.npz", logits=3 * data["logits"] + [2, 0, 0], labels=data["labels"], classes=NAMES)
    settings = ("--reference", "best", "--directions", "class,temperature")
    succeed("fit", "--alpha=0.8", "off.npz", "-o", "best.npz", *settings)
    return "best.npz"


@pytest.mark.parametrize("kind", ["npz", "npy", "csv", "parquet"])
def test_recalibrated_logits_are_those_of_the_point(best, kind):
    succeed("recalibrate", best, "off.npz", "-o", f"r.{kind}")
    wanted = decal.Decalibrator.load(best).predict(read_npz("off.npz")["logits"]).point
    # What was written is read again, by a model that moves nothing.
    succeed("fit", "--alpha=0.8", f"r.{kind}", "--labels", "labels.npy", "-o", "plain.npz")
    succeed("predict", "plain.npz", f"r.{kind}", "-o", "sets.npz")
    np.testing.assert_allclose(read_npz("sets.npz")["point"], wanted, rtol=0, atol=1e-12)


def test_probabilities_can_be_written_with_their_labels(best):
    succeed("recalibrate", best, "off.npz", "--write", "probabilities", "-o", "r.csv")
    table = pc.read_csv("r.csv")
    assert table.column_names == [*NAMES, "label"]
    found = np.column_stack([table[name].to_numpy() for name in NAMES])
    wanted = decal.Decalibrator.load(best).predict(read_npz("off.npz")["logits"]).point
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    assert table["label"].to_pylist() == [NAMES[k] for k in read_npz("off.npz")["labels"]]


def test_it_says_what_was_gained(best):
    data, model = read_npz("off.npz"), decal.Decalibrator.load(best)
    result = succeed("recalibrate", best, "off.npz", "-o", "r.npz")
    z = data["logits"]
    raw = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    for word, p in (("before:", raw), ("after: ", model.predict(z).point)):
        loss = -np.log(p[np.arange(200), data["labels"]]).mean()
        error = decal.metrics.expected_calibration_error(p, data["labels"])
        assert f"{word} accuracy" in result.stdout
        assert f"calibration error {error:.3f}, log-loss {loss:.3f} nats" in result.stdout
    assert f"scale {model.reference_model.scale:.4g}" in result.stderr


def test_without_labels_nothing_is_claimed(best):
    np.save("new.npy", read_npz("off.npz")["logits"])
    assert succeed("recalibrate", best, "new.npy", "-o", "r.npy").stdout == ""


def test_classes_never_labelled_come_out_impossible():
    data = read_npz("logits.npz")
    some = data["labels"] < 2
    np.savez("two.npz", logits=data["logits"][some], labels=data["labels"][some])
    succeed("fit", "--alpha=0.8", "two.npz", "-o", "b.npz", "--reference", "best")
    succeed("recalibrate", "b.npz", "logits.npy", "--write", "probabilities", "-o", "p.npy")
    p = np.load("p.npy")
    assert (p[:, 2] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_other_models_have_nothing_to_recalibrate_with(model):
    message = refused("recalibrate", model, "logits.csv", "-o", "r.csv")
    assert "model must be fitted with --reference best: got model.npz with 'model'." in message
    message = refused("recalibrate", model, "logits.csv", "-o", "r.csv", "--write", "odds")
    assert "write must be one of 'logits', 'probabilities': got 'odds'" in message
