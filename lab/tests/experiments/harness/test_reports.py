"""Tables in three forms, and reports that are saved."""

from __future__ import annotations

import re

from decal_lab.experiments.harness.reports import (
    latex_report,
    latex_table,
    latex_text,
    markdown_report,
    markdown_section,
    number,
    save,
    saved,
    seeds_text,
    signed,
)

EVIL = '<script>alert("1")</script> & <b>"'

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


def test_tables_claims_and_needs_are_written(report):
    text = markdown_report(report)
    assert "- does not: **fail**" in text
    assert "- needs QualityMRI" in text
    assert text.count("\n# ") + text.startswith("# ") == 2
    assert latex_report(report).count(r"\begin{table}") == 2


def test_a_report_is_kept_as_plain_data(report, tmp_path):
    save(report, tmp_path, ORIGIN)
    ((folder, kept),) = saved(tmp_path)
    assert folder == tmp_path
    assert kept["claims"][1] == {"text": "does not", "holds": False}
    assert kept["files"] == ["rows.csv", "curve.svg", "curve_dark.svg", "lone.svg"]
    assert kept["name"] == "magic"
