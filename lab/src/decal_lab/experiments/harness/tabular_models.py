"""Tables of features and labels, and the classifiers that experiments run on them.

A classifier is a function: it takes features and labels to learn from, and returns a function from
features to logits. TabPFN runs if the package and its weights are installed; multinomial logistic
regression stands in for it everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal_lab.data import MissingDataError, TableSet, tabarena

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Logits = Callable[[Array], Array]

WEIGHTS = "tabpfn"
"""A folder in the folder of data that may hold version 1's weights, models_diff/*.cpkt."""

MOST_ROWS, MOST_FEATURES = 1000, 100
"""Limits of version 1 of TabPFN."""

UNSEEN = -30.0
"""The logit of a class that is not among the labels to learn from."""

REGULARISATION = 1.0


@dataclass(frozen=True)
class TableModel:
    """A classifier of tables.

    Attributes
    ----------
    name : str
        Its name in rows of results.
    encode : callable
        From a table to its features, (n, d).
    fit : callable
        From (m, d) features, (m,) labels, K and a seed to a function from (n, d) features to
        (n, K) logits.
    """

    name: str
    encode: Callable[[TableSet], Array]
    fit: Callable[[Array, Labels, int, int], Logits]


def load(folder: Path, number: int) -> TableSet | None:
    """A table of TabArena in the folder of data, by its number; None if it is not there."""
    try:
        return tabarena(number, folder=folder, download=False)
    except MissingDataError:
        return None


def ordinal(table: TableSet) -> Array:
    """(n, d) the rank of every value among the sorted values of its column, as in the paper."""
    columns = []
    for column in table.matrix().T:
        known = ~np.isnan(column)
        places = np.full(len(column), np.nan)
        places[known] = np.unique(column[known], return_inverse=True)[1]
        columns.append(places)
    return np.column_stack(columns)


def standardised(table: TableSet) -> Array:
    """(n, d) standardised numbers; for text, a column of 0 and 1 per value.

    Unknown numbers become the mean. Mean and spread are of the features of all rows; no labels are
    used.
    """
    columns = []
    for column in table.columns.values():
        if column.dtype.kind == "f":
            spread = np.nanstd(column)
            columns.append(np.nan_to_num((column - np.nanmean(column)) / (spread or 1.0)))
        else:
            columns += [(column == value).astype(np.float64) for value in np.unique(column)]
    return np.column_stack(columns)


def logistic() -> TableModel:
    """Multinomial logistic regression: the stand-in for TabPFN."""
    try:
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ImportError(
            "this experiment needs scikit-learn: pip install 'decal[sklearn]'", name="sklearn"
        ) from error

    def fit(X: Array, y: Labels, classes: int, seed: int) -> Logits:  # noqa: ARG001
        model = LogisticRegression(C=REGULARISATION, solver="newton-cholesky")
        with threadpool_limits(1):  # several threads are slower on tables this small
            model.fit(X, y)

        def logits(new: Array) -> Array:
            scores = model.decision_function(new)
            if scores.ndim == 1:  # for two classes it returns the second alone
                scores = np.column_stack([np.zeros_like(scores), scores])
            return all_classes(scores, model.classes_, classes)

        return logits

    return TableModel("logistic regression", standardised, fit)


def tabpfn(folder: Path, *, members: int) -> tuple[TableModel | None, str]:
    """TabPFN if it can run; else None and the reason.

    Parameters
    ----------
    folder : path
        Folder of data. Version 1 takes its weights from the folder `tabpfn` in it, if there is one.
    members : int
        Number of configurations whose logits version 1 averages.
    """
    try:
        version = metadata.version("tabpfn")
    except metadata.PackageNotFoundError:
        return None, "the package tabpfn, with its weights"
    fit = _first_tabpfn(folder, members) if version.startswith("0.") else _current_tabpfn
    model = TableModel(f"TabPFN {version}", ordinal, fit)
    try:
        X = np.linspace(0, 1, 12)[:, None]
        model.fit(X, (X[:, 0] > 0.5).astype(np.intp), 2, 0)(X)
    except Exception as error:  # a package of others may fail for any reason
        reason = str(error).strip().splitlines() or [type(error).__name__]
        return None, f"weights of TabPFN {version}, which did not run here: {reason[0]}"
    return model, ""


def _first_tabpfn(folder: Path, members: int) -> Callable[[Array, Labels, int, int], Logits]:
    place = folder / WEIGHTS
    where = {"base_path": place} if (place / "models_diff").is_dir() else {}

    def fit(X: Array, y: Labels, classes: int, seed: int) -> Logits:
        from typing import Optional

        from torch.nn.modules import transformer

        if not hasattr(transformer, "Optional"):
            transformer.Optional = Optional  # type: ignore[attr-defined]  # version 1 imports it
        from tabpfn import TabPFNClassifier  # type: ignore[import-not-found]

        with _quiet():
            model = TabPFNClassifier(N_ensemble_configurations=members, seed=seed, **where)
            model.fit(X[:, :MOST_FEATURES], y)

        def logits(new: Array) -> Array:
            with _quiet():
                found = model.predict_proba(new[:, :MOST_FEATURES], return_logits=True)
            return all_classes(np.asarray(found, np.float64), model.classes_, classes)

        return logits

    return fit


def _current_tabpfn(X: Array, y: Labels, classes: int, seed: int) -> Logits:
    from tabpfn import TabPFNClassifier

    with _quiet():
        model = TabPFNClassifier(random_state=seed, device="cpu").fit(X, y)

    def logits(new: Array) -> Array:
        with _quiet():
            found = model.predict_logits(new)
        return all_classes(np.asarray(found, np.float64), model.classes_, classes)

    return logits


def all_classes(scores: Array, seen: Any, classes: int) -> Array:
    """(n, K) logits with a column for every class, including those not seen in training."""
    whole = np.full((len(scores), classes), UNSEEN)
    whole[:, np.asarray(seen, dtype=np.intp)] = scores
    return whole


def _quiet() -> AbstractContextManager[Any]:
    """A context that drops all warnings: old packages set warning filters of their own."""
    return warnings.catch_warnings(record=True)
