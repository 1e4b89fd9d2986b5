"""Spark DataFrames: partitions are summarised as Arrow batches, summaries merged in a tree."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from decal._base.errors import needs
from decal.decalibrator import Decalibrator
from decal.distributed._partitions import (
    FAN_IN,
    Model,
    PartitionEvidence,
    PartitionPlace,
    Recipe,
    add,
    as_bytes,
    finished,
    merged,
    observed,
    summarise,
    to_bytes,
)
from decal.shift import LabelShift

with needs(
    "pyspark",
    message="decal.distributed needs PySpark for Spark DataFrames: pip install pyspark",
):
    from pyspark import TaskContext
    from pyspark.sql.functions import col
    from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

from decal.distributed._frames import (
    ADDED,
    Columns,
    batches,
    credal_sets,
    lists_of,
    unlabelled,
)

import pyarrow as pa  # type: ignore[import-untyped]  # isort: skip

__all__ = ["fit_spark", "observe_spark", "predict_spark"]

SCHEMA = "learnt binary, first int, rows long, problem string, suspect boolean"
"""How the evidence of one partition travels."""

ARROW_SCHEMA = pa.schema(
    {
        "learnt": pa.binary(),
        "first": pa.int32(),
        "rows": pa.int64(),
        "problem": pa.string(),
        "suspect": pa.bool_(),
    }
)


def fit_spark(
    data: Any, logits: Any, label: Any, sample_weight: Any, recipe: Recipe
) -> Decalibrator:
    """As `decal.distributed.fit`, on a Spark DataFrame.

    Bad partitions are numbered as by `pyspark.sql.functions.spark_partition_id`.
    """
    if type(data).__module__.startswith("pyspark.sql.connect"):
        raise ValueError(
            "data must be of a classic Spark session to fit: got a DataFrame of Spark Connect, "
            "which has no tree reduction. Fit where the driver runs; predict works in both."
        )
    columns = Columns.named(logits, label, sample_weight)
    columns.require_in(data.columns)
    recipe = recipe.naming(columns.per_class)

    def summarise_partition(received: Iterator[Any]) -> Iterator[Any]:
        partition = _partition_number()
        tables = (_renamed(batch, columns.needed) for batch in received)
        found = summarise(batches(tables, columns, partition, recipe), partition, recipe)
        problem = found.problems[0][1] if found.problems else None
        learnt = pickle.dumps(found.learnt)
        row = learnt, partition, found.rows, problem, found.suspect
        named = dict(zip(ARROW_SCHEMA.names, row, strict=True))
        yield pa.RecordBatch.from_pylist([named], schema=ARROW_SCHEMA)

    needed = _numbered(data.select(*map(_quoted, columns.needed)))
    summaries = needed.mapInArrow(summarise_partition, SCHEMA)
    whole = summaries.rdd.map(_evidence).treeAggregate([], _combine, _combine)
    return finished(merged(whole), recipe)


def _evidence(row: Any) -> list[PartitionEvidence]:
    learnt = pickle.loads(row.learnt)  # written by the workers of this very job
    problems = () if row.problem is None else ((row.first, row.problem),)
    return [PartitionEvidence(learnt, row.first, row.rows, problems, row.suspect)]


def _combine(
    some: list[PartitionEvidence], more: list[PartitionEvidence]
) -> list[PartitionEvidence]:
    """Evidence waits until FAN_IN pieces are there, so that it is not saved after every one."""
    pieces = [*some, *more]
    return pieces if len(pieces) < FAN_IN else [merged(pieces)]


def predict_spark(model: Model, data: Any, logits: Any, alpha: float | None) -> Any:
    """As `decal.distributed.predict`, on a Spark DataFrame."""
    columns = Columns.named(logits).ordered(model.classes)
    columns.require_in(data.columns)
    columns.require_room(data.columns)
    saved, names = to_bytes(model, alpha), data.columns
    kept = [field for field in data.schema.fields if field.name not in columns.of_logits]
    lists = ArrayType(DoubleType(), containsNull=False)
    schema = StructType([*kept, *(StructField(name, lists, nullable=False) for name in ADDED)])

    def predict_partition(received: Iterator[Any]) -> Iterator[Any]:
        partition, start = _partition_number(), 0
        for batch in received:
            table = _renamed(batch, names)
            place = PartitionPlace(start, partition=partition, columns=columns.per_class)
            credal = credal_sets(table, columns, saved, alpha, place)
            table = table.select([field.name for field in kept])
            for name in ADDED:
                table = table.append_column(name, lists_of(getattr(credal, name)))
            yield from table.to_batches()
            start += len(credal)

    return _numbered(data).mapInArrow(predict_partition, schema)


def observe_spark(shift: LabelShift, data: Any, logits: Any, sample_weight: Any) -> LabelShift:
    """As `decal.distributed.observe`, on a Spark DataFrame."""
    columns = Columns.named(logits, weight=sample_weight).ordered(shift.classes)
    columns.require_in(data.columns)
    saved = as_bytes(shift)

    def observe_partition(received: Iterator[Any]) -> Iterator[Any]:
        partition = _partition_number()
        tables = (_renamed(batch, columns.needed) for batch in received)
        found = observed(unlabelled(tables, columns, partition), partition, saved)
        row = {"found": pickle.dumps(found)}
        yield pa.RecordBatch.from_pylist([row], schema=pa.schema({"found": pa.binary()}))

    needed = _numbered(data.select(*map(_quoted, columns.needed)))
    rows = needed.mapInArrow(observe_partition, "found binary").collect()
    # Written by the workers of this very job.
    return add(shift, [pickle.loads(row.found) for row in rows])


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
