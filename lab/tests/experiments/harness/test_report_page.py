"""The page that gathers reports."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from decal_lab.experiments.harness.report_page import page_of, write_page
from decal_lab.experiments.harness.reports import (
    Report,
    Table,
    save,
    saved,
)
from helpers.browsers import CHROMIUM

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4">'
    '<rect width="4" height="4"/></svg>'
)

EVIL = '<script>alert("1")</script> & <b>"'

ORIGIN = {"name": "magic", "summary": EVIL, "command": f"decal {EVIL}", "seeds": [0, 1]}


def test_the_page_escapes_everything_and_loads_nothing(report, tmp_path):
    save(report, tmp_path, ORIGIN)
    page = page_of(list(saved(tmp_path)))
    assert "<script" not in page
    assert "<b>" not in page
    assert page.count("&lt;script&gt;") >= 8
    assert "default-src 'none'; img-src data:" in page
    assert not re.search(r'(?:src|href|srcset)="(?!data:|#)', page)
    assert "1 of 2 claims hold" in page
    assert page.count("<figure") == 2
    assert page.count('prefers-color-scheme: dark)"') == 1
    assert '<td class="fail">0.1 fail</td>' in page


def test_the_page_follows_the_order_and_reads_no_file_elsewhere(report, tmp_path):
    secret = tmp_path / "secret.svg"
    secret.write_text(SVG.replace("rect", "circle"))
    for name in ("one", "two"):
        folder = tmp_path / "out" / name
        folder.mkdir(parents=True)
        shutil.copy(tmp_path / "lone.svg", folder)
        path = save(report, folder, ORIGIN | {"name": name})
        kept = json.loads(path.read_text())
        path.write_text(json.dumps(kept | {"files": ["../../secret.svg", "lone.svg"]}))
    assert write_page(tmp_path / "p.html", tmp_path / "out", ["two", "one"]) == ["two", "one"]
    page = (tmp_path / "p.html").read_text()
    assert page.index('id="two"') < page.index('id="one"')
    assert page.count("data:image/svg") == 2
    with pytest.raises(ValueError, match=r"out must hold results of experiments: got none in"):
        write_page(tmp_path / "p.html", tmp_path / "nowhere", [])


def test_long_tables_are_folded(tmp_path):
    many = Table("long", ("m",), {"": [(str(i),) for i in range(60)]})
    save(Report("t", ("a",), {"": [("1",)]}, "", further=(many,)), tmp_path, ORIGIN)
    page = page_of(list(saved(tmp_path)))
    assert "<summary>60 rows</summary>" in page


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page_without_complaint(report, tmp_path, scheme):
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    save(report, tmp_path, ORIGIN)
    write_page(tmp_path / "page.html", tmp_path, [])
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 700}, color_scheme=scheme)
        complaints = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 17, 21)"
        assert dark is (scheme == "dark")
        assert complaints == []
        browser.close()
