"""Rows: logits and all that belongs to them, read and checked once, wherever they come from.

Every check of them happens here, once; `decal.schema` makes logits of what a model lets in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import (
    INDEX,
    Index,
    class_columns,
    column,
    column_names,
    id_columns,
    index_of,
    is_frame,
    is_scored,
    require_same_order,
    row_numbers,
    scored_columns,
)
from decal._base.errors import (
    IN_ARRAY,
    InputError,
    InputWarning,
    Place,
    Setting,
    listing,
)
from decal._base.numerics import Array
from decal._base.row_checks import (
    WEIGHT_SPAN,
    check_class_names,
    check_groups,
    check_labels,
    check_weights,
    require_matrix,
    require_unmasked_labels,
)
from decal.grids import Grid, GridPlace, flattened, is_dense
from decal.schema import SMALLEST, Schema, check_answers, read_label_logits, read_logits
from decal.votes import Votes, require_in_order

__all__ = ["Rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs of a model, after every check. What was not given is None.

    Attributes
    ----------
    logits, truth : (n, K) arrays
        float32 or float64, -inf where a class is masked; or what stands for them: a
        `decal.TopLogits` or a `decal.llm.LabelMasses`. And the true distributions.
    labels, weights : (n,) arrays
        Numbers of classes, or (n, L) answers 1, 0 and, where unknown, -1; and how many rows each
        one counts for.
    classes, ids : tuple of str, mapping of str to (n,) arrays
        The names of the columns, and what names the inputs.
    units, grid : (n,) array, Grid
        The image, or whatever else, that each is part of; and the arrays that they came in, if
        these were no matrix.
    order : bool
        Whether the classes are in an order, that of the columns.
    votes : Votes
        Several labels per input, in place of labels.
    """

    logits: Any
    labels: Any = None
    weights: Array | None = None
    classes: tuple[str, ...] | None = None
    ids: Index | None = None
    truth: Array | None = None
    units: Any = None
    grid: Grid | None = None
    order: bool = False
    votes: Votes | None = None

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        n, K = self.logits.shape
        return n, K

    def __getitem__(self, rows: Any) -> Rows:
        """The chosen rows: a slice, a mask or a list of integers."""

        def part(values: Any) -> Any:
            return None if values is None else values[rows]

        ids = (
            None if self.ids is None else type(self.ids)({k: v[rows] for k, v in self.ids.items()})
        )
        parts = part(self.labels), part(self.weights), self.classes, ids, part(self.truth)
        kept = {"order": self.order, "votes": part(self.votes)}
        return Rows(self.logits[rows], *parts, part(self.units), **kept)

    @property
    def place(self) -> Place:
        """Where they stand, for messages."""
        return IN_ARRAY if self.grid is None else GridPlace(grid=self.grid)

    @property
    def inputs(self) -> int:
        """How many inputs were read for them, with those whose labels are ignored."""
        return len(self) if self.grid is None else self.grid.ends[-1]

    def flat(self, values: Any, name: str = "groups") -> Any:
        """(n,) values of the rows, given in the shape that the inputs came in; or None."""
        return values if values is None or self.grid is None else self.grid.flat(values, name)

    def warn_of_units(self) -> None:
        """Warn of rows that come in units, of which a promise about single rows is asked."""
        if self.units is not None and len(np.unique(self.units)) > 1:
            InputWarning.warn(
                (
                    "inputs that come in images, or in other units, are not exchangeable with "
                    "those of a new one: a promise about inputs may fail. Ask for one about units, "
                    "with ",
                    Setting("unit", "image"),
                )
            )

    def counted(self) -> Rows:
        """The rows of positive weight."""
        if self.weights is None or self.weights.all():
            return self
        return self[self.weights > 0]

    def by_label(self) -> Rows:
        """A row for every label; of several per input, a row counts by the share that said so.

        Their units are the inputs. The sum of all weights stays. Shares that are too small to count
        among the largest weights are left out.
        """
        if self.votes is None:
            return self
        weights = self.votes.shares
        if self.weights is not None:
            weights = weights * self.weights[:, None]
        row, label = np.nonzero(weights > WEIGHT_SPAN * weights.max())
        alone = replace(self, votes=None, units=np.arange(len(self)))
        return replace(alone[row], labels=label, weights=weights[row, label])

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        """All rows of several parts of one table."""
        if len(parts) == 1:
            return parts[0]

        def joined(name: str) -> Any:
            given = [getattr(part, name) for part in parts if getattr(part, name) is not None]
            return np.concatenate(given) if given else None

        first = parts[0]
        ids = first.ids and {
            key: np.concatenate([part.ids[key] for part in parts if part.ids]) for key in first.ids
        }
        z, y, w = joined("logits"), joined("labels"), joined("weights")
        truth, units = joined("truth"), joined("units")
        return cls(z, y, w, first.classes, ids, truth, units, order=first.order)

    @classmethod
    def read(
        cls,
        logits: Any,
        labels: Any = None,
        *,
        sample_weight: Any = None,
        classes: Iterable[Any] | None = None,
        ids: Any = None,
        schema: Schema = Schema(),
        empty: bool = False,
        whole: bool = True,
        dim: int | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Rows from arrays, tensors or a data frame, after every check.

        Arguments are as for `Model.fit` and `Model.predict`, of which the `schema` says what is let
        in. What stands for logits, such as `decal.TopLogits`, is taken as it is, and so are Rows.
        `empty` tells whether no rows are fine. If labels are those of the `whole` data, columns
        that none of them names get a warning. Logits with more axes are put in rows, see `dim` of
        `Model.fit`.
        """
        if labels is sample_weight is classes is ids is dim is ignore_index is None and (
            schema.takes_plain(logits)
        ):
            z = read_logits(logits, schema, empty=empty)
            return cls(z, classes=schema.classes, order=schema.order)
        if isinstance(logits, cls):
            return replace(logits, order=True) if schema.order > logits.order else logits
        if is_scored(logits):
            named = schema.classes if classes is None else tuple(str(name) for name in classes)
            logits, classes = scored_columns(logits, named)
        require_same_order(logits=logits, labels=labels, sample_weight=sample_weight)
        votes = labels if isinstance(labels, Votes) else None
        if votes is not None:
            classes = votes.classes if classes is None and not schema.classes else classes
            labels = None
        grid, place = None, IN_ARRAY
        labels, classes, order = _from_ordered(logits, labels, classes, schema)
        order = order or (votes is not None and votes.ordered)
        axes: dict[str, Any] = {"dim": dim, "ignore_index": ignore_index}
        if _has_axes(logits, schema, **axes):
            axes["width"] = schema.width
            logits, labels, sample_weight, grid = flattened(logits, labels, sample_weight, **axes)
            place = GridPlace(grid=grid)
        shaped: dict[str, Any] = {"grid": grid, "units": None if grid is None else grid.units}
        shaped["order"] = order
        labelled = labels is not None or votes is not None
        names = schema.classes if classes is None else tuple(str(name) for name in classes)
        framed, z = is_frame(logits), logits
        if schema.answers:
            names = names or (column_names(logits) if framed else None)
            z = read_label_logits(logits, schema, names, empty=empty)
        else:
            if framed and labelled:
                frame = _labelled_frame(logits, labels, sample_weight, names, whole=whole)
                z, labels, sample_weight, names = frame
            elif framed:
                z, _ = class_columns(logits, names, others=id_columns(logits, ids))
            if labels is not None:
                require_matrix(z, labels)
            z = z if schema.takes(z) else read_logits(z, schema, place=place, empty=empty)
        known = check_class_names(names, z.shape[1])
        if labels is not None:
            size = {"rows": z.shape[0], "classes": z.shape[1]}
            labels = (
                check_answers(labels, z.shape, known, schema, whole=whole)
                if schema.answers
                else check_labels(labels, **size, names=known, in_table=framed, place=place)
            )
        w = check_weights(sample_weight, rows=len(z), all_zero=not len(z))
        index = None if labelled else index_of(logits, ids, rows=len(z))
        rows = cls(z, labels, w, known, index, **shaped)
        return rows if votes is None else rows._voted(votes, schema)

    def _voted(self, votes: Votes, schema: Schema) -> Self:
        """Rows with several labels each; InputError if these are of others, or not taken."""
        if not schema.votes:
            remedy = "Pass Votes to Decalibrator, decalibrate or choose."
            raise InputError("labels", "be one per input here", f"{votes}", remedy)
        if self.grid is not None:
            fact = "logits with more axes"
            raise InputError("labels", "be one per input of these logits", fact, "Use a matrix.")
        votes.require("labels", self.shape, self.classes)
        return replace(self, votes=votes)


def _has_axes(logits: Any, schema: Schema, **given: int | None) -> bool:
    """Whether there are axes to put in rows, or labels to ignore.

    InputError about what has no axes, or goes to a model that takes matrices alone.
    """
    name = next((name for name, value in given.items() if value is not None), None)
    if name is None:
        return schema.axes and is_dense(logits)
    if not schema.axes:
        raise InputError(name, "go with a Decalibrator", "a model that takes matrices alone")
    if is_frame(logits) or schema.takes(logits):
        fact = f"a {type(logits).__name__}"
        raise InputError(name, "go with arrays", fact, "Leave rows out of it first.")
    return True


def _from_ordered(
    logits: Any, labels: Any, classes: Iterable[Any] | None, schema: Schema
) -> tuple[Any, Iterable[Any] | None, bool]:
    """Labels as names, classes in their order, and whether they have one.

    An ordered categorical of pandas, given as labels or as a column, tells all three.
    """
    values = labels
    if isinstance(labels, str) and labels in getattr(logits, "columns", ()):
        values = logits[labels]
    kind: Any = getattr(values, "dtype", None)
    if not getattr(kind, "ordered", False) or schema.answers:
        return labels, classes, schema.order
    known = tuple(str(name) for name in kind.categories)
    given = schema.classes if classes is None else tuple(str(name) for name in classes)
    if given is not None:
        require_in_order(given, known)
    if isinstance(labels, str):
        return labels, known, True
    codes = np.asarray(getattr(values, "cat", values).codes)
    if (codes < 0).any():
        fact = f"a missing one in row {int((codes < 0).argmax())}"
        raise InputError("labels", "be known in every row", fact, "Leave such rows out.")
    return np.array(known, dtype=object)[codes], known, True


def in_units(rows: Rows, groups: Any, unit: str) -> Rows:
    """Rows that know what they are part of: the groups, if given, or the first axis of logits."""
    if not isinstance(unit, str) or not unit:
        raise InputError("unit", "name what inputs come in, such as 'image'", f"{unit!r}")
    if groups is not None:
        return replace(rows, units=check_groups(groups, len(rows)))
    if rows.grid is not None and rows.grid.axis == 0 and not rows.grid.several:
        remedy = "Pass groups=, what each input is part of; one image as logits[None]."
        raise InputError("unit", "go with logits whose first axis is units", "dim=0", remedy)
    if rows.units is None:
        fact = "a matrix of logits, and no groups"
        remedy = "Pass groups=, what each row is part of, or logits with an axis of units."
        raise InputError("unit", "go with inputs that come in units", fact, remedy)
    return rows


def _labelled_frame(
    frame: Any, labels: Any, weights: Any, names: Sequence[str] | None, *, whole: bool
) -> tuple[NDArray[Any], Any, Any, tuple[str, ...]]:
    """Matrix (n, K), labels, weights and names of the classes, by the names of a frame's columns.

    Classes that nobody named are all columns that are nothing else; those that look like row
    numbers are then refused and, if these are the `whole` data, those that no label names told.
    """
    others = [value for value in (labels, weights) if isinstance(value, str)]
    if isinstance(labels, str):
        labels = column(frame, labels, "labels")
    if isinstance(weights, str):
        weights = column(frame, weights, "sample_weight")
    matrix, found = class_columns(frame, names, others=others)
    if names is None:
        advice = "Drop columns that are no classes; if they are, name all with classes=."
        numbers = row_numbers(found, matrix) or next(filter(INDEX.fullmatch, found), None)
        if numbers is not None:
            fact = f"the column {numbers!r}, which looks like an index or row numbers"
            raise InputError("logits", "hold only classes", fact, advice)
        given = np.asarray(labels)
        if whole and given.dtype.kind in "OTU":
            known = {str(label) for label in given.ravel().tolist()}
            never = [name for name in found if name not in known]
            if never and known <= set(found):
                said = f"no label names {listing(never)}, so it counts as a class without labels."
                InputWarning.warn(f"{said} {advice}")
    return matrix, labels, weights, found


def require_possible(rows: Rows, schema: Schema, place: Place = IN_ARRAY) -> Rows:
    """The rows; InputError about the first label that the model calls impossible.

    No likelihood is positive if a label's logit is -inf or, with probabilities and no floor, stands
    for a probability of 0.
    """
    rows, given = rows.by_label(), rows
    if schema.answers:
        _require_possible_answers(rows, schema)
    elif isinstance(rows.logits, np.ndarray):
        if schema.probabilities and schema.floor is None:
            _require_positive(rows, place)
        require_unmasked_labels(rows.logits, rows.labels, place)
    return given


def _require_positive(rows: Rows, place: Place) -> None:
    impossible = rows.logits[np.arange(len(rows)), rows.labels] <= np.log(SMALLEST)
    if impossible.any():
        row = int(impossible.argmax())
        raise place.error(
            "labels",
            "have a positive probability",
            f"{rows.labels[row]}, of probability 0, {place.entry(row)}, one of "
            f"{int(impossible.sum())} such rows",
            (
                "Raise zeros with ",
                Setting("floor"),
                f", for example to {1 / sum(rows.shape):.1g}, which is 1 / (n + K).",
            ),
        )


def _require_possible_answers(rows: Rows, schema: Schema) -> None:
    logits, answers, probabilities = rows.logits, rows.labels, schema.probabilities
    beyond = -np.log(SMALLEST) if probabilities and schema.floor is None else np.inf
    wrong = ((logits <= -beyond) & (answers == 1)) | ((logits >= beyond) & (answers == 0))
    if wrong.any():
        row, label = (int(i) for i in np.argwhere(wrong)[0])
        said, remedy = f"is excluded by a logit of {logits[row, label]}", "Mask it."
        if probabilities:
            said, remedy = "has probability 0", "Keep probabilities away from 0 and 1 with floor."
        raise InputError(
            "labels",
            "be possible",
            f"{answers[row, label]} at index {(row, label)}, which {said}, one of "
            f"{int(wrong.sum())} such entries",
            remedy,
        )
