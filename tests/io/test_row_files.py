"""Logits, labels, weights and truth, found in files of every format."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.parquet as pq  # noqa: E402

import decal  # noqa: E402
from decal.io import row_files as files  # noqa: E402
from decal.io import writers  # noqa: E402
from decal.io.row_files import open_source  # noqa: E402
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
from decal.io.row_files import open_source
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


# Which columns of a table are classes, and which are refused rather than taken for one.


def labelled_columns(**more):
    logits, labels = make_labelled()
    return more | {name: logits[:, k] for k, name in enumerate(NAMES)} | {"label": labels}


def written(folder, kind="csv", **more):
    path = folder / f"logits.{kind}"
    writers.write_columns(path, labelled_columns(**more))
    return path


def refusal(path, **options):
    with pytest.raises(ValueError, match="must hold only classes") as caught:
        open_source(path, **options).all()
    return str(caught.value)


# Indices without a name of their own


def test_the_index_that_pandas_writes_is_no_class(tmp_path):
    pd = pytest.importorskip("pandas", reason="needs decal[pandas]")
    path = tmp_path / "x.csv"
    pd.DataFrame(labelled_columns()).to_csv(path)
    assert refusal(path) == (
        f"logits must hold only classes: got a column without a name in {path}, which looks like "
        "an index. Leave it out with --ignore 'Unnamed: 0', or name the classes with --columns "
        "cat,dog,eel ('*' takes all)."
    )
    source = open_source(path, ignore=["Unnamed: 0"])
    assert source.classes == NAMES
    np.testing.assert_array_equal(source.all().logits, make_labelled()[0])


def test_the_index_that_pandas_keeps_in_parquet_is_no_class(tmp_path):
    pd = pytest.importorskip("pandas", reason="needs decal[pandas]")
    frame, path = pd.DataFrame(labelled_columns()), tmp_path / "x.parquet"
    frame.sample(frac=1, random_state=0).to_parquet(path)
    assert "got the column '__index_level_0__'" in refusal(path)
    assert open_source(path, ignore=["__index_level_0__"]).classes == NAMES


@pytest.mark.parametrize("name", ["Unnamed: 0", "Unnamed: 3_level_1", "  ", "__index_level_1__"])
def test_names_that_are_given_to_nameless_columns_are_no_classes(tmp_path, name):
    path = text_file(tmp_path, f"{name},a,b,label\n0.5,0.25,1.5,a\n")
    assert "looks like an index" in refusal(path)
    assert open_source(path, columns=["b", "a"]).classes == ("b", "a")


# Row numbers and identifiers

NUMBERS = {
    "from 0": np.arange(50),
    "from 1": np.arange(1, 51),
    "of a later file": np.arange(5000, 5050),
    "as floats": np.arange(50.0),
    "shuffled": np.random.default_rng(0).permutation(50),
    "with gaps": 7 + 3 * np.arange(50) ** 2,
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("numbers", NUMBERS)
def test_row_numbers_are_no_class_whatever_their_name(tmp_path, numbers, kind):
    path = written(tmp_path, kind, patient=NUMBERS[numbers])
    assert refusal(path) == (
        f"logits must hold only classes: got the column 'patient' in {path}, whose whole numbers "
        "look like those of rows. Leave it out with --ignore patient, or name the classes with "
        "--columns cat,dog,eel ('*' takes all)."
    )
    assert open_source(path, ignore=["patient"]).all().logits.shape == (50, 3)
    assert open_source(path, columns=NAMES).all().logits.shape == (50, 3)
    assert open_source(path, columns=["*"]).all().logits.shape == (50, 4)


@pytest.mark.parametrize("name", ["id", "ID", "index", "image_id", "userId", "row", "Row Number"])
def test_identifiers_are_no_class_even_if_they_repeat(tmp_path, name):
    path = written(tmp_path, **{name: np.arange(50) // 5})
    assert f"got the column '{name}'" in refusal(path)


def test_a_short_table_is_refused_by_the_name_alone(tmp_path):
    path = text_file(tmp_path, "id,a,b,label\n7,0.5,1.5,b\n")
    assert "got the column 'id'" in refusal(path)


@pytest.mark.parametrize("name", ["id", "index", "no", "row", "number"])
def test_a_class_of_such_a_name_stays_if_its_logits_are_no_whole_numbers(tmp_path, name):
    # "id" is Indonesian where languages are told apart.
    path = written(tmp_path, **{name: np.linspace(-3, 3, 50)})
    assert open_source(path).all().logits.shape == (50, 4)


@pytest.mark.parametrize(
    "column",
    [np.arange(50) % 7, np.zeros(50, int), np.arange(50) / 2],
    ids=["repeating", "constant", "with fractions"],
)
def test_a_class_may_have_whole_numbers_for_logits(tmp_path, column):
    path = written(tmp_path, fox=column)
    assert open_source(path).all().logits.shape == (50, 4)


def test_tables_of_whole_numbers_may_have_distinct_ones(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "x.csv"
    writers.write_columns(path, {name: rng.permutation(50) for name in NAMES})
    assert open_source(path, wanted=()).all().logits.shape == (50, 3)


def test_few_rows_prove_nothing(tmp_path):
    path = text_file(tmp_path, "a,b,label\n0,1.5,1\n1,0.5,0\n2,0.25,0\n")
    assert open_source(path).all().logits.tolist() == [[0, 1.5], [1, 0.5], [2, 0.25]]


def test_columns_are_as_suspicious_in_a_table_of_the_truth(tmp_path):
    logits, labels = make_labelled()
    np.savez(tmp_path / "x.npz", logits=logits, labels=labels)
    truth = {name: np.full(50, 1 / 3) for name in NAMES}
    writers.write_columns(tmp_path / "truth.csv", {"": np.arange(50)} | truth)
    options = {"truth": tmp_path / "truth.csv", "needed": ("truth",)}
    with pytest.raises(ValueError, match="truth must hold only classes: got a column without"):
        open_source(tmp_path / "x.npz", **options)
    source = open_source(tmp_path / "x.npz", ignore=["Unnamed: 0"], **options)
    assert source.all().truth.shape == (50, 3)


# The choice


def test_columns_are_taken_in_the_order_in_which_they_are_chosen(tmp_path):
    source = open_source(written(tmp_path, age=np.arange(50)), columns=["eel", "cat"], wanted=())
    assert source.classes == ("eel", "cat")
    np.testing.assert_array_equal(source.all().logits, make_labelled()[0][:, [2, 0]])


def test_a_models_classes_are_found_by_name_and_all_else_is_left(tmp_path):
    path = written(tmp_path, **{"": np.arange(50), "id": np.arange(50)})
    order = ("dog", "eel", "cat")
    for columns in (None, NAMES, ["*"]):
        source = open_source(path, classes=order, columns=columns)
        np.testing.assert_array_equal(source.all().logits, make_labelled()[0][:, [1, 2, 0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["cat", "fox"]}, "logits must have one column for every class: got no column"),
        ({"columns": ["cat", "cat"]}, "columns must be distinct: got 'cat' more than once"),
        ({"columns": ["cat", "label"]}, "columns must not be labels or ignored: got 'label'"),
        (
            {"columns": ["cat", "dog"], "ignore": ["dog"]},
            "columns must not be labels or ignored: got 'dog'",
        ),
        (
            {"columns": ["cat", "dog"], "classes": NAMES},
            "columns must be the model's classes cat, dog, eel: got cat, dog. Leave --columns out",
        ),
    ],
)
def test_bad_choices_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        open_source(written(tmp_path), **options)


def test_only_tables_have_columns_to_choose(tmp_path):
    np.save(tmp_path / "x.npy", make_labelled()[0])
    with pytest.raises(ValueError, match=r"columns must be those of a table: got .*x\.npy\."):
        open_source(tmp_path / "x.npy", columns=["cat"])
    assert open_source(tmp_path / "x.npy", columns=["*"]).logits.width == 3
