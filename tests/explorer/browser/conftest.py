"""A browser, pages in it, and a watch that nothing goes wrong there and nothing is fetched."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import decal
from browser.reading import INSTALL, PLAYWRIGHT, SETTLED, Case, drawn_data
from decal.explorer import explore
from helpers.browsers import CHROMIUM

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="package")
def browser():
    """Chromium, with a fresh profile."""
    playwright = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT)
    if CHROMIUM is None:
        pytest.skip(f"needs Chromium: {INSTALL} (or apt-get install chromium)")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    usual = Path(sys.prefix) / "node" / "node_modules" / "axe-core" / "axe.min.js"
    path = Path(os.environ.get("DECAL_AXE", usual))
    if not path.is_file():
        pytest.skip(f"needs axe-core: {INSTALL} (with npm), or its axe.min.js in DECAL_AXE")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="package")
def watched(browser):
    """Opens windows, and the list of what goes wrong in any of them."""
    faults = []

    def asked(request):
        inside = request.url.startswith(("data:", "blob:", "about:blank"))
        itself = request.is_navigation_request() and request.url.startswith(
            ("file:///", "http://127.0.0.1:")
        )
        if not (inside or itself):
            faults.append(f"request: {request.method} {request.url}")

    def logged(message):
        if message.type == "error":
            faults.append(f"console: {message.text}")

    @cache
    def window(width, height, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.on("request", asked)
        context.on("console", logged)
        context.on("weberror", lambda error: faults.append(f"thrown: {error.error}"))
        page = context.new_page()
        page.set_default_timeout(60_000)
        return page

    return window, faults


@pytest.fixture
def open_page(watched):
    """Opens an address: open_page("http://…" or a path, width=390, color_scheme="dark", …).

    Equal options share a window. The test fails if the page logs an error, throws, or asks for
    anything but itself.
    """
    window, faults = watched
    faults.clear()

    def open_(address, width=1440, height=1000, testid="intervals", **options):
        page = window(width, height, **options)
        page.goto("about:blank")
        page.goto(address if isinstance(address, str) else address.as_uri())
        page.get_by_test_id(testid).wait_for()
        page.evaluate(SETTLED)
        return page

    yield open_
    assert faults == []


CLASSES = ["ant", "bee", "cat", "dog", "emu"]
ALPHAS = [1.0, 0.95, 0.9, 0.8, 0.6, 0.3, 0.05, 0.0]


@pytest.fixture(scope="package")
def one(tmp_path_factory):
    """One model: 26 inputs, so that the table draws every row; labels, truth and texts."""
    z, labels, truth = drawn_data(26, 5)
    model = decal.decalibrate(*drawn_data(300, 5, seed=1)[:2], alpha=0.8, classes=CLASSES)
    texts = [f"Text number {i}, {'odd' if i % 2 else 'even'}." for i in range(26)]
    path = tmp_path_factory.mktemp("one") / "page.html"
    explore(
        model,
        z,
        labels=labels,
        truth=truth,
        texts=texts,
        alphas=ALPHAS,
        start=0.8,
        title="Five animals",
    ).save(path)
    sets = [[model.predict(z, alpha=alpha) for alpha in ALPHAS]]
    return Case(path, ALPHAS, CLASSES, sets, labels, truth, texts)


@pytest.fixture(scope="package")
def two(tmp_path_factory):
    """Two models of 26 inputs, the second with names of its own; sampled from 40, with names."""
    z, labels, truth = drawn_data(40, 5)
    other_z = z + np.random.default_rng(3).standard_normal(z.shape)
    first = decal.decalibrate(*drawn_data(300, 5, seed=1)[:2], alpha=0.8, classes=CLASSES)
    calibration = drawn_data(200, 5, seed=2)[:2]
    second = decal.decalibrate(*calibration, alpha=0.5, classes=["蚁", "蜂", "猫", "狗", "鸸鹋"])
    path = tmp_path_factory.mktemp("two") / "page.html"
    shown = explore(
        first,
        z,
        labels=labels,
        truth=truth,
        names=[f"Animal {chr(65 + i % 26)}{i}" for i in range(40)],
        alphas=ALPHAS,
        start=0.8,
        rows=26,
        name="English",
        compare=(second, other_z, "中文"),
        title="Two languages",
    )
    shown.save(path)
    rows = shown.payload.arrays["rows"]
    sets = [
        [model.predict(logits[rows], alpha=alpha) for alpha in ALPHAS]
        for model, logits in ((first, z), (second, other_z))
    ]
    everything = [
        [model.predict(logits, alpha=alpha) for alpha in ALPHAS]
        for model, logits in ((first, z), (second, other_z))
    ]
    case = Case(path, ALPHAS, CLASSES, sets, labels[rows], truth[rows], rows=rows)
    case.all_sets, case.all_labels, case.all_truth = everything, labels, truth
    return case
