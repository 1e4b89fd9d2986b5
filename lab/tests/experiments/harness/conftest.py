"""A report whose texts hold characters that have a meaning in HTML or in LaTeX."""

from __future__ import annotations

import numpy as np
import pytest

from decal_lab.experiments.harness.reports import (
    Claim,
    Report,
    Table,
)

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4">'
    '<rect width="4" height="4"/></svg>'
)

EVIL = '<script>alert("1")</script> & <b>"'


@pytest.fixture
def report(tmp_path):
    """A report with such characters in every text, and its figures."""
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
