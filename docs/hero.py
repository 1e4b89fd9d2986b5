"""Draws the first picture of the README, light and dark: python docs/hero.py

The README's three texts, what a real network says of them (fastText's, `decal.datasets.languages`),
and what is possible by the README's wish. In the typeface Inter, if it is installed (Debian:
fonts-inter).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import findSystemFonts, fontManager
from matplotlib.patches import FancyBboxPatch
from scipy.special import softmax

import decal
from decal.plot.style import Ink, ink_on

STATIC = Path(__file__).parent / "_static"
THEMES = {"light": "white", "dark": "#0d1117"}  # GitHub's backgrounds
ROWS, MISS = [770, 126, 1655], 0.1
"""Of the README: the texts that it shows, and its wish."""

SHOWN = 2
"""Languages shown of each text: those of the largest upper probabilities."""

WIDTH, ROW, TOP = 7.2, 1.22, 0.62
"""Of the picture, in inches."""

NAMES, MODEL, NUMBER, SETS, RANGE = 1.12, 1.26, 2.98, 3.98, 5.98
"""Where columns begin, from the left; names end there."""

LONG = 1.62
"""Inches of a probability of 1."""


def bar(ax: Axes, x: float, y: float, low: float, high: float, colour: str) -> None:
    """From low to high on a scale that begins at x, with round ends."""
    left, wide = x + LONG * low, max(LONG * (high - low), 0.03)
    round_ends = f"round,pad=0,rounding_size={min(0.05, wide / 2)}"
    ax.add_patch(
        FancyBboxPatch((left, y - 0.085), wide, 0.17, boxstyle=round_ends, fc=colour, ec="none")
    )


def verdict(possible: list[str], true: str) -> str:
    """Whether the true language is possible, in a few words."""
    if possible == [true]:
        return "right"
    return f"{true} is among them" if true in possible else f"{true} is missed: 1 in 10 may be"


def row(
    ax: Axes, top: float, text: decal.datasets.LanguageSet, sets: decal.IntervalCredalSet, ink: Ink
) -> None:
    """One text: what the network says at the left, what decal says at the right."""
    blue, true = ink.models[0], text.classes[text.labels[0]]
    (possible,) = sets.possible()
    order = np.argsort(-sets.upper[0])[:SHOWN]
    assert set(possible) <= {sets.classes[k] for k in order}, "not all possible ones are shown"
    decision = " or ".join(possible) if len(possible) > 1 else f"Only {possible[0]}"
    ax.text(0.12, top, f"“{text.texts[0]}”", fontsize=14, fontweight="bold", va="center")
    ax.text(SETS, top, decision, fontsize=14, fontweight="bold", color=blue, va="center")
    for x, words in ((0.12, f"{true} for “{text.meanings[0]}”"), (SETS, verdict(possible, true))):
        ax.text(x, top + 0.25, words, fontsize=10.5, color=ink.muted, va="center")
    says = softmax(text.logits[0])
    for place, k in enumerate(order):
        y = top + 0.53 + 0.27 * place
        low, high = sets.lower[0, k], sets.upper[0, k]
        ax.text(NAMES, y, sets.classes[k], ha="right", va="center", fontsize=12)
        for x in (MODEL, SETS):
            bar(ax, x, y, 0, 1, ink.tint(ink.muted, 0.14))
        bar(ax, MODEL, y, 0, says[k], ink.muted)
        ax.text(NUMBER, y, f"{says[k]:.2f}", va="center", fontsize=12)
        bar(ax, SETS, y, low, high, ink.tint(blue, 0.75))
        ax.text(RANGE, y, f"{low:.2f} – {high:.2f}", va="center", fontsize=12)


def draw(theme: str, texts: decal.datasets.LanguageSet, sets: decal.IntervalCredalSet) -> None:
    ink = ink_on(THEMES[theme])
    height = TOP + ROW * len(texts)
    settings = {"font.family": ["Inter", "DejaVu Sans"], "text.color": ink.text}
    with plt.rc_context(settings | {"svg.hashsalt": "decal"}):
        figure = plt.figure(figsize=(WIDTH, height))
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, WIDTH), ylim=(height, 0))
        ax.set_axis_off()
        for x, words in ((0.12, "What the model says"), (SETS, "What the data leave open")):
            ax.text(x, 0.24, words, fontsize=12, color=ink.muted, va="center")
        for place in range(len(texts)):
            top = TOP + ROW * place
            ax.axhline(top - 0.2, 0.12 / WIDTH, 1 - 0.12 / WIDTH, color=ink.grid, lw=0.8)
            row(ax, top, texts[[place]], sets[[place]], ink)
        path = STATIC / f"hero_{theme}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    for found in findSystemFonts():  # matplotlib may have listed fonts before it was installed
        if Path(found).stem in ("Inter-Regular", "Inter-Medium", "Inter-Bold"):
            fontManager.addfont(found)
    known = decal.datasets.languages("fit")
    model = decal.decalibrate(known.logits, known.labels, miss=MISS, classes=known.classes)
    shown = decal.datasets.languages("test")[ROWS]
    for name in THEMES:
        draw(name, shown, model.predict(shown.logits))
