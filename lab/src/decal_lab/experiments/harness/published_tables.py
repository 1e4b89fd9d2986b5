"""The paper's tables and lists, entered by hand from files of its repository.

Detection: CIFAR-10 against five sets, ResNet-18, mean over three seeds. Source: pwhofman/
efficient-credal-prediction, commit 731e829 (results/ood_runtime.csv) and commit 12d8a65
(plotting.py, plot_ood_vs_ensemble_size, which the authors copied from the paper's table). The
numbers themselves are in published_tables.json.
"""

from __future__ import annotations

import json
from importlib.resources import files

_ENTERED = json.loads(
    (files("decal_lab.experiments.harness") / "published_tables.json").read_text(encoding="utf-8")
)

OUT_SETS = {
    "svhn": "SVHN",
    "places365": "Places365",
    "cifar100": "CIFAR-100",
    "fmnist": "Fashion-MNIST",
    "imagenet": "ImageNet",
}
"""Out-of-distribution sets by the names of result files, in the order of the AUROC below."""

RUNTIME: dict[str, tuple[float, float]] = _ENTERED["seconds of training"]
"""Seconds of training, mean and standard deviation, of ten members, or of one network for EffCre.
EffCre's fit and the measures of all methods are not included (results/ood_runtime.csv)."""

SINGLE: dict[str, tuple[float, ...]] = _ENTERED["AUROC of one network"]
"""AUROC of one decalibrated network (both files)."""

BY_MEMBERS: dict[str, dict[int, tuple[float, ...]]] = {
    method: {int(size): values for size, values in by_size.items()}
    for method, by_size in _ENTERED["AUROC by members"].items()
}
"""AUROC by the number of members, for the sets of OUT_SETS (plotting.py)."""

MOST_EPISTEMIC: dict[str, tuple[int, ...]] = _ENTERED["most epistemic"]
MOST_ALEATORIC: dict[str, tuple[int, ...]] = _ENTERED["most aleatoric"]
"""The twenty CIFAR-10 test images of most epistemic and of most aleatoric uncertainty at alpha 0.8,
the most uncertain first: lists in clip_experiments.py."""

SPIDERS = {
    "main": (("clip", 1600, 0.8), ("clip", 250, 0.8), ("clip", 2187, 0.9), ("clip", 8854, 0.9),
             ("siglip", 4821, 0.9), ("siglip", 5227, 0.9), ("siglip", 9216, 0.9)),
}  # fmt: skip
"""Model, image and alpha of the spiders in the main paper: names in paper_plots/main_paper."""

COMPARED_IMAGES = (2187, 5227, 6239, 6750, 8854)
LANGUAGE_IMAGE = 6252
DERMA_IMAGES = (845, 1187)
"""Images of the appendix's spiders, alpha 0.9: names in paper_plots/appendix/clip_results."""
