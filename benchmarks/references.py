"""Which reference local sets should have: coverage lost against the best of model, halfway, best.

    python benchmarks/references.py --data FOLDER

The folder's files of logits, in halves or as they are fitted on training rows; and six tables: a
forest of depth 5 is declared the truth, as the paper does, labels are drawn from it, and a
classifier learns 40 % of the rows; half of the others fit, half are new. At efficiencies from 0.5
to 0.95: how many more new distributions the best of the three holds than each of the five. Mean
over seeds. Needs scikit-learn.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
from decal_lab.experiments.harness.logit_sets import (
    FAMILIES,
    FITTED_ON,
    HELD_OUT,
    DataSet,
    LogitSplit,
    draw_labels,
    find,
    in_halves,
)
from labelled_rows import FLOOR, LEARNT, SIX_TABLES, Array, Labels

RIVALS = ("model", "halfway", "best")
REFERENCES = (*RIVALS, "auto", "consensus")
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


def covered(split: LogitSplit) -> Array:
    """(references, efficiencies) of one split; NaN for a reference that does not exist."""
    found = np.full((len(REFERENCES), len(EFFICIENCIES)), np.nan)
    for i, reference in enumerate(REFERENCES):
        d = decal.Decalibrator(directions=("local",), reference=reference)
        try:
            d.fit(split.logits, split.labels)
        except ValueError as error:  # no best scale
            print(f"left out: {error}")
            continue
        found[i] = coverages(d, split.new_logits, split.truth)
    return found


def of_table(folder: Path, number: int, title: str, seed: int) -> LogitSplit:
    """Half of the rows that a classifier has not learnt, and the other half."""
    X, p, y = table(folder, number, seed)
    order, cut = np.random.default_rng(seed).permutation(len(y)), round(LEARNT * len(y))
    learnt, old, new = np.split(order, [cut, (cut + len(y)) // 2])
    model = MODELS[title](seed).fit(X[learnt], y[learnt])
    q = np.full(p.shape, FLOOR)
    q[:, model.classes_] = np.maximum(model.predict_proba(X), FLOOR)
    z = np.log(q)
    return LogitSplit(z[old], y[old], z[new], p[new])


def held_out_half(folder: Path, data: DataSet, seed: int) -> LogitSplit:
    """Rows that TabPFN has not seen, with labels drawn from the truth: half of them to fit on."""
    rows = data.load(folder, seed)
    labels = draw_labels(rows.truth, np.random.default_rng(seed))
    return in_halves(rows.new_logits, labels, rows.truth, seed)


def problems(folder: Path) -> Iterator[tuple[str, str, Callable[[int], LogitSplit]]]:
    """What is fitted on, titles, and splits by seed."""
    for data in find(folder, everything=True)[0]:
        title = f"{FAMILIES[data.family]}, {data.title}"
        yield FITTED_ON[data.fitted_on], title, partial(data.load, folder)
        if data.family == "tabpfn":
            yield FITTED_ON[HELD_OUT], title, partial(held_out_half, folder, data)
    for name, number in SIX_TABLES.items():
        for model in MODELS:
            title = f"{name}, {model}"
            yield "Tables, fitted on held-out rows", title, partial(of_table, folder, number, model)


def lost(runs: Sequence[Array]) -> Array:
    """Mean over seeds: how much less is covered than by the best of the three; more counts as 0."""
    mean = np.mean(runs, axis=0)
    return np.maximum(np.nanmax(mean[: len(RIVALS)], axis=0) - mean, 0.0)


def told(lost: Array) -> str:
    """Means over efficiencies, and the most, of each reference."""
    mean, most = np.nanmean(lost, axis=-1), np.nanmax(lost, axis=-1)
    both = zip(REFERENCES, mean, most, strict=True)
    return ";  ".join(f"{name} {mean:.3f}, {most:.2f}" for name, mean, most in both)


def main() -> None:
    """Print how much each reference loses on all data, and on each kind of rows fitted on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    options = parser.parse_args()
    if options.data is None:
        parser.error("needs --data, or DECAL_DATA: the folder with logits and tables")
    warnings.simplefilter("ignore")
    by_kind: dict[str, list[Array]] = {}
    for kind, title, load in problems(Path(options.data)):
        loss = lost([covered(load(seed)) for seed in SEEDS])
        by_kind.setdefault(kind, []).append(loss)
        print(f"{kind}: {title:45} lost, mean and most: {told(loss)}", flush=True)
    for kind, losses in by_kind.items():
        print(f"{kind}, {len(losses)}: {told(np.concatenate(losses, axis=1))}")


if __name__ == "__main__":
    main()
