"""The experiment with classes in an order, on small files like the published ones."""

import csv
import json
import math

import numpy as np
import pytest

from decal_lab.experiments import ordered
from decal_lab.experiments.harness.experiment import Request
from decal_lab.experiments.harness.rows import Cell


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "lidc").mkdir()
    (tmp_path / "lewidi").mkdir()
    with (tmp_path / "lidc/lidc_nodules.csv").open("w", newline="") as file:
        names = [f"x{i}" for i in range(10)] + [f"malignancy_{k}" for k in range(1, 6)]
        out = csv.DictWriter(file, ["patient", "readers", *names])
        out.writeheader()
        for i in range(400):
            x = rng.uniform(1, 5, 10)
            votes = np.bincount(
                np.clip(np.rint(x[0] + rng.normal(size=3)), 1, 5).astype(int) - 1, minlength=5
            )
            out.writerow(
                {"patient": i // 2, "readers": 3}
                | dict(zip(names, [*x.tolist(), *votes.tolist()], strict=True))
            )
    words = ["never", "well", "great", "sure", "perhaps", "fine"]
    for part in ("dev", "test"):
        items = {}
        for i in range(150):
            k = int(rng.integers(1, 7))
            text = {"context": f"scene {i % 40}", "response": f"{words[k - 1]} {words[i % 6]}"}
            items[str(i)] = {"text": text, "annotations": {"a": str(k), "b": str(min(k + 1, 6))}}
        (tmp_path / f"lewidi/CSC_{part}.json").write_text(json.dumps(items))
    return tmp_path


def test_cells_measure_sizes_misses_costs_and_coverage(folder, tmp_path):
    design = ordered.experiment(Request(folder, tmp_path / "out", quick=True))
    assert {cell.data for cell in design.cells} == {"LIDC", "CSC"}
    for data in ("LIDC", "CSC"):
        for method in (ordered.INTERVAL, ordered.ORDINAL):
            rows = design.rows(Cell(data, method, 0))
            assert [row["level"] for row in rows] == list(ordered.MISSES)
            assert all(row["intervals"] == 1 for row in rows)
            assert rows[0]["size"] >= rows[1]["size"]
            assert all(0 <= row["miss"] < row["level"] + 0.15 for row in rows)
    covered = design.rows(Cell("LIDC", "class + tilt", 0))
    assert all(0 <= row["coverage"] <= 1 or math.isnan(row["coverage"]) for row in covered)


def test_ordinal_aps_grows_from_the_mode():
    p = np.array([[0.1, 0.4, 0.2, 0.3], [0.3, 0.1, 0.2, 0.4]])
    assert ordered._ordinal_order(p).tolist() == [[1, 2, 3, 0], [3, 2, 1, 0]]
    np.testing.assert_allclose(ordered.SCORES[ordered.ORDINAL](p)[0], [0.9, 0.0, 0.4, 0.6])
