"""Choosing alpha for a reason: a wanted efficiency, coverage, miss rate or confidence.

Most choices ask a fitted model for predictions at several alphas, so they work for any directions,
box, likelihood and reference. They rest on one property: predictions are nested, that is, a smaller
alpha never removes a distribution from a credal set, nor a class from a decision set. The guarantee
for whole distributions (`alpha_for_distribution`) is about local sets. May import from `_base`,
`credal`, `directions`, `decalibrator` and `evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import (
    check_alpha,
    check_annotations,
    check_count,
    check_labels,
    require_one,
)
from decal._base.errors import InputError, Setting
from decal._base.inputs import inputs_of
from decal._base.numerics import Array
from decal.evaluate import metrics
from decal.selection._alpha_path import AlphaPath, path
from decal.selection._choices import Choice, GroupChoice, called, in_groups
from decal.selection._classes import ClassChoice, alpha_for_classes
from decal.selection._distributions import alpha_for_distribution, entropy_from_annotations
from decal.selection._plausibility import (
    SEARCH_LEVELS,
    Predictor,
    alpha_at,
    contour_levels,
    distributions_inside,
    kept_classes,
    labels_inside,
    largest_alpha,
    plausibility,
)

__all__ = [
    "AlphaPath",
    "Choice",
    "ClassChoice",
    "GroupChoice",
    "alpha_for_classes",
    "alpha_for_coverage",
    "alpha_for_distribution",
    "alpha_for_efficiency",
    "alpha_for_labels",
    "alpha_from_confidence",
    "confidence_from_alpha",
    "contour_levels",
    "entropy_from_annotations",
    "path",
    "plausibility",
    "shares",
]

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
UNLIKELY = 0.01
"""Chance below which the misses of one class are worth a note."""

EFFICIENCY_TOLERANCE = 1e-6
"""How far the efficiency found may be from the one wanted."""

# For a wanted outcome


def alpha_for_efficiency(model: Predictor, logits: Any, target: Any) -> Choice:
    """The alpha at which the mean efficiency on these logits is the target.

    Efficiency is one minus the mean width of the intervals: 1 for points, 0 when nothing is
    excluded. It rises with alpha, so bisection finds it; labels are not needed.

    Parameters
    ----------
    model : Decalibrator
        A fitted one.
    logits : (n, K) array
        Inputs like those to come.
    target : float
        Wanted efficiency in [0, 1].

    Raises
    ------
    ValueError
        If no alpha has this efficiency; the message tells the range. With reference="model" even
        alpha = 1 may leave intervals; with likelihood="sum" and many examples, the smallest
        positive alpha is still far from vacuous. Between 1 and 0.999999 no alpha is tried.

    See Also
    --------
    decal.metrics.efficiency : The efficiency of given credal sets.
    path : What every alpha would give.

    Notes
    -----
    At most 28 predictions of all the logits; the efficiency is met within 1e-6.

    Examples
    --------
    >>> import numpy as np, decal
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.decalibrate(logits, [0, 0, 1, 1], alpha=0.9, directions=("class",))
    >>> decal.selection.alpha_for_efficiency(d, logits, 0.5)
    Choice: alpha 0.811..., efficiency 0.5000 on 4 examples, wanted 0.5
    """
    z, target = inputs_of(model, logits), check_alpha(target, "target")

    def achieved(alpha: float) -> float:
        return metrics.efficiency(model.predict(z, alpha=alpha))

    def choice(alpha: float, found: float) -> Choice:
        return Choice(alpha, found, target, len(z), "efficiency")

    narrow, wide = 0, SEARCH_LEVELS
    most, least = achieved(1.0), achieved(0.0)
    for alpha, found in ((1.0, most), (0.0, least)):
        if abs(found - target) <= EFFICIENCY_TOLERANCE:
            return choice(alpha, found)
    if not least < target < most:
        hint = "A model with ", Setting("reference", "best"), " reaches 1."
        raise InputError(
            "target",
            f"lie between {least:.6g}, the efficiency of alpha = 0, and {most:.6g}, that of "
            "alpha = 1",
            f"{target:g}",
            hint if target > most else "",
        )
    while wide - narrow > 1:
        middle = (narrow + wide) // 2
        alpha = alpha_at(middle, SEARCH_LEVELS)
        found = achieved(alpha)
        if abs(found - target) <= EFFICIENCY_TOLERANCE:
            return choice(alpha, found)
        if found > target:
            narrow, most = middle, found
        else:
            wide, least = middle, found
    below, above = alpha_at(wide, SEARCH_LEVELS), alpha_at(narrow, SEARCH_LEVELS)
    hint = "A model with ", Setting("likelihood", "mean"), " has no such gap."
    raise InputError(
        "target",
        "be an efficiency that some alpha has",
        f"{target:g}, between {least:.6g} of alpha = {below:.6g} and {most:.6g} of the next "
        f"level, {above:.6g}",
        hint if below == 0 else "",
    )


def alpha_for_coverage(
    model: Predictor,
    logits: Any,
    distributions: Any = None,
    target: Any = None,
    *,
    annotations: Any = None,
    atol: float = 5e-4,
    guaranteed: bool = False,
) -> Choice:
    """The largest alpha at which enough credal sets hold the true label distribution.

    With `guaranteed`, enough for a statement about new inputs: the alpha is the largest at which
    (rows covered) / (n + 1) >= target, as if a new row were not covered. If these n rows and a new
    one are exchangeable, given the fitted model, the set of the new one holds its distribution with
    probability `target`. This is split conformal prediction with `plausibility` as the score,
    for any directions; see `alpha_for_labels` for why, and for what it does not say.

    Parameters
    ----------
    model : Decalibrator
        A fitted one.
    logits : (n, K) array
        Inputs, not those that the model was fitted on.
    distributions : (n, K) array, optional
        Their true distributions.
    target : float
        Wanted share of rows whose distribution is in the set, in [0, 1].
    annotations : (n, A) integers, optional
        Labels by up to A annotators, instead of distributions: their `shares` are used.
    atol : float
        Tolerance on every bound, as in `decal.metrics.coverage`.
    guaranteed : bool
        Whether the coverage is to hold for new inputs, on average over such samples, rather than
        for these rows. If they are too few for that, alpha is 0, and the note says so.

    See Also
    --------
    decal.metrics.coverage : The coverage of given credal sets.
    alpha_for_distribution : The same guarantee where there is one label per input; local sets.
    alpha_for_labels : A guarantee for decisions.

    Notes
    -----
    Unless `guaranteed`, the coverage holds for these rows. That of new ones is the same up to
    sampling error, about sqrt(target (1 - target) / n).

    The shares of a few annotators vary more than the distribution they are drawn from: sets that
    cover the shares are wider than they need to be to cover the distribution.

    At most 28 predictions, most of them of few rows: rows that are inside at an alpha known to be
    too large, or outside at one known to be small enough, are not predicted again.

    Examples
    --------
    >>> import numpy as np, decal
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.decalibrate(logits, [0, 0, 1, 1], alpha=0.9, directions=("class",))
    >>> votes = [[0, 0, 0, 1], [0, 0, 1, -1], [1, 1, 0, 0], [1, 1, 1, 1]]
    >>> decal.selection.alpha_for_coverage(d, logits, annotations=votes, target=0.75)
    Choice: alpha 0.953..., coverage 0.7500 on 4 examples, wanted at least 0.75
    """
    known = {"distributions": distributions, "annotations": annotations}
    z, target = inputs_of(model, logits, **known), check_alpha(target, "target")
    require_one(distributions=distributions, annotations=annotations)
    if annotations is not None:
        distributions = shares(annotations, z.shape[1])
    inside = distributions_inside(model, z, distributions, atol)
    n = len(z)

    def enough(count: int) -> bool:
        return bool(count / (n + 1 if guaranteed else n) >= target)

    found = largest_alpha(inside, n, enough)
    if found is None:
        most = float(inside(np.arange(n), 0.0).mean())
        if guaranteed and most == 1:
            note = f"{n} are too few for {target:g}, nothing is excluded"
            return Choice(0.0, 1.0, target, n, "coverage", note)
        raise ValueError(
            f"target must be at most {most:.6g}, the coverage of alpha = 0: got {target:g}. "
            "What this model may move cannot reach the other distributions."
        )
    alpha, count = found
    return Choice(alpha, count / n, target, n, "coverage", _note(alpha))


@overload
def alpha_for_labels(
    model: Predictor,
    logits: Any,
    labels: Any,
    epsilon: Any,
    *,
    rule: str = "e_admissible",
    groups: None = None,
) -> Choice: ...


@overload
def alpha_for_labels(
    model: Predictor,
    logits: Any,
    labels: Any,
    epsilon: Any,
    *,
    rule: str = "e_admissible",
    groups: Any,
) -> GroupChoice: ...


def alpha_for_labels(
    model: Predictor,
    logits: Any,
    labels: Any,
    epsilon: Any,
    *,
    rule: str = "e_admissible",
    groups: Any = None,
) -> Any:
    """The largest alpha that misses a new label with probability at most epsilon, guaranteed.

    A miss is a true label outside the decision set of its credal set. The alpha chosen is the
    largest at which (misses + 1) / (n + 1) <= epsilon on n held-out examples.

    **The guarantee.** If these n examples and a new one are exchangeable (for instance
    independent draws from one distribution), given the fitted model, then the new label is missed
    with probability at most epsilon. No assumption on the model, for every n.

    *Why.* Sets are nested, so misses only grow with alpha. Take the largest alpha with at most
    epsilon (n + 1) misses among all n + 1 examples: it is no smaller than the one chosen, it does
    not depend on which of them is the new one, and so each is equally likely to be a miss. This is
    conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, 2022, theorem 1) for the
    loss "missed", or split conformal prediction (Papadopoulos, Proedrou, Vovk and Gammerman, 2002)
    with `plausibility` as the score. Alphas are those of a fixed grid, which changes nothing.

    **What it does not say.** The probability is over both the n examples and the new one: for the
    n given ones, the miss rate of new examples varies around it by about sqrt(epsilon / n). It is
    an average over all inputs, not a promise for a class (see `alpha_for_classes`), a group or one
    input; the note names a class that is missed much more often. It says that the
    label is in the decision set, not that the true distribution is in the credal set. And it is
    void if the model was fitted (or trained) on these examples, or if epsilon is picked after
    looking.

    Parameters
    ----------
    model : Decalibrator
        Fitted on other examples.
    logits : (n, K) array
        Held-out inputs, used neither for training nor to fit the model; or a
        `decal.llm.LabelMasses`.
    labels : (n,) integers
        Their labels.
    epsilon : float
        Accepted share of misses in [0, 1].
    rule : str
        "e_admissible" keeps the classes that can be the most probable, "interval_dominance" those
        not dominated ("maximality" is the same here). The former's sets are smaller, so what it
        guarantees holds for the latter too.
    groups : (n,) integers or text, optional
        A group for every input: any function of the *input*, such as the predicted class. An alpha
        is chosen for each, and the guarantee holds within each.

    Returns
    -------
    Choice or GroupChoice
        With groups, a mapping from the group to its choice, which predicts.
        `achieved` is the miss rate on these examples. With fewer than 1 / epsilon - 1 examples
        nothing but keeping every class can be guaranteed: then alpha = 0, and the note says so.
        If even alpha = 1 misses few enough, it is 1: the sets cannot be made smaller.

    Raises
    ------
    ValueError
        If no alpha will do because even alpha = 0 drops a class. This is only possible for
        directions that cannot lift every class.

    See Also
    --------
    plausibility : The score of every example.
    path : What every alpha would give, without a guarantee.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(400, 3))
    >>> labels = (logits + rng.gumbel(size=(400, 3))).argmax(axis=1)
    >>> d = decal.decalibrate(logits[:200], labels[:200], alpha=0.9, directions=("class",))
    >>> decal.selection.alpha_for_labels(d, logits[200:], labels[200:], 0.1)
    Choice: alpha 0.930..., miss rate 0.0950 on 200 examples, wanted at most 0.1
    """
    z = inputs_of(model, logits, labels=labels, groups=groups)
    epsilon = check_alpha(epsilon, "epsilon")
    every_row = labels_inside(model, z, labels, rule)
    names = getattr(model, "classes", None)
    y = check_labels(labels, rows=len(z), classes=z.shape[1], names=names)

    def choose(rows: Indices) -> Choice:
        n = len(rows)

        def inside(some: Indices, alpha: float) -> Mask:
            return every_row(rows[some], alpha)

        found = largest_alpha(inside, n, lambda count: (n - count + 1) / (n + 1) <= epsilon)
        if found is not None:
            alpha, count = found
            note = _note(alpha) or _neglected(y[rows], inside(np.arange(n), alpha), epsilon, names)
            return Choice(alpha, (n - count) / n, epsilon, n, "miss rate", note)
        dropped = np.argwhere(~kept_classes(model.predict(z[rows], alpha=0.0), rule))
        if dropped.size:
            row, k = dropped[0]
            raise InputError(
                "model",
                "keep every class at alpha = 0",
                f"{called(int(k), names)} dropped in row {rows[row]}",
                "Add the direction 'class'.",
            )
        note = f"{n} are too few for {epsilon:g}, every class is kept"
        return Choice(0.0, 0.0, epsilon, n, "miss rate", note)

    return in_groups(choose, groups, len(z))


# What people said


def shares(annotations: Any, classes: int) -> Array:
    """(n, K) the share of each class among every row's labels.

    Parameters
    ----------
    annotations : (n, A) integers
        Labels 0..K-1 by up to A annotators; -1 where one gave none.
    classes : int
        Their number K.

    Examples
    --------
    >>> import decal
    >>> decal.selection.shares([[0, 0, 1, 2], [1, 1, -1, -1]], 3)
    array([[0.5 , 0.25, 0.25],
           [0.  , 1.  , 0.  ]])
    """
    votes, K = check_annotations(annotations, check_count(classes, "classes", least=2))
    given = votes >= 0
    cells = (np.arange(len(votes))[:, None] * K + votes)[given]
    counts = np.bincount(cells, minlength=len(votes) * K).reshape(-1, K)
    return np.asarray(counts / given.sum(axis=1, keepdims=True))


# By statistical theory


def alpha_from_confidence(level: Any, df: int = 1) -> float:
    """The alpha at which, with likelihood="sum", a region has a given asymptotic confidence.

    By Wilks' theorem twice the log-likelihood lost at the truth is chi-square distributed with as
    many degrees of freedom as the family has free parameters, so alpha = exp(-q / 2) with q the
    chi-square quantile of the level.

    Parameters
    ----------
    level : float
        Confidence in [0, 1].
    df : int
        Free parameters: 1 for the shift of one class.

    See Also
    --------
    confidence_from_alpha : The inverse.

    Examples
    --------
    >>> import decal
    >>> round(decal.alpha_from_confidence(0.95), 4)
    0.1465
    """
    from scipy.special import (
        gammaincinv,  # imported here because it doubles the time of `import decal`
    )

    level = check_alpha(level, "level")
    return math.exp(-float(gammaincinv(check_count(df, "df") / 2, level)))


def confidence_from_alpha(alpha: Any, df: int = 1) -> float:
    """The inverse of `alpha_from_confidence`.

    Parameters
    ----------
    alpha : float
        Level in [0, 1].
    df : int
        Free parameters: 1 for the shift of one class.

    See Also
    --------
    alpha_from_confidence : The inverse, with the theory.

    Examples
    --------
    >>> import decal
    >>> round(decal.confidence_from_alpha(decal.alpha_from_confidence(0.95)), 10)
    0.95
    """
    from scipy.special import gammainc

    alpha = check_alpha(alpha)
    budget = -math.log(alpha) if alpha > 0 else math.inf
    return float(gammainc(check_count(df, "df") / 2, budget))


def _neglected(labels: Indices, inside: Mask, epsilon: float, names: Sequence[str] | None) -> str:
    """A note about the class that is missed most, if chance does not explain how often."""
    from scipy.special import bdtrc

    examples = np.bincount(labels)
    misses = np.bincount(labels[~inside], minlength=len(examples))
    # P(Binomial(examples, epsilon) >= misses), for as many classes as have misses.
    chance = np.where(misses > 0, bdtrc(misses - 1.0, np.maximum(examples, misses), epsilon), 1.0)
    unlikely = (misses > 0) & (chance * np.count_nonzero(misses) <= UNLIKELY)
    if not unlikely.any():
        return ""
    worst = int(np.argmax(np.where(unlikely, misses / np.maximum(examples, 1), 0.0)))
    return (
        f"{called(worst, names)} is missed in {misses[worst]} of its {examples[worst]}: "
        "alpha_for_classes guarantees every class"
    )


def _note(alpha: float) -> str:
    return "no positive alpha will do, nothing is excluded" if alpha == 0 else ""
