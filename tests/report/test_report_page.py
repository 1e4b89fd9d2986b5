"""Reports as HTML, in notebooks and as pages."""

from __future__ import annotations

import re


def test_a_page_holds_every_line_and_loads_nothing(report, tmp_path):
    path = tmp_path / "r.html"
    report.save(path)
    page = path.read_text("utf-8")
    assert page.count("<tr>") == 31
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|src=|href=|@import|url\(", page)
    assert "&lt;dog&gt;" in page
    assert "<dog>" not in page


def test_a_notebook_shows_the_first_lines(report, model, new):
    shown = report._repr_html_()
    assert shown.count("<tr>") == 21
    assert "and 10 more inputs" in shown
    assert "more inputs" not in model.report(new[:20])._repr_html_()
