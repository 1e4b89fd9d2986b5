"""Dask arrays and DataFrames: a pure task per partition, and a tree of pure tasks that merge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import check_class_names
from decal._base.errors import needs
from decal._base.numerics import Array
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.distributed._partitions import (
    FAN_IN,
    Model,
    PartitionEvidence,
    PartitionPlace,
    Recipe,
    Unlabelled,
    add,
    as_bytes,
    checked,
    class_count,
    finished,
    merged,
    observed,
    predicted,
    summarise,
    to_bytes,
)
from decal.shift import LabelShift

with needs(
    "dask",
    message="decal.distributed needs Dask for Dask collections: pip install 'decal[distributed]'",
):
    import dask.array as da
    from dask import config
    from dask.base import compute, tokenize
    from dask.delayed import delayed

__all__ = ["LazyCredalSet", "fit_dask", "observe_dask", "predict_dask"]


@dataclass(frozen=True)
class LazyCredalSet:
    """Credal sets still to be computed: Dask arrays (n, K) that together cost one prediction."""

    lower: Any
    upper: Any
    point: Any
    classes: tuple[str, ...] | None

    def compute(self, **options: Any) -> IntervalCredalSet:
        """The credal sets, in memory; options as for `dask.compute`."""
        arrays = self.lower, self.upper, self.point
        lower, upper, point = compute(*arrays, **options)  # type: ignore[no-untyped-call]
        return IntervalCredalSet(lower, upper, point=point, classes=self.classes)


def fit_dask(
    data: Any, logits: Any, labels: Any, sample_weight: Any, recipe: Recipe
) -> Decalibrator:
    """As `decal.distributed.fit`, on a Dask array (n, K) or a Dask DataFrame."""
    if isinstance(data, da.Array):
        return _fit_array(data, labels, sample_weight, recipe)
    return _fit_dataframe(data, logits, labels, sample_weight, recipe)


def observe_dask(shift: LabelShift, data: Any, logits: Any, sample_weight: Any) -> LabelShift:
    """As `decal.distributed.observe`, on a Dask array (n, K) or a Dask DataFrame."""
    if isinstance(data, da.Array):
        return _observe_array(shift, data, sample_weight)
    return _observe_dataframe(shift, data, logits, sample_weight)


def predict_dask(model: Model, data: Any, logits: Any, alpha: float | None) -> Any:
    """As `decal.distributed.predict`, on a Dask array (n, K) or a Dask DataFrame."""
    if isinstance(data, da.Array):
        return _predict_array(model, data, alpha)
    return _predict_dataframe(model, data, logits, alpha)


# Arrays


def _fit_array(logits: Any, labels: Any, sample_weight: Any, recipe: Recipe) -> Decalibrator:
    z = _whole_rows(logits)
    K = z.shape[1]
    check_class_names(recipe.classes, K)
    y = _in_partitions_of(labels, z, "labels")
    w = None if sample_weight is None else _in_partitions_of(sample_weight, z, "sample_weight")
    blocks = [column.to_delayed().ravel() for column in (z, y, w) if column is not None]
    task = delayed(_summarise_block, pure=True)
    leaves = [
        task(*parts, partition=i, classes=K, recipe=recipe)
        for i, parts in enumerate(zip(*blocks, strict=True))
    ]
    return finished(_tree(leaves).compute(), recipe)


def _summarise_block(
    logits: Any, labels: Any, weights: Any = None, *, partition: int, classes: int, recipe: Recipe
) -> PartitionEvidence:
    place = PartitionPlace(partition=partition)
    rows = (
        checked(logits, labels, weights, place=place, classes=classes, recipe=recipe)
        for _ in range(1)  # lazily, so that an error becomes a problem of this partition
    )
    return summarise(rows, partition, recipe)


def _predict_array(model: Model, logits: Any, alpha: float | None) -> LazyCredalSet:
    z = _whole_rows(logits)
    _require_width(z, model)
    saved = delayed(to_bytes(model, alpha), pure=True)
    sets = da.map_blocks(
        _predict_block,
        z,
        saved=saved,
        alpha=alpha,
        new_axis=0,
        chunks=((3,), *z.chunks),
        meta=np.empty((0, 0, 0)),
        name="decal-predict-" + tokenize(z, saved, alpha),  # type: ignore[no-untyped-call]
    )
    return LazyCredalSet(sets[0], sets[1], sets[2], model.classes)


def _observe_array(shift: LabelShift, logits: Any, sample_weight: Any) -> LabelShift:
    z = _whole_rows(logits)
    _require_width(z, shift)
    w = None if sample_weight is None else _in_partitions_of(sample_weight, z, "sample_weight")
    blocks = [column.to_delayed().ravel() for column in (z, w) if column is not None]
    saved = delayed(as_bytes(shift), pure=True)
    task = delayed(_observe_block, pure=True)
    tasks = [task(saved, i, *parts) for i, parts in enumerate(zip(*blocks, strict=True))]
    return add(shift, compute(*tasks))  # type: ignore[no-untyped-call]


def _observe_block(saved: bytes, partition: int, logits: Any, weights: Any = None) -> Any:
    rows = [Unlabelled(logits, weights, PartitionPlace(partition=partition))]
    return observed(rows, partition, saved)


def _require_width(logits: Any, model: Model) -> None:
    """ValueError unless an array has a column for each class of a model."""
    K = class_count(model)
    if logits.shape[1] != K:
        raise ValueError(
            f"data must have {K} columns, one per class seen by fit: got {logits.shape[1]}. "
            "Use the logits of the same model."
        )


def _predict_block(logits: Any, saved: bytes, alpha: float | None, block_info: Any = None) -> Any:
    place = PartitionPlace(partition=block_info[0]["chunk-location"][0])
    credal = predicted(saved, logits, alpha, place=place)
    return np.stack([getattr(credal, name) for name in ("lower", "upper", "point")])


def _whole_rows(logits: Any) -> Any:
    """The array with all columns of a row in one chunk."""
    if logits.ndim != 2 or not logits.shape[1] >= 2:
        raise ValueError(
            "data must be a matrix with a row per example and two columns or more, one per class: "
            f"got shape {logits.shape}."
        )
    return logits if logits.numblocks[1] == 1 else logits.rechunk({1: -1})


def _in_partitions_of(values: Any, logits: Any, name: str) -> Any:
    """A Dask vector in the same partitions as the rows of logits."""
    rows = logits.chunks[0]
    unknown = any(math.isnan(size) for size in rows)
    if unknown:
        if getattr(values, "numblocks", None) != logits.numblocks[:1]:
            raise ValueError(
                f"{name} must be a Dask array in the {logits.numblocks[0]} partitions of data, "
                f"whose sizes are unknown: got {type(values).__name__}. "
                "Call data.compute_chunk_sizes() first."
            )
        return values
    vector = values if isinstance(values, da.Array) else np.asarray(values)
    if vector.shape != logits.shape[:1]:
        raise ValueError(
            f"{name} must be a vector with one entry per row of data, {logits.shape[0]} in all: "
            f"got shape {vector.shape}."
        )
    if isinstance(vector, da.Array):
        return vector.rechunk((rows,))  # type: ignore[no-untyped-call]
    return da.from_array(vector, chunks=(rows,))  # type: ignore[no-untyped-call]


# DataFrames


def _fit_dataframe(
    data: Any, logits: Any, label: Any, sample_weight: Any, recipe: Recipe
) -> Decalibrator:
    from decal.distributed._frames import Columns

    columns = Columns.named(logits, label, sample_weight)
    columns.require_in(data.columns)
    recipe = recipe.naming(columns.per_class)
    try:
        return _fit_partitions(data[columns.needed], columns, recipe)
    except KeyError:  # a partition without the column: its own task can say which
        return _fit_partitions(data, columns, recipe)


def _fit_partitions(data: Any, columns: Any, recipe: Recipe) -> Decalibrator:
    task = delayed(_summarise_frame, pure=True)
    leaves = [task(part, i, columns, recipe) for i, part in enumerate(_partitions_of(data))]
    return finished(_tree(leaves).compute(), recipe)


def _partitions_of(data: Any) -> Any:
    """The delayed partitions of a DataFrame.

    Without tuning, which would read several small files as one partition: its numbers would not be
    those that the caller knows.
    """
    with config.set({"optimization.tune.active": False}):
        return data.to_delayed()


def _summarise_frame(frame: Any, partition: int, columns: Any, recipe: Recipe) -> PartitionEvidence:
    from decal.distributed._frames import batches, from_pandas

    def tables() -> Iterator[Any]:
        yield from_pandas(frame, columns, PartitionPlace(partition=partition))

    return summarise(batches(tables(), columns, partition, recipe), partition, recipe)


def _predict_dataframe(model: Model, data: Any, logits: Any, alpha: float | None) -> Any:
    from decal.distributed._frames import ADDED, Columns

    columns = Columns.named(logits).ordered(model.classes)
    columns.require_in(data.columns)
    columns.require_room(data.columns)
    others = data._meta.drop(columns=columns.of_logits)
    return data.map_partitions(
        _predict_frame,
        delayed(to_bytes(model, alpha), pure=True),
        alpha,
        columns,
        meta=others.assign(**{name: np.empty(0, dtype=object) for name in ADDED}),
        enforce_metadata=False,
    )


def _predict_frame(
    frame: Any, saved: bytes, alpha: float | None, columns: Any, partition_info: Any = None
) -> Any:
    from decal.distributed._frames import ADDED, credal_sets, from_pandas

    place = PartitionPlace(partition=partition_info["number"], columns=columns.per_class)
    credal = credal_sets(from_pandas(frame, columns, place), columns, saved, alpha, place)
    # Objects: lists of an Arrow type go into Parquet, but pandas cannot read them back.
    added = {name: _objects(getattr(credal, name)) for name in ADDED}
    return frame.drop(columns=columns.of_logits).assign(**added)


def _objects(values: Array) -> NDArray[Any]:
    """(n,) rows of (n, K), each an array of its own."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = list(values)
    return cells


def _observe_dataframe(shift: LabelShift, data: Any, logits: Any, sample_weight: Any) -> LabelShift:
    from decal.distributed._frames import Columns

    columns = Columns.named(logits, weight=sample_weight).ordered(shift.classes)
    columns.require_in(data.columns)
    saved = delayed(as_bytes(shift), pure=True)
    task = delayed(_observe_frame, pure=True)
    partitions = _partitions_of(data[columns.needed])
    tasks = [task(saved, i, part, columns) for i, part in enumerate(partitions)]
    return add(shift, compute(*tasks))  # type: ignore[no-untyped-call]


def _observe_frame(saved: bytes, partition: int, frame: Any, columns: Any) -> Any:
    from decal.distributed._frames import from_pandas, unlabelled

    place = PartitionPlace(partition=partition)
    tables = (from_pandas(frame, columns, place) for _ in range(1))
    return observed(unlabelled(tables, columns, partition), partition, saved)


# Arrays and DataFrames


def _tree(leaves: Sequence[Any]) -> Any:
    """One delayed PartitionEvidence from many, merged FAN_IN at a time."""
    task = delayed(merged, pure=True)
    nodes = [task(leaves[i : i + FAN_IN]) for i in range(0, len(leaves), FAN_IN)]
    return nodes[0] if len(nodes) == 1 else _tree(nodes)
