"""What a choice returns: alpha, what it promises of new inputs, and sets of these inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.markup import table
from decal._base.numerics import Array
from decal._base.row_checks import check_groups
from decal.choose._plausibility import Indices, Predictor
from decal.grids import CredalMaps
from decal.model import Model, promised_sets, read_inputs
from decal.promise import SIDES, Promise

PARTS_SHOWN = 12

MANY = {"class": "classes", "group": "groups", "label": "labels", None: ""}


@dataclass(frozen=True, repr=False)
class Choice:
    """An alpha and what it promises. It stands for the number itself: ``alpha=choice``.

    Attributes
    ----------
    alpha : float
        The level. Of groups or labels, the least: all their promises hold there. Of classes, that
        of all rows together, for the intervals; which classes are possible goes by their own.
    achieved : float
        What was wished for, as it is on these rows: the share of labels missed, the mean width, the
        share of known distributions held, or the proved share of distributions held. With parts,
        the worst of theirs.
    promise : Promise
        In words: ``print(choice.promise)``.
    model : Decalibrator
        Whose alpha it is.
    parts : mapping
        Without `per` or `groups` empty. Else a choice for every class or label, by its name or
        number, or for every group.
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
    def of_parts(
        cls, parts: Mapping[Any, Choice], promise: Promise, alpha: float | None = None
    ) -> Choice:
        """One choice of several, one for every class or group; by default, the least alpha."""
        choices = list(parts.values())
        worst = max if promise.kind == "miss" else min
        achieved = worst(choice.achieved for choice in choices)
        least = min(choice.alpha for choice in choices)
        levels = {name: choice.alpha for name, choice in parts.items()}
        promise = replace(promise, levels=levels)
        return cls(least if alpha is None else alpha, achieved, promise, choices[0].model, parts)

    def alphas(self, groups: Any) -> Array:
        """(n,) the alpha of every input, by (n,) groups that an alpha was chosen for."""
        return self.promise.alphas(groups, len(groups))

    def predict(
        self, logits: Any, *, ids: Any = None, groups: Any = None, dim: int | None = None
    ) -> Any:
        """The credal sets of (n, K) logits, as the model predicts them with ``alpha=choice``."""
        if isinstance(self.model, Model):
            given = {"groups": groups, "dim": dim}
            by = {name: value for name, value in given.items() if value is not None}
            return self.model.predict(logits, alpha=self, ids=ids, **by)
        rows = read_inputs(self.model, logits, groups=groups)
        return promised_sets(self.model, rows, self.alpha, self.promise, groups)

    def decide(self, logits: Any, *, groups: Any = None, dim: int | None = None) -> NDArray[Any]:
        """(n, K) the classes kept for (n, K) logits, by (n,) groups; for a choice of `miss`.

        Of logits with more axes, an array in their shape; `dim` is the axis of the classes.

        Of labels that do not exclude each other, the answers: 1 yes, 0 no, -1 undecided.

        With per="class", class k is kept if it is in the decision set at *its* alpha, and always if
        that is 0. No set is empty: every Decalibrator keeps its own prediction.
        """
        if self.promise.kind != "miss":
            raise InputError(
                "a choice", "be of miss, to decide", self.promise.kind, "Call predict."
            )
        sets: Any = self.predict(logits, groups=groups, dim=dim)
        if isinstance(sets, CredalMaps):
            return sets.possible
        if self.promise.per == "label":
            answers: NDArray[Any] = sets.decide()
            return answers
        kept: NDArray[Any] = sets.possible_mask()
        return kept

    def promised(self) -> Model[Any]:
        """The model at this alpha, with the promise: it predicts, reports and saves so."""
        if not isinstance(self.model, Model):
            raise InputError("model", "be one of decal's", f"a {type(self.model).__name__}")
        return self.model.with_promise(self)

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
            f"{self.promise.counted}, {wished}"
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


def joined(choices: Mapping[Any, Choice], notes: tuple[str, ...] = ()) -> Choice:
    """The choice on all rows; or one of a choice for each group, with notes on all of these."""
    if None in choices:
        return choices[None]
    one = next(iter(choices.values())).promise
    rows = sum(choice.promise.rows for choice in choices.values())
    return Choice.of_parts(choices, replace(one, rows=rows, per="group", notes=notes))


def one_wish(**wishes: Any) -> tuple[str, Any]:
    """The one wish that is given, and its value; InputError if there are none or several."""
    given = [name for name, value in wishes.items() if value is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none"
        remedy = "" if given else "A good first wish is miss=0.1."
        raise InputError(f"one of {', '.join(wishes)}", "be given", got, remedy)
    return given[0], wishes[given[0]]


def class_name(k: int, names: Sequence[str] | None) -> str:
    """A class, by its name if it has one."""
    return f"class {k}" if names is None else names[k]
