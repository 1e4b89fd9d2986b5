"""How far apart two members can be, against all pairs of vertices and against linear programs."""

import numpy as np
import pytest
from hypothesis import given

import decal
from decal.credal import _total_variation as variation
from decal.credal._total_variation import box_total_variation, hull_total_variation
from helpers.credal_sets import boxes
from helpers.strategies import at_most
from oracles import boxes as oracle

ATOL = 1e-9


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_the_distance_is_that_of_two_vertices(K):
    rng = np.random.default_rng(K)
    for kind in oracle.KINDS:
        lower, upper = oracle.random_boxes(rng, 60, K, kind)
        found = box_total_variation(lower, upper)
        assert found.exact.all()
        np.testing.assert_allclose(found.lower, oracle.total_variation(lower, upper), atol=ATOL)


def test_it_is_the_greatest_imprecision_of_an_event():
    rng = np.random.default_rng(0)
    for kind in ("plain", "zeros", "nested"):
        lower, upper = oracle.random_boxes(rng, 2, 4, kind)
        for row, found in enumerate(box_total_variation(lower, upper).lower):
            assert found == pytest.approx(oracle.imprecision(lower[row], upper[row]), abs=1e-8)


def halved(widths):
    """A box with these widths, scaled to sum 1, that leaves as much room up as down."""
    d = np.array(widths, dtype=float) / np.sum(widths)
    lower = np.full(len(d), 0.5 / len(d))
    return lower[None], (lower + d)[None]


@pytest.mark.parametrize(
    ("widths", "lighter"),
    [
        ([1, 1, 1], 1),  # three equal widths: one against two
        ([3, 3, 2, 2, 2], 6),  # the greedy split has 5 against 7
        ([8, 7, 6, 5, 4], 15),  # and here 14 against 16
        ([5, 5, 5, 3, 3, 3, 1], 12),
    ],
)
def test_widths_that_split_evenly_only_in_one_way(widths, lighter):
    # Any widths occur as those of a box with R = c: the distance solves number partitioning.
    box = halved(widths)
    assert box_total_variation(*box).lower[0] == pytest.approx(lighter / sum(widths), abs=1e-12)
    assert oracle.total_variation(*box)[0] == pytest.approx(lighter / sum(widths), abs=1e-12)


def test_beyond_the_exact_number_of_classes_the_bracket_holds_the_truth(monkeypatch):
    rng = np.random.default_rng(3)
    for K in (19, 22):
        lower = np.full((6, K), 0.5 / K)
        widths = rng.exponential(size=(6, K)) ** 3 + 0.01
        widths = np.minimum(widths / widths.sum(axis=1, keepdims=True), 0.4)
        lower, upper = oracle.tighten(lower, lower + widths)
        truth = box_total_variation(lower, upper)
        assert truth.exact.all()
        with monkeypatch.context() as patch:
            patch.setattr(variation, "EXACT_CLASSES", 2)
            found = box_total_variation(lower, upper)
        assert (found.lower <= truth.lower + 1e-12).all()
        assert (truth.lower <= found.upper + 1e-12).all()
        assert (found.lower >= truth.lower - 1e-3).all()


def test_a_thousand_classes_are_certified():
    lower, upper = oracle.random_boxes(np.random.default_rng(1), 50, 1000)
    assert box_total_variation(lower, upper).exact.all()  # subsets of them would never end


def test_points_vacuous_sets_and_no_rows():
    p = np.array([[0.2, 0.3, 0.5]])
    assert box_total_variation(p, p).lower[0] == 0.0
    vacuous = box_total_variation(np.zeros((1, 7)), np.ones((1, 7)))
    assert vacuous.lower[0] == 1.0
    assert box_total_variation(np.zeros((0, 3)), np.ones((0, 3))).lower.shape == (0,)
    assert hull_total_variation(p[:, None, :])[0] == 0.0


@at_most(100)
@given(boxes())
def test_members_are_never_further_apart(box):
    lower, upper, p = box
    c = decal.IntervalCredalSet(lower, upper, point=p)
    found = c.epistemic("total_variation")[0]
    assert 0.0 <= found <= 1.0 + 1e-12
    np.testing.assert_allclose(
        found, oracle.total_variation(c.tighten().lower, c.tighten().upper)[0], atol=1e-9
    )
    least, greatest = c.probability([0])
    assert greatest[0] - least[0] <= found + 1e-12


@pytest.mark.parametrize("M", [1, 2, 5])
def test_members_of_hulls_are_furthest_apart_at_vertices(M):
    rng = np.random.default_rng(M)
    vertices = rng.dirichlet(np.full(4, 0.5), size=(20, M))
    found = decal.HullCredalSet(vertices).epistemic("total_variation")
    expected = [max(np.abs(p - q).sum() / 2 for p in hull for q in hull) for hull in vertices]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    for _ in range(50):
        p, q = (np.einsum("nm,nmk->nk", rng.dirichlet(np.ones(M), 20), vertices) for _ in "pq")
        assert (np.abs(p - q).sum(axis=1) / 2 <= found + 1e-12).all()
