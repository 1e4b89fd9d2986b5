"""Many inputs at once: the tiles of the explorer's grid, read back and compared with Python."""

from __future__ import annotations

import re

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, drawn_data, look, set_level
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

CLASSES = ["ant", "bee <b>", "cat", "dog"]
ALPHAS = [1.0, 0.8, 0.3]
COUNT = 90

TILES = """(grid) => [...grid.querySelectorAll("[role=option]")].map((tile) => {
  const text = (name) => tile.querySelector(name).textContent;
  const canvas = tile.querySelector("canvas");
  const [x, y] = [canvas.width >> 1, canvas.height >> 1];
  return {
    place: tile.ariaPosInSet - 0, of: tile.ariaSetSize - 0,
    row: Number(tile.dataset.row), said: tile.textContent, text: text(".excerpt"),
    predicted: text(".predicted"), wrong: tile.querySelector(".wrong") !== null,
    label: text(".soft"), names: text(".names"),
    colour: [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3),
  };
})"""
CHOSEN = "() => Number(document.querySelector('.tile[aria-selected=true]')?.dataset.row)"
FOCUSED = "() => Number(document.activeElement.dataset.row)"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """More inputs than there is room for, with labels, texts, and a picture of one colour each."""
    z, labels, _ = drawn_data(COUNT, 4)
    model = decal.decalibrate(*drawn_data(300, 4, seed=1)[:2], alpha=0.8, classes=CLASSES)
    colours = np.random.default_rng(5).integers(256, size=(COUNT, 3), dtype=np.uint8)
    images = np.broadcast_to(colours[:, None, None], (COUNT, 8, 8, 3))
    texts = [f"Text {i} <i>of</i> {'odd' if i % 2 else 'even'}" for i in range(COUNT)]
    path = tmp_path_factory.mktemp("grid") / "page.html"
    explore(model, z, labels=labels, texts=texts, images=images, alphas=ALPHAS, start=0.8).save(
        path
    )
    sets = [model.predict(z, alpha=alpha) for alpha in ALPHAS]
    return path, sets, labels, texts, colours


def opened(open_page, path):
    page = open_page(path)
    page.get_by_test_id("as-grid").click()
    page.evaluate(SETTLED)
    page.evaluate(SETTLED)  # once its size is known
    return page


def tiles(page):
    """Every tile by its place, read while scrolling from top to bottom."""
    scroller, found, top = page.get_by_test_id("grid-scroller"), {}, 0
    while True:
        scroller.evaluate("(scroller, top) => { scroller.scrollTop = top }", top)
        page.wait_for_timeout(50)  # pictures are drawn when their sheet is decoded
        seen = page.get_by_test_id("grid").evaluate(TILES)
        if not seen:
            return []
        found |= {tile["place"]: tile for tile in seen}
        if len(found) == seen[0]["of"]:
            return [found[place + 1] for place in range(len(found))]
        assert top < 200 * COUNT
        top += 450


def test_tiles_are_in_the_order_of_looking_with_what_decal_says(open_page, many):
    path, sets, labels, texts, colours = many
    page = opened(open_page, path)
    assert page.locator(".tile").count() < 40  # of those in sight only
    for level in (1, 2):
        set_level(page, level)
        credal = sets[level]
        predicted, kept = credal.point.argmax(axis=1), credal.decide("e_admissible")
        found = tiles(page)
        assert [tile["row"] for tile in found] == look(sets[1], labels)
        for tile in found:
            i = tile["row"]
            wrong = predicted[i] != labels[i]
            name = CLASSES[predicted[i]]
            assert (tile["predicted"], tile["wrong"]) == (name, wrong)
            assert tile["label"] == (f"is {CLASSES[labels[i]]}" if wrong else "")
            names = [CLASSES[k] for k in np.flatnonzero(kept[i])]
            said = re.split(", | or ", tile["names"])
            assert sorted(said) == (names if len(names) < 4 else ["4 classes"])
            assert tile["text"] == texts[i]
            assert tile["colour"] == colours[i].tolist()
            assert tile["said"].startswith(f"Input {i}. {texts[i]}Model says {name}")


def test_tiles_follow_filters_and_another_order(open_page, many):
    path, sets, labels, _, _ = many
    page = opened(open_page, path)
    credal = sets[1]
    wrong = credal.point.argmax(axis=1) != labels
    odd = np.arange(COUNT) % 2 == 1
    page.get_by_test_id("filter-cases").select_option("errors")
    page.get_by_test_id("search").fill("odd")
    page.evaluate(SETTLED)
    listed = [i for i in look(credal, labels) if wrong[i] and odd[i]]
    assert [tile["row"] for tile in tiles(page)] == listed
    page.get_by_test_id("order").select_option("sure")
    page.evaluate(SETTLED)
    sure = credal.point.max(axis=1)
    falling = sorted(np.flatnonzero(wrong & odd), key=lambda i: -sure[i])
    assert [tile["row"] for tile in tiles(page)] == falling
    page.get_by_test_id("order-turn").click()
    page.evaluate(SETTLED)
    assert [tile["row"] for tile in tiles(page)] == falling[::-1]
    page.get_by_test_id("search").fill("nowhere")
    expect(page.get_by_test_id("grid-empty")).to_be_visible()
    assert tiles(page) == []


def test_inputs_are_chosen_in_the_grid_by_click_and_keys(open_page, many):
    path, sets, labels, _, _ = many
    page = opened(open_page, path)
    listed = look(sets[1], labels)
    left = "(grid) => [...grid.children].map((tile) => tile.getBoundingClientRect().top)"
    tops = page.get_by_test_id("grid").evaluate(left)
    across = sum(top == tops[0] for top in tops)
    assert across > 1
    page.locator(f".tile[data-row='{listed[1]}']").click()
    place = 1
    last_line = (COUNT - 1) // across * across
    keys = [
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("ArrowDown", 1 + across),
        ("ArrowUp", 1),
        ("ArrowUp", 1),  # there is no line above
        ("End", COUNT - 1),
        ("ArrowRight", COUNT - 1),
        ("Home", 0),
    ]
    for key, place in keys:
        page.keyboard.press(key)
        page.evaluate(SETTLED)
        assert page.evaluate(CHOSEN) == page.evaluate(FOCUSED) == listed[place], key
        expect(page.locator(f".tile[data-row='{listed[place]}']")).to_be_in_viewport()
        assert page.locator(".tile[tabindex='0']").count() == 1
        expect(page.get_by_test_id("detail-title")).to_have_text(f"Input {listed[place]}")
    page.keyboard.press("PageDown")
    page.evaluate(SETTLED)
    down = listed.index(page.evaluate(CHOSEN))
    assert down >= across
    assert down % across == 0
    for _ in range(COUNT):
        page.keyboard.press("PageDown")
        if page.evaluate(FOCUSED) == listed[last_line]:
            break
    page.get_by_test_id("previous").click()
    page.evaluate(SETTLED)
    assert page.evaluate(CHOSEN) == listed[last_line - 1]


def test_the_grid_is_in_the_address(open_page, many):
    page = opened(open_page, many[0])
    page.wait_for_function("() => location.hash.includes('list=grid')")
    page.reload()
    expect(page.locator(".tile").first).to_be_visible()
    page.get_by_test_id("as-table").click()
    expect(page.get_by_test_id("table")).to_be_visible()
    expect(page.get_by_test_id("grid")).to_be_hidden()
    row = page.locator("tr[aria-selected=true]")
    expect(row).to_be_in_viewport()
    page.wait_for_function("() => !location.hash.includes('list=')")
