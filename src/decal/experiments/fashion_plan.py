"""What the comparison on images consists of: methods, levels, sizes, and the columns of its rows.

Nothing here needs PyTorch: reports are written from rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from decal.experiments.curves import levels

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
    "test_images": int,
    "warnings": str,
    "decal": str,
    "numpy": str,
    "commit": str,
    "torch": str,
}


@dataclass(frozen=True)
class Plan:
    """How large a run is.

    Attributes
    ----------
    name : what rows and folders call it; empty for the full run.
    seeds : how many, from the one that was asked for on, unless several were.
    members : networks of every ensemble.
    train, held_out, forest : images of the training part to train on, to fit decalibration on, and
        to learn the truth of drawn labels from; no image serves two purposes.
    test, outside : images to evaluate, in and out of distribution.
    epochs, batch, learning_rate : of all trainings but Evidential's.
    evidential_epochs, evidential_rate : of Evidential's, whose penalty takes ten epochs to grow.
    """

    name: str = ""
    seeds: int = 3
    members: int = 10
    train: int = 10_000
    held_out: int = 5_000
    forest: int = 10_000
    test: int = 5_000
    outside: int = 5_000
    epochs: int = 7
    batch: int = 64
    learning_rate: float = 3e-3
    evidential_epochs: int = 20
    evidential_rate: float = 1e-3

    def all_seeds(self, asked: tuple[int, ...]) -> tuple[int, ...]:
        """Those asked for; of one, also those that follow."""
        return asked if len(asked) > 1 else tuple(range(asked[0], asked[0] + self.seeds))

    def data(self, labels: str) -> str:
        """What rows call the data of a kind of labels."""
        return "/".join(filter(None, ("fashion-mnist", labels, self.name)))


FULL = Plan()
QUICK = Plan(
    name="quick",
    seeds=1,
    members=3,
    train=3_000,
    held_out=2_000,
    forest=3_000,
    test=2_000,
    outside=2_000,
    epochs=4,
    evidential_epochs=10,
)


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


def tasks(seeds: Iterable[int]) -> list[Task]:
    """All that there is to do, longest first within a seed."""
    every = [
        Task(labels, seed, family)
        for seed in seeds
        for labels in (REAL, DRAWN)
        for family in ("bayesian", "ensemble", "crenet", "relative-likelihood", "evidential")
    ]
    return [task for task in every if task.methods]
