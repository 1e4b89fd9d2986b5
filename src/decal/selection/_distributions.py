"""A guarantee for whole distributions, from labels alone: local sets that hold the truth."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import (
    check_alpha,
    check_annotations,
    check_count,
    check_labels,
    check_tolerance,
)
from decal._base.data_frames import require_same_order
from decal._base.errors import InputError, Setting
from decal._base.inputs import require_possible_labels
from decal._base.numerics import Logits
from decal.decalibrator import Decalibrator, require_decalibrator
from decal.directions import Inputs, Local
from decal.selection._betting import mean_is_below
from decal.selection._choices import Choice, GroupChoice, in_groups
from decal.selection._plausibility import Indices
from decal.selection._surprises import (
    Losses,
    least_budget,
    least_budget_of_mean,
    least_budget_with_confidence,
    planned_threshold,
)

PLANNING_SHARE = 0.3
PLANNING_ROWS = 2000
"""Share of the examples that a threshold is chosen on, and how many at most."""

ROUNDING = 1e-12
"""By how much a budget is rounded up, so that the rounded alpha never stands for less."""

ENTROPIES_TESTED = 1000
"""Rates of disagreement that are tested, in equal steps from 0 to 1."""


@overload
def alpha_for_distribution(
    model: Decalibrator,
    logits: Any,
    labels: Any,
    delta: Any,
    *,
    confidence: Any = None,
    entropy: float = 0.0,
    threshold: float | None = None,
    groups: None = None,
    seed: int = 0,
) -> Choice: ...


@overload
def alpha_for_distribution(
    model: Decalibrator,
    logits: Any,
    labels: Any,
    delta: Any,
    *,
    confidence: Any = None,
    entropy: float = 0.0,
    threshold: float | None = None,
    groups: Any,
    seed: int = 0,
) -> GroupChoice: ...


def alpha_for_distribution(
    model: Decalibrator,
    logits: Any,
    labels: Any,
    delta: Any,
    *,
    confidence: Any = None,
    entropy: float = 0.0,
    threshold: float | None = None,
    groups: Any = None,
    seed: int = 0,
) -> Any:
    """A large alpha whose local sets miss the true distribution of a new input as rarely as delta.

    The true distribution of an input is the one that its label is drawn from. It is never seen: all
    that this needs is one label for each of n held-out inputs.

    **The guarantee.** If the n examples and a new one are independent draws from one distribution,
    given the fitted model, then with probability at least 1 - delta the local set of the new input,
    KL(q || c) <= -log alpha, holds the whole distribution p of its label. No assumption on the
    model, for every n.

    *Why.* Every label gets a weight w_b, which falls with the budget b = -log alpha, such that
    KL(p || c) > b implies E[w_b | input] >= 1, whatever p is: the page "Choosing alpha" has the
    weights and the proof, a few lines about the corners of a polytope. So the new input is
    missed with probability E[w_b] at most, for every fixed b. The budget taken is the least with
    w_b(1) + ... + w_b(n) + W_b <= delta (n + 1), where W_b is the largest possible weight. The
    least budget with w_b(1) + ... + w_b(n + 1) <= delta (n + 1) is no larger and treats all n + 1
    examples alike, so there the mean of w_b(n + 1) is delta at most; and weights fall with b.
    This is conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, 2022). The
    budget taken does not depend on the new label, so the implication above may be used at it.

    **With confidence.** The probability above is also over the n examples. With `confidence`, the
    alpha is such that with this probability over the n examples, the share of *new* inputs whose
    distribution is missed is at most delta. Budgets are tested from large to small, each by a bet
    against a mean weight of delta or more, until one fails.

    **What it does not say.** It is an average over all inputs: pass `groups` for one in each group.
    It is about the distribution that *these labels* are drawn from: if people would disagree where
    one source of labels does not, it is not about people. It is void if the model was fitted, or
    trained, on these examples, or if delta is picked after looking. And it is cautious: one label
    per input cannot tell a wrong prediction from an unlikely label, so that sets are wide
    where labels are noisy.

    Parameters
    ----------
    model : Decalibrator
        Fitted on other examples, with likelihood="mean" and `decal.Local` with a positive `mix`
        among its directions. Others only widen the box. Any reference, any `by_entropy`.
    logits : (n, K) array
        Held-out inputs, used neither for training nor to fit the model.
    labels : (n,) integers
        Their labels, one each.
    delta : float
        Accepted share of inputs whose distribution is missed, in [0, 1].
    confidence : float, optional
        In [0, 1]: wanted for the examples at hand rather than on average over such examples.
    entropy : float
        A lower bound, known beforehand, of the mean entropy of the true distributions, in nats, for
        instance by `entropy_from_annotations`. The mean divergence is the mean loss less this.
        Needs `confidence`, and constant budgets (no `by_entropy`). The better of two bounds is
        taken, each with half the error.
    threshold : float, optional
        Losses in nats, times the factor of the input with `by_entropy`, up to which a class counts
        as expected. By default it is planned on three tenths of the examples (at most 2000), drawn
        at random, and the alpha is chosen on the rest. A number fixed beforehand saves these.
    groups : (n,) integers or text, optional
        A group for every input: any function of the *input*, such as the predicted class.
        An alpha is chosen for each, and the guarantee holds within each.
    seed : int
        Of the random order of the examples.

    Returns
    -------
    Choice or GroupChoice
        `achieved` is the bound of the share of misses on the examples: (w(1) + ... + w(n) + W) /
        (n + 1), or with confidence the mean that the bets are about. `examples` are those that
        were not used to plan. If they are too few, or too often surprising, nothing can be
        excluded: alpha is 0, and the note says so.
        With groups, a mapping from the group to its choice, which predicts.

    See Also
    --------
    alpha_for_labels : A guarantee for decisions; any directions.
    alpha_for_coverage : Where the distributions of some inputs are known; narrower sets.

    Notes
    -----
    *Class-conditional* statements are of two kinds. Given the predicted class: use it as the
    group. Given the *true* class y of frequency f, a share of at most delta / f is missed, by
    definition of a conditional probability, so ask for delta f; labels alone cannot give more,
    since they do not show which distribution an example of class y came from.

    O(n K) time, and some forty evaluations of the weights of the surprising labels; some hundred
    with confidence.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(2000, 3))
    >>> labels = (logits + rng.gumbel(size=(2000, 3))).argmax(axis=1)
    >>> directions = [decal.Local(mix=0.001)]
    >>> d = decal.decalibrate(logits[:500], labels[:500], alpha=0.5, directions=directions)
    >>> decal.selection.alpha_for_distribution(d, logits[500:], labels[500:], 0.2)
    Choice: alpha 0.359834, miss bound 0.1999 on 1,050 examples, wanted at most 0.2
    """
    require_decalibrator(model)
    local = _local_of(model)
    require_same_order(logits=logits, labels=labels, groups=groups)
    z = model._new_inputs(logits, empty=False)
    y = check_labels(labels, rows=len(z), classes=z.shape[1], names=model.classes)
    require_possible_labels(z, y, probabilities=model.probabilities, floor=model.floor)
    delta = check_alpha(delta, "delta")
    error = None if confidence is None else 1 - check_alpha(confidence, "confidence")
    entropy = check_tolerance(entropy, "entropy")
    if entropy and (error is None or local.by_entropy is not None):
        fact = "no confidence" if error is None else f"by_entropy={local.by_entropy:g}"
        raise ValueError(
            f"entropy must be 0 unless there is a confidence and no by_entropy: got {entropy:g} "
            f"with {fact}."
        )
    losses = _losses(model, local, z, y)
    if threshold is not None:
        threshold = check_tolerance(threshold, "threshold")
        if threshold >= losses.vacuous_budget:
            raise ValueError(
                f"threshold must be less than {losses.vacuous_budget:.6g}, where nothing is "
                f"excluded: got {threshold:g}."
            )
    rng = np.random.default_rng(check_count(seed, "seed", least=0))

    def choose(rows: Indices) -> Choice:
        rows = rng.permutation(rows)
        if threshold is not None:
            return _choose(losses[rows], threshold, delta, error, entropy)
        used = min(int(PLANNING_SHARE * len(rows)), PLANNING_ROWS)
        rest = losses[rows[used:]]
        planning = losses[rows[:used]]
        planned = _planned(planning, delta, len(rest), error)
        return _choose(rest, planned, delta, error, entropy)

    return in_groups(choose, groups, len(z))


def _planned(losses: Losses, delta: float, examples: int, error: float | None) -> float:
    if not len(losses):
        return losses.vacuous_budget / 4
    return planned_threshold(losses, delta, examples=examples, error=error)


def _choose(
    losses: Losses, threshold: float, delta: float, error: float | None, entropy: float
) -> Choice:
    """The choice on examples that neither the model nor the threshold has seen."""
    n = len(losses)
    if delta == 1:
        return Choice(1.0, 1.0, delta, n, "miss bound")
    if error is None:
        found = least_budget(losses, threshold, delta)
    elif not entropy:
        found = least_budget_with_confidence(losses, threshold, delta, error)
    else:
        both = (
            least_budget_with_confidence(losses, threshold, delta, error / 2),
            least_budget_of_mean(losses, entropy, delta, error / 2),
        )
        found = min((bound for bound in both if bound is not None), default=None)
    if found is None or found[0] >= losses.vacuous_budget:
        few = delta * (n + 1) < 1 or error is not None
        why = f"{n} are too few" if few else "labels are too surprising"
        note = f"{why} for {delta:g}, nothing is excluded"
        return Choice(0.0, 0.0, delta, n, "miss bound", note)
    budget, bound = found
    return Choice(alpha_of_budget(budget), bound, delta, n, "miss bound")


def alpha_of_budget(budget: float) -> float:
    """The largest alpha we can write whose budget, -log alpha, is at least this one."""
    wanted = budget * (1 + ROUNDING)
    alpha = math.exp(-wanted)
    while alpha > 0 and -math.log(alpha) < wanted:
        alpha = math.nextafter(alpha, 0.0)
    return alpha


def _local_of(model: Decalibrator) -> Local:
    """The local direction of a model; ValueError if its sets can have no guarantee."""
    local = next((d for d in model.directions if isinstance(d, Local)), None)
    advice = "Fit it with directions=[decal.Local(mix=0.001)]."
    if local is None:
        names = ", ".join(repr(d.name) for d in model.directions)
        raise ValueError(f"model must have local sets: got the directions {names}. {advice}")
    if not local.mix:
        raise ValueError(
            "model must mix equal probabilities into its predictions, so that losses are bounded: "
            f"got mix=0. {advice}"
        )
    if model.likelihood != "mean":
        fact = f"{model.likelihood!r}, whose budgets are for all examples together"
        raise InputError("model", ("have ", Setting("likelihood", "mean")), fact)
    return local


def _losses(model: Decalibrator, local: Local, z: Logits, y: NDArray[np.intp]) -> Losses:
    reference = model.reference_model
    reference.require_rivals(z)
    inputs = Inputs(reference.scaled(z), reference.center, joint=False)
    of_classes, factor = local.losses(inputs)
    largest, least = local.largest_loss(z.shape[1]), local.least_factor()
    # Round-off must not lift a loss above the largest one.
    return Losses(
        np.where(of_classes < np.inf, np.minimum(of_classes, largest), np.inf),
        y,
        factor,
        largest,
        least,
    )


def entropy_from_annotations(annotations: Any, *, confidence: Any = 0.95, seed: int = 0) -> float:
    """A lower bound of the mean entropy of the distributions that annotators draw labels from.

    With probability `confidence` over the annotated inputs, the mean entropy of the true
    distributions is at least this. For `alpha_for_distribution`, whose statement then holds unless
    one of the two errs: the probabilities of that add up.

    *Why.* Two annotators of an input disagree with probability g = 1 - sum_k p_k^2, and the entropy
    is at least the broken line in g through the points (1 - 1/k, log k) of k equal probabilities
    (Harremoës and Topsøe, 2001). The line is convex, so the bound holds for the means of both, and
    it rises, so a lower bound of the mean disagreement will do: the largest one, in steps of 0.001,
    that a bet supports, as in `alpha_for_distribution`.

    Parameters
    ----------
    annotations : (n, A) integers
        Labels 0..K-1 by up to A annotators, -1 where one gave none; two or more in every row. They
        must be independent draws given the input.
    confidence : float
        In [0, 1].
    seed : int
        Of the random order of the examples.

    Returns
    -------
    float
        In nats. 0 if nothing can be said.

    Examples
    --------
    >>> import numpy as np, decal
    >>> votes = np.random.default_rng(0).integers(0, 2, size=(500, 2))  # entropy log 2 = 0.693
    >>> decal.selection.entropy_from_annotations(votes)
    0.61...
    """
    array = np.asarray(annotations)
    classes = int(array.max(initial=1)) + 1 if array.dtype.kind in "iu" else 2
    votes, _ = check_annotations(annotations, max(classes, 2))
    error = 1 - check_alpha(confidence, "confidence")
    given = (votes >= 0).sum(axis=1)
    if (given < 2).any():
        row = int((given < 2).argmax())
        raise ValueError(
            f"annotations must have two labels or more in every row: got {given[row]} in row "
            f"{row}. Leave such rows out."
        )
    counts = np.stack([(votes == k).sum(axis=1) for k in range(max(classes, 2))], axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (given * (given - 1))
    agreeing = np.random.default_rng(check_count(seed, "seed", least=0)).permutation(agreeing)
    rate = 0.0
    for step in range(1, ENTROPIES_TESTED):
        if not mean_is_below(agreeing, 1 - step / ENTROPIES_TESTED, most=1.0, error=error):
            break
        rate = step / ENTROPIES_TESTED
    k = np.arange(1, max(classes, 2))
    rise = k * (k + 1) * np.log1p(1 / k)  # of the line between k and k + 1 equal probabilities
    return float(np.max(np.log(k) + rise * (rate - (1 - 1 / k)), initial=0.0))
