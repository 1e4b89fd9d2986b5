"""The one chooser: the alpha of a model that grants a wish, and what that promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from decal._base.errors import InputError, Setting, Words
from decal._base.settings import check_alpha, check_choice, require_one
from decal.choose._hold import for_hold
from decal.choose._miss import (
    NOTHING_EXCLUDED,
    for_miss,
    for_miss_of_units,
    for_miss_per_class,
    for_miss_per_label,
)
from decal.choose._order import SEARCH_LEVELS, largest_alpha, needed
from decal.choose._plausibility import Predictor, alpha_at, complement, distributions_inside
from decal.choose._promises import Choice, one_wish
from decal.choose._surprises import Plan
from decal.evaluate import metrics
from decal.model import Model, answers_labels, predict_rows, read_inputs, require_classes
from decal.promise import Promise
from decal.rows import Rows, in_units
from decal.votes import Votes

RATED = "input"  # the unit of a promise about inputs with several labels each
WIDTH_TOLERANCE = 1e-6  # how far the mean width found may be from the one wanted

WISHES_OF = {
    "per": ("miss",),
    "unit": ("miss",),
    "tolerate": ("miss",),
    "groups": ("miss", "hold"),
    "distributions": ("coverage",),
    "annotations": ("coverage", "miss", "hold"),
    "guaranteed": ("coverage",),
    "confidence": ("hold",),
    "threshold": ("hold",),
}
"""The wishes that each option goes with."""


def choose(
    model: Predictor,
    logits: Any,
    labels: Any = None,
    *,
    miss: float | None = None,
    width: float | None = None,
    hold: float | None = None,
    coverage: float | None = None,
    per: str | None = None,
    groups: Any = None,
    unit: str | None = None,
    tolerate: float | None = None,
    dim: int | None = None,
    ignore_index: int | None = None,
    rule: str | None = None,
    distributions: Any = None,
    annotations: Any = None,
    guaranteed: bool = False,
    atol: float = 5e-4,
    confidence: float | None = None,
    threshold: float | Plan | None = None,
    seed: int = 0,
) -> Choice:
    """The alpha that grants one wish: a miss rate, a width, or a share of distributions held.

    **miss**: the true label of a new input is outside the kept classes with probability `miss` at
    most, guaranteed. With `groups`, in each group of inputs; with per="class", for each class. For
    labels that do not exclude each other, the wrong answer of each is decided so often at most.

    **width**: the intervals of these rows have this mean width, within 1e-6. Needs no labels.

    **hold**: the local set of a new input, KL(q || c) <= -log alpha, holds the whole distribution
    that its label is drawn from with probability `hold` at least, guaranteed by one label per row,
    or by several, if these are independent draws whose number does not depend on them.

    **coverage**: the sets of this share of rows hold their known distributions. With `guaranteed`,
    the set of a new input with this probability.

    Guarantees need rows that neither trained nor fitted the model, exchangeable with the new ones,
    and a wish fixed beforehand. They are averages over new inputs and over the draw of these rows,
    not about one input, class or group unless asked for. Proofs: docs/evidence_promises.md.

    Parameters
    ----------
    model : Decalibrator, MultiLabelDecalibrator or CoupledDecalibrator
        Fitted on other rows. For `hold`, a Decalibrator with likelihood="mean" and `decal.Local`
        with a positive `mix` among its directions; others only widen the box.
    logits : (n, K) array
        Held-out inputs; or, but for `hold`, a `decal.llm.LabelMasses`.
    labels : (n,) integers, or Votes
        Their labels, for `miss` and `hold`; answers (n, L) of a `MultiLabelDecalibrator`; several
        per input as `decal.Votes`, see `decal.decalibrate`.
    miss, width, hold, coverage : float
        The wish, in [0, 1]: exactly one of them.
    per : str, optional
        "class": every class has an alpha of its own. A class with fewer than 1 / miss - 1 rows is
        in every set.
    groups : (n,) integers or text, optional
        Any function of the *input*, such as the predicted class: each group has an alpha of its
        own, for `miss` or `hold`. With `unit`, what each row is part of.
    unit : str, optional
        What rows come in, such as "image": `miss` is then the share of a new unit's labels that is
        missed, on average over units. These are the first axis of logits, or `groups`. Rows of one
        unit are alike, so that a promise about rows would not hold.
    tolerate : float, optional
        With `unit` or `Votes`: `miss` is about units, or inputs, of which more than this share of
        labels is missed.
    dim, ignore_index : int, optional
        As for `Decalibrator.fit`.
    rule : str, optional
        Which classes are kept, for `miss`. By default, of a model that knows of an order,
        "ordered_majority", an interval of classes; of one with a tree, "node", those of one node;
        else "e_admissible", those that can be the most probable. Others are "interval_dominance"
        or "maximality", which keep more, those not dominated; and "majority", which keeps fewer of
        many, the most probable one and those that can have one half.
    distributions : (n, K) array, optional
        The true distributions, for `coverage`, in the shape of the logits.
    annotations : (n, A) array, optional
        Labels by up to A annotators, -1 where one gave none. For `miss` and `hold`, in place of
        labels: short for `Votes.of_annotations`. For `coverage`, in place of distributions:
        shares of a few vary more than the truth, so that sets are wider than they need to be.
    guaranteed : bool
        Whether `coverage` is to hold for new inputs rather than for these.
    atol : float
        Tolerance of `coverage` on every bound.
    confidence : float, optional
        For `hold`: in [0, 1], wanted for the rows at hand rather than on average over such rows.
    threshold : float, optional
        For `hold`: losses in nats up to which a class counts as expected. By default it is planned
        on three tenths of the rows (at most 2000), and alpha is chosen on the rest.
    seed : int
        Of the random order of the rows, for `hold`.

    Returns
    -------
    Choice
        Stands for its alpha, predicts and decides, and prints its promise. Where rows are too few,
        or their labels too unlikely to the model, alpha is 0, and a note says so. It is 1 if even
        that misses few enough. At most 29 predictions for each alpha, most of them of few rows.

    Raises
    ------
    InputError
        If no alpha grants the wish; the message tells the range.

    Warns
    -----
    FitWarning
        With per="class", if classes have too few rows, or none; it names them.

    See Also
    --------
    decal.choose.plausibility : The score that `miss` and `coverage` are order statistics of.
    decal.choose.triage : Which rows a person should check.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(400, 3))
    >>> labels = (logits + rng.gumbel(size=(400, 3))).argmax(axis=1)
    >>> d = decal.decalibrate(logits[:200], labels[:200], alpha=0.9, directions=("class",))
    >>> choice = decal.choose(d, logits[200:], labels[200:], miss=0.1)
    >>> choice
    Choice: alpha 0.930..., miss 0.0950 on 200 rows, wanted at most 0.1
      The true label is outside the kept classes for at most 1 new input in 10; guaranteed, by 200
      rows.
    >>> choice.decide([[2.0, 0.0, 0.0]])
    array([[ True, False, False]])
    """
    wish, wanted = one_wish(miss=miss, width=width, hold=hold, coverage=coverage)
    target = check_alpha(wanted, wish)
    given = {
        "per": per,
        "groups": groups,
        "unit": unit,
        "tolerate": tolerate,
        "distributions": distributions,
        "annotations": annotations,
        "guaranteed": guaranteed or None,
        "confidence": confidence,
        "threshold": threshold,
    }
    if isinstance(logits, Rows):
        labels = logits.labels if logits.votes is None else logits.votes
    if annotations is not None and wish in ("miss", "hold"):
        labels, annotations = _votes(model, labels, annotations), None
    require_options(wish, given)
    _require_fitting(model, wish, labels)
    of_labels, rated = answers_labels(model), isinstance(labels, Votes)
    if not of_labels:
        require_labelled(wish, rated, given)
    unit = RATED if rated and wish == "miss" else unit
    if of_labels and wish == "miss":
        beside = {"per": per, "groups": groups, "unit": unit, "dim": dim}
        for name, value in (beside | {"ignore_index": ignore_index}).items():
            if value is not None:
                raise InputError(name, "be left out, as every label has a promise", f"{name}=")
        return for_miss_per_label(model, logits, labels, target)
    if wish != "width":
        require_classes(model)
    axes: dict[str, Any] = {"dim": dim, "ignore_index": ignore_index}
    known = {"distributions": distributions, "annotations": annotations}
    counted = labels if wish in ("miss", "hold") or ignore_index is not None else None
    rows = read_inputs(model, logits, counted, groups=groups, votes=True, **known, **axes)
    if rows is not logits:
        groups = rows.flat(groups)
        if rows.grid is not None and distributions is not None:
            distributions = rows.grid.in_rows(distributions, "distributions", rows.shape[1])
            known["distributions"] = distributions
    if wish == "width":
        return _for_width(model, rows, target)
    if wish == "coverage":
        return _for_coverage(model, rows, target, known, atol=atol, guaranteed=guaranteed)
    rule = rule or rule_of(model, rows)
    if rule == "node" and per is not None:
        fact = "rule='node', which keeps one node at one alpha"
        raise InputError("per", "be left out with a tree", fact)
    if unit is None:
        rows.warn_of_units()
    if wish == "hold":
        return for_hold(
            model,
            rows,
            target,
            confidence=confidence,
            threshold=threshold,
            groups=groups,
            seed=seed,
        )
    if unit is not None:
        rows = rows if rated else in_units(rows, groups, unit)
        share = None if tolerate is None else check_alpha(tolerate, "tolerate")
        return for_miss_of_units(model, rows, target, rule, unit, share)
    if per is None:
        return for_miss(model, rows, target, rule, groups)
    return for_miss_per_class(model, rows, target, rule)


def rule_of(model: Any, rows: Rows) -> str:
    """The rule that says which classes are possible, by what a model or its rows know of them."""
    if rows.order or (isinstance(model, Model) and model.schema(model.fitted).order):
        return "ordered_majority"
    return "e_admissible" if getattr(model, "tree", None) is None else "node"


def _votes(model: Any, labels: Any, annotations: Any) -> Votes:
    """The annotations as votes for the classes of a model."""
    if labels is not None:
        raise InputError("annotations", "be left out with labels", "both")
    if not isinstance(model, Model):
        raise InputError("annotations", "go with a Decalibrator", type(model).__name__)
    if isinstance(annotations, Votes):
        rule = "be a matrix with a row per input and a column per annotator"
        raise InputError("annotations", rule, f"{annotations}", "Pass Votes as labels.")
    known = model.schema(model.fitted)
    return Votes.of_annotations(annotations, classes=known.classes or known.width)


def require_options(wish: str, given: Mapping[str, Any]) -> None:
    """InputError about options that do not go with a wish, or with each other."""
    for name, value in given.items():
        if value is not None and wish not in WISHES_OF[name]:
            raise InputError(name, f"go with {' or '.join(WISHES_OF[name])}", wish)
    if given["per"] is not None:
        check_choice(given["per"], "per", ("class",))
        if given["unit"] is not None:
            raise InputError("per", "be left out with unit", f"{given['per']!r}")
        if given["groups"] is not None:
            raise InputError("groups", "be left out with per='class'", "both")


def require_labelled(wish: str, rated: bool, given: Mapping[str, Any]) -> None:
    """InputError about options that go with several labels per input, or with one, alone."""
    if not rated and given["tolerate"] is not None and given["unit"] is None:
        raise InputError("tolerate", "go with unit, or with Votes", "no unit")
    for name in ("per", "groups", "unit") if rated and wish == "miss" else ():
        if (value := given[name]) is not None:
            rule = "be left out with several labels per input, for miss"
            fact = f"{value!r}" if isinstance(value, str) else name
            raise InputError(name, rule, fact, "Pass one label per input.")


def _require_fitting(model: Any, wish: str, labels: Any) -> None:
    """InputError about a model that cannot grant a wish, or not without labels."""
    if wish in ("miss", "hold") and labels is None:
        raise InputError("labels", f"be given with {wish}", "None")
    if isinstance(model, Model) and not hasattr(model, "alpha"):
        fact = f"a {type(model).__name__}, whose only level is its confidence"
        raise InputError("model", f"have an alpha, to grant {wish}", fact)


def _for_width(model: Predictor, data: Rows, width: float) -> Choice:
    """The alpha at which the mean width of these rows is the one wanted, by bisection."""
    wanted = complement(width)

    def efficiency(alpha: float) -> float:
        return metrics.efficiency(predict_rows(model, data, alpha))

    def choice(alpha: float, found: float) -> Choice:
        return Choice(alpha, 1 - found, Promise("width", width, len(data), guaranteed=False), model)

    narrow, wide = 0, SEARCH_LEVELS
    most, least = efficiency(1.0), efficiency(0.0)
    for alpha, found in ((1.0, most), (0.0, least)):
        if abs(found - wanted) <= WIDTH_TOLERANCE:
            return choice(alpha, found)
    if not least < wanted < most:
        rule = (
            f"lie between {1 - most:.6g}, the mean width of alpha = 1, and {1 - least:.6g}, "
            "that of alpha = 0"
        )
        reaches: Words = ("A model with ", Setting("reference", "best"), " reaches 0.")
        reached = wanted > most and isinstance(data.logits, np.ndarray)
        raise InputError("width", rule, f"{width:g}", reaches if reached else "")
    while wide - narrow > 1:
        middle = (narrow + wide) // 2
        alpha = alpha_at(middle, SEARCH_LEVELS)
        found = efficiency(alpha)
        if abs(found - wanted) <= WIDTH_TOLERANCE:
            return choice(alpha, found)
        if found > wanted:
            narrow, most = middle, found
        else:
            wide, least = middle, found
    below, above = alpha_at(wide, SEARCH_LEVELS), alpha_at(narrow, SEARCH_LEVELS)
    fact = (
        f"{width:g}, between {1 - least:.6g} of alpha = {below:.6g} and {1 - most:.6g} of the next "
        f"level, {above:.6g}"
    )
    smooth: Words = ("A model with ", Setting("likelihood", "mean"), " has no such gap.")
    raise InputError("width", "be one that some alpha gives", fact, smooth if below == 0 else "")


def _for_coverage(
    model: Predictor,
    data: Rows,
    coverage: float,
    known: dict[str, Any],
    *,
    atol: float,
    guaranteed: bool,
) -> Choice:
    """The largest alpha at which the sets of enough rows hold their distributions.

    Guaranteed, they are enough if a new row is counted as one that is not covered.
    """
    require_one(**known)
    distributions = known["distributions"]
    if distributions is None:
        classes = data.classes or data.shape[1]
        distributions = Votes.of_annotations(known["annotations"], classes=classes).shares
    inside = distributions_inside(model, data, distributions, atol)
    n = len(data)
    rows = np.arange(n)

    def choice(alpha: float, missed: float, *notes: str) -> Choice:
        promise = Promise("coverage", coverage, n, notes=notes, guaranteed=guaranteed)
        return Choice(alpha, (n - missed) / n, promise, model)

    found = largest_alpha(inside, rows, n - needed(coverage, n + 1 if guaranteed else n))
    if found is not None:
        return choice(*found, *([NOTHING_EXCLUDED] if found[0] == 0 else []))
    most = float(inside(rows, 0.0).mean())
    if guaranteed and most == 1:
        return choice(0.0, 0, f"{n} are too few for {coverage:g}, nothing is excluded")
    raise InputError(
        "coverage",
        f"be at most {most:.6g}, that of alpha = 0",
        f"{coverage:g}",
        "What this model may move cannot reach the other distributions.",
    )
