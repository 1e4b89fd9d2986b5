"""One input on the explorer's page: its charts measured, its numbers and decisions read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from browser.reading import (
    KEYS,
    PLAYWRIGHT,
    SETTLED,
    WITHIN,
    agrees,
    axes,
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

HOLE = 0.16  # radius of the spider's empty middle, in units of probability, as in decal.plot


def choose(page, row):
    page.locator(f"tr[data-row='{row}']").click()
    page.evaluate(SETTLED)


def along(page, points):
    """Angle, clockwise from the top, and probability of points of the spider."""
    rings = circles(page, "spider", "grid")
    assert np.ptp(rings[:, :2], axis=0).max() == 0
    inner, outer = rings[:, 2].min(), rings[:, 2].max()
    assert inner / outer == pytest.approx(HOLE / (1 + HOLE))
    x, y = (np.asarray(points) - rings[0, :2]).T
    return np.arctan2(x, -y) % (2 * math.pi), (np.hypot(x, y) - inner) / (outer - inner)


def near_angle(found, expected, within):
    """Whether angles agree, a full turn being none."""
    apart = (np.asarray(found) - expected + math.pi) % (2 * math.pi) - math.pi
    return bool((np.abs(apart) <= within).all())


@pytest.mark.parametrize("level", [0, 3, 7])
def test_the_spiders_bars_are_the_intervals(open_page, one, level):
    page = open_page(one.path)
    set_level(page, level)
    credal, spokes = one.sets[0][level], 2 * math.pi * np.arange(5) / 5
    for row in (2, 11):
        choose(page, row)
        bars = lines(page, "spider", "bar")
        for end, bound in enumerate((credal.lower, credal.upper)):
            angles, probabilities = along(page, bars[:, end])
            assert near_angle(angles, spokes, 1e-9)
            np.testing.assert_allclose(probabilities, bound[row], atol=1e-6)
        angles, probabilities = along(page, circles(page, "spider", "point")[:, :2])
        np.testing.assert_allclose(probabilities, credal.point[row], atol=1e-6)
        diamonds = [c.mean(axis=0) for c in corners(page, "spider", "truth")]
        angles, probabilities = along(page, diamonds)
        assert near_angle(angles, spokes, 1e-6)
        np.testing.assert_allclose(probabilities, one.truth[row], atol=1e-6)
        assert texts(page, "spider", ".spoke") == one.classes
        assert texts(page, "spider", ".spoke.label") == [one.classes[one.labels[row]]]
        kept = credal.decide("e_admissible")[row]
        pale = (
            page.get_by_test_id("spider")
            .locator("line.bar")
            .evaluate_all("(bars) => bars.map((bar) => bar.classList.contains('dropped'))")
        )
        assert pale == [not k for k in kept]


@pytest.mark.parametrize("level", [1, 4])
def test_the_list_of_intervals_is_drawn_and_written_right(open_page, one, level):
    page = open_page(one.path)
    set_level(page, level)
    credal, first = one.sets[0][level], one.sets[0][3]
    for row in (2, 11):
        choose(page, row)
        grid = lines(page, "intervals", "grid")[:, 0, 0]
        slope, offset = np.polyfit(grid, [0, 0.25, 0.5, 0.75, 1], 1)
        # The most plausible at the level shown first stands first, and stays there.
        rank = sorted(range(5), key=lambda k: (-np.float32(first.upper[row, k]), k))
        assert texts(page, "intervals", ".spoke") == [one.classes[k] for k in rank]
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
        shown = texts(page, "intervals", ".number")
        for text, k in zip(shown, rank, strict=True):
            assert ends_agree(text, credal.lower[row, k], credal.upper[row, k])


def test_the_growth_of_intervals_is_drawn_over_all_levels(open_page, one):
    page = open_page(one.path)
    choose(page, 5)
    names = texts(page, "paths", ".spoke")
    edges = corners(page, "paths", "edge")
    assert len(edges) == 2 * len(names) >= 4
    tops = lines(page, "paths", "grid")[:3, 0, 1]
    slope, offset = np.polyfit(tops, [0, 0.5, 1], 1)
    pixel = abs(slope)
    for at, name in enumerate(names):
        k = one.classes.index(name)
        for edge, bound in zip(edges[2 * at : 2 * at + 2], ("lower", "upper"), strict=True):
            expected = [getattr(credal, bound)[5, k] for credal in one.sets[0]]
            np.testing.assert_allclose(slope * edge[:, 1] + offset, expected, atol=0.06 * pixel)
        now = lines(page, "paths", "nowline")[at, 0, 0]
        assert edges[2 * at][3, 0] == pytest.approx(now, abs=0.06)


@pytest.mark.parametrize("level", [2, 5])
def test_numbers_and_decisions_are_those_of_the_credal_set(open_page, one, level):
    page = open_page(one.path)
    set_level(page, level)
    columns, credal = one.columns(level), one.sets[0][level]
    kept = credal.decide("e_admissible")
    for row in (4, 20):
        choose(page, row)
        words = page.get_by_test_id("numbers").locator("tr td").all_text_contents()
        keys = ["epistemic", "aleatoric", "total", "size"]
        for text, key in zip(words[:4], keys, strict=True):
            assert agrees(text.removesuffix(" at the cap"), columns[key][row])
        uniform = np.full((1, 5), 0.2)
        assert words[2].endswith("at the cap") == credal[row].contains(uniform, atol=0)[0]
        low, high = credal.lower[row] - WITHIN, credal.upper[row] + WITHIN
        inside = np.all((one.truth[row] >= low) & (one.truth[row] <= high))
        yes = {True: "yes", False: "no"}
        assert words[4:] == [yes[bool(inside)], yes[bool(kept[row, one.labels[row]])]]
        for rule in ("e_admissible", "maximality"):
            said = page.get_by_test_id(f"rule-{rule}").locator(".chip").all_text_contents()
            expected = {one.classes[k] for k in np.flatnonzero(credal.decide(rule)[row])}
            assert (set(said), len(said)) == (expected, len(expected))
        for rule in ("gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret", "point"):
            said = page.get_by_test_id(f"rule-{rule}").locator(".chip").all_text_contents()
            assert said == [one.classes[credal.decide(rule)[row]]]
        expect(page.get_by_test_id("text")).to_have_text(one.texts[row])
        facts = page.get_by_test_id("detail").locator(".facts")
        expect(facts).to_contain_text(f"Label{one.classes[one.labels[row]]}")


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
        x, y = axes(page, "tradeoff-chart")
        for model, (cx, cy, _) in enumerate(circles(page, "tradeoff-chart", "now")):
            expected = two.means(level, model)
            np.testing.assert_allclose(x(cx), expected["efficiency"], atol=1e-6)
            np.testing.assert_allclose(y(cy), expected["coverage"], atol=1e-6)


def test_the_table_shows_either_model_or_their_difference(open_page, two):
    page = open_page(two.path)
    set_level(page, 4)
    one, other = two.columns(4, 0), two.columns(4, 1)
    for show, columns in (("1", one), ("2", other)):
        page.get_by_test_id(f"show-{show}").click()
        page.evaluate(SETTLED)
        ties = (-columns[key].astype(np.float32) for key in ("aleatoric", "total"))
        place = np.lexsort((two.rows, *ties, -columns["size"]))
        assert order(page) == two.rows[place].tolist()
        for row, cells in table(page):
            i = two.rows.tolist().index(row)
            for key, text in zip(KEYS[4:], cells[4:], strict=True):
                assert agrees(text, columns[key][i])
    page.get_by_test_id("show-difference").click()
    page.get_by_test_id("sort-total").click()
    page.evaluate(SETTLED)
    change = other["total"].astype(np.float32) - one["total"].astype(np.float32)
    tie = other["aleatoric"].astype(np.float32) - one["aleatoric"].astype(np.float32)
    expected = np.lexsort((two.rows, -tie.astype(float), -change.astype(float)))
    assert order(page) == two.rows[expected].tolist()
    signs = set()
    for row, cells in table(page):
        i = two.rows.tolist().index(row)
        for key, text in zip(KEYS[4:], cells[4:], strict=True):
            assert agrees(text, other[key][i] - one[key][i]), (row, key, text)
            signs.add(text[0])
        errors = [["no", "yes"][columns["error"][i]] for columns in (one, other)]
        assert cells[3] == " → ".join(dict.fromkeys(errors))
    assert {"+", "−"} <= signs


def test_a_case_of_either_model_is_kept_where_both_are_shown(open_page, two):
    page = open_page(two.path)
    wrong = [two.columns(3, model)["error"] == 1 for model in (0, 1)]
    page.get_by_test_id("filter-cases").select_option("errors")
    for show, holds in (("1", wrong[0]), ("2", wrong[1]), ("difference", wrong[0] | wrong[1])):
        page.get_by_test_id(f"show-{show}").click()
        page.evaluate(SETTLED)
        assert sorted(order(page)) == two.rows[holds].tolist()


def test_two_models_share_the_charts_of_an_input(open_page, two):
    page = open_page(two.path)
    set_level(page, 4)
    row = two.rows.tolist()[7]
    choose(page, row)
    expect(page.get_by_test_id("detail-title")).to_contain_text("Animal")
    bars = lines(page, "spider", "bar").reshape(5, 2, 2, 2)
    written = texts(page, "intervals", ".number")
    names = texts(page, "intervals", ".spoke")
    for model, levels in enumerate(two.sets):
        credal = levels[4]
        angles, lower = along(page, bars[:, model, 0])
        np.testing.assert_allclose(lower, credal.lower[7], atol=1e-6)
        np.testing.assert_allclose(along(page, bars[:, model, 1])[1], credal.upper[7], atol=1e-6)
        assert near_angle(angles, 2 * math.pi * np.arange(5) / 5, 0.25)
        for name, text in zip(names, written[model::2], strict=True):
            k = two.classes.index(name)
            assert ends_agree(text, credal.lower[7, k], credal.upper[7, k])
        classes = [two.classes, ["蚁", "蜂", "猫", "狗", "鸸鹋"]][model]
        cell = page.get_by_test_id("rule-e_admissible").locator("td").nth(model)
        expected = {classes[k] for k in np.flatnonzero(credal.decide("e_admissible")[7])}
        assert set(cell.locator(".chip").all_text_contents()) == expected


def test_the_cloud_compares_the_models(open_page, two):
    page = open_page(two.path)
    page.get_by_test_id("cloud-models").click()
    page.evaluate(SETTLED)
    choose(page, two.rows[3])
    x, y = axes(page, "scatter-chart")
    cx, cy, _ = circles(page, "scatter", "ring")[0]
    assert x(cx) == pytest.approx(two.columns(3, 0)["epistemic"][3], abs=1e-5)
    assert y(cy) == pytest.approx(two.columns(3, 1)["epistemic"][3], abs=1e-5)
