"""decal evaluate, as a user runs it."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from helpers.archives import read_npz

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc

import decal
from decal.cli.evaluate import PAPER_ALPHAS
from helpers.commands import refused, succeed
from helpers.logit_files import NAMES, read_by_several

pytestmark = pytest.mark.usefixtures("logit_files")


def in_memory():
    data = read_npz("logits.npz")
    return decal.decalibrate(data["logits"], data["labels"], alpha=0.8)


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


def test_the_models_own_level_is_among_the_levels_and_named(logit_files):  # noqa: ARG001
    succeed("fit", "logits.csv", "-o", "own.npz", "--alpha", "0.97")
    printed = succeed("evaluate", "own.npz", "logits.npz", "-o", "t.csv").stdout
    assert "own.npz has alpha 0.97" in printed
    table = pc.read_csv("t.csv").to_pydict()
    assert table["alpha"] == [0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.97, 1]
    data = read_npz("logits.npz")
    credal = in_memory().predict(data["logits"], alpha=0.97)
    assert table["efficiency"][7] == pytest.approx(1 - (credal.upper - credal.lower).mean())
    printed = succeed("evaluate", "own.npz", "logits.npz", "--alpha", "0.5").stdout
    assert "own.npz has alpha 0.97" in printed


def test_evaluate_without_labels_leaves_accuracy_out(model):
    printed = succeed("evaluate", model, "logits.npy", "--truth", "truth.csv").stdout
    assert "coverage" in printed
    assert "accuracy" not in printed


def test_labels_alone_tell_misses_and_sizes(model):
    table = ["--alpha", "0.5,0.95", "-o", "t.csv"]
    result = succeed("evaluate", model, "logits.csv", *table)
    assert "miss rate" in result.stdout
    assert "coverage" not in result.stdout
    found = pc.read_csv("t.csv").to_pydict()
    data = read_npz("logits.npz")
    for a, alpha in enumerate([0.5, 0.95]):
        credal = in_memory().predict(data["logits"], alpha=alpha)
        kept = credal.decide("e_admissible")
        missed = [not kept[row, label] for row, label in enumerate(data["labels"])]
        assert found["miss_rate"][a] == pytest.approx(np.mean(missed))
        assert found["set_size"][a] == pytest.approx(kept.sum() / 200)
        assert found["efficiency"][a] == pytest.approx(decal.metrics.efficiency(credal))
    p = credal.point[np.arange(200), data["labels"]]
    assert found["log_loss"][0] == pytest.approx(-np.log(p).mean())


def test_the_rule_decides_what_is_kept(model):
    sizes = {}
    for rule in ("e_admissible", "interval_dominance"):
        succeed("evaluate", model, "logits.csv", "--rule", rule, "-o", f"{rule}.csv")
        sizes[rule] = pc.read_csv(f"{rule}.csv")["set_size"].to_pylist()
    kept = in_memory().predict(np.load("logits.npy")).decide("interval_dominance").sum() / 200
    assert sizes["interval_dominance"][4] == pytest.approx(kept)  # alpha 0.8
    assert sizes["interval_dominance"] > sizes["e_admissible"]
    message = refused("evaluate", model, "logits.csv", "--rule", "point")
    assert "rule must be one of 'interval_dominance', 'maximality', 'e_admissible'" in message


def test_bad_levels_are_refused(model):
    for levels in ("0.5,x", "0.5,1.5", ","):
        message = refused("evaluate", model, "logits.npz", "--alpha", levels)
        assert "alpha must be numbers from 0 to 1, with commas between: got" in message


def test_evaluate_asks_for_labels_or_truth(model):
    message = refused("evaluate", model, "logits.npy")
    assert "labels or truth must come with the logits: got neither in logits.npy." in message


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_labels_of_several_people_tell_misses_by_input_and_disagreement(kind, model, monkeypatch):
    monkeypatch.setattr(sys.modules["decal.cli.evaluate"], "CHUNK_ELEMENTS", 100)
    path, logits, votes = read_by_several(kind)
    people = ["--annotators", "ann,bob,cy", "--alpha", "0.5,0.95", "-o", "t.csv"]
    printed = succeed("evaluate", model, path, *people).stdout
    assert "coverage" not in printed
    assert "accuracy" not in printed
    found = pc.read_csv("t.csv").to_pydict()
    for a, alpha in enumerate([0.5, 0.95]):
        credal = in_memory().predict(logits, alpha=alpha)
        kept = credal.decide("e_admissible")
        missed = [np.average(~kept[i], weights=said) for i, said in enumerate(votes.counts)]
        assert found["miss_rate"][a] == pytest.approx(np.mean(missed))
        assert found["set_size"][a] == pytest.approx(kept.sum() / len(votes))
        told = decal.evaluate.disagreement(credal, votes)
        assert found["least_disagreement"][a] == pytest.approx(told.lower.mean())
        assert found["most_disagreement"][a] == pytest.approx(told.upper.mean())
        assert found["disagreement"][a] == pytest.approx(told.observed.mean())
    assert f"differ in {told.observed.mean():.3f} of pairs, by {len(told.inputs)} in" in printed


def test_known_distributions_go_beside_the_labels_of_several_people(model):
    path, logits, _ = read_by_several("csv")
    given = ["--columns", ",".join(NAMES), "--truth", "truth.csv", "-o", "t.csv"]
    succeed("evaluate", model, path, "--annotators", "ann", *given)
    found = pc.read_csv("t.csv").to_pydict()
    truth = read_npz("logits.npz")["truth"]
    expected = decal.metrics.coverage(in_memory().predict(logits, alpha=0.8), truth)
    assert found["coverage"][4] == pytest.approx(expected)
    assert "miss_rate" in found
    assert "disagreement" not in found  # one person agrees with nobody


def test_annotators_come_in_one_file_and_not_beside_labels(model):
    path, *_ = read_by_several("csv")
    people = ["--annotators", "ann,bob"]
    said = refused("evaluate", model, path, *people, "--labels", "labels.npy")
    assert "annotators must be left out with --labels: got both" in said
    assert "annotators must go with one file: got the folder" in refused(
        "evaluate", model, ".", *people
    )
