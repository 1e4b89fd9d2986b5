"""The explorer's page as its readers use it: level, list, filters, and every number shown."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import decal
from browser.reading import (
    KEYS,
    PLAYWRIGHT,
    SETTLED,
    WITHIN,
    agrees,
    axes,
    circles,
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
    expect(page.get_by_test_id("tradeoff-chart")).to_be_visible()
    expect(page.get_by_test_id("intervals")).to_be_visible()


def test_a_saved_page_opens_at_the_level_asked_for_and_the_most_uncertain_input(open_page, one):
    page = open_page(one.path)
    check_opened(page, "Five animals")
    expect(page.get_by_test_id("alpha-value")).to_have_text("0.8")
    expect(page.get_by_test_id("listed")).to_have_text("26 inputs")
    most = one.sets[0][3].most_uncertain()[0]
    expect(page.get_by_test_id("detail-title")).to_have_text(f"Input {most}")
    assert page.locator("tr[aria-selected=true]").get_attribute("data-row") == str(most)


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
    expect(page.get_by_test_id("alpha-value")).to_have_text("0.7")
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
            expect(page.get_by_test_id("alpha-value")).to_have_text("0.9")
        finally:
            server.shutdown()
            thread.join()


# The level


def check_level(page, case, level):
    """Every number that the level changes, outside the detail."""
    expect(page.get_by_test_id("alpha-value")).to_have_text(f"{case.alphas[level]:g}")
    for model in range(len(case.sets)):
        for key, expected in case.means(level, model).items():
            shown = page.get_by_test_id(f"readout-{key}").nth(model).text_content()
            assert agrees(shown, expected), (key, shown, expected)
    columns = case.columns(level)
    for row, cells in table(page):
        i = list(case.rows).index(row)
        for key, text in zip(KEYS[4:], cells[4:], strict=True):
            assert agrees(text, columns[key][i]), (row, key, text, columns[key][i])
    x, y = axes(page, "tradeoff-chart")
    for model, (cx, cy, _) in enumerate(circles(page, "tradeoff-chart", "now")):
        expected = case.means(level, model)
        np.testing.assert_allclose(x(cx), expected["efficiency"], atol=1e-6)
        np.testing.assert_allclose(y(cy), expected["coverage"], atol=1e-6)


def test_the_slider_sets_every_number(open_page, one):
    page = open_page(one.path)
    for level in range(len(one.alphas)):
        set_level(page, level)
        check_level(page, one, level)


def test_keys_move_the_slider(open_page, one):
    page = open_page(one.path)
    slider = page.get_by_test_id("alpha")
    slider.focus()
    for key, level in (("ArrowRight", 4), ("ArrowLeft", 3), ("Home", 0), ("End", 7)):
        slider.press(key)
        page.evaluate(SETTLED)
        check_level(page, one, level)
        spoken = f"alpha {one.alphas[level]:g}, level {level + 1} of 8"
        expect(slider).to_have_attribute("aria-valuetext", spoken)
    expect(page.get_by_test_id("status")).to_have_text("Alpha 0. 26 inputs.")


def test_a_click_on_the_curve_sets_the_level(open_page, one):
    page = open_page(one.path)
    for level in (6, 1):
        cx, cy, _ = circles(page, "tradeoff-chart", "dot")[level]
        page.get_by_test_id("tradeoff-chart").click(position={"x": cx, "y": cy})
        page.evaluate(SETTLED)
        check_level(page, one, level)


def test_the_curves_are_what_the_readouts_say_at_all_levels(open_page, one):
    page = open_page(one.path)
    scale = {"coverage": 1, "missed": 100, "size": 1}
    for key, per in scale.items():
        page.get_by_test_id(f"curve-{key}").click()
        page.evaluate(SETTLED)
        x, y = axes(page, "tradeoff-chart")
        dots = circles(page, "tradeoff-chart", "dot")
        expected = [one.means(level) for level in range(8)]
        np.testing.assert_allclose(x(dots[:, 0]), [e["efficiency"] for e in expected], atol=1e-6)
        np.testing.assert_allclose(y(dots[:, 1]), [e[key] / per for e in expected], atol=1e-6)


# The list


def test_every_column_sorts_both_ways(open_page, one):
    page = open_page(one.path)
    set_level(page, 4)
    sorted_heads = page.locator("th[aria-sort=ascending], th[aria-sort=descending]")
    for key, values in one.columns(4).items():
        seen = set()
        for _ in range(2):
            page.get_by_test_id(f"sort-{key}").click()
            page.evaluate(SETTLED)
            assert sorted_heads.get_by_test_id(f"sort-{key}").count() == sorted_heads.count() == 1
            direction = sorted_heads.get_attribute("aria-sort")
            sign = {"ascending": 1, "descending": -1}[direction]
            ties = {"size": ("aleatoric", "total"), "total": ("aleatoric",)}.get(key, ())
            columns = [sign * one.columns(4)[tie].astype(np.float32) for tie in ties]
            expected = np.lexsort((one.rows, *columns, sign * values.astype(np.float32)))
            assert order(page) == expected.tolist(), (key, direction)
            seen.add(direction)
        assert len(seen) == 2


def test_cells_name_label_prediction_and_error(open_page, one):
    page = open_page(one.path)
    columns = one.columns(3)
    for row, (text, label, prediction, error, *_) in table(page):
        assert text == one.texts[row]
        assert label == one.classes[one.labels[row]]
        assert prediction == one.classes[columns["prediction"][row]]
        assert error == ["no", "yes"][columns["error"][row]]


def test_search_finds_words_row_numbers_and_classes(open_page, one):
    page = open_page(one.path)
    predicted = one.columns(3)["prediction"]
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


def test_a_class_filters_by_label_prediction_or_decision_set(open_page, one):
    page = open_page(one.path)
    expect(page.get_by_test_id("filter-where")).to_be_hidden()
    predicted, kept = one.columns(3)["prediction"], one.sets[0][3].decide("e_admissible")
    for k in (0, 4):
        page.get_by_test_id("filter-class").select_option(label=one.classes[k])
        has = {"label": one.labels == k, "prediction": predicted == k, "set": kept[:, k]}
        for where, holds in has.items():
            page.get_by_test_id("filter-where").select_option(where)
            page.evaluate(SETTLED)
            assert sorted(order(page)) == np.flatnonzero(holds).tolist(), (k, where)


def test_decision_sets_of_another_rule_are_shown_and_filtered(open_page, one):
    page = open_page(one.path)
    page.get_by_test_id("filter-rule").select_option("maximality")
    page.get_by_test_id("filter-class").select_option(label="bee")
    page.get_by_test_id("filter-where").select_option("set")
    for level in (1, 3):
        set_level(page, level)
        kept = one.sets[0][level].decide("maximality")
        assert sorted(order(page)) == np.flatnonzero(kept[:, 1]).tolist()
        for row, cells in table(page):
            assert cells[KEYS.index("size")] == str(kept[row].sum())


def test_cases_keep_errors_missed_labels_and_uncovered_truths(open_page, one):
    page = open_page(one.path)
    for level in (1, 3):
        set_level(page, level)
        credal = one.sets[0][level]
        kept = credal.decide("e_admissible")
        low, high = credal.lower - WITHIN, credal.upper + WITHIN
        inside = (one.truth >= low) & (one.truth <= high)
        cases = {
            "errors": one.columns(level)["error"] == 1,
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


def test_inputs_are_chosen_in_the_cloud(open_page, one):
    page = open_page(one.path)
    set_level(page, 4)
    x, y = axes(page, "scatter-chart")
    columns = one.columns(4)
    box = page.get_by_test_id("scatter").bounding_box()
    left, top = x(0), y(0)
    slope_x, slope_y = x(1) - left, y(1) - top
    places = np.column_stack(
        [(columns["aleatoric"] - left) / slope_x, (columns["epistemic"] - top) / slope_y]
    )
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(26)
    alone = np.argsort(-apart.min(axis=1))[:4]
    assert apart[alone].min() > 5
    for i in alone:
        page.mouse.move(box["x"] + places[i, 0], box["y"] + places[i, 1])
        words = f"Input {i} · aleatoric {columns['aleatoric'][i]:.3f}"
        expect(page.get_by_test_id("scatter").locator(".tip")).to_contain_text(words)
        page.mouse.click(box["x"] + places[i, 0], box["y"] + places[i, 1])
        assert chosen(page) == i
        ring = circles(page, "scatter", "ring")[0]
        np.testing.assert_allclose(ring[:2], places[i], atol=0.01)


def test_the_cloud_is_painted_where_the_inputs_are(open_page, one):
    page = open_page(one.path)
    columns = one.columns(3)
    x, y = axes(page, "scatter-chart")
    painted = page.get_by_test_id("scatter").evaluate(
        """(host) => {
          const canvas = host.querySelector("canvas");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const found = [];
          for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] > 100)
              found.push([(at / 4) % canvas.width, Math.floor(at / 4 / canvas.width),
                          data[at] > data[at + 2]]);
          return found;
        }"""
    )
    across, up, warm = np.array(painted, dtype=float).T
    spots = np.column_stack([x(across), y(up)])
    size = np.array([x(3) - x(0), y(0) - y(3)])  # of a dot
    for i in range(26):
        near = np.abs(spots - [columns["aleatoric"][i], columns["epistemic"][i]]) < size
        assert near.all(axis=1).any()
    wrong = np.column_stack([columns["aleatoric"], columns["epistemic"]])[columns["error"] == 1]
    for spot in spots[warm == 1]:
        assert (np.abs(wrong - spot) < 1.2 * size).all(axis=1).any()
    assert (warm == 1).any()
    assert (warm == 0).any()


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
