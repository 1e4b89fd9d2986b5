"""Which columns of a table are classes, and which are refused rather than taken for one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs decal[cli]")
pd = pytest.importorskip("pandas", reason="needs decal[pandas]")

from decal.io import writers  # noqa: E402
from decal.io.sources import open_source  # noqa: E402
from helpers.logit_files import NAMES, make_labelled, text_file  # noqa: E402


def labelled_columns(**more):
    logits, labels = make_labelled()
    return more | {name: logits[:, k] for k, name in enumerate(NAMES)} | {"label": labels}


def written(folder, kind="csv", **more):
    path = folder / f"logits.{kind}"
    writers.write_columns(path, labelled_columns(**more))
    return path


def refusal(path, **options):
    with pytest.raises(ValueError, match="must be classes alone") as caught:
        open_source(path, **options).all()
    return str(caught.value)


# Indices without a name of their own


def test_the_index_that_pandas_writes_is_no_class(tmp_path):
    path = tmp_path / "x.csv"
    pd.DataFrame(labelled_columns()).to_csv(path)
    assert refusal(path) == (
        f"logits must be classes alone: got a column without a name in {path}, which looks like an "
        "index. Leave it out with --ignore 'Unnamed: 0', or name the classes with --columns "
        "cat,dog,eel ('*' takes all)."
    )
    source = open_source(path, ignore=["Unnamed: 0"])
    assert source.classes == NAMES
    np.testing.assert_array_equal(source.all().logits, make_labelled()[0])


def test_the_index_that_pandas_keeps_in_parquet_is_no_class(tmp_path):
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
        f"logits must be classes alone: got the column 'patient' in {path}, whose whole numbers "
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
    with pytest.raises(ValueError, match="truth must be classes alone: got a column without"):
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
