"""Draws the picture of the README from the demo: python docs/figures.py"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from decal.demo import run_demo

STATIC = Path(__file__).parent / "_static"
WIDE, NARROW, MODEL, TRUTH = "#9ecae1", "#3182bd", "#08306b", "#e6550d"


def digits() -> None:
    """Intervals of a sure and of an unsure digit at two alphas, around the model's prediction."""
    with tempfile.TemporaryDirectory() as folder:
        demo = run_demo(seed=0, folder=Path(folder))
        wide, narrow = (demo.model.predict(_logits(folder), alpha=a) for a in (0.8, 0.95))
    width = np.mean(wide.upper - wide.lower, axis=1)
    rows = [int(width.argmin()), demo.most_uncertain[0]]
    figure, axes = plt.subplots(
        1, 4, figsize=(9, 3), width_ratios=[1, 2.2, 1, 2.2], layout="constrained"
    )
    for row, (picture, bars) in zip(rows, axes.reshape(2, 2), strict=True):
        picture.imshow(-demo.images[row], cmap="gray")
        picture.set_axis_off()
        y = np.arange(10)
        for credal, colour, label in ((wide, WIDE, "α = 0.8"), (narrow, NARROW, "α = 0.95")):
            low, high = credal.lower[row], credal.upper[row]
            bars.barh(y, high - low, left=low, color=colour, height=0.7, label=label)
        bars.plot(wide.point[row], y, "|", color=MODEL, ms=11, mew=2, label="model")
        bars.plot(demo.truth[row], y, "o", color=TRUTH, ms=5, label="truth")
        bars.set(yticks=y, xlim=(-0.02, 1.02), xlabel="probability")
        bars.invert_yaxis()
        bars.spines[["top", "right"]].set_visible(False)
    axes[3].legend(frameon=False, loc="lower right")
    figure.savefig(STATIC / "digits.svg", facecolor="white", metadata={"Date": None})


def _logits(folder: str) -> np.ndarray:
    return np.loadtxt(Path(folder) / "test.csv", delimiter=",", skiprows=1)[:, :10]


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "decal"
    digits()
