"""What a report says of each input, against definitions written slowly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import decal
from oracles.decisions import (
    BOX_KINDS,
    UTILITY_KINDS,
    admissible_margins,
    box_vertices,
    random_boxes,
    random_utility,
)

NAMES = ("ant", "bee", "cow", "doe")
KINDS = [kind for kind in BOX_KINDS if kind not in ("point", "barely feasible")]  # others round
CLEAR = 1e-7
"""Margins nearer to zero than this may be decided either way."""


def sets(seed, kind, inside=True, n=12, K=4):
    """Boxes with points, in the box or anywhere."""
    rng = np.random.default_rng(seed)
    lower, upper = random_boxes(rng, n, K, kind)
    lower, upper = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
    point = rng.dirichlet(np.ones(K), n)
    if inside:
        vertices = [box_vertices(*box) for box in zip(lower, upper, strict=True)]
        point = np.array([corners.mean(axis=0) for corners in vertices])
    return decal.IntervalCredalSet(lower, upper, point=point, classes=NAMES[:K])


@pytest.mark.parametrize("kind", KINDS)
def test_the_prediction_is_the_best_class_at_the_point_with_its_interval(kind):
    credal = sets(0, kind)
    report = decal.Report.of(credal)
    for row, line in enumerate(report):
        best = max(range(4), key=lambda k, row=row: (credal.point[row, k], -k))
        assert line["prediction"] == NAMES[best]
        assert line["lower"] == credal.lower[row, best]
        assert line["upper"] == credal.upper[row, best]


def by_probability(credal, kept, names=NAMES):
    """Names of kept classes, the most probable first."""
    n, K = credal.shape
    order = credal.point if credal.point is not None else np.zeros((n, K))
    return [
        [names[k] for k in sorted(range(K), key=lambda k, i=i: -order[i, k]) if kept[i, k]]
        for i in range(n)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_possible_classes_are_those_that_some_member_calls_most_probable(kind, seed):
    credal = sets(seed, kind)
    judged = 0
    for names, low, high in zip(credal.possible(), credal.lower, credal.upper, strict=True):
        margins = admissible_margins(box_vertices(low, high))
        for name, margin in zip(NAMES, margins, strict=True):
            if abs(margin) > CLEAR:
                assert (name in names) == (margin > 0)
                judged += 1
    for row, names in enumerate(credal.possible()):  # the most probable first
        by_point = sorted(NAMES, key=lambda name, row=row: -credal.point[row, NAMES.index(name)])
        assert names == [name for name in by_point if name in names]
    assert judged > 5


@pytest.mark.parametrize("rule", ["maximality", "interval_dominance"])
def test_possible_goes_by_the_rule_that_is_asked_for_or_promised(rule):
    credal = sets(3, "random")
    expected = by_probability(credal, credal.decide(rule))
    assert credal.possible(rule) == expected
    assert credal.promised(rule).possible() == expected
    assert [*decal.Report.of(credal.promised(rule)).possible] == expected
    assert credal.rule == "e_admissible"  # the sets themselves are as before


def test_possible_are_the_classes_that_a_promise_keeps():
    credal = sets(4, "random")
    kept = np.random.default_rng(0).random(credal.shape) < 0.4
    kept[2] = False
    promised = credal.promised("e_admissible", kept)
    assert promised.possible() == by_probability(credal, kept)
    assert promised.possible()[2] == []
    assert promised.possible("e_admissible") == credal.possible()


@pytest.mark.parametrize(
    "rows",
    [[3, 1], slice(2, 9, 3), np.arange(12) % 2 == 0, -1],
    ids=["list", "slice", "mask", "one"],
)
def test_picked_rows_keep_the_rule_and_the_kept_classes(rows):
    credal = sets(5, "random")
    kept = np.random.default_rng(1).random(credal.shape) < 0.5
    at = np.atleast_1d(np.arange(12)[rows])
    picked = credal.promised("maximality", kept)[rows]
    assert picked.rule == "maximality"
    np.testing.assert_array_equal(picked.kept, kept[at])
    for same in (picked.with_index(np.arange(len(at))), picked.tighten()):
        assert same.possible() == picked.possible()


def test_possible_of_hulls_and_balls_and_numbers_without_names():
    p = np.random.default_rng(2).dirichlet(np.ones(3), (5, 4))
    for credal in (decal.HullCredalSet(p), decal.KLCredalSet(p[:, 0], 0.05)):
        mask = credal.decide("e_admissible")
        assert credal.possible() == by_probability(credal, mask, range(3))
        assert credal.promised("maximality")[1:].rule == "maximality"


def test_possible_labels_are_those_that_are_not_denied():
    credal = decal.MultiLabelCredalSet(
        [[0.6, 0.1, 0.4]], [[0.9, 0.3, 0.7]], classes=["red", "tall", "wet"]
    )
    assert credal.possible() == [["red", "wet"]]
    assert credal.possible(threshold=0.2) == [["red", "tall", "wet"]]


@pytest.mark.parametrize("share", [0.1, 0.25, 0.3, 0.5, 1, 1e-9, np.float32(0.5)])
@pytest.mark.parametrize("n", [1, 7, 10])
def test_a_share_to_check_are_the_inputs_of_least_lower_probability(share, n):
    rng = np.random.default_rng(n)
    lower = rng.integers(0, 4, n) / 10  # ties
    credal = decal.IntervalCredalSet(
        np.c_[lower, 0 * lower], np.ones((n, 2)), point=np.tile([0.7, 0.3], (n, 1))
    )
    report = decal.Report.of(credal, check=share)
    count = -(-Fraction(str(share)) * n // 1)  # rounded up, of the number as it is written
    asked = sorted(range(n), key=lambda i: (lower[i], i))[: int(count)]
    assert np.flatnonzero(report.check).tolist() == sorted(asked)


def test_true_checks_what_does_not_have_exactly_one_possible_class():
    credal = sets(6, "narrow")
    kept = np.array([[False] * 4, [True, False, False, False], [True, True, False, False]] * 4)
    report = decal.Report.of(credal.promised("e_admissible", kept), check=True)
    assert report.check.tolist() == [True, False, True] * 4


@pytest.mark.parametrize("utility", UTILITY_KINDS)
@pytest.mark.parametrize("inside", [True, False], ids=["point inside", "point anywhere"])
def test_the_action_is_the_cheapest_at_the_point_of_those_that_are_e_admissible(utility, inside):
    judged = 0
    for seed in range(4):
        credal = sets(10 + seed, "narrow" if seed % 2 else "random", inside)
        costs = -random_utility(np.random.default_rng(seed), 4, utility)
        report = decal.Report.of(credal, costs=costs)
        for row, action in enumerate(report.action):
            vertices = box_vertices(credal.lower[row], credal.upper[row])
            margins = admissible_margins(vertices @ -costs.T)
            if (abs(margins) < CLEAR).any():
                continue
            expected = [sum(credal.point[row, k] * of_a[k] for k in range(4)) for of_a in costs]
            kept = [a for a in range(len(costs)) if margins[a] > 0]
            if kept:
                cheapest = min(expected[a] for a in kept)
                assert action in kept
                assert expected[action] == pytest.approx(cheapest, abs=1e-12)
                judged += 1
    assert judged > 5


@pytest.mark.parametrize("rule", ["gamma_maximin", "gamma_maximax", "minimax_regret", "point"])
def test_a_rule_takes_the_action_that_its_definition_names(rule):
    judged = 0
    for seed in range(6):
        credal = sets(20 + seed, "random")
        costs = np.random.default_rng(seed).random((3, 4))
        taken = decal.Report.of(credal, costs=costs, rule=rule).action
        for row, action in enumerate(taken):
            paid = box_vertices(credal.lower[row], credal.upper[row]) @ costs.T
            score = {
                "gamma_maximin": [max(paid[:, a]) for a in range(3)],
                "gamma_maximax": [min(paid[:, a]) for a in range(3)],
                "minimax_regret": [max(p[a] - min(p) for p in paid) for a in range(3)],
                "point": [float(credal.point[row] @ of_a) for of_a in costs],
            }[rule]
            assert score[action] == pytest.approx(min(score), abs=1e-9)
            judged += action != decal.Report.of(credal, costs=costs).action[row]
    assert (judged > 0) == (rule != "point")


@pytest.mark.parametrize("rule", ["maximality", "interval_dominance"])
def test_of_actions_that_a_rule_keeps_the_cheapest_at_the_point_is_taken(rule):
    credal = sets(30, "narrow", inside=False)
    costs = np.random.default_rng(3).random((3, 4))
    for row, action in enumerate(decal.Report.of(credal, costs=costs, rule=rule).action):
        kept = np.flatnonzero(credal[row : row + 1].decide(rule, utility=-costs)[0])
        expected = costs @ credal.point[row]
        assert action in kept
        assert expected[action] == min(expected[kept])


def test_a_rule_that_does_not_exist_is_refused():
    with pytest.raises(decal.InputError, match="rule must be one of"):
        decal.Report.of(sets(9, "random"), costs=np.ones((2, 4)), rule="hurwicz")


def test_of_actions_that_cost_the_same_the_first_is_taken():
    credal = sets(7, "random")
    costs = {"wait": dict.fromkeys(NAMES, 1.0), "look": dict.fromkeys(NAMES, 1.0)}
    assert set(decal.Report.of(credal, costs=costs).action) == {"wait"}


def test_costs_go_by_the_names_of_classes_in_mappings_and_frames():
    credal = sets(8, "random")
    table = np.random.default_rng(8).random((3, 4))
    expected = [("run", "hide", "feed")[a] for a in decal.Report.of(credal, costs=table).action]
    turned = {
        action: {name: table[a, k] for k, name in reversed([*enumerate(NAMES)])}
        for a, action in enumerate(("run", "hide", "feed"))
    }
    assert decal.Report.of(credal, costs=turned).action.tolist() == expected
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(turned).T
    assert decal.Report.of(credal, costs=frame).action.tolist() == expected
    named = frame.rename_axis("action").reset_index()
    assert decal.Report.of(credal, costs=named).action.tolist() == expected
    pl = pytest.importorskip("polars")
    assert decal.Report.of(credal, costs=pl.from_pandas(named)).action.tolist() == expected


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"a": {"ant": 1}}, "costs"),
        ({"a": dict.fromkeys((*NAMES, "elk"), 1.0)}, "costs"),
        (np.zeros((2, 3)), r"costs must have shape \(actions, 4\): got shape \(2, 3\)"),
        ([[0, 1, np.nan, 2]], "costs must be finite"),
        ([["x"] * 4], "costs must be real numbers"),
    ],
)
def test_costs_that_do_not_fit_are_called_costs(costs, message):
    with pytest.raises(decal.InputError, match=message) as refused:
        decal.Report.of(sets(9, "random"), costs=costs)
    assert "utility" not in str(refused.value)


def test_actions_with_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.ones((2, 4)), index=["go", "go"], columns=NAMES)
    with pytest.raises(decal.InputError, match="costs must have distinct actions: got 'go'"):
        decal.Report.of(sets(9, "random"), costs=frame)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, np.nan, "all", False, [0.1]])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(decal.InputError, match="check must be a share of the inputs"):
        decal.Report.of(sets(9, "random"), check=share)


def test_sets_without_a_point_or_of_labels_are_refused():
    credal = decal.IntervalCredalSet([[0.2, 0.3]], [[0.7, 0.8]])
    with pytest.raises(decal.InputError, match="credal must have a point"):
        decal.Report.of(credal)
    labels = decal.MultiLabelCredalSet([[0.2, 0.3]], [[0.7, 0.8]])
    with pytest.raises(decal.InputError, match="credal must be credal sets of all classes"):
        decal.Report.of(labels)


@pytest.mark.parametrize(
    ("rule", "kept", "message"),
    [
        ("hurwicz", None, "rule must"),
        ("maximality", np.ones((2, 4), bool), r"kept must be True or False in shape \(12, 4\)"),
        ("maximality", np.ones((12, 4)), "kept must be True or False"),
    ],
)
def test_promises_that_do_not_fit_are_refused(rule, kept, message):
    with pytest.raises(decal.InputError, match=message):
        sets(9, "random").promised(rule, kept)


def test_an_empty_set_is_refused_or_has_no_possible_class():
    credal = decal.IntervalCredalSet([[0.8, 0.8], [0, 0]], [[0.9, 0.9], [1, 1]])
    assert credal.possible(empty="nan") == [[], [0, 1]]
    with pytest.raises(decal.InputError, match="credal set must have members"):
        credal.possible()
