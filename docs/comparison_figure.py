"""Draws coverage against efficiency for docs/comparison.md: python docs/comparison_figure.py

From the rows of a full run of `decal reproduce fashion-mnist`, means over seeds: that run takes half an
hour, a new look of the picture should not.
"""

import csv
from pathlib import Path

import numpy as np

from decal._experiments.harness import figures

FOLDER = Path(__file__).parent / "_static" / "comparison"


def curves() -> dict[str, figures.Tradeoff]:
    """Alpha, coverage and efficiency of every method; 0 for alpha where there is none."""
    with open(FOLDER / "tradeoff.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, list[list[float]]] = {}
    for row in rows:
        numbers = [float(row[name] or 0) for name in ("alpha", "coverage", "efficiency")]
        found.setdefault(row["method"], []).append(numbers)
    return {method: tuple(np.transpose(numbers)) for method, numbers in found.items()}


if __name__ == "__main__":
    for path in figures.save(lambda: figures.tradeoff(curves()), FOLDER, "tradeoff"):
        if path.suffix == ".png":  # for reports; pages show the .svg
            path.unlink()
