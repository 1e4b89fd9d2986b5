"""Endpoints by two solvers, checked by a likelihood of our own."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal_lab.experiments import (
    solvers,
)
from decal_lab.experiments.harness.experiment import run, write
from decal_lab.experiments.harness.rows import Cell, RowStore
from lab_helpers.experiment_files import softmax
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn


def test_every_end_of_decal_reaches_its_alpha_by_a_likelihood_of_our_own(paper_runs, paper_folder):
    with np.load(paper_folder / "snli_roberta0.npz") as file:
        z, y = file["train_logits"].astype(float), file["train_labels"]
    mean = np.log(softmax(z)[np.arange(len(z)), y]).mean()
    rows = [r for r in table(paper_runs[solvers][0] / "rows.csv") if r["data"] == "snli_roberta0"]
    assert {row["method"] for row in rows} == {"decal", "SLSQP"}
    for row in rows:
        moved = z.copy()
        moved[:, int(row["endpoint"].split()[1])] += float(row["shift"])
        ratio = np.exp(np.log(softmax(moved)[np.arange(len(z)), y]).mean() - mean)
        assert float(row["reached"]) == pytest.approx(ratio, abs=1e-9)
        if row["method"] == "decal":
            assert ratio == pytest.approx(float(row["alpha"]), abs=1e-9)
    assert all(claim.holds for claim in paper_runs[solvers][1].claims)


def test_the_box_over_moved_models_is_the_one_of_the_library(paper_folder):
    with np.load(paper_folder / "cnn_vgg_15_BN_64_test.npz") as file:
        z, y = file["logits"], file["labels"]
    model = decal.Decalibrator().fit(z, y)
    ends = np.array([[s.lower, s.upper] for s in [model.shifts(0.7)]])
    found, expected = solvers.box(z, ends), model.predict(z, alpha=0.7)
    np.testing.assert_allclose(found.lower, expected.lower, atol=1e-9)
    np.testing.assert_allclose(found.upper, expected.upper, atol=1e-9)


def test_an_end_that_was_lost_is_counted_and_said(tmp_path):
    store = RowStore(tmp_path / "rows.csv", solvers.COLUMNS, level="endpoint")
    for method, lost in (("decal", 0.0), ("SLSQP", 1e31)):
        rows = []
        for alpha in solvers.ALPHAS:
            for side in solvers.SIDES:
                shift, reached = (lost, 0.0) if lost and alpha == 0.2 else (2.0, alpha)
                row = {
                    "endpoint": f"{alpha} 0 {side}",
                    "alpha": alpha,
                    "side": side,
                    "shift": shift,
                }
                row |= {"shift": shift, "reached": reached, "seconds": 0.0}
                row |= {"coverage": 1.0, "efficiency": 0.5}
                rows.append(row | {"decal": "0", "numpy": "0", "commit": "", "fingerprint": ""})
        same = {"data": "clip_cifar10_en", "method": method, "seed": 0}
        store.add(Cell("clip_cifar10_en", method, 0), [same | row for row in rows])
    report = write(solvers.findings(store), store, tmp_path, seeds=(0,))
    first, second, *_ = report.sections["CLIP"]
    assert first[:4] == ("0.2", "2 of 2", "0.000 to 0.000", "1e+31")
    assert second[:4] == ("0.4", "0 of 2", "0.400 to 0.400", "2")


@pytest.mark.data
@pytest.mark.slow
def test_the_published_solver_loses_ends_of_confident_networks(data_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    name = "cnn_vgg_15_BN_64_test.npz"
    with np.load(data_folder / name) as whole:  # every fourth image is as confident
        some = {key: whole[key][::4] for key in ("logits", "labels", "human")}
        np.savez(folder / name, classes=whole["classes"], **some)
    with undrawn():
        report = run(solvers.experiment, folder, tmp_path / "out", quick=True)
    missed = [int(row[1].split()[0]) for row in report.sections["VGG 15"]]
    assert sum(missed[:3]) > 0
    assert sum(missed[3:]) == 0
    assert all(claim.holds for claim in report.claims)
