"""What the paper published, as data: Hofman et al., ICLR 2026, arXiv 2603.08495.

Result files of the paper's repository are read from published.json in the folder of data. Numbers
entered here by hand name the file of the repository that they come from; `published_detection` has
the tables on detection and run time. The tables of accuracy and calibration error are only in the
paper's text, which was not available, and nothing is entered from memory. Who has them can add them
to published.json, as "tables" (docs/reproducing.md shows how); reports then show them next to ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

REPOSITORY = "pwhofman/efficient-credal-prediction"
FILE = "published.json"

ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
"""Levels of every published curve (eval_cov_eff_ood.py)."""

PUBLISHED_CURVE_WITHIN = 0.006
"""How far our coverage and efficiency may lie from those published for the same model."""

MOST_EPISTEMIC = {
    "clip": (
        2777, 5829, 5881, 1082, 1600, 2658, 655, 9544, 3596, 753,
        6518, 4295, 4800, 6006, 384, 3483, 9391, 3056, 7518, 7423,
    ),
    "siglip": (
        3871, 689, 949, 9015, 8501, 8159, 8666, 7803, 4258, 6162,
        4586, 3289, 428, 2788, 8679, 9054, 8431, 7453, 1613, 2130,
    ),
    "siglip2": (
        2153, 7765, 3871, 5034, 9000, 8843, 4294, 2118, 2374, 8732,
        6794, 242, 6432, 9015, 3698, 7193, 722, 496, 8247, 6433,
    ),
}  # fmt: skip
MOST_ALEATORIC = {
    "clip": (
        3070, 5626, 9936, 9346, 2520, 3412, 5250, 8322, 8376, 9621,
        5424, 9613, 6475, 5759, 943, 1406, 5806, 9688, 4977, 8526,
    ),
    "siglip": (
        6345, 2931, 587, 1095, 5224, 632, 3870, 8538, 8218, 3357,
        5361, 9350, 7061, 7176, 8323, 2232, 9216, 8220, 9255, 3970,
    ),
    "siglip2": (
        3494, 4652, 232, 5213, 7784, 4814, 7238, 2270, 2635, 1594,
        4012, 6127, 3864, 8902, 4210, 8971, 8318, 4730, 5733, 8840,
    ),
}  # fmt: skip
"""The twenty CIFAR-10 test images of most epistemic and of most aleatoric uncertainty at alpha 0.8,
first the most uncertain: lists in clip_experiments.py."""

SPIDERS = {
    "main": (("clip", 1600, 0.8), ("clip", 250, 0.8), ("clip", 2187, 0.9), ("clip", 8854, 0.9),
             ("siglip", 4821, 0.9), ("siglip", 5227, 0.9), ("siglip", 9216, 0.9)),
}  # fmt: skip
"""Model, image and alpha of the spiders in the main paper: names in paper_plots/main_paper."""

COMPARED_IMAGES = (2187, 5227, 6239, 6750, 8854)
LANGUAGE_IMAGE = 6252
DERMA_IMAGES = (845, 1187)
"""Images of the appendix's spiders, alpha 0.9: names in paper_plots/appendix/clip_results."""


@dataclass(frozen=True)
class PublishedCurve:
    """A measured curve of each of one or more seeds.

    Attributes
    ----------
    seeds : tuple of int
        Seeds of the runs.
    alpha : (A,) array
        Rising levels.
    values : mapping of str to (seeds, A) array
        Numbers by measure: "coverage", "efficiency" or "auroc".
    """

    seeds: tuple[int, ...]
    alpha: Array
    values: Mapping[str, Array]

    def mean(self, measure: str) -> Array:
        """(A,) over the seeds."""
        return np.asarray(self.values[measure].mean(axis=0))

    def path(self) -> tuple[Array, Array, Array]:
        """Alpha, coverage and efficiency, to draw."""
        return self.alpha, self.mean("coverage"), self.mean("efficiency")

    def at(self, measure: str, alpha: float) -> float:
        """The mean over the seeds at one of the levels; NaN at others."""
        found = np.flatnonzero(np.isclose(self.alpha, alpha, rtol=0, atol=1e-12))
        return float(self.mean(measure)[found[0]]) if found.size else float("nan")


class Published:
    """The published results in a folder; there are none without published.json.

    Parameters
    ----------
    folder : path
        Folder of data.

    Attributes
    ----------
    available : bool
        Whether the folder holds published.json.
    zero_shot_accuracy : mapping of str to float
        Percent by the name of the file of logits; empty if the table was not entered.
    single_models : mapping of str to pair of float
        Accuracy in percent and calibration error by name; empty if the table was not entered.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        self.available = path.exists()
        text = path.read_text(encoding="utf-8") if self.available else "{}"
        self._results: dict[str, dict[str, Any]] = json.loads(text)
        tables = self._results.get("tables", {})
        self.zero_shot_accuracy: dict[str, float] = tables.get("zero-shot accuracy", {})
        self.single_models: dict[str, tuple[float, float]] = tables.get("single models", {})

    def coverage(self, data: str, model: str) -> PublishedCurve | None:
        """Coverage and efficiency of decalibration: data "cifar10", model "clip" for instance."""
        return self._curve(f"cov_eff_{data}_{model}", ("coverage", "efficiency"))

    def ood(self, inside: str, outside: str, model: str) -> PublishedCurve | None:
        """AUROC of decalibration by the difference of entropies."""
        return self._curve(f"ood_{inside}_{outside}_{model}", ("auroc",))

    def active_learning(self, table: int, strategy: str) -> dict[str, Any] | None:
        """The published accuracy curve of "random", "entropy_0.8_mle", "zero_one_0.8_mle", …"""
        return self._results.get("active_learning", {}).get(f"al_{table}_{strategy}")

    def _curve(self, stem: str, measures: tuple[str, ...]) -> PublishedCurve | None:
        found = {
            int(match[1]): entry
            for name, entry in self._results.get("effcre", {}).items()
            if (match := re.fullmatch(rf"{re.escape(stem)}_(\d+)", name))
        }
        if not found:
            return None
        runs = [found[seed] for seed in sorted(found)]
        values = {m: np.array([run[m] for run in runs], dtype=float) for m in measures}
        return PublishedCurve(tuple(sorted(found)), np.array(runs[0]["alpha"], dtype=float), values)
