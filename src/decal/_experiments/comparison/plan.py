"""What a comparison of all methods consists of: methods, levels, and the columns of its rows.

Nothing here needs PyTorch: reports are written from rows alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decal._experiments.harness.curves import levels

Inputs = NDArray[np.float32]

REAL, DRAWN = "real", "drawn"
"""Kinds of labels: those of the data, and labels drawn from a truth that is known therefore."""

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
"""Methods by the networks they share: those of an ensemble, the first of them, or their own."""

CREDAL = (CLASS, BOTH, WRAPPER, ENSEMBLING, LIKELIHOOD, CRENET, BAYESIAN)
ONE_NETWORK = (CLASS, BOTH, SOFTMAX, ENTROPY, ENERGY, DROPOUT, DDU, EVIDENTIAL)
SEVERAL_NETWORKS = (WRAPPER, ENSEMBLING, LIKELIHOOD, CRENET, BAYESIAN)
METHODS = (*ONE_NETWORK, *SEVERAL_NETWORKS)
"""In the order of tables."""

SHOWN = {
    CLASS: (1.0, 0.95, 0.8, 0.5),
    BOTH: (1.0, 0.99, 0.95, 0.8),
    ENSEMBLING: (0.0, 0.2, 0.5),
    LIKELIHOOD: (0.9, 0.8, 0.5, 0.2),
}
"""Levels alpha of the tables: all that are computed with real labels. Others have no alpha."""

TENTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CURVE = tuple(sorted({*levels(quick=True), *SHOWN[CLASS], *SHOWN[BOTH]}, reverse=True))
CURVES = {CLASS: CURVE, BOTH: CURVE, ENSEMBLING: TENTHS, LIKELIHOOD: (*TENTHS, 1.0)}
"""Levels of coverage against efficiency, those of the tables among them."""

OUTSIDE = {"auroc_mnist": "MNIST", "auroc_notmnist": "notMNIST"}
"""Sets of images that are out of distribution, by their column."""

COLUMNS = {
    "data": str,
    "labels": str,
    "method": str,
    "seed": int,
    "alpha": float,  # nan for methods that have none
    "accuracy": float,
    "ece": float,
    "coverage": float,  # of hulls: by the box around them, as the efficiency is
    "coverage_hull": float,  # of the hulls themselves
    "efficiency": float,
    "auroc_mnist": float,
    "auroc_notmnist": float,
    "train_seconds": float,  # of all networks that the method needs, and of fitting
    "predict_seconds": float,  # from the test images to scores (real) or credal sets (drawn)
    "test_inputs": int,
    "warnings": str,
    "decal": str,
    "numpy": str,
    "commit": str,
    "torch": str,
}


@dataclass(frozen=True)
class Split:
    """Inputs of one seed, disjoint but where said, with labels (n,).

    Attributes
    ----------
    train, held_out, test : inputs, images (n, C, H, W) or vectors (n, d), and labels. Networks
        train on the first, decalibration is fitted on the second: where a plan says so, the same.
    truth : (n, K) distributions that the labels of the test inputs were drawn from; None if the
        labels are real.
    outside : inputs of other kinds, by the column of their AUROC.
    """

    train: tuple[Inputs, NDArray[np.intp]]
    held_out: tuple[Inputs, NDArray[np.intp]]
    test: tuple[Inputs, NDArray[np.intp]]
    truth: NDArray[np.float64] | None
    outside: Mapping[str, Inputs]


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """How large a run is, and on what data.

    Attributes
    ----------
    source : what rows and folders call the data.
    name : what they call a run of another size; empty for the full run.
    classes : how many there are.
    seeds : how many, from the one that was asked for on, unless several were.
    members : networks of every ensemble.
    epochs, batch, learning_rate : of all trainings but Evidential's.
    evidential_epochs, evidential_rate : of Evidential's, whose penalty takes ten epochs to grow.
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
    def prepare(self, labels: str, seed: int, folder: Path, out: Path) -> Split:
        """The inputs of a seed, with this kind of labels; what is computed may be kept in `out`."""

    def all_seeds(self, asked: tuple[int, ...]) -> tuple[int, ...]:
        """Those asked for; of one, also those that follow."""
        return asked if len(asked) > 1 else tuple(range(asked[0], asked[0] + self.seeds))

    def data(self, labels: str) -> str:
        """What rows call the data of a kind of labels."""
        return "/".join(filter(None, (self.source, labels, self.name)))


@dataclass(frozen=True)
class Task:
    """Networks trained together, and all methods that use them: what a process does at a time."""

    labels: str
    seed: int
    family: str

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that apply: only credal methods can cover a truth."""
        wanted = CREDAL if self.labels == DRAWN else METHODS
        return tuple(method for method in FAMILIES[self.family] if method in wanted)

    def levels(self, method: str) -> tuple[float, ...]:
        """Levels alpha of a method; none if it has no alpha."""
        return (CURVES if self.labels == DRAWN else SHOWN).get(method, ())


def tasks(seeds: Iterable[int], kinds: Iterable[str]) -> list[Task]:
    """All that there is to do with these kinds of labels, longest first within a seed."""
    every = [
        Task(labels, seed, family)
        for seed in seeds
        for labels in kinds
        for family in ("bayesian", "ensemble", "crenet", "relative-likelihood", "evidential")
    ]
    return [task for task in every if task.methods]
