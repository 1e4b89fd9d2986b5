"""Draws the first picture of the README, light and dark: python docs/hero.py

Three short texts, the numbers of a real network (fastText's, `decal.datasets.languages`), and the
intervals that decal makes of them. In the typeface Inter, if it is installed (Debian:
fonts-inter).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import findSystemFonts, fontManager
from matplotlib.patches import FancyBboxPatch

import decal
from decal import datasets
from decal.plot.style import Ink, ink_on

STATIC = Path(__file__).parent / "_static"
THEMES = {"light": "white", "dark": "#0d1117"}  # GitHub's backgrounds
TEXTS = ("Ce champ ne peut pas être vide.", "vist navn", "Limpar selección")
SHOWN = 2
"""Languages shown of each text: those of the largest upper probabilities."""

WIDTH, ROW, TOP = 7.2, 1.22, 0.62
"""Of the picture, in inches."""

NAMES, MODEL, NUMBER, SETS, RANGE = 1.12, 1.26, 2.98, 3.98, 5.98
"""Where columns begin, from the left; names end there."""

LONG = 1.62
"""Inches of a probability of 1."""


def intervals() -> tuple[datasets.LanguageSet, decal.IntervalCredalSet]:
    """The texts that are shown, and their sets: class shifts that miss one text in ten."""
    test = datasets.languages("test")
    texts = test[[test.texts.index(text) for text in TEXTS]]
    fit, choose = datasets.languages("fit"), datasets.languages("choose")
    model = decal.decalibrate(fit.logits, fit.labels, classes=fit.classes, alpha=0.8)
    choice = decal.choose(model, choose.logits, choose.labels, miss=0.1)
    return texts, model.predict(texts.logits, alpha=choice.alpha)


def bar(ax: Axes, x: float, y: float, low: float, high: float, colour: str) -> None:
    """From low to high on a scale that begins at x, with round ends."""
    left, wide = x + LONG * low, max(LONG * (high - low), 0.03)
    round_ends = f"round,pad=0,rounding_size={min(0.05, wide / 2)}"
    ax.add_patch(
        FancyBboxPatch((left, y - 0.085), wide, 0.17, boxstyle=round_ends, fc=colour, ec="none")
    )


def row(
    ax: Axes, top: float, text: str, means: str, sets: decal.IntervalCredalSet, ink: Ink
) -> None:
    """One text: what the network says at the left, what decal says at the right."""
    blue = ink.models[0]
    kept = sets.decide("e_admissible")[0]
    order = np.argsort(-sets.upper[0])[:SHOWN]
    assert kept[order].sum() == kept.sum(), "a plausible language would not be shown"
    plausible = [sets.classes[k] for k in order if kept[k]]
    decision = " or ".join(plausible) if len(plausible) > 1 else f"Only {plausible[0]}"
    ax.text(0.12, top, f"“{text}”", fontsize=14, fontweight="bold", va="center")
    ax.text(0.12, top + 0.25, means, fontsize=10.5, color=ink.muted, va="center")
    ax.text(SETS, top, decision, fontsize=14, fontweight="bold", color=blue, va="center")
    for place, k in enumerate(order):
        y = top + 0.53 + 0.27 * place
        p, low, high = sets.point[0, k], sets.lower[0, k], sets.upper[0, k]
        ax.text(NAMES, y, sets.classes[k], ha="right", va="center", fontsize=12)
        for x in (MODEL, SETS):
            bar(ax, x, y, 0, 1, ink.tint(ink.muted, 0.14))
        bar(ax, MODEL, y, 0, p, ink.muted)
        ax.text(NUMBER, y, f"{p:.2f}", va="center", fontsize=12)
        bar(ax, SETS, y, low, high, ink.tint(blue, 0.75))
        ax.plot([SETS + LONG * p] * 2, [y - 0.085, y + 0.085], color=ink.text, lw=1.8)
        ax.text(RANGE, y, f"{low:.2f} – {high:.2f}", va="center", fontsize=12)


def draw(theme: str) -> None:
    ink = ink_on(THEMES[theme])
    height = TOP + ROW * len(TEXTS)
    settings = {"font.family": ["Inter", "DejaVu Sans"], "text.color": ink.text}
    with plt.rc_context(settings | {"svg.hashsalt": "decal"}):
        figure = plt.figure(figsize=(WIDTH, height))
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, WIDTH), ylim=(height, 0))
        ax.set_axis_off()
        for x, words in ((0.12, "What the model says"), (SETS, "What the data leave open")):
            ax.text(x, 0.24, words, fontsize=12, color=ink.muted, va="center")
        texts, credal = intervals()
        for place in range(len(texts)):
            top = TOP + ROW * place
            ax.axhline(top - 0.2, 0.12 / WIDTH, 1 - 0.12 / WIDTH, color=ink.grid, lw=0.8)
            means = f"{texts.classes[texts.labels[place]]} for “{texts.meanings[place]}”"
            row(ax, top, texts.texts[place], means, credal[place : place + 1], ink)
        path = STATIC / f"hero_{theme}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    for found in findSystemFonts():  # matplotlib may have listed fonts before it was installed
        if Path(found).stem in ("Inter-Regular", "Inter-Medium", "Inter-Bold"):
            fontManager.addfont(found)
    for name in THEMES:
        draw(name)
