"""KLCredalSet: what it holds, that it answers what boxes answer, and where it comes from."""

import numpy as np
import pytest
from hypothesis import given

import decal
from decal.credal import _ball_support as ball
from decal.credal import _box_measures as box_measures
from decal.credal._ball_decisions import e_admissible, zero_one
from decal.credal._box_entropy import entropy_terms
from decal.credal._total_variation import ball_total_variation
from helpers.balls import log_center, nasty_balls
from helpers.credal_sets import NAMES
from helpers.strategies import at_most
from oracles import balls as oracle


@pytest.fixture
def balls():
    rng = np.random.default_rng(4)
    return decal.KLCredalSet(rng.dirichlet(np.ones(3), size=6), 0.1, classes=NAMES)


def test_a_ball_has_the_surface_of_a_box_and_lies_within_its_box(balls):
    box = balls.box()
    np.testing.assert_array_equal(balls.lower, box.lower)
    np.testing.assert_array_equal(box.upper, balls.upper)
    np.testing.assert_array_equal(balls.point, balls.center)
    np.testing.assert_allclose(box.tighten().upper, box.upper, atol=1e-12)
    assert balls.contains(balls.center, atol=0).all()
    assert (balls.total() <= box.total() + 1e-12).all()
    assert (balls.aleatoric() >= box.aleatoric() - 1e-12).all()
    for measure in ("entropy", "zero_one", "total_variation", "hartley", "width"):
        assert (balls.epistemic(measure) <= box.epistemic(measure) + 1e-12).all()
    for rule in ("interval_dominance", "maximality", "e_admissible"):
        assert not (balls.decide(rule) & ~box.decide(rule)).any()
    for rule in ("gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret", "point"):
        np.testing.assert_array_equal(balls.decide(rule), balls.center.argmax(axis=1))
    for values in ([0.0, 1.0, 2.0], np.eye(3)):
        least, greatest = balls.expectation(values)
        assert (least >= box.expectation(values)[0] - 1e-12).all()
        assert (greatest <= box.expectation(values)[1] + 1e-12).all()
    least, greatest = balls.probability(NAMES[:2])
    np.testing.assert_allclose(least, 1 - balls.upper[:, 2], atol=1e-12)
    np.testing.assert_allclose(greatest, 1 - balls.lower[:, 2], atol=1e-12)
    np.testing.assert_array_equal(balls.intersection_probability(), box.intersection_probability())
    np.testing.assert_allclose(balls.divergence(balls.center), 0, atol=1e-30)
    np.testing.assert_array_equal(balls.total_variation().lower, balls.epistemic("total_variation"))
    assert not balls.is_empty.any()
    assert balls.tighten() is balls
    assert decal.metrics.efficiency(balls) == decal.metrics.efficiency(box)
    assert decal.metrics.coverage(balls, balls.center) == 1.0


def test_rows_of_balls_are_balls(balls):
    assert len(balls) == 6
    assert balls.shape == (6, 3)
    assert balls[2].radius.shape == (1,)
    assert [one.shape for one in balls[:2]] == [(1, 3), (1, 3)]
    np.testing.assert_array_equal(balls[balls.center[:, 0] > 0.3].lower.shape[1], 3)
    assert repr(balls).startswith("KLCredalSet: 6 inputs, radius 0.1, 3 classes, mean width")
    two = decal.KLCredalSet([[0.5, 0.5]] * 2, [0.1, 0.2])
    assert "radius 0.1 to 0.2" in repr(two)
    assert "0 inputs" in repr(two[:0])
    for array in (balls.log_center, balls.radius, balls.center, balls.lower):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert list(pytest.importorskip("pandas").DataFrame(balls.to_pandas())) == [
        "lower",
        "upper",
        "point",
    ]


def test_balls_are_nested_in_their_radius():
    rng = np.random.default_rng(5)
    center = rng.dirichlet(np.full(5, 0.5), size=20)
    inner = decal.KLCredalSet(center, 0.05)
    outer = decal.KLCredalSet(center, rng.uniform(0.05, 0.5, size=20))
    assert (outer.lower <= inner.lower).all()
    assert (outer.upper >= inner.upper).all()
    assert (outer.total() >= inner.total() - 1e-13).all()
    assert (outer.aleatoric() <= inner.aleatoric() + 1e-13).all()
    v = rng.normal(size=(3, 5))
    assert (outer.expectation(v)[1] >= inner.expectation(v)[1] - 1e-13).all()
    for rule in ("maximality", "e_admissible"):
        assert not (inner.decide(rule) & ~outer.decide(rule)).any()


def test_radii_of_nothing_and_of_everything():
    center = [[0.7, 0.3, 0.0], [0.2, 0.3, 0.5]]
    point = decal.KLCredalSet(center, 0)
    np.testing.assert_allclose(point.lower, center, atol=1e-15)
    np.testing.assert_allclose(point.epistemic(), 0, atol=1e-15)
    np.testing.assert_array_equal(point.decide("e_admissible").sum(axis=1), 1)
    for radius in (np.inf, 50.0):
        all_of_them = decal.KLCredalSet(center, radius)
        np.testing.assert_array_equal(all_of_them.upper, np.sign(center))
        np.testing.assert_array_equal(all_of_them.lower, 0)
        np.testing.assert_allclose(all_of_them.epistemic(), np.log([2, 3]))
        np.testing.assert_array_equal(all_of_them.decide("e_admissible"), np.sign(center) > 0)
        np.testing.assert_array_equal(all_of_them.epistemic("zero_one"), 1)
        np.testing.assert_array_equal(all_of_them.epistemic("total_variation"), 1)
        assert all_of_them.contains([[0, 1, 0], [1, 0, 0]], atol=0).all()
        assert not all_of_them[0].contains([[0, 0, 1]])[0]
    certain = decal.KLCredalSet([[1.0, 0.0]], np.inf)
    assert certain.total() == certain.epistemic("zero_one") == 0


def test_nothing_is_lost_near_0_and_1():
    center = np.array([[1.0, 1e-18], [1e-300, 1.0]])
    balls = decal.KLCredalSet(center, 1e-3)
    # 1 - 1e-18 is not a double, but how improbable the second class may be is known all the same.
    assert 1 - balls.lower[0, 0] == pytest.approx(balls.upper[0, 1], rel=1e-9)
    assert balls.upper[0, 1] > 1e-5
    assert balls.divergence(center)[0] < 1e-30


@pytest.mark.parametrize(
    ("center", "radius", "message"),
    [
        ([0.5, 0.5], 1, r"center must be a matrix.*got shape \(2,\)"),
        ([[1.0]], 1, r"center must have one column per class, two or more: got shape \(1, 1\)"),
        ([[0.5, 0.6]], 1, "center must sum to 1 in every row: got 1.1"),
        ([[0.5, np.nan]], 1, "center must lie between 0 and 1: got nan"),
        ([[0.5, 0.5]], -1, "radius must be nats from 0 to inf: got -1.0 at index 0. It is -log"),
        ([[0.5, 0.5]], np.nan, "radius must be nats from 0 to inf: got nan"),
        ([[0.5, 0.5]], [1, 2], r"radius must be one number, or 1, one for each row.*shape \(2,\)"),
        ([[0.5, 0.5]], "wide", "radius must be one number.*dtype"),
    ],
)
def test_bad_centers_and_radii_are_refused(center, radius, message):
    with pytest.raises(ValueError, match=message):
        decal.KLCredalSet(center, radius)


def test_bad_questions_are_refused(balls):
    with pytest.raises(ValueError, match=r"distributions must have shape \(6, 3\)"):
        balls.contains([[0.5, 0.5]])
    with pytest.raises(ValueError, match="measure must be one of"):
        balls.epistemic("variance")
    with pytest.raises(IndexError, match="out of range"):
        balls[6]


# The balls of a model


def labelled(scale, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(60, 4))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    z *= scale
    z[np.arange(5), (labels[:5] + 1) % 4] = -np.inf
    return z, labels


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize("reference", ["model", "best", "halfway"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("direction", ["local", decal.Local(by_entropy=0.1)], ids=str)
def test_predict_returns_the_boxes_of_the_balls_that_predict_ball_returns(
    direction, scale, reference
):
    z, labels = labelled(scale)
    d = decal.Decalibrator(0.9, directions=[direction], reference=reference).fit(
        z, labels, classes="abcd"
    )
    for alpha in (None, 0.0, 0.3, 0.999, 1.0):
        balls, boxes = d.predict_ball(z, alpha=alpha), d.predict(z, alpha=alpha)
        np.testing.assert_allclose(balls.lower, boxes.lower, rtol=0, atol=1e-12)
        np.testing.assert_allclose(balls.upper, boxes.upper, rtol=0, atol=1e-12)
        np.testing.assert_allclose(balls.center, boxes.point, rtol=0, atol=1e-12)
        assert balls.classes == boxes.classes


def test_the_center_of_a_mixed_ball_is_the_mixture():
    z, labels = labelled(1.0)
    plain, mixed = (
        decal.decalibrate(z, labels, alpha=0.9, directions=[decal.Local(mix=m)]).predict_ball(z)
        for m in (0.0, 0.2)
    )
    there = z > -np.inf
    equal = there / there.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixed.center, 0.8 * plain.center + 0.2 * equal, atol=1e-14)


def test_only_local_models_have_balls():
    z, labels = labelled(1.0)
    z[z == -np.inf] = 0.0
    for directions in (("class",), ("local", "temperature")):
        d = decal.decalibrate(z, labels, alpha=0.9, directions=directions)
        with pytest.raises(ValueError, match="directions must be 'local', and nothing else"):
            d.predict_ball(z)
    with pytest.raises(decal.NotFittedError):
        decal.Decalibrator(directions="local").predict_ball(z)


def test_many_classes():
    rng = np.random.default_rng(6)
    balls = decal.KLCredalSet.unchecked(
        log_center(3 * rng.normal(size=(2, 49_152))), np.full(2, 0.1), None
    )
    box = balls.box()
    lower, upper = balls.entropy()
    assert (box.entropy()[0] < lower).all()
    assert (lower < upper).all()
    assert (upper < box.total()).all()
    assert balls.decide("e_admissible").any(axis=1).all()
    assert balls.contains(balls.center, atol=0).all()


# Entropies, against all members, solvers and the theorem that makes them linear

CENTERS = (
    [0.5, 0.3, 0.2],
    [0.4, 0.4, 0.2],  # the most probable tie: from some radius on, any split of the two will do
    [1 / 3, 1 / 3, 1 / 3],
    [0.97, 0.02, 0.01],
    [0.6, 0.2, 0.2],
)


def entropies(c, b):
    least, greatest = decal.KLCredalSet.unchecked(np.log([c]), np.array([b]), None).entropy()
    return least[0], greatest[0]


@pytest.mark.parametrize("c", CENTERS)
@pytest.mark.parametrize("b", [0.001, 0.1, 0.3, 0.6, 1.0, 1.2])
def test_no_member_has_less_or_more_entropy_and_some_have_nearly_as_much(c, b):
    found = entropy_terms(oracle.members(np.array(c), b)).sum(axis=1)
    least, greatest = entropies(c, b)
    assert found.min() >= least - 1e-12
    assert found.max() <= greatest + 1e-12
    assert found.min() - least < 5e-3  # steep at corners
    assert greatest - found.max() < 2e-3


def test_entropies_agree_with_a_general_solver_from_many_starts():
    rng = np.random.default_rng(1)
    for K, b in ((4, 0.05), (5, 0.4)):
        c = rng.dirichlet(np.ones(K))
        least, greatest = entropies(c, b)
        assert least == pytest.approx(oracle.least_entropy(c, b), abs=1e-6)
        assert greatest == pytest.approx(oracle.greatest_entropy(c, b), abs=1e-6)


def test_a_certain_member_has_no_entropy_and_the_uniform_one_has_all():
    c = np.array([0.5, 0.3, 0.2])
    assert entropies(c, -np.log(0.5))[0] == 0
    assert entropies(c, -np.log(0.5) - 1e-6)[0] > 0
    uniform = oracle.divergence(np.full(3, 1 / 3), c)
    assert entropies(c, uniform)[1] == pytest.approx(np.log(3), abs=1e-15)
    assert entropies(c, uniform - 1e-6)[1] < np.log(3)
    assert entropies(c, 0.0) == pytest.approx([oracle.entropy(c)] * 2, abs=1e-15)


@at_most(40)
@given(nasty_balls())
def test_the_members_that_tilt_the_center_attain_both_entropies(case):
    log_c, radius = case
    least, greatest = decal.KLCredalSet.unchecked(log_c, radius, None).entropy()
    count = (log_c > -np.inf).sum(axis=1)
    own = entropy_terms(np.exp(log_c)).sum(axis=1)
    assert (least >= 0).all()
    assert (greatest <= np.log(count)).all()
    assert (least <= own + 1e-12).all()
    assert (own <= greatest + 1e-12).all()
    finite = np.where(log_c > -np.inf, log_c, 0.0)
    sharper = entropy_terms(ball.extreme_member(log_c, finite, radius)).sum(axis=1)
    assert (least <= sharper + 1e-9).all()
    ties = (log_c == log_c.max(axis=1, keepdims=True)).sum(axis=1) > 1
    plain = ~ties & (radius < np.inf) & (log_c.min(axis=1) > -600)
    np.testing.assert_allclose(sharper[plain], least[plain], rtol=0, atol=1e-6)
    flatter = ball.extreme_member(log_c, -finite, radius)
    inside = greatest < np.log(count)
    steep = log_c.min(axis=1) > -600
    flat = entropy_terms(flatter).sum(axis=1)
    np.testing.assert_allclose(flat[inside & steep], greatest[inside & steep], rtol=0, atol=1e-6)


# Zero-one uncertainty and total variation, against all members and all events


def attained(log_c, radius):
    return ball_total_variation(log_c, radius).lower


@pytest.mark.parametrize("b", [0.001, 0.05, 0.3, 1.0])
@pytest.mark.parametrize(
    "c", [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.9, 0.06, 0.04], [1 / 3, 1 / 3, 1 / 3]]
)
def test_zero_one_is_the_greatest_regret_of_a_possible_prediction(c, b):
    arrays = np.log([c]), np.array([b])
    q = oracle.members(np.array(c), b)
    predicted = set(q.argmax(axis=1)) | set(np.flatnonzero(e_admissible(*arrays)[0]))
    regret = max(np.max(q.max(axis=1) - q[:, j]) for j in predicted)
    found = zero_one(*arrays)[0]
    assert found >= regret - 1e-12
    assert found - regret < 2e-3


@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_total_variation_is_that_of_the_most_imprecise_event(K):
    rng = np.random.default_rng(K)
    c = rng.dirichlet(np.full(K, 3.0), size=4)
    radius = np.array([0.003, 0.1, 0.6, 0.8])
    found = ball_total_variation(np.log(c), radius)
    assert found.exact.all()
    for row, b, value in zip(c, radius, found.lower, strict=True):
        assert value == pytest.approx(oracle.total_variation(row, b), abs=1e-12)


def test_no_two_members_are_further_apart():
    c, b = np.array([0.4, 0.35, 0.25]), 0.2
    rim = oracle.members(c, b)[: oracle.RAYS : 5]
    apart = np.abs(rim[:, None] - rim[None]).sum(axis=2).max() / 2
    found = ball_total_variation(np.log([c]), np.array([b])).lower[0]
    assert apart <= found + 1e-12
    assert found - apart < 1e-3


def test_beyond_24_classes_the_bracket_is_narrow_and_a_class_of_half_settles_it():
    rng = np.random.default_rng(1)
    c = rng.dirichlet(np.full(60, 0.3), size=200)
    found = ball_total_variation(np.log(c), np.full(200, 0.1))
    assert (found.lower <= found.upper).all()
    assert np.max(found.upper - found.lower) < 0.01
    assert np.mean(found.upper - found.lower) < 1e-4
    assert found.exact[c.max(axis=1) >= 0.5].all()
    # 25 classes of equal probability: none splits them evenly, and the bracket says so.
    even = ball_total_variation(np.full((1, 25), -np.log(25)), np.array([0.1]))
    low, high = oracle.event_range(12 / 25, 0.1)
    assert even.lower[0] == pytest.approx(high - low)
    assert not even.exact[0]


@at_most(40)
@given(nasty_balls())
def test_measures_lie_between_0_and_1_and_grow_with_the_ball(case):
    log_c, radius = case
    # Unimodal in the event's probability: no class is more imprecise than the best event.
    lower, upper = ball.box(log_c, radius)
    distance = attained(log_c, radius)
    assert (distance >= (upper - lower).max(axis=1) - 1e-12).all()
    assert (zero_one(log_c, radius) <= box_measures.zero_one(lower, upper) + 1e-9).all()
    for measure in (zero_one, attained):
        values = measure(log_c, radius)
        assert (values >= 0).all()
        assert (values <= 1).all()
        assert (measure(log_c, 2 * radius) >= values - 1e-9).all()
        several = (log_c > -np.inf).sum(axis=1) > 1
        np.testing.assert_array_equal(measure(log_c, np.full(len(radius), np.inf)), several)
    assert (attained(log_c, 0 * np.minimum(radius, 1)) <= 1e-15).all()
