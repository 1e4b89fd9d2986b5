"""The demo: a classifier of handwritten digits, decalibrated, in a few seconds.

The truth is semi-synthetic, as in the paper's appendix: a random forest of depth 5 learns the
digits, its probabilities are declared to be the truth, and all labels are drawn from them. So every
image has a known distribution that a credal set can cover or miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal import files, metrics
from decal._numerics import Array
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator, decalibrate

PAPER_ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
"""The levels of the paper's tables of coverage and efficiency."""

TRAINING, CALIBRATION = 900, 450
"""Images to train the classifier and to decalibrate it; the other 447 are for testing."""

PENALTIES = (0.05, 0.15, 0.5, 1.5)
"""Inverse strengths of the ridge penalty to choose from, for pixels between 0 and 1."""

SHOWN = 5
SHADES = " ░▒▓█"


@dataclass(frozen=True)
class Demo:
    """What the demo found on its n test images.

    Attributes
    ----------
    model : fitted on the calibration images.
    credal : (n, 10) the prediction at alpha = 0.8.
    truth : (n, 10) the distributions the labels were drawn from.
    labels : (n,) the labels drawn.
    images : (n, 8, 8) grey levels 0 to 16.
    coverage, efficiency : at each of the paper's eight alphas.
    most_uncertain : the five rows of the widest intervals, widest first.
    folder : where the files are.
    """

    model: Decalibrator
    credal: IntervalCredalSet
    truth: Array
    labels: NDArray[np.intp]
    images: Array
    coverage: tuple[float, ...]
    efficiency: tuple[float, ...]
    most_uncertain: tuple[int, ...]
    folder: Path


def run_demo(seed: int = 0, folder: Path = Path("decal-demo")) -> Demo:
    """Train, decalibrate and test a classifier of digits, and write a small folder of results.

    The classifier is a logistic regression whose penalty is chosen by cross-validation on its
    training images. Its logits on other images, with their labels, fit the Decalibrator.

    Parameters
    ----------
    seed : for the split, the forest and the labels.
    folder : created if need be. Gets model.npz, test.csv (logits and labels), truth.csv, table.csv
        (coverage and efficiency) and credal.parquet; an earlier demo's files are replaced.
    """
    images, truth, labels = _semi_synthetic_digits(seed)
    pixels = images.reshape(len(images), -1) / 16
    order = np.random.default_rng(seed).permutation(len(images))
    train, calibration, test = np.split(order, [TRAINING, TRAINING + CALIBRATION])

    classifier = _train(pixels[train], labels[train])
    names = [str(digit) for digit in range(truth.shape[1])]
    model = decalibrate(
        classifier.decision_function(pixels[calibration]),
        labels[calibration],
        alpha=0.8,
        classes=names,
    )
    logits = classifier.decision_function(pixels[test])
    sets = [model.predict(logits, alpha=alpha) for alpha in PAPER_ALPHAS]
    credal = model.predict(logits)
    widths = np.mean(credal.upper - credal.lower, axis=1)
    demo = Demo(
        model=model,
        credal=credal,
        truth=truth[test],
        labels=labels[test],
        images=images[test],
        coverage=tuple(metrics.coverage(c, truth[test]) for c in sets),
        efficiency=tuple(metrics.efficiency(c) for c in sets),
        most_uncertain=tuple(int(row) for row in np.argsort(-widths, kind="stable")[:SHOWN]),
        folder=folder,
    )
    _write(demo, logits, names)
    return demo


def block_art(image: Array) -> list[str]:
    """An image of grey levels 0 to 16 as lines of shaded blocks, two characters per pixel."""
    shade = np.minimum(image * len(SHADES) / 16, len(SHADES) - 1).astype(int)
    return ["".join(2 * SHADES[level] for level in row) for row in shade]


def _semi_synthetic_digits(seed: int) -> tuple[Array, Array, NDArray[np.intp]]:
    """Images, their true distributions, and labels drawn from these."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
        from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ImportError(
            "decal demo needs scikit-learn: pip install 'decal[cli,sklearn]'"
        ) from error
    digits = load_digits()
    forest = RandomForestClassifier(max_depth=5, random_state=seed)
    truth = forest.fit(digits.data, digits.target).predict_proba(digits.data)
    draw = np.random.default_rng([seed, 1]).random((len(truth), 1))
    labels = np.argmax(truth.cumsum(axis=1) > draw, axis=1)
    return digits.images, truth, labels


def _train(pixels: Array, labels: NDArray[np.intp]) -> Any:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.model_selection import GridSearchCV  # type: ignore[import-untyped]
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    search = GridSearchCV(
        LogisticRegression(max_iter=1000), {"C": PENALTIES}, scoring="neg_log_loss", cv=5
    )
    # On matrices this small the threads of a linear algebra library mostly wait for each other.
    with threadpool_limits(1):
        return search.fit(pixels, labels)


def _write(demo: Demo, logits: Array, names: list[str]) -> None:
    demo.folder.mkdir(parents=True, exist_ok=True)
    demo.model.save(demo.folder / "model.npz")
    columns = dict(zip(names, logits.T, strict=True))
    files.write_columns(demo.folder / "test.csv", {**columns, "label": demo.labels})
    truth = dict(zip(names, demo.truth.T, strict=True))
    files.write_columns(demo.folder / "truth.csv", truth)
    files.write_columns(
        demo.folder / "table.csv",
        {"alpha": PAPER_ALPHAS, "coverage": demo.coverage, "efficiency": demo.efficiency},
    )
    files.write_credal(demo.folder / "credal.parquet", [demo.credal])
