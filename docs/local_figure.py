"""Draws the picture of docs/local.md: python docs/local_figure.py"""

from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from figures import polygon
from matplotlib.axes import Axes
from pictures import NARROW_INCHES
from scipy.special import rel_entr
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import decal

STATIC = Path(__file__).parent / "_static" / "local"
DIGITS = (3, 5, 8)
EFFICIENCY = 0.7
SHOWN = (0.97, 0.75, 0.45)
"""Predicted probabilities of the inputs shown, as close as they come."""

THEMES = {
    "light": {"ball": "#3182bd", "shifts": "#e6550d", "ink": "#262626", "line": "#8c8c8c"},
    "dark": {"ball": "#6baed6", "shifts": "#fdae6b", "ink": "#e6e6e6", "line": "#8c8c8c"},
}


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


def plane(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where distributions lie in the triangle: class 0 left, 1 right, 2 on top."""
    return p[..., 1] + p[..., 2] / 2, p[..., 2] * np.sqrt(3) / 2


def outline(axes: Axes, corners: np.ndarray, **style: object) -> None:
    """A closed polygon."""
    axes.plot(*plane(np.concatenate([corners, corners[:1]])), **style)


def draw(
    axes: Axes,
    row: int,
    sets: list[decal.IntervalCredalSet],
    budget: float,
    colour: dict[str, str],
) -> None:
    """One input: its ball, the ball's box, and the box of class shifts."""
    local, shifts = sets
    outline(axes, np.eye(3), color=colour["line"], lw=0.8)
    for k, (dx, dy) in enumerate([(-0.04, -0.05), (0.04, -0.05), (0, 0.04)]):
        x, y = plane(np.eye(3)[k])
        axes.text(x + dx, y + dy, str(DIGITS[k]), color=colour["ink"], ha="center", va="center")
    center = local.point[row]
    edge = plane(border(center, budget))
    axes.fill(*edge, color=colour["ball"], alpha=0.35, lw=0)
    axes.plot(*edge, color=colour["ball"], lw=1.6, label="ball")
    for sets, name, style in (
        (local, "its box", {"color": colour["ball"], "lw": 1.2, "ls": (0, (4, 2))}),
        (shifts, "class shifts", {"color": colour["shifts"], "lw": 1.6}),
    ):
        outline(axes, polygon(sets.lower[row], sets.upper[row]), label=name, **style)
    axes.plot(*plane(center), "o", color=colour["ink"], ms=4, label="prediction")
    axes.set_aspect("equal")
    axes.set_axis_off()


def main() -> None:
    """Both themes, with panels side by side and below each other."""
    _, logits, labels = examples()
    half = len(logits) // 2
    sets, budgets = [], []
    for directions in ("local", "class"):
        d = decal.Decalibrator(directions=[directions]).fit(logits[:half], labels[:half])
        alpha = decal.choose(d, logits[half:], width=1 - EFFICIENCY)
        sets.append(d.predict(logits[half:], alpha=alpha))
        budgets.append(-np.log(alpha.alpha))
    confidence = sets[0].point.max(axis=1)
    rows = [int(np.abs(confidence - shown).argmin()) for shown in SHOWN]
    STATIC.mkdir(exist_ok=True)
    for (theme, colour), narrow in product(THEMES.items(), (False, True)):
        figure, panels = plt.subplots(
            *((3, 1) if narrow else (1, 3)),
            figsize=(NARROW_INCHES, 8.4) if narrow else (9, 3.1),
            layout="constrained",
        )
        for axes, row in zip(panels, rows, strict=True):
            draw(axes, row, sets, budgets[0], colour)
            axes.set_title(
                f"predicted with {confidence[row]:.2f}", color=colour["ink"], fontsize=10, y=-0.1
            )
        handles = panels[0].get_legend_handles_labels()
        figure.legend(
            *handles,
            loc="outside upper center",
            ncols=2 if narrow else 4,
            frameon=False,
            labelcolor=colour["ink"],
        )
        name = f"ball_narrow_{theme}" if narrow else f"ball_{theme}"
        figure.savefig(STATIC / f"{name}.svg", transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "decal"
    main()
