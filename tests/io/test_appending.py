"""Rows appended to columns and matrices of new files."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc
import pyarrow.parquet as pq

from decal.io.appending import column_writer, matrix_writer
from helpers.archives import read_npz


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_columns_grow_chunk_by_chunk(tmp_path, kind):
    path = tmp_path / f"table.{kind}"
    with column_writer(path) as append:
        append({"row": np.arange(2), "name": np.array(["a", "b"])})
        append({"row": np.arange(2, 3), "name": np.array(["longer"])})
    if kind == "npz":
        found = {k: v.tolist() for k, v in read_npz(path).items()}
    else:
        found = (pc.read_csv(path) if kind == "csv" else pq.read_table(path)).to_pydict()
    assert found == {"row": [0, 1, 2], "name": ["a", "b", "longer"]}


@pytest.mark.parametrize("classes", [("x", "y"), None])
@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "npy"])
def test_matrices_keep_labels_and_classes(tmp_path, kind, classes):
    path = tmp_path / f"matrix.{kind}"
    first, second = np.array([[1.0, 2], [3, 4]]), np.array([[5.0, 6]])
    with matrix_writer(path, "logits", classes) as append:
        append(first, np.array(["x", "y"]))
        append(second, np.array(["x"]))
    if kind == "npy":
        assert np.load(path).tolist() == [[1, 2], [3, 4], [5, 6]]
    elif kind == "npz":
        found = read_npz(path)
        assert found.pop("logits").tolist() == [[1, 2], [3, 4], [5, 6]]
        assert found.pop("labels").tolist() == ["x", "y", "x"]
        assert [v.tolist() for v in found.values()] == ([["x", "y"]] if classes else [])
    else:
        table = pc.read_csv(path) if kind == "csv" else pq.read_table(path)
        a, b = classes or ("0", "1")
        assert table.to_pydict() == {a: [1, 3, 5], b: [2, 4, 6], "label": ["x", "y", "x"]}


def test_nothing_is_left_of_a_failure(tmp_path):
    def fail(path):
        with column_writer(path) as append:
            append({"row": np.arange(2)})
            raise RuntimeError("halfway")

    for name in ("a.npz", "a.csv"):
        with pytest.raises(RuntimeError, match="halfway"):
            fail(tmp_path / name)
    assert os.listdir(tmp_path) == []
