"""Several networks for the same task: what a Credal Wrapper of them holds, and each one's logits.

On CIFAR-10, networks of different kinds, half of the test images to fit on and half to judge. On
tables, ten small networks that differ in their random state only, with a forest as the truth.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal_lab.experiments.harness.forest_truth import forest
from decal_lab.experiments.harness.logit_sets import (
    HELD_OUT,
    RESNET20,
    TRAINING,
    LogitSplit,
    draw_labels,
    named,
    read,
)
from decal_lab.experiments.harness.tabular_models import all_classes, load, standardised

Array = NDArray[np.float64]

SIX = (
    "cnn_densenet_BC_100_12",
    "cnn_resnet_basic_110",
    "cnn_resnet_preact_bottleneck_164",
    "cnn_resnext_29_8x64d",
    "cnn_vgg_15_BN_64",
    f"{RESNET20}/half",
)
TEN = (
    *SIX,
    "clip_cifar10_en",
    "siglip_cifar10_en",
    "siglip2_cifar10_en",
    "siglip_cifar10_zh",
)
"""Classifiers of CIFAR-10, as data sets of `logit_sets`. The last two of SigLIP are one network
with prompts in two languages: no tenth network is available."""

SMALL_TABLES = ("digits", "wine", "breast cancer")
"""Tables that come with scikit-learn."""

TABLES = {
    "anneal": 46906,
    "maternal health": 46941,
    "splice": 46958,
    "students dropout": 46960,
    "website phishing": 46963,
    "MIC": 46980,
}
"""Tables of TabArena, and their numbers."""

MEMBERS = 10
TEST_SHARE, HELD_OUT_SHARE, MOST_ROWS = 0.3, 1 / 3, 1000
"""A part of all rows is for judging. Of the others, at most MOST_ROWS are used: a part of them is
held out, and the rest is for training."""

LEAST_PROBABILITY = 1e-300


@dataclass(frozen=True)
class Members:
    """Several networks' logits of the same rows.

    Attributes
    ----------
    logits : (M, m, K) array
        Logits to fit on.
    labels : (m,) array
        Their labels.
    new_logits : (M, n, K) array
        Logits of the rows that are judged.
    truth : (n, K) array
        The true distributions of these rows.
    """

    logits: NDArray[Any]
    labels: NDArray[Any]
    new_logits: NDArray[Any]
    truth: NDArray[Any]

    def wrapper(self) -> decal.IntervalCredalSet:
        """The Credal Wrapper's sets: the box around what all networks predict."""
        predictions = softmax(self.new_logits.astype(np.float64), axis=2)
        return decal.HullCredalSet(predictions, axis=0).box()

    def __len__(self) -> int:
        return len(self.logits)

    def alone(self, member: int) -> LogitSplit:
        """One of the networks."""
        return LogitSplit(self.logits[member], self.labels, self.new_logits[member], self.truth)


def same_images(folder: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the data sets of CIFAR-10 that are in a folder and have the first one's labels."""
    found: dict[str, NDArray[Any]] = {}
    for name in names:
        path = folder / named(name).file
        if path.exists():
            key = "test_labels" if named(name).stem == RESNET20 else "labels"
            (found[name],) = read(path, key)
    first = next(iter(found.values()), np.empty(0))
    return tuple(name for name, labels in found.items() if np.array_equal(labels, first))


def cifar10_members(folder: Path, names: Iterable[str], seed: int) -> Members:
    """Networks on CIFAR-10 by the names of their data sets; the seed draws the halves."""
    splits = [named(name).load(folder, seed) for name in names]
    first = splits[0]
    return Members(
        np.stack([split.logits for split in splits]),
        first.labels,
        np.stack([split.new_logits for split in splits]),
        first.truth,
    )


def table_of(folder: Path, name: str) -> tuple[Array, NDArray[np.intp]] | None:
    """Standardised features and labels of a table; None if it, or scikit-learn, is not there."""
    if find_spec("sklearn") is None:
        return None
    if name in TABLES:
        table = load(folder, TABLES[name])
        return None if table is None else (standardised(table), table.labels)
    from sklearn import datasets

    loader = getattr(datasets, f"load_{name.replace(' ', '_')}")
    X, y = loader(return_X_y=True)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def table_members(X: Array, y: NDArray[np.intp], seed: int) -> dict[str, Members]:
    """Ten networks on a table with a forest as the truth, to fit on two kinds of rows.

    The forest learns the given labels of all rows but those judged; new labels are drawn from it.
    The networks are scikit-learn's, with its default settings.

    Returns
    -------
    dict of str to Members
        By what there is to fit on: rows held out of training, and the training rows themselves.
    """
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    K, rng = int(y.max()) + 1, np.random.default_rng(seed)
    judged, others = np.split(rng.permutation(len(y)), [int(TEST_SHARE * len(y))])
    others = others[:MOST_ROWS]
    held_out, training = np.split(others, [int(HELD_OUT_SHARE * len(others))])
    truth = forest(X[others], y[others], K, seed)(X)
    labels = draw_labels(truth, rng)
    networks = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some have not converged after the default epochs
        for member in range(MEMBERS):
            network = MLPClassifier(random_state=MEMBERS * seed + member)
            networks.append(network.fit(X[training], labels[training]))

    def logits(rows: NDArray[np.intp]) -> Array:
        found = []
        for network in networks:
            p = np.maximum(network.predict_proba(X[rows]), LEAST_PROBABILITY)
            found.append(all_classes(np.log(p), network.classes_, K))
        return np.stack(found)

    new = logits(judged)
    return {
        kind: Members(logits(rows), labels[rows], new, truth[judged])
        for kind, rows in ((HELD_OUT, held_out), (TRAINING, training))
    }
