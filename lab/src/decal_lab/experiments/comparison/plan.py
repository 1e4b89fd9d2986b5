"""A comparison of all methods as data: methods, levels, columns of rows, and the size of a run.

Nothing here needs PyTorch, so that reports can be written from rows without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal_lab.experiments.harness.curves import levels
from decal_lab.experiments.harness.rows import FINGERPRINT

Inputs = NDArray[np.float32]

REAL, DRAWN = "real", "drawn"
"""Kinds of labels: those of the data, and labels drawn from a known truth."""

CLASS, BOTH = "Decalibration, class", "Decalibration, class + temperature"
WRAPPER, ENSEMBLING = "Credal Wrapper", "Credal Ensembling"
LIKELIHOOD, CRENET, BAYESIAN = "Credal Relative Likelihood", "CreNet", "Credal Bayesian"
EVIDENTIAL, DDU, DROPOUT = "Evidential", "DDU", "MC dropout"
SOFTMAX, ENTROPY, ENERGY = "Max softmax", "Entropy", "Energy"

FAMILIES = {
    "ensemble": (CLASS, BOTH, WRAPPER, ENSEMBLING, DDU, DROPOUT, SOFTMAX, ENTROPY, ENERGY),
    "relative-likelihood": (LIKELIHOOD,),
    "crenet": (CRENET,),
    "bayesian": (BAYESIAN,),
    "evidential": (EVIDENTIAL,),
}
"""Methods by the networks that they share. Methods of one network take the first of an ensemble."""

CREDAL = (CLASS, BOTH, WRAPPER, ENSEMBLING, LIKELIHOOD, CRENET, BAYESIAN)
ONE_NETWORK = (CLASS, BOTH, SOFTMAX, ENTROPY, ENERGY, DROPOUT, DDU, EVIDENTIAL)
SEVERAL_NETWORKS = (WRAPPER, ENSEMBLING, LIKELIHOOD, CRENET, BAYESIAN)
METHODS = (*ONE_NETWORK, *SEVERAL_NETWORKS)
"""All methods, in the order of tables."""

PUBLISHED = "published"
STYLES = {
    CLASS: ("o", "#0072B2"),
    BOTH: ("s", "#D55E00"),
    WRAPPER: ("D", "#009E73"),
    ENSEMBLING: ("^", "#E69F00"),
    LIKELIHOOD: ("v", "#CC79A7"),
    CRENET: ("P", "#56B4E9"),
    BAYESIAN: ("X", "#7B57C9"),
    PUBLISHED: ("h", "#7f7f7f"),
    DDU: ("*", "#7f7f7f"),
    EVIDENTIAL: ("H", "#7f7f7f"),
    DROPOUT: ("s", "#7f7f7f"),
    SOFTMAX: ("<", "#7f7f7f"),
    ENTROPY: (">", "#7f7f7f"),
    ENERGY: ("d", "#7f7f7f"),
}
"""A mark per method, and a colour, of Okabe and Ito and a violet; grey for scores without sets."""


def line_style(method: str) -> dict[str, str]:
    """The same for `Axes.plot`."""
    marker, colour = STYLES[method]
    return {"color": colour, "marker": marker}


SHOWN = {
    CLASS: (1.0, 0.95, 0.8, 0.5),
    BOTH: (1.0, 0.99, 0.95, 0.8),
    ENSEMBLING: (0.0, 0.2, 0.5),
    LIKELIHOOD: (0.9, 0.8, 0.5, 0.2),
}
"""Levels alpha of the tables, and of all rows with real labels. Other methods have no alpha."""

TENTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CURVE = tuple(sorted({*levels(quick=True), *SHOWN[CLASS], *SHOWN[BOTH]}, reverse=True))
CURVES = {CLASS: CURVE, BOTH: CURVE, ENSEMBLING: TENTHS, LIKELIHOOD: (*TENTHS, 1.0)}
"""Levels of the curves of coverage against efficiency. They include those of the tables."""

OUTSIDE = {"auroc_mnist": "MNIST", "auroc_notmnist": "notMNIST"}
"""Sets of images out of distribution, by the column of their AUROC."""

OTHER_SCORES = {"total": "upper entropy", "width": "width"}
"""What else credal sets are scored by: the ends of columns, and titles."""

OTHER_AUROC = {f"{column}_{end}": column for column in OUTSIDE for end in OTHER_SCORES}
"""Columns of the AUROC of these scores, each with that of the difference of entropies."""

COLUMNS = {
    "data": str,
    "labels": str,
    "method": str,
    "seed": int,
    "alpha": float,  # nan for methods without alpha
    "accuracy": float,
    "ece": float,
    "coverage": float,  # for hulls, of the box around them, like the efficiency
    "coverage_hull": float,  # of the hulls themselves
    "efficiency": float,
    "auroc_mnist": float,
    "auroc_notmnist": float,
    **dict.fromkeys(OTHER_AUROC, float),  # nan for methods without credal sets
    "train_seconds": float,  # of all networks that the method needs, and of fitting
    "predict_seconds": float,  # from the test images to scores (real) or credal sets (drawn)
    "test_inputs": int,
    "warnings": str,
    "decal": str,
    "numpy": str,
    "commit": str,
    "torch": str,
    **FINGERPRINT,
}


@dataclass(frozen=True)
class InputSplit:
    """Inputs and labels of one seed.

    Attributes
    ----------
    train, held_out, test : pair of arrays
        Inputs, which are images (n, C, H, W) or vectors (n, d), and labels (n,). Networks train on
        the first pair and decalibration is fitted on the second, which may be the same. Test inputs
        are in neither.
    truth : (n, K) array or None
        Distributions from which the labels of the test inputs were drawn; None if they are real.
    outside : mapping of str to array
        Inputs out of distribution, by the column of their AUROC.
    """

    train: tuple[Inputs, NDArray[np.intp]]
    held_out: tuple[Inputs, NDArray[np.intp]]
    test: tuple[Inputs, NDArray[np.intp]]
    truth: NDArray[np.float64] | None
    outside: Mapping[str, Inputs]


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """The data and the size of a run.

    Attributes
    ----------
    source : str
        Name of the data in rows and folders.
    classes : int
        Number of classes.
    name : str
        Name of a run of another size in rows and folders; empty for the full run.
    seeds : int
        Number of seeds if one is asked for: that one, and those that follow it.
    members : int
        Number of networks in every ensemble.
    epochs, batch, learning_rate : int, int, float
        Settings of all trainings except Evidential's.
    evidential_epochs, evidential_rate : int, float
        Settings of Evidential, whose penalty takes ten epochs to grow.
    """

    source: str
    classes: int
    name: str = ""
    seeds: int = 3
    members: int = 10
    epochs: int
    batch: int = 64
    learning_rate: float
    evidential_epochs: int = 20
    evidential_rate: float = 1e-3

    @abstractmethod
    def prepare(self, labels: str, seed: int, folder: Path, out: Path) -> InputSplit:
        """The inputs of a seed with this kind of labels; results may be kept in `out`."""

    @abstractmethod
    def contents(self, labels: str, folder: Path) -> dict[str, Any]:
        """The available data that rows with this kind of labels depend on, by name."""

    def data(self, labels: str) -> str:
        """The name in rows of the data with one kind of labels."""
        return "/".join(filter(None, (self.source, labels, self.name)))


@dataclass(frozen=True)
class TrainingTask:
    """Networks that one process trains, and all methods that use them."""

    labels: str
    seed: int
    family: str

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that apply: only credal methods can cover a truth."""
        wanted = CREDAL if self.labels == DRAWN else METHODS
        return tuple(method for method in FAMILIES[self.family] if method in wanted)

    def levels(self, method: str) -> tuple[float, ...]:
        """Levels alpha of a method; empty if it has no alpha."""
        return (CURVES if self.labels == DRAWN else SHOWN).get(method, ())


def tasks(seeds: Iterable[int], kinds: Iterable[str]) -> list[TrainingTask]:
    """All tasks with these kinds of labels; within a seed, the longest come first."""
    every = [
        TrainingTask(labels, seed, family)
        for seed in seeds
        for labels in kinds
        for family in ("bayesian", "ensemble", "crenet", "relative-likelihood", "evidential")
    ]
    return [task for task in every if task.methods]
