"""One decalibrated network against several taken together, on CIFAR-10H.

Six networks for CIFAR-10 of different kinds form a diverse ensemble. Credal Ensembling keeps the
networks that agree most; with all of them, the box around its set is the Credal Wrapper's set. Each
network alone is decalibrated on one half of the test images. Its alpha is chosen so that its sets
are as wide as the ensemble's on the other half, where all are judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal_lab.experiments.comparison import plan
from decal_lab.experiments.comparison.plan import line_style
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import (
    RESNET20,
    TITLES,
    check_folder,
    human_labels,
    read,
    require_some,
)
from decal_lab.experiments.harness.reports import Claim, Report, Sections, number, seeds_text
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

Array = NDArray[np.float64]

NETWORKS = {
    "cnn_densenet_BC_100_12_test": TITLES["densenet_BC_100_12"],
    "cnn_resnet_basic_110_test": TITLES["resnet_basic_110"],
    "cnn_resnet_preact_bottleneck_164_test": TITLES["resnet_preact_bottleneck_164"],
    "cnn_resnext_29_8x64d_test": TITLES["resnext_29_8x64d"],
    "cnn_vgg_15_BN_64_test": TITLES["vgg_15_BN_64"],
    RESNET20: "ResNet-20",
}
"""Names of the networks, by their file of logits without .npz."""

ALL, ENSEMBLING = "all networks", "credal ensembling"
METHODS: dict[str, tuple[str, ...]] = {
    "class": ("class",),
    "class + temperature": ("class", "temperature"),
}
DISCARDED = (0.0, 0.2, 0.4, 0.6)
"""Shares of the networks that Credal Ensembling leaves out of an input's set."""

COLUMNS = CELL | {
    "discarded": float,
    "alpha": float,  # nan for all networks together
    "coverage": float,  # of all networks together: by the box around the hull
    "coverage_hull": float,
    "efficiency": float,
} | ORIGIN  # fmt: skip

STYLES: dict[str, dict[str, Any]] = {
    ENSEMBLING: {**line_style(plan.ENSEMBLING), "markersize": 6},
    "class": {**line_style(plan.CLASS), "markersize": 4},
    "class + temperature": {**line_style(plan.BOTH), "markersize": 4},
}


class Networks:
    """The networks' logits of the same test images, one half to fit and one to judge.

    Parameters
    ----------
    folder : path
        Folder of data.
    """

    def __init__(self, folder: Path) -> None:
        found: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        for name in NETWORKS:
            path = folder / f"{name}.npz"
            if path.exists():
                own = name == RESNET20
                keys = ("cifar10_test", "test_labels") if own else ("logits", "labels")
                logits, labels = read(path, *keys)
                found[name] = logits, labels
        self.labels = next((labels for _, labels in found.values()), np.empty(0))
        human = human_labels(folder, self.labels) if found else None
        self.human = np.empty((0, 0)) if human is None else human
        self.logits = {
            name: logits
            for name, (logits, labels) in found.items()
            if human is not None and np.array_equal(labels, self.labels)
        }
        self.hulls = lru_cache(maxsize=1)(self._hulls)

    def halves(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to fit on and rows to judge."""
        order = np.random.default_rng(seed).permutation(len(self.labels))
        first, second = np.split(order, [len(order) // 2])
        return first, second

    @cached_property
    def probabilities(self) -> Array:
        """(n, M, K) predictions of all networks."""
        return np.stack([softmax(z.astype(float), axis=1) for z in self.logits.values()], axis=1)

    def _hulls(self, seed: int) -> dict[float, decal.HullCredalSet]:
        """Credal Ensembling of the rows to judge, by the share of networks discarded."""
        from decal_lab.baselines import credal_ensembling  # needs PyTorch, which reports do not

        _, judged = self.halves(seed)
        return {share: credal_ensembling(self.probabilities[judged], share) for share in DISCARDED}

    def together(self, seed: int) -> Iterator[Row]:
        """Coverage and efficiency of all networks together, at each share discarded."""
        _, judged = self.halves(seed)
        for share, hull in self.hulls(seed).items():
            box = hull.box()
            yield {
                "discarded": share,
                "alpha": math.nan,
                "coverage": decal.metrics.coverage(box, self.human[judged]),
                "coverage_hull": decal.metrics.coverage(hull, self.human[judged]),
                "efficiency": decal.metrics.efficiency(box),
            }

    def alone(self, cell: Cell) -> Iterator[Row]:
        """Coverage of one decalibrated network at the efficiencies of all together."""
        fitted, judged = self.halves(cell.seed)
        logits = self.logits[_network(cell.data)]
        model = decal.Decalibrator(directions=METHODS[cell.method])
        model.fit(logits[fitted], self.labels[fitted])
        for share, hull in self.hulls(cell.seed).items():
            efficiency = decal.metrics.efficiency(hull.box())
            row = dict.fromkeys(("alpha", "coverage", "coverage_hull", "efficiency"), math.nan)
            row["discarded"] = share
            try:
                choice = decal.choose(model, logits[judged], width=1 - efficiency)
            except ValueError:  # no alpha is that narrow
                yield row
                continue
            sets = model.predict(logits[judged], alpha=choice.alpha)
            row["alpha"] = choice.alpha
            row["coverage"] = decal.metrics.coverage(sets, self.human[judged])
            row["efficiency"] = decal.metrics.efficiency(sets)
            yield row


def experiment(request: Request) -> Experiment:
    """All networks together, and each alone, at equal efficiency.

    Seeds draw halves; results are the mean over seeds. A quick run is the same as a full run.
    """
    check_folder(request.data)
    networks = Networks(request.data)
    needs = tuple(f"{name}.npz" for name in NETWORKS if name not in networks.logits)
    several = networks.logits if len(networks.logits) > 1 else ()
    require_some(several, "two or more networks for CIFAR-10", request.data, needs=needs)
    together = [Cell(f"{ALL}/{len(several)}", ENSEMBLING, seed) for seed in request.seeds]
    alone = [
        Cell(f"{name}/{len(several)}", method, seed)
        for seed in request.seeds
        for name in several
        for method in METHODS
    ]

    parts = (networks.logits, networks.labels, networks.human)

    def rows(cell: Cell) -> Iterator[Row]:
        return networks.together(cell.seed) if cell in together else networks.alone(cell)

    cells = [*together, *alone]
    return Experiment(
        columns=COLUMNS,
        level="discarded",
        cells=cells,
        levels=lambda _: DISCARDED,
        inputs=lambda cell: {"data": parts, "settings": METHODS.get(cell.method)},
        rows=rows,
        findings=partial(findings, cells=cells, seeds=request.seeds),
        seeds=request.seeds,
        needs=needs,
    )


def _network(data: str) -> str:
    """The network of a cell, without the number of networks that follows its name."""
    return data.partition("/")[0]


# Reporting


def findings(store: RowStore, *, cells: Sequence[Cell], seeds: Sequence[int]) -> Findings:
    """Tables, figures and claims of the mean over seeds."""
    rows: dict[tuple[str, str], list[list[Row]]] = {}
    for cell in cells:
        by_share = sorted(store.cells[cell], key=lambda row: row["discarded"])
        rows.setdefault((cell.data, cell.method), []).append(by_share)

    def mean(key: tuple[str, str], column: str) -> Array:
        values = [[row[column] for row in seed] for seed in rows[key]]
        return np.asarray(np.mean(values, axis=0))

    every = next(key for key in rows if key[1] == ENSEMBLING)
    efficiency, covered = mean(every, "efficiency"), mean(every, "coverage")
    alone = {
        method: {name: mean((name, of), "coverage") for name, of in rows if of == method}
        for method in METHODS
    }
    sections: Sections = {
        "All together": [
            _line("efficiency", efficiency),
            _line("credal ensembling: the box", covered),
            _line("credal ensembling: the hull", mean(every, "coverage_hull")),
        ]
    }
    for method, found in alone.items():
        lines = [_line(NETWORKS[_network(name)], values) for name, values in found.items()]
        sections[f"Each alone: {method}"] = lines
    report = Report(
        title=f"Coverage of CIFAR-10H at equal efficiency, {seeds_text(seeds)}",
        headings=("", *("all" if not share else f"without {share:.0%}" for share in DISCARDED)),
        sections=sections,
        caption=(
            f"{len(alone['class'])} networks; the box around all of them is the Credal Wrapper's\n"
            "each alone is decalibrated, at the alpha at which its sets are as wide"
        ),
        claims=tuple(_claims(alone, covered)),
    )
    bands = {method: _band(list(found.values())) for method, found in alone.items()}
    figure = partial(draw, efficiency, covered, bands)
    return Findings(report, {"together": figure})


def _line(name: str, values: Array) -> tuple[str, ...]:
    return (name, *(number(value) for value in values))


def _band(values: Sequence[Array]) -> Array:
    return np.stack([np.min(values, axis=0), np.mean(values, axis=0), np.max(values, axis=0)])


def _claims(alone: Mapping[str, Mapping[str, Array]], covered: Array) -> Iterator[Claim]:
    for method, found in alone.items():
        reached = [values[0] for values in found.values()]
        text = (
            f"Each network alone ({method}) covers as much as the Credal Wrapper of all, "
            "at equal width: "
            f"{number(np.min(reached))} to {number(np.max(reached))} against {covered[0]:.3f}"
        )
        yield Claim(text, bool(np.min(reached) >= covered[0]))


def draw(efficiency: Array, covered: Array, bands: Mapping[str, Array]) -> Any:
    """Coverage against efficiency: a line for all, and a band for the networks alone.

    A band is the least, the mean and the largest coverage of one network, (3, E).
    """
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(3.9, 3.6), layout="constrained")
    for method, (low, mean, high) in bands.items():
        style = STYLES[method]
        ax.fill_between(efficiency, low, high, color=style["color"], alpha=0.2, linewidth=0)
        label = f"one network, {method}: mean and range"
        ax.plot(efficiency, mean, label=label, **style)
    ax.plot(efficiency, covered, label="all networks, credal ensembling", **STYLES[ENSEMBLING])
    ax.set(xlabel="efficiency (1 − mean width)", ylabel="coverage of CIFAR-10H")
    ax.grid(color="#9a9a9a", alpha=0.25, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=0)
    ax.locator_params(axis="x", nbins=4)
    figure.legend(loc="outside upper center", frameon=False, fontsize="small", handlelength=1.2)
    return figure
