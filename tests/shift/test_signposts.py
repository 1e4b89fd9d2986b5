"""Signposts: what they say is true, and bounds of many inputs are as certain as those of few."""

import numpy as np
import pytest
from scipy.stats import chi2
from tests.oracles import label_shift as oracle

from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed, joint_box

ERROR = 1e-3


def region_of(ratios, weights, confidence=0.95):
    observed = Observed(Likelihood(ratios / ratios.max(axis=1, keepdims=True), weights))
    return observed.region(chi2.ppf(confidence, ratios.shape[1] - 1) / 2)


def likelihoods(region, points):
    inputs = region.likelihood.ratios, region.likelihood.weights
    return np.array([oracle.log_likelihood(v, *inputs) for v in points])


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


def test_signposts_are_plausible(region):
    plausible = region.signposts.plausible
    assert np.all(plausible >= 0)
    assert plausible.sum(axis=1) == pytest.approx(1)
    assert np.all(likelihoods(region, plausible) >= region.floor - 1e-7)


def test_the_ellipsoid_at_each_signpost_holds_all_plausible_points(region):
    inputs = region.likelihood.ratios, region.likelihood.weights
    points = oracle.plausible_points(
        region.middle, *inputs, region.floor, np.random.default_rng(1), 6
    )
    marks, s = region.signposts, region.geometry
    bend = np.linalg.inv(marks.bend_root @ marks.bend_root.T)
    for v, value, slope in zip(marks.v, marks.value, marks.slope, strict=True):
        away = (points - v) @ s.inverse.T
        bent = np.einsum("pi,ij,pj->p", away, bend, away) / 2
        assert np.all(value + away @ slope - bent + s.pay >= region.floor)


def test_on_faces_frequencies_that_are_zero_stay_so_and_the_sum_stays_one(region):
    marks = region.signposts
    assert np.all(marks.faces[marks.v <= 0] == 0)
    assert marks.faces.sum(axis=1) == pytest.approx(0, abs=1e-6)


def test_on_faces_the_likelihood_has_curvature_one():
    """By differences, at signposts of a region that is well inside."""
    K, N, sharpness, times = REGIONS["many inputs"]
    ratios = np.exp(sharpness * np.random.default_rng([K, N]).normal(size=(N, K)))
    region = region_of(ratios, np.full(N, times))
    marks, step = region.signposts, 0.05
    for v, face in list(zip(marks.v, marks.faces, strict=True))[::40]:
        for direction in face.T:
            low, middle, high = likelihoods(
                region, v + step * np.array([[-1], [0], [1]]) * direction
            )
            curvature = (2 * middle - low - high) / step**2
            own = np.sum((np.linalg.pinv(face) @ direction) ** 2)
            assert curvature == pytest.approx(own, abs=0.1)


def test_the_nearest_signpost_reaches_most_of_its_kind(region):
    marks = region.signposts
    K = len(region.middle)
    odds = np.exp(np.random.default_rng(2).normal(size=(3, K)))
    kinds = np.repeat(np.arange(2 * K), 3)
    near = marks.nearest(np.tile(odds, (2 * K, 1)), kinds)
    for kind, w, found in zip(kinds, np.tile(odds, (2 * K, 1)), near, strict=True):
        own = marks.plausible[marks.starts[kind] : marks.starts[kind + 1]]
        p = np.array([w[kind % K] * v[kind % K] / (w @ v) for v in own])
        if found < 0:
            assert len(own) == 0
        else:
            best = p.max() if kind < K else p.min()
            assert p[found - marks.starts[kind]] == pytest.approx(best)


@pytest.mark.parametrize("kind", ["as observed", "others", "some are impossible"])
def test_bounds_with_signposts_are_never_inside_and_at_most_so_wide(region, kind):
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


def test_classes_that_never_occur_have_no_signposts():
    ratios = np.exp(np.random.default_rng(5).normal(size=(50, 3))) * [0.0, 1.0, 1.0]
    marks = region_of(ratios, np.ones(50)).signposts
    assert marks.starts[1] == marks.starts[0]
    assert marks.starts[-1] > 0


@pytest.mark.parametrize(("classes", "asked"), [(12, True), (13, False)])
def test_signposts_are_for_few_classes(classes, asked):
    rng = np.random.default_rng(6)
    region = region_of(np.exp(2 * rng.normal(size=(200, classes))), np.ones(200))
    joint_box(region, np.exp(rng.normal(size=(2, classes))), ERROR)
    assert ("signposts" in vars(region)) == asked
