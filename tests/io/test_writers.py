"""Writing credal sets and tables, in every format."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.csv as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import decal  # noqa: E402
from decal.io import writers  # noqa: E402
from decal.io.writers import column_writer  # noqa: E402
from helpers.archives import read_npz  # noqa: E402
from helpers.logit_files import ALL, NAMES, make_labelled  # noqa: E402


@pytest.fixture
def data():
    return make_labelled()


@pytest.fixture
def credal(data):
    logits, labels = data
    return decal.decalibrate(logits, labels, alpha=0.8, classes=NAMES).predict(logits)


def write_credal(path, sets):
    """Credal sets, one after the other."""
    with writers.credal_writer(path) as append:
        for some in sets:
            append(some)


DANGEROUS = ("=1+1", "+a", "-b", "@SUM(A1)", "\tx", "\rx", " =x", "'=1+1", "''+a")
HARMLESS = ("-1", "+2.5", "-1e-3", "a=b", "'tis", "cat", "5-HT", "")


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_no_name_is_a_formula_in_a_spreadsheet(tmp_path, kind):
    names = DANGEROUS + HARMLESS
    K = len(names)
    credal = decal.IntervalCredalSet(np.zeros((2, K)), np.ones((2, K)), classes=names)
    path = tmp_path / f"out.{kind}"
    write_credal(path, [credal[:1], credal[1:]])
    if kind == "npz":
        assert tuple(read_npz(path)["classes"]) == names
        return
    if kind == "parquet":
        assert pq.read_table(path)["class"].to_pylist() == [*names, *names]
        return
    with open(path, newline="", encoding="utf-8") as file:
        found = [row["class"] for row in csv.DictReader(file)]
    assert found[:K] == found[K:]
    assert found[:K] == [*(f"'{name}" for name in DANGEROUS), *HARMLESS]
    assert len(set(found)) == K  # what was distinct stays so, and one ' less gives it back


def test_columns_of_text_are_no_formulas_either(tmp_path):
    path = tmp_path / "x.csv"
    writers.write_columns(path, {"a": np.array(["=1", "x"]), "b": np.array([-1.5, 2.0])})
    assert path.read_text() == 'a,b\n"\'=1",-1.5\n"x",2\n'


@pytest.mark.parametrize("kind", ALL)
def test_credal_sets_written_in_parts_read_back_exactly(tmp_path, credal, kind):
    path = tmp_path / f"out.{kind}"
    write_credal(path, [credal[:20], credal[20:21], credal[21:]])
    if kind == "npz":
        with np.load(path, allow_pickle=False) as found:
            lower, upper, point = found["lower"], found["upper"], found["point"]
            assert tuple(found["classes"]) == NAMES
    elif kind == "npy":
        lower, upper = np.moveaxis(np.load(path, allow_pickle=False), -1, 0)
        point = credal.point
    else:
        table = pc.read_csv(path) if kind == "csv" else pq.read_table(path)
        assert table["row"].to_pylist() == np.repeat(np.arange(50), 3).tolist()
        assert table["class"].to_pylist() == list(NAMES) * 50
        lower, upper, point = (
            table[name].to_numpy().reshape(50, 3) for name in ("lower", "upper", "point")
        )
    np.testing.assert_array_equal(lower, credal.lower)
    np.testing.assert_array_equal(upper, credal.upper)
    np.testing.assert_array_equal(point, credal.point)
    assert list(tmp_path.iterdir()) == [path]


def test_awkward_class_names_survive_a_csv(tmp_path):
    names = ('a,"b"', "c\nd")
    credal = decal.IntervalCredalSet([[0.1, 0.2]], [[0.8, 0.9]], classes=names)
    write_credal(tmp_path / "x.csv", [credal])
    parsing = pc.ParseOptions(newlines_in_values=True)
    found = pc.read_csv(tmp_path / "x.csv", parse_options=parsing)
    assert found.column_names == ["row", "class", "lower", "upper"]
    assert found["class"].to_pylist() == list(names)


@pytest.mark.parametrize("kind", ALL)
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, credal, kind):
    path = tmp_path / f"out.{kind}"
    path.write_text("old")

    def broken():
        yield credal[:20]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_credal(path, broken())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np, decal
from decal.io.writers import credal_writer
with credal_writer(Path(sys.argv[1])) as append:
    append(decal.IntervalCredalSet(np.zeros((9, 3)), np.ones((9, 3))))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is swept there")
@pytest.mark.parametrize("kind", ALL)
def test_what_a_killed_writer_leaves_the_next_one_removes(tmp_path, credal, kind):
    path = tmp_path / f"out.{kind}"
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert killed.returncode == -9
    assert all(p.is_file() and p.name.startswith(".") for p in tmp_path.iterdir())
    write_credal(path, [credal])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_named_columns_read_back_exactly(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    writers.write_columns(path, {"alpha": (0.1, 1.0), "coverage": [1 / 3, 0.25]})
    if kind == "npz":
        assert zipfile.ZipFile(path).namelist() == ["alpha.npy", "coverage.npy"]
        found = read_npz(path)["coverage"].tolist()
    else:
        table = pc.read_csv(path) if kind == "csv" else pq.read_table(path)
        found = table["coverage"].to_pylist()
    assert found == [1 / 3, 0.25]


def test_outputs_are_checked_before_any_work(tmp_path):
    (tmp_path / "old.csv").touch()
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(ValueError, match=r"output must be a new file: got .*old.csv. Overwrite"):
        writers.check_output(tmp_path / "old.csv", force=False)
    writers.check_output(tmp_path / "old.csv", force=True)
    with pytest.raises(ValueError, match="output must be a file: got the folder"):
        writers.check_output(tmp_path / "dir.csv", force=True)
    with pytest.raises(ValueError, match="output must be in a folder that exists"):
        writers.check_output(tmp_path / "no" / "x.csv", force=False)
    with pytest.raises(ValueError, match=r"output must end in .csv or .parquet: got .*x.npz"):
        writers.check_output(tmp_path / "x.npz", force=False, formats=(".csv", ".parquet"))
    writers.check_output(Path(tmp_path / "x"), force=False, file_format="csv")


# Rows appended to columns and matrices of new files.


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


def test_nothing_is_left_of_a_failure(tmp_path):
    def fail(path):
        with column_writer(path) as append:
            append({"row": np.arange(2)})
            raise RuntimeError("halfway")

    for name in ("a.npz", "a.csv"):
        with pytest.raises(RuntimeError, match="halfway"):
            fail(tmp_path / name)
    assert os.listdir(tmp_path) == []
