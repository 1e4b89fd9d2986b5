"""Logits, labels, weights and truth, found in files of every format."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.parquet as pq  # noqa: E402

import decal  # noqa: E402
from decal.io import sources as files  # noqa: E402
from decal.io import writers  # noqa: E402
from helpers.logit_files import ALL, NAMES, make_labelled, opened, text_file, write_logits  # noqa: E402


@pytest.fixture
def data():
    return make_labelled()


# Reading


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("elements", [1, 21, 1000])
def test_chunks_put_together_are_the_data(tmp_path, data, kind, elements):
    logits, labels = data
    source = opened(tmp_path, kind, logits, labels)
    chunks = list(source.chunks(elements))
    np.testing.assert_array_equal(np.concatenate([c.logits for c in chunks]), logits)
    np.testing.assert_array_equal(np.concatenate([c.labels for c in chunks]), labels)
    assert max(len(c) for c in chunks) == min(50, max(1, elements // 3))
    assert source.classes == (None if kind == "npy" else NAMES)
    assert source.rows == (None if kind == "csv" else 50)  # which only the end of a .csv tells


@pytest.mark.parametrize("kind", ALL)
def test_fitting_chunk_by_chunk_equals_fitting_in_memory(tmp_path, data, kind):
    logits, labels = data
    streamed = decal.Decalibrator()
    for chunk in opened(tmp_path, kind, logits, labels).chunks(21):
        streamed.partial_fit(chunk.logits, chunk.labels)
    alphas = [0.2, 0.8, 0.95]
    found = streamed.shifts(alphas)
    expected = decal.decalibrate(logits, labels, alpha=0.8).shifts(alphas)
    np.testing.assert_allclose(found.lower, expected.lower, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.upper, expected.upper, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ALL)
def test_labels_may_be_class_names(tmp_path, data, kind):
    logits, labels = data
    names = np.array(NAMES)[labels]
    source = opened(tmp_path, kind, logits, names, classes=NAMES if kind == "npy" else None)
    np.testing.assert_array_equal(source.all().labels, labels)


def test_a_categorical_column_of_labels_works(tmp_path, data):
    logits, labels = data
    table = pa.table({name: logits[:, k] for k, name in enumerate(NAMES)})
    names = pa.DictionaryArray.from_arrays(labels.astype(np.int32), list(NAMES))
    pq.write_table(table.append_column("label", names), tmp_path / "x.parquet")
    source = files.open_source(tmp_path / "x.parquet", needed=("labels",))
    np.testing.assert_array_equal(source.all().labels, labels)


def test_whole_numbers_are_names_where_classes_are_called_by_them(tmp_path):
    path = text_file(tmp_path, "3,5,label\n0.1,0.2,5\n0.3,0.4,3\n")
    source = files.open_source(path, needed=("labels",))
    assert source.all().labels.tolist() == [1, 0]
    path.write_text("3,5,label\n0.1,0.2,0\n")
    with pytest.raises(
        ValueError, match=r"labels must be one of the classes 3, 5: got '0' in .*line 2"
    ):
        source.all()


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_columns_are_matched_to_the_models_classes_by_name(tmp_path, data, kind):
    logits, labels = data
    path = write_logits(tmp_path, kind, logits, np.array(NAMES)[labels])
    source = files.open_source(path, classes=("eel", "cat", "dog"))
    np.testing.assert_array_equal(source.all().logits, logits[:, [2, 0, 1]])
    np.testing.assert_array_equal(source.all().labels, np.array([1, 2, 0])[labels])
    with pytest.raises(ValueError, match=r"one column for every class: got no column 'fox' in"):
        files.open_source(path, classes=("eel", "cat", "fox"))


@pytest.mark.parametrize("kind", ALL)
def test_truth_comes_from_a_file_of_its_own(tmp_path, data, kind):
    logits, labels = data
    path = write_logits(tmp_path, "csv", logits, labels)
    truth = np.random.default_rng(1).dirichlet(np.ones(3), size=50)
    other = tmp_path / f"truth.{kind}"
    if kind == "npz":
        np.savez(other, human=truth)
    elif kind == "npy":
        np.save(other, truth)
    else:  # the order of named columns does not matter
        writers.write_columns(other, {NAMES[k]: truth[:, k] for k in (2, 0, 1)})
    source = files.open_source(path, truth=other)
    np.testing.assert_array_equal(source.all().truth, truth)


def test_keys_can_be_chosen_and_truth_is_found_beside_logits(tmp_path, data):
    logits, labels = data
    truth = np.full((50, 3), 1 / 3)
    path = tmp_path / "x.npz"
    np.savez(path, a=logits, b=labels, human=truth, w=np.arange(50))
    keys = {"logits": "a", "labels": "b", "weights": "w"}
    chunk = files.open_source(path, keys=keys, wanted=("labels", "truth")).all()
    np.testing.assert_array_equal(chunk.logits, logits)
    np.testing.assert_array_equal(chunk.labels, labels)
    np.testing.assert_array_equal(chunk.weights, np.arange(50))
    np.testing.assert_array_equal(chunk.truth, truth)


def test_weights_are_only_used_when_asked_for(tmp_path, data):
    logits, labels = data
    path = tmp_path / "x.npz"
    np.savez(path, logits=logits, labels=labels, weights=np.arange(50))
    assert files.open_source(path).all().weights is None


def test_ignored_columns_are_not_classes(tmp_path):
    path = text_file(tmp_path, "id,cat,dog,species\nq1,0.5,1.5,dog\n")
    source = files.open_source(path, keys={"labels": "species"}, ignore=["id"])
    assert source.classes == ("cat", "dog")
    assert source.all().labels.tolist() == [1]


def test_probabilities_become_their_logarithms(tmp_path):
    p = np.array([[0.5, 0.5], [0.25, 0.75]])
    path = tmp_path / "p.npy"
    np.save(path, p)
    source = files.open_source(path, probabilities=True)
    np.testing.assert_array_equal(source.all().logits, np.log(p))


def test_a_floor_raises_zeros(tmp_path):
    path = tmp_path / "p.npy"
    np.save(path, np.array([[0.0, 1.0]]))
    source = files.open_source(path, probabilities=True, floor=1e-6)
    np.testing.assert_allclose(source.all().logits, [[np.log(1e-6), 0]])
    np.save(tmp_path / "y.npy", [0])
    source = files.open_source(path, labels=tmp_path / "y.npy", probabilities=True)
    message = r"labels must have a positive probability: got 0, of probability 0, in .*row 0"
    with pytest.raises(ValueError, match=message):
        source.all()
    with pytest.raises(ValueError, match="floor must go with probabilities: got 1e-06"):
        files.open_source(path, floor=1e-6)


# What is wrong with a file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must start with a line of column names: got nothing"),
        ("0.5,1.5\n1,2\n", r"must start with a line of column names: got 0.5, 1.5"),
        ("a,b,label\n", r"logits must have at least one row: got none in .*logits.csv"),
        ("a,b,label\n1,2,0\n1,x,0\n", r"logits must be numbers: got 'x' in .*line 3, column b"),
        (
            "a,b,label\n1,2,0\n1,,0\n",
            r"finite or -inf: got nan in .*line 3, column b",
        ),
        ("a,b,label\n1,2,0\n1,0\n", r"logits must be in intact rows: got .*Row #3"),
        ("a,b,label\n1,2,2\n", r"one of the classes a, b or a column 0 to 1: got '2' in .*line 2"),
        ("a,a,label\n1,2,0\n", r"one column for every class: got more than one column 'a'"),
        ("a,label\n1,0\n", r"logits must have a column per class, two or more: got 1"),
        (
            "a,b\n1,2\n",
            r"labels must come with the logits: got none in .*, which holds a, b\. Give",
        ),
        ("a,b,label,labels\n1,2,0,0\n", r"labels must be found in .*: got both labels and label"),
    ],
)
def test_faults_of_a_csv_are_named_with_their_place(tmp_path, text, message):
    path = text_file(tmp_path, text)
    with pytest.raises(ValueError, match=message):
        files.open_source(path, needed=("labels",)).all()


def test_the_row_of_a_fault_counts_from_the_start_of_the_file(tmp_path, data):
    logits, _ = data
    logits[40, 1] = np.inf
    np.save(tmp_path / "x.npy", logits)
    with pytest.raises(ValueError, match=r"finite or -inf: got inf in .*row 40, column 1"):
        list(files.open_source(tmp_path / "x.npy").chunks(9))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"z": np.zeros((2, 2)), "y": [0, 1]},
            r"got no logits among z, y\. Choose with --logits-key",
        ),
        ({"logits": np.zeros(3)}, r"logits must be a matrix .*: got shape \(3,\)"),
        ({"logits": np.array([["a", "b"]])}, r"logits must be numbers: got dtype <U1"),
        ({"logits": np.zeros((2, 2)), "labels": [0, 1, 1]}, r"as many rows as logits: got 3 in"),
        ({"logits": np.zeros((2, 2)), "labels": [0.0, 1.0]}, r"labels must lie in 0 to 1: got 0.0"),
        ({"logits": np.zeros((1, 2)), "labels": [-1]}, r"labels must lie in 0 to 1: got -1 in"),
        (
            {"logits": np.zeros((2, 2)), "labels": [0, 1], "classes": ["a"]},
            "classes must be 2 names, one per column: got 1",
        ),
    ],
)
def test_faults_of_an_npz_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        files.open_source(tmp_path / "x.npz", needed=("labels",)).all()


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([[1.0, 2.0]], r"lie between 0 and 1: got 2.0 in .*row 0, column 1\. Divide counts"),
        ([[0.5, 0.25]], r"truth must sum to 1 in every row: got 0.75 in .*row 0\. Divide counts"),
        ([[-0.5, 1.5]], r"truth must lie between 0 and 1: got -0.5 in .*row 0, column 0"),
        ([[0.2, 0.3, 0.5]], r"truth must have 2 columns, one per class: got 3"),
    ],
)
def test_faults_of_the_truth_are_named(tmp_path, truth, message):
    np.save(tmp_path / "x.npy", np.zeros((1, 2)))
    np.save(tmp_path / "t.npy", np.array(truth))
    with pytest.raises(ValueError, match=message):
        files.open_source(tmp_path / "x.npy", truth=tmp_path / "t.npy").all()


def test_files_of_different_lengths_are_refused_even_if_only_reading_tells(tmp_path):
    path = text_file(tmp_path, "a,b\n1,2\n3,4\n")
    labels = text_file(tmp_path, "label\n0\n", "labels.csv")
    with pytest.raises(ValueError, match=r"as many rows as logits: got 1 in .* and 2 in "):
        files.open_source(path, labels=labels).all()


def test_negative_weights_are_refused(tmp_path):
    path = text_file(tmp_path, "a,b,label,w\n1,2,0,1\n1,2,0,-1\n")
    with pytest.raises(
        ValueError, match=r"weights must be finite and not negative: got -1.0 in .*line 3"
    ):
        files.open_source(path, keys={"weights": "w"}).all()


WIDE = """
import sys
import subprocess
import resource, sys
from pathlib import Path
from decal.io.sources import open_source
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # it was several minutes
(chunk,) = open_source(Path(sys.argv[1]), needed=("labels",)).chunks()
assert chunk.logits.shape == (2, 80_000), chunk.logits.shape
assert chunk.labels.tolist() == [79_999, 0]
"""


@pytest.mark.slow
def test_opening_a_table_takes_time_in_proportion_to_its_columns(tmp_path):
    pytest.importorskip("resource", reason="needs POSIX")
    names = [f"class_{k}" for k in range(80_000)]
    numbers = ",".join(["-0.1234567890123456"] * len(names))
    lines = [",".join([*names, "label"]), f"{numbers},{names[-1]}", f"{numbers},{names[0]}", ""]
    (tmp_path / "wide.csv").write_text("\n".join(lines))
    command = [sys.executable, "-c", WIDE, str(tmp_path / "wide.csv")]
    subprocess.run(command, check=True)
