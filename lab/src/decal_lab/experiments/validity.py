"""Do guaranteed sets hold the truth as often as promised, and how wide are they?

Rows with a known truth are split in three: some fit a Decalibrator, some choose alpha by their
labels (or by their distributions), the rest are new. Besides, the promise is put to the test
in small worlds whose truth is known exactly, many times over.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

import numpy as np

import decal
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.figures import (
    GREY,
    NARROW_INCHES,
    bare,
    legend_above,
    on_page,
)
from decal_lab.experiments.harness.guaranteed_sets import (
    SCORES,
    Labelled,
    Outcome,
    alpha_by_markov,
    divergences,
    of_conformal_balls,
    of_local_sets,
)
from decal_lab.experiments.harness.logit_sets import (
    FAMILIES,
    DataSet,
    draw_labels,
    find,
    in_order,
    named,
    read,
    require_some,
)
from decal_lab.experiments.harness.reports import Claim, Report, Table, number, seeds_text
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore
from decal_lab.experiments.harness.worlds import WORLDS, softmax

MIX, BY_ENTROPY = 0.001, 0.1
DELTAS = (0.05, 0.1, 0.2, 0.3)
QUICK_DELTAS = (0.1, 0.3)
CONFIDENCES: dict[str, float | None] = {
    "on average": None,
    "confidence 0.9": 0.9,
    "confidence 0.95": 0.95,
}
ON_AVERAGE, SURE = "on average", "confidence 0.9"
DRAWN, GIVEN, KNOWN, SIMULATED = "drawn", "given", "known", "simulated"
"""Labels drawn from the truth, labels that come with the data, no labels but the truth itself."""

LOCAL, MARKOV, ENTROPY = "local", "local, Markov", "local, by entropy"
HALFWAY, BEST = "local, halfway", "local, best"
BOX, CLASS, BOTH = "local box", "class", "class + temperature"

FORMS = {LOCAL: 3, ENTROPY: 2}
QUICK_FORMS = {LOCAL: 2}
"""How many of these statements are asked of a method; of others, only the one on average."""

LOCAL_MODELS: dict[str, dict[str, Any]] = {
    LOCAL: {},
    MARKOV: {},
    ENTROPY: {"by_entropy": BY_ENTROPY},
    HALFWAY: {"reference": "halfway"},
    BEST: {"reference": "best"},
}
"""From labels: references, budgets scaled by entropy, and the simpler bound."""

KNOWN_MODELS: dict[str, tuple[Any, ...]] = {
    BOX: ("local",),
    **dict.fromkeys(SCORES, ("local",)),
    CLASS: ("class",),
    BOTH: ("class", "temperature"),
}
"""From known distributions: directions of each set."""

QUICK_METHODS = (LOCAL, MARKOV, BOX, *SCORES)
MOST_ROWS, QUICK_ROWS = 5000, 600
"""Rows of a data set that are used at most: four in ten of them choose alpha."""

WORLD = "world: "
WORLD_DELTA, TOO_MANY = 0.2, 1.05
SIZES, ROUNDS = (10, 100, 1000), 2000
QUICK_SIZES, QUICK_ROUNDS = (10, 100), 12
STANDARD_ERRORS = 3
SHOWN_DELTA = 0.2
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
PROMISED = "From labels alone, promises are kept by wide sets"

COLUMNS = {
    **CELL,
    **dict.fromkeys(("case", "labels", "form"), str),
    **dict.fromkeys(("examples", "new"), int),
    **dict.fromkeys(("delta", "ball", "box", "efficiency", "error", "wrong", "decided"), float),
    **ORIGIN,
}
"""`case` names the row within a cell. `error` is the standard error of `ball`, `wrong`
the share of rounds in which more than delta are missed, and `decided` of those in which anything is
excluded: for worlds only."""

DRAWN_SETS = {
    "known distributions": (BOX, KNOWN, "#009E73", "o"),
    "labels as given": (LOCAL, GIVEN, "#CC79A7", "s"),
    "labels drawn from the truth": (LOCAL, DRAWN, "#D55E00", "D"),
}
"""What the figure shows, by what alpha was chosen from: method, labels, colour and mark."""


def experiment(request: Request) -> Experiment:
    """All sets on all files of logits with a truth, and the promise in all worlds.

    Seeds draw the three parts and the labels; three of them unless others are asked for. Worlds are
    seeded by the first.
    """
    found, absent = find(request.data)
    require_some(found, "files of logits", request.data, needs=absent)
    files = {d.file: d for d in found}  # the two splits of NLI have the same rows with a truth
    seeds = request.seeds if request.quick else request.extended_seeds(3)
    deltas = QUICK_DELTAS if request.quick else DELTAS
    sizes = QUICK_SIZES if request.quick else SIZES
    rounds = QUICK_ROUNDS if request.quick else ROUNDS
    most = QUICK_ROWS if request.quick else MOST_ROWS
    methods = [m for m in (*LOCAL_MODELS, *KNOWN_MODELS) if not request.quick or m in QUICK_METHODS]

    @lru_cache(maxsize=1)  # the cells of a data set and seed follow each other
    def load(name: str, seed: int) -> tuple[Labelled, Labelled, Labelled]:
        rows = rows_of(named(name), request)
        return parts(rows, seed, most)

    def rows(cell: Cell) -> Iterable[Row]:
        if cell.data.startswith(WORLD):
            return simulate(cell, sizes, rounds)
        if cell.method in LOCAL_MODELS:
            return from_labels(cell, load(cell.data, cell.seed), deltas, request.quick)
        return from_distributions(cell, load(cell.data, cell.seed), deltas)

    def inputs(cell: Cell) -> dict[str, Any]:
        if cell.data.startswith(WORLD):
            return {"settings": (sizes, WORLD_DELTA, rounds, MIX, sorted(WORLDS))}
        return {
            "data": request.data / named(cell.data).file,
            "settings": (deltas, MIX, BY_ENTROPY, most),
        }

    worlds = [Cell(f"{WORLD}{w}", form, seeds[0]) for w in WORLDS for form in (ON_AVERAGE, SURE)]
    data = [Cell(d.name, m, seed) for d in files.values() for seed in seeds for m in methods]
    return Experiment(
        columns=COLUMNS,
        level="case",
        cells=[*data, *worlds],
        levels=lambda _: (),
        inputs=inputs,
        rows=rows,
        findings=partial(findings, seeds=seeds),
        seeds=seeds,
        needs=tuple(absent),
    )


# Computing


def rows_of(data: DataSet, request: Request) -> Labelled:
    """All rows of a data set that have a truth."""
    prefix = "test_" if data.family in ("nli", "tabpfn") else ""
    truth = "truth" if data.family == "tabpfn" else "human"
    keys = (f"{prefix}logits", f"{prefix}labels", truth)
    logits, labels, truths = read(request.data / data.file, *keys)
    p = truths.astype(np.float64)
    return Labelled(logits, labels.astype(np.intp), p / p.sum(axis=1, keepdims=True))


def parts(rows: Labelled, seed: int, most: int) -> tuple[Labelled, Labelled, Labelled]:
    """Three tenths of at most so many rows to fit, four to choose alpha, three that are new."""
    order = np.random.default_rng(seed).permutation(len(rows.labels))[:most]
    first, second = 3 * len(order) // 10, 7 * len(order) // 10
    fit, choose, new = np.split(order, [first, second])
    return rows[fit], rows[choose], rows[new]


def from_labels(
    cell: Cell, split: tuple[Labelled, Labelled, Labelled], deltas: Sequence[float], quick: bool
) -> Iterator[Row]:
    """Outcomes of local sets whose alpha was chosen by labels."""
    fit, choose, new = split
    settings = dict(LOCAL_MODELS[cell.method])
    directions = [decal.Local(mix=MIX, by_entropy=settings.pop("by_entropy", None))]
    model = decal.Decalibrator(directions=directions, **settings).fit(fit.logits, fit.labels)
    rng = np.random.default_rng([cell.seed, 1])
    drawn = Labelled(choose.logits, draw_labels(choose.truth, rng), choose.truth)
    forms = list(CONFIDENCES)[: (QUICK_FORMS if quick else FORMS).get(cell.method, 1)]
    for labels, held_out in ((DRAWN, drawn), (GIVEN, choose)):
        for form in forms:
            for delta in deltas:
                if cell.method == MARKOV:
                    alpha = alpha_by_markov(model, held_out, delta, rng)
                else:
                    alpha = decal.choose(
                        model,
                        held_out.logits,
                        held_out.labels,
                        hold=1 - delta,
                        confidence=CONFIDENCES[form],
                        seed=cell.seed,
                    ).alpha
                outcome = of_local_sets(model, alpha, new)
                yield _row(labels, form, delta, len(choose.labels), len(new.labels), outcome)


def from_distributions(
    cell: Cell, split: tuple[Labelled, Labelled, Labelled], deltas: Sequence[float]
) -> Iterator[Row]:
    """Outcomes of sets whose alpha was chosen by known distributions."""
    fit, choose, new = split
    directions = KNOWN_MODELS[cell.method]
    model = decal.Decalibrator(directions=directions).fit(fit.logits, fit.labels)
    for delta in deltas:
        if cell.method in SCORES:
            outcome = of_conformal_balls(model, choose, new, cell.method, delta)
        else:
            choice = decal.choose(
                model,
                choose.logits,
                coverage=1 - delta,
                distributions=choose.truth,
                guaranteed=True,
            )
            credal = model.predict(new.logits, alpha=choice)
            covered = decal.metrics.coverage(credal, new.truth)
            outcome = Outcome(math.nan, covered, decal.metrics.efficiency(credal))
        yield _row(KNOWN, ON_AVERAGE, delta, len(choose.labels), len(new.labels), outcome)


def simulate(cell: Cell, sizes: Sequence[int], rounds: int) -> Iterator[Row]:
    """How often the promise is kept in a world, over many draws of the held-out examples.

    What new inputs are missed is exact, since there are so few kinds of them.
    """
    confidence = CONFIDENCES[cell.method]
    delta = WORLD_DELTA
    # The hardest cases: a share delta to miss on average; or just too large a share to miss.
    hard = delta if confidence is None else TOO_MANY * delta
    world = WORLDS[cell.data.removeprefix(WORLD)](hard, MIX)
    K = world.logits.shape[1]
    center = (1 - MIX) * softmax(world.logits) + MIX / K
    distance = divergences(world.truth, center)
    labels = np.arange(len(world.logits)) % K
    model = decal.Decalibrator(directions=[decal.Local(mix=MIX)]).fit(world.logits, labels)
    for n in sizes:
        rng = np.random.default_rng([cell.seed, n])
        kinds, drawn = world.draw((rounds, n), rng)
        missed, alphas = np.empty(rounds), np.empty(rounds)
        for i in range(rounds):
            alphas[i] = decal.choose(
                model,
                world.logits[kinds[i]],
                drawn[i],
                hold=1 - delta,
                confidence=confidence,
                threshold=world.threshold,
            ).alpha
            budget = math.inf if alphas[i] == 0 else -math.log(alphas[i])
            missed[i] = world.share @ (distance > budget)
        yield _row(
            SIMULATED,
            cell.method,
            delta,
            n,
            rounds,
            Outcome(float(1 - missed.mean()), math.nan, math.nan),
            error=float(missed.std(ddof=1) / math.sqrt(rounds)),
            # The miss rates of a world are sums of shares: round-off is no violation.
            wrong=float((missed > delta + 1e-9).mean()),
            decided=float((alphas > 0).mean()),
        )


def _row(
    labels: str,
    form: str,
    delta: float,
    examples: int,
    new: int,
    outcome: Outcome,
    *,
    error: float = math.nan,
    wrong: float = math.nan,
    decided: float = math.nan,
) -> Row:
    return {
        "case": f"{labels}, {form}, {delta:g}, {examples}",
        "labels": labels,
        "form": form,
        "delta": delta,
        "examples": examples,
        "new": new,
        **asdict(outcome),
        "error": error,
        "wrong": wrong,
        "decided": decided,
    }


# Reporting

Key = tuple[str, str, str, float]
"""Method, labels, form and delta."""

Means = dict[DataSet, dict[Key, Row]]


def findings(store: RowStore, *, seeds: Sequence[int]) -> Findings:
    """Tables, figure and claims of the mean over seeds."""
    means, worlds = means_of(store, seeds), _of_worlds(store)
    deltas = sorted({key[3] for keys in means.values() for key in keys})
    shown = SHOWN_DELTA if SHOWN_DELTA in deltas else deltas[-1]
    columns = {
        "drawn": (LOCAL, DRAWN, ON_AVERAGE, shown),
        "sure": (LOCAL, DRAWN, SURE, shown),
        "given": (LOCAL, GIVEN, ON_AVERAGE, shown),
        "Markov": (MARKOV, DRAWN, ON_AVERAGE, shown),
        "known": (BOX, KNOWN, ON_AVERAGE, shown),
    }
    sections: dict[str, list[tuple[str, ...]]] = {}
    for data, found in means.items():
        cells = [_both(found.get(key)) for key in columns.values()]
        sections.setdefault(FAMILIES[data.family], []).append((_title(data), *cells))
    report = Report(
        title=f"Coverage and efficiency at delta {shown:g}, {seeds_text(seeds)}",
        headings=("data", *columns),
        sections=sections,
        caption=(
            "from labels drawn from the truth, the same with confidence 0.9, and the given labels: "
            "coverage of the local ball\n"
            "Markov: drawn labels, the simpler bound; known: by distributions, the local box"
        ),
        claims=tuple(_claims(means, worlds)),
        further=(*_tables(means, deltas), _world_table(worlds)),
    )
    return Findings(report, {"validity": partial(draw, means, deltas)})


def means_of(store: RowStore, seeds: Sequence[int]) -> Means:
    """The mean over seeds, by data set in the order of tables."""
    gathered: dict[str, dict[Key, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for cell, rows in store.cells.items():
        if cell.seed in seeds and not cell.data.startswith(WORLD):
            for row in rows:
                key = cell.method, row["labels"], row["form"], row["delta"]
                gathered[cell.data][key].append(row)
    numbers = ("ball", "box", "efficiency", "new")
    return {
        data: {
            key: {name: float(np.mean([row[name] for row in rows])) for name in numbers}
            | {"rows": rows}
            for key, rows in gathered[data.name].items()
        }
        for data in in_order(named(name) for name in gathered)
    }


def coverage(row: Row) -> float:
    """Of the ball; of the box where there is no ball."""
    return float(row["box"] if math.isnan(row["ball"]) else row["ball"])


def short(row: Row, delta: float) -> bool:
    """Whether the coverage is further below its nominal value than chance explains.

    Chance is that of the new inputs of one seed, and that of the held-out ones.
    """
    examples = np.mean([r["examples"] for r in row["rows"]])
    error = math.sqrt(delta * (1 - delta) * (1 / row["new"] + 1 / examples) / len(row["rows"]))
    return coverage(row) < 1 - delta - STANDARD_ERRORS * error


def _of_worlds(store: RowStore) -> dict[str, list[Row]]:
    cells = {c: rows for c, rows in store.cells.items() if c.data.startswith(WORLD)}
    return {f"{c.data.removeprefix(WORLD)}, {c.method}": rows for c, rows in cells.items()}


def violated(row: Row) -> bool:
    """Whether a promise was broken in a world, beyond three standard errors."""
    if row["form"] == ON_AVERAGE:
        return bool(1 - row["ball"] > row["delta"] + STANDARD_ERRORS * row["error"])
    accepted = 1 - (CONFIDENCES[row["form"]] or 0.0)
    error = math.sqrt(accepted * (1 - accepted) / row["new"])
    return bool(row["wrong"] > accepted + STANDARD_ERRORS * error)


def _claims(means: Means, worlds: dict[str, list[Row]]) -> Iterator[Claim]:
    rows = [row for found in worlds.values() for row in found]
    broken = sum(map(violated, rows))
    yield Claim(f"worlds: the promise is broken in {broken} of {len(rows)} cells", not broken)
    yield from _kept(means)
    pairs = _efficiencies(means, LOCAL, MARKOV)
    yield _compared("weights against Markov and Jensen", pairs)
    for other in SCORES:
        pairs = _efficiencies(means, BOX, other)
        if pairs:
            yield _compared(f"known distributions, local box against {other}", pairs)


def _kept(means: Means) -> Iterator[Claim]:
    """Whether sets hold as much as promised, by what labels alpha was chosen with."""
    every = [(d, key, row) for d, found in means.items() for key, row in found.items()]
    for labels, what in (
        (DRAWN, "labels drawn from the truth"),
        (GIVEN, "given labels"),
        (KNOWN, "known distributions"),
    ):
        of_kind = [(d, key, row) for d, key, row in every if key[1] == labels]
        low = [(d, key) for d, key, row in of_kind if short(row, key[3])]
        text = f"{what}: coverage short of nominal in {len(low)} of {len(of_kind)} cells"
        if low:
            names = sorted({f"{_title(d)} ({key[0]})" for d, key in low})
            text += f": {', '.join(names[:6])}{' and others' if len(names) > 6 else ''}"
        yield Claim(text, not low)


def _efficiencies(means: Means, one: str, other: str) -> list[tuple[float, float]]:
    """Efficiencies of two methods, wherever both were asked the same."""
    return [
        (row["efficiency"], found[other, *key[1:]]["efficiency"])
        for found in means.values()
        for key, row in found.items()
        if key[0] == one and (other, *key[1:]) in found
    ]


def _compared(what: str, pairs: Sequence[tuple[float, float]]) -> Claim:
    worse = sum(a < b for a, b in pairs)
    gain = float(np.mean([a - b for a, b in pairs])) if pairs else math.nan
    return Claim(
        f"{what}: efficiency {gain:+.3f} in the mean, lower in {worse} of {len(pairs)} cells",
        gain > 0,
    )


def _tables(means: Means, deltas: Sequence[float]) -> Iterator[Table]:
    """Coverage and efficiency at every delta, by kind of label."""
    for labels, what in ((DRAWN, "labels drawn from the truth"), (GIVEN, "given labels")):
        yield _table(means, deltas, labels, f"From {what}")
    yield _table(means, deltas, KNOWN, "From known distributions")


def _table(means: Means, deltas: Sequence[float], labels: str, title: str) -> Table:
    sections: dict[str, list[tuple[str, ...]]] = {}
    for data, found in means.items():
        kinds = dict.fromkeys((m, form) for m, kind, form, _ in found if kind == labels)
        for method, form in kinds:
            cells = [_both(found.get((method, labels, form, delta))) for delta in deltas]
            name = f"{_title(data)}: {method}" + (f", {form}" if labels != KNOWN else "")
            sections.setdefault(FAMILIES[data.family], []).append((name, *cells))
    headings = ("data: set", *(f"nominal {1 - delta:g}" for delta in deltas))
    return Table(title, headings, sections, "coverage (efficiency)")


def _world_table(worlds: dict[str, list[Row]]) -> Table:
    """Every cell of the worlds."""
    rows: list[tuple[str, ...]] = [
        (
            name,
            f"{row['delta']:g}",
            f"{row['examples']:,}",
            f"{row['new']:,}",
            f"{number(1 - row['ball'], 4)} ± {number(row['error'], 4)}",
            number(row["wrong"]),
            number(row["decided"]),
            "broken" if violated(row) else "kept",
        )
        for name, found in worlds.items()
        for row in found
    ]
    headings = ("world", "delta", "n", "rounds", "missed", "more than delta", "decided", "promise")
    caption = "missed: mean over rounds ± its standard error; more than delta: share of rounds\n"
    caption += "decided: share of rounds in which anything is excluded"
    return Table("Worlds with a known truth", headings, {"": rows}, caption)


def _both(row: Row | None) -> str:
    return "–" if row is None else f"{coverage(row):.3f} ({row['efficiency']:.3f})"


def _title(data: DataSet) -> str:
    return data.title.removesuffix(", halves").removesuffix(", own split")


def draw(means: Means, deltas: Sequence[float], *, narrow: bool = False) -> Any:
    """Coverage against its nominal value, and efficiency: median, half and range over data sets."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    figure, axes = plt.subplots(
        *((2, 1) if narrow else (1, 2)),
        figsize=(NARROW_INCHES, 6.4) if narrow else (7.2, 3.6),
        layout="constrained",
    )
    nominal = 1 - np.array(deltas)
    axes[0].plot(nominal, nominal, color=GREY, lw=1, ls=(0, (4, 2)), label="promised")
    handles = []
    for i, (name, (method, labels, colour, marker)) in enumerate(DRAWN_SETS.items()):
        rows = [
            [found.get((method, labels, ON_AVERAGE, delta)) for delta in deltas]
            for found in means.values()
        ]
        asked = [[row for row in of_data if row] for of_data in zip(*rows, strict=True)]
        if not all(asked):
            continue
        x = nominal + 0.009 * (i - 1)
        look: dict[str, Any] = {"color": on_page(colour)}
        for ax, what in zip(axes, (coverage, _efficiency), strict=True):
            values = [np.quantile([what(row) for row in each], QUANTILES) for each in asked]
            least, low, middle, high, most = np.transpose(values)
            ax.vlines(x, least, most, lw=0.9, **look)
            ax.vlines(x, low, high, lw=3.2, **look)
            ax.plot(x, middle, lw=1.2, marker=marker, ms=5, **look)
        handles.append(Line2D([], [], label=name, lw=1.2, marker=marker, ms=5, **look))
    for ax, name in zip(axes, ("coverage achieved", "efficiency"), strict=True):
        ax.set(ylabel=name, xlabel="coverage promised")
        ax.set_xticks(nominal, [f"{share:g}" for share in nominal])
        bare(ax)
    axes[0].set_ylim(0.59, 1.01)
    middle = float(np.mean(nominal))
    axes[0].annotate("promised", (middle, middle), xytext=(6, -6), color=GREY, va="top",
                     textcoords="offset points", fontsize=9)  # fmt: skip
    axes[1].set_ylim(0, 1)
    legend_above(figure, handles, PROMISED, narrow=narrow)
    return figure


def _efficiency(row: Row) -> float:
    return float(row["efficiency"])
