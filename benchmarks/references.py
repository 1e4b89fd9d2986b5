"""Which reference local sets should have on tables: coverage lost against the best of the three.

    python benchmarks/references.py --data FOLDER

Six tables. A forest of depth 5 is declared the truth, as the paper does, and labels are drawn from
it. A classifier learns 40 % of the rows; half of the others fit, half are new. At efficiencies from
0.5 to 0.95: how many more new distributions the best of the three references holds. Mean over
seeds. Needs scikit-learn.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decal
from decal_lab.data import tabarena
from decal_lab.experiments.harness.forest_truth import forest
from labelled_rows import FLOOR, LEARNT, TABLES, Array, Labels

SIX_TABLES = TABLES | {"splice": 46958, "phishing": 46963}
REFERENCES = ("model", "halfway", "best")
EFFICIENCIES = (0.5, 0.7, 0.8, 0.9, 0.95)
SEEDS = range(3)
MODELS = {
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=100, random_state=seed),
    "forest": lambda seed: RandomForestClassifier(100, random_state=seed),
    "logistic regression": lambda _: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=2000)
    ),
}


def table(folder: Path, number: int, seed: int) -> tuple[Array, Array, Labels]:
    """Features, the distributions declared true, and labels drawn from them."""
    rows = tabarena(number, folder=folder, download=False)
    X = np.nan_to_num(rows.matrix())
    p = forest(X, rows.labels, len(rows.classes), seed)(X)
    draw = np.random.default_rng(seed).uniform(size=(len(p), 1))
    return X, p, np.minimum((p.cumsum(axis=1) < draw).sum(axis=1), p.shape[1] - 1)


def coverages(d: decal.Decalibrator, new: Array, truth: Array) -> list[float]:
    """Coverage at each efficiency: -log alpha is searched for."""

    def at(budget: float) -> decal.IntervalCredalSet:
        return d.predict(new, alpha=float(np.exp(-np.exp(budget))))

    found = []
    for wanted in EFFICIENCIES:
        budget = brentq(lambda b, w=wanted: decal.metrics.efficiency(at(b)) - w, -16, 6, xtol=1e-3)
        found.append(decal.metrics.coverage(at(budget), truth))
    return found


def covered(folder: Path, number: int, title: str, seed: int) -> Array | None:
    """(references, efficiencies) of one table; None if the model knows nothing to recalibrate."""
    X, p, y = table(folder, number, seed)
    order, cut = np.random.default_rng(seed).permutation(len(y)), round(LEARNT * len(y))
    learnt, old, new = np.split(order, [cut, (cut + len(y)) // 2])
    model = MODELS[title](seed).fit(X[learnt], y[learnt])
    q = np.full(p.shape, FLOOR)
    q[:, model.classes_] = np.maximum(model.predict_proba(X), FLOOR)
    z, found = np.log(q), []
    for reference in REFERENCES:
        d = decal.Decalibrator(directions=("local",), reference=reference)
        try:
            d.fit(z[old], y[old])
        except ValueError as error:  # no best scale
            print(f"left out, seed {seed}: {error}")
            return None
        found.append(coverages(d, z[new], p[new]))
    return np.array(found)


def told(lost: Array) -> str:
    """Means over efficiencies, and the most, of each reference."""
    both = zip(REFERENCES, lost.mean(axis=-1), lost.max(axis=-1), strict=True)
    return ";  ".join(f"{name} {mean:.3f}, {most:.2f}" for name, mean, most in both)


def main() -> None:
    """Print how much each reference loses on every table and with every classifier."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    options = parser.parse_args()
    if options.data is None:
        parser.error("needs --data, or DECAL_DATA: the folder with the tables")
    warnings.simplefilter("ignore")
    every = []
    for name, number in SIX_TABLES.items():
        for title in MODELS:
            runs = [covered(Path(options.data), number, title, seed) for seed in SEEDS]
            kept = [run for run in runs if run is not None]
            if kept:
                mean = np.mean(kept, axis=0)
                every.append(mean.max(axis=0) - mean)
                print(f"{name:16} {title:20} lost, mean and most: {told(every[-1])}", flush=True)
    print("all:", told(np.concatenate(every, axis=1)))


if __name__ == "__main__":
    main()
