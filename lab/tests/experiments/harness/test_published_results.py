"""The paper's results as data, and what decal computes from the published logits."""

from __future__ import annotations

import json

import numpy as np
import pytest

import decal
from decal_lab.experiments.harness.published_results import Published

WITHIN = 0.006


def test_published_curves_are_read_by_name(paper_folder):
    published = Published(paper_folder)
    curve = published.coverage("cifar10", "resnet")
    assert curve.seeds == (1, 2)
    assert curve.at("coverage", 0.8) == pytest.approx(0.6)
    assert np.isnan(curve.at("coverage", 0.81))
    assert published.coverage("cifar10", "res") is None
    assert published.ood("cifar10", "svhn", "resnet") is None
    assert published.active_learning(46941, "random") is None


@pytest.mark.data
@pytest.mark.parametrize("model", ["clip", "siglip", "siglip2"])
def test_coverage_and_efficiency_on_cifar10h_are_the_published_ones(data_folder, model):
    published = json.loads((data_folder / "published.json").read_text())
    curve = published["effcre"][f"cov_eff_cifar10_{model}_1"]
    with np.load(data_folder / f"{model}_cifar10_en.npz", allow_pickle=False) as file:
        logits, labels, human = file["logits"], file["labels"], file["human"]
    d = decal.decalibrate(logits, labels, alpha=0.8)
    assert len(curve["alpha"]) == 8
    for alpha, coverage, efficiency in zip(*(curve[key] for key in curve), strict=True):
        credal = d.predict(logits, alpha=alpha)
        assert decal.metrics.coverage(credal, human) == pytest.approx(coverage, abs=WITHIN)
        assert decal.metrics.efficiency(credal) == pytest.approx(efficiency, abs=WITHIN)
