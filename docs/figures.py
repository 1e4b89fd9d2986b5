"""Draws the pictures of docs/decisions.md: python docs/figures.py, then python docs/dark.py

Each is drawn twice: with its panels side by side, and below each other for narrow pages.
"""

from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pictures import NARROW_INCHES
from scipy.optimize import brentq
from scipy.special import entr

import decal

STATIC = Path(__file__).parent / "_static"
WIDE, NARROW, MODEL, TRUTH = "#9ecae1", "#3182bd", "#08306b", "#e6550d"
LINE, DROPPED = "#737373", "#d0d0d0"
SHADES = ("#f0f0f0", "#dedede", "#f7f7f7", "white")

# The example of docs/decisions.md. Each rule has something to say about it.
NAMES = ("cat", "dog", "fox")
BOX = decal.IntervalCredalSet(
    [[0.15, 0.10, 0.05]], [[0.65, 0.78, 0.30]], point=[[0.46, 0.36, 0.18]], classes=NAMES
)
LOWER, UPPER, POINT = BOX.lower[0], BOX.upper[0], BOX.point[0]
ABSTAIN = decal.abstention_utility(3, cost=0.4)
HEDGE = np.array([[1, 0, 0], [0, 1, 0], [0.45, 0.45, 0], [0.42, 0.42, -0.03]])
HEDGE_NAMES = ("cat", "dog", "either", "either, fee")
ENSEMBLE = decal.HullCredalSet(
    [[[0.48, 0.46, 0.06], [0.40, 0.24, 0.36], [0.62, 0.16, 0.22], [0.60, 0.34, 0.06]]]
)


def measure_entropy(narrow: bool) -> Figure:
    """The most lopsided and the most level distribution of the box, and their entropies."""
    figure, (triangle, bars) = _panels(narrow, 1.25, 1)
    _simplex(triangle)
    corners = polygon(LOWER, UPPER)
    _fill(triangle, corners)
    side = np.linspace(0, 1, 201)
    cat, dog = np.meshgrid(side, side)
    grid = np.stack([cat, dog, np.clip(1 - cat - dog, 0, 1)], axis=-1)
    height = np.where(cat + dog <= 1, entr(grid).sum(axis=-1), np.nan)
    triangle.contour(*_plane(grid), height, levels=9, colors=LINE, linewidths=0.6, alpha=0.6)
    least = corners[entr(corners).sum(axis=1).argmin()]
    level = brentq(lambda theta: np.clip(theta, LOWER, UPPER).sum() - 1, 0, 1)
    _mark(triangle, least, "least", TRUTH, (1.02, 0.25))
    _mark(triangle, np.clip(level, LOWER, UPPER), "greatest", MODEL, (0.9, 0.6))

    low, high = (float(bound[0]) for bound in BOX.entropy())
    for y, (name, left, right, colour) in enumerate(
        (
            ("total", 0, high, MODEL),
            ("aleatoric", 0, low, TRUTH),
            ("epistemic", low, high, NARROW),
        )
    ):
        bars.barh(y, right - left, left=left, color=colour, height=0.55)
        text = f"{name}\n{right - left:.3f}"
        bars.text((left + right) / 2, y, text, color="white", ha="center", va="center")
    bars.axvline(low, color=LINE, lw=0.8, ls=":", zorder=0)
    bars.axvline(high, color=LINE, lw=0.8, ls=":", zorder=0)
    bars.set(xlim=(0, 1.2), yticks=[], xlabel="entropy (nats)", ylim=(2.5, -0.5))
    bars.set_xticks([0, 0.5, np.log(3)], ["0", "0.5", "ln 3"])
    _bare(bars)
    return figure


def measure_zero_one(narrow: bool) -> Figure:
    """Which classes can be the most probable one, and what predicting each can cost."""
    figure, (triangle, bars) = _panels(narrow, 1.25, 1)
    _simplex(triangle)
    _regions(triangle, np.eye(3))
    _fill(triangle, polygon(LOWER, UPPER))
    _intervals(bars, LOWER, UPPER, NAMES, kept=BOX.decide("e_admissible")[0])
    for k, rival, colour, at in ((0, 1, TRUTH, (1.04, 0.3)), (1, 0, MODEL, (-0.04, 0.42))):
        p = np.full(3, 1 - LOWER[k] - UPPER[rival])
        p[k], p[rival] = LOWER[k], UPPER[rival]
        _mark(triangle, p, f"worst for {NAMES[k]}", colour, at)
        _span(bars, LOWER[k], UPPER[rival], k + 0.42, colour)
        regret = f"regret {UPPER[rival] - LOWER[k]:.2f}"
        middle = (LOWER[k] + UPPER[rival]) / 2
        bars.text(middle, k + 0.49, regret, color=colour, ha="center", va="top")
    bars.text(UPPER[2] + 0.03, 2, "never the most probable", color=LINE, va="center")
    bars.set(xlabel="probability", ylim=(2.5, -0.45))
    return figure


def measure_hartley(narrow: bool) -> Figure:
    """Möbius masses of all sets of classes, by size."""
    figure, (triangle, bars) = _panels(narrow, 1, 1.25)
    _simplex(triangle)
    _fill(triangle, polygon(LOWER, UPPER))
    sets = moebius(BOX)
    y = [i + 0.6 * (len(members) - 1) for i, members in enumerate(sets)]
    for at, (members, mass) in zip(y, sets.items(), strict=True):
        bars.barh(at, mass, color=(LINE, WIDE, NARROW)[len(members) - 1], height=0.75)
        bars.text(mass + 0.01, at, f"{mass:.2f}", va="center")
    for at, factor in ((1, "× ln 1 = 0"), (4.6, "× ln 2"), (7.2, "× ln 3")):
        bars.text(0.55, at, factor, va="center", color=LINE)
    bars.set(xlim=(0, 0.65), ylim=(7.8, -0.6), xlabel="mass", xticks=[0, 0.2, 0.4])
    bars.set_yticks(y, [" ".join(NAMES[k] for k in members) for members in sets])
    bars.tick_params(axis="y", length=0)
    _bare(bars)
    return figure


def measure_width(narrow: bool) -> Figure:
    """The three intervals, as pairs of lines on the simplex and as bars."""
    figure, (triangle, bars) = _panels(narrow, 1.25, 1)
    _simplex(triangle)
    _fill(triangle, polygon(LOWER, UPPER))
    _intervals(bars, LOWER, UPPER, NAMES)
    for k, style in enumerate(("-", "--", ":")):
        for bound in (LOWER[k], UPPER[k]):
            corner, *others = np.roll(np.eye(3), -k, axis=0)
            ends = bound * corner + (1 - bound) * np.array(others)
            triangle.plot(*_plane(ends), color=MODEL, lw=1, ls=style)
            bars.plot([bound, bound], [k - 0.3, k + 0.3], color=MODEL, lw=1.2, ls=style)
        width = UPPER[k] - LOWER[k]
        bars.text(LOWER[k] + width / 2, k, f"{width:.2f}", ha="center", va="center")
    bars.set(xlabel="probability")
    return figure


def decide_sets(narrow: bool) -> Figure:
    """The rules that keep a set of classes, under 0/1 loss."""
    figure, (bars, beaten, best) = _panels(narrow, 1, 1, 1, height=2.75)
    box = polygon(LOWER, UPPER)
    _intervals(bars, LOWER, UPPER, NAMES)
    _floor(bars, LOWER.max())
    bars.set(xlabel="probability")
    bars.set_title("interval_dominance\nkeeps cat, dog, fox")

    _simplex(beaten)
    _fill(beaten, box)
    for rival, at in ((0, (0.93, 0.66)), (1, (0.07, 0.66))):
        ahead = np.eye(3)[2] - np.eye(3)[rival]
        part = clip(box, ahead, 0)
        beaten.fill(*_plane(part), color=TRUTH, lw=0)
        border = np.array([np.eye(3)[1 - rival], (np.eye(3)[2] + np.eye(3)[rival]) / 2])
        beaten.plot(*_plane(border), color=LINE, lw=0.8)
        _mark(beaten, part.mean(axis=0), f"fox beats\n{NAMES[rival]}", TRUTH, at, marker="")
    beaten.set_title("maximality\nkeeps cat, dog, fox")

    _simplex(best)
    _regions(best, np.eye(3))
    _fill(best, box)
    for p, text in (
        ((0.52, 0.31, 0.17), "cat\nbest"),
        ((0.31, 0.52, 0.17), "dog\nbest"),
        ((0.2, 0.2, 0.6), "fox\nbest"),
    ):
        best.text(*_plane(np.array(p)), text, ha="center", va="center")
    best.set_title("e_admissible\nkeeps cat, dog")
    return figure


def decide_one(narrow: bool) -> Figure:
    """The rules that take one class, under 0/1 loss."""
    wide = [["worst"] * 2 + ["best"] * 2 + ["regret"] * 2, ["compromise"] * 3 + ["point"] * 3]
    stacked = [["worst"], ["best"], ["regret"], ["compromise"], ["point"]]
    figure, panels = plt.subplot_mosaic(
        stacked if narrow else wide,
        figsize=(NARROW_INCHES, 10.5) if narrow else (6.4, 4.9),
        height_ratios=[1, 1, 1, 1.35, 1.6] if narrow else [1, 1.35],
        layout="constrained",
    )
    y = np.arange(3)
    for name, rule, bound in (
        ("worst", "gamma_maximin", LOWER),
        ("best", "gamma_maximax", UPPER),
        ("regret", "minimax_regret", None),
    ):
        taken = int(BOX.decide(rule)[0])
        _intervals(panels[name], LOWER, UPPER, NAMES, kept=y == taken)
        panels[name].set(xlabel="probability")
        panels[name].set_title(f"{rule}\ntakes {NAMES[taken]}")
        for k in y:
            colour = TRUTH if k == taken else MODEL
            if bound is not None:
                panels[name].plot([bound[k]] * 2, [k - 0.3, k + 0.3], color=colour, lw=3)
                continue
            rival = np.delete(UPPER, k).max()
            _span(panels[name], LOWER[k], rival, k, colour)
            panels[name].text(0.82, k, f"{rival - LOWER[k]:.2f}", color=colour, va="center")

    lines = panels["compromise"]
    for k, colour in enumerate((MODEL, TRUTH, LINE)):
        lines.plot([0, 1], [LOWER[k], UPPER[k]], color=colour, lw=2)
        lines.text(1.02, UPPER[k], NAMES[k], color=colour, va="center")
    gap = LOWER - UPPER
    switch = (LOWER[0] - LOWER[1]) / (gap[0] - gap[1])
    lines.axvline(switch, color=LINE, lw=0.8, ls=":")
    lines.text(switch - 0.02, 0.74, "cat leads", ha="right", color=MODEL)
    lines.text(switch + 0.02, 0.74, "dog leads", color=TRUTH)
    lines.set(xlim=(0, 1), ylim=(0, 0.82), xticks=[0, 0.5, 1], yticks=[0, 0.4, 0.8])
    lines.set(xlabel="optimism", ylabel="compromise")
    lines.set_title("hurwicz\ntakes dog at optimism 0.5")
    _bare(lines)

    _simplex(panels["point"])
    _regions(panels["point"], np.eye(3))
    _fill(panels["point"], polygon(LOWER, UPPER))
    _mark(panels["point"], POINT, "point", TRUTH, (-0.04, 0.42))
    panels["point"].set_title("point\ntakes cat")
    return figure


def decide_hedge(narrow: bool) -> Figure:
    """Three rules, three answers, with a hedge that is never the best action."""
    figure, (ranges, edges, cut) = _panels(narrow, 1, 1, 1, height=2.75)
    low, high = (bound[0] for bound in BOX.expectation(HEDGE))
    _intervals(ranges, low, high, HEDGE_NAMES)
    _floor(ranges, low.max())
    ranges.set(xlabel="expected utility")
    ranges.set_title("interval_dominance\nkeeps all four")

    pairs = ((0, 2), (1, 2), (2, 3))
    low, high = (bound[0] for bound in BOX.expectation([HEDGE[a] - HEDGE[b] for a, b in pairs]))
    _intervals(edges, low, high, [f"{HEDGE_NAMES[a]} −\n{HEDGE_NAMES[b]}" for a, b in pairs])
    edges.axvline(0, color=LINE, lw=0.8)
    edges.plot([low[2]] * 2, [1.7, 2.3], color=TRUTH, lw=3)
    edges.text(low[2] + 0.03, 2, "always 0.03", color=TRUTH, va="center")
    edges.set(xlim=(-0.4, 0.5), xticks=[-0.3, 0, 0.3], xlabel="difference in utility")
    edges.set_title("maximality\ndrops the fee")

    cat = np.array([0.15, 0.65])
    p = np.stack([cat, 0.9 - cat, np.full(2, 0.1)], axis=1)
    for values, name, colour, x, y, ha in zip(
        HEDGE,
        HEDGE_NAMES,
        (MODEL, NARROW, TRUTH, LINE),
        (0.65, 0.2, 0.15, 0.15),
        (0.66, 0.72, 0.42, 0.325),
        ("right", "left", "left", "left"),
        strict=True,
    ):
        cut.plot(cat, p @ values, color=colour, lw=2)
        cut.text(x, y, name.split(", ")[-1], color=colour, ha=ha)
    cut.set(xlabel="p(cat), for p(fox) = 0.1", ylabel="expected utility", ylim=(0.1, 0.8))
    cut.set(xticks=[0.2, 0.4, 0.6], yticks=[0.2, 0.4, 0.6, 0.8])
    cut.set_title("e_admissible\nkeeps cat, dog")
    _bare(cut)
    return figure


def decide_abstain(narrow: bool) -> Figure:
    """Where each action is best, with abstention, and what each can earn."""
    names = (*NAMES, "abstain")
    figure, (triangle, bars) = _panels(narrow, 1.25, 1)
    _simplex(triangle)
    _regions(triangle, ABSTAIN)
    _fill(triangle, polygon(LOWER, UPPER))
    for p, name in (
        ((0.74, 0.16, 0.10), "cat"),
        ((0.07, 0.69, 0.24), "dog"),
        ((0.15, 0.15, 0.7), "fox"),
        ((0.3, 0.3, 0.4), "abstain"),
    ):
        triangle.text(*_plane(np.array(p)), name, ha="center", va="center")
    low, high = (bound[0] for bound in BOX.expectation(ABSTAIN))
    _intervals(bars, low, high, names, kept=BOX.decide("maximality", utility=ABSTAIN)[0])
    _floor(bars, low.max())
    bars.plot([low[3]] * 2, [2.7, 3.3], color=NARROW, lw=3)
    bars.set(xlabel="expected utility")
    return figure


def hull(narrow: bool) -> Figure:
    """The hull of four predictions in its box, and the lead of the class that all four favour."""
    figure, (triangle, bars) = _panels(narrow, 1.25, 1)
    _simplex(triangle)
    _regions(triangle, np.eye(3))
    box = ENSEMBLE.box()
    members = ENSEMBLE.vertices[0]
    _fill(triangle, polygon(box.lower[0], box.upper[0]))
    triangle.fill(*_plane(members), color=NARROW, lw=0)
    triangle.plot(*_plane(members), "o", color=MODEL, ms=5)
    _mark(triangle, members.mean(axis=0), "hull", NARROW, (-0.02, 0.42), marker="")
    _mark(triangle, np.array([0.43, 0.44, 0.13]), "box", LINE, (1.04, 0.42), marker="")

    leads = [[1, -1, 0], [1, 0, -1]]
    for credal, colour, shift in ((ENSEMBLE, NARROW, -0.2), (box, WIDE, 0.2)):
        low, high = (bound[0] for bound in credal.expectation(leads))
        bars.barh(np.arange(2) + shift, high - low, left=low, color=colour, height=0.38)
    bars.axvline(0, color=LINE, lw=0.8)
    bars.text(0.24, -0.2, "hull", color="white", ha="center", va="center")
    bars.text(0.24, 0.2, "box", ha="center", va="center")
    bars.set(ylim=(1.5, -0.5), xlim=(-0.15, 0.65), xlabel="lead of cat")
    bars.set_yticks([0, 1], ["over dog", "over fox"])
    bars.tick_params(axis="y", length=0)
    _bare(bars)
    return figure


def clip(corners: np.ndarray, normal: np.ndarray, level: float) -> np.ndarray:
    """The part of a convex polygon where normal · p >= level (Sutherland and Hodgman)."""
    kept: list[np.ndarray] = []
    height = corners @ normal - level
    for i in range(len(corners)):
        p, q, a, b = corners[i - 1], corners[i], height[i - 1], height[i]
        if a * b < 0:
            kept.append(p + (q - p) * a / (a - b))
        if b >= 0:
            kept.append(q)
    return np.array(kept)


def polygon(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Corners of a box of three classes: the simplex, clipped by its six bounds."""
    corners = np.eye(3)
    for axis, low, high in zip(np.eye(3), lower, upper, strict=True):
        corners = clip(clip(corners, axis, low), -axis, -high)
    return corners


def moebius(credal: decal.IntervalCredalSet) -> dict[tuple[int, ...], float]:
    """Möbius masses of the lower probability, set by set, from small to large."""
    masses: dict[tuple[int, ...], float] = {}
    for size in (1, 2, 3):
        for events in combinations(range(3), size):
            lower, _ = credal.probability(list(events))
            within = sum(m for part, m in masses.items() if set(part) < set(events))
            masses[events] = float(lower[0]) - within
    return masses


def save(figure: Figure, name: str) -> None:
    """The figure as NAME.svg, on white."""
    # The layout may differ by round-off from run to run, and ids in the file depend on it.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position(np.round(axes.get_position(original=True).bounds, 4))
    figure.savefig(STATIC / f"{name}.svg", facecolor="white", metadata={"Date": None})
    plt.close(figure)


def _panels(narrow: bool, *widths: float, height: float = 2.9) -> tuple[Figure, np.ndarray]:
    """A row of panels as wide as the page, or a column of them as wide as a telephone."""
    if narrow:
        size = (NARROW_INCHES, 2.8 * len(widths))
        figure, panels = plt.subplots(len(widths), 1, figsize=size, layout="constrained")
        figure.get_layout_engine().set(h_pad=0.1)
        return figure, panels
    return plt.subplots(
        1, len(widths), figsize=(6.4, height), width_ratios=widths, layout="constrained"
    )


def _bare(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _plane(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where distributions (..., 3) lie on the paper: cat left, dog right, fox on top."""
    return p[..., 1] + p[..., 2] / 2, p[..., 2] * np.sqrt(3) / 2


def _simplex(axes: Axes) -> None:
    axes.fill(*_plane(np.eye(3)), facecolor="none", edgecolor=LINE, lw=1, zorder=3)
    for corner, name, va in zip(np.eye(3), NAMES, ("top", "top", "bottom"), strict=True):
        x, y = _plane(corner)
        axes.text(x, y + (0.02 if va == "bottom" else -0.03), name, ha="center", va=va)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.1, 0.97), aspect="equal")
    axes.set_axis_off()


def _fill(axes: Axes, corners: np.ndarray) -> None:
    axes.fill(*_plane(corners), color=WIDE, alpha=0.85, lw=0)
    axes.fill(*_plane(corners), facecolor="none", edgecolor=NARROW, lw=1.5)


def _regions(axes: Axes, utility: np.ndarray) -> None:
    """Where each action is the best one, in shades of grey."""
    for action, shade in zip(utility, SHADES, strict=False):
        corners = np.eye(3)
        for rival in utility:
            corners = clip(corners, action - rival, 0)
        axes.fill(*_plane(corners), color=shade, lw=0)
        axes.fill(*_plane(corners), facecolor="none", edgecolor=LINE, lw=0.6, zorder=2)


def _intervals(
    axes: Axes, low: np.ndarray, high: np.ndarray, names: tuple[str, ...], kept: object = None
) -> None:
    """Bars from low to high, grey where dropped."""
    y = np.arange(len(low))
    colours = np.where(np.ones(len(low), bool) if kept is None else kept, WIDE, DROPPED)
    axes.barh(y, high - low, left=low, color=colours, height=0.6)
    axes.set(yticks=y, ylim=(len(low) - 0.5, -0.5))
    axes.set_yticklabels(names)
    axes.tick_params(axis="y", length=0)
    if low.min() >= 0:
        axes.set(xlim=(0, 1), xticks=[0, 0.5, 1])
    _bare(axes)


def _span(axes: Axes, left: float, right: float, y: float, colour: str) -> None:
    """A line from left to right, with a mark at either end."""
    axes.plot([left, right], [y, y], color=colour, lw=1.5, marker="|", ms=7, mew=1.5)


def _floor(axes: Axes, level: float) -> None:
    """A line at the best worst case, which actions must reach."""
    axes.axvline(level, color=TRUTH, lw=1.5)
    axes.text(level + 0.02, -0.5, "best worst case", color=TRUTH, va="center")
    axes.set(ylim=(axes.get_ylim()[0], -0.75))


def _mark(
    axes: Axes,
    p: np.ndarray,
    text: str,
    colour: str,
    at: tuple[float, float],
    *,
    marker: str = "o",
) -> None:
    """A distribution, with a text elsewhere on the paper and a line between them."""
    line = {"arrowstyle": "-", "color": colour, "lw": 0.8, "shrinkA": 1, "shrinkB": 2}
    axes.plot(*_plane(p), marker=marker, color=colour, ms=6, zorder=4)
    axes.annotate(text, _plane(p), at, color=colour, ha="center", va="bottom", arrowprops=line)


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "decal"
    plt.rcParams["font.size"] = 9
    plt.rcParams["axes.titlesize"] = 9
    measures = (measure_entropy, measure_zero_one, measure_hartley, measure_width)
    for draw in (*measures, decide_sets, decide_one, decide_hedge, decide_abstain, hull):
        save(draw(narrow=False), draw.__name__)
        save(draw(narrow=True), f"{draw.__name__}_narrow")
