"""Real rows for benchmarks that judge by labels: logits and labels of rows no model was trained on.

Digits and tumours come with scikit-learn; tables and the logits of networks from DECAL_DATA.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decal_lab.data import tabarena

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Rows = tuple[Array, Labels]

LOGITS = {
    "CLIP, CIFAR-10": "clip_cifar10_en",
    "CLIP, Swahili prompts": "clip_cifar10_sw",
    "SigLIP": "siglip_cifar10_en",
    "SigLIP-2": "siglip2_cifar10_en",
    "VGG-15": "cnn_vgg_15_BN_64_test",
    "ResNet-110": "cnn_resnet_basic_110_test",
    "DenseNet-BC": "cnn_densenet_BC_100_12_test",
    "faces (FER)": "fer_ferplus",
    "CLIP, DermaMNIST": "clip_dermamnist_en",
    "BiomedCLIP, DermaMNIST": "biomedclip_dermamnist_en",
    "RoBERTa, SNLI": "snli_roberta0",
    "RoBERTa, MNLI": "mnli_roberta0",
    "BERT, SNLI": "snli_bert0",
}
"""Files of DECAL_DATA by what they hold."""

TABLES = {"anneal": 46906, "MIC": 46980, "students": 46960, "maternal health": 46941}
"""Tables of DECAL_DATA, all but the last imbalanced, by their numbers at OpenML."""

SIX_TABLES = TABLES | {"splice": 46958, "phishing": 46963}

LEARNT = 0.4
"""Share of a table that the classifier learns from."""

FLOOR = 1e-12


def sets(names: Iterable[str] = ()) -> dict[str, Callable[[int], Rows]]:
    """What there is, by name: from a seed to logits and labels. Those asked for, or all."""
    found: dict[str, Callable[[int], Rows]] = {"digits": digits, "tumours": tumours}
    folder = os.environ.get("DECAL_DATA")
    if folder:
        at = Path(folder)
        found |= {name: partial(table, at, number) for name, number in TABLES.items()}
        found |= {
            name: partial(published, at / f"{file}.npz")
            for name, file in LOGITS.items()
            if (at / f"{file}.npz").exists()
        }
    chosen = list(names) or list(found)
    return {name: found[name] for name in chosen}


def published(path: Path, seed: int) -> Rows:  # noqa: ARG001 - rows are what they are
    """Logits of new rows and their labels."""
    with np.load(path, allow_pickle=False) as data:
        logits = next(
            data[name] for name in ("test_logits", "cifar10_test", "logits") if name in data
        )
        labels = data["test_labels" if "test_labels" in data else "labels"]
        return logits.astype(np.float64), labels.astype(np.intp)


def digits(seed: int) -> Rows:
    """A logistic regression of 10 digits, learnt from 300 images; 1,497 others."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order] / 16, y[order]
    model = LogisticRegression(C=1.0, max_iter=5000).fit(X[:300], y[:300])
    return model.decision_function(X[300:]), y[300:]


def tumours(seed: int) -> Rows:
    """A boosting of two kinds of tumours, learnt from 169 patients; 400 others."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return boosted(X, y, seed, 169)


def table(folder: Path, number: int, seed: int) -> Rows:
    """A boosting of a table, learnt from 40 % of its rows; the others."""
    rows = tabarena(number, folder=folder, download=False)
    return boosted(rows.matrix(), rows.labels, seed, round(LEARNT * len(rows)))


def boosted_tables(folder: Path) -> dict[str, Callable[[int], Rows]]:
    """All six tables, by name."""
    return {name: partial(table, folder, number) for name, number in SIX_TABLES.items()}


def boosted(X: Array, y: Labels, seed: int, learnt: int) -> Rows:
    """Log-probabilities of gradient boosting, as people run it, for rows it has not seen."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    # Every class is among the rows to learn from, or the model would have no column for it.
    first = np.unique(y, return_index=True)[1]
    order = np.concatenate([first, np.setdiff1d(np.arange(len(y)), first)])
    X, y = X[order], y[order]
    X = X[:, [len(np.unique(c[~np.isnan(c)])) > 1 for c in X[:learnt].T]]
    model = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = model.fit(X[:learnt], y[:learnt]).predict_proba(X[learnt:])
    return np.log(np.maximum(p, FLOOR)), y[learnt:]
