"""Hulls of probability vectors: membership, expectations and decisions."""

from itertools import product

import numpy as np
import pytest

import decal
from decal._base import games
from decal.credal import _hull_decisions as hulls
from decal.credal import decisions
from decal.credal.decisions import abstention_utility
from helpers.definitions import SET_RULES, assert_rules_match_definitions
from helpers.hulls import cases, mixtures
from oracles import decisions as oracle


def decide(vertices, rule, **options):
    return decal.HullCredalSet(vertices).decide(rule, **options)


def test_rows_do_not_depend_on_the_batch():
    rng = np.random.default_rng(3)
    vertices = np.concatenate([oracle.random_hulls(rng, 20, 5, 6, k) for k in oracle.HULL_KINDS])
    distributions = mixtures(rng, vertices) + 1e-3 * rng.normal(size=(len(vertices), 6))
    inside = hulls.contains(vertices, distributions, atol=1e-3)
    for i in range(len(vertices)):
        row = hulls.contains(vertices[i : i + 1], distributions[i : i + 1], atol=1e-3)
        assert row[0] == inside[i]


@pytest.mark.slow
def test_membership_is_distance_in_maximum_norm():
    for rng, kind, vertices in cases(4, n=3):
        inner = mixtures(rng, vertices)
        assert hulls.contains(vertices, inner, atol=0.0).all(), kind
        assert hulls.contains(vertices, vertices[:, -1], atol=0.0).all(), kind
        for p in (
            inner + 1e-3 * rng.normal(size=inner.shape),
            1.05 * inner - 0.05 * vertices[:, 0],
        ):
            distance = np.array(
                [oracle.hull_distance(v, q) for v, q in zip(vertices, p, strict=True)]
            )
            for atol in (0.0, 5e-4, 1e-3, 2e-2):
                sure = np.abs(distance - atol) > 1e-7
                inside = hulls.contains(vertices, p, atol=atol)
                np.testing.assert_array_equal(inside[sure], distance[sure] <= atol, err_msg=kind)
            for v, q, d in zip(vertices, p, distance, strict=True):
                assert hulls.contains(v[None], q[None], atol=d + 1e-6)[0], kind
                assert d < 1e-5 or not hulls.contains(v[None], q[None], atol=d - 1e-5)[0], kind


def test_outside_the_box_is_outside_the_hull():
    for rng, _, vertices in cases(5):
        lower, upper = hulls.box(vertices)
        p = rng.dirichlet(np.ones(vertices.shape[2]), len(vertices))
        off = ((p < lower - 1e-3) | (p > upper + 1e-3)).any(axis=1)
        assert not hulls.contains(vertices, p, atol=5e-4)[off].any()


def test_the_box_is_tightened():
    for _, _, vertices in cases(6):
        lower, upper = hulls.box(vertices)
        sum_lower, sum_upper = lower.sum(axis=1, keepdims=True), upper.sum(axis=1, keepdims=True)
        assert (upper <= lower + 1 - sum_lower + 1e-12).all()
        assert (lower >= upper - (sum_upper - 1) - 1e-12).all()


def test_expectations_are_extreme_at_vertices():
    for rng, _, vertices in cases(7):
        utility = oracle.random_utility(rng, vertices.shape[2], "random")
        least, greatest = hulls.expectation(vertices, utility)
        for i, v in enumerate(vertices):
            np.testing.assert_allclose(least[i], (v @ utility.T).min(axis=0), atol=1e-13)
            np.testing.assert_allclose(greatest[i], (v @ utility.T).max(axis=0), atol=1e-13)
        first_least, first_greatest = hulls.expectation(vertices, utility[0])
        np.testing.assert_allclose(first_least, least[:, 0], atol=1e-14)
        np.testing.assert_allclose(first_greatest, greatest[:, 0], atol=1e-14)


@pytest.mark.slow
def test_rules_agree_with_definitions():
    for rng, _, vertices in cases(8, n=12):
        kind = rng.choice(oracle.UTILITY_KINDS)
        utility = oracle.random_utility(rng, vertices.shape[2], kind)
        decided = [
            {r: decide(vertices, r, utility=U, optimism=0.3) for r in decisions.RULES}
            for U in (None, utility)
        ]
        for i, v in enumerate(vertices):
            rules = SET_RULES if i < 2 else SET_RULES[:2]  # linear programs are slow
            for decision, earned in zip(decided, (v, v @ utility.T), strict=True):
                row = {rule: result[i] for rule, result in decision.items()}
                assert_rules_match_definitions(row, earned, rules)


def test_generosity_is_ordered_and_nothing_is_empty():
    for rng, _, vertices in cases(9, n=40):
        K = vertices.shape[2]
        for utility in (
            None,
            abstention_utility(K, cost=0.5),
            oracle.random_utility(rng, K, "hedge"),
        ):
            sets = [decide(vertices, rule, utility=utility) for rule in SET_RULES]
            dominance, maximal, admissible = sets
            assert admissible.any(axis=1).all()
            assert not (admissible & ~maximal).any()
            assert not (maximal & ~dominance).any()
            best = decide(vertices, "gamma_maximax", utility=utility)
            assert admissible[np.arange(len(vertices)), best].all()


def test_the_box_around_a_hull_keeps_at_least_as_much():
    for rng, _, vertices in cases(10, n=20):
        box = hulls.box(vertices)
        for rule, utility in product(SET_RULES, (None, rng.normal(size=(4, vertices.shape[2])))):
            kept = decide(vertices, rule, utility=utility)
            assert not (kept & ~decisions.decide(*box, rule, utility=utility)).any()


def test_all_vertices_of_a_box_decide_as_the_box():
    rng = np.random.default_rng(11)
    for kind in ("random", "grid"):
        lower, upper = oracle.random_boxes(rng, 15, 4, kind)
        utility = oracle.random_utility(rng, 4, "abstain")
        for i in range(15):
            vertices = oracle.box_vertices(lower[i], upper[i])[None]
            for rule, U in product(SET_RULES, (None, utility)):
                np.testing.assert_array_equal(
                    decide(vertices, rule, utility=U)[0],
                    decisions.decide(lower[i : i + 1], upper[i : i + 1], rule, utility=U)[0],
                )


def test_a_class_can_be_admissible_without_being_the_best_at_any_vertex():
    vertices = np.array([[[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]]])
    assert decide(vertices, "e_admissible").tolist() == [[True, True, True]]
    lower = vertices - np.array([0, 0.15, 0])
    lower[:, :, 0] += np.array([0.15, 0.0])
    lower[:, :, 2] += np.array([0.0, 0.15])
    assert decide(lower, "e_admissible").tolist() == [[True, False, True]]
    assert decide(lower, "maximality").tolist() == [[True, True, True]]


def test_zero_one_uncertainty_agrees_with_its_definition():
    for _, kind, vertices in cases(12, n=3):
        result = hulls.zero_one(vertices)
        if kind not in ("grid", "overconfident", "collinear"):  # where ties are beyond the oracle
            expected = [oracle.zero_one(v) for v in vertices]
            np.testing.assert_allclose(result, expected, atol=1e-9, err_msg=kind)
        assert (result >= 0).all()
        assert (result <= 1 + 1e-12).all()


def test_zero_one_uncertainty_of_the_simplex_is_one_and_of_a_point_zero():
    assert hulls.zero_one(np.eye(4)[None]).tolist() == [1.0]
    assert hulls.zero_one(np.full((1, 3, 4), 0.25)).tolist() == [0.0]


def test_vertices_in_another_order_or_repeated_change_nothing():
    rng = np.random.default_rng(13)
    vertices = oracle.random_hulls(rng, 50, 5, 6, "random")
    again = np.concatenate([vertices[:, ::-1], vertices[:, :2]], axis=1)
    for rule in decisions.RULES:
        np.testing.assert_array_equal(decide(vertices, rule), decide(again, rule))


def test_no_rows_are_no_results():
    empty = np.empty((0, 3, 4))
    assert hulls.contains(empty, np.empty((0, 4)), atol=0.0).shape == (0,)
    assert hulls.zero_one(empty).shape == (0,)
    for rule, utility in product(decisions.RULES, (None, abstention_utility(4, cost=0.5))):
        assert len(decide(empty, rule, utility=utility)) == 0


def test_a_large_hull_in_blocks():
    rng = np.random.default_rng(14)
    vertices = oracle.random_hulls(rng, 40, 20, 300, "random")
    assert hulls.contains(vertices, mixtures(rng, vertices), atol=1e-6).all()
    p = rng.dirichlet(np.ones(300), 40)
    distance = [oracle.hull_distance(v, q) for v, q in zip(vertices[:5], p[:5], strict=True)]
    for i, d in enumerate(distance):
        assert hulls.contains(vertices[i : i + 1], p[i : i + 1], atol=d + 1e-6)[0]
        assert not hulls.contains(vertices[i : i + 1], p[i : i + 1], atol=d - 1e-6)[0]


def test_unknown_rules_are_named():
    with pytest.raises(ValueError, match=r"rule must be one of .*: got 'median'"):
        decide(np.eye(3)[None], "median")


def test_membership_is_proved_even_for_degenerate_hulls():
    rng = np.random.default_rng(15)
    proved = []
    for kind in oracle.HULL_KINDS:
        vertices = oracle.random_hulls(rng, 60, 25, 30, kind)
        reply = hulls._furthest_class(vertices - mixtures(rng, vertices)[:, None, :])
        nearest, furthest = games.bracket_values(reply, 60, 25, threshold=-1e-9)
        assert (furthest >= -1e-15).all(), kind
        assert (nearest >= -1e-6).all(), kind
        proved.append(nearest >= -1e-9)
    assert np.mean(proved) > 0.95
