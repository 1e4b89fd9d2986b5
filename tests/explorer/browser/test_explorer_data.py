"""Data that a page must bear: hostile names, broken payloads, pictures, many classes, no sets."""

from __future__ import annotations

import base64
import gzip
import re

import numpy as np
import pytest

import decal
from browser.reading import (
    PLAYWRIGHT,
    SETTLED,
    drawn_data,
    ends_agree,
    exported,
    exported_table,
    lines,
    set_level,
    table,
    texts,
)
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

HOSTILE = [
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=1</script>",
    '=HYPERLINK("javascript:window.pwned=1","x")',
    "javascript:window.pwned=1",
    "abc\u202edcba\u202c \u2066x",
    "W" * 400,
    '"><svg onload=window.pwned=1>',
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    z, labels, truth = drawn_data(7, 7)
    path = tmp_path_factory.mktemp("hostile") / "page.html"
    fit = drawn_data(300, 7, seed=1)[:2]
    model = decal.decalibrate(*fit, alpha=0.8, classes=HOSTILE)
    explore(
        model,
        z,
        labels=labels,
        truth=truth,
        texts=HOSTILE[::-1],
        names=HOSTILE,
        name=HOSTILE[0],
        compare=(decal.decalibrate(*fit, alpha=0.8), z, HOSTILE[1]),
        title=HOSTILE[0] + HOSTILE[1],
        alphas=[1, 0.8, 0.1],
    ).save(path)
    return path


def test_hostile_names_are_shown_literally_and_nothing_runs(open_page, hostile):
    page = open_page(hostile)
    expect(page).to_have_title(HOSTILE[0] + HOSTILE[1])
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE[0] + HOSTILE[1])
    assert sorted(cells[0] for _, cells in table(page)) == sorted(HOSTILE)
    options = page.get_by_test_id("filter-class").locator("option").all_text_contents()
    assert [re.sub(r"\s+", " ", name) for name in options[1:]] == HOSTILE
    expect(page.get_by_test_id("show-2")).to_have_text(HOSTILE[1])
    page.get_by_text("What am I seeing?").click()
    page.get_by_test_id("filter-class").select_option(index=1)
    page.get_by_test_id("filter-class").select_option(index=0)
    page.get_by_test_id("search").fill(HOSTILE[0])
    page.get_by_test_id("search").fill("")
    page.evaluate(SETTLED)  # rows are used again: a click before the next frame may hit another
    for row in range(7):
        page.locator(f"tr[data-row='{row}']").click()
        page.evaluate(SETTLED)
        expect(page.get_by_test_id("detail-title")).to_have_text(HOSTILE[row])
        assert page.get_by_test_id("text").text_content() == HOSTILE[6 - row]
        if row == 0:
            page.get_by_test_id("folded").locator("summary").click()
        chips = page.get_by_test_id("rule-point").locator("td").first.locator(".chip")
        assert chips.text_content() in HOSTILE
    set_level(page, 2)
    page.get_by_test_id("as-grid").click()
    page.locator(".tile").first.hover()
    named = page.locator(".tile .excerpt").all_text_contents()
    assert sorted(named) == sorted(text[:240] for text in HOSTILE)
    exported(page)
    assert page.evaluate("() => window.pwned") is None
    # Nothing that the data say has become an element, or an attribute that acts.
    assert page.locator("main img, main script, main a, main iframe, main svg svg").count() == 0
    handlers = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((element) =>
            [...element.attributes].some(({ name }) => name.startsWith("on"))).length"""
    )
    assert handlers == 0


def test_no_cell_of_the_csv_is_a_formula(open_page, hostile):
    page = open_page(hostile)
    found = exported_table(page)
    assert {line["name"] for line in found} == {
        "'" + name if name.startswith("=") else name for name in HOSTILE
    }
    for line in found:
        for cell in (*line, *line.values()):
            assert not cell.lstrip().startswith(("=", "@", "+")), cell


def test_long_names_neither_overlap_nor_widen_the_page(open_page, hostile):
    for width in (360, 1440):
        page = open_page(hostile, width=width)
        page.locator("tr[data-row='5']").click()
        page.evaluate(SETTLED)
        overhang = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert overhang <= 0
        boxes = (
            page.get_by_test_id("intervals")
            .locator(".spoke")
            .evaluate_all(
                "(all) => all.map((t) => { const b = t.getBoundingClientRect();"
                " return [b.left, b.top, b.right, b.bottom] })"
            )
        )
        detail = page.get_by_test_id("detail").bounding_box()
        for left, _, right, _ in boxes:
            assert detail["x"] <= left
            assert right <= detail["x"] + detail["width"]
        for i, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[:i]:
                apart = right <= other[0] or other[2] <= left or bottom <= other[1]
                assert apart or other[3] <= top


# Broken payloads


def with_payload(source, text):
    """A page with other data in it."""
    return re.sub(r'(id="payload">)[^<]*', lambda found: found[1] + text, source)


def packed(data):
    return base64.b64encode(gzip.compress(data)).decode()


def test_broken_payloads_say_what_is_wrong(open_page, one, tmp_path):
    source = one.path.read_text(encoding="utf-8")
    text = re.search(r'id="payload">([^<]*)', source)[1]
    data = gzip.decompress(base64.b64decode(text))
    length = int.from_bytes(data[8:12], "little")
    header, body = data[12 : 12 + length], data[12 + length :]

    def changed(old, new):
        assert header.count(old) >= 1
        text = header.replace(old, new)
        text += b" " * (-(12 + len(text)) % 8)
        return packed(data[:8] + len(text).to_bytes(4, "little") + text + body)

    broken = {
        "": "missing or cut off",
        "not base64 !": "missing or cut off",
        text[: len(text) // 2]: "missing or cut off",
        packed(b"\x00" + data[1:]): "not decal results, or another version",
        packed(data[: 12 + length // 2]): "cut off within their description",
        packed(data[: 12 + length + 100]): "is cut off",
        packed(data[:12] + b"?" + data[13:]): "description of the data cannot be read",
        changed(b'"0/lower"', b'"0/lowest"'): 'The array "0/lower" is missing',
        changed(b'"float32"', b'"float16"'): 'unknown type "float16"',
        changed(b"[8, 26, 5]", b"[8, 26, 4]"): "has shape 8,26,4, not 8,26,5",
        changed(b'"count": 26', b'"count": 0'): "hold no input",
    }
    for number, (wrong, words) in enumerate(broken.items()):
        path = tmp_path / f"{number}.html"
        path.write_text(with_payload(source, wrong), encoding="utf-8")
        page = open_page(path, testid="broken")
        expect(page.get_by_role("alert")).to_contain_text("These results cannot be shown.")
        expect(page.get_by_role("alert")).to_contain_text(words)
        expect(page.get_by_test_id("intervals")).to_have_count(0)


# Pictures, many classes, one level, empty sets


def test_pictures_are_shown_in_the_list_and_beside_the_input(open_page, tmp_path):
    pytest.importorskip("PIL", reason="needs decal[explore]")
    z, labels, _ = drawn_data(5, 3)
    greys = np.array([10, 60, 110, 160, 210], dtype=np.uint8)
    images = greys[:, None, None, None] * np.ones((5, 8, 8, 3), dtype=np.uint8)
    model = decal.decalibrate(z, labels, alpha=0.8)
    explore(model, z, images=images, alphas=[1, 0.8]).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    read = """(canvas) => [canvas.width,
      canvas.getContext("2d").getImageData(2, 2, 1, 1).data[0]]"""
    for row in range(5):
        page.locator(f"tr[data-row='{row}']").click()
        page.evaluate(SETTLED)
        small = page.locator(f"tr[data-row='{row}'] canvas.tiny")
        assert page.get_by_test_id("picture").evaluate(read) == small.evaluate(read)
        assert small.evaluate(read) == [8, int(greys[row])]
        picture = page.get_by_role("img", name=f"Picture of Input {row}")
        expect(picture).to_have_class("picture tiny")


def test_a_thousand_classes(open_page, tmp_path):
    z, labels, _ = drawn_data(40, 1000)
    z[np.arange(40), labels] += 6
    names = [f"class number {k}" for k in range(1000)]
    model = decal.decalibrate(*drawn_data(400, 1000, seed=1)[:2], alpha=0.9, classes=names)
    explore(model, z, labels=labels, alphas=[1, 0.95, 0.9]).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    set_level(page, 0)
    credal = model.predict(z, alpha=1.0)
    row = int(page.locator("tr[aria-selected=true]").get_attribute("data-row"))

    def check(count):
        shown = texts(page, "intervals", ".range")
        told = page.get_by_test_id("intervals").locator(".spoke title").all_text_contents()
        assert len(shown) == len(told) == count
        ks = [names.index(name.removesuffix(" ✓")) for name in told[:-1]]
        for k, text in zip(ks, shown[:-1], strict=True):
            assert ends_agree(text, credal.lower[row, k], credal.upper[row, k])
        return ks

    ks = check(7)
    assert len(lines(page, "intervals", "bar")) == 7
    page.get_by_test_id("all-classes").click()
    page.evaluate(SETTLED)
    ks = check(25)
    expect(page.get_by_test_id("intervals").locator(".spoke title").last).to_have_text("976 others")
    assert {int(np.argmax(credal.point[row]))} <= set(ks)
    page.get_by_test_id("folded").locator("summary").click()
    page.get_by_test_id("rules").locator(".chip").first.wait_for()
    size = credal.decide("maximality")[row].sum()
    *named, last = page.get_by_test_id("rule-maximality").locator(".chip").all_text_contents()
    more = re.fullmatch(r"\+ (\d+) more", last)
    assert len(named) + (int(more[1]) if more else 1) == size
    page.get_by_test_id("filter-class").select_option(label=names[labels[3]])
    page.evaluate(SETTLED)
    assert 3 in [r for r, _ in table(page)]


@pytest.fixture(scope="module")
def sets_as_they_are():
    lower = [[0.1, 0.2, 0.3], [0.6, 0.6, 0.0], [0.0, 0.1, 0.1], [0.2, 0.2, 0.2]]
    upper = [[0.5, 0.6, 0.7], [0.7, 0.7, 0.2], [0.2, 0.3, 0.4], [0.6, 0.6, 0.6]]
    return decal.IntervalCredalSet(lower, upper, classes="abc")


def test_one_level_has_no_slider_and_empty_sets_say_so(open_page, sets_as_they_are, tmp_path):
    sets_as_they_are.explore(labels=[0, 1, 2, 0], title="Sets").save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    expect(page.get_by_test_id("caution")).to_have_count(0)
    heads = page.get_by_test_id("table").get_by_role("columnheader").all_text_contents()
    assert heads == ["Input", "Possible", "True class"]
    page.get_by_test_id("folded").locator("summary").click()
    page.get_by_test_id("rules").locator(".chip").first.wait_for()
    words = "The credal set is empty: no distribution satisfies its bounds."
    for row in range(4):
        page.locator(f"tr[data-row='{row}']").click()
        page.evaluate(SETTLED)
        if row in (1, 2):
            expect(page.get_by_test_id("detail")).to_contain_text(words)
            assert len(lines(page, "intervals", "bar")) == 0
            assert texts(page, "intervals", ".range") == ["empty"] * 3
            expect(page.get_by_test_id("rule-e_admissible").locator("td")).to_have_text("–")
        else:
            expect(page.get_by_test_id("detail")).not_to_contain_text(words)
            assert len(lines(page, "intervals", "bar")) == 3
    page.wait_for_function("() => location.hash.endsWith('input=3')")
    assert "alpha" not in page.url
    found = exported_table(page)
    assert [line["possible"] for line in found][1:3] == ["", ""]
    assert "prediction" not in found[0]


def test_only_empty_sets_still_make_a_page(open_page, sets_as_they_are, tmp_path):
    sets_as_they_are[1:3].explore().save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    expect(page.get_by_test_id("detail")).to_contain_text("The credal set is empty")
    assert len(table(page)) == 2


def test_hulls_show_interval_dominance_too(open_page, tmp_path):
    hull = decal.HullCredalSet(np.random.default_rng(0).dirichlet(np.ones(4), (6, 3)))
    hull.explore().save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    page.get_by_test_id("folded").locator("summary").click()
    for row in range(6):
        page.locator(f"tr[data-row='{row}']").click()
        page.evaluate(SETTLED)
        for rule in ("e_admissible", "maximality", "interval_dominance"):
            said = page.get_by_test_id(f"rule-{rule}").locator(".chip").all_text_contents()
            assert sorted(said) == [str(k) for k in np.flatnonzero(hull.decide(rule)[row])]


def test_bounds_of_very_many_inputs_are_read_back(open_page, tmp_path, monkeypatch):
    from decal.explorer import _payload

    monkeypatch.setattr(_payload, "EXACT_INPUTS", 2)
    z, _, _ = drawn_data(3, 4)
    model = decal.decalibrate(*drawn_data(200, 4, seed=1)[:2], alpha=0.8)
    explore(model, z, alphas=[1, 0.9], start=0.9).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    credal = model.predict(z, alpha=0.9)
    for row in range(3):
        page.locator(f"tr[data-row='{row}']").click()
        page.evaluate(SETTLED)
        shown = texts(page, "intervals", ".range")
        for name, text in zip(texts(page, "intervals", ".spoke"), shown, strict=True):
            assert ends_agree(text, credal.lower[row, int(name)], credal.upper[row, int(name)])
