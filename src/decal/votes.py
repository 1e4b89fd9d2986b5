"""Votes: several labels per input, as `labels=` takes them, in whatever form people keep them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import Index, class_columns, is_frame, row_names
from decal._base.errors import InputError, counted, is_whole_number, listing, require_all
from decal._base.numerics import Array, Indices, Mask
from decal._base.row_checks import (
    MISSING,
    check_class_names,
    check_distributions,
    real_matrix,
    to_numpy,
)
from decal._base.settings import check_count

__all__ = ["Votes"]

LEAVE_OUT = "Leave such rows out, of logits too."
UNKNOWN = -2  # the number of a label that is no class


@dataclass(frozen=True, eq=False, repr=False)
class Votes:
    """Several labels per input: how often each of K classes was named for each of n inputs.

    Every `labels=` of `Decalibrator`, `decalibrate` and `choose` takes it. Make it by one of the
    four functions below, which say what the numbers are: nothing is guessed. Fitting weighs the
    labels of an input by their shares, so that every input counts once, or as much as its weight.
    Promises take the labels of an input to be independent draws from one distribution, and their
    number not to depend on what was said.

    Attributes
    ----------
    counts : (n, K) array
        Whole numbers; or distributions.
    counted : bool
        Whether they are numbers of labels, not distributions.
    classes : tuple of str or None
        The names of the columns, if known.
    ordered : bool
        Whether they have an order: that of the labels, if these are ordered categoricals of pandas.

    Examples
    --------
    >>> import decal
    >>> votes = decal.Votes.of_annotations([["benign", "benign", "malignant"],
    ...                                     ["malignant", None, "malignant"]],
    ...                                    classes=["benign", "malignant"])
    >>> votes
    Votes: 2 inputs, 2 classes, 2 to 3 labels each
    >>> votes.counts
    array([[2., 1.],
           [0., 2.]])
    """

    counts: Array
    counted: bool = True
    classes: tuple[str, ...] | None = None
    ordered: bool = False
    _index: Index | None = None  # that of a frame, which tells orders apart

    @classmethod
    def of_counts(cls, counts: Any, *, classes: Iterable[Any] | None = None) -> Self:
        """From (n, K) whole numbers: how many people named each class for each input.

        A data frame has a column per class, named after it.
        """
        given, names = _matrix(counts, "counts", classes)
        array = real_matrix(given, "counts").astype(np.float64)
        fine = np.isfinite(array) & (array >= 0) & (array == np.floor(array))
        remedy = "Distributions go to Votes.of_distributions."
        require_all(fine, array, "counts", "be whole numbers, none negative", advice=remedy)
        return cls._counting(array, names, "counts", counts)

    @classmethod
    def of_distributions(cls, distributions: Any, *, classes: Iterable[Any] | None = None) -> Self:
        """From (n, K) distributions that labels are drawn from, or whose mean is that one.

        A data frame has a column per class, named after it.
        """
        given, names = _matrix(distributions, "distributions", classes)
        p = check_distributions(given, shape=(given.shape[0], given.shape[1]))
        return cls(p, False, names, _index=row_names(distributions))

    @classmethod
    def of_annotations(cls, annotations: Any, *, classes: Any) -> Self:
        """From (n, A) labels, a column per annotator; -1, NaN, None or "" where one gave none.

        `classes` are the K names, in the order of the columns of logits; or K itself, for labels
        0..K-1. Numbers are those of columns, unless a class is called by a whole number.
        """
        names, K = _names(classes)
        given = to_numpy(annotations, "annotations")
        if given.ndim != 2 or given.size == 0:
            rule = "be a matrix with a row per input and a column per annotator"
            raise InputError("annotations", rule, f"shape {given.shape}")
        y = _numbers(given, names, K, "annotations")
        row = np.broadcast_to(np.arange(len(y))[:, None], y.shape)
        ordered = _have_order(annotations, names or range(K))
        return cls._counting(
            _counted(row, y, len(y), K), names, "annotations", annotations, ordered=ordered
        )

    @classmethod
    def of_table(cls, inputs: Any, labels: Any, *, order: Any, classes: Any) -> Self:
        """From a table with a line per label: the id of its input, and what was said of it.

        `order` are the n ids of the rows of logits, each once. Other ids are refused.
        `classes` as for `of_annotations`.
        """
        names, K = _names(classes)
        ids, rows = to_numpy(inputs, "inputs"), to_numpy(order, "order")
        said = to_numpy(labels, "labels")
        if ids.ndim != 1 or ids.shape != said.shape:
            fact = f"shapes {ids.shape} and {said.shape}"
            raise InputError("inputs and labels", "be two vectors of one length", fact)
        if rows.ndim != 1 or not rows.size:
            raise InputError("order", "be a vector of ids", f"shape {rows.shape}")
        number = {str(name): i for i, name in enumerate(rows.tolist())}
        if len(number) != rows.size:
            twice = next(name for i, name in enumerate(rows.tolist()) if number[str(name)] != i)
            raise InputError("order", "name every row of logits once", f"{twice!r} more than once")
        row = np.array([number.get(str(name), -1) for name in ids.tolist()], dtype=np.intp)
        remedy = "Leave such lines out, of labels too."
        require_all(row >= 0, ids, "inputs", "be among those of order", advice=remedy)
        y = _numbers(said, names, K, "labels")
        ordered = _have_order(labels, names or range(K))
        return cls._counting(_counted(row, y, rows.size, K), names, "labels", ordered=ordered)

    @classmethod
    def _counting(
        cls,
        counts: Array,
        names: tuple[str, ...] | None,
        name: str,
        given: Any = None,
        *,
        ordered: bool = False,
    ) -> Self:
        without = np.flatnonzero(counts.sum(axis=1) == 0)
        if without.size:
            fact = f"none in row {without[0]}"
            raise InputError(name, "hold a label of every row", fact, LEAVE_OUT)
        return cls(counts, True, names, ordered, row_names(given))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        n, K = self.counts.shape
        return n, K

    def __getitem__(self, rows: Any) -> Votes:
        """Those of some inputs: an integer, a slice, a mask or a list of integers."""
        rows = [rows] if isinstance(rows, int | np.integer) else rows
        index = self._index and {name: values[rows] for name, values in self._index.items()}
        return replace(self, counts=self.counts[rows], _index=index)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """TypeError: where labels are one per input, these would be taken for something else."""
        raise TypeError(f"{self}, which Decalibrator, decalibrate and choose take")

    @property
    def shares(self) -> Array:
        """(n, K) the share of each class among the labels of every input."""
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True))

    @property
    def number(self) -> Array:
        """(n,) how many labels every input has; of distributions, infinite."""
        return self.counts.sum(axis=1) if self.counted else np.full(len(self), np.inf)

    def require(self, name: str, shape: tuple[int, int], classes: Sequence[str] | None) -> None:
        """InputError about votes of a name that are not of these inputs, or of other classes."""
        if self.shape != shape:
            n, K = shape
            rule = f"be of {counted(n, 'input')} and {K:,} classes"
            raise InputError(name, rule, f"{self}")
        if self.classes and classes and self.classes != tuple(classes):
            fact = f"votes for {listing(self.classes)}"
            raise InputError(name, f"be of the classes {listing(classes)}", fact)

    def missed(self, kept: Mask) -> Array:
        """(n,) the share of every input's labels that are outside the classes kept, (n, K)."""
        # Exact where it equals a share that is tolerated, as 3 of 10 labels do: shares add up less.
        return np.asarray((self.counts * ~kept).sum(axis=1) / self.counts.sum(axis=1))

    def __repr__(self) -> str:
        n, K = self.shape
        said = f"Votes: {counted(n, 'input')}, {K:,} classes, "
        if not self.counted:
            return said + "distributions"
        least, most = int(self.number.min()), int(self.number.max())
        each = f"{least} to {most} labels" if least < most else counted(most, "label")
        return f"{said}{each} each"


def _matrix(
    values: Any, name: str, classes: Iterable[Any] | None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """A matrix with a row per input and a column per class, and the names of these, if known."""
    names = None if classes is None else tuple(str(each) for each in classes)
    if is_frame(values):
        array, names = class_columns(values, names, name=name, advice="")
    else:
        array = to_numpy(values, name)
    if array.ndim != 2 or len(array) == 0 or array.shape[1] < 2:
        rule = "be a matrix with a row per input and a column per class, two or more"
        raise InputError(name, rule, f"shape {array.shape}")
    return array, check_class_names(names, array.shape[1])


def _have_order(labels: Any, names: Iterable[Any]) -> bool:
    """Whether labels are ordered categoricals of pandas, whose order must be that of the names."""
    columns = [labels[name] for name in labels.columns] if is_frame(labels) else [labels]
    kinds: list[Any] = [getattr(column, "dtype", None) for column in columns]
    if not all(getattr(kind, "ordered", False) for kind in kinds):
        return False
    for kind in kinds:
        require_in_order([str(name) for name in names], [str(name) for name in kind.categories])
    return True


def require_in_order(names: Sequence[str], categories: Sequence[str]) -> None:
    """InputError if names of classes are not the categories of the labels, in their order."""
    if tuple(names) != tuple(categories):
        fact = f"{listing(names)}, and labels in the order {listing(categories)}"
        raise InputError("classes", "be in the order of the labels' categories", fact)


def _names(classes: Any) -> tuple[tuple[str, ...] | None, int]:
    """Names of the classes, if given, and their number."""
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        return None, check_count(classes, "classes", least=2)
    if not isinstance(classes, Iterable):
        raise InputError("classes", "be names, or how many there are", f"{classes!r}")
    names = tuple(str(name) for name in classes)
    check_class_names(names, len(names))
    return names, check_count(len(names), "classes", least=2)


def _numbers(labels: NDArray[Any], names: tuple[str, ...] | None, K: int, name: str) -> Indices:
    """Numbers of classes in the shape of the labels; -1 where there is none.

    Numbers are those of columns, unless a class is called by a whole number.
    """
    known = {"": -1, "-1": -1} | {each: k for k, each in enumerate(names or ())}
    if not any(is_whole_number(each) for each in names or ()):
        known |= {str(k): k for k in range(K)}

    def number(label: Any) -> int:
        if not isinstance(label, str) and str(label) in MISSING:
            return -1
        whole = isinstance(label, float) and label.is_integer()
        return known.get(str(label), known.get(str(int(label)), UNKNOWN) if whole else UNKNOWN)

    flat = labels.ravel()
    if labels.dtype.kind == "O":  # which may not be sorted
        found = np.array([number(label) for label in flat.tolist()])
    else:
        values, inverse = np.unique(flat, return_inverse=True)
        found = np.array([number(value) for value in values.tolist()])[inverse]
    found = found.astype(np.intp).reshape(labels.shape)
    if (found == UNKNOWN).any():
        rule = f"be one of {listing(names)}" if names else f"lie in 0 to {K - 1}"
        rule += ", or be -1, NaN or None for none"
        remedy = "" if names else "If they are names, pass those of all classes with classes=."
        if str(labels[found == UNKNOWN][0]) in MISSING:
            remedy = "This is text: write None instead, or nothing."
        require_all(found != UNKNOWN, labels, name, rule, advice=remedy)
    return found


def _counted(row: Indices, label: Indices, n: int, K: int) -> Array:
    """(n, K) how often each label was given to each row; labels of -1 are none."""
    given = label >= 0
    cells = row[given] * K + label[given]
    return np.bincount(cells, minlength=n * K).reshape(n, K).astype(np.float64)
