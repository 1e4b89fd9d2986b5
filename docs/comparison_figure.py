"""Draws coverage against efficiency for docs/comparison.md: python docs/comparison_figure.py

From rows of full runs, means over seeds, of `decal reproduce fashion-mnist` (tradeoff.csv) and of
`decal reproduce chaosnli`. The runs take half an hour; a new look of the pictures should not. The
rows were read back from the pictures of those runs, which hold every point to six digits, and agree
with table.md.
"""

import csv
from functools import partial
from pathlib import Path

import numpy as np

from decal._experiments.harness import figures

FOLDER = Path(__file__).parent / "_static" / "comparison"


def curves(name: str) -> dict[str, figures.Tradeoff]:
    """Alpha, coverage and efficiency of every method; 0 for alpha where there is none."""
    with open(FOLDER / f"{name}.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, list[list[float]]] = {}
    for row in rows:
        numbers = [float(row[column] or 0) for column in ("alpha", "coverage", "efficiency")]
        found.setdefault(row["method"], []).append(numbers)
    return {method: tuple(np.transpose(numbers)) for method, numbers in found.items()}


if __name__ == "__main__":
    for name in ("tradeoff", "chaosnli"):
        for path in figures.save(partial(figures.tradeoff, curves(name)), FOLDER, name):
            if path.suffix == ".png":  # for reports; pages show the .svg
                path.unlink()
