"""Which questions a ball answers more sharply than its box, and what that costs, on real data.

Run with: DECAL_DATA=folder python benchmarks/balls.py

Local sets of published logits, half of the examples to fit, the other half to ask: the ball
(`Decalibrator.predict_ball`) and the box around it (`predict`). Prints Markdown: means over inputs,
ball / box (ratio), and ratios of processor time, ball over box, side by side in one process.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal.credal import CredalSet

Array = NDArray[np.float64]
Question = Callable[[CredalSet], Array]

DATA = {
    "CLIP, CIFAR-10": "clip_cifar10_en",
    "DenseNet, CIFAR-10": "cnn_densenet_BC_100_12_test",
    "RoBERTa, SNLI": "snli_roberta0",
    "CLIP, DermaMNIST": "clip_dermamnist_en",
    "EfficientNet, ImageNet": "efficientnet_lite0_imagenet_sample",
}
ALPHAS = (0.95, 0.8, 0.5)
ROWS = 2000
REPEATS = 3


def load(folder: Path, name: str, rows: int) -> tuple[Array, NDArray[Any], Array]:
    """Logits and labels to fit on, and logits to ask about."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        if "train_logits" in file:
            return file["train_logits"], file["train_labels"], file["test_logits"][:rows]
        logits, labels = file["logits"], file["labels"]
    order = np.random.default_rng(0).permutation(len(logits))
    half = len(logits) // 2
    return logits[order[:half]], labels[order[:half]], logits[order[half:]][:rows]


def width(ends: tuple[Array, Array]) -> Array:
    return ends[1] - ends[0]


def questions(K: int) -> dict[str, Question]:
    """Numbers per input, all of them smaller for a smaller set but the lower entropy."""
    event = range(0, K, 2)
    values = np.random.default_rng(1).normal(size=(5, K))
    abstain = decal.abstention_utility(K, cost=0.3)
    asked: dict[str, Question] = {
        "upper entropy": lambda c: c.total(),
        "lower entropy": lambda c: c.aleatoric(),
        "epistemic, entropy": lambda c: c.epistemic("entropy"),
        "epistemic, zero-one": lambda c: c.epistemic("zero_one"),
        "total variation": lambda c: c.epistemic("total_variation"),
        "width of an expectation": lambda c: width(c.expectation(values)).mean(axis=1),
        "width of an event": lambda c: width(c.probability(event)),
        "maximal classes": lambda c: c.decide("maximality").sum(axis=1),
        "E-admissible classes": lambda c: c.decide("e_admissible").sum(axis=1),
    }
    if K <= 100:  # games of boxes take seconds per hundred inputs at 1,000 classes
        asked["E-admissible, may abstain"] = lambda c: c.decide(
            "e_admissible", utility=abstain
        ).sum(axis=1)
    return asked


def ask(question: Question, credal: CredalSet) -> tuple[float, float]:
    """The mean answer, and the least processor seconds of a few repeats, each on fresh sets."""
    seconds = []
    for _ in range(REPEATS):
        fresh = credal[:]
        fresh.lower  # noqa: B018  both begin with their bounds computed
        start = time.process_time()
        answer = question(fresh)
        seconds.append(time.process_time() - start)
    return float(np.mean(answer)), min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="inputs to ask about, per data set")
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore", decal.AnswerWarning)
    folder = Path(os.environ["DECAL_DATA"])
    times: dict[str, list[str]] = {}
    names = []
    for title, name in DATA.items():
        if not (folder / f"{name}.npz").exists():
            print(f"{title}: no {name}.npz in DECAL_DATA")
            continue
        names.append(title)
        logits, labels, inputs = load(folder, name, rows)
        d = decal.Decalibrator(directions=["local"]).fit(logits, labels)
        asked = questions(logits.shape[1])
        print(f"\n**{title}** ({len(inputs):,} inputs, K = {logits.shape[1]:,})\n")
        print("| ball / box (ratio) |", " | ".join(f"alpha = {alpha}" for alpha in ALPHAS), "|")
        print("|---" * (1 + len(ALPHAS)) + "|")
        slower: dict[str, list[float]] = {question: [] for question in asked}
        cells: dict[str, list[str]] = {question: [] for question in asked}
        for alpha in ALPHAS:
            ball, box = d.predict_ball(inputs, alpha=alpha), d.predict(inputs, alpha=alpha)
            for label, question in asked.items():
                (own, mine), (its, theirs) = ask(question, ball), ask(question, box)
                ratio = f" ({own / its:.2f})" if its > 0 else ""
                cells[label].append(f"{own:.3f} / {its:.3f}{ratio}")
                slower[label].append(mine / theirs)
        for label, row in cells.items():
            print(f"| {label} |", " | ".join(row), "|")
            times.setdefault(label, []).append(f"{np.median(slower[label]):.1f}")
    print("\n**Time of the ball over that of the box** (median over alphas)\n")
    print("| |", " | ".join(names), "|")
    print("|---" * (1 + len(names)) + "|")
    for label, cells_of in times.items():
        print(f"| {label} |", " | ".join(cells_of + ["–"] * (len(names) - len(cells_of))), "|")


if __name__ == "__main__":
    main()
