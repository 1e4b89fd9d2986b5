"""A miss rate of labels: one alpha for all rows, for each group of inputs, or for every class.

A miss is a true label outside the decision set of its credal set. Why the promise holds is told in
`decal.choose`; within a class, this is label-conditional (Mondrian) conformal prediction (Vovk,
Gammerman and Shafer, 2005, section 4.5).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from decal._base.errors import FitWarning, InputError
from decal._base.inputs import inputs_of
from decal.choose._order import allowed, largest_alpha
from decal.choose._plausibility import (
    Indices,
    Inside,
    Mask,
    Predictor,
    kept_classes,
    label_numbers,
    labels_inside,
)
from decal.choose._promises import Choice, Promise, class_name, in_groups

CLASSES_NAMED = 8
"""How many classes a warning names."""

UNLIKELY = 0.01
"""Chance below which the misses of one class are worth a note."""

PER_CLASS = "per='class' guarantees every class"
"""What a note advises if one class is missed too often."""

NOTHING_EXCLUDED = "no positive alpha will do, nothing is excluded"


def for_miss(
    model: Predictor, logits: Any, labels: Any, miss: float, rule: str, groups: Any
) -> Choice:
    """The largest alpha at which (misses + 1) / (n + 1) <= miss, on all rows or in each group."""
    z = inputs_of(model, logits, labels=labels, groups=groups)
    inside = labels_inside(model, z, labels, rule)
    y, names = label_numbers(model, labels, z), getattr(model, "classes", None)

    def choose(rows: Indices) -> Choice:
        n = len(rows)
        found = largest_alpha(inside, rows, allowed(miss, n) - 1)
        if found is None:
            _require_every_class(model, z, rows, rule)
            note = f"{n} are too few for {miss:g}, every class is kept"
            return Choice(0.0, 0.0, Promise("miss", miss, n, rule, notes=(note,)), model)
        alpha, missed = found
        note = NOTHING_EXCLUDED if alpha == 0 else ""
        note = note or _neglected(y[rows], inside(rows, alpha), miss, names)
        promise = Promise("miss", miss, n, rule, notes=(note,) if note else ())
        return Choice(alpha, missed / n, promise, model)

    return in_groups(choose, groups, len(z))


def for_miss_per_class(
    model: Predictor, logits: Any, labels: Any, miss: float, rule: str
) -> Choice:
    """For every class, the largest alpha at which (its misses + 1) / (its rows + 1) <= miss."""
    z = inputs_of(model, logits, labels=labels)
    inside = labels_inside(model, z, labels, rule)
    y, names = label_numbers(model, labels, z), getattr(model, "classes", None)
    choices = [
        _for_class(model, np.flatnonzero(y == k), inside, miss, rule) for k in range(z.shape[1])
    ]
    _warn_of_rare(choices, miss, names)
    promise = Promise("miss", miss, len(z), rule, "class")
    return Choice.of_parts(dict(zip(names or range(len(choices)), choices, strict=True)), promise)


def _for_class(model: Predictor, rows: Indices, inside: Inside, miss: float, rule: str) -> Choice:
    """The choice on the rows of one class; alpha = 0 stands for keeping it always."""
    n = len(rows)
    few = allowed(miss, n) == 0
    found = None if few else largest_alpha(inside, rows, allowed(miss, n) - 1)
    if found is None or found[0] == 0:
        note = f"{n} are too few, always kept" if few else "no positive alpha will do, always kept"
        return Choice(0.0, 0.0, Promise("miss", miss, n, rule, notes=(note,)), model)
    alpha, missed = found
    return Choice(alpha, missed / n, Promise("miss", miss, n, rule), model)


def _warn_of_rare(choices: Sequence[Choice], miss: float, names: Sequence[str] | None) -> None:
    rows = [choice.promise.rows for choice in choices]
    rare = [k for k, n in enumerate(rows) if allowed(miss, n) == 0]
    if not rare:
        return
    few = sorted(rare, key=lambda k: rows[k])[:CLASSES_NAMED]
    named = ", ".join(f"{class_name(k, names)} with {rows[k]}" for k in few)
    named += ", …" if len(rare) > CLASSES_NAMED else ""
    warnings.warn(
        f"{len(rare)} of {len(choices)} classes have too few rows for miss = {miss:g} and are in "
        f"every set: {named}. Label more of them, or accept more misses",
        FitWarning,
        stacklevel=4,
    )


def _require_every_class(model: Predictor, z: Any, rows: Indices, rule: str) -> None:
    """InputError if even alpha = 0 drops a class: some directions cannot lift every class."""
    dropped = np.argwhere(~kept_classes(model.predict(z[rows], alpha=0.0), rule))
    if dropped.size:
        row, k = dropped[0]
        name = class_name(int(k), getattr(model, "classes", None))
        raise InputError(
            "model",
            "keep every class at alpha = 0",
            f"{name} dropped in row {rows[row]}",
            "Add the direction 'class'.",
        )


def _neglected(labels: Indices, inside: Mask, miss: float, names: Sequence[str] | None) -> str:
    """A note about the class that is missed most, if chance does not explain how often."""
    from scipy.special import bdtrc  # here: it doubles the time of `import decal`

    rows = np.bincount(labels)
    misses = np.bincount(labels[~inside], minlength=len(rows))
    # P(Binomial(rows, miss) >= misses), for as many classes as have misses.
    chance = np.where(misses > 0, bdtrc(misses - 1.0, np.maximum(rows, misses), miss), 1.0)
    unlikely = (misses > 0) & (chance * np.count_nonzero(misses) <= UNLIKELY)
    if not unlikely.any():
        return ""
    worst = int(np.argmax(np.where(unlikely, misses / np.maximum(rows, 1), 0.0)))
    name = class_name(worst, names)
    return f"{name} is missed in {misses[worst]} of its {rows[worst]}: {PER_CLASS}"
