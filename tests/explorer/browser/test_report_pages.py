"""Pages of reports, in a real browser."""

import numpy as np
import pytest

import decal


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    logits, names = rng.normal(size=(200, 20)), [f"language {k}" for k in range(20)]
    d = decal.Decalibrator(0.7).fit(logits, rng.integers(0, 20, 200), classes=names)
    ids = ["some words " * 15, "one-word-without-any-space-in-it", *"abc"]
    path = tmp_path_factory.mktemp("reports") / "report.html"
    d.report(logits[:5], ids=ids).save(path)
    return path


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_a_report_with_long_texts_and_many_classes_fits_its_window(browser, saved, width):
    page = browser.new_page(viewport={"width": width, "height": 600})
    page.goto(saved.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    interval = page.locator("svg").last.bounding_box()
    assert 0 <= interval["x"] < interval["x"] + interval["width"] <= width
    page.close()
