"""Weights of several labels per input: by enumeration of all that can be drawn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decal import Votes
from decal.choose._surprises import Losses, Plan, divergence_of_labels, least_budget, planned
from helpers.strategies import at_most
from oracles import surprises as oracle
from oracles.votes import draws

MIX = 0.01
ALL_TOGETHER, ONE_BY_ONE = 0, math.inf


def center(rng, K, masked=0):
    """-log c of one input, with so many masked classes."""
    p = rng.dirichlet(np.full(K - masked, rng.choice([0.2, 1.0])))
    return np.append(-np.log((1 - MIX) * p + MIX / (K - masked)), np.full(masked, np.inf))


def every_draw(losses, m, factor=1.0):
    """A row for every result of m labels that are not masked, in the order of `draws`."""
    seen = np.isfinite(losses)
    counts = np.zeros((0, len(losses)))
    for given_counts, _ in draws(m, np.full(seen.sum(), 0.5)):
        row = np.zeros(len(losses))
        row[seen] = given_counts
        counts = np.vstack([counts, row])
    n = len(counts)
    least = min(factor, 0.1)
    each = np.broadcast_to(losses, (n, len(losses)))
    largest = math.log(len(losses) / MIX)
    return Losses(each, None, np.full(n, factor), largest, least, Votes.of_counts(counts))


def mean(weights, m, p):
    return sum(w * chance for w, (_, chance) in zip(weights, draws(m, p), strict=True))


def distributions(rng, K, tries=40):
    """Scattered ones, and some on edges of the simplex."""
    yield from rng.dirichlet(np.full(K, 0.3), size=tries)
    for _ in range(tries):
        p = np.zeros(K)
        j, k = rng.choice(K, size=2, replace=False)
        p[k] = rng.random()
        p[j] += 1 - p[k]
        yield p


@at_most(40)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 6))
def test_the_mean_of_what_labels_say_is_at_least_the_divergence(seed, K, m):
    rng = np.random.default_rng(seed)
    losses = center(rng, K)
    rows = every_draw(losses, m)
    found = divergence_of_labels(rows.of_classes, rows.votes)
    for value, (counts, _) in zip(found, draws(m, np.ones(K)), strict=True):
        harmonic = [sum(1 / j for j in range(n, m)) if n else 0.0 for n in counts]
        expected = sum(n / m * (x - h) for n, x, h in zip(counts, losses, harmonic, strict=True))
        assert value == pytest.approx(expected, abs=1e-12)
        assert value <= oracle.divergence(np.array(counts) / m, losses) + 1e-12 <= losses.max() + 1
    for p in distributions(rng, K, tries=5):
        average = mean(found, m, p)
        # Zhang's series, of which the first m - 1 terms are seen.
        entropy = sum((p * (1 - p) ** v).sum() / v for v in range(1, m))
        assert average == pytest.approx(p @ losses - entropy, abs=1e-10)
        assert average >= oracle.divergence(p, losses) - 1e-10


@at_most(60)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.integers(1, 5),
    st.floats(0.02, 2.0),
    st.floats(0.02, 3.0),
    st.sampled_from([ALL_TOGETHER, ONE_BY_ONE]),
    st.sampled_from([1.0, 0.3, 1.7]),
)
def test_a_truth_outside_of_its_ball_weighs_one_or_more_on_average(
    seed, K, m, threshold, budget, alone, factor
):
    rng = np.random.default_rng(seed)
    masked = int(rng.integers(0, 2)) if K > 2 else 0
    losses = center(rng, K, masked)
    weights, most = every_draw(losses, m, factor).weighed(Plan(threshold, alone)).at_one(budget)
    assert weights.min() >= 0
    assert weights.max() <= most * (1 + 1e-9)
    for p in distributions(rng, K - masked):
        if oracle.divergence(p, losses[: K - masked]) > budget * factor:
            assert mean(weights, m, p) >= 1 - 1e-9


def test_no_budget_up_to_the_threshold_is_taken_however_large_that_is():
    rows = every_draw(-np.log([0.6, 0.4]), 3)
    for threshold in (1.0, rows.vacuous_budget * (1 - 1e-15)):
        weighed = rows.weighed(Plan(threshold, ALL_TOGETHER))
        weights, most = weighed.at(np.array([0.0, threshold / 2, threshold]))
        assert weights.min() >= 1
        assert most.min() >= 1
    found = least_budget(rows, Plan(threshold, ALL_TOGETHER), 0.5)
    assert found is None or found[0] > threshold


@pytest.mark.parametrize("alone", [ALL_TOGETHER, ONE_BY_ONE])
@pytest.mark.parametrize("K", [2, 3])
def test_that_holds_on_a_grid_of_all_truths(alone, K):
    losses = -np.log([0.9, 0.07, 0.03][:K]) if K == 3 else -np.log([0.95, 0.05])
    steps = np.linspace(0, 1, 41)
    grid = [(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1]
    grid = [(a, 1 - a) for a in np.linspace(0, 1, 400)] if K == 2 else grid
    for m in (1, 2, 5):
        rows = every_draw(losses, m)
        for budget in (0.3, 1.0, 2.0):
            weights, _ = rows.weighed(Plan(0.2, alone)).at_one(budget)
            outside = [p for p in grid if oracle.divergence(p, losses) > budget]
            assert min(mean(weights, m, np.abs(p)) for p in outside) >= 1 - 1e-9


def mixed(seed, n=60, K=3, single=0.5):
    """Rows of which some have one label, and others up to six."""
    rng = np.random.default_rng(seed)
    of_classes = np.array([center(rng, K) for _ in range(n)])
    m = np.where(rng.random(n) < single, 1, rng.integers(2, 7, n))
    p = np.exp(-0.7 * of_classes)
    p /= p.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(m[i], p[i]) for i in range(n)])
    factor = rng.uniform(0.5, 2.0, n)
    return Losses(of_classes, None, factor, math.log(K / MIX), 0.5, Votes.of_counts(counts)), m


def test_rows_with_one_label_among_others_keep_their_weights():
    losses, m = mixed(0)
    budget, single = 1.2, np.flatnonzero(m == 1)
    weights, most = losses.weighed(Plan(0.4, 1)).at_one(budget)
    for i in range(len(losses)):
        h = losses.factor[i]
        if m[i] == 1:
            label = int(losses.votes.counts[i].argmax())
            expected = oracle.weight(losses.of_classes[i], label, 0.4 * h, budget * h)
        else:
            v = divergence_of_labels(losses.of_classes[[i]], losses.votes[[i]])[0]
            expected = max(v / h - 0.4, 0) / (budget - 0.4)
        assert weights[i] == pytest.approx(expected, rel=1e-8)
        assert weights[i] <= most
    labels = losses.votes.counts[single].argmax(axis=1)
    alone = Losses(losses.of_classes[single], labels, losses.factor[single], losses.largest, 0.5)
    np.testing.assert_allclose(alone.weighed(Plan(0.4)).at_one(budget)[0], weights[single])


def test_one_by_one_is_the_mean_of_the_weights_of_each_label():
    losses, _ = mixed(1)
    for budget in (0.2, 1.0, 3.0):
        weights, _ = losses.weighed(Plan(0.5, ONE_BY_ONE)).at_one(budget)
        for i, counts in enumerate(losses.votes.counts.astype(int)):
            h = losses.factor[i]
            each = [
                n * oracle.weight(losses.of_classes[i], k, 0.5 * h, budget * h)
                for k, n in enumerate(counts)
            ]
            assert weights[i] == pytest.approx(sum(each) / counts.sum(), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("alone", [0, 1, math.inf])
def test_weights_fall_with_the_budget_and_none_is_above_the_largest(alone):
    losses, _ = mixed(2)
    weighed = losses.weighed(Plan(0.3, alone))
    budgets = np.linspace(0.31, losses.vacuous_budget, 20)
    weights, most = weighed.at(budgets)
    assert (np.diff(weights, axis=0) <= 1e-9).all()
    assert (np.diff(most) <= 1e-9).all()
    assert (weights.max(axis=1) <= most * (1 + 1e-9)).all()
    for i, budget in enumerate(budgets):
        one, largest = weighed.at_one(budget)
        np.testing.assert_allclose(one, weights[i])
        assert largest == pytest.approx(most[i])


def test_the_budget_is_the_least_whose_weights_sum_to_little_enough():
    losses, _ = mixed(3, n=300)
    for alone in (0, 1, math.inf):
        plan = Plan(1.5, alone)
        budget, bound = least_budget(losses, plan, 0.6)

        def definition(b, plan=plan):
            weights, most = losses.weighed(plan).at_one(b)
            return (weights.sum() + most) / (len(losses) + 1)

        assert bound == pytest.approx(definition(budget))
        assert definition(budget) <= 0.6 < definition(budget - 2**-14 * losses.vacuous_budget)


def test_plans_are_of_the_kinds_that_may_help_and_the_best_is_taken():
    losses, _ = mixed(4, n=200)
    assert losses.plans() == [0, 1, math.inf]
    several, _ = mixed(4, n=200, single=0.0)
    assert several.plans() == [0, math.inf]
    alone, _ = mixed(4, n=200, single=1.0)
    assert alone.plans() == [1]
    budget, plan = planned(several, 0.3, examples=400)
    assert 0 < plan.threshold < budget < several.vacuous_budget


def test_distributions_weigh_what_they_are_outside_of():
    losses = center(np.random.default_rng(5), 3)
    p = np.random.default_rng(6).dirichlet(np.ones(3), 50)
    rows = Losses(
        np.tile(losses, (50, 1)), None, np.ones(50), math.log(3 / MIX), 1.0,
        Votes.of_distributions(p),
    )  # fmt: skip
    kl = np.array([oracle.divergence(row, losses) for row in p])
    weights, _ = rows.weighed(Plan(0.3, 0)).at_one(0.8)
    np.testing.assert_allclose(weights, np.maximum(kl - 0.3, 0) / 0.5, atol=1e-12)
