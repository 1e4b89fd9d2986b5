"""Data sets with labels to fit on and labels to judge by, some of them with unfamiliar inputs.

`logit_sets` splits files for comparisons with a known truth; here the labels of new rows count, so
that files without a truth serve too: ResNet-20, DermaMNIST. Digits come with scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal_lab.experiments.harness.logit_sets import RESNET20, TITLES, find, read

Array = NDArray[np.float64]

ERRORS = "errors"
"""The name of wrong predictions among what is to be found."""

OUTSIDE = {
    "tinyimagenet": "Tiny-ImageNet",
    "fashionmnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "notmnist": "notMNIST",
    "unseen digits": "unseen digits",
}
"""Unfamiliar inputs by their names in rows of results, and their titles."""

DIGITS, SEEN_DIGITS, HIDDEN, EPOCHS = "digits", 7, 24, 60
"""A small network learns the digits 0 to 6; the others are unfamiliar."""


@dataclass(frozen=True)
class LabelledSplit:
    """Logits and labels to fit on, others to judge by, and logits of unfamiliar inputs by name."""

    logits: Array
    labels: NDArray[np.intp]
    new_logits: Array
    new_labels: NDArray[np.intp]
    outside: Mapping[str, Array] = field(default_factory=dict)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """(n,) whether the model's prediction of a new row is not its label."""
        return np.asarray(self.new_logits.argmax(axis=1) != self.new_labels)

    def first(self, most: int | None) -> LabelledSplit:
        """The same with at most so many new rows, and unfamiliar ones of each kind."""
        return replace(
            self,
            new_logits=self.new_logits[:most],
            new_labels=self.new_labels[:most],
            outside={name: z[:most] for name, z in self.outside.items()},
        )


@dataclass(frozen=True)
class LabelledData:
    """A data set.

    Attributes
    ----------
    title : str
        Its name in tables.
    source : path or plain values
        What its rows depend on.
    load : callable
        From a seed to the split.
    outside : tuple of str
        Which unfamiliar inputs it has.
    drawn : bool
        Whether the seed draws the rows to fit on. If not, every seed gives the same split.
    """

    title: str
    source: Any
    load: Callable[[int], LabelledSplit]
    outside: tuple[str, ...] = ()
    drawn: bool = False


def find_labelled(folder: Path) -> tuple[dict[str, LabelledData], list[str]]:
    """The data sets in a folder by name, and the files that it lacks.

    Languages other than English, splits of ChaosNLI in halves and second seeds of TabPFN are left
    out: they are the same models. Digits are there if scikit-learn is.
    """
    known, absent = find(folder)
    found: dict[str, LabelledData] = {}
    path = folder / f"{RESNET20}.npz"
    if path.exists():
        names = tuple(n for n in OUTSIDE if n in np.load(path, allow_pickle=False).files)
        found[RESNET20] = LabelledData("ResNet-20", path, lambda _: _resnet20(path, names), names)
    else:
        absent.append(path.name)
    for data in known:
        file = folder / data.file
        if data.family in ("zero-shot", "cnn"):
            if data.family == "cnn" or data.name.endswith("_en"):
                title = data.title.removesuffix(", English")
                found[data.name] = LabelledData(title, file, partial(_halves, file), drawn=True)
        elif not data.halves and not data.name.endswith("_seed2"):
            title = data.title.removesuffix(", own split").removesuffix(", seed 1")
            title = f"TabPFN, {title}" if data.family == "tabpfn" else title
            found[data.name] = LabelledData(title, file, partial(_own, file))
    for file in sorted(folder.glob("*_dermamnist_en.npz")):
        model = file.name.partition("_")[0]
        title = f"{TITLES.get(model, model)}, DermaMNIST"
        found[file.stem] = LabelledData(title, file, partial(_own, file))
    file = folder / "fer_ferplus.npz"
    if file.exists():
        found[file.stem] = LabelledData("FER", file, partial(_halves, file), drawn=True)
    if found:
        try:
            import sklearn  # noqa: F401
        except ModuleNotFoundError:
            absent.append("scikit-learn (digits)")
        else:
            settings = (SEEN_DIGITS, HIDDEN, EPOCHS)
            outside = ("unseen digits",)
            found[DIGITS] = LabelledData("MLP, digits", settings, _digits, outside, drawn=True)
    return found, absent


def _resnet20(path: Path, names: tuple[str, ...]) -> LabelledSplit:
    keys = ("cifar10_train", "train_labels", "cifar10_test", "test_labels")
    outside = dict(zip(names, read(path, *names), strict=True))
    return replace(
        _split(path, keys), outside={name: z.astype(np.float64) for name, z in outside.items()}
    )


def _own(path: Path, seed: int) -> LabelledSplit:  # noqa: ARG001 - the file's own split
    keys = ("train_logits", "train_labels", "test_logits", "test_labels")
    return _split(path, keys)


def _halves(path: Path, seed: int) -> LabelledSplit:
    whole = _split(path, ("logits", "labels", "logits", "labels"))
    order = np.random.default_rng(seed).permutation(len(whole.logits))
    fit, new = order[: len(order) // 2], order[len(order) // 2 :]
    return LabelledSplit(whole.logits[fit], whole.labels[fit], whole.logits[new], whole.labels[new])


def _digits(seed: int) -> LabelledSplit:
    """A third of the familiar digits to learn, a third to fit on, a third to judge by."""
    from sklearn.datasets import load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    X, y = load_digits(return_X_y=True)
    X, seen = X / 16.0, y < SEEN_DIGITS
    train, fit, new = np.array_split(
        np.random.default_rng(seed).permutation(np.flatnonzero(seen)), 3
    )
    network = MLPClassifier((HIDDEN,), max_iter=EPOCHS, tol=0.0, n_iter_no_change=EPOCHS,
                            learning_rate_init=0.01, random_state=seed)  # fmt: skip
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of epochs is meant
        network.fit(X[train], y[train])

    def logits(rows: Any) -> Array:
        # Not predict_log_proba, which is normalised: the energy of every row would be 0.
        hidden = np.maximum(X[rows] @ network.coefs_[0] + network.intercepts_[0], 0.0)
        return np.asarray(hidden @ network.coefs_[1] + network.intercepts_[1])

    return LabelledSplit(
        logits(fit), y[fit], logits(new), y[new], {"unseen digits": logits(np.flatnonzero(~seen))}
    )


def _split(path: Path, keys: Sequence[str]) -> LabelledSplit:
    """Logits and labels to fit on, and others to judge by, in double precision."""
    logits, labels, new, new_labels = read(path, *keys)
    wide, whole = np.float64, np.intp
    return LabelledSplit(
        logits.astype(wide), labels.astype(whole), new.astype(wide), new_labels.astype(whole)
    )
