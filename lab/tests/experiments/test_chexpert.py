"""Ten models and eight radiologists, on a small file of the same form."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from decal_lab.experiments import chexpert
from decal_lab.experiments.harness.experiment import run
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn


@pytest.fixture
def folder(tmp_path):
    """300 images, three findings; one model gives probabilities, the other scores above 1."""
    rng = np.random.default_rng(0)
    odds = rng.normal(-0.5, 2, (300, 3))
    p = 1 / (1 + np.exp(-odds))
    radiologists = (rng.random((8, 300, 3)) < p).astype(np.int8)
    truth = (radiologists[:5].sum(axis=0) > 2).astype(np.int8)
    scores = {"model_sure": p, "model_large": 2.5 * p}
    (tmp_path / "chexpert").mkdir()
    np.savez(tmp_path / chexpert.FILE, groundtruth=truth, radiologists=radiologists, **scores)
    return tmp_path


@undrawn()
def test_every_model_is_measured_against_radiologists(folder, tmp_path):
    report = run(chexpert.experiment, folder, tmp_path / "out", quick=True)
    rows = table(tmp_path / "out" / "rows.csv")
    assert {row["data"] for row in rows} == {"sure", "large"}
    for model in ("sure", "large"):
        found = {row["measure"]: float(row["value"]) for row in rows if row["data"] == model}
        assert set(found) == set(chexpert.MEASURES)
        assert found["wrong"] <= found["worst finding"]
        assert found["wrong"] < 0.08
        assert found["disagreement, open"] > found["disagreement, decided"]
    assert [line[0] for line in report.sections[""]] == ["sure", "large"]
    assert len(report.claims) == 4


def test_scores_above_one_become_logarithms():
    assert chexpert.logits_of(np.array([[0.5, 2.0]])) == pytest.approx(np.log([[0.5, 2.0]]))
    assert chexpert.logits_of(np.array([[0.5, 0.75]])) == pytest.approx(np.array([[0, np.log(3)]]))
    assert np.isfinite(chexpert.logits_of(np.array([[0.0, 1.0]]))).all()


def test_disagreement_is_that_of_two_radiologists():
    for yes in range(9):
        answers = [1] * yes + [0] * (8 - yes)
        pairs = list(combinations(answers, 2))
        share = np.mean([one != other for one, other in pairs])
        assert chexpert.disagreement(np.array(yes), 8) == pytest.approx(share)


def test_an_image_is_never_predicted_by_a_model_that_saw_it(monkeypatch):
    seen = []

    class Model:
        def __init__(self, logits):
            self.known = set(logits[:, 0].tolist())

        def predict(self, logits):
            seen.append(len(logits))
            assert not self.known & set(logits[:, 0].tolist())
            import decal

            return decal.MultiLabelCredalSet(logits * 0, logits * 0 + 1, point=logits * 0 + 0.5)

    monkeypatch.setattr(chexpert.decal, "decalibrate_labels", lambda z, *_, **__: Model(z))
    z = np.arange(50.0)[:, None]
    said, *_ = chexpert.cross_fitted(z, np.zeros((50, 1), dtype=int), 0)
    assert sum(seen) == 50
    assert (said == -1).all()
