"""What words on the page mean, and that what matters is in sight."""

from __future__ import annotations

import re

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, drawn_data, set_level
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


def test_words_explain_themselves_to_pointer_and_keys(open_page, one):
    page = open_page(one.path)
    tip = page.get_by_test_id("term-tip")
    says = {
        "term-efficiency": "mean(upper − lower)",
        "term-missed": "label ∉ possible classes",
        "term-coverage": "true distribution lies inside",
        "term-size": "most probable under some plausible p",
        "term-alpha": "α = 0.8",
        "sort-size": "with several, ask a person",
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


def test_the_surface_has_words_and_no_symbols(open_page, skin):
    page = open_page(skin[0])
    surface = page.evaluate("() => document.querySelector('main').innerText")
    for word in ("Caution", "Average range", "True class missed", "Classes left"):
        assert word in surface
    assert not re.search(r"\bnats\b|α|Γ|[Aa]lpha|admissib|\d\.\d{4,}", surface)


def test_the_guide_speaks_of_these_very_numbers(open_page, skin):
    path, header, model, z, labels = skin
    page = open_page(path)
    guide = page.get_by_test_id("guide")
    for level in (header["start"], 12):
        set_level(page, level)
        page.get_by_text("What am I seeing?").click()
        kept = model.predict(z, alpha=header["alphas"][level]).decide("e_admissible")
        missed = 100 * np.mean(~kept[np.arange(60), labels])
        expect(guide).to_contain_text(f"{kept.sum() / 60:.1f} of 7 are, on average")
        expect(guide).to_contain_text(f"missed for {missed:.1f}\xa0% of the inputs here")
    page.get_by_test_id("own").click()
    expect(page.get_by_test_id("promise")).to_contain_text("The model’s own level")


def test_a_small_window_shows_ranges_sentence_and_rows_at_once(open_page, skin):
    page = open_page(skin[0], width=1280, height=720)
    for part in ("intervals", "sentence", "export-csv"):
        expect(page.get_by_test_id(part)).to_be_in_viewport(ratio=1)
    rows = page.locator("tr[data-row]")
    seen = rows.evaluate_all(
        "(all) => all.filter((tr) => tr.getBoundingClientRect().bottom <= innerHeight).length"
    )
    assert seen >= 3
    scroller = page.get_by_test_id("scroller")
    assert scroller.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
