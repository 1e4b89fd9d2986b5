"""Classes in an order: how large are sets that are intervals, at the same miss rate?

LIDC: lung nodules, malignancy 1 to 5 by one to four readers, from measurements and the same
readers' other ratings. CSC: short conversations, sarcasm 1 to 6 by four people or more, from words.
Logistic regressions are cross-fitted by patient, or by context; a label is one person's, drawn at
random. Half of the rows are known, half are new.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal_lab.experiments.harness.curves import levels, measure
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import LogitSplit, require_some
from decal_lab.experiments.harness.reports import Claim, Report, Table, number, seeds_text
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

Array = NDArray[np.float64]
FILES = {"LIDC": ("lidc/lidc_nodules.csv",), "CSC": ("lewidi/CSC_dev.json", "lewidi/CSC_test.json")}
SEEDS = 10
MISSES = (0.1, 0.2)
FOLDS = 5

INTERVAL, ANY = "decal, order", "decal, no order"
LAC, APS, ORDINAL = "LAC", "APS", "ordinal APS"
SIZES = (INTERVAL, ANY, LAC, APS, ORDINAL)


class Tilt(decal.Line):
    """Moves logits along the order of the classes: z_k + theta s_k, s = 0 to K - 1, standardised.

    A judge who is stricter or milder than the labels say, by as much for all inputs.
    """

    name, ratio = "tilt", 1.0

    def move(self, logits: Array) -> Array:
        """Standardised places in the order, whatever the logits."""
        places = np.arange(logits.shape[1], dtype=np.float64)
        return np.broadcast_to((places - places.mean()) / places.std(), logits.shape)


DIRECTIONS: dict[str, tuple[str | decal.Direction, ...]] = {
    "class": ("class",),
    "tilt": (Tilt(),),
    "class + tilt": ("class", Tilt()),
    "class + temperature": ("class", "temperature"),
    "class + temperature + tilt": ("class", "temperature", Tilt()),
    "local": ("local",),
}
EFFICIENCIES = (0.5, 0.7, 0.8)

COLUMNS = {
    **CELL,
    "level": float,
    "size": float,
    "miss": float,
    "intervals": float,
    "cost": float,
    "coverage": float,
    **ORIGIN,
}


@dataclass(frozen=True)
class Rated:
    """Cross-fitted logits of inputs that several people rated, and one of their labels each."""

    logits: Array
    labels: NDArray[np.intp]
    votes: Array

    @property
    def shares(self) -> Array:
        """(n, K) the share of each class among the votes of every input."""
        return np.asarray(self.votes / self.votes.sum(axis=1, keepdims=True))

    def halves(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Known rows and new ones."""
        order = np.random.default_rng([seed, 1]).permutation(len(self.labels))
        return order[: len(order) // 2], order[len(order) // 2 :]


def load(name: str, folder: Path, seed: int) -> Rated:
    """The logits of a data set, with labels drawn by a seed."""
    votes, features, groups = (_lidc if name == "LIDC" else _csc)(folder)
    shares = votes / votes.sum(axis=1, keepdims=True)
    draws = np.random.default_rng([seed, 0]).random((len(votes), 1))
    labels = (shares.cumsum(axis=1) > draws).argmax(axis=1)
    return Rated(_cross_fitted(features, labels, groups), labels, votes)


def _lidc(folder: Path) -> tuple[Array, Any, list[str]]:
    from sklearn.preprocessing import StandardScaler

    with (folder / FILES["LIDC"][0]).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if _votes(row).any()]
    measured = [name for name in rows[0] if name not in ("patient", "readers")][:10]
    X = np.array([[float(row[name]) for name in measured] for row in rows])
    X = np.column_stack([X, np.log(X[:, 0]), np.log1p(X[:, 1])])
    votes = np.array([_votes(row) for row in rows])
    return votes, StandardScaler().fit_transform(X), [row["patient"] for row in rows]


def _votes(row: dict[str, str]) -> Array:
    return np.array([float(row[f"malignancy_{k}"]) for k in range(1, 6)])


def _csc(folder: Path) -> tuple[Array, Any, list[str]]:
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    items = [i for f in FILES["CSC"] for i in json.loads((folder / f).read_text()).values()]
    given = [list(item["annotations"].values()) for item in items]
    votes = np.array([[said.count(str(k)) for k in range(1, 7)] for said in given], dtype=float)
    context = [item["text"]["context"] for item in items]
    answer = [item["text"]["response"] for item in items]
    both = [f"{c} {a}" for c, a in zip(context, answer, strict=True)]
    words = TfidfVectorizer(min_df=2, ngram_range=(1, 2)).fit_transform(answer)
    more = TfidfVectorizer(min_df=3, ngram_range=(1, 2), sublinear_tf=True).fit_transform(both)
    return votes, hstack([words, more]).tocsr(), context


def _cross_fitted(X: Any, labels: Any, groups: Sequence[str]) -> Array:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict

    p = cross_val_predict(
        LogisticRegression(C=1.0, max_iter=1000),
        X,
        labels,
        cv=GroupKFold(FOLDS),
        groups=groups,
        method="predict_proba",
    )
    return np.asarray(np.log(np.maximum(p, 1e-12)))


def experiment(request: Request) -> Experiment:
    """Sizes, misses and costs of sets, and coverage by what may move, over ten draws of labels."""
    found = [
        name for name, files in FILES.items() if all((request.data / f).exists() for f in files)
    ]
    absent = tuple(f for name, files in FILES.items() if name not in found for f in files)
    require_some(found, "ratings on a scale", request.data, needs=absent)
    seeds = request.extended_seeds(2 if request.quick else SEEDS)

    @lru_cache(maxsize=1)
    def rated(name: str, seed: int) -> Rated:
        return load(name, request.data, seed)

    def rows(cell: Cell) -> list[Row]:
        data = rated(cell.data, cell.seed)
        if cell.method in SIZES:
            return [_sized(data, cell, miss) for miss in MISSES]
        return _covered(data, cell)

    def wanted(cell: Cell) -> Sequence[float]:
        return MISSES if cell.method in SIZES else EFFICIENCIES

    return Experiment(
        columns=COLUMNS,
        level="level",
        cells=[Cell(d, m, s) for d in found for s in seeds for m in (*SIZES, *DIRECTIONS)],
        levels=wanted,
        inputs=lambda cell: {
            "data": [request.data / f for f in FILES[cell.data]],
            "settings": cell.method,
        },
        rows=rows,
        findings=partial(findings, seeds=seeds),
        seeds=seeds,
        needs=absent,
    )


def _sized(data: Rated, cell: Cell, miss: float) -> Row:
    """How large sets are, how often they miss, and what the answer in their middle costs."""
    known, new = data.halves(cell.seed)
    truth, at = data.labels[new], np.arange(len(new))
    p = _softmax(data.logits)
    if cell.method in (INTERVAL, ANY):
        order = cell.method == INTERVAL
        d = decal.decalibrate(
            data.logits[known], data.labels[known], miss=miss, order=order, seed=cell.seed
        )
        sets = d.predict(data.logits[new])
        kept = sets.possible_mask()
        # What loses least at worst: under absolute loss if it knows of an order, else under 0/1.
        named = sets.decide("gamma_maximin", utility="absolute" if order else None)
    else:
        kept = _conformal(SCORES[cell.method](p), data.labels, known, new, miss)
        named = p[new].argmax(axis=1)
        if cell.method == ORDINAL:
            named = (p[new].cumsum(axis=1) >= 0.5).argmax(axis=1)
    return _row(
        miss,
        size=kept.sum(axis=1).mean(),
        miss=1 - kept[at, truth].mean(),
        intervals=np.mean([_contiguous(row) for row in kept]),
        cost=np.abs(named - truth).mean(),
    )


def _covered(data: Rated, cell: Cell) -> list[Row]:
    """Coverage of people's shares at given efficiencies, by what may move."""
    known, new = data.halves(cell.seed)
    model = decal.Decalibrator(directions=DIRECTIONS[cell.method], reference="auto", order=True)
    split = LogitSplit(data.logits[known], data.labels[known], data.logits[new], data.shares[new])
    curve = measure(model.fit(split.logits, split.labels), split, levels(quick=True))
    return [_row(e, coverage=curve.at(e)) for e in EFFICIENCIES]


def _row(level: float, **numbers: Any) -> Row:
    empty = dict.fromkeys(("size", "miss", "intervals", "cost", "coverage"), math.nan)
    return {"level": level, **empty, **{name: float(value) for name, value in numbers.items()}}


def _softmax(logits: Array) -> Array:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _contiguous(kept: Any) -> bool:
    where = np.flatnonzero(kept)
    return bool(where[-1] - where[0] + 1 == len(where))


# The usual conformal sets; a score is what was reached before a class came in, so none is empty.


def _before(p: Array, order: Any) -> Array:
    found = np.empty_like(p)
    sorted_p = np.take_along_axis(p, order, axis=1)
    np.put_along_axis(found, order, sorted_p.cumsum(axis=1) - sorted_p, axis=1)
    return found


def _ordinal_order(p: Array) -> Any:
    """The classes of each row as an interval grows from the mode by its likelier neighbour."""
    order = np.empty(p.shape, dtype=np.intp)
    for row, masses in enumerate(p):
        first = last = int(masses.argmax())
        order[row, 0] = first
        for step in range(1, len(masses)):
            left = masses[first - 1] if first > 0 else -1.0
            right = masses[last + 1] if last + 1 < len(masses) else -1.0
            if left > right:
                first = order[row, step] = first - 1
            else:
                last = order[row, step] = last + 1
    return order


def _lac(p: Array) -> Array:
    """One minus the probability; the most probable class always comes in first."""
    return np.where(p == p.max(axis=1, keepdims=True), 0.0, 1 - p)


SCORES: dict[str, Callable[[Array], Array]] = {
    LAC: _lac,
    APS: lambda p: _before(p, np.argsort(-p, axis=1, kind="stable")),
    ORDINAL: lambda p: _before(p, _ordinal_order(p)),
}


def _conformal(scores: Array, labels: Any, known: Any, new: Any, miss: float) -> Any:
    own = np.sort(scores[known, labels[known]])
    k = math.floor(miss * (len(own) + 1) + 1e-9)
    return scores[new] <= (own[-k] if k else np.inf)


# Reporting


def findings(store: RowStore, *, seeds: Sequence[int]) -> Findings:
    """Tables and claims of the mean over seeds."""
    means = _means(store, seeds)
    data = list(dict.fromkeys(name for name, _, _ in means))
    sections = {
        f"{name}, miss {miss:g}": [
            (
                method,
                *(
                    number(means[name, method, miss][c])
                    for c in ("size", "miss", "intervals", "cost")
                ),
            )
            for method in SIZES
        ]
        for name in data
        for miss in MISSES
    }
    moves = {
        name: [
            (method, *(number(means[name, method, e]["coverage"]) for e in EFFICIENCIES))
            for method in DIRECTIONS
        ]
        for name in data
    }
    report = Report(
        title=f"Sets at the same miss rate, {seeds_text(seeds)}",
        headings=("sets", "classes kept", "missed", "intervals", "absolute loss"),
        sections=sections,
        caption=(
            "intervals: share of sets without a gap; absolute loss: of the class that is named,\n"
            "decal with order by Gamma-maximin under absolute loss, without by Gamma-maximin,\n"
            "LAC and APS by the mode, ordinal APS by the median of the model"
        ),
        claims=tuple(_claims(means, data)),
        further=(
            Table(
                "Coverage of people's shares at equal efficiency, by what may move",
                ("directions", *(f"at {e:g}" for e in EFFICIENCIES)),
                moves,
                "–: no alpha gives this efficiency",
            ),
        ),
    )
    return Findings(report)


def _means(store: RowStore, seeds: Sequence[int]) -> dict[tuple[str, str, float], Row]:
    gathered: dict[tuple[str, str, float], list[Row]] = defaultdict(list)
    for cell, rows in store.cells.items():
        if cell.seed in seeds:
            for row in rows:
                gathered[cell.data, cell.method, row["level"]].append(row)
    names = ("size", "miss", "intervals", "cost", "coverage")
    return {
        key: {name: float(np.mean([row[name] for row in rows])) for name in names}
        for key, rows in gathered.items()
    }


def _claims(means: dict[tuple[str, str, float], Row], data: Sequence[str]) -> Iterator[Claim]:
    for name in data:
        for miss in MISSES:
            size = {method: means[name, method, miss]["size"] for method in SIZES}
            missed = means[name, INTERVAL, miss]["miss"]
            said = f"{name}, miss {miss:g}: intervals keep {size[INTERVAL]:.2f} classes"
            said += f", sets without order {size[ANY]:.2f}, ordinal APS {size[ORDINAL]:.2f}"
            yield Claim(said, size[INTERVAL] <= size[ANY])
            yield Claim(f"{name}, miss {miss:g}: intervals miss {missed:.3f}", missed <= miss)
    gains = [
        means[n, "class + tilt", e]["coverage"] - means[n, "class", e]["coverage"]
        for n in data
        for e in EFFICIENCIES
    ]
    yield Claim(
        f"a tilt adds {np.nanmean(gains):+.3f} coverage to class shifts", np.nanmean(gains) > 0
    )
