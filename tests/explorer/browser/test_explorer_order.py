"""Ordered classes and trees of classes on the explorer's page."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, drawn_data, exported_table, table, texts
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

GRADES = [f"grade {k}" for k in range(1, 15)]


def test_ordered_classes_keep_their_order_and_are_said_as_report_says_them(open_page, tmp_path):
    z, labels, _ = drawn_data(300, 14)
    model = decal.decalibrate(z, labels, miss=0.2, order=True, classes=GRADES)
    explore(model, z[:20], labels=labels[:20]).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    report = model.report(z[:20])

    def said(names):
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

    rows = table(page)
    assert len(rows) == 20
    for row, cells in rows:
        assert cells[3] == said(report.possible[row])
    several = next(row for row, _ in rows if len(report.possible[row]) > 3)
    page.locator(f"tr[data-row='{several}']").click()
    words = f"{said(report.possible[several])} are possible: ask a person"
    expect(page.get_by_test_id("sentence")).to_contain_text(words)
    shown = [text.removesuffix(" ✓") for text in texts(page, "intervals", ".spoke")]
    assert len(shown) == 12
    assert shown == sorted(shown, key=GRADES.index)
    page.get_by_test_id("all-classes").click()
    expect(page.get_by_test_id("all-classes")).to_contain_text("Show the first 12")
    assert [t.removesuffix(" ✓") for t in texts(page, "intervals", ".spoke")] == GRADES
    told = {int(line["row"]): line["possible"].split(" | ") for line in exported_table(page)}
    assert told == {row: report.possible[row] for row in range(20)}


def test_the_families_of_a_tree_are_named(open_page, tmp_path):
    known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    model = decal.decalibrate(
        known.logits, known.labels, miss=0.1, classes=known.classes, tree=known.tree
    )
    rows = [770, 126, 118]
    explore(model, new.logits, labels=new.labels, texts=new.texts, rows=rows).save(
        tmp_path / "page.html"
    )
    page = open_page(tmp_path / "page.html")
    cells = {row: told[3] for row, told in table(page)}
    sizes = model.predict(new.logits[rows]).possible_mask().sum(axis=1)
    assert np.all(sizes == [1, 4, 3])
    assert cells[770] == "Polish"
    assert cells[126] == "4 classes of Iberian"
    assert set(cells[118].replace(" or ", ", ").split(", ")) == {"Danish", "Norwegian", "Swedish"}
    page.locator("tr[data-row='126']").click()
    expect(page.get_by_test_id("sentence")).to_contain_text("4 classes of Iberian are possible")
