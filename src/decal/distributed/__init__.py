"""Fit and predict on a cluster: Dask arrays, Dask DataFrames and Spark DataFrames.

Every partition is summarised where it lies, summaries are merged in a tree, and what reaches the
caller is an ordinary `Decalibrator`, equal to the one-machine fit. No rows are collected. Only
`observe` collects: a LabelShift keeps K numbers of each input, wherever it runs.

Imports from `_base`, `rows`, `credal`, `directions`, `model`, `decalibrator` and `shift`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from decal._base.checks import DEFAULT_ALPHA, check_keywords
from decal.decalibrator import Decalibrator
from decal.distributed._partitions import Model, Recipe
from decal.shift import LabelShift

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

    Runs on whatever the collection runs on: for Dask the current client or the configured
    scheduler, for Spark the session of the DataFrame.

    Parameters
    ----------
    data
        A Dask array (n, K) of logits, a Dask DataFrame, or a Spark DataFrame.
    labels
        For an array (n,) integers 0..K-1, a Dask array or in memory. For a DataFrame the name of
        the column of labels: integers 0..K-1, or names of classes.
    alpha, **settings
        As for `Decalibrator`. reference="best" and "halfway" and directions of your own need all
        the data at once and are refused.
    logits : str or iterable of str
        For a DataFrame, the column that holds a list of K logits per row; or K columns, one per
        class, whose names become those of the classes.
    sample_weight
        Optional. For an array (n,) weights, for a DataFrame the name of their column.
    classes : iterable, optional
        K names.

    See Also
    --------
    decal.decalibrate : For data in memory.
    decal.distributed.predict : The credal sets of new inputs.

    Notes
    -----
    Empty partitions are fine, as long as one has rows. If partitions hold bad data, all of them
    are checked, and one ValueError names the first by partition, row and column, and lists the
    others; rows are counted from 0 within their partition.

    Tasks are functions of their partition and of nothing else, and hand on what they have learnt
    as one immutable value. So an engine may run one again, when a worker is lost or slow, and
    evidence is neither lost nor doubled.

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
    recipe = Recipe(Decalibrator(alpha, **settings), names)
    if _is_spark(data):
        from decal.distributed.spark import fit_spark

        return fit_spark(data, logits, labels, sample_weight, recipe)
    from decal.distributed.dask import fit_dask

    return fit_dask(data, logits, labels, sample_weight, recipe)


def observe(
    shift: LabelShift,
    data: Any,
    *,
    logits: str | Iterable[str] = "logits",
    sample_weight: Any = None,
) -> LabelShift:
    """Let a LabelShift observe unlabelled data that are spread over partitions.

    Parameters
    ----------
    shift : LabelShift
        Fitted. It takes note of the inputs, besides those observed before.
    data, logits, sample_weight
        As for `fit`, without labels.

    Returns
    -------
    LabelShift
        `shift` itself.

    See Also
    --------
    decal.LabelShift.observe : For data in memory.

    Notes
    -----
    Partitions are calibrated where they lie, and K numbers of each input travel to the caller, who
    keeps them: the likelihood of all frequencies has no smaller summary. Of very many inputs
    observe a sample, such as data.sample(frac=0.01): where the model tells the classes apart, a
    million leave an error of about 0.001, less than the calibration usually does. If a partition
    is bad, nothing is observed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import decal, decal.distributed
    >>> scores = np.array([[2.0, 0.0], [0.1, 0.2], [0.3, 0.9], [1.0, 0.5]])
    >>> shift = decal.LabelShift().fit(scores, [0, 0, 1, 1])
    >>> decal.distributed.observe(shift, da.from_array(scores, chunks=2)).frequencies.inputs
    4.0
    """
    if _is_spark(data):
        from decal.distributed.spark import observe_spark

        return observe_spark(shift, data, logits, sample_weight)
    from decal.distributed.dask import observe_dask

    return observe_dask(shift, data, logits, sample_weight)


def predict(
    model: Model,
    data: Any,
    *,
    logits: str | Iterable[str] = "logits",
    alpha: float | None = None,
) -> Any:
    """The credal sets of new inputs, as a lazy collection that is computed on demand.

    Parameters
    ----------
    model : Decalibrator or LabelShift
        A fitted Decalibrator, without directions of your own; or a LabelShift that has observed.
    data, logits
        As for `fit`, of the same classifier.
    alpha : float, optional
        Level in [0, 1]; by default the model's. Not for a LabelShift.

    Returns
    -------
    object
        For a Dask array a `decal.distributed.dask.LazyCredalSet` of Dask arrays lower, upper and
        point, (n, K) each, whose `compute` gives an `IntervalCredalSet`. For a DataFrame one of the
        same kind: its columns other than the logits, and three more, lower, upper and point, each a
        list of K numbers per row.

    See Also
    --------
    decal.Decalibrator.predict : For data in memory.

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
    if _is_spark(data):
        from decal.distributed.spark import predict_spark

        return predict_spark(model, data, logits, alpha)
    from decal.distributed.dask import predict_dask

    return predict_dask(model, data, logits, alpha)


def _is_spark(data: Any) -> bool:
    """Whether data are of Spark, not of Dask, found without importing either; ValueError if not."""
    for kind in type(data).__mro__:
        module, name = f"{kind.__module__}.", kind.__name__
        if module.startswith("pyspark.sql.") and name == "DataFrame":
            return True
        if module.startswith(("dask.dataframe.", "dask_expr.")) and name == "DataFrame":
            return False
        if module.startswith("dask.array.") and name == "Array":
            return False
    found = f"{type(data).__module__}.{type(data).__name__}"
    raise ValueError(
        "data must be a Dask array, a Dask DataFrame or a Spark DataFrame: "
        f"got {found}. For data in memory use decal.decalibrate and Decalibrator.predict."
    )
