"""Votes: several labels per input, as `labels=` takes them, in whatever form people keep them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, require_all
from decal._base.numerics import Array
from decal._base.row_checks import (
    MISSING,
    check_annotations,
    check_class_names,
    check_distributions,
    label_numbers,
    real_matrix,
    to_numpy,
)
from decal._base.settings import check_count

__all__ = ["Votes"]

LEAVE_OUT = "Leave such rows out, of logits too."


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

    @classmethod
    def of_counts(cls, counts: Any, *, classes: Iterable[Any] | None = None) -> Self:
        """From (n, K) whole numbers: how many people named each class for each input."""
        array = real_matrix(to_numpy(counts, "counts"), "counts").astype(np.float64)
        fine = np.isfinite(array) & (array >= 0) & (array == np.floor(array))
        remedy = "Distributions go to Votes.of_distributions."
        require_all(fine, array, "counts", "be whole numbers, none negative", advice=remedy)
        if 0 in array.shape or array.shape[1] < 2:
            rule = "have a row and two columns or more"
            raise InputError("counts", rule, f"shape {array.shape}")
        without = np.flatnonzero(array.sum(axis=1) == 0)
        if without.size:
            fact = f"only zeros in row {without[0]}"
            raise InputError("counts", "hold a label in every row", fact, LEAVE_OUT)
        return cls(array, True, check_class_names(classes, array.shape[1]))

    @classmethod
    def of_distributions(cls, distributions: Any, *, classes: Iterable[Any] | None = None) -> Self:
        """From (n, K) distributions that labels are drawn from, or whose mean is that one."""
        shape = np.shape(distributions)
        if len(shape) != 2 or 0 in shape:
            rule = "be a matrix with a row per input and a column per class"
            raise InputError("distributions", rule, f"shape {shape}")
        p = check_distributions(distributions, shape=(shape[0], shape[1]))
        return cls(p, False, check_class_names(classes, shape[1]))

    @classmethod
    def of_annotations(cls, annotations: Any, *, classes: Any) -> Self:
        """From (n, A) labels, a column per annotator; -1, NaN or None where one gave none.

        `classes` are the K names, in the order of the columns of logits; or K itself, for labels
        0..K-1.
        """
        names, K = _names(classes)
        given = to_numpy(annotations, "annotations")
        array = check_annotations(_numbers(given, names, "annotations"), K)
        row, _ = np.nonzero(array >= 0)
        return cls(_counted(row, array[array >= 0], len(array), K), True, names)

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
        number = {str(name): i for i, name in enumerate(rows.tolist())}
        if rows.ndim != 1 or len(number) != rows.size:
            raise InputError("order", "name every row of logits once", f"shape {rows.shape}")
        row = np.array([number.get(str(name), -1) for name in ids.tolist()], dtype=np.intp)
        require_all(row >= 0, ids, "inputs", "be among those of order")
        y = _numbers(said, names, "labels")
        kept = y >= 0
        require_all(~kept | (y < K), y, "labels", f"lie in 0 to {K - 1}")
        return cls.of_counts(_counted(row[kept], y[kept], rows.size, K), classes=names)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        n, K = self.counts.shape
        return n, K

    def __getitem__(self, rows: Any) -> Votes:
        """Those of some inputs: a slice, a mask or a list of integers."""
        return Votes(self.counts[rows], self.counted, self.classes)

    @property
    def shares(self) -> Array:
        """(n, K) the share of each class among the labels of every input."""
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True))

    @property
    def number(self) -> Array:
        """(n,) how many labels every input has; of distributions, infinite."""
        return self.counts.sum(axis=1) if self.counted else np.full(len(self), np.inf)

    def __repr__(self) -> str:
        n, K = self.shape
        said = f"Votes: {n:,} input{'s' if n != 1 else ''}, {K:,} classes, "
        if not self.counted:
            return said + "distributions"
        least, most = int(self.number.min()), int(self.number.max())
        return said + (f"{least} to {most} labels each" if least < most else f"{most} labels each")


def _names(classes: Any) -> tuple[tuple[str, ...] | None, int]:
    """Names of the classes, if given, and their number."""
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        return None, check_count(classes, "classes", least=2)
    names = tuple(str(name) for name in classes)
    check_class_names(names, len(names))
    return names, check_count(len(names), "classes", least=2)


def _numbers(labels: NDArray[Any], names: tuple[str, ...] | None, name: str) -> NDArray[np.intp]:
    """Numbers of classes in the shape of the labels; -1 where there is none."""
    if labels.dtype.kind in "iu":
        return labels.astype(np.intp)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
        whole = missing | (labels == np.floor(labels))
        require_all(whole, labels, name, "be whole numbers, or NaN for none")
        return np.where(missing, -1, labels).astype(np.intp)
    if names is None or labels.dtype.kind not in "OTU":
        remedy = "If they are names, pass the names of all classes with classes=."
        raise InputError(name, "be numbers of classes", f"dtype {labels.dtype}", remedy)
    flat = labels.reshape(-1)
    known = np.array([isinstance(x, str) or str(x) not in (*MISSING, "-1") for x in flat.tolist()])
    found = np.full(flat.shape, -1, dtype=np.intp)
    found[known] = label_numbers(flat[known], names, columns=len(names))
    return found.reshape(labels.shape)


def _counted(row: Any, label: Any, n: int, K: int) -> Array:
    """(n, K) how often each label was given to each row."""
    return np.bincount(row * K + label, minlength=n * K).reshape(n, K).astype(np.float64)
