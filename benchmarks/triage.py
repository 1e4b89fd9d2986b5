"""Which score finds the rows that a person should check, and do the promises hold on real rows?

Run with: python benchmarks/triage.py [names] [--repetitions 10] [--tables FOLDER]

Rows are cut in two at random, again and again. One half goes to `triage`, the other is
new.
`areas`: the area under the risk-coverage curve of new rows, for every score. `promises`: what was
asked for, and what happened. Needs scikit-learn, and DECAL_DATA for all but two sets. With --tables
the tables of docs/evidence_promises.md are written into a folder.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from decal import metrics
from decal.choose import DoubtScores, TriageOutcome, triage
from decal.choose._order import slip_threshold
from decal.choose._thresholds import kept_of_batch, rate_threshold
from labelled_rows import Array, Labels, sets

SCORES = {
    "confidence": "confidence",
    "entropy": "entropy",
    "recalibrated confidence": "recalibrated",
    "lower probability, alpha 0.99": "lower p .99",
    "width, alpha 0.9": "width .9",
    "upper entropy, alpha 0.9": "upper entropy .9",
    "epistemic, alpha 0.9": "epistemic .9",
}
"""Scores in the first table, and their columns."""

SHARE_OF_ERRORS = 1 / 2
"""Wanted error rates are this share of the model's own error rate, rounded to one digit."""

CONFIDENCE = 0.9


def rounded(rate: float) -> float:
    """A rate with one digit, as a person would ask for it."""
    return float(f"{rate:.1g}")


def one(z: Array, y: Labels, seed: int, rate: float) -> dict[str, dict[str, float]]:
    """What one cut of the rows shows: areas of scores, and outcomes of promises."""
    order = np.random.default_rng(1000 + seed).permutation(len(y))
    old, new = order[: len(y) // 2], order[len(y) // 2 :]
    asked = {
        "error rate": {"error_rate": rate, "confidence": CONFIDENCE},
        "batch": {"error_rate": rate, "confidence": None},
        "slip rate": {"slip_rate": rate},
        "budget": {"budget": 0.2},
    }
    made = {name: triage(z[old], y[old], seed=seed, **purpose) for name, purpose in asked.items()}
    doubts: DoubtScores = made["budget"]._doubts
    areas = {}
    for name in doubts.names:
        scores, predicted = doubts.score(name, z[new])
        areas[name] = metrics.aurc(scores, predicted != y[new])
    t = made["budget"]
    wrong = t.predict(z[new]) != y[new]
    areas["chosen"] = metrics.aurc(t.doubt(z[new]), wrong)
    found = {"areas": areas, "chosen": {t.score: 1.0}}
    for name, t in made.items():
        handed = t.hand_over(z[new])
        done = TriageOutcome.of(~handed, wrong)
        found[name] = {
            "handed": done.handed_over,
            "error": done.error_rate,
            "slips": done.slip_rate,
            "broken": float(done.error_rate > rate),
        }
    own = z[new].argmax(axis=1) != y[new]
    found["model"] = {"error": float(own.mean()), "recalibrated": float(wrong.mean())}
    return found


def many_cuts(z: Array, y: Labels, rate: float, cuts: int) -> str:
    """What is promised of the model's own confidence, over so many cuts that chance is small."""
    scores, predicted = DoubtScores.of(z, y, None).score("confidence", z)
    wrong = predicted != y
    slips, errors, broken = [], [], []
    for seed in range(cuts):
        plan, old, new = np.split(
            np.random.default_rng(seed).permutation(len(y)), [len(y) // 4, len(y) // 2]
        )
        kept = scores[new] < slip_threshold(scores[old], wrong[old], rate)
        slips.append(float((wrong[new] & kept).mean()))
        kept = kept_of_batch(scores[new], scores[old][wrong[old]], len(old), rate)
        errors.append(float(wrong[new][kept].mean()) if kept.any() else 0.0)
        t = rate_threshold(
            scores[old], wrong[old], rate, CONFIDENCE, plan=(scores[plan], wrong[plan])
        )
        kept = scores[new] < t
        broken.append(bool(kept.any()) and float(wrong[new][kept].mean()) > rate)
    root = np.sqrt(cuts)
    return (
        f"slip rate {np.mean(slips):.4f} ± {np.std(slips) / root:.4f}, "
        f"batches {np.mean(errors):.4f} ± {np.std(errors) / root:.4f}, "
        f"error rate broken in {np.mean(broken):.1%} of {cuts} cuts"
    )


def mean(runs: list[dict[str, dict[str, float]]], *path: str) -> float:
    """Mean of an entry over runs."""
    return float(np.mean([run[path[0]][path[1]] for run in runs]))


def area_row(name: str, rows: int, runs: list[dict[str, dict[str, float]]]) -> str:
    """A line of the first table."""
    cells = [round(1e3 * mean(runs, "areas", score), 1) for score in SCORES]
    shown = [f"**{c}**" if c == min(cells) else f"{c}" for c in cells]
    counts: dict[str, int] = defaultdict(int)
    for run in runs:
        counts[next(iter(run["chosen"]))] += 1
    most = max(counts, key=lambda score: counts[score])
    return (
        f"| {name} | {rows:,} | {mean(runs, 'model', 'error'):.1%} | "
        + " | ".join(shown)
        + f" | {1e3 * mean(runs, 'areas', 'chosen'):.1f}: {most} ({counts[most]}) |"
    )


def promise_row(name: str, rate: float, runs: list[dict[str, dict[str, float]]]) -> str:
    """A line of the second table."""
    return (
        f"| {name} | {rate:.1%} "
        f"| {mean(runs, 'error rate', 'error'):.1%}, {mean(runs, 'error rate', 'broken'):.0%} "
        f"| {mean(runs, 'error rate', 'handed'):.0%} "
        f"| {mean(runs, 'batch', 'error'):.1%} | {mean(runs, 'batch', 'handed'):.0%} "
        f"| {mean(runs, 'slip rate', 'slips'):.1%} | {mean(runs, 'slip rate', 'handed'):.0%} "
        f"| {mean(runs, 'budget', 'handed'):.1%} | {mean(runs, 'budget', 'error'):.1%} |"
    )


AREAS = [
    f"| data | rows | wrong | {' | '.join(SCORES.values())} | chosen |",
    "|---|---|---|" + "---|" * (len(SCORES) + 1),
]
PROMISES = [
    "| data | asked | error rate: kept wrong, broken | error rate: handed over | batch: kept wrong "
    "| batch: handed over | slip rate: slips | slip rate: handed over | budget 20 %: handed over "
    "| budget 20 %: kept wrong |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def main() -> None:
    """Print both tables, line by line; and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--cuts", type=int, default=0, help="only check promises, so often")
    options = parser.parse_args()
    if options.cuts:
        for name, load in sets(options.names).items():
            z, y = load(0)
            rate = rounded(SHARE_OF_ERRORS * float((z.argmax(axis=1) != y).mean()))
            print(name, rate, many_cuts(z, y, rate, options.cuts), flush=True)
        return
    areas, promises = list(AREAS), list(PROMISES)
    for name, load in sets(options.names).items():
        started = time.perf_counter()
        runs = []
        z, y = load(0)
        rate = rounded(SHARE_OF_ERRORS * float((z.argmax(axis=1) != y).mean()))
        for seed in range(options.repetitions):
            z, y = load(seed)
            runs.append(one(z, y, seed, rate))
        areas.append(area_row(name, len(y), runs))
        promises.append(promise_row(name, rate, runs))
        print(
            areas[-1], promises[-1], f"{time.perf_counter() - started:.0f} s", sep="\n", flush=True
        )
    if options.tables:
        options.tables.mkdir(parents=True, exist_ok=True)
        (options.tables / "areas.md").write_text("\n".join(areas) + "\n", encoding="utf-8")
        (options.tables / "promises.md").write_text("\n".join(promises) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
