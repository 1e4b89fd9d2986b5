"""What the paper published, as data: Hofman et al., ICLR 2026, arXiv 2603.08495.

Result files of the paper's repository, and as "tables" the tables that are only in the paper's text
(zero-shot accuracy, accuracy and calibration error, detection by EDL and DDU), are read from
published.json in the folder of data; `published_tables` has what was entered by hand. Reports show
what they find there next to ours.
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
    one_network : mapping of str to mapping of str to float
        AUROC of EDL and DDU, which need one network each, by the names of `OUT_SETS`; empty if the
        table was not entered.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        self.available = path.exists()
        text = path.read_text(encoding="utf-8") if self.available else "{}"
        self._results: dict[str, dict[str, Any]] = json.loads(text)
        tables = self._results.get("tables", {})
        self.zero_shot_accuracy: dict[str, float] = tables.get("zero-shot accuracy", {})
        self.single_models: dict[str, tuple[float, float]] = tables.get("single models", {})
        self.one_network: dict[str, dict[str, float]] = {
            method: {name.replace("-", "").lower(): value for name, value in by_set.items()}
            for method, by_set in tables.get("detection, single networks", {}).items()
        }

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
