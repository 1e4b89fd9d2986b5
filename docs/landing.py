"""Pieces of the first page, made by decal: the strip, and three steps that tell how it knows."""

import json
from pathlib import Path

import numpy as np
from scipy.special import softmax

import decal
from decal.explorer._page import bundle, read_static
from decal.explorer._strip import OWN, strip_alphas, strip_data

MISS = 0.1
ROWS = [770, 126, 1233, 1748, 248, 1655]
"""One sure text, three errors with two possible languages, a hopeless one, and one missed."""

TOLD, LANGUAGE = 126, "Spanish"
"""The text and the language of the three steps: that at which the strip opens, and what it says."""

STRIP = """<style>{style}</style>
<section id="strip" class="strip" aria-label="One text, and all of them"></section>
<noscript><img src="_static/hero_light.svg" alt="Three texts: what the model says of them, and \
what the data leave open"></noscript>
<script>(() => {{
"use strict";
{script}
mountStrip(document.getElementById("strip"), {data}, {{ sweep: true }});
}})();</script>
"""

STEPS = """<ol class="strip steps">
<li><b>It corrects your model.</b> Lower scores for {name} and higher ones for Galician predict \
{fit:,} labelled texts best. They turn {says:.0%} {name} into {point:.0%}.
{corrected}</li>
<li><b>It tries every other correction that predicts those texts about as well</b>: a language up \
or down, all scores sharper or flatter. Each line is one that goes as far as it may.
{tried}</li>
<li><b>The range holds them all.</b> {held:,} other labelled texts decide what “about as well” \
means, so that the true language is missed at most 1 time in {often:.0f}.
{range}</li>
</ol>
"""


def fitted() -> decal.Decalibrator:
    """The model of the README."""
    known = decal.datasets.languages("fit")
    return decal.decalibrate(known.logits, known.labels, miss=MISS, classes=known.classes)


def language_strip(model: decal.Decalibrator) -> dict:
    """What the strip shows of all test texts."""
    new = decal.datasets.languages("test")
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


def corrections(model: decal.Decalibrator) -> tuple[float, float, list[float]]:
    """The told probability: by the model, corrected, and by each plausible correction of that."""
    z = decal.datasets.languages("test").logits[TOLD]
    reference, shifts, scales = model.reference_model, model.shifts(), model.scales()
    best = reference.scale * z + reference.center
    moved = [
        best + end * at
        for ends in (shifts.lower, shifts.upper)
        for end, at in zip(ends, np.eye(len(z)), strict=True)
    ]
    moved += [best * scale for scale in (scales.lower, scales.upper)]
    k = model.classes.index(LANGUAGE)
    return *(float(softmax(logits)[k]) for logits in (z, best)), [
        float(softmax(m)[k]) for m in moved
    ]


def bar(ticks: list[float], text: str, low: float = 0, high: float = 0) -> str:
    """From 0 to 1, with ticks, and what it shows in words."""
    marks = "".join(f'<s style="--tick: {tick:.4f}"></s>' for tick in ticks)
    filled = f'<i style="--low: {low:.4f}; --high: {high:.4f}"></i>' if high else ""
    return f'<span class="steps-bar"><span class="strip-bar">{filled}{marks}</span> {text}</span>'


def steps(model: decal.Decalibrator) -> str:
    """The three steps as HTML."""
    says, point, ends = corrections(model)
    low, high = min(ends), max(ends)
    told = STEPS.format(
        name=LANGUAGE,
        says=says,
        point=point,
        fit=model.examples,
        held=model.promise.rows,
        often=1 / MISS,
        corrected=bar([says, point], f"{says:.0%} → {point:.0%}"),
        tried=bar(ends, f"{len(ends)} others"),
        range=bar([], f"{100 * low:.0f}–{high:.0%}", low, high),
    )
    return told.replace("%", "\u00a0%")


def write(folder: Path) -> None:
    """Both pieces, which load nothing."""
    model = fitted()
    folder.mkdir(exist_ok=True)
    data = json.dumps(language_strip(model), ensure_ascii=False, separators=(",", ":"))
    strip = STRIP.format(style=read_static("strip.css"), script=bundle("strip.js"), data=data)
    (folder / "landing_strip.html").write_text(strip, encoding="utf-8")
    (folder / "landing_steps.html").write_text(steps(model), encoding="utf-8")
