"""The story: five steps walked, dragged and read, against decal; for everyone, and in a frame."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, agrees, circles, corners
from decal.explorer import Story, story
from decal.explorer._page import policy
from decal.explorer._server import PageServer

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

FRAME = Path(__file__).parents[3] / "docs" / "_static" / "story_frame.js"
CLASSES = ["ant", "bee", "cat"]
FIRST = 3


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A story, its model, its inputs and their labels."""
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=180)
    z = 1.2 * np.eye(3)[labels] + rng.standard_normal((180, 3))
    model = decal.decalibrate(z[:100], labels[:100], alpha=0.95, reference="best", classes=CLASSES)
    path = tmp_path_factory.mktemp("story") / "story.html"
    texts = [f"Text number {i}" for i in range(80)]
    story(model, z[100:], labels=labels[100:], texts=texts, row=FIRST, link=("All", "#all")).save(
        path
    )
    return path, model, z[100:], labels[100:]


@pytest.fixture
def open_story(open_page, told):
    """Opens the story at an address of its own."""

    def open_(hash_="", **options):
        options = {"width": 736, "height": 700, "reduced_motion": "reduce", **options}
        return open_page(told[0].as_uri() + hash_, testid="stage", **options)

    return open_


def bars(page):
    """(3, 2) ends of the bars, at full precision."""
    page.evaluate(SETTLED)
    rows = [page.get_by_test_id(f"bar-{k}") for k in range(3)]
    return np.array(
        [[float(row.get_attribute(f"data-{end}")) for end in ("low", "high")] for row in rows]
    )


def moved(model, z, k, shift):
    """The reference model's prediction after shifting class k, by definition."""
    e = np.exp(z + model.reference_model.center + shift * np.eye(3)[k])
    return e / e.sum()


def drag(page, start, end):
    """Drag in the picture, from and to shares of its size."""
    box = page.get_by_test_id("plot").bounding_box()
    (x0, y0), (x1, y1) = (
        (box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)
    )
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move(x1, y1)
    page.mouse.up()
    page.evaluate(SETTLED)


def says(page):
    return page.locator(".says.current").text_content().replace("\xa0", " ")


def note(page, step):
    return page.get_by_test_id(f"note-{step}").text_content().replace("\xa0", " ")


def test_the_first_step_is_the_models_prediction(open_story, told):
    _, model, z, _ = told
    page = open_story()
    p = moved(model, z[FIRST], 0, 0)
    np.testing.assert_allclose(bars(page), np.column_stack([np.zeros(3), p]), atol=1e-6)
    k = int(p.argmax())
    assert says(page) == f"The model says {CLASSES[k]}, {100 * p[k]:.1f} %. How sure may it be?"
    # Any other input is a click away.
    dots = circles(page, "story-triangle", "other")
    assert dots.shape == (80, 3)
    page.get_by_test_id("later").click()
    np.testing.assert_allclose(bars(page)[:, 1], moved(model, z[FIRST + 1], 0, 0), atol=1e-6)
    alone = int(np.argmax(np.sort(np.linalg.norm(dots[:, None] - dots, axis=2), axis=1)[:, 1]))
    box = page.get_by_test_id("story-triangle").bounding_box()
    page.mouse.click(box["x"] + dots[alone, 0], box["y"] + dots[alone, 1])
    np.testing.assert_allclose(bars(page)[:, 1], moved(model, z[alone], 0, 0), atol=1e-6)
    here = circles(page, "story-triangle", "here")[0, :2]
    np.testing.assert_allclose(here, dots[alone, :2], atol=0.1)


def test_a_dragged_shift_moves_the_bars_and_the_likelihood(open_story, told):
    _, model, z, _ = told
    page = open_story("#step=2")
    moves = page.get_by_test_id("moves-2")
    seen = set()
    for k in (2, 0):
        moves.get_by_test_id(f"class-{k}").click()
        for x in (0.3, 0.8):
            drag(page, (0.5, 0.5), (x, 0.5))
            shift = float(moves.get_by_test_id("shift").input_value())
            seen.add(shift)
            p = moved(model, z[FIRST], k, shift)
            np.testing.assert_allclose(bars(page)[:, 1], p, atol=1e-6)
            said = note(page, 2)
            assert said.startswith(f"{CLASSES[k]} gets {100 * p[k]:.1f} % here")
            kept = np.exp(model.gains("class", [shift])[0, k])
            assert agrees(said.split(" is ")[1].split(" times")[0], kept)
    assert len(seen) == 4 or min(seen) < 0 < max(seen)
    moves.get_by_test_id("shift").fill("0.4")
    np.testing.assert_allclose(bars(page)[:, 1], moved(model, z[FIRST], 0, 0.4), atol=1e-6)


def test_the_cut_makes_an_interval_and_the_set(open_story, told):
    _, model, z, _ = told
    page = open_story("#step=3")
    moves = page.get_by_test_id("moves-3")
    alphas = []
    for k, y in ((1, 0.75), (0, 0.3)):
        moves.get_by_test_id(f"class-{k}").click()
        drag(page, (0.9, 0.5), (0.9, y))
        alpha = float(moves.get_by_test_id("alpha-value").text_content())
        alphas.append(alpha)
        shifts = model.shifts(alpha)
        ends = [moved(model, z[FIRST], k, t[k]) for t in (shifts.lower, shifts.upper)]
        expected = np.sort(np.column_stack(ends), axis=1)
        np.testing.assert_allclose(bars(page), expected, atol=1e-6)
        low, high = 100 * expected[k]
        assert f"{CLASSES[k]} is now {low:.1f} % to {high:.1f} %." in says(page)
        written = f"{shifts.lower[k]:+.2f} to {shifts.upper[k]:+.2f}".replace("-", "−")
        assert note(page, 3) == f"Shifts from {written} are plausible. Drag the cut."
    assert alphas[0] < 0.95 < alphas[1] < 1
    # The set is decal's own, at whatever level the cut was left and the slider is put.
    page.get_by_test_id("next").click()
    slider = page.get_by_test_id("alpha-of-set")
    for level in (None, "8", "25", "55"):
        if level is not None:
            slider.fill(level)
        alpha = float(page.get_by_test_id("alpha-of-set-value").text_content())
        credal = model.predict(z[[FIRST]], alpha=alpha)
        bounds = np.column_stack([credal.lower[0], credal.upper[0]])
        np.testing.assert_allclose(bars(page), bounds, atol=1e-6)
        kept = [CLASSES[k] for k in np.flatnonzero(credal.decide("e_admissible")[0])]
        one = f"Only {kept[0]} can be the most probable."
        several = f"{' or '.join(kept)} may be the most probable."
        assert note(page, 4).endswith(several if len(kept) > 1 else one)
        assert ("crosses a border" in says(page)) == (len(kept) > 1)
    # Heights of the polygon are the third class's bounds.
    ground = corners(page, "story-triangle", "outline")[0]
    drawn = corners(page, "story-triangle", "credal")[0]
    up = (ground[0, 1] - drawn[:, 1]) / (ground[0, 1] - ground[2, 1])
    np.testing.assert_allclose([up.min(), up.max()], bounds[2], atol=1e-4)


def test_a_finger_drags_the_cut_and_scrolls_elsewhere(open_story):
    page = open_story("#step=3", width=390, height=844, has_touch=True, is_mobile=True)
    touch = page.context.new_cdp_session(page)
    value = page.get_by_test_id("moves-3").get_by_test_id("alpha-value")

    def swipe(x, y, down):
        for kind, moves in (("touchStart", [0]), ("touchMove", range(1, 11))):
            for move in moves:
                points = [{"x": x, "y": y + down * move / 10}]
                touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    cut = page.locator(".cutline").bounding_box()
    swipe(cut["x"] + 90, cut["y"], down=60)
    page.wait_for_function("() => document.querySelector('.cuttext').textContent < 'α 0.93'")
    assert page.evaluate("() => scrollY") == 0
    alpha = value.text_content()
    swipe(cut["x"] + 90, cut["y"] - 40, down=-120)
    page.wait_for_function("() => scrollY > 0")
    expect(value).to_have_text(alpha)


def test_the_decision_is_that_of_decal(open_story, told):
    _, model, z, labels = told
    page = open_story("#step=5")
    p = model.predict(z).point
    for cost, level in ((0.5, None), (0.2, None), (0.35, 12)):
        if level is not None:
            page.get_by_test_id("step-4").click()
            page.get_by_test_id("alpha-of-set").fill(str(level))
            page.get_by_test_id("step-5").click()
        page.get_by_test_id("cost").fill(str(cost))
        page.evaluate(SETTLED)
        alpha = float(page.get_by_test_id("alpha-of-set-value").text_content())
        credal = model.predict(z, alpha=alpha)
        utility = decal.abstention_utility(3, cost=cost)
        takes = {
            "point": np.where(p.max(axis=1) >= 1 - cost, p.argmax(axis=1), 3),
            "gamma_maximin": credal.decide("gamma_maximin", utility=utility),
            "gamma_maximax": credal.decide("gamma_maximax", utility=utility),
        }
        for rule, action in takes.items():
            read = {
                part: page.get_by_test_id(f"{part}-{rule}").text_content().replace("\xa0", " ")
                for part in ("says", "asks", "errs")
            }
            assert read["says"] == [*CLASSES, "ask"][action[FIRST]]
            assert agrees(read["asks"], 100 * np.mean(action == 3))
            named = action < 3
            assert agrees(read["errs"], 100 * np.mean(action[named] != labels[named]))
        cautious = takes["gamma_maximin"][FIRST]
        kept = [CLASSES[k] for k in np.flatnonzero(credal.decide("e_admissible")[FIRST])]
        start = f"{CLASSES[cautious]}: at worst" if cautious < 3 else " or ".join(kept)
        assert says(page).startswith(start)
        assert ("ask a person" in says(page)) == (cautious == 3)
        assert says(page).endswith(f" It is {CLASSES[labels[FIRST]]}.")
    expect(page.get_by_test_id("explore")).to_have_attribute("href", "#all")


def test_steps_are_reached_by_keys_and_addresses(open_story):
    page = open_story("#step=2&input=7")
    expect(page.get_by_test_id("step-2")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".quote")).to_have_text("Text number 7")
    page.get_by_test_id("step-2").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("step-3")).to_be_focused()
    assert page.evaluate("() => location.hash") == "#step=3&input=7"
    page.get_by_test_id("moves-3").get_by_test_id("alpha").focus()
    page.keyboard.press("ArrowRight")  # moves the cut, not the step
    assert page.evaluate("() => location.hash") == "#step=3&input=7"
    page.get_by_test_id("next").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("explore")).to_be_focused()
    expect(page.get_by_test_id("speech")).to_contain_text(says(page).split(":")[0])
    page.evaluate("() => { location.hash = '#step=1'; }")
    expect(page.get_by_test_id("back")).to_be_hidden()


def test_a_served_story_opens_under_the_servers_policy(open_page, told):
    with PageServer(told[0].read_text(encoding="utf-8"), policy(Story.entry)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            page = open_page(f"{server.url}#step=4", width=736, height=700, testid="polygon")
            expect(page.get_by_test_id("step-4")).to_have_attribute("aria-selected", "true")
        finally:
            server.shutdown()
            thread.join()


def test_the_interval_is_swept_unless_motion_is_reduced(open_story):
    moving = "() => document.querySelector('.story').classList.contains('moving')"
    page = open_story(reduced_motion="no-preference")
    page.get_by_test_id("step-3").click()
    page.wait_for_function(moving)
    page.get_by_test_id("moves-3").get_by_test_id("class-2").click()  # a reader who acts, stops it
    page.evaluate(SETTLED)
    assert not page.evaluate(moving)
    page = open_story()
    page.get_by_test_id("step-3").click()
    assert not page.evaluate(moving)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_read_it_on_a_small_screen(open_story, axe, scheme):
    page = open_story(width=390, height=844, color_scheme=scheme)
    page.evaluate(axe)
    heights = set()
    for step in range(1, 6):
        page.get_by_test_id(f"step-{step}").click()
        page.evaluate(SETTLED)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        heights.add(page.get_by_test_id("stage").bounding_box()["height"])
        if step in (2, 4):
            continue  # the same parts as in other steps
        found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]] == []
    assert len(heights) == 1  # what lies below a frame does not jump


def test_a_page_gives_the_frame_its_theme_and_height(open_page, told, tmp_path):
    script = FRAME.read_text(encoding="utf-8")
    around = tmp_path / "around.html"
    around.write_text(
        "<!doctype html><html lang=en><title>Around</title>"
        "<body data-theme=dark><main data-testid=around>"
        f"<iframe class=decal-story title=Story src='{told[0].as_uri()}' width=700></iframe>",
        encoding="utf-8",
    )
    page = open_page(around, width=1200, height=900, testid="around", color_scheme="light")
    story_of = page.frame_locator("iframe")
    root = story_of.locator(".story")
    story_of.get_by_test_id("here").wait_for()
    page.add_script_tag(content=script)  # later than the story: it asks for what it missed
    expect(root).to_have_attribute("data-theme", "dark")
    high = root.evaluate("(e) => Math.ceil(e.getBoundingClientRect().height)")
    page.wait_for_function(
        "(high) => document.querySelector('iframe').clientHeight === high", arg=high
    )
    page.evaluate("() => { document.body.dataset.theme = 'light'; }")
    expect(root).to_have_attribute("data-theme", "light")
    # Earlier than the story: it is told when the story's width, and so its height, changes.
    page.evaluate("() => { document.querySelector('iframe').width = 380; }")
    expect(root).to_have_js_property("clientWidth", 380)
    page.wait_for_function("() => document.querySelector('iframe').clientHeight > 800")
    assert root.evaluate("(e) => e.ownerDocument.documentElement.scrollHeight <= innerHeight")
