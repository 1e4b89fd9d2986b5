"""Ordered classes: p-boxes, means, quantiles, intervals of classes and ordered losses."""

import numpy as np
import pytest

import decal
from decal.credal import ordered_utility
from oracles import ordered as oracle
from oracles.decisions import BOX_KINDS, random_boxes

RADII = (0.0, 1e-9, 0.01, 0.3, 2.0, np.inf)


def boxes(kind, K=5, n=12):
    rng = np.random.default_rng([BOX_KINDS.index(kind), K])
    lower, upper = random_boxes(rng, n, K, kind)[:2]
    credal = decal.IntervalCredalSet(lower, upper, point=rng.dirichlet(np.ones(K), n))
    return credal[~credal.is_empty]  # some points are off by round-off


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_p_boxes_and_means_of_boxes_are_those_of_linear_programs(kind):
    credal = boxes(kind)
    low, high = credal.cumulative()
    values = [-1.0, 0.5, 0.75, 2.0, 10.0]
    least, most = credal.mean(values)
    for row in range(len(credal)):
        bounds = credal.lower[row], credal.upper[row]
        for k in range(5):
            found = oracle.box_range(*bounds, np.arange(5) <= k)
            np.testing.assert_allclose((low[row, k], high[row, k]), found, atol=1e-9)
        found = oracle.box_range(*bounds, values)
        np.testing.assert_allclose((least[row], most[row]), found, atol=1e-8)


@pytest.mark.parametrize("radius", RADII)
def test_p_boxes_of_balls_are_those_of_sixty_digits(radius):
    rng = np.random.default_rng(3)
    c = np.concatenate([rng.dirichlet(np.full(5, a), 3) for a in (0.05, 1.0, 20.0)])
    c[0, 2] = 0.0
    c /= c.sum(axis=1, keepdims=True)
    ball = decal.KLCredalSet(c, radius)
    low, high = ball.cumulative()
    for row in range(len(c)):
        for k in range(5):
            event = np.arange(5) <= k
            if np.isinf(radius):
                found = ball[row].probability(event)
                found = tuple(float(end[0]) for end in found)
            else:
                found = oracle.ball_event(c[row], radius, event)
            np.testing.assert_allclose((low[row, k], high[row, k]), found, atol=1e-11)


@pytest.mark.parametrize("radius", RADII[1:-1])
def test_means_of_balls_are_those_of_sixty_digits(radius):
    rng = np.random.default_rng(4)
    c = np.concatenate([rng.dirichlet(np.full(5, a), 2) for a in (0.1, 1.0, 20.0)])
    values = [-1.0, 0.5, 0.75, 2.0, 10.0]
    least, most = decal.KLCredalSet(c, radius).mean(values)
    for row in range(len(c)):
        found = oracle.ball_mean(c[row], radius, values)
        np.testing.assert_allclose((least[row], most[row]), found, atol=1e-8)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_quantiles_are_those_of_linear_programs_and_sixty_digits(q):
    credal = boxes("random", n=8)
    low, high = credal.quantile(q)
    for row in range(len(credal)):
        bounds = credal.lower[row], credal.upper[row]
        ranges = [oracle.box_range(*bounds, np.arange(5) <= k) for k in range(5)]
        assert (low[row], high[row]) == oracle.quantile_range(ranges, q)
    c = np.random.default_rng(6).dirichlet(np.full(5, 0.7), 6)
    low, high = decal.KLCredalSet(c, 0.2).quantile(q)
    for row in range(6):
        ranges = [oracle.ball_event(c[row], 0.2, np.arange(5) <= k) for k in range(5)]
        assert (low[row], high[row]) == oracle.quantile_range(ranges, q)


def test_the_interval_of_a_ball_grows_by_sixty_digits():
    c = np.random.default_rng(7).dirichlet(np.full(5, 0.7), 6)
    kept = decal.KLCredalSet(c, 0.1).decide("ordered_majority")
    for row in range(6):

        def least(first, last, p=c[row]):
            k = np.arange(5)
            return oracle.ball_event(p, 0.1, (k >= first) & (k <= last))[0]

        first, last = oracle.grown(c[row], least)
        assert np.flatnonzero(kept[row]).tolist() == list(range(first, last + 1))


def test_p_boxes_of_hulls_are_the_extremes_of_their_vertices():
    vertices = np.random.default_rng(0).dirichlet(np.ones(4), (6, 3))
    low, high = decal.HullCredalSet(vertices).cumulative()
    each = vertices.cumsum(axis=2)
    np.testing.assert_allclose(low, each.min(axis=1), atol=1e-12)
    np.testing.assert_allclose(high, each.max(axis=1), atol=1e-12)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_quantiles_hold_those_of_all_members_and_are_attained(q):
    credal = boxes("random")
    low, high = credal.quantile(q)
    least, most = credal.cumulative()
    rng = np.random.default_rng(1)
    for row in range(len(credal)):
        for _ in range(40):
            p = _member(credal.lower[row], credal.upper[row], rng)
            assert low[row] <= oracle.quantile(p, q) <= high[row]
        # The end is attained: the greatest P(Y <= k) is the least probability's own answer.
        assert most[row, low[row]] >= q - 1e-9
        assert low[row] == 0 or most[row, low[row] - 1] < q
        assert high[row] == 0 or least[row, high[row] - 1] < q


def _member(lower, upper, rng):
    """Some distribution of a box: classes are filled in a random order."""
    p, spare = lower.copy(), 1 - lower.sum()
    for k in rng.permutation(len(p)):
        more = min(spare, upper[k] - lower[k])
        p[k], spare = p[k] + more, spare - more
    return p


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_the_interval_grows_until_every_member_gives_it_one_half(kind):
    credal = boxes(kind, K=6)
    kept = credal.decide("ordered_majority")
    for row in range(len(credal)):
        bounds = credal.lower[row], credal.upper[row]

        def least(first, last, bounds=bounds):
            k = np.arange(6)
            return oracle.box_range(*bounds, (k >= first) & (k <= last))[0]

        first, last = oracle.grown(credal.point[row], least)
        assert np.flatnonzero(kept[row]).tolist() == list(range(first, last + 1))


def test_wider_sets_keep_the_interval_of_narrower_ones():
    rng = np.random.default_rng(5)
    c = rng.dirichlet(np.full(7, 0.7), 50)
    before = np.zeros((50, 7), dtype=bool)
    for radius in (0.0, 0.01, 0.1, 0.5, 2.0, 10.0):
        ball = decal.KLCredalSet(c, radius)
        kept = ball.decide("ordered_majority")
        of_box = ball.box().with_order().possible_mask()
        assert (before <= kept).all()
        assert (kept <= of_box).all()  # a box holds more
        before = kept
    assert before.all()


def test_ordered_sets_list_an_interval_in_its_order_and_stay_ordered():
    low, high = [[0.3, 0.1, 0.3], [0.8, 0, 0]], [[0.6, 0.2, 0.6], [1, 0.2, 0.1]]
    credal = decal.IntervalCredalSet(low, high, point=[[0.4, 0.2, 0.4], [0.9, 0.1, 0]])
    ordered = credal.with_order()
    assert credal.possible()[0] == [0, 2]
    assert ordered.possible() == [[0, 1, 2], [0]]
    assert ordered[1:].ordered
    assert ordered.tighten().ordered
    assert "0 [0.300, 0.600]  1 [0.100, 0.200]  2" in repr(ordered)
    kept = np.array([[True, False, True], [True, False, False]])
    assert ordered.promised("ordered_majority", kept).possible()[0] == [0, 1, 2]


def test_a_union_knows_the_order_and_the_tree_of_its_sets():
    credal = decal.IntervalCredalSet([[0.3, 0.1, 0.3]], [[0.6, 0.2, 0.6]], classes="123")
    assert decal.credal.union([credal.with_order()] * 2).possible() == [["1", "2", "3"]]
    nested = credal.with_tree({"ends": ["1", "3"], "middle": ["2"]})
    assert decal.credal.union([nested, nested]).node() == ["ends"]
    assert decal.credal.union([credal, credal]).possible() == [["1", "3"]]


def test_classes_that_are_rising_numbers_are_their_own_values():
    low, high = [[0.2, 0.2, 0.2]], [[0.6, 0.6, 0.6]]
    by_name = decal.IntervalCredalSet(low, high, classes=["10", "20", "40"])
    np.testing.assert_allclose(by_name.mean(), by_name.expectation([10, 20, 40]))
    plain = decal.IntervalCredalSet(low, high, classes=["c", "b", "a"])
    np.testing.assert_allclose(plain.mean(), plain.expectation([0, 1, 2]))
    falling = decal.IntervalCredalSet(low, high, classes=["3", "2", "1"])
    np.testing.assert_allclose(falling.mean(), falling.expectation([0, 1, 2]))


@pytest.mark.parametrize(("over", "under"), [(1.0, 1.0), (1.0, 4.0), (3.0, 1.0)])
def test_asymmetric_losses_name_a_quantile(over, under):
    utility = ordered_utility(6, "asymmetric", over=over, under=under)
    for p in np.random.default_rng(2).dirichlet(np.ones(6), 30):
        point = decal.IntervalCredalSet([p], [p], point=[p])
        best = int(point.decide("point", utility=utility)[0])
        assert best == oracle.quantile(p, under / (over + under))


def test_named_losses_are_utilities_of_the_classes_values():
    p = [[0.5, 0.1, 0.4]]
    credal = decal.IntervalCredalSet(p, p, point=p, classes=["1", "2", "10"])
    squared = ordered_utility(3, "squared", values=[1, 2, 10])
    assert squared[0, 2] == -81
    assert credal.decide("point", utility="squared") == credal.decide("point", utility=squared)
    assert credal.decide("point", utility="absolute")[0] == 0
    with pytest.raises(decal.InputError, match="got 'asymmetric'. For other losses see decal.cr"):
        credal.decide("point", utility="asymmetric")


def test_absolute_loss_leaves_the_possible_medians():
    credal = boxes("random", n=30)
    kept = credal.decide("e_admissible", utility="absolute")
    low, high = credal.quantile(0.5)
    for row in range(30):
        assert np.flatnonzero(kept[row]).tolist() == list(range(low[row], high[row] + 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "cubic"}, "loss must be"),
        ({"under": 2.0}, "under must go with loss='asymmetric': got 2.0 with 'absolute'"),
        ({"loss": "asymmetric", "over": 0.0}, "over must be positive and finite: got 0.0"),
        ({"values": [1, 2]}, "values must be 3 finite numbers, one per class"),
    ],
)
def test_bad_losses_are_refused(options, message):
    with pytest.raises(decal.InputError, match=message):
        ordered_utility(3, **options)


def test_empty_rows_have_no_quantile_and_no_interval():
    credal = decal.IntervalCredalSet([[0.9, 0.9], [0.4, 0.4]], [[1.0, 1.0], [0.6, 0.6]])
    assert np.isnan(credal.cumulative(empty="nan")[0][0]).all()
    assert credal.quantile(0.5, empty="nan")[0][0] == -1
    assert not credal.decide("ordered_majority", empty="nan")[0].any()
    with pytest.raises(decal.InputError, match="credal set must have members"):
        credal.quantile(0.5)
