"""The explorer's page as its readers use it: level, list, filters, and every number shown."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

import decal
from browser.reading import (
    PLAYWRIGHT,
    SETTLED,
    WITHIN,
    agrees,
    drawn_data,
    exported_table,
    order,
    set_level,
    table,
)
from decal.explorer import explore
from decal.explorer._page import policy
from decal.explorer._server import PageServer

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect


# Opening it


def check_opened(page, title):
    expect(page).to_have_title(title)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_test_id("intervals")).to_be_visible()


def test_a_saved_page_opens_at_the_models_own_level_and_on_a_sure_error(open_page, one):
    page = open_page(one.path)
    check_opened(page, "Five animals")
    missed = one.means(3)["missed"]
    words = f"The model’s own level, misses {missed:.1f}\xa0% here"
    expect(page.get_by_test_id("promise")).to_have_text(words)
    expect(page.get_by_test_id("own")).to_be_hidden()
    expect(page.get_by_test_id("listed")).to_have_text("26 inputs")
    first = one.look()[0]
    assert one.wrong()[first]
    expect(page.get_by_test_id("detail-title")).to_have_text(f"Input {first}")
    assert page.locator("tr[aria-selected=true]").get_attribute("data-row") == str(first)
    assert order(page) == one.look()


def test_the_command_writes_a_page_that_opens(open_page, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="needs decal[cli]")
    testing = pytest.importorskip("typer.testing", reason="needs decal[cli]")
    from decal.cli import app

    monkeypatch.chdir(tmp_path)
    z, labels, truth = drawn_data(30, 3)
    np.savez("logits.npz", logits=z, labels=labels, truth=truth, classes=list("abc"))
    decal.decalibrate(z, labels, alpha=0.7, classes=list("abc")).save("model.npz")
    arguments = [
        "explore",
        "model.npz",
        "logits.npz",
        "--export",
        "page.html",
        "--title",
        "By hand",
        "--start",
        "0.7",
    ]
    result = testing.CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    page = open_page(tmp_path / "page.html")
    check_opened(page, "By hand")
    expect(page.get_by_test_id("caution")).to_have_value("11")
    page.get_by_text("What am I seeing?").click()
    expect(page.get_by_test_id("settings")).to_contain_text("likelihood")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("settings").locator("dl")).to_be_hidden()


def test_a_served_page_opens_under_the_servers_policy(open_page, one):
    with PageServer(one.path.read_text(encoding="utf-8"), policy("main.js")) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            page = open_page(server.url)
            check_opened(page, "Five animals")
            set_level(page, 2)
            page.wait_for_function("() => location.hash.includes('alpha=0.9')")
            page.reload()
            expect(page.get_by_test_id("caution")).to_have_value("2")
        finally:
            server.shutdown()
            thread.join()


# The level


def check_level(page, case, level):
    """Every number that the level changes, outside the detail."""
    for model in range(len(case.sets)):
        for key, expected in case.means(level, model).items():
            shown = page.get_by_test_id(f"readout-{key}").nth(model).text_content()
            assert agrees(shown, expected), (key, shown, expected)
    credal = case.sets[0][level]
    possible = [[case.classes[k] for k in np.flatnonzero(row)] for row in credal.decide(RULE)]
    for row, cells in table(page):
        names = possible[row]
        said = re.split(", | or ", cells[3]) if len(names) <= 3 else [cells[3]]
        assert sorted(said) == (names if len(names) <= 3 else [f"{len(names)} classes"])
    one = np.array([len(names) == 1 for names in possible])
    hit = credal.decide(RULE)[case.rows, case.labels]
    surest = np.argsort(-credal.point.max(axis=1), kind="stable")[: one.sum()]
    settled = page.get_by_test_id("settled").text_content().replace("\xa0", " ")
    if not one.any():
        assert settled == "0 % have one class left."
        return
    assert settled == (
        f"{100 * one.mean():.0f} % have one class left, {100 * (~hit)[one].mean():.1f} % of these "
        f"are wrong. By the model’s confidence, as many: {100 * case.wrong()[surest].mean():.1f} %."
    )


RULE = "e_admissible"


def test_the_slider_sets_every_number(open_page, one):
    page = open_page(one.path)
    for level in range(len(one.alphas)):
        set_level(page, level)
        check_level(page, one, level)
        expect(page.get_by_test_id("own")).to_be_visible(visible=level != 3)
    page.get_by_test_id("own").click()
    expect(page.get_by_test_id("promise")).to_contain_text("The model’s own level")


def test_keys_move_the_slider(open_page, one):
    page = open_page(one.path)
    slider = page.get_by_test_id("caution")
    slider.focus()
    for key, level in (("ArrowRight", 4), ("ArrowLeft", 3), ("Home", 0), ("End", 7)):
        slider.press(key)
        page.evaluate(SETTLED)
        check_level(page, one, level)
        spoken = slider.get_attribute("aria-valuetext")
        assert spoken.startswith(f"{level + 1} of 8: ")
        assert spoken.lower().endswith(page.get_by_test_id("promise").text_content().lower())
    expect(page.get_by_test_id("status")).to_have_text("Caution 8 of 8. 26 inputs.")


# The list


def test_every_column_sorts_both_ways(open_page, one):
    page = open_page(one.path)
    set_level(page, 4)
    sorted_heads = page.locator("th[aria-sort=ascending], th[aria-sort=descending]")
    look = np.argsort(one.look())
    for key, values in one.columns(4).items():
        seen = set()
        for _ in range(2):
            page.get_by_test_id(f"sort-{key}").click()
            page.evaluate(SETTLED)
            assert sorted_heads.get_by_test_id(f"sort-{key}").count() == sorted_heads.count() == 1
            direction = sorted_heads.get_attribute("aria-sort")
            sign = {"ascending": 1, "descending": -1}[direction]
            expected = np.lexsort((look, sign * values.astype(np.float32)))
            assert order(page) == expected.tolist(), (key, direction)
            seen.add(direction)
        assert len(seen) == 2
    page.get_by_test_id("order").select_option("look")
    page.evaluate(SETTLED)
    assert order(page) == one.look()


def test_cells_name_what_the_model_says_and_the_true_class(open_page, one):
    page = open_page(one.path)
    columns = one.columns(3)
    for row, (text, said, sure, _, label) in table(page):
        assert text == one.texts[row]
        assert said == one.classes[columns["says"][row]]
        assert agrees(sure, 100 * columns["sure"][row])
        assert label == one.classes[one.labels[row]]
        marked = page.locator(f"tr[data-row='{row}'] td.says.wrong").count()
        assert marked == one.wrong()[row]


def test_search_finds_words_row_numbers_and_classes(open_page, one):
    page = open_page(one.path)
    predicted = one.columns(3)["says"]
    found = {
        "odd": range(1, 26, 2),
        "EVEN text": range(0, 26, 2),
        "#13": [13],
        "number 7": [7, 17],
        "nowhere": [],
        ".*": [],
        "emu": [i for i in one.rows if 4 in (one.labels[i], predicted[i])],
    }
    for query, rows in found.items():
        page.get_by_test_id("search").fill(query)
        page.evaluate(SETTLED)
        assert sorted(order(page)) == sorted(rows), query
        expect(page.get_by_test_id("listed")).to_have_text(f"{len(rows)} of 26 inputs")
        expect(page.get_by_test_id("empty")).to_be_visible(visible=not rows)
        page.get_by_test_id("clear").click()
        expect(page.get_by_test_id("listed")).to_have_text("26 inputs")
        expect(page.get_by_test_id("search")).to_be_focused()


def test_a_class_filters_by_label_answer_or_possible_classes(open_page, one):
    page = open_page(one.path)
    expect(page.get_by_test_id("filter-where")).to_be_hidden()
    predicted, kept = one.columns(3)["says"], one.sets[0][3].decide("e_admissible")
    for k in (0, 4):
        page.get_by_test_id("filter-class").select_option(label=one.classes[k])
        has = {"label": one.labels == k, "says": predicted == k, "set": kept[:, k]}
        for where, holds in has.items():
            page.get_by_test_id("filter-where").select_option(where)
            page.evaluate(SETTLED)
            assert sorted(order(page)) == np.flatnonzero(holds).tolist(), (k, where)


def test_cases_keep_errors_missed_labels_and_uncovered_truths(open_page, one):
    page = open_page(one.path)
    for level in (1, 3):
        set_level(page, level)
        credal = one.sets[0][level]
        kept = credal.decide("e_admissible")
        low, high = credal.lower - WITHIN, credal.upper + WITHIN
        inside = (one.truth >= low) & (one.truth <= high)
        cases = {
            "errors": one.wrong(),
            "missed": ~kept[one.rows, one.labels],
            "uncovered": ~inside.all(axis=1),
            "all": np.ones(26, dtype=bool),
        }
        for case, holds in cases.items():
            page.get_by_test_id("filter-cases").select_option(case)
            page.evaluate(SETTLED)
            assert sorted(order(page)) == np.flatnonzero(holds).tolist(), case


# Choosing an input


def chosen(page):
    page.evaluate(SETTLED)
    title = page.get_by_test_id("detail-title").text_content()
    selected = page.locator("tr[aria-selected=true]")
    if selected.count():
        assert title == f"Input {selected.get_attribute('data-row')}"
    return int(title.removeprefix("Input "))


def test_inputs_are_chosen_by_click_keys_and_buttons(open_page, one):
    page = open_page(one.path)
    listed = order(page)
    page.locator(f"tr[data-row='{listed[3]}']").click()
    assert chosen(page) == listed[3]
    for key, place in (("ArrowDown", 4), ("ArrowUp", 3), ("End", 25), ("ArrowDown", 25)):
        page.keyboard.press(key)
        assert chosen(page) == listed[place]
        assert page.evaluate("() => document.activeElement.dataset.row") == str(listed[place])
    page.keyboard.press("PageUp")
    assert listed.index(chosen(page)) < 20
    page.keyboard.press("Home")
    assert chosen(page) == listed[0]
    page.get_by_test_id("next").click()
    page.get_by_test_id("next").click()
    page.get_by_test_id("previous").click()
    assert chosen(page) == listed[1]


def test_a_filter_that_leaves_out_the_chosen_input_says_so(open_page, one):
    page = open_page(one.path)
    hidden = chosen(page)
    page.get_by_test_id("search").fill("even" if hidden % 2 else "odd")
    page.evaluate(SETTLED)
    assert chosen(page) == hidden
    expect(page.get_by_test_id("detail")).to_contain_text("leave this input out of the list")
    page.get_by_test_id("next").click()
    assert chosen(page) == order(page)[0]


def test_only_the_rows_in_sight_are_drawn_and_all_can_be_reached(open_page, tmp_path):
    z, labels, _ = drawn_data(1500, 3)
    model = decal.decalibrate(z, labels, alpha=0.8)
    explore(model, z, labels=labels, alphas=[1, 0.8, 0.2]).save(tmp_path / "many.html")
    page = open_page(tmp_path / "many.html")
    page.get_by_test_id("sort-input").click()
    page.evaluate(SETTLED)
    assert order(page) == list(range(len(order(page))))
    assert len(order(page)) < 100
    page.locator("tr[data-row='0']").click()
    page.keyboard.press("End")
    assert chosen(page) == 1499
    assert order(page) == list(range(1500 - len(order(page)), 1500))
    expect(page.locator("tr[data-row='1499']")).to_be_in_viewport()
    page.get_by_test_id("scroller").evaluate("(scroller) => { scroller.scrollTop = 700 * 36 }")
    page.locator("tr[data-row='705']").wait_for()
    assert [int(line["row"]) for line in exported_table(page)] == list(range(1500))


def test_inputs_with_the_same_answer_are_one_line_until_it_is_opened(open_page, tmp_path):
    z, _, _ = drawn_data(9, 3)
    rows = [0, 1, 2, 1, 3, 1, 4, 0, 5]
    model = decal.decalibrate(*drawn_data(200, 3, seed=1)[:2], alpha=0.8)
    explore(model, z[rows], alphas=[1, 0.8], start=0.8).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    page.get_by_test_id("sort-input").click()
    page.evaluate(SETTLED)
    assert order(page) == [0, 1, 2, 4, 6, 8]
    assert [cells[0] for _, cells in table(page)][:3] == ["Input 0× 2", "Input 1× 3", "Input 2"]
    expect(page.get_by_test_id("listed")).to_have_text("9 inputs")
    assert [int(line["row"]) for line in exported_table(page)] == list(range(9))
    page.locator("tr[data-row='1']").click()
    others = page.get_by_test_id("alike")
    expect(others).to_have_text("List the 2 others with the same answer")
    others.click()
    page.evaluate(SETTLED)
    assert order(page) == [0, 1, 3, 5, 2, 4, 6, 8]
    expect(others).to_have_text("Fold the 2 others with the same answer")
    page.locator("tr[data-row='2']").click()
    expect(others).to_be_hidden()
