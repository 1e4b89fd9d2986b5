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


RIVALS = {
    "alone": "asking where the model is unsure",
    "recalibrated": "asking where recalibrated confidence is low",
    "nobody": "asking nobody",
}
EVEN = 0.005  # costs that differ by less of themselves are about the same


def expected_verdict(header, level, price):
    """What the panel should say, and which of the four is cheapest."""
    costs = header["models"][0]["costs"]
    mine, others = costs["sets"][level], costs["others"]
    name = min(others, key=lambda name: others[name][price])
    least = others[name][price]
    rival = f"{RIVALS[name]} ({least:.3f})"
    saved = (least - mine[price]) / least
    said = f"{rival[0].upper()}{rival[1:]} is cheaper."
    if abs(saved) < EVEN:
        said = f"About as much as {rival}."
    elif saved > 0:
        said = f"That is {100 * saved:.0f} % less than the next best, {rival}."
        name = "sets"
    cheapest = np.min([*others.values()], axis=0)
    pays = np.array(costs["prices"])[np.array(mine) < (1 - EVEN) * cheapest]
    when = "With this caution these sets are cheapest at no price."
    if len(pays):
        when = f"These sets are cheapest at prices from {pays[0]:.2f} to {pays[-1]:.2f}."
    asked = 1 - header["models"][0]["curve"]["single"][level]
    asks = f"Ask about the {100 * asked:.0f} % with several classes left, and an input costs"
    return f"{asks} {mine[price]:.3f}. {said} {when}", name


def test_it_opens_where_the_sets_do_best_and_says_who_wins_everywhere(open_page, priced):
    path, header = priced
    costs = header["models"][0]["costs"]
    page = open_page(path)
    expect(page.get_by_test_id("price")).to_have_value(str(costs["best"]))
    seen = set()
    for level in (header["start"], 2, 6):
        set_level(page, level)
        for price in {costs["best"], *range(0, 19, 3)}:
            page.get_by_test_id("price").fill(str(price))
            page.evaluate(SETTLED)
            words, winner = expected_verdict(header, level, price)
            said = page.get_by_test_id("verdict").text_content().replace("\xa0", " ")
            assert said == words
            seen.add(winner)
            x, y = axes(page, "costs-chart")
            drawn = {name: each[price] for name, each in costs["others"].items()}
            for name, cost in {**drawn, "model1": costs["sets"][level][price]}.items():
                cx, cy, _ = circles(page, "costs-chart", f"now.{name}")[0]
                assert x(cx) == pytest.approx(costs["prices"][price])
                assert y(cy) == pytest.approx(cost, abs=1e-6)
    assert len(seen) > 1


def test_without_labels_there_is_no_panel(open_page, tmp_path):
    z, _, _ = drawn_data(5, 3)
    model = decal.decalibrate(*drawn_data(200, 3, seed=1)[:2], alpha=0.8)
    explore(model, z, alphas=[1, 0.8]).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    expect(page.get_by_test_id("costs")).to_have_count(0)
