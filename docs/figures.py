"""What scripts that draw pictures on white share: boxes of three classes, and how to save."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

STATIC = Path(__file__).parent / "_static"


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


def save(figure: Figure, name: str) -> None:
    """The figure as NAME.svg, on white."""
    # The layout may differ by round-off from run to run, and ids in the file depend on it.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position(np.round(axes.get_position(original=True).bounds, 4))
    figure.savefig(STATIC / f"{name}.svg", facecolor="white", metadata={"Date": None})
    plt.close(figure)
