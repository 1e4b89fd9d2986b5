"""Rows in a file that grows by whole cells."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal_lab.experiments import compare_directions as directions
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.rows import Cell, RowStore, provenance, untracked
from lab_helpers.experiment_runs import table


def test_rows_read_back_as_the_same_numbers(tmp_path):
    cell, columns = Cell("d", "a, b", 0), {"data": str, "method": str, "seed": int, "x": float}
    store = RowStore(tmp_path / "rows.csv", columns, level="x")
    rows = [{"data": "d", "method": "a, b", "seed": 0, "x": x} for x in (1 / 3, 1e-300, 0.1)]
    store.add(cell, rows)
    again = RowStore(tmp_path / "rows.csv", columns, level="x")
    assert again.cells == {cell: rows}
    assert again.finished(cell, [0.1, 1 / 3])
    assert not again.finished(cell, [0.1, 0.2])
    assert not again.finished(Cell("d", "a, b", 1), [0.1])


def test_a_number_that_was_cut_off_is_not_taken_for_another(tmp_path):
    columns = {"data": str, "method": str, "seed": int, "x": float}
    (tmp_path / "rows.csv").write_text("data,method,seed,x\na,m,0,0.25\nb,m,0,0.5")  # of 0.53
    store = RowStore(tmp_path / "rows.csv", columns, level="x")
    assert store.finished(Cell("a", "m", 0), [0.25])
    assert not store.finished(Cell("b", "m", 0), [0.5])
    store.add(Cell("c", "m", 0), [{"data": "c", "method": "m", "seed": 0, "x": 1.0}])
    text = (tmp_path / "rows.csv").read_text()
    assert text == "data,method,seed,x\na,m,0,0.25\nc,m,0,1.0\n"


def test_a_file_of_other_rows_is_left_alone(every_family, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"rows\.csv must hold the columns data, method, .* got"):
        run(directions.experiment, every_family, tmp_path, quick=True)
    assert (tmp_path / "rows.csv").read_text() == "a,b\n1,2\n"


def test_rows_say_what_computed_them(directions_run, monkeypatch):
    row = table(directions_run[0] / "rows.csv")[0]
    assert (row["decal"], row["numpy"]) == (decal.__version__, np.__version__)
    assert float(row["seconds"]) > 0
    monkeypatch.setenv("PATH", "")  # no git
    assert provenance()["commit"] == ""


def test_cells_are_handed_on_in_order():
    cells = [Cell("a", "b", seed) for seed in range(3)]
    assert list(untracked(cells)) == cells
