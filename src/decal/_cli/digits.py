"""The demo: a classifier of handwritten digits, decalibrated, in a few seconds.

The truth is semi-synthetic, as in the paper's appendix: a random forest of depth 5 learns the
digits, its probabilities are declared to be the truth, and all labels are drawn from them. So every
image has a known distribution that a credal set can cover or miss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal import metrics, selection
from decal._base.numerics import Array
from decal._io.whole_files import replacing
from decal._io.writers import write_columns, write_credal
from decal.acquisition import most_uncertain
from decal.credal._boxes import IntervalCredalSet
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
    model : Decalibrator
        Fitted on the calibration images.
    credal : IntervalCredalSet
        (n, 10) the prediction at alpha = 0.8.
    truth : (n, 10) array
        The distributions the labels were drawn from.
    labels : (n,) array
        The labels drawn.
    images : (n, 8, 8) array
        Grey levels 0 to 16.
    coverage, efficiency : tuple of float
        At each of the paper's eight alphas.
    most_uncertain : tuple of int
        The first five rows of `decal.acquisition.most_uncertain`.
    folder : path
        Where the files are.
    pictures : tuple of path
        The figures and the explorer's page among them.
    notes : tuple of str
        What could not be drawn, and why.
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
    pictures: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def run_demo(seed: int = 0, folder: Path = Path("decal-demo")) -> Demo:
    """Train, decalibrate and test a classifier of digits, and write a small folder of results.

    The classifier is a logistic regression whose penalty is chosen by cross-validation on its
    training images. Its logits on other images, with their labels, fit the Decalibrator.

    Parameters
    ----------
    seed : int
        For the split, the forest and the labels.
    folder : path
        Created if need be. Gets model.npz, test.csv (logits and labels), truth.csv, table.csv
        (coverage and efficiency), credal.parquet, two figures (with matplotlib) and explorer.html
        (with Pillow); an earlier demo's files are replaced.
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
        classes=names,
    )
    logits = classifier.decision_function(pixels[test])
    sets = [model.predict(logits, alpha=alpha) for alpha in PAPER_ALPHAS]
    credal = model.predict(logits)
    demo = Demo(
        model=model,
        credal=credal,
        truth=truth[test],
        labels=labels[test],
        images=images[test],
        coverage=tuple(metrics.coverage(c, truth[test]) for c in sets),
        efficiency=tuple(metrics.efficiency(c) for c in sets),
        most_uncertain=tuple(most_uncertain(credal, SHOWN).tolist()),
        folder=folder,
    )
    _write(demo, logits, names)
    return _with_pictures(demo, logits)


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
    write_columns(demo.folder / "test.csv", {**columns, "label": demo.labels})
    truth = dict(zip(names, demo.truth.T, strict=True))
    write_columns(demo.folder / "truth.csv", truth)
    write_columns(
        demo.folder / "table.csv",
        {"alpha": PAPER_ALPHAS, "coverage": demo.coverage, "efficiency": demo.efficiency},
    )
    write_credal(demo.folder / "credal.parquet", [demo.credal])


def _with_pictures(demo: Demo, logits: Array) -> Demo:
    """Draw what can be drawn with the packages that are installed."""
    drawings = {
        "spiders.png": _draw_spiders,
        "tradeoff.png": _draw_tradeoff,
        "explorer.html": _write_explorer,
    }
    pictures, notes = [], []
    for name, draw in drawings.items():
        try:
            draw(demo, logits, demo.folder / name)
            pictures.append(demo.folder / name)
        except ImportError as error:
            notes.append(f"{name} is missing: {error}")
    return replace(demo, pictures=tuple(pictures), notes=tuple(notes))


def _draw_spiders(demo: Demo, logits: Array, path: Path) -> None:  # noqa: ARG001
    """The most uncertain images, and the credal set of each."""
    from matplotlib.figure import Figure

    from decal import plot

    figure = Figure(figsize=(13, 4.4), layout="constrained")
    pictures, spiders = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 2.6))[:, 0]
    for column, row in enumerate(demo.most_uncertain, start=1):
        picture = pictures.add_subplot(1, SHOWN, column)
        picture.imshow(-demo.images[row], cmap="gray")
        picture.set_axis_off()
        picture.set_title(f"test row {row}, label {demo.labels[row]}", fontsize="medium")
        spider = spiders.add_subplot(1, SHOWN, column, projection="polar")
        plot.spider(demo.credal, row, ax=spider, truth=demo.truth, legend=column == 3)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=150, bbox_inches="tight")


def _draw_tradeoff(demo: Demo, logits: Array, path: Path) -> None:
    """Coverage against efficiency, from alpha = 1 to 0."""
    from matplotlib.figure import Figure

    from decal import plot

    figure = Figure(figsize=(5.5, 4.5), layout="constrained")
    alphas = np.union1d(PAPER_ALPHAS, 1 - np.linspace(0, 1, 33) ** 2)  # dense near 1
    curve = selection.path(demo.model, logits, distributions=demo.truth, alphas=alphas)
    plot.tradeoff({"class shifts": curve}, ax=figure.add_subplot(), mark=PAPER_ALPHAS, front=False)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=150)


def _write_explorer(demo: Demo, logits: Array, path: Path) -> None:
    """The interactive page about all test images."""
    page = demo.model.explore(
        logits,
        labels=demo.labels,
        truth=demo.truth,
        images=demo.images / 16,
        title="Handwritten digits",
    )
    page.save(path)
