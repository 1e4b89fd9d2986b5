"""What does not make guaranteed sets narrower: learnt budgets, and Bernoulli prediction sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal_lab.experiments.harness.voted_inputs import Voted, measured

Array = NDArray[np.float64]
CONSTANT, BY_ENTROPY, LEARNT = "constant", "by entropy", "learnt"
BUDGETS = (CONSTANT, BY_ENTROPY, LEARNT)
"""What budgets depend on."""

MIX, ROOM, RADIUS, MISS = 0.001, 0.05, 0.1, 0.1
PLANNING_SHARE, THRESHOLDS = 0.3, 240


def budgeted(
    logits: NDArray[Any], votes: decal.Votes, new: Voted, delta: float, seed: int, *, kind: str
) -> dict[str, float]:
    """Sets with budgets b h(x) by the bound of Markov and Jensen, for h of some kind.

    With v = KL(shares || c) and A = log(K / mix), for every s that other rows choose,
    b = s + (sum (v / h - s)+ + A / min h - s) / ((n + 1) delta).
    """
    rng = np.random.default_rng([seed, 7])
    order = rng.permutation(len(logits))
    first, rest = np.split(order, [int(PLANNING_SHARE * len(order))])
    local = decal.Local(mix=MIX)
    model = decal.decalibrate(
        logits[first], votes[first], alpha=0.5, directions=[local], reference="auto"
    )
    known, there = model.predict_ball(logits), model.predict_ball(new.logits)
    v = known.divergence(votes.shares)
    h, h_new = shapes(kind, known.center, there.center, v, first)
    most, n = (
        math.log(known.shape[1] / MIX) / (math.sqrt(ROOM) if kind != CONSTANT else 1),
        len(rest),
    )

    def budget(ratios: Array, s: float) -> float:
        mean = float(np.maximum(ratios - s, 0).mean())
        return s + (n * mean + most - s) / ((n + 1) * delta)

    grid = np.linspace(0, most, THRESHOLDS, endpoint=False)
    s = min(grid, key=lambda s: budget((v / h)[first], s))
    b = budget((v / h)[rest], float(s))
    return measured(decal.KLCredalSet(there.center, b * h_new), new)


def shapes(
    kind: str, center: Array, new: Array, v: Array, first: NDArray[np.intp]
) -> tuple[Array, Array]:
    """How budgets depend on known and on new inputs: not at all, fixed beforehand, or learnt."""
    if kind == CONSTANT:
        return np.ones(len(center)), np.ones(len(new))
    if kind == BY_ENTROPY:
        return np.sqrt(_entropy(center) + ROOM), np.sqrt(_entropy(new) + ROOM)
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    def seen(c: Array) -> Array:
        return np.column_stack([c, np.sort(c, axis=1), _entropy(c)])

    learner = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=8, random_state=0)
    X = seen(center)
    fitted = learner.fit(X[first], v[first])
    expected = fitted.predict(X)
    expected[first] = cross_val_predict(learner, X[first], v[first], cv=5)
    h, h_new = (np.sqrt(np.maximum(e, 0) + ROOM) for e in (expected, fitted.predict(seen(new))))
    return h, h_new


def _entropy(c: Array) -> Array:
    return np.asarray(-(c * np.log(np.where(c > 0, c, 1.0))).sum(axis=1))


def same_as_aps(known: Voted, new: Voted, seed: int) -> float:
    """How many new inputs have the same classes in conformal Bernoulli sets and in those of APS.

    Both take the most probable classes until they have enough, Bernoulli sets in every distribution
    of a ball of constant radius, APS in its center; enough is what a label missed by few needs.
    """
    labels = known.drawn("1", np.random.default_rng([seed, 3])).counts.argmax(axis=1)
    kept = []
    for robust in (True, False):
        (scores, order), (reached, _) = (_reached(part.logits, robust) for part in (known, new))
        own = np.sort(scores[order == labels[:, None]])
        k = math.floor(MISS * (len(own) + 1))
        kept.append(reached <= own[-k])
    return float((kept[0] == kept[1]).all(axis=1).mean())


def _reached(logits: NDArray[Any], robust: bool) -> tuple[Array, NDArray[np.intp]]:
    """(n, K) what the 1, 2, ... most probable classes have, and (n, K) which these are."""
    z = logits.astype(np.float64)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    order = np.argsort(-p, axis=1, kind="stable")
    ball = decal.KLCredalSet(np.take_along_axis(p, order, axis=1), RADIUS if robust else 0.0)
    return ball.cumulative()[0], order
