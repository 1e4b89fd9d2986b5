"""A guarantee for whole distributions: weights, bets and budgets against their definitions, the
theorem in worlds whose truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

import decal
from decal.choose import Choice, Promise
from decal.choose._hold import alpha_of_budget
from decal.choose._surprises import Losses, Surprises, mean_is_below, planned
from helpers.strategies import at_most, labelled_logits
from oracles import surprises as oracle

MIX = 0.01


def model_of(z, y=None, *, mix=MIX, by_entropy=None, root=False, **settings):
    """A model with local sets; what it is fitted on matters only for other references."""
    directions = [decal.Local(mix=mix, by_entropy=by_entropy, root=root)]
    labels = np.arange(len(z)) % z.shape[1] if y is None else y
    return decal.decalibrate(z, labels, alpha=0.5, **{"directions": directions} | settings)


def sample(seed, n, K=4):
    """Logits of an overconfident model, true distributions, labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = 5 * rng.normal(size=(n, K))
    truth = np.exp(log_softmax(0.7 * logits, axis=1))
    return logits, truth, (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def literal_losses(z, mix, by_entropy=None):
    """-log c row by row, and the factors on the budget; masked classes are left out of c."""
    losses, factors = np.full(z.shape, np.inf), np.ones(len(z))
    for i, row in enumerate(z.astype(float)):
        seen = row > -np.inf
        p = np.exp(row[seen] - row[seen].max())
        c = (1 - mix) * p / p.sum() + mix / seen.sum()
        losses[i, seen] = -np.log(c)
        if by_entropy is not None:
            factors[i] = by_entropy - (c * np.log(c)).sum()
    return losses, factors


def losses_of(z, y, by_entropy=None):
    of_classes, factor = literal_losses(z, MIX, by_entropy)
    largest = math.log(z.shape[1] / MIX)
    least = 1.0 if by_entropy is None else by_entropy + oracle.entropy([1 - MIX / 2, MIX / 2])
    return Losses(of_classes, y, factor, largest, least)


def outside(rng, losses, budget, tries=200):
    """Distributions outside of a ball: scattered ones, and some on edges of the simplex."""
    K = len(losses)
    found = []
    for p in rng.dirichlet(np.full(K, 0.3), size=tries):
        if oracle.divergence(p, losses) > budget:
            found.append(p)
    for _ in range(tries):
        j, k = rng.choice(K, size=2, replace=False)
        p = np.zeros(K)
        p[k] = rng.random()
        p[j] = 1 - p[k]
        if oracle.divergence(p, losses) > budget:
            found.append(p)
    return found


# Weights


@at_most(60)
@given(st.integers(0, 10**6), st.floats(0.0, 6.0), st.floats(0.0, 6.5), st.integers(2, 6))
def test_weights_are_those_of_the_definition(seed, threshold, budget, K):
    rng = np.random.default_rng(seed)
    z, y = 3 * rng.normal(size=(8, K)), rng.integers(0, K, 8)
    by_entropy = rng.choice([None, 0.1])
    losses = losses_of(z, y, by_entropy)
    found = Surprises(losses, threshold).at_one(budget)[0]
    for i in range(8):
        h = losses.factor[i]
        expected = oracle.weight(losses.of_classes[i], y[i], threshold * h, budget * h)
        assert found[i] == pytest.approx(expected, rel=1e-8)


@at_most(60)
@given(st.integers(0, 10**6), st.floats(0.01, 6.0), st.floats(0.01, 6.0), st.integers(2, 5))
def test_a_truth_outside_of_its_ball_has_a_mean_weight_of_one_or_more(seed, threshold, budget, K):
    rng = np.random.default_rng(seed)
    z = rng.choice([0.5, 3.0]) * rng.normal(size=(1, K))
    of_classes = literal_losses(z, MIX)[0]
    each = Losses(np.repeat(of_classes, K, axis=0), np.arange(K), np.ones(K), 7.0, 1.0)
    weights = Surprises(each, threshold).at_one(budget)[0]
    for p in outside(rng, of_classes[0], budget):
        assert p @ weights >= 1 - 1e-9


def test_the_bound_is_reached_by_a_truth_just_outside():
    c = np.array([[0.9, 0.08, 0.02]])
    each = Losses(np.repeat(-np.log(c), 3, axis=0), np.arange(3), np.ones(3), 7.0, 1.0)
    weights = Surprises(each, 0.5).at_one(1.0)[0]
    for k in (1, 2):
        m = 1 / weights[k]
        p = np.array([1 - m, 0.0, 0.0])
        p[k] += m
        assert p @ weights == pytest.approx(1, rel=1e-12)
        assert oracle.divergence(p, -np.log(c[0])) == pytest.approx(1.0, rel=1e-9)
    # Markov's and Jensen's inequalities give more weight, whatever the threshold.
    for s in np.linspace(0, 0.99, 100):
        assert ((-np.log(c[0]) - s)[1:] / (1 - s) > weights[1:]).all()


@at_most(40)
@given(st.integers(0, 10**6), st.floats(0.0, 6.0), st.sampled_from([None, 0.05, 0.5]))
def test_weights_fall_with_the_budget_and_none_is_above_the_largest(seed, threshold, by_entropy):
    rng = np.random.default_rng(seed)
    z, y = 5 * rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    z[0], y[0] = [40.0, 0.0, 0.0], 1  # the largest loss, and with entropy the least factor
    losses = losses_of(z, y, by_entropy)
    surprises = Surprises(losses, threshold)
    before, most = np.full(50, np.inf), np.inf
    for budget in np.linspace(0, losses.vacuous_budget, 25):
        now, largest = surprises.at_one(budget)
        assert (now <= before + 1e-9).all()
        assert now.max() <= largest * (1 + 1e-9) <= most * (1 + 1e-8)
        before, most = now, largest
    assert most == 1


@pytest.mark.parametrize(("by_entropy", "root"), [(None, False), (0.2, False), (0.05, True)])
def test_losses_and_factors_of_a_model_are_those_of_its_mixed_prediction(by_entropy, root):
    z, _, y = sample(0, 60)
    z[0, 1] = z[1, 0] = -np.inf
    z[2] = [500.0, 0, 0, 0]
    z[3] = [-np.inf, 1.0, -np.inf, -np.inf]
    y = np.where(np.isneginf(z[np.arange(60), y]), 1, y)
    model = model_of(z, y, by_entropy=by_entropy, root=root)
    (local,) = model.directions
    inputs = decal.directions.Inputs(z, np.zeros(4), joint=False)
    found, factor = local.losses(inputs)
    expected, factors = literal_losses(z, MIX, by_entropy)
    factors = np.sqrt(factors) if root else factors
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(factor, factors, rtol=1e-9)
    balls = model.predict_ball(z, alpha=0.7)
    np.testing.assert_allclose(balls.radius, -np.log(0.7) * factors, rtol=1e-9)
    box = balls.box()
    np.testing.assert_allclose(model.predict(z, alpha=0.7).lower, box.lower, atol=1e-9)
    np.testing.assert_allclose(model.predict(z, alpha=0.7).upper, box.upper, atol=1e-9)
    several = np.arange(60) != 3  # one class alone has a loss of 0, and no entropy
    assert found[several][np.isfinite(found[several])].max() <= local.largest_loss(4) * (1 + 1e-12)
    assert factor[several].min() >= local.least_factor() - 1e-12
    assert local.largest_loss(4) == pytest.approx(math.log(4 / MIX))
    if by_entropy:
        two = model_of(np.array([[900.0, 0.0], [0.0, 1.0]]), by_entropy=by_entropy, root=root)
        edge = decal.directions.Inputs(np.array([[900.0, 0.0]]), np.zeros(2), joint=False)
        assert two.directions[0].losses(edge)[1][0] == pytest.approx(local.least_factor())


# Bets


@at_most(60)
@given(st.integers(0, 10**6), st.floats(0.01, 0.99), st.floats(0.01, 0.5), st.integers(1, 60))
def test_bets_are_those_of_the_definition(seed, mu, error, n):
    rng = np.random.default_rng(seed)
    values = 3 * rng.beta(0.5, rng.choice([0.5, 20.0]), size=n)
    found = mean_is_below(values, 3 * mu, most=3.0, error=error)
    assert found == oracle.wins(values, 3 * mu, 3.0, error)


@pytest.mark.parametrize("high", [1.0, 0.3])
def test_a_mean_at_the_bound_is_rarely_taken_to_be_below(high):
    rng = np.random.default_rng(0)
    mu, error, rounds = 0.1, 0.1, 2000
    for n in (20, 300):
        draws = high * (rng.random((rounds, n)) < mu / high)
        wrong = np.mean([mean_is_below(x, mu, most=1.0, error=error) for x in draws])
        assert wrong <= error + 3 * math.sqrt(error * (1 - error) / rounds)
        low = high * (rng.random((200, 2000)) < 0.5 * mu / high)
        assert np.mean([mean_is_below(x, mu, most=1.0, error=error) for x in low]) > 0.99


def test_bets_that_need_no_playing():
    x = np.array([0.5, 1.0])
    assert mean_is_below(x, 1.0, most=1.0, error=0.1)
    assert not mean_is_below(x, 0.0, most=1.0, error=0.1)
    assert not mean_is_below(x, 0.5, most=1.0, error=0.0)
    assert not mean_is_below(x[:0], 0.5, most=1.0, error=0.1)


# The choice


@pytest.mark.parametrize("by_entropy", [None, 0.1])
@pytest.mark.parametrize("delta", [0.25, 0.4])
def test_the_budget_is_the_least_that_meets_the_definition(delta, by_entropy):
    z, _, y = sample(1, 120)
    model = model_of(z, y, by_entropy=by_entropy)
    choice = decal.choose(model, z, y, hold=1 - delta, threshold=0.8)
    of_classes, factors = literal_losses(z, MIX, by_entropy)
    rows = list(zip(of_classes, y, factors, strict=True))
    largest = math.log(4 / MIX)
    least = 1.0 if by_entropy is None else by_entropy + oracle.entropy([1 - MIX / 2, MIX / 2])
    budget = -math.log(choice.alpha)
    found = oracle.bound(rows, 0.8, budget, largest, least)
    assert found <= delta * (1 + 1e-9)
    assert 1 - choice.achieved == pytest.approx(found, rel=1e-6)
    assert oracle.bound(rows, 0.8, budget - 2**-14 * largest / least, largest, least) > delta
    assert (choice.promise.target, choice.promise.rows, choice.promise.kind) == (
        1 - delta,
        120,
        "hold",
    )


def test_with_confidence_every_larger_budget_was_won_too():
    z, _, y = sample(2, 400)
    model = model_of(z, y)
    settings = {"confidence": 0.9, "threshold": 0.8}
    choice = decal.choose(model, z, y, hold=0.7, **settings)
    order = np.random.default_rng(0).permutation(400)
    losses = losses_of(z[order], y[order])
    high, largest = math.log(4 / MIX), math.log(4 / MIX)
    budgets = high * np.geomspace(1, 1e-3, 256)
    chosen = np.argmin(np.abs(budgets + math.log(choice.alpha)))
    assert 0 < chosen < 255

    def won(budget):
        w = [
            oracle.weight(row, label, 0.8, budget)
            for row, label in zip(losses.of_classes, losses.labels, strict=True)
        ]
        most = 1 / oracle.share(largest, min(0.8, budget), budget)
        return most <= 0.3 or oracle.wins(w, 0.3, most, 0.1)

    assert all(won(b) for b in budgets[max(chosen - 3, 0) : chosen + 1])
    assert not won(budgets[chosen + 1])
    surer = decal.choose(model, z, y, hold=0.7, confidence=0.99, threshold=0.8)
    assert surer.alpha <= choice.alpha


@at_most(100)
@given(st.floats(1e-9, 700.0))
def test_the_alpha_of_a_budget_never_stands_for_less(budget):
    alpha = alpha_of_budget(budget)
    model = model_of(np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.1]]))
    assert model.steps("local", alpha).upper >= budget
    assert -math.log(alpha) <= budget * (1 + 1e-9) + 1e-15


def test_what_a_choice_promises_is_what_predict_gives():
    z, truth, y = sample(3, 600)
    model = model_of(z[:100], y[:100])
    choice = decal.choose(model, z[100:], y[100:], hold=0.75)
    assert 0 < choice.alpha < 1
    credal = model.predict(z, alpha=choice)
    losses, _ = literal_losses(z, MIX)
    divergence = [oracle.divergence(p, row) for p, row in zip(truth, losses, strict=True)]
    held = np.array(divergence) <= -math.log(choice.alpha)
    assert held.mean() >= 0.75
    assert credal.contains(truth, atol=1e-9)[held].all()


def test_other_directions_only_widen_the_sets():
    z, _, y = sample(4, 300)
    local = decal.Local(mix=MIX)
    alone = model_of(z[:100], y[:100])
    both = model_of(z[:100], y[:100], directions=["class", local, "temperature"])
    choice = decal.choose(alone, z[100:], y[100:], hold=0.7)
    assert choice == decal.choose(both, z[100:], y[100:], hold=0.7)
    wide, narrow = both.predict(z, alpha=choice), alone.predict(z, alpha=choice)
    assert (wide.lower <= narrow.lower).all()
    assert (wide.upper >= narrow.upper).all()


@pytest.mark.parametrize("reference", ["model", "halfway", "best"])
def test_the_losses_are_those_of_the_reference(reference):
    z, _, y = sample(5, 500, K=3)
    y[:100] %= 2  # the best reference leaves class 2 out: only the mix is left to it
    model = model_of(z[:100], y[:100], reference=reference)
    choice = decal.choose(model, z[100:], y[100:], hold=0.7, threshold=0.8)
    reference = model.reference_model
    moved = z[100:] * reference.scale + reference.center
    p = np.exp(moved - moved.max(axis=1, keepdims=True))
    of_classes = -np.log((1 - MIX) * p / p.sum(axis=1, keepdims=True) + MIX / 3)
    rows = [(row, label, 1.0) for row, label in zip(of_classes, y[100:], strict=True)]
    if choice.alpha == 0:
        assert oracle.bound(rows, 0.8, math.log(3 / MIX), math.log(3 / MIX), 1.0) > 0.3
        return
    bound = oracle.bound(rows, 0.8, -math.log(choice.alpha), math.log(3 / MIX), 1.0)
    assert 1 - choice.achieved == pytest.approx(bound, rel=1e-6)


def test_planning_uses_other_rows_and_the_seed_draws_them():
    z, _, y = sample(6, 1000)
    model = model_of(z, y)
    choice = decal.choose(model, z, y, hold=0.8)
    assert choice.promise.rows == 700
    assert choice == decal.choose(model, z, y, hold=0.8, seed=0)
    assert choice != decal.choose(model, z, y, hold=0.8, seed=1)
    # The labels of the first 300 of a random order plan: they change the threshold, and only so
    # the choice, whose bound is that of the other 700.
    order = np.random.default_rng(0).permutation(1000)
    changed = y.copy()
    changed[order[:300]] = z[order[:300]].argsort(axis=1)[:, 1]
    other = decal.choose(model, z, changed, hold=0.8)
    assert other.alpha != choice.alpha
    losses = losses_of(z[order[300:]], y[order[300:]])
    rows = [(row, label, 1.0) for row, label in zip(losses.of_classes, losses.labels, strict=True)]
    for found, labels in ((choice, y), (other, changed)):
        _, plan = planned(losses_of(z[order[:300]], labels[order[:300]]), 0.2, examples=700)
        bound = oracle.bound(rows, plan.threshold, -math.log(found.alpha), math.log(4 / MIX), 1.0)
        assert 1 - found.achieved == pytest.approx(bound, rel=1e-6)


# Too little to say


@pytest.mark.parametrize("n", [1, 3, 8])
def test_too_few_examples_exclude_nothing(n):
    z, _, _ = sample(7, n)
    choice = decal.choose(model_of(z), z, z.argmax(axis=1), hold=0.9)
    assert choice.alpha == 0
    assert f"{choice.promise.rows} are too few for 0.9, nothing is excluded" in repr(choice)
    credal = model_of(z).predict(z, alpha=choice)
    assert (credal.upper - credal.lower).min() == 1


def test_labels_that_contradict_the_model_exclude_nothing():
    z, _, _ = sample(8, 200)
    choice = decal.choose(model_of(z), z, z.argmin(axis=1), hold=0.9)
    assert choice.alpha == 0
    assert "the model finds the labels too unlikely for 0.9, nothing is excluded" in repr(choice)
    choice = decal.choose(model_of(z), z, z.argmin(axis=1), hold=0.9, confidence=0.9)
    assert choice.alpha == 0


def test_the_ends_of_delta_and_confidence():
    z, _, y = sample(9, 200)
    model = model_of(z, y)
    assert decal.choose(model, z, y, hold=1).alpha == 0
    assert decal.choose(model, z, y, hold=0).alpha == 1
    assert decal.choose(model, z, y, hold=0.7, confidence=1).alpha == 0
    assert decal.choose(model, z, y, hold=0.7, confidence=0).alpha > 0


@at_most(25)
@given(labelled_logits(), st.floats(0.05, 0.9), st.booleans(), st.sampled_from([None, 0.1]))
def test_any_data_give_an_alpha_or_none(data, delta, sure, by_entropy):
    logits, labels, _ = data
    model = model_of(logits, labels, by_entropy=by_entropy)
    confidence = 0.8 if sure else None
    choice = decal.choose(model, logits, labels, hold=1 - delta, confidence=confidence)
    assert 0 <= choice.alpha <= 1
    assert choice.achieved >= 1 - delta - 1e-12
    assert (choice.alpha == 0) == bool(choice.promise.notes)
    assert not model.predict(logits, alpha=choice).is_empty.any()


def test_masked_classes_are_left_out():
    z, _, y = sample(10, 500, K=5)
    rest = z.copy()
    rest[:, 4] = -np.inf
    y[y == 4] = 0
    with_mask = decal.choose(model_of(rest, y), rest, y, hold=0.7, threshold=0.8)
    without = decal.choose(model_of(rest[:, :4], y), rest[:, :4], y, hold=0.7, threshold=0.8)
    # Only the largest weight differs: one more class could have had a loss.
    assert with_mask.alpha <= without.alpha
    assert -math.log(with_mask.alpha) <= -math.log(without.alpha) * 1.1


# With groups


def test_groups_are_chosen_for_one_by_one():
    z, _, y = sample(11, 900)
    groups = np.array(["low", "high"])[(z[:, 0] > 0.5).astype(int)]
    model = model_of(z, y)
    found = decal.choose(model, z, y, hold=0.7, groups=groups, threshold=0.7)
    assert list(found.parts) == ["high", "low"]
    for group, choice in found.parts.items():
        rows = groups == group
        alone = decal.choose(model, z[rows], y[rows], hold=0.7, threshold=0.7)
        assert (choice.alpha, choice.promise.rows) == (alone.alpha, alone.promise.rows)
        assert choice.achieved == pytest.approx(alone.achieved)
    credal = found.predict(z[:20], groups=groups[:20])
    for i in range(20):
        one = model.predict(z[[i]], alpha=found.parts[groups[i]])
        np.testing.assert_array_equal(credal.lower[i], one.lower[0])
        np.testing.assert_array_equal(credal.upper[i], one.upper[0])
        np.testing.assert_array_equal(credal.point[i], one.point[0])
    np.testing.assert_array_equal(
        found.alphas(groups[:5]), [found.parts[group].alpha for group in groups[:5]]
    )


def test_a_small_group_is_vacuous_and_says_so():
    z, _, y = sample(12, 300)
    groups = np.where(np.arange(300) < 5, 7, z.argmax(axis=1))
    model = model_of(z, y)
    found = decal.choose(model, z, y, hold=0.9, groups=groups)
    assert found.parts[7].alpha == 0
    text = repr(found)
    assert text.startswith(
        "Choice: 5 alphas by groups, hold wanted at least 0.9\n  In every group, "
    )
    assert "4 are too few for 0.9, nothing is excluded" in text
    with pytest.raises(ValueError, match=r"groups must be those .* chosen for: got 9\. Predict"):
        found.predict(z[:2], groups=[7, 9])
    parts = dict.fromkeys(range(20), found.parts[7])
    many = Choice.of_parts(parts, Promise("hold", 0.9, 80, per="group"))
    assert repr(many).endswith("  … 12 of 20 shown")


# The theorem, where the truth is known


WORLDS = ("calibrated", "overconfident", "certain labels", "two losses", "edges of balls")


def world_of(name, delta):
    """A world of the laboratory, where the truth is known."""
    worlds = pytest.importorskip("decal_lab.experiments.harness.worlds")
    return worlds.WORLDS[name](delta, MIX)


def miss_rates(world, delta, n, rounds, seed, by_entropy=None, **settings):
    """In every round, the share of new inputs whose ball misses the truth: exactly."""
    rng = np.random.default_rng(seed)
    of_classes, factors = literal_losses(world.logits, MIX, by_entropy)
    divergence = np.array(
        [oracle.divergence(*row) for row in zip(world.truth, of_classes, strict=True)]
    )
    model = model_of(world.logits, by_entropy=by_entropy)
    kinds, labels = world.draw((rounds, n), rng)
    rates, alphas = np.empty((2, rounds))
    for i in range(rounds):
        z = world.logits[kinds[i]]
        choice = decal.choose(model, z, labels[i], hold=1 - delta, **settings)
        budget = -math.log(choice.alpha) if choice.alpha > 0 else math.inf
        rates[i], alphas[i] = world.share @ (divergence > budget * factors), choice.alpha
    return rates, alphas


def assert_promise_is_kept(rates, delta, confidence=None):
    rounds = len(rates)
    if confidence is None:
        error = rates.std(ddof=1) / math.sqrt(rounds)
        assert rates.mean() <= delta + 3 * error, rates.mean()
    else:
        wrong, gamma = (rates > delta).mean(), 1 - confidence
        assert wrong <= gamma + 3 * math.sqrt(gamma * (1 - gamma) / rounds), wrong


@pytest.mark.parametrize("confidence", [None, 0.8])
@pytest.mark.parametrize("name", WORLDS)
def test_distributions_are_missed_as_rarely_as_promised(name, confidence):
    delta = 0.3
    world = world_of(name, delta if confidence is None else 1.05 * delta)
    settings = {"threshold": world.threshold, "confidence": confidence}
    rates, alphas = miss_rates(world, delta, 60, 40, 0, **settings)
    assert_promise_is_kept(rates, delta, confidence)
    assert (alphas > 0).any() or confidence  # what excludes nothing keeps any promise


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [None, 0.8])
@pytest.mark.parametrize("by_entropy", [None, 0.2])
def test_planning_keeps_the_promise(confidence, by_entropy):
    for name in ("overconfident", "edges of balls"):
        world = world_of(name, 0.3)
        rates, _ = miss_rates(world, 0.3, 80, 30, 1, by_entropy, confidence=confidence)
        assert_promise_is_kept(rates, 0.3, confidence)


def test_in_the_hardest_world_the_promise_is_nearly_used_up():
    # Where the bound is exact, sets are not much wider than they have to be.
    delta = 0.3
    world = world_of("edges of balls", delta)
    rates, _ = miss_rates(world, delta, 200, 40, 2, threshold=world.threshold)
    assert rates.mean() > 0.1 * delta


# Several labels per input


def miss_rates_of_votes(world, delta, numbers, rounds, seed, **settings):
    """As `miss_rates`, of inputs with so many labels each, drawn from `numbers`."""
    rng = np.random.default_rng(seed)
    of_classes, _ = literal_losses(world.logits, MIX)
    divergence = np.array(
        [oracle.divergence(*row) for row in zip(world.truth, of_classes, strict=True)]
    )
    model, rates = model_of(world.logits), np.empty(rounds)
    for i in range(rounds):
        kinds, _ = world.draw((80,), rng)
        m = rng.choice(numbers, size=80)
        said = rng.multinomial(m, world.truth[kinds] / world.truth[kinds].sum(1, keepdims=True))
        votes = decal.Votes.of_counts(said)
        choice = decal.choose(model, world.logits[kinds], votes, hold=1 - delta, **settings)
        rates[i] = world.share @ (divergence > -math.log(max(choice.alpha, 1e-300)))
    return rates


@pytest.mark.parametrize("confidence", [None, 0.8])
@pytest.mark.parametrize("numbers", [(2,), (10,), (1, 10)])
@pytest.mark.parametrize("name", ["overconfident", "certain labels", "edges of balls"])
def test_several_labels_miss_as_rarely_as_promised(name, numbers, confidence):
    world = world_of(name, 0.3 if confidence is None else 1.05 * 0.3)
    rates = miss_rates_of_votes(world, 0.3, numbers, 25, 0, confidence=confidence)
    assert_promise_is_kept(rates, 0.3, confidence)


def test_a_number_of_labels_that_depends_on_them_breaks_the_promise():
    # The model is sure, one person in five disagrees, and is not counted.
    n, rng = 400, np.random.default_rng(0)
    z = np.tile([8.0, 0.0, 0.0], (n, 1))
    truth = np.array([0.8, 0.2, 0.0])
    said = rng.multinomial(10, truth, size=n)
    model = model_of(z, mix=0.001)
    ball = model.predict_ball(z[:1], alpha=decal.choose(model, z, annotations=None, hold=0.8,
                              labels=decal.Votes.of_counts(said)))  # fmt: skip
    assert ball.contains(truth[None])[0]
    majority = np.where(np.arange(3) == said.argmax(axis=1)[:, None], said, 0)
    choice = decal.choose(model, z, decal.Votes.of_counts(majority), hold=0.8)
    assert not model.predict_ball(z[:1], alpha=choice).contains(truth[None])[0]


@pytest.mark.parametrize("root", [False, True])
def test_kinds_of_budgets_are_compared_on_rows_that_do_not_promise(root):
    # Where the model knows of which inputs it is sure, budgets should depend on that.
    rng = np.random.default_rng(3)
    z = rng.normal(size=(1500, 4)) * np.where(rng.random((1500, 1)) < 0.5, 12.0, 0.5)
    p = np.exp(log_softmax(z, axis=1))
    y = (p.cumsum(axis=1)[:, :-1] < rng.random((1500, 1))).sum(axis=1)
    if not root:  # errors where it is sure
        y = np.where((rng.random(1500) < 0.15) & (p.max(axis=1) > 0.9), (y + 1) % 4, y)
    d = decal.decalibrate(z, y, hold=0.8, reference="model")
    fixed = decal.decalibrate(
        z, y, hold=0.8, reference="model", directions=[decal.Local(mix=0.001)]
    )
    assert d.directions[0].root == root
    assert not fixed.directions[0].root
    assert d.promise.costs["width"] <= fixed.promise.costs["width"] * 1.02
    assert d.promise.rows < 1200


def test_root_goes_with_entropy_and_into_files(tmp_path):
    with pytest.raises(decal.InputError, match="root must go with by_entropy: got None"):
        decal.Local(root=True)
    with pytest.raises(decal.InputError, match="root must be True or False"):
        decal.Local(by_entropy=0.1, root=2)
    local = decal.Local(mix=0.01, by_entropy=0.05, root=True)
    assert eval(repr(local), {"Local": decal.Local}) == local
    z, _, y = sample(0, 60)
    model = model_of(z, y, by_entropy=0.05, root=True)
    model.save(tmp_path / "model.npz")
    again = decal.load(tmp_path / "model.npz")
    assert again.directions == model.directions
    np.testing.assert_array_equal(again.predict(z).lower, model.predict(z).lower)
    assert "root" not in decal.Local(by_entropy=0.1).settings()  # as in files of older versions


# Misuse


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, m, z, y: f(m, z, y, hold=1.5), "hold must lie between 0 and 1: got 1.5"),
        (lambda f, m, z, y: f(m, z, y, hold=np.nan), "hold must lie between 0 and 1: got nan"),
        (
            lambda f, m, z, y: f(m, z * np.nan, y, hold=0.9),
            "logits must be finite or -inf: got nan",
        ),
        (lambda f, m, z, y: f(m, z[:, :3], y, hold=0.9), "logits must have 4 columns"),
        (
            lambda f, m, z, y: f(m, z[:, :1], y, hold=0.9),
            "logits must have one column per class, two",
        ),
        (lambda f, m, z, y: f(m, z[:0], y[:0], hold=0.9), "logits must have at least one row"),
        (
            lambda f, m, z, y: f(m, z, y[:-1], hold=0.9),
            "labels must be a vector with one label per row",
        ),
        (lambda f, m, z, y: f(m, z, y + 9, hold=0.9), "labels must lie in 0 to 3"),
        (
            lambda f, m, z, y: f(m, z, y, hold=0.9, confidence=2),
            "confidence must lie between 0 and 1",
        ),
        (
            lambda f, m, z, y: f(m, z, y, hold=0.9, threshold=99.0),
            "threshold must be less than 5.99146, where nothing is excluded: got 99",
        ),
        (
            lambda f, m, z, y: f(m, z, y, hold=0.9, threshold=-1.0),
            "threshold must be a finite number",
        ),
        (
            lambda f, m, z, y: f(m, z, y, hold=0.9, seed=-1),
            "seed must be a whole number, at least 0",
        ),
        (
            lambda f, m, z, y: f(m, z, y, hold=0.9, groups=y[:-1]),
            r"groups must be a vector with one group per row of logits, 30 in all: got shape \(29,",
        ),
        (
            lambda f, m, z, y: f(m, z, y, hold=0.9, groups=y / 2),
            "groups must be whole numbers or text: got dtype float64. Cut numbers into ranges",
        ),
        (
            lambda f, m, z, y: f(
                m, z, y, hold=0.9, groups=np.array(["a", None] * 15, dtype=object)
            ),
            "groups must be text, or all whole numbers: got None at index 1",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    z, _, y = sample(16, 30)
    with pytest.raises(ValueError, match=message):
        call(decal.choose, model_of(z, y), z, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"directions": ("class",)}, "must have local sets: got the directions 'class'. Fit it"),
        ({"mix": 0.0}, "so that losses are bounded: got mix=0. Fit it with directions="),
        ({"likelihood": "sum"}, "model must have likelihood='mean': got 'sum'"),
    ],
)
def test_a_model_that_can_have_no_guarantee_is_refused(settings, message):
    z, _, y = sample(17, 30)
    with pytest.raises(ValueError, match=message):
        decal.choose(model_of(z, y, **settings), z, y, hold=0.9)


def test_a_masked_label_is_refused():
    z, _, y = sample(18, 30)
    model = model_of(z, y)
    z[3, y[3]] = -np.inf
    with pytest.raises(ValueError, match="labels must be classes that are not masked: got"):
        decal.choose(model, z, y, hold=0.9)
