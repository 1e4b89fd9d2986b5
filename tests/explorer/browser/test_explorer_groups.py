"""Groups of inputs on the page: their table, which shows all, and their filter."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, agrees, drawn_data, order, set_level
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

SITES = ["north", "south <b>", "east"]
ALPHAS = [1, 0.9, 0.5]


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    z, labels, truth = drawn_data(30, 4)
    model = decal.decalibrate(*drawn_data(300, 4, seed=1)[:2], alpha=0.8, classes="abcd")
    site = np.array(SITES)[np.arange(30) % 3]
    page = explore(
        model, z, labels=labels, truth=truth, groups={"site": site}, alphas=ALPHAS, start=0.9
    )
    path = tmp_path_factory.mktemp("groups") / "page.html"
    page.save(path)
    return path, model, z, labels, truth, site


def shown(page):
    page.get_by_test_id("groups").scroll_into_view_if_needed()
    page.get_by_test_id("group-table").locator("tbody tr").first.wait_for()
    page.evaluate(SETTLED)
    return page.get_by_test_id("group-table").locator("tbody tr")


def test_the_table_of_groups_is_what_decal_says_of_each(open_page, grouped):
    path, model, z, labels, truth, site = grouped
    page = open_page(path)
    shown(page)
    for by, column in (("0", site), ("1", np.array(list("abcd"))[labels])):
        page.get_by_test_id("group-by").select_option(by)
        for level in (0, 1, 2):
            set_level(page, level)
            rows = shown(page)
            for at in range(rows.count()):
                row = rows.nth(at)
                inside = column == row.locator("th").text_content()
                credal = model.predict(z[inside], alpha=ALPHAS[level])
                kept = credal.decide("e_admissible")
                y = labels[inside]
                expected = {
                    "accuracy": 100 * np.mean(credal.point.argmax(axis=1) == y),
                    "missed": 100 * np.mean(~kept[np.arange(len(y)), y]),
                    "single": 100 * np.mean(kept.sum(axis=1) == 1),
                    "coverage": 100 * decal.metrics.coverage(credal, truth[inside]),
                    "size": kept.sum(axis=1).mean(),
                    "efficiency": 100 * (1 - decal.metrics.efficiency(credal)),
                }
                for kind, value in expected.items():
                    text = row.locator(f"[data-kind={kind}]").text_content()
                    assert agrees(text, value), (kind, text, value)
                assert row.locator("td").first.text_content() == str(inside.sum())


def test_a_group_filters_the_list(open_page, grouped):
    path, _, _, _, _, site = grouped
    page = open_page(path)
    page.get_by_test_id("filter-group").select_option(label="site: south <b>")
    page.evaluate(SETTLED)
    assert sorted(order(page)) == np.flatnonzero(site == "south <b>").tolist()
    page.wait_for_function("() => location.hash.includes('group=')")
    page.reload()
    expect(page.get_by_test_id("listed")).to_have_text("10 of 30 inputs")
    page.get_by_test_id("clear").click()
    shown(page)
    page.get_by_test_id("group-table").get_by_text("north", exact=True).click()
    page.evaluate(SETTLED)
    assert sorted(order(page)) == np.flatnonzero(site == "north").tolist()
    page.get_by_test_id("search").fill("south")
    expect(page.get_by_test_id("listed")).to_have_text("0 of 30 inputs")


def test_all_groups_are_in_sight_at_once(open_page, tmp_path):
    z, _, _ = drawn_data(200, 3)
    model = decal.decalibrate(*drawn_data(200, 3, seed=1)[:2], alpha=0.8)
    groups = {"site": np.arange(200) % 60}
    explore(model, z, groups=groups, alphas=[1, 0.8]).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    host = page.get_by_test_id("group-table")
    expect(host.locator("tbody tr")).to_have_count(60)
    assert host.evaluate("(box) => box.scrollHeight - box.clientHeight") <= 0
