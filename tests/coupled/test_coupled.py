"""All logits at once: inner endpoints are attained, outer ones hold, nothing is claimed wrongly.

The oracles evaluate whole rows of logits and search by brute force: rays from the best shift to the
boundary of the region, all directions for three classes, SLSQP from many starts. They import
nothing from decal. DECAL_STRESS sets how many random problems are tried (40 unless set).
"""

import itertools
import math
import os
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax

import decal
from decal.coupled import CoupledDecalibrator
from helpers.archives import read_npz
from helpers.sealed_files import write_sealed
from helpers.strategies import alphas, at_most, few, labelled_logits
from oracles.log_sums import log_sum_exp
from oracles.rays import reach

PROBLEMS = int(os.environ.get("DECAL_STRESS") or few(40))


# Oracles


def log_likelihood(logits, labels, weights, shift):
    """sum_n w_n log p_y after adding the shift, which may be -inf for classes left out."""
    moved = logits + shift
    rows = moved[np.arange(len(labels)), labels] - log_sum_exp(moved)
    return float(weights @ rows)


def best_shift(logits, labels, weights):
    """The maximum-likelihood shift, by BFGS; absent classes are left out."""
    present = np.bincount(labels, weights, minlength=logits.shape[1]) > 0
    full = np.full(logits.shape[1], -np.inf)
    if present.sum() == 1:
        full[present] = 0.0
        return full
    column = np.cumsum(present)[labels] - 1

    def loss(c):
        return -log_likelihood(logits[:, present], column, weights, c) + c.sum() ** 2

    def slope(c):
        p = softmax(logits[:, present] + c, axis=1)
        counts = np.bincount(column, weights, minlength=present.sum())
        return weights @ p - counts + 2 * c.sum()

    found = minimize(loss, np.zeros(present.sum()), jac=slope, options={"gtol": 1e-10})
    full[present] = found.x
    return full


def boundary_points(logits, labels, weights, level, center, rays):
    """Where rays from `center` leave the shifts whose log-likelihood is at least `level`."""
    logits, labels, weights = logits[weights > 0], labels[weights > 0], weights[weights > 0]
    largest = logits.max(axis=1)
    factors = np.exp(logits - largest[:, None])
    own = weights @ (logits[np.arange(len(labels)), labels] - largest)
    counts = np.bincount(labels, weights, minlength=logits.shape[1])

    def plausible(t):
        # The sum over classes of exp(logit + shift) is a product of matrices.
        shift = center + t[:, None] * rays
        most = shift.max(axis=1)
        totals = np.log(np.exp(shift - most[:, None]) @ factors.T)
        moved = np.where(counts > 0, shift - most[:, None], 0.0) @ counts
        return own + moved - totals @ weights >= level

    return center + reach(plausible, len(rays))[:, None] * rays


def slsqp_lower(logits, labels, weights, level, query, k, start):
    """A local minimum of p_k over the region, and whether SLSQP ended inside it."""

    def slack(c):
        return log_likelihood(logits, labels, weights, c) - level

    def slope(c):
        p = softmax(logits + c, axis=1)
        return np.bincount(labels, weights, minlength=len(c)) - weights @ p

    def log_p(c):
        moved = query + c
        return moved[k] - log_sum_exp(moved)

    def log_p_slope(c):
        return (np.arange(len(c)) == k) - softmax(query + c)

    rule = {"type": "ineq", "fun": slack, "jac": slope}
    found = minimize(
        log_p, start, jac=log_p_slope, method="SLSQP", constraints=[rule], options={"maxiter": 200}
    )
    return np.exp(found.fun), slack(found.x) >= -1e-9 * (1 + abs(level))


# Problems


def random_problem(seed):
    """Labelled logits, weights, settings and queries: small and large regions, absent classes."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 6)), int(rng.choice([4, 8, 20, 60, 200]))
    logits = rng.normal(size=(n, K)) * rng.choice([0.3, 1.0, 3.0, 6.0])
    p = softmax(logits * rng.choice([0.3, 1.0]), axis=1)
    labels = np.array([rng.choice(K, p=row) for row in p])
    if seed % 4 == 0 and K > 2:
        labels[labels == K - 1] = 0
    weights = np.ones(n) if seed % 3 else rng.integers(0, 4, n).astype(float)
    weights[0] = 1.0
    settings = {
        "alpha": float(rng.choice([0.99, 0.95, 0.8, 0.5, 0.2, 0.05, 0.001])),
        "likelihood": str(rng.choice(["mean", "sum"])),
        "reference": str(rng.choice(["best", "model"])),
    }
    queries = rng.normal(size=(2, K)) * rng.choice([0.5, 2.0, 5.0])
    return logits, labels, weights, settings, queries


def fitted(logits, labels, weights=None, *, classes=None, **settings):
    settings = {"tol": 1e-6} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        return CoupledDecalibrator(**settings).fit(
            logits, labels, sample_weight=weights, classes=classes
        )


def level_of(logits, labels, weights, settings):
    """The log-likelihood that a plausible shift must reach."""
    b = np.log(settings["alpha"])
    b *= weights.sum() if settings["likelihood"] == "mean" else 1.0
    center = best_shift(logits, labels, weights)
    reference = np.zeros(logits.shape[1]) if settings["reference"] == "model" else center
    counted = weights > 0
    at = log_likelihood(logits[counted], labels[counted], weights[counted], reference)
    return at + b, center


def shop(seed=0, n=300, K=4):
    """A readable example: an overconfident classifier of four classes."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, K)) * 2
    labels = np.array([rng.choice(K, p=p) for p in softmax(0.7 * logits, axis=1)])
    return logits, labels, rng.normal(size=(12, K)) * 2


# What it returns


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_inner_ends_are_attained_and_outer_ends_hold(seed):
    logits, labels, weights, settings, queries = random_problem(seed)
    credal = fitted(logits, labels, weights, **settings).predict(queries, shifts=True)
    assert (credal.lower_outer <= credal.lower).all()
    assert (credal.lower <= credal.upper).all()
    assert (credal.upper <= credal.upper_outer).all()

    level, center = level_of(logits, labels, weights, settings)
    counted = weights > 0
    scale = weights.sum() + abs(level)
    endpoints = ((credal.lower, credal.lower_shifts), (credal.upper, credal.upper_shifts))
    for values, shifts in endpoints:
        for row, query in enumerate(queries):
            for k, shift in enumerate(shifts[row]):
                assert softmax(query + shift)[k] == pytest.approx(values[row, k], abs=1e-9)
                reached = log_likelihood(logits[counted], labels[counted], weights[counted], shift)
                assert reached >= level - 1e-9 * scale

    K = logits.shape[1]
    rng = np.random.default_rng(seed)
    rays = rng.normal(size=(300, K)) * np.exp(rng.normal(size=(300, K)))
    rays[: K * K] = (np.eye(K)[:, None] - np.eye(K)).reshape(-1, K)
    absent = np.isneginf(center)
    rays[:, absent] = 5 * np.abs(rays[:, absent])
    start = np.where(absent, -30.0, center)
    points = boundary_points(logits, labels, weights, level, start, rays)
    for row, query in enumerate(queries):
        p = softmax(query + points, axis=1)
        assert (p >= credal.lower_outer[row] - 1e-9).all()
        assert (p <= credal.upper_outer[row] + 1e-9).all()
        assert (p >= credal.lower[row] - 1e-5).all()
        assert (p <= credal.upper[row] + 1e-5).all()


@pytest.mark.parametrize("seed", range(max(4, PROBLEMS // 10)))
def test_no_start_of_slsqp_does_better_than_a_certified_endpoint(seed):
    logits, labels, weights, settings, queries = random_problem(4 * seed + 1)
    settings = settings | {"reference": "best"}
    credal = fitted(logits, labels, weights, **settings).predict(queries)
    level, center = level_of(logits, labels, weights, settings)
    if np.isneginf(center).any():
        return
    counted = weights > 0
    data = logits[counted], labels[counted], weights[counted]
    rng = np.random.default_rng(seed)
    for k in range(logits.shape[1]):
        for _ in range(4):
            start = center + 0.3 * rng.normal(size=len(center))
            value, inside = slsqp_lower(*data, level, queries[0], k, start)
            if inside:
                assert value >= credal.lower_outer[0, k] - 1e-7


def all_around(logits, labels, alpha):
    """Points of the boundary in all directions, three classes, mean budget from the best shift."""
    ones = np.ones(len(labels))
    setting = {"alpha": alpha, "likelihood": "mean", "reference": "best"}
    level, center = level_of(logits, labels, ones, setting)
    angle = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    plane = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / [[2**0.5], [6**0.5]]
    rays = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane
    return boundary_points(logits, labels, ones, level, center, rays)


@pytest.mark.parametrize("seed", range(6))
def test_with_three_classes_the_ends_are_those_of_all_directions(seed):
    logits, labels, queries = shop(seed, n=60, K=3)
    credal = fitted(logits, labels, alpha=0.8, likelihood="mean").predict(queries)
    p = softmax(queries[:, None] + all_around(logits, labels, 0.8), axis=2)
    np.testing.assert_allclose(p.min(axis=1), credal.lower, atol=2e-5)
    np.testing.assert_allclose(p.max(axis=1), credal.upper, atol=2e-5)


def two_valleys():
    """Ten examples tell class 0 from 1, ten from 2: either rival can be lifted, not both."""
    rng = np.random.default_rng(0)
    logits = np.repeat([[0.0, 0.0, -6.0], [0.0, -6.0, 0.0]], 10, axis=0)
    logits += 0.1 * rng.normal(size=(20, 3))
    return logits, np.repeat([0, 1, 0, 2], 5)


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.1])
@pytest.mark.parametrize("lead", [-0.05, 0.0, 0.05])
def test_of_two_local_minima_the_lower_one_is_found_and_neither_is_called_proved(alpha, lead):
    logits, labels = two_valleys()
    query = np.array([[0.0, 1.0, 1.0 + lead]])
    credal = fitted(logits, labels, alpha=alpha, likelihood="mean").predict(query)
    p = softmax(query + all_around(logits, labels, alpha), axis=1)[:, 0]
    minima = p[(p < np.roll(p, 1)) & (p < np.roll(p, -1))]
    assert len(minima) == 2
    assert minima.min() * 0.99 < credal.lower[0, 0] <= minima.min()
    assert credal.status[0, 0] == "bracket"
    assert credal.lower_outer[0, 0] < credal.lower[0, 0]


@at_most(25)
@given(
    labelled_logits(max_rows=8, max_classes=4),
    alphas,
    st.sampled_from(["mean", "sum"]),
    st.sampled_from(["best", "model"]),
)
def test_awkward_data_never_break_the_order_of_the_endpoints(data, alpha, likelihood, reference):
    logits, labels, weights = data
    d = fitted(logits, labels, weights, alpha=alpha, likelihood=likelihood, reference=reference)
    credal = d.predict(logits)
    str(d.diagnostics())
    endpoints = [credal.lower_outer, credal.lower, credal.upper, credal.upper_outer]
    assert (np.diff([0 * endpoints[0], *endpoints, 0 * endpoints[0] + 1], axis=0) >= 0).all()
    assert (credal.lower <= credal.point).all()
    assert (credal.point <= credal.upper).all()


# How it relates to other things


@pytest.mark.parametrize("seed", range(8))
def test_one_dimensional_intervals_lie_inside(seed):
    logits, labels, weights, settings, queries = random_problem(seed)
    if (np.bincount(labels, weights, minlength=logits.shape[1]) > 0).sum() < 2:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        alone = decal.decalibrate(logits, labels, sample_weight=weights, **settings)
    line = alone.predict(queries)
    for tol in (1e-6, 1e-3):
        credal = fitted(logits, labels, weights, **settings, tol=tol).predict(queries)
        assert (credal.lower <= line.lower + 1e-9).all()
        assert (credal.upper >= line.upper - 1e-9).all()


def test_with_two_classes_there_is_only_one_dimension():
    logits, labels, queries = shop(K=2)
    line = decal.decalibrate(logits, labels, alpha=0.9, reference="best").predict(queries)
    credal = fitted(logits, labels, alpha=0.9, likelihood="mean").predict(queries)
    np.testing.assert_allclose(credal.lower, line.lower, atol=1e-8)
    np.testing.assert_allclose(credal.upper, line.upper, atol=1e-8)
    assert (credal.gap < 1e-6).all()


def test_results_do_not_depend_on_the_batch():
    logits, labels, queries = shop()
    d = fitted(logits, labels, alpha=0.9, likelihood="mean")
    together = d.predict(queries)
    for row in range(len(queries)):
        alone = d.predict(queries[row : row + 1])
        np.testing.assert_allclose(alone.lower, together.lower[[row]], atol=1e-9)
        np.testing.assert_allclose(alone.upper, together.upper[[row]], atol=1e-9)
        np.testing.assert_allclose(alone.lower_outer, together.lower_outer[[row]], atol=1e-7)
        assert (alone.status == together.status[row]).all()


@pytest.mark.parametrize("absent", [False, True])
def test_results_do_not_depend_on_the_order_of_classes(absent):
    logits, labels, queries = shop()
    if absent:
        labels[labels == 2] = 1
    order = np.array([2, 0, 3, 1])
    credal = fitted(logits, labels, alpha=0.9, likelihood="mean").predict(queries)
    renamed = fitted(logits[:, order], np.argsort(order)[labels], alpha=0.9, likelihood="mean")
    other = renamed.predict(queries[:, order])
    np.testing.assert_allclose(other.lower, credal.lower[:, order], atol=1e-8)
    np.testing.assert_allclose(other.upper, credal.upper[:, order], atol=1e-8)
    np.testing.assert_allclose(other.lower_outer, credal.lower_outer[:, order], atol=1e-6)
    assert (other.status == credal.status[:, order]).all()


@pytest.mark.parametrize("seed", range(PROBLEMS // 2))
def test_several_local_minima_do_not_mislead(seed):
    # Class 0 is confused with 1 on some inputs and with 2 on others. To make class 0 improbable,
    # one may lift class 1 or class 2, and nothing in between is as good.
    rng = np.random.default_rng(seed)
    n = 2 * int(rng.integers(4, 12))
    means = np.repeat([[0.0, 0.0, -12.0], [0.0, -12.0, 0.0]], n, axis=0)
    logits = means + 0.3 * rng.normal(size=(2 * n, 3))
    labels = np.concatenate([np.arange(n) % 2, 2 * (np.arange(n) % 2)])
    alpha = float(rng.choice([0.5, 0.3, 0.2]))
    rival = rng.normal()
    query = np.array([rng.normal(), rival, rival + 0.1 * rng.normal()])
    settings = {"alpha": alpha, "likelihood": "mean", "reference": "best"}
    ones = np.ones(2 * n)
    level, center = level_of(logits, labels, ones, settings)
    angle = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    plane = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    rays = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane
    edge = boundary_points(logits, labels, ones, level, center, rays)
    p = softmax(query + edge, axis=1)[:, 0]
    assert np.count_nonzero((p < np.roll(p, 1)) & (p <= np.roll(p, -1))) == 2
    credal = fitted(logits, labels, **settings).predict(query[None])
    assert p.min() >= credal.lower_outer[0, 0] - 1e-9
    assert p.min() == pytest.approx(credal.lower[0, 0], abs=3e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_an_absent_class_pushes_the_others_as_far_as_a_grid_shows(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(30, 3)) * rng.choice([0.5, 2.0])
    labels = rng.permutation(np.arange(30) % 2)
    query = rng.normal(size=3) * 2
    alpha = float(rng.choice([0.99, 0.9, 0.6]))
    credal = fitted(logits, labels, alpha=alpha, likelihood="mean").predict(query[None])
    # Shifts of classes 1 and 2 against class 0, the last also left out.
    first = np.linspace(-6, 6, 1201)
    second = np.append(-np.inf, np.linspace(-12, 6, 721))
    with np.errstate(divide="ignore"):
        c = np.stack([np.zeros((1201, 722)), *np.meshgrid(first, second, indexing="ij")], axis=-1)
        factors = np.exp(c)
        total = np.log(math.prod(factors @ np.exp(z) for z in logits))  # within 1e-150 and 1e150
    likelihood = logits[np.arange(30), labels].sum() + first[:, None] * labels.sum() - total
    plausible = likelihood >= likelihood[:, 0].max() + 30 * np.log(alpha)
    p = softmax(query + c[plausible], axis=1)[:, :2]
    assert (p >= credal.lower_outer[0, :2] - 1e-9).all()
    np.testing.assert_allclose(p.min(axis=0), credal.lower[0, :2], atol=2e-3)


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
@pytest.mark.parametrize("tol", [1e-6, 1e-3])
def test_smaller_alpha_never_narrows_by_more_than_the_gap(likelihood, tol):
    logits, labels, queries = shop(1)
    d = fitted(logits, labels, alpha=0.9, likelihood=likelihood, tol=tol)
    sets = [d.predict(queries, alpha=a) for a in (1.0, 0.99, 0.9, 0.7, 0.4, 0.1, 1e-3, 0.0)]
    for narrow, wide in itertools.pairwise(sets):
        assert (wide.lower_outer <= narrow.lower).all()
        assert (wide.upper_outer >= narrow.upper).all()
        assert (wide.lower <= narrow.lower + max(tol, 1e-9)).all()
        assert (wide.upper >= narrow.upper - max(tol, 1e-9)).all()


def test_a_weight_of_two_counts_like_two_rows():
    logits, labels, queries = shop()
    weights = np.where(np.arange(len(labels)) < 40, 2.0, 1.0)
    twice = np.concatenate([logits, logits[:40]]), np.concatenate([labels, labels[:40]])
    one = fitted(logits, labels, weights, alpha=0.9, likelihood="mean").predict(queries)
    two = fitted(*twice, alpha=0.9, likelihood="mean").predict(queries)
    np.testing.assert_allclose(one.lower, two.lower, atol=1e-8)
    np.testing.assert_allclose(one.upper, two.upper, atol=1e-8)


# Limits


def test_the_region_is_compact_only_if_every_class_occurs():
    """A correction to the paper, which asks for two classes that occur: here two of three do."""
    logits, labels, _ = shop(K=3)
    logits, labels = logits[labels < 2], labels[labels < 2]
    ones = np.ones(len(labels))
    gains = [
        log_likelihood(logits, labels, ones, np.array([0.0, 0.0, -t]))
        - log_likelihood(logits, labels, ones, np.zeros(3))
        for t in (1.0, 10.0, 100.0, 1000.0)
    ]
    assert (np.diff(gains) >= 0).all()
    assert gains[0] > 0
    credal = fitted(logits, labels, alpha=0.9, likelihood="mean").predict(
        [[0.0, 1.0, 3.0]], shifts=True
    )
    assert credal.lower[0, 2] == credal.lower_outer[0, 2] == 0.0
    assert credal.lower_status[0, 2] == "unbounded"
    assert np.isneginf(credal.lower_shifts[0, 2, 2])
    assert 0 < credal.upper[0, 2] < 1
    assert (credal.lower[0, :2] > 0).all()


def test_the_only_class_that_occurs_may_become_certain():
    logits, _, queries = shop(K=3)
    d = fitted(logits, np.full(len(logits), 1), alpha=0.9, likelihood="mean")
    credal = d.predict(queries)
    assert (credal.upper[:, 1] == 1).all()
    assert (credal.lower[:, [0, 2]] == 0).all()
    assert (credal.upper_status[:, 1] == "unbounded").all()
    assert (credal.lower[:, 1] > 0).all()
    assert (credal.upper[:, [0, 2]] < 1).all()


def test_alpha_one_is_a_point_and_alpha_zero_excludes_nothing():
    logits, labels, queries = shop()
    d = fitted(logits, labels, alpha=1.0, likelihood="sum")
    point = d.predict(queries)
    np.testing.assert_allclose(point.lower, softmax(queries + _center(logits, labels), axis=1))
    assert (point.lower == point.upper_outer).all()
    assert (point.status == "point").all()
    everything = d.predict(queries, alpha=0.0, shifts=True)
    assert (everything.lower == 0).all()
    assert (everything.upper == 1).all()
    assert softmax(queries[0] + everything.upper_shifts[0, 2])[2] == 1


def _center(logits, labels):
    return best_shift(logits, labels, np.ones(len(labels)))


def test_the_theorem_holds_for_small_regions_and_says_so():
    logits, labels, queries = shop(n=3000)
    d = fitted(logits, labels, alpha=0.8, likelihood="sum", certify="full")
    assert (d.diagnostics().rho < 1).all()
    credal = d.predict(queries)
    assert (credal.status == "theorem").all()
    assert (credal.upper_status == "convex").all()
    assert credal.gap.max() < 1e-8
    assert "global for every input" in str(d.diagnostics())
    assert (d.diagnostics(alpha=1e-300).rho > 1).any()


def test_many_classes_take_the_fixed_metric_and_agree_with_slsqp():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2000, 40))
    labels = np.array([rng.choice(40, p=p) for p in softmax(logits, axis=1)])
    query = rng.normal(size=(1, 40)) * 2
    credal = fitted(logits, labels, alpha=0.8, likelihood="sum").predict(query)
    assert credal.gap.max() < 1e-6
    level, center = level_of(
        logits, labels, np.ones(2000), {"alpha": 0.8, "likelihood": "sum", "reference": "best"}
    )
    k = int(query.argmax())
    value, inside = slsqp_lower(logits, labels, np.ones(2000), level, query[0], k, center)
    assert inside
    assert value == pytest.approx(credal.lower[0, k], abs=1e-5)


# The object, the settings and the messages


def test_without_certificates_only_lower_ends_lose_their_proof():
    logits, labels, queries = shop()
    proved, bare = (
        fitted(logits, labels, alpha=0.95, likelihood="mean", certify=certify).predict(queries)
        for certify in ("auto", "none")
    )
    np.testing.assert_allclose(bare.lower, proved.lower, atol=1e-9)
    np.testing.assert_allclose(bare.upper_outer, proved.upper_outer, atol=1e-9)
    assert set(np.unique(bare.lower_status)) <= {"bracket", "closed form"}
    assert (bare.lower_outer <= proved.lower_outer + 1e-12).all()


def test_the_credal_set_carries_what_is_known_of_its_endpoints():
    logits, labels, queries = shop()
    d = fitted(logits, labels, alpha=0.9, likelihood="mean", classes="abcd")
    credal = d.predict(queries, shifts=True)
    part = credal[[3, 1]]
    assert isinstance(part, type(credal))
    np.testing.assert_array_equal(part.lower_outer, credal.lower_outer[[3, 1]])
    np.testing.assert_array_equal(part.lower_shifts, credal.lower_shifts[[3, 1]])
    assert credal.classes == ("a", "b", "c", "d")
    outer = credal.outer()
    assert type(outer) is decal.IntervalCredalSet
    np.testing.assert_array_equal(outer.lower, credal.lower_outer)
    assert (credal.tighten().lower >= credal.lower).all()
    assert (credal.epistemic() > 0).all()
    assert d.predict(queries).lower_shifts is None
    assert "endpoints known to" in repr(credal)
    with pytest.raises(ValueError, match="read-only"):
        credal.lower_outer[0, 0] = 0.0


def test_diagnostics_name_what_the_region_rests_on():
    logits, labels, _ = shop()
    logits, labels = logits[labels != 2], labels[labels != 2]
    d = fitted(logits, labels, alpha=0.9, likelihood="mean", classes=["cat", "dog", "fox", "owl"])
    found = d.diagnostics()
    counts = np.bincount(labels, minlength=4)
    np.testing.assert_array_equal(found.label_weight, counts)
    assert found.budget == pytest.approx(-len(labels) * np.log(0.9))
    center = _center(logits, labels)
    gained = log_likelihood(logits, labels, np.ones(len(labels)), center)
    gained -= log_likelihood(logits, labels, np.ones(len(labels)), np.zeros(4))
    assert found.gain == pytest.approx(gained, abs=1e-8)
    text = str(found)
    assert "absent classes    fox" in text
    assert f"{counts[counts > 0].min()} examples" in text


def test_a_model_far_from_its_best_shift_is_warned_about():
    logits, labels, _ = shop()
    with pytest.warns(decal.FitWarning, match="the best shift gains .* Use reference='best'"):
        CoupledDecalibrator(0.99, likelihood="sum", reference="model").fit(
            logits + np.array([3, 0, 0, 0]), labels
        )


@pytest.mark.parametrize("reference", ["best", "model"])
def test_a_saved_model_answers_the_same(tmp_path, reference):
    logits, labels, query = shop()
    labels = np.where(labels == 3, 0, labels)  # a class that never occurs
    settings = {"alpha": 0.8, "likelihood": "sum", "reference": reference}
    model = fitted(logits, labels, classes="abcd", **settings)
    model.save(tmp_path / "model.npz")
    with (tmp_path / "open.npz").open("wb") as file:
        model.save(file, compressed=False)
    expected = model.predict(query)
    for name in ("model.npz", "open.npz"):
        found = CoupledDecalibrator.load(tmp_path / name)
        assert repr(found) == repr(model)
        credal = found.predict(query)
        assert credal.classes == model.classes
        for column in ("lower", "upper", "lower_outer", "upper_outer", "lower_status"):
            np.testing.assert_array_equal(getattr(credal, column), getattr(expected, column))


def test_files_of_another_kind_and_damaged_ones_are_refused(tmp_path):
    logits, labels, *_ = shop()
    path = tmp_path / "model.npz"

    def refused(why):
        with pytest.raises(ValueError, match=why):
            CoupledDecalibrator.load(path)

    decal.decalibrate(logits, labels, alpha=0.8).save(path)
    refused("which holds a Decalibrator. Load it with decal.Decalibrator.load")
    model = fitted(logits, labels, alpha=0.8, likelihood="sum")
    model.save(path)
    with pytest.raises(ValueError, match="which holds a CoupledDecalibrator. Load it with"):
        decal.Decalibrator.load(path)
    with np.load(path) as file:
        arrays = dict(file)
    for name in ("log_odds", "weights", "label_weight", "center"):
        for wrong in (arrays[name][1:], arrays[name] * np.nan, arrays[name].astype(np.float32)):
            write_sealed(path, {**arrays, name: wrong})
            refused("must be finite numbers of shape|must hold|odds")
    for name, wrong in (("weights", -1.0), ("label_weight", 2.0), ("log_odds", 1.5)):
        write_sealed(path, {**arrays, name: wrong * arrays[name]})
        refused("not of labelled data")
    write_sealed(path, {k: v for k, v in arrays.items() if k != "center"})
    refused("it holds label_weight, log_odds, weights")
    path.write_bytes(b"no archive")
    refused("that `save` wrote")


def test_settings_are_checked():
    logits, labels, _ = shop()
    with pytest.raises(TypeError, match="likelihood"):
        CoupledDecalibrator(0.9)
    with pytest.raises(
        ValueError, match="certify must be one of 'auto', 'none', 'full': got 'yes'"
    ):
        CoupledDecalibrator(0.9, likelihood="mean", certify="yes")
    with pytest.raises(ValueError, match="tol must be a finite number, not negative: got -1"):
        CoupledDecalibrator(0.9, likelihood="mean", tol=-1)
    d = CoupledDecalibrator(0.9, likelihood="mean")
    with pytest.raises(decal.NotFittedError, match="must be fitted first"):
        d.predict(logits)
    with pytest.raises(ValueError, match="logits must have 4 columns"):
        d.fit(logits, labels).predict(logits[:, :3])
    assert repr(d).endswith("fitted on 300 examples of 4 classes")


# Real data


def real(data_folder, name):
    """Logits and labels to fit, and queries."""
    arrays = read_npz(data_folder / f"clip_{name}_en.npz")
    if name == "dermamnist":
        return arrays["train_logits"], arrays["train_labels"], arrays["test_logits"]
    order = np.random.default_rng(0).permutation(10_000)
    fit, ask = order[:5000], order[5000:]
    return arrays["logits"][fit], arrays["labels"][fit], arrays["logits"][ask]


@pytest.mark.data
@pytest.mark.parametrize("name", ["dermamnist", "cifar10"])
def test_real_data_are_certified(name, data_folder):
    logits, labels, queries = real(data_folder, name)
    some = queries[:: len(queries) // 60]
    small = fitted(logits, labels, alpha=0.8, likelihood="sum").predict(some)
    assert small.gap.max() <= 1e-6
    large = fitted(logits, labels, alpha=0.95, likelihood="mean").predict(some)
    assert (large.lower - large.lower_outer <= 1e-6).mean() >= 0.85
    assert (large.upper_outer - large.upper).max() <= 1e-6


@pytest.mark.slow
@pytest.mark.data
def test_real_data_without_one_class_are_certified(data_folder):
    logits, labels, queries = real(data_folder, "cifar10")
    kept, present = labels != 3, np.arange(10) != 3
    for alpha, likelihood, share in ((0.8, "sum", 0.98), (0.95, "mean", 0.8)):
        d = fitted(logits[kept], labels[kept], alpha=alpha, likelihood=likelihood)
        credal = d.predict(queries[::100])
        assert (credal.lower[:, ~present] == 0).all()
        gap = (credal.lower - credal.lower_outer)[:, present]
        assert (gap <= 1e-6).mean() >= share
        assert (credal.upper_outer - credal.upper).max() <= 1e-6


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["dermamnist", "cifar10"])
def test_no_claim_about_real_data_is_wrong(name, data_folder):
    logits, labels, queries = (a.astype(float) for a in real(data_folder, name))
    labels = labels.astype(int)
    settings = {"alpha": 0.95, "likelihood": "mean", "reference": "best"}
    ones = np.ones(len(labels))
    level, center = level_of(logits, labels, ones, settings)
    credal = fitted(logits, labels, **settings).predict(queries[:3])
    for row in range(3):
        for k in range(logits.shape[1]):
            start = center - 0.5 * np.eye(len(center))[k]
            value, inside = slsqp_lower(logits, labels, ones, level, queries[row], k, start)
            if inside:
                assert value >= credal.lower_outer[row, k] - 1e-8
                assert value >= credal.lower[row, k] - 1e-5


def test_logits_so_confident_that_the_loss_hardly_bends_have_bounds():
    # A certificate's matrix overflowed, and its eigenvalues did not converge.
    logits = [
        [16.6, 33.7, -7.7, 37.1, 2.2],
        [21.7, 7.5, -36.3, -2.8, -3.0],
        [-7.5, 51.5, -7.6, 11.9, 14.3],
        [-8.4, -28.6, -18.8, 31.8, -14.9],
        [6.9, 6.2, -22.1, 16.6, 10.5],
        [-26.8, -19.4, -9.0, 21.7, -14.7],
        [-40.6, 35.7, -21.9, -12.6, -13.1],
        [-41.4, 26.3, 20.0, 21.6, 4.8],
        [65.5, -28.7, 1.7, -6.6, -48.2],
        [-17.0, -5.2, -3.3, -7.9, -1.6],
        [3.2, -5.7, 25.6, -1.6, 27.9],
        [30.0, 3.8, -17.4, 8.8, 27.5],
        [-46.2, -6.2, 49.5, -4.2, -15.0],
    ]
    labels = [3, 0, 1, 3, 3, 3, 1, 1, 0, 4, 4, 0, 2]
    model = CoupledDecalibrator(alpha=0.9, likelihood="mean").fit(logits, labels)
    credal = model.predict(logits[:3])
    assert np.isfinite(credal.lower).all()
    assert (credal.lower <= credal.upper).all()


# What tests/attack found


def test_a_direction_that_the_data_hardly_bend_limits_no_other_pair_of_classes():
    logits = np.array(
        [
            [99526.37, 100435.5, 99889.89, 100192.62],
            [-100114.945, -99571.95, -100171.336, -99754.96],
            [-100394.82, -99687.11, -100316.26, -99735.08],
            [-99999.38, -99581.21, -99861.32, -99441.7],
            [99782.984, 99841.445, 99955.35, 100198.65],
        ]
    )
    labels, weights = np.array([1, 1, 2, 1, 3]), np.array([1.0, 1.0, 2.0, 3.0, 2.0])
    plausible = np.array([-106.5394593254, 60.7793872061, 633.2242345832, 246.0051030229])
    lost = log_likelihood(logits, labels, weights, np.zeros(4)) - log_likelihood(
        logits, labels, weights, plausible
    )
    assert lost < -np.log(0.1)
    settings = {"alpha": 0.1, "likelihood": "sum", "reference": "model", "certify": "full"}
    found = fitted(logits, labels, weights, **settings).predict(logits[1:2])
    p = softmax(logits[1] + plausible)
    assert p[3] > 0.9
    assert (p <= found.upper_outer[0] + 1e-9).all()
    assert (p >= found.lower_outer[0] - 1e-9).all()


def test_an_endpoint_with_no_weight_and_no_known_slack_is_not_a_warning():
    # p is 0 there and the slack infinite: their product was a RuntimeWarning.
    logits = np.full((4, 4), -1e4)
    logits[[0, 0, 1, 2, 2, 3, 3], [2, 3, 3, 1, 2, 2, 3]] = 0.0
    weights = [4.767974267953182e-08, 1.984938032262226e-01, 8.265190086608801e-06]
    weights.append(5.728074388080516e-04)
    model = CoupledDecalibrator(0.5, likelihood="sum", reference="best", tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        model.fit(logits, [2, 3, 2, 3], sample_weight=weights)
    queries = np.concatenate([logits[:2], np.random.default_rng(4).normal(size=(1, 4))])
    found = model.predict(queries)
    assert (found.lower_outer <= found.lower).all()
    assert (found.upper <= found.upper_outer).all()


def test_a_coupled_model_grants_a_miss_rate_and_reports_it():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(160, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    d = CoupledDecalibrator(0.9, likelihood="mean").fit(z[:80], y[:80])
    model = decal.choose(d, z[80:], y[80:], miss=0.2).promised()
    possible = model.predict(z[80:]).possible()
    misses = sum(label not in kept for label, kept in zip(y[80:], possible, strict=True))
    assert (misses + 1) / 81 <= 0.2
    assert model.report(z[:3]).promise == str(model.promise)
