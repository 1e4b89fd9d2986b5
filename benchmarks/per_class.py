"""Sets of labels with a guarantee, per class and on average: decal beside crepes and MAPIE.

Run with: python benchmarks/per_class.py [names] [--repetitions 3] [--tables FOLDER]

Rows that no classifier was trained on are cut in three at random, three times. Peers calibrate on
two thirds; decal fits its model on the first and chooses alphas on the second; all are judged on
the last. First table: misses of the worst class and mean size at epsilon = 0.1. Second: mean size
at equal miss rates, interpolated between nine levels. Needs scikit-learn, crepes and MAPIE:
pip install crepes mapie.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from labelled_rows import Array, Labels, sets

try:
    from crepes import WrapClassifier
    from crepes.extras import hinge
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin
except ImportError as error:
    raise SystemExit(f"this benchmark needs {error.name}: pip install crepes mapie") from error

Mask = NDArray[np.bool_]
Sets = Callable[[Array, float], Mask]
"""From logits and epsilon to (n, K) sets of labels."""

EPSILON = 0.1
LEVELS = (0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.04, 0.03, 0.02)
EQUAL = (0.1, 0.05, 0.03)
MOST_ROWS = 3000
"""Of a data set, drawn anew each time."""

FEWEST = 20
"""New rows, over all repetitions, of a class that may be the worst."""

NAMES = (
    "digits",
    "anneal",
    "MIC",
    "students",
    "CLIP, DermaMNIST",
    "faces (FER)",
    "VGG-15",
    "CLIP, CIFAR-10",
)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities, for libraries that wrap classifiers."""

    def __init__(self, classes: int = 2) -> None:
        self.classes = classes

    @property
    def classes_(self) -> Labels:
        """Numbers of the classes."""
        return np.arange(self.classes)

    def fit(self, X: Array, y: Labels) -> Given:  # noqa: ARG002
        """Nothing to learn."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Array) -> Array:
        """The features."""
        return X

    def predict(self, X: Array) -> Labels:
        """The most probable class."""
        return X.argmax(axis=1)


def by_crepes(
    z: Array, y: Labels, *, class_cond: bool, score: Callable[..., Array] = hinge
) -> Sets:
    """On average or per class."""
    made = WrapClassifier(Given(z.shape[1]))
    made.calibrate(softmax(z, axis=1), y, nc=score, class_cond=class_cond, seed=0)

    def predict(new: Array, epsilon: float) -> Mask:
        found = made.predict_set(softmax(new, axis=1), confidence=1 - epsilon, smoothing=False)
        kept = np.zeros(new.shape, dtype=bool)
        for row, labels in enumerate(found):
            kept[row, np.asarray(labels, dtype=np.intp)] = True
        return kept

    return predict


def by_mapie(z: Array, y: Labels, score: str) -> Sets:
    """LAC, APS or RAPS with MAPIE's defaults; levels are asked for all at once."""
    made = SplitConformalClassifier(
        Given(z.shape[1]),
        confidence_level=[1 - level for level in LEVELS],
        conformity_score=score,
        prefit=True,
        random_state=0,
    )
    made.conformalize(softmax(z, axis=1), y)
    found: list[Mask] = []

    def predict(new: Array, epsilon: float) -> Mask:
        if not found:
            found.append(made.predict_set(softmax(new, axis=1))[1].astype(bool))
        return found[0][:, :, LEVELS.index(epsilon)]

    return predict


def by_decal(z: Array, y: Labels, *, per_class: bool, **settings: object) -> Sets:
    """Fitted on the first half of these rows; alphas chosen on the other."""
    half = len(y) // 2
    model = decal.Decalibrator(0.9, **settings).fit(z[:half], y[:half])

    def predict(new: Array, epsilon: float) -> Mask:
        if per_class:
            chosen = decal.choose(model, z[half:], y[half:], miss=epsilon, per="class")
            return chosen.decide(new)
        choice = decal.choose(model, z[half:], y[half:], miss=epsilon)
        return model.predict(new, alpha=choice).decide("e_admissible").astype(bool)

    return predict


BOTH = {"directions": ("class", "temperature"), "reference": "best"}
METHODS: dict[str, Callable[[Array, Labels], Sets]] = {
    "decal": lambda z, y: by_decal(z, y, per_class=False),
    "decal, recalibrated": lambda z, y: by_decal(z, y, per_class=False, **BOTH),
    "crepes": lambda z, y: by_crepes(z, y, class_cond=False),
    "LAC": lambda z, y: by_mapie(z, y, "lac"),
    "APS": lambda z, y: by_mapie(z, y, "aps"),
    "RAPS": lambda z, y: by_mapie(z, y, "raps"),
    "decal, per class": lambda z, y: by_decal(z, y, per_class=True),
    "decal, recalibrated, per class": lambda z, y: by_decal(z, y, per_class=True, **BOTH),
    "crepes, per class": lambda z, y: by_crepes(z, y, class_cond=True),
}
PER_CLASS = {name for name in METHODS if name.endswith("per class")}
AVERAGE = [name for name in METHODS if name not in PER_CLASS]


def cut(z: Array, y: Labels, seed: int) -> tuple[Array, Labels, Array, Labels]:
    """Two thirds to calibrate on, one third that is new."""
    order = np.random.default_rng(2000 + seed).permutation(len(y))[:MOST_ROWS]
    old, new = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    return z[old], y[old], z[new], y[new]


def compared(
    load: Callable[[int], tuple[Array, Labels]], repetitions: int
) -> tuple[dict[str, tuple[float, float, float]], dict[str, list[float]]]:
    """For each method: misses, misses of the worst class, size; and sizes at equal miss rates."""
    counts: dict[str, list[tuple[Labels, Mask, Labels]]] = {name: [] for name in METHODS}
    unable: set[str] = set()
    curves: dict[str, Array] = {name: np.zeros((len(LEVELS), 2)) for name in AVERAGE}
    for seed in range(repetitions):
        z, y, new, labels = cut(*load(seed), seed)
        for name, make in METHODS.items():
            made: Sets | None = None
            for level, epsilon in enumerate(LEVELS):
                if name in PER_CLASS and epsilon != EPSILON:
                    continue
                try:
                    made = made or make(z, y)
                    kept = made(new, epsilon)
                except ValueError:  # too few rows for this method
                    unable.add(name)
                    break
                missed = ~kept[np.arange(len(labels)), labels]
                if epsilon == EPSILON:
                    counts[name].append((labels, missed, kept.sum(axis=1)))
                if name in curves:
                    curves[name][level] += missed.mean(), kept.sum(axis=1).mean()
    first = {}
    for name, runs in counts.items():
        if name in unable:
            first[name] = (float("nan"),) * 3
            continue
        labels, missed, sizes = (np.concatenate(part) for part in zip(*runs, strict=True))
        totals = np.bincount(labels)
        rates = np.bincount(labels, missed) / np.maximum(totals, 1)
        first[name] = missed.mean(), rates[totals >= FEWEST].max(), sizes.mean()
    second = {}
    for name, curve in curves.items():
        missed, sizes = curve[::-1].T / repetitions
        inside = [missed.min() <= rate <= missed.max() for rate in EQUAL]
        at = np.interp(EQUAL, missed, sizes)
        inside = [False] * len(EQUAL) if name in unable else inside
        second[name] = [float(s) if i else float("nan") for s, i in zip(at, inside, strict=True)]
    return first, second


def main() -> None:
    """Print both tables, line by line; and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of rare classes, which the tables show
    one = [f"| data | {' | '.join(METHODS)} |", "|---|" + "---|" * len(METHODS)]
    two = [f"| data | misses | {' | '.join(AVERAGE)} |", "|---|---|" + "---|" * len(AVERAGE)]
    for name, load in sets(options.names or NAMES).items():
        started = time.perf_counter()
        first, second = compared(load, options.repetitions)
        cells = [
            "–" if np.isnan(size) else f"{worst:.0%}, {size:.2f}"
            for _, worst, size in first.values()
        ]
        one.append(f"| {name} | " + " | ".join(cells) + " |")
        print(one[-1])
        for place, rate in enumerate(EQUAL):
            sizes = [second[method][place] for method in AVERAGE]
            shown = ["–" if np.isnan(size) else f"{size:.2f}" for size in sizes]
            two.append(f"| {name} | {rate:.0%} | " + " | ".join(shown) + " |")
            print(two[-1])
        print(f"{time.perf_counter() - started:.0f} s", flush=True)
    if options.tables:
        options.tables.mkdir(parents=True, exist_ok=True)
        (options.tables / "per_class.md").write_text("\n".join(one) + "\n", encoding="utf-8")
        (options.tables / "equal_misses.md").write_text("\n".join(two) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
