"""TabPFN's logits: coverage and efficiency by definition."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from decal_lab.experiments import (
    tabpfn,
)
from decal_lab.experiments.harness import tabular_models as tables
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.logit_sets import NoDataAvailableError
from decal_lab.experiments.harness.published_results import ALPHAS
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn
from oracles import class_shifts as oracles

needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn"
)


@undrawn()
def test_rows_are_coverage_and_efficiency_by_definition(tables_folder, tmp_path):
    run(tabpfn.experiment, tables_folder, tmp_path)
    found = {
        (row["seed"], float(row["alpha"])): (float(row["coverage"]), float(row["efficiency"]))
        for row in table(tmp_path / "rows.csv")
    }
    assert len(found) == 2 * len(ALPHAS)
    with np.load(tables_folder / "tabpfn_MIC_46980_seed2.npz") as file:
        data = dict(file)
    fit = data["train_logits"], data["train_labels"]
    for alpha in (0.2, 0.8, 0.95):
        b = oracles.budget(alpha, "mean", 40)
        ends = np.array([oracles.plausible_interval(*fit, k, b) for k in range(3)])
        lower, upper = oracles.box(data["test_logits"], *ends.T, "joint")
        inside = (data["truth"] >= lower - 5e-4) & (data["truth"] <= upper + 5e-4)
        coverage, efficiency = found["2", alpha]
        assert coverage == pytest.approx(inside.all(axis=1).mean(), abs=1e-12)
        assert efficiency == pytest.approx(1 - (upper - lower).mean(), abs=1e-6)


def test_the_published_mean_over_the_same_seeds_stands_beside(tables_folder, tmp_path):
    report = run(tabpfn.experiment, tables_folder, tmp_path)
    ((heading, lines),) = report.sections.items()
    assert heading == "MIC (46980), seeds 1, 2"
    by_name = {}
    for name, *cells in lines:
        by_name.setdefault(name, cells)
    assert by_name["coverage, published"] == ["0.600"] * 8
    assert by_name["efficiency, published"] == ["0.250"] * 8
    assert by_name["difference"][0] == "+0.400"  # everything is covered at alpha 0
    assert any("seed 3" in need for need in report.needs)
    assert any("tabpfn_anneal_46906_seed1.npz" in need for need in report.needs)


def test_without_logits_there_is_nothing_to_report(tmp_path):
    with pytest.raises(NoDataAvailableError, match="data must hold logits of TabPFN: got none"):
        run(tabpfn.experiment, tmp_path, tmp_path / "out")


@needs_sklearn
def test_semi_synthetic_labels_are_drawn_from_the_forest(tables_folder):
    loaded = tables.load(tables_folder, 46941)
    seen = {}

    def fit(X, y, classes, seed):  # noqa: ARG001
        seen["labels"] = y
        return lambda new: np.zeros((len(new), classes))

    encode = tables.logistic().encode
    model = tables.TableModel("none", encode, fit)
    split = tabpfn.semi_synthetic(loaded, model, 3)
    assert split.new_logits.shape == split.truth.shape == (18, 3)
    assert len(split.logits) == len(seen["labels"]) == 42
    np.testing.assert_allclose(split.truth.sum(axis=1), 1)
    again = tabpfn.semi_synthetic(loaded, model, 3)
    np.testing.assert_array_equal(again.labels, split.labels)
    np.testing.assert_array_equal(again.truth, split.truth)


@pytest.mark.data
@undrawn()
def test_efficiency_on_stored_logits_is_near_the_published(data_folder, tmp_path):
    run(tabpfn.experiment, data_folder, tmp_path, quick=True)
    with (data_folder / "published.json").open() as file:
        published = json.load(file)["effcre"]
    ours = {}
    for row in table(tmp_path / "rows.csv"):
        ours.setdefault((row["data"], row["seed"]), []).append(
            (float(row["alpha"]), float(row["efficiency"]))
        )
    assert len(ours) == 12
    for (number, seed), pairs in ours.items():
        theirs = published[f"cov_eff_{number}_tabpfn_{seed}"]["efficiency"]
        gaps = [abs(e - t) for (_, e), t in zip(sorted(pairs), theirs, strict=True)]
        assert max(gaps) < (0.04 if number in ("46941", "46963", "46960") else 0.12), number
