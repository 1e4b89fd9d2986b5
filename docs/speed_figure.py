"""Draws the picture of docs/speed.md: python docs/speed_figure.py, then python docs/dark.py

From docs/_static/speed.json, which `python benchmarks/recommended.py --out docs/_static/speed`
writes.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pictures import NARROW_INCHES

STATIC = Path(__file__).parent / "_static"
COLOURS = {
    "softmax": "#737373",
    "predict, class": "#0072b2",
    "predict, local": "#009e73",
    "predict, class + temperature": "#e69f00",
    "fit, local, best": "#d55e00",
}
PANELS = {"rows": ("n", "rows, 10 classes"), "classes": ("K", "classes, 1,000 rows")}


def draw(axes: Axes, over: str, found: list[dict]) -> None:
    """Seconds of every work over rows or classes."""
    size, label = PANELS[over]
    for work, colour in COLOURS.items():
        rows = [row for row in found if row["over"] == over and row["work"] == work]
        style = "--" if work == "softmax" else "o-"
        x, y = [row[size] for row in rows], [row["s"] for row in rows]
        axes.loglog(x, y, style, color=colour, ms=3.5, lw=1.2, label=work)
    axes.set(xlabel=label, ylabel="seconds")
    axes.grid(color="#d6d6d6", lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def curves(found: list[dict], narrow: bool) -> Figure:
    """Time over rows and over classes."""
    shape, size = ((2, 1), (NARROW_INCHES, 6.6)) if narrow else ((1, 2), (6.4, 3.3))
    figure, panels = plt.subplots(*shape, figsize=size, layout="constrained")
    for axes, over in zip(panels, PANELS, strict=True):
        draw(axes, over, found)
    handles, names = panels[0].get_legend_handles_labels()
    columns = 2 if narrow else 3
    lines = "Time grows with the data,", "as that of a softmax does"
    figure.suptitle(("\n" if narrow else " ").join(lines), fontsize=10)
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)
    return figure


if __name__ == "__main__":
    measured = json.loads((STATIC / "speed.json").read_text(encoding="utf-8"))["scaling"]
    for narrow, name in ((False, "speed_scaling"), (True, "speed_scaling_narrow")):
        with plt.rc_context({"svg.hashsalt": "decal", "font.size": 9}):
            figure = curves(measured, narrow)
            figure.savefig(STATIC / f"{name}.svg", facecolor="white", metadata={"Date": None})
