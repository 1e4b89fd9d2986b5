"""The strip on the documentation's first page: dragged, turned, typed at, and read by axe."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from browser.reading import PLAYWRIGHT, SETTLED

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

DOCS = Path(__file__).parents[3] / "docs"
STILL = {"reduced_motion": "reduce"}
HEARD = """<script>
const slider = document.querySelector(".strip input"), heard = [];
new MutationObserver(() => heard.push(Number(slider.value))).observe(slider, { attributes: true });
</script>"""
"""Keeps the levels to which the strip moves by itself."""


@pytest.fixture(scope="module")
def landing(tmp_path_factory):
    """A page with the two pieces and the style of the documentation, and the strip's data."""
    found = importlib.util.spec_from_file_location("landing", DOCS / "landing.py")
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    folder = tmp_path_factory.mktemp("landing")
    script.write(folder)
    pieces = [(folder / f"landing_{name}.html").read_text("utf-8") for name in ("strip", "steps")]
    page = folder / "page.html"
    page.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>decal</title>"
        f"<style>{(DOCS / '_static' / 'site.css').read_text('utf-8')}"
        "html { color-scheme: light dark; background: light-dark(white, #131416); }</style>"
        f"<body data-theme=auto><main><h1>decal</h1>{''.join(pieces)}</main>{HEARD}",
        encoding="utf-8",
    )
    return page, script.language_strip(script.fitted())


@pytest.fixture
def open_strip(open_page, landing):
    def open_(**options):
        page = open_page(landing[0], testid="strip-dots", **options)
        page.wait_for_function("() => document.querySelector('.strip-right').getAttribute('d')")
        return page

    return open_


def said(page, name):
    page.evaluate(SETTLED)
    return page.get_by_test_id(f"strip-{name}").inner_text().replace("\xa0", " ")


def test_it_opens_on_a_confident_error_at_the_promise(open_strip, landing):
    page, data = open_strip(**STILL), landing[1]
    assert said(page, "text") == "“Limpar selección” Clear selection"
    assert said(page, "verdict") == "→ Spanish or Galician: ask a person (it is Galician)"
    assert re.findall(r"\d+–\d+ %", said(page, "bars")) == ["31–91 %", "9–67 %", "0–7 %"]
    share = 100 * data["missed"][data["own"]] / data["count"]
    promise = f"Promise: misses at most 1 in 10. Here {share:.1f} % of 1,831 texts are missed."
    assert said(page, "promise") == promise
    expect(page.get_by_test_id("strip-caution")).to_have_value(str(data["own"]))


def dots(page):
    """How many dots are drawn of each kind."""
    return [
        page.locator(f".strip-dots path.strip-{kind}").get_attribute("d").count("M")
        for kind in ("right", "wrong", "person")
    ]


def test_dragging_moves_the_ranges_the_dots_and_the_sentence(open_strip, landing):
    page, data = open_strip(**STILL), landing[1]
    slider = page.get_by_test_id("strip-caution")
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.44 * box["width"], middle)
    page.mouse.down()
    seen = set()
    for share in (0.2, 0.51, 0.75, 0.999):
        page.mouse.move(box["x"] + share * box["width"], middle)
        level = int(slider.input_value())
        seen.add(level)
        filed, wrong, n = data["filed"][level], data["wrong"][level], data["count"]
        sentence = said(page, "sentence")
        assert sentence.startswith(f"{100 * filed / n:.0f} % filed alone, ")
        assert f"{100 * wrong / filed:.1f} % wrong." in sentence
        assert f"as many: {100 * data['confidence'][level] / filed:.1f} %" in sentence
        assert f"confidence: {100 * data['recalibrated'][level] / filed:.1f} %." in sentence
        ties = data["compared"][level] == "tie" and wrong != data["confidence"][level]
        assert ("too close to call" in sentence) == ties
        assert dots(page) == [filed - wrong, wrong, n - filed]
        bars = [
            (100 * bar["lower"][level], 100 * bar["upper"][level])
            for bar in data["examples"][1]["bars"]
        ]
        assert [f"{low:.0f}–{high:.0f} %" for low, high in bars] == re.findall(
            r"\d+–\d+ %", said(page, "bars")
        )
    page.mouse.up()
    assert len(seen) == 4
    assert "fewer" in {data["compared"][level] for level in seen}


def test_six_texts_are_paged_through_in_a_circle(open_strip, landing):
    page, examples = open_strip(**STILL), landing[1]["examples"]
    verdicts = {}
    for turn in range(7):
        example = examples[(1 + turn) % 6]
        assert said(page, "text").startswith(f"“{example['text']}”")
        assert f"{(1 + turn) % 6 + 1} of 6" in page.locator(".strip-pager").inner_text()
        assert f"{example['true']} ✓" in said(page, "bars")
        verdicts[example["text"]] = said(page, "verdict")
        page.get_by_test_id("strip-next").click()
    assert verdicts["Zaloguj się"] == "→ Polish: filed alone (right)"
    assert verdicts["vist navn"] == "→ Norwegian: filed alone (wrong: it is Danish)"
    assert verdicts["Data (sem hora)"] == (
        "→ Italian, English, Portuguese or 12 others: ask a person (it is Portuguese)"
    )
    page.get_by_test_id("strip-previous").click()
    assert "2 of 6" in page.locator(".strip-pager").inner_text()


def test_keys_alone_do(open_strip, landing):
    page, data = open_strip(**STILL), landing[1]
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert said(page, "text").startswith("“Statische bestanden”")
    page.keyboard.press("Tab")
    slider = page.get_by_test_id("strip-caution")
    expect(slider).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_value(str(data["own"] + 1))
    assert said(page, "promise").startswith("More cautious than promised.")
    page.keyboard.press("End")
    share = 100 * data["filed"][-1] / data["count"]
    assert said(page, "sentence").startswith(f"{share:.0f} % filed alone, 0.0 % wrong.")
    page.keyboard.press("Home")
    assert said(page, "promise").startswith("Less cautious than promised.")
    assert re.match(r"95.%.filed alone, 25.8.% wrong", slider.get_attribute("aria-valuetext"))


def test_it_grows_to_the_promise_unless_motion_is_unwanted(open_strip, landing):
    page, own = open_strip(reduced_motion="no-preference"), landing[1]["own"]
    page.wait_for_function(f"() => heard.at(-1) === {own}")
    levels = page.evaluate("() => heard")
    assert levels == sorted(levels)
    assert levels[0] < own // 2
    moves = "() => getComputedStyle(document.querySelector('.strip-bar i')).transitionDuration"
    assert page.evaluate(moves) != "0s"
    still = open_strip(**STILL)
    assert still.get_by_test_id("strip-caution").input_value() == str(own)
    assert still.evaluate("() => heard") == []
    assert still.evaluate(moves) == "0s"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_page(open_strip, axe, scheme, width):
    page = open_strip(width=width, color_scheme=scheme, **STILL)
    page.evaluate(axe)
    for _ in range(6):
        found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]] == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        page.get_by_test_id("strip-next").click()
