"""Frequencies near others: ranges of probabilities against rays and SLSQP."""

import numpy as np
import pytest
from tests.oracles import nearby as oracle

from decal.shift import Near
from decal.shift._nearby import ball_box, chi2_member, kl_member

MEMBERS = {"kl": kl_member, "chi2": chi2_member}


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("K", [2, 3])
def test_balls_are_those_of_a_scan_of_rays(kind, K):
    rng = np.random.default_rng(K)
    for radius in (0.2,) if K == 3 else (0.001, 0.2, 3.0):
        c = rng.dirichlet(np.ones(K))
        odds = np.exp(3 * rng.normal(size=(1, K)))
        low, high = ball_box(odds, c, MEMBERS[kind](c, radius))
        inner = oracle.by_rays(kind, odds[0], c, radius, angles=40)
        assert np.all(low[0] <= inner[0] + 1e-12)
        assert np.all(high[0] >= inner[1] - 1e-12)
        assert low[0] == pytest.approx(inner[0], abs=2e-8)
        assert high[0] == pytest.approx(inner[1], abs=2e-8)


@pytest.mark.parametrize("kind", MEMBERS)
def test_balls_of_six_classes_are_those_of_slsqp(kind):
    rng = np.random.default_rng(6)
    c = rng.dirichlet(np.full(6, 2.0))
    odds = np.exp(2 * rng.normal(size=(1, 6)))
    low, high = ball_box(odds, c, MEMBERS[kind](c, 0.15))
    for k in (0, 4):
        assert low[0, k] == pytest.approx(oracle.by_slsqp(kind, odds[0], c, 0.15, k, -1), abs=1e-6)
        assert high[0, k] == pytest.approx(oracle.by_slsqp(kind, odds[0], c, 0.15, k, 1), abs=1e-6)


@pytest.mark.parametrize("kind", MEMBERS)
def test_members_lie_in_the_ball_and_on_its_border(kind):
    rng = np.random.default_rng(3)
    for radius in (1e-6, 0.3, 50.0):
        c = np.append(rng.dirichlet(np.ones(5)), 0.0)
        values = np.concatenate([rng.normal(size=(20, 6)), np.ones((1, 6)), np.eye(6)])
        v = MEMBERS[kind](c, radius)(values)
        assert v.sum(axis=1) == pytest.approx(np.ones(27))
        assert np.all(v >= 0)
        assert np.array_equal(v[:, 5], np.zeros(27))
        for row in v:
            found = oracle.divergence(kind, row[:5], c[:5])
            assert found <= radius * (1 + 1e-6) + 1e-12
        if radius < 1:
            border = [oracle.divergence(kind, row[:5], c[:5]) for row in v[:20]]
            inside = v[:20, :5].min(axis=1) > 0
            assert np.array(border)[inside] == pytest.approx(np.full(inside.sum(), radius))


@pytest.mark.parametrize("kind", MEMBERS)
def test_nasty_odds_stay_in_bounds_and_hold_the_center(kind):
    rng = np.random.default_rng(4)
    c = np.array([1e-9, 1e-3, 0.5, 0.5 - 1e-3 - 1e-9, 0.0])
    odds = np.exp(np.array([1.0, 30.0, 300.0])[:, None] * rng.normal(size=(3, 5)))
    odds /= odds.max(axis=1, keepdims=True)
    odds[0, :3] = 1.0
    weighted = odds * c
    center = weighted / weighted.sum(axis=1, keepdims=True)
    for radius in (0.0, 0.01, 1.0, 1e9):
        low, high = ball_box(odds, c, MEMBERS[kind](c, radius))
        assert np.all((low >= 0) & (high <= 1) & (low <= center) & (center <= high))
        if radius == 0:
            assert np.all(high - low <= 2.1e-9)
        if radius == 1e9:
            possible = weighted > 0
            several = possible.sum(axis=1) > 1
            assert high[several][possible[several]] == pytest.approx(1, abs=1e-6)


def test_a_ratio_is_a_box_of_frequencies():
    odds, c = np.array([[1.0, 0.3, 0.2]]), np.array([0.2, 0.3, 0.5])
    low, high = Near(ratio=2).box(odds, c)
    rng = np.random.default_rng(5)
    inside = [v for v in rng.dirichlet(5 * c, size=4000) if np.all((v >= c / 2) & (v <= 2 * c))]
    scanned = np.array([oracle.posterior(odds[0], v) for v in inside])
    assert len(inside) > 500
    assert np.all(low[0] <= scanned.min(axis=0))
    assert np.all(high[0] >= scanned.max(axis=0))
    assert high[0, 0] == pytest.approx(oracle.posterior(odds[0], [0.4, 0.15, 0.45])[0], abs=0.05)
    everything = Near(ratio=np.inf).box(odds, np.array([0.5, 0.5, 0.0]))
    assert np.array_equal(everything[0][0], [0, 0, 0])
    assert np.array_equal(everything[1][0], [1, 1, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Near(), "ratio, kl or chi2 must be given, one of them: got none"),
        (lambda: Near(kl=1, ratio=2), "one of them: got ratio and kl"),
        (lambda: Near(ratio=0.5), "ratio must be a number, at least 1: got 0.5"),
        (lambda: Near(kl=-1), "kl must be a number, at least 0: got -1"),
        (lambda: Near(chi2="far"), "chi2 must be a number, at least 0: got 'far'"),
        (lambda: Near("after", kl=1), "center must be one of 'before', 'observed': got 'after'"),
        (lambda: Near([0.5, 0.2], kl=1), "sum to one"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize(
    ("c", "radius", "log_odds"),
    [(1.9e-9, 2.3e-4, 60.0), (1e-8, 4.3, 64.0), (1.3e-3, 1.4e-3, 100.0), (0.4, 1e-8, -9.0)],
)
def test_a_probability_that_rounds_to_one_may_still_fall(kind, c, radius, log_odds):
    odds = np.array([[1.0, np.exp(-log_odds)]])
    odds /= odds.max()
    both = np.array([c, 1 - c])
    low, high = ball_box(odds, both, MEMBERS[kind](both, radius))
    exact = oracle.by_rays(kind, odds[0], both, radius)
    assert low[0] == pytest.approx(exact[0], abs=2e-9)
    assert high[0] == pytest.approx(exact[1], abs=2e-9)
    assert np.all((low[0] <= exact[0] + 1e-12) & (high[0] >= exact[1] - 1e-12))
