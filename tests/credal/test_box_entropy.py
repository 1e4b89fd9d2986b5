"""Upper and lower entropy of boxes, against vertices, bisection and theory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decal.credal import _box_entropy as entropy
from decal.credal._box_entropy import lower_entropy, upper_entropy
from helpers.strategies import at_most
from oracles import boxes as oracle

ATOL = 1e-9


def boxes_of_every_kind(K, n, seed=0):
    rng = np.random.default_rng([seed, K])
    pairs = [oracle.random_boxes(rng, n, K, kind) for kind in oracle.KINDS]
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def classifier_boxes(K, n, seed=0):
    """Boxes of a confident classifier: each class's log-odds move by its own amounts."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.standard_t(5, (n, K))
    logits[np.arange(n), rng.integers(K, size=n)] += 6.0 + 3.0 * rng.normal(size=n)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    down, up = rng.uniform(0.3, 2.5, (2, K))
    return oracle.tighten(p / (p + (1 - p) * np.exp(down)), p / (p + (1 - p) * np.exp(-up)))


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        ((0.0, 0.1, 0.0), (0.8, 0.7, 0.9), -0.9 * np.log(0.9) - 0.1 * np.log(0.1)),
        ((0.0, 0.0, 0.5), (0.1, 0.5, 1.0), 0.0),
        ((0.0, 0.2, 0.2), (0.3, 0.5, 0.5), np.log(2.0)),
    ],
    ids=["index order", "ascending bounds", "widest first"],
)
def test_greedy_fills_that_fail_do_not_fool_the_search(lower, upper, expected):
    found = lower_entropy(np.array([lower]), np.array([upper]))
    assert found.value == pytest.approx(expected, abs=1e-14)
    assert found.exact.all()


@pytest.mark.parametrize("K", [2, 3, 4, 5, 6])
def test_lower_entropy_is_the_least_entropy_of_a_vertex(K):
    lower, upper = boxes_of_every_kind(K, 1500)
    found = lower_entropy(lower, upper)
    assert found.exact.all()
    np.testing.assert_allclose(found.value, oracle.lower_entropy(lower, upper), atol=ATOL)


@pytest.mark.parametrize(("leaders", "wider"), [(1, 3), (2, 4), (3, 4)])
def test_what_is_done_for_many_classes_is_right_for_few_too(leaders, wider, monkeypatch):
    monkeypatch.setattr(entropy, "LEADERS", leaders)
    monkeypatch.setattr(entropy, "WIDER", wider)
    lower, upper = boxes_of_every_kind(6, 1500)
    found = lower_entropy(lower, upper)
    assert found.exact.all()
    np.testing.assert_allclose(found.value, oracle.lower_entropy(lower, upper), atol=ATOL)
    highest = oracle.upper_entropy(lower, upper)
    np.testing.assert_allclose(upper_entropy(lower, upper), highest, atol=ATOL)


@pytest.mark.slow
@pytest.mark.parametrize("K", [7, 8])
def test_lower_entropy_is_the_least_entropy_of_a_vertex_for_more_classes(K):
    lower, upper = boxes_of_every_kind(K, 300)
    found = lower_entropy(lower, upper)
    assert found.exact.all()
    np.testing.assert_allclose(found.value, oracle.lower_entropy(lower, upper), atol=ATOL)


@pytest.mark.parametrize("K", [2, 3, 5, 8, 40, 300])
def test_upper_entropy_is_that_of_the_most_level_distribution(K):
    lower, upper = boxes_of_every_kind(K, 1000 if K < 40 else 50)
    expected = oracle.upper_entropy(lower, upper)
    np.testing.assert_allclose(upper_entropy(lower, upper), expected, atol=ATOL)


def test_upper_entropy_meets_its_dual_bound():
    # No p in the box has more than the largest cross-entropy -sum p ln q, a linear program.
    lower, upper = oracle.random_boxes(np.random.default_rng(1), 40, 5)
    for low, up, claimed in zip(lower, upper, upper_entropy(lower, upper), strict=True):
        q = np.clip(entropy._level(low[None], up[None]), low, up)
        assert claimed == pytest.approx(oracle.entropy(q), abs=1e-12)
        assert claimed == pytest.approx(oracle.maximum_of(-np.log(q), low, up), abs=1e-8)


@given(
    bounds=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted), min_size=2, max_size=5
    ).filter(lambda pairs: sum(p[0] for p in pairs) <= 12 <= sum(p[1] for p in pairs))
)
@at_most(150)
def test_bounds_on_a_coarse_grid_agree_with_the_oracles(bounds):
    lower, upper = oracle.tighten(*(np.array([side]) / 12 for side in zip(*bounds, strict=True)))
    found = lower_entropy(lower, upper)
    np.testing.assert_allclose(found.value, oracle.lower_entropy(lower, upper), atol=ATOL)
    np.testing.assert_allclose(
        upper_entropy(lower, upper), oracle.upper_entropy(lower, upper), atol=ATOL
    )


@pytest.mark.parametrize("K", [2, 10, 1000])
def test_the_vacuous_set_ranges_from_nothing_to_the_logarithm_of_its_size(K):
    lower, upper = np.zeros((1, K)), np.ones((1, K))
    found = lower_entropy(lower, upper)
    assert found.value == found.bound == 0.0
    assert found.nodes == 1
    assert upper_entropy(lower, upper) == pytest.approx(np.log(K), abs=1e-12)


@pytest.mark.parametrize("K", [2, 10, 1000])
def test_a_point_has_one_entropy(K):
    p = np.random.default_rng(K).dirichlet(np.full(K, 0.3), 50)
    np.testing.assert_allclose(lower_entropy(p, p).value, oracle.entropy(p), atol=1e-12)
    np.testing.assert_allclose(upper_entropy(p, p), oracle.entropy(p), atol=1e-12)


def test_a_certain_class_has_no_entropy_and_no_negative_zero():
    p = np.array([[1.0, 0.0, 0.0]])
    for entropies in (lower_entropy(p, p).value, upper_entropy(p, p)):
        assert entropies == 0.0
        assert not np.signbit(entropies)


@pytest.mark.parametrize("kind", oracle.KINDS)
def test_a_wider_box_has_larger_upper_and_smaller_lower_entropy(kind):
    rng = np.random.default_rng(2)
    lower, upper = oracle.random_boxes(rng, 500, 7, kind)
    wider = oracle.tighten(
        lower * rng.uniform(0.5, 1.0, lower.shape),
        np.minimum(1.0, upper + 0.3 * rng.uniform(size=upper.shape)),
    )
    narrow, wide = lower_entropy(lower, upper), lower_entropy(*wider)
    assert (wide.value <= narrow.value + ATOL).all()
    assert (upper_entropy(*wider) >= upper_entropy(lower, upper) - ATOL).all()
    assert (narrow.value <= upper_entropy(lower, upper) + ATOL).all()


def test_the_order_of_classes_does_not_matter():
    rng = np.random.default_rng(3)
    lower, upper = boxes_of_every_kind(9, 100)
    shuffled = rng.permutation(9)
    a, b = lower_entropy(lower, upper), lower_entropy(lower[:, shuffled], upper[:, shuffled])
    np.testing.assert_allclose(a.value, b.value, atol=ATOL)


def test_a_row_does_not_depend_on_its_batch():
    lower, upper = boxes_of_every_kind(12, 2500)
    assert lower.size > entropy.BLOCK_ELEMENTS
    batch, top = lower_entropy(lower, upper, max_nodes=40), upper_entropy(lower, upper)
    for i in range(0, len(lower), 250):
        alone = lower_entropy(lower[i : i + 1], upper[i : i + 1], max_nodes=40)
        assert alone.value == batch.value[i]
        assert alone.bound == batch.bound[i]
        assert alone.nodes == batch.nodes[i]
        assert upper_entropy(lower[i : i + 1], upper[i : i + 1]) == top[i]


def test_splitting_a_frontier_changes_nothing(monkeypatch):
    lower, upper = boxes_of_every_kind(8, 40)
    whole = lower_entropy(lower, upper)
    monkeypatch.setattr(entropy, "BLOCK_ELEMENTS", 64)
    parts = lower_entropy(lower, upper)
    np.testing.assert_array_equal(whole.value, parts.value)
    np.testing.assert_array_equal(whole.nodes, parts.nodes)


@pytest.mark.parametrize("max_nodes", [1, 3, 10, 50])
def test_an_exhausted_budget_leaves_a_bracket_that_holds_the_truth(max_nodes):
    lower, upper = oracle.random_boxes(np.random.default_rng(4), 400, 7, "nested")
    truth = oracle.lower_entropy(lower, upper)
    found = lower_entropy(lower, upper, max_nodes=max_nodes)
    assert (found.nodes <= max_nodes).all()
    assert (found.bound <= truth + ATOL).all()
    assert (truth <= found.value + ATOL).all()
    np.testing.assert_allclose(found.value[found.exact], truth[found.exact], atol=ATOL)
    if max_nodes < 50:
        assert not found.exact.all()


def test_a_larger_budget_narrows_the_bracket():
    rng = np.random.default_rng(5)
    half = rng.uniform(0.5, 0.6, (5, 30)) / 30
    lower, upper = oracle.tighten(1 / 30 - half, 1 / 30 + half * rng.uniform(0.99, 1.01, (5, 30)))
    small, large = (lower_entropy(lower, upper, max_nodes=m) for m in (10, 1000))
    assert not large.exact.any()
    assert (large.value - large.bound < small.value - small.bound).all()


@pytest.mark.parametrize("K", [10, 100, 1000])
def test_boxes_of_a_classifier_need_few_nodes(K):
    found = lower_entropy(*classifier_boxes(K, 200))
    assert found.exact.all()
    assert np.median(found.nodes) == 1
    assert found.nodes.max() < 100


def test_equal_intervals_are_no_puzzle():
    found = lower_entropy(np.full((1, 40), 0.01), np.full((1, 40), 0.07))
    assert found.nodes == 1
    p = np.array([0.07] * 10 + [0.01] * 30)
    assert found.value == pytest.approx(oracle.entropy(p), abs=1e-12)


def test_rows_with_nan_give_nan_and_leave_others_alone():
    lower = np.array([[0.0, 0.1, 0.0], [np.nan] * 3])
    upper = np.array([[0.8, 0.7, 0.9], [np.nan] * 3])
    found = lower_entropy(lower, upper)
    assert found.value[0] == pytest.approx(0.3250829733914482)
    assert np.isnan(found.value[1])
    assert list(found.exact) == [True, False]
    assert np.isnan(upper_entropy(lower, upper)[1])


def test_no_rows_give_no_entropies():
    nothing = np.empty((0, 3))
    assert lower_entropy(nothing, nothing).value.shape == (0,)
    assert upper_entropy(nothing, nothing).shape == (0,)
