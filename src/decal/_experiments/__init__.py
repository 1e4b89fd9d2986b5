"""The experiments behind `decal reproduce`: each is data × method × measure, in a file of its own.

An experiment computes cells and keeps them as tidy rows (`rows`); tables and figures are rebuilt
from the rows. It uses public names of decal only, so that a user can repeat it without the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from decal._experiments.harness.reports import Report
from decal._experiments.harness.rows import Track


class Run(Protocol):
    """Computes the cells of an experiment that are not in `out` yet, and reports on all of them."""

    def __call__(
        self, data: Path, out: Path, *, seeds: tuple[int, ...], quick: bool, track: Track
    ) -> Report:
        """Read `data`, write into `out`; `track` hands on the cells, for a progress bar."""
        ...


@dataclass(frozen=True)
class Experiment:
    """An entry of `decal reproduce --list`.

    Attributes
    ----------
    summary : one line.
    module, function : where it is, below decal._experiments; imported when it is run.
    finds_data : whether it needs no folder of data, but looks where `decal.datasets` does, too.
    """

    summary: str
    module: str
    function: str = "run"
    finds_data: bool = False

    @property
    def run(self) -> Run:
        """The function that runs it."""
        return cast(Run, getattr(import_module(f"decal._experiments.{self.module}"), self.function))


EXPERIMENTS = {
    "coverage-efficiency": Experiment(
        "Coverage against efficiency on CIFAR-10H and ChaosNLI, published curves beside",
        "coverage_efficiency",
    ),
    "networks-together": Experiment(
        "One decalibrated network against an ensemble of six, on CIFAR-10H", "networks_together"
    ),
    "chaosnli": Experiment(
        "All credal methods, trained here on ChaosNLI, published curve beside", "chaosnli"
    ),
    "solvers": Experiment(
        "The published solver and decal's on the same logits, and the likelihood they reach",
        "solvers",
    ),
    "zero-shot": Experiment(
        "CLIP, SigLIP, SigLIP-2, BiomedCLIP: accuracy in four languages, coverage",
        "zero_shot_models",
    ),
    "spider-gallery": Experiment(
        "The paper's spiders: uncertain inputs, three models, four languages, DermaMNIST",
        "spider_gallery",
    ),
    "single-models": Experiment(
        "Accuracy and calibration error of every single model", "single_models"
    ),
    "ood": Experiment(
        "Out-of-distribution detection: AUROC by alpha, both solvers, published beside", "ood"
    ),
    "ensemble-size": Experiment(
        "AUROC by the number of networks: a live stand-in, published numbers beside",
        "ensemble_size",
    ),
    "runtime": Experiment(
        "Seconds to fit, predict and measure: decal, bisection and the published solver", "runtime"
    ),
    "tabpfn": Experiment(
        "TabPFN on TabArena tables with a semi-synthetic truth, published curves beside", "tabpfn"
    ),
    "active-learning": Experiment(
        "Which rows to label next: epistemic uncertainty against chance", "active_learning"
    ),
    "alpha-active-learning": Experiment("The same by alpha", "active_learning", "run_alphas"),
    "directions": Experiment(
        "Coverage against efficiency, with class shifts, temperature and both", "compare_directions"
    ),
    "fashion-mnist": Experiment(
        "All credal methods, trained here: Fashion-MNIST in, MNIST and notMNIST out",
        "fashion_mnist",
        finds_data=True,
    ),
}
"""Every experiment by the name that `decal reproduce` knows it by."""
