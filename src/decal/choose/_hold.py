"""A guarantee for whole distributions, from labels alone: local sets that hold the truth.

Every label gets a weight w_b, which falls with the budget b = -log alpha, such that
KL(p || c) > b implies E[w_b | input] >= 1, whatever p is (`_surprises`). So a new input is missed
with probability E[w_b] at most, for every fixed b. The budget taken is the least with
w_b(1) + ... + w_b(n) + W_b <= delta (n + 1), where W_b is the largest possible weight. The least
budget with w_b(1) + ... + w_b(n + 1) <= delta (n + 1) is no larger and treats all n + 1 examples
alike, so there the mean of w_b(n + 1) is delta at most; and weights fall with b. This is conformal
risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, 2022). The budget taken does not depend
on the new label, so the implication above may be used at it. With confidence, budgets are tested
from large to small, each by a bet against a mean weight of delta or more, until one fails.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from decal._base.errors import InputError, Setting
from decal._base.settings import check_alpha, check_count, check_tolerance
from decal.choose._plausibility import complement
from decal.choose._promises import Choice, joined, row_groups
from decal.choose._surprises import (
    Losses,
    Plan,
    least_budget,
    least_budget_with_confidence,
    planned,
)
from decal.decalibrator import Decalibrator, require_decalibrator
from decal.directions import Inputs, Local
from decal.promise import Promise
from decal.rows import Rows, require_possible

PLANNING_SHARE = 0.3  # of the examples, those that a threshold is chosen on
PLANNING_ROWS = 2000  # how many these are at most
SEVERAL = (
    "this holds if the labels of an input are independent draws, and how many there are does not "
    "depend on what they say"
)
GIVEN = "this holds if labels are drawn from the distributions given, at least on average"
ROUNDING = 1e-12  # by how much a budget is rounded up, so that alpha stands for no less


def for_hold(
    model: Any,
    data: Rows,
    hold: float,
    *,
    confidence: Any,
    threshold: float | Plan | None,
    groups: Any,
    seed: int,
) -> Choice:
    """A large alpha whose local sets hold the true distributions of this share of new inputs."""
    require_decalibrator(model)
    local = _local_of(model)
    require_possible(data, model.schema(model.fitted), data.place)
    if confidence is not None:
        confidence = check_alpha(confidence, "confidence")
    delta, error = complement(hold), None if confidence is None else 1 - confidence
    losses = _losses(model, local, data)
    condition = () if data.votes is None else (SEVERAL if data.votes.counted else GIVEN,)
    given = threshold if isinstance(threshold, Plan) else None
    if threshold is not None and given is None:
        given = Plan(check_tolerance(threshold, "threshold"))
        if given.threshold >= losses.vacuous_budget:
            rule = f"be less than {losses.vacuous_budget:.6g}, where nothing is excluded"
            raise InputError("threshold", rule, f"{threshold:g}")
    rng = np.random.default_rng(check_count(seed, "seed", least=0))

    choices = {}
    for group, rows in row_groups(groups, len(data)).items():
        drawn = rng.permutation(rows)
        plan, used = given, 0
        if plan is None:
            used = min(int(PLANNING_SHARE * len(drawn)), PLANNING_ROWS)
            examples = len(drawn) - used
            _, plan = planned(losses[drawn[:used]], delta, examples=examples, error=error)
        rest = losses[drawn[used:]]
        budget, bound, note = _least_budget(rest, plan, delta, error)
        notes = (note,) if note else condition if group is None else ()
        promise = Promise("hold", hold, len(rest), notes=notes, confidence=confidence)
        choices[group] = Choice(alpha_of_budget(budget), complement(bound), promise, model)
    return joined(choices, condition)


def plan_for(model: Decalibrator, rows: Rows, hold: float, examples: int) -> tuple[float, Plan]:
    """An alpha that seems within reach of so many other `examples`, and a plan of how."""
    losses = _losses(model, _local_of(model), rows)
    budget, plan = planned(losses, complement(hold), examples=examples)
    return alpha_of_budget(budget), plan


def _least_budget(
    losses: Losses, plan: Plan, delta: float, error: float | None
) -> tuple[float, float, str]:
    """The budget, the bound of the share of misses there, and a note if nothing is excluded.

    On examples that neither the model nor the plan has seen.
    """
    if delta == 1:
        return 0.0, 1.0, ""
    if error is None:
        found = least_budget(losses, plan, delta)
    else:
        found = least_budget_with_confidence(losses, plan, delta, error)
    if found is None or found[0] >= losses.vacuous_budget:
        n = len(losses)
        few = delta * (n + 1) < 1 or error is not None
        why = f"{n} are too few" if few else "the model finds the labels too unlikely"
        return math.inf, 0.0, f"{why} for {complement(delta):g}, nothing is excluded"
    return *found, ""


def alpha_of_budget(budget: float) -> float:
    """The largest alpha we can write whose budget, -log alpha, is at least this one."""
    wanted = budget * (1 + ROUNDING)
    alpha = math.exp(-wanted)
    while alpha > 0 and -math.log(alpha) < wanted:
        alpha = math.nextafter(alpha, 0.0)
    return alpha


def _local_of(model: Decalibrator) -> Local:
    """The local direction of a model; InputError if its sets can have no guarantee."""
    local = next((d for d in model.directions if isinstance(d, Local)), None)
    remedy = "Fit it with directions=[decal.Local(mix=0.001)]."
    if local is None:
        names = ", ".join(repr(d.name) for d in model.directions)
        raise InputError("model", "have local sets", f"the directions {names}", remedy)
    if not local.mix:
        rule = "mix equal probabilities into its predictions, so that losses are bounded"
        raise InputError("model", rule, "mix=0", remedy)
    if model.likelihood != "mean":
        fact = f"{model.likelihood!r}, whose budgets are for all examples together"
        raise InputError("model", ("have ", Setting("likelihood", "mean")), fact)
    return local


def _losses(model: Decalibrator, local: Local, data: Rows) -> Losses:
    if not isinstance(data.logits, np.ndarray):
        fact = f"{type(data.logits).__name__}, without the loss of every class"
        remedy = "Wish for miss or width."
        raise InputError("logits", "be a matrix of all classes for hold", fact, remedy)
    reference = model.reference_model
    reference.require_rivals(data.logits)
    inputs = Inputs(reference.scaled(data.logits), reference.center, joint=False)
    of_classes, factor = local.losses(inputs)
    largest, least = local.largest_loss(data.shape[1]), local.least_factor()
    # Round-off must not lift a loss above the largest one.
    bounded = np.where(of_classes < np.inf, np.minimum(of_classes, largest), np.inf)
    return Losses(bounded, data.labels, factor, largest, least, data.votes)
