"""Folders of files: fitted and predicted like their rows; bad files are named and cost nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.parquet as pq  # noqa: E402

import decal  # noqa: E402
from decal.io.writers import write_columns  # noqa: E402
from helpers.commands import refused, succeed  # noqa: E402
from helpers.logit_folders import (  # noqa: E402
    NAMES,
    PARTS,
    ROWS,
    assert_fits,
    fail,
    make_data,
    table,
    write,
    write_folder,
)


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Good files


@pytest.mark.parametrize("layout", ["columns", "fixed", "lists"])
@pytest.mark.parametrize("kind", [".parquet", ".feather", ".arrow"])
def test_a_folder_fits_and_predicts_like_its_rows_in_memory(kind, layout):
    logits, labels = write_folder(Path("in"), kind, layout=layout)
    succeed("fit", "--alpha=0.8", "in", "--labels-key", "label", "-o", "model.npz")
    assert_fits("model.npz", logits, labels)
    assert not Path("model.npz.checkpoint").exists()
    succeed("predict", "model.npz", "in", "--labels-key", "label", "-o", "out", "--alpha", 0.9)
    expected = decal.decalibrate(logits, labels, alpha=0.8).predict(logits, alpha=0.9)
    for i in range(PARTS):
        found = pq.read_table(f"out/part-{i:04d}.parquet")
        rows = slice(i * ROWS, (i + 1) * ROWS)
        assert found["row"].to_pylist() == list(range(ROWS))
        for name in ("lower", "upper", "point"):
            values = np.array(found[name].to_pylist())
            np.testing.assert_allclose(values, getattr(expected, name)[rows], rtol=0, atol=1e-9)
    manifest = json.loads(Path("out/_SUCCESS.json").read_text())
    assert manifest["rows"] == PARTS * ROWS
    assert manifest["alpha"] == 0.9
    assert [p["output"] for p in manifest["parts"]] == [
        f"part-{i:04d}.parquet" for i in range(PARTS)
    ]
    assert manifest["skipped"] == {}


def save_calibrated(path, logits, labels):
    """What `decal shift` needs, and `decal fit` makes from one file alone."""
    best = decal.Decalibrator(reference="best", directions=("class", "temperature"))
    best.fit(logits, labels, classes=NAMES).save(path)


@pytest.mark.parametrize("layout", ["columns", "fixed", "lists"])
@pytest.mark.parametrize("kind", [".parquet", ".feather", ".arrow"])
@pytest.mark.parametrize("part", [0, 3])
def test_a_file_without_rows_is_one_of_no_rows(kind, layout, part):
    logits, labels = write_folder(Path("in"), kind, layout=layout)
    rows = slice(part * ROWS, (part + 1) * ROWS)
    whole = table(logits[rows], labels[rows], layout=layout)
    write(Path(f"in/part-{part:04d}{kind}"), whole.slice(0, 0))
    rest = np.delete(np.arange(PARTS * ROWS), rows)
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    assert_fits("model.npz", logits[rest], labels[rest])
    ids = ("--id-column", "label")
    result = succeed("predict", "model.npz", "in", *ids, "-o", "out")
    assert f"Wrote out: {PARTS} files, {len(rest)} inputs" in result.stderr
    found = [pq.read_schema(f"out/part-{i:04d}.parquet") for i in (part, 1)]
    assert found[0] == found[1]
    assert pq.read_table("out").num_rows == len(rest)
    assert "efficiency" in succeed("evaluate", "model.npz", "in").stdout
    save_calibrated("best.npz", logits[rest], labels[rest])
    assert f"{len(rest)} inputs" in succeed("shift", "best.npz", "in", "-o", "adapted").stdout
    assert pq.read_table("adapted").num_rows == len(rest)


def test_tables_of_text_may_have_no_rows_either():
    logits, labels = make_data(80)
    for name, rows in (("a", slice(0, 0)), ("b", slice(0, 80))):
        columns = dict(zip(NAMES, logits[rows].T, strict=True))
        Path("in").mkdir(exist_ok=True)
        write_columns(Path(f"in/{name}.csv"), columns | {"label": np.array(NAMES)[labels[rows]]})
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    assert_fits("model.npz", logits, labels)
    succeed("predict", "model.npz", "in", "-o", "out")
    assert pq.read_metadata("out/a.parquet").num_rows == 0


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
def test_a_folder_of_files_without_rows_is_refused(kind):
    write_folder(Path("some"))
    succeed("fit", "--alpha=0.8", "some", "-o", "model.npz")
    Path("in").mkdir()
    columns = dict.fromkeys([*NAMES, "label"], np.empty(0))
    for name in "ab":
        write_columns(Path(f"in/{name}{kind}"), columns)
    message = "in must hold at least one row: got 2 empty files."
    assert fail("fit", "--alpha=0.8", "in", "-o", "new.npz") == message
    assert fail("predict", "model.npz", "in", "-o", "out") == message
    assert fail("evaluate", "model.npz", "in") == message
    save_calibrated("best.npz", *make_data(80))
    assert fail("shift", "best.npz", "in") == message


def test_labels_that_leave_out_columns_are_noticed_behind_a_file_without_rows():
    logits, labels = make_data(80)
    part = table(logits, labels).append_column("age", pa.array(np.linspace(0, 9.7, 80)))
    write(Path("in/a.parquet"), part.slice(0, 0))
    write(Path("in/b.parquet"), part)
    assert "which no label names" in fail("fit", "--alpha=0.8", "in", "-o", "model.npz")


def test_evaluate_takes_a_folder_with_truth_in_lists():
    logits, labels = make_data(90)
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for i in range(3):
        rows = slice(30 * i, 30 * i + 30)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(truth[rows].ravel()), 3)
        part = table(logits[rows], labels[rows], layout="fixed").append_column("human", lists)
        write(Path(f"in/{i}.parquet"), part)
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    succeed("evaluate", "model.npz", "in", "--alpha", "0.9,0.99", "-o", "t.parquet")
    found = pq.read_table("t.parquet").to_pydict()
    model = decal.Decalibrator.load("model.npz")
    sets = [model.predict(logits, alpha=a) for a in (0.9, 0.99)]
    np.testing.assert_allclose(
        found["coverage"], [decal.metrics.coverage(c, truth) for c in sets], rtol=1e-12
    )
    error = decal.metrics.expected_calibration_error(sets[0].point, labels)
    np.testing.assert_allclose(found["calibration_error"], [error] * 2, rtol=1e-12)
    np.testing.assert_allclose(found["accuracy"], [(logits.argmax(1) == labels).mean()] * 2)


def test_columns_in_another_order_are_matched_by_name():
    logits, labels = write_folder(Path("in"))
    path = Path("in/part-0002.parquet")
    write(path, pq.read_table(path).select(["label", "eel", "cat", "dog"]))
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    assert_fits("model.npz", logits, labels)


def test_weights_are_a_column_and_files_of_zero_weight_add_nothing():
    logits, labels = make_data(60)
    weights = np.arange(60.0)
    weights[20:40] = 0
    for i in range(3):
        rows = slice(20 * i, 20 * i + 20)
        part = table(logits[rows], labels[rows]).append_column("w", pa.array(weights[rows]))
        write(Path(f"in/{i}.parquet"), part)
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz", "--weights-key", "w")
    assert_fits("model.npz", logits, labels, sample_weight=weights)


# Bad files


ADVICE = " Repair or remove it and run the same command again, or add --skip-bad."


def nan_in_row_7(part):
    values = part["cat"].to_numpy().copy()
    values[7] = np.nan
    return part.set_column(0, "cat", pa.array(values))


def null_in_row_7(part):
    values = part["cat"].to_pylist()
    values[7] = None
    return part.set_column(0, "cat", pa.array(values))


def unknown_label(part):
    labels = part["label"].to_pylist()
    labels[9] = "fox"
    return part.set_column(3, "label", pa.array(labels))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            nan_in_row_7,
            "logits must be finite or -inf: got nan in in/part-0003.parquet, row 7, column cat. "
            "Mask or repair such rows first. model.npz.checkpoint keeps 3 finished files.",
        ),
        (
            null_in_row_7,
            "logits must be finite or -inf: got nan in in/part-0003.parquet, row 7, column cat. "
            "Mask or repair such rows first. model.npz.checkpoint keeps 3 finished files.",
        ),
        (
            unknown_label,
            "labels must be one of the classes cat, dog, eel or a column 0 to 2: got 'fox' in "
            "in/part-0003.parquet, row 9. model.npz.checkpoint keeps 3 finished files.",
        ),
        (
            lambda part: part.drop_columns("dog"),
            "logits must have one column for every class: got no column 'dog' in "
            "in/part-0003.parquet, which holds cat, eel, label.",
        ),
        (
            lambda part: part.drop_columns("label"),
            "labels must be found in in/part-0003.parquet: got no label among cat, dog, eel. "
            "Choose with --labels-key.",
        ),
        (
            lambda part: part.append_column("fox", part["cat"]),
            "logits must have the same 3 classes in every file: got fox besides in "
            "in/part-0003.parquet. Leave out columns that are not classes with --ignore.",
        ),
        (
            lambda part: part.set_column(1, "dog", pa.array(["x"] * ROWS)),
            "logits must be numbers: got type string in in/part-0003.parquet, column dog. "
            "Leave out columns that are not classes with --ignore.",
        ),
    ],
    ids=["nan", "null", "label", "no-column", "no-labels", "wrong-K", "text"],
)
def test_a_bad_partition_is_named_exactly_and_nothing_is_lost(spoil, message):
    logits, labels = write_folder(Path("in"))
    path = Path("in/part-0003.parquet")
    good = pq.read_table(path)
    write(path, spoil(good))
    fit = ["fit", "--alpha=0.8", "in", "--labels-key", "label", "-o", "model.npz"]
    assert fail(*fit) == message + ADVICE
    assert not Path("model.npz").exists()
    # Without it, and listed:
    result = succeed(*fit, "--skip-bad")
    reason = message.partition(" model.npz.checkpoint")[0]
    assert f"Left out part-0003.parquet: {reason}\n" in result.stderr
    rest = np.r_[0:120, 160:200]
    assert_fits("model.npz", logits[rest], labels[rest])
    # Repaired, it is added to the others, which are not read again:
    write(path, good)
    result = succeed(*fit, "--force")
    assert "Continuing after 160 rows" in result.stderr
    assert_fits("model.npz", logits, labels)
    assert not Path("model.npz.checkpoint").exists()


@pytest.mark.parametrize(
    ("layout", "spoil", "message"),
    [
        (
            "fixed",
            lambda logits: logits[:, :2],
            "logits must have 3 columns, one per class, in every file: got 2 in "
            "in/part-0003.parquet.",
        ),
        (
            "lists",
            lambda logits: [*map(list, logits[:7]), [0.5], *map(list, logits[8:])],
            "logits must have 3 numbers in every row: got 1 in in/part-0003.parquet, row 7. "
            "model.npz.checkpoint keeps 3 finished files.",
        ),
        (
            "lists",
            lambda logits: [*map(list, logits[:7]), [0.5, None, 1.0], *map(list, logits[8:])],
            "logits must be finite or -inf: got nan in in/part-0003.parquet, row 7, column 1. "
            "Mask or repair such rows first. model.npz.checkpoint keeps 3 finished files.",
        ),
        (
            "lists",
            lambda logits: [*map(list, logits[:7]), None, *map(list, logits[8:])],
            "logits must have 3 numbers in every row: got 0 in in/part-0003.parquet, row 7. "
            "model.npz.checkpoint keeps 3 finished files.",
        ),
    ],
    ids=["wrong-K", "ragged", "null-inside", "null"],
)
def test_bad_lists_are_named_exactly(layout, spoil, message):
    logits, labels = write_folder(Path("in"), layout=layout)
    rows = slice(120, 160)
    spoilt = spoil(logits[rows])
    if layout == "fixed":
        part = table(spoilt, labels[rows], layout=layout)
    else:
        part = pa.table({"logits": pa.array(spoilt), "label": labels[rows]})
    write(Path("in/part-0003.parquet"), part)
    assert fail("fit", "--alpha=0.8", "in", "-o", "model.npz") == message + ADVICE


def corrupt_page(path):
    """Damage in the middle of the data, which only reading finds."""
    content = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    start = metadata.row_group(1).column(0).data_page_offset
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)


@pytest.mark.parametrize("kind", [".parquet", ".feather", ".arrow"])
def test_a_corrupt_file_is_reported_by_name_and_nothing_is_lost(kind):
    logits, labels = write_folder(Path("in"), kind)
    path = Path(f"in/part-0003{kind}")
    good = path.read_bytes()
    if kind == ".parquet":
        corrupt_page(path)
    else:
        path.write_bytes(good[: len(good) // 2])
    message = fail("fit", "--alpha=0.8", "in", "-o", "model.npz")
    assert f"must be in an intact {kind} file: got in/part-0003{kind} (" in message
    assert message.endswith(ADVICE)
    result = succeed("fit", "--alpha=0.8", "in", "-o", "model.npz", "--skip-bad")
    assert f"Left out part-0003{kind}: " in result.stderr
    rest = np.r_[0:120, 160:200]
    assert_fits("model.npz", logits[rest], labels[rest])
    message = fail("predict", "model.npz", "in", "-o", "out")
    assert f"got in/part-0003{kind} (" in message
    assert "out holds 3 of 5 files. Repair or remove it and run" in message
    result = succeed("predict", "model.npz", "in", "-o", "out", "--skip-bad")
    assert list(json.loads(Path("out/_SUCCESS.json").read_text())["skipped"]) == [path.name]
    path.write_bytes(good)
    succeed("predict", "model.npz", "in", "-o", "out")
    assert json.loads(Path("out/_SUCCESS.json").read_text())["rows"] == PARTS * ROWS
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz", "--force")
    assert_fits("model.npz", logits, labels)


def test_all_bad_headers_are_told_before_any_work():
    write_folder(Path("in"))
    for i in (1, 3, 4):
        Path(f"in/part-000{i}.parquet").write_bytes(b"")
    message = fail("fit", "--alpha=0.8", "in", "-o", "model.npz")
    assert "got in/part-0001.parquet (" in message
    assert "So 2 more: part-0003.parquet, part-0004.parquet." in message
    assert not Path("model.npz.checkpoint").exists()
    for i in (0, 2):
        Path(f"in/part-000{i}.parquet").write_bytes(b"")
    message = fail("fit", "--alpha=0.8", "in", "-o", "model.npz", "--skip-bad")
    assert message.startswith("in must hold a file that can be fitted: got 5 bad ones.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "--alpha=0.8", "in", "-o", "model.npz", "--reference", "best"],
            "reference must be 'model' for a folder: got 'best', whose recentering needs all the "
            "data in memory at once. Leave --reference out, or fit one file.",
        ),
        (
            ["fit", "--alpha=0.8", "in", "-o", "model.npz", "--labels", "labels.npy"],
            "labels must be a column of the files themselves for a folder: got the file "
            "labels.npy. Name the column with --labels-key.",
        ),
        (
            ["fit", "--alpha=0.8", "empty", "-o", "model.npz"],
            "empty must hold files that end in .npz, .npy, .csv, .parquet, .feather or .arrow: "
            "got none.",
        ),
        (
            ["fit", "--alpha=0.8", "mixed", "-o", "model.npz"],
            "mixed must hold files of one format: got .csv and .parquet.",
        ),
        (
            ["predict", "old.npz", "in", "-o", "out", "--format", "csv"],
            "format must be parquet for a folder: got csv.",
        ),
        (
            ["predict", "old.npz", "in", "-o", "labels.npy"],
            "output must be a folder, as the input is one: got the file labels.npy.",
        ),
        (
            ["predict", "old.npz", "in", "-o", "no/out"],
            "output must be in a folder that exists: got no/out. Create it first.",
        ),
    ],
)
def test_what_a_folder_cannot_be_is_said_at_once(arguments, message):
    write_folder(Path("in"))
    np.save("labels.npy", np.zeros(3))
    Path("empty").mkdir()
    Path("mixed").mkdir()
    Path("mixed/a.csv").touch()
    Path("mixed/b.parquet").touch()
    succeed("fit", "--alpha=0.8", "in", "-o", "old.npz")
    assert fail(*arguments) == message


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(5, 7), "decal fit: labels must lie in 0 to 2: got 7 in labels.npy, row 0."),
        (np.zeros((5, 2)), "decal fit: labels must be a vector: got shape (5, 2) in labels.npy."),
        (None, "decal fit: labels must be in an intact .npy file: got labels.npy"),
    ],
    ids=["range", "shape", "damaged"],
)
def test_a_fault_of_the_labels_is_not_blamed_on_the_logits(labels, message):
    np.save("logits.npy", np.eye(5, 3))
    Path("labels.npy").write_bytes(b"no array")
    if labels is not None:
        np.save("labels.npy", labels)
    result = refused("fit", "--alpha=0.8", "logits.npy", "--labels", "labels.npy", "-o", "m.npz")
    assert result.startswith(message)
