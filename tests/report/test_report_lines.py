"""What reports of classes and of labels share: lines, frames, files."""

import numpy as np
import pytest

import decal
from decal import InputError
from decal.report import LabelReport


def of_classes(**options):
    bounds = [[0.2, 0.1], [0.0, 0.9], [0.4, 0.3]], [[0.9, 0.8], [0.1, 1.0], [0.7, 0.6]]
    point = [[0.6, 0.4], [0.05, 0.95], [0.55, 0.45]]
    sets = decal.IntervalCredalSet(*bounds, point=point, classes=["no", "yes"])
    return decal.Report.of(sets.with_index({"patient": ["a", "b", "c"]}), **options)


def of_labels(**options):
    bounds = [[0.6, 0.1], [0.0, 0.0], [0.7, 0.4]], [[0.9, 0.3], [0.1, 0.2], [0.8, 0.6]]
    sets = decal.MultiLabelCredalSet(*bounds, classes=["edema", "nodule"])
    return LabelReport.of(sets.with_index({"patient": ["a", "b", "c"]}), **options)


both = pytest.mark.parametrize("report", [of_classes, of_labels])


@both
def test_lines_are_picked_as_from_a_list(report):
    lines = [*report(check=True)]
    found = report(check=True)
    assert [line["patient"] for line in lines] == ["a", "b", "c"]
    assert found[1] == lines[1]
    assert [*found[[2, 0]]] == [lines[2], lines[0]]
    assert [*found[found.check]] == [line for line in lines if line["check"]]
    assert found.title == f"Report: 3 inputs, {found.marked} to check"
    assert report().title == "Report: 3 inputs"
    with pytest.raises(IndexError):
        found[3]


@both
def test_frames_hold_every_line_and_no_lines_have_columns_of_the_same_kind(report):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    found = report(check=0.3)
    assert found.to_pandas().index.tolist() == ["a", "b", "c"]
    assert found.to_polars().rows(named=True) == [*found]
    assert found[:0].to_polars().schema == found.to_polars().schema


@both
def test_files_hold_every_line(report, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    for rows in (3, 0):
        some = report(check=0.3)[:rows]
        some.save(tmp_path / "r.parquet")
        assert pq.read_table(tmp_path / "r.parquet").to_pylist() == [*some]
    report(check=True).save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8").count("<tr") == 1 + 3
    with pytest.raises(InputError, match=r"path must end in .csv, .parquet or .html: got"):
        report().save(tmp_path / "r.xlsx")


def test_names_of_inputs_are_not_called_like_a_column():
    sets = decal.MultiLabelCredalSet([[0.6]], [[0.9]]).with_index({"open": np.arange(1)})
    with pytest.raises(InputError, match="ids must not be called like a column.*'open'. Rename"):
        LabelReport.of(sets)
