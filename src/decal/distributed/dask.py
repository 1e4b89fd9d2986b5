"""Dask arrays and DataFrames: a pure task per partition, and a tree of pure tasks that merge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, TablePlace, needs
from decal._base.numerics import Array
from decal.credal import IntervalCredalSet
from decal.distributed._partitions import (
    FAN_IN,
    Model,
    PartitionEvidence,
    Recipe,
    class_count,
    merged,
    predicted,
    summarise,
    to_bytes,
)

with needs(
    "dask",
    message="decal.distributed needs Dask for Dask collections: pip install 'decal[distributed]'",
):
    import dask.array as da
    from dask import config
    from dask.base import compute, tokenize
    from dask.delayed import delayed

__all__ = ["LazyCredalSet", "evidence", "predict"]


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


def evidence(
    data: Any, logits: Any, labels: Any, sample_weight: Any, recipe: Recipe
) -> PartitionEvidence:
    """What all partitions of a Dask array (n, K) or DataFrame say, as a recipe learns from them."""
    if isinstance(data, da.Array):
        return _gathered(_array_leaves(data, labels, sample_weight, recipe), recipe)
    from decal.distributed._frames import resolved

    columns, recipe = resolved(recipe, data.columns, logits, labels, sample_weight)
    try:
        return _gathered(_frame_leaves(data[columns.needed], columns, recipe), recipe)
    except KeyError:  # a partition without the column: its own task can say which
        return _gathered(_frame_leaves(data, columns, recipe), recipe)


def predict(model: Model, data: Any, logits: Any, alpha: float | None) -> Any:
    """As `decal.distributed.predict`, on a Dask array (n, K) or a Dask DataFrame."""
    if isinstance(data, da.Array):
        return _predict_array(model, data, alpha)
    return _predict_dataframe(model, data, logits, alpha)


def _gathered(leaves: Sequence[Any], recipe: Recipe) -> PartitionEvidence:
    """What delayed PartitionEvidence says together."""
    if not recipe.labelled:
        return merged(compute(*leaves))  # type: ignore[no-untyped-call]
    found: PartitionEvidence = _tree(leaves).compute()
    return found


def _tree(leaves: Sequence[Any]) -> Any:
    """One delayed PartitionEvidence from many, merged FAN_IN at a time."""
    task = delayed(merged, pure=True)
    nodes = [task(leaves[i : i + FAN_IN]) for i in range(0, len(leaves), FAN_IN)]
    return nodes[0] if len(nodes) == 1 else _tree(nodes)


# Arrays


def _array_leaves(logits: Any, labels: Any, sample_weight: Any, recipe: Recipe) -> list[Any]:
    """A delayed PartitionEvidence for every partition of rows."""
    z = _whole_rows(logits)
    if recipe.labelled:
        recipe = recipe.with_width(z.shape[1])
    else:
        _require_width(z, recipe.model)
    given = {"labels": labels, "sample_weight": sample_weight}
    blocks = {
        name: _in_partitions_of(values, z, name).to_delayed().ravel()
        for name, values in given.items()
        if values is not None
    }
    task, shared = delayed(_summarise_block, pure=True), delayed(recipe, pure=True)
    return [
        task(block, i, shared, **{name: parts[i] for name, parts in blocks.items()})
        for i, block in enumerate(z.to_delayed().ravel())
    ]


def _summarise_block(
    logits: Any, partition: int, recipe: Recipe, labels: Any = None, sample_weight: Any = None
) -> PartitionEvidence:
    place = TablePlace(source=f"partition {partition}")
    # Read lazily, so that an error becomes a problem of this partition.
    rows = (recipe.read(logits, labels, sample_weight, place) for _ in range(1))
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


def _require_width(logits: Any, model: Model) -> None:
    """InputError unless an array has a column for each class of a model."""
    K = class_count(model)
    if logits.shape[1] != K:
        rule = f"have {K} columns, one per class seen by fit"
        raise InputError("data", rule, f"{logits.shape[1]}", "Use the logits of the same model.")


def _predict_block(logits: Any, saved: bytes, alpha: float | None, block_info: Any = None) -> Any:
    partition = block_info[0]["chunk-location"][0]
    place = TablePlace(source=f"partition {partition}")
    credal = predicted(saved, logits, alpha, place=place)
    return np.stack([getattr(credal, name) for name in ("lower", "upper", "point")])


def _whole_rows(logits: Any) -> Any:
    """The array with all columns of a row in one chunk."""
    if logits.ndim != 2 or not logits.shape[1] >= 2:
        rule = "be a matrix with a row per example and two columns or more, one per class"
        raise InputError("data", rule, f"shape {logits.shape}")
    return logits if logits.numblocks[1] == 1 else logits.rechunk({1: -1})


def _in_partitions_of(values: Any, logits: Any, name: str) -> Any:
    """A Dask vector in the same partitions as the rows of logits."""
    rows = logits.chunks[0]
    if any(math.isnan(size) for size in rows):
        if getattr(values, "numblocks", None) != logits.numblocks[:1]:
            rule = f"be a Dask array in the {logits.numblocks[0]} partitions of data, whose sizes "
            remedy = "Call data.compute_chunk_sizes() first."
            raise InputError(name, f"{rule}are unknown", type(values).__name__, remedy)
        return values
    vector = values if isinstance(values, da.Array) else np.asarray(values)
    if vector.shape != logits.shape[:1]:
        rule = f"be a vector with one entry per row of data, {logits.shape[0]} in all"
        raise InputError(name, rule, f"shape {vector.shape}")
    if isinstance(vector, da.Array):
        return vector.rechunk((rows,))  # type: ignore[no-untyped-call]
    return da.from_array(vector, chunks=(rows,))  # type: ignore[no-untyped-call]


# DataFrames


def _frame_leaves(data: Any, columns: Any, recipe: Recipe) -> list[Any]:
    """A delayed PartitionEvidence for every partition."""
    task, shared = delayed(_summarise_frame, pure=True), delayed(recipe, pure=True)
    return [task(part, i, columns, shared) for i, part in enumerate(_partitions_of(data))]


def _partitions_of(data: Any) -> Any:
    """The delayed partitions of a DataFrame; tuning would join small ones, and change numbers."""
    with config.set({"optimization.tune.active": False}):
        return data.to_delayed()


def _summarise_frame(frame: Any, partition: int, columns: Any, recipe: Recipe) -> PartitionEvidence:
    from decal.distributed._frames import batches, from_pandas

    def tables() -> Iterator[Any]:
        yield from_pandas(frame, columns, TablePlace(source=f"partition {partition}"))

    return summarise(batches(tables(), columns, partition, recipe), partition, recipe)


def _predict_dataframe(model: Model, data: Any, logits: Any, alpha: float | None) -> Any:
    from decal.distributed._frames import ADDED, to_predict

    columns = to_predict(model, data.columns, logits)
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

    source = f"partition {partition_info['number']}"
    place = TablePlace(source=source, columns=columns.per_class)
    credal = credal_sets(from_pandas(frame, columns, place), columns, saved, alpha, place)
    # Objects: lists of an Arrow type go into Parquet, but pandas cannot read them back.
    added = {name: _objects(getattr(credal, name)) for name in ADDED}
    return frame.drop(columns=columns.of_logits).assign(**added)


def _objects(values: Array) -> NDArray[Any]:
    """(n,) rows of (n, K), each an array of its own."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = list(values)
    return cells
