"""Reports as text."""

from __future__ import annotations

import numpy as np
import pytest

import decal


@pytest.mark.parametrize("width", [30, 40, 45, 60, 70, 80, 88, 100, 200])
@pytest.mark.parametrize("longest", [4, 12, 60])
def test_a_printed_table_fits_the_terminal(monkeypatch, width, longest):
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"{'x' * longest}{k}" for k in range(9)]
    credal = decal.IntervalCredalSet(
        np.zeros((14, 9)), np.ones((14, 9)), point=np.full((14, 9), 1 / 9), classes=names
    ).with_index({"a patient": [f"P-{i}" for i in range(14)]})
    costs = {"send to a doctor": dict.fromkeys(names, 1.0)}
    text = repr(decal.Report.of(credal, check=0.2, costs=costs, promise="A promise. " * 9))
    assert max(map(len, text.splitlines())) <= min(width, 100)
    assert text.endswith("… 4 more")
    assert text.startswith("Report: 14 inputs,")
    assert "P-9" in text
    assert "P-10" not in text


def test_a_wide_terminal_shows_bars(monkeypatch, report):
    monkeypatch.setenv("COLUMNS", "100")
    head, *body = repr(report).splitlines()[1:-1]
    assert head.split()[-1] == "0··········1"
    for line, low, high in zip(body, report.lower, report.upper, strict=False):
        bar = line.split()[-1]
        assert len(bar) == 12
        assert abs(bar.index("█") - 12 * low) <= 1
        assert abs(bar.rindex("█") + 1 - 12 * high) <= 1


def test_wide_characters_take_two_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    credal = decal.IntervalCredalSet(
        [[0.9, 0], [0, 0.9]], [[1, 0.1], [0.1, 1]], point=np.eye(2), classes=["猫", "dog"]
    )
    _, _, cat, dog = repr(decal.Report.of(credal)).splitlines()
    assert cat.index("0.900") == dog.index("0.900") - 2  # 猫 stands twice
