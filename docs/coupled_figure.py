"""Draws the picture of docs/coupled.md: python docs/coupled_figure.py, then python docs/dark.py"""

import matplotlib.pyplot as plt
import numpy as np
from figures import polygon, save
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pictures import NARROW_INCHES
from scipy.special import logsumexp, softmax

import decal
from decal.coupled import CoupledCredalSet, CoupledDecalibrator

NAMES = ("cat", "dog", "fox")
COUPLED, ALONE, MODEL, END, LINE = "#9ecae1", "#3182bd", "#08306b", "#e6550d", "#737373"
ALPHA = 0.93
QUERY = np.array([[0.2, 0.2, 0.5]])


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Eighty labelled examples: cats look like dogs or like foxes, but dogs never like foxes."""
    rng = np.random.default_rng(3)
    logits = np.repeat([[0.0, 0.3, -5.0], [0.3, -5.0, -0.3]], [45, 35], axis=0)
    logits += rng.normal(size=logits.shape)
    labels = np.array([rng.choice(3, p=p) for p in softmax(logits, axis=1)])
    return logits, labels


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


def draw_region(
    axes: Axes,
    edge: np.ndarray,
    center: np.ndarray,
    credal: CoupledCredalSet,
    shifts: decal.Endpoints,
) -> None:
    """The plausible shifts of dog and fox against cat, and those of one class alone."""
    moved = _against_cat(edge - center)
    axes.fill(*moved.T, color=COUPLED, lw=0)
    axes.plot(*moved.T, color=ALONE, lw=1.2)
    for k in range(3):
        endpoints = np.array([shifts.lower[k], shifts.upper[k]])[:, None] * np.eye(3)[k]
        axes.plot(*_against_cat(endpoints).T, color=MODEL, lw=1.6, marker="o", ms=4)
    for k, at in enumerate(((-0.8, -0.26), (0.8, -0.26), (0.38, -0.85))):
        axes.text(*at, f"{NAMES[k]}\nalone", color=MODEL, ha="center", va="center")
    for k, (at, ha) in enumerate(
        (((0.1, 0.12), "left"), ((-0.1, 0.12), "right"), ((0.1, -0.12), "left"))
    ):
        least = _against_cat(credal.lower_shifts[0, k] - center)
        axes.plot(*least, "o", color=END, ms=6)
        axes.text(*(least + at), f"least {NAMES[k]}", color=END, ha=ha, va="center")
    axes.plot(0, 0, "o", color="white", mec=MODEL, ms=6, zorder=5)
    axes.set(xlabel="shift of dog against cat", ylabel="shift of fox against cat")
    axes.set(xlim=(-2.1, 1.95), ylim=(-1.55, 1.6), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("plausible shifts")


def draw_simplex(
    axes: Axes, edge: np.ndarray, alone: decal.IntervalCredalSet, credal: CoupledCredalSet
) -> None:
    """What these models predict for one input, between the boxes around them."""
    corners = np.eye(3)
    axes.fill(*_plane(corners), facecolor="none", edgecolor=LINE, lw=1)
    for corner, name, va in zip(corners, NAMES, ("top", "top", "bottom"), strict=True):
        x, y = _plane(corner)
        axes.text(x, y + (0.02 if va == "bottom" else -0.03), name, ha="center", va=va)
    axes.fill(*_plane(softmax(QUERY + edge, axis=1)), color=COUPLED, lw=0)
    outer = polygon(credal.lower[0], credal.upper[0])
    inner = polygon(alone.lower[0], alone.upper[0])
    axes.fill(*_plane(outer), facecolor="none", edgecolor=ALONE, lw=1.6)
    axes.fill(*_plane(inner), facecolor="none", edgecolor=MODEL, lw=1.4, ls="--")
    p = softmax(QUERY[0] + credal.lower_shifts[0], axis=1)
    axes.plot(*_plane(p), "o", color=END, ms=6)
    axes.plot(*_plane(credal.point[0]), "o", color="white", mec=MODEL, ms=6)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.1, 0.97), aspect="equal")
    axes.set_axis_off()
    axes.set_title("predictions for one input")


def draw_intervals(axes: Axes, alone: decal.IntervalCredalSet, credal: CoupledCredalSet) -> None:
    """The intervals of both, side by side."""
    y = np.arange(3)
    for c, colour, offset, label in (
        (credal, COUPLED, 0.19, "all at once"),
        (alone, MODEL, -0.19, "one at a time"),
    ):
        low, high = c.lower[0], c.upper[0]
        axes.barh(y + offset, high - low, left=low, height=0.34, color=colour, label=label)
    axes.plot(credal.point[0], y, "o", color="white", mec=MODEL, ms=6, label="best shift", ls="")
    axes.set(yticks=y, xlim=(0, 1), xticks=[0, 0.5, 1], ylim=(3.6, -0.5), xlabel="probability")
    axes.set_yticklabels(NAMES)
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, loc="lower center", ncols=1, borderaxespad=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("intervals")


def coupled(narrow: bool) -> Figure:
    """The region of plausible shifts of three classes, and what it makes of one input."""
    logits, labels = examples()
    model = CoupledDecalibrator(ALPHA, likelihood="mean", tol=1e-6).fit(logits, labels)
    credal = model.predict(QUERY, shifts=True)
    center = model.predict(QUERY, alpha=1.0, shifts=True).lower_shifts[0, 0]
    one = decal.decalibrate(logits, labels, alpha=ALPHA, reference="best")
    edge = boundary(logits, labels, center, ALPHA)
    if narrow:
        figure, (region, simplex, bars) = plt.subplots(
            3, 1, figsize=(NARROW_INCHES, 9), height_ratios=[1.1, 1.1, 0.8], layout="constrained"
        )
    else:
        figure, (region, simplex, bars) = plt.subplots(
            1, 3, figsize=(7.4, 3.1), width_ratios=[1.25, 1.2, 0.8], layout="constrained"
        )
    draw_region(region, edge, center, credal, one.shifts())
    alone = one.predict(QUERY)
    draw_simplex(simplex, edge, alone, credal)
    draw_intervals(bars, alone, credal)
    return figure


def _against_cat(shift: np.ndarray) -> np.ndarray:
    return shift[..., 1:] - shift[..., :1]


def _plane(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return p[..., 1] + p[..., 2] / 2, p[..., 2] * np.sqrt(3) / 2


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "decal"
    plt.rcParams["font.size"] = 9
    plt.rcParams["axes.titlesize"] = 9
    save(coupled(narrow=False), "coupled")
    save(coupled(narrow=True), "coupled_narrow")
