"""The explorer's cloud, zoomed and lassoed: what is listed, drawn and hit, compared with Python."""

from __future__ import annotations

import re

import numpy as np
import pytest

from browser.reading import (
    PLAYWRIGHT,
    SETTLED,
    axes,
    circles,
    corners,
    exported_table,
    lines,
    order,
    set_level,
)

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

LEVEL = 4
HASH = "() => new URLSearchParams(location.hash.slice(1)).get({name!r})"


def places(page, case, level=LEVEL):
    """Where the inputs stand in the cloud, in its pixels, by the axes that are drawn."""
    x, y = axes(page, "scatter-chart")
    columns = case.columns(level)
    return np.column_stack(
        [
            (columns[name] - scale(0)) / (scale(1) - scale(0))
            for name, scale in (("aleatoric", x), ("epistemic", y))
        ]
    )


def limits(page):
    """What the plot's four sides stand for: left, right, bottom, top."""
    x, y = axes(page, "scatter-chart")
    along, across = lines(page, "scatter-chart", "grid"), []
    for axis in (0, 1):
        ends = along[:, :, axis]
        across.append((ends.min(), ends.max()))
    return x(across[0][0]), x(across[0][1]), y(across[1][1]), y(across[1][0])


def is_inside(polygon, point):
    """Whether the angles at which a polygon's sides are seen from a point make a full turn."""
    seen = np.asarray(polygon, dtype=float) - point
    along = np.arctan2(seen[:, 1], seen[:, 0])
    turns = np.diff(np.append(along, along[0]))
    return abs(((turns + np.pi) % (2 * np.pi) - np.pi).sum()) > np.pi


def in_address(page, name):
    """A part of the address, once the page has written it."""
    page.wait_for_timeout(300)
    return page.evaluate(HASH.format(name=name))


def draw(page, path):
    """Draw a line in the cloud with the lasso, in its pixels."""
    box = page.get_by_test_id("scatter").bounding_box()
    page.get_by_test_id("lasso").click()
    for at, (x, y) in enumerate(path):
        page.mouse.move(box["x"] + x, box["y"] + y)
        if at == 0:
            page.mouse.down()
    page.mouse.up()
    page.evaluate(SETTLED)


def opened(open_page, case, **options):
    page = open_page(case.path, **options)
    set_level(page, LEVEL)
    return page


def around_some(page, case):
    """A line around about half of the inputs, with a dent: it is not convex."""
    spots = places(page, case)
    x, y = np.quantile(spots[:, 0], [0.02, 0.7]), np.quantile(spots[:, 1], [0.05, 0.95])
    return np.array(
        [
            (x[0] - 3, y[0]),
            (x.mean(), y[0]),
            (x.mean() + 5, y.mean()),
            (x[1], y[0]),
            (x[1], y[1]),
            (x[0] - 3, y[1]),
        ]
    )


def test_the_lasso_lists_the_inputs_inside_it(open_page, one):
    page = opened(open_page, one)
    line = around_some(page, one)
    x, y = axes(page, "scatter-chart")
    draw(page, np.repeat(line, 2, axis=0))  # twice at each corner: no two events merge
    alpha, name, *numbers = in_address(page, "lasso").split("_")
    assert (alpha, name) == ("0.6", "split1")
    polygon = np.array(numbers, dtype=float).reshape(-1, 2)
    pixel = [abs(x(1) - x(0)), abs(y(1) - y(0))]
    drawn = np.column_stack([x(line[:, 0]), y(line[:, 1])])
    np.testing.assert_allclose(polygon / pixel, drawn / pixel, atol=1.5)
    outline = corners(page, "scatter", "lasso")[0]
    np.testing.assert_allclose(outline, line, atol=1.5)
    columns = one.columns(LEVEL)
    spots = np.column_stack([columns["aleatoric"], columns["epistemic"]])
    inside = np.array([is_inside(polygon, spot) for spot in spots])
    assert 3 < inside.sum() < 23
    assert sorted(order(page)) == np.flatnonzero(inside).tolist()
    chip = page.get_by_test_id("region")
    expect(chip).to_contain_text(f"{inside.sum()} inputs in the region drawn at α 0.6")
    expect(page.get_by_test_id("listed")).to_have_text(f"{inside.sum()} of 26 inputs")

    # With another filter; at another level they are the same inputs.
    wrong = columns["error"] == 1
    page.get_by_test_id("filter-cases").select_option("errors")
    page.evaluate(SETTLED)
    assert sorted(order(page)) == np.flatnonzero(inside & wrong).tolist()
    rows = [int(line["row"]) for line in exported_table(page)]
    assert sorted(rows) == np.flatnonzero(inside & wrong).tolist()
    page.get_by_test_id("filter-cases").select_option("all")
    set_level(page, 2)
    assert sorted(order(page)) == np.flatnonzero(inside).tolist()
    expect(chip).to_contain_text("α 0.6")
    expect(page.get_by_text("The same inputs at every α.")).to_be_visible()
    assert page.get_by_test_id("lasso-line").get_attribute("d") == ""

    # The address brings it back; what is no region in it is left out.
    assert in_address(page, "cases") is None
    page.reload()
    expect(chip).to_contain_text(f"{inside.sum()} inputs")
    assert sorted(order(page)) == np.flatnonzero(inside).tolist()
    for broken in ("0.6_split1_0_0_1_1", "0.6_split2_0_0_1_1_0_1", "0.61_split1_0_0_1_1_0_1", "x"):
        page.evaluate("(text) => { location.hash = `lasso=${text}` }", broken)
        expect(chip).to_be_hidden()


def test_a_region_is_cleared_by_its_chip_by_escape_and_with_all_filters(open_page, one):
    page = opened(open_page, one)
    line = around_some(page, one)
    chip, all_of_them = page.get_by_test_id("region"), page.get_by_test_id("listed")
    clears = [
        lambda: chip.click(),
        lambda: page.keyboard.press("Escape"),
        lambda: page.get_by_test_id("clear").click(),
    ]
    for clear in clears:
        draw(page, line)
        expect(chip).to_be_visible()
        expect(page.get_by_test_id("lasso")).to_have_attribute("aria-pressed", "false")
        clear()
        expect(chip).to_be_hidden()
        expect(all_of_them).to_have_text("26 inputs")
    chosen = page.get_by_test_id("detail-title").text_content()
    draw(page, line[:1])  # a click is no region, and chooses nothing
    expect(chip).to_be_hidden()
    page.get_by_test_id("lasso").click()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("lasso")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_test_id("detail-title")).to_have_text(chosen)


def test_the_wheel_zooms_about_the_pointer_and_everything_follows(open_page, one):
    page = opened(open_page, one)
    whole = limits(page)
    box = page.get_by_test_id("scatter").bounding_box()
    spots = places(page, one)
    middle = spots[np.argsort(np.abs(spots - np.median(spots, axis=0)).sum(axis=1))[0]]
    x, y = axes(page, "scatter-chart")
    before = float(x(middle[0])), float(y(middle[1]))
    page.mouse.move(box["x"] + middle[0] - 9, box["y"] + middle[1])
    page.mouse.move(box["x"] + middle[0], box["y"] + middle[1])
    for _ in range(3):
        page.mouse.wheel(0, -200)
        page.evaluate(SETTLED)
    assert page.evaluate("() => scrollY") == 0
    x, y = axes(page, "scatter-chart")
    pixel = abs(x(1) - x(0)), abs(y(1) - y(0))
    np.testing.assert_allclose((x(middle[0]), y(middle[1])), before, atol=0.5 * max(pixel))
    near = limits(page)
    shrunk = (near[1] - near[0]) / (whole[1] - whole[0])
    assert shrunk == pytest.approx(np.exp(-3 * 200 * 0.002), rel=0.02)
    assert (near[3] - near[2]) / (whole[3] - whole[2]) == pytest.approx(shrunk, rel=0.02)

    # The pointer finds the inputs where they are now, and no others.
    spots = places(page, one)
    columns = one.columns(LEVEL)
    low, high = (46, 28), (box["width"] - 14, box["height"] - 44)
    shown = np.flatnonzero(((spots >= low) & (spots <= high)).all(axis=1))
    assert 0 < len(shown) < 26
    apart = np.linalg.norm(spots[:, None] - spots[None], axis=2) + 1e9 * np.eye(26)
    tip = page.get_by_test_id("scatter").locator(".tip")
    for i in [i for i in shown if apart[i].min() > 5][:3]:
        page.mouse.move(box["x"] + spots[i, 0], box["y"] + spots[i, 1])
        expect(tip).to_contain_text(f"Input {i} · aleatoric {columns['aleatoric'][i]:.3f}")
        expect(tip).to_contain_text(one.texts[i])
        page.mouse.click(box["x"] + spots[i, 0], box["y"] + spots[i, 1])
        page.evaluate(SETTLED)
        expect(page.get_by_test_id("detail-title")).to_have_text(f"Input {i}")
        np.testing.assert_allclose(circles(page, "scatter", "ring")[0][:2], spots[i], atol=0.05)

    # Only what is in view is listed if asked for; nearer still, its outline stays in the plot.
    page.get_by_test_id("keep-view").click()
    page.evaluate(SETTLED)
    assert sorted(order(page)) == sorted(shown)
    page.get_by_test_id("zoom-in").click()
    page.evaluate(SETTLED)
    outline = corners(page, "scatter", "lasso")[0]
    np.testing.assert_allclose([outline.min(axis=0), outline.max(axis=0)], [low, high], atol=1)
    near = limits(page)
    assert in_address(page, "lasso")
    page.reload()
    page.evaluate(SETTLED)
    np.testing.assert_allclose(limits(page), near, atol=1e-4)
    assert sorted(order(page)) == sorted(shown)
    page.mouse.dblclick(box["x"] + 60, box["y"] + box["height"] - 60)
    page.evaluate(SETTLED)
    np.testing.assert_allclose(limits(page), whole, atol=1e-6)
    assert in_address(page, "zoom") is None


def look_at(page, left, right, low, high):
    """Zoom to a part of the cloud by the address."""
    page.evaluate("(zoom) => { location.hash = `zoom=${zoom}` }", f"{left}_{right}_{low}_{high}")
    page.evaluate(SETTLED)


def test_the_cap_ends_at_the_sides_and_what_is_beyond_them_is_not_hit(open_page, one):
    page = open_page(one.path)
    _, right, _, top = limits(page)
    cap = np.log(5)
    for extent in ((0, 0.8, 0.2, 1.5), (0.5, 0.9, 0.5, 1.2)):
        look_at(page, *extent)
        (line,) = lines(page, "scatter-chart", "cap")
        x, y = axes(page, "scatter-chart")
        first = max(extent[0], cap - extent[3]), min(extent[1], cap - extent[2])
        np.testing.assert_allclose(x(line[:, 0]), first, atol=1e-4)
        np.testing.assert_allclose(x(line[:, 0]) + y(line[:, 1]), cap, atol=1e-4)
    look_at(page, 0, 0.2, 0, 0.2)
    assert len(lines(page, "scatter-chart", "cap")) == 0

    # An input a few pixels beyond the left side, with none in sight near it.
    columns, found = one.columns(3), 0
    box = page.get_by_test_id("scatter").bounding_box()
    for i in np.argsort(columns["aleatoric"])[::-1]:
        left = columns["aleatoric"][i] + right / 100
        low = max(columns["epistemic"][i] - top / 6, 0)
        look_at(page, left, left + right / 3, low, low + top / 3)
        spots = places(page, one, 3)
        at = np.array([48, spots[i, 1]])
        apart = np.linalg.norm(spots - at, axis=1)
        if spots[i, 0] < 45 and apart[i] < 14 and (np.sort(apart)[1] > 20):
            page.mouse.move(box["x"] + at[0] + 60, box["y"] + 2)
            page.mouse.move(box["x"] + at[0], box["y"] + at[1])
            expect(page.get_by_test_id("scatter").locator(".tip")).to_be_hidden()
            found += 1
    assert found


def test_keys_buttons_and_a_drag_move_the_cloud(open_page, one):
    page = opened(open_page, one)
    whole = np.array(limits(page))
    cloud = page.get_by_test_id("scatter")
    cloud.focus()
    page.keyboard.press("+")
    page.evaluate(SETTLED)
    near = np.array(limits(page))
    size = np.array([near[1] - near[0], near[3] - near[2]])
    np.testing.assert_allclose(size, (whole[[1, 3]] - whole[[0, 2]]) / 1.5, atol=1e-4)
    page.keyboard.press("ArrowRight")
    page.evaluate(SETTLED)
    moved = np.array(limits(page)) - near
    np.testing.assert_allclose(moved, [size[0] / 10, size[0] / 10, 0, 0], atol=1e-4)
    box = cloud.bounding_box()
    before = np.array(limits(page))
    chosen = page.get_by_test_id("detail-title").text_content()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 230, box["y"] + 90)
    page.mouse.up()
    page.evaluate(SETTLED)
    x, y = axes(page, "scatter-chart")
    across, up = 30 * (x(1) - x(0)), 10 * (y(0) - y(1))
    moved = np.array(limits(page)) - before
    np.testing.assert_allclose(moved, [-across, -across, -up, -up], atol=1e-4)
    expect(page.get_by_test_id("detail-title")).to_have_text(chosen)  # a drag is no click
    cloud.focus()
    page.keyboard.press("Enter")
    page.evaluate(SETTLED)
    expect(page.get_by_test_id("region")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("region")).to_be_hidden()
    for _ in range(30):
        page.get_by_test_id("zoom-in").click()
    page.evaluate(SETTLED)
    near = limits(page)
    assert (whole[1] - whole[0]) / (near[1] - near[0]) == pytest.approx(200, rel=0.05)
    page.get_by_test_id("zoom-out").click()
    page.get_by_test_id("zoom-reset").click()
    page.evaluate(SETTLED)
    np.testing.assert_allclose(limits(page), whole, atol=1e-6)
    expect(cloud).to_be_focused()
    expect(page.get_by_test_id("zoom-reset")).to_be_hidden()
    for wrong in ("zoom=1_0_0_1", "zoom=a_b_c_d", "zoom=0_0_0_0"):
        page.evaluate("(text) => { location.hash = text }", wrong)
        page.evaluate(SETTLED)
        np.testing.assert_allclose(limits(page), whole, atol=1e-6)
        expect(page.get_by_test_id("zoom-reset")).to_be_hidden()


def test_two_fingers_zoom_and_axe_finds_nothing_with_grid_region_and_zoom(open_page, axe, one):
    page = opened(open_page, one, width=390, height=800, has_touch=True)
    page.get_by_test_id("scatter").scroll_into_view_if_needed()
    page.evaluate(SETTLED)
    whole = limits(page)
    box = page.get_by_test_id("scatter").bounding_box()
    session = page.context.new_cdp_session(page)
    at = np.median(places(page, one), axis=0) + np.array([box["x"], box["y"]])
    # The browser guesses where moving fingers will be: let them rest where they end.
    moves = [("touchStart", 40), *[("touchMove", apart) for apart in (60, 80, 80, 80)]]
    for kind, apart in [*moves, ("touchEnd", 0)]:
        points = [{"x": at[0] + (i - 0.5) * apart, "y": at[1], "id": i} for i in (0, 1)]
        session.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": points if kind != "touchEnd" else []},
        )
        page.evaluate(SETTLED)
    near = limits(page)
    assert (whole[1] - whole[0]) / (near[1] - near[0]) == pytest.approx(2, rel=0.05)
    page.get_by_test_id("keep-view").click()
    page.get_by_test_id("as-grid").click()
    page.locator(".tile").first.wait_for()
    expect(page.get_by_test_id("region")).to_contain_text(re.compile(r"^\d+ inputs? in the region"))
    page.evaluate(axe)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(SETTLED)
        found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]] == []
    wide = page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= 390
    page.emulate_media(color_scheme=None)
