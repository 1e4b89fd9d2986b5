"""The experiments behind `decal reproduce`, each in a file of its own.

Such a file defines a function `experiment` that looks for its data and returns an `Experiment`:
cells, how to compute one, and what the rows show. `harness` runs it; `comparison` trains all
methods. A new experiment is a new file, and a line in the table below. All of them compute with
public names of decal only, so that a user can repeat them without the command.

Imports from `public names`, `_io` (to write files), `torch`, `plot`, `datasets` and `baselines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from decal._experiments.harness.experiment import Design


@dataclass(frozen=True)
class Listing:
    """An entry of `decal reproduce --list`.

    Attributes
    ----------
    summary : str
        What the experiment shows, in one line.
    module, function : str
        Where it is, below decal._experiments.
    finds_data : bool
        Whether it needs no folder of data, but also looks where `decal.datasets` does.
    """

    summary: str
    module: str
    function: str = "experiment"
    finds_data: bool = False

    @property
    def design(self) -> Design:
        """The function that returns the experiment; imports its module."""
        module = import_module(f"decal._experiments.{self.module}")
        return cast(Design, getattr(module, self.function))


EXPERIMENTS = {
    "coverage-efficiency": Listing(
        "Coverage against efficiency, and the published curves", "coverage_efficiency"
    ),
    "networks-together": Listing(
        "One decalibrated network against an ensemble of six", "networks_together"
    ),
    "chaosnli": Listing("All credal methods on ChaosNLI, and the published curve", "chaosnli"),
    "solvers": Listing("decal's solver and the published one on the same logits", "solvers"),
    "zero-shot": Listing(
        "CLIP, SigLIP and others: accuracy by language, coverage", "zero_shot_models"
    ),
    "spider-gallery": Listing(
        "Spiders of the paper's images and of the most uncertain", "spider_gallery"
    ),
    "single-models": Listing(
        "Accuracy and calibration error of every single model", "single_models"
    ),
    "ood": Listing("Out-of-distribution detection, and the published AUROC", "ood"),
    "ensemble-size": Listing("AUROC by the number of networks in an ensemble", "ensemble_size"),
    "runtime": Listing("Seconds to fit, predict and measure, by three solvers", "runtime"),
    "tabpfn": Listing("TabPFN on TabArena tables, and the published curves", "tabpfn"),
    "active-learning": Listing(
        "Which rows to label next: the most uncertain, or any", "active_learning"
    ),
    "alpha-active-learning": Listing(
        "Which rows to label next, at six levels alpha", "active_learning", "by_alpha"
    ),
    "directions": Listing(
        "Coverage against efficiency: shifts, temperature or both", "compare_directions"
    ),
    "fashion-mnist": Listing(
        "All credal methods on Fashion-MNIST: detection, coverage", "fashion_mnist", finds_data=True
    ),
}
"""Every experiment by its name for `decal reproduce`."""
