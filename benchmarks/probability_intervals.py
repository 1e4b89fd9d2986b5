"""Probability intervals for risk scores: decal beside Venn-ABERS (packages venn-abers and MAPIE).

Run with: python benchmarks/probability_intervals.py [--repetitions 5] [--tables FOLDER]

Rows that no classifier was trained on are cut in two at random, five times: one half to calibrate,
the other new. Two classes: is it this class or not. Several classes: every class against the rest.
Width: mean of upper minus lower. Gap: rows in ten groups of equal size by the middle of their
interval; how far the share of labels lies outside of the mean interval of its group, on average
over the groups (and classes). Log-loss: of the probability that stands for the interval. Needs
scikit-learn, venn-abers and MAPIE: pip install venn-abers mapie.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

import decal
from labelled_rows import Array, Labels, Rows, sets

try:
    from mapie.calibration import VennAbersCalibrator
    from venn_abers import VennAbers
except ImportError as error:
    raise SystemExit(f"this benchmark needs {error.name}: pip install venn-abers mapie") from error

GROUPS = 10
LEAST = 1e-12
MOST_ROWS = 4000
"""Of a data set: Venn-ABERS is asked K times for each."""

BINARY = {
    "tumours": ("tumours", 0),
    "digit 8 or not": ("digits", 8),
    "dropout or not": ("students", 0),
    "happy or not, FER": ("faces (FER)", 3),
    "MIC: died or not": ("MIC", None),
    "cat or not, CLIP": ("CLIP, CIFAR-10", 3),
}
"""Questions of two classes: the data, and the class asked for; None for all but the first."""

SEVERAL = ("digits", "students", "maternal health", "VGG-15", "CLIP, CIFAR-10", "RoBERTa, SNLI")


@dataclass(frozen=True)
class Intervals:
    """(n, K) bounds, and the probabilities that stand for them."""

    lower: Array
    upper: Array
    point: Array


def venn_abers(z: Array, y: Labels, new: Array) -> Intervals:
    """Every class against the rest, by the package venn-abers; of two classes, just once."""
    K = z.shape[1]
    old, p = softmax(z, axis=1), softmax(new, axis=1)
    lower, upper, point = np.empty((3, *new.shape))
    for k in range(K) if K > 2 else (1,):
        made = VennAbers()
        made.fit(np.stack([1 - old[:, k], old[:, k]], axis=1), (y == k).astype(int))
        middle, ends = made.predict_proba(np.stack([1 - p[:, k], p[:, k]], axis=1))
        lower[:, k], upper[:, k], point[:, k] = ends[:, 0], ends[:, 1], middle[:, 1]
    if K == 2:
        lower[:, 0], upper[:, 0], point[:, 0] = 1 - upper[:, 1], 1 - lower[:, 1], 1 - point[:, 1]
    return Intervals(lower, upper, point / point.sum(axis=1, keepdims=True))


def decalibrated(alpha: float, **settings: object) -> Callable[[Array, Labels, Array], Intervals]:
    """Decal's boxes around the recalibrated model."""

    def make(z: Array, y: Labels, new: Array) -> Intervals:
        d = decal.Decalibrator(
            alpha, reference="best", directions=("class", "temperature"), **settings
        )
        credal = d.fit(z, y).predict(new)
        return Intervals(credal.lower, credal.upper, credal.point)

    return make


def as_it_is(z: Array, y: Labels, new: Array) -> Intervals:  # noqa: ARG001
    """The model's own probabilities, without any interval."""
    p = softmax(new, axis=1)
    return Intervals(p, p, p)


METHODS: dict[str, Callable[[Array, Labels, Array], Intervals]] = {
    "model": as_it_is,
    "Venn–ABERS": venn_abers,
    "decal, sum, 95 %": decalibrated(decal.alpha_from_confidence(0.95), likelihood="sum"),
    "decal, mean, α .999": decalibrated(0.999),
    "decal, mean, α .99": decalibrated(0.99),
}


def gap(found: Intervals, y: Labels) -> float:
    """How far shares of labels lie outside of the mean intervals of their groups."""
    gaps = []
    K = found.lower.shape[1]
    for k in range(K) if K > 2 else (1,):
        low, high = found.lower[:, k], found.upper[:, k]
        order = np.argsort(low + high, kind="stable")
        for rows in np.array_split(order, GROUPS):
            share = float((y[rows] == k).mean())
            gaps.append(max(0.0, low[rows].mean() - share, share - high[rows].mean()))
    return float(np.mean(gaps))


def log_loss(found: Intervals, y: Labels) -> float:
    """Of the probability that stands for the interval."""
    p = found.point[np.arange(len(y)), y]
    return float(-np.log(np.maximum(p, LEAST)).mean())


def event(z: Array, y: Labels, k: int | None) -> Rows:
    """Logits and labels of one class against the rest; of all but the first, if None."""
    log_p = log_softmax(z, axis=1)
    inside = np.arange(z.shape[1]) > 0 if k is None else np.arange(z.shape[1]) == k
    both = [logsumexp(log_p[:, ~inside], axis=1), logsumexp(log_p[:, inside], axis=1)]
    return np.stack(both, axis=1), inside[y].astype(np.intp)


def measured(load: Callable[[int], Rows], repetitions: int) -> dict[str, Array]:
    """Width, gap and log-loss of every method, mean over the repetitions; and its seconds."""
    found = {name: np.zeros(4) for name in METHODS}
    for seed in range(repetitions):
        z, y = load(seed)
        order = np.random.default_rng(3000 + seed).permutation(len(y))[:MOST_ROWS]
        old, new = order[: len(order) // 2], order[len(order) // 2 :]
        for name, make in METHODS.items():
            started = time.perf_counter()
            made = make(z[old], y[old], z[new])
            seconds = time.perf_counter() - started
            width = float((made.upper - made.lower).mean())
            numbers = width, gap(made, y[new]), log_loss(made, y[new]), seconds
            found[name] += np.array(numbers) / repetitions
    return found


def same_in_mapie(rows: Rows) -> float:
    """The greatest difference between the ends of MAPIE's Venn-ABERS and those of venn-abers."""
    from sklearn.linear_model import LogisticRegression

    z, y = rows
    half = len(y) // 2
    score = LogisticRegression().fit(z[:half, 1:] - z[:half, :1], y[:half])
    features = z[half:, 1:] - z[half:, :1]
    cut = len(features) // 2
    made = VennAbersCalibrator(score, cv="prefit").fit(features[:cut], y[half:][:cut])
    _, theirs = made.predict_proba(features[cut:], p0_p1_output=True)
    p = score.predict_proba(features)
    package = VennAbers()
    package.fit(p[:cut], y[half:][:cut])
    _, ours = package.predict_proba(p[cut:])
    return float(np.abs(np.asarray(theirs).reshape(ours.shape) - ours).max())


def lines(name: str, found: dict[str, Array]) -> list[str]:
    """A line of the table: width, gap and log-loss of every method."""
    cells = [
        f"{loss:.4f}, {1e3 * g:.1f}" if width == 0 else f"{width:.3f}, {1e3 * g:.1f}, {loss:.4f}"
        for width, g, loss, _ in found.values()
    ]
    return [f"| {name} | " + " | ".join(cells) + " |"]


def main() -> None:
    """Print both tables, line by line; and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    there = sets()
    heads = ["model: log-loss, gap", *(f"{m}: width, gap, log-loss" for m in list(METHODS)[1:])]
    head = [f"| data | {' | '.join(heads)} |", "|---|" + "---|" * len(METHODS)]
    two, many = list(head), list(head)
    for name, (data, k) in BINARY.items():
        if data in there:

            def load(seed: int, data: str = data, k: int | None = k) -> Rows:
                return event(*there[data](seed), k)

            two += lines(name, measured(load, options.repetitions))
            print(two[-1], flush=True)
    for data in SEVERAL:
        if data in there:
            found = measured(there[data], options.repetitions)
            many += lines(data, found)
            print(many[-1], *(f"{m} {row[3]:.3f} s" for m, row in found.items()), flush=True)
    print("MAPIE's ends differ from venn-abers' by", same_in_mapie(event(*there["digits"](0), 8)))
    if options.tables:
        options.tables.mkdir(parents=True, exist_ok=True)
        text = "\n".join(two) + "\n", "\n".join(many) + "\n"
        (options.tables / "intervals_of_two.md").write_text(text[0], encoding="utf-8")
        (options.tables / "intervals_of_many.md").write_text(text[1], encoding="utf-8")


if __name__ == "__main__":
    main()
