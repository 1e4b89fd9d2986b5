"""Arrow tables to arrays and back: what partitions of Dask and Spark DataFrames have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, TablePlace, listing, needs
from decal._base.numerics import Array, Logits
from decal.credal import IntervalCredalSet
from decal.distributed._partitions import Model, Recipe, class_count, loaded, predicted
from decal.io.formats import is_list, is_numeric
from decal.rows import Rows

with needs(
    "pyarrow",
    message="decal.distributed needs pyarrow for DataFrames: pip install 'decal[distributed]'",
):
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]

ADDED = ("lower", "upper", "point")  # the columns of predictions


@dataclass(frozen=True)
class Columns:
    """Which columns hold what: logits are one column of lists, or K columns of numbers."""

    logits: str | tuple[str, ...]
    label: str | None = None
    weight: str | None = None

    @classmethod
    def named(cls, logits: Any, label: Any = None, weight: Any = None) -> Columns:
        """Columns from what a user gave; InputError unless they are names."""
        names = logits if isinstance(logits, str) else tuple(logits)
        for argument, value in (("labels", label), ("sample_weight", weight)):
            if value is not None and not isinstance(value, str):
                rule = "be the name of a column of the DataFrame"
                raise InputError(argument, rule, f"a {type(value).__name__}")
        if not isinstance(names, str):
            if not all(isinstance(name, str) for name in names):
                raise InputError("logits", "be the names of columns", f"{names!r:.80}")
            if len(names) < 2 or len(set(names)) < len(names):
                rule = "be the name of a column of lists, or the distinct names of two columns or "
                raise InputError("logits", f"{rule}more", f"{names!r:.80}")
        return cls(names, label, weight)

    def ordered(self, classes: tuple[str, ...] | None) -> Columns:
        """The columns of logits in the order of a model's classes, if they have their names."""
        named = set(classes or ()) & set(self.per_class or ())
        if self.per_class is None or not classes or not named:
            return self
        missing = [name for name in classes if name not in named]
        besides = [name for name in self.per_class if name not in named]
        if missing or besides:
            rule = f"be the columns of the classes {listing(classes)}"
            raise InputError("logits", rule, listing(self.per_class))
        return replace(self, logits=classes)

    @property
    def per_class(self) -> tuple[str, ...] | None:
        """The columns of logits, if there is one per class."""
        return None if isinstance(self.logits, str) else self.logits

    @property
    def of_logits(self) -> list[str]:
        """The columns of logits, one or K."""
        return [self.logits] if isinstance(self.logits, str) else list(self.logits)

    @property
    def needed(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys([*self.of_logits, *filter(None, (self.label, self.weight))]))

    def require_in(self, present: Iterable[Any], where: str = "") -> None:
        """InputError if a column is missing."""
        present = list(present)
        for name in self.needed:
            if name not in present:
                argument = {self.label: "labels", self.weight: "sample_weight"}.get(name, "logits")
                known = ", ".join(str(column) for column in present[:10])
                more = ", …" if len(present) > 10 else ""
                fact = f"no such column{where} among {known}{more}"
                advice = "Or name the class columns: logits=[…]." if name == self.logits else ""
                raise InputError(argument, f"be in the column {name!r}", fact, advice)


def resolved(
    recipe: Recipe, present: Iterable[Any], logits: Any, label: Any, weight: Any
) -> tuple[Columns, Recipe]:
    """The columns that a user named, in the order of classes, and the recipe with these classes."""
    columns = Columns.named(logits, label, weight)
    if not recipe.labelled:
        columns = columns.ordered(recipe.schema.classes)
    columns.require_in(present)
    if recipe.labelled and columns.per_class is not None:
        recipe = recipe.with_width(len(columns.per_class), columns.per_class)
    return columns, recipe


def to_predict(model: Model, present: Iterable[Any], logits: Any) -> Columns:
    """The columns of logits that a user named; InputError if what predictions add is there."""
    columns = Columns.named(logits).ordered(model.classes)
    columns.require_in(present)
    for name in ADDED:
        if name in set(present) - set(columns.of_logits):
            message = f"data must not have a column {name!r} yet: predictions add it. "
            raise InputError(f"{message}Rename it first.")
    return columns


def batches(
    tables: Iterable[Any], columns: Columns, partition: int, recipe: Recipe
) -> Iterator[Rows]:
    """The checked rows of a partition that arrives as Arrow tables."""
    start, K = 0, recipe.schema.width
    for table in tables:
        place = TablePlace(start, source=f"partition {partition}", columns=columns.per_class)
        columns.require_in(table.column_names, place.within)
        if table.num_rows:
            z = matrix(table, columns, place, K)
            K = z.shape[1]  # every later row of the partition has as many
            labels = weights = None
            if columns.weight is not None:
                weights = _numbers(table.column(columns.weight), "sample_weight", place)
            if columns.label is not None:
                labels = _labels(table.column(columns.label), place)
            yield recipe.read(z, labels, weights, place)
            start += table.num_rows


def credal_sets(
    table: Any, columns: Columns, saved: bytes, alpha: float | None, place: TablePlace
) -> IntervalCredalSet:
    """The predictions for the rows of a table, by a model that was saved as bytes."""
    columns.require_in(table.column_names, place.within)
    K = class_count(loaded(saved))
    z = matrix(table, columns, place, K) if table.num_rows else np.empty((0, K))
    return predicted(saved, z, alpha, place=place)


def from_pandas(frame: Any, columns: Columns, place: TablePlace) -> Any:
    """The needed columns of a pandas DataFrame as an Arrow table."""
    columns.require_in(frame.columns, place.within)
    try:
        return pa.Table.from_pandas(frame[columns.needed], preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        fact = f"what Arrow cannot read{place.within} ({error})"
        raise InputError("logits", "be lists of numbers", fact) from error


def matrix(table: Any, columns: Columns, place: TablePlace, K: int | None) -> Logits:
    """(n, K) numbers from a column of lists or from K columns; missing ones become NaN."""
    if columns.per_class is not None:
        vectors = [
            _numbers(table.column(name), "logits", place, name) for name in columns.per_class
        ]
        return np.column_stack(vectors)
    name = str(columns.logits)
    lists = table.column(name).combine_chunks()
    if not is_list(lists.type) or not is_numeric(lists.type.value_type):
        advice = ""
        if pa.types.is_string(lists.type) or pa.types.is_large_string(lists.type):
            advice = (
                "Dask turns lists into text unless they have an Arrow type, or "
                "dask.config.set({'dataframe.convert-string': False}) came before."
            )
        elif pa.types.is_struct(lists.type):
            advice = "Turn vectors of Spark ML into lists with vector_to_array."
        fact = f"{lists.type}{place.within}, column {name}"
        raise InputError("logits", "be lists of numbers", fact, advice)
    lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False)
    K = int(lengths[0]) if K is None else K
    wrong = np.flatnonzero(lengths != K)
    if wrong.size:
        row = int(wrong[0])
        got = "none" if lengths[row] < 0 else lengths[row]
        rule = f"be lists of {max(K, 2)} numbers, one per class"
        raise InputError("logits", rule, f"{got} {place.row(row)}, column {name}")
    values: NDArray[Any] = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    return values.reshape(len(lists), K)


def lists_of(values: Array) -> Any:
    """An Arrow array of n lists, from (n, K)."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return lists.cast(pa.list_(pa.float64()))


def _labels(column: Any, place: TablePlace) -> NDArray[Any]:
    labels = column.combine_chunks()
    if pa.types.is_dictionary(labels.type):
        labels = labels.dictionary_decode()
    if labels.null_count:
        row = int(np.flatnonzero(labels.is_null(nan_is_null=True))[0])
        fact = f"none {place.row(row)}"
        raise InputError("labels", "be in every row", fact, "Leave such rows out.")
    values: NDArray[Any] = labels.to_numpy(zero_copy_only=False)
    return values


def _numbers(
    column: Any, argument: str, place: TablePlace, name: str | None = None
) -> NDArray[np.floating[Any] | np.integer[Any]]:
    numbers = column.combine_chunks()
    if not is_numeric(numbers.type):
        which = f", column {name}" if name else ""
        raise InputError(argument, "be numbers", f"the type {numbers.type}{place.within}{which}")
    values: NDArray[Any] = numbers.to_numpy(zero_copy_only=False)
    return values
