"""How many networks detection takes: AUROC by the number of members, beside one decalibrated.

The paper's ensembles of ResNet-18 are not at hand. A stand-in shows the comparison live: small
networks that learn seven of the ten digits of scikit-learn, and must tell the other three apart.
The published numbers stand beside it; only their shape can be compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

import decal
from decal._experiments.active_learning import drawn
from decal._experiments.harness.figures import save_all
from decal._experiments.harness.published_detection import BY_MEMBERS, OUT_SETS, SINGLE
from decal._experiments.harness.reports import (
    Claim,
    Report,
    Table,
    number,
    seeds_text,
    signed,
    write_tables,
)
from decal._experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore, Track, untracked

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
"""Seeds that a lone seed stands for: itself and those after it."""

COLUMNS = CELL | {"members": int, "auroc": float, "accuracy": float} | ORIGIN

STYLES: dict[str, dict[str, Any]] = {
    DECAL: {"color": "#0072B2", "marker": "o"},
    SINGLE_ENTROPY: {"color": "#8a8a8a", "marker": "D"},
    WRAPPER: {"color": "#D55E00", "marker": "^"},
    HULL: {"color": "#E69F00", "marker": "s"},
    "EffCre, alpha 0.95": {"color": "#0072B2", "marker": "o"},
    "CreWra": {"color": "#D55E00", "marker": "^"},
    "CreEns, alpha 0": {"color": "#E69F00", "marker": "s"},
    "CreRL, alpha 0.95": {"color": "#009E73", "marker": "v"},
    "CreBNN": {"color": "#CC79A7", "marker": "P"},
    "CreNet": {"color": "#56B4E9", "marker": "X"},
}


def run(
    data: Path,  # noqa: ARG001 - scikit-learn brings the digits
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : not used: scikit-learn brings the digits.
    out : folder of results, created if need be.
    seeds : draw the split and the networks; a lone seed stands for itself and some after it.
    quick : fewer draws.
    track : hands on the cells to compute, for a progress bar.
    """
    store = RowStore(out / "rows.csv", COLUMNS, level="members")
    draws = drawn(seeds, QUICK_DRAWS if quick else DRAWS)
    known: dict[int, Trained] = {}

    def work(cell: Cell) -> Iterator[Row]:
        if cell.seed not in known:
            known.clear()  # cells come seed by seed
            known[cell.seed] = trained(cell.seed)
        yield from known[cell.seed].rows(cell.method)

    for seed in draws:
        for method, sizes in METHODS.items():
            store.fill([Cell(DATA, method, seed)], sizes, work, track=track)
    needs = (
        "ensembles of 5, 10 and 20 ResNet-18 for CIFAR-10, which take hours of a GPU to train",
    )
    return report(store, out, seeds=draws, needs=needs)


@dataclass(frozen=True)
class Trained:
    """Twenty networks' predictions.

    Attributes
    ----------
    train, labels : (m, K) log-probabilities of the first network on what it learnt, and (m,).
    inside, outside : (members, n, K) probabilities of known and of foreign digits.
    truth : (n,) labels of the known ones.
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
                "auroc": decal.metrics.auroc(inside, outside),
                "accuracy": float(right.mean()),
            }

    def score(self, method: str, members: Array) -> Array:
        """(n,) how uncertain `members`, (M, n, K), are: higher means more likely foreign."""
        if method == SINGLE_ENTROPY:
            return np.asarray(entr(members[0]).sum(axis=1))
        if method == DECAL:
            d = decal.decalibrate(self.train, self.labels, alpha=ALPHA)
            return np.asarray(d.predict(_log(members[0])).epistemic())
        hull = decal.HullCredalSet(np.moveaxis(members, 0, 1))
        return np.asarray((hull if method == HULL else hull.box()).epistemic())


def trained(seed: int) -> Trained:
    """Train twenty networks on one split; a network of its own for every random state."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
        from sklearn.neural_network import MLPClassifier  # type: ignore[import-untyped]
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
        warnings.simplefilter("ignore")  # so few epochs do not converge
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


def report(
    store: RowStore, out: Path, *, seeds: tuple[int, ...], needs: tuple[str, ...] = ()
) -> Report:
    """Write the tables and figures of the rows of these seeds, and sum them up."""
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
    result = Report(
        title=f"AUROC by the number of networks, {seeds_text(seeds)}",
        headings=("method", *(str(size) for size in (1, *SIZES))),
        sections=sections,
        caption=(
            "columns: networks; ± standard deviation over the draws; difference of entropies\n"
            f"networks of {HIDDEN} hidden units: a stand-in, to be compared with nothing published"
        ),
        claims=tuple(_claims(means)),
        needs=needs,
        notes=tuple(store.origins(seeds)),
        further=(_published_table(),),
    )
    files = [store.path, *write_tables(result, out)]
    figures, notes = save_all({"members": lambda: _draw(means)}, out)
    return replace(result, files=(*files, *figures), notes=(*result.notes, *notes))


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
