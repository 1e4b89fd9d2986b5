"""Fit and predict on a cluster, where the rows are: Dask and Spark.

Every partition is summarised where it lies, on whatever the collection runs on; summaries are
merged in a tree, and what reaches the caller is an ordinary `Decalibrator`, equal to the fit on one
machine. No rows are collected, but by `observe`: a LabelShift keeps K numbers of each input.

Imports from `_base`, `io`, `schema`, `rows`, `credal`, `directions`, `model`, `decalibrator` and
`shift`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from decal._base.errors import InputError
from decal._base.settings import DEFAULT_ALPHA, check_keywords
from decal.decalibrator import Decalibrator
from decal.distributed._partitions import Model, Recipe, all_evidence
from decal.shift import FrequencyEvidence, LabelShift

__all__ = ["fit", "observe", "predict"]


def fit(
    data: Any,
    labels: Any = "label",
    *,
    alpha: float = DEFAULT_ALPHA,
    logits: str | Iterable[str] = "logits",
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on labelled data that are spread over partitions.

    Parameters
    ----------
    data
        A Dask array (n, K) of logits, a Dask DataFrame, or a Spark DataFrame.
    labels
        For an array (n,) integers 0..K-1, a Dask array or in memory. For a DataFrame the name of
        the column of labels: integers 0..K-1, or names of classes.
    alpha, **settings
        As for `Decalibrator`; references other than "model" and directions of your own are
        refused, because they need all the data at once.
    logits : str or iterable of str
        For a DataFrame, the column that holds a list of K logits per row; or K columns, one per
        class, whose names become those of the classes.
    sample_weight
        Optional. For an array (n,) weights, for a DataFrame the name of their column.
    classes : iterable, optional
        K names.

    Notes
    -----
    Partitions may be empty, as long as one has rows. If some are bad, one ValueError names the
    first by partition, row and column, counted from 0, and lists the others. Tasks are pure: when
    a worker is lost or slow, evidence is neither lost nor doubled.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import decal.distributed
    >>> scores = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> decal.distributed.fit(da.from_array(scores, chunks=2), [0, 0, 1, 1], alpha=0.9)
    Decalibrator(alpha=0.9, ...), fitted on 4 examples of 2 classes
    """
    names = None if classes is None else tuple(str(name) for name in classes)
    check_keywords(settings, "decal.distributed.fit", fit, Decalibrator)
    model = Decalibrator(alpha, **settings)
    recipe = Recipe.to_fit(model, names)
    found = _engine_of(data).evidence(data, logits, labels, sample_weight, recipe)
    return model.add(all_evidence(found))


def observe(
    shift: LabelShift,
    data: Any,
    *,
    logits: str | Iterable[str] = "logits",
    sample_weight: Any = None,
) -> LabelShift:
    """Let a LabelShift observe unlabelled data that are spread over partitions; it is returned.

    Data, logits and weights are as for `fit`. K numbers of each input travel to the caller, who
    keeps them: the likelihood of all frequencies has no smaller summary. Of very many inputs
    observe a sample, such as data.sample(frac=0.01): a million leave an error of about 0.001, less
    than the calibration usually does. If a partition is bad, nothing is observed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import decal, decal.distributed
    >>> scores = np.array([[2.0, 0.0], [0.1, 0.2], [0.3, 0.9], [1.0, 0.5]])
    >>> shift = decal.LabelShift().fit(scores, [0, 0, 1, 1])
    >>> decal.distributed.observe(shift, da.from_array(scores, chunks=2)).frequencies.inputs
    4.0
    """
    recipe = Recipe.to_observe(shift)
    found = _engine_of(data).evidence(data, logits, None, sample_weight, recipe)
    pieces = tuple(all_evidence(found))
    return shift.add(FrequencyEvidence(shift.calibrated, pending=pieces))


def predict(
    model: Model, data: Any, *, logits: str | Iterable[str] = "logits", alpha: float | None = None
) -> Any:
    """The credal sets of new inputs, as a lazy collection that is computed on demand.

    The model is a Decalibrator, without directions of your own, or a LabelShift that has observed,
    and then has no alpha. For a Dask array returns a `decal.distributed.dask.LazyCredalSet` of Dask
    arrays lower, upper and point, (n, K), whose `compute` gives an `IntervalCredalSet`. For a
    DataFrame one with lists of K numbers, lower, upper and point, in the place of the logits.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import decal, decal.distributed
    >>> model = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> lazy = decal.distributed.predict(model, da.from_array(np.array([[0.5, 0.0]])))
    >>> lazy.upper.compute().round(3)
    array([[0.755, 0.821]])
    >>> lazy.compute()
    IntervalCredalSet: 1 input, 2 classes, mean width 0.576
      0  1 [0.245, 0.821]  0 [0.179, 0.755]
    """
    return _engine_of(data).predict(model, data, logits, alpha)


def _engine_of(data: Any) -> Any:
    """The module for data of Spark or of Dask, told apart without importing either."""
    for kind in type(data).__mro__:
        module, name = f"{kind.__module__}.", kind.__name__
        if module.startswith("pyspark.sql.") and name == "DataFrame":
            return import_module("decal.distributed.spark")
        framed = module.startswith(("dask.dataframe.", "dask_expr.")) and name == "DataFrame"
        if framed or (module.startswith("dask.array.") and name == "Array"):
            return import_module("decal.distributed.dask")
    raise InputError(
        "data",
        "be a Dask array, a Dask DataFrame or a Spark DataFrame",
        f"{type(data).__module__}.{type(data).__name__}",
        "For data in memory use decal.decalibrate and Decalibrator.predict.",
    )
