"""Credal sets to draw, and what figures show of them."""

import os
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text

import decal
from decal import plot

NAMES = ("cat", "dog", "fox")

BOX = decal.IntervalCredalSet(
    [[0.15, 0.10, 0.05], [0.3, 0.2, 0.1]],
    [[0.65, 0.78, 0.30], [0.5, 0.4, 0.3]],
    point=[[0.46, 0.36, 0.18], [0.4, 0.35, 0.25]],
    classes=NAMES,
)

HULL = decal.HullCredalSet(
    [[[0.48, 0.46, 0.06], [0.40, 0.24, 0.36], [0.62, 0.16, 0.22], [0.5, 0.3, 0.2]]], classes=NAMES
)

PAIR = decal.IntervalCredalSet([[0.2, 0.4], [0.6, 0.1]], [[0.6, 0.8], [0.9, 0.4]])
TRUTH = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])

SQUARE_ROOT = np.sqrt(3) / 2

ROW_FIGURES = {"spider": plot.spider, "simplex": plot.simplex, "intervals": plot.intervals}


BASELINES = Path(__file__).parents[1] / "plot" / "baseline_images"

TOLERANCE = 3
"""Root mean square difference of grey levels, of 255."""


def unlike_baseline(ax, name, folder):
    """What differs from the stored image, without text; None if the figure looks like it."""
    figure = ax.figure
    figure.set_layout_engine("none")
    figure.set_size_inches(3, 3)
    ax.set_position((0.1, 0.1, 0.8, 0.8))
    for made in [*figure.findobj(Text), ax.get_legend()]:
        if made is not None:
            made.set_visible(False)
    write = os.environ.get("DECAL_BASELINES") == "write"
    drawn = (BASELINES if write else folder) / f"{name}.png"
    drawn.parent.mkdir(exist_ok=True)
    figure.savefig(drawn, dpi=60)
    return compare_images(str(BASELINES / f"{name}.png"), str(drawn), TOLERANCE)


def polar():
    return plt.subplots(subplot_kw={"projection": "polar"})[1]


def texts(figure):
    drawn = figure.findobj(mpl.text.Text)
    return [text for text in drawn if text.get_visible() and text.get_text().strip()]


def bars_of(ax, model=0):
    """Angle, lower and upper end of every bar of a spider, read from the picture."""
    return np.array([[s[0, 0], s[0, 1], s[1, 1]] for s in ax.collections[model].get_segments()])


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]
