"""One network, decalibrated, against several taken together, on CIFAR-10H.

Six networks for CIFAR-10 of different kinds make a diverse ensemble. Credal Ensembling keeps those
that agree most; with all of them, the box around it is the Credal Wrapper's set. Each network
alone, decalibrated on one half of the test images, is given the alpha at which its sets are as wide
on the other half, where all are judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal._experiments.harness.figures import save_all
from decal._experiments.harness.logit_sets import (
    TITLES,
    check_folder,
    human_labels,
    read,
    require_some,
)
from decal._experiments.harness.reports import (
    Claim,
    Report,
    Sections,
    number,
    seeds_text,
    write_tables,
)
from decal._experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore, Track, untracked

Array = NDArray[np.float64]

NETWORKS = {
    "cnn_densenet_BC_100_12_test": TITLES["densenet_BC_100_12"],
    "cnn_resnet_basic_110_test": TITLES["resnet_basic_110"],
    "cnn_resnet_preact_bottleneck_164_test": TITLES["resnet_preact_bottleneck_164"],
    "cnn_resnext_29_8x64d_test": TITLES["resnext_29_8x64d"],
    "cnn_vgg_15_BN_64_test": TITLES["vgg_15_BN_64"],
    "resnet20_cifar10": "ResNet-20",
}
"""Files of logits, without .npz, and what people call the networks."""

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
    ENSEMBLING: {"color": "#009E73", "marker": "^", "markersize": 6},
    "class": {"color": "#0072B2", "marker": "o", "markersize": 4},
    "class + temperature": {"color": "#D55E00", "marker": "D", "markersize": 4},
}


class Networks:
    """The networks' logits of the same test images, one half to fit and one to judge.

    Parameters
    ----------
    folder : of data.
    """

    def __init__(self, folder: Path) -> None:
        found: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        for name in NETWORKS:
            path = folder / f"{name}.npz"
            if path.exists():
                own = name == "resnet20_cifar10"
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

    def halves(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to fit on and rows to judge."""
        order = np.random.default_rng(seed).permutation(len(self.labels))
        first, second = np.split(order, [len(order) // 2])
        return first, second

    @cached_property
    def probabilities(self) -> Array:
        """(n, M, K) what all networks say."""
        return np.stack([softmax(z.astype(float), axis=1) for z in self.logits.values()], axis=1)

    def together(self, seed: int) -> Iterator[Row]:
        """Coverage and efficiency of all networks, at each share discarded."""
        from decal.baselines import credal_ensembling  # needs PyTorch, which reports do not

        _, judged = self.halves(seed)
        for share in DISCARDED:
            hull = credal_ensembling(self.probabilities[judged], share)
            box = hull.box()
            yield {
                "discarded": share,
                "alpha": math.nan,
                "coverage": decal.metrics.coverage(box, self.human[judged]),
                "coverage_hull": decal.metrics.coverage(hull, self.human[judged]),
                "efficiency": decal.metrics.efficiency(box),
            }

    def alone(self, cell: Cell, efficiencies: Mapping[float, float]) -> Iterator[Row]:
        """Coverage of one network, decalibrated, at the efficiencies of all together."""
        fitted, judged = self.halves(cell.seed)
        logits = self.logits[_network(cell.data)]
        model = decal.Decalibrator(directions=METHODS[cell.method])
        model.fit(logits[fitted], self.labels[fitted])
        for share, efficiency in efficiencies.items():
            row = dict.fromkeys(("alpha", "coverage", "coverage_hull", "efficiency"), math.nan)
            row["discarded"] = share
            try:
                choice = decal.selection.alpha_for_efficiency(model, logits[judged], efficiency)
            except ValueError:  # no alpha is that narrow
                yield row
                continue
            sets = model.predict(logits[judged], alpha=choice.alpha)
            row["alpha"] = choice.alpha
            row["coverage"] = decal.metrics.coverage(sets, self.human[judged])
            row["efficiency"] = decal.metrics.efficiency(sets)
            yield row


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,  # noqa: ARG001 - nothing to save: it takes half a minute
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder of the networks' logits, with CIFAR-10H in one of the files.
    out : folder of results, created if need be.
    seeds : each draws halves; results are the mean over seeds.
    quick : the same as a full run.
    track : hands on the cells to compute, for a progress bar.
    """
    check_folder(data)
    networks = Networks(data)
    needs = [f"{name}.npz" for name in NETWORKS if name not in networks.logits]
    several = networks.logits if len(networks.logits) > 1 else ()
    require_some(several, "two or more networks for CIFAR-10", data, needs=needs)
    store = RowStore(out / "rows.csv", COLUMNS, level="discarded")
    together = [Cell(f"{ALL}/{len(several)}", ENSEMBLING, seed) for seed in seeds]
    store.fill(together, DISCARDED, lambda cell: networks.together(cell.seed), track=track)
    wide = {
        cell.seed: {row["discarded"]: row["efficiency"] for row in store.cells[cell]}
        for cell in together
    }
    cells = [
        Cell(f"{name}/{len(several)}", method, seed)
        for seed in seeds
        for name in several
        for method in METHODS
    ]
    store.fill(cells, DISCARDED, lambda c: networks.alone(c, wide[c.seed]), track=track)
    return report(store, out, [*together, *cells], seeds=seeds, needs=tuple(needs))


def _network(data: str) -> str:
    """The network of a cell; behind it stands how many there were, which efficiencies depend on."""
    return data.partition("/")[0]


# Reporting


def report(
    store: RowStore,
    out: Path,
    cells: Sequence[Cell],
    *,
    seeds: Sequence[int],
    needs: tuple[str, ...] = (),
) -> Report:
    """Write tables and figures of the mean over seeds, and sum them up for the terminal."""
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
    told = Report(
        title=f"Coverage of CIFAR-10H at equal efficiency, {seeds_text(seeds)}",
        headings=("", *("all" if not share else f"without {share:.0%}" for share in DISCARDED)),
        sections=sections,
        caption=(
            f"{len(alone['class'])} networks; the box around all of them is the Credal Wrapper's\n"
            "each alone is decalibrated, at the alpha where its sets are as wide"
        ),
        claims=tuple(_claims(alone, covered)),
        needs=needs,
    )
    figure = partial(_draw, efficiency, covered, alone)
    files, notes = save_all({"together": figure}, out)
    written = [store.path, *write_tables(told, out), *files]
    return replace(told, notes=(*store.origins(seeds), *notes), files=tuple(written))


def _line(name: str, values: Array) -> tuple[str, ...]:
    return (name, *(number(value) for value in values))


def _claims(alone: Mapping[str, Mapping[str, Array]], covered: Array) -> Iterator[Claim]:
    for method, found in alone.items():
        reached = [values[0] for values in found.values()]
        text = (
            f"Each network alone ({method}) covers as much as the Credal Wrapper of all, as wide: "
            f"{number(np.min(reached))} to {number(np.max(reached))} against {covered[0]:.3f}"
        )
        yield Claim(text, bool(np.min(reached) >= covered[0]))


def _draw(efficiency: Array, covered: Array, alone: Mapping[str, Mapping[str, Array]]) -> Any:
    """Coverage against efficiency: a line for all, and a band for the networks alone."""
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    for method, found in alone.items():
        values, style = np.array(list(found.values())), STYLES[method]
        low, high = values.min(axis=0), values.max(axis=0)
        ax.fill_between(efficiency, low, high, color=style["color"], alpha=0.2, linewidth=0)
        label = f"one network, {method}: mean and range"
        ax.plot(efficiency, values.mean(axis=0), label=label, **style)
    ax.plot(efficiency, covered, label="all networks, credal ensembling", **STYLES[ENSEMBLING])
    ax.set(xlabel="efficiency (1 − mean width)", ylabel="coverage of CIFAR-10H")
    ax.grid(color="#9a9a9a", alpha=0.25, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=0)
    figure.legend(loc="outside upper center", frameon=False, fontsize="small")
    return figure
