"""Credal sets from TabPFN's logits: coverage and efficiency on six tables with a known truth.

A random forest of depth 5, fitted to a table, is the truth; labels are drawn from it, TabPFN learns
them in context, and its logits on the training rows decalibrate it, as in the paper. The stored
logits are of TabPFN 1 (seeds 1 and 2); a seed that is not stored runs live, if TabPFN does. The
published ones are of TabPFN 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import decal
from decal._experiments.harness.curves import measure
from decal._experiments.harness.figures import save_all
from decal._experiments.harness.logit_sets import (
    Split,
    check_folder,
    draw_labels,
    read,
    require_some,
)
from decal._experiments.harness.published_results import ALPHAS, Published, PublishedCurve
from decal._experiments.harness.reports import Report, Table, number, signed, write_tables
from decal._experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore, Track, untracked
from decal._experiments.harness.tabular_models import MOST_ROWS, Model, load
from decal._experiments.harness.tabular_models import tabpfn as live_tabpfn
from decal.datasets import TableSet

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
TEST_SHARE, FOREST_DEPTH = 0.3, 5

COLUMNS = CELL | {"alpha": float, "coverage": float, "efficiency": float} | ORIGIN


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = SEEDS,  # noqa: ARG001 - the published seeds are used
    quick: bool = False,
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder of stored logits, tabpfn_NAME_NUMBER_seedN.npz, of tables in `tabular`, and
        published.json if possible.
    out : folder of results, created if need be.
    seeds : not used: stored logits have the published seeds 1 and 2, and 3 may run live.
    quick : stored logits only.
    track : hands on the cells to compute, for a progress bar.
    """
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
        f"tabpfn_{TABLES[n]}_{n}_seed{s}.npz, or the table itself" for n, s in absent
        if n not in tables
    ]  # fmt: skip
    live = {Cell(str(n), LIVE, s): n for n, s in absent if n in tables and model is not None}
    if quick and live:
        needs.append("a run without --quick for the seeds that are not stored")
        live = {}
    elif absent and model is None:
        waiting = ", ".join(sorted({f"seed {s}" for _, s in absent}))
        needs.append(f"{reason}, for {waiting}")
    require_some([*stored, *live], "logits of TabPFN", data, needs=needs)
    store = RowStore(out / "rows.csv", COLUMNS, level="alpha")
    names = ("train_logits", "train_labels", "test_logits", "truth")
    store.fill(stored, ALPHAS, lambda cell: rows(Split(*read(stored[cell], *names))), track=track)
    if model is not None:
        store.fill(
            live,
            ALPHAS,
            lambda cell: rows(semi_synthetic(tables[live[cell]], model, cell.seed)),
            track=track,
        )
    return report(store, out, Published(data), needs=tuple(needs))


def rows(split: Split) -> Iterator[Row]:
    """Coverage and efficiency at the published alphas."""
    fitted = decal.Decalibrator().fit(split.logits, split.labels)
    curve = measure(fitted, split, ALPHAS[::-1])
    for a, c, e in zip(curve.alpha, curve.coverage, curve.efficiency, strict=True):
        yield {"alpha": float(a), "coverage": float(c), "efficiency": float(e)}


def semi_synthetic(table: TableSet, model: Model, seed: int) -> Split:
    """Logits of a model that learnt labels drawn from a forest, and the forest as the truth."""
    from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]
    from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

    X, K, rng = model.encode(table), len(table.classes), np.random.default_rng(seed)
    # The split and the forest of the published seed; the authors' drawn labels cannot be repeated.
    train, test = train_test_split(np.arange(len(X)), test_size=TEST_SHARE, random_state=seed)
    forest = RandomForestClassifier(max_depth=FOREST_DEPTH, random_state=seed)
    forest.fit(X[train], table.labels[train])
    truth = np.zeros((len(X), K))
    truth[:, forest.classes_] = forest.predict_proba(X)
    train = train[:MOST_ROWS]
    labels = draw_labels(truth[train], rng)
    logits = model.fit(X[train], labels, K, seed)
    return Split(logits(X[train]), labels, logits(X[test]), truth[test])


# Reporting


def report(
    store: RowStore, out: Path, published: Published, *, needs: tuple[str, ...] = ()
) -> Report:
    """Write the tables and figures of all rows, and sum them up."""
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
    result = Report(
        title="TabPFN: coverage and efficiency, mean over the seeds",
        headings=("measure", *(f"{alpha:g}" for alpha in ALPHAS)),
        sections=sections,
        caption=(
            "columns: alpha; ours: TabPFN 1, at most 1,000 rows to learn from; published: TabPFN 2,"
            " all rows;\nthe same splits, but labels drawn anew"
        ),
        needs=needs,
        notes=tuple(store.origins({cell.seed for cell in store.cells})),
        further=(*_gaps(found, curves), *_seed_tables(found, curves)),
    )
    files = [store.path, *write_tables(result, out)]
    drawn, notes = save_all({"curves": lambda: _draw(found, curves)}, out)
    return replace(result, files=(*files, *drawn), notes=(*result.notes, *notes))


def _by_table(store: RowStore) -> dict[int, dict[int, dict[str, list[float]]]]:
    """Coverage and efficiency by rising alpha, by table and seed."""
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
    """The published mean over those of these seeds that were published."""
    if curve is None:
        return None
    places = [curve.seeds.index(seed) for seed in seeds if seed in curve.seeds]
    return np.asarray(curve.values[measured][places].mean(axis=0)) if places else None


def _gaps(
    found: Mapping[int, Mapping[int, Mapping[str, list[float]]]],
    curves: Mapping[int, PublishedCurve | None],
) -> Iterator[Table]:
    """How far the means are from the published ones at most, and where."""
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
    found: Mapping[int, Mapping[int, Mapping[str, list[float]]]],
    curves: Mapping[int, PublishedCurve | None],
) -> Iterator[Table]:
    """Every seed beside the published one of the same number."""
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
    found: Mapping[int, Mapping[int, Mapping[str, list[float]]]],
    curves: Mapping[int, PublishedCurve | None],
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
