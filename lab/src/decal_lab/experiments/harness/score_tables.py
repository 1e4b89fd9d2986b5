"""Tables, claims and a figure of AUROC by data, set, alpha, score and what is to be found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decal_lab.experiments.harness.figures import (
    GREY,
    HEADLINE,
    NARROW_INCHES,
    bare,
    headline,
    name_ends,
    on_page,
)
from decal_lab.experiments.harness.labelled_logits import ERRORS
from decal_lab.experiments.harness.reports import Claim, Report, Table, number, seeds_text, signed

AUROC = Mapping[tuple[str, str, float, str, str], float]
"""By data, kind of set, alpha, score and target."""

STYLES: dict[str, dict[str, Any]] = {
    "width": {"color": "#009E73", "linewidth": 2.4, "zorder": 4},
    "entropy": {"color": "#0072B2", "linewidth": 1.8},
    "zero-one": {"color": "#D55E00", "linewidth": 1.8},
}
"""The measures of the figure, in Okabe and Ito's colours; tables have them all."""

NAMES = {"entropy": "entropy\ndifference", "maximum probability": "model's\nconfidence"}
"""In the figure."""

STEADY_WIDTH = "The width never turns around; entropy difference and zero-one do"
FREE = "maximum probability"

INVERTED = "zero-one"
STEADY = ("width", "Hartley", "total variation", "−confidence")
CHANCE = 0.5
TOLERANCE = 0.02
"""The largest difference in AUROC that does not count."""

USEFUL, TOLD = 0.7, 0.95
"""An AUROC at which a warning is a false alarm; the share of backward cases that must be told."""

DETAIL_ALPHA = 0.8


@dataclass(frozen=True)
class ScoreTables:
    """What the rows show.

    Attributes
    ----------
    means : mapping
        AUROC by data, kind of set, alpha, score and target.
    titles : mapping of str to str
        Titles of data sets by name.
    kinds, measures : tuple of str
        Kinds of sets and what is asked of them, in the order of tables.
    free : (str, tuple of str)
        The name of no set, and the scores that need none.
    alphas : tuple of float
        Levels, in the order of tables.
    outside : mapping of str to str
        Titles of unfamiliar inputs by name.
    seeds : tuple of int
        Seeds that the means are over.
    warned : tuple of (float, bool)
        For each case of errors and of a measure that may warn: its AUROC, and whether it did.
    """

    means: AUROC
    titles: Mapping[str, str]
    kinds: tuple[str, ...]
    measures: tuple[str, ...]
    free: tuple[str, tuple[str, ...]]
    alphas: tuple[float, ...]
    outside: Mapping[str, str]
    seeds: tuple[int, ...]
    warned: tuple[tuple[float, bool], ...] = ()

    def values(self, kind: str, alpha: float, score: str, targets: Sequence[str]) -> list[float]:
        """AUROC of a score for each data set and target, in the order of rows."""
        return [v for (_, k, a, s, t), v in self.means.items()
                if (k, a, s) == (kind, alpha, score) and t in targets]  # fmt: skip

    def mean(self, kind: str, alpha: float, score: str, *targets: str) -> float:
        """The mean of these, NaN if there are none."""
        found = self.values(kind, alpha, score, targets)
        return float(np.mean(found)) if found else float("nan")

    def of_free(self, score: str, *targets: str) -> float:
        """The mean AUROC of a score that needs no set."""
        return self.mean(self.free[0], 1.0, score, *targets)

    @property
    def strangers(self) -> list[str]:
        """Kinds of unfamiliar inputs that were scored."""
        there = {key[4] for key in self.means}
        return [name for name in self.outside if name in there]

    def report(self) -> Report:
        """All tables and claims."""
        out, data = self.strangers, dict.fromkeys(key[0] for key in self.means)
        errors = self.by_alpha(f"Errors: mean AUROC over {len(data)} data sets", [ERRORS])
        first = self.by_alpha(f"Unfamiliar inputs: mean AUROC over {len(out)} kinds", out)
        tables = [first, errors] if out else [errors]
        tables += [self.by_alpha(f"Unfamiliar inputs: {self.outside[n]}", [n]) for n in out]
        tables += [table for kind in self.kinds for table in self._errors_by_data(kind, [*data])]
        return Report(
            title=f"{tables[0].title}, {seeds_text(self.seeds)}",
            headings=tables[0].headings,
            sections=tables[0].sections,
            caption=tables[0].caption,
            claims=tuple(self.claims()),
            further=tuple(tables[1:]),
        )

    def by_alpha(self, title: str, targets: Sequence[str]) -> Table:
        """A score per line, a level per column, a section per kind of set."""
        name, scores = self.free
        sections = {
            kind: [
                (m, *(number(self.mean(kind, a, m, *targets)) for a in self.alphas))
                for m in self.measures
            ]
            for kind in self.kinds
        }
        sections[name] = [  # the same at every level
            (s, *[number(self.of_free(s, *targets))] * len(self.alphas)) for s in scores
        ]
        return Table(
            title,
            ("score", *(f"{alpha:g}" for alpha in self.alphas)),
            sections,
            "columns: alpha; 0.5 is chance, less is backwards",
        )

    def _errors_by_data(self, kind: str, data: Sequence[str]) -> Iterator[Table]:
        level = DETAIL_ALPHA
        rows = []
        for name in data:
            own = [self.means.get((name, kind, level, m, ERRORS), np.nan) for m in self.measures]
            free = [self.means.get((name, self.free[0], 1.0, s, ERRORS), np.nan)
                    for s in self.free[1]]  # fmt: skip
            if not np.isnan(own).all():
                rows.append((self.titles.get(name, name), *map(number, [*own, *free])))
        if rows:
            headings = ("data", *self.measures, *self.free[1])
            yield Table(f"Errors: {kind}, alpha {level:g}", headings, {"": rows})

    def claims(self) -> Iterator[Claim]:
        """What was expected, and whether it holds; every case counts, the worst decides."""
        every = [*self.strangers, ERRORS]
        yield from self._warnings()
        yield from self._steady(every)
        for other in ("entropy", "zero-one"):
            yield from self._no_worse("total", other, every)
            yield from self._no_worse("width", other, every)
        yield from self._no_worse("width", "total", every)
        yield from self._against_free()

    def _warnings(self) -> Iterator[Claim]:
        """Where measures rank backwards, and whether decal says so."""
        out, kinds = self.strangers, self.kinds
        low = min(self.alphas, key=lambda a: abs(a - 0.2))
        backwards = self.values(kinds[0], low, INVERTED, out)
        if backwards:
            yield Claim(
                f"{kinds[0]} shifts at alpha {low:g}: {INVERTED} ranks unfamiliar inputs "
                f"backwards, AUROC {min(backwards):.3f} to {max(backwards):.3f}",
                max(backwards) < CHANCE,
            )
        if self.warned:
            bad = [told for auroc, told in self.warned if auroc < CHANCE]
            good = [told for auroc, told in self.warned if auroc >= USEFUL]
            yield Claim(
                f"decal warned in {sum(bad)} of the {len(bad)} cases in which the entropy "
                f"difference or zero-one found errors worse than chance (wanted "
                f"{TOLD:.0%}), and in {sum(good)} of {len(good)} with {USEFUL:g} or more",
                sum(bad) >= TOLD * len(bad),
            )

    def _steady(self, every: Sequence[str]) -> Iterator[Claim]:
        """Which measures never rank backwards."""
        for score in (*STEADY, "total", "entropy", INVERTED):
            cases = {
                (data, kind, alpha, target): value
                for (data, kind, alpha, s, target), value in self.means.items()
                if s == score and target in every
            }
            if cases:
                (data, kind, alpha, target), least = min(cases.items(), key=lambda item: item[1])
                where = self._case(data, kind, alpha, target)
                below = sum(value < CHANCE for value in cases.values())
                yield Claim(
                    f"{score} never ranks backwards: below chance in {below} of {len(cases)} "
                    f"cases, least AUROC {least:.3f} ({where})",
                    least > CHANCE,
                )

    def _against_free(self) -> Iterator[Claim]:
        """The best measure against scores that need no sets."""
        out, kinds = self.strangers, self.kinds
        for score, target, names in (("energy", "unfamiliar inputs", out),
                                     ("maximum probability", "errors", [ERRORS])):  # fmt: skip
            best = [
                (self.mean(kind, alpha, m, *names), m, kind, alpha)
                for kind in kinds for alpha in self.alphas for m in self.measures
            ]  # fmt: skip
            best = [b for b in best if b[0] == b[0]]
            if best:
                value, m, kind, alpha = max(best)
                free = self.of_free(score, *names)
                yield Claim(
                    f"on average the best measure ({m}, {kind}, alpha {alpha:g}: {value:.3f}) "
                    f"finds {target} better than the {score} ({free:.3f})",
                    value > free,
                )

    def _no_worse(self, score: str, other: str, targets: Sequence[str]) -> Iterator[Claim]:
        gaps = {
            key: value - self.means[(*key[:3], other, key[4])]
            for key, value in self.means.items()
            if key[3] == score and key[4] in targets and (*key[:3], other, key[4]) in self.means
        }
        if gaps:
            (data, kind, alpha, _, target), least = min(gaps.items(), key=lambda item: item[1])
            gained = float(np.mean(list(gaps.values())))
            yield Claim(
                f"{score} is nowhere worse than {other} by more than {TOLERANCE:g}: "
                f"{signed(least)} ({self._case(data, kind, alpha, target)}); "
                f"mean {signed(gained)}",
                least >= -TOLERANCE,
            )

    def _case(self, data: str, kind: str, alpha: float, target: str) -> str:
        model, sought = self.titles.get(data, data), self.outside.get(target, target)
        return f"{model}, {kind}, alpha {alpha:g}, {sought}"

    def draw(self, *, narrow: bool = False) -> Any:
        """A column for each kind of set, a line for errors and one for unfamiliar inputs; or, if
        narrow, the other way round.
        """
        from matplotlib import pyplot as plt

        aims = {"errors": [ERRORS], "unfamiliar inputs": self.strangers}
        aims = {title: targets for title, targets in aims.items() if targets}
        shape = (len(self.kinds), len(aims)) if narrow else (len(aims), len(self.kinds))
        figure, axes = plt.subplots(
            *shape,
            figsize=(NARROW_INCHES if narrow else 7.2, 1.9 * shape[0] + 0.8),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for line, targets in zip(axes.T if narrow else axes, aims.values(), strict=True):
            for ax, kind in zip(line, self.kinds, strict=True):
                ends = self._lines(ax, kind, targets)
                ax.set_ylim(0.0, 1.0)
                bare(ax)
                if ax is axes[0, -1]:
                    name_ends(ax, ends, 0.23 if narrow else 0.2)
        above, beside = (list(aims), self.kinds) if narrow else (self.kinds, list(aims))
        for ax, title in zip(axes[0], above, strict=True):
            ax.set_title(title, fontsize=9)
        for ax, title in zip(axes[:, 0], beside, strict=True):
            ax.set_ylabel(f"{title}:\nAUROC", fontsize=9)
        figure.supxlabel("alpha; dotted: chance", fontsize=9)
        title = headline(STEADY_WIDTH, narrow=narrow)
        figure.suptitle(title, x=0.01, ha="left", **HEADLINE)
        return figure

    def _lines(self, ax: Any, kind: str, targets: Sequence[str]) -> dict[str, tuple[float, str]]:
        """Draw the measures of one kind of set by alpha; their heights at the end, and colours."""
        ax.axhline(CHANCE, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
        free = self.of_free(FREE, *targets)
        ax.axhline(free, color=GREY, linewidth=1.3, linestyle=(0, (4, 2)))
        ends = {NAMES[FREE]: (free, GREY)}
        for measure, style in STYLES.items():
            means = [self.mean(kind, alpha, measure, *targets) for alpha in self.alphas]
            look = style | {"color": on_page(style["color"])}
            ax.plot(range(len(means)), means, **look)
            ends[NAMES.get(measure, measure)] = means[-1], look["color"]
        shown = range(0, len(self.alphas), 2)
        ax.set_xticks(shown, [f"{self.alphas[i]:g}" for i in shown])
        return ends
