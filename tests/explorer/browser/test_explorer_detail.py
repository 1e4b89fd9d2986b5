"""One input on the explorer's page: its charts measured, its numbers and decisions read."""

from __future__ import annotations

import numpy as np
import pytest

from browser.reading import (
    PLAYWRIGHT,
    SETTLED,
    WITHIN,
    agrees,
    circles,
    corners,
    ends_agree,
    lines,
    order,
    set_level,
    table,
    texts,
)

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect


def choose(page, row):
    page.locator(f"tr[data-row='{row}']").click()
    page.evaluate(SETTLED)


@pytest.mark.parametrize("level", [1, 4])
def test_the_list_of_intervals_is_drawn_and_written_right(open_page, one, level):
    page = open_page(one.path)
    set_level(page, level)
    credal, first = one.sets[0][level], one.sets[0][3]
    for row in (2, 11):
        choose(page, row)
        grid = lines(page, "intervals", "grid")[:, 0, 0]
        slope, offset = np.polyfit(grid, [0, 0.5, 1], 1)
        # The most plausible at the level shown first stands first, and stays there.
        rank = sorted(range(5), key=lambda k: (-np.float32(first.upper[row, k]), k))
        marked = [one.classes[k] + (" ✓" if k == one.labels[row] else "") for k in rank]
        assert texts(page, "intervals", ".spoke") == marked
        pale = (
            page.get_by_test_id("intervals")
            .locator("line.bar")
            .evaluate_all("(bars) => bars.map((bar) => bar.classList.contains('dropped'))")
        )
        assert pale == [not credal.decide("e_admissible")[row, k] for k in rank]
        bars = lines(page, "intervals", "bar")
        assert (bars[:, 0, 1] == bars[:, 1, 1]).all()
        assert (np.diff(bars[:, 0, 1]) > 20).all()
        np.testing.assert_allclose(
            slope * bars[:, 0, 0] + offset, credal.lower[row, rank], atol=1e-6
        )
        np.testing.assert_allclose(
            slope * bars[:, 1, 0] + offset, credal.upper[row, rank], atol=1e-6
        )
        points = circles(page, "intervals", "point")[:, 0]
        np.testing.assert_allclose(slope * points + offset, credal.point[row, rank], atol=1e-6)
        truth = [c[:, 0].mean() for c in corners(page, "intervals", "truth")]
        np.testing.assert_allclose(
            slope * np.array(truth) + offset, one.truth[row, rank], atol=1e-6
        )
        for text, k in zip(texts(page, "intervals", ".range"), rank, strict=True):
            assert ends_agree(text, credal.lower[row, k], credal.upper[row, k])
        for text, k in zip(texts(page, "intervals", ".says"), rank, strict=True):
            assert agrees(text, 100 * credal.point[row, k])


def test_one_sentence_says_what_an_input_comes_to(open_page, one):
    page = open_page(one.path)
    seen = set()
    for level in (1, 3):
        set_level(page, level)
        credal, columns = one.sets[0][level], one.columns(level)
        for row in one.rows.tolist():
            choose(page, row)
            said = page.get_by_test_id("sentence").text_content()
            said = said.replace("\xa0", " ").replace("\u2060", "")
            best, size = columns["says"][row], columns["size"][row]
            name, label = one.classes[best], one.classes[one.labels[row]]
            assert said.startswith(f"The model says {name}, {100 * columns['sure'][row]:.0f} %. ")
            low, high = (f"{100 * end[row, best]:.0f}" for end in (credal.lower, credal.upper))
            spread = f"{low}–{high}" if low != high else low
            assert f"Models that fit the labelled data well say {spread} %. " in said
            names = [one.classes[k] for k in np.flatnonzero(credal.decide("e_admissible")[row])]
            assert ("ask a person" in said) == (size > 1) != ("one class is left" in said)
            listed = size > 3 or all(name in said for name in names)
            assert listed
            missed, wrong = label not in names, name != label
            end = ": a miss." if missed else "."
            if wrong and not missed:
                end = ": the model is wrong, and the right class is kept."
            assert said.endswith(f"It is {label}{end}")
            seen.add((bool(size > 1), missed, bool(wrong)))
    assert {(True, False, True), (False, False, False), (False, True, True)} <= seen


@pytest.mark.parametrize("level", [2, 5])
def test_numbers_and_decisions_are_those_of_the_credal_set(open_page, one, level):
    page = open_page(one.path)
    set_level(page, level)
    credal = one.sets[0][level]
    expect(page.get_by_test_id("rules")).to_be_hidden()
    page.get_by_test_id("folded").locator("summary").click()
    for row in (4, 20):
        choose(page, row)
        words = page.get_by_test_id("numbers").locator("tr td").all_text_contents()
        least, greatest = (end[row] for end in credal.entropy())
        for text, value in zip(words[:3], (greatest - least, least, greatest), strict=True):
            assert agrees(text, value)
        low, high = credal.lower[row] - WITHIN, credal.upper[row] + WITHIN
        inside = np.all((one.truth[row] >= low) & (one.truth[row] <= high))
        assert words[3:] == ["yes" if inside else "no"]
        for rule in ("e_admissible", "maximality"):
            said = page.get_by_test_id(f"rule-{rule}").locator(".chip").all_text_contents()
            expected = {one.classes[k] for k in np.flatnonzero(credal.decide(rule)[row])}
            assert (set(said), len(said)) == (expected, len(expected))
        for rule in ("gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret", "point"):
            said = page.get_by_test_id(f"rule-{rule}").locator(".chip").all_text_contents()
            assert said == [one.classes[credal.decide(rule)[row]]]
        expect(page.get_by_test_id("text")).to_have_text(one.texts[row])


# Two models


def test_two_models_stand_side_by_side(open_page, two):
    page = open_page(two.path)
    expect(page.get_by_test_id("partly")).to_have_text(
        "26 of 40 inputs shown; curves are over all."
    )
    for level in (3, 5):
        set_level(page, level)
        for model in (0, 1):
            for key, expected in two.means(level, model).items():
                shown = page.get_by_test_id(f"readout-{key}").nth(model).text_content()
                assert agrees(shown, expected), (model, key)


def test_the_list_shows_either_model(open_page, two):
    page = open_page(two.path)
    set_level(page, 4)
    page.get_by_test_id("sort-sure").click()
    names = [two.classes, ["蚁", "蜂", "猫", "狗", "鸸鹋"]]
    for model in (0, 1):
        page.get_by_test_id(f"show-{model + 1}").click()
        page.evaluate(SETTLED)
        columns = two.columns(4, model)
        assert order(page) == two.rows[np.argsort(-columns["sure"])].tolist()
        for row, (_, said, sure, *_) in table(page):
            i = two.rows.tolist().index(row)
            assert said == names[model][columns["says"][i]]
            assert agrees(sure, 100 * columns["sure"][i])
        page.get_by_test_id("filter-cases").select_option("errors")
        page.evaluate(SETTLED)
        assert sorted(order(page)) == two.rows[two.wrong(model)].tolist()
        page.get_by_test_id("filter-cases").select_option("all")


def test_two_models_share_the_charts_of_an_input(open_page, two):
    page = open_page(two.path)
    set_level(page, 4)
    row = two.rows.tolist()[7]
    choose(page, row)
    expect(page.get_by_test_id("detail-title")).to_contain_text("Animal")
    bars = lines(page, "intervals", "bar").reshape(5, 2, 2, 2)
    grid = lines(page, "intervals", "grid")[:, 0, 0]
    slope, offset = np.polyfit(grid, [0, 0.5, 1], 1)
    written = texts(page, "intervals", ".range")
    names = [name.removesuffix(" ✓") for name in texts(page, "intervals", ".spoke")]
    ks = [two.classes.index(name) for name in names]
    page.get_by_test_id("folded").locator("summary").click()
    page.get_by_test_id("rules").locator(".chip").first.wait_for()
    expect(page.get_by_test_id("sentence")).to_have_count(2)
    for model, levels in enumerate(two.sets):
        credal = levels[4]
        for end, bound in enumerate((credal.lower, credal.upper)):
            found = slope * bars[:, model, end, 0] + offset
            np.testing.assert_allclose(found, bound[7, ks], atol=1e-6)
        for name, text in zip(names, written[model::2], strict=True):
            k = two.classes.index(name)
            assert ends_agree(text, credal.lower[7, k], credal.upper[7, k])
        classes = [two.classes, ["蚁", "蜂", "猫", "狗", "鸸鹋"]][model]
        cell = page.get_by_test_id("rule-e_admissible").locator("td").nth(model)
        expected = {classes[k] for k in np.flatnonzero(credal.decide("e_admissible")[7])}
        assert set(cell.locator(".chip").all_text_contents()) == expected
