"""Accuracy and calibration of single models."""

from __future__ import annotations

import numpy as np
import pytest

from decal_lab.experiments import (
    single_models,
)
from decal_lab.experiments.harness.experiment import run
from lab_helpers.experiment_files import softmax, with_tables
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn


@undrawn()
def test_published_single_models_stand_below_ours_on_the_same_data(
    paper_folder, paper_runs, tmp_path
):
    entered = {"single models": {"ResNet-18, CIFAR-10": [12, 0.07], "MRI's": [34, 0.3]}}
    report = run(
        single_models.experiment, with_tables(paper_folder, tmp_path, **entered), tmp_path / "out"
    )
    networks = report.sections["Networks, CIFAR-10 test"]
    assert networks[-1] == ("published: ResNet-18, CIFAR-10", "12", "0.07", "", "")
    assert len(networks) > 1
    assert report.sections[single_models.OTHER_DATA] == [("published: MRI's", "34", "0.30", "", "")]
    assert single_models.TABLE not in report.needs
    assert single_models.TABLE in paper_runs[single_models][1].needs


def test_single_models_are_measured_and_tables_draw_their_labels(
    paper_runs, paper_folder, tmp_path
):
    rows = table(paper_runs[single_models][0] / "rows.csv")
    names = {row["data"] for row in rows}
    assert names == {path.stem for path in paper_folder.glob("*.npz")}
    found = {r["measure"]: float(r["value"]) for r in rows if r["data"] == "resnet20_cifar10"}
    with np.load(paper_folder / "resnet20_cifar10.npz") as file:
        p, y = softmax(file["cifar10_test"].astype(float)), file["test_labels"]
    log_loss = -np.log(p[np.arange(len(p)), y]).mean()
    assert found["accuracy"] == np.mean(p.argmax(axis=1) == y)
    assert found["negative log-likelihood"] == pytest.approx(log_loss, abs=1e-9)
    with undrawn():
        run(single_models.experiment, paper_folder, tmp_path, seeds=(0, 1))
    of_table = [r for r in table(tmp_path / "rows.csv") if r["data"].startswith("tabpfn")]
    accuracy = [float(r["value"]) for r in of_table if r["measure"] == "accuracy"]
    assert len(accuracy) == 2
    assert accuracy[0] != accuracy[1]


def test_drawn_labels_follow_the_truth(tmp_path):
    truth = np.tile([0.1, 0.2, 0.7], (20_000, 1))
    np.savez(tmp_path / "tabpfn_MIC_46980_seed1", test_logits=np.log(truth), truth=truth)
    (source,) = single_models.sources(["tabpfn_MIC_46980_seed1"])
    _, labels = source.load(tmp_path, 0)
    np.testing.assert_allclose(np.bincount(labels) / len(labels), truth[0], atol=0.01)
