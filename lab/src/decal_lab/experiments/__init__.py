"""The experiments behind `decal reproduce`, each in a file of its own.

Such a file defines a function `experiment` that looks for its data and returns an `Experiment`:
cells, how to compute one, and what the rows show. `harness` runs it; `comparison` trains all
methods. A new experiment is a new file, and a line in the table below. All of them compute with
public names of decal only, so that a user can repeat them without the command.

Imports from `baselines` and `data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from decal_lab.experiments.harness.experiment import Design


@dataclass(frozen=True)
class Listing:
    """An entry of `decal reproduce --list`.

    Attributes
    ----------
    summary : str
        What the experiment shows, in one line.
    module, function : str
        Where it is, below decal_lab.experiments.
    needs : tuple of str
        Kinds of data that it can use, keys of `public_data.NEEDS`: it runs on those available.
    finds_data : bool
        Whether it can do without a folder of data.
    """

    summary: str
    module: str
    function: str = "experiment"
    needs: tuple[str, ...] = ()
    finds_data: bool = False

    @property
    def design(self) -> Design:
        """The function that returns the experiment; imports its module."""
        module = import_module(f"decal_lab.experiments.{self.module}")
        return cast(Design, getattr(module, self.function))


WITH_TRUTH = ("zero-shot logits", "CNN logits", "NLI logits", "FER+ logits", "TabPFN logits")
LOGITS = (*WITH_TRUTH, "ResNet-20 logits", "DermaMNIST logits")
"""Kinds of data of `public_data.NEEDS`: those whose files hold the truth, and all logits."""

EXPERIMENTS = {
    "coverage-efficiency": Listing(
        "Coverage against efficiency, and the published curves",
        "coverage_efficiency",
        needs=("zero-shot logits", "CNN logits", "ResNet-20 logits", "NLI logits"),
    ),
    "networks-together": Listing(
        "One decalibrated network against an ensemble of six",
        "networks_together",
        needs=("CNN logits", "ResNet-20 logits"),
    ),
    "chaosnli": Listing(
        "All credal methods on ChaosNLI, and the published curve", "chaosnli", needs=("NLI logits",)
    ),
    "mriqc": Listing(
        "All credal methods on brain images: a stand-in for QualityMRI",
        "mriqc",
        needs=("MRI ratings",),
    ),
    "solvers": Listing(
        "decal's solver and the published one on the same logits",
        "solvers",
        needs=("ResNet-20 logits", "CNN logits", "zero-shot logits", "NLI logits"),
    ),
    "zero-shot": Listing(
        "CLIP, SigLIP and others: accuracy by language, coverage",
        "zero_shot_models",
        needs=("zero-shot logits", "DermaMNIST logits"),
    ),
    "spider-gallery": Listing(
        "Spiders of the paper's images and of the most uncertain",
        "spider_gallery",
        needs=("zero-shot logits", "DermaMNIST logits"),
    ),
    "single-models": Listing(
        "Accuracy and calibration error of every single model", "single_models", needs=LOGITS
    ),
    "ood": Listing(
        "Out-of-distribution detection, and the published AUROC", "ood", needs=("ResNet-20 logits",)
    ),
    "scores": Listing(
        "AUROC of errors and of unfamiliar inputs by every measure", "compare_scores", needs=LOGITS
    ),
    "ensemble-size": Listing(
        "AUROC by the number of networks in an ensemble",
        "ensemble_size",
        finds_data=True,
    ),
    "runtime": Listing(
        "Seconds to fit, predict and measure, by three solvers",
        "runtime",
        needs=("ResNet-20 logits",),
    ),
    "tabpfn": Listing(
        "TabPFN on TabArena tables, and the published curves",
        "tabpfn",
        needs=("TabPFN logits", "tables"),
    ),
    "active-learning": Listing(
        "Which rows to label next: the most uncertain, or any", "active_learning", needs=("tables",)
    ),
    "alpha-active-learning": Listing(
        "Which rows to label next, at six levels alpha",
        "active_learning",
        "by_alpha",
        needs=("tables",),
    ),
    "directions": Listing(
        "Coverage against efficiency: shifts, temperature or both",
        "compare_directions",
        needs=WITH_TRUTH,
    ),
    "local": Listing(
        "Local sets by reference on all data, and one network against ten",
        "local_sets",
        needs=LOGITS,
    ),
    "validity": Listing(
        "Guaranteed sets: promised and achieved coverage, efficiency", "validity", needs=WITH_TRUTH
    ),
    "ordered": Listing(
        "Ordered classes: intervals against other sets, and a tilt",
        "ordered",
        needs=("ordered ratings",),
    ),
    "raters": Listing(
        "Guaranteed sets by the number of labels per input",
        "raters",
        needs=("zero-shot logits", "CNN logits", "NLI logits", "FER+ logits", "ordered ratings"),
    ),
    "chexpert": Listing(
        "Findings in X-rays: ten models, eight radiologists", "chexpert", needs=("X-ray findings",)
    ),
    "fashion-mnist": Listing(
        "All credal methods on Fashion-MNIST: detection, coverage",
        "fashion_mnist",
        finds_data=True,
        needs=("images",),
    ),
    "yours": Listing(
        "Your method or data beside decal's: see --extra",
        "yours",
        needs=WITH_TRUTH,
        finds_data=True,
    ),
}
"""Every experiment by its name for `decal reproduce`."""
