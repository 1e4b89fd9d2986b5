"""Several labels per input: how wide are sets that are guaranteed to hold people's distributions?

Half of the inputs are known, with one, two, five, ten or all of their labels; sets of the other
half must hold what all people say. Labels are drawn without replacement from people's votes; where
only shares are known, with replacement. Of LIDC and CSC, with four readers or so, nobody knows the
truth: reported are what the labels of all readers prove, and how often sets hold these readers'
shares, which scatter around the truth.

Besides, what does not help: budgets learnt from labels, and Bernoulli prediction sets.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal_lab.experiments import ordered
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.figures import (
    GREY,
    NARROW_INCHES,
    bare,
    legend_above,
    name_ends,
    on_page,
)
from decal_lab.experiments.harness.logit_sets import (
    DataSet,
    check_folder,
    find,
    named,
    read,
    require_some,
)
from decal_lab.experiments.harness.reports import Claim, Report, Table, number, seeds_text
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore
from decal_lab.experiments.harness.unhelpful_sets import (
    BUDGETS,
    BY_ENTROPY,
    CONSTANT,
    LEARNT,
    MISS,
    MIX,
    RADIUS,
    ROOM,
    budgeted,
    same_as_aps,
)
from decal_lab.experiments.harness.voted_inputs import ALL, Voted, measured, shares_of

Array = NDArray[np.float64]
RATERS, OF_FEW = ("1", "2", "5", "10", ALL), ("1", "2", ALL)
"""How many labels per input; of inputs with about four readers."""

DELTAS, SHOWN = (0.1, 0.2), 0.2
SEEDS = 3
PEOPLE_OF_CHAOSNLI = 100
STANDARD_ERRORS = 2

HOLD = "decalibrate"
BERNOULLI = "Bernoulli sets"

COLUMNS = {
    **CELL,
    "case": str,
    "raters": str,
    **dict.fromkeys(("examples", "new"), int),
    **dict.fromkeys(("delta", "held", "efficiency", "proved", "refused", "same"), float),
    **ORIGIN,
}
"""`held` is the share of new inputs whose people's shares are in the ball, `proved` how many the
labels of all people prove to be held, `refused` 1 where nothing could be promised, and `same` the
share of Bernoulli sets that are those of APS."""

SNLI, MNLI, FACES = "SNLI", "MNLI", "faces, FER+"
NETWORKS, ZERO_SHOT = "CIFAR-10H, networks", "CIFAR-10H, zero-shot"
COLOURS = {
    SNLI: "#0072B2",
    MNLI: "#56B4E9",
    FACES: "#D55E00",
    NETWORKS: "#009E73",
    ZERO_SHOT: "#CC79A7",
    "CSC": "#8a6d00",
    "LIDC": "#6a4fb3",
}
"""Groups of data sets, in the order of tables, and their colours."""

TWICE = (SNLI, MNLI, FACES)
TOLD = "The more people label an input, the narrower are sets with a promise"
ABOUT_FOUR = 1.7
"""Where the figure has all labels of inputs with four readers, between two and five."""


def group_of(name: str) -> str:
    """The group of a data set, by its name in rows."""
    if name in ordered.FILES:
        return name
    data = named(name)
    if data.family == "nli":
        return MNLI if name.startswith("mnli") else SNLI
    return {"faces": FACES, "cnn": NETWORKS, "zero-shot": ZERO_SHOT}[data.family]


def known_truth(name: str) -> bool:
    """Whether so many people were asked that their shares count as the truth."""
    return name not in ordered.FILES


def experiment(request: Request) -> Experiment:
    """Guaranteed sets by the number of labels per input, on all data with people's votes.

    Seeds draw the halves and the labels; three of them unless others are asked for.
    """
    check_folder(request.data)
    some, absent = find(request.data)
    names = [d.name for d in some if d.halves and d.family in ("nli", "faces", "cnn", "zero-shot")]
    for name, files in ordered.FILES.items():
        missing = [f for f in files if not (request.data / f).exists()]
        names += [name] * (not missing)
        absent += missing
    require_some(names, "votes of several people", request.data, needs=absent)
    seeds = request.seeds if request.quick else request.extended_seeds(SEEDS)
    methods = (HOLD, BERNOULLI) if request.quick else (HOLD, *BUDGETS, BERNOULLI)

    @lru_cache(maxsize=1)  # the cells of a data set and seed follow each other
    def voted(name: str, seed: int) -> Voted:
        return load(name, request.data, seed)

    def rows(cell: Cell) -> Iterator[Row]:
        data = voted(cell.data, cell.seed)
        order = np.random.default_rng(cell.seed).permutation(len(data.logits))
        known, new = (data[part] for part in np.split(order, [len(order) // 2]))
        if cell.method == BERNOULLI:
            yield _row(ALL, MISS, known, new, same=same_as_aps(known, new, cell.seed))
            return
        for raters, delta in asked(cell, request.quick):
            votes = known.drawn(raters, np.random.default_rng([cell.seed, RATERS.index(raters)]))
            found = promised if cell.method == HOLD else partial(budgeted, kind=cell.method)
            yield _row(
                raters, delta, known, new, **found(known.logits, votes, new, delta, cell.seed)
            )

    return Experiment(
        columns=COLUMNS,
        level="case",
        cells=[Cell(name, m, seed) for name in names for seed in seeds for m in methods],
        levels=lambda _: (),
        inputs=lambda cell: {
            "data": files_of(cell.data, request.data),
            "settings": (cell.method, RATERS, DELTAS, MIX, ROOM, RADIUS, request.quick),
        },
        rows=rows,
        findings=partial(findings, seeds=seeds),
        seeds=seeds,
        needs=tuple(absent),
    )


def asked(cell: Cell, quick: bool) -> list[tuple[str, float]]:
    """Numbers of labels, and accepted shares of misses."""
    raters: Sequence[str] = RATERS if known_truth(cell.data) else OF_FEW
    if quick:
        return [(m, SHOWN) for m in raters if m in ("1", "10", ALL)]
    if cell.method in BUDGETS:
        return [(m, SHOWN) for m in raters if m in ("1", "10" if "10" in raters else ALL)]
    return [(m, delta) for m in raters for delta in DELTAS]


# Data


def files_of(name: str, folder: Path) -> list[Path]:
    """The files of a data set, and those that may hold its votes."""
    if name in ordered.FILES:
        return [folder / file for file in ordered.FILES[name]]
    data = named(name)
    others = sorted(folder.glob("cnn_*_test.npz")) if "CIFAR" in group_of(name) else []
    return [folder / data.file, *(path for path in others if path.name != data.file)]


def load(name: str, folder: Path, seed: int) -> Voted:
    """The logits and the votes of a data set; of LIDC and CSC, of classifiers that a seed draws."""
    if name in ordered.FILES:
        rated = ordered.load(name, folder, seed)
        return Voted(rated.logits, rated.votes, counted=True)
    data = named(name)
    prefix = "test_" if data.family == "nli" else ""
    logits, human = read(folder / data.file, f"{prefix}logits", "human")
    shares = shares_of(human.astype(np.float64))
    votes = votes_of(data, files_of(name, folder), shares)
    return Voted(logits, shares if votes is None else votes, votes is not None)


def votes_of(data: DataSet, paths: Iterable[Path], shares: Array) -> Array | None:
    """(n, K) numbers of votes with these shares, if any file holds them."""
    if data.family == "nli":
        votes = np.rint(PEOPLE_OF_CHAOSNLI * shares)
        return votes if np.allclose(votes / PEOPLE_OF_CHAOSNLI, shares, atol=1e-6) else None
    for path in paths:
        with np.load(path, allow_pickle=False) as file:
            votes = file["votes"].astype(np.float64) if "votes" in file.files else np.empty(0)
        if votes.shape == shares.shape and np.allclose(shares_of(votes), shares, atol=1e-6):
            return np.asarray(votes)
    return None


# Computing


def promised(
    logits: NDArray[Any], votes: decal.Votes, new: Voted, delta: float, seed: int
) -> dict[str, float]:
    """What guaranteed sets hold of new inputs, and how wide they are."""
    try:
        model = decal.decalibrate(logits, votes, hold=1 - delta, seed=seed)
    except decal.InputError:  # nothing can be promised: sets that exclude nothing
        return {"held": 1.0, "efficiency": 0.0, "proved": 1.0, "refused": 1.0}
    ball = model.predict_ball(new.logits)
    return measured(ball, new) | {"refused": 0.0}


def _row(raters: str, delta: float, known: Voted, new: Voted, **found: float) -> Row:
    empty = dict.fromkeys(("held", "efficiency", "proved", "refused", "same"), math.nan)
    sizes = {"examples": len(known.logits), "new": len(new.logits)}
    case = {"case": f"{raters}, {delta:g}", "raters": raters, "delta": delta}
    return {**case, **sizes, **empty, **found}


# Reporting

Key = tuple[str, str, float]
"""Method, number of labels and delta."""

Means = dict[str, dict[Key, Row]]
"""Means over seeds, by data set, or by group of these."""

NUMBERS = ("held", "efficiency", "proved", "refused", "same", "examples", "new")


def findings(store: RowStore, *, seeds: Sequence[int]) -> Findings:
    """Tables, figure and claims of the mean over seeds."""
    each = means_of(store, seeds)
    groups = of_groups(each)
    headings = ("data", *(f"m = {m}" for m in RATERS))
    caption = (
        "efficiency (share of new inputs whose people's shares are in the ball)\n"
        "LIDC and CSC: shares of about four readers, which scatter around the truth"
    )
    learnt = any(key[0] == LEARNT for found in groups.values() for key in found)
    report = Report(
        title=f"Guaranteed sets by the number m of labels per input, {seeds_text(seeds)}",
        headings=headings,
        sections=_by_promise(groups, _both),
        caption=caption,
        claims=tuple(_claims(each, groups, len(seeds))),
        further=(
            Table("Of every data set", headings, _by_promise(each, _both), caption),
            Table(
                "What the labels of all people prove",
                headings,
                _by_promise(groups, lambda row: number(row["proved"])),
                "a share of balls that hold the truth, or less on average, whatever the truth is",
            ),
            *([_budget_table(groups)] if learnt else []),
        ),
    )
    return Findings(report, {"raters": partial(draw, lines(groups))})


def means_of(store: RowStore, seeds: Sequence[int]) -> Means:
    """The mean over seeds, by data set."""
    gathered: dict[str, dict[Key, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for cell, rows in store.cells.items():
        if cell.seed in seeds:
            for row in rows:
                gathered[cell.data][cell.method, row["raters"], row["delta"]].append(row)
    return {
        name: {key: _mean(rows) for key, rows in found.items()}
        for name, found in sorted(gathered.items(), key=lambda item: _place(item[0]))
    }


def _place(name: str) -> int:
    return list(COLOURS).index(group_of(name))


def of_groups(each: Means) -> Means:
    """The mean over the data sets of a group."""
    gathered: dict[str, dict[Key, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for name, found in each.items():
        for key, row in found.items():
            gathered[group_of(name)][key].append(row)
    return {
        group: {key: _mean(rows) for key, rows in found.items()}
        for group, found in gathered.items()
    }


def _mean(rows: Sequence[Row]) -> Row:
    return {name: float(np.mean([row[name] for row in rows])) for name in NUMBERS}


def _by_promise(means: Means, cell: Callable[[Row], str]) -> dict[str, list[tuple[str, ...]]]:
    """A section per promise, a row per data set, a column per number of labels."""
    deltas = sorted({key[2] for found in means.values() for key in found if key[0] == HOLD})
    return {
        f"promised {1 - delta:g}": [
            (
                name,
                *(cell(found[key]) if (key := (HOLD, m, delta)) in found else "–" for m in RATERS),
            )
            for name, found in means.items()
        ]
        for delta in deltas
    }


def _both(row: Row) -> str:
    return f"{row['efficiency']:.3f} ({row['held']:.3f})"


def _budget_table(groups: Means) -> Table:
    """Budgets of three shapes, by the simpler bound, with one label and with many."""
    some = {name: [m for kind, m, _ in found if kind == CONSTANT] for name, found in groups.items()}
    return Table(
        f"What budgets depend on, promised {1 - SHOWN:g}, by the bound of Markov and Jensen",
        ("data", *BUDGETS),
        {
            what: [
                (f"{name}, m = {ms[at]}", *(_both(groups[name][k, ms[at], SHOWN]) for k in BUDGETS))
                for name, ms in some.items()
            ]
            for what, at in (("one label", 0), ("many labels", -1))
        },
        "b; b sqrt(H(c) + .05); the same with an estimate of the divergence, from labels, for H(c)",
    )


def short(row: Row, delta: float, seeds: int) -> bool:
    """Whether fewer are held than promised, by more than two standard errors.

    Chance is that of the new inputs of one seed, and that of the known ones.
    """
    error = math.sqrt(delta * (1 - delta) * (1 / row["new"] + 1 / row["examples"]) / seeds)
    return bool(row["held"] < 1 - delta - STANDARD_ERRORS * error)


def _claims(each: Means, groups: Means, seeds: int) -> Iterator[Claim]:
    cells = {
        (name, m, delta): row
        for name, found in each.items()
        for (kind, m, delta), row in found.items()
        if kind == HOLD and known_truth(name)
    }
    low = [key for key, row in cells.items() if short(row, key[2], seeds)]
    least = min((row["held"] - 1 + key[2] for key, row in cells.items()), default=math.nan)
    text = f"fewer held than promised in {len(low)} of {len(cells)} cells"
    yield Claim(f"{text}; at least {least:+.3f} beyond the promise", not low)
    for group in TWICE:
        found = groups.get(group, {})
        for delta in DELTAS:
            if (HOLD, "10", delta) in found:
                one, ten = (found[HOLD, m, delta]["efficiency"] for m in ("1", "10"))
                text = f"{group}, promised {1 - delta:g}: efficiency {one:.3f} from one label"
                yield Claim(f"{text}, {ten:.3f} from ten", ten >= 2 * one)
    falls = [
        f"{group} at {1 - delta:g}"
        for group, found in groups.items()
        for delta in DELTAS
        if _falls(
            [found[HOLD, m, delta]["efficiency"] for m in RATERS if (HOLD, m, delta) in found]
        )
    ]
    yield Claim(f"more labels never widen sets, but for {', '.join(falls) or 'none'}", not falls)
    gains = [
        row["efficiency"] - max(found[k, m, delta]["efficiency"] for k in (CONSTANT, BY_ENTROPY))
        for found in each.values()
        for (kind, m, delta), row in found.items()
        if kind == LEARNT
    ]
    if gains:
        mean, worse = float(np.mean(gains)), sum(gain < 0 for gain in gains)
        text = f"learnt budgets against the better of two fixed ones: efficiency {mean:+.3f}"
        yield Claim(f"{text} in the mean, lower in {worse} of {len(gains)} cells", mean > 0)
    same = min(found[BERNOULLI, ALL, MISS]["same"] for found in each.values())
    yield Claim(f"Bernoulli sets are those of APS for {same:.4f} of inputs or more", same > 0.999)


def _falls(values: Sequence[float]) -> bool:
    return any(b < a for a, b in itertools.pairwise(values))


Line = list[tuple[str, float, float]]
"""Numbers of labels, efficiencies and shares held."""


def lines(groups: Means) -> dict[float, dict[str, Line]]:
    """What the figure shows of every group, by delta."""
    deltas = sorted({key[2] for found in groups.values() for key in found if key[0] == HOLD})
    return {
        delta: {
            name: [
                (m, row["efficiency"], row["held"])
                for m in RATERS
                if (row := found.get((HOLD, m, delta)))
            ]
            for name, found in groups.items()
        }
        for delta in deltas
    }


def draw(found: Mapping[float, Mapping[str, Line]], *, narrow: bool = False) -> Any:
    """Efficiency, and the share held, over the number of labels: a line per group."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    shape = (2 * len(found), 1) if narrow else (len(found), 2)
    figure, axes = plt.subplots(
        *shape,
        figsize=(NARROW_INCHES, 0.8 + 3.3 * shape[0]) if narrow else (8.4, 0.6 + 3.4 * shape[0]),
        layout="constrained",
        squeeze=False,
    )
    points = [point for groups in found.values() for line in groups.values() for point in line]
    top = 1.07 * max((efficiency for _, efficiency, _ in points), default=1.0)
    for row, (delta, groups) in zip(axes.reshape(len(found), 2), found.items(), strict=True):
        row[0].set_ylim(0, top)
        _draw_row(row, groups, 1 - delta)
    styles = {"shares of 5 to 100 people": "-", "of about four; nobody knows the truth": "--"}
    handles = [Line2D([], [], color=GREY, ls=ls, label=name) for name, ls in styles.items()]
    legend_above(figure, handles, TOLD, narrow=narrow)
    return figure


def _draw_row(axes: NDArray[Any], groups: Mapping[str, Line], promise: float) -> None:
    """Two panels: efficiency and share held, at one promise."""
    ends = {}
    beside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
    for group, line in groups.items():
        places: list[float] = [RATERS.index(point[0]) for point in line]
        look: dict[str, Any] = {"color": on_page(COLOURS[group]), "lw": 1.6, "marker": "o"}
        if known_truth(group):
            ends[group] = line[-1][1], look["color"]
        else:
            places[-1] = ABOUT_FOUR if line[-1][0] == ALL else places[-1]
            look |= {"ls": (0, (4, 2)), "markerfacecolor": "none"}
            place, colour = (places[-1], line[-1][1]), look["color"]
            axes[0].annotate(group, place, **beside, fontsize=9, color=colour)
        for ax, what in zip(axes, (1, 2), strict=True):
            ax.plot(places, [point[what] for point in line], ms=4, **look)
    for ax, name in zip(axes, ("efficiency", "share held"), strict=True):
        ax.set(xlabel="labels per input", ylabel=f"{name}, promised {promise:g}")
        ax.set_xticks(range(len(RATERS)), RATERS)
        bare(ax)
    axes[1].set(ylim=(0.785, 1.005), yticks=np.arange(0.8, 1.01, 0.05))
    name_ends(axes[0], ends, axes[0].get_ylim()[1] / 16)
    axes[1].axhline(promise, color=GREY, lw=1, ls=(0, (4, 2)))
    axes[1].annotate("promised", (0, promise), xytext=(0, 3), textcoords="offset points",
                     color=GREY, fontsize=9)  # fmt: skip
