"""Rows: logits and all that belongs to them, read and checked once, wherever they come from.

This is the one place where probabilities become logits, and where rows that look like probabilities
without being called so are noticed. Nothing is converted by inspection: the caller says what the
numbers are, and a warning names the argument if they seem to be something else.
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
    require_same_order,
    row_numbers,
)
from decal._base.errors import (
    IN_ARRAY,
    InputError,
    InputWarning,
    Place,
    Setting,
    Words,
    listing,
    require_all,
)
from decal._base.numerics import Array, Logits, row_blocks
from decal._base.row_checks import (
    LARGEST_LOGIT,
    check_class_names,
    check_groups,
    check_labels,
    check_logits,
    check_probabilities,
    check_weights,
    probability_matrix,
    real_matrix,
    require_matrix,
    require_unmasked_labels,
    to_numpy,
)
from decal.grids import Grid, GridPlace, flattened, is_dense

__all__ = ["Rows", "Schema", "logits_from_probabilities"]

SMALLEST = float(np.finfo(np.float64).tiny)
"""Stands for a probability of 0 if no floor is given: its logarithm is about -708."""

SUSPICIOUS = 0.01
"""How far from 1 rows may sum that look like probabilities: these may have been rounded."""

LEAST_ROWS = 10
"""So many rows, all of them probabilities, are no accident..."""

LEAST_UNCERTAIN_ROWS = 3
"""...and so many are enough if they are not 1 for one class and 0 for the others."""

UNKNOWN = -1  # the answer where nobody knows whether an input has a label

REMEDY: Words = (
    "Pass ",
    Setting("probabilities", True),
    ", convert them with decal.logits_from_probabilities, or pass",
    " the logits behind them",
)

Labels = NDArray[np.intp]
Answers = NDArray[np.int8]


@dataclass(frozen=True)
class Schema:
    """What a model lets in."""

    width: int | None = None  # columns of logits, once the model was fitted
    classes: tuple[str, ...] | None = None  # their names, if known
    probabilities: bool = False  # whether logits are given as probabilities
    floor: float | None = None  # what smaller probabilities are raised to
    masks: bool = True  # whether -inf may mask classes
    answers: bool = False  # an answer per label: 1, 0 or, where unknown, -1; else one label
    zeros_seen: bool = False  # whether answers 0 came before, so that -1 is known to mean unknown
    top_logits: bool = False  # whether a `decal.TopLogits` or `MemberUnion` may stand for logits
    masses: bool = False  # whether a `decal.llm.LabelMasses` may
    axes: bool = False  # whether logits may have more axes than rows and classes

    def takes_plain(self, values: Any) -> bool:
        """Whether values are new inputs without any names."""
        return type(values) is np.ndarray and self.width is not None and not self.answers

    def takes(self, values: Any) -> bool:
        """Whether values, which were checked when they were made, stand for logits."""
        listed = hasattr(values, "total_classes") or hasattr(values, "in_turn")
        return (self.top_logits and listed) or (self.masses and hasattr(values, "predicted_by"))


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
    """

    logits: Any
    labels: Any = None
    weights: Array | None = None
    classes: tuple[str, ...] | None = None
    ids: Index | None = None
    truth: Array | None = None
    units: Any = None
    grid: Grid | None = None

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
        return Rows(self.logits[rows], *parts, part(self.units))

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
        return cls(z, y, w, first.classes, ids, joined("truth"), joined("units"))

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
        if isinstance(logits, cls):
            return logits
        grid, place = None, IN_ARRAY
        axes: dict[str, Any] = {"dim": dim, "ignore_index": ignore_index}
        if _has_axes(logits, schema, **axes):
            flat = flattened(logits, labels, sample_weight, **axes, width=schema.width)
            logits, labels, sample_weight, grid = flat
            place = GridPlace(grid=grid)
        shaped: dict[str, Any] = {"grid": grid, "units": None if grid is None else grid.units}
        if labels is sample_weight is classes is ids is None and schema.takes_plain(logits):
            z = read_logits(logits, schema, place=place, empty=empty)
            return cls(z, classes=schema.classes, **shaped)
        labelled = labels is not None
        names = schema.classes if classes is None else tuple(str(name) for name in classes)
        require_same_order(logits=logits, labels=labels, sample_weight=sample_weight)
        framed, z = is_frame(logits), logits
        if schema.answers:
            names = names or (column_names(logits) if framed else None)
            z = read_label_logits(logits, schema, names)
        else:
            if framed and labelled:
                frame = _labelled_frame(logits, labels, sample_weight, names, whole=whole)
                z, labels, sample_weight, names = frame
            elif framed:
                z, _ = class_columns(logits, names, others=id_columns(logits, ids))
            if labelled:
                require_matrix(z, labels)
            z = z if schema.takes(z) else read_logits(z, schema, place=place, empty=empty)
        known = check_class_names(names, z.shape[1])
        if labelled:
            size = {"rows": z.shape[0], "classes": z.shape[1]}
            labels = (
                check_answers(labels, z.shape, known, schema, whole=whole)
                if schema.answers
                else check_labels(labels, **size, names=known, in_table=framed, place=place)
            )
        w = check_weights(sample_weight, rows=len(z), all_zero=not len(z))
        index = None if labelled else index_of(logits, ids, rows=len(z))
        return cls(z, labels, w, known, index, **shaped)


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


def in_units(rows: Rows, groups: Any, unit: str) -> Rows:
    """Rows that know what they are part of: the groups, if given, or the first axis of logits."""
    if not isinstance(unit, str) or not unit:
        raise InputError("unit", "name what inputs come in, such as 'image'", f"{unit!r}")
    if groups is not None:
        return replace(rows, units=check_groups(groups, len(rows)))
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


# Logits


def read_logits(
    values: Any,
    schema: Schema = Schema(),
    *,
    name: str = "logits",
    place: Place = IN_ARRAY,
    empty: bool = False,
    remedy: Words = REMEDY,
) -> Logits:
    """Logits (n, K) of what a model lets in; a warning with this `remedy` if they are not logits.

    `name` and `place` are for messages; without a remedy there is no warning.
    """
    if is_frame(values):
        values, _ = class_columns(values, schema.classes, name=name)
    if schema.probabilities:
        name = "probabilities" if name == "logits" else name
        values = logits_from_probabilities(values, floor=schema.floor, name=name, place=place)
    z = check_logits(
        values, classes=schema.width, name=name, place=place, empty=empty, masked=schema.masks
    )
    if remedy and not schema.probabilities:
        if look_like_probabilities(z):
            warn_of_probabilities(name, remedy)
        elif look_like_probabilities(z, total=100.0):
            remedy = "Divide them by 100, and ", _lowered(remedy)
            fact = "rows that are not negative and sum to 100, as percentages do"
            warn_of_probabilities(name, remedy, fact)
    return z


def logits_from_probabilities(
    probabilities: Any,
    *,
    floor: float | None = None,
    name: str = "probabilities",
    place: Place = IN_ARRAY,
) -> Array:
    """(n, K) logits of a classifier that gives probabilities: their logarithms.

    Logits count up to a constant per row, so nothing is lost: predictions are those of the logits
    that the probabilities were made from, but for what rounding took. A probability that was
    rounded to 0 has lost its logit, and `floor` says what to take instead.

    Parameters
    ----------
    probabilities : (n, K) array or data frame
        Rows that sum to 1, give or take 0.001.
    floor : float, optional
        In [0, 1). Smaller probabilities are raised to it. By default only zeros change: they
        become the smallest normal number of float64, whose logarithm is -708. That is right for a
        softmax that underflowed. It is not for votes, counts and rounded tables, whose zeros mean
        "less than one vote": there, take about 1 / (n + K), for n votes or examples. 0 leaves
        zeros as they are: their logits are -inf, which masks the class in this row.
    name : str
        What messages call the probabilities.
    place
        Where they stand, for messages.

    See Also
    --------
    Decalibrator : With probabilities=True it converts all that it is given.

    Examples
    --------
    >>> import decal
    >>> decal.logits_from_probabilities([[0.5, 0.25, 0.25]]).round(3)
    array([[-0.693, -1.386, -1.386]])
    >>> decal.logits_from_probabilities([[1.0, 0.0]], floor=0.01).round(3)
    array([[ 0.   , -4.605]])
    """
    floor = check_floor(floor)
    if is_frame(probabilities):
        probabilities, _ = class_columns(probabilities, None, name=name)
    probabilities = to_numpy(probabilities, name)
    shape = probabilities.shape
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        raise place.error(
            name,
            "have one column per class, two or more",
            f"shape {shape}{place.within}",
            "For the probability of one class alone, stack it as [1 - p, p]"
            + (f"; for one row, pass {name}[None]." if len(shape) == 1 else "."),
        )
    advice = "Divide counts by their sum; ", "leave probabilities=True out for logits", "."
    p = check_probabilities(probabilities, name=name, place=place, advice=advice)
    if floor is None:
        p[p == 0.0] = SMALLEST
    elif floor > 0.0:
        np.maximum(p, floor, out=p)
    with np.errstate(divide="ignore"):
        return np.log(p, out=p)


def check_floor(floor: Any, probabilities: bool = True) -> float | None:
    """A number in [0, 1), or None; for logits None alone."""
    if floor is None:
        return None
    if not probabilities:
        remedy = "Pass ", Setting("probabilities", True), " if they are probabilities."
        raise InputError("floor", "go with probabilities", f"{floor} for logits", remedy)
    number = isinstance(floor, int | float | np.number) and not isinstance(floor, bool)
    if not number or not 0 <= float(floor) < 1:
        raise InputError("floor", "be None or a number from 0 to below 1", f"{floor!r}")
    return float(floor)


def require_possible(rows: Rows, schema: Schema, place: Place = IN_ARRAY) -> Rows:
    """The rows; InputError about the first label that the model calls impossible.

    No likelihood is positive if a label's logit is -inf or, with probabilities and no floor, stands
    for a probability of 0.
    """
    if schema.answers:
        _require_possible_answers(rows, schema)
    elif isinstance(rows.logits, np.ndarray):
        if schema.probabilities and schema.floor is None:
            _require_positive(rows, place)
        require_unmasked_labels(rows.logits, rows.labels, place)
    return rows


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


# Rows that look like probabilities


def look_like_probabilities(values: Logits, *, total: float = 1.0) -> bool:
    """Whether every row is non-negative and sums to `total`, and there are enough of them to tell.

    A few rows of ones and zeros may be logits. Costs nothing for logits: the first rows settle it.
    """

    def sums_fit(values: Logits) -> bool:
        if not (values >= 0).all():
            return False
        with np.errstate(over="ignore"):  # large numbers are no probabilities, and no mistake
            sums = values.sum(axis=1, dtype=np.float64)
        return bool((np.abs(sums - total) <= SUSPICIOUS * total).all())

    n = len(values)
    if n < LEAST_UNCERTAIN_ROWS or not sums_fit(values[:LEAST_ROWS]):
        return False
    if n < LEAST_ROWS:
        uncertain = (values.max(axis=1) < (1 - SUSPICIOUS) * total).sum()
        return bool(uncertain >= LEAST_UNCERTAIN_ROWS)
    return all(sums_fit(values[rows]) for rows in row_blocks(*values.shape))


def warn_of_probabilities(
    name: str = "logits",
    remedy: Words = REMEDY,
    fact: str = "rows that are not negative and sum to 1",
) -> None:
    """Warn the caller of decal, whichever function was called."""
    said = f"{name} must not be probabilities: got {fact}; the intervals would be wrong. "
    InputWarning.warn((said, remedy, "."))


def _lowered(words: Words) -> Words:
    """A sentence as the second half of another."""
    if isinstance(words, str):
        return words[0].lower() + words[1:]
    return (_lowered(words[0]), *words[1:]) if isinstance(words, tuple) else words


# Several labels per input


def read_label_logits(values: Any, schema: Schema, names: Sequence[str] | None = None) -> Logits:
    """Logits (n, L) of labels that do not exclude each other, infinite where one is certain."""
    name = "probabilities" if schema.probabilities else "logits"
    if is_frame(values):
        values, _ = class_columns(values, names, name=name)
    if isinstance(values, list) and values and np.shape(values[0])[1:] == (2,):
        raise InputError(
            name,
            "be one matrix with a column per label",
            f"a list of {len(values)} matrices",
            "Of MultiOutputClassifier.predict_proba take "
            "np.column_stack([p[:, 1] for p in probabilities]).",
        )
    read = probability_matrix if schema.probabilities else real_matrix
    z: Logits = read(to_numpy(values, name), name)
    if 0 in z.shape:
        raise InputError(name, "have a row and a column or more", f"shape {z.shape}")
    if schema.width is not None and z.shape[1] != schema.width:
        rule = f"have {schema.width} columns, one per label seen by fit"
        raise InputError(name, rule, f"shape {z.shape}")
    if schema.probabilities:
        return log_odds(z.astype(np.float64), schema.floor)
    require_all(~np.isnan(z), z, name, "be numbers", advice="Leave such rows out.")
    if len(z) >= LEAST_ROWS and 0 <= float(z.min()) < float(z.max()) <= 1:
        warn_of_numbers_in_unit_interval()
    if z.dtype == np.float64 and (np.abs(z) >= LARGEST_LOGIT).any():
        z = np.where(np.abs(z) >= LARGEST_LOGIT, np.copysign(np.inf, z), z)
    return z


def warn_of_numbers_in_unit_interval() -> None:
    """Warn of logits that all lie between 0 and 1, as the outputs of a sigmoid do."""
    remedy = "Pass ", Setting("probabilities", True), ", or the logits before the sigmoid"
    fact = "numbers that all lie from 0 to 1, as those of sigmoids"
    warn_of_probabilities("logits", remedy, fact)


def log_odds(p: Array, floor: float | None) -> Array:
    """Logits of probabilities, which are kept away from 0 and 1 as `floor` says."""
    if floor is not None and floor >= 0.5:
        raise InputError("floor", "be below 0.5 for labels of two answers", f"{floor:g}")
    if floor is None:
        yes, no = (np.where(q == 0.0, SMALLEST, q) for q in (p, 1.0 - p))
    else:
        kept = np.clip(p, floor, 1.0 - floor)
        yes, no = kept, 1.0 - kept
    with np.errstate(divide="ignore"):
        found: Array = np.log(yes) - np.log(no)
    return found


def check_answers(
    labels: Any, shape: tuple[int, ...], names: Sequence[str] | None, schema: Schema, *, whole: bool
) -> Answers:
    """(n, L) of 1, 0 and, where nobody knows, -1: from these, booleans, or numbers with NaN.

    Answers 1 and -1 without any 0 are refused, because -1 then means no; of one of several chunks,
    which are not the `whole` data, a warning is given.
    """
    if is_frame(labels):
        labels, _ = class_columns(labels, names, name="labels")
    array = to_numpy(labels, "labels")
    if array.shape != shape:
        rule = f"be a matrix with a row per input and a column per label, {shape}"
        remedy = "If an input has exactly one of the classes, use decal.Decalibrator."
        raise InputError("labels", rule, f"shape {array.shape}", remedy)
    rule = "be 1, 0, or -1 or NaN where unknown"
    if array.dtype.kind not in "iufb":
        raise InputError("labels", rule, f"dtype {array.dtype}")
    unknown = np.isnan(array) if array.dtype.kind == "f" else array == UNKNOWN
    unknown |= array == UNKNOWN
    require_all(unknown | (array == 0) | (array == 1), array, "labels", rule)
    zeros = (array == 0).any() or schema.zeros_seen
    if (array == UNKNOWN).any() and (array == 1).any() and not zeros:
        error = InputError(
            "labels",
            "be 0 where the answer is no, and -1 means unknown",
            "1 and -1, and no 0",
            "If -1 means no, pass (labels + 1) // 2; if it does mean unknown, pass NaN instead.",
        )
        if whole:
            raise error
        InputWarning.warn(str(error))
    return np.where(unknown, UNKNOWN, array).astype(np.int8)


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
