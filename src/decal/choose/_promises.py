"""What a choice returns: alpha, what it promises of new inputs, and sets of these inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from decal._base.errors import InputError
from decal._base.markup import table
from decal._base.numerics import Array
from decal._base.row_checks import check_groups
from decal.choose._plausibility import Indices, Mask, Predictor, kept_classes
from decal.credal import CredalSet, IntervalCredalSet
from decal.model import predict_rows, read_inputs

PARTS_SHOWN = 12

SIDES = {"miss": "at most ", "width": "", "hold": "at least ", "coverage": "at least "}
"""On which side of its target a quantity should be."""

MANY = {"class": "classes", "group": "groups", None: ""}


@dataclass(frozen=True)
class Promise:
    """What is promised of new inputs; its text is one sentence.

    Attributes
    ----------
    kind, target : str and float
        The wish: "miss", "width", "hold" or "coverage", and its value.
    rows : int
        Number of rows it rests on.
    rule : str
        The rule by which classes are kept, for "miss"; else empty.
    per : str or None
        "class" or "group" if it holds within each of them.
    notes : tuple of str
        Why this is not what one would hope for.
    guaranteed : bool
        Whether it is about new inputs; else only about these rows.
    confidence : float or None
        With which probability over the rows it holds; None for their average.
    """

    kind: str
    target: float
    rows: int
    rule: str = ""
    per: str | None = None
    notes: tuple[str, ...] = ()
    guaranteed: bool = True
    confidence: float | None = None

    def __str__(self) -> str:
        rows = rows_text(self.rows)
        if self.kind == "width":
            return f"Intervals are {self.target:g} wide on average, as on these {rows}."
        if not self.guaranteed:
            share = f"{self.target:.4g}".rstrip(".")
            return f"The set holds the known distribution in {share} of these {rows}, or more."
        certain = self.target == (0.0 if self.kind == "miss" else 1.0)
        often = ("" if certain else SIDES[self.kind]) + _often(self.target)
        if self.kind != "miss":
            whole = "whole " if self.kind == "hold" else ""
            said = f"the set holds the {whole}true distribution for {often}"
        else:
            of_class = " of this class" if self.per == "class" else ""
            said = f"the true label is outside the kept classes for {often}{of_class}"
        where = {None: "", "class": "for every class, ", "group": "in every group, "}[self.per]
        sure = "" if self.confidence is None else f" with confidence {self.confidence:g}"
        said = f"{where}{said}; guaranteed{sure}, by {rows}."
        return said[0].upper() + said[1:]


def _often(share: float) -> str:
    """A share of new inputs in words: "1 new input in 10"."""
    if share in (0.0, 1.0):
        return "every new input" if share else "no new input"
    one_in = round(1 / share)
    for whole in (one_in, 10, 100, 1000):
        count = round(share * whole)
        if count and abs(share * whole - count) <= 1e-9:
            return f"{count} new input{'s' if count > 1 else ''} in {whole}"
    return f"{share:.4%} of new inputs"


@dataclass(frozen=True, repr=False)
class Choice:
    """An alpha and what it promises. It stands for the number itself: ``alpha=choice``.

    Attributes
    ----------
    alpha : float
        The level. With parts, the least of theirs: all their promises hold there.
    achieved : float
        What was wished for, as it is on these rows: the share of labels missed, the mean width, the
        share of known distributions held, or the proved share of distributions held. With parts,
        the worst of theirs.
    promise : Promise
        In words: ``print(choice.promise)``.
    model : Decalibrator
        Whose alpha it is.
    parts : mapping
        Without `per` or `groups` empty. Else a choice for every class, by its name or number, or
        for every group.
    """

    alpha: float
    achieved: float
    promise: Promise
    model: Predictor = field(compare=False)
    parts: Mapping[Any, Choice] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __float__(self) -> float:
        if self.parts:
            raise InputError(f"this choice holds {len(self.parts)} alphas")
        return self.alpha

    @classmethod
    def of_parts(cls, parts: Mapping[Any, Choice], promise: Promise) -> Choice:
        """One choice of several, one for every class or group."""
        choices = list(parts.values())
        worst = max if promise.kind == "miss" else min
        achieved = worst(choice.achieved for choice in choices)
        alpha = min(choice.alpha for choice in choices)
        return cls(alpha, achieved, promise, choices[0].model, parts)

    def alphas(self, groups: Any) -> Array:
        """(n,) the alpha of every input, by (n,) groups that an alpha was chosen for."""
        found, which = np.unique(check_groups(groups, len(groups)), return_inverse=True)
        unknown = [group for group in found.tolist() if group not in self.parts]
        if unknown:
            raise InputError(
                "groups",
                "be those that an alpha was chosen for",
                f"{unknown[0]!r}",
                "Predict such inputs with alpha=0, or choose again with examples of them.",
            )
        return np.array([self.parts[group].alpha for group in found.tolist()])[which]

    def predict(self, logits: Any, *, groups: Any = None) -> CredalSet:
        """The credal sets of (n, K) logits at this alpha, or by (n,) groups at those of theirs."""
        if self.promise.per == "class":
            raise InputError("per", "be None or a group, to predict", "'class'", "Call decide.")
        self._require_groups(groups)
        if groups is None:
            return self.model.predict(logits, alpha=self.alpha)
        data = read_inputs(self.model, logits, groups=groups)
        alphas = self.alphas(check_groups(groups, len(data)))
        low, high, point = np.empty((3, *data.shape))
        classes = None
        for alpha in np.unique(alphas):
            rows = np.flatnonzero(alphas == alpha)
            credal = predict_rows(self.model, data[rows], float(alpha))
            low[rows], high[rows], point[rows] = credal.lower, credal.upper, credal.point
            classes = credal.classes
        sets = IntervalCredalSet(low, high, point=point, classes=classes)
        return sets.with_index(data.ids)

    def decide(self, logits: Any, *, groups: Any = None) -> Mask:
        """(n, K) the classes kept for (n, K) logits, by (n,) groups; for a choice of `miss`.

        With per="class", class k is kept if it is in the decision set at *its* alpha, and always if
        that is 0. No set is empty: every Decalibrator keeps its own prediction.
        """
        kind, per, rule = self.promise.kind, self.promise.per, self.promise.rule
        if kind != "miss":
            raise InputError("a choice", "be of miss, to decide", kind, "Call predict.")
        if per != "class":
            return kept_classes(self.predict(logits, groups=groups), rule)
        self._require_groups(groups)
        data = read_inputs(self.model, logits)
        alphas = np.array([choice.alpha for choice in self.parts.values()])
        kept = np.ones(data.shape, dtype=bool)
        for alpha in np.unique(alphas[alphas > 0]):
            columns = alphas == alpha
            at_alpha = kept_classes(predict_rows(self.model, data, float(alpha)), rule)
            kept[:, columns] = at_alpha[:, columns]
        return kept

    def _require_groups(self, groups: Any) -> None:
        """InputError unless groups are given exactly where alpha was chosen by groups."""
        by_groups = self.promise.per == "group"
        if by_groups != (groups is not None):
            rule = "be given, as alpha was chosen by groups" if by_groups else "be left out"
            fact = "None" if by_groups else "groups, but alpha was not chosen by groups"
            raise InputError("groups", rule, fact)

    def __repr__(self) -> str:
        lines = [self._title(), f"  {self.promise}", *(f"  ({n})" for n in self.promise.notes)]
        if not self.parts:
            return "\n".join(lines)
        width = max(7, *(len(str(name)) for name in self.parts)) + 2
        lines.append(
            f"  {self.promise.per:<{width}}{'alpha':>10}{self.promise.kind:>13}{'rows':>12}"
        )
        for name, choice in list(self.parts.items())[:PARTS_SHOWN]:
            note = f"  ({'; '.join(choice.promise.notes)})" if choice.promise.notes else ""
            alpha, achieved, rows = choice._cells()
            lines.append(f"  {name!s:<{width}}{alpha:>10}{achieved:>13}{rows:>12}{note}")
        if len(self.parts) > PARTS_SHOWN:
            lines.append(f"  … {PARTS_SHOWN} of {len(self.parts)} shown")
        return "\n".join(lines)

    def _title(self) -> str:
        wished = f"wanted {SIDES[self.promise.kind]}{self.promise.target:g}"
        if self.parts:
            by = MANY[self.promise.per]
            return f"Choice: {len(self.parts)} alphas by {by}, {self.promise.kind} {wished}"
        alpha, achieved, _ = self._cells()
        return (
            f"Choice: alpha {alpha}, {self.promise.kind} {achieved} on "
            f"{rows_text(self.promise.rows)}, {wished}"
        )

    def _cells(self) -> tuple[str, str, str]:
        return f"{self.alpha:.6g}", f"{self.achieved:.4f}", f"{self.promise.rows:,}"

    def _repr_html_(self) -> str:
        parts = list(self.parts.items())[:PARTS_SHOWN]
        columns = ("alpha", self.promise.kind, "rows")
        said = " ".join([str(self.promise), *self.promise.notes])
        if not parts:
            return table(self._title(), columns, [self._cells()], note=said)
        notes = any(choice.promise.notes for _, choice in parts)
        headings = [str(self.promise.per), *columns, *[""] * notes]
        rows = [
            (str(name), *choice._cells(), *["; ".join(choice.promise.notes)] * notes)
            for name, choice in parts
        ]
        more = len(self.parts) - len(rows)
        note = f"{said} And {more:,} more {MANY[self.promise.per]}" if more else said
        return table(self._title(), headings, rows, note=note)


def row_groups(groups: Any, rows: int) -> dict[Any, Indices]:
    """The rows of each group, by group; all rows, by None, if there are no groups."""
    if groups is None:
        return {None: np.arange(rows)}
    groups = check_groups(groups, rows)
    return {group: np.flatnonzero(groups == group) for group in np.unique(groups).tolist()}


def joined(choices: Mapping[Any, Choice]) -> Choice:
    """The choice on all rows; or one of a choice for each group."""
    if None in choices:
        return choices[None]
    one = next(iter(choices.values())).promise
    rows = sum(choice.promise.rows for choice in choices.values())
    return Choice.of_parts(choices, replace(one, rows=rows, per="group", notes=()))


def one_wish(**wishes: Any) -> tuple[str, Any]:
    """The one wish that is given, and its value; InputError if there are none or several."""
    given = [name for name, value in wishes.items() if value is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none"
        raise InputError(f"one of {', '.join(wishes)}", "be given", got)
    return given[0], wishes[given[0]]


def class_name(k: int, names: Sequence[str] | None) -> str:
    """A class, by its name if it has one."""
    return f"class {k}" if names is None else names[k]


def rows_text(count: int) -> str:
    """A number of rows in words."""
    return "1 row" if count == 1 else f"{count:,} rows"
