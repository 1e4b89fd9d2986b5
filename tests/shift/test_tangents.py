"""Bounds by ellipsoids: never inside, at most as wide as stated, for ordinary and nasty regions."""

import numpy as np
import pytest
from scipy.stats import chi2
from tests.oracles import label_shift as oracle

from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed, joint_box
from decal.shift._tangents import FirstBounds, Tangents, right_inverse

ERROR = 1e-3


def region_of(ratios, weights, confidence=0.95):
    observed = Observed(Likelihood(ratios / ratios.max(axis=1, keepdims=True), weights))
    return observed.region(chi2.ppf(confidence, ratios.shape[1] - 1) / 2)


def points_of(region, rng, count):
    inputs = region.likelihood.ratios, region.likelihood.weights
    return oracle.plausible_points(region.middle, *inputs, region.floor, rng, count)


@pytest.fixture(scope="module")
def large():
    """Few rows that count often: a region of many inputs, cheap for an oracle that loops."""
    rng = np.random.default_rng(0)
    return region_of(np.exp(1.5 * rng.normal(size=(400, 4))), np.full(400, 10.0))


@pytest.mark.parametrize(("N", "times"), [(5, 1), (12, 200)])
def test_coarse_bounds_enclose_those_of_a_scan(N, times):
    rng = np.random.default_rng([3, N])
    ratios, odds = np.exp(2 * rng.normal(size=(N, 3))), np.exp(2 * rng.normal(size=(1, 3)))
    region = region_of(ratios, np.full(N, float(times)))
    low, high = joint_box(region, odds, ERROR)
    likelihood = region.likelihood
    inner = oracle.bounds(
        odds[0], region.middle, likelihood.ratios, likelihood.weights, region.floor, angles=30
    )
    assert np.all(low[0] <= inner[0] + 1e-12)
    assert np.all(high[0] >= inner[1] - 1e-12)
    assert low[0] == pytest.approx(inner[0], abs=ERROR + 1e-6)
    assert high[0] == pytest.approx(inner[1], abs=ERROR + 1e-6)


NASTY = {
    "ordinary": lambda a: a,
    "two classes look alike": lambda a: np.column_stack([a[:, :-1], a[:, 0]]),
    "identical rows": lambda a: np.repeat(a[:1], len(a), axis=0),
    "a class nearly absent": lambda a: a * np.r_[1.0, 1e-6, np.ones(a.shape[1] - 2)],
    "a class of three inputs": lambda a: np.where(
        (np.arange(a.shape[1]) == 2) & (np.arange(len(a))[:, None] > 2), 1e-4, a
    ),
    "a class that is impossible": lambda a: a * np.r_[0.0, np.ones(a.shape[1] - 1)],
}


@pytest.mark.parametrize("kind", NASTY)
@pytest.mark.parametrize(("K", "N", "sharpness"), [(3, 1, 12), (4, 40, 2), (6, 5, 4), (5, 300, 4)])
def test_bounds_of_nasty_regions(kind, K, N, sharpness):
    rng = np.random.default_rng([K, N])
    region = region_of(NASTY[kind](np.exp(sharpness * rng.normal(size=(N, K)))), np.ones(N))
    odds = np.exp(sharpness * rng.normal(size=(2, K)))
    odds /= odds.max(axis=1, keepdims=True)
    low, high = joint_box(region, odds, ERROR)
    exact_low, exact_high = joint_box(region, odds)
    assert np.all(low <= exact_low + 1e-8)
    assert np.all(high >= exact_high - 1e-8)
    assert np.all(np.maximum(exact_low - low, high - exact_high) <= ERROR + 1e-7)
    for v in points_of(region, rng, 4):
        for i in range(2):
            if odds[i] @ v > 0:
                p = oracle.posterior(odds[i], v)
                assert np.all((low[i] <= p + 1e-9) & (p <= high[i] + 1e-9))


def test_bounds_of_a_thousand_classes_are_never_inside():
    rng = np.random.default_rng(4)
    K = 1000
    region = region_of(np.exp(2 * rng.normal(size=(8, K))), np.full(8, 5.0))
    odds = np.exp(2 * rng.normal(size=K))
    k = int(np.argmax(odds))
    relative = odds[None] / odds.max()
    first = FirstBounds.of(region.geometry, relative)
    problems = np.array([0, 1]), np.array([0, 0]), np.array([k, k])
    tangents = Tangents(region.geometry, relative, first, problems)
    tangents.solve(region.surrogate, tangents.open(ERROR), ERROR, touches=1, move=tangents.plain)
    assert np.all(tangents.reached <= tangents.upper)
    v = region.middle
    p = odds[k] * v[k] / (odds @ v)
    assert np.all(np.array([p, 1 - p]) <= tangents.upper + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_inputs_whose_classes_may_all_be_rare_are_bounded_as_well(seed):
    """What such an input weighs at least decides; the outer ellipsoid does not say it."""
    rng = np.random.default_rng([seed, 11])
    region = region_of(np.exp(3 * rng.normal(size=(2, 8))), np.full(2, 2.0))
    odds = np.exp(3 * rng.normal(size=(3, 8)))
    odds[rng.random(odds.shape) < 0.5] = 0.0
    low, high = joint_box(region, odds, ERROR)
    exact_low, exact_high = joint_box(region, odds)
    assert np.all(low <= exact_low + 1e-8)
    assert np.all(high >= exact_high - 1e-8)
    assert np.all(np.maximum(exact_low - low, high - exact_high) <= ERROR + 1e-7)


def test_an_input_whose_likely_class_may_be_absent_can_have_any_other():
    """A lower bound of 0 is found without solving for it: some plausible mix lacks the class."""
    rng = np.random.default_rng(5)
    ratios = np.exp(rng.normal(size=(200, 3))) * [1, 1, 0.2]
    region = region_of(ratios, np.ones(200))
    assert len(region.geometry.landmarks) > 1
    low, _ = joint_box(region, np.array([[0.1, 0.1, 1.0]]), ERROR)
    assert low[0, 2] == 0.0


def test_smaller_errors_cost_nothing_but_time(large):
    odds = np.exp(np.random.default_rng(6).normal(size=(5, 4)))
    widths = []
    for error in (1e-2, 1e-3, 1e-4, 1e-8):
        low, high = joint_box(large, odds, error)
        widths.append(high - low)
    for wider, narrower, error in zip(widths, widths[1:], (1e-2, 1e-3, 1e-4), strict=False):
        assert np.all(wider >= narrower - 1e-8 - 2 * error / 10)
        assert np.all(wider <= widths[-1] + 2 * error)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_first_bounds_enclose_every_plausible_point(large, share):
    rng = np.random.default_rng(7)
    odds = np.exp(3 * rng.normal(size=(6, 4)))
    odds[rng.random(odds.shape) > share] = 0.0
    odds[0] = [0.0, 0.0, 1.0, 0.0]
    odds[odds.sum(axis=1) == 0] = 1.0
    odds /= odds.max(axis=1, keepdims=True)
    first = FirstBounds.of(large.geometry, odds)
    assert np.all(first.reached <= first.upper + 1e-12)
    for v in points_of(large, rng, 12):
        p = np.array([oracle.posterior(row, v) for row in odds])
        assert np.all(np.stack([p, 1 - p]) <= first.upper + 1e-12)
        assert np.all(odds @ v >= first.least - 1e-12)
    assert np.array_equal(first.upper[:, 0], [[0, 0, 1, 0], [1, 1, 0, 1]])


def test_first_bounds_are_those_of_the_outer_ellipsoid(large):
    """Against points all over its surface."""
    rng = np.random.default_rng(8)
    s, odds = large.geometry, np.exp(rng.normal(size=(3, 4)))
    odds /= odds.max(axis=1, keepdims=True)
    around = rng.normal(size=(40_000, 3))
    around *= s.radius / np.sqrt(np.einsum("pi,ij,pj->p", around, s.outer, around))[:, None]
    v = s.middle + around @ s.U.T
    upper = FirstBounds.of(s, odds).upper
    for i in range(3):
        p = odds[i] * v / (v @ odds[i])[:, None]
        assert np.all(p.max(axis=0) <= upper[0, i])
        assert p.max(axis=0) == pytest.approx(upper[0, i], abs=2e-3)
        assert p.min(axis=0) == pytest.approx(1 - upper[1, i], abs=2e-3)


def test_right_inverses_of_rows_alike_and_not():
    rng = np.random.default_rng(9)
    U = rng.normal(size=(5, 3, 6)) * [[1e-3], [1.0], [1e3]]
    assert U @ right_inverse(U) == pytest.approx(np.tile(np.eye(3), (5, 1, 1)), abs=1e-5)
    assert np.isfinite(right_inverse(np.ones((2, 6)))).all()


def test_a_point_that_is_no_number_teaches_nothing():
    rng = np.random.default_rng(7)
    region = Observed(Likelihood(np.exp(rng.normal(size=(50, 3))), np.ones(50))).region(2.0)
    odds = np.ones((1, 3))
    problems = tuple(np.zeros(1, dtype=np.intp) for _ in range(3))
    tangents = Tangents(region.geometry, odds, FirstBounds.of(region.geometry, odds), problems)
    before = tangents.errors
    tangents.reach(np.arange(1), np.full((1, 3), np.nan))
    assert tangents.errors == pytest.approx(before)
