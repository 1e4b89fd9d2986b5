"""Seconds of every step."""

from __future__ import annotations

import numpy as np

import decal
from decal_lab.experiments import (
    runtime,
)
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.rows import Cell, RowStore
from lab_helpers.experiment_runs import Stopped
from lab_helpers.undrawn import undrawn


def test_bisection_and_decal_find_the_same_ends(resnet20_folder):
    with np.load(resnet20_folder / "resnet20_cifar10.npz") as file:
        fit = file["cifar10_train"], file["train_labels"]
    shifts = decal.decalibrate(*fit, alpha=0.8).shifts()
    np.testing.assert_allclose(runtime.bisected(*fit, 0.8), [shifts.lower, shifts.upper], atol=1e-9)


def test_every_step_is_timed_once_and_training_is_read_from_beside(resnet20_folder, tmp_path):
    beside = tmp_path / "fashion-mnist"
    beside.mkdir()
    (beside / "rows.csv").write_text(
        "data,labels,method,seed,train_seconds,predict_seconds\n"
        "f,real,wrapper,0,10.0,1.0\nf,real,wrapper,1,20.0,3.0\nf,drawn,wrapper,0,99.0,9.0\n"
    )
    report = run(runtime.experiment, resnet20_folder, tmp_path / "runtime", quick=True)
    store = RowStore(tmp_path / "runtime" / "rows.csv", runtime.COLUMNS, level="step")
    small, large = runtime.MATRICES
    for method, steps in runtime.STEPS.items():
        rows = store.cells[Cell(small, method, 0)]
        assert tuple(row["step"] for row in rows) == steps
        assert all(row["took"] > 0 for row in rows)
    assert Cell(large, runtime.SLSQP, 0) not in store.cells  # quick
    (live,) = (t for t in report.further if t.title.startswith("Fashion-MNIST"))
    assert live.sections[""] == [("wrapper", "15 s", "2 s")]
    counted = Stopped()
    with undrawn():
        run(runtime.experiment, resnet20_folder, tmp_path / "runtime", quick=True, track=counted)
        alone = run(runtime.experiment, resnet20_folder, tmp_path / "alone" / "runtime", quick=True)
    assert counted.cells == []
    assert any("fashion-mnist" in need for need in alone.needs)
