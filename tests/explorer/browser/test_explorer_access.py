"""The explorer's page for everyone: themes, motion, keys alone, small screens, axe; notebooks."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, drawn_data
from decal.explorer import _page as page_source
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

COLOURS = """() => {
  const root = document.querySelector(".decal");
  const of = (selector) => getComputedStyle(root.querySelector(selector) ?? root);
  return { ground: getComputedStyle(root).backgroundColor, ink: getComputedStyle(root).color,
           paper: of(".panel").backgroundColor, bar: of("svg .bar").stroke,
           truth: of("svg .truth").stroke };
}"""


def luminance(colour):
    """By the definition of web accessibility."""
    parts = [float(x) / 255 for x in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# Themes and motion


def test_the_theme_follows_the_system_until_one_is_chosen(open_page, one):
    light = open_page(one.path, color_scheme="light").evaluate(COLOURS)
    page = open_page(one.path, color_scheme="dark")
    dark = page.evaluate(COLOURS)
    assert all(light[name] != dark[name] for name in light)
    assert luminance(light["ground"]) > 0.8
    assert luminance(dark["ground"]) < 0.05
    for colours in (light, dark):
        assert contrast(colours["ink"], colours["paper"]) > 7
        assert contrast(colours["bar"], colours["paper"]) > 3
        assert contrast(colours["truth"], colours["paper"]) > 3
    button = page.get_by_test_id("theme")
    expect(button).to_have_text("Theme: auto")
    for name, colours in (("light", light), ("dark", dark), ("auto", dark)):
        button.click()
        expect(button).to_have_text(f"Theme: {name}")
        page.evaluate(SETTLED)
        assert page.evaluate(COLOURS) == colours


def test_reduced_motion_is_respected(open_page, one):
    jumps, lasts = {}, {}
    for motion in ("reduce", "no-preference"):
        page = open_page(one.path, width=390, height=800, reduced_motion=motion)
        lasts[motion] = page.get_by_test_id("theme").evaluate(
            "(button) => getComputedStyle(button).transitionDuration"
        )
        jumps[motion] = page.evaluate(
            """() => {
              const row = document.querySelectorAll("tbody tr[data-row]")[2];
              row.scrollIntoView({ block: "center", behavior: "instant" });
              const detail = document.querySelector("[data-testid=detail]");
              const before = detail.getBoundingClientRect().top;
              row.click();
              return detail.getBoundingClientRect().top - before;
            }"""
        )
    assert lasts == {"reduce": "0s", "no-preference": "0.12s"}
    assert jumps["reduce"] > 200  # there at once
    assert abs(jumps["no-preference"]) < 100  # on its way


# Keys alone

FOCUSED = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  if (at.dataset.row) return "row";
  return at.dataset.testid ?? at.textContent;
}"""
FOCUSABLE = """() => [...document.querySelectorAll(
    "main :is(a, button, input, select, summary, textarea, [tabindex='0'])")]
  .filter((element) => element.tabIndex >= 0 && element.checkVisibility())
  .map((element) => (element.dataset.row ? "row" : element.dataset.testid ?? element.textContent))
"""


def test_tab_reaches_everything_in_the_order_seen(open_page, two):
    page = open_page(two.path)
    page.get_by_test_id("filter-class").select_option(index=2)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    page.evaluate(SETTLED)
    wanted = page.evaluate(FOCUSABLE)
    reached = []
    for _ in range(len(wanted) + 3):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found is None or found in reached:
            break
        reached.append(found)
        outlined = page.evaluate(
            """() => { const s = getComputedStyle(document.activeElement);
                const cell = document.activeElement.querySelector("td");
                return s.outlineStyle !== "none" || getComputedStyle(cell).boxShadow !== "none" }"""
        )
        assert outlined, found
    assert reached == wanted
    at = {name: place for place, name in enumerate(reached)}
    names = ["What am I seeing?", "theme", "caution", "show-2", "order", "as-grid", "route-hand"]
    names += ["export-csv", "search", "filter-cases", "sort-size", "row", "previous", "next"]
    names += ["price", "group-table"]
    assert [at[name] for name in names] == sorted(at[name] for name in names)


def test_the_page_is_used_by_keys_alone(open_page, one):
    page = open_page(one.path)
    page.keyboard.press("/")
    expect(page.get_by_test_id("search")).to_be_focused()
    page.keyboard.type("odd/")
    expect(page.get_by_test_id("search")).to_have_value("odd/")
    page.keyboard.press("Backspace")
    expect(page.get_by_test_id("listed")).to_have_text("13 of 26 inputs")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("listed")).to_have_text("26 inputs")
    page.get_by_test_id("sort-input").focus()
    page.keyboard.press("Enter")
    page.evaluate(SETTLED)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == "row":
            break
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_test_id("detail-title")).to_have_text("Input 1")
    page.keyboard.press("/")
    expect(page.get_by_test_id("search")).to_be_focused()
    page.get_by_test_id("route-ask").focus()
    page.keyboard.press("Space")
    expect(page.get_by_test_id("route-ask")).to_have_attribute("aria-pressed", "true")
    page.get_by_test_id("export-csv").focus()
    with page.expect_download() as started:
        page.keyboard.press("Enter")
    assert started.value.suggested_filename == "five-animals-ask-a-person.csv"


# Small and large screens


def test_nothing_scrolls_sideways(open_page, one, two):
    for case in (one, two):
        page = open_page(case.path, width=1920)
        for width in (360, 700, 1100, 1920):
            page.set_viewport_size({"width": width, "height": 1000})
            page.evaluate(SETTLED)
            page.evaluate(SETTLED)
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width
            page.get_by_test_id("intervals").scroll_into_view_if_needed()
            box = page.get_by_test_id("intervals").bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width


def test_charts_follow_the_width(open_page, one):
    page = open_page(one.path, width=1920)
    for width in (1000, 360, 1920):
        page.set_viewport_size({"width": width, "height": 1000})
        page.evaluate(SETTLED)
        page.evaluate(SETTLED)
        for name in ("intervals", "costs-chart", "reliable"):
            chart = page.get_by_test_id(name)
            room = chart.locator("..").bounding_box()["width"]
            assert chart.bounding_box()["width"] == pytest.approx(room, abs=1)


# axe


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing(open_page, axe, one, two, tmp_path, scheme, width):
    broken = tmp_path / "broken.html"
    broken.write_text(page_source.html_page("Broken", b""), encoding="utf-8")
    for path, testid in ((one.path, "intervals"), (two.path, "intervals"), (broken, "broken")):
        page = open_page(path, width=width, color_scheme=scheme, testid=testid)
        if testid == "intervals":
            page.get_by_test_id("filter-class").select_option(index=1)
            page.get_by_test_id("route-hand").click()
            page.get_by_test_id("folded").locator("summary").click()
            page.get_by_text("What am I seeing?").click()
            page.evaluate(SETTLED)
        page.evaluate(axe)
        found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        nodes = [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]]
        assert nodes == []


# Notebooks


def test_two_widgets_share_a_notebook(open_page, tmp_path):
    z, labels, truth = drawn_data(12, 3)
    model = decal.decalibrate(z, labels, alpha=0.8, classes=list("abc"))
    alphas = [1, 0.8, 0.5, 0]
    shown = explore(model, z, labels=labels, truth=truth, alphas=alphas, start=0.8)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        "<!doctype html><html lang=en><title>Notebook</title><body data-jp-theme-light=false>"
        "<main data-testid=cells><h1>Notebook</h1><div id=a></div><div id=b></div></main>",
        encoding="utf-8",
    )
    page = open_page(notebook, testid="cells")
    page.add_style_tag(content=page_source.style())
    # A stand-in for what anywidget hands over: model.get("payload") is a DataView of the bytes.
    page.evaluate(
        """async ([script, packed]) => {
          const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
          const { default: widget } = await import(address);
          const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
          const around = new Uint8Array(bytes.length + 7); // the bytes lie within a larger message
          around.set(bytes, 3);
          const model = { get: (name) =>
            name === "payload" ? new DataView(around.buffer, 3, bytes.length) : undefined };
          window.cleanups = [];
          for (const id of ["a", "b"])
            window.cleanups.push(await widget.render({ model, el: document.getElementById(id) }));
        }""",
        [page_source.widget_script(), base64.b64encode(shown.compressed).decode()],
    )
    page.evaluate(SETTLED)
    a, b = page.locator("#a"), page.locator("#b")
    for cell in (a, b):
        expect(cell.get_by_role("heading", level=2, name="Credal predictions")).to_be_visible()
        expect(cell.get_by_test_id("caution")).to_have_value("1")
        expect(cell).to_have_attribute("data-theme", "dark")
    a.get_by_test_id("caution").fill("3")
    expect(a.get_by_test_id("promise")).to_contain_text("More careful")
    expect(b.get_by_test_id("caution")).to_have_value("1")
    b.get_by_test_id("sort-size").focus()
    page.keyboard.press("/")
    expect(b.get_by_test_id("search")).to_be_focused()
    page.keyboard.press("Escape")
    # Plain keys stay in the widget; a notebook may have its commands.
    page.evaluate(
        """() => {
          window.heard = [];
          document.addEventListener("keydown", (event) => window.heard.push(event.key));
        }"""
    )
    b.locator("tr[data-row]").first.focus()
    for key in ("d", "ArrowDown", "Enter", "Shift+Enter", "Control+b"):
        page.keyboard.press(key)
    assert page.evaluate("() => window.heard") == ["Enter", "Control", "b"]
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("/")
    expect(a.get_by_test_id("search")).not_to_be_focused()
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map(({ id }) => id)")
    assert len(ids) == len(set(ids))
    page.wait_for_timeout(300)
    assert page.evaluate("() => location.hash") == ""
    page.evaluate("() => window.cleanups[0]()")
    expect(a).to_be_empty()
    b.get_by_test_id("caution").fill("0")
    expect(b.get_by_test_id("promise")).to_contain_text("Bolder")
    expect(b.get_by_test_id("intervals").locator("line.bar")).to_have_count(3)
