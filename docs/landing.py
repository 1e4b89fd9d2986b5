"""The strip of the first page: six texts, and all of them as dots (`decal.explorer._strip`)."""

import json
from pathlib import Path

from scipy.special import softmax

import decal
from decal.explorer._page import bundle, read_static
from decal.explorer._strip import OWN, strip_alphas, strip_data

ROWS = [770, 126, 1233, 1748, 248, 1655]
"""One sure text, three errors with two possible languages, a hopeless one, and one missed."""


def language_strip() -> dict:
    """Of the model on the README, in plain data."""
    known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    model = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    return strip_data(
        (model.predict(new.logits, alpha=alpha) for alpha in strip_alphas(model.alpha)),
        softmax(new.logits, axis=1),
        new.labels,
        own=OWN,
        rows=ROWS,
        texts=new.texts,
        meanings=new.meanings,
        promise="misses at most 1 in 10",
    )


def write(path: Path) -> None:
    """The strip as a piece of a page, which loads nothing."""
    data = json.dumps(language_strip(), ensure_ascii=False, separators=(",", ":"))
    script = f'{bundle("strip.js")}\nmountStrip(document.getElementById("strip"), {data}, {{ sweep: true }});'
    path.write_text(
        f"<style>{read_static('strip.css')}</style>\n"
        '<section id="strip" aria-label="Try it"></section>\n'
        f'<script>(() => {{\n"use strict";\n{script}\n}})();</script>\n',
        encoding="utf-8",
    )
