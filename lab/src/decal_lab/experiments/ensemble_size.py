"""AUROC by the number of networks in an ensemble, and of one decalibrated network.

The paper's ensembles of ResNet-18 are not available. A stand-in runs the comparison live: small
networks learn seven of the ten digits of scikit-learn, and must detect the other three. The
published numbers are shown next to it; only the shapes of the curves can be compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

import decal
from decal_lab.experiments.comparison import plan
from decal_lab.experiments.comparison.plan import line_style
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.published_tables import BY_MEMBERS, OUT_SETS, SINGLE
from decal_lab.experiments.harness.reports import Claim, Report, Table, number, seeds_text, signed
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

Array = NDArray[np.float64]

DATA = "stand-in: digits 0–6 in, 7–9 out"
KNOWN_DIGITS = 7
SIZES = (2, 5, 10, 20)
TEST_SHARE = 0.4
HIDDEN, EPOCHS = 32, 30

DECAL, SINGLE_ENTROPY = "decalibrated, alpha 0.95", "entropy of the prediction"
WRAPPER, HULL = "credal wrapper", "credal ensembling, alpha 0"
ALPHA = 0.95
METHODS = {DECAL: (1,), SINGLE_ENTROPY: (1,), WRAPPER: SIZES, HULL: SIZES}
"""The numbers of networks that each method is measured with."""

DRAWS, QUICK_DRAWS = 5, 2
"""How many seeds a run has, counted up from the one that was asked for."""

COLUMNS = CELL | {"members": int, "auroc": float, "accuracy": float} | ORIGIN

STYLES: dict[str, dict[str, Any]] = {
    DECAL: line_style(plan.CLASS),
    SINGLE_ENTROPY: line_style(plan.ENTROPY),
    WRAPPER: line_style(plan.WRAPPER),
    HULL: line_style(plan.ENSEMBLING),
    "EffCre, alpha 0.95": line_style(plan.CLASS),
    "CreWra": line_style(plan.WRAPPER),
    "CreEns, alpha 0": line_style(plan.ENSEMBLING),
    "CreRL, alpha 0.95": line_style(plan.LIKELIHOOD),
    "CreNet": line_style(plan.CRENET),
    "CreBNN": line_style(plan.BAYESIAN),
}


def experiment(request: Request) -> Experiment:
    """AUROC of every method with every number of networks.

    The folder of data is not used: scikit-learn brings the digits. Seeds draw the split and the
    networks; if one seed is asked for, those that follow it are used too. A quick run has fewer.
    """
    seeds = request.extended_seeds(QUICK_DRAWS if request.quick else DRAWS)
    networks = lru_cache(maxsize=1)(trained)  # cells come seed by seed
    return Experiment(
        columns=COLUMNS,
        level="members",
        cells=[Cell(DATA, method, seed) for seed in seeds for method in METHODS],
        levels=lambda cell: METHODS[cell.method],
        inputs=lambda _: {},  # scikit-learn's digits do not change
        rows=lambda cell: networks(cell.seed).rows(cell.method),
        findings=partial(findings, seeds=seeds),
        seeds=seeds,
        needs=(
            "ensembles of 5, 10 and 20 ResNet-18 for CIFAR-10, which take hours of a GPU to train",
        ),
    )


@dataclass(frozen=True)
class Trained:
    """Predictions of twenty networks.

    Attributes
    ----------
    train : (m, K) array
        Log-probabilities that the first network gives its training rows.
    labels : (m,) array
        Labels of these rows.
    inside, outside : (members, n, K) array
        Probabilities for digits that the networks learnt, and for other digits.
    truth : (n,) array
        Labels of the former.
    """

    train: Array
    labels: NDArray[np.intp]
    inside: Array
    outside: Array
    truth: NDArray[np.intp]

    def rows(self, method: str) -> Iterator[Row]:
        """AUROC of a method with each number of networks, and the accuracy of their mean."""
        for size in METHODS[method]:
            inside, outside = (self.score(method, p[:size]) for p in (self.inside, self.outside))
            right = self.inside[:size].mean(axis=0).argmax(axis=1) == self.truth
            yield {
                "members": size,
                "auroc": decal.metrics.auroc(in_scores=inside, out_scores=outside),
                "accuracy": float(right.mean()),
            }

    def score(self, method: str, members: Array) -> Array:
        """(n,) uncertainty of `members`, (M, n, K); higher if more likely out of distribution."""
        if method == SINGLE_ENTROPY:
            return np.asarray(entr(members[0]).sum(axis=1))
        if method == DECAL:
            model = decal.Decalibrator(alpha=ALPHA).fit(self.train, self.labels)
            return _difference(model.predict(_log(members[0])))
        hull = decal.HullCredalSet(members, axis=0)
        return _difference(hull if method == HULL else hull.box())


def _difference(credal: decal.credal.CredalSet) -> Array:
    """(n,) upper minus lower entropy: the paper's score, whether or not it is at its cap."""
    lower, upper = credal.entropy()
    return np.asarray(np.maximum(upper - lower, 0.0))


def trained(seed: int) -> Trained:
    """Train twenty networks on one split, each from its own random state."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ImportError(
            "this experiment needs scikit-learn: pip install 'decal[sklearn]'", name="sklearn"
        ) from error
    X, y = load_digits(return_X_y=True)
    X = X / 16
    known = np.random.default_rng(seed).permutation(np.flatnonzero(y < KNOWN_DIGITS))
    test, train = np.split(known, [int(TEST_SHARE * len(known))])
    inside, outside = [], []
    first: Array | None = None
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # training stops long before it converges
        for member in range(max(SIZES)):
            network = MLPClassifier(
                (HIDDEN,),
                max_iter=EPOCHS,
                learning_rate_init=0.01,
                random_state=1000 * seed + member,
            ).fit(X[train], y[train])
            inside.append(network.predict_proba(X[test]))
            outside.append(network.predict_proba(X[y >= KNOWN_DIGITS]))
            if first is None:
                first = _log(network.predict_proba(X[train]))
    assert first is not None
    return Trained(first, y[train], np.array(inside), np.array(outside), y[test])


# Reporting


def findings(store: RowStore, *, seeds: tuple[int, ...]) -> Findings:
    """Tables, figures and claims of the rows of these seeds."""
    found: dict[tuple[str, int], list[float]] = {}
    for cell, rows in store.cells.items():
        if cell.seed in seeds:
            for row in rows:
                found.setdefault((cell.method, row["members"]), []).append(row["auroc"])
    means = {key: float(np.mean(values)) for key, values in found.items()}
    sections = {
        DATA: [
            (method, *(_spread(found.get((method, size), [])) for size in (1, *SIZES)))
            for method in METHODS
        ]
    }
    report = Report(
        title=f"AUROC by the number of networks, {seeds_text(seeds)}",
        headings=("method", *(str(size) for size in (1, *SIZES))),
        sections=sections,
        caption=(
            "columns: networks; ± standard deviation over the draws; difference of entropies\n"
            f"a stand-in with {HIDDEN} hidden units, not to be compared with published numbers"
        ),
        claims=tuple(_claims(means)),
        further=(_published_table(),),
    )
    return Findings(report, {"members": partial(_draw, means)})


def _spread(values: list[float]) -> str:
    if len(values) < 2:
        return number(values[0]) if values else ""
    return f"{np.mean(values):.3f}±{np.std(values, ddof=1):.3f}"


def _claims(means: Mapping[tuple[str, int], float]) -> Iterator[Claim]:
    if (DECAL, 1) in means and (WRAPPER, 2) in means:
        gap = means[DECAL, 1] - means[WRAPPER, 2]
        yield Claim(f"one network, decalibrated, against a wrapper of two: {signed(gap)}", gap > 0)
        growth = means[WRAPPER, SIZES[-1]] - means[WRAPPER, SIZES[0]]
        yield Claim(
            f"more members help, as published: wrapper of {SIZES[-1]} against {SIZES[0]} "
            f"{signed(growth)}",
            growth > 0,
        )


def _published_table() -> Table:
    sections = {}
    for i, title in enumerate(OUT_SETS.values()):
        lines = [(name, number(values[i]), *("" for _ in SIZES)) for name, values in SINGLE.items()]
        lines += [
            (name, "", *(number(by_size[size][i]) for size in SIZES))
            for name, by_size in BY_MEMBERS.items()
        ]
        sections[f"against {title}"] = lines
    return Table(
        "Published: CIFAR-10, ResNet-18, mean of three seeds",
        ("method", *(str(size) for size in (1, *SIZES))),
        sections,
        "columns: networks; from plotting.py of the paper's repository",
    )


def _draw(means: Mapping[tuple[str, int], float]) -> Any:
    from matplotlib import pyplot as plt

    published = {name: {1: np.mean(values)} for name, values in SINGLE.items()}
    published |= {
        name: {size: np.mean(values) for size, values in by_size.items()}
        for name, by_size in BY_MEMBERS.items()
    }
    ours: dict[str, dict[int, Any]] = {}
    for (method, size), value in sorted(means.items(), key=lambda item: item[0][1]):
        ours.setdefault(method, {})[size] = value
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
    panels = (("published: ResNet-18, mean of five sets", published), (DATA, ours))
    for ax, (title, curves) in zip(axes, panels, strict=True):
        for method, style in STYLES.items():
            if method not in curves:
                continue
            curve = curves[method]
            places = [(1, *SIZES).index(size) for size in curve]
            ax.plot(
                places, list(curve.values()), linewidth=1.4, markersize=5, label=method, **style
            )
            if list(curve) == [1]:
                ax.axhline(curve[1], color=style["color"], linewidth=0.8, linestyle=(0, (2, 2)))
        ax.set_title(title, fontsize=9)
        ax.set_xticks(range(len(SIZES) + 1), [str(size) for size in (1, *SIZES)])
        ax.set_xlabel("networks", fontsize=9)
        ax.tick_params(labelsize=8, length=0)
        ax.grid(color="#8a8a8a", alpha=0.25, linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=7, loc="lower right")
    axes[0].set_ylabel("AUROC", fontsize=9)
    return figure


def _log(p: Array) -> Array:
    return np.log(np.maximum(p, np.finfo(np.float64).tiny))
