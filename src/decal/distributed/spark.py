"""Spark DataFrames: partitions are summarised as Arrow batches, summaries merged in a tree."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from decal._base.errors import InputError, TablePlace, needs
from decal.distributed._partitions import (
    FAN_IN,
    Model,
    PartitionEvidence,
    Recipe,
    merged,
    summarise,
    to_bytes,
)

with needs(
    "pyspark", message="decal.distributed needs PySpark for Spark DataFrames: pip install pyspark"
):
    from pyspark import TaskContext
    from pyspark.sql.functions import col
    from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

from decal.distributed._frames import ADDED, batches, credal_sets, lists_of, resolved, to_predict

import pyarrow as pa  # type: ignore[import-untyped]  # isort: skip

__all__ = ["evidence", "predict"]


def evidence(
    data: Any, logits: Any, labels: Any, sample_weight: Any, recipe: Recipe
) -> PartitionEvidence:
    """What all partitions of a Spark DataFrame say, numbered as by its `spark_partition_id`."""
    if recipe.labelled and type(data).__module__.startswith("pyspark.sql.connect"):
        raise InputError(
            "data",
            "be of a classic Spark session to fit",
            "a DataFrame of Spark Connect, which has no tree reduction",
            "Fit where the driver runs; predict works in both.",
        )
    columns, recipe = resolved(recipe, data.columns, logits, labels, sample_weight)

    def summarise_partition(received: Iterator[Any]) -> Iterator[Any]:
        partition = _partition_number()
        tables = (_renamed(batch, columns.needed) for batch in received)
        found = summarise(batches(tables, columns, partition, recipe), partition, recipe)
        row = {"found": pickle.dumps(found)}
        yield pa.RecordBatch.from_pylist([row], schema=pa.schema({"found": pa.binary()}))

    needed = _numbered(data.select(*map(_quoted, columns.needed)))
    summaries = needed.mapInArrow(summarise_partition, "found binary")
    if not recipe.labelled:
        return merged(_evidence(row) for row in summaries.collect())
    pieces = summaries.rdd.map(lambda row: [_evidence(row)])
    return merged(pieces.treeAggregate([], _combine, _combine))


def _evidence(row: Any) -> PartitionEvidence:
    found: PartitionEvidence = pickle.loads(row.found)  # written by the workers of this very job
    return found


def _combine(
    some: list[PartitionEvidence], more: list[PartitionEvidence]
) -> list[PartitionEvidence]:
    """Evidence waits until FAN_IN pieces are there, so that it is not saved after every one."""
    pieces = [*some, *more]
    return pieces if len(pieces) < FAN_IN else [merged(pieces)]


def predict(model: Model, data: Any, logits: Any, alpha: float | None) -> Any:
    """As `decal.distributed.predict`, on a Spark DataFrame."""
    columns = to_predict(model, data.columns, logits)
    saved, names = to_bytes(model, alpha), data.columns
    kept = [field for field in data.schema.fields if field.name not in columns.of_logits]
    lists = ArrayType(DoubleType(), containsNull=False)
    schema = StructType([*kept, *(StructField(name, lists, nullable=False) for name in ADDED)])

    def predict_partition(received: Iterator[Any]) -> Iterator[Any]:
        partition, start = _partition_number(), 0
        for batch in received:
            table = _renamed(batch, names)
            place = TablePlace(start, source=f"partition {partition}", columns=columns.per_class)
            credal = credal_sets(table, columns, saved, alpha, place)
            table = table.select([field.name for field in kept])
            for name in ADDED:
                table = table.append_column(name, lists_of(getattr(credal, name)))
            yield from table.to_batches()
            start += len(credal)

    return _numbered(data).mapInArrow(predict_partition, schema)


def _partition_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _quoted(name: str) -> Any:
    """A column whose name may hold dots and backticks."""
    return col("`" + name.replace("`", "``") + "`")


def _numbered(data: Any) -> Any:
    """The same columns under plain names: mapInArrow does not find one with a dot in its name."""
    return data.toDF(*(f"c{i}" for i in range(len(data.columns))))


def _renamed(batch: Any, names: list[str]) -> Any:
    """A table of the batch, under the names that columns had before `_numbered`."""
    return pa.Table.from_batches([batch]).rename_columns(names)
