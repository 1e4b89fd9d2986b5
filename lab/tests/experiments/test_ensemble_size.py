"""AUROC by the number of networks."""

from __future__ import annotations

import numpy as np
import pytest

from decal_lab.experiments import (
    ensemble_size,
)
from decal_lab.experiments.harness.experiment import run
from lab_helpers.experiment_runs import Stopped, numbers
from lab_helpers.undrawn import undrawn
from oracles import boxes as box_oracles


@pytest.fixture
def short(monkeypatch):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    monkeypatch.setattr(ensemble_size, "EPOCHS", 4)
    monkeypatch.setattr(ensemble_size, "QUICK_DRAWS", 1)


@pytest.mark.usefixtures("short")
def test_ensembles_are_boxes_and_hulls_of_their_members():
    made = ensemble_size.trained(0)
    members = made.inside[:5]
    lower, upper = box_oracles.tighten(members.min(axis=0), members.max(axis=0))
    exact = box_oracles.upper_entropy(lower, upper) - box_oracles.lower_entropy(lower, upper)
    np.testing.assert_allclose(made.score(ensemble_size.WRAPPER, members), exact, atol=1e-7)
    hull = made.score(ensemble_size.HULL, members)
    assert (hull <= exact + 1e-7).all()
    assert len({row.tobytes() for row in made.inside}) == 20  # no two networks are the same


@pytest.mark.usefixtures("short")
def test_a_lone_seed_stands_for_several_draws_and_gives_the_same_rows(tmp_path, monkeypatch):
    run(ensemble_size.experiment, tmp_path, tmp_path / "a", quick=True)
    with undrawn():  # the same rows again
        run(ensemble_size.experiment, tmp_path, tmp_path / "b", quick=True)
    first = numbers(tmp_path / "a" / "rows.csv")
    assert first == numbers(tmp_path / "b" / "rows.csv")
    assert {row["seed"] for row in first} == {"0"}
    assert {row["data"] for row in first} == {"stand-in: digits 0–6 in, 7–9 out"}
    monkeypatch.setattr(ensemble_size, "QUICK_DRAWS", 2)
    counted = Stopped()
    with undrawn():
        report = run(ensemble_size.experiment, tmp_path, tmp_path / "a", quick=True, track=counted)
    assert {cell.seed for cell in counted.cells} == {1}
    assert "seeds 0, 1" in report.title
    assert report.needs[0].startswith("ensembles")
