"""Images and sentences on their page: what is drawn, enlarged, pointed at and said."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, ends_agree
from decal.explorer import Payload
from decal.explorer._page import html_page

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

NAMES = ["background", "road", "sea"]
CAUGHT = ": the prediction is wrong, and the right class is kept."


def world(*shape):
    """Logits of three classes on axis 1, and labels drawn from them."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (shape[0], 3, *shape[1:]))
    return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def colours(page, testid):
    """(height, width, 3) the pixels of a canvas."""
    found = page.get_by_test_id(testid).evaluate(
        """(element) => {
          const canvas = element.matches("canvas") ? element : element.querySelector("canvas");
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          return [height, width, [...data]];
        }"""
    )
    return np.array(found[2]).reshape(found[0], found[1], 4)[..., :3]


def same_partition(drawn, numbers):
    """Whether pixels have one colour where they have one number, and others elsewhere."""
    codes = drawn.reshape(-1, 3) @ [1, 256, 65536]
    pairs = set(zip(codes.tolist(), np.ravel(numbers).tolist(), strict=True))
    return len(pairs) == len({c for c, _ in pairs}) == len({n for _, n in pairs})


def said(maps, labels, at):
    """The sentence about one pixel or token, by its definition."""
    one = maps.flat[[int(np.ravel_multi_index(at, maps.shape))]]
    best, kept = int(one.point[0].argmax()), np.flatnonzero(one.possible_mask()[0])
    names = [NAMES[k] for k in kept]
    words = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    text = (
        f"Prediction: {NAMES[best]}, {round(100 * one.point[0, best])}\u00a0%. Possible: {words}."
    )
    if labels[at] == -1:
        return text
    missed, wrong = labels[at] not in kept, best != labels[at]
    ending = ": a miss." if missed else CAUGHT if wrong else "."
    return f"{text} It is {NAMES[labels[at]]}{ending}"


def test_ranges_that_are_points_are_called_so(open_page, tmp_path):
    z, y = world(20, 5, 4)
    for wish, words in ({"miss": 0.9, "unit": "image"}, "points: the prediction alone keeps"), (
        {"alpha": 1.0, "directions": "local"}, "Ranges are points."
    ):  # fmt: skip
        d = decal.decalibrate(z, y, dim=1, **wish)
        d.explore(z, dim=1).save(tmp_path / "page.html")
        page = open_page(tmp_path / "page.html", testid="enlarged")
        expect(page.get_by_test_id("still")).to_contain_text(words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_images_are_drawn_enlarged_and_told_pixel_by_pixel(open_page, tmp_path, scheme):
    z, y = world(6, 9, 7)
    d = decal.decalibrate(z, y, miss=0.2, unit="image", dim=1, classes=NAMES)
    y[:, 0, :2] = -1
    images = np.random.default_rng(1).integers(0, 256, (6, 9, 7, 3)).astype(np.uint8)
    shown = d.explore(z, dim=1, labels=y, images=images, ignore_index=-1, title="Coast")
    shown.save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html", testid="enlarged", color_scheme=scheme)
    maps = d.predict(z, dim=1)

    expect(page.get_by_test_id("promise")).to_have_text("Misses at most 1 label in 5")
    expect(page.get_by_test_id("still")).to_contain_text("one level of caution")
    expect(page.get_by_test_id("still")).not_to_contain_text("points")
    possible = np.moveaxis(maps.possible, 1, -1)
    known = y >= 0
    wrong = (maps.prediction != y) & known
    held = np.take_along_axis(possible, np.where(known, y, 0)[..., None], -1)[..., 0]
    order = page.get_by_test_id("scenes").locator(".scene > p b").all_text_contents()
    shares = wrong.sum(axis=(1, 2)) / known.sum(axis=(1, 2))
    assert sorted(order) == [f"Image {i}" for i in range(6)]
    assert (np.diff([shares[int(name[6:])] for name in order]) <= 0).all()

    page.get_by_test_id("map-3-prediction").click()
    assert same_partition(colours(page, "enlarged"), maps.prediction[3])
    np.testing.assert_array_equal(colours(page, "map-3-image"), images[3])
    counts = possible[3].sum(axis=-1)
    assert same_partition(colours(page, "map-3-possible"), counts)
    assert same_partition(colours(page, "map-3-width"), np.rint(100 * maps.width[3]))
    verdicts = np.where(~known, 3, np.where(held, np.where(wrong, 1, 0), 2))[3]
    assert same_partition(colours(page, "map-3-errors"), verdicts)

    canvas = page.get_by_test_id("enlarged")
    box = canvas.bounding_box()
    for row, column in ((0, 0), (8, 6), (4, 2)):
        x, y_ = (column + 0.5) / 7 * box["width"], (row + 0.5) / 9 * box["height"]
        canvas.hover(position={"x": x, "y": y_})
        expect(page.get_by_test_id("place")).to_have_text(f"Row {row}, column {column}")
        expect(page.get_by_test_id("pixel")).to_have_text(said(maps[3], y[3], (row, column)))
    page.mouse.move(0, 0)
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_test_id("pixel")).to_have_text(said(maps[3], y[3], (3, 3)))
    page.get_by_test_id("scene-order").select_option("In their order")
    found = page.get_by_test_id("scenes").locator(".scene > p b").all_text_contents()
    assert found == [f"Image {i}" for i in range(6)]


def test_tokens_are_as_strong_as_wide_and_tell_their_ranges(open_page, tmp_path):
    z, y = world(3, 5)
    d = decal.decalibrate(*world(60, 5), miss=0.2, unit="sentence", dim=1, classes=NAMES)
    y[1, 4] = -1
    tokens = [["um", "dois", "<b>três</b>", "四", "ה"], ["a"] * 5, ["x", "y", "z"]]
    shown = d.explore(z, dim=1, labels=y, tokens=tokens, ignore_index=-1)
    shown.save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html", testid="ranges")
    maps = d.predict(z, dim=1)
    assert page.locator(".token").count() == 13
    expect(page.get_by_test_id("token-0-2").locator("bdi")).to_have_text("<b>três</b>")
    for i, t in ((0, 3), (1, 4), (2, 1)):
        page.get_by_test_id(f"token-{i}-{t}").click()
        expect(page.get_by_test_id("token")).to_have_text(tokens[i][t])
        expect(page.get_by_test_id("pixel")).to_have_text(said(maps[i], y[i], (t,)))
        one = maps[i, t]
        rows = page.get_by_test_id("ranges").locator("tbody tr").all()
        order = sorted(range(3), key=lambda k: -one.upper[0, k])
        assert len(rows) == 3
        for row, k in zip(rows, order, strict=True):
            name = row.locator("th").inner_text()
            assert name == NAMES[k] + (" ✓" if y[i, t] == k else "")
            text = row.locator(".numeric").inner_text()
            assert ends_agree(text, one.lower[0, k], one.upper[0, k])
    strength = page.locator(".scene .token").evaluate_all(
        "(all) => all.map((e) => [e.dataset.testid, Number(e.style.getPropertyValue('--share'))])"
    )
    widths = np.rint(100 * maps.width)
    for name, share in strength:
        i, t = map(int, name.split("-")[1:])
        assert share == pytest.approx(
            widths[i, t] / max(widths[0].max(), widths[1].max(), widths[2, :3].max())
        )
    held = maps.flat.possible_mask()[np.arange(15), np.where(y < 0, 0, y).ravel()].reshape(3, 5)
    missed = {f"token-{i}-{t}" for i, t in np.argwhere(~held & (y >= 0)) if t < len(tokens[i])}
    marked = page.locator(".token.missed").evaluate_all("(all) => all.map((e) => e.dataset.testid)")
    assert set(marked) == missed
    assert missed


def test_a_narrow_page_has_no_sideways_scrolling(open_page, tmp_path):
    z, y = world(3, 8, 8)
    decal.decalibrate(z, y, alpha=0.9, dim=1, classes=NAMES).explore(z, dim=1).save(
        tmp_path / "page.html"
    )
    page = open_page(tmp_path / "page.html", width=390, testid="enlarged")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_test_id("map-1-width").click()
    expect(page.get_by_test_id("enlarged")).to_be_in_viewport()
    expect(page.get_by_test_id("promise")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(open_page, axe, tmp_path, scheme, width):
    z, y = world(3, 5, 5)
    d = decal.decalibrate(z, y, alpha=0.8, dim=1, classes=NAMES)
    tokens = [["w"] * 5] * 3
    pages = {
        "enlarged": d.explore(z, dim=1, labels=y, images=np.zeros((3, 5, 5))),
        "ranges": d.explore(z[..., 0], dim=1, labels=y[..., 0], tokens=tokens),
    }
    for testid, shown in pages.items():
        shown.save(tmp_path / f"{testid}.html")
        page = open_page(
            tmp_path / f"{testid}.html", width=width, color_scheme=scheme, testid=testid
        )
        page.evaluate(axe)
        found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        nodes = [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]]
        assert nodes == []


def test_damaged_data_are_told(open_page, tmp_path):
    z, y = world(2, 4, 4)
    shown = decal.decalibrate(z, y, alpha=0.8, dim=1).explore(z, dim=1)
    header = {**shown.payload.header, "scenes": shown.payload.header["scenes"][:1]}
    data = gzip.compress(Payload(header, shown.payload.arrays).to_bytes())
    (tmp_path / "page.html").write_text(html_page("Broken", data, "scenes.js"), encoding="utf-8")
    page = open_page(tmp_path / "page.html", testid="broken")
    words = 'The array "prediction" has shape 32, not 16.'
    expect(page.get_by_test_id("broken")).to_contain_text(words)
