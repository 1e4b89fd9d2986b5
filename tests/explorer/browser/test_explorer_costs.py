"""Whether asking a person pays: the page says what Python counted, and where the sets help."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, axes, circles, drawn_data, set_level
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    """A model that is too sure of itself: its sets pay at some prices."""
    z, labels, _ = drawn_data(1200, 4)
    z = 2.5 * z
    model = decal.decalibrate(z[:600], labels[:600], miss=0.15, classes="abcd")
    page = explore(model, z[600:], labels=labels[600:])
    path = tmp_path_factory.mktemp("costs") / "page.html"
    page.save(path)
    return path, page.payload.header


def test_it_opens_where_the_sets_save_most_and_says_how_much(open_page, priced):
    path, header = priced
    costs, start = header["models"][0]["costs"], header["start"]
    page = open_page(path)
    price = costs["best"]
    expect(page.get_by_test_id("price")).to_have_value(str(price))
    mine, theirs, nobody = costs["sets"][start][price], costs["alone"][price], costs["nobody"]
    assert mine < min(theirs, nobody)
    asked = 1 - header["models"][0]["curve"]["single"][start]
    pays = [
        p
        for p, a, b in zip(costs["prices"], costs["sets"][start], costs["alone"], strict=True)
        if a < min(b, nobody)
    ]
    said = page.get_by_test_id("verdict").text_content().replace("\xa0", " ")
    assert said == (
        f"Ask about the {100 * asked:.0f} % with several classes left, and an input costs "
        f"{mine:.3f}. That is {100 * (theirs - mine) / theirs:.0f} % less than asking where the "
        f"model is unsure, and {100 * (nobody - mine) / nobody:.0f} % less than asking nobody. "
        f"These sets are cheapest where asking costs {pays[0]:.2f} to {pays[-1]:.2f}."
    )


def test_it_says_so_where_the_sets_lose_and_draws_what_it_says(open_page, priced):
    path, header = priced
    costs = header["models"][0]["costs"]
    page = open_page(path)
    seen = set()
    for level in (header["start"], 2):
        set_level(page, level)
        for price in range(0, 19, 3):
            page.get_by_test_id("price").fill(str(price))
            page.evaluate(SETTLED)
            expected = {
                "nobody": costs["nobody"],
                "alone": costs["alone"][price],
                "model1": costs["sets"][level][price],
            }
            x, y = axes(page, "costs-chart")
            for name, cost in expected.items():
                cx, cy, _ = circles(page, "costs-chart", f"now.{name}")[0]
                assert x(cx) == pytest.approx(costs["prices"][price])
                assert y(cy) == pytest.approx(cost, abs=1e-6)
            least = min(expected, key=expected.get)
            words = {
                "nobody": f"Asking nobody is cheaper: {costs['nobody']:.3f}.",
                "alone": f"model is unsure is cheaper: {expected['alone']:.3f}.",
                "model1": "less than asking nobody.",
            }
            expect(page.get_by_test_id("verdict")).to_contain_text(words[least])
            seen.add(least)
    assert np.size(list(seen)) == 3


def test_without_labels_there_is_no_panel(open_page, tmp_path):
    z, _, _ = drawn_data(5, 3)
    model = decal.decalibrate(*drawn_data(200, 3, seed=1)[:2], alpha=0.8)
    explore(model, z, alphas=[1, 0.8]).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    expect(page.get_by_test_id("costs")).to_have_count(0)
