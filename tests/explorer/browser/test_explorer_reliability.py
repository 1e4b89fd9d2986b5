"""Calibration on the page: measured in its diagram, read in its table."""

from __future__ import annotations

import numpy as np
import pytest

from browser.reading import PLAYWRIGHT, SETTLED, agrees, axes, circles, set_level

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT)


@pytest.mark.parametrize("level", [1, 4])
def test_confidence_accuracy_and_sets_are_drawn_where_they_are(open_page, one, level):
    page = open_page(one.path)
    page.get_by_test_id("reliability-panel").scroll_into_view_if_needed()
    set_level(page, level)
    page.evaluate(SETTLED)
    credal = one.sets[0][level]
    kept = credal.decide("e_admissible")
    hit = kept[np.arange(26), one.labels]
    top, right = credal.point.max(axis=1), credal.point.argmax(axis=1) == one.labels
    bins = np.minimum((top * 15).astype(int), 14)
    inside = [bins == b for b in sorted(set(bins))]
    expected = np.array([[v[rows].mean() for v in (top, right, hit)] for rows in inside])
    x, y = axes(page, "reliability")
    accuracy, sets = circles(page, "reliability", "right"), circles(page, "reliability", "dot.sets")
    np.testing.assert_allclose(x(accuracy[:, 0]), expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(y(accuracy[:, 1]), expected[:, 1], atol=1e-6)
    np.testing.assert_allclose(y(sets[:, 1]), expected[:, 2], atol=1e-6)
    rows = page.get_by_test_id("confusion").locator("tbody tr")
    for k in range(5):
        texts = rows.nth(k).locator("td").all_text_contents()
        for text, share in zip(texts, kept[one.labels == k].mean(axis=0), strict=True):
            assert agrees(text, share)
