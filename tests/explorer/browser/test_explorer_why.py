"""Why an interval stops there: the cut is dragged, and the page computes what decal does."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import (
    PLAYWRIGHT,
    SETTLED,
    drawn_data,
    ends_agree,
    lines,
    order,
    set_level,
    texts,
)
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

DIRECTIONS = {
    "class": ("class",),
    "both": ("class", "temperature"),
    "local": decal.Local(mix=0.05, by_entropy=0.3),
}
ALPHAS = [1, 0.95, 0.8, 0.5, 0.2, 0]


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A page for each kind of direction: path, model and logits."""
    folder = tmp_path_factory.mktemp("why")
    z, labels, _ = drawn_data(8, 4)
    found = {}
    for name, directions in DIRECTIONS.items():
        fit = drawn_data(300, 4, seed=1)[:2]
        box = "own" if name == "local" else "joint"
        model = decal.decalibrate(*fit, alpha=0.8, directions=directions, box=box, classes="abcd")
        explore(model, z, labels=labels, alphas=ALPHAS, start=0.8).save(folder / f"{name}.html")
        found[name] = folder / f"{name}.html", model, z
    return found


def drag(page, share):
    """Press the button on the cut's plot, this far down its curve, and hold it."""
    host = page.get_by_test_id("why-cut")
    host.scroll_into_view_if_needed()
    box = host.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 24 + share * 120
    page.mouse.move(x, y - 10)
    page.mouse.down()
    page.mouse.move(x, y)
    page.evaluate(SETTLED)
    return float(host.get_attribute("aria-valuenow"))


@pytest.mark.parametrize("name", list(DIRECTIONS))
def test_a_dragged_cut_moves_the_bars_as_decal_would(open_page, explained, name):
    path, model, z = explained[name]
    page = open_page(path)
    seen = []
    for row in (1, 6):
        page.locator(f"tr[data-row='{row}']").click()
        page.evaluate(SETTLED)
        for share in (0.3, 0.9):
            alpha = drag(page, share)
            assert alpha not in ALPHAS
            seen.append(alpha)
            credal = model.predict(z[[row]], alpha=alpha)
            names = texts(page, "intervals", ".spoke")
            for text, k in zip(
                texts(page, "intervals", ".number"), ["abcd".index(n) for n in names], strict=True
            ):
                low, high = (float(end) for end in text.split("–"))
                assert low == pytest.approx(credal.lower[0, k], abs=7e-4)
                assert high == pytest.approx(credal.upper[0, k], abs=7e-4)
            page.mouse.up()
            page.evaluate(SETTLED)
            # Let go, it rests at the nearest level, and so does everything else.
            level = int(page.get_by_test_id("alpha").input_value())
            distance = [abs(np.sqrt(-np.log(a)) - np.sqrt(-np.log(alpha))) for a in ALPHAS[:-1]]
            assert level == int(np.argmin(distance))
            set_level(page, 2)
    assert len(set(seen)) == 2


def test_the_ends_are_the_shifts_that_the_level_allows(open_page, explained):
    path, model, z = explained["class"]
    page = open_page(path)
    row = order(page)[0]
    for level in (1, 3):
        set_level(page, level)
        shifts = model.shifts(ALPHAS[level])
        for k in (0, 2):
            page.get_by_test_id("why-what").select_option(str(k))
            page.evaluate(SETTLED)
            words = page.get_by_test_id("why-words").text_content()
            ends = f"{shifts.lower[k]:+.2f} to {shifts.upper[k]:+.2f}".replace("-", "−")
            assert f"Shifting “{'abcd'[k]}” by {ends} keeps at least {ALPHAS[level]}" in words
            p = np.exp(z[row]) / np.exp(z[row]).sum()
            odds = p[k] / (1 - p[k]) * np.exp([shifts.lower[k], shifts.upper[k]])
            reached = odds / (1 + odds)
            said = words.split("probability from ")[1].split(".  With")[0]
            low, high = said.split(" to ")[0], said.split(" to ")[1][:5]
            assert ends_agree(f"{low}–{high}", *reached)
    bar = lines(page, "why", "bar")[-1]
    scale = lines(page, "why", "grid")[-3:, 0, 1]  # probabilities 0, 0.5 and 1
    slope, offset = np.polyfit(scale, [0, 0.5, 1], 1)
    np.testing.assert_allclose(slope * bar[:, 1] + offset, reached, atol=1e-5)
    page.wait_for_function("() => location.hash.includes('why=2')")
    page.reload()
    expect(page.get_by_test_id("why-what")).to_have_value("2")


def test_scales_are_explained_too(open_page, explained):
    path, model, _ = explained["both"]
    page = open_page(path)
    page.get_by_test_id("why-what").select_option("scale")
    scales = model.scales(0.8)
    last = f"{scales.upper:.2f}" if np.isfinite(scales.upper) else "infinity"
    words = f"Scales of all logits from {scales.lower:.2f} to {last} are plausible at α 0.8."
    expect(page.get_by_test_id("why-words")).to_contain_text(words)


def test_keys_move_the_cut_from_level_to_level(open_page, explained):
    page = open_page(explained["class"][0])
    cut = page.get_by_test_id("why-cut")
    cut.focus()
    for key, alpha in (("ArrowDown", "0.5"), ("ArrowUp", "0.8"), ("Home", "1"), ("End", "0")):
        cut.press(key)
        expect(page.get_by_test_id("alpha-value")).to_have_text(alpha)
    expect(cut).to_be_focused()
