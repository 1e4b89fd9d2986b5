"""A random forest as the truth of data that have none: the published, semi-synthetic way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTH = 5
"""Depth of the trees, as published: the distributions of deeper ones are too peaked."""


def forest(
    features: NDArray[Any], labels: NDArray[Any], classes: int, seed: int
) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """A truth: a function from features (n, d) to distributions (n, K).

    Labels are then drawn from it, a model learns these, and is judged by how well its credal sets
    hold the truth.

    Parameters
    ----------
    features : (m, d) array
        Features that the forest learns from.
    labels : (m,) array
        Their given labels.
    classes : int
        K; a class that is not among the labels has probability zero everywhere.
    seed : int
        Seed of the forest.
    """
    try:
        from sklearn.ensemble import RandomForestClassifier
    except ModuleNotFoundError as error:
        raise ImportError(
            "a forest as the truth needs scikit-learn: pip install 'decal[sklearn]'",
            name="sklearn",
        ) from error
    model = RandomForestClassifier(max_depth=DEPTH, random_state=seed)
    model.fit(features, labels)

    def truth(new: NDArray[Any]) -> NDArray[np.float64]:
        whole = np.zeros((len(new), classes))
        whole[:, model.classes_] = model.predict_proba(new)
        return whole

    return truth
