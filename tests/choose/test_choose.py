"""Choosing alpha: searches against brute force, the guarantee against simulation."""

import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import softmax
from scipy.stats import chi2

import decal
from decal.choose import Choice, Promise, contour_levels, plausibility
from helpers.strategies import at_most, labelled_logits

RULES = ("interval_dominance", "e_admissible")
SETTINGS = (
    {"directions": ("class",)},
    {"directions": ("class", "temperature"), "reference": "best"},
    {"directions": ("class",), "box": "own"},
    {"directions": ("class",), "likelihood": "sum", "reference": "best", "box": "own"},
)


def sample(seed, n, K=4):
    """Logits of an overconfident, biased model; the true distributions; labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, K))
    truth = softmax(0.6 * logits + np.linspace(-0.4, 0.4, K), axis=1)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return logits, truth, labels


@pytest.fixture(scope="module")
def fitted():
    logits, _, labels = sample(0, 300)
    return decal.decalibrate(logits, labels, alpha=0.9, directions=("class",))


class Counting:
    """A model that counts what it is asked for."""

    def __init__(self, model):
        self.model, self.alphas, self.rows = model, [], 0

    def predict(self, logits, *, alpha):
        self.alphas.append(alpha)
        self.rows += len(logits)
        return self.model.predict(logits, alpha=alpha)


class Rounded:
    """A model that rounds alpha down to one of 512 levels, so that searches share solutions."""

    def __init__(self, model):
        self.model, self.levels = model, contour_levels()[::-8]

    def predict(self, logits, *, alpha):
        level = self.levels[np.searchsorted(self.levels, alpha, side="right") - 1]
        return self.model.predict(logits, alpha=level)


class OnlyScale:
    """Moves between the model and certainty of its first choice: never lifts another class."""

    def predict(self, logits, *, alpha):
        p = softmax(logits, axis=1)
        top = np.eye(p.shape[1])[p.argmax(axis=1)]
        mixed = alpha * p + (1 - alpha) * top
        return decal.IntervalCredalSet(np.minimum(p, mixed), np.maximum(p, mixed))


# The definitions, slow and literal: bounds in, no search


def literally_keeps(lower, upper, k, rule):
    """Whether class k stays, in one row."""
    K = len(lower)
    if rule == "interval_dominance":
        # The worst and the best case of a class within the box: the others take what they must.
        worst = [max(lower[j], 1 - sum(upper) + upper[j]) for j in range(K)]
        return min(upper[k], 1 - sum(lower) + lower[k]) >= max(worst)
    # A distribution in the box under which no other class is more probable.
    others = np.delete(np.arange(K), k)
    found = linprog(
        np.zeros(K),
        A_ub=np.eye(K)[others] - np.eye(K)[k],
        b_ub=np.zeros(K - 1),
        A_eq=np.ones((1, K)),
        b_eq=[1.0],
        bounds=list(zip(lower, upper, strict=True)),
    )
    return found.status == 0


def literally_missed(credal, labels, rule):
    bounds = zip(credal.lower, credal.upper, labels, strict=True)
    return sum(not literally_keeps(low, high, y, rule) for low, high, y in bounds)


def literally_covered(credal, truth, atol):
    return sum(
        all(a - atol <= x <= b + atol for a, x, b in zip(low, p, high, strict=True))
        for low, p, high in zip(credal.lower, truth, credal.upper, strict=True)
    )


# For a wanted width


@pytest.mark.parametrize("kind", SETTINGS[:3], ids=["class", "both", "own"])
@pytest.mark.parametrize("width", [0.9, 0.5, 0.15])
def test_a_mean_width_is_met_on_the_logits_given(kind, width):
    logits, _, labels = sample(1, 200)
    model = Counting(decal.decalibrate(logits, labels, alpha=0, **kind))
    new = sample(2, 100)[0]
    choice = decal.choose(model, new, width=width)
    assert len(model.alphas) <= 28
    box = model.predict(new, alpha=choice.alpha)
    assert (box.upper - box.lower).mean() == pytest.approx(width, abs=1e-6)
    assert choice.achieved == pytest.approx(width, abs=1e-6)
    assert (choice.promise.target, choice.promise.rows, choice.promise.kind) == (
        width, 100, "width",
    )  # fmt: skip


def test_widths_close_to_a_point_are_resolved():
    logits, _, labels = sample(1, 200)
    model = decal.decalibrate(logits, labels, alpha=0, reference="best")
    choice = decal.choose(model, logits, width=0.003)
    assert 0.999 < choice.alpha < 1
    assert choice.achieved == pytest.approx(0.003, abs=1e-6)
    with pytest.raises(ValueError, match="got 0.0001, between .* of alpha = 0.999999 and 0 of"):
        decal.choose(model, logits, width=0.0001)
    assert decal.choose(model, logits, width=0).alpha == 1
    assert decal.choose(model, logits, width=1).alpha == 0


def test_a_width_out_of_reach_is_refused_with_the_range(fitted):
    logits = sample(3, 50)[0]
    least = 1 - decal.metrics.efficiency(fitted.predict(logits, alpha=1))
    assert least > 0.01
    message = f"width must lie between {least:.6g}, .* and 1, .*: got 0.001. .*reference='best'"
    with pytest.raises(ValueError, match=message):
        decal.choose(fitted, logits, width=0.001)


def test_a_width_between_the_last_float_and_zero_is_refused():
    logits, _, labels = sample(4, 30_000)
    model = decal.decalibrate(logits, labels, alpha=0, likelihood="sum")
    with pytest.raises(ValueError, match="got 0.8, between 1 of alpha = 0 and 0.[1-6].*'mean'"):
        decal.choose(model, logits[:50], width=0.8)


# For a wanted coverage


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS[:3], ids=["class", "both", "own"])
def test_coverage_agrees_with_brute_force_over_a_dense_grid(kind):
    logits, _, labels = sample(5, 200)
    model = decal.decalibrate(logits, labels, alpha=0, **kind)
    new, truth, _ = sample(6, 40)
    grid = np.exp(-np.geomspace(1e-4, 20, 150))[::-1]
    counts = [literally_covered(model.predict(new, alpha=a), truth, 5e-4) for a in grid]
    for target in (0.3, 0.5, 0.725, 0.9):
        choice = decal.choose(model, new, coverage=target, distributions=truth)
        enough = [c / 40 >= target for c in counts]
        assert enough == sorted(enough, reverse=True)
        last = max(i for i, yes in enumerate(enough) if yes)
        assert grid[last] <= choice.alpha < grid[last + 1]
        count = literally_covered(model.predict(new, alpha=choice.alpha), truth, 5e-4)
        assert choice.achieved == count / 40 >= target
        assert (choice.promise.target, choice.promise.rows) == (target, 40)
        assert choice.promise.kind == "coverage"


def test_the_next_larger_alpha_covers_too_little(fitted):
    logits, truth, _ = sample(7, 60)
    choice = decal.choose(fitted, logits, coverage=0.9, distributions=truth)
    larger = math.exp(math.log(choice.alpha) * (1 - 1e-5))
    assert decal.metrics.coverage(fitted.predict(logits, alpha=choice), truth) >= 0.9
    assert decal.metrics.coverage(fitted.predict(logits, alpha=larger), truth) < 0.9


def test_rows_that_are_settled_are_not_asked_again(fitted):
    logits, truth, _ = sample(7, 1000)
    model = Counting(fitted)
    decal.choose(model, logits, coverage=0.9, distributions=truth)
    assert len(model.alphas) <= 28
    assert model.rows < 10 * len(logits)


def test_annotators_count_by_their_shares(fitted):
    logits, truth, _ = sample(8, 80)
    rng = np.random.default_rng(0)
    votes = (truth.cumsum(axis=1)[:, None] < rng.random((80, 25, 1))).sum(axis=2)
    votes[::2, 20:] = -1
    expected = np.zeros((80, 4))
    for row, labels in enumerate(votes):
        for k in range(4):
            expected[row, k] = sum(v == k for v in labels) / sum(v >= 0 for v in labels)
    np.testing.assert_allclose(
        decal.Votes.of_annotations(votes, classes=4).shares, expected, rtol=1e-15
    )
    by_votes = decal.choose(fitted, logits, annotations=votes, coverage=0.8)
    assert by_votes == decal.choose(fitted, logits, coverage=0.8, distributions=expected)


def test_a_coverage_that_only_a_vacuous_set_has_is_noted_and_one_out_of_reach_refused():
    logits, _, labels = sample(4, 30_000)
    model = decal.decalibrate(logits, labels, alpha=0, likelihood="sum")
    corners = np.eye(4)[logits[:20].argmin(axis=1)]
    choice = decal.choose(model, logits[:20], coverage=1.0, distributions=corners)
    assert (choice.alpha, choice.achieved) == (0, 1)
    assert "no positive alpha will do" in repr(choice)
    with pytest.raises(ValueError, match="coverage must be at most 0, that of alpha = 0"):
        decal.choose(OnlyScale(), logits[:20], coverage=0.5, distributions=corners)


@pytest.mark.parametrize("target", [0.5, 0.8, 0.95])
def test_a_guaranteed_coverage_counts_the_new_row_as_missed(fitted, target):
    logits, truth, _ = sample(7, 60)
    choice = decal.choose(fitted, logits, coverage=target, distributions=truth, guaranteed=True)
    larger = math.exp(math.log(choice.alpha) * (1 - 1e-5))
    for alpha, enough in ((choice.alpha, True), (larger, False)):
        missed = 60 - literally_covered(fitted.predict(logits, alpha=alpha), truth, 5e-4)
        assert ((60 - missed) / 61 >= target) == enough
    assert choice.alpha <= decal.choose(fitted, logits, coverage=target, distributions=truth).alpha


def test_too_few_rows_guarantee_only_vacuous_sets(fitted):
    logits, truth, _ = sample(7, 8)
    choice = decal.choose(fitted, logits, coverage=0.9, distributions=truth, guaranteed=True)
    assert (choice.alpha, choice.achieved) == (0, 1)
    assert "8 are too few for 0.9, nothing is excluded" in repr(choice)
    corners = np.eye(4)[logits.argmin(axis=1)]
    with pytest.raises(ValueError, match="coverage must be at most 0, that of alpha = 0"):
        decal.choose(OnlyScale(), logits, coverage=0.5, distributions=corners, guaranteed=True)


@pytest.mark.slow
def test_new_distributions_are_covered_as_often_as_guaranteed(fitted):
    rounds, n = 300, 19
    pool, truth, _ = sample(23, rounds * (n + 1))
    score = plausibility(fitted, pool, distributions=truth).reshape(rounds, n + 1)
    for target in (0.8, 0.9):
        threshold = np.sort(score[:, :n], axis=1)[:, round((1 - target) * (n + 1)) - 1]
        covered = (score[:, n] >= threshold).mean()
        assert covered >= target - 3 * math.sqrt(target * (1 - target) / rounds)
    for i in range(3):
        rows = slice(20 * i, 20 * i + 19)
        choice = decal.choose(
            fitted, pool[rows], coverage=0.8, distributions=truth[rows], guaranteed=True
        )
        levels = contour_levels()
        fourth = np.sort(score[i, :n])[3]
        assert fourth <= choice.alpha <= levels[levels > fourth].min(initial=1.0)


# With a guarantee, from labels


def test_groups_of_inputs_have_an_alpha_each(fitted):
    logits, _, labels = sample(24, 120)
    groups = np.where(logits[:, 0] > 1, "sure", "not")
    groups[:3] = "few"
    found = decal.choose(fitted, logits, labels, miss=0.1, groups=groups)
    assert list(found.parts) == ["few", "not", "sure"]
    for group in ("not", "sure"):
        rows = groups == group
        assert found.parts[group] == decal.choose(fitted, logits[rows], labels[rows], miss=0.1)
    assert found.parts["few"].alpha == 0
    assert "(3 are too few for 0.1, every class is kept)" in repr(found)
    credal = found.predict(logits, groups=groups)
    rows = groups == "sure"
    alone = fitted.predict(logits[rows], alpha=found.parts["sure"])
    np.testing.assert_array_equal(credal.lower[rows], alone.lower)
    assert (credal.upper[:3] == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", SETTINGS[:3], ids=["class", "both", "own"])
def test_labels_agree_with_brute_force_over_a_dense_grid(kind, rule):
    logits, _, labels = sample(9, 200)
    model = decal.decalibrate(logits, labels, alpha=0, **kind)
    new, _, y = sample(10, 30)
    grid = np.exp(-np.geomspace(1e-4, 3, 12))[::-1]
    misses = [literally_missed(model.predict(new, alpha=a), y, rule) for a in grid]
    assert misses == sorted(misses)
    for epsilon in (0.05, 0.1, 0.2, 0.3):
        choice = decal.choose(model, new, y, miss=epsilon, rule=rule)
        allowed = [a for a, m in zip(grid, misses, strict=True) if (m + 1) / 31 <= epsilon]
        refused = [a for a, m in zip(grid, misses, strict=True) if (m + 1) / 31 > epsilon]
        assert max(allowed, default=0) <= choice.alpha <= min(refused, default=1)
        missed = literally_missed(model.predict(new, alpha=choice.alpha), y, rule)
        assert choice.achieved == missed / 30
        assert (missed + 1) / 31 <= epsilon
        assert (choice.promise.target, choice.promise.rows, choice.promise.kind) == (
            epsilon,
            30,
            "miss",
        )


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_new_labels_are_missed_as_rarely_as_promised(rule):
    # Many calibration sets of 59, each with its own 100 new examples. The model is fitted once,
    # with a reference that makes alpha = 1 a point, so that no epsilon is met for nothing.
    logits, _, labels = sample(11, 150, K=3)
    model = Rounded(decal.decalibrate(logits, labels, alpha=0, reference="best"))
    rounds, n, fresh = 100, 59, 100
    pool, _, y = sample(12, rounds * (n + fresh), K=3)
    pool, y = pool.reshape(rounds, n + fresh, 3), y.reshape(rounds, n + fresh)
    for epsilon in (0.05, 0.1, 0.2):
        rates, sizes = np.empty(rounds), np.empty(rounds)
        for i, (z, labels) in enumerate(zip(pool, y, strict=True)):
            choice = decal.choose(model, z[:n], labels[:n], miss=epsilon, rule=rule)
            kept = model.predict(z[n:], alpha=choice.alpha).decide(rule)
            rates[i] = 1 - kept[np.arange(fresh), labels[n:]].mean()
            sizes[i] = kept.sum(axis=1).mean()
        # The misses of one round share their alpha, so the error of the mean is that of rounds.
        error = rates.std(ddof=1) / math.sqrt(rounds)
        assert rates.mean() <= epsilon + 3 * error
        # Nor is it wasteful: without ties it would be epsilon (n + 1) / (n + 1), as this is whole.
        assert rates.mean() >= epsilon - 3 * error - 0.005
        assert sizes.mean() < 2.5


@pytest.mark.slow
def test_the_guarantee_is_that_of_the_order_statistics_of_the_plausibility(fitted):
    # The same promise for many calibration sets at once: of n + 1 exchangeable scores, the
    # last is below the k-th smallest of the others, k = epsilon (n + 1), that rarely.
    rounds = 250
    logits, _, labels = sample(13, 20 * rounds)
    scores = plausibility(fitted, logits, labels=labels).reshape(rounds, 20)
    for epsilon in (0.05, 0.1, 0.2):
        threshold = np.sort(scores[:, :19], axis=1)[:, round(20 * epsilon) - 1]
        missed = (scores[:, 19] < threshold).mean()
        assert missed <= epsilon + 3 * math.sqrt(epsilon * (1 - epsilon) / rounds)
    levels = contour_levels()
    for i in range(5):
        rows = slice(20 * i, 20 * i + 19)
        choice = decal.choose(fitted, logits[rows], labels[rows], miss=0.2)
        fourth = np.sort(scores[i, :19])[3]
        next_level = levels[levels > fourth].min(initial=1.0)
        assert fourth <= choice.alpha <= next_level


def test_too_few_examples_keep_every_class(fitted):
    logits, _, labels = sample(14, 18)
    choice = decal.choose(fitted, logits, labels, miss=0.05)
    assert (choice.alpha, choice.achieved) == (0, 0)
    assert "18 are too few for 0.05, every class is kept" in repr(choice)
    assert fitted.predict(logits, alpha=choice).decide("e_admissible").all()
    logits, _, labels = sample(14, 19)  # 1 / (19 + 1) = 0.05
    assert decal.choose(fitted, logits, labels, miss=0.05).alpha > 0


@pytest.mark.parametrize("n", [1, 5, 8])
def test_too_few_examples_keep_every_class_even_if_none_is_missed(fitted, n):
    # Every label is inside already at alpha = 1, so no row is left to ask about at alpha = 0.
    logits = sample(14, n)[0]
    choice = decal.choose(fitted, logits, logits.argmax(axis=1), miss=0.1)
    assert (choice.alpha, choice.achieved) == (0, 0)
    assert f"on {n} row" in repr(choice)
    assert f"{n} are too few for 0.1, every class is kept" in repr(choice)


def test_a_model_that_misses_less_than_asked_is_left_as_it_is(fitted):
    logits = sample(15, 50)[0]
    choice = decal.choose(fitted, logits, logits.argmax(axis=1), miss=0.1)
    assert (choice.alpha, choice.achieved) == (1, 0)


def test_a_model_that_cannot_keep_every_class_promises_nothing():
    logits = sample(15, 50)[0]
    with pytest.raises(ValueError, match="model must keep every class at alpha = 0: got class"):
        decal.choose(OnlyScale(), logits, logits.argmin(axis=1), miss=0.1)


# The possibility contour


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS, ids=["class", "both", "own", "sum"])
def test_plausibility_of_a_distribution_is_the_largest_level_that_holds_it(kind):
    logits, _, labels = sample(16, 100, K=3)
    model = decal.decalibrate(logits, labels, alpha=0, **kind)
    new, truth, _ = sample(17, 6, K=3)
    truth[0] = softmax(new[0])
    truth[1] = np.eye(3)[new[1].argmin()]
    levels = contour_levels()
    found = plausibility(model, new, distributions=truth)

    @cache
    def box(level):
        return model.predict(new, alpha=level)

    for row in range(len(new)):

        def inside(level, row=row):
            return literally_covered(box(level)[[row]], truth[[row]], 5e-4) == 1

        # First every 32nd level, then all those just before the first that holds it.
        at = next(i for i in range(0, 4097, 32) if inside(levels[i]))
        assert found[row] == next(a for a in levels[max(at - 31, 0) : at + 1] if inside(a))


@at_most(20)
@given(labelled_logits(max_rows=4), st.sampled_from(SETTINGS), st.sampled_from(RULES), st.data())
def test_rows_at_least_as_plausible_as_alpha_are_those_inside(data, kind, rule, draw):
    logits, labels, weights = data
    seen = set(labels if weights is None else labels[weights > 0])
    if len(seen) < 2 or "temperature" in kind["directions"]:  # the best model may not exist
        kind = {**kind, "reference": "model"}
    model = decal.Decalibrator(0, **kind).fit(logits, labels, sample_weight=weights)
    n, K = logits.shape
    rng = np.random.default_rng(draw.draw(st.integers(0, 99)))
    truth = rng.dirichlet(np.full(K, 0.5), size=n)
    asked = rng.integers(0, K, n)
    of_truth = plausibility(model, logits, distributions=truth)
    of_label = plausibility(model, logits, labels=asked, rule=rule)
    for step in draw.draw(st.lists(st.integers(0, 4096), min_size=5, max_size=5)):
        alpha = contour_levels()[step]
        credal = model.predict(logits, alpha=alpha)
        np.testing.assert_array_equal(of_truth >= alpha, credal.contains(truth))
        kept = credal.decide(rule)[np.arange(n), asked]
        np.testing.assert_array_equal(of_label >= alpha, kept)


def test_the_most_probable_class_is_fully_plausible_and_every_row_is_asked_thirteen_times(fitted):
    logits, truth, _ = sample(18, 500)
    model = Counting(fitted)
    found = plausibility(model, logits, distributions=truth)
    assert model.rows <= 13 * len(logits)
    assert len(model.alphas) == len(set(model.alphas))
    assert ((found > 0) & (found < 1)).any()
    top = plausibility(fitted, logits, labels=logits.argmax(axis=1))
    np.testing.assert_array_equal(top, 1)


def test_the_levels_are_as_fine_as_promised():
    levels = contour_levels()
    assert (len(levels), levels[0], levels[-1]) == (4097, 1, 0)
    assert (np.diff(levels) <= 0).all()
    np.testing.assert_allclose(-np.log(levels[[1, 2048, -2]]), [1e-6, 0.0272, 744], rtol=5e-3)
    assert np.abs(np.diff(levels)).max() < 0.0019
    losses = -np.log(levels[3000:4000])
    np.testing.assert_allclose(losses[1:] / losses[:-1], 1.005, rtol=1e-4)


# Reading and misusing


def test_a_choice_reads_as_a_sentence_and_serves_as_the_number(fitted):
    promise = Promise("coverage", 0.9, 1200, guaranteed=False, notes=("rather few",))
    choice = Choice(0.95, 0.91, promise, fitted)
    assert repr(choice) == (
        "Choice: alpha 0.95, coverage 0.9100 on 1,200 rows, wanted at least 0.9\n"
        "  The set holds the known distribution in 0.9 of these 1,200 rows, or more.\n"
        "  (rather few)"
    )
    logits = sample(21, 5)[0]
    np.testing.assert_array_equal(
        fitted.predict(logits, alpha=choice).lower, fitted.predict(logits, alpha=0.95).lower
    )
    with pytest.raises(AttributeError):
        choice.alpha = 0.5


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        (
            Promise("miss", 0.1, 200, "e_admissible"),
            "The true label is outside the kept classes for at most 1 new input in 10; "
            "guaranteed, by 200 rows.",
        ),
        (
            Promise("miss", 0.07, 1, "e_admissible", "class"),
            "For every class, the true label is outside the kept classes for at most 7 new inputs "
            "in 100 of this class; guaranteed, by 1 row.",
        ),
        (
            Promise("miss", 1 / 3, 9, "e_admissible", "group"),
            "In every group, the true label is outside the kept classes for at most 1 new input "
            "in 3; guaranteed, by 9 rows.",
        ),
        (Promise("width", 0.2, 50), "Intervals are 0.2 wide on average, as on these 50 rows."),
        (
            Promise("hold", 0.8, 1050, confidence=0.95),
            "The set holds the whole true distribution for at least 8 new inputs in 10; "
            "guaranteed with confidence 0.95, by 1,050 rows.",
        ),
        (
            Promise("coverage", 0.12345, 40),
            "The set holds the true distribution for at least 12.3450% of new inputs; "
            "guaranteed, by 40 rows.",
        ),
        (
            Promise("hold", 1.0, 40),
            "The set holds the whole true distribution for every new input; "
            "guaranteed, by 40 rows.",
        ),
    ],
)
def test_a_promise_is_one_plain_sentence(promise, said):
    assert str(promise) == said


def test_the_room_behind_the_function_can_be_imported():
    import decal.choose
    from decal.choose import Triage, choose, triage

    assert decal.choose is choose
    assert callable(triage)
    assert Triage.__module__.startswith("decal.choose.")
    assert {"choose", "Choice"} <= set(decal.__all__)


def test_a_choice_predicts_and_decides(fitted):
    logits, truth, labels = sample(24, 120)
    new = sample(25, 7)[0]
    choice = decal.choose(fitted, logits, labels, miss=0.1)
    at_alpha = fitted.predict(new, alpha=choice.alpha)
    np.testing.assert_array_equal(choice.predict(new).lower, at_alpha.lower)
    np.testing.assert_array_equal(choice.decide(new), at_alpha.decide("e_admissible"))
    groups = labels % 2
    by_group = decal.choose(fitted, logits, labels, miss=0.2, groups=groups)
    assert by_group.alpha == min(part.alpha for part in by_group.parts.values())
    assert by_group.achieved == max(part.achieved for part in by_group.parts.values())
    kept = by_group.predict(new, groups=[0] * 7).decide("e_admissible")
    np.testing.assert_array_equal(by_group.decide(new, groups=[0] * 7), kept)
    covered = decal.choose(fitted, logits, coverage=0.5, distributions=truth)
    by_class = decal.choose(fitted, logits, labels, miss=0.2, per="class")
    for call, message in (
        (lambda: covered.decide(new), "a choice must be of miss, to decide: got coverage"),
        (lambda: by_group.predict(new), "groups must be given, as alpha was chosen by groups"),
        (lambda: choice.predict(new, groups=[0] * 7), "groups must be left out: got groups"),
        (lambda: by_group.predict(new, groups=[5] * 7), "groups must be those .*: got 5"),
        (lambda: float(by_class), "holds 4 alphas"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, z: decal.choose(m, z, width=-0.5), "width must lie between 0 and 1"),
        (lambda m, z: decal.choose(m, z[:, :3], width=0.5), "logits must have 4 col"),
        (
            lambda m, z: decal.choose(m, z, coverage=0.5, distributions=z.clip(0, 1)),
            "distributions must sum to 1 in every row",
        ),
        (
            lambda m, z: decal.choose(m, z, distributions=softmax(z, axis=1)),
            "one of miss, width, hold, coverage must be given: got none",
        ),
        (
            lambda m, z: decal.choose(m, z, coverage=0.5),
            "distributions or annotations must be given, one of them: got neither",
        ),
        (
            lambda m, z: decal.choose(
                m, z, coverage=0.5, distributions=z, annotations=[[0]] * len(z)
            ),
            "distributions or annotations must be given, one of them: got both",
        ),
        (
            lambda m, z: decal.choose(m, z, coverage=0.5, annotations=[[0]]),
            r"distributions must have shape \(6, 4\): got shape \(1, 4\)",
        ),
        (
            lambda m, z: decal.choose(m, z, [0, 1, 2, 3, 4, 0], miss=0.1),
            "labels must lie in 0 to 3, the columns of logits: got 4 at index 4",
        ),
        (
            lambda m, z: decal.choose(m, z, [0] * 6, miss=-0.1),
            "miss must lie between 0 and 1: got -0.1",
        ),
        (
            lambda m, z: decal.choose(m, z, [0] * 6, miss=0.1, rule="gamma_maximin"),
            "rule must be one of 'interval_dominance', 'maximality', 'e_admissible', 'majority'",
        ),
        (
            lambda m, z: decal.choose(m, z, [0] * 6, miss=0.1, width=0.2),
            "one of miss, width, hold, coverage must be given: got miss and width",
        ),
        (lambda m, z: decal.choose(m, z, miss=0.1), "labels must be given with miss: got None"),
        (
            lambda m, z: decal.choose(m, z, [0] * 6, miss=0.1, confidence=0.9),
            "confidence must go with hold: got miss",
        ),
        (
            lambda m, z: decal.choose(m, z, [0] * 6, hold=0.8, per="class"),
            "per must go with miss: got hold",
        ),
        (
            lambda m, z: decal.choose(m, z, [0] * 6, miss=0.1, per="row"),
            "per must be one of 'class': got 'row'",
        ),
        (
            lambda m, z: decal.choose(m, z, [0] * 6, miss=0.1, per="class", groups=[0] * 6),
            "groups must be left out with per='class': got both",
        ),
        (
            lambda m, z: plausibility(m, z),
            "distributions or labels must be given, one of them: got neither",
        ),
    ],
)
def test_bad_input_is_named(fitted, call, message):
    with pytest.raises(ValueError, match=message):
        call(fitted, sample(22, 6)[0])


def test_a_model_without_data_says_so():
    with pytest.raises(decal.NotFittedError, match="must be fitted first"):
        decal.choose(decal.Decalibrator(), [[0.0, 1.0]], width=0.5)


# From a confidence level


@given(st.floats(0, 0.999), st.integers(1, 50))
def test_confidence_becomes_the_likelihood_ratio_of_wilks(level, df):
    alpha = decal.alpha_from_confidence(level, df)
    assert alpha == pytest.approx(math.exp(-chi2.ppf(level, df) / 2), rel=1e-9)


def test_the_ends_of_the_scale():
    assert decal.alpha_from_confidence(0) == 1
    assert decal.alpha_from_confidence(1) == 0


def test_bad_levels_are_refused():
    with pytest.raises(ValueError, match="level must lie between 0 and 1: got 1.2"):
        decal.alpha_from_confidence(1.2)
    with pytest.raises(ValueError, match="df must be a whole number, at least 1: got 0"):
        decal.alpha_from_confidence(0.5, df=0)


# What takes one alpha, and one model


@pytest.mark.parametrize(("per", "call"), [("class", "decide"), ("group", "predict")])
def test_a_choice_of_several_alphas_is_refused_in_one_sentence_where_one_is_taken(per, call):
    said = f"got a Choice, which holds 2 of them. Call its {call}."
    one = Choice(0.9, 0.08, Promise("miss", 0.1, 50, "e_admissible"), None)
    promise = Promise("miss", 0.1, 100, "e_admissible", per)
    choice = Choice.of_parts({"a": one, "b": one}, promise)
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    calls = [
        lambda: d.shifts(choice),
        lambda: decal.Decalibrator(choice),
        lambda: decal.MultiLabelDecalibrator(choice),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=re.escape(said)) as refused:
            call()
        assert "\n" not in str(refused.value)
    # A single choice is a number.
    assert decal.Decalibrator(one).alpha == 0.9
    assert np.array_equal(d.predict([[0.5, 0.0]], alpha=one).lower, d.predict([[0.5, 0.0]]).lower)


@pytest.mark.parametrize(
    "alpha", [np.full((40, 2), 0.5), [0.1] * 200, object(), "0.9" * 99, [[1], []]]
)
def test_what_is_no_alpha_is_told_in_one_short_line(alpha):
    with pytest.raises(ValueError, match="alpha must be one number from 0 to 1: got ") as refused:
        decal.Decalibrator(alpha)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 120


def test_a_model_of_several_labels_grants_miss_and_width_and_says_so():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 3))
    y = (z + rng.normal(size=z.shape) > 0).astype(int)
    model = decal.MultiLabelDecalibrator(0.9).fit(z, y)
    for refused in ({"hold": 0.5}, {"coverage": 0.5, "distributions": z}):
        with pytest.raises(
            ValueError, match="got a MultiLabelDecalibrator.*Fit a Decalibrator per label"
        ):
            decal.choose(model, z, y, **refused)
    for option in ({"per": "class"}, {"groups": np.zeros(60, dtype=int)}):
        with pytest.raises(ValueError, match="must be left out, as every label has a promise"):
            decal.choose(model, z, y, miss=0.1, **option)
    wide = decal.choose(model, z, width=0.3).promised().predict(z)
    assert wide.width().mean() == pytest.approx(0.3, abs=1e-5)
