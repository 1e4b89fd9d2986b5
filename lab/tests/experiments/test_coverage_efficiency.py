"""Coverage and efficiency at the paper's alphas: by the definition, and next to published ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from decal_lab.experiments import (
    coverage_efficiency,
)
from decal_lab.experiments import zero_shot_models as zero_shot
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.published_results import ALPHAS
from lab_helpers.experiment_files import softmax
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn


def by_brentq(logits, labels, alpha):
    """(2, K) ends of the plausible shifts, each by a root of its own: the definition."""
    z, rows = logits.astype(float), np.arange(len(logits))
    model = np.log(softmax(z)[rows, labels]).mean()
    ends = np.empty((2, z.shape[1]))
    for k in range(z.shape[1]):

        def slack(t, k=k):
            moved = z.copy()
            moved[:, k] += t
            return np.log(softmax(moved)[rows, labels]).mean() - model - np.log(alpha)

        ends[:, k] = [brentq(slack, 0, side, xtol=1e-12) for side in (-60, 60)]
    return ends


def by_definition(logits, ends):
    """Lower and upper probabilities over the model and all that are moved to an end."""
    models = [softmax(logits.astype(float))]
    for k in range(logits.shape[1]):
        for t in ends[:, k]:
            moved = logits.astype(float)
            moved[:, k] += t
            models.append(softmax(moved))
    return np.min(models, axis=0), np.max(models, axis=0)


@pytest.mark.parametrize("alpha", [0.4, 0.9])
def test_coverage_and_efficiency_are_those_of_the_definition(paper_runs, paper_folder, alpha):
    (row,) = (
        row
        for row in table(paper_runs[coverage_efficiency][0] / "rows.csv")
        if (row["data"], row["method"], float(row["alpha"]))
        == ("snli_roberta0/own", "class", alpha)
    )
    with np.load(paper_folder / "snli_roberta0.npz") as file:
        data = dict(file)
    ends = by_brentq(data["train_logits"], data["train_labels"], alpha)
    lower, upper = by_definition(data["test_logits"], ends)
    inside = (data["human"] >= lower - 5e-4) & (data["human"] <= upper + 5e-4)
    assert float(row["coverage"]) == inside.all(axis=1).mean()
    assert float(row["efficiency"]) == pytest.approx(1 - (upper - lower).mean(), abs=1e-9)


def test_published_numbers_stand_beside_ours_with_the_difference(paper_runs):
    _, report = paper_runs[coverage_efficiency]
    rows = report.sections["CLIP"]
    assert [float(row[0]) for row in rows] == list(ALPHAS)
    for _, coverage, theirs, difference, *_ in rows:
        assert theirs == "0.500"
        assert float(difference) == pytest.approx(float(coverage) - 0.5, abs=6e-4)
    (claim,) = report.claims
    assert claim.text.startswith("CLIP: within 0.006")
    assert not claim.holds  # these published numbers are made up
    network = report.further[0].sections["ResNet-20, own split"]
    assert network[-1][0] == "published ResNet-18"
    assert network[-1][1] == ".60/.25"  # the mean of two seeds


@undrawn()
def test_what_draws_nothing_is_computed_once_for_all_seeds(paper_folder, tmp_path):
    run(coverage_efficiency.experiment, paper_folder, tmp_path, seeds=(3, 4))
    seeds = {}
    for row in table(tmp_path / "rows.csv"):
        seeds.setdefault(row["data"], set()).add(int(row["seed"]))
    assert seeds["cnn_vgg_15_BN_64"] == {3, 4}
    assert seeds["clip_cifar10_en"] == seeds["resnet20_cifar10"] == {0}


@undrawn()
def test_without_the_humans_resnet_20_is_listed_as_needed(paper_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "resnet20_cifar10.npz").symlink_to(paper_folder / "resnet20_cifar10.npz")
    report = run(coverage_efficiency.experiment, folder, tmp_path / "out")
    assert any("CIFAR-10H, to evaluate ResNet-20" in need for need in report.needs)
    assert "ResNet-20, own split" not in report.further[0].sections


@pytest.mark.data
@pytest.mark.slow
@undrawn()
def test_the_published_curves_are_reproduced(data_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("clip_cifar10_en.npz", "siglip_cifar10_en.npz", "siglip2_cifar10_en.npz"):
        (folder / name).symlink_to((data_folder / name).resolve())
    (folder / "published.json").symlink_to((data_folder / "published.json").resolve())
    report = run(coverage_efficiency.experiment, folder, tmp_path / "out")
    assert [claim.holds for claim in report.claims] == [True] * 3
    for row in report.sections["CLIP"]:
        assert abs(float(row[3])) < 0.002
        assert abs(float(row[6])) < 0.002
    accuracy = run(zero_shot.experiment, folder, tmp_path / "zero")
    found = {row[0]: row[1] for row in accuracy.sections["CIFAR-10, English prompts"]}
    assert found == {"CLIP": "88.97", "SigLIP": "92.17", "SigLIP-2": "93.90"}
