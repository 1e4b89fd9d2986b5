"""Draws the pictures of docs/method.md and docs/kinds.md: python docs/method_figures.py

All are of one example: a logistic regression on every third pixel of scikit-learn's handwritten
threes, fives and eights, decalibrated on 126 others, ten of which are eights; and one three that it
takes for an eight.
"""

import textwrap
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from pictures import NARROW_INCHES
from scipy.special import logsumexp, rel_entr, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import decal
from decal.coupled import CoupledDecalibrator
from decal.plot.style import Ink, ink_on, probability_axis

STATIC = Path(__file__).parent / "_static" / "method"
THEMES = {"light": "white", "dark": "#131416"}
DIGITS = (3, 5, 8)
ALPHA = 0.98
EIGHTS, SHOWN = 10, 98
"""Eights among the labelled examples; and the input, among those that are not."""

WIDTH = 6.6
"""Inches."""


@dataclass(frozen=True)
class Example:
    """Labelled logits, the model decalibrated on them, and one input."""

    image: np.ndarray
    logits: np.ndarray
    labels: np.ndarray
    query: np.ndarray

    @classmethod
    def made(cls) -> "Example":
        images, logits, labels = examples()
        half = len(logits) // 2
        row = half + SHOWN
        eights = np.flatnonzero(labels[:half] == DIGITS.index(8))
        used = np.delete(np.arange(half), eights[EIGHTS:])
        return cls(images[row], logits[used], labels[used], logits[row])

    def model(self, **settings: object) -> decal.Decalibrator:
        return decal.decalibrate(self.logits, self.labels, alpha=ALPHA, classes=DIGITS, **settings)

    def moved(self, k: int, shifts: np.ndarray) -> np.ndarray:
        """(T, 3) predictions for the input after adding each shift to the logit of class k."""
        return softmax(self.query + shifts[:, None] * np.eye(3)[k], axis=1)


def examples() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Handwritten threes, fives and eights unknown to the classifier: images, logits, labels."""
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, DIGITS)
    X, y = X[kept] / 16, np.searchsorted(DIGITS, y[kept])
    order = np.random.default_rng(0).permutation(len(X))
    images, y = X[order], y[order]
    X = images[:, ::3]  # every third pixel: some digits stay unclear
    model = LogisticRegression(C=1.0, max_iter=5000).fit(X[:200], y[:200])
    return images[200:].reshape(-1, 8, 8), model.decision_function(X[200:]), y[200:]


def border(center: np.ndarray, budget: float) -> np.ndarray:
    """(361, 3) the border of the ball, by bisection along rays from its center."""
    angle = np.linspace(0, 2 * np.pi, 361)
    across, up = np.array([1, -1, 0]) / np.sqrt(2), np.array([-1, -1, 2]) / np.sqrt(6)
    rays = np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * up
    with np.errstate(divide="ignore"):
        edge = np.where(rays < 0, -center / rays, np.inf).min(axis=1)
    near, far = np.zeros(len(rays)), edge
    for _ in range(60):
        middle = (near + far) / 2
        q = np.maximum(center + middle[:, None] * rays, 0)
        inside = rel_entr(q, center).sum(axis=1) <= budget
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return center + near[:, None] * rays


def boundary(
    logits: np.ndarray, labels: np.ndarray, center: np.ndarray, alpha: float
) -> np.ndarray:
    """(720, 3) the boundary of the plausible shifts, by bisection along rays."""
    angle = np.linspace(0, 2 * np.pi, 720)
    rays = np.stack([0 * angle, np.cos(angle), np.sin(angle)], axis=1)

    def lost(shift: np.ndarray) -> np.ndarray:
        moved = logits + shift[:, None, :]
        rows = moved[:, np.arange(len(labels)), labels] - logsumexp(moved, axis=2)
        return -rows.sum(axis=1)

    level = lost(center[None])[0] - len(labels) * np.log(alpha)
    near, far = np.zeros(len(rays)), np.full(len(rays), 20.0)
    for _ in range(50):
        middle = (near + far) / 2
        inside = lost(center + middle[:, None] * rays) <= level
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return center + near[:, None] * rays


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


def plane(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where distributions lie in the triangle: class 0 left, 1 right, 2 on top."""
    return p[..., 1] + p[..., 2] / 2, p[..., 2] * np.sqrt(3) / 2


def outline(axes: Axes, corners: np.ndarray, **style: object) -> None:
    """A closed polygon."""
    axes.plot(*plane(np.concatenate([corners, corners[:1]])), **style)


def likelihood(example: Example, ink: Ink, narrow: bool) -> Figure:
    """What shifting one class gains, the cut, and the shifts above it."""
    model = example.model()
    shifts, cut = model.shifts(), np.log(ALPHA)
    figure, (ax, below) = plt.subplots(
        2,
        1,
        figsize=(NARROW_INCHES if narrow else WIDTH, 3.6),
        height_ratios=[4, 1],
        sharex=True,
        layout="constrained",
    )
    at = np.linspace(-3, 3, 301)
    gains = model.gains("class", at)
    ax.axhline(0, color=ink.grid, lw=1, zorder=0)
    ax.axhline(cut, color=ink.text, lw=1.2, ls=(0, (5, 3)))
    ax.text(
        3, cut + 0.0012, "the cut" if narrow else f"the cut, α = {ALPHA}", ha="right", va="bottom"
    )
    names = ((-1.06, -0.031, "right"), (1.34, 0.004, "left"), (-1.86, 0.004, "right"))
    for k, (colour, (x, y, ha)) in enumerate(zip(ink.models, names, strict=False)):
        ends = np.array([shifts.lower[k], shifts.upper[k]])
        ax.plot(at, gains[:, k], color=colour, lw=2)
        ax.plot(ends, [cut, cut], "o", color=colour, ms=6, mec=ink.face, zorder=4)
        ax.vlines(ends, -1, cut, colors=colour, lw=0.8, ls=":")
        ax.text(x, y, f"shift {DIGITS[k]}", color=colour, ha=ha, va="center")
        below.plot(ends, [k, k], color=colour, lw=7, solid_capstyle="butt")
        below.vlines(ends, k, -1, colors=colour, lw=0.8, ls=":")
    ax.plot(0, 0, **_ring(ink))
    ax.annotate(
        "the model as it is", (0, 0), (0, 0.0225), va="center", ha="center",
        arrowprops={"arrowstyle": "-", "color": ink.muted, "lw": 0.8, "shrinkB": 5},
    )  # fmt: skip
    ax.set(ylim=(-0.042, 0.0265), yticks=[-0.04, cut, 0], ylabel="gain per example (nats)")
    ax.set_yticklabels(["−0.04", "log α", "0"])
    below.set(ylim=(2.6, -0.6), xlim=(-3, 3), xlabel="shift t of one class’s logit")
    below.set_yticks(range(3), [str(digit) for digit in DIGITS])
    below.set_ylabel("plausible", rotation=0, ha="right", va="center")
    _bare(ax, ink)
    _bare(below, ink)
    ax.tick_params(axis="x", length=0)
    below.tick_params(axis="y", length=0)
    low, high = shifts.lower[2], shifts.upper[2]
    _title(figure, f"Labels let 8 fall by {-low:.1f}, but rise by only {high:.1f}", narrow)
    return figure


def intervals(example: Example, ink: Ink, narrow: bool) -> Figure:
    """From the plausible shifts of one class to its interval, for one input; and all intervals."""
    model = example.model(box="own")
    credal = model.predict(example.query[None])
    figure, (picture, curve, bars) = _panels(narrow, 0.62, 1.35, 1)
    picture.imshow(
        example.image, cmap=LinearSegmentedColormap.from_list("ink", [ink.face, ink.text])
    )
    picture.set_axis_off()
    picture.set_title("one input", fontsize="medium")

    k = 2
    low, high = model.shifts().lower[k], model.shifts().upper[k]
    at = np.linspace(-4, 4, 201)
    colour = ink.models[k]
    curve.plot(at, example.moved(k, at)[:, k], color=ink.muted, lw=1.2)
    inside = np.linspace(low, high, 101)
    curve.plot(inside, example.moved(k, inside)[:, k], color=colour, lw=2.4)
    for t, p in ((low, credal.lower[0, k]), (high, credal.upper[0, k])):
        curve.plot([t, t, -4], [0, p, p], color=colour, lw=0.9, ls=":")
        curve.plot(t, p, "o", color=colour, ms=5, mec=ink.face, zorder=4)
    curve.plot([low, high], [0, 0], color=colour, lw=7, solid_capstyle="butt", clip_on=False)
    ends = [credal.lower[0, k], credal.upper[0, k]]
    curve.plot([-4, -4], ends, color=colour, lw=7, solid_capstyle="butt", clip_on=False)
    curve.plot(0, credal.point[0, k], **_ring(ink))
    curve.set(xlim=(-4, 4), ylim=(0, 1), xticks=[-2, 0, 2])
    probability_axis(curve.yaxis)
    curve.set(xlabel=f"shift of {DIGITS[k]}", ylabel=f"probability of {DIGITS[k]}")
    _bare(curve, ink)

    _bars(bars, [(None, credal)], ink)
    _title(figure, f"So 8 has a probability of {ends[0]:.2f} to {ends[1]:.2f} here", narrow)
    return figure


def own_and_joint(example: Example, ink: Ink, narrow: bool) -> Figure:
    """The probability of one class under the shifts of all classes: its own range, and all."""
    own, joint = (example.model(box=box).predict(example.query[None]) for box in ("own", "joint"))
    shifts = example.model().shifts()
    figure, (curves, bars) = _panels(narrow, 1.35, 1)
    j = 0
    for k, colour in enumerate(ink.models[:3]):
        at = np.linspace(shifts.lower[k], shifts.upper[k], 101)
        p = example.moved(k, at)[:, j]
        curves.plot(at, p, color=colour, lw=2.4)
        curves.plot(at[[0, -1]], p[[0, -1]], "o", color=colour, ms=5, mec=ink.face, zorder=4)
    for k, (x, y, ha) in enumerate(
        ((0.7, 0.62, "left"), (1.7, 0.14, "center"), (-2.3, 0.72, "center"))
    ):
        curves.text(x, y, f"shift {DIGITS[k]}", color=ink.models[k], ha=ha, va="center")
    for x, credal, colour, name in (
        (2.1, own, ink.models[j], "own"), (2.75, joint, ink.muted, "joint"),
    ):  # fmt: skip
        ends = credal.lower[0, j], credal.upper[0, j]
        curves.plot([x, x], ends, color=colour, lw=8, solid_capstyle="butt")
        curves.text(x, ends[1] + 0.03, name, color=ink.text, ha="center", fontsize="small")
    curves.plot(0, own.point[0, j], **_ring(ink))
    curves.set(xlim=(-2.8, 3.1), ylim=(0, 1), xticks=[-2, -1, 0, 1])
    probability_axis(curves.yaxis)
    curves.set(xlabel="shift of one class’s logit", ylabel=f"probability of {DIGITS[j]}")
    _bare(curves, ink)
    _bars(bars, [("own", own), ("joint", joint)], ink)
    _title(figure, "Lowering 8 raises 3 further than any shift of 3", narrow)
    return figure


def sets(example: Example, ink: Ink, narrow: bool) -> Figure:
    """One input in the triangle: one class at a time, all at once, and any distribution nearby."""
    one = example.model()
    query = example.query[None]
    coupled = CoupledDecalibrator(ALPHA, likelihood="mean", reference="model", tol=1e-6)
    together = coupled.fit(example.logits, example.labels).predict(query)
    alone, local = one.predict(query), example.model(directions=["local"]).predict(query)
    figure, panels = _panels(narrow, 1, 1, 1, height=2.35)
    blue, muted = ink.models[0], {"color": ink.muted, "lw": 1.3, "ls": (0, (4, 2))}

    for axes, credal, title in zip(
        panels,
        (alone, together, local),
        ("class shifts", "coupled: all at once", "local: anything nearby"),
        strict=True,
    ):
        outline(axes, np.eye(3), color=ink.muted, lw=0.8)
        for k, (dx, dy) in enumerate([(-0.04, -0.07), (0.04, -0.07), (0, 0.06)]):
            x, y = plane(np.eye(3)[k])
            axes.text(x + dx, y + dy, str(DIGITS[k]), ha="center", va="center")
        outline(axes, polygon(credal.lower[0], credal.upper[0]), color=ink.text, lw=1.6)
        axes.set_title(title, fontsize="medium")
        axes.set(aspect="equal", xlim=(-0.1, 1.1), ylim=(-0.14, 0.98))
        axes.set_axis_off()
    for k, colour in enumerate(ink.models[:3]):
        shifts = np.linspace(one.shifts().lower[k], one.shifts().upper[k], 2)
        panels[0].plot(*plane(example.moved(k, shifts)), color=colour, lw=2.4)
    edge = softmax(query + boundary(example.logits, example.labels, np.zeros(3), ALPHA), axis=1)
    ball = border(local.point[0], -np.log(ALPHA))
    for axes, shape in ((panels[1], edge), (panels[2], ball)):
        axes.fill(*plane(shape), color=ink.tint(blue, 0.35), lw=0)
        outline(axes, polygon(alone.lower[0], alone.upper[0]), **muted)
    for axes, p in zip(panels, (alone.point, together.point, local.point), strict=True):
        axes.plot(*plane(p[0]), **_ring(ink))
    _title(figure, "Three kinds of sets around one prediction", narrow)
    return figure


def _panels(narrow: bool, *sizes: float, height: float = 2.9) -> tuple[Figure, np.ndarray]:
    """Panels side by side, or below each other."""
    if narrow:
        size = (NARROW_INCHES, 2.3 * sum(sizes))
        return plt.subplots(len(sizes), 1, figsize=size, height_ratios=sizes, layout="constrained")
    size = (WIDTH, height)
    return plt.subplots(1, len(sizes), figsize=size, width_ratios=sizes, layout="constrained")


def _title(figure: Figure, text: str, narrow: bool) -> None:
    """What the picture shows, at the upper left."""
    text = textwrap.fill(text, 40 if narrow else 80)
    figure.suptitle(text, x=0.01, ha="left", fontsize=10, fontweight="bold")


def _ring(ink: Ink) -> dict[str, object]:
    """The mark of the model's prediction."""
    return {
        "marker": "o",
        "ls": "",
        "ms": 6,
        "mfc": ink.face,
        "mec": ink.text,
        "mew": 1.4,
        "zorder": 5,
    }


def _bars(axes: Axes, several: list[tuple[str | None, decal.IntervalCredalSet]], ink: Ink) -> None:
    """Intervals of the three classes; below each other if there are several."""
    height = 0.62 / len(several)
    for m, (name, credal) in enumerate(several):
        y = np.arange(3) + (m - (len(several) - 1) / 2) * height
        low, high = credal.lower[0], credal.upper[0]
        shades = ink.models[:3] if m == 0 else (ink.muted,) * 3
        axes.barh(y, high - low, left=low, height=height * 0.9, color=shades)
        if name:
            axes.text(high[0] + 0.03, y[0], name, va="center", fontsize="small")
    point = several[0][1].point[0]
    axes.plot(point, np.arange(3), **_ring(ink))
    axes.set(yticks=range(3), ylim=(2.55, -0.55), xlim=(0, 1), xlabel="probability")
    axes.set_yticklabels([str(digit) for digit in DIGITS])
    probability_axis(axes.xaxis)
    _bare(axes, ink)
    axes.tick_params(axis="y", length=0)


def _bare(axes: Axes, ink: Ink) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(ink.muted)


def main() -> None:
    STATIC.mkdir(exist_ok=True)
    example = Example.made()
    for theme, face in THEMES.items():
        ink = ink_on(face)
        colours = dict.fromkeys(("figure.facecolor", "axes.facecolor"), face)
        colours |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), ink.text)
        colours |= dict.fromkeys(("xtick.color", "ytick.color"), ink.muted)
        colours |= dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), ink.text)
        with plt.rc_context(colours | {"svg.hashsalt": "decal"}):
            for draw, narrow in product(
                (likelihood, intervals, own_and_joint, sets), (False, True)
            ):
                figure = draw(example, ink, narrow)
                name = draw.__name__ + ("_narrow" if narrow else "")
                figure.savefig(STATIC / f"{name}_{theme}.svg", metadata={"Date": None})
                plt.close(figure)


if __name__ == "__main__":
    main()
