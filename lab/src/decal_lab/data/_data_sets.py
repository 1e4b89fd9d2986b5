"""The results of loaders: frozen objects of plain arrays and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.intp]
Images = NDArray[np.uint8]


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """n images of one size with their labels.

    Attributes
    ----------
    images : (n, H, W, C) array
        Bytes; C is 1 for grey images and 3 for colour (red, green, blue).
    labels : (n,) array
        Numbers of classes.
    classes : tuple of str
        Their names, in the order of the labels.
    human : (n, K) array or None
        Shares of the annotators who chose each class, or None.
    """

    images: Images
    labels: Labels
    classes: tuple[str, ...]
    human: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        n, height, width, channels = self.images.shape
        size = f"{height}×{width}×{channels}"
        return f"ImageSet: {n:,} images of {size}, {len(self.classes)} classes"


@dataclass(frozen=True, eq=False, repr=False)
class HumanSet:
    """What people called the images of a data set, in its order.

    Attributes
    ----------
    human : (n, K) array
        Shares of the annotators who chose each class.
    counts : (n, K) array or None
        How many chose each class, or None if only the shares are known.
    classes : tuple of str
        Names of the classes, in the order of the columns.
    """

    human: NDArray[np.float64]
    counts: NDArray[np.intp] | None
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.human)

    def __repr__(self) -> str:
        return f"HumanSet: {len(self):,} images, {len(self.classes)} classes"


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingSet:
    """n items as vectors, judged by people.

    Attributes
    ----------
    embeddings : (n, d) array
    human : (n, K) array
        Shares of the annotators who chose each class.
    texts : tuple or None
        n tuples of sentences, or None.
    classes : tuple of str
        Names of the classes, in the order of the columns.
    """

    embeddings: NDArray[np.float32]
    human: NDArray[np.float64]
    texts: tuple[tuple[str, ...], ...] | None
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.embeddings)

    def __repr__(self) -> str:
        return f"EmbeddingSet: {len(self):,} vectors of {self.embeddings.shape[1]} numbers"


@dataclass(frozen=True, eq=False, repr=False)
class TextSet:
    """n items of text, judged by people.

    Attributes
    ----------
    texts : tuple
        n tuples of sentences: premise and hypothesis, or an item's parts in their order.
    labels : (n,) array
        Numbers of classes: what most annotators chose.
    human : (n, K) array
        Shares of the annotators who chose each class.
    counts : (n, K) array
        How many chose each class.
    uids : tuple of str
        n names of items, unique.
    classes : tuple of str
        Names of the classes, in the order of the columns.
    old_labels : (n,) array
        The labels of the data set that the items come from.
    """

    texts: tuple[tuple[str, ...], ...]
    labels: Labels
    human: NDArray[np.float64]
    counts: NDArray[np.intp]
    uids: tuple[str, ...]
    classes: tuple[str, ...]
    old_labels: Labels

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"TextSet: {len(self):,} items, {len(self.classes)} classes"


@dataclass(frozen=True, eq=False, repr=False)
class TableSet:
    """A table with a column to predict.

    Attributes
    ----------
    name : str
        Name of the data set.
    openml_id : int
        Its number at OpenML.
    columns : mapping
        Every other column by name: (n,) float64 with NaN where nothing is known, or (n,) text with
        "" there.
    labels : (n,) array
        Numbers of classes.
    classes : tuple of str
        Their names, sorted.
    target : str
        The name of the column to predict.
    """

    name: str
    openml_id: int
    columns: Mapping[str, NDArray[Any]]
    labels: Labels
    classes: tuple[str, ...]
    target: str

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return (
            f"TableSet {self.name} ({self.openml_id}): {len(self):,} rows, "
            f"{len(self.columns)} columns, {len(self.classes)} classes of {self.target}"
        )

    def matrix(self) -> NDArray[np.float64]:
        """(n, columns) numbers: text columns become codes in the order of their sorted values.

        Unknown values, and unknown text, are NaN.
        """
        return np.column_stack([_numbers(column) for column in self.columns.values()])


@dataclass(frozen=True, eq=False, repr=False)
class LogitSet:
    """Logits of a classifier, what they should have been, and logits it may be fitted on.

    Attributes
    ----------
    name : str
        Name of the file, without .npz.
    logits : (n, K) array
        Logits of the examples to evaluate on.
    labels : (n,) array
        Their labels.
    truth : (n, K) array or None
        The distribution of their labels (of annotators, or semi-synthetic), or None.
    classes : tuple of str or None
        K names, or None.
    train_logits : (m, K) array or None
        Of examples to fit on, or None: then split the rows above.
    train_labels : (m,) array or None
        Their labels, or None.
    other : mapping or None
        Logits on other data, such as out-of-distribution sets, by name.
    uids : tuple of str or None
        n names of items, or None.
    """

    name: str
    logits: NDArray[np.float32]
    labels: Labels
    truth: NDArray[np.float32] | None = None
    classes: tuple[str, ...] | None = None
    train_logits: NDArray[np.float32] | None = None
    train_labels: Labels | None = None
    other: Mapping[str, NDArray[np.float32]] | None = None
    uids: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        rows = f"{len(self):,} rows"
        if self.train_labels is not None:
            rows += f" and {len(self.train_labels):,} to fit on"
        return f"LogitSet {self.name}: {rows}, {self.logits.shape[1]} classes"


def _numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    if column.dtype.kind == "f":
        return column
    values, codes = np.unique(column, return_inverse=True)
    return np.where(column == "", np.nan, codes - float(values[0] == ""))
