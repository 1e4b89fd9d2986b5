"""Time uncertainty measures of boxes against one SLSQP per row, as published code does it.

Run with: python benchmarks/measures.py

Both sides work on the same boxes in one process: decal on all rows, SLSQP on the first few. Ratios
are per row. SLSQP's share of wrong rows counts those off by more than `WRONG` from decal's value,
which for the lower entropy carries a certificate.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import entropy

import decal
from decal.credal import _hull_decisions as hull_decisions
from decal.credal import _hull_entropy as hull_entropy
from decal.credal._box_entropy import lower_entropy, upper_entropy
from decal.credal._box_measures import hartley, zero_one
from decal.credal.decisions import abstention_utility, e_admissible

Array = NDArray[np.float64]
Measure = Callable[[Array, Array], Array]

WRONG = 1e-6
REPEATS = 5


def classifier_boxes(K: int, rows: int, seed: int = 0) -> tuple[Array, Array]:
    """Decalibrated boxes of a classifier that is right about its own uncertainty."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_t(5, (rows, K))
    logits[np.arange(rows), rng.integers(K, size=rows)] += rng.normal(6.0, 3.0, rows)
    labels = (softmax(logits, axis=1).cumsum(axis=1) < rng.uniform(size=(rows, 1))).sum(axis=1)
    labels = np.minimum(labels, K - 1)
    credal = decal.decalibrate(logits, labels, alpha=0.8).predict(logits)
    return credal.lower, credal.upper


def slsqp(objective: Callable[[Array], float], start: Array, lower: Array, upper: Array) -> float:
    """One call as published: finite differences, whatever comes back; success never checked.

    `start` may stack several distributions, each of them confined to the box.
    """
    K = len(lower)
    parts = len(start) // K
    sums = [
        {"type": "eq", "fun": lambda x, part=part: np.sum(x[part * K : (part + 1) * K]) - 1}
        for part in range(parts)
    ]
    bounds = list(zip(lower, upper, strict=True)) * parts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(minimize(objective, start, bounds=bounds, constraints=sums).fun)


def slsqp_upper_entropy(lower: Array, upper: Array) -> float:
    return -slsqp(lambda p: -entropy(p), (lower + upper) / 2, lower, upper)


def slsqp_lower_entropy(lower: Array, upper: Array) -> float:
    return slsqp(entropy, (lower + upper) / 2, lower, upper)


def slsqp_zero_one(lower: Array, upper: Array) -> float:
    """The definition, over p and p' together, from p = (1, 0, ..., 0), p' = (0, ..., 0, 1)."""
    K = len(lower)
    start = np.zeros(2 * K)
    start[0] = start[-1] = 1.0
    return -slsqp(lambda x: x[np.argmax(x[K:])] - np.max(x[:K]), start, lower, upper)


def seconds(work: Callable[[], object]) -> float:
    """Shortest of a few runs: other processes only ever add time."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(
    name: str,
    exact: Measure,
    published: Callable[[Array, Array], float],
    lower: Array,
    upper: Array,
    subset: int,
) -> None:
    truth = exact(lower, upper)
    ours = seconds(lambda: exact(lower, upper)) / len(lower)
    start = time.perf_counter()
    theirs = np.array([published(*box) for box in zip(lower[:subset], upper[:subset], strict=True)])
    per_row = (time.perf_counter() - start) / subset
    wrong = np.mean(~(np.abs(theirs - truth[:subset]) <= WRONG))
    print(
        f"K = {lower.shape[1]:<5d} {name:14s} decal {1e6 * ours:9.2f} us/row   "
        f"SLSQP {1e3 * per_row:9.2f} ms/row   ratio {per_row / ours:10,.0f}   "
        f"SLSQP wrong on {wrong:4.0%} of {subset} rows"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100, help="rows given to SLSQP at K = 10")
    subset = parser.parse_args().rows

    for K, rows, few in ((10, 20_000, subset), (100, 2_000, max(1, subset // 10))):
        box = classifier_boxes(K, rows)
        compare("upper entropy", upper_entropy, slsqp_upper_entropy, *box, few)
        compare("lower entropy", lambda *b: lower_entropy(*b).value, slsqp_lower_entropy, *box, few)
        compare("zero-one", zero_one, slsqp_zero_one, *box, few)

    for K in (10, 100, 1000):
        box = classifier_boxes(K, 1_000)
        found = lower_entropy(*box)
        taken = seconds(lambda b=box: lower_entropy(*b))
        print(
            f"K = {K:<5d} lower entropy of 1,000 boxes: {taken:.3f} s, "
            f"{found.nodes.mean():.1f} nodes a row (at most {found.nodes.max()}), "
            f"exact on {found.exact.mean():.0%}"
        )
    for K, rows in ((10, 20_000), (1000, 2_000)):
        box = classifier_boxes(K, rows)
        taken = seconds(lambda b=box: e_admissible(*b))
        print(f"K = {K:<5d} E-admissible classes: {rows / taken:,.0f} rows/s")
    for K, rows in ((10, 5_000), (100, 500), (1000, 20)):
        box = classifier_boxes(K, max(rows, 500))
        low, high = box[0][:rows], box[1][:rows]
        utility = abstention_utility(K, cost=0.3)
        taken = seconds(lambda a=low, b=high, u=utility: e_admissible(a, b, u)) / rows
        print(f"K = {K:<5d} E-admissible with abstention: {1e6 * taken:,.0f} us/row")
    for K, rows in ((10, 2_000), (1000, 50)):
        members = np.random.default_rng(0).dirichlet(np.ones(K), size=(rows, 5))
        taken = seconds(lambda v=members: hull_entropy.upper_entropy(v)) / rows
        admissible = seconds(lambda v=members: hull_decisions.e_admissible(v)) / rows
        print(
            f"K = {K:<5d} hulls of 5 random members: upper entropy {1e6 * taken:,.0f} us/row, "
            f"E-admissible {1e6 * admissible:,.0f} us/row"
        )
    for K, rows in ((10, 1_000), (24, 100), (100, 100), (1000, 20)):
        box = classifier_boxes(K, rows)
        bracket = hartley(*box)
        gap = bracket.upper - bracket.lower
        taken = seconds(lambda b=box: hartley(*b)) / rows
        print(
            f"K = {K:<5d} Hartley {1e6 * taken:6.0f} us/row, value {bracket.upper.mean():.3f}, "
            f"bracket {gap.mean():.1e} wide (at most {gap.max():.1e})"
        )


if __name__ == "__main__":
    main()
