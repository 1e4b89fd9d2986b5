"""decalibrate_labels: labels that do not exclude each other, in one call, with a promise for each.

As in `decal.choose._wish`, rows that fit and choose the kind of set never choose alpha.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from decal._base.errors import InputError
from decal._base.settings import check_alpha, check_count, check_keywords
from decal.choose._choosing import choose
from decal.choose._promises import one_wish
from decal.choose._wish import (
    CHOOSING_ROWS,
    CHOOSING_SHARE,
    FEWEST_SPLIT,
    MOVES,
    Kind,
    best_of,
    halves,
)
from decal.multilabel import MultiLabelDecalibrator
from decal.rows import Rows


def decalibrate_labels(
    logits: Any,
    labels: Any,
    *,
    alpha: Any = None,
    miss: float | None = None,
    width: float | None = None,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
    seed: int = 0,
    **settings: Any,
) -> MultiLabelDecalibrator:
    """A model of labels that do not exclude each other, at an alpha or with a promise for each.

    Give exactly one of `alpha`, `miss` and `width`. With `alpha` this is
    ``MultiLabelDecalibrator(alpha, **settings).fit(logits, labels)``. With `miss`, decal chooses
    the kind of set, its reference, and an alpha for every label; with `width`, one alpha.

    Parameters
    ----------
    logits, labels, sample_weight, classes
        As for `MultiLabelDecalibrator.fit`: (n, L) logits, and labels 1, 0, and -1 where nobody
        knows, of rows that did not train the classifier.
    alpha : float
        Level in [0, 1]; smaller is more cautious.
    miss : float
        For every label, the wrong answer is decided for a new input with probability `miss` at
        most, guaranteed; what is not decided is open.
    width : float
        Ranges have this mean width: those of local sets around an automatic reference, by all rows.
    seed : int
        Of the random split.
    settings
        Of `MultiLabelDecalibrator`; `directions` and `reference` leave decal less to choose.

    Notes
    -----
    Three tenths of the rows, at most 2,000, fit and choose the kind of set: the one that leaves
    fewest answers open in cross-fitting, of local sets, class shifts, and class shifts with
    temperature, around an automatic reference. The others choose the alphas. Fewer than 100 rows
    are not split: local sets around the model as it is need no answers.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(0, 2, (600, 2))
    >>> labels = rng.random((600, 2)) < 1 / (1 + np.exp(-logits))
    >>> d = decal.decalibrate_labels(logits, labels, miss=0.1, classes=["dog", "cat"])
    >>> print(d.promise)
    For every label, the wrong answer is decided for at most 1 new input in 10; guaranteed, by 420
    rows.
    """
    check_keywords(settings, "decal.decalibrate_labels", decalibrate_labels, MultiLabelDecalibrator)
    wish, wanted = one_wish(alpha=alpha, miss=miss, width=width)
    shown: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes}
    if wish == "alpha":
        return MultiLabelDecalibrator(alpha, **settings).fit(logits, labels, **shown)
    target, seed = check_alpha(wanted, wish), check_count(seed, "seed", least=0)
    if wish == "miss" and not 0 < target < 1:
        raise InputError("miss", "lie between 0 and 1, and be neither", f"{target:g}")
    read = {name: settings[name] for name in ("probabilities", "floor") if name in settings}
    rows = MultiLabelDecalibrator(0.5, **read).read_labelled(logits, labels, **shown).counted()
    if not (rows.labels >= 0).any():
        raise InputError("labels", "be known for some inputs", f"none in {len(rows)} rows")
    if wish == "width":
        model = _fitted(rows, {"directions": MOVES[0], "reference": "auto"} | settings)
        return model.with_promise(choose(model, rows, width=target))
    n = len(rows)
    drawn = np.random.default_rng(seed).permutation(n)
    # Small samples need all rows, and local sets around the model as it is learn nothing from them.
    count = 0 if n < FEWEST_SPLIT else min(int(CHOOSING_SHARE * n), CHOOSING_ROWS)
    if not count:
        model = _fitted(rows, {"directions": MOVES[0], "reference": "model"} | settings)
        fixed = all(d.name == "local" for d in model.directions) and model.reference == "model"
        if not fixed:
            rule, fact = "leave rows to fit these sets on", f"{n} rows"
            remedy = f"{FEWEST_SPLIT} are enough; or leave out directions and reference."
            raise InputError("labels", rule, fact, remedy)
        return _promised(model, rows, target, 0)
    some, rest = rows[np.sort(drawn[:count])], rows[np.sort(drawn[count:])]
    moves = MOVES[:1] if "directions" in settings else MOVES
    kinds = [{"directions": each, "reference": "auto"} | settings for each in moves]

    def left_open(kind: Kind) -> float:
        return sum(_open_by(kind, *parts, target) for parts in halves(some, seed))

    model = _fitted(some, best_of(kinds, left_open, count))
    return _promised(model, rest, target, count)


def _fitted(rows: Rows, kind: Kind) -> MultiLabelDecalibrator:
    return MultiLabelDecalibrator(0.5, **kind).fit_rows(rows)


def _open_by(kind: Kind, fitted_on: Rows, measured_on: Rows, miss: float) -> float:
    """The share of answers that a kind of set leaves open."""
    model: Any = choose(_fitted(fitted_on, kind), measured_on, miss=miss).promised()
    return float((model.predict_rows(measured_on).decide() < 0).mean())


def _promised(
    model: MultiLabelDecalibrator, rows: Rows, miss: float, chosen_on: int
) -> MultiLabelDecalibrator:
    """The model with its promise, and what that costs on the rows it rests on."""
    choice = choose(model, rows, miss=miss)
    promised: Any = choice.promised()
    said, known = promised.predict_rows(rows).decide(), rows.labels >= 0
    costs = {
        "labels": rows.shape[1],
        "chosen_on": chosen_on,
        "decided": float((said[known] >= 0).mean()),
        "wrong": float(((said >= 0) & (said != rows.labels))[known].mean()),
        "error": float(((rows.logits > 0) != rows.labels)[known].mean()),
    }
    promise = replace(choice.promise, costs=costs)
    if rows.weights is not None:
        promise = replace(promise, notes=("weights counted where sets were fitted, and not here",))
    return model.with_promise(replace(choice, promise=promise))
