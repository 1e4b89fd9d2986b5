"""Draws the first picture of each page about a model: python docs/page_figures.py [PAGE ...]

From what the page's own snippets compute, so that the picture shows what the page prints. Light and
dark, wide and narrow.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from pictures import NARROW_INCHES, partner
from scipy.special import softmax

import decal
from decal.plot.style import Ink, ink_on

DOCS = Path(__file__).parent
STATIC = DOCS / "_static" / "pages"
THEMES = {False: "white", True: "#131416"}
"""Backgrounds of light and of dark pages."""

WIDTH, BAR, ABOVE, IMAGE = 6.9, 0.3, 0.85, 0.62
"""Inches: of a wide picture, of a bar with its gap, of what stands around bars, of an image."""

SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROWS = [770, 126, 1655]
"""The texts of the README."""


def run(page: str, count: int) -> dict[str, Any]:
    """The names that a page's first snippets define."""
    names: dict[str, Any] = {}
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        for code in SNIPPET.findall(text)[:count]:
            exec(compile(code, page, "exec"), names)
    return names


# Bars


@dataclass(frozen=True)
class Panel:
    """One input: what it is, what is possible, and a bar per class."""

    title: str
    verdict: str
    names: Sequence[str]
    lower: Sequence[float]
    upper: Sequence[float]
    ticks: Sequence[float] = ()
    several: bool = False  # answers left
    image: Any = None
    open: Sequence[bool] = ()  # bars to draw as undecided
    grey: bool = False
    numbers: bool = False


def panel(
    credal: decal.IntervalCredalSet, row: int, title: str, *, truth: object = None, top: int = 3
) -> Panel:
    """The most probable classes of one input; the true one is marked if it is among them."""
    order = np.argsort(-credal.upper[row], kind="stable")[:top]
    possible = [str(name) for name in credal[row : row + 1].possible()[0]]
    kept = " or ".join(possible) if len(possible) < 4 else f"{len(possible)} are possible"
    names = [str(credal.classes[k]) for k in order]
    names = [f"{name} ✓" if name == str(truth) else name for name in names]
    ends = (credal.lower[row, order], credal.upper[row, order], credal.point[row, order])
    return Panel(title, kept, names, *ends, several=len(possible) > 1)


def bars(*panels: Panel) -> Callable[[Ink, bool], Figure]:
    """Panels beside each other; on narrow pages below each other."""

    def draw(ink: Ink, narrow: bool) -> Figure:
        images = any(one.image is not None for one in panels)
        count, high = len(panels), ABOVE + BAR * max(len(one.names) for one in panels)
        tall = high + (IMAGE if images else 0)
        shape = (NARROW_INCHES, tall * count) if narrow else (WIDTH, tall + 0.1)
        figure = plt.figure(figsize=shape, layout="constrained")
        parts = figure.subfigures(count, 1) if narrow else figure.subfigures(1, count)
        for part, one in zip(np.atleast_1d(parts), panels, strict=True):
            part.set_facecolor("none")
            if images:
                picture, ax = part.subplots(2, 1, height_ratios=[IMAGE, high])
                kind = {"cmap": "gray_r" if ink.face == "#ffffff" else "gray"}
                picture.imshow(one.image, **(kind if np.ndim(one.image) == 2 else {}))
                picture.set_axis_off()
            else:
                ax = part.subplots()
            _bars(ax, one, ink)
        return figure

    return draw


def _bars(ax: Axes, one: Panel, ink: Ink) -> None:
    blue, orange = ink.models[0], ink.truth
    undecided = one.open or [False] * len(one.names)
    lines = zip(one.lower, one.upper, undecided, strict=True)
    for y, (low, high, open_) in enumerate(lines):
        colour = ink.muted if one.grey else orange if open_ else blue
        ax.barh(y, 1, 0.62, color=ink.tint(ink.muted, 0.14))
        wide = max(high - low, 0.012)  # a point is seen, too
        ax.barh(y, wide, 0.62, left=min(low, 1 - wide), color=ink.tint(colour, 0.72))
        if one.numbers:
            words = f"{high:.0%}" if one.grey else f"{low:.0%} to {high:.0%}"
            ax.text(1.04, y, words, va="center", color=ink.text)
    for y, tick in enumerate(one.ticks):
        ax.vlines(tick, y - 0.31, y + 0.31, ink.text, lw=1.8)
    if one.open:
        ax.axvline(0.5, color=ink.text, lw=1, ls=(0, (4, 3)))
    ax.set(xlim=(0, 1), ylim=(len(one.names) - 0.5, -0.5), xticks=[0, 0.5, 1])
    ax.set_xticklabels(["0", "50 %", "100 %"])
    ax.set_yticks(range(len(one.names)), one.names)
    ax.tick_params(length=0, labelcolor=ink.text)
    ax.spines[:].set_visible(False)
    said = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    verdict = ink.muted if one.grey else orange if one.several else blue
    ax.annotate(one.verdict, (0, 1), (0, 3), color=verdict, fontweight="bold", **said)
    ax.annotate(one.title, (0, 1), (0, 19), color=ink.text, **said)


# Other pictures


def lines_of_a_report(names: dict[str, Any]) -> Callable[[Ink, bool], Figure]:
    """A bar per input, with its name at the left and the possible classes at the right."""
    commands = re.findall(
        r"^\$ decal (fit .*)$", (DOCS / "command_line.md").read_text("utf-8"), re.M
    )
    subprocess.run([sys.executable, "-m", "decal", *commands[0].split()], capture_output=True)
    new, shown = names["new"], np.array(SHOWN)
    report = list(decal.load("model.npz").report(new.logits)[shown])

    def draw(ink: Ink, narrow: bool) -> Figure:
        shape = (NARROW_INCHES, 4.6) if narrow else (WIDTH, 2.7)
        figure, ax = plt.subplots(figsize=shape, layout="constrained")
        for y, (text, line) in enumerate(zip(new[shown].texts, report, strict=True)):
            possible = line["possible"]
            several = len(possible) > 1
            colour = ink.truth if several else ink.models[0]
            kept = " or ".join(possible) if len(possible) < 3 else f"{len(possible)} languages"
            height = 0.4 if narrow else 0.62
            ax.barh(y, 1, height, color=ink.tint(ink.muted, 0.14))
            wide = line["upper"] - line["lower"]
            ax.barh(y, wide, height, left=line["lower"], color=ink.tint(colour, 0.72))
            if narrow:
                ax.text(0, y - 0.24, text, va="bottom", color=ink.text)
                ax.text(1, y - 0.24, kept, va="bottom", ha="right", color=colour)
            else:
                ax.text(-0.03, y, text, va="center", ha="right", color=ink.text)
                ax.text(1.03, y, kept, va="center", color=colour)
        ax.set(xlim=(0, 1), ylim=(len(shown) - 0.5, -0.8 if narrow else -0.5), yticks=[])
        ax.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        ax.tick_params(length=0, labelcolor=ink.text)
        ax.spines[:].set_visible(False)
        return figure

    return draw


def flow(*stages: Sequence[str]) -> Callable[[Ink, bool], Figure]:
    """Boxes in stages, each joined to all of the next; from left to right, or downwards."""

    def draw(ink: Ink, narrow: bool) -> Figure:
        most = max(map(len, stages))
        shape = (NARROW_INCHES, 1.1 * len(stages)) if narrow else (WIDTH, 0.82 * most)
        figure = plt.figure(figsize=shape)
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, shape[0]), ylim=(shape[1], 0))
        ax.set_axis_off()
        wide = (shape[0] - 0.2) / most - 0.12 if narrow else 1.85
        high, places = 0.66, []
        for s, stage in enumerate(stages):
            along = (s + 0.5) / len(stages)
            across = [(k + 0.5) / len(stage) for k in range(len(stage))]
            if narrow:
                places.append([(0.1 + (shape[0] - 0.2) * x, shape[1] * along) for x in across])
            else:
                room = shape[0] - wide - 0.1
                x = 0.05 + wide / 2 + room * s / (len(stages) - 1)
                places.append([(x, shape[1] * y) for y in across])
        gap = high / 2 if narrow else wide / 2
        for before, after in pairwise(places):
            for x, y in before:
                for u, v in after:
                    ends = ((u, v - gap), (x, y + gap)) if narrow else ((u - gap, v), (x + gap, y))
                    arrow = {"arrowstyle": "-|>", "color": ink.muted, "lw": 1.2, "shrinkA": 0}
                    ax.annotate("", *ends, arrowprops=arrow)
        for stage, where in zip(stages, places, strict=True):
            colour = ink.models[0] if len(stage) == 1 else ink.muted
            for words, (x, y) in zip(stage, where, strict=True):
                corner = (x - wide / 2, y - high / 2)
                style = {"boxstyle": "round,pad=0,rounding_size=0.09", "ec": colour, "lw": 1.2}
                fill = ink.tint(colour, 0.16)
                ax.add_patch(FancyBboxPatch(corner, wide, high, fc=fill, **style))
                size = 8.5 if narrow else 9.5
                ax.text(x, y, words, ha="center", va="center", color=ink.text, fontsize=size)
        return figure

    return draw


# Pages

DIGITS = [180, 422, 436]
"""Images of pixels, from little noise to much."""

SHOWN = [*ROWS, 615, 4, 6, 1, 8]
"""Lines of a report: the texts of the README, one of three letters, and some of the first ones."""


def start() -> Callable[[Ink, bool], Figure]:
    names = run("start", 1)
    new = names["new"]
    credal = names["d"].predict(new.logits[ROWS])
    true = [new.classes[k] for k in new.labels[ROWS]]
    texts = [f"“{text}”" for text in new[ROWS].texts]
    return bars(*(panel(credal, k, texts[k], truth=true[k]) for k in range(len(ROWS))))


def why() -> Callable[[Ink, bool], Figure]:
    names = run("why", 1)
    allowed = panel(names["credal"], 0, "What the labelled data allow", top=2)
    says = softmax(names["new"].logits[126])
    said = [says[names["new"].classes.index(name)] for name in allowed.names]
    alone = allowed.names[int(np.argmax(said))]
    return bars(
        Panel("What the model says", alone, allowed.names, [0, 0], said, grey=True, numbers=True),
        Panel(
            allowed.title,
            allowed.verdict,
            allowed.names,
            allowed.lower,
            allowed.upper,
            several=True,
            numbers=True,
        ),
    )


def with_images(panels: Sequence[Panel], images: Sequence[Any]) -> Callable[[Ink, bool], Figure]:
    return bars(*(Panel(**{**vars(p), "image": i}) for p, i in zip(panels, images, strict=True)))


def sklearn() -> Callable[[Ink, bool], Figure]:
    names = run("sklearn", 1)
    rows = names["new"][55:58]
    credal, truth = names["clf"].predict_credal(rows), names["truth"][55:58]
    panels = [panel(credal, k, f"a {truth[k]}", truth=truth[k]) for k in range(3)]
    return with_images(panels, rows.reshape(-1, 8, 8))


def torch() -> Callable[[Ink, bool], Figure]:
    names = run("torch", 2)
    chosen = [87, 61, 15]
    credal = names["d"].predict(names["net"](names["new"][chosen]))
    truth = names["truth"][chosen].tolist()
    panels = [panel(credal, k, f"a {truth[k]}", truth=truth[k], top=5) for k in range(3)]
    return with_images(panels, names["new"][chosen].reshape(-1, 8, 8).numpy())


def dense() -> Callable[[Ink, bool], Figure]:
    names = run("dense", 2)
    truth, images = names["labels"][1350:], names["images"][1350:, 0]

    def draw(ink: Ink, narrow: bool) -> Figure:
        plt.rcParams |= {"figure.facecolor": ink.face, "axes.facecolor": ink.face}
        panels = ["image", *["truth"] * (not narrow), "prediction", "possible", "errors"]
        given = {"images": images.clamp(0, 1), "labels": truth, "ignore_index": 255}
        axes = decal.plot.maps(names["maps"], rows=DIGITS, panels=panels, **given)
        figure: Figure = axes[0, 0].figure
        figure.set_size_inches(NARROW_INCHES if narrow else WIDTH, 4.4 if narrow else 5)
        return figure

    return draw


def zeroshot() -> Callable[[Ink, bool], Figure]:
    names = run("zeroshot", 2)
    true = [[*names["COLOURS"]][k] for k in names["truth"][200:203]]
    panels = [panel(names["credal"], k, f"{true[k]} by its label", truth=true[k]) for k in range(3)]
    return with_images(panels, names["images"][200:203])


def llm() -> Callable[[Ink, bool], Figure]:
    names = run("llm", 2)
    titles = [f"“{prompt.partition('.')[0]}.”" for prompt in names["prompts"][:3]]
    return bars(*(panel(names["credal"], k, titles[k], truth=names["labels"][k]) for k in range(3)))


def multilabel() -> Callable[[Ink, bool], Figure]:
    names = run("multilabel", 3)
    credal, decided = names["credal"], names["credal"].decide()
    panels = []
    for k in range(3):
        undecided = decided[k] < 0
        yes = [name for name, answer in zip(credal.classes, decided[k], strict=True) if answer == 1]
        asked = [f"{credal.classes[j]}?" for j in np.flatnonzero(undecided)]
        verdict = ", ".join([" and ".join(yes)] * bool(yes) + asked)
        values = (credal.classes, credal.lower[k], credal.upper[k], credal.point[k])
        title = f"a {names['digit'][1200 + k]}"
        panels.append(Panel(title, verdict, *values, bool(asked), open=undecided.tolist()))
    return with_images(panels, names["X"][1200:1203].reshape(-1, 3, 8))


PAGES: dict[str, Callable[[], Callable[[Ink, bool], Figure]]] = {
    "start": start,
    "why": why,
    "sklearn": sklearn,
    "torch": torch,
    "dense": dense,
    "zeroshot": zeroshot,
    "llm": llm,
    "multilabel": multilabel,
    "command_line": lambda: lines_of_a_report(run("command_line", 1)),
    "deploy": lambda: flow(
        ["labelled\nlogits"],
        ["model.npz"],
        ["Python:\ndecal.load", "ONNX Runtime:\nhead.onnx", "PyTorch:\nCredalHead"],
    ),
    "large_data": lambda: flow(
        ["chunks", "files", "machines"],
        ["small\nsummaries,\nadded up"],
        ["one model\nfor every\nlevel"],
    ),
}


def save(name: str, draw: Callable[[Ink, bool], Figure]) -> None:
    settings = {"svg.hashsalt": "decal", "font.size": 10}
    for dark, background in THEMES.items():
        for narrow in (False, True):
            with plt.rc_context(settings):
                figure = draw(ink_on(background), narrow)
                path = partner(STATIC / f"{name}.svg", dark=dark, narrow=narrow)
                figure.savefig(path, transparent=True, metadata={"Date": None})
                plt.close(figure)


if __name__ == "__main__":
    STATIC.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            save(name, PAGES[name]())
