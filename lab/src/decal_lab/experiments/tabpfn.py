"""Credal sets from TabPFN's logits: coverage and efficiency on six tables with a known truth.

The truth is a random forest of depth 5, fitted to a table. Labels are drawn from it, TabPFN learns
them in context, and its logits of the training rows decalibrate it, as in the paper. The stored
logits are of TabPFN 1 (seeds 1 and 2); other seeds run live if TabPFN is installed. The published
logits are of TabPFN 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import decal
from decal_lab.data import TableSet
from decal_lab.experiments.harness.curves import measure
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.forest_truth import forest
from decal_lab.experiments.harness.logit_sets import (
    LogitSplit,
    check_folder,
    draw_labels,
    read,
    require_some,
)
from decal_lab.experiments.harness.published_results import ALPHAS, Published, PublishedCurve
from decal_lab.experiments.harness.reports import Report, Table, number, signed
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore
from decal_lab.experiments.harness.tabular_models import MOST_ROWS, TableModel, load
from decal_lab.experiments.harness.tabular_models import tabpfn as live_tabpfn

TABLES = {
    46906: "anneal",
    46941: "maternal_health_risk",
    46958: "splice",
    46960: "students_dropout",
    46963: "website_phishing",
    46980: "MIC",
}
SEEDS = (1, 2, 3)
"""The published seeds: each draws a split, a forest and the labels."""

STORED, LIVE = "TabPFN 1, stored", "TabPFN, live"
MEMBERS = 4
TEST_SHARE = 0.3

COLUMNS = CELL | {"alpha": float, "coverage": float, "efficiency": float} | ORIGIN


def experiment(request: Request) -> Experiment:
    """Curves from stored logits, and live ones for the seeds that are not stored.

    The seeds are the published ones, 1 to 3, whatever was asked for. A quick run takes stored
    logits only.
    """
    data = request.data
    check_folder(data)
    stored = {
        Cell(str(number), STORED, seed): path
        for number, name in TABLES.items()
        for seed in SEEDS
        if (path := data / f"tabpfn_{name}_{number}_seed{seed}.npz").exists()
    }
    absent = [(n, s) for n in TABLES for s in SEEDS if Cell(str(n), STORED, s) not in stored]
    tables = {n: table for n, _ in absent if (table := load(data, n)) is not None}
    model, reason = live_tabpfn(data, members=MEMBERS)
    needs = [
        f"tabpfn_{TABLES[n]}_{n}_seed{s}.npz, or the table itself"
        for n, s in absent
        if n not in tables
    ]
    live = [Cell(str(n), LIVE, s) for n, s in absent if n in tables and model is not None]
    if request.quick and live:
        needs.append("a run without --quick for the seeds that are not stored")
        live = []
    elif absent and model is None:
        waiting = ", ".join(sorted({f"seed {s}" for _, s in absent}))
        needs.append(f"{reason}, for {waiting}")
    cells = [*stored, *live]
    require_some(cells, "logits of TabPFN", data, needs=needs)

    def inputs(cell: Cell) -> dict[str, Any]:
        if cell in stored:
            return {"data": stored[cell]}
        assert model is not None
        return {"data": tables[int(cell.data)], "settings": (model.name, MEMBERS)}

    def rows(cell: Cell) -> list[Row]:
        if cell in stored:
            keys = ("train_logits", "train_labels", "test_logits", "truth")
            split = LogitSplit(*read(stored[cell], *keys))
        else:
            assert model is not None
            split = semi_synthetic(tables[int(cell.data)], model, cell.seed)
        fitted = decal.Decalibrator().fit(split.logits, split.labels)
        return measure(fitted, split, ALPHAS[::-1]).rows()

    return Experiment(
        columns=COLUMNS,
        level="alpha",
        cells=cells,
        levels=lambda _: ALPHAS,
        inputs=inputs,
        rows=rows,
        findings=partial(findings, published=Published(data)),
        seeds=SEEDS,
        needs=tuple(needs),
    )


def semi_synthetic(table: TableSet, model: TableModel, seed: int) -> LogitSplit:
    """Logits of a model that learnt labels drawn from a forest, and the forest as the truth."""
    from sklearn.model_selection import train_test_split

    X, K, rng = model.encode(table), len(table.classes), np.random.default_rng(seed)
    # The split and the forest are those of the published seed; the labels cannot be, since the
    # authors' random draws are not known.
    train, test = train_test_split(np.arange(len(X)), test_size=TEST_SHARE, random_state=seed)
    truth = forest(X[train], table.labels[train], K, seed)(X)
    train = train[:MOST_ROWS]
    labels = draw_labels(truth[train], rng)
    logits = model.fit(X[train], labels, K, seed)
    return LogitSplit(logits(X[train]), labels, logits(X[test]), truth[test])


# Reporting


Found = Mapping[int, Mapping[int, Mapping[str, list[float]]]]
Curves = Mapping[int, PublishedCurve | None]
"""Coverage and efficiency by rising alpha, by table and seed; published curves by table."""


def findings(store: RowStore, *, published: Published) -> Findings:
    """Tables and figures of all rows."""
    curves = {n: published.coverage(str(n), "tabpfn") for n in TABLES}
    found = _by_table(store)
    sections: dict[str, list[tuple[str, ...]]] = {}
    for n, by_seed in found.items():
        seeds = sorted(by_seed)
        lines = []
        for measured in ("coverage", "efficiency"):
            ours = np.mean([by_seed[s][measured] for s in seeds], axis=0)
            lines.append((f"{measured}, ours", *map(number, ours)))
            theirs = _published(curves[n], measured, seeds)
            if theirs is not None:
                lines.append((f"{measured}, published", *map(number, theirs)))
                gaps = [signed(a - b) for a, b in zip(ours, theirs, strict=True)]
                lines.append(("difference", *gaps))
        sections[f"{TABLES[n].replace('_', ' ')} ({n}), seeds {', '.join(map(str, seeds))}"] = lines
    report = Report(
        title="TabPFN: coverage and efficiency, mean over the seeds",
        headings=("measure", *(f"{alpha:g}" for alpha in ALPHAS)),
        sections=sections,
        caption=(
            "columns: alpha; ours: TabPFN 1, at most 1,000 rows to learn from; published: TabPFN 2,"
            " all rows;\nthe same splits, but labels drawn anew"
        ),
        further=(*_gaps(found, curves), *_seed_tables(found, curves)),
    )
    return Findings(report, {"curves": partial(_draw, found, curves)})


def _by_table(store: RowStore) -> dict[int, dict[int, dict[str, list[float]]]]:
    """The rows as Found describes them."""
    found: dict[int, dict[int, dict[str, list[float]]]] = {}
    for n in TABLES:
        for cell, lines in store.cells.items():
            if cell.data == str(n):
                lines = sorted(lines, key=lambda row: row["alpha"])
                found.setdefault(n, {})[cell.seed] = {
                    measured: [row[measured] for row in lines]
                    for measured in ("coverage", "efficiency")
                }
    return found


def _published(
    curve: PublishedCurve | None, measured: str, seeds: Sequence[int]
) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """The published mean over these seeds, as far as they were published."""
    if curve is None:
        return None
    places = [curve.seeds.index(seed) for seed in seeds if seed in curve.seeds]
    return np.asarray(curve.values[measured][places].mean(axis=0)) if places else None


def _gaps(
    found: Found,
    curves: Curves,
) -> Iterator[Table]:
    """The largest difference of each mean from the published one, and its alpha."""
    lines = []
    for n, by_seed in found.items():
        cells = [f"{TABLES[n].replace('_', ' ')} ({n})"]
        for measured in ("coverage", "efficiency"):
            theirs = _published(curves[n], measured, sorted(by_seed))
            if theirs is not None:
                ours = np.mean([values[measured] for values in by_seed.values()], axis=0)
                worst = int(np.abs(ours - theirs).argmax())
                cells += [signed(ours[worst] - theirs[worst]), f"{ALPHAS[worst]:g}"]
        if len(cells) > 1:
            lines.append(tuple(cells))
    if lines:
        headings = ("table", "coverage", "at alpha", "efficiency", "at alpha")
        yield Table("Largest difference from the published means", headings, {"": lines})


def _seed_tables(
    found: Found,
    curves: Curves,
) -> Iterator[Table]:
    """Every seed next to the published one of the same number."""
    for measured in ("coverage", "efficiency"):
        sections: dict[str, list[tuple[str, ...]]] = {}
        for n, by_seed in found.items():
            lines = sections.setdefault(f"{TABLES[n].replace('_', ' ')} ({n})", [])
            for seed in sorted(by_seed):
                lines.append((f"seed {seed}, ours", *map(number, by_seed[seed][measured])))
                theirs = _published(curves[n], measured, [seed])
                if theirs is not None:
                    lines.append((f"seed {seed}, published", *map(number, theirs)))
        yield Table(
            f"TabPFN: {measured} by seed",
            ("seed", *(f"{alpha:g}" for alpha in ALPHAS)),
            sections,
        )


def _draw(
    found: Found,
    curves: Curves,
) -> Any:
    from matplotlib import pyplot as plt

    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(2.6 * columns + 0.4, 2.3 * lines + 0.5),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax in axes.flat[len(found) :]:
        ax.set_axis_off()
    for ax, (n, by_seed) in zip(axes.flat, found.items(), strict=False):
        seeds = sorted(by_seed)
        for values in by_seed.values():
            ax.plot(values["efficiency"], values["coverage"], color="#0072B2", alpha=0.3, lw=0.8)
        mean = {m: np.mean([by_seed[s][m] for s in seeds], axis=0) for m in by_seed[seeds[0]]}
        ax.plot(mean["efficiency"], mean["coverage"], color="#0072B2", lw=1.8, marker="o", ms=3,
                label="decal, TabPFN 1")  # fmt: skip
        pair = [_published(curves[n], m, seeds) for m in ("efficiency", "coverage")]
        if pair[0] is not None and pair[1] is not None:
            ax.plot(*pair, color="#D55E00", lw=1.4, ls=(0, (4, 1.5)), marker="s", ms=3,
                    label="published, TabPFN 2")  # fmt: skip
        ax.set_title(f"{TABLES[n].replace('_', ' ')} ({n})", fontsize=8)
        ax.set(xlim=(0, 1.01), ylim=(0, 1.03))
        ax.tick_params(labelsize=7, length=0)
        ax.grid(color="#8a8a8a", alpha=0.25, linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("efficiency", fontsize=9)
    figure.supylabel("coverage", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure
