"""How much a label says against a ball: weights whose mean bounds how often balls miss the truth.

Let c be the center of the ball of an input, and l_k = -log c_k the loss of class k. Class k is
*expected* if l_k <= s; let a be the largest loss of an expected class. A label y weighs

    w(y) = 0      if it is expected and a <= b,
           1      if it is expected and a > b, or if no class is expected,
           1 / m  else: m is the largest share of y in a mixture of two classes, y and one of
                  loss a, whose divergence from c is at most the budget b, or a if that is larger.

For every distribution p: if KL(p || c) > b, then sum_k p_k w(k) >= 1 (docs/evidence_promises.md
has the proof). So for labels drawn from the truth p, P(KL(p || c) > b) <= E w(y), averaged over
inputs. The weights fall with b, since m grows with it; they grow with l_y, and with a up to a = b.
All of this holds with budgets b h and thresholds s h for a factor h that depends on the input.

Of several labels there are two kinds of weights: the mean of those of each, or what their shares
say about the divergence, see `Divergences`. Which is used, and from how many labels on, may depend
on anything but these labels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.bernoulli import largest_log_odds
from decal._base.numerics import Array, Indices, softplus
from decal.votes import Votes

BUDGETS_TESTED, LEAST_BUDGET_TESTED, TESTED_AT_ONCE = 256, 1e-3, 16
"""Budgets at which a statement with confidence is tested, in equal ratios, and the last as a share
of the first, which is the largest budget: each is 2.7 % below the one before."""

BUDGET_TOLERANCE = 2.0**-14  # as a share of the largest budget: some 0.0005 nats
CLOSEST = 1e-12  # of the largest budget: budgets nearer to their threshold count as below it
PLANNING_TOLERANCE = 2.0**-9  # that of the budget while a threshold is planned


@dataclass(frozen=True)
class Plan:
    """How labels are weighed: fixed before one looks at them.

    Attributes
    ----------
    threshold : float
        Losses, or divergences, in nats up to which labels weigh nothing.
    alone : float
        Inputs with at most so many labels get the mean of the weights of each.
    """

    threshold: float
    alone: float = 1


@dataclass(frozen=True)
class Losses:
    """What centers of balls lose on labels."""

    of_classes: Array  # (n, K): -log c_k, inf where a class is masked
    labels: NDArray[np.intp] | None  # (n,); None if there are several per input
    factor: Array  # (n,): what budget and threshold of each input are multiplied by
    largest: float  # no loss of an unmasked class can be larger
    least_factor: float  # no factor can be smaller
    votes: Votes | None = None  # several labels per input, in place of `labels`

    def __len__(self) -> int:
        return len(self.factor)

    def __getitem__(self, rows: NDArray[np.intp]) -> Losses:
        names = "of_classes", "labels", "factor", "votes"
        given = {name: getattr(self, name) for name in names}
        parts: dict[str, Any] = {k: None if v is None else v[rows] for k, v in given.items()}
        return replace(self, **parts)

    @property
    def vacuous_budget(self) -> float:
        """From this budget on, every ball is the whole simplex."""
        return self.largest / self.least_factor

    def each(self) -> tuple[Indices, Indices, Array]:
        """All labels that differ: their inputs, classes, and shares among the input's labels."""
        if self.votes is None:
            assert self.labels is not None
            return np.arange(len(self)), self.labels, np.ones(len(self))
        shares = self.votes.shares
        row, label = np.nonzero(shares)
        return row, label, shares[row, label]

    def weighed(self, plan: Plan) -> Weights:
        """The weights of the labels by budget; the plan must not depend on these labels."""
        few = np.array([True]) if self.votes is None else self.votes.number <= plan.alone
        if few.all():
            return Surprises(self, plan.threshold)
        return Both(self, few, plan.threshold) if few.any() else Divergences(self, plan.threshold)

    def plans(self) -> list[float]:
        """From how many labels on divergences may be better."""
        if self.votes is None or (self.votes.number == 1).all():
            return [1]
        return [0, 1, math.inf] if (self.votes.number == 1).any() else [0, math.inf]


class Weights(ABC):
    """The weights of inputs by budget: a mean of more than the promise shows that it is broken."""

    @abstractmethod
    def at(self, budgets: Array) -> tuple[Array, Array]:
        """(B, n) the weights at several budgets, and (B,) bounds of any weight."""

    def at_one(self, budget: float) -> tuple[Array, float]:
        """(n,) the weights at one budget, and a bound of any weight."""
        weights, most = self.at(np.array([budget]))
        return weights[0], float(most[0])


class Surprises(Weights):
    """The weights of labels by budget, of several per input their mean."""

    def __init__(self, losses: Losses, threshold: float) -> None:
        self.threshold = threshold
        limit = (threshold * losses.factor)[:, None]
        expected = np.where(losses.of_classes <= limit, losses.of_classes, -np.inf)
        last = expected.max(axis=1)
        row, label, share = losses.each()
        loss = losses.of_classes[row, label]
        # The largest loss expected in units of the budget; without any, no budget reaches it.
        self._reached = np.where(np.isneginf(last), np.inf, last / losses.factor)
        unexpected = np.isfinite(last[row]) & (loss > limit[row, 0])
        self._row, self._share = row[unexpected], share[unexpected]
        self._rest = np.maximum(1.0 - np.bincount(self._row, self._share, len(losses)), 0.0)
        # The last entry is the worst that could happen, see `at`.
        self._last = np.append(last[self._row], 0.0)
        self._loss = np.append(loss[unexpected], losses.largest)
        self._factor = np.append(losses.factor[self._row], losses.least_factor)

    def at(self, budgets: Array) -> tuple[Array, Array]:
        """As of all `Weights`. The largest is that of the largest loss with the least factor.

        Budget and expected losses shrink in proportion with the factor, and with them the share m.
        """
        b = np.asarray(budgets, dtype=np.float64)[:, None]
        last = np.broadcast_to(self._last, (len(b), len(self._last))).copy()
        last[:, -1] = np.minimum(self.threshold, b[:, 0]) * self._factor[-1]
        unexpected = weight(last, self._loss, b * self._factor)
        found = np.where(self._reached > b, self._rest, 0.0)
        for weights, given in zip(found, unexpected * np.append(self._share, 1.0), strict=True):
            weights += np.bincount(self._row, given[:-1], len(weights))
        return found, unexpected[:, -1]


class Divergences(Weights):
    """The weights of inputs with several labels, by budget: (v / h - s)+ / (b - s).

    v is `divergence_of_labels`, h the factor of the input and s the threshold. On average v is
    at least KL(p || c), and (.)+ is convex, so that E w >= 1 if KL(p || c) > b h, as b > s. At
    budgets up to s every input weighs 1 or more, so that none is taken.
    """

    def __init__(self, losses: Losses, threshold: float) -> None:
        assert losses.votes is not None
        self.threshold = threshold
        v = divergence_of_labels(losses.of_classes, losses.votes)
        self._excess = np.maximum(v / losses.factor - threshold, 0.0)
        self._most = losses.vacuous_budget - threshold
        self._least = CLOSEST * losses.vacuous_budget

    def at(self, budgets: Array) -> tuple[Array, Array]:
        """As of all `Weights`."""
        room = np.asarray(budgets, dtype=np.float64) - self.threshold
        below = room < self._least
        room = np.where(below, self._least, room)
        return self._excess / room[:, None] + below[:, None], self._most / room + below


class Both(Weights):
    """The weights of inputs with few labels, which are `Surprises`, and of the others."""

    def __init__(self, losses: Losses, few: NDArray[np.bool_], threshold: float) -> None:
        parts = np.flatnonzero(few), np.flatnonzero(~few)
        self._order = np.argsort(np.concatenate(parts))
        self._few = Surprises(losses[parts[0]], threshold)
        self._many = Divergences(losses[parts[1]], threshold)

    def at(self, budgets: Array) -> tuple[Array, Array]:
        """As of all `Weights`."""
        few, many = self._few.at(budgets), self._many.at(budgets)
        return np.hstack([few[0], many[0]])[:, self._order], np.maximum(few[1], many[1])


def divergence_of_labels(losses: Array, votes: Votes) -> Array:
    """(n,) numbers whose mean, over draws of an input's labels, is at least KL(p || c).

    With n_k of m labels for class k: sum_k n_k/m (l_k - (1/n_k + ... + 1/(m-1))). The harmonic sums
    estimate the entropy of p from below (Zhang, 2012), and are never smaller than the entropy of
    the shares, so that this is at most KL(shares || c), which it is for distributions. Of one label
    it is its loss. docs/evidence_promises.md has the proof.
    """
    n, p = votes.counts, votes.shares
    some = p > 0
    if votes.counted:
        sums = np.concatenate([[0.0, 0.0], np.cumsum(1 / np.arange(1, n.sum(axis=1).max() + 1))])
        whole = n.astype(np.intp)
        surprise = sums[whole.sum(axis=1)][:, None] - sums[whole]
    else:
        surprise = -np.log(np.where(some, p, 1.0))
    return np.asarray((p * np.where(some, np.where(some, losses, 0.0) - surprise, 0.0)).sum(axis=1))


def weight(last: Array, loss: Array, budget: Array | float) -> Array:
    """1 / m: how much a label counts that was not expected, arrays of one shape.

    `last` is the largest loss of an expected class, `loss` that of the label, which is larger, and
    `budget` what the divergence may be, if that is not less than `last`. With odds c_y to c_j of
    the label against the last expected class, of loss a, the divergence of a mixture is
    kl(m || c_y / (c_y + c_j)) - log(c_y + c_j), and -log(c_y + c_j) is a - softplus(a - l_y): a
    question about two outcomes.
    """
    log_odds = last - loss
    share = largest_log_odds(log_odds, np.maximum(budget - last, 0.0) + softplus(log_odds))
    return 1.0 + np.exp(-share)


def least_budget(losses: Losses, plan: Plan, delta: float) -> tuple[float, float] | None:
    """The least budget at which weights, and the largest one, sum to at most delta (n + 1).

    And the bound of the share of misses there.
    """
    surprises, n = losses.weighed(plan), len(losses)

    def bound(budget: float) -> float:
        weights, most = surprises.at_one(budget)
        return float((weights.sum() + most) / (n + 1))

    found = _least(bound, delta, losses.vacuous_budget, BUDGET_TOLERANCE)
    return None if found is None else (found, bound(found))


def least_budget_with_confidence(
    losses: Losses, plan: Plan, delta: float, error: float
) -> tuple[float, float] | None:
    """The least budget down to which every test shows that the mean weight is at most delta.

    And that mean.
    """
    surprises = losses.weighed(plan)

    def shown(budgets: Array) -> Iterator[bool]:
        for weights, most in zip(*surprises.at(budgets), strict=True):
            yield mean_is_below(weights, delta, most=float(most), error=error)

    budget = _last_shown(shown, losses.vacuous_budget)
    return None if budget is None else (budget, float(surprises.at_one(budget)[0].mean()))


def planned(
    losses: Losses, delta: float, *, examples: int, error: float | None = None
) -> tuple[float, Plan]:
    """The least budget that a plan promises for so many other examples, and the plan.

    `delta` is the accepted share of misses, `error` one minus the confidence.
    """
    high = losses.vacuous_budget
    best = high, Plan(high / 4)  # if nothing is promising
    if not len(losses):
        return best
    # Plan with caution: labels that are not expected weigh 1 or more at every budget, so that a
    # threshold that turns out too low spoils everything, and one too high does not.
    error_of_mean = math.sqrt(1 / len(losses) + 1 / examples)
    thresholds = high * np.geomspace(2.0**-12, 1.0, 33)[:-1]
    for plan in (Plan(float(s), alone) for alone in losses.plans() for s in thresholds):
        surprises = losses.weighed(plan)

        def bound(budget: float, surprises: Weights = surprises) -> float:
            w, most = surprises.at_one(budget)
            mean, deviation = float(w.mean()), float(w.std())
            mean += error_of_mean * deviation
            if error is None:
                return float(mean + most / examples)
            if error == 0:
                return math.inf
            steps = math.log(1 / error) / examples
            return float(mean + math.sqrt(2 * steps) * deviation + steps * most / 3)

        if isinstance(surprises, Divergences) and delta > 0:
            # Their weights fall like 1 / (budget - threshold), and the bound does.
            found: float | None = plan.threshold + bound(plan.threshold + 1) / delta
        else:
            found = _least(bound, delta, best[0], PLANNING_TOLERANCE)
        best = best if found is None or found >= best[0] else (found, plan)
    return best


def mean_is_below(values: Array, bound: float, *, most: float, error: float) -> bool:
    """Whether (n,) independent draws from [0, most] show that their mean is below a bound.

    If it is not, the answer is True with probability `error` at most. A player starts with 1 and
    stakes a share of his wealth on every number being small: number x, in units of `most`,
    multiplies it by 1 - lambda (x - mu), where mu is the bound. If the mean is mu or more, no
    lambda >= 0 that looks only at earlier numbers makes wealth grow on average, and by Ville's
    inequality it ever reaches 1 / error with probability `error` at most. Stakes are those of
    Waudby-Smith and Ramdas (2023, section 4.3), with variance counted from mu (1 - mu).
    """
    if bound >= most or error >= 1:
        return True
    if bound <= 0 or error <= 0 or not len(values):
        return False
    n, mu = len(values), bound / most
    x = values / most
    count = np.arange(2, n + 2)
    mean = (mu + np.cumsum(x)) / count
    variance = (mu * (1 - mu) + np.cumsum((x - mean) ** 2)) / count
    before = np.concatenate([[mu * (1 - mu)], variance[:-1]])
    wanted = math.log(1 / error)
    # No step may lose more than three quarters of the wealth.
    stake = np.minimum(np.sqrt(2 * wanted / (n * before)), 0.75 / (1 - mu))
    wealth = np.cumsum(np.log1p(-stake * (x - mu)))
    return bool(wealth.max() >= wanted)


def _least(
    bound: Callable[[float], float], target: float, high: float, tolerance: float
) -> float | None:
    """The least budget whose bound, a falling function, meets the target; None if `high` does not.

    By interpolation, with halvings as bounds may jump; at most tolerance * high too large.
    """
    reached = bound(high)
    if not reached <= target:
        return None
    room = tolerance * high
    low, missed, halve = 0.0, bound(0.0), False
    if missed <= target:
        return low
    while high - low > room:
        part = 0.5 if halve else (missed - target) / (missed - reached)
        width = high - low
        # A little beyond the estimate, so that both ends move.
        middle = low + min(max(part * width + room / 2, room / 4), width - room / 4)
        found = bound(middle)
        if found <= target:
            high, reached = middle, found
        else:
            low, missed = middle, found
        halve = high - low > width / 2
    return high


def _last_shown(shown: Callable[[Array], Iterator[bool]], high: float) -> float | None:
    """The last of falling budgets that are shown to be enough one after the other, or None.

    A budget that is not enough is accepted only if the first one like it is, so that the
    probability of a mistake is that of a single test.
    """
    budgets = high * np.geomspace(1.0, LEAST_BUDGET_TESTED, BUDGETS_TESTED)
    found = None
    for some in np.split(budgets, BUDGETS_TESTED // TESTED_AT_ONCE):
        for budget, enough in zip(some, shown(some), strict=True):
            if not enough:
                return found
            found = float(budget)
    return found
