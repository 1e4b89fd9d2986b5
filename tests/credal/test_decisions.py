"""Decisions from boxes: examples, orderings that theory demands, and agreement with definitions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal.credal import decisions
from decal.credal.decisions import abstention_utility, decide, expectation, probability
from helpers.definitions import SET_RULES, assert_rules_match_definitions
from oracles import decisions as oracle

LOWER = np.array([[0.1, 0.15, 0.0]])
UPPER = np.array([[0.7, 0.3, 0.6]])


def cases(seed, repeats=2, n=8):
    rng = np.random.default_rng(seed)
    for kind, utility_kind, _ in product(oracle.BOX_KINDS, oracle.UTILITY_KINDS, range(repeats)):
        K = int(rng.integers(2, 6))
        yield *oracle.random_boxes(rng, n, K, kind), oracle.random_utility(rng, K, utility_kind)


def test_an_example_by_hand():
    assert decide(LOWER, UPPER, "interval_dominance").tolist() == [[True, True, True]]
    # 0.3 for the second class leaves 0.7 to the others: one of them has at least 0.35.
    assert decide(LOWER, UPPER, "e_admissible").tolist() == [[True, False, True]]
    assert decide(LOWER, UPPER, "gamma_maximin").tolist() == [1]
    assert decide(LOWER, UPPER, "gamma_maximax").tolist() == [0]
    assert decide(LOWER, UPPER, "minimax_regret").tolist() == [0]


@pytest.mark.slow
def test_agrees_with_definitions_on_all_vertices_of_thousands_of_boxes():
    for lower, upper, utility in cases(0, n=25):
        decided = [
            {rule: decide(lower, upper, rule, utility=U, optimism=0.3) for rule in decisions.RULES}
            for U in (None, utility)
        ]
        for i in range(len(lower)):
            vertices = oracle.box_vertices(lower[i], upper[i])
            rules = SET_RULES if i < 4 else SET_RULES[:2]  # linear programs are slow
            for decision, earned in zip(decided, (vertices, vertices @ utility.T), strict=True):
                row = {rule: result[i] for rule, result in decision.items()}
                assert_rules_match_definitions(row, earned, rules)


def test_expectations_agree_with_vertices_and_linear_programs():
    for lower, upper, utility in cases(1, repeats=4):
        least, greatest = expectation(lower, upper, utility)
        for i in range(len(lower)):
            earned = oracle.box_vertices(lower[i], upper[i]) @ utility.T
            np.testing.assert_allclose(least[i], earned.min(axis=0), rtol=0, atol=1e-12)
            np.testing.assert_allclose(greatest[i], earned.max(axis=0), rtol=0, atol=1e-12)
    rng = np.random.default_rng(2)
    lower, upper = oracle.random_boxes(rng, 20, 50, "random")
    values = rng.normal(size=50)
    least, greatest = expectation(lower, upper, values)
    for i in range(20):
        low, high = oracle.box_expectation(lower[i], upper[i], values)
        assert least[i] == pytest.approx(low, abs=1e-9)
        assert greatest[i] == pytest.approx(high, abs=1e-9)


def test_an_expectation_lies_between_the_least_and_the_greatest_value_of_any_size():
    lower, upper = oracle.random_boxes(np.random.default_rng(0), 50, 5, "point")
    greatest = np.finfo(float).max
    for end in (greatest, -greatest):
        np.testing.assert_array_equal(expectation(lower, upper, np.full(5, end)), end)


def test_probability_of_an_event_is_its_expectation_and_conjugate():
    rng = np.random.default_rng(3)
    lower, upper = oracle.random_boxes(rng, 200, 6, "random")
    for event in product([False, True], repeat=6):
        inside = np.array(event)
        least, greatest = probability(lower, upper, event)
        low = np.maximum(lower[:, inside].sum(axis=1), 1 - upper[:, ~inside].sum(axis=1))
        np.testing.assert_allclose(least, low, atol=1e-14)
        np.testing.assert_allclose(greatest, 1 - probability(lower, upper, ~inside)[0], atol=1e-14)


def test_generosity_is_ordered_and_nothing_is_empty():
    for lower, upper, utility in cases(4, repeats=4, n=40):
        for U in (None, utility):
            dominance, maximal, admissible = (decide(lower, upper, r, utility=U) for r in SET_RULES)
            assert admissible.any(axis=1).all()
            assert not (admissible & ~maximal).any()
            assert not (maximal & ~dominance).any()
            rows = np.arange(len(lower))
            assert maximal[rows, decide(lower, upper, "minimax_regret", utility=U)].all()
            assert maximal[rows, decide(lower, upper, "gamma_maximin", utility=U)].all()
            assert admissible[rows, decide(lower, upper, "gamma_maximax", utility=U)].all()


def test_zero_one_loss_is_the_identity_utility():
    rng = np.random.default_rng(5)
    for kind in oracle.BOX_KINDS:
        lower, upper = oracle.random_boxes(rng, 300, 5, kind)
        for rule in decisions.RULES:
            plain = decide(lower, upper, rule)
            general = decide(lower, upper, rule, utility=np.eye(5))
            if rule in SET_RULES:
                assert (plain == general).all(), (kind, rule)
            else:  # round-off may choose another of several equals
                assert (plain == general).mean() > (0.99 if kind == "random" else 0.5), (kind, rule)


def test_a_majority_may_have_one_half_or_is_the_most_probable():
    lower = np.array([[0.1, 0.2, 0.0], [0.2, 0.1, 0.2], [0.3, 0.3, 0.0]])
    upper = np.array([[0.5, 0.7, 0.4], [0.4, 0.4, 0.45], [0.6, 0.6, 0.1]])
    point = np.array([[0.3, 0.6, 0.1], [0.4, 0.3, 0.3], [0.4, 0.5, 0.1]])
    kept = [[True, True, False], [True, False, False], [True, True, False]]
    named = decal.IntervalCredalSet(lower, upper, point=point)
    assert named.decide("majority").tolist() == kept
    assert named.promised("majority").possible() == [[1, 0], [0], [1, 0]]
    without = decal.IntervalCredalSet(lower, upper).decide("majority").tolist()
    assert without == [kept[0], [False, False, True], kept[2]]
    with pytest.raises(decal.InputError, match="utility must be left out with rule='majority'"):
        named.decide("majority", utility=np.eye(3))


def test_maximality_is_interval_dominance_under_zero_one_loss():
    rng = np.random.default_rng(6)
    lower, upper = oracle.random_boxes(rng, 500, 7, "random")
    np.testing.assert_array_equal(
        decide(lower, upper, "maximality", utility=np.eye(7)),
        decide(lower, upper, "interval_dominance"),
    )


def test_a_vacuous_box_keeps_every_class_and_a_point_keeps_the_best():
    vacuous = np.zeros((1, 4)), np.ones((1, 4))
    point = (np.array([[0.1, 0.2, 0.4, 0.3]]),) * 2
    for rule in SET_RULES:
        assert decide(*vacuous, rule).all()
        assert decide(*point, rule).tolist() == [[False, False, True, False]]
    for rule in set(decisions.RULES) - set(SET_RULES):
        assert decide(*vacuous, rule).tolist() == [0]
        assert decide(*point, rule).tolist() == [2]


def test_ties_are_kept_by_sets_and_go_to_the_first_index_otherwise():
    tied = np.array([[0.3, 0.4, 0.4 - 1e-17, 0.4 * (1 - 1e-15)]]) / 1.5
    tied /= tied.sum()
    for rule in SET_RULES:
        assert decide(tied, tied, rule)[0].tolist() == [False, True, True, True]
        doubled = np.vstack([np.eye(4), np.eye(4)])
        assert decide(tied, tied, rule, utility=doubled)[0, 5:].all()
    even = np.full((1, 4), 0.25)
    for rule in ("gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret"):
        assert decide(even, even, rule).tolist() == [0]


def test_decisions_follow_units_of_utility():
    rng = np.random.default_rng(7)
    lower, upper = oracle.random_boxes(rng, 100, 4, "random")
    utility = rng.uniform(-1, 1, size=(5, 4))
    utility[:2, 0] = 1, -1
    for rule, unit in product(decisions.RULES, (1e-300, 1e-6, 1e6, 1.7e308)):
        np.testing.assert_array_equal(
            decide(lower, upper, rule, utility=utility),
            decide(lower, upper, rule, utility=unit * utility),
        )


def test_hurwicz_runs_from_maximin_to_maximax():
    rng = np.random.default_rng(8)
    box = oracle.random_boxes(rng, 100, 6, "random")
    for optimism, rule in ((0.0, "gamma_maximin"), (1.0, "gamma_maximax")):
        np.testing.assert_array_equal(
            decide(*box, "hurwicz", optimism=optimism), decide(*box, rule)
        )


def test_abstaining_is_chosen_when_the_worst_case_of_every_class_is_worse():
    utility = abstention_utility(3, cost=0.6)
    assert decide(LOWER, UPPER, "gamma_maximin", utility=utility).tolist() == [3]
    assert decide(LOWER, UPPER, "gamma_maximax", utility=utility).tolist() == [0]
    free = abstention_utility(3, cost=0.0)
    assert decide(LOWER, UPPER, "maximality", utility=free).tolist() == [[False] * 3 + [True]]


def test_a_row_is_decided_as_if_it_were_alone(monkeypatch):
    rng = np.random.default_rng(9)
    boxes = [oracle.random_boxes(rng, 10, 5, kind) for kind in oracle.BOX_KINDS]
    lower, upper = (np.concatenate(b) for b in zip(*boxes, strict=True))
    utility = abstention_utility(5, cost=0.55)
    together = {r: decide(lower, upper, r, utility=utility) for r in decisions.RULES}
    ranges = expectation(lower, upper, utility)
    monkeypatch.setattr(decisions, "GAME_ELEMENTS", 200)  # many blocks
    monkeypatch.setattr(decisions, "EXPECTATION_ELEMENTS", 30)
    for rule, expected in together.items():
        alone = [
            decide(a[None], b[None], rule, utility=utility)[0]
            for a, b in zip(lower, upper, strict=True)
        ]
        np.testing.assert_array_equal(np.array(alone), expected)
        np.testing.assert_array_equal(decide(lower, upper, rule, utility=utility), expected)
    np.testing.assert_array_equal(expectation(lower, upper, utility), ranges)


def test_no_rows_are_no_decisions():
    empty = np.empty((0, 3))
    for rule, utility in product(decisions.RULES, (None, abstention_utility(3, cost=0.5))):
        shape = (0,) if rule not in SET_RULES else (0, 3 if utility is None else 4)
        assert decide(empty, empty, rule, utility=utility).shape == shape


@pytest.mark.parametrize("utility", [np.zeros((2, 3)), np.full((4, 3), -1.0), np.ones((1, 3))])
def test_actions_that_are_all_alike_all_stay(utility):
    for rule in SET_RULES:
        assert decide(LOWER, UPPER, rule, utility=utility).all()


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from(oracle.BOX_KINDS))
def test_widening_a_box_never_drops_an_action(seed, K, kind):
    rng = np.random.default_rng(seed)
    lower, upper = oracle.random_boxes(rng, 3, K, kind)
    wide_lower, wide_upper = 0.5 * lower, upper + 0.5 * (1 - upper)
    spare, slack = 1 - wide_lower.sum(axis=1), wide_upper.sum(axis=1) - 1
    wide = (
        np.maximum(wide_lower, wide_upper - slack[:, None]),
        np.minimum(wide_upper, wide_lower + spare[:, None]),
    )
    utility = oracle.random_utility(rng, K, "hedge")
    for rule, U in product(SET_RULES, (None, utility)):
        assert not (decide(lower, upper, rule, utility=U) & ~decide(*wide, rule, utility=U)).any()


def test_many_classes_and_actions():
    rng = np.random.default_rng(10)
    lower, upper = oracle.random_boxes(rng, 5, 300, "narrow")
    utility = abstention_utility(300, cost=0.98)
    admissible = decide(lower, upper, "e_admissible", utility=utility)
    # Naming a class beats abstaining iff it can be the most probable one with at least 0.02.
    named = decide(lower, upper, "e_admissible") & (upper >= 0.02)
    np.testing.assert_array_equal(admissible[:, :-1], named)


def test_unknown_rules_and_bad_numbers_are_named():
    with pytest.raises(ValueError, match=r"rule must be one of .*'maximality'.*: got 'median'"):
        decide(LOWER, UPPER, "median")
    with pytest.raises(ValueError, match="optimism must lie between 0 and 1: got 1.5"):
        decide(LOWER, UPPER, "hurwicz", optimism=1.5)
    with pytest.raises(ValueError, match="cost must lie between 0 and 1: got -0.1"):
        abstention_utility(3, cost=-0.1)
    with pytest.raises(ValueError, match="n_classes must be a whole number, at least 2: got 1"):
        abstention_utility(1, cost=0.1)
