"""Class frequencies on the page: before, now, intervals and p-values, as Python says them."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, agrees, drawn_data
from decal.shift import p_text

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

NAMES = ["ant", "bee <b>", *(f"class {k}" for k in range(2, 14))]


def cells(row):
    """Class, before, now, and the ends of the range, in percent; the p-value where there is one."""
    name, before, now, interval, *rest = row.locator("th, td").all_text_contents()
    shares = [text.removesuffix("\xa0%") for text in (before, now, *interval.split("–"))]
    return name, [float(x) for x in shares], rest


def test_the_panel_shows_frequencies_and_the_chosen_input_before_and_now(open_page, tmp_path):
    z, labels, _ = drawn_data(900, 14)
    shift = decal.LabelShift(region="joint").fit(z[:600], labels[:600], classes=NAMES)
    shift.observe(z[600:][labels[600:] > 3])
    inputs = z[:8]
    shift.explore(inputs).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    found, test = shift.frequencies, shift.test()
    said = page.get_by_test_id("shift-test")
    expect(said).to_contain_text("The mix of classes has changed")
    expect(said).to_have_attribute("title", f"p-value {p_text(test.p_value)} for no change")
    rows = page.get_by_test_id("frequency-table").locator("tbody tr")
    expect(rows).to_have_count(12)
    page.get_by_test_id("all-frequencies").click()
    page.evaluate(SETTLED)
    expect(rows).to_have_count(14)
    for k, row in zip(found.most_changed, rows.all(), strict=True):
        name, numbers, (p_value,) = cells(row)
        assert name == NAMES[k]
        expected = found.before[k], found.estimate[k], found.lower[k], found.upper[k]
        for number, said in zip(numbers, expected, strict=True):
            assert agrees(f"{number:.1f}", 100 * said)
        assert p_value == p_text(test.p_values[k], 2)
    before = shift.predict(inputs, frequencies=found.before).point
    sets = shift.predict(inputs).tighten()
    for _ in range(2):  # the input that the page opens with, and the next
        i = int(page.get_by_test_id("detail-title").text_content().split()[-1])
        shown = page.get_by_test_id("before-and-now").locator("tbody tr").all()
        assert len(shown) == 6
        for row in shown:
            name, numbers, _ = cells(row)
            k = NAMES.index(name)
            expected = before[i, k], sets.point[i, k], sets.lower[i, k], sets.upper[i, k]
            assert np.allclose(numbers, 100 * np.array(expected), atol=0.06)
        page.get_by_role("button", name="Next").click()
        page.evaluate(SETTLED)
