"""Tables in three forms, reports that are kept, and the page that gathers them."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

from decal._experiments.harness import figures
from decal._experiments.harness.report_page import page_of, write_page
from decal._experiments.harness.reports import (
    Claim,
    Report,
    Table,
    latex_table,
    latex_text,
    markdown_section,
    number,
    save,
    saved,
    seeds_text,
    signed,
    write_tables,
)

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4">'
    '<rect width="4" height="4"/></svg>'
)
EVIL = '<script>alert("1")</script> & <b>"'


@pytest.fixture
def report(tmp_path):
    """A report whose every text holds characters that pages and LaTeX read otherwise."""
    for name in ("curve.svg", "curve_dark.svg", "lone.svg"):
        (tmp_path / name).write_text(SVG)
    return Report(
        title=f"50 % of {EVIL}",
        headings=("model_a", "x & y", "z|z"),
        sections={EVIL: [("a_b", "0.5", "0.85 pass"), (EVIL, "–", "0.1 fail")]},
        caption=f"one\ntwo {EVIL}",
        claims=(Claim(f"holds {EVIL}", True), Claim("does not", np.False_)),
        needs=(f"QualityMRI {EVIL}",),
        notes=(EVIL,),
        files=tuple(tmp_path / n for n in ("rows.csv", "curve.svg", "curve_dark.svg", "lone.svg")),
        further=(Table("second", ("m", "n"), {"": [("1", "2")]}),),
    )


ORIGIN = {"name": "magic", "summary": EVIL, "command": f"decal {EVIL}", "seeds": [0, 1]}


def test_numbers_become_text():
    assert (number(0.12345), number(float("nan")), number(2.0, 1)) == ("0.123", "–", "2.0")
    assert (signed(-0.0001), signed(0.25), signed(float("nan"))) == ("+0.000", "+0.250", "–")
    assert (seeds_text((3,)), seeds_text((0, 1))) == ("seed 3", "seeds 0, 1")


def test_latex_prints_text_as_it_is(report):
    assert latex_text(r"a_b & 5 % {x} \y") == r"a\_b \& 5 \% \{x\} \textbackslash{}y"
    text = latex_table(report.tables[0])
    assert text.count("\\begin{tabular}{lrr}") == 1
    assert r"a\_b & 0.5 & 0.85 pass \\" in text
    assert not re.search(r"(?<!\\)[%#_]", text)
    opened, closed = text.count(r"\begin{"), text.count(r"\end{")
    assert opened == closed == 2


def test_markdown_escapes_what_separates_columns(report):
    text = markdown_section(report.tables[0])
    assert r"| model_a | x & y | z\|z |" in text
    assert "| --- | ---: | ---: |" in text
    assert markdown_section(report.tables[1]).startswith("# second\n")


def test_tables_claims_and_needs_are_written(report, tmp_path):
    markdown, latex = write_tables(report, tmp_path)
    text = markdown.read_text()
    assert "- does not: **fail**" in text
    assert "- needs QualityMRI" in text
    assert text.count("\n# ") + text.startswith("# ") == 2
    assert latex.read_text().count(r"\begin{table}") == 2


def test_a_report_is_kept_as_plain_data(report, tmp_path):
    save(report, tmp_path, ORIGIN)
    ((folder, kept),) = saved(tmp_path)
    assert folder == tmp_path
    assert kept["claims"][1] == {"text": "does not", "holds": False}
    assert kept["files"] == ["rows.csv", "curve.svg", "curve_dark.svg", "lone.svg"]
    assert kept["name"] == "magic"


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


def test_figures_are_drawn_for_light_and_dark_and_always_alike(tmp_path):
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    curve = ([0.0, 0.8, 1.0], [1.0, 0.9, 0.1], [0.0, 0.6, 0.9])
    panels = {"few": {"a": curve}, "many": {"a": curve, "b": curve}, "last": {"a": curve}}

    def draw():
        return figures.tradeoffs(panels, columns=2)

    first = {p.name: p.read_bytes() for p in figures.save(draw, tmp_path, "curves")}
    assert set(first) == {"curves.svg", "curves.png", "curves_dark.svg"}
    assert b"#16181d" in first["curves_dark.svg"]
    assert b"#16181d" not in first["curves.svg"]
    again = {p.name: p.read_bytes() for p in figures.save(draw, tmp_path, "curves")}
    assert again == first
    figure = draw()
    assert [len(ax.child_axes) for ax in figure.axes if ax.get_title(loc="left")] == [0, 0, 1]
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()][:2] == ["a", "b"]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page_without_complaint(report, tmp_path, scheme):
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Chromium")
    save(report, tmp_path, ORIGIN)
    write_page(tmp_path / "page.html", tmp_path, [])
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
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
