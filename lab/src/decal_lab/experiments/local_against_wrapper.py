"""One network with local sets against a Credal Wrapper of several: a part of `local_sets`.

The Wrapper's set is the box around what all networks predict. Each network alone takes the alpha at
which its sets are as wide as the Wrapper's, so that coverage can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal_lab.experiments.harness.figures import (
    GREY,
    NARROW_INCHES,
    bare,
    legend_above,
    on_page,
)
from decal_lab.experiments.harness.logit_sets import FITTED_ON, HELD_OUT, TRAINING, contents, named
from decal_lab.experiments.harness.reports import Claim, Table, number
from decal_lab.experiments.harness.rows import Cell, Row, RowStore
from decal_lab.experiments.harness.several_networks import (
    HELD_OUT_SHARE,
    MEMBERS,
    MOST_ROWS,
    SIX,
    SMALL_TABLES,
    TABLES,
    TEN,
    TEST_SHARE,
    Members,
    cifar10_members,
    same_images,
    table_members,
    table_of,
)

Array = NDArray[np.float64]

WRAPPER, CLASS, BOTH = "credal wrapper", "class", "class + temperature"
MODEL, HALFWAY, BEST = "local, model", "local, halfway", "local, best"
REFERENCES = (MODEL, HALFWAY, BEST)

METHODS: dict[str, dict[str, Any]] = {
    CLASS: {"directions": ("class",)},
    BOTH: {"directions": ("class", "temperature")},
    MODEL: {"directions": ("local",), "reference": "model"},
    HALFWAY: {"directions": ("local",), "reference": "halfway"},
    BEST: {"directions": ("local",), "reference": "best"},
}
"""The settings of each method for one network."""

SHORT = dict(zip(METHODS, ("class", "both", "model", "halfway", "best"), strict=True))
EXPLAINED = "both: class + temperature; model, halfway, best: local sets by reference"
"""Methods as headings of columns, and what they mean."""

STYLES: dict[str, dict[str, Any]] = {
    CLASS: {"color": "#0072B2", "linewidth": 1.3, "linestyle": (0, (4, 1.5))},
    BOTH: {"color": "#D55E00", "linewidth": 1.3, "linestyle": (0, (4, 1.5))},
    MODEL: {"color": "#009E73", "linewidth": 1.7, "linestyle": "-"},
    HALFWAY: {"color": "#CC79A7", "linewidth": 1.7, "linestyle": "-"},
    BEST: {"color": "#56B4E9", "linewidth": 1.4, "linestyle": (0, (1, 1))},
}
"""Lines in Okabe and Ito's colours; sets of other kinds than local ones are dashed."""

MARKERS = {CLASS: "o", BOTH: "D", MODEL: "^"}
FEW_STYLES = {method: STYLES[method] | {"linestyle": "-"} for method in MARKERS}
"""Methods of figures for readers in a hurry; tables have them all."""

WRAPPED = "Credal Wrapper of all"
ALONE = "With local sets, nearly every network alone holds more than a Wrapper of all"

NAMES = {SIX: "Six networks, CIFAR-10H", TEN: "Ten classifiers, CIFAR-10H"}
QUICK_TABLES = ("wine",)


@dataclass(frozen=True)
class Group:
    """Several networks for one task.

    Attributes
    ----------
    title : str
        Its name in tables and figures.
    members : tuple of str
        Data sets of CIFAR-10; empty for a table.
    fitted_on : str
        What each network alone is fitted on, a key of FITTED_ON.
    """

    title: str
    members: tuple[str, ...]
    fitted_on: str


class Comparison:
    """All groups of networks in a folder of data, and the cells that compare them.

    Parameters
    ----------
    folder : path
        Folder of data.
    quick : bool
        Whether six networks and one small table will do.
    """

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self.folder = folder
        self.groups: dict[str, Group] = {}
        self.needs: list[str] = []
        for wanted, title in list(NAMES.items())[: 1 if quick else None]:
            found = same_images(folder, wanted)
            if len(found) == len(wanted):
                name = f"together/cifar10-{len(wanted)}"
                self.groups[name] = Group(title, wanted, HELD_OUT)
            else:
                absent = ", ".join(named(n).stem for n in wanted if n not in found)
                self.needs.append(f"{absent}: {title}")
        tables = QUICK_TABLES if quick else (*SMALL_TABLES, *TABLES)
        self.tables = {name: data for name in tables if (data := table_of(folder, name))}
        for name in self.tables:
            for kind in (HELD_OUT, TRAINING):
                self.groups[f"together/{name}/{kind}"] = Group(name, (), kind)
        self.needs += [f"table {name}: ten networks" for name in tables if name not in self.tables]
        self._trained = lru_cache(maxsize=1)(self._train)
        self._stacked = lru_cache(maxsize=1)(self._stack)

    def cells(self, seeds: Sequence[int]) -> list[Cell]:
        """The Wrapper and every method for every group; those of one table follow each other."""
        by_task: dict[str, list[str]] = {}
        for name in self.groups:
            by_task.setdefault(name.split("/")[1], []).append(name)
        return [
            Cell(name, method, seed)
            for names in by_task.values()
            for seed in seeds
            for name in names
            for method in (WRAPPER, *METHODS)
        ]

    def levels(self, cell: Cell) -> range:
        """Numbers of the networks; 0 for the Wrapper."""
        if cell.method == WRAPPER:
            return range(1)
        return range(len(self.groups[cell.data].members) or MEMBERS)

    def inputs(self, cell: Cell) -> dict[str, Any]:
        """What a cell depends on."""
        members = self.groups[cell.data].members
        if members:
            data: Any = [contents(self.folder, named(name).stem) for name in members]
        else:
            data = self.tables[cell.data.split("/")[1]]
        networks = () if members else (MEMBERS, TEST_SHARE, HELD_OUT_SHARE, MOST_ROWS)
        return {"data": data, "settings": (METHODS.get(cell.method), networks)}

    def members(self, cell: Cell) -> Members:
        """The networks of a cell."""
        group = self.groups[cell.data]
        if group.members:
            return self._stacked(cell.data, cell.seed)
        return self._trained(cell.data.split("/")[1], cell.seed)[group.fitted_on]

    def _stack(self, name: str, seed: int) -> Members:
        return cifar10_members(self.folder, self.groups[name].members, seed)

    def _train(self, table: str, seed: int) -> dict[str, Members]:
        return table_members(*self.tables[table], seed)


def rows(cell: Cell, members: Members) -> Iterator[Row]:
    """Coverage of the Wrapper, or of each network alone at the Wrapper's efficiency.

    NaN where there is no such model: labels that cannot be predicted, or are predicted perfectly,
    have no best scale, and some methods have no alpha that is as narrow as the Wrapper.
    """
    wrapper = members.wrapper()
    efficiency = decal.metrics.efficiency(wrapper)
    if cell.method == WRAPPER:
        covered = decal.metrics.coverage(wrapper, members.truth)
        yield {"level": 0.0, "alpha": math.nan, "coverage": covered, "efficiency": efficiency}
        return
    for member in range(len(members)):
        split = members.alone(member)
        row = dict.fromkeys(("alpha", "coverage", "efficiency"), math.nan)
        try:
            model = decal.Decalibrator(**METHODS[cell.method]).fit(split.logits, split.labels)
            choice = decal.choose(model, split.new_logits, width=1 - efficiency)
        except ValueError:
            yield {"level": float(member), **row}
            continue
        sets = model.predict(split.new_logits, alpha=choice.alpha)
        row["alpha"] = choice.alpha
        row["coverage"] = decal.metrics.coverage(sets, split.truth)
        row["efficiency"] = decal.metrics.efficiency(sets)
        yield {"level": float(member), **row}


# Reporting


@dataclass(frozen=True)
class Found:
    """What the rows of one group show.

    Attributes
    ----------
    group : Group
        The networks.
    efficiency, wrapper : (seeds,) array
        Efficiency and coverage of the Wrapper.
    alone : mapping of str to (seeds, M) array
        Coverage of each network alone, by method; NaN where there is none.
    """

    group: Group
    efficiency: Array
    wrapper: Array
    alone: Mapping[str, Array]

    def mean(self, method: str) -> float:
        """Mean over seeds and networks; NaN if one in two has no such sets."""
        values = self.alone[method]
        return float(np.nanmean(values)) if np.isfinite(values).mean() > 0.5 else math.nan

    def of_run(self, method: str) -> Array:
        """(seeds,) the mean over the networks that have such sets; NaN if half have none."""
        values = self.alone[method]
        known = np.isfinite(values)
        total = np.where(known, values, 0.0).sum(axis=1)
        most = known.mean(axis=1) > 0.5
        return np.where(most, total / np.maximum(known.sum(axis=1), 1), math.nan)


def found_in(store: RowStore, groups: Mapping[str, Group], seeds: Sequence[int]) -> list[Found]:
    """The rows of all groups."""

    def values(name: str, method: str, column: str) -> Array:
        by_seed = [store.cells[Cell(name, method, seed)] for seed in seeds]
        ordered = [sorted(rows, key=lambda row: row["level"]) for rows in by_seed]
        return np.array([[row[column] for row in rows] for rows in ordered])

    return [
        Found(
            group,
            values(name, WRAPPER, "efficiency")[:, 0],
            values(name, WRAPPER, "coverage")[:, 0],
            {method: values(name, method, "coverage") for method in METHODS},
        )
        for name, group in groups.items()
    ]


def tables(found: Sequence[Found]) -> Iterator[Table]:
    """A table of the groups on CIFAR-10, network by network, and one of all tables."""
    sections: dict[str, list[tuple[str, ...]]] = {}
    for each in found:
        if each.group.members:
            heading = f"{each.group.title}, efficiency {number(each.efficiency.mean())}"
            wrapper = number(each.wrapper.mean())
            sections[heading] = [
                (
                    titled(name),
                    wrapper,
                    *(number(float(each.alone[m][:, i].mean())) for m in METHODS),
                )
                for i, name in enumerate(each.group.members)
            ]
    if sections:
        caption = (
            "coverage of the Credal Wrapper of all, and of each network alone with sets as wide\n"
            f"{EXPLAINED}\n–: no alpha is so narrow"
        )
        headings = ("network", "wrapper", *SHORT.values())
        yield Table("One network against several", headings, sections, caption)
    sections = {}
    for each in found:
        if not each.group.members:
            lines = sections.setdefault(FITTED_ON[each.group.fitted_on], [])
            won = [int((each.of_run(m) > each.wrapper).sum()) for m in REFERENCES]
            means = (each.efficiency.mean(), each.wrapper.mean(), *map(each.mean, METHODS))
            line = (each.group.title, *(number(float(x)) for x in means))
            lines.append((*line, f"{' '.join(map(str, won))} of {len(each.wrapper)}"))
    if sections:
        caption = (
            "efficiency and coverage of the Credal Wrapper of ten networks, and coverage of each "
            f"alone\nwith sets as wide: mean over the ten; {EXPLAINED}\n"
            "won: runs in which local sets (model, halfway, best) cover more than the Wrapper\n"
            "–: half of the networks or more have no such sets"
        )
        headings = ("table", "eff.", "wrapper", *SHORT.values(), "won")
        yield Table("One network against ten, on tables", headings, sections, caption)


def claims(found: Sequence[Found]) -> Iterator[Claim]:
    """That one network alone covers more than the Wrapper of all."""
    for each in found:
        if each.group.members:
            for method in METHODS:
                reached = each.alone[method].mean(axis=0)
                text = (
                    f"{each.group.title}: each alone ({method}) covers more than the Wrapper of "
                    f"all, at equal width: {number(float(reached.min()))} to "
                    f"{number(float(reached.max()))} against {number(each.wrapper.mean())}"
                )
                yield Claim(text, bool(reached.min() > each.wrapper.mean()))
    for kind in (HELD_OUT, TRAINING):
        runs = [each for each in found if not each.group.members and each.group.fitted_on == kind]
        for method in REFERENCES if runs else ():
            gain = np.concatenate([each.of_run(method) - each.wrapper for each in runs])
            known = np.isfinite(gain)
            text = (
                f"Tables: one network ({method}; {kind} rows), on average over ten, covers more "
                f"than the Wrapper of ten: in {(gain > 0).sum()} of {len(gain)} runs"
            )
            if not known.all():
                text += f"; {(~known).sum()} without such a reference"
            yield Claim(text, bool((gain > 0).all()))


def titled(name: str) -> str:
    """The title of a data set as a member of a group."""
    return named(name).title.removesuffix(", halves")


Lines = list[tuple[str, float, dict[str, float]]]
"""Of one panel: names of networks or tables, coverage of the Wrapper, and that of every method."""


def panels_of(found: Sequence[Found]) -> dict[str, Lines]:
    """By title, a panel per group on CIFAR-10, and one of all tables, fitted on held-out rows."""
    panels: dict[str, Lines] = {}
    for each in found:
        if each.group.members:
            dots = {method: each.alone[method].mean(axis=0) for method in METHODS}
            lines = [
                (titled(name), float(each.wrapper.mean()), {m: float(dots[m][i]) for m in METHODS})
                for i, name in enumerate(each.group.members)
            ]
            panels[each.group.title] = lines
    lines = [
        (each.group.title, float(each.wrapper.mean()), {m: each.mean(m) for m in METHODS})
        for each in found
        if not each.group.members and each.group.fitted_on == HELD_OUT
    ]
    if lines:
        panels["One of ten networks, tables"] = lines
    return panels


def draw(panels: Mapping[str, Lines], *, narrow: bool = False) -> Any:
    """A line per network or table, with a mark per method and a bar for the Wrapper."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    heights = [0.8 + 0.24 * len(lines) for lines in panels.values()]
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(NARROW_INCHES if narrow else 6.6, sum(heights) + 1.2),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
    )
    wrapper = {"marker": "|", "markersize": 12, "markeredgewidth": 2.6, "color": GREY}
    looks: dict[str, dict[str, Any]] = {WRAPPED: wrapper}
    for method, style in FEW_STYLES.items():
        colour = on_page(style["color"])
        looks[method] = {"marker": MARKERS[method], "markersize": 6, "color": colour}
    for ax, (title, lines) in zip(axes.flat, panels.items(), strict=True):
        places = range(len(lines))
        ax.plot([of_all for _, of_all, _ in lines], places, ls="", **looks[WRAPPED])
        for method in FEW_STYLES:
            ax.plot([dots[method] for *_, dots in lines], places, ls="", **looks[method])
        ax.set_yticks(places, [name for name, *_ in lines])
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.set_xlim(left=0)
        ax.set_title(title, fontsize=9, loc="left")
        bare(ax)
        ax.spines["left"].set_visible(False)
    figure.supxlabel("coverage at the Wrapper's width", fontsize=9)
    handles = [Line2D([], [], ls="", label=name, **look) for name, look in looks.items()]
    legend_above(figure, handles, ALONE, narrow=narrow)
    return figure
