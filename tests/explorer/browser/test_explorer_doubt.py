"""Where the page leads its readers: the order of doubt, the cap, what words mean, the layout."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, axes, drawn_data, lines, order, set_level, texts
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

LONG = [
    "actinic keratoses and intraepithelial carcinoma",
    "basal cell carcinoma",
    "benign keratosis-like lesions",
    "dermatofibroma",
    "melanocytic nevi",
    "melanoma",
    "vascular lesions",
]


@pytest.fixture(scope="module")
def skin(tmp_path_factory):
    """Seven classes with long names, opened where the explorer chooses to."""
    z, labels, _ = drawn_data(60, 7)
    model = decal.decalibrate(*drawn_data(500, 7, seed=1)[:2], alpha=0.5, classes=LONG)
    path = tmp_path_factory.mktemp("skin") / "page.html"
    page = explore(model, z, labels=labels, title="Skin")
    page.save(path)
    return path, page.payload.header, model, z, labels


def capped(credal):
    """Which sets hold equal probabilities."""
    K = credal.shape[1]
    return ((credal.lower <= 1 / K) & (credal.upper >= 1 / K)).all(axis=1)


def test_inputs_are_listed_in_the_order_of_decals_most_uncertain(open_page, one):
    page = open_page(one.path)
    for level in (1, 3, 5):
        set_level(page, level)
        expected = one.sets[0][level].most_uncertain()
        total = one.sets[0][level].total().astype(np.float32)
        size = one.sets[0][level].decide("e_admissible").sum(axis=1)
        found = order(page)
        assert [(size[i], total[i]) for i in found] == [(size[i], total[i]) for i in expected]


def test_the_cap_is_drawn_and_counted(open_page, one):
    page = open_page(one.path)
    seen = set()
    for level in (1, 4, 6):
        set_level(page, level)
        held = capped(one.sets[0][level])
        seen |= set(held.tolist())
        share = 100 * held.mean()
        words = f"at the cap{share:.1f} %" if share < 10 else f"at the cap{share:.0f} %"
        expect(page.get_by_test_id("capped")).to_have_text(words)
        x, y = axes(page, "scatter-chart")
        for cx, cy in lines(page, "scatter-chart", "diagonal")[0]:
            assert x(cx) + y(cy) == pytest.approx(np.log(5), abs=1e-6)
        for row in (0, 9):
            page.locator(f"tr[data-row='{row}']").click()
            page.evaluate(SETTLED)
            expect(page.get_by_test_id("at-cap")).to_have_count(int(held[row]))
    assert seen == {True, False}
    assert texts(page, "scatter-chart", ".capname") == ["cap: ln 5 = 1.61"]


def test_words_explain_themselves_to_pointer_and_keys(open_page, one):
    page = open_page(one.path)
    tip = page.get_by_test_id("term-tip")
    says = {
        "term-efficiency": "1 − mean(upper − lower)",
        "term-missed": "label ∉ decision set",
        "term-coverage": "true distribution lies inside",
        "term-size": "most probable under some plausible p",
        "term-alpha": "likelihood of the reference",
        "term-cap": "max H(p) = ln K",
        "sort-epistemic": "max H(p) − min H(p)",
        "sort-aleatoric": "least entropy",
        "sort-total": "ln K",
    }
    for name, words in says.items():
        word = page.get_by_test_id(name)
        word.hover()
        expect(tip).to_contain_text(words)
        page.mouse.move(2, 2)
        expect(tip).to_have_count(0)
        word.focus()
        expect(tip).to_be_visible()
        assert word.get_attribute("aria-describedby") == tip.get_attribute("id")
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1440
        page.keyboard.press("Escape")
        expect(tip).to_have_count(0)
        word.blur()


def test_the_guide_speaks_of_these_very_numbers(open_page, skin):
    path, header, model, z, labels = skin
    page = open_page(path)
    guide = page.get_by_test_id("guide")
    for level in (header["start"], 12):
        set_level(page, level)
        page.get_by_text("What am I seeing?").click()
        expect(guide).to_contain_text(header["opened"])
        alpha = header["alphas"][level]
        credal = model.predict(z, alpha=alpha)
        kept = credal.decide("e_admissible")
        missed = 100 * np.mean(~kept[np.arange(60), labels])
        expect(guide).to_contain_text(f"{kept.sum() / 60:.2f} of 7 on average")
        expect(guide).to_contain_text(f"{missed:.1f} % of the labels are outside it")
        expect(guide).to_contain_text(f"at α {alpha:g} intervals are")
    page.get_by_test_id("own").click()
    expect(page.get_by_test_id("alpha-value")).to_have_text("0.5")


def test_a_small_window_shows_decisions_and_rows_at_once(open_page, skin):
    page = open_page(skin[0], width=1280, height=720)
    for rule in ("e_admissible", "point"):
        expect(page.get_by_test_id(f"rule-{rule}")).to_be_in_viewport(ratio=1)
    rows = page.locator("tr[data-row]")
    seen = rows.evaluate_all(
        "(all) => all.filter((tr) => tr.getBoundingClientRect().bottom <= innerHeight).length"
    )
    assert seen >= 3
    scroller = page.get_by_test_id("scroller")
    assert scroller.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0


def test_long_names_leave_the_spider_its_room(open_page, skin):
    page = open_page(skin[0], width=1280, height=720)
    outer = (
        page.get_by_test_id("spider")
        .locator("circle.grid")
        .evaluate_all("(all) => Math.max(...all.map((circle) => circle.getAttribute('r')))")
    )
    assert 2 * outer >= 190
    titles = page.get_by_test_id("spider").locator(".spoke title").all_text_contents()
    assert titles == LONG


def test_a_difference_says_which_minus_which(open_page, two):
    page = open_page(two.path)
    expect(page.get_by_test_id("show-difference")).to_have_text("中文 − English")
