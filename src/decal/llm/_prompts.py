"""Prompt uncertainty: what several templates say of the same input, kept apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from decal._base.errors import InputError
from decal._base.numerics import softmax
from decal._base.set_checks import read_frames
from decal._base.settings import check_choice
from decal.credal import CredalSet, HullCredalSet, IntervalCredalSet, union


def spread(
    predictions: Any, *, how: str = "hull", classes: Iterable[str] | None = None
) -> HullCredalSet | IntervalCredalSet:
    """The credal sets of inputs that several templates were tried on.

    Parameters
    ----------
    predictions : (M, n, K) array, or list of CredalSet
        Logits of M templates, as `label_logits` returns, with `classes` that name the labels; or
        the credal sets of each, whose names of inputs bring them into the order of the first.
    how : str
        "hull": all mixtures of the M predictions, for logits. "union": the smallest intervals
        that hold all of them; the only choice for credal sets.

    Examples
    --------
    >>> import decal
    >>> logits = [[[1.0, 0.0]], [[0.2, 0.0]]]
    >>> decal.llm.spread(logits, classes=["yes", "no"])
    HullCredalSet: 1 input, 2 vertices, 2 classes, mean width 0.181
      0  yes [0.550, 0.731]  no [0.269, 0.450]
    """
    check_choice(how, "how", ("hull", "union"))
    sets = list(predictions)
    if sets and all(isinstance(one, CredalSet) for one in sets):
        if how == "hull":
            raise InputError("how", "be 'union' for credal sets", "'hull', which is for logits")
        return union(sets)
    frames = {f"predictions[{m}]": one for m, one in enumerate(sets)}
    matrices, classes, index = read_frames(classes, **frames)
    logits = np.asarray(matrices, dtype=np.float64)
    if logits.ndim != 3 or not logits.size or np.isnan(logits).any():
        rule = "be logits (templates, inputs, labels) without NaN, or a list of credal sets"
        raise InputError("predictions", rule, f"shape {logits.shape}")
    M, n, K = logits.shape
    p = softmax(logits.reshape(M * n, K)).reshape(M, n, K)
    hull = HullCredalSet(p.transpose(1, 0, 2), axis=1, classes=classes).with_index(index)
    return hull if how == "hull" else hull.box()
