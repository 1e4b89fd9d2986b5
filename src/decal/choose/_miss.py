"""A miss rate of labels: one alpha for all rows, each group of inputs, every class or label.

A miss is a true label outside the decision set of its credal set. docs/evidence_promises.md proves
the promise; within a class, this is label-conditional (Mondrian) conformal prediction (Vovk,
Gammerman and Shafer, 2005, section 4.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from decal._base.errors import FitWarning, InputError
from decal._base.numerics import Array
from decal.choose._order import UnitLosses, allowed, largest_alpha, largest_alphas
from decal.choose._plausibility import Indices, Inside, Mask, Predictor, labels_inside
from decal.choose._promises import Choice, class_name, joined, row_groups
from decal.model import predict_rows
from decal.promise import Promise
from decal.rows import Rows

CLASSES_NAMED = 8  # how many classes a warning names
UNLIKELY = 0.01  # chance below which the misses of one class are worth a note
PER_CLASS = "per='class' guarantees every class"  # advice if one is missed too often

NOTHING_EXCLUDED = "no positive alpha will do, nothing is excluded"


def for_miss(model: Predictor, data: Rows, miss: float, rule: str, groups: Any) -> Choice:
    """The largest alpha at which (misses + 1) / (n + 1) <= miss, on all rows or in each group."""
    inside = labels_inside(model, data, rule)
    choices = {}
    for group, rows in row_groups(groups, len(data)).items():
        n = len(rows)
        found = largest_alpha(inside, rows, allowed(miss, n) - 1)
        if found is None:
            _require_every_class(model, data, rows, rule)
        alpha, missed, note = _told(found, n, miss)
        note = note or _neglected(data[rows], inside(rows, alpha), miss)
        note = note.removesuffix(f": {PER_CLASS}") if rule == "node" else note
        promise = Promise("miss", miss, n, rule, notes=(note,) if note else ())
        choices[group] = Choice(alpha, missed / n, promise, model)
    return joined(choices)


def _told(found: tuple[float, float] | None, rows: int, miss: float) -> tuple[float, float, str]:
    """What `largest_alpha` found, and a note if nothing is excluded."""
    if found is None:
        return 0.0, 0.0, f"{rows} are too few for {miss:g}, every class is kept"
    return *found, "" if found[0] else NOTHING_EXCLUDED


def for_miss_of_units(
    model: Predictor, data: Rows, miss: float, rule: str, unit: str, tolerate: float | None
) -> Choice:
    """The largest alpha at which (the units' losses + 1) / (units + 1) <= miss.

    Of exchangeable units, this is conformal risk control (Angelopoulos, Bates, Fisch, Lei and
    Schuster, 2024): a loss from 0 to 1 that never grows as sets do, on average over units. It is
    the share of a unit's labels that are missed, or whether that exceeds what one tolerates. An
    input with several labels is a unit.
    """
    rated = data.votes is not None
    data = data.by_label()
    losses = UnitLosses(data.units, tolerate, data.weights if rated else None)
    rows, n = np.arange(len(data)), losses.units
    inside = labels_inside(model, data, rule)
    found = largest_alpha(inside, rows, miss, lambda missed: (losses(missed) + 1) / (n + 1))
    if found is None:
        _require_every_class(model, data, rows, rule)
    alpha, _, note = _told(found, n, miss)
    lost = losses(rows[~inside(rows, alpha)])
    notes = (note,) if note else ()
    promise = Promise("miss", miss, n, rule, notes=notes, unit=unit, tolerate=tolerate)
    return Choice(alpha, lost / n, promise, model)


def for_miss_per_class(model: Predictor, data: Rows, miss: float, rule: str) -> Choice:
    """For every class, the largest alpha at which (its misses + 1) / (its rows + 1) <= miss."""
    inside = labels_inside(model, data, rule)
    choices = [
        _for_class(model, np.flatnonzero(data.labels == k), inside, miss, rule)
        for k in range(data.shape[1])
    ]
    _warn_of_rare(choices, miss, data.classes, "classes", "rows", "are in every set")
    promise = Promise("miss", miss, len(data), rule, "class")
    names = data.classes or range(len(choices))
    n = len(data)
    together = largest_alpha(inside, np.arange(n), allowed(miss, n) - 1)
    alpha = 0.0 if together is None else together[0]  # that of the intervals
    return Choice.of_parts(dict(zip(names, choices, strict=True)), promise, alpha)


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


def for_miss_per_label(model: Any, logits: Any, answers: Any, miss: float) -> Choice:
    """For every label, the largest alpha at which (its misses + 1) / (its answers + 1) <= miss.

    A miss is a yes or no that is decided and wrong; an answer that nobody knows does not count.
    """
    data = logits if isinstance(logits, Rows) else model.read(logits, answers, empty=False)
    known = data.labels >= 0
    rows = known.sum(axis=0).tolist()

    def missed(alphas: Array) -> Indices:
        said = model.predict_rows(data, alpha=alphas).decide()
        return np.asarray((known & (said >= 0) & (said != data.labels)).sum(axis=0))

    alphas = largest_alphas(missed, np.array([allowed(miss, n) - 1 for n in rows]))
    choices = []
    for n, alpha, misses in zip(rows, alphas.tolist(), missed(alphas).tolist(), strict=True):
        why = f"{n} are too few" if allowed(miss, n) == 0 else "no positive alpha will do"
        notes = () if alpha else (f"{why}, never decided",)
        choices.append(
            Choice(alpha, misses / max(n, 1), Promise("miss", miss, n, "", None, notes), model)
        )
    _warn_of_rare(choices, miss, data.classes, "labels", "answers", "are never decided")
    names = data.classes or range(len(choices))
    promise = Promise("miss", miss, len(data), per="label")
    return Choice.of_parts(dict(zip(names, choices, strict=True)), promise)


def _warn_of_rare(
    choices: Sequence[Choice],
    miss: float,
    names: Sequence[str] | None,
    many: str,
    counted: str,
    therefore: str,
) -> None:
    rows = [choice.promise.rows for choice in choices]
    rare = [k for k, n in enumerate(rows) if allowed(miss, n) == 0]
    if not rare:
        return
    few = sorted(rare, key=lambda k: rows[k])[:CLASSES_NAMED]
    named = ", ".join(f"{class_name(k, names)} with {rows[k]}" for k in few)
    named += ", …" if len(rare) > CLASSES_NAMED else ""
    FitWarning.warn(
        f"{len(rare)} of {len(choices)} {many} have too few {counted} for miss = {miss:g} and "
        f"{therefore}: {named}. Label more of them, or accept more misses"
    )


def _require_every_class(model: Predictor, data: Rows, rows: Indices, rule: str) -> None:
    """InputError if even alpha = 0 drops a class: some directions cannot lift every class."""
    dropped = np.argwhere(~predict_rows(model, data[rows], 0.0).decide(rule))
    if dropped.size:
        row, k = dropped[0]
        fact = f"{class_name(int(k), data.classes)} dropped in row {rows[row]}"
        remedy = "Add the direction 'class'."
        raise InputError("model", "keep every class at alpha = 0", fact, remedy)


def _neglected(data: Rows, inside: Mask, miss: float) -> str:
    """A note about the class that is missed most, if chance does not explain how often."""
    from scipy.special import bdtrc  # here: it doubles the time of `import decal`

    rows = np.bincount(data.labels)
    misses = np.bincount(data.labels[~inside], minlength=len(rows))
    # P(Binomial(rows, miss) >= misses), for as many classes as have misses.
    chance = np.where(misses > 0, bdtrc(misses - 1.0, np.maximum(rows, misses), miss), 1.0)
    unlikely = (misses > 0) & (chance * np.count_nonzero(misses) <= UNLIKELY)
    if not unlikely.any():
        return ""
    worst = int(np.argmax(np.where(unlikely, misses / np.maximum(rows, 1), 0.0)))
    name = class_name(worst, data.classes)
    return f"{name} is missed in {misses[worst]} of its {rows[worst]}: {PER_CLASS}"
