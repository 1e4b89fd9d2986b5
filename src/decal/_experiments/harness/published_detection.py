"""The paper's tables on out-of-distribution detection, entered from files of its repository.

CIFAR-10 against five sets, ResNet-18, mean over three seeds. Source: pwhofman/
efficient-credal-prediction, commit 731e829 (results/ood_runtime.csv) and commit 12d8a65
(plotting.py, plot_ood_vs_ensemble_size, which the authors copied from the paper's table).
"""

from __future__ import annotations

OUT_SETS = {
    "svhn": "SVHN",
    "places365": "Places365",
    "cifar100": "CIFAR-100",
    "fmnist": "Fashion-MNIST",
    "imagenet": "ImageNet",
}
"""Out-of-distribution sets by the names of result files, in the order of the tables below."""

RUNTIME = {
    "EffCre, alpha 0.95": (1068.17, 1.70),
    "CreRL, alpha 0.95": (12675.84, 412.68),
    "CreWra": (21363.34, 33.99),
    "CreEns, alpha 0": (21363.34, 33.99),
    "CreBNN": (29796.67, 12.94),
    "CreNet": (24996.65, 180.12),
}
"""Seconds of training, mean and standard deviation, of ten members, or of one network for EffCre.
EffCre's fit and the measures of all methods are not included (results/ood_runtime.csv)."""

SINGLE = {"EffCre, alpha 0.95": (0.885, 0.862, 0.854, 0.907, 0.826)}
"""AUROC of one decalibrated network (both files)."""

BY_MEMBERS = {
    "CreRL, alpha 0.95": {
        2: (0.892, 0.860, 0.855, 0.900, 0.832),
        5: (0.917, 0.894, 0.885, 0.928, 0.863),
        10: (0.921, 0.905, 0.896, 0.940, 0.872),
        20: (0.917, 0.910, 0.901, 0.945, 0.878),
    },
    "CreWra": {
        2: (0.922, 0.879, 0.880, 0.912, 0.855),
        5: (0.943, 0.904, 0.905, 0.939, 0.879),
        10: (0.953, 0.911, 0.912, 0.948, 0.886),
        20: (0.957, 0.916, 0.916, 0.952, 0.890),
    },
    "CreEns, alpha 0": {
        2: (0.901, 0.872, 0.872, 0.904, 0.848),
        5: (0.938, 0.898, 0.900, 0.929, 0.874),
        10: (0.949, 0.907, 0.909, 0.941, 0.883),
        20: (0.955, 0.913, 0.914, 0.949, 0.888),
    },
    "CreBNN": {
        2: (0.795, 0.764, 0.763, 0.812, 0.747),
        5: (0.843, 0.829, 0.831, 0.851, 0.809),
        10: (0.880, 0.856, 0.859, 0.886, 0.838),
        20: (0.907, 0.885, 0.880, 0.935, 0.859),
    },
    "CreNet": {
        2: (0.929, 0.888, 0.876, 0.925, 0.849),
        5: (0.938, 0.908, 0.900, 0.941, 0.871),
        10: (0.944, 0.915, 0.908, 0.949, 0.881),
        20: (0.943, 0.918, 0.912, 0.951, 0.884),
    },
}
"""AUROC by the number of members, for the sets of OUT_SETS (plotting.py)."""
