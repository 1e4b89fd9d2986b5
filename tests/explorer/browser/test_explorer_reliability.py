"""Calibration on the page: measured in its diagram, read in its table."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, agrees, axes, circles, drawn_data, set_level
from decal.explorer import explore

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT)


@pytest.mark.parametrize("level", [1, 4])
def test_confidence_accuracy_and_sets_are_drawn_where_they_are(open_page, one, level):
    page = open_page(one.path)
    page.get_by_test_id("reliability").scroll_into_view_if_needed()
    set_level(page, level)
    page.evaluate(SETTLED)
    credal = one.sets[0][level]
    kept = credal.decide("e_admissible")
    hit = kept[np.arange(26), one.labels]
    top, right = credal.point.max(axis=1), credal.point.argmax(axis=1) == one.labels
    bins = np.minimum((top * 15).astype(int), 14)
    inside = [bins == b for b in sorted(set(bins))]
    expected = np.array([[v[rows].mean() for v in (top, right, hit)] for rows in inside])
    x, y = axes(page, "reliable")
    accuracy, sets = circles(page, "reliable", "right"), circles(page, "reliable", "dot.sets")
    np.testing.assert_allclose(x(accuracy[:, 0]), expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(y(accuracy[:, 1]), expected[:, 1], atol=1e-6)
    np.testing.assert_allclose(y(sets[:, 1]), expected[:, 2], atol=1e-6)
    rows = page.get_by_test_id("confusion").locator("tbody tr")
    for k in range(5):
        texts = rows.nth(k).locator("td").all_text_contents()
        for text, share in zip(texts, kept[one.labels == k].mean(axis=0), strict=True):
            assert agrees(text, 100 * share)


def test_the_heat_map_fits_its_box_and_no_name_is_broken(open_page, tmp_path):
    names = [f"Language {k}" for k in range(20)]
    z, labels, _ = drawn_data(200, 20)
    model = decal.decalibrate(z, labels, alpha=0.95, classes=names)
    explore(model, z, labels=labels, alphas=[1, 0.95]).save(tmp_path / "page.html")
    for width in (390, 1280):
        page = open_page(tmp_path / "page.html", width=width)
        map_ = page.get_by_test_id("confusion")
        assert map_.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
        heads = map_.locator("tbody th")
        assert heads.all_text_contents() == names
        tall = heads.evaluate_all("(all) => all.map((th) => th.getBoundingClientRect().height)")
        assert max(tall) < 26  # in one line
        cut = heads.evaluate_all("(all) => all.map((th) => th.scrollWidth - th.clientWidth)")
        assert max(cut) <= 0
