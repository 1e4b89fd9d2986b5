"""One line per input, what a person needs: prediction, possible classes, what to check and to do.

`_per_input` finds what a line says, `_printout` and `_report_page` show it. Imports from `model`,
`io`, `credal`, `grids` and `_base`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import ROW
from decal._base.errors import InputError
from decal._base.numerics import Array
from decal.credal import CredalSet
from decal.grids import CredalMaps
from decal.model import answers_labels, require_takes_logits
from decal.promise import Promise
from decal.report._label_report import LabelReport
from decal.report._per_input import ACTION_RULES as ACTION_RULES
from decal.report._per_input import as_names, cheapest, predicted
from decal.report._per_input import share_to_check as share_to_check
from decal.report._printout import printed as printed
from decal.report._printout import table
from decal.report._printout import titled as titled
from decal.report._report_lines import SAVED as SAVED
from decal.report._report_lines import Lines, names_of_inputs
from decal.report._report_page import cells

__all__ = ["LabelReport", "Report", "report"]

COLUMNS = ("prediction", "possible", "lower", "upper", "node", "path", "check", "action")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Report(Lines):
    """One line per input: what a person needs.

    It is printed as a table, and notebooks show it with bars. `len`, iteration (a dict per input)
    and picking of rows work as for a list; ``report[report.check]`` are the lines to check.

    Attributes
    ----------
    index : dict
        What names the inputs, vectors (n,) by name; their numbers if they have no names.
    prediction : (n,) array
        The class that is most probable at the point prediction, by its name if it has one.
    possible : (n,) array of lists
        The classes that are possible, as `CredalSet.possible` lists them.
    lower, upper : (n,) arrays
        The interval of the predicted class's probability.
    node, path : (n,) arrays or None
        Of classes with a tree: the most specific node that is sure, and the nodes down to it as
        text with their ranges, see `CredalSet.paths`.
    check : (n,) array or None
        True where a person should look.
    action : (n,) array or None
        What to do, by the costs.
    promise : str
        What the model promises, in one sentence; empty if nothing.
    ordered : bool
        Whether classes have an order: possible ones are then printed as "2 to 4".
    """

    prediction: NDArray[Any]
    possible: NDArray[Any]
    lower: Array
    upper: Array
    node: NDArray[Any] | None = None
    path: NDArray[Any] | None = None
    action: NDArray[Any] | None = None
    ordered: bool = False

    @classmethod
    def of(
        cls,
        credal: CredalSet | CredalMaps | list[CredalMaps],
        *,
        check: Any = None,
        costs: Any = None,
        rule: str = "e_admissible",
        promise: Promise | str | None = None,
    ) -> Self:
        """The report of credal sets that have a point, and of what is promised of them.

        Parameters as for `report`.
        """
        if isinstance(credal, CredalMaps | list):
            rule = "be a set per line, and not maps"
            fact = "logits with more axes than rows and classes"
            remedy = "Report some inputs: decal.Report.of(maps[mask].flat)."
            raise InputError("the sets of a report", rule, fact, remedy)
        best = predicted(credal)
        n, K = credal.shape
        free = set() if credal.tree is not None else {"node"}
        possible = np.fromiter(credal.possible(), dtype=object, count=n)
        lower = credal.lower[np.arange(n), best]
        if check is True:
            check = np.array([len(names) != 1 for names in possible], dtype=bool)
        elif check is not None:
            check = share_to_check(assurance(credal, promise), check)
        return cls(
            index=names_of_inputs(credal, {*COLUMNS} - free),
            prediction=as_names(credal.classes, K)[best],
            possible=possible,
            lower=lower,
            upper=credal.upper[np.arange(n), best],
            node=None if credal.tree is None else credal.node(),
            path=None if credal.tree is None else credal.paths(),
            check=check,
            action=None
            if costs is None
            else cheapest(credal, costs, rule, better_point(credal, promise)),
            promise=str(promise or ""),
            ordered=credal.ordered,
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """All lines of several parts of one report."""
        first, *_ = parts
        index = {k: np.concatenate([part.index[k] for part in parts]) for k in first.index}
        arrays: dict[str, Any] = {
            k: np.concatenate([vars(part)[k] for part in parts])
            for k, v in vars(first).items()
            if isinstance(v, np.ndarray)
        }
        return replace(first, index=index, **arrays)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """(n,) columns by name, first those that name the inputs."""
        said = {name: getattr(self, name) for name in COLUMNS}
        return {**self.index, **{name: v for name, v in said.items() if v is not None}}

    # How it reads

    def table(self, width: int) -> list[str]:
        """As of all `Lines`."""
        return table(self, width)

    def cells(self) -> dict[str, Any]:
        """As of all `Lines`."""
        return cells(self)


def better_point(credal: CredalSet, promise: Any) -> Array | None:
    """(n, K) the prediction that all labelled rows fitted, where sets were fitted on some."""
    return promise.recalibrated(credal.point) if isinstance(promise, Promise) else None


def assurance(credal: CredalSet, promise: Any) -> Array:
    """(n,) how sure the prediction is: its probability fitted on all rows, or its lower one."""
    better = better_point(credal, promise)
    found: Array = credal.lower if better is None else better
    return found[np.arange(len(credal)), predicted(credal)]


def in_parts(
    sets: Callable[[], Iterable[CredalSet]], *, check: Any = None, **options: Any
) -> Iterator[Report]:
    """The report of sets that come in parts, which are asked for twice if there is a `check`.

    What is held of all inputs at once is one number each. Options are those of `Report.of`.
    """
    marked, rows = None, 0
    if check is not None:
        found = [assurance(credal, options.get("promise")) for credal in sets()]
        marked = share_to_check(np.concatenate(found), check)
    for credal in sets():
        part = Report.of(credal, **options)
        here = np.arange(rows, rows + len(part))
        index = part.index if credal.index else {ROW: here}
        yield replace(part, index=index, check=None if marked is None else marked[here])
        rows += len(part)


def report(
    model: Any,
    logits: Any,
    *,
    ids: Any = None,
    check: Any = None,
    costs: Any = None,
    rule: str = "e_admissible",
    **options: Any,
) -> Report:
    """One line per input: prediction, possible classes, interval, whom to ask and what to do.

    Parameters
    ----------
    model : Model
        Whatever predicts credal sets. Of a `MultiLabelDecalibrator` this is a `LabelReport`.
    logits, ids
        As for its `predict`.
    check : float or True, optional
        The share of the inputs, above 0 and at most 1, that a person should see, rounded up to
        whole inputs: those whose predicted class has the smallest lower probability or, where a
        wish has fitted a prediction on all rows, the smallest probability there, which finds more
        errors; of ties, the first. True for all inputs that do not have exactly one possible class.
        Of labels, those with the greatest expected number of wrong answers at worst; True for all
        inputs with an open label.
    costs : frame or mapping, optional
        What each action costs in each class, both matched by name. A frame has a column for each
        class; its rows are named by a column "action", or by the index of pandas. A mapping goes
        from actions to mappings from classes to numbers. An array goes by position. Of labels, the
        costs of a wrong yes and of a wrong no, as for `MultiLabelCredalSet.decide`.
    rule : str
        How costs choose the action, see `CredalSet.decide`. Of several that are kept, as with
        "e_admissible", the one of least expected cost at the point prediction; of ties, the first.
        A wish fits its sets on some of the labelled rows: there, the prediction that all rows fit
        takes the place of the point, as one more plausible prediction.
    options
        Others of its `predict`, such as alpha.

    Examples
    --------
    >>> import decal
    >>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
    >>> d = decal.Decalibrator(alpha=0.9).fit(logits, labels, classes=["ham", "spam"])
    >>> costs = {"file": {"ham": 0, "spam": 1}, "drop": {"ham": 20, "spam": 0}}
    >>> d.report([[0.5, 0.0], [-3.0, 2.0]], check=0.5, costs=costs)
    Report: 2 inputs, 1 to check
      row  prediction  possible    lower  upper  check  action  0··········1
      0    ham         ham | spam  0.286  0.814  yes    file    ···███████··
      1    spam        spam        0.982  0.998         drop    ···········█
    """
    require_takes_logits(model)
    credal = model.predict(logits, ids=ids, **options)
    promise = getattr(model if options.get("alpha") is None else options["alpha"], "promise", None)
    if answers_labels(model):
        found: Any = LabelReport.of(credal, check=check, costs=costs, promise=promise)
        return found  # type: ignore[no-any-return]  # callers know which model they have
    return Report.of(credal, check=check, costs=costs, rule=rule, promise=promise)
