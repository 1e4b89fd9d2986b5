"""What leaves the explorer's page: the list, equal to decal's report, and its address."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

import decal
from browser.reading import (
    PLAYWRIGHT,
    SETTLED,
    drawn_data,
    exported,
    exported_table,
    set_level,
    table,
)
from decal import Report
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect


def saved(report, path):
    """What a report writes as .csv, a dictionary for every line."""
    pytest.importorskip("pyarrow", reason="needs decal[cli]")
    report.save(path)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_same(found, expected):
    """The lines of an export have the rows, classes, bounds and marks of a report's."""
    assert [line["row"] for line in found] == [line["row"] for line in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert set(theirs) <= set(mine)
        for name in ("prediction", "possible", "check"):
            assert mine[name] == theirs[name], (mine["row"], name)
        for name in ("lower", "upper"):
            assert float(mine[name]) == pytest.approx(float(theirs[name]), abs=1e-6)


@pytest.fixture(scope="module")
def promised(tmp_path_factory):
    """A model that promises something, new inputs, and their page."""
    z, labels, _ = drawn_data(1200, 4)
    model = decal.decalibrate(z[:800], labels[:800], miss=0.1, classes=["ant", "bee", "cat", "dog"])
    path = tmp_path_factory.mktemp("promised") / "page.html"
    explore(model, z[800:], labels=labels[800:], title="Four animals").save(path)
    return path, model, z[800:], labels[800:]


def test_each_filter_is_exported_as_the_report_has_it(open_page, promised, tmp_path):
    path, model, z, labels = promised
    page = open_page(path)
    expect(page.get_by_test_id("promise")).to_have_text("Misses at most 1 in 10")
    everything = model.report(z, check=True)
    routes = {"all": everything, "one": everything[~everything.check]}
    routes["ask"] = everything[everything.check]
    for route, expected in routes.items():
        page.get_by_test_id(f"route-{route}").click()
        page.evaluate(SETTLED)
        check_same(exported_table(page), saved(expected, tmp_path / f"{route}.csv"))
        expect(page.get_by_test_id("listed")).to_contain_text(f"{len(expected)}")
    page.get_by_test_id("route-hand").click()
    for share in (0.1, 0.3, 0.01):
        page.get_by_test_id("share").select_option(label=f"the least sure {100 * share:.0f}\xa0%")
        page.evaluate(SETTLED)
        report = model.report(z, check=share)
        found = exported_table(page)
        check_same(found, saved(report[report.check], tmp_path / f"{share}.csv"))
        names = np.array(["ant", "bee", "cat", "dog"])[labels[report.check]]
        assert [line["label"] for line in found] == names.tolist()
    assert exported(page)[1] == "four-animals-hand-over-1.csv"


def test_filters_and_the_level_are_exported_too(open_page, one, tmp_path):
    page = open_page(one.path)
    page.get_by_test_id("search").fill("odd")
    for level in (0, 5):
        set_level(page, level)
        found = exported_table(page)
        report = Report.of(one.sets[0][level], check=True)[1::2]
        check_same(found, saved(report, tmp_path / f"{level}.csv"))
        assert [line["text"] for line in found] == one.texts[1::2]


def test_the_model_that_is_shown_is_exported(open_page, two, tmp_path):
    page = open_page(two.path)
    set_level(page, 4)
    for model in (0, 1):
        page.get_by_test_id(f"show-{model + 1}").click()
        page.evaluate(SETTLED)
        found = exported_table(page)
        report = Report.of(two.sets[model][4], check=True)
        expected = saved(report, tmp_path / f"{model}.csv")
        for line, row in zip(expected, two.rows, strict=True):
            line["row"] = str(row)
        check_same(found, expected)
        assert all(re.fullmatch(rf"Animal [A-Z]{line['row']}", line["name"]) for line in found)


def test_many_possible_classes_are_counted_where_they_are_not_stored(open_page, tmp_path):
    z, labels, _ = drawn_data(6, 12)
    model = decal.decalibrate(*drawn_data(200, 12, seed=1)[:2], alpha=0.8)
    explore(model, z, labels=labels, alphas=[1, 0.8], slots=4).save(tmp_path / "page.html")
    kept = model.predict(z, alpha=0.8).decide("e_admissible")
    for line in exported_table(open_page(tmp_path / "page.html")):
        *names, last = line["possible"].split(" | ")
        i, more = int(line["row"]), re.fullmatch(r"(\d+) more", last)
        assert len(names) + (int(more[1]) if more else 1) == kept[i].sum()
        assert set(map(int, names)) <= set(np.flatnonzero(kept[i]))


# The address


def everything(page):
    """All that the reader can have chosen, as the page shows it."""
    page.evaluate(SETTLED)
    sort = page.locator("th[aria-sort=ascending], th[aria-sort=descending]")
    value = {
        name: page.get_by_test_id(name).input_value()
        for name in ("search", "filter-class", "filter-where", "filter-cases", "caution", "order")
    }
    pressed = page.locator("[aria-pressed=true]").evaluate_all(
        "(buttons) => buttons.map((button) => button.dataset.testid)"
    )
    return {
        **value,
        "pressed": pressed,
        "sort": sort.evaluate_all("(all) => all.map((th) => [th.textContent, th.ariaSort])"),
        "price": page.get_by_test_id("price").input_value(),
        "input": page.get_by_test_id("detail-title").text_content(),
        "theme": page.get_by_test_id("theme").text_content(),
        "rows": table(page),
    }


def test_the_address_restores_all_that_was_chosen(open_page, two):
    page = open_page(two.path)
    first = everything(page)
    set_level(page, 5)
    page.get_by_test_id("show-2").click()
    page.get_by_test_id("sort-sure").click()
    page.get_by_test_id("sort-sure").click()
    page.get_by_test_id("search").fill("animal")
    page.get_by_test_id("filter-class").select_option(label="cat")
    page.get_by_test_id("filter-where").select_option("set")
    page.get_by_test_id("filter-cases").select_option("errors")
    page.get_by_test_id("route-hand").click()
    page.get_by_test_id("share").select_option(label="the least sure 50\xa0%")
    page.get_by_test_id("price").fill("11")
    page.get_by_test_id("theme").click()
    page.get_by_test_id("theme").click()
    page.get_by_test_id("next").click()
    before = everything(page)
    assert all(before[key] != first[key] for key in first)
    assert 0 < len(before["rows"]) < 26
    page.wait_for_function("(row) => location.hash.endsWith(`input=${row}`)", arg=chosen_row(page))
    address = page.url
    page.reload()
    page.get_by_test_id("intervals").wait_for()
    assert everything(page) == before
    other = open_page(address, width=1300)
    assert everything(other) == before
    # An address that is typed in, or gone back to, is followed too.
    page.evaluate("() => { location.hash = '#alpha=0.95' }")
    expect(page.get_by_test_id("caution")).to_have_value("1")
    assert everything(page) == {**first, "caution": "1", "rows": everything(page)["rows"]}


def chosen_row(page):
    return page.locator("tr[aria-selected=true]").get_attribute("data-row")


@pytest.mark.parametrize(
    "hash_",
    [
        "#alpha=x&class=-3&input=99999&sort=__proto__&theme=<b>&route=constructor&show=7&share=7&price=-1&open=x",
        "#alpha=&class=&input=&sort=&query=&where=&cases=",
        "#%E0%A4%A&&&=&alpha=NaN&input=1e400&class=1.5",
    ],
)
def test_an_address_that_makes_no_sense_shows_the_first_view(open_page, one, hash_):
    first = everything(open_page(one.path))
    assert everything(open_page(one.path.as_uri() + hash_)) == first


def test_the_nearest_level_answers_for_one_that_is_not_there(open_page, one):
    page = open_page(one.path.as_uri() + "#alpha=0.62&input=9")
    expect(page.get_by_test_id("caution")).to_have_value("4")
    expect(page.get_by_test_id("detail-title")).to_have_text("Input 9")
