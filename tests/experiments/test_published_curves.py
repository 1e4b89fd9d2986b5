"""The published coverage and efficiency, from the published logits."""

import json

import numpy as np
import pytest

import decal

WITHIN = 0.006


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
