"""Bounds over plausible frequencies against grids and SLSQP."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2
from tests.oracles import label_shift as oracle

from decal.shift._likelihood import Likelihood, most_likely
from decal.shift._observed import Observed, joint_box


def problem(rng, K, N, sharpness):
    """Unlabelled inputs, and three new ones."""
    ratios = np.exp(sharpness * rng.normal(size=(N, K)))
    odds = np.exp(sharpness * rng.normal(size=(3, K)))
    return ratios / ratios.max(axis=1, keepdims=True), odds / odds.max(axis=1, keepdims=True)


@pytest.mark.parametrize(("K", "N", "sharpness"), [(2, 1, 1), (2, 40, 2), (3, 5, 3), (3, 60, 2)])
def test_bounds_are_those_of_a_scan(K, N, sharpness):
    rng = np.random.default_rng([K, N])
    ratios, odds = problem(rng, K, N, sharpness)
    observed = Observed(Likelihood(ratios, np.ones(N)))
    best, depth = observed.maximum, chi2.ppf(0.95, K - 1) / 2
    low, high = joint_box(observed.region(depth), odds)
    for i in range(1 if K > 2 else 3):
        inner = oracle.bounds(odds[i], best.frequencies, ratios, np.ones(N), best.value - depth)
        assert np.all(low[i] <= inner[0] + 1e-12)
        assert np.all(high[i] >= inner[1] - 1e-12)
        assert low[i] == pytest.approx(inner[0], abs=1e-6)
        assert high[i] == pytest.approx(inner[1], abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_ten_classes_are_those_of_slsqp(seed):
    rng = np.random.default_rng(seed)
    K, N = 10, int(rng.choice([30, 300]))
    ratios, odds = problem(rng, K, N, 3)
    observed = Observed(Likelihood(ratios, np.ones(N)))
    best, depth = observed.maximum, chi2.ppf(0.95, K - 1) / 2
    low, high = joint_box(observed.region(depth), odds[:1])
    floor, w = best.value - depth, odds[0]

    def inside(v):
        return np.sum(np.log(ratios @ v)) - floor

    def softmax(t):
        return np.exp(t - t.max()) / np.exp(t - t.max()).sum()

    def pulled(slope, v):
        return v * (slope - slope @ v)

    for k, side in [(0, 1), (3, 1), (5, -1), (int(np.argmax(w)), -1)]:
        own, others = w * (np.arange(K) == k), w * (np.arange(K) != k)
        reached = []
        for share in (0.02, 0.1, 0.3):

            def objective(t, c=own, d=others, side=side):
                v = softmax(t)
                slope = side * (d / (d @ v) - c / (c @ v))
                return side * (np.log(d @ v) - np.log(c @ v)), pulled(slope, v)

            found = minimize(
                objective,
                np.log((1 - share) * best.frequencies + share / K),
                jac=True,
                bounds=[(-30, 0)] * K,
                constraints={
                    "type": "ineq",
                    "fun": lambda t: inside(softmax(t)),
                    "jac": lambda t: pulled((1 / (ratios @ softmax(t))) @ ratios, softmax(t)),
                },
                method="SLSQP",
                options={"ftol": 1e-13, "maxiter": 500},
            )
            v = softmax(found.x)
            if inside(v) >= -1e-7:
                reached.append(w[k] * v[k] / (w @ v))
        exact = max(reached) if side > 0 else min(reached)
        bound = high[0, k] if side > 0 else low[0, k]
        assert side * (bound - exact) >= -2e-8
        assert bound == pytest.approx(exact, abs=1e-7)


def test_errors_are_small_for_nasty_problems():
    for seed in range(12):
        rng = np.random.default_rng([seed, 7])
        K, N = int(rng.choice([2, 4, 6])), int(rng.choice([1, 3, 30]))
        ratios, odds = problem(rng, K, N, rng.choice([0.01, 2, 12]))
        if seed % 3 == 0:
            ratios[:, 0] = ratios[:, -1]  # two classes that look alike
        observed = Observed(Likelihood(ratios, np.ones(N)))
        region = observed.region(chi2.ppf(0.95, K - 1) / 2)
        each = np.eye(K)
        own = odds[:1] * each
        bound, error = region.largest_probability(own, odds[:1] * (1 - each))
        # An input that weighs little under all plausible frequencies has lost digits.
        assert np.all(error <= 1e-7 + 1e-15 / (odds[0] @ region.middle))
        assert np.all((bound >= 0) & (bound <= 1 + 1e-9))


def test_the_most_likely_frequencies_satisfy_the_conditions_of_a_maximum():
    rng = np.random.default_rng(1)
    for K, N in [(2, 1), (3, 10), (6, 500), (60, 200)]:
        ratios, _ = problem(rng, K, N, 3)
        likelihood = Likelihood(ratios, rng.uniform(0.5, 2, size=N))
        found = most_likely(likelihood)
        v, w = found.frequencies, likelihood.weights
        slope = (w / (ratios @ v)) @ ratios / w.sum()
        assert v.sum() == pytest.approx(1)
        assert slope.max() <= 1 + 1e-9
        assert np.all((v <= 1e-9) | (np.abs(slope - 1) < 1e-6))
        assert found.value == pytest.approx(oracle.log_likelihood(v, ratios, w))


def test_weights_count_like_rows():
    rng = np.random.default_rng(2)
    ratios, odds = problem(rng, 3, 8, 2)
    times = np.array([1, 2, 3, 1, 1, 2, 1, 4])
    depth = 2.0
    once = Observed(Likelihood(ratios, times.astype(float)))
    repeated = Observed(Likelihood(np.repeat(ratios, times, axis=0), np.ones(times.sum())))
    assert np.allclose(
        joint_box(once.region(depth), odds), joint_box(repeated.region(depth), odds), atol=1e-7
    )


# Bounds to an error

ERROR = 1e-3


def region_of(ratios, weights, confidence=0.95):
    observed = Observed(Likelihood(ratios / ratios.max(axis=1, keepdims=True), weights))
    return observed.region(chi2.ppf(confidence, ratios.shape[1] - 1) / 2)


REGIONS = {
    "many inputs": (4, 400, 1.5, 10.0),
    "few inputs": (5, 30, 2.0, 1.0),
    "one input": (3, 1, 3.0, 1.0),
    "sharp inputs": (6, 200, 5.0, 1.0),
}


@pytest.fixture(params=REGIONS)
def region(request):
    K, N, sharpness, times = REGIONS[request.param]
    ratios = np.exp(sharpness * np.random.default_rng([K, N]).normal(size=(N, K)))
    return region_of(ratios, np.full(N, times))


@pytest.mark.parametrize("kind", ["as observed", "others", "some are impossible"])
def test_bounds_of_many_kinds_of_inputs_are_never_inside_and_at_most_so_wide(region, kind):
    rng = np.random.default_rng(3)
    K = len(region.middle)
    odds = np.exp(2 * rng.normal(size=(4, K)))
    if kind == "as observed":
        odds = region.likelihood.ratios[:4]
    elif kind == "some are impossible":
        odds[:, 1] = 0.0
        odds[0, 2:] = 0.0  # one class alone
    low, high = joint_box(region, odds, ERROR)
    exact_low, exact_high = joint_box(region, odds)
    assert np.all(low <= exact_low + 1e-8)
    assert np.all(high >= exact_high - 1e-8)
    assert np.all(np.maximum(exact_low - low, high - exact_high) <= ERROR + 1e-7)


def test_an_input_has_the_same_bounds_among_any_others():
    rng = np.random.default_rng(4)
    region = region_of(np.exp(2 * rng.normal(size=(300, 4))), np.ones(300))
    odds = np.exp(2 * rng.normal(size=(60, 4)))
    together = joint_box(region, odds, ERROR)
    alone = joint_box(region, odds[:7], ERROR)
    assert np.allclose(np.array(together)[:, :7], alone, atol=1e-9)


def test_a_class_that_never_occurs_has_no_probability():
    ratios = np.exp(np.random.default_rng(5).normal(size=(50, 3))) * [0.0, 1.0, 1.0]
    region = region_of(ratios, np.ones(50))
    low, high = joint_box(region, np.ones((1, 3)) * [0.0, 1.0, 1.0], ERROR)
    assert low[0, 0] == high[0, 0] == 0
    assert np.all(high[0, 1:] > low[0, 1:])


@pytest.mark.parametrize("classes", [12, 13])
def test_bounds_of_more_classes_are_never_inside_either(classes):
    rng = np.random.default_rng(6)
    region = region_of(np.exp(2 * rng.normal(size=(200, classes))), np.ones(200))
    odds = np.exp(rng.normal(size=(2, classes)))
    low, high = joint_box(region, odds, ERROR)
    exact_low, exact_high = joint_box(region, odds)
    assert np.all((low <= exact_low + 1e-8) & (exact_low - low <= ERROR + 1e-7))
    assert np.all((high >= exact_high - 1e-8) & (high - exact_high <= ERROR + 1e-7))
