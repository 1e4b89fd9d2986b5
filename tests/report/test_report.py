"""Reports of models: as tables, files, texts and pages."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import decal
from decal.report import LabelReport

NAMES = ("cat", "<dog>", "=eel")
COSTS = {
    "feed": dict(zip(NAMES, (0, 1, 2), strict=True)),
    "flee": dict(zip(NAMES, (3, 1, 0), strict=True)),
}


def lines(report):
    return [{**line, "possible": tuple(line["possible"])} for line in report]


def test_a_report_says_what_the_sets_say(model, new, report):
    credal = model.predict(new)
    assert len(report) == 30
    assert [*report.possible] == credal.possible()
    assert report.prediction.tolist() == [NAMES[k] for k in credal.point.argmax(axis=1)]
    assert report.check.sum() == 3
    assert report.index["row"].tolist() == [f"P-{i}" for i in range(30)]
    wider = model.report(new, alpha=0.5)
    assert (wider.lower <= report.lower).all()
    assert wider.check is None
    assert wider.action is None
    assert wider.promise == ""


def test_lines_are_picked_as_from_a_list(report):
    line = report[3]
    assert line == [*report][3]
    assert line["row"] == "P-3"
    assert isinstance(line["lower"], float)
    assert lines(report[[3, 1]]) == [lines(report)[3], lines(report)[1]]
    marked = report[report.check]
    assert lines(marked) == [line for line in lines(report) if line["check"]]
    with pytest.raises(IndexError):
        report[30]


@pytest.mark.parametrize("ids", [None, "P"])
def test_parts_of_sets_make_the_report_of_all(model, new, ids):
    from decal.report import in_parts

    names = None if ids is None else np.array([f"P-{i}" for i in range(30)])
    whole = model.report(new, ids=names, check=0.3, costs=COSTS)
    credal = model.predict(new, ids=names)
    cuts = [slice(0, 4), slice(4, 5), slice(5, 30)]
    parts = list(in_parts(lambda: (credal[cut] for cut in cuts), check=0.3, costs=COSTS))
    assert [len(part) for part in parts] == [4, 1, 25]
    joined = decal.Report.join(parts)
    assert lines(joined) == lines(whole)
    assert repr(joined) == repr(whole)


def test_picked_lines_keep_their_numbers(model, new):
    report = model.report(new, check=0.1)
    numbers = np.flatnonzero(report.check)
    assert report[report.check].index["row"].tolist() == numbers.tolist()


def test_the_promise_of_a_model_is_carried(model, new):
    class Promising:
        promise = "At most 1 of 10."
        predict = model.predict
        fitted = model.fitted

    from decal.report import report

    found = report(Promising(), new)
    assert found[:2].promise == "At most 1 of 10."
    assert repr(found).splitlines()[1] == "At most 1 of 10."
    assert "At most 1 of 10. Report: 30 inputs" in found._repr_html_()


def test_pandas_gets_every_line(report, new, model):
    pd = pytest.importorskip("pandas")
    frame = report.to_pandas()
    assert frame.index.tolist() == [f"P-{i}" for i in range(30)]
    assert [*frame] == ["prediction", "possible", "lower", "upper", "check", "action"]
    assert [tuple(p) for p in frame.possible] == [line["possible"] for line in lines(report)]
    np.testing.assert_array_equal(frame.lower, report.lower)
    assert frame.check.dtype == bool
    given = pd.DataFrame(new, columns=NAMES).assign(ward="w", bed=range(30))
    two = model.report(given, ids=["ward", "bed"]).to_pandas()
    assert two.index.names == ["ward", "bed"]
    assert two.index[7] == ("w", 7)


def test_polars_gets_every_line(report):
    pytest.importorskip("polars")
    assert report.to_polars().rows(named=True) == [*report]


@pytest.mark.parametrize("named", [True, False])
def test_no_rows_have_columns_of_the_right_kind(model, named):
    pl = pytest.importorskip("polars")
    if not named:
        model = decal.Decalibrator().fit(np.eye(3), [0, 1, 2])
    empty, one = (model.report(np.zeros((n, 3)), check=True, costs=np.eye(3)) for n in (0, 1))
    assert empty.to_polars().schema == one.to_polars().schema
    assert empty.to_polars().schema["possible"] == pl.List(pl.String if named else pl.Int64)
    assert empty.to_pandas().shape == (0, 6)
    assert repr(empty) == "Report: 0 inputs, 0 to check"
    assert "<tbody></tbody>" in empty._repr_html_()


def test_a_csv_has_possible_classes_in_one_cell_and_no_formulas(report, tmp_path):
    pytest.importorskip("pyarrow")
    report.save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        found = [*csv.DictReader(file)]
    assert len(found) == 30
    for line, expected in zip(found, report, strict=True):
        assert line["row"] == expected["row"]
        assert line["prediction"].lstrip("'") == expected["prediction"]
        assert line["possible"].lstrip("'").split(" | ") == expected["possible"]
        assert float(line["lower"]) == expected["lower"]
        assert line["check"] == str(expected["check"]).lower()
        assert not line["prediction"].startswith("=")


@pytest.mark.parametrize("rows", [30, 0])
def test_a_parquet_file_has_lists(report, tmp_path, rows):
    pq = pytest.importorskip("pyarrow.parquet")
    report[:rows].save(tmp_path / "r.PARQUET")
    assert pq.read_table(tmp_path / "r.PARQUET").to_pylist() == [*report[:rows]]


def test_ids_called_like_a_column_are_refused(model, new):
    with pytest.raises(decal.InputError, match="ids must not be called like a column.*'check'"):
        decal.Report.of(model.predict(new).with_index({"check": np.arange(30)}))


def test_models_of_several_labels_have_a_report_of_their_own():
    model = decal.MultiLabelDecalibrator().fit(np.array([[1.0, -1], [-1, 1]]), np.eye(2))
    assert isinstance(model.report(np.zeros((1, 2))), LabelReport)
