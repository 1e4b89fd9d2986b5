"""Reports of labels: what is there, open or not, whom to ask, files."""

import numpy as np
import pandas as pd
import pytest

import decal
from decal import InputError
from decal.report import LabelReport
from decal.report._label_report import wrong_at_worst

CREDAL = decal.MultiLabelCredalSet(
    [[0.6, 0.1, 0.4], [0.0, 0.0, 0.05], [0.7, 0.55, 0.9]],
    [[0.9, 0.3, 0.7], [0.1, 0.2, 0.15], [0.8, 0.95, 1.0]],
    point=[[0.8, 0.2, 0.55], [0.05, 0.1, 0.1], [0.75, 0.8, 0.95]],
    classes=["Edema", "Effusion", "Nodule"],
)


def test_each_line_says_yes_open_or_no():
    report = LabelReport.of(CREDAL, check=True)
    assert report[0] == {
        "row": 0,
        "yes": "Edema [.60, .90]",
        "open": "Nodule [.40, .70]",
        "no": "Effusion [.10, .30]",
        "check": True,
    }
    assert report.check.tolist() == [True, False, False]
    assert report.findings("yes", ranges=False)[2] == "Nodule, Edema, Effusion"
    assert len(report[report.check]) == 1
    with pytest.raises(InputError, match="answer must be 'yes', 'open' or 'no'"):
        report.findings("maybe")


def test_a_share_to_check_has_the_most_wrong_answers_at_worst():
    worst = wrong_at_worst(CREDAL)
    # Yes to the first and third, no to the second: 1 - .6, 1 - .4 and .3.
    assert worst == pytest.approx([0.4 + 0.3 + 0.6, 0.1 + 0.2 + 0.15, 0.3 + 0.45 + 0.1])
    assert LabelReport.of(CREDAL, check=0.3).check.tolist() == [True, False, False]
    assert LabelReport.of(CREDAL, check=0.6).check.tolist() == [True, False, True]
    with pytest.raises(InputError, match="check must be a share"):
        LabelReport.of(CREDAL, check=2)


def test_it_prints_within_the_terminal(monkeypatch):
    for columns in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = repr(LabelReport.of(CREDAL, check=True))
        assert text.startswith("Report: 3 inputs, 1 to check")
        assert "Edema" in text
    assert "Nodule [.40, .70]" in text
    assert "Edema [.60, .90]" in LabelReport.of(CREDAL)._repr_html_()


def test_models_report_and_files_hold_it(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (300, 3))
    answers = (rng.random((300, 3)) < 1 / (1 + np.exp(-logits))).astype(int)
    names = CREDAL.classes
    d = decal.decalibrate_labels(logits, answers, miss=0.1, classes=names)
    ids = [f"P-{i}" for i in range(300)]
    report = d.report(logits, ids={"patient": ids}, check=0.1)
    assert isinstance(report, LabelReport)
    assert report.promise == str(d.promise)
    assert report.check.sum() == 30
    assert (report.said == d.predict(logits).decide()).all()
    frame = report.to_pandas()
    assert frame.index.name == "patient"
    report.save(tmp_path / "findings.csv")
    report.save(tmp_path / "findings.parquet")
    for found in (
        pd.read_csv(tmp_path / "findings.csv"),
        pd.read_parquet(tmp_path / "findings.parquet"),
    ):
        assert found["patient"].tolist() == ids
        assert found["yes"].fillna("").tolist() == frame["yes"].tolist()
    report.save(tmp_path / "findings.html")
    page = (tmp_path / "findings.html").read_text(encoding="utf-8")
    assert page.count(">P-") == 300
    assert page.count(">check</td>") == 30
    assert f"{names[0]}&nbsp;[" in page  # breaks between findings
    assert ">P-20<" not in report._repr_html_()
    cautious = d.report(logits, costs=(1, 9))
    assert cautious.promise == ""
    assert (cautious.said == d.predict(logits).decide(costs=(1, 9))).all()
