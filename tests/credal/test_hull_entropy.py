"""Upper and lower entropy of hulls of probability vectors."""

import numpy as np
import pytest

from decal.credal._hull_entropy import lower_entropy, upper_entropy
from helpers.hulls import cases, mixtures
from oracles import decisions as oracle


@pytest.mark.slow
def test_highest_entropy_is_certified_and_at_least_that_of_a_general_solver():
    for _, kind, vertices in cases(0, n=3):
        highest = upper_entropy(vertices)
        assert (highest.gap <= 1e-9).all(), kind
        assert (highest.gap >= -1e-12).all(), kind
        for i, v in enumerate(vertices):
            assert highest.weights[i].min() >= 0
            assert highest.weights[i].sum() == pytest.approx(1, abs=1e-12)
            p = highest.weights[i] @ v
            assert oracle.entropy(p) == pytest.approx(highest.value[i], abs=1e-12)
            if i == 0:
                found = oracle.hull_upper_entropy(v)
                assert highest.value[i] >= found - 1e-9, kind
                assert highest.bound[i] >= found - 1e-12, kind


def test_no_mixture_exceeds_the_bound():
    for rng, kind, vertices in cases(1, n=20):
        highest = upper_entropy(vertices)
        for _ in range(20):
            entropies = [oracle.entropy(p) for p in mixtures(rng, vertices)]
            assert (np.array(entropies) <= highest.bound + 1e-12).all(), kind


def test_lowest_entropy_is_that_of_a_vertex():
    for rng, kind, vertices in cases(2, n=5):
        lowest = lower_entropy(vertices)
        expected = [min(oracle.entropy(p) for p in v) for v in vertices]
        np.testing.assert_allclose(lowest, expected, atol=1e-13, err_msg=kind)
        assert (lowest <= upper_entropy(vertices).value + 1e-12).all()
        assert (lowest <= [oracle.entropy(p) + 1e-12 for p in mixtures(rng, vertices)]).all()


def test_entropies_known_in_closed_form():
    simplex = np.eye(5)[None]
    assert upper_entropy(simplex).value == pytest.approx(np.log(5), abs=1e-9)
    assert lower_entropy(simplex).tolist() == [0.0]
    edge = np.eye(5)[None, :2]
    assert upper_entropy(edge).value == pytest.approx(np.log(2), abs=1e-9)
    point = np.full((1, 3, 4), 0.25)
    assert upper_entropy(point).value == pytest.approx(np.log(4), abs=1e-15)


def test_rows_do_not_depend_on_the_batch():
    rng = np.random.default_rng(3)
    vertices = np.concatenate([oracle.random_hulls(rng, 20, 5, 6, k) for k in oracle.HULL_KINDS])
    together = upper_entropy(vertices)
    for i in range(len(vertices)):
        alone = upper_entropy(vertices[i : i + 1])
        assert alone.value[0] == together.value[i]
        assert alone.bound[0] == together.bound[i]


def test_vertices_in_another_order_or_repeated_change_nothing():
    rng = np.random.default_rng(13)
    vertices = oracle.random_hulls(rng, 50, 5, 6, "random")
    again = np.concatenate([vertices[:, ::-1], vertices[:, :2]], axis=1)
    np.testing.assert_allclose(upper_entropy(vertices).value, upper_entropy(again).value, atol=1e-9)


def test_no_rows_are_no_results():
    assert upper_entropy(np.empty((0, 3, 4))).gap.shape == (0,)


def test_a_large_hull_in_blocks():
    vertices = oracle.random_hulls(np.random.default_rng(14), 40, 20, 300, "random")
    assert (upper_entropy(vertices).gap <= 1e-9).all()
