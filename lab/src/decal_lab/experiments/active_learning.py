"""Active learning: accuracy as labels are added, chosen by epistemic uncertainty or otherwise.

Learning starts with two labels per class. Every round adds 2 K more, chosen from the pool, until it
is empty. As in the paper's code, the model is decalibrated on the labelled rows that it has learnt
from, and accuracy is that of the model's own predictions on 30 % of the rows. The paper's rules
take the most uncertain rows; others take uncertain rows that differ, by
`decal_lab.acquisition`, the smallest margins, or any rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal_lab.acquisition import most_informative
from decal_lab.data import TableSet
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import check_folder, require_some
from decal_lab.experiments.harness.published_results import Published
from decal_lab.experiments.harness.reports import Report, Table, number, seeds_text, signed
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore
from decal_lab.experiments.harness.tabular_models import (
    MOST_ROWS,
    TableModel,
    load,
    logistic,
    tabpfn,
)

Array = NDArray[np.float64]

TABLES = {46941: "maternal health", 46963: "phishing", 46930: "table 46930"}
"""The paper's tables: short names by OpenML's number."""

FURTHER_TABLES = {46906: "anneal", 46958: "splice", 46960: "students", 46980: "MIC"}
"""Tables that the paper does not learn actively."""

TITLES = TABLES | FURTHER_TABLES
PER_CLASS, PER_ROUND, TEST_SHARE = 2, 2, 0.3
"""Labels per class at the start and per round, and the share of rows to test on."""

DRAWS, QUICK_DRAWS, TABPFN_DRAWS, QUICK_TABPFN_DRAWS = 10, 2, 3, 2
"""How many seeds a run has, counted up from the one that was asked for."""
TABPFN_LABELS, QUICK_TABPFN_LABELS = 96, 60
"""Curves of TabPFN end here: each of its predictions takes about a second."""
FURTHER_LABELS = 120
"""Curves on further tables end here: they have up to 4,000 rows and 300 features."""

COUNTS = (24, 96, 192)
"""Numbers of labels in the table."""

PANELS = 4
"""Panels in a line of the figure."""

COLUMNS = CELL | {"labelled": int, "accuracy": float} | ORIGIN


@dataclass(frozen=True)
class Strategy:
    """A way to choose the rows to label.

    Attributes
    ----------
    name : str
        Its name in rows of results.
    measure : str or None
        The measure of epistemic uncertainty, MARGIN, or None, which chooses at random.
    alpha : float
        Level of the credal sets.
    published : str
        Its name in published.json, if it is there.
    style : mapping
        How to draw it.
    shortlist : int
        Candidates per row to choose, of which those are taken that differ most.
    """

    name: str
    measure: str | None
    alpha: float
    published: str
    style: dict[str, Any]
    shortlist: int = 1


MARGIN = "margin"
RANDOM = Strategy("random", None, 1.0, "random", {"color": "#8a8a8a"})
STRATEGIES = (
    Strategy("entropy, alpha 0.8", "entropy", 0.8, "entropy_0.8_mle", {"color": "#0072B2"}),
    Strategy("zero-one, alpha 0.8", "zero_one", 0.8, "zero_one_0.8_mle", {"color": "#D55E00"}),
    Strategy("zero-one, 0.98, spread out", "zero_one", 0.98, "", {"color": "#E69F00"}, 6),
    Strategy("width, 0.98, spread out", "width", 0.98, "", {"color": "#009E73"}, 6),
    Strategy("margin", MARGIN, 1.0, "", {"color": "#CC79A7"}),
    RANDOM,
)
ALPHA_COLOURS = {
    0.2: "#440154", 0.4: "#414487", 0.6: "#2a788e", 0.8: "#22a884", 0.9: "#7ad151", 0.95: "#fdb32f"
}  # fmt: skip
ALPHA_STRATEGIES = (
    *(
        Strategy(f"zero-one, alpha {a:g}", "zero_one", a, f"zero_one_{a:g}_mle", {"color": colour})
        for a, colour in ALPHA_COLOURS.items()
    ),
    RANDOM,
)


def experiment(request: Request) -> Experiment:
    """Curves of all rules of choice, of every available model on every table.

    Seeds draw the first labels and the rows to test on. If one seed is asked for, those that follow
    it are used too, since one curve has no standard error. TabPFN learns the paper's tables only,
    up to TABPFN_LABELS labels. A quick run has fewer seeds, shorter curves of TabPFN, and the
    paper's tables only.
    """
    further = () if request.quick else tuple(FURTHER_TABLES)
    return _experiment("Active learning", STRATEGIES, request, further, TABPFN_LABELS)


def by_alpha(request: Request) -> Experiment:
    """The same for the zero-one measure at six alphas, on the paper's tables."""
    return _experiment("Active learning by alpha", ALPHA_STRATEGIES, request, (), MOST_ROWS)


def _experiment(
    title: str,
    strategies: Sequence[Strategy],
    request: Request,
    further: Sequence[int],
    tabpfn_labels: int,
) -> Experiment:
    data = request.data
    check_folder(data)
    tables = {number: table for number in TABLES if (table := load(data, number)) is not None}
    needs = [f"tabular/NAME_{number}.csv" for number in TABLES if number not in tables]
    require_some(tables, "tables", data, needs=needs)
    paper = tuple(tables)
    tables |= {number: table for number in further if (table := load(data, number)) is not None}
    draws = QUICK_DRAWS if request.quick else DRAWS
    models = [(logistic(), draws, MOST_ROWS, tuple(tables))]
    live, reason = tabpfn(data, members=1)
    if live is None:
        needs.append(reason)
    else:
        draws = QUICK_TABPFN_DRAWS if request.quick else TABPFN_DRAWS
        most = QUICK_TABPFN_LABELS if request.quick else tabpfn_labels
        models.append((live, draws, most, paper))
    plans = {
        Cell(str(name), f"{model.name}: {strategy.name}", seed): (
            task,
            strategy,
            most if name in TABLES else min(most, FURTHER_LABELS),
        )
        for model, draws, most, names in models
        for name in names
        for task in [TableTask(tables[name], model)]
        for seed in request.extended_seeds(draws)
        for strategy in strategies
    }

    def levels(cell: Cell) -> list[int]:
        task, _, most = plans[cell]
        return task.counts(most)

    def inputs(cell: Cell) -> dict[str, Any]:
        task, strategy, _ = plans[cell]
        settings: tuple[Any, ...] = (strategy.measure, strategy.alpha)
        if strategy.shortlist > 1:
            settings += (strategy.shortlist,)
        return {"data": (task.X, task.y), "settings": settings}

    def rows(cell: Cell) -> Iterator[Row]:
        task, strategy, most = plans[cell]
        return task.curve(strategy, cell.seed, most)

    seeds = tuple(sorted({cell.seed for cell in plans}))
    published = Published(data)
    return Experiment(
        columns=COLUMNS,
        level="labelled",
        cells=list(plans),
        levels=levels,
        inputs=inputs,
        rows=rows,
        findings=partial(findings, title, strategies, published=published, seeds=seeds),
        seeds=seeds,
        needs=tuple(needs),
    )


class TableTask:
    """A table, and a model that learns it."""

    def __init__(self, table: TableSet, model: TableModel) -> None:
        self.X, self.y = model.encode(table), table.labels
        self.K, self.model = len(table.classes), model
        self.start, self.batch = PER_CLASS * self.K, PER_ROUND * self.K
        pool = len(self.y) - self.start - int(TEST_SHARE * len(self.y))
        self.rounds = pool // self.batch

    def counts(self, most: int) -> list[int]:
        """The numbers of labels, up to `most`, at which accuracy is measured."""
        counts = [self.start + self.batch * i for i in range(self.rounds)]
        return [count for count in counts if count <= most]

    def curve(self, strategy: Strategy, seed: int, most: int) -> Iterator[Row]:
        """Accuracy at every number of labels."""
        rng = np.random.default_rng(seed)
        labelled, pool, test = self.split(rng)
        for count in self.counts(most):
            y = self.y[labelled]
            logits = self.model.fit(self.X[labelled], y, self.K, seed)(self.X)
            right = logits[test].argmax(axis=1) == self.y[test]
            yield {"labelled": count, "accuracy": float(right.mean())}
            chosen = choose(strategy, logits[labelled], y, logits[pool], self.batch)
            labelled = np.concatenate([labelled, pool[chosen]])
            pool = np.delete(pool, chosen)

    def split(self, rng: np.random.Generator) -> tuple[NDArray[np.intp], ...]:
        """Three sets of rows: the first to label, the pool in random order, and those to test on.

        Test rows are drawn class by class, in proportion to the size of the class.
        """
        order = rng.permutation(len(self.y))
        by_class = [order[self.y[order] == k] for k in range(self.K)]
        first = np.concatenate([rows[:PER_CLASS] for rows in by_class])
        rest = [rows[PER_CLASS:] for rows in by_class]
        wanted = int(TEST_SHARE * len(self.y))
        share = np.array([len(rows) for rows in rest]) * wanted / sum(map(len, rest))
        sizes = share.astype(int)
        sizes[np.argsort(sizes - share)[: wanted - sizes.sum()]] += 1  # largest remainders
        test = np.concatenate([rows[:n] for rows, n in zip(rest, sizes, strict=True)])
        taken = np.zeros(len(self.y), dtype=bool)
        taken[first] = taken[test] = True
        return first, order[~taken[order]], test


def choose(
    strategy: Strategy, logits: Array, labels: NDArray[Any], pool: Array, count: int
) -> NDArray[np.intp]:
    """The rows of the pool to label next; among equals, the random order of the pool decides.

    Parameters
    ----------
    strategy : Strategy
        How to choose.
    logits, labels : (m, K) and (m,) arrays
        Of the labelled rows.
    pool : (n, K) array
        Logits of the pool.
    count : int
        How many rows to choose.
    """
    if strategy.measure is None:
        return np.arange(count)  # the pool is in random order
    if strategy.measure == MARGIN:
        ascending = np.sort(softmax(pool, axis=1), axis=1)
        return np.argsort(ascending[:, -1] - ascending[:, -2], kind="stable")[:count]
    d = decal.decalibrate(logits, labels, alpha=strategy.alpha)
    with warnings.catch_warnings():
        # That the paper's rules choose badly at the cap is what this experiment shows.
        warnings.filterwarnings("ignore", r"credal sets exclude|epistemic\(", decal.AnswerWarning)
        return most_informative(
            d.predict(pool), pool, count, measure=strategy.measure, shortlist=strategy.shortlist
        )


# Reporting


@dataclass(frozen=True)
class Means:
    """Accuracy by number of labels: mean and standard error (NaN for one draw) over `draws`."""

    labelled: Array
    mean: Array
    error: Array
    draws: int

    def at(self, count: int) -> tuple[float, float]:
        """Mean and error at the first number of labels that is not smaller, or NaN."""
        i = int(np.searchsorted(self.labelled, count))
        return (self.mean[i], self.error[i]) if i < len(self.mean) else (np.nan, np.nan)

    def area(self, most: float) -> float:
        """Mean accuracy over all rounds up to a number of labels."""
        return float(self.mean[self.labelled <= most].mean())


def means_of(store: RowStore, seeds: Sequence[int]) -> dict[tuple[int, str, str], Means]:
    """Curves by table, model and strategy."""
    found: dict[tuple[int, str, str], list[Array]] = {}
    for cell, rows in store.cells.items():
        if cell.seed in seeds:
            model, _, strategy = cell.method.partition(": ")
            rows = sorted(rows, key=lambda row: row["labelled"])
            curve = np.array([(row["labelled"], row["accuracy"]) for row in rows]).T
            found.setdefault((int(cell.data), model, strategy), []).append(curve)
    means = {}
    for key, curves in found.items():
        shared = min(len(curve[0]) for curve in curves)  # a quick run's curves may end earlier
        values = np.array([curve[1][:shared] for curve in curves])
        n = len(values)
        error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(shared, np.nan)
        means[key] = Means(curves[0][0][:shared], values.mean(axis=0), error, n)
    return means


def findings(
    title: str,
    strategies: Sequence[Strategy],
    store: RowStore,
    *,
    published: Published,
    seeds: Sequence[int],
) -> Findings:
    """Tables and figures of the mean over seeds."""
    means = means_of(store, seeds) | _published_means(published, strategies)
    groups = list(dict.fromkeys((table, model) for table, model, _ in means))
    groups.sort(key=lambda group: (list(TITLES).index(group[0]), group[1] == PUBLISHED, group[1]))
    sections = {}
    for table, model in groups:
        curves = {s.name: means[table, model, s.name] for s in strategies
                  if (table, model, s.name) in means}  # fmt: skip
        sections[f"{TITLES[table]}: {model}"] = _lines(curves)
    report = Report(
        title=f"{title}: accuracy by labels, {seeds_text(seeds)}",
        headings=("choice", *map(str, COUNTS), "− random"),
        sections=sections,
        caption=(
            "± standard error over the draws; − random: of the mean accuracy over all rounds\n"
            f"logistic regression stands in for TabPFN; published: TabPFN 2; {_draws(means)}"
        ),
        further=tuple(_gains(means, groups, strategies)),
    )
    figures = {"accuracy": partial(_draw, means, groups, strategies)} if means else {}
    return Findings(report, figures)


PUBLISHED = "published, TabPFN 2"


def _published_means(
    published: Published, strategies: Sequence[Strategy]
) -> dict[tuple[int, str, str], Means]:
    means = {}
    for table in TABLES:
        for strategy in strategies:
            entry = published.active_learning(table, strategy.published)
            if entry is not None:
                means[table, PUBLISHED, strategy.name] = Means(
                    np.array(entry["n_labelled"], dtype=float),
                    np.array(entry["accuracy_mean"], dtype=float),
                    np.array(entry["accuracy_sem"], dtype=float),
                    entry["seeds"],
                )
    return means


def _draws(means: dict[tuple[int, str, str], Means]) -> str:
    counts = sorted({curve.draws for curve in means.values()})
    return f"{counts[0]} to {counts[-1]} draws" if len(counts) > 1 else f"{counts[0]} draws"


def _lines(curves: dict[str, Means]) -> list[tuple[str, ...]]:
    most = min(curve.labelled[-1] for curve in curves.values())
    baseline = curves[RANDOM.name].area(most) if RANDOM.name in curves else np.nan
    lines = []
    for name, curve in curves.items():
        cells = [
            number(mean) if np.isnan(error) else f"{mean:.3f}±{error:.3f}"
            for mean, error in map(curve.at, COUNTS)
        ]
        gain = "" if name == RANDOM.name else signed(curve.area(most) - baseline)
        lines.append((name, *cells, gain))
    return lines


def _gains(
    means: dict[tuple[int, str, str], Means],
    groups: list[tuple[int, str]],
    strategies: Sequence[Strategy],
) -> Iterator[Table]:
    """Gains over random choice, ours next to the published ones over the same rounds."""
    rows: list[tuple[str, ...]] = []
    for table, model in groups:
        for s in strategies:
            if model == PUBLISHED or s == RANDOM:
                continue
            keys = [
                (table, who, name) for who in (model, PUBLISHED) for name in (s.name, RANDOM.name)
            ]
            curves = [means[key] for key in keys if key in means]
            if len(curves) < len(keys):
                continue
            most = min(curve.labelled[-1] for curve in curves)
            areas = [curve.area(most) for curve in curves]
            ours, theirs = areas[0] - areas[1], areas[2] - areas[3]
            title = f"{TITLES[table]}, {model}: {s.name}"
            gains = signed(ours), signed(theirs), signed(ours - theirs)
            rows.append((title, f"{most:g}", *gains))
    if rows:
        yield Table(
            "Gain in mean accuracy over random choice",
            ("data, model, choice", "up to", "ours", "published", "difference"),
            {"": rows},
            "up to: labels; published: TabPFN 2",
        )


def _draw(
    means: dict[tuple[int, str, str], Means],
    groups: list[tuple[int, str]],
    strategies: Sequence[Strategy],
) -> Any:
    from matplotlib import pyplot as plt

    lines = -(-len(groups) // PANELS)
    figure, axes = plt.subplots(
        lines,
        PANELS,
        figsize=(3.0 * PANELS + 0.4, 2.3 * lines + 0.5),
        squeeze=False,
        layout="constrained",
    )
    for ax in axes.flat[len(groups) :]:
        ax.remove()
    for ax, (table, model) in zip(axes.flat, groups, strict=False):
        for s in strategies:
            if (curve := means.get((table, model, s.name))) is not None:
                ax.plot(curve.labelled, curve.mean, label=s.name, linewidth=1.3, **s.style)
                low, high = curve.mean - curve.error, curve.mean + curve.error
                ax.fill_between(curve.labelled, low, high, alpha=0.18, linewidth=0, **s.style)
        ax.set_title(f"{TITLES[table]}: {model}", fontsize=8)
        ax.tick_params(labelsize=7, length=0)
        ax.grid(color="#8a8a8a", alpha=0.25, linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("labels", fontsize=9)
    figure.supylabel("accuracy", fontsize=9)
    handles: dict[str, Any] = {}
    for ax in axes.flat[: len(groups)]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=min(len(handles), 4),
        frameon=False,
        fontsize=8,
    )
    return figure
