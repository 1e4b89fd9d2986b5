"""A report of labels that do not exclude each other: what is there, what is open, what is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.markup import span
from decal._base.numerics import Array
from decal.credal import MultiLabelCredalSet
from decal.report._per_input import as_names, share_to_check
from decal.report._printout import aligned, checks, cut, listed, taken
from decal.report._report_lines import Lines, names_of_inputs
from decal.report._report_page import in_pieces

ANSWERS = {"yes": 1, "open": -1, "no": 0}
"""The columns of findings, and how `MultiLabelCredalSet.decide` writes each."""

LEAST_ROOM = 12  # characters that a column of findings gets at least


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelReport(Lines):
    """One line per input: the findings that are there, open, or not there, with their ranges.

    `len`, iteration (a dict per input) and picking of rows work as for a list.

    Attributes
    ----------
    index : dict
        What names the inputs, vectors (n,) by name; their numbers if they have no names.
    labels : tuple
        L names of the labels, or their numbers.
    said : (n, L) array
        1 yes, 0 no, -1 open.
    lower, upper : (n, L) arrays
        The range of each label's probability.
    check : (n,) array or None
        True where a person should look.
    promise : str
        What the model promises, in one sentence; empty if nothing.
    """

    labels: tuple[Any, ...]
    said: NDArray[np.int8]
    lower: Array
    upper: Array

    @classmethod
    def of(
        cls,
        credal: MultiLabelCredalSet,
        *,
        check: Any = None,
        costs: Any = None,
        promise: Any = None,
    ) -> Self:
        """The report of sets of labels, and of what is promised of them; as `decal.report.report`.

        With `costs` of wrong answers, as for `MultiLabelCredalSet.decide`, nothing is promised.
        """
        said = credal.decide(costs=costs)
        if check is True:
            check = (said < 0).any(axis=1)
        elif check is not None:
            check = share_to_check(-wrong_at_worst(credal), check)
        return cls(
            index=names_of_inputs(credal, {*ANSWERS, "check"}),
            labels=tuple(as_names(credal.classes, credal.shape[1]).tolist()),
            said=said,
            lower=credal.lower,
            upper=credal.upper,
            check=check,
            promise="" if costs is not None else str(promise or ""),
        )

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """(n,) columns by name: those that name the inputs, findings as text, what to check."""
        found = dict(self.index) | {name: self.findings(name) for name in ANSWERS}
        return found if self.check is None else found | {"check": self.check}

    def findings(self, answer: str, *, ranges: bool = True) -> NDArray[Any]:
        """(n,) text of the labels of one answer, "yes", "open" or "no", the likeliest first."""
        if answer not in ANSWERS:
            raise InputError("answer", "be 'yes', 'open' or 'no'", f"{answer!r}")
        found = [", ".join(self._named(row, answer, ranges)) for row in range(len(self))]
        return np.array([*found, None], dtype=object)[:-1]

    def _named(self, row: int, answer: str, ranges: bool) -> list[str]:
        here = np.flatnonzero(self.said[row] == ANSWERS[answer])
        here = here[np.argsort(-(self.lower + self.upper)[row, here], kind="stable")]
        if not ranges:
            return [str(self.labels[k]) for k in here]
        return [f"{self.labels[k]} {span(self.lower[row, k], self.upper[row, k])}" for k in here]

    def _in_room(self, row: int, answer: str, room: int) -> str:
        """The findings of one answer with ranges, or without them, or only the first few."""
        names = self._named(row, answer, ranges=False)
        whole = ", ".join(self._named(row, answer, ranges=True))
        if not names or (answer != "no" and len(whole) <= room):
            return whole
        return listed(names, room, ", ")

    # How it reads

    def table(self, width: int) -> list[str]:
        """As of all `Lines`: findings with their ranges where these fit."""
        columns = {name: [cut(str(v)) for v in values] for name, values in self.index.items()}
        marks = checks(self)
        room = width - taken(columns | marks) - 2
        for name in ANSWERS:
            each = max(room // 2 - 2 if name != "no" else room - 2, LEAST_ROOM)
            columns[name] = [self._in_room(row, name, each) for row in range(len(self))]
            room -= taken({name: columns[name]})
        return aligned(columns | marks)

    def cells(self) -> dict[str, Any]:
        """As of all `Lines`."""
        found: dict[str, Any] = self.columns
        for name in ANSWERS:
            each = (self._named(row, name, ranges=True) for row in range(len(self)))
            found[name] = [in_pieces(names, ", ", name=name) for names in each]
        return found


def wrong_at_worst(credal: MultiLabelCredalSet) -> Array:
    """(n,) how many answers of the point may be wrong: the greatest expected number.

    A label to which the point says yes may be absent with probability 1 - lower; one to which it
    says no may be there with probability upper. Expectations add up, whatever depends on what.
    """
    middle = (credal.lower + credal.upper) / 2 if credal.point is None else credal.point
    return np.asarray(np.where(middle > 0.5, 1.0 - credal.lower, credal.upper).sum(axis=1))
